package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"countersign/approval"

	"github.com/google/go-cmp/cmp"
)

func group(name string, count int) approval.Stage { return approval.Stage{Group: name, Count: count} }

func anyOf(names ...string) approval.Stage { return approval.Stage{Approvers: names, Count: 1} }

func need(stages ...approval.Stage) *approval.Need { return &approval.Need{Stages: stages} }

func TestTheNeedIsTheRulesKeysAndElseItsLevels(t *testing.T) {
	const levels = `{critical: {approvals: [{group: finance, count: 2}, {group: security}], separate_duties: true,
	  escalate: [{after: 10m, to: [leads]}], confirm: true, step_up: passkey}, medium: {approvers: [hana]}}`
	whole := approval.Need{Stages: []approval.Stage{group("finance", 2), group("security", 1)}, SeparateDuties: true,
		Escalate: []approval.Escalation{{After: 10 * time.Minute, To: []string{"leads"}}}, Confirm: true, StepUp: true}
	with := func(change func(*approval.Need)) *approval.Need {
		n := whole
		change(&n)
		return &n
	}
	for _, test := range []struct {
		name, rule string
		want       *approval.Need
	}{
		{"a silent rule and a silent level: any one approver", `{tools: [x], risk: high}`, nil},
		{"a silent rule", `{tools: [x], risk: critical}`, &whole},
		{"another level", `{tools: [x], risk: medium}`, need(anyOf("hana"))},
		{"approvers in place of the level's approvals", `{tools: [x], risk: critical, approvers: [ken, finance]}`,
			with(func(n *approval.Need) { n.Stages = []approval.Stage{anyOf("ken", "finance")} })},
		{"one name without a list", `{tools: [x], approvers: ken}`, need(anyOf("ken"))},
		{"a count that is not written is one",
			`{tools: [x], approvals: [{group: finance}, {approvers: [ken], count: 1}, {count: 2}]}`,
			need(group("finance", 1), anyOf("ken"), approval.Stage{Count: 2})},
		{"one approver, whoever it is, says nothing", `{tools: [x], approvals: [{count: 1}]}`, nil},
		{"which takes away what the level wants", `{tools: [x], risk: medium, approvals: [{count: 1}]}`, nil},
		{"false in place of the level's true", `{tools: [x], risk: critical, separate_duties: false, confirm: false}`,
			with(func(n *approval.Need) { n.SeparateDuties, n.Confirm = false, false })},
		{"no passkey though the level takes one", `{tools: [x], risk: critical, step_up: none}`,
			with(func(n *approval.Need) { n.StepUp = false })},
		{"a passkey where the level takes none", `{tools: [x], step_up: passkey}`, &approval.Need{StepUp: true}},
		{"its own escalation", `{tools: [x], risk: critical, escalate: [{after: 90, to: boss}]}`,
			with(func(n *approval.Need) {
				n.Escalate = []approval.Escalation{{After: 90 * time.Second, To: []string{"boss"}}}
			})},
		{"a rule that allows asks nobody", `{tools: [x], risk: critical, action: allow}`, nil},
		{"a rule that denies asks nobody", `{tools: [x], risk: critical, action: deny, confirm: true}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := compile(t, "policy:\n  levels: "+levels+"\n  rules:\n    - "+test.rule+"\n")
			if diff := cmp.Diff(test.want, evaluate(t, p, call(t, "x", `{}`)).Need); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestWhatNoRuleCoversNeedsWhatLevelHighNeeds(t *testing.T) {
	p := compile(t, `policy: {levels: {high: {approvals: [{group: finance, count: 2}]}}}`)
	if diff := cmp.Diff(need(group("finance", 2)), evaluate(t, p, call(t, "x", `{}`)).Need); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, method := range []string{"resources/read", "no/such"} {
		c := call(t, "s/x", `{}`)
		c.Method, c.Tool = method, approval.MethodTool(method)
		if v := evaluate(t, p, c); v.Need != nil {
			t.Errorf("%s: %s with a need of %+v", method, v.Action, v.Need)
		}
	}
}

// Whatever the spelling of a name, nobody less is asked than any of the rules that looked at it asks.
func TestRule3_AnAmbiguousCallNeedsWhatEachRuleThatLookedNeeds(t *testing.T) {
	p := rules(t,
		`{name: pay, tools: [x], risk: medium, approvals: [{group: finance, count: 2}], confirm: true, conditions: [{param: to, equals: acme}]}`,
		`{name: out, tools: [x], approvers: [security], separate_duties: true, conditions: [{param: to, equals: out}]}`,
		`{name: rest, tools: [x], action: allow}`)
	both := &approval.Need{Stages: []approval.Stage{group("finance", 2), anyOf("security")}, SeparateDuties: true,
		Confirm: true}
	for _, test := range []struct {
		args string
		want *approval.Need
	}{
		{`{"to":"acme"}`, &approval.Need{Stages: []approval.Stage{group("finance", 2)}, Confirm: true}},
		{`{"to":"nobody"}`, nil},
		{`{"To":"acme"}`, both},
		{`{"To":"nobody"}`, both},
		{`{"to":"nobody","TO":"out"}`, both},
	} {
		if diff := cmp.Diff(test.want, evaluate(t, p, call(t, "x", test.args)).Need, stagesInAnyOrder); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.args, diff)
		}
	}
}

// A call that is in doubt is judged at level high at least: what that needs comes to what the rule needs.
func TestRule3_AnAmbiguousCallNeedsNoLessThanLevelHigh(t *testing.T) {
	p := compile(t, `policy:
  levels: {medium: {approvers: [ken]}, high: {approvals: [{group: finance, count: 2}], confirm: true}}
  rules:
    - {tools: [x], risk: medium, conditions: [{param: to, equals: acme}]}
    - {tools: [x], action: allow}
`)
	if diff := cmp.Diff(need(anyOf("ken")), evaluate(t, p, call(t, "x", `{"to":"acme"}`)).Need); diff != "" {
		t.Errorf("not in doubt: -want +got\n%s", diff)
	}
	want := &approval.Need{Stages: []approval.Stage{group("finance", 2), anyOf("ken")}, Confirm: true}
	if diff := cmp.Diff(want, evaluate(t, p, call(t, "x", `{"To":"acme"}`)).Need, stagesInAnyOrder); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// An earlier install's rule to which the operator has added who must approve is a rule as any other.
func TestAnOldGuardWithANeedIsARule(t *testing.T) {
	const rule = `policy: {rules: [{name: "the gate's files and the agents' settings", reason_code: gate_files, action: quarantine, ` +
		`risk: critical, when: "true"%}]}`
	if p := compile(t, strings.Replace(rule, "%", "", 1)); p.Guard() == nil || len(p.Rules()) != 0 {
		t.Error("the rule as it was written is not read as the guard")
	}
	p := compile(t, strings.Replace(rule, "%", ", approvers: [hana]", 1))
	if diff := cmp.Diff(need(anyOf("hana")), evaluate(t, p, call(t, "x", `{}`)).Need); p.Guard() != nil || diff != "" {
		t.Errorf("a guard: %t; need -want +got\n%s", p.Guard() != nil, diff)
	}
}

var stagesInAnyOrder = cmp.Transformer("stages", func(s []approval.Stage) map[string]int {
	by := map[string]int{}
	for _, one := range s {
		by[outOf(one)] += one.Count
	}
	return by
})

func TestRule3_APathThatCannotBePlacedNeedsWhatEachRuleThatItMayConcernNeeds(t *testing.T) {
	p := rules(t,
		`{name: etc, tools: [x], approvals: [{group: security, count: 2}], conditions: [{param: path, under: /etc}]}`,
		`{name: tmp, tools: [x], approvers: [hana], confirm: true, conditions: [{param: path, under: /tmp}]}`,
		`{name: rest, tools: [x], action: allow}`)
	want := &approval.Need{Stages: []approval.Stage{group("security", 2), anyOf("hana")}, Confirm: true}
	if diff := cmp.Diff(want, evaluate(t, p, call(t, "x", `{"path":"../x"}`)).Need); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// What would be allowed there is asked about, as level high asks.
	p = compile(t, `policy: {levels: {high: {approvers: [hana]}}, rules: [
	  {tools: [x], action: allow, conditions: [{param: path, under: /tmp}]}, {tools: [x], action: allow}]}`)
	v := evaluate(t, p, call(t, "x", `{"path":"../x"}`))
	if diff := cmp.Diff(need(anyOf("hana")), v.Need); v.Action != approval.Quarantine || diff != "" {
		t.Errorf("%s, need -want +got\n%s", v.Action, diff)
	}
}

func TestTheGuardNeedsWhatLevelCriticalNeedsAndTheRuleToo(t *testing.T) {
	p := compile(t, `policy:
  guard: gate_files
  levels: {critical: {approvals: [{group: security}], confirm: true}}
  rules:
    - {tools: [read], action: allow}
    - {tools: [write], approvals: [{group: finance, count: 2}]}
    - {tools: [rm], approvals: [{group: security, count: 2}]}
`)
	guarded := `{"path":"/home/u/.claude/settings.json"}`
	for _, test := range []struct {
		tool string
		want *approval.Need
	}{
		{"read", &approval.Need{Stages: []approval.Stage{group("security", 1)}, Confirm: true}},
		{"write", &approval.Need{Stages: []approval.Stage{group("finance", 2), group("security", 1)}, Confirm: true}},
		{"rm", &approval.Need{Stages: []approval.Stage{group("security", 2)}, Confirm: true}},
	} {
		if diff := cmp.Diff(test.want, evaluate(t, p, call(t, test.tool, guarded)).Need); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.tool, diff)
		}
	}
	if g := p.Guard(); g.InWords() != "1 of security; asked once more" {
		t.Errorf("the guard needs %q", g.InWords())
	}
}

func TestANeedInOneLine(t *testing.T) {
	p := rules(t, `{tools: [x], approvals: [{group: finance, count: 2}, {approvers: [hana, leads]}, {count: 3}], separate_duties: true, `+
		`escalate: [{after: 10m, to: [boss, leads]}, {after: 90, to: [ken]}], confirm: true}`, `{tools: [y]}`)
	want := "2 of finance, then 1 of hana, leads, then 3 of any approver; not the agent's owner; after 10m also boss, leads; " +
		"after 1m30s also ken; asked once more"
	if got := p.Rules()[0].InWords(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := p.Rules()[1].InWords(); got != "" {
		t.Errorf("any one approver: %q", got)
	}
}

// Votes and people are matched, so that nobody is counted for two stages.
func TestAssignable(t *testing.T) {
	person := func(name string, groups ...string) approval.Actor {
		return approval.Actor{Name: name, Approver: true, Groups: groups}
	}
	people := []approval.Actor{person("a", "x", "y"), person("b", "x"), person("c", "y", "z"), person("d", "z")}
	for _, test := range []struct {
		name   string
		stages []approval.Stage
		want   int
	}{
		{"each one's own", []approval.Stage{group("x", 2), group("z", 2)}, 4},
		{"the greedy choice is undone", []approval.Stage{group("x", 1), group("y", 2), anyOf("b")}, 3},
		{"one person too few", []approval.Stage{group("x", 2), group("y", 2)}, 3},
		{"everybody", []approval.Stage{{Count: 3}, anyOf("a")}, 4},
		{"more than everybody", []approval.Stage{{Count: 100}}, 4},
		{"nobody", []approval.Stage{group("none", 1)}, 0},
	} {
		if got := assignable(test.stages, people); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// Go code that makes a Config is told the same as a file.
func TestANeedMadeInGoIsChecked(t *testing.T) {
	for _, test := range []struct {
		needs Needs
		want  string
	}{
		{Needs{Approvers: []string{}}, "$.policy.rules[0].approvers: at least one name is needed here"},
		{Needs{Approvers: []string{"a"}, Approvals: []approval.Stage{{}}},
			"$.policy.rules[0].approvals: approvers is short for approvals of one stage; keep one of them"},
		{Needs{Approvals: []approval.Stage{{Count: -1}}},
			"$.policy.rules[0].approvals[0].count: count (how many people must approve) must be a whole number from 1 to 100"},
		{Needs{Escalate: []approval.Escalation{{To: []string{"a"}}}},
			"$.policy.rules[0].escalate[0]: an escalation needs after, such as after: 10m"},
		{Needs{Escalate: []approval.Escalation{{After: time.Minute}}},
			"$.policy.rules[0].escalate[0].to: at least one name is needed here"},
	} {
		p, problems := Compile(Config{Rules: []Rule{{Tools: []string{"x"}, Needs: test.needs}}}, Options{})
		if p != nil || len(problems) != 1 || problems[0].String() != test.want {
			t.Errorf("%+v: %v; want %s", test.needs, problems, test.want)
		}
	}
}

// A need is made ready with the policy: to judge a call costs no more for it.
func TestANeedCostsACallNothing(t *testing.T) {
	allocations := func(need string) float64 {
		p := rules(t, `{tools: [x], when: args.n > 5`+need+`}`)
		c := call(t, "x", `{"n":7}`)
		// Pools lose by chance what is put into them, a quarter of it under the race detector: that only adds, and an
		// average of several runs has some of it each time.
		least := math.Inf(1)
		for range 1000 {
			least = min(least, testing.AllocsPerRun(1, func() { p.Evaluate(t.Context(), c) }))
		}
		return least
	}
	if with, without := allocations(`, approvals: [{group: finance, count: 2}], confirm: true`),
		allocations(""); with > without {
		t.Errorf("%v allocations with a need, %v without", with, without)
	}
}
