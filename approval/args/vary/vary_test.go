package vary_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"countersign/approval/args"
	"countersign/approval/args/vary"
)

func parse(t testing.TB, raw string) args.Args {
	t.Helper()
	a, err := args.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return a
}

// payment is what was approved in these tests, and terms what may differ of it.
const payment = `{"to":"acme","amount":100,"memo":"rent","lines":[{"n":1}]}`

var terms = vary.Terms{Vary: map[string]vary.Arg{
	"amount": {AtMost: "5000", Total: "20000"}, "memo": {Any: true}, "tip": {AtMost: "10"}, "to_note": {},
}}

func TestWhatMayDiffer(t *testing.T) {
	for _, c := range []struct {
		name, now string
		want      bool
	}{
		{"nothing differs", payment, true},
		{"another order and spaces", `{ "memo":"rent", "lines":[{"n":1}], "amount":100, "to":"acme" }`, true},
		{"another amount", `{"to":"acme","amount":4999.99,"memo":"rent","lines":[{"n":1}]}`, true},
		{"the most", `{"to":"acme","amount":5000,"memo":"rent","lines":[{"n":1}]}`, true},
		{"the most, written otherwise", `{"to":"acme","amount":5.000e3,"memo":"rent","lines":[{"n":1}]}`, true},
		{"none", `{"to":"acme","amount":0,"memo":"rent","lines":[{"n":1}]}`, true},
		{"none, with a sign", `{"to":"acme","amount":-0.0,"memo":"rent","lines":[{"n":1}]}`, true},
		{"any memo", `{"to":"acme","amount":100,"memo":{"a":[null]},"lines":[{"n":1}]}`, true},
		{"more", `{"to":"acme","amount":5001,"memo":"rent","lines":[{"n":1}]}`, false},
		{"a little more", `{"to":"acme","amount":5000.0000000000000000000000001,"memo":"rent","lines":[{"n":1}]}`, false},
		{"more than a float knows", `{"to":"acme","amount":5000.000000000000000000,"memo":"rent","lines":[{"n":1}]}`, true},
		{"less than none", `{"to":"acme","amount":-1,"memo":"rent","lines":[{"n":1}]}`, false},
		{"an exponent", `{"to":"acme","amount":1e4,"memo":"rent","lines":[{"n":1}]}`, false},
		{"a huge exponent", `{"to":"acme","amount":1e999999999999999999,"memo":"rent","lines":[{"n":1}]}`, false},
		{"an exponent without end", `{"to":"acme","amount":1e-` + strings.Repeat("9", 99) +
			`,"memo":"rent","lines":[{"n":1}]}`, false},
		{"next to nothing", `{"to":"acme","amount":1e-999999999,"memo":"rent","lines":[{"n":1}]}`,
			true}, // and nothing was spent yet
		{"a text", `{"to":"acme","amount":"100","memo":"rent","lines":[{"n":1}]}`, false},
		{"a text that is no number", `{"to":"acme","amount":"NaN","memo":"rent","lines":[{"n":1}]}`, false},
		{"a list", `{"to":"acme","amount":[100],"memo":"rent","lines":[{"n":1}]}`, false},
		{"null", `{"to":"acme","amount":null,"memo":"rent","lines":[{"n":1}]}`, false},
		{"true", `{"to":"acme","amount":true,"memo":"rent","lines":[{"n":1}]}`, false},
		{"another recipient", `{"to":"acme-2","amount":100,"memo":"rent","lines":[{"n":1}]}`, false},
		{"a recipient that looks the same", `{"to":"` + "\u0430" + `cme","amount":100,"memo":"rent","lines":[{"n":1}]}`,
			false},
		{"nested", `{"to":"acme","amount":100,"memo":"rent","lines":[{"n":2}]}`, false},
		{"nested, written otherwise", `{"to":"acme","amount":100,"memo":"rent","lines":[{"n":1.0}]}`, false},
		{"an arg more", `{"to":"acme","amount":100,"memo":"rent","lines":[{"n":1}],"cc":"me"}`, false},
		{"one more that may vary", `{"to":"acme","amount":100,"memo":"rent","lines":[{"n":1}],"tip":1}`, false},
		{"one less", `{"amount":100,"memo":"rent","lines":[{"n":1}]}`, false},
		{"one less that may vary", `{"to":"acme","memo":"rent","lines":[{"n":1}]}`, false},
		{"another case", `{"to":"acme","Amount":100,"memo":"rent","lines":[{"n":1}]}`, false},
		{"both cases", `{"to":"acme","amount":100,"Amount":100000,"memo":"rent","lines":[{"n":1}]}`, false},
		{"a name with an escape", `{"to":"acme","\u0061mount":100,"memo":"rent","lines":[{"n":1}]}`,
			true}, // is the same name
		{"nothing", `{}`, false},
	} {
		if _, ok := terms.Covers(parse(t, payment), parse(t, c.now), nil); ok != c.want {
			t.Errorf("%s: %s: got %t", c.name, c.now, ok)
		}
	}
}

func TestATotalIsKeptExactly(t *testing.T) {
	some := vary.Terms{Vary: map[string]vary.Arg{"n": {Total: "1"}, "m": {Any: true}}}
	spent := map[string]string(nil)
	for i := range 10 {
		now, ok := some.Covers(parse(t, `{"n":5}`), parse(t, `{"n":0.1}`), spent)
		if want := []string{"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"}[i]; !ok || now["n"] != want {
			t.Fatalf("use %d: %v, %t, want %s", i+1, now, ok, want)
		}
		spent = now
	}
	for _, c := range []struct {
		n    string
		want bool
	}{
		{"0", true},
		{"0e999999999", true},
		{"1e-20", false},
		{"1e-999999999999999999", false},
		{"0.00000000000000000000000000000000001", false},
	} {
		before := fmt.Sprint(spent)
		if _, ok := some.Covers(parse(t, `{"n":5}`), parse(t, `{"n":`+c.n+`}`), spent); ok != c.want ||
			fmt.Sprint(spent) != before {
			t.Errorf("%s more: %t, and %v is spent", c.n, ok, spent)
		}
	}
}

func TestAnyArgs(t *testing.T) {
	some := vary.Terms{AnyArgs: true}
	if _, ok := some.Covers(parse(t, `{"a":1}`), parse(t, `{"b":2}`), nil); !ok {
		t.Error("other args are not covered")
	}
	if _, ok := some.Covers(parse(t, `{"a":1}`), parse(t, `{"b":2,"B":3}`), nil); ok {
		t.Error("args that can be read in two ways are covered")
	}
}

// FuzzCovers: what is covered differs from what was approved in the one number that may, and in no way the sum goes
// beyond its bound.
func FuzzCovers(f *testing.F) {
	for _, now := range []string{`{"to":"a","n":1}`, `{"to":"a","n":1e3}`, `{"n":-0,"to":"a"}`, `{"to":"a","N":1}`,
		`{"to":"a","n":1,"x":1}`, `{"to":"a","n":"1"}`, `{"to":"b","n":1}`, `{"to":"a","n":1e999999999}`} {
		f.Add(now, "3.5")
	}
	some := vary.Terms{Vary: map[string]vary.Arg{"n": {AtMost: "1000", Total: "1500"}}}
	f.Fuzz(func(t *testing.T, raw, spent string) {
		now, err := args.Parse([]byte(raw))
		if err != nil {
			return
		}
		was := parse(t, `{"to":"a","n":7}`)
		sums, ok := some.Covers(was, now, map[string]string{"n": spent})
		if !ok {
			return
		}
		got, err := now.Decode()
		if err != nil || len(got) != 2 || got["to"] != "a" {
			t.Fatalf("%s is covered", raw)
		}
		n := fmt.Sprint(got["n"])
		if len(n) > 40 || len(spent) > 40 || strings.ContainsAny(n+spent, "eE") {
			return // a rational of it would be as long as the exponent says
		}
		value, ok := new(big.Rat).SetString(n)
		before, ok2 := new(big.Rat).SetString("0" + spent)
		after, ok3 := new(big.Rat).SetString(sums["n"])
		if !ok || !ok2 || !ok3 || value.Sign() < 0 || value.Cmp(big.NewRat(1000, 1)) > 0 ||
			after.Cmp(big.NewRat(1500, 1)) > 0 || new(big.Rat).Add(before, value).Cmp(after) != 0 {
			t.Fatalf("%s with %q spent: %v", raw, spent, sums)
		}
	})
}
