package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"countersign/approval"

	"github.com/go-json-experiment/json/jsontext"
)

// digestExample has something in every field, so that each can be changed.
func digestExample() Config {
	on := func() *bool { b := true; return &b }
	minute := func() *time.Duration { d := time.Minute; return &d }
	return Config{
		Rules: []Rule{{
			Conditions: []Condition{{}},
			Needs:      Needs{Approvals: []approval.Stage{{}}, Escalate: []approval.Escalation{{}}, Confirm: on(), StepUp: on()},
			Asks:       Asks{AllowSkip: on()}, Annotations: &approval.Annotations{ReadOnly: on()},
			Grants: &approval.GrantTerms{Vary: map[string]approval.Vary{"cents": {}}},
		}, {}},
		Levels:         map[approval.Risk]Level{approval.RiskHigh: {}},
		RememberDenial: minute(), GroupWithin: minute(),
	}
}

// changed calls try for each field below v, while it has another value. A map's value is changed as a whole field, and
// by its own fields.
func changed(t *testing.T, v reflect.Value, path string, try func(path string)) {
	t.Helper()
	set := func(to any) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(reflect.ValueOf(to).Convert(v.Type()))
		try(path)
		v.Set(was)
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == originType {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				changed(t, v.Field(i), path+"."+f.Name, try)
			}
		}
	case reflect.Slice:
		set(reflect.MakeSlice(v.Type(), v.Len()+1, v.Len()+1).Interface())
		for i := range v.Len() {
			changed(t, v.Index(i), fmt.Sprintf("%s[%d]", path, i), try)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			one := reflect.New(v.Type().Elem()).Elem()
			one.Set(v.MapIndex(k))
			changed(t, one, fmt.Sprintf("%s[%s]", path, k), func(path string) {
				was := v.MapIndex(k)
				v.SetMapIndex(k, one)
				try(path)
				v.SetMapIndex(k, was)
			})
		}
	case reflect.Pointer:
		if v.IsNil() {
			set(reflect.New(v.Type().Elem()).Interface())
		} else {
			changed(t, v.Elem(), path, try)
		}
	case reflect.String:
		set(v.String() + "x")
	case reflect.Bool:
		set(!v.Bool())
	case reflect.Int, reflect.Int64, reflect.Uint8:
		set(reflect.ValueOf(7).Convert(v.Type()).Interface())
	default:
		t.Errorf("%s: a field of kind %s, which this test cannot change", path, v.Kind())
	}
}

func TestTheDigestChangesWithEachFieldOfAPolicy(t *testing.T) {
	cfg := digestExample()
	digest := func() string { return cfg.digest(approval.Terms{}) }
	plain, seen, n := digest(), map[string]string{}, 0
	changed(t, reflect.ValueOf(&cfg).Elem(), "", func(path string) {
		n++
		d := digest()
		if d == plain {
			t.Errorf("%s does not count", path)
		}
		if other, dup := seen[d]; dup {
			t.Errorf("%s and %s come to the same", path, other)
		}
		seen[d] = path
	})
	for _, path := range []string{".Mode", ".Guard", ".GateFiles", ".Rules[0].When", ".Rules[1].Needs.Approvers",
		".Rules[0].Needs.Approvals[0].Count", ".Rules[0].Needs.Escalate[0].To", ".Rules[0].Needs.Confirm",
		".Rules[0].Conditions[0].Equals", ".Levels[high].Elicitation", ".Levels[high].Needs.SeparateDuties",
		".RememberDenial"} {
		found := false
		for _, p := range seen {
			found = found || p == path
		}
		if !found {
			t.Errorf("%s was not changed", path)
		}
	}
	if digest() != plain {
		t.Error("the test left something changed")
	}
	if n < 60 {
		t.Errorf("only %d fields", n)
	}
}

func TestTheDigest(t *testing.T) {
	digest := func(src string) string { return compile(t, src).Digest() }
	const two = `policy: {rules: [{tools: [a]}, {tools: [b], action: deny}]}`
	one := digest(two)
	if len(one) != 64 || strings.Trim(one, "0123456789abcdef") != "" {
		t.Errorf("%q is not a SHA-256 in hex", one)
	}
	for _, test := range []struct {
		name, src string
		same      bool
	}{
		{"written in another way", "# a comment\n\npolicy:\n  rules:\n    - tools: a\n    - {action: deny, tools: [b]}\n",
			true},
		{"rules in another order", `policy: {rules: [{tools: [b], action: deny}, {tools: [a]}]}`, false},
		{"a level that nothing names",
			`policy: {rules: [{tools: [a]}, {tools: [b], action: deny}], levels: {critical: {timeout: 5m}}}`, false},
		{"observe", `policy: {mode: observe, rules: [{tools: [a]}, {tools: [b], action: deny}]}`, false},
	} {
		if same := digest(test.src) == one; same != test.same {
			t.Errorf("%s: the same digest: %t", test.name, same)
		}
	}
	if a, b := digest(`policy: {levels: {low: {timeout: 5m}, high: {timeout: 6m}}}`),
		digest(`policy: {levels: {high: {timeout: 6m}, low: {timeout: 5m}}}`); a != b {
		t.Error("the order of levels counts")
	}
}

// No test for null and no test at all are two things.
func TestTheDigestTellsNullFromNothing(t *testing.T) {
	with := func(c Condition) string {
		return (&Config{Rules: []Rule{{Conditions: []Condition{c}}}}).digest(approval.Terms{})
	}
	if with(Condition{Equals: jsontext.Value("null")}) == with(Condition{}) {
		t.Error("equals: null")
	}
	if with(Condition{GT: json.Number("1"), LT: ""}) == with(Condition{GT: "", LT: json.Number("1")}) {
		t.Error("gt and lt")
	}
	if with(Condition{Under: []string{"/a", "/b"}}) == with(Condition{Under: []string{"/a/b"}}) {
		t.Error("two folders")
	}
}
