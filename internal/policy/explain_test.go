package policy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExplain(t *testing.T) {
	p := rules(t,
		`{name: reading, tools: [read_file, "list_*"], risk: low}`,
		`{tools: [write_file], agents: [alice], action: allow}`,
		`{tools: [write_file], conditions: [{param: mode, equals: w}, {param: path, under: [/etc, /root]}]}`,
		`{tools: [write_file], conditions: [{param: size, gt: 10, lt: 100}]}`,
		`{tools: [write_file], conditions: [{param: owner, in: [root, 0]}]}`,
		`{tools: [write_file], when: 'has(args.force) && args.force'}`,
		`{name: text, tools: ["*"], conditions: [{param: path, matches: "x$"}], action: deny}`,
		`{name: last, tools: ["files/*"]}`)
	for _, test := range []struct {
		tool, args string
		why        []string // of each rule, and of what holds otherwise
		reason     string
	}{
		{"files/write_file", `{"mode":"w","path":"/tmp/\u3164x","size":100}`, []string{
			"tool files/write_file is not among read_file, list_*",
			`agent "bot" is not among alice`,
			`condition 2 did not match: path "/tmp/⟨U+3164⟩x" is not under /etc, /root`,
			"condition 1 did not match: size 100 is not < 100",
			"condition 1 did not match: there is no owner",
			"when did not hold: has(args.force) && args.force",
			"matched",
			"an earlier rule decided",
			"a rule decided",
		}, ""},
		{"write_file", `{"mode":"w","path":"x"}`, []string{
			"tool write_file is not among read_file, list_*",
			`agent "bot" is not among alice`,
			`matched; path "x" cannot be placed, so it counts as under every folder`,
			"condition 1 did not match: there is no size",
			"condition 1 did not match: there is no owner",
			"when did not hold: has(args.force) && args.force",
			"matched",
			"an earlier rule decided",
			"a rule decided",
		}, "path cannot be placed: what is strictest of the rules that it may concern holds"},
		{"write_file", `{"mode":"r","owner":7,"path":"/"}`, []string{
			"tool write_file is not among read_file, list_*",
			`agent "bot" is not among alice`,
			`condition 1 did not match: mode "r" does not equal "w"`,
			"condition 1 did not match: there is no size",
			`condition 1 did not match: owner 7 is not one of "root", 0`,
			"when did not hold: has(args.force) && args.force",
			`condition 1 did not match: path "/" does not match "x$"`,
			"tool write_file is not among files/*",
			"no rule matched",
		}, ""},
		{"write_file", `{"mode":7}`, []string{
			"tool write_file is not among read_file, list_*",
			`agent "bot" is not among alice`,
			`condition 1: "mode" is a number where the rule needs text`,
			"an earlier rule decided", "an earlier rule decided", "an earlier rule decided", "an earlier rule decided",
			"an earlier rule decided",
			"a rule decided",
		}, ""},
		{"list_x", `{"a":1,"A":2}`, []string{
			"matched",
			"an earlier rule decided", "an earlier rule decided", "an earlier rule decided", "an earlier rule decided",
			"an earlier rule decided", "an earlier rule decided", "an earlier rule decided",
			"a rule decided",
		}, "no rule can allow arguments whose names differ only in letter case"},
	} {
		c := call(t, test.tool, test.args)
		evaluate(t, p, c)
		x := p.Explain(c)
		var why []string
		for _, s := range x.Steps {
			why = append(why, s.Why)
		}
		if diff := cmp.Diff(test.why, why); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.tool, test.args, diff)
		}
		if x.Reason != test.reason {
			t.Errorf("%s %s: reason %q, want %q", test.tool, test.args, x.Reason, test.reason)
		}
	}
}

func TestRules(t *testing.T) {
	p := compile(t, designExample)
	got, err := json.MarshalIndent(append(p.Rules(), p.Otherwise()), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `[
 {
  "number": 1,
  "name": "reading",
  "tools": [
   "read_file",
   "list_files",
   "web_search"
  ],
  "action": "allow",
  "risk_level": "low",
  "timeout": "1h",
  "require_reason": false,
  "reason_code": "allowed",
  "path": "$.policy.rules[0]",
  "line": 8,
  "column": 7
 },
 {
  "number": 2,
  "name": "rule 2",
  "tools": [
   "transfer_credits"
  ],
  "agents": [
   "treasury-bot"
  ],
  "when": "args.amount_cents \u003e= 1000",
  "action": "quarantine",
  "risk_level": "high",
  "timeout": "1h",
  "require_reason": false,
  "reason_code": "over_threshold",
  "message": "Transfer exceeds the confirmation threshold ($10)",
  "path": "$.policy.rules[1]",
  "line": 12,
  "column": 7
 },
 {
  "number": 3,
  "name": "rule 3",
  "tools": [
   "write_file"
  ],
  "conditions": [
   "path is under /etc, /sys, /root"
  ],
  "action": "quarantine",
  "risk_level": "critical",
  "timeout": "30m",
  "require_reason": true,
  "reason_code": "approval_required",
  "ignore_args": [
   "description"
  ],
  "path": "$.policy.rules[2]",
  "line": 19,
  "column": 7
 },
 {
  "number": 0,
  "name": "",
  "tools": [],
  "action": "quarantine",
  "risk_level": "high",
  "timeout": "30m",
  "require_reason": false,
  "reason_code": "unknown_tool"
 }
]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
