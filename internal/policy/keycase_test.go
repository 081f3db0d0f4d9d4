package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"countersign/approval"
	"countersign/approval/args"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// A rule sees an argument whatever the letter case of its name: what it would deny stays denied, and nothing
// is allowed.
func TestRule3_AKeyInAnotherCaseGetsRoundNoRule(t *testing.T) {
	for _, test := range []struct{ rule, exact, other string }{
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/passwd"}`, `{"Path":"/etc/passwd"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/passwd"}`, `{"PATH":"/etc/passwd","mode":"r"}`},
		{`conditions: [{param: filePath, under: /etc}]`, `{"filePath":"/etc/passwd"}`, `{"filepath":"/etc/passwd"}`},
		{`conditions: [{param: tokens, gt: 5}]`, `{"tokens":6}`, `{"to\u212aens":6}`},     // the Kelvin sign
		{`conditions: [{param: tokens, gt: 5}]`, `{"tokens":6}`, `{"token\u017f":6}`},     // the long s
		{`conditions: [{param: "größe", gt: 5}]`, `{"größe":6}`, `{"GR\u00d6\u1e9eE":6}`}, // what is not ASCII folds too
		{`conditions: [{param: file.path, equals: x}]`, `{"file":{"path":"x"}}`, `{"file":{"Path":"x"}}`},
		{`conditions: [{param: file.path, equals: x}]`, `{"file":{"path":"x"}}`, `{"File":{"path":"x"}}`},
		{`conditions: [{param: file.path, equals: x}]`, `{"file":{"path":"x"}}`, `{"FILE":{"PATH":"x"}}`},
		{`conditions: [{param: file.path, equals: x}]`, `{"file.path":"x"}`, `{"file.Path":"x"}`},
		{`conditions: [{param: files.1.path, equals: x}]`, `{"files":[0,{"path":"x"}]}`, `{"files":[0,{"Path":"x"}]}`},
		{`conditions: [{param: to, equals: {name: {last: x}}}]`, `{"to":{"name":{"last":"x"}}}`,
			`{"to":{"name":{"Last":"x"}}}`},
		{`conditions: [{param: to, in: [[{name: x}]]}]`, `{"to":[{"name":"x"}]}`, `{"to":[{"Name":"x"}]}`},
		{`conditions: [{param: [path, file_path], under: /etc}]`, `{"file_path":"/etc/x"}`, `{"File_Path":"/etc/x"}`},
		{`when: has(args.amount) && args.amount > 5`, `{"amount":6}`, `{"Amount":6}`},
		{`when: "'amount' in args && args['amount'] > 5"`, `{"amount":6}`, `{"Amount":6}`},
		{`when: "args.?amount.orValue(0) > 5"`, `{"amount":6}`, `{"AMOUNT":6}`},
		{`when: "args[?'amount'].orValue(0) > 5"`, `{"amount":6}`, `{"AMOUNT":6}`},
		{`when: "has(args.order) && has(args.order.sum) && args.order.sum > 5"`, `{"order":{"sum":6}}`,
			`{"order":{"Sum":6}}`},
		{`when: "args.?order.?sum.orValue(0) > 5"`, `{"order":{"sum":6}}`, `{"Order":{"sum":6}}`},
		{`when: "args.?order.orValue({}).?sum.orValue(0) > 5"`, `{"order":{"sum":6}}`, `{"order":{"SUM":6}}`},
		{`when: "has(args.to) && args.to.exists(x, has(x.sum) && x.sum > 5)"`, `{"to":[{"sum":6}]}`, `{"to":[{"Sum":6}]}`},
		{`when: "has(args.to) && args.to.filter(x, has(x.sum)).exists(x, x.sum > 5)"`, `{"to":[{"sum":6}]}`,
			`{"to":[{"Sum":6}]}`},
		{`when: "has(args.to) && args.to.map(x, x.from).exists(x, has(x.sum))"`, `{"to":[{"from":{"sum":6}}]}`,
			`{"to":[{"from":{"Sum":6}}]}`},
		{`when: "['path', 'file'].exists(k, k in args && args[k] == 'x')"`, `{"file":"x"}`, `{"File":"x"}`},
		{`when: "args[has(args.x) ? 'x' : 'y'] == 1"`, `{"x":1,"y":2}`, `{"X":1,"y":2}`},
		{`when: "args == {'path': 'x'}"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "has(args.to) && args.to == {'path': {'of': 'x'}}"`, `{"to":{"path":{"of":"x"}}}`,
			`{"to":{"path":{"Of":"x"}}}`},
		{`when: "(has(args.a) ? args.a : args).?sum.orValue(0) > 5"`, `{"sum":6}`, `{"Sum":6}`},
		{`when: "[args][0].?sum.orValue(0) > 5"`, `{"sum":6}`, `{"Sum":6}`},
	} {
		p := rules(t, `{name: never, tools: [x], action: deny, `+test.rule+`}`, `{tools: [x], action: allow}`)
		if v := evaluate(t, p, call(t, "x", test.exact)); v.Action != approval.Deny {
			t.Fatalf("%s with %s: got %+v, want a denial", test.rule, test.exact, v)
		}
		if v := evaluate(t, p, call(t, "x", test.other)); v.Action != approval.Deny {
			t.Errorf("%s with %s: got %s (%s), want a denial", test.rule, test.other, v.Action, v.ReasonCode)
		}
		p = rules(t, `{name: asked, tools: [x], risk: critical, timeout: 5m, ignore_args: [note], `+test.rule+`}`,
			`{tools: [x], action: allow}`)
		v := evaluate(t, p, call(t, "x", test.other))
		if v.Action != approval.Quarantine || v.ReasonCode != "ambiguous_args" || v.Risk != approval.RiskCritical ||
			v.Rule != "asked" ||
			!v.RequireReason || v.Timeout != 5*time.Minute || v.IgnoreArgs != nil {
			t.Errorf("%s with %s: got %+v, want what the rule asks", test.rule, test.other, v)
		}
		if x := p.Explain(call(t, "x", test.other)); x.ReasonCode != v.ReasonCode || !strings.Contains(x.Reason,
			"no rule can allow arguments that have ") {
			t.Errorf("%s with %s: explained by %q", test.rule, test.other, x.Reason)
		}
	}
}

// More ways of asking for a key, of nesting it, and of writing numbers and paths: each denies what it denies, however
// it is spelt.
func TestRule3_NoSpellingGetsRoundADenial(t *testing.T) {
	for _, test := range []struct{ rule, exact, other string }{
		{`when: "'pa'+'th' in args && args['pa'+'th'] == 'x'"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "has(args.path) && args['pa'+'th'] == 'x'"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "dyn(args).?path.orValue('') == 'x'"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "args.?l.orValue([]).exists(e, e.?a.?b.orValue('') == 'x')"`, `{"l":[{"a":{"b":"x"}}]}`,
			`{"l":[{"a":{"B":"x"}}]}`},
		{`when: "args.?l.orValue([]).exists(e, e.?a.?b.orValue('') == 'x')"`, `{"l":[{"a":{"b":"x"}}]}`,
			`{"L":[{"A":{"b":"x"}}]}`},
		{`when: "args.?l.orValue([]).all(e, e.?p.orValue('') == 'x')"`, `{"l":[{"p":"x"}]}`, `{"l":[{"P":"x"}]}`},
		{`when: "has(args.l) && args.l.exists_one(e, has(e.p))"`, `{"l":[{"p":"x"}]}`, `{"l":[{"P":"x"}]}`},
		{`when: "has(args.path) && args.path.matches('^x')"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "has(args.a) && has(args.a.b) && has(args.a.b.c)"`, `{"a":{"b":{"c":1}}}`, `{"a":{"b":{"C":1}}}`},
		{`when: "has(args.a) ? has(args.a.path) : has(args.b)"`, `{"b":1}`, `{"B":1}`},
		{`when: "[args.?path.orValue(''), args.?file.orValue('')].exists(p, p == 'x')"`, `{"file":"x"}`, `{"FILE":"x"}`},
		{`when: "{'v': args}.v.?path.orValue('') == 'x'"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "[args, args].map(a, a.?path.orValue(''))[0] == 'x'"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "args.?l.orValue([{}])[0].?path.orValue('') == 'x'"`, `{"l":[{"path":"x"}]}`, `{"l":[{"Path":"x"}]}`},
		{`when: "args.exists(k, k == 'x' ? false : args[k] == {'path': 'x'})"`, `{"to":{"path":"x"}}`, `{"to":{"Path":"x"}}`},
		{`when: "{'path':'x'} in [args]"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "args.?to.orValue(0) in [{'path':'x'}]"`, `{"to":{"path":"x"}}`, `{"to":{"Path":"x"}}`},
		{`when: "optional.of(args).value().?path.orValue('') == 'x'"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`when: "args.?to.optMap(t, t.?path.orValue('')).orValue('') == 'x'"`, `{"to":{"path":"x"}}`, `{"to":{"Path":"x"}}`},
		{`when: "args.?to.optFlatMap(t, t.?path).orValue('') == 'x'"`, `{"to":{"path":"x"}}`, `{"to":{"Path":"x"}}`},
		{`when: "args[?('pa' + 'th')].orValue('') == 'x'"`, `{"path":"x"}`, `{"Path":"x"}`},
		{`conditions: [{param: [a.b, c], under: /etc}]`, `{"a":{"b":"/etc/x"}}`, `{"A":{"b":"/etc/x"}}`},
		{`conditions: [{param: [a.b, c], under: /etc}]`, `{"c":"/etc/x"}`, `{"a":{"b":"/tmp"},"C":"/etc/x"}`},
		{`conditions: [{param: l.0.path, under: /etc}]`, `{"l":[{"path":"/etc/x"}]}`, `{"l":[{"PATH":"/etc/x"}]}`},
		{`conditions: [{param: to, in: [{a: [{b: 1}]}, 5]}]`, `{"to":{"a":[{"b":1}]}}`, `{"to":{"A":[{"B":1}]}}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, "{\"p\\u0041th\":\"/etc/x\"}"},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"p\u0061th":"/etc/x"}`},
		{`conditions: [{param: n, gt: 5}]`, `{"n":6}`, `{"n":1e999999999}`},
		{`conditions: [{param: n, gt: 5}]`, `{"n":6}`, `{"n":60e-1}`},
		{`conditions: [{param: n, equals: 0}]`, `{"n":0}`, `{"n":-0}`},
		{`conditions: [{param: n, equals: 0}]`, `{"n":0}`, `{"n":-0.0e9}`},
		{`conditions: [{param: n, in: [100]}]`, `{"n":100}`, `{"n":1e2}`},
		{`when: "args.n == 0"`, `{"n":0}`, `{"n":-0.0}`},
		{`when: "args.n == 100"`, `{"n":100}`, `{"n":1E+2}`},
		{`when: "args.n > 100"`, `{"n":101}`, `{"n":1e999999999}`},
		{`when: "args.n > 100"`, `{"n":101}`, `{"n":1e999999999999999999999}`},
		{`conditions: [{param: n, gt: 5}]`, `{"n":6}`, `{"n":1e99999999999999999999}`},
		{`when: "args.n > 100"`, `{"n":101}`, `{"n":` + "1" + strings.Repeat("0", 5000) + `}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/%65tc/x"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/etc\n"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/etc\t"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/etc\u00a0"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/PROC/self/root/etc"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/./proc/self/root/etc"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/etc/x\u0000"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/tmp/..\\etc"}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":["/etc/x"]}`},
		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":null}`},

		{`conditions: [{param: path, under: /etc}]`, `{"path":"/etc/x"}`, `{"path":"/e\u200btc/x"}`},
	} {
		p := rules(t, `{name: never, tools: [x], action: deny, `+test.rule+`}`, `{tools: [x], action: allow}`)
		for _, object := range []string{test.exact, test.other} {
			if v := evaluate(t, p, call(t, "x", object)); v.Action != approval.Deny {
				t.Errorf("%s with %.80s: got %s (%s), want a denial", test.rule, object, v.Action, v.ReasonCode)
			}
		}
	}
	// Elsewhere a name with a letter as in a URL, or with what is not ASCII, is a name.
	p := rules(t, `{tools: [x], action: deny, conditions: [{param: path, under: /etc}]}`,
		`{tools: [x], action: allow, conditions: [{param: path, under: /srv}]}`)
	for _, path := range []string{"/srv/my%20file", "/srv/größe", "/srv/写真/a", "/srv/100%", "/srv/%65"} {
		if v := evaluate(t, p, call(t, "x", `{"path":"`+path+`"}`)); v.Action != approval.Allow {
			t.Errorf("%s: got %+v", path, v)
		}
	}
	// A rule that allows is not got into by a path that only some take to lie there.
	if v := evaluate(t, p, call(t, "x", `{"path":"/%73rv/x"}`)); v.Action != approval.Quarantine {
		t.Errorf("got %+v", v)
	}
}

// The need is the strictest of the rules for the tool that looked at the key, also of those that do not match.
func TestRule3_TheStrictestNeedOfWhatLookedAtTheKey(t *testing.T) {
	p := rules(t,
		`{name: other tool, tools: [y], risk: critical, conditions: [{param: path, under: /etc}]}`,
		`{name: other agent, tools: [x], agents: [nobody], risk: critical, conditions: [{param: path, under: /etc}]}`,
		`{name: another key, tools: [x], risk: critical, conditions: [{param: mode, equals: w}]}`,
		`{name: first, tools: [x], risk: medium, timeout: 10m, require_reason: true, conditions: [{param: path, under: /srv}]}`,
		`{name: forbidden, tools: [x], action: deny, conditions: [{param: path, under: /etc}]}`,
		`{name: free, tools: [x], action: allow, conditions: [{param: mode, equals: r}]}`,
		`{name: not reached, tools: [x], risk: critical, conditions: [{param: path, under: /opt}]}`)
	v := evaluate(t, p, call(t, "x", `{"Path":"/tmp/x","mode":"r"}`))
	if v.Action != approval.Quarantine || v.Risk != approval.RiskHigh || v.Timeout != 10*time.Minute || !v.RequireReason ||
		v.ReasonCode != "ambiguous_args" {
		t.Errorf("got %+v", v)
	}
	if v = evaluate(t, p, call(t, "x", `{"Path":"/tmp/x","mode":"a"}`)); v.Risk != approval.RiskCritical ||
		v.Rule != "not reached" {
		t.Errorf("where the last rule is asked too: got %+v", v)
	}
	if v = evaluate(t, p, call(t, "x", `{"Path":"/etc/x","mode":"r"}`)); v.Action != approval.Deny ||
		v.Rule != "forbidden" {
		t.Errorf("got %+v", v)
	}
	if v = evaluate(t, p, call(t, "x", `{"path":"/tmp/x","mode":"r"}`)); v.Action != approval.Allow {
		t.Errorf("got %+v", v)
	}
}

// What no rule for the call looks at may be called as it likes.
func TestKeysThatNoRuleLooksAtAreFree(t *testing.T) {
	for _, test := range []struct {
		rules []string
		args  string
	}{
		{[]string{`{tools: [y], action: deny, conditions: [{param: path, equals: x}]}`}, `{"Path":"x"}`},
		{[]string{`{tools: [x], agents: [nobody], action: deny, conditions: [{param: path, equals: x}]}`}, `{"Path":"x"}`},
		{[]string{`{tools: [x], action: deny, conditions: [{param: path, equals: x}]}`},
			`{"path":"y","env":{"PATH":"/bin"}}`},
		{[]string{`{tools: [x], action: deny, conditions: [{param: to.path, equals: x}]}`}, `{"to":{"path":"y"},"Path":"x"}`},
		{[]string{`{tools: [x], action: deny, conditions: [{param: [path, Path], equals: x}]}`}, `{"Path":"y"}`},
		{[]string{`{tools: [x], action: deny, when: "args.?path.orValue(args.?Path.orValue('')) == 'x'"}`}, `{"Path":"y"}`},
		{[]string{`{tools: [x], action: deny, when: "has(args.to) && args.to.exists(t, has(t.path) && t.path == 'x')"}`},
			`{"to":[{"path":"y","env":{"PATH":"x"}}],"Path":"x"}`},
		{[]string{`{tools: [x], action: deny, when: "args.exists(k, k == 'path')"}`}, `{"Paths":"x"}`},
		{[]string{`{tools: [x], action: deny, when: tool == 'path'}`}, `{"Path":"x"}`},
		{[]string{`{tools: [x], action: allow}`, `{tools: [x], action: deny, conditions: [{param: path, equals: x}]}`},
			`{"Path":"x"}`},
	} {
		cfg := append(test.rules, `{tools: [x], agents: [bot], action: allow}`)
		p := rules(t, cfg...)
		if v := evaluate(t, p, call(t, "x", test.args)); v.Action != approval.Allow {
			t.Errorf("%s with %s: got %+v, want it allowed", test.rules, test.args, v)
		}
	}
}

// Arguments with more readings than are tried are denied, and soon.
func TestTooManyReadingsAreDenied(t *testing.T) {
	p := rules(t, `{tools: [x], risk: medium, when: "has(args.l) && args.l.exists(e, has(e.path) && e.path == 'x')"}`,
		`{tools: [x], action: allow}`)
	object := `{"l":[` + strings.Repeat(`{"path":"a","Path":"b"},`, 30) + `{}]}`
	if v := evaluate(t, p, call(t, "x", object)); v.Action != approval.Deny || v.ReasonCode != "ambiguous_args" {
		t.Errorf("got %+v, want a denial", v)
	}
	object = `{"l":[` + strings.Repeat(`{"Path":"b"},`, 1000) + `{}]}`
	if v := evaluate(t, p, call(t, "x", object)); v.Action != approval.Quarantine || v.ReasonCode != "ambiguous_args" ||
		v.Risk != approval.RiskHigh {
		t.Errorf("got %+v, want one more reading to be tried", v)
	}
}

// respell changes the letter case of the keys of a value, at all depths, in any way that folding undoes.
func respell(t *rapid.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			var b strings.Builder
			for _, r := range k {
				for range rapid.IntRange(0, 2).Draw(t, "fold") {
					r = unicode.SimpleFold(r)
				}
				b.WriteRune(r)
			}
			out[b.String()] = respell(t, v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = respell(t, v[i])
		}
		return out
	}
	return v
}

// lesser says how v asks for less than was, "" if it does not.
func lesser(was, v approval.Verdict) string {
	switch {
	case strictness(v.Action) < strictness(was.Action):
		return fmt.Sprintf("%s became %s", was.Action, v.Action)
	case was.Action != approval.Quarantine || v.Action != approval.Quarantine:
		return ""
	case v.Risk.Rank() < was.Risk.Rank():
		return fmt.Sprintf("risk %s became %s", was.Risk, v.Risk)
	case was.RequireReason && !v.RequireReason:
		return "no reason is required"
	case v.Timeout > was.Timeout:
		return fmt.Sprintf("time-out %s became %s", was.Timeout, v.Timeout)
	case was.Grants == nil && v.Grants != nil:
		return "an approval can be given for longer"
	}
	return ""
}

var readingConditions = []string{
	`conditions: [{param: path, under: [/etc, /srv]}]`, `conditions: [{param: path, under: /srv}]`,
	`conditions: [{param: [path, task], under: /tmp}]`,
	`conditions: [{param: size, gt: 10}]`, `conditions: [{param: size, equals: 100}, {param: path, under: /}]`,
	`conditions: [{param: task.size, lte: 100}]`,
	`conditions: [{param: task, equals: {size: 100}}]`, `conditions: [{param: task.path, under: /etc}]`,
	`when: has(args.size) && args.size > 10`, `when: "args.?task.?size.orValue(0) == 100"`, `when: "!has(args.path)"`,
	`when: "has(args.list) && args.list.exists(x, has(x.size) && x.size == 100)"`, `when: args.size == 100`,
	`when: "'task' in args && 'path' in args.task"`,
	`agents: [bot]`, `agents: [nobody]`,
}

func drawReadingPolicy(t *rapid.T) *Policy {
	var list []string
	for range rapid.IntRange(1, 5).Draw(t, "rules") {
		list = append(list,
			fmt.Sprintf("{tools: [x], action: %s, risk: %s, require_reason: %t, timeout: %dm, allow_skip: %t, %s}",
				rapid.SampledFrom([]string{"allow", "quarantine", "deny"}).Draw(t, "action"),
				rapid.SampledFrom([]string{"low", "medium", "high", "critical"}).Draw(t, "risk"),
				rapid.Bool().Draw(t, "reason"), rapid.IntRange(1, 50).Draw(t, "timeout"),
				rapid.Bool().Draw(t, "allow_skip"), rapid.SampledFrom(readingConditions).Draw(t, "condition")))
	}
	p, problems := Compile(Parse([]byte("policy: {rules: ["+strings.Join(list, ", ")+"]}")), Options{})
	if p == nil {
		t.Fatalf("%v", problems)
	}
	t.Logf("%s", strings.Join(list, "\n"))
	return p
}

// drawReadingArgs draws arguments whose keys are as the rules spell them.
func drawReadingArgs(t *rapid.T) map[string]any {
	number := rapid.SampledFrom([]any{json.Number("100"), json.Number("1"), json.Number("11.5"), "x"})
	path := rapid.SampledFrom([]any{"/etc/passwd", "/srv/app/x", "/tmp/x", "/etc", "/", json.Number("7")})
	task := map[string]any{}
	all := map[string]any{"path": path.Draw(t, "path"), "size": number.Draw(t, "size"), "other": "y", "task": task,
		"list": []any{map[string]any{"size": number.Draw(t, "element")}, map[string]any{"note": "z"}}}
	if rapid.Bool().Draw(t, "task.size") {
		task["size"] = number.Draw(t, "size of task")
	}
	if rapid.Bool().Draw(t, "task.path") {
		task["path"] = path.Draw(t, "path of task")
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if rapid.Bool().Draw(t, "without "+k) {
			delete(all, k)
		}
	}
	return all
}

func marshalled(t *rapid.T, v any) args.Args {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := args.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// No change of a key's case turns a denial or a quarantine into less.
func TestPropertyRule3_NoCaseOfAKeyLoosens(t *testing.T) {
	rapid.Check(t, noCaseOfAKeyLoosens)
}

// FuzzKeyCase is [TestPropertyRule3_NoCaseOfAKeyLoosens] for the fuzzer.
func FuzzKeyCase(f *testing.F) { f.Fuzz(rapid.MakeFuzz(noCaseOfAKeyLoosens)) }

func noCaseOfAKeyLoosens(t *rapid.T) {
	p, exact := drawReadingPolicy(t), drawReadingArgs(t)
	other := respell(t, exact)
	c := approval.Call{Agent: "bot", Tool: "x", Args: marshalled(t, exact)}
	was := p.Evaluate(context.Background(), c)
	if c.Args.Ambiguous() {
		t.Fatal("the test's own keys are ambiguous")
	}
	c.Args = marshalled(t, other)
	v := p.Evaluate(context.Background(), c)
	if how := lesser(was, v); how != "" {
		t.Errorf("%s as %s: %s", marshalled(t, exact).Canonical(), c.Args.Canonical(), how)
	}
	if x := p.Explain(c); x.Action != v.Action || x.Rule != v.Rule || x.ReasonCode != v.ReasonCode || x.Risk != v.Risk ||
		x.Message != v.Message {
		t.Errorf("Explain says %+v, Evaluate %+v", x, v)
	}
}

// respellPath writes a path in another way that a tool may take for it.
func respellPath(t *rapid.T, p string) string {
	ways := []func(string) string{
		func(p string) string { return "/" + p },
		func(p string) string { return strings.ReplaceAll(p, "/", "//") },
		func(p string) string { return strings.ReplaceAll(p, "/", "/./") },
		func(p string) string { return p + "/" },
		func(p string) string { return p + "/." },
		func(p string) string { return "/srv/.." + p },
		func(p string) string { return "/tmp/x/../.." + p },
		func(p string) string { return ".." + p },
		func(p string) string { return p[1:] },
		func(p string) string { return "/proc/self/root" + p },
		func(p string) string { return "/proc/self/cwd/.." + p },
		func(p string) string { return "/proc/17/root" + p },
		func(p string) string { return "/dev/fd/../.." + p },
		func(string) string { return "/dev/fd/3" },
		func(string) string { return "/proc/self/fd/3" },
		func(p string) string { return "file://" + p },
		func(p string) string { return "~/.." + p },
		func(p string) string { return strings.ReplaceAll(p, "/", "\\") },
		func(p string) string { return strings.ReplaceAll(p, "/", "\\/") },
		func(p string) string { return p + "\x00.txt" },
		func(p string) string { return "/tmp/%2e%2e" + p },
		func(p string) string { return strings.Replace(p, "e", "?", 1) },
		func(p string) string { return strings.Replace(p, "s", "[s]", 1) },
	}
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		if p = rapid.SampledFrom(ways).Draw(t, "way")(p); p == "" || p[0] != '/' {
			break
		}
	}
	return p
}

// No change of a path's spelling turns a denial or a quarantine by rules that place it into less.
func TestPropertyRule3_NoSpellingOfAPathLoosens(t *testing.T) {
	rapid.Check(t, noSpellingOfAPathLoosens)
}

// FuzzPathSpelling is [TestPropertyRule3_NoSpellingOfAPathLoosens] for the fuzzer.
func FuzzPathSpelling(f *testing.F) { f.Fuzz(rapid.MakeFuzz(noSpellingOfAPathLoosens)) }

func noSpellingOfAPathLoosens(t *rapid.T) {
	p, exact := drawReadingPolicy(t), drawReadingArgs(t)
	c := approval.Call{Agent: "bot", Tool: "x", Args: marshalled(t, exact)}
	was := p.Evaluate(context.Background(), c)
	task, _ := exact["task"].(map[string]any)
	for _, object := range []map[string]any{exact, task} {
		if path, ok := object["path"].(string); ok {
			object["path"] = respellPath(t, path)
		}
	}
	c.Args = marshalled(t, exact)
	v := p.Evaluate(context.Background(), c)
	if how := lesser(was, v); how != "" {
		t.Errorf("%s: %s", c.Args.Canonical(), how)
	}
	if x := p.Explain(c); x.Action != v.Action || x.Rule != v.Rule || x.ReasonCode != v.ReasonCode || x.Risk != v.Risk ||
		x.Message != v.Message {
		t.Errorf("Explain says %+v, Evaluate %+v", x, v)
	}
}

// No spelling of JSON makes another call of it: order, space, escapes, and how numbers are written.
func TestPropertyRule3_NoSpellingOfJSONMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, exact := drawReadingPolicy(t), drawReadingArgs(t)
		c := approval.Call{Agent: "bot", Tool: "x", Args: marshalled(t, exact)}
		was := p.Evaluate(context.Background(), c)
		args, err := args.Parse([]byte(respellJSON(t, exact)))
		if err != nil {
			t.Fatal(err)
		}
		c.Args = args
		v := p.Evaluate(context.Background(), c)
		if v.Action != was.Action || v.Risk != was.Risk || v.Rule != was.Rule || v.ReasonCode != was.ReasonCode ||
			v.RequireReason != was.RequireReason {
			t.Errorf("%s: got %+v, want %+v", args.Canonical(), v, was)
		}
	})
}

func respellJSON(t *rapid.T, v any) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
	var b strings.Builder
	b.WriteString(space())
	switch v := v.(type) {
	case map[string]any:
		keys := rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "order")
		b.WriteString("{")
		for i, k := range keys {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(respellJSON(t, k) + ":" + respellJSON(t, v[k]))
		}
		b.WriteString(space() + "}")
	case []any:
		b.WriteString("[")
		for i, x := range v {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(respellJSON(t, x))
		}
		b.WriteString("]")
	case string:
		b.WriteString(`"`)
		for _, r := range v {
			switch how := rapid.IntRange(0, 3).Draw(t, "escape"); {
			case how == 0:
				fmt.Fprintf(&b, `\u%04x`, r)
			case how == 1 && r == '/':
				b.WriteString(`\/`)
			default:
				quoted, _ := jsontext.AppendQuote(nil, string(r))
				b.Write(quoted[1 : len(quoted)-1])
			}
		}
		b.WriteString(`"`)
	case json.Number:
		b.WriteString(rapid.SampledFrom(map[json.Number][]string{
			"100": {"100", "1e2", "100.0", "1.00E+2", "1000e-1"}, "1": {"1", "1.0", "10e-1"}, "11.5": {"11.5", "11.50",
				"115e-1"}, "7": {"7", "0.7e1"},
		}[v]).Draw(t, "number"))
	}
	return b.String() + space()
}
