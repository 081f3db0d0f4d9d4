package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"
)

func TestArgsAreCheckedAgainstAToolsSchema(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{
		"amount_cents":{"type":"integer","minimum":1,"maximum":0.5e4},
		"exact":{"const":9007199254740993},
		"to":{"type":"string","pattern":"^acct-","maxLength":12},
		"when":{"enum":["now","later"]},
		"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true},
		"either":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"tree":{"$ref":"#/$defs/tree"}},
		"$defs":{"tree":{"type":"object","properties":{"child":{"$ref":"#/$defs/tree"}},"additionalProperties":false}},
		"required":["to"],"additionalProperties":false}`
	for _, test := range []struct{ args, want string }{
		{`{"to":"acct-1","amount_cents":5000,"exact":9007199254740993,"tags":["a"],"either":null}`, ""},
		{`{"amount_cents":1}`, "args.to is missing"},
		{`{"to":"acct-1","amount_cents":"secret"}`, "args.amount_cents must be of type integer"},
		{`{"to":"acct-1","amount_cents":5001}`, "args.amount_cents must be at most 5000"},
		{`{"to":"acct-1","amount_cents":0}`, "args.amount_cents must be at least 1"},
		{`{"to":"acct-1","exact":9007199254740992}`, "args.exact must be one of the values that the tool takes"},
		{`{"to":"secret"}`, "args.to does not have the form that the tool asks for"},
		{`{"to":"acct-secretsecret"}`, "args.to must have at most 12 characters"},
		{`{"to":"acct-1","when":"secret"}`, "args.when must be one of the values that the tool takes"},
		{`{"to":"acct-1","tags":[7]}`, "args.tags.0 must be of type string"},
		{`{"to":"acct-1","tags":["secret","secret"]}`, "args.tags must not have an item twice"},
		{`{"to":"acct-1","either":7}`, "args.either is not what the tool takes"},
		{`{"to":"acct-1","more":"secret"}`, "the tool does not know args.more"},
		{`{"to":"acct-1","tree":{"child":{"child":{"leaf":"secret"}}}}`, "the tool does not know args.tree.child.child.leaf"},
	} {
		want := test.want
		if want != "" {
			want = "The tool does not take these args: " + want + "."
		}
		if got := checkSchema([]byte(schema), []byte(test.args)); got != want {
			t.Errorf("%s: got %q, want %q", test.args, got, want)
		}
	}
}

// A schema is a server's: nothing is fetched for it, it takes no time worth speaking of, and where it is not
// understood nothing is known.
func TestOfASchemaThatCannotBeUsedNothingIsKnown(t *testing.T) {
	t.Parallel()
	doubling := `{"$defs":{"s0":{"type":"string"}`
	for i := 1; i < 60; i++ {
		doubling += fmt.Sprintf(`,"s%d":{"anyOf":[{"$ref":"#/$defs/s%d"},{"$ref":"#/$defs/s%d"}]}`, i, i-1, i-1)
	}
	doubling += `},"$ref":"#/$defs/s59"}`
	deep := `{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}],"required":["b"]}`
	for what, schema := range map[string]string{
		"none":              ``,
		"no schema":         `7`,
		"broken":            `{"type":"odd"}`,
		"not JSON":          `{"type":`,
		"a remote one":      `{"$ref":"http://127.0.0.1:1/schema"}`,
		"a file":            `{"$ref":"file:///etc/passwd"}`,
		"another language":  `{"$schema":"http://127.0.0.1:1/meta","type":"string"}`,
		"itself":            `{"$ref":"#"}`,
		"doubling":          doubling,
		"doubling by depth": deep,
		"a large number":    `{"type":"string","maximum":1e999999999}`,
		"a large schema":    `{"type":"string","description":"` + strings.Repeat("x", maxSchema) + `"}`,
		"a bad pattern":     `{"properties":{"a":{"type":"string","pattern":"(?=x)"}}}`,
	} {
		began := time.Now()
		args := strings.Repeat(`{"a":`, 40) + `{}` + strings.Repeat(`}`, 40)
		if got := checkSchema([]byte(schema), []byte(args)); got != "" {
			t.Errorf("%s: %s", what, got)
		}
		if took := time.Since(began); took > testkit.Patience {
			t.Errorf("%s took %s", what, took)
		}
	}
	if got := checkSchema([]byte(`{"properties":{"n":{"maximum":1}}}`), []byte(`{"n":1e999999999}`)); got != "" {
		t.Errorf("a large argument: %s", got)
	}
}
