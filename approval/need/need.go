// Package need is who must say yes before a call may run, and which of two such needs is the stricter. It knows people
// and groups by name.
package need

import (
	"reflect"
	"slices"
	"time"
)

// Need is who must say yes before a request is approved. The zero Need is one stage of one person, any approver.
type Need struct {
	// Stages are met in order: the first that falls short is open. None: one person, any approver.
	Stages []Stage `json:"stages,omitempty"`
	// SeparateDuties: who owns the agent does not count.
	SeparateDuties bool `json:"separate_duties,omitempty"`
	// Escalate adds people to the open stage as time passes. It never lowers a count.
	Escalate []Escalation `json:"escalate,omitempty"`
	// Confirm: an approval is asked for once more.
	Confirm bool `json:"confirm,omitempty"`
	// StepUp: an approval takes a passkey, used for this very request. A vote without one does not count.
	StepUp bool `json:"step_up,omitempty"`
}

// Stage is one step of a need: that many different people out of some.
type Stage struct {
	Group string `json:"group,omitempty"` // people of this group; "" with no Approvers: any approver
	// Approvers are people and groups by name, in place of Group.
	Approvers []string `json:"approvers,omitempty"`
	Count     int      `json:"count"` // at least 1
}

// Escalation adds people, some time after the request was made.
type Escalation struct {
	After time.Duration `json:"after"`
	To    []string      `json:"to"` // people and groups by name
}

// anyApprover is the one stage of a need that names none.
var anyApprover = []Stage{{Count: 1}}

// InStages returns the need's stages, the one of a need that names none included.
func (n *Need) InStages() []Stage {
	if n == nil || len(n.Stages) == 0 {
		return anyApprover
	}
	return n.Stages
}

// IsZero reports whether the need is one person, any approver, asked once.
func (n *Need) IsZero() bool {
	return n == nil || len(n.Stages) == 0 && !n.SeparateDuties && len(n.Escalate) == 0 && !n.Confirm && !n.StepUp
}

// Total is how many votes the need takes.
func (n *Need) Total() int {
	total := 0
	for _, s := range n.InStages() {
		total += s.Count
	}
	return total
}

// Names are who may vote in a stage; nil: any approver.
func (s Stage) Names() []string {
	if s.Group != "" {
		return []string{s.Group}
	}
	return s.Approvers
}

// SameAs reports whether the stage's people, escalation aside, are those of others.
func (s Stage) SameAs(o Stage) bool {
	a, b := slices.Sorted(slices.Values(s.Names())), slices.Sorted(slices.Values(o.Names()))
	return slices.Equal(a, b)
}

// Belongs reports whether a person, or a group that they are in, is one of some names.
func Belongs(person string, groups, names []string) bool {
	return slices.Contains(names, person) || slices.ContainsFunc(groups, func(g string) bool {
		return slices.Contains(names, g)
	})
}

// Admits reports whether a stage's people, escalation aside, include an approver.
func (s Stage) Admits(person string, groups []string) bool {
	names := s.Names()
	return len(names) == 0 || Belongs(person, groups, names)
}

// Stricter returns a need that is met only where n and o both are. An escalation adds people, so only those stay that
// both have. nil is the zero Need.
func (n *Need) Stricter(o *Need) *Need {
	switch {
	case n.IsZero():
		return o
	case o.IsZero() || reflect.DeepEqual(n, o):
		return n
	}
	both := &Need{SeparateDuties: n.SeparateDuties || o.SeparateDuties, Confirm: n.Confirm || o.Confirm,
		StepUp: n.StepUp || o.StepUp, Stages: merge(n.InStages(), o.InStages())}
	for _, e := range n.Escalate {
		for _, f := range o.Escalate {
			if to := common(e.To, f.To); len(to) > 0 {
				both.Escalate = append(both.Escalate, Escalation{After: max(e.After, f.After), To: to})
			}
		}
	}
	return both
}

// merge returns stages that are met only where a and b both are. Whoever votes votes once, so that stages of named
// people are as many approvers as they take votes: of a need for nothing but some approvers, only what is missing is
// asked for besides.
func merge(a, b []Stage) []Stage {
	switch {
	case asksForAny(a):
		return withAny(b, a[0].Count)
	case asksForAny(b):
		return withAny(a, b[0].Count)
	}
	all := slices.Clone(a)
	for _, s := range b {
		i := slices.IndexFunc(all, s.SameAs)
		if i < 0 {
			all = append(all, s)
			continue
		}
		// There may be several stages of the same people.
		all[i].Count += max(0, countOf(b, s)-countOf(all, s))
	}
	return all
}

// countOf is how many votes some stages take of the people of one.
func countOf(stages []Stage, of Stage) int {
	n := 0
	for _, s := range stages {
		if s.SameAs(of) {
			n += s.Count
		}
	}
	return n
}

// asksForAny reports whether stages ask for nothing but some approvers.
func asksForAny(stages []Stage) bool { return len(stages) == 1 && len(stages[0].Names()) == 0 }

// withAny returns stages that take at least so many people in all.
func withAny(stages []Stage, count int) []Stage {
	all := slices.Clone(stages)
	missing := count - (&Need{Stages: all}).Total()
	if missing <= 0 {
		return all
	}
	if i := slices.IndexFunc(all, func(s Stage) bool { return len(s.Names()) == 0 }); i >= 0 {
		all[i].Count += missing
		return all
	}
	return append(all, Stage{Count: missing})
}

func common(a, b []string) []string {
	var both []string
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return both
}

// OnePerson reports whether a need is met by one person's one word, without a passkey.
func (n *Need) OnePerson() bool { return n.Total() == 1 && (n == nil || !n.Confirm && !n.StepUp) }

// Passkey is how it is called on record and in JSON that an approval was given with a passkey, or takes one.
const Passkey = "passkey"

// StepUpWord is the word for what an approval takes beside a press: "passkey", or "" for nothing.
func (n *Need) StepUpWord() string {
	if n == nil || !n.StepUp {
		return ""
	}
	return Passkey
}
