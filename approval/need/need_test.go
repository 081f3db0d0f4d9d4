package need

import (
	"reflect"
	"testing"
	"time"
)

// The stricter of two needs is met only where both are.
func TestRule1_TheStricterOfTwoNeeds(t *testing.T) {
	group := func(name string, n int) Stage { return Stage{Group: name, Count: n} }
	anyone := func(n int) Stage { return Stage{Count: n} }
	need := func(ss ...Stage) *Need { return &Need{Stages: ss} }
	leads := func(after time.Duration, to ...string) []Escalation { return []Escalation{{After: after, To: to}} }
	for _, c := range []struct {
		name       string
		a, b, want *Need
	}{
		{"nothing is asked for", nil, nil, nil},
		{"one asks for nothing", need(group("f", 2)), nil, need(group("f", 2))},
		{"the greater count", need(group("f", 2)), need(group("f", 3)), need(group("f", 3))},
		{"stages of others come after", need(group("f", 2)), need(group("s", 1)), need(group("f", 2), group("s", 1))},
		{"any approver is one of the finance people", need(anyone(1)), need(group("f", 1)), need(group("f", 1))},
		{"three of any are one more than two of finance", need(anyone(3)), need(group("f", 2)),
			need(group("f", 2), anyone(1))},
		{"and the other way round", need(group("f", 2)), need(anyone(3)), need(group("f", 2), anyone(1))},
		{"three of any beside one of any", need(group("f", 1), anyone(1)), need(anyone(3)), need(group("f", 1), anyone(2))},
		{"a stage of any beside another one stays", need(group("f", 1), anyone(1)), need(anyone(1)),
			need(group("f", 1), anyone(1))},
		{"and the other way round", need(anyone(2)), need(anyone(1), group("f", 1)), need(anyone(1), group("f", 1))},
		{"people by name are those people, in any order", need(Stage{Approvers: []string{"a", "b"}, Count: 1}),
			need(Stage{Approvers: []string{"b", "a"}, Count: 2}), need(Stage{Approvers: []string{"a", "b"}, Count: 2})},
		{"separate duties of either", need(group("f", 1)), &Need{Stages: need(group("f", 1)).Stages, SeparateDuties: true},
			&Need{Stages: need(group("f", 1)).Stages, SeparateDuties: true}},
		{"step_up of either", &Need{StepUp: true}, need(group("f", 1)),
			&Need{StepUp: true, Stages: need(group("f", 1)).Stages}},
		{"confirm of either", &Need{Confirm: true}, need(group("f", 1)),
			&Need{Confirm: true, Stages: need(group("f", 1)).Stages}},
		{"escalation adds people, so that only what both have stays",
			&Need{Stages: need(group("f", 1)).Stages, Escalate: leads(time.Minute, "x", "y")},
			&Need{Stages: need(group("f", 1)).Stages, Escalate: leads(time.Hour, "y", "z")},
			&Need{Stages: need(group("f", 1)).Stages, Escalate: leads(time.Hour, "y")}},
	} {
		if got := c.a.Stricter(c.b); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Several stages may be of the same people: none of them is lost.
func TestRule1_TheStricterNeedTakesNoFewerVotes(t *testing.T) {
	of := func(group string, count int) Stage { return Stage{Group: group, Count: count} }
	for _, c := range []struct{ a, b []Stage }{
		{[]Stage{of("finance", 1)}, []Stage{of("finance", 1), of("finance", 1)}},
		{[]Stage{of("finance", 1)}, []Stage{of("finance", 1), of("security", 1), of("finance", 1)}},
		{[]Stage{of("finance", 2), of("security", 1)}, []Stage{of("finance", 1), of("security", 1), of("finance", 2)}},
	} {
		a, b := &Need{Stages: c.a}, &Need{Stages: c.b}
		for _, both := range []*Need{a.Stricter(b), b.Stricter(a)} {
			if both.Total() != max(a.Total(), b.Total()) {
				t.Errorf("%+v", both)
			}
		}
	}
}
