package policy

import (
	"strings"
	"testing"

	"countersign/approval"
)

func TestConditions(t *testing.T) {
	const yes, no, fault = "match", "no match", "policy_error"
	for _, test := range []struct{ condition, args, want string }{
		{`{param: p, matches: "^/etc/"}`, `{"p":"/etc/x"}`, yes},
		{`{param: p, matches: "etc"}`, `{"p":"/tmp/etc/x"}`, yes},
		{`{param: p, matches: "^etc"}`, `{"p":"/etc"}`, no},
		{`{param: p, matches: "a.c"}`, `{"p":"\u0061\nc"}`, no},
		{`{param: p, matches: "é$"}`, `{"p":"caf\u00e9"}`, yes},
		{`{param: p, matches: "x"}`, `{}`, no},
		{`{param: p, matches: "x"}`, `{"P":"x"}`, yes}, // a tool may take it for p
		{`{param: p, matches: "x"}`, `{"P":"y"}`, no},
		{`{param: p, matches: "1"}`, `{"p":1}`, fault},
		{`{param: p, matches: "x"}`, `{"p":null}`, fault},
		{`{param: p, matches: "x"}`, `{"p":["x"]}`, fault},

		{`{param: p.q, equals: 1}`, `{"p":{"q":1}}`, yes},
		{`{param: p.q, equals: 1}`, `{"p.q":1}`, yes},
		{`{param: p.q, equals: 1}`, `{"p":{"r":1}}`, no},
		{`{param: p.q, equals: 1}`, `{"p":1}`, no},
		{`{param: p.1.q, equals: 1}`, `{"p":[0,{"q":1}]}`, yes},
		{`{param: p.2, equals: 1}`, `{"p":[0]}`, no},

		{`{param: p, equals: a}`, `{"p":"a"}`, yes},
		{`{param: p, equals: a}`, `{"p":"A"}`, no},
		{`{param: p, equals: "é"}`, `{"p":"\u00e9"}`, yes},
		{`{param: p, equals: ""}`, `{"p":""}`, yes},
		{`{param: p, equals: "1"}`, `{"p":"1"}`, yes},
		{`{param: p, equals: "1"}`, `{"p":1}`, fault},
		{`{param: p, equals: 1}`, `{"p":"1"}`, fault},
		{`{param: p, equals: 1}`, `{"p":1.0}`, yes},
		{`{param: p, equals: 1}`, `{"p":10e-1}`, yes},
		{`{param: p, equals: 1000}`, `{"p":1e3}`, yes},
		{`{param: p, equals: 1e3}`, `{"p":1000}`, yes},
		{`{param: p, equals: 1.10}`, `{"p":1.1}`, yes},
		{`{param: p, equals: 0}`, `{"p":-0.0}`, yes},
		{`{param: p, equals: 9007199254740993}`, `{"p":9007199254740992}`, no},
		{`{param: p, equals: 9007199254740993}`, `{"p":9007199254740993}`, yes},
		{`{param: p, equals: 123456789012345678901234567890}`, `{"p":123456789012345678901234567890}`, yes},
		{`{param: p, equals: 123456789012345678901234567890}`, `{"p":123456789012345678901234567891}`, no},
		{`{param: p, equals: 1E400}`, `{"p":1E400}`, yes},
		{`{param: p, equals: 1E400}`, `{"p":1E401}`, no},
		{`{param: p, equals: true}`, `{"p":true}`, yes},
		{`{param: p, equals: true}`, `{"p":false}`, no},
		{`{param: p, equals: false}`, `{"p":false}`, yes},
		{`{param: p, equals: true}`, `{"p":"true"}`, fault},
		{`{param: p, equals: true}`, `{"p":1}`, fault},
		{`{param: p, equals: null}`, `{"p":null}`, yes},
		{`{param: p, equals: null}`, `{"p":0}`, no},
		{`{param: p, equals: null}`, `{}`, no},
		{`{param: p, equals: [1, {a: b}]}`, `{"p":[1.0,{"a":"b"}]}`, yes},
		{`{param: p, equals: [1, {a: b}]}`, `{"p":[{"a":"b"},1]}`, no},
		{`{param: p, equals: {a: 1, b: [x]}}`, `{"p":{"b":["x"],"a":1e0}}`, yes},
		{`{param: p, equals: {a: 1}}`, `{"p":{"a":1,"b":2}}`, no},
		{`{param: p, equals: {a: 1}}`, `{"p":{"a":"1"}}`, no},
		{`{param: p, equals: {a: 1}}`, `{"p":{"a":1e9999999999999999999999}}`, fault},
		{`{param: p, equals: {a: 1}}`, `{"p":[1]}`, fault},
		{`{param: p, equals: yes}`, `{"p":"yes"}`, yes},
		{`{param: p, equals: 2020-01-01}`, `{"p":"2020-01-01"}`, yes},
		{`{param: p, equals: !!str 12}`, `{"p":"12"}`, yes},

		{`{param: p, in: [a, b]}`, `{"p":"b"}`, yes},
		{`{param: p, in: [a, b]}`, `{"p":"c"}`, no},
		{`{param: p, in: [a, 1, null]}`, `{"p":1.0}`, yes},
		{`{param: p, in: [a, 1, null]}`, `{"p":null}`, yes},
		{`{param: p, in: [a, 1, null]}`, `{"p":true}`, fault},
		{`{param: p, in: [[1], [2]]}`, `{"p":[2]}`, yes},
		{`{param: p, in: [a]}`, `{}`, no},

		{`{param: p, gt: 10}`, `{"p":10.000000000000000000001}`, yes},
		{`{param: p, gt: 10}`, `{"p":10}`, no},
		{`{param: p, gte: 10}`, `{"p":10.0}`, yes},
		{`{param: p, gte: 10}`, `{"p":9.999999999999999999999}`, no},
		{`{param: p, lt: 10}`, `{"p":9.999999999999999999999}`, yes},
		{`{param: p, lt: 10}`, `{"p":1e1}`, no},
		{`{param: p, lte: 10}`, `{"p":10}`, yes},
		{`{param: p, lte: 10}`, `{"p":11}`, no},
		{`{param: p, gt: -5}`, `{"p":-4}`, yes},
		{`{param: p, gt: -5}`, `{"p":-50}`, no},
		{`{param: p, lt: 0.1}`, `{"p":0.09999999999999999999999999}`, yes},
		{`{param: p, gt: 9007199254740992}`, `{"p":9007199254740993}`, yes},
		{`{param: p, gt: 123456789012345678901234567890}`, `{"p":123456789012345678901234567891}`, yes},
		{`{param: p, gt: 1}`, `{"p":1e999999999}`, yes},
		{`{param: p, gt: 1}`, `{"p":-1e999999999}`, no},
		{`{param: p, lt: 1}`, `{"p":1e-999999999}`, yes},
		{`{param: p, gt: 1e999999998}`, `{"p":1e999999999}`, yes},
		{`{param: p, gt: 1}`, `{"p":0e99999999999999999999999}`, no},
		{`{param: p, gt: 1}`, `{"p":1e99999999999999999999999}`, fault},
		{`{param: p, gt: "1.5"}`, `{"p":2}`, yes},
		{`{param: p, gt: 1}`, `{"p":"2"}`, fault},
		{`{param: p, gt: 1}`, `{"p":null}`, fault},
		{`{param: p, gt: 1}`, `{}`, no},
		{`{param: p, gt: 1, lt: 10}`, `{"p":5}`, yes},
		{`{param: p, gt: 1, lt: 10}`, `{"p":10}`, no},

		{`{param: p, under: /etc}`, `{"p":"/etc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/etc/"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/etc/passwd"}`, yes},
		{`{param: p, under: /etc/}`, `{"p":"/etc/passwd"}`, yes},
		{`{param: p, under: //etc/./ssl/}`, `{"p":"/etc/ssl/x"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"//etc//passwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/./etc/./passwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/etcetera"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/tmp/etc"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/ETC/passwd"}`, no},
		{`{param: p, under: /}`, `{"p":"/tmp"}`, yes},
		{`{param: p, under: /}`, `{"p":"/"}`, yes},
		{`{param: p, under: [/etc, /root]}`, `{"p":"/root/.ssh"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"passwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":""}`, yes},
		{`{param: p, under: /etc}`, `{"p":"."}`, yes},
		{`{param: p, under: /etc}`, `{"p":"~/x"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/../etc/passwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/.."}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/..x/...y"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/tmp/..x/...."}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/x ./y"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/x /y"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/proc/self/root/etc/passwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"//proc/./self//root/etc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/PROC/1/cwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/proc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/host/proc/12/root/etc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/host/Proc/thread-self/root"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/srv/proc/main.go"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/procedures/1"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/dev/fd/3"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/dev/./FD/3"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/dev/stdin"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/dev/stderr"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/dev/null"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/.vol/16777220/2"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/System/Volumes/Data/etc"}`, yes},
		{`{param: p, under: /proc}`, `{"p":"/proc/cpuinfo"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/%2e%2E/etc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp%2fx"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/100%/a%20b"}`, no},
		{`{param: p, under: /etc}`, `{"p":"FILE:///etc/passwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/e?c/passwd"}`, yes},
		{`{param: p, under: /etc/ssl}`, `{"p":"/etc/*/x"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/{etc,x}/passwd"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/srv/[slug]/$id.tsx"}`, no},
		{`{param: p, under: /etc}`, `{"p":"/etc/*"}`, yes},

		{`{param: [p, q], equals: 1}`, `{"q":1}`, yes},
		{`{param: [p, q], equals: 1}`, `{"p":2,"q":1}`, yes},
		{`{param: [p, q], equals: 1}`, `{"p":1,"q":2}`, yes},
		{`{param: [p, q], equals: 1}`, `{"p":2,"q":2}`, no},
		{`{param: [p, q], equals: 1}`, `{"r":1}`, no},
		{`{param: [p, q], equals: 1}`, `{"p":1,"q":"x"}`, fault},
		{`{param: [p, P], equals: 1}`, `{"P":1}`, yes},
		{`{param: [p, P], equals: 1}`, `{"P":2}`, no},
		{`{param: p, under: /etc}`, `{"p":"/tmp\\..\\etc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"C:\\etc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"file:///tmp"}`, yes},
		{`{param: p, under: /etc}`, `{"p":" /tmp"}`, yes},
		{`{param: p, under: /etc}`, `{"p":"/tmp/x\u0000/etc"}`, yes},
		{`{param: p, under: /etc}`, `{"p":7}`, fault},
		{`{param: p, under: /etc}`, `{"p":["/etc"]}`, fault},
		{`{param: p, under: /etc}`, `{}`, no},

		{`{param: p, matches: passwd, under: /etc}`, `{"p":"/etc/passwd"}`, yes},
		{`{param: p, matches: passwd, under: /etc}`, `{"p":"/etc/hosts"}`, no},
		{`{param: p, equals: 1}, {param: q, equals: 2}`, `{"p":1,"q":2}`, yes},
		{`{param: p, equals: 1}, {param: q, equals: 2}`, `{"p":1,"q":3}`, no},
		{`{param: p, equals: 1}, {param: q, equals: 2}`, `{"p":2,"q":"x"}`, no},
		{`{param: p, equals: 1}, {param: q, equals: 2}`, `{"p":1,"q":"x"}`, fault},
	} {
		p := rules(t, `{name: r, tools: [x], action: deny, reason_code: match, conditions: [`+test.condition+`]}`)
		v := evaluate(t, p, call(t, "x", test.args))
		got := v.ReasonCode
		if v.Rule == "" {
			got = no
		}
		if got != test.want {
			t.Errorf("%s with %s: got %s, want %s", test.condition, test.args, got, test.want)
		}
	}
}

// A path that cannot be placed counts as under every folder. That must restrict only: a rule that
// allows a folder must not be reached by climbing out of it.
func TestRule1_UnplacedPathIsNeverAllowed(t *testing.T) {
	p := rules(t,
		`{tools: [w], action: allow, risk: medium, conditions: [{param: path, under: /srv}]}`,
		`{tools: [q], risk: medium, message: Mine., conditions: [{param: path, under: /srv}]}`,
		`{tools: [d], action: deny, conditions: [{param: path, under: /srv}]}`,
		`{tools: [both], action: allow, conditions: [{param: path, under: /srv}, {param: path, matches: "^/srv/pub/"}]}`,
		`{tools: [c], risk: critical, message: Mine., ignore_args: [note], conditions: [{param: path, under: /srv}]}`,
		`{tools: [n], action: allow, conditions: [{param: path, under: /srv}]}`,
		`{tools: [n], action: deny}`)
	if v := evaluate(t, p, call(t, "w", `{"path":"/srv/x"}`)); v.Action != approval.Allow {
		t.Errorf("inside: got %+v", v)
	}
	for _, path := range []string{"../etc/passwd", "/srv/../etc/passwd", "x", "", "~", `/srv\\..\\..`} {
		args := `{"path":"` + path + `"}`
		v := evaluate(t, p, call(t, "w", args))
		if v.Action != approval.Quarantine || v.ReasonCode != "ambiguous_path" || v.Risk != approval.RiskHigh ||
			v.Rule != "rule 1" {
			t.Errorf("%s: got %+v, want it quarantined as ambiguous_path", args, v)
		}
		if want := `It is not certain where the path in "path" lies, so a person must approve w.`; v.Message != want {
			t.Errorf("%s: message %q, want %q", args, v.Message, want)
		}
		if v := evaluate(t, p, call(t, "q", args)); v.Action != approval.Quarantine || v.ReasonCode != "unknown_tool" ||
			v.Risk != approval.RiskHigh {
			t.Errorf("%s: got %+v, want what is asked of a path outside, which is stricter", args, v)
		}
		if v := evaluate(t, p, call(t, "c", args)); v.Action != approval.Quarantine || v.Message != "Mine." ||
			v.Risk != approval.RiskCritical || len(v.IgnoreArgs) != 0 {
			t.Errorf("%s: got %+v, want the rule's own word", args, v)
		}
		if v := evaluate(t, p, call(t, "n", args)); v.Action != approval.Deny || v.Rule != "rule 7" {
			t.Errorf("%s: got %+v, want the denial of what is outside", args, v)
		}
		if v := evaluate(t, p, call(t, "d", args)); v.Action != approval.Deny {
			t.Errorf("%s: got %+v, want a denial", args, v)
		}
	}
	if v := evaluate(t, p, call(t, "both", `{"path":"/srv/pub/../x"}`)); v.Action != approval.Quarantine ||
		v.ReasonCode != "ambiguous_path" {
		t.Errorf("both: got %+v, want it quarantined as ambiguous_path", v)
	}
	// What an earlier rule found uncertain does not hang over a later one.
	p = rules(t,
		`{tools: [w], action: deny, conditions: [{param: path, under: /srv}, {param: force, equals: true}]}`,
		`{tools: [w], action: allow}`)
	if v := evaluate(t, p, call(t, "w", `{"path":"x"}`)); v.Action != approval.Allow {
		t.Errorf("later rule: got %+v, want allow", v)
	}
}

func TestWhen(t *testing.T) {
	const yes, no, fault = "match", "no match", "policy_error"
	for _, test := range []struct{ when, args, want string }{
		{`tool == "x" && server == "s" && agent == "bot" && scope == "/work" && session_id == "s1"`, `{}`, yes},
		{`args.amount >= 1000`, `{"amount":1000}`, yes},
		{`args.amount >= 1000`, `{"amount":999}`, no},
		{`args.amount >= 1000`, `{"amount":1000.0}`, yes},
		{`args.amount >= 1000`, `{"amount":1000.00}`, yes},
		{`args.amount >= 1000`, `{"amount":999.99}`, no},
		{`args.amount >= 1000`, `{"amount":1000.01}`, yes},
		{`args.amount >= 1000`, `{"amount":1e3}`, yes},
		{`args.amount >= 1000`, `{"amount":1E+3}`, yes},
		{`args.amount >= 1000`, `{"amount":9.99e2}`, no},
		{`args.amount >= 1000`, `{"amount":-1e3}`, no},
		{`args.amount >= 1000`, `{"amount":9223372036854775807}`, yes},
		{`args.amount >= 1000`, `{"amount":9223372036854775808}`, yes},
		{`args.amount >= 1000`, `{"amount":18446744073709551615}`, yes},
		{`args.amount >= 1000`, `{"amount":18446744073709551616}`, fault},
		{`args.amount >= 1000`, `{"amount":-9223372036854775808}`, no},
		{`args.amount >= 1000`, `{"amount":-9223372036854775809}`, fault},
		{`args.amount >= 1000`, `{"amount":123456789012345678901234567890}`, fault},
		{`args.amount >= 1000`, `{"amount":1e30}`, fault},
		{`args.amount >= 1000`, `{"amount":1e999999999}`, fault},
		{`args.amount >= 1000`, `{"amount":1e99999999999999999999}`, fault},
		{`args.amount >= 1000`, `{"amount":999.99999999999999999999}`, fault},
		{`args.amount >= 1000`, `{"amount":"1000"}`, fault},
		{`args.amount >= 1000`, `{"amount":null}`, fault},
		{`args.amount >= 1000`, `{}`, fault},
		{`1000 <= args.amount`, `{"amount":1000.0}`, yes},
		{`args.amount == 1000`, `{"amount":1000.0}`, yes},
		{`1000 == args.amount`, `{"amount":1e3}`, yes},
		{`args.amount == 0`, `{"amount":-0.0}`, yes},
		{`args.amount == 9007199254740993`, `{"amount":9007199254740992}`, no},
		{`args.amount == 9007199254740993`, `{"amount":9007199254740993}`, yes},
		{`args.amount > 9007199254740992`, `{"amount":9007199254740993}`, yes},
		{`args.amount > 9007199254740992`, `{"amount":9007199254740993.0}`, yes},
		{`args.amount > 9007199254740992`, `{"amount":9007199254740992.5}`, fault},
		{`args.amount > 0.1`, `{"amount":0.1}`, no},
		{`args.amount > 0.1`, `{"amount":0.10000000000000001}`, fault},
		{`args.amount >= 0.1`, `{"amount":0.30000000000000004}`, yes},
		{`args.amount > -1.5`, `{"amount":-1.25}`, yes},
		{`args.amount > 1.5e2`, `{"amount":151}`, yes},
		{`args.amount > 1000.0`, `{"amount":9223372036854775807}`, yes},
		{`has(args.amount) && args.amount > 1`, `{}`, no},
		{`has(args.amount) && args.amount > 1`, `{"amount":2}`, yes},
		{`has(args.a.b)`, `{"a":{}}`, no},
		{`has(args.a.b)`, `{"a":{"b":null}}`, yes},
		{`has(args.a.b)`, `{}`, fault},
		{`"amount" in args`, `{"amount":2}`, yes},
		{`"amount" in args`, `{}`, no},
		{`args.?amount.orValue(0) > 1`, `{}`, no},
		{`args.?amount.orValue(0) > 1`, `{"amount":2}`, yes},
		{`args.?a.?b.orValue(0) > 1`, `{"a":{"b":2}}`, yes},
		{`args["a.b"] == 1`, `{"a.b":1,"a":{"b":2}}`, yes},
		{`args["a.b"] == 1`, `{"a":{"b":1}}`, fault},
		{`args.a.b == 2`, `{"a.b":1,"a":{"b":2}}`, yes},
		{`size(args) == 2`, `{"a":1,"b":2}`, yes},
		{`args == {"a": 1}`, `{"a":1.0}`, yes},
		{`args == args`, `{"a":1.0}`, yes},
		{`{"a": 1} == args`, `{"a":1.0}`, yes},
		{`args != {"a": 1}`, `{"a":123456789012345678901234567890}`, yes},
		{`args.exists(k, k.startsWith("x"))`, `{"xa":1}`, yes},
		{`args.all(k, args[k] > 0)`, `{"a":1,"b":2.5}`, yes},
		{`args.all(k, args[k] > 0)`, `{"a":1,"b":123456789012345678901234567890}`, fault},
		{`args.to.exists(a, a.amount > 9007199254740992)`, `{"to":[{"amount":1},{"amount":9007199254740993}]}`, yes},
		{`args.to.exists(a, a.amount > 9007199254740992)`, `{"to":[{"amount":1},{"amount":9007199254740992}]}`, no},
		{`args.to[1].amount == 9007199254740993`, `{"to":[{"amount":1},{"amount":9007199254740993}]}`, yes},
		{`args.to[2].amount == 1`, `{"to":[]}`, fault},
		{`args.to.map(a, a.n) == [1, 2]`, `{"to":[{"n":1.0},{"n":2}]}`, yes},
		{`5 in args.l`, `{"l":[1,5.0]}`, yes},
		{`5 in args.l`, `{"l":[1,"5"]}`, no},
		{`args.n in [1, 2.5]`, `{"n":2.5}`, yes},
		// What cannot be represented still equals nothing else; its order is not known.
		{`args.n in [1, 2.5]`, `{"n":123456789012345678901234567890}`, no},
		{`args.n == 1`, `{"n":123456789012345678901234567890}`, no},
		{`args.n != 1`, `{"n":123456789012345678901234567890}`, yes},
		{`type(args.n) == string`, `{"n":123456789012345678901234567890}`, no},
		{`type(args.n) != double || args.n < 5`, `{"n":123456789012345678901234567890}`, fault},
		{`args.n == args.m`, `{"n":123456789012345678901234567890,"m":12345678901234567890123456789e1}`, yes},
		{`args.n == args.m`, `{"n":123456789012345678901234567890,"m":123456789012345678901234567891}`, no},
		{`args.l == [1, 2]`, `{"l":[1,123456789012345678901234567890]}`, no},
		{`args.l[1] > 2`, `{"l":[1,123456789012345678901234567890]}`, fault},
		{`args.o.n > 2`, `{"o":{"n":123456789012345678901234567890}}`, fault},
		{`2 < args.o.n`, `{"o":{"n":123456789012345678901234567890}}`, fault},
		{`args.n + 1 > 2`, `{"n":123456789012345678901234567890}`, fault},
		{`int(args.n) > 2`, `{"n":123456789012345678901234567890}`, fault},
		{`args == {"a": 1}`, `{"a":123456789012345678901234567890}`, no},
		{`args.s.matches("(?i)rm +-rf")`, `{"s":"sudo RM  -rf /"}`, yes},
		{`args.s.contains("é")`, `{"s":"caf\u00e9"}`, yes},
		{`args.s.startsWith("a")`, `{"s":1}`, fault},
		{`args.x == null`, `{"x":null}`, yes},
		{`args.b`, `{"b":true}`, yes},
		{`args.b`, `{"b":1}`, fault},
		{`type(args.n) == int`, `{"n":1.0}`, yes},
		{`args.missing || true`, `{}`, yes},
		{`args.missing || false`, `{}`, fault},
		// A number that the expression does not ask for does no harm.
		{`args.a == 1`, `{"a":1,"b":123456789012345678901234567890}`, yes},
	} {
		p := rules(t, `{name: r, tools: [x], action: deny, reason_code: match, when: '`+strings.ReplaceAll(test.when, "'",
			"''")+`'}`)
		v := evaluate(t, p, call(t, "s/x", test.args))
		got := v.ReasonCode
		if v.Rule == "" {
			got = no
		}
		if got != test.want {
			t.Errorf("%s with %s: got %s, want %s (%s)", test.when, test.args, got, test.want, v.Message)
		}
	}
}

// Expressions of the usual kinds give no warning about their cost.
func TestWhenUsualExpressionsAreNotWarnedOf(t *testing.T) {
	for _, when := range []string{
		`args.amount_cents >= 1000`,
		`has(args.path) && (args.path.startsWith("/etc/") || args.path.matches("^/(sys|root)(/|$)"))`,
		`args.recipients.exists(r, !r.endsWith("@example.com"))`,
		`size(args.recipients) > 10 || args.subject.contains("invoice")`,
		`args.currency in ["eur", "usd"] && args.amount > 10000 && !args.dry_run`,
		`args.all(k, k in ["path", "mode"])`,
	} {
		if _, problems := compileWhen(when); len(problems) > 0 {
			t.Errorf("%s: %v", when, problems)
		}
	}
}
