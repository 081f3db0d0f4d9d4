package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/args/decimal"
	"countersign/internal/testkit"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// number draws a JSON number, often next to where 64-bit floats or integers end.
func number() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			n := new(big.Int).Lsh(big.NewInt(1), uint(rapid.SampledFrom([]int{0, 10, 52, 53, 54, 63, 64, 100}).Draw(t, "bits")))
			n.Add(n, big.NewInt(rapid.Int64Range(-3, 3).Draw(t, "near")))
			if rapid.Bool().Draw(t, "negative") {
				n.Neg(n)
			}
			return n.String() + rapid.SampledFrom([]string{"", "", ".0", ".5", ".00000000000000000001", "e0", "E+1", "e-1",
				"e-3"}).Draw(t, "tail")
		}),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?`),
	)
}

func rat(t *rapid.T, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("not a number: %q", s)
	}
	return r
}

func TestPropertyDecimalsCompareExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number().Draw(t, "a"), number().Draw(t, "b")
		if !decimal.IsNumber(a) || !decimal.IsNumber(b) {
			t.Fatalf("%q or %q is not taken for a number", a, b)
		}
		x, err := decimal.Parse(a)
		if err != nil {
			t.Fatal(err)
		}
		y, err := decimal.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := x.Compare(y), rat(t, a).Cmp(rat(t, b)); got != want {
			t.Errorf("%s and %s compare as %d, want %d", a, b, got, want)
		}
		if got, want := x.IsInteger(), rat(t, a).IsInt(); got != want {
			t.Errorf("%s is an integer: %t, want %t", a, got, want)
		}
	})
}

func TestPropertyIsNumberIsJSONGrammar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(number(), rapid.StringMatching(`[-+.0-9eE]{0,8}`)).Draw(t, "s")
		v := jsontext.Value(s)
		want := v.IsValid() && v.Kind() == '0' && strings.TrimSpace(s) == s
		if got := decimal.IsNumber(s); got != want {
			t.Errorf("decimal.IsNumber(%q) is %t, want %t", s, got, want)
		}
	})
}

// Conditions and expressions order numbers as the decimals are ordered, or deny.
func TestPropertyNumbersAreExact(t *testing.T) {
	operators := map[string]func(int) bool{
		"gt": func(c int) bool { return c > 0 }, "gte": func(c int) bool { return c >= 0 },
		"lt": func(c int) bool { return c < 0 }, "lte": func(c int) bool { return c <= 0 },
	}
	signs := map[string]string{"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
	rapid.Check(t, func(t *rapid.T) {
		bound, arg := number().Draw(t, "bound"), number().Draw(t, "arg")
		op := rapid.SampledFrom([]string{"gt", "gte", "lt", "lte"}).Draw(t, "op")
		want := operators[op](rat(t, arg).Cmp(rat(t, bound)))
		a, err := args.Parse([]byte(`{"n":` + arg + `}`))
		if err != nil {
			t.Fatal(err)
		}
		c := approval.Call{Tool: "x", Args: a}

		cond := Condition{Param: "n"}
		*map[string]*json.Number{"gt": &cond.GT, "gte": &cond.GTE, "lt": &cond.LT, "lte": &cond.LTE}[op] = json.Number(bound)
		p, problems := Compile(Config{Rules: []Rule{
			{Tools: []string{"x"}, ReasonCode: "hit", Conditions: []Condition{cond}}}}, Options{})
		if p == nil {
			t.Fatalf("%v", problems)
		}
		if v := p.Evaluate(context.Background(), c); (v.ReasonCode == "hit") != want || v.Action == approval.Deny {
			t.Errorf("condition %s %s %s: got %s, want a match: %t", arg, op, bound, v.ReasonCode, want)
		}

		p, problems = Compile(Config{Rules: []Rule{{Tools: []string{"x"}, ReasonCode: "hit", When: "args.n " + signs[op] +
			" " + bound}}}, Options{})
		if p == nil { // the bound has no exact form in CEL
			if len(problems) == 0 {
				t.Error("no policy and no problem")
			}
			return
		}
		if v := p.Evaluate(context.Background(), c); v.ReasonCode != "policy_error" && (v.ReasonCode == "hit") != want {
			t.Errorf("when %s %s %s: got %s, want a match: %t", arg, signs[op], bound, v.ReasonCode, want)
		}
	})
}

// The one pass over the arguments finds what a look-up of each name finds.
func TestPropertyMembersAreWhatLookupFinds(t *testing.T) {
	text := rapid.StringMatching(`["\\{}\[\],:a\n\x00é]{0,6}`)
	var anything *rapid.Generator[any]
	anything = rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](false),
		rapid.Map(number(), func(s string) any { return json.Number(s) }),
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return anything }), 0, 3), func(l []any) any {
			return l
		}),
		rapid.Map(rapid.MapOfN(text, rapid.Deferred(func() *rapid.Generator[any] { return anything }), 0, 3),
			func(m map[string]any) any { return m }),
	)
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(text, anything, 0, 6).Draw(t, "object")
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		args, err := args.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]int32{"absent": 0}
		for name := range object {
			names[name] = int32(len(names))
		}
		var m members
		for name, n := range names {
			got, ok := m.get(n, names, args.Canonical())
			want, found := args.Lookup(name)
			if ok != found || string(got) != string(want) {
				t.Errorf("%q of %s: got %s, want %s", name, args.Canonical(), got, want)
			}
		}
	})
}

// small draws names and patterns from so few letters that they often meet.
func small(star string) *rapid.Generator[string] {
	return rapid.StringMatching(`[ab` + star + `]{1,4}`)
}

func drawRules(t *rapid.T) []Rule {
	target := rapid.OneOf(small("*"), rapid.Custom(func(t *rapid.T) string {
		return small("*").Draw(t, "server") + "/" + small("*").Draw(t, "tool")
	}))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule {
		r := Rule{
			Tools:  rapid.SliceOfN(target, 1, 3).Draw(t, "tools"),
			Action: rapid.SampledFrom([]approval.Action{approval.Allow, approval.Quarantine, approval.Deny}).Draw(t, "action"),
		}
		if rapid.Bool().Draw(t, "a method") {
			r.Methods = rapid.SliceOfN(rapid.SampledFrom([]string{"resources/read", "prompts/get", "resources/*", "*",
				"tools/call", "*/call", "odd/one"}), 1, 2).Draw(t, "methods")
			r.Tools = rapid.SliceOfN(rapid.OneOf(rapid.Just("*"), rapid.Custom(func(t *rapid.T) string {
				return small("*").Draw(t, "server") + "/*"
			})), 1, 2).Draw(t, "tools")
			if r.Action == approval.Deny { // which an unknown method is anyway
				r.Methods = slices.DeleteFunc(r.Methods, func(m string) bool { return m == "odd/one" })
			}
		}
		if rapid.Bool().Draw(t, "some agents") {
			r.Agents = rapid.SliceOfN(small("*"), 1, 2).Draw(t, "agents")
		}
		if rapid.Bool().Draw(t, "some conditions") {
			r.Conditions = []Condition{{Param: "n", Equals: jsontext.Value(rapid.SampledFrom([]string{"1", "2", `"x"`}).Draw(t,
				"n"))}}
		}
		return r
	}), 0, 12).Draw(t, "rules")
}

func drawCall(t *rapid.T) approval.Call {
	parsed, err := args.Parse([]byte(rapid.SampledFrom([]string{`{}`, `{"n":1}`, `{"n":2}`, `{"n":"x"}`, `{"n":null}`,
		`{"n":1,"N":1}`}).Draw(t, "args")))
	if err != nil {
		t.Fatal(err)
	}
	return approval.Call{
		Tool: small("").Draw(t, "tool"), Agent: small("").Draw(t, "agent"), Args: parsed,
		Server: rapid.OneOf(rapid.Just(""), small("")).Draw(t, "server"),
		Method: rapid.SampledFrom([]string{"", "", "tools/call", "resources/read", "resources/subscribe", "prompts/get",
			"odd/one", "odd/two"}).Draw(t, "method"),
	}
}

func globbed(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	if pattern[0] == '*' {
		return globbed(pattern[1:], s) || s != "" && globbed(pattern, s[1:])
	}
	return s != "" && s[0] == pattern[0] && globbed(pattern[1:], s[1:])
}

// The first rule that matches decides, whatever the index finds first; a rule that cannot be
// evaluated denies; nothing else is ever allowed.
func TestPropertyFirstMatchDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, c := drawRules(t), drawCall(t)
		p, problems := Compile(Config{Rules: list}, Options{})
		if p == nil {
			t.Fatalf("%v", problems)
		}
		want, rule := approval.Quarantine, ""
		method := c.Method
		switch method {
		case "", "tools/call":
			method = "tools/call"
		case "odd/one", "odd/two":
			want = approval.Deny
		default:
			want = approval.Allow
		}
	search:
		for i, r := range list {
			methods := r.Methods
			if len(methods) == 0 {
				methods = []string{"tools/call"}
			}
			if !slices.ContainsFunc(methods, func(p string) bool { return globbed(p, method) }) {
				continue
			}
			name := c.Tool
			if method != "tools/call" {
				name = strings.ReplaceAll(method, "/", ":")
			}
			matched := false
			for _, pattern := range r.Tools {
				server, tool, qualified := strings.Cut(pattern, "/")
				if !qualified {
					server, tool = "*", pattern
				}
				matched = matched || globbed(server, c.Server) && globbed(tool, name)
			}
			agent := len(r.Agents) == 0
			for _, pattern := range r.Agents {
				agent = agent || globbed(pattern, c.Agent)
			}
			if !matched || !agent {
				continue
			}
			spoken := fmt.Sprintf("rule %d", i+1)
			for _, cond := range r.Conditions {
				v, ok := c.Args.Lookup("n")
				switch {
				case !ok:
					continue search
				case v.Kind() != cond.Equals.Kind():
					want, rule = approval.Deny, spoken
					break search
				case string(v) != string(cond.Equals):
					continue search
				}
			}
			want, rule = r.Action, spoken
			break
		}
		if want == approval.Allow && c.Args.Ambiguous() {
			want = approval.Quarantine
		}
		v := p.Evaluate(context.Background(), c)
		if v.Action != want || v.Rule != rule {
			t.Errorf("got %s by %q, want %s by %q", v.Action, v.Rule, want, rule)
		}
		if x := p.Explain(c); x.Action != v.Action || x.Rule != v.Rule || x.ReasonCode != v.ReasonCode ||
			x.Message != v.Message {
			t.Errorf("Explain says %+v, Evaluate %+v", x, v)
		}
	})
}

func TestPropertyErrorDeniesWhateverFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, c := drawRules(t), drawCall(t)
		faulty := rapid.SampledFrom([]Rule{
			{When: `args.missing == 1`}, {When: `1 / 0 == 1`}, {When: `args.missing`}, {When: `has(args.missing.x)`},
			{When: `dyn("a") < dyn(1)`},
		}).Draw(t, "faulty")
		faulty.Methods, faulty.Tools, faulty.Action = []string{"*"}, []string{"*"},
			rapid.SampledFrom([]approval.Action{approval.Allow, approval.Quarantine, approval.Deny}).Draw(t, "action")
		p, problems := Compile(Config{Rules: append([]Rule{faulty}, list...)}, Options{})
		if p == nil {
			t.Fatalf("%v", problems)
		}
		if v := p.Evaluate(context.Background(), c); v.Action != approval.Deny || v.ReasonCode != "policy_error" {
			t.Errorf("got %+v, want a denial for policy_error", v)
		}
	})
}

// covers may be too cautious, never too bold.
func TestPropertyCoversMeansMatchesAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := pattern(small("*").Draw(t, "p")), pattern(small("*").Draw(t, "q"))
		s := rapid.StringMatching(`[ab]{0,6}`).Draw(t, "s")
		if got, want := p.match(s), globbed(string(p), s); got != want {
			t.Fatalf("%q matches %q: %t, want %t", p, s, got, want)
		}
		if p.covers(q) && q.match(s) && !p.match(s) {
			t.Errorf("%q is said to cover %q, but does not match %q", p, q, s)
		}
		if !p.meets(q) && p.match(s) && q.match(s) {
			t.Errorf("%q and %q are said not to meet, but both match %q", p, q, s)
		}
		if p.literal() && p.meets(q) != q.match(string(p)) {
			t.Errorf("%q and %q meet: %t", p, q, p.meets(q))
		}
	})
}

// A rule that is warned of as never deciding never decides.
func TestPropertyShadowedNeverDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, problems := Compile(Config{Rules: drawRules(t)}, Options{})
		if p == nil {
			t.Fatalf("%v", problems)
		}
		c := drawCall(t)
		v := p.Evaluate(context.Background(), c)
		for j := range p.rules {
			if p.rules[j].name == v.Rule && p.findShadowing(j) != nil {
				t.Errorf("%s decides %s although it is called shadowed", v.Rule, c.Target())
			}
		}
	})
}

// What a reload lets a call do that it could not do before is reported.
func TestPropertyLooseningIsReported(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strip := func(rules []Rule) []Rule { // without conditions, so that a change of outcome is certain
			for i := range rules {
				rules[i].Conditions = nil
			}
			return rules
		}
		older, _ := Compile(Config{Rules: strip(drawRules(t))}, Options{})
		newer, _ := Compile(Config{Rules: strip(drawRules(t))}, Options{})
		said := Loosenings(older, newer)
		c := drawCall(t)
		c.Args = args.Args{}
		was, is := older.Evaluate(context.Background(), c), newer.Evaluate(context.Background(), c)
		if strictness(is.Action) < strictness(was.Action) && len(said) == 0 {
			t.Errorf("%s by %s went from %s to %s and nothing is said", c.Target(), c.Agent, was.Action, is.Action)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	p := compile(t, designExample)
	c := call(t, "transfer_credits", `{"amount_cents":1000,"to":[{"n":1}]}`)
	c.Agent = "treasury-bot"
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if v := p.Evaluate(context.Background(), c); v.ReasonCode != "over_threshold" {
					t.Errorf("got %+v", v)
					return
				}
				p.Explain(c)
			}
		})
	}
	testkit.Wait(t, "all decisions", wg.Wait)
}
