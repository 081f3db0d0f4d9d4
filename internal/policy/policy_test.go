package policy

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"

	"github.com/google/go-cmp/cmp"
)

// compile makes a policy out of YAML that has nothing wrong but perhaps warnings.
func compile(t testing.TB, src string) *Policy {
	t.Helper()
	p, problems := Compile(Parse([]byte(src)), Options{})
	if p == nil {
		t.Fatalf("%s\ndoes not compile: %v", src, problems)
	}
	return p
}

// rules makes a policy out of rules in YAML's flow style, one a line.
func rules(t testing.TB, lines ...string) *Policy {
	t.Helper()
	return compile(t, "policy:\n  rules:\n    - "+strings.Join(lines, "\n    - ")+"\n")
}

func call(t testing.TB, tool, raw string) approval.Call {
	t.Helper()
	a, err := args.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("args %s: %v", raw, err)
	}
	c := approval.Call{Agent: "bot", Tool: tool, Args: a, Scope: "/work", SessionID: "s1"}
	if server, tool, ok := strings.Cut(tool, "/"); ok {
		c.Server, c.Tool = server, tool
	}
	return c
}

func evaluate(t testing.TB, p *Policy, c approval.Call) approval.Verdict {
	t.Helper()
	v := p.Evaluate(context.Background(), c)
	if x := p.Explain(c); x.Action != v.Action || x.Rule != v.Rule || x.ReasonCode != v.ReasonCode ||
		x.Message != v.Message || x.Risk != v.Risk {
		t.Errorf("%s: Explain says %s by %q (%s, %q), Evaluate %s by %q (%s, %q)", c.Target(),
			x.Action, x.Rule, x.ReasonCode, x.Message, v.Action, v.Rule, v.ReasonCode, v.Message)
	}
	if diff := cmp.Diff(needInfo(v.Need), p.Explain(c).NeedInfo); diff != "" {
		t.Errorf("%s: Explain says another need (-evaluated +explained):\n%s", c.Target(), diff)
	}
	if diff := cmp.Diff(asksInfo(v.Group, v.Grants), p.Explain(c).AsksInfo); diff != "" {
		t.Errorf("%s: Explain says otherwise of cards and grants (-evaluated +explained):\n%s", c.Target(), diff)
	}
	v.RuleDigest = "" // tests that want it ask the policy itself
	return v
}

const designExample = `
policy:
  mode: enforce
  default_timeout: 1h
  use_within: 15m
  remember_denial: 10m
  rules:
    - name: reading
      tools: [read_file, list_files, web_search]
      risk: low
      action: allow
    - tools: [transfer_credits]
      agents: [treasury-bot]
      when: args.amount_cents >= 1000
      risk: high
      timeout: 1h
      reason_code: over_threshold
      message: Transfer exceeds the confirmation threshold ($10)
    - tools: [write_file]
      conditions: [{param: path, under: [/etc, /sys, /root]}]
      risk: critical
      ignore_args: [description]
  levels:
    low:      {action: allow}
    medium:   {action: quarantine, timeout: 1h}
    high:     {action: quarantine, timeout: 30m}
    critical: {action: quarantine, timeout: 30m, require_reason: true}
`

func TestDesignExample(t *testing.T) {
	p := compile(t, designExample)
	if got, want := p.Terms(), terms(approval.Terms{}); !cmp.Equal(got, want) {
		t.Errorf("terms %+v, want %+v", got, want)
	}
	transfer := call(t, "transfer_credits", `{"amount_cents":1000}`)
	transfer.Agent = "treasury-bot"
	small := call(t, "transfer_credits", `{"amount_cents":999}`)
	small.Agent = "treasury-bot"
	for _, test := range []struct {
		call approval.Call
		want approval.Verdict
	}{
		{call(t, "read_file", `{}`), approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow, Rule: "reading",
			ReasonCode: "allowed", Message: "Allowed by policy.", Timeout: time.Hour}},
		{transfer, approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh, Rule: "rule 2",
			ReasonCode: "over_threshold", Message: "Transfer exceeds the confirmation threshold ($10)", Timeout: time.Hour}},
		{small, approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh,
			ReasonCode: "unknown_tool", Message: "No rule covers transfer_credits, so a person must approve it.",
			Timeout: 30 * time.Minute}},
		{call(t, "write_file", `{"path":"/etc/hosts"}`), approval.Verdict{Action: approval.Quarantine,
			Risk: approval.RiskCritical, Rule: "rule 3",
			ReasonCode: "approval_required", Message: "write_file needs a person's approval.", Timeout: 30 * time.Minute,
			RequireReason: true, IgnoreArgs: []string{"description"}}},
		{call(t, "files/write_file", `{"path":"/tmp/x"}`), approval.Verdict{Action: approval.Quarantine,
			Risk:       approval.RiskHigh,
			ReasonCode: "unknown_tool", Message: "No rule covers files/write_file, so a person must approve it.",
			Timeout: 30 * time.Minute}},
	} {
		if diff := cmp.Diff(test.want, evaluate(t, p, test.call)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.call.Target(), test.call.Args.Canonical(), diff)
		}
	}
}

const harombeRules = `
security:
  hitl:
    enabled: true
    default_timeout: 60 # seconds

    # Rules for requiring approval
    rules:
      # Always require approval for these tools
      - tools: [send_email, delete_file, execute_sql]
        risk: high
        require_approval: true
        timeout: 60

      # Require approval for destructive actions
      - tools: [write_file]
        conditions:
          - param: path
            matches: "^/etc/.*|^/sys/.*|^/root/.*"
        risk: critical
        require_approval: true
        timeout: 30

      # No approval for read-only operations
      - tools: [read_file, list_files, web_search]
        risk: low
        require_approval: false
`

const harombeLevels = `
security:
  hitl:
    enabled: true

    # Risk-based policies
    policies:
      low:
        require_approval: false

      medium:
        require_approval: true
        timeout: 120 # 2 minutes
        allow_skip: true # User can choose "always allow"

      high:
        require_approval: true
        timeout: 60
        allow_skip: false

      critical:
        require_approval: true
        timeout: 30
        allow_skip: false
        require_reason: true # Must provide reason
`

func TestHarombeRules(t *testing.T) {
	p := compile(t, harombeRules)
	for _, test := range []struct {
		tool, args string
		action     approval.Action
		risk       approval.Risk
		timeout    time.Duration
		rule       string
	}{
		{"send_email", `{}`, approval.Quarantine, approval.RiskHigh, time.Minute, "rule 1"},
		{"write_file", `{"path":"/etc/passwd"}`, approval.Quarantine, approval.RiskCritical, 30 * time.Second, "rule 2"},
		{"write_file", `{"path":"/tmp/x"}`, approval.Quarantine, approval.RiskHigh, time.Minute, ""},
		{"web_search", `{"q":"x"}`, approval.Allow, approval.RiskLow, time.Minute, "rule 3"},
		{"anything", `{}`, approval.Quarantine, approval.RiskHigh, time.Minute, ""},
	} {
		v := evaluate(t, p, call(t, test.tool, test.args))
		if v.Action != test.action || v.Risk != test.risk || v.Timeout != test.timeout || v.Rule != test.rule {
			t.Errorf("%s %s: got %+v, want %+v", test.tool, test.args, v, test)
		}
	}
}

// The example is taken as it stands: "always allow" gives an approval for longer.
func TestHarombeLevels(t *testing.T) {
	src := harombeLevels
	src += `
    rules:
      - {tools: [a], risk: low}
      - {tools: [b], risk: medium}
      - {tools: [c], risk: high}
      - {tools: [d], risk: critical}
`
	p := compile(t, src)
	for tool, want := range map[string]approval.Verdict{
		"a": {Action: approval.Allow, Risk: approval.RiskLow, Timeout: time.Hour},
		"b": {Action: approval.Quarantine, Risk: approval.RiskMedium, Timeout: 2 * time.Minute,
			Grants: &approval.GrantTerms{}},
		"c": {Action: approval.Quarantine, Risk: approval.RiskHigh, Timeout: time.Minute},
		"d": {Action: approval.Quarantine, Risk: approval.RiskCritical, Timeout: 30 * time.Second, RequireReason: true},
	} {
		v := evaluate(t, p, call(t, tool, `{}`))
		v.Rule, v.ReasonCode, v.Message = "", "", ""
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tool, diff)
		}
	}
}

func TestHarombeDisabledIsObserve(t *testing.T) {
	p := compile(t, "security: {hitl: {enabled: false, rules: [{tools: [x], require_approval: true}]}}")
	v := evaluate(t, p, call(t, "x", `{}`))
	if !v.Observe || v.Action != approval.Quarantine {
		t.Errorf("got %+v; want what would have happened, observed only", v)
	}
}

func TestRule1_UnknownToolIsHighAndQuarantined(t *testing.T) {
	for _, src := range []string{
		"",
		"policy:",
		"policy: {levels: {high: {action: allow}}}",
		"policy: {rules: [{tools: [x], action: allow}]}",
		"listen: 127.0.0.1:8787\n",
	} {
		v := evaluate(t, compile(t, src), call(t, "files/other", `{}`))
		want := approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh, ReasonCode: "unknown_tool",
			Message: "No rule covers files/other, so a person must approve it.", Timeout: 30 * time.Minute}
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("%q (-want +got):\n%s", src, diff)
		}
	}
}

func TestRule1_ConditionErrorDenies(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, test := range []struct{ rule, args, why string }{
		{`{tools: [x], action: allow, conditions: [{param: p, matches: a}]}`, `{"p":7}`,
			`condition 1: "p" is a number where the rule needs text`},
		{`{tools: [x], action: allow, conditions: [{param: p, under: /srv}]}`, `{"p":["hunter2hunter2"]}`,
			`condition 1: "p" is a list where the rule needs text`},
		{`{tools: [x], action: allow, conditions: [{param: p, lt: 10}]}`, `{"p":"hunter2hunter2"}`,
			`condition 1: "p" is text where the rule needs a number`},
		{`{tools: [x], action: allow, conditions: [{param: p, lt: 10}]}`, `{"p":1e99999999999999999999}`,
			`condition 1: "p" is a number with too large an exponent`},
		{`{tools: [x], action: allow, conditions: [{param: p, equals: a}]}`, `{"p":true}`,
			`condition 1: "p" is true or false where the rule needs text`},
		{`{tools: [x], action: allow, conditions: [{param: q, equals: 1}, {param: p, in: [a, 1]}]}`, `{"q":1,"p":null}`,
			`condition 2: "p" is null where the rule needs text or a number`},
		{`{tools: [x], action: allow, conditions: [{param: a.b, equals: 1}]}`, `{"a.b":1,"a":{"b":2}}`,
			`condition 1: "a.b" can be read in more than one way`},
		{`{tools: [x], action: allow, when: args.p == 1}`, `{"q":"hunter2hunter2"}`,
			`when: "p" is missing; has() asks whether it is there`},
		{`{tools: [x], action: allow, when: "args.p[args.q] == 1"}`, `{"q":"hunter2hunter2","p":{}}`,
			`when: a key is missing; has() asks whether it is there`},
		{`{tools: [x], action: allow, when: args.p < 10}`, `{"p":"hunter2hunter2"}`,
			`when: an argument has a type that the expression cannot work with`},
		{`{tools: [x], action: allow, when: args.p}`, `{"p":"hunter2hunter2"}`,
			`when: the expression is neither true nor false`},
		{`{tools: [x], action: allow, when: int(args.p) < 10}`, `{"p":"hunter2hunter2"}`,
			`when: it has no value for these arguments`},
		{`{tools: [x], action: allow, when: args.p / args.q < 10}`, `{"p":7,"q":0}`, `when: a division by zero`},
		{`{tools: [x], action: allow, when: args.p * 2 < 10}`, `{"p":9223372036854775807}`, `when: a number grew too large`},
		{`{tools: [x], action: allow, when: args.p < 10}`, `{"p":123456789012345678901234567890}`,
			`when: a number cannot be represented exactly`},
		{`{tools: [x], action: allow, when: args.p < 10}`, `{"p":9.99999999999999999999}`,
			`when: a number cannot be represented exactly`},
		{`{tools: [x], action: allow, when: args.p.matches(args.q)}`, `{"p":"hunter2hunter2","q":"(hunter2hunter2"}`,
			`when: it has no value for these arguments`},
	} {
		p := rules(t, test.rule, `{name: later, tools: ["*"], action: allow}`)
		v := evaluate(t, p, call(t, "x", test.args))
		if v.Action != approval.Deny || v.ReasonCode != "policy_error" || v.Rule != "rule 1" {
			t.Errorf("%s with %s: got %+v, want a denial for policy_error", test.rule, test.args, v)
		}
		if want := "Rule 1 cannot be evaluated for this call: " + test.why + "."; v.Message != want {
			t.Errorf("%s with %s: message %q, want %q", test.rule, test.args, v.Message, want)
		}
		if strings.Contains(v.Message, secret) {
			t.Errorf("%s with %s: the message quotes an argument: %q", test.rule, test.args, v.Message)
		}
	}
}

func TestRule1_RunawayExpressionDenies(t *testing.T) {
	p := rules(t, `{name: triple, tools: [x], action: allow, when: "!args.l.exists(a, args.l.exists(b, args.l.exists(c, a + b + c < 0)))"}`)
	if w := p.rules[0].when; !w.metered || !w.loops {
		t.Errorf("metered %t, with a deadline %t; want both", w.metered, w.loops)
	}
	list := strings.TrimSuffix(strings.Repeat("1,", 3000), ",")
	start := time.Now()
	v := evaluate(t, p, call(t, "x", `{"l":[`+list+`]}`))
	if v.Action != approval.Deny || v.ReasonCode != "policy_error" {
		t.Errorf("got %+v, want a denial for policy_error", v)
	}
	if !strings.HasPrefix(v.Message, `Rule "triple" cannot be evaluated for this call: when: the evaluation `) {
		t.Errorf("message %q", v.Message)
	}
	t.Logf("stopped after %v: %s", time.Since(start), v.Message)
}

func TestRule1_EarlierConditionsGuardLaterOnes(t *testing.T) {
	p := rules(t,
		`{tools: [x], action: deny, conditions: [{param: kind, equals: file}, {param: path, under: /etc}], when: args.size > 10}`,
		`{tools: [x], action: allow}`)
	for object, want := range map[string]approval.Action{
		`{}`:                              approval.Allow,
		`{"kind":"db"}`:                   approval.Allow, // path and size are not asked
		`{"kind":"file","path":"/tmp/x"}`: approval.Allow, // size is not asked
		`{"kind":"file","path":"/etc/x"}`: approval.Deny,  // size is missing
		`{"kind":"file","path":"/etc/x","size":11}`:  approval.Deny,
		`{"kind":"file","path":"/etc/x","size":10}`:  approval.Allow,
		`{"kind":"file","path":7}`:                   approval.Deny,
		`{"kind":"file","path":"/etc/x","size":"a"}`: approval.Deny,
	} {
		if v := evaluate(t, p, call(t, "x", object)); v.Action != want {
			t.Errorf("%s: got %s, want %s (%s)", object, v.Action, want, v.Message)
		}
	}
}

func TestRule3_AmbiguousArgsAreNeverAllowed(t *testing.T) {
	p := rules(t,
		`{tools: [a], risk: low, action: allow, ignore_args: [note]}`,
		`{tools: [q], risk: critical, timeout: 5m, ignore_args: [note], reason_code: mine, message: Mine.}`,
		`{tools: [m], risk: medium, action: quarantine}`,
		`{tools: [d], action: deny, reason_code: never}`,
		`{tools: [c], action: deny, conditions: [{param: path, equals: /etc}]}`,
		`{tools: [o], action: deny, conditions: [{param: path, equals: /srv}]}`)
	for tool, want := range map[string]approval.Verdict{
		"a": {Action: approval.Quarantine, Risk: approval.RiskHigh, Rule: "rule 1", ReasonCode: "ambiguous_args",
			Timeout: 30 * time.Minute},
		"q": {Action: approval.Quarantine, Risk: approval.RiskCritical, Rule: "rule 2", ReasonCode: "ambiguous_args",
			Timeout: 5 * time.Minute, RequireReason: true},
		"m": {Action: approval.Quarantine, Risk: approval.RiskHigh, Rule: "rule 3", ReasonCode: "ambiguous_args",
			Timeout: 30 * time.Minute},
		"d": {Action: approval.Deny, Risk: approval.RiskHigh, Rule: "rule 4", ReasonCode: "never", Timeout: 30 * time.Minute},
		"c": {Action: approval.Deny, Risk: approval.RiskHigh, Rule: "rule 5", ReasonCode: "forbidden",
			Timeout: 30 * time.Minute}, // as the tool may read it
		"o": {Action: approval.Quarantine, Risk: approval.RiskHigh, ReasonCode: "ambiguous_args", Timeout: 30 * time.Minute},
	} {
		v := evaluate(t, p, call(t, tool, `{"path":"/tmp","Path":"/etc","note":"x"}`))
		if want.Action == approval.Quarantine {
			want.Message = "Names in the arguments of " + tool + " differ only in letter case, so a person must approve it."
		} else {
			want.Message = tool + " is forbidden by policy."
		}
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tool, diff)
		}
	}
	if v := evaluate(t, p, call(t, "a", `{"path":"/tmp","note":"x"}`)); v.Action != approval.Allow ||
		len(v.IgnoreArgs) != 1 {
		t.Errorf("unambiguous: got %+v, want allow", v)
	}
}

func TestObserveSaysWhatWouldHaveHappened(t *testing.T) {
	src := strings.Replace(designExample, "enforce", "observe", 1)
	p := compile(t, src)
	for _, c := range []approval.Call{call(t, "read_file", `{}`), call(t, "write_file", `{"path":"/etc/x"}`),
		call(t, "write_file", `{"path":7}`), call(t, "zzz", `{}`)} {
		got, want := evaluate(t, p, c), evaluate(t, compile(t, designExample), c)
		want.Observe = true
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-enforced +observed):\n%s", c.Target(), diff)
		}
	}
}

// TestAskIsQuarantine: both words are one action, wherever one is taken, and no digest tells them apart.
func TestAskIsQuarantine(t *testing.T) {
	const text = `policy: {rules: [{tools: [x], risk: low, action: WORD}], levels: {low: {action: WORD}}}`
	asks := compile(t, strings.ReplaceAll(text, "WORD", "ask"))
	older := compile(t, strings.ReplaceAll(text, "WORD", "quarantine"))
	if asks.Digest() != older.Digest() {
		t.Error("the digests of ask and quarantine differ")
	}
	if got := asks.Rules()[0].Action; got != approval.Quarantine || got.Word() != "ask" {
		t.Errorf("action: ask is %q, said as %q", got, got.Word())
	}
	if got := Loosenings(older, asks); len(got) > 0 {
		t.Errorf("one for the other loosens: %q", got)
	}
}

func TestRisksAndActions(t *testing.T) {
	for rule, want := range map[string]string{
		`{tools: [x]}`:                                "high quarantine",
		`{tools: [x], action: allow}`:                 "low allow",
		`{tools: [x], action: deny}`:                  "high deny",
		`{tools: [x], require_approval: true}`:        "high quarantine",
		`{tools: [x], require_approval: false}`:       "low allow",
		`{tools: [x], risk: low}`:                     "low allow",
		`{tools: [x], risk: high, action: allow}`:     "high allow",
		`{tools: [x], risk: medium}`:                  "medium quarantine",
		`{tools: [x], risk: low, action: deny}`:       "low deny",
		`{tools: [x], risk: safe}`:                    "low allow",
		`{tools: [x], risk: caution}`:                 "medium quarantine",
		`{tools: [x], risk: dangerous}`:               "high quarantine",
		`{tools: [x], risk: forbidden}`:               "critical deny",
		`{tools: [x], risk: forbidden, action: deny}`: "critical deny",
		`{tools: [x], risk: L0}`:                      "low allow",
		`{tools: [x], risk: L1}`:                      "medium quarantine",
		`{tools: [x], risk: L2}`:                      "medium quarantine",
		`{tools: [x], risk: L3}`:                      "high quarantine",
		`{tools: [x], risk: L4}`:                      "high quarantine",
		`{tools: [x], risk: L5}`:                      "critical quarantine",
		`{tools: x, action: deny, agents: bot}`:       "high deny",
		`{action: deny}`:                              "high deny",
	} {
		v := evaluate(t, rules(t, rule), call(t, "x", `{}`))
		if got := fmt.Sprintf("%s %s", v.Risk, v.Action); got != want || v.Rule != "rule 1" {
			t.Errorf("%s: got %s by %q, want %s", rule, got, v.Rule, want)
		}
	}
}

func TestReasonCodesAndMessages(t *testing.T) {
	for rule, want := range map[string]string{
		`{tools: [x]}`:                "approval_required: files/x needs a person's approval.",
		`{tools: [x], action: deny}`:  "forbidden: files/x is forbidden by policy.",
		`{tools: [x], action: allow}`: "allowed: Allowed by policy.",
		`{tools: [x], reason_code: big, message: "Run {toolName} with {args}?"}`: "big: Run {toolName} with {args}?",
	} {
		v := evaluate(t, rules(t, rule), call(t, "files/x", `{}`))
		if got := v.ReasonCode + ": " + v.Message; got != want {
			t.Errorf("%s: got %q, want %q", rule, got, want)
		}
	}
}

// A time-out is the rule's, else that of a level that is written, else default_timeout where that is
// written, else the level's own.
func TestTimeouts(t *testing.T) {
	for _, test := range []struct {
		policy  string
		rule    string
		timeout time.Duration
	}{
		{``, `risk: medium`, time.Hour},
		{``, `risk: high`, 30 * time.Minute},
		{``, `risk: critical`, 30 * time.Minute},
		{``, `risk: low`, time.Hour},
		{``, `risk: high, timeout: 5m`, 5 * time.Minute},
		{`default_timeout: 60`, `risk: high`, time.Minute},
		{`default_timeout: 60`, `risk: medium`, time.Minute},
		{`default_timeout: 60`, `risk: critical`, time.Minute},
		{`default_timeout: 2h`, `risk: high`, 2 * time.Hour},
		{`default_timeout: 60`, `risk: low`, time.Minute},
		{`default_timeout: 60`, `risk: high, timeout: 5m`, 5 * time.Minute},
		{`default_timeout: 1h, levels: {high: {timeout: 20m}}`, `risk: high`, 20 * time.Minute},
		{`default_timeout: 1h, levels: {high: {timeout: 20m}}`, `risk: critical`, time.Hour},
		{`default_timeout: 1h, levels: {high: {action: deny}}`, `risk: high`, time.Hour},
		{`levels: {high: {require_reason: true}}`, `risk: high`, 30 * time.Minute},
		{`default_timeout: "90"`, `risk: low`, 90 * time.Second},
		{`default_timeout: 1.5`, `risk: low`, 1500 * time.Millisecond},
		{`default_timeout: .5`, `risk: low`, 500 * time.Millisecond},
		{`default_timeout: 1e2`, `risk: low`, 100 * time.Second},
		{`default_timeout: 1h30m`, `risk: low`, 90 * time.Minute},
	} {
		sep := ", "
		if test.policy == "" {
			sep = ""
		}
		p := compile(t, "policy: {"+test.policy+sep+"rules: [{tools: [x], "+test.rule+"}]}")
		if v := evaluate(t, p, call(t, "x", `{}`)); v.Timeout != test.timeout {
			t.Errorf("%s with %s: got %v, want %v", test.rule, test.policy, v.Timeout, test.timeout)
		}
	}
	for policy, want := range map[string]time.Duration{``: 30 * time.Minute, `default_timeout: 60`: time.Minute,
		`default_timeout: 60, levels: {high: {}}`: time.Minute, `levels: {dangerous: {timeout: 7}}`: 7 * time.Second} {
		if v := evaluate(t, compile(t, "policy: {"+policy+"}"), call(t, "x", `{}`)); v.Timeout != want {
			t.Errorf("an unknown tool with %q: got %v, want %v", policy, v.Timeout, want)
		}
	}
}

func TestRequireReason(t *testing.T) {
	for _, test := range []struct {
		policy, rule string
		want         bool
	}{
		{``, `risk: critical`, true},
		{``, `risk: high`, false},
		{``, `risk: critical, require_reason: false`, false},
		{``, `risk: high, require_reason: true`, true},
		{`levels: {critical: {timeout: 5m}}, `, `risk: critical`, true},
		{`levels: {critical: {require_reason: false}}, `, `risk: critical`, false},
		{`levels: {L5: {require_reason: false}, caution: {require_reason: true}}, `, `risk: medium`, true},
	} {
		p := compile(t, "policy: {"+test.policy+"rules: [{tools: [x], "+test.rule+"}]}")
		if v := evaluate(t, p, call(t, "x", `{}`)); v.RequireReason != test.want {
			t.Errorf("%s with %s: got %t, want %t", test.rule, test.policy, v.RequireReason, test.want)
		}
	}
}

// terms are those that hold where a policy says nothing else.
func terms(but approval.Terms) approval.Terms {
	return approval.Terms{
		UseWithin: stdcmp.Or(but.UseWithin, 15*time.Minute), RememberDenial: stdcmp.Or(but.RememberDenial, 10*time.Minute),
		MaxPending: but.MaxPending, Group: stdcmp.Or(but.Group, approval.GroupTurn),
		GroupWithin: stdcmp.Or(but.GroupWithin, 300*time.Millisecond), JoinAfter: stdcmp.Or(but.JoinAfter, 2*time.Minute),
	}
}

func TestTerms(t *testing.T) {
	forgets, atOnce := terms(approval.Terms{UseWithin: 90 * time.Second}), terms(approval.Terms{})
	forgets.RememberDenial, atOnce.GroupWithin = 0, 0
	for policy, want := range map[string]approval.Terms{
		`mode: enforce`:                       terms(approval.Terms{}),
		`use_within: 90, remember_denial: 0`:  forgets,
		`max_pending: 20`:                     terms(approval.Terms{MaxPending: 20}),
		`remember_denial: 1h, max_pending: 0`: terms(approval.Terms{RememberDenial: time.Hour}),
		`group: call`:                         terms(approval.Terms{Group: approval.GroupCall}),
		`group: run, group_within: 10s`:       terms(approval.Terms{Group: approval.GroupRun, GroupWithin: 10 * time.Second}),
		`group_within: 0s, group: turn`:       atOnce,
		`join_after: 1h`:                      terms(approval.Terms{JoinAfter: time.Hour}),
		`join_after: 10`:                      terms(approval.Terms{JoinAfter: 10 * time.Second}),
	} {
		if got := compile(t, "policy: {"+policy+"}").Terms(); !cmp.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", policy, got, want)
		}
	}
}

func TestTools(t *testing.T) {
	for _, test := range []struct {
		pattern string
		yes, no []string
	}{
		{"read_file", []string{"read_file", "files/read_file"}, []string{"Read_file", "read_files", "xread_file"}},
		{"read_*", []string{"read_", "read_file", "any/read_x"}, []string{"read", "aread_x", "READ_x"}},
		{"*_file", []string{"_file", "read_file", "s/delete_file"}, []string{"_files", "file"}},
		{"a*b*c", []string{"abc", "aXbYc", "abbc", "abcbc"}, []string{"ac", "acb", "abcd"}},
		{"*", []string{"x", "s/x"}, nil},
		{"files/read_file", []string{"files/read_file"}, []string{"read_file", "other/read_file", "Files/read_file"}},
		{"files/*", []string{"files/a", "files/b"}, []string{"a", "file/a", "files2/a"}},
		{"f*s/*_x", []string{"files/_x", "fs/a_x"}, []string{"f/a_x", "fs/x"}},
		{"*/delete", []string{"a/delete", "b/delete", "delete"}, []string{"a/delete2"}},
		{"a.b:c-d", []string{"a.b:c-d"}, []string{"aXb:c-d"}},
		{"a?c", []string{}, []string{"abc", "ac"}},
		{"[ab]", []string{}, []string{"a", "b"}},
	} {
		p := rules(t, `{tools: ["`+test.pattern+`"], action: deny}`)
		for _, tool := range test.yes {
			if v := evaluate(t, p, call(t, tool, `{}`)); v.Action != approval.Deny {
				t.Errorf("%s does not match %s", test.pattern, tool)
			}
		}
		for _, tool := range test.no {
			if v := evaluate(t, p, call(t, tool, `{}`)); v.Action == approval.Deny {
				t.Errorf("%s matches %s", test.pattern, tool)
			}
		}
	}
}

func TestAgents(t *testing.T) {
	p := rules(t, `{tools: [x], agents: [alice, "team-*"], action: deny}`)
	for agent, want := range map[string]approval.Action{"alice": approval.Deny, "team-a": approval.Deny,
		"Alice": approval.Quarantine, "bob": approval.Quarantine, "": approval.Quarantine} {
		c := call(t, "x", `{}`)
		c.Agent = agent
		if v := evaluate(t, p, c); v.Action != want {
			t.Errorf("%q: got %s, want %s", agent, v.Action, want)
		}
	}
}

func TestManyRules(t *testing.T) {
	// More than fit the set on the stack; each tool has its own rule, its own pattern and a common one.
	var lines []string
	for i := range 700 {
		lines = append(lines, fmt.Sprintf(`{name: n%d, tools: ["t%d", "p%d_*", "s%d/*"], action: deny}`, i, i, i, i))
	}
	p := rules(t, lines...)
	for _, i := range []int{0, 1, 63, 64, 511, 512, 699} {
		for _, tool := range []string{fmt.Sprintf("t%d", i), fmt.Sprintf("p%d_x", i), fmt.Sprintf("s%d/x", i)} {
			if v := evaluate(t, p, call(t, tool, `{}`)); v.Rule != fmt.Sprintf("n%d", i) {
				t.Errorf("%s: decided by %q, want n%d", tool, v.Rule, i)
			}
		}
	}
}
