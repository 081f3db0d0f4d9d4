package policy

import (
	"fmt"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/locale/phrases"

	"github.com/google/go-cmp/cmp"
)

const grantExample = `
policy:
  guard: gate_files
  rules:
    - {name: off, tools: [off]}
    - {name: same, tools: [same], allow_skip: true, group: call}
    - name: bounded
      tools: [bounded]
      allow_skip: true
      grants: {vary: {amount_cents: {at_most: 5000.0, total: "2e4"}, memo: any}}
    - {name: anything, tools: [anything], allow_skip: true, grants: {any_args: true}}
    - {name: critical, tools: [critical], risk: critical, allow_skip: true}
    - {name: confirm, tools: [confirm], allow_skip: true, confirm: true}
    - {name: passkey, tools: [passkey], allow_skip: true, step_up: passkey}
    - {name: two, tools: [two], allow_skip: true, approvals: [{count: 2}]}
    - {name: stages, tools: [stages], allow_skip: true, approvals: [{count: 1}, {count: 1}]}
    - {name: one of finance, tools: [finance], allow_skip: true, approvals: [{group: finance}], separate_duties: true}
    - {name: by its level, tools: [level], risk: medium}
    - {name: against its level, tools: [against], risk: medium, allow_skip: false, group: run}
    - {name: denied, tools: [denied], action: deny, allow_skip: true}
    - {name: allowed, tools: [allowed], action: allow, allow_skip: true}
  levels:
    medium: {allow_skip: true, group: call}
`

func TestWhatAnApprovalMayBeGivenFor(t *testing.T) {
	p := compile(t, grantExample)
	same := &approval.GrantTerms{}
	for _, c := range []struct {
		tool, args string
		grants     *approval.GrantTerms
		group      approval.Grouping
	}{
		{"off", `{}`, nil, ""},
		{"same", `{}`, same, approval.GroupCall},
		{"bounded", `{}`, &approval.GrantTerms{Vary: map[string]approval.Vary{
			"amount_cents": {AtMost: "5000.0", Total: "2e4"}, "memo": {Any: true}}}, ""}, // as written
		{"anything", `{}`, &approval.GrantTerms{AnyArgs: true}, ""},
		{"critical", `{}`, nil, ""},
		{"confirm", `{}`, nil, ""},
		{"passkey", `{}`, nil, ""},
		{"two", `{}`, nil, ""},
		{"stages", `{}`, nil, ""},
		{"finance", `{}`, same, ""},
		{"level", `{}`, same, approval.GroupCall},
		{"against", `{}`, nil, approval.GroupRun},
		{"denied", `{}`, nil, ""},
		{"allowed", `{}`, nil, ""},
		{"unknown", `{}`, nil, ""},
		{"same", `{"path":"/home/u/.claude/settings.json"}`, nil, approval.GroupCall}, // the guard's, and critical
		{"same", `{"a":1,"A":2}`, nil, approval.GroupCall},                            // ambiguous
	} {
		v := evaluate(t, p, call(t, c.tool, c.args))
		if diff := cmp.Diff(c.grants, v.Grants); diff != "" {
			t.Errorf("%s %s: the grants (-want +got):\n%s", c.tool, c.args, diff)
		}
		if v.Group != c.group {
			t.Errorf("%s %s: group %q; want %q", c.tool, c.args, v.Group, c.group)
		}
	}
}

// What no rule covers is of level high, and so is what that says.
func TestALevelSpeaksForWhatNoRuleCovers(t *testing.T) {
	p := compile(t, "policy: {levels: {high: {allow_skip: true, group: run}}}\n")
	v := p.Evaluate(t.Context(), call(t, "unknown", `{}`))
	if v.Grants == nil || v.Group != approval.GroupRun || v.RuleDigest == "" {
		t.Errorf("an unknown tool: grants %v, group %q, digest %q", v.Grants, v.Group, v.RuleDigest)
	}
	other := compile(t, "policy: {levels: {high: {allow_skip: true, group: run, confirm: true}}}\n")
	if w := other.Evaluate(t.Context(), call(t, "unknown", `{}`)); w.RuleDigest == v.RuleDigest || w.Grants != nil {
		t.Errorf("with confirm: grants %v, and the same digest: %t", w.Grants, w.RuleDigest == v.RuleDigest)
	}
}

// Where a path cannot be placed, several rules have a word: nobody can tell which of them a grant would be under.
func TestNoGrantWhereSeveralRulesDecide(t *testing.T) {
	p := rules(t,
		"{name: first, tools: [w], conditions: [{param: path, under: [/etc]}], allow_skip: true}",
		"{name: second, tools: [w], allow_skip: true, grants: {vary: {path: any}}}")
	for path, want := range map[string]bool{"/etc/x": true, "/tmp/x": true, "../x": false} {
		v := evaluate(t, p, call(t, "w", fmt.Sprintf(`{"path":%q}`, path)))
		if v.Action != approval.Quarantine || (v.Grants != nil) != want {
			t.Errorf("%s: %s, grants %v; want some: %t", path, v.Action, v.Grants, want)
		}
	}
}

func TestARulesDigestIsAnotherOneWhereAGrantCouldBe(t *testing.T) {
	const was = "{name: pay, tools: [pay], allow_skip: true, grants: {vary: {cents: {at_most: 5}}}, message: Pays.}"
	digest := func(rule, levels string) string {
		p := compile(t, "policy:\n  rules:\n    - "+rule+"\n  levels: {"+levels+"}\n")
		return p.Evaluate(t.Context(), call(t, "pay", `{"cents":1}`)).RuleDigest
	}
	same := digest(was, "")
	if same == "" || len(same) != 64 {
		t.Fatalf("the digest is %q", same)
	}
	for _, c := range []struct {
		rule, levels string
		changed      bool
	}{
		{was, "", false},
		{strings.Replace(was, "Pays.", "Pays now.", 1), "", false},
		{was, "low: {timeout: 1m}", false}, // not its level
		{was, "high: {require_reason: true}", true},
		{was, "high: {confirm: true}", true},
		{was, "high: {approvals: [{count: 2}]}", true},
		{strings.Replace(was, "at_most: 5", "at_most: 6", 1), "", true},
		{strings.Replace(was, "at_most: 5", "total: 5", 1), "", true},
		{strings.Replace(was, "{at_most: 5}", "any", 1), "", true},
		{strings.Replace(was, "tools: [pay]", `tools: ["pa*"]`, 1), "", true},
		{strings.Replace(was, "tools:", "risk: medium, tools:", 1), "", true},
		{strings.Replace(was, "tools:", "when: args.cents < 9, tools:", 1), "", true},
		{strings.Replace(was, "tools:", "conditions: [{param: cents, lt: 9}], tools:", 1), "", true},
		{strings.Replace(was, "tools:", "approvers: [hana], tools:", 1), "", true},
		{strings.Replace(was, "tools:", "ignore_args: [memo], tools:", 1), "", true},
	} {
		if got := digest(c.rule, c.levels) != same; got != c.changed {
			t.Errorf("%s with levels {%s}: another digest: %t; want %t", c.rule, c.levels, got, c.changed)
		}
	}
}

func TestAnnotationsMatchWhatTheServerSays(t *testing.T) {
	p := rules(t,
		"{name: kills, annotations: {destructive: true}, action: deny}",
		"{name: reads, tools: ['docs/*'], annotations: {readOnly: true, openWorld: false}, action: allow}")
	yes, no := true, false
	for _, c := range []struct {
		said *approval.Annotations
		rule string
	}{
		{nil, ""},
		{&approval.Annotations{}, ""},
		{&approval.Annotations{ReadOnly: &yes}, ""}, // openWorld is unknown
		{&approval.Annotations{ReadOnly: &yes, OpenWorld: &yes}, ""},
		{&approval.Annotations{ReadOnly: &no, OpenWorld: &no}, ""},
		{&approval.Annotations{ReadOnly: &yes, OpenWorld: &no}, "reads"},
		{&approval.Annotations{ReadOnly: &yes, OpenWorld: &no, Destructive: &no, Idempotent: &yes}, "reads"},
		{&approval.Annotations{ReadOnly: &yes, OpenWorld: &no, Destructive: &yes}, "kills"},
	} {
		for _, raw := range []string{`{}`, `{"path":1,"Path":2}`} { // also where the call is judged slowly
			x := call(t, "docs/get", raw)
			x.Annotations = c.said
			v := evaluate(t, p, x)
			want := c.rule
			if raw != `{}` && want == "reads" {
				if v.Action != approval.Quarantine {
					t.Errorf("ambiguous args: %s", v.Action)
				}
			}
			if v.Rule != want {
				t.Errorf("%s, which is said to be %s: rule %q; want %q", raw, annotationsInWords(c.said), v.Rule, want)
			}
		}
	}
	if x := p.Explain(call(t, "docs/get", `{}`)); !strings.Contains(x.Steps[1].Why, "readOnly: true, openWorld: false") {
		t.Errorf("why it did not match is told as %q", x.Steps[1].Why)
	}
}

func TestLoosenedTellsOfGrants(t *testing.T) {
	const rule = "{name: pay, tools: [pay], allow_skip: true, grants: {vary: {cents: {at_most: 50, total: 100}}}}"
	for _, c := range []struct{ older, newer, want string }{
		{rule, rule, ""},
		{"{name: pay, tools: [pay]}", "{name: pay, tools: [pay], allow_skip: true}",
			`rule "pay": allow_skip is on: an approval can let later calls through, for the same args`},
		{rule, "{name: pay, tools: [pay]}", ""},
		{rule, strings.Replace(rule, "at_most: 50", "at_most: 50.0", 1), ""},
		{rule, strings.Replace(rule, "at_most: 50", "at_most: 5e1", 1), ""},
		{rule, strings.Replace(rule, "at_most: 50", "at_most: 49", 1), ""},
		{rule, strings.Replace(rule, "at_most: 50", "at_most: 50.01", 1),
			`rule "pay": grants let cents vary more: (at most 50.01, together at most 100), from (at most 50, together at most 100)`},
		{rule, strings.Replace(rule, "at_most: 50, ", "", 1),
			`rule "pay": grants let cents vary more: (together at most 100), from (at most 50, together at most 100)`},
		{rule, strings.Replace(rule, "{cents: {at_most: 50, total: 100}}", "{cents: any}", 1),
			`rule "pay": grants let cents vary more: (any), from (at most 50, together at most 100)`},
		{rule, strings.Replace(rule, "{cents:", "{memo: any, cents:", 1), `rule "pay": grants let memo vary now (any)`},
		{rule, strings.Replace(rule, "{vary: {cents: {at_most: 50, total: 100}}}", "{any_args: true}", 1),
			`rule "pay": grants cover any args now`},
		{"{name: pay, tools: [pay], allow_skip: true, grants: {any_args: true}}", rule, ""},
		{"{name: r, tools: [d/get], action: allow, annotations: {readOnly: true}}",
			"{name: r, tools: [d/get], action: allow}",
			`rule "r" allows without conditions now`},
		{"{name: r, tools: [d/get], action: deny, annotations: {readOnly: true}}",
			"{name: r, tools: [d/get], action: deny, annotations: {readOnly: true, openWorld: true}}",
			`rule "r": its conditions changed, so calls that it stopped may pass it`},
	} {
		said := strings.Join(phrases.InEnglish(Loosenings(rules(t, c.older), rules(t, c.newer))), "; ")
		if said != c.want {
			t.Errorf("from %s to %s is told as\n%q; want\n%q", c.older, c.newer, said, c.want)
		}
	}
	said := phrases.InEnglish(Loosenings(rules(t, "{name: pay, tools: [pay], risk: medium}"), compile(t,
		"policy: {rules: [{name: pay, tools: [pay], risk: medium}], levels: {medium: {allow_skip: true}}}\n")))
	if len(said) != 1 || !strings.Contains(said[0], "allow_skip is on") {
		t.Errorf("allow_skip on a level is told as %q", said)
	}
	said = phrases.InEnglish(Loosenings(rules(t, "{name: pay, tools: [pay]}"),
		rules(t, "{name: skips, tools: [pay], agents: [bot], allow_skip: true}", "{name: pay, tools: [pay]}")))
	want := `rule "skips" now asks about pay by bot, and an approval of them can let more calls through than under rule "pay"`
	if len(said) != 1 || said[0] != want {
		t.Errorf("a rule before another one is told as %q; want %q", said, want)
	}
}

func TestGrantsInWords(t *testing.T) {
	p := compile(t, grantExample)
	want := map[string]string{
		"off": "", "same": "for the same args", "anything": "for any args", "critical": "",
		"bounded": "for the same args but amount_cents (at most 5000.0, together at most 2e4), memo (any)",
	}
	for _, r := range p.Rules() {
		if w, ok := want[r.Name]; ok && r.GrantsInWords() != w {
			t.Errorf("%s: %q; want %q", r.Name, r.GrantsInWords(), w)
		}
	}
}
