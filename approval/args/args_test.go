package args

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/internal/testkit"
	"countersign/internal/testkit/jsongen"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func mustArgs(t testing.TB, raw string) Args {
	t.Helper()
	a, err := Parse([]byte(raw))
	if err != nil {
		t.Fatalf("Parse(%.80q): %v", raw, err)
	}
	return a
}

func wantRefused(t *testing.T, raw, reason string) {
	t.Helper()
	a, err := Parse([]byte(raw))
	refused, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("Parse(%.80q) = %.80s, %v; want *Error", raw, a.Canonical(), err)
	}
	if refused.Reason != reason {
		t.Errorf("Parse(%.80q): reason %q, want %q", raw, refused.Reason, reason)
	}
}

func TestRule3_ArgsAreCanonical(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", "", `{}`},
		{"empty object", " {\n} ", `{}`},
		{"white space goes", "\t{ \"a\" : [ 1 , 2 ] }\r\n", `{"a":[1,2]}`},
		{"keys are sorted at every level", `{"b":{"d":1,"c":2},"a":0}`, `{"a":0,"b":{"c":2,"d":1}}`},
		{"arrays keep their order", `{"a":[2,1,3]}`, `{"a":[2,1,3]}`},
		{"keys sort by UTF-16, not by code point", `{"` + "\ufb33" + `":1,"😀":2}`, `{"😀":2,"` + "\ufb33" + `":1}`},
		{"escapes only where needed", `{"\u0061":"\u00e9\/\u0022\u005c\u001F\u007f\u2028"}`, `{"a":"é/\"\\\u001f` +
			"\u007f\u2028" + `"}`},
		{"short escapes", `{"a":"\u0008\u000c\u000a\u000d\u0009\u0000"}`, `{"a":"\b\f\n\r\t\u0000"}`},
		{"surrogate pairs are one character", `{"a":"\ud83d\ude00"}`, `{"a":"😀"}`},
		{"no Unicode normalisation", `{"a":"e` + "\u0301" + `"}`, `{"a":"e` + "\u0301" + `"}`},

		// Every row of the reference's table of numbers.
		{"past 2^53", `{"n":9007199254740993}`, `{"n":9007199254740993}`},
		{"past 64 bits", `{"n":123456789012345678901234567890}`, `{"n":123456789012345678901234567890}`},
		{"fractions as written", `{"n":1.10}`, `{"n":1.10}`},
		{"exponents as written", `{"n":1e2}`, `{"n":1e2}`},
		{"trailing zeros as written", `{"n":100.0}`, `{"n":100.0}`},
		{"negative zero", `{"n":-0}`, `{"n":-0}`},
		{"negative zero with a fraction", `{"n":-0.0}`, `{"n":-0.0}`},
		{"past float64", `{"n":1E400}`, `{"n":1E400}`},
		{"literals", `{"f":false,"n":null,"t":true}`, `{"f":false,"n":null,"t":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := mustArgs(t, c.raw)
			if got := string(a.Canonical()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got, want := a.Hash(), fmt.Sprintf("%x", sha256.Sum256([]byte(c.want))); got != want {
				t.Errorf("hash %s, want %s", got, want)
			}
		})
	}
}

func TestRule3_TheZeroArgsIsTheEmptyObject(t *testing.T) {
	var zero Args
	if got, want := zero.Hash(), mustArgs(t, "{}").Hash(); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	if m, err := zero.Decode(); err != nil || m == nil || len(m) != 0 {
		t.Errorf("Decode() = %v, %v; want an empty map", m, err)
	}
	_ = append(zero.Canonical(), "garbage"...)
	if got := string(Args{}.Canonical()); got != "{}" {
		t.Errorf("appending to one Canonical changed the next: %s", got)
	}
}

func TestRule3_ParsingLeavesItsInputAlone(t *testing.T) {
	raw := []byte(`{ "b":1, "a":2 }`)
	before := bytes.Clone(raw)
	a, err := Parse(raw)
	if err != nil || !bytes.Equal(raw, before) {
		t.Fatalf("input is now %s (%v)", raw, err)
	}
	clear(raw)
	if got := string(a.Canonical()); got != `{"a":2,"b":1}` {
		t.Errorf("canonical changed with the input: %s", got)
	}
}

func TestRule3_DuplicateKeysAreRefused(t *testing.T) {
	wantRefused(t, `{"a":1,"a":1}`, "duplicate key at /a")
	wantRefused(t, `{"a":1,"\u0061":2}`, "duplicate key at /a")
	wantRefused(t, `{"a":[{"b":{"c":1,"d":2,"c":3}}]}`, "duplicate key at /a/0/b/c")
	wantRefused(t, `{"`+strings.Repeat("x", 300)+`":1,"`+strings.Repeat("x", 300)+`":1}`,
		"duplicate key at /(300 characters)")
	wantRefused(t, `{"a\u202eb":{"a/b":1,"a/b":1}}`, "duplicate key at /(3 characters)/(3 characters)")
	key := "gh" + "p_" + strings.Repeat("Ab1", 10)
	wantRefused(t, `{"`+key+`":1,"`+key+`":1}`, "duplicate key at /(34 characters)")
	deep := strings.Repeat(`{"k":`, 12)
	wantRefused(t, deep+`{"a":1,"a":1}`+strings.Repeat("}", 12), "duplicate key at"+" "+strings.Repeat("/k", 8)+"/…")
	mustArgs(t, `{"a":{"a":1},"b":{"a":1}}`)
}

func TestRule3_InvalidUTF8IsRefused(t *testing.T) {
	for _, bad := range []string{"\xff", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80"} {
		wantRefused(t, `{"a":"x`+bad+`"}`, "invalid UTF-8 at /a")
	}
	if _, err := Parse([]byte("{\"\xff\":1}")); err == nil {
		t.Error("invalid UTF-8 in a key was accepted")
	}
}

func TestRule3_LoneSurrogatesAreRefused(t *testing.T) {
	for _, bad := range []string{`\ud800`, `\udc00`, `\ud83dx`, `\ud83d\u0041`, `\ude00\ud83d`, `\uD800\uD800`} {
		wantRefused(t, `{"a":["`+bad+`"]}`, "half of a surrogate pair at /a/0")
		if _, err := Parse([]byte(`{"` + bad + `":1}`)); err == nil {
			t.Errorf("%s in a key was accepted", bad)
		}
	}
}

func TestRule3_NestingOver64LevelsIsRefused(t *testing.T) {
	const reason = "nested more than 64 levels deep"
	nest := func(open, shut string, n int) string {
		return `{"a":` + strings.Repeat(open, n-1) + "1" + strings.Repeat(shut, n-1) + `}`
	}
	mustArgs(t, nest("[", "]", 64))
	mustArgs(t, nest(`{"a":`, "}", 64))
	wantRefused(t, nest("[", "]", 65), reason)
	wantRefused(t, nest(`{"a":`, "}", 65), reason)
	wantRefused(t, nest("[", "]", 20000), reason)
	wantRefused(t, `{"a":`+strings.Repeat("[", 100), reason)
	// Brackets in strings open nothing, and closed ones do not count.
	mustArgs(t, `{"a":"`+strings.Repeat(`[{\"`, 200)+`"}`)
	mustArgs(t, `{"a":[`+strings.Repeat("[],{},", 200)+`0]}`)
	mustArgs(t, `{"a\\":[`+strings.Repeat(`"\\",[],`, 200)+`0]}`)
}

func TestRule3_OnlyOneObjectIsAccepted(t *testing.T) {
	for raw, reason := range map[string]string{
		` `:           "the arguments must be a JSON object",
		`null`:        "the arguments must be a JSON object",
		`[]`:          "the arguments must be a JSON object",
		`"a"`:         "the arguments must be a JSON object",
		`1`:           "the arguments must be a JSON object",
		"\ufeff{}":    "the arguments must be a JSON object",
		`{} {}`:       "something follows the arguments object",
		`{}x`:         "something follows the arguments object",
		"{}\x00":      "something follows the arguments object",
		`{"a":1}}`:    "something follows the arguments object",
		`{`:           "the JSON ends too early",
		`{"a`:         "the JSON ends too early",
		`{"a":1,}`:    "not valid JSON at byte 7",
		`{"a":01}`:    "not valid JSON at byte 6",
		`{'a':1}`:     "not valid JSON at byte 1",
		`{"a":NaN}`:   "not valid JSON at byte 5 at /a",
		`{"a":1]`:     "not valid JSON at byte 6",
		"{\"a\":\"\n": "not valid JSON at byte 6 at /a",
		`{1:2}`:       "not valid JSON at byte 1",
	} {
		wantRefused(t, raw, reason)
	}
}

func TestRule3_RefusalsQuoteNoValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hidden := "Qz7" + rapid.StringMatching(`[A-Za-z0-9]{9}`).Draw(t, "hidden")
		tail := rapid.SampledFrom([]string{`","b":01}`, "\xff\"}", `\ud800"}`, `"} x`, `","a":1}`, "", `"`,
			`","b":{"c":tru}}`}).Draw(t, "tail")
		raw := `{"a":"` + hidden + tail
		_, err := Parse([]byte(raw))
		if err == nil {
			t.Fatalf("%q was accepted", raw)
		}
		if strings.Contains(err.Error(), hidden) || legible.Line(err.Error()) != err.Error() {
			t.Fatalf("%q: unsafe message %q", raw, err)
		}
	})
}

func TestRule3_KeysThatDifferOnlyInCaseAreAmbiguous(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"path":1,"Path":2}`:                    true,
		`{"a":[{"b":{"id":1,"ID":2}}]}`:          true,
		`{"k":1,"` + "\u212a" + `":2}`:           true, // Kelvin sign
		`{"` + "\u017f" + `":1,"s":2}`:           true, // long s
		`{"\u0053":1,"s":2}`:                     true,
		`{"` + "\u03c3" + `":1,"` + "ς" + `":2}`: true,
		`{"É":1,"é":2}`:                          true,
		`{"a\nb":1,"A\nB":2}`:                    true,
		`{"path":1,"path2":2}`:                   false,
		`{"Path":{"path":1},"b":{"PATH":1}}`:     false,
		`{"a":["x","X"],"b":"B"}`:                false,
		`{"a":"B","b":"A"}`:                      false,
		`{"ß":1,"SS":2}`:                         false, // full folding only
		`{"i":1,"İ":2,"ı":3}`:                    false,
		`{"a\\n":1,"a\nB":2}`:                    false,
		`{"\\N":1,"\n":2}`:                       false,
	} {
		if got := mustArgs(t, raw).Ambiguous(); got != want {
			t.Errorf("%s: ambiguous %v, want %v", raw, got, want)
		}
	}
}

// anyFoldedPair says what Ambiguous must, slowly.
func anyFoldedPair(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		var names []string
		for name, inner := range v {
			if anyFoldedPair(inner) {
				return true
			}
			for _, other := range names {
				if strings.EqualFold(name, other) {
					return true
				}
			}
			names = append(names, name)
		}
	case []any:
		return slices.ContainsFunc(v, anyFoldedPair)
	}
	return false
}

func TestRule3_AmbiguousIsEqualFold(t *testing.T) {
	key := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]rune("kK\u212asSſßẞiIİıσςΣéÉ\\nN\n\"uU0\u0130")), 0, 3).Draw(t,
			"key"))
	})
	rapid.Check(t, func(t *rapid.T) {
		inner := map[string]any{}
		for _, k := range rapid.SliceOfN(key, 0, 6).Draw(t, "keys") {
			inner[k] = k
		}
		tree := map[string]any{"x": []any{inner, "x", "X"}, "y": map[string]any{"X": nil}}
		raw := jsongen.Spell(t, tree)
		a, err := Parse([]byte(raw))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got, want := a.Ambiguous(), anyFoldedPair(tree); got != want {
			t.Fatalf("%s: ambiguous %v, want %v", raw, got, want)
		}
	})
}

func TestRule3_IgnoredArgsAreDroppedBeforeHashing(t *testing.T) {
	for _, c := range []struct {
		raw    string
		ignore []string
		want   string
	}{
		{`{"a":1,"b":2,"c":3}`, nil, `{"a":1,"b":2,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, []string{"x"}, `{"a":1,"b":2,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, []string{"a"}, `{"b":2,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, []string{"b"}, `{"a":1,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, []string{"c"}, `{"a":1,"b":2}`},
		{`{"a":1,"b":2,"c":3}`, []string{"c", "a"}, `{"b":2}`},
		{`{"a":1,"b":2,"c":3}`, []string{"a", "b", "c"}, `{}`},
		{`{"a":{"b":1},"b":{"a":[1,"}"]}}`, []string{"a"}, `{"b":{"a":[1,"}"]}}`},
		{`{"A":1,"b":2}`, []string{"a"}, `{"A":1,"b":2}`},
		{`{"\u0061\n":1,"b":2}`, []string{"a\n"}, `{"b":2}`},
		{`{"a":1,"b":{"c":1,"C":2}}`, []string{"a"}, `{"a":1,"b":{"C":2,"c":1}}`}, // ambiguous
	} {
		a := mustArgs(t, c.raw)
		if got, want := a.Hash(c.ignore...), fmt.Sprintf("%x", sha256.Sum256([]byte(c.want))); got != want {
			t.Errorf("%s without %v: hash is not that of %s", c.raw, c.ignore, c.want)
		}
	}
}

func TestRule3_IgnoringIsLikeNotSending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := jsongen.Object(3).Draw(t, "args")
		a, _ := Parse([]byte(jsongen.Spell(t, tree)))
		var ignore []string
		rest := map[string]any{}
		for k, v := range tree {
			if rapid.Bool().Draw(t, "drop") {
				ignore = append(ignore, k)
			} else {
				rest[k] = v
			}
		}
		want := rest
		if a.Ambiguous() {
			want = tree
		}
		b, _ := Parse([]byte(jsongen.Spell(t, want)))
		if a.Hash(ignore...) != b.Hash() {
			t.Fatalf("%s without %q is not %s", a.Canonical(), ignore, b.Canonical())
		}
		for k := range tree {
			if !a.Has(k) {
				t.Fatalf("Has(%q) is false", k)
			}
		}
		if a.Has("not there") {
			t.Fatal("Has of a key that is not there")
		}
	})
}

func TestLookup(t *testing.T) {
	a := mustArgs(t, `{
		"a": {"b": {"c": 1}, "b.c": 2, "": 3, "0": "zero"},
		"a.b": {"c": 4}, "list": [10, {"x": [null, true]}, [], "s"],
		"q\"uote": "\u00e9\n", "": {"": 5}, "s": "text"}`)
	for path, want := range map[string]string{
		"a.b":      `{"c":4}`,
		"a.b.c":    `4`,
		"a.0":      `"zero"`,
		"a.":       `3`,
		"":         `{"":5}`,
		".":        `5`,
		"list.0":   `10`,
		"list.1":   `{"x":[null,true]}`,
		"list.2":   `[]`,
		"list.3":   `"s"`,
		`q"uote`:   `"é\n"`,
		"list":     `[10,{"x":[null,true]},[],"s"]`,
		"s":        `"text"`,
		"list.1.x": `[null,true]`, "list.1.x.0": `null`, "list.1.x.1": `true`,
	} {
		if got, ok := a.Lookup(path); !ok || string(got) != want {
			t.Errorf("Lookup(%q) = %s, %v; want %s", path, got, ok, want)
		}
	}
	for _, path := range []string{"x", "a.x", "A", "list.4", "list.00", "list.01", "list.-1", "list.+1", "list.1.",
		"list.", "list.2.0", "s.0", "a.b.c.d", "list.99999999999999999999"} {
		if got, ok := a.Lookup(path); ok || got != nil {
			t.Errorf("Lookup(%q) = %s, want nothing", path, got)
		}
	}
	var all []string
	for _, v := range a.LookupAll("a.b.c") {
		all = append(all, string(v))
	}
	if want := []string{"4", "2", "1"}; !slices.Equal(all, want) {
		t.Errorf("LookupAll = %v, want %v: longest key first", all, want)
	}
	exact := mustArgs(t, `{"a":{"b":1},"a.b":2}`)
	if got, _ := exact.Lookup("a.b"); string(got) != "2" {
		t.Errorf("an exact key does not win: %s", got)
	}
}

func TestLookupFindsEveryLeaf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := jsongen.Object(3).Draw(t, "args")
		a, _ := Parse([]byte(jsongen.Spell(t, tree)))
		var walk func(path string, v any)
		walk = func(path string, v any) {
			ways := a.LookupAll(path)
			want, _ := jsontext.AppendFormat(nil, jsongen.Spell(t, v), jsontext.ReorderRawObjects(true))
			if !slices.ContainsFunc(ways, func(w jsontext.Value) bool { return bytes.Equal(w, want) }) {
				t.Fatalf("LookupAll(%q) = %s, which lacks %s", path, ways, want)
			}
			if first, ok := a.Lookup(path); !ok || !bytes.Equal(first, ways[0]) {
				t.Fatalf("Lookup(%q) = %s, not the first of %s", path, first, ways)
			}
			switch v := v.(type) {
			case map[string]any:
				for k, inner := range v {
					walk(path+"."+k, inner)
				}
			case []any:
				for i, inner := range v {
					walk(path+"."+strconv.Itoa(i), inner)
				}
			}
		}
		for k, v := range tree {
			walk(k, v)
		}
	})
}

func TestDecodeKeepsNumbersExact(t *testing.T) {
	a := mustArgs(t, `{"n":9007199254740993,"l":[1.10,-0,1E400],"s":"é\n","t":true,"f":false,"z":null,"o":{"":{}}}`)
	got, err := a.Decode()
	want := map[string]any{
		"n": json.Number("9007199254740993"),
		"l": []any{json.Number("1.10"), json.Number("-0"), json.Number("1E400")},
		"s": "é\n", "t": true, "f": false, "z": nil,
		"o": map[string]any{"": map[string]any{}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Decode() = %#v, %v", got, err)
	}
	again, _ := a.Decode()
	if reflect.ValueOf(got).Pointer() != reflect.ValueOf(again).Pointer() {
		t.Error("decoded twice")
	}
}

func TestRule3_SameMeaningSameHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := jsongen.Object(3).Draw(t, "args")
		one, two := jsongen.Spell(t, tree), jsongen.Spell(t, tree)
		a, err := Parse([]byte(one))
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		b, err := Parse([]byte(two))
		if err != nil {
			t.Fatalf("%s: %v", two, err)
		}
		if a.Hash() != b.Hash() || !bytes.Equal(a.Canonical(), b.Canonical()) {
			t.Fatalf("%s\nand\n%s\nhave the forms\n%s\nand\n%s", one, two, a.Canonical(), b.Canonical())
		}
	})
}

// change returns v with one thing in it changed.
func change(t *rapid.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := map[string]any{}
		var keys []string
		for k, inner := range v {
			c[k] = inner
			keys = append(keys, k)
		}
		slices.Sort(keys)
		fresh := jsongen.Key().Filter(func(k string) bool { _, ok := v[k]; return !ok })
		if len(keys) == 0 {
			c[fresh.Draw(t, "new key")] = nil
			return c
		}
		k := rapid.SampledFrom(keys).Draw(t, "key")
		switch rapid.SampledFrom([]string{"drop", "add", "rename", "inside", "inside", "inside"}).Draw(t, "change") {
		case "drop":
			delete(c, k)
		case "add":
			c[fresh.Draw(t, "new key")] = nil
		case "rename":
			c[fresh.Draw(t, "new name")] = c[k]
			delete(c, k)
		default:
			c[k] = change(t, c[k])
		}
		return c
	case []any:
		if len(v) == 0 {
			return []any{nil}
		}
		c := slices.Clone(v)
		i := rapid.IntRange(0, len(c)-1).Draw(t, "element")
		switch rapid.SampledFrom([]string{"drop", "add", "swap", "inside"}).Draw(t, "change") {
		case "drop":
			return slices.Delete(c, i, i+1)
		case "add":
			return slices.Insert(c, i, any(nil))
		case "swap":
			j := rapid.IntRange(0, len(c)-1).Draw(t, "other")
			if !reflect.DeepEqual(c[i], c[j]) {
				c[i], c[j] = c[j], c[i]
				return c
			}
		}
		c[i] = change(t, c[i])
		return c
	}
	return jsongen.Value(1).Filter(func(w any) bool { return !reflect.DeepEqual(v, w) }).Draw(t, "other value")
}

func TestRule3_DifferentMeaningDifferentHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := jsongen.Object(3).Draw(t, "args")
		other := change(t, tree)
		if reflect.DeepEqual(any(tree), other) {
			t.Skip("changed back")
		}
		one, two := jsongen.Spell(t, tree), jsongen.Spell(t, other)
		a, err := Parse([]byte(one))
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		b, err := Parse([]byte(two))
		if err != nil {
			t.Fatalf("%s: %v", two, err)
		}
		if a.Hash() == b.Hash() {
			t.Fatalf("%s\nand\n%s\nhave one hash", one, two)
		}
	})
}

func TestRule3_NumbersThatFloatsConfuseDiffer(t *testing.T) {
	hashes := map[string]string{}
	for _, n := range []string{
		"9007199254740992", "9007199254740993", "123456789012345678901234567890", "123456789012345678901234567891",
		"1", "1.0", "1.00", "1e0", "1E0", "10e-1", "100", "1e2", "1e+2", "0", "-0", "0.0", "-0.0", "1e400", "1E400", "1e401",
		`"1"`, "true", "null", "[1]", `{"":1}`,
	} {
		h := mustArgs(t, `{"n":`+n+`}`).Hash()
		if other, ok := hashes[h]; ok {
			t.Errorf("%s and %s have one hash", n, other)
		}
		hashes[h] = n
	}
}

// checkArgs holds what is true of all accepted args.
func checkArgs(t interface {
	Helper()
	Fatalf(string, ...any)
}, raw []byte, a Args) {
	t.Helper()
	canonical := a.Canonical()
	again, err := Parse(canonical)
	if err != nil || !bytes.Equal(again.Canonical(), canonical) || again.Hash() != a.Hash() ||
		again.Ambiguous() != a.Ambiguous() {
		t.Fatalf("canonical of canonical differs: %q, %v", canonical, err)
	}
	value := jsontext.Value(bytes.Clone(raw))
	if len(raw) == 0 {
		value = jsontext.Value("{}")
	}
	if err := value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil ||
		!bytes.Equal(value, canonical) {
		t.Fatalf("Canonicalize gives %q, %v; we have %q", value, err, canonical)
	}
	var want map[string]any
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.UseNumber()
	if err := d.Decode(&want); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", canonical, err)
	}
	got, err := a.Decode()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("decoded %#v, %v; encoding/json %#v", got, err, want)
	}
	if a.Ambiguous() != anyFoldedPair(want) {
		t.Fatalf("%q: ambiguous %v", canonical, a.Ambiguous())
	}
	for k := range want {
		if !a.Has(k) || len(a.LookupAll(k)) == 0 {
			t.Fatalf("key %q of %q not found", k, canonical)
		}
	}
}

func TestRule3_CanonicalIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(jsongen.Spell(t, jsongen.Object(3).Draw(t, "args")))
		a, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		checkArgs(t, raw, a)
	})
}

func FuzzParseArgs(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"b":[1,{"d":-0.0,"c":1E400}],"a":"\u00e9\ud83d\ude00"}`, `{"a":1,"\u0061":2}`, `{"k":1,"` + "\u212a" +
			`":2}`,
		`{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{} x`, `{"a.b":1,"a":{"b":2}}`, strings.Repeat(`{"a":[`, 33),
		`{"a":"\\\"","b\\":"\\"}`, `[1]`, `{"a":nul}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		a, err := Parse(raw)
		if !bytes.Equal(raw, before) {
			t.Fatalf("input changed from %q to %q", before, raw)
		}
		if err != nil {
			refused, ok := errors.AsType[*Error](err)
			if !ok || refused.Reason == "" || len(err.Error()) > 600 || legible.Line(err.Error()) != err.Error() {
				t.Fatalf("%q: bad error %#v", raw, err)
			}
			value := jsontext.Value(bytes.Clone(raw))
			if value.IsValid() && value.Kind() == '{' && refused.Reason != "nested more than 64 levels deep" {
				t.Fatalf("%q is a valid object, refused for %q", raw, refused.Reason)
			}
			return
		}
		if !utf8.Valid(raw) {
			t.Fatalf("%q accepted", raw)
		}
		checkArgs(t, raw, a)
	})
}

// TestHostileArgsTakeLinearTime: the bound is wide for slow machines; a quadratic
// step would take many times as long.
func TestHostileArgsTakeLinearTime(t *testing.T) {
	const size = 1 << 18
	many := func(n int, key func(i int) string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:0", key(i))
		}
		return b.String() + "}"
	}
	var unsorted strings.Builder
	unsorted.WriteString(strings.Repeat(`{"z":`, 60) + `{"z":"` + strings.Repeat("x", size) + `","a":0}`)
	unsorted.WriteString(strings.Repeat(`,"a":0}`, 60))
	for name, raw := range map[string]string{
		"many keys": many(25_000, func(i int) string { return "K" + strconv.Itoa(25_000-i) }),
		"alike but for case": many(15_000, func(i int) string {
			return fmt.Sprintf("%s%05d", []string{"Key", "kEy", "keY"}[i%3], i)
		}),
		"long common prefix":   many(250, func(i int) string { return strings.Repeat("A", 1000) + strconv.Itoa(i) }),
		"moved at every level": unsorted.String(),
		"backslashes":          `{"a":"` + strings.Repeat(`\\`, size/2) + `"}`,
		"escaped quotes":       `{"A":"` + strings.Repeat(`\"`, size/2) + `"}`,
		"open strings":         `{"a":"` + strings.Repeat(`\\"`, size/3),
		"colons":               `{"A"` + strings.Repeat(`:`, size),
		"brackets":             strings.Repeat("[{", size/2),
		"wide":                 `{"a":[` + strings.Repeat("[],", size/3) + `[]]}`,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			a, err := Parse([]byte(raw))
			if err == nil {
				a.Hash("a")
				a.Lookup("a.0.b")
				_, _ = a.Decode()
				(*redact.Masker)(nil).Args(a.Canonical())
			}
			if took := time.Since(start); took > testkit.Patience {
				t.Errorf("%d bytes took %v", len(raw), took)
			}
		})
	}
}

// yardstick is the document of the project's benchmark of canonical forms: keys
// in no order, indented, at least n bytes.
func yardstick(n int) []byte {
	m := map[string]any{}
	for i := 0; ; i++ {
		m[fmt.Sprintf("key_%d", (i*7919)%100003)] = map[string]any{"z": float64(i) * 1.5, "a": "value é " +
			strings.Repeat("x", 40), "list": []int{3, 1, 2}, "ok": true}
		b, _ := json.Marshal(m)
		if len(b) >= n {
			var out bytes.Buffer
			_ = json.Indent(&out, b, "", " ")
			return out.Bytes()
		}
	}
}

func BenchmarkArgs1KiB(b *testing.B)  { benchmarkArgs(b, 1<<10) }
func BenchmarkArgs64KiB(b *testing.B) { benchmarkArgs(b, 64<<10) }

// benchmarkArgs sets parsing and hashing beside its ceiling, jsontext with SHA-256
// and no check, in one run.
func benchmarkArgs(b *testing.B, n int) {
	doc := yardstick(n)
	camel := bytes.ReplaceAll(doc, []byte("key_"), []byte("keyName"))
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
	parse := func(doc []byte) Args {
		a, err := Parse(doc)
		if err != nil {
			b.Fatal(err)
		}
		return a
	}
	var buf jsontext.Value
	run("jsontext", func() {
		buf = append(buf[:0], doc...)
		if err := buf.Canonicalize(); err != nil {
			b.Fatal(err)
		}
		sha256.Sum256(buf)
	})
	run("jsontext-raw-numbers", func() {
		buf = append(buf[:0], doc...)
		if err := buf.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
			b.Fatal(err)
		}
		sha256.Sum256(buf)
	})
	run("parse+hash", func() { parse(doc).Hash() })
	run("parse+hash-camelCase", func() { parse(camel).Hash() })
	run("parse+hash-ignoring", func() { parse(doc).Hash("key_0", "description") })
	run("parse+hash+decode", func() {
		a := parse(doc)
		a.Hash()
		if _, err := a.Decode(); err != nil {
			b.Fatal(err)
		}
	})
	a := parse(doc)
	run("lookup", func() { a.Lookup("key_0.list.2") })
	run("mask", func() { (*redact.Masker)(nil).Args(a.Canonical()) })
	run("mask-1KiB", func() { (*redact.Masker)(nil).ArgsLimited(a.Canonical(), 1024) })
}
