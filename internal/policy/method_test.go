package policy

import (
	"testing"

	"countersign/approval"

	"github.com/google/go-cmp/cmp"
)

const methodRules = `
policy:
  rules:
    - {name: tools, tools: ["*"], risk: medium}
    - {name: secrets, method: "resources/*", tools: ["files/resources:*"], when: 'method == "resources/read" && args.uri.startsWith("file:///etc/")', action: deny}
    - {name: prompts, method: [prompts/get, completion/complete], agents: [bot], risk: high}
    - {name: odd, method: "odd/*", tools: ["*"], action: allow, audit: strict}
  levels:
    medium: {elicitation: true}
    low: {elicitation: true}
    high: {elicitation: false}
`

// on makes a call of another method than tools/call.
func on(t *testing.T, server, method, args string) approval.Call {
	t.Helper()
	c := call(t, approval.MethodTool(method), args)
	c.Server, c.Method = server, method
	return c
}

func TestAMethodIsJudgedByItsOwnRules(t *testing.T) {
	p := compile(t, methodRules)
	named := func(tool string) approval.Call {
		c := call(t, "files/delete_file", `{}`)
		c.Method = tool
		return c
	}
	other := on(t, "files", "prompts/get", `{}`)
	other.Agent = "alice"
	for _, test := range []struct {
		name string
		call approval.Call
		want approval.Verdict // its action, risk, rule, reason and strictness
	}{
		{"a tool call", call(t, "files/read_file", `{}`), approval.Verdict{Action: approval.Quarantine,
			Risk: approval.RiskMedium, Rule: "tools", ReasonCode: "approval_required"}},
		{"a tool call that says so", named("tools/call"), approval.Verdict{Action: approval.Quarantine,
			Risk: approval.RiskMedium, Rule: "tools", ReasonCode: "approval_required"}},
		{"a tool named as a method", call(t, "files/resources:read", `{"uri":"file:///etc/x"}`),
			approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskMedium, Rule: "tools",
				ReasonCode: "approval_required"}},
		{"a method with a rule", on(t, "files", "resources/read", `{"uri":"file:///etc/x"}`),
			approval.Verdict{Action: approval.Deny, Risk: approval.RiskHigh, Rule: "secrets", ReasonCode: "forbidden"}},
		{"whose condition does not hold", on(t, "files", "resources/read", `{"uri":"file:///tmp/x"}`),
			approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow, ReasonCode: "method_default"}},
		{"whose condition cannot be evaluated", on(t, "files", "resources/read", `{}`),
			approval.Verdict{Action: approval.Deny, Risk: approval.RiskHigh, Rule: "secrets", ReasonCode: "policy_error"}},
		{"of another server", on(t, "tickets", "resources/read", `{}`), approval.Verdict{Action: approval.Allow,
			Risk: approval.RiskLow, ReasonCode: "method_default"}},
		{"a list of methods", on(t, "", "completion/complete", `{}`), approval.Verdict{Action: approval.Quarantine,
			Risk: approval.RiskHigh, Rule: "prompts", ReasonCode: "approval_required"}},
		{"of another agent", other, approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow,
			ReasonCode: "method_default"}},
		{"a method that is not known", on(t, "files", "resources/write", `{}`), approval.Verdict{Action: approval.Deny,
			Risk: approval.RiskHigh, ReasonCode: "unknown_method"}},
		{"letter case counts", on(t, "files", "Resources/read", `{}`), approval.Verdict{Action: approval.Deny,
			Risk: approval.RiskHigh, ReasonCode: "unknown_method"}},
		{"one that a rule allows", on(t, "files", "odd/one", `{}`), approval.Verdict{Action: approval.Allow,
			Risk: approval.RiskLow, Rule: "odd", ReasonCode: "allowed", Strict: true}},
		{"ambiguous args", on(t, "files", "roots/list", `{"a":1,"A":2}`), approval.Verdict{Action: approval.Quarantine,
			Risk: approval.RiskHigh, ReasonCode: "ambiguous_args"}},
		// The tool is made from the method, whatever the call says.
		{"and that of a rule's", named("resources/read"), approval.Verdict{Action: approval.Deny, Risk: approval.RiskHigh,
			Rule: "secrets", ReasonCode: "policy_error"}},
		{"a method under a tool's name", named("prompts/get"), approval.Verdict{Action: approval.Quarantine,
			Risk: approval.RiskHigh, Rule: "prompts", ReasonCode: "approval_required"}},
	} {
		v := evaluate(t, p, test.call)
		got := approval.Verdict{Action: v.Action, Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode, Strict: v.Strict}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if v.Message == "" || v.Timeout <= 0 {
			t.Errorf("%s: not a whole verdict: %+v", test.name, v)
		}
	}
	if got, want := p.Terms().Elicitation, []approval.Risk{approval.RiskLow, approval.RiskMedium}; !cmp.Equal(got, want) {
		t.Errorf("elicitation at %v, want %v", got, want)
	}
}

func TestEveryMethodThatIsKnownMayRunByDefault(t *testing.T) {
	p := compile(t, "")
	for _, m := range []string{
		"resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/get", "completion/complete",
		"logging/setLevel",
		"sampling/createMessage", "elicitation/create", "roots/list",
	} {
		want := approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow, ReasonCode: "method_default",
			Message: "Allowed by policy.", Timeout: defaultTimeout}
		if diff := cmp.Diff(want, evaluate(t, p, on(t, "files", m, `{}`))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", m, diff)
		}
	}
	v := evaluate(t, p, on(t, "files", "tools/\u202ecall", `{}`))
	if want := "The method tools/⟨U+202E⟩call is not one that calls may have."; v.Action != approval.Deny ||
		v.Message != want {
		t.Errorf("got %s, %q; want a denial, %q", v.Action, v.Message, want)
	}
}

func TestARuleForAllToolsIsForNoOtherMethod(t *testing.T) {
	p := rules(t, `{tools: ["*"], action: deny}`, `{method: "*", tools: ["x/*"], action: allow}`)
	for method, want := range map[string]approval.Action{"": approval.Deny, "tools/call": approval.Deny,
		"prompts/get": approval.Allow, "odd/one": approval.Allow} {
		c := call(t, "x/y", `{}`)
		c.Method = method
		if v := evaluate(t, p, c); v.Action != want {
			t.Errorf("%q: got %s, want %s", method, v.Action, want)
		}
	}
}

func TestExplainOfAMethod(t *testing.T) {
	p := compile(t, methodRules)
	x := p.Explain(on(t, "files", "resources/subscribe", `{}`))
	var why []string
	for _, s := range x.Steps {
		why = append(why, s.Why)
	}
	if diff := cmp.Diff([]string{
		"method resources/subscribe is not among tools/call",
		`when did not hold: method == "resources/read" && args.uri.startsWith("file:///etc/")`,
		"method resources/subscribe is not among prompts/get, completion/complete",
		"method resources/subscribe is not among odd/*",
		"no rule matched",
	}, why); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := x.Steps[4].Rule; x.Method != "resources/subscribe" || last.Number != 0 ||
		last.ReasonCode != "method_default" || last.Action != approval.Allow {
		t.Errorf("got %q, and what holds otherwise %+v", x.Method, last)
	}
	infos := p.Rules()
	if infos[0].Methods != nil || infos[0].Audit != "" {
		t.Errorf("a rule for tool calls is told with %v, %q", infos[0].Methods, infos[0].Audit)
	}
	if got := infos[3]; !cmp.Equal(got.Methods, []string{"odd/*"}) || got.Audit != AuditStrict {
		t.Errorf("got %v, %q", got.Methods, got.Audit)
	}
	if x := p.Explain(on(t, "", "odd/one", `{}`)); x.Audit != AuditStrict {
		t.Errorf("audit of the explanation is %q", x.Audit)
	}
}
