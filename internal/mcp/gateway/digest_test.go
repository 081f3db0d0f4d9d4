package gateway

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// What a schema requires and enumerates are sets: a server that writes them in another order has the same tool. All
// else that differs is another.
func TestADigestHasNoOrderOfSets(t *testing.T) {
	t.Parallel()
	schema := func(s string) string {
		digest, _ := toolDigests(mcp.Object{{Name: "inputSchema", Value: jsontext.Value(s)}})
		return digest
	}
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"required", `{"required":["a","b"]}`, `{"required":["b","a","b"]}`, true},
		{"enum", `{"properties":{"p":{"enum":[1,"1",null,{"a":1,"b":2}]}}}`,
			`{"properties":{"p":{"enum":[{"b":2,"a":1},null,"1",1,1]}}}`, true},
		{"deep", `{"$defs":{"d":{"anyOf":[{"items":{"enum":["x","y"]}}]}}}`,
			`{"$defs":{"d":{"anyOf":[{"items":{"enum":["y","x"]}}]}}}`, true},
		{"a property of that name", `{"properties":{"required":{"enum":["a","b"]},"default":{"required":["a","b"]}}}`,
			`{"properties":{"required":{"enum":["b","a"]},"default":{"required":["b","a"]}}}`, true},
		{"another name", `{"required":["a","b"]}`, `{"required":["a","c"]}`, false},
		{"one more", `{"required":["a"]}`, `{"required":["a","b"]}`, false},
		{"numbers as they are written", `{"enum":[1]}`, `{"enum":[1.0]}`, false},
		{"a list in an enum", `{"enum":[["a","b"]]}`, `{"enum":[["b","a"]]}`, false},
		{"a default", `{"default":{"enum":[1,2]}}`, `{"default":{"enum":[2,1]}}`, false},
		{"a const", `{"const":{"required":["a","b"]}}`, `{"const":{"required":["b","a"]}}`, false},
		{"what is not known", `{"x-data":{"enum":[1,2]}}`, `{"x-data":{"enum":[2,1]}}`, false},
		{"alternatives", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `{"anyOf":[{"type":"null"},{"type":"string"}]}`,
			false},
		{"a text", `{"required":"ab"}`, `{"required":"ba"}`, false},
	} {
		if got := schema(c.a) == schema(c.b); got != c.same {
			t.Errorf("%s: the same %t, want %t", c.name, got, c.same)
		}
	}
	for s, differs := range map[string]bool{`{"required":["a","b"]}`: false, `{"required":["b","a"]}`: true} {
		o := mcp.Object{{Name: "description", Value: jsontext.Value(`"d"`)}, {Name: "outputSchema", Value: jsontext.Value(s)}}
		digest, listed := toolDigests(o)
		if was := digestOf(o); (listed != "") != differs || differs && listed != was || !differs && digest != was {
			t.Errorf("%s: %s, listed %s, as it was %s", s, digest, listed, was)
		}
	}
}

// A server that nests schemas in schemas without end has each level read again no more than so often: what lies deeper
// counts in the order in which it is written.
func TestRule12_SetsAreSoughtToADepth(t *testing.T) {
	t.Parallel()
	digest := func(levels int, set string) string {
		nested := strings.Repeat(`{"not":`, levels-1) + `{"enum":` + set + `}` + strings.Repeat("}", levels-1)
		digest, _ := toolDigests(mcp.Object{{Name: "inputSchema", Value: jsontext.Value(nested)}})
		return digest
	}
	for levels, same := range map[int]bool{1: true, sortedLevels: true, sortedLevels + 1: false, 9000: false} {
		if got := digest(levels, `[1,2]`) == digest(levels, `[2,1]`); got != same {
			t.Errorf("%d levels: the same %t, want %t", levels, got, same)
		}
	}
}
