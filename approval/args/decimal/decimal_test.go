package decimal_test

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign/approval/args/decimal"
)

func rat(t testing.TB, s string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number", s)
	}
	return r
}

var number = rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?`)

func TestSumsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := number.Draw(rt, "a"), number.Draw(rt, "b")
		x, err := decimal.Parse(a)
		if err != nil {
			rt.Fatal(err)
		}
		y, err := decimal.Parse(b)
		if err != nil {
			rt.Fatal(err)
		}
		sum, ok := x.Add(y)
		if !ok {
			rt.Fatalf("%s + %s is not worked out", a, b)
		}
		text := sum.String()
		want := new(big.Rat).Add(rat(t, a), rat(t, b))
		if !decimal.IsNumber(text) || rat(t, text).Cmp(want) != 0 {
			rt.Fatalf("%s + %s = %s", a, b, text)
		}
		if back, err := decimal.Parse(text); err != nil || back.Compare(sum) != 0 {
			rt.Fatalf("%s reads as %s, %v", text, back, err)
		}
		if got := x.Compare(y); got != rat(t, a).Cmp(rat(t, b)) {
			rt.Fatalf("%s and %s compare as %d", a, b, got)
		}
	})
}

func TestFarApartIsNotWorkedOut(t *testing.T) {
	for _, c := range []struct {
		a, b string
		ok   bool
	}{
		{"1e900", "1", true},
		{"1e999999999999999999", "1", false},
		{"1", "1e-999999999999999999", false},
		{"1e999999999999999999", "1e-999999999999999999", false},
		{"1e999999999", "9e999999999", true},
		{"0", "1e999999999999999999", true},
		{strings.Repeat("1", 2000), "0", false},
	} {
		x, err := decimal.Parse(c.a)
		if err != nil {
			t.Fatal(err)
		}
		y, err := decimal.Parse(c.b)
		if err != nil {
			t.Fatal(err)
		}
		if sum, ok := x.Add(y); ok != c.ok {
			t.Errorf("%.20s + %.20s: %t, %.40s", c.a, c.b, ok, sum.String())
		}
	}
	if _, err := decimal.Parse("1e" + strings.Repeat("9", 19)); err == nil {
		t.Error("an exponent of 19 digits is read")
	}
}
