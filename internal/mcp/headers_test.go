package mcp

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestHeaderValuesAreEncodedOnlyWhereTheyMustBe(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain", "plain"},
		{"in the middle", "in the middle"},
		{"a~!", "a~!"},
		{"", "=?base64??="},
		{" lead", "=?base64?IGxlYWQ=?="},
		{"trail ", "=?base64?dHJhaWwg?="},
		{"tab\t", "=?base64?dGFiCQ==?="},
		{"é", "=?base64?w6k=?="},
		{"a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="},
		{"\x7f", "=?base64?fw==?="},
		{"=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="},
		{"=?base64?half", "=?base64?half"},
	} {
		got := EncodeHeader(c.text)
		if got != c.want {
			t.Errorf("EncodeHeader(%q) = %q, want %q", c.text, got, c.want)
		}
		if back, ok := DecodeHeader(got); !ok || back != c.text {
			t.Errorf("DecodeHeader(%q) = %q, %v, want %q", got, back, ok, c.text)
		}
	}
	for _, bad := range []string{"=?base64?*?=", "=?base64?YQ?=", "=?base64?YR==?=", "=?base64?Y\nQ==?="} {
		if got, ok := DecodeHeader(bad); ok {
			t.Errorf("DecodeHeader(%q) = %q, want it refused", bad, got)
		}
	}
}

func TestNameOf(t *testing.T) {
	for _, c := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"a\u0062","uri":"u"}`, "ab"},
		{"prompts/get", `{"name":"p"}`, "p"},
		{"resources/read", `{"name":"p","uri":"file:///x"}`, "file:///x"},
		{"tasks/get", `{"taskId":"t"}`, "t"},
		{"tasks/cancel", `{"taskId":"t"}`, "t"},
		{"tools/list", `{"name":"x"}`, ""},
		{"tools/call", `{"name":"x","Name":"y"}`, ""},
		{"tools/call", `{"name":7}`, ""},
		{"tools/call", ``, ""},
	} {
		if got := NameOf(c.method, jsontext.Value(c.params)); got != c.want {
			t.Errorf("NameOf(%s, %s) = %q, want %q", c.method, c.params, got, c.want)
		}
	}
}

func TestParamHeadersAreFoundInNestedProperties(t *testing.T) {
	schema := `{"type":"object","x-mcp-header":"Root","properties":{
		"zone":{"type":"string","x-mcp-header":"Zone"},
		"a":{"type":"object","properties":{"b":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}},"x":true}},
		"bad1":{"type":"string","x-mcp-header":"no spaces"},
		"bad2":{"type":"string","x-mcp-header":"line\r\nbreak"},
		"bad3":{"type":"string","x-mcp-header":""},
		"bad4":{"type":"string","x-mcp-header":7},
		"twice":{"type":"string","x-mcp-header":"Same"},
		"again":{"type":"string","x-mcp-header":"sAME"},
		"items":{"type":"array","items":{"properties":{"q":{"x-mcp-header":"InItems"}}}}}}`
	got := ParamHeaders(jsontext.Value(schema))
	want := []ParamHeader{{[]string{"a", "b", "region"}, "Mcp-Param-Region"}, {[]string{"zone"}, "Mcp-Param-Zone"}}
	if !slices.EqualFunc(got, want, func(a, b ParamHeader) bool {
		return a.Header == b.Header && slices.Equal(a.Path, b.Path)
	}) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, none := range []string{``, `true`, `{`, `{"properties":[]}`, `{"properties":{"a":{"type":"string"}}}`} {
		if got := ParamHeaders(jsontext.Value(none)); got != nil {
			t.Errorf("ParamHeaders(%s) = %v, want none", none, got)
		}
	}
	if got := ParamHeaders(jsontext.Value(strings.Repeat(`{"properties":{"mcp-header":`, 2000) + `{}` +
		strings.Repeat(`}}`, 2000))); got != nil {
		t.Errorf("got %v of a deep schema, want none", got)
	}
}

func TestParamHeaderValueNeverRounds(t *testing.T) {
	h := ParamHeader{Path: []string{"a", "b"}}
	for _, c := range []struct {
		value, want string
		ok          bool
	}{
		{`"x"`, "x", true},
		{`"\u00e9"`, "=?base64?w6k=?=", true},
		{`""`, "=?base64??=", true},
		{`true`, "true", true},
		{`false`, "false", true},
		{`42`, "42", true},
		{`-0`, "0", true},
		{`-7`, "-7", true},
		{`5.0`, "5", true},
		{`1e2`, "100", true},
		{`1.50e1`, "15", true},
		{`100e-2`, "1", true},
		{`0e999`, "0", true},
		{`9007199254740991`, "9007199254740991", true},
		{`-9007199254740991`, "-9007199254740991", true},
		{`9007199254740992`, "", false},
		{`-9007199254740992`, "", false},
		{`9007199254740990.99999999999`, "", false},
		{`1.5`, "", false},
		{`1e-1`, "", false},
		{`1e400`, "", false},
		{`1e99999999999999999999`, "", false},
		{`12345678901234567890`, "", false},
		{`null`, "", false},
		{`{}`, "", false},
		{`[1]`, "", false},
	} {
		got, ok := h.Value(jsontext.Value(`{"a":{"b":` + c.value + `}}`))
		if got != c.want || ok != c.ok {
			t.Errorf("the header of %s is %q, %v, want %q, %v", c.value, got, ok, c.want, c.ok)
		}
	}
	for _, none := range []string{``, `{}`, `{"a":1}`, `{"a":{}}`, `{"a":{"b":1,"B":2}}`, `[]`} {
		if got, ok := h.Value(jsontext.Value(none)); ok {
			t.Errorf("the header of %s is %q, want none", none, got)
		}
	}
}

func TestEncodedHeadersPassNetHTTP(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := DecodeHeader(r.Header.Get(HeaderName))
		w.Write([]byte(got))
	}))
	defer s.Close()
	for _, name := range []string{"x", " lead", "tab\t", "é\x00\r\n", "=?base64?YQ==?="} {
		r, _ := http.NewRequest("POST", s.URL, nil)
		r.Header.Set(HeaderName, EncodeHeader(name))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		var got strings.Builder
		res.Write(&got)
		res.Body.Close()
		if !strings.HasSuffix(got.String(), "\r\n\r\n"+name) {
			t.Errorf("%q arrived as %q", name, got.String())
		}
	}
	s.CloseClientConnections()
}

func FuzzDecodeHeader(f *testing.F) {
	for _, s := range []string{"", "plain", " x", "=?base64?YQ==?=", "=?base64??=", "=?base64?", "é", "=?base64?="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		DecodeHeader(s)
		v := EncodeHeader(s)
		if !plainHeader(v) && v == s {
			t.Errorf("%q is sent as it is", s)
		}
		if back, ok := DecodeHeader(v); !ok || back != s {
			t.Errorf("%q was encoded as %q and decoded as %q, %v", s, v, back, ok)
		}
	})
}

func FuzzInteger(f *testing.F) {
	for _, s := range []string{"0", "-1", "1e2", "9007199254740991", "0.10e1", "1E+2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v := jsontext.Value(s); !v.IsValid() || v.Kind() != '0' || strings.ContainsAny(s, " \t\r\n") {
			return
		}
		if got, ok := formatInteger(s); ok {
			if again, ok := formatInteger(got); !ok || again != got {
				t.Errorf("%s became %s and then %s, %v", s, got, again, ok)
			}
		}
	})
}
