package mcp

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestParseTakesWhatItWrites(t *testing.T) {
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":12345678901234567890,"d":1.10}}}`,
		`{"jsonrpc":"2.0","id":"a\u0062","method":"ping"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":7,"result":{"content":[{"x":1,"x":2}]}}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}`,
	} {
		m, err := Parse([]byte(raw))
		if err != nil {
			t.Errorf("Parse(%s): %v", raw, err)
			continue
		}
		if got := string(m.Bytes()); got != raw {
			t.Errorf("wrote %s\nread  %s", got, raw)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		raw  string
		code int
		says string
	}{
		{``, CodeParseError, "empty"},
		{`{`, CodeParseError, "not valid JSON"},
		{`{"jsonrpc":"2.0","id":1,"method":"x"} {}`, CodeParseError, "not valid JSON"},
		{`[{"jsonrpc":"2.0","id":1,"method":"x"}]`, CodeInvalidRequest, "batches"},
		{`{"id":1,"method":"x"}`, CodeInvalidRequest, "jsonrpc"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"x"}`, CodeInvalidRequest, "id must be"},
		{`{"jsonrpc":"2.0","id":null,"method":"x"}`, CodeInvalidRequest, "id must be"},
		{`{"jsonrpc":"2.0","id":{},"method":"x"}`, CodeInvalidRequest, "id must be"},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, CodeInvalidRequest, "method must be"},
		{`{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest, "neither"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, CodeInvalidRequest, "neither"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, CodeInvalidRequest, "not both"},
		{`{"jsonrpc":"2.0","result":{}}`, CodeInvalidRequest, "needs the id"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`, CodeInvalidRequest, "params must be"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}`, CodeInvalidRequest, "twice"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","Method":"y"}`, CodeInvalidRequest, "letter case"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","\u006dethod":"y"}`, CodeInvalidRequest, "twice"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{},"paramſ":{}}`, CodeInvalidRequest, "letter case"},
		{`"x"`, CodeInvalidRequest, "not an object"},
	} {
		_, err := Parse([]byte(c.raw))
		if err == nil || err.Code != c.code || !strings.Contains(err.Message, c.says) {
			t.Errorf("Parse(%s) = %v, want code %d and %q", c.raw, err, c.code, c.says)
		}
	}
}

func TestReadObjectOfManyNamesFindsThoseThatDifferInCase(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"needle":1`)
	for i := range 40 {
		b.WriteString(`,"k` + string(rune('a'+i%26)) + strings.Repeat("x", i) + `":0`)
	}
	if _, err := ReadObject([]byte(b.String() + "}")); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"needle", "Needle", "NEEDLE", "nee\u0064le"} {
		if _, err := ReadObject([]byte(b.String() + `,"` + other + `":2}`)); err == nil {
			t.Errorf("needle and %s were both taken", other)
		}
	}
	if _, err := ReadObject([]byte(b.String() + `,"ſ":1,"S":2}`)); err == nil {
		t.Error("a long s and an S were both taken: encoding/json of Go takes them for one name")
	}
}

func TestObjectKeepsWhatItDoesNotChange(t *testing.T) {
	o, err := ReadObject([]byte(` { "a" : 1.10 , "b":{"x":1,"x":2}, "c":"\u00e9" } `))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(o.With("a", jsontext.Value("2")).Without("c").With("d", jsontext.Value("null")).Bytes()),
		`{"a":2,"b":{"x":1,"x":2},"d":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(o.Bytes()), `{"a":1.10,"b":{"x":1,"x":2},"c":"\u00e9"}`; got != want {
		t.Errorf("the object it was made from is now %s, want %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1,{"b":null}]}}`,
		`{"jsonrpc":"2.0","id":"","error":{}}`, "[]", "{\"a\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := Parse(m.Bytes())
		if err != nil {
			t.Fatalf("what was written of %q is refused: %v", raw, err)
		}
		if string(again.Bytes()) != string(m.Bytes()) {
			t.Fatalf("%s became %s", m.Bytes(), again.Bytes())
		}
	})
}
