package line

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
)

// openAPI is LINE's own description of its API. Its polymorphic schemas name a discriminator beside an
// allOf, which validators do not follow: schema.check takes the concrete schema by type instead.
type openAPI map[string]any

var loadOpenAPI = sync.OnceValues(func() (openAPI, error) {
	b, err := os.ReadFile("testdata/messaging-api.yml")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Components struct {
			Schemas map[string]any `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	return doc.Components.Schemas, nil
})

func schemas(t testing.TB) openAPI {
	t.Helper()
	api, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// check returns what is wrong with v by the schema of this name.
func (api openAPI) check(name string, v any) []string {
	var problems []string
	api.named(name, v, name, &problems)
	return problems
}

func (api openAPI) named(name string, v any, at string, problems *[]string) {
	s, ok := api[name].(map[string]any)
	if !ok {
		*problems = append(*problems, at+": no schema "+name)
		return
	}
	// The concrete type, where this is the common parent of several.
	if d, ok := s["discriminator"].(map[string]any); ok {
		m, _ := v.(map[string]any)
		word, _ := m[fmt.Sprint(d["propertyName"])].(string)
		mapping, _ := d["mapping"].(map[string]any)
		ref, ok := mapping[word].(string)
		if !ok {
			*problems = append(*problems, fmt.Sprintf("%s: %q is no kind of %s", at, word, name))
			return
		}
		name = refName(ref)
		s, _ = api[name].(map[string]any)
	}
	known := map[string]bool{}
	api.apply(s, v, at, problems, known)
	if m, ok := v.(map[string]any); ok && len(known) > 0 {
		for k := range m {
			if !known[k] {
				*problems = append(*problems, at+": "+name+" has no property "+k)
			}
		}
	}
}

func refName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// apply checks v against s and the parents it is made of, whose discriminators are settled already.
func (api openAPI) apply(s map[string]any, v any, at string, problems *[]string, known map[string]bool) {
	bad := func(format string, args ...any) {
		*problems = append(*problems, at+": "+fmt.Sprintf(format, args...))
	}
	for _, part := range list(s["allOf"]) {
		p := part.(map[string]any)
		if ref, ok := p["$ref"].(string); ok {
			p, _ = api[refName(ref)].(map[string]any)
		}
		api.apply(p, v, at, problems, known)
	}
	if e := list(s["enum"]); len(e) > 0 && !slices.Contains(e, v) {
		bad("%v is none of %v", v, e)
	}
	if kind, _ := s["type"].(string); !isKind(v, kind) {
		bad("%T is no %s", v, kind)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, r := range list(s["required"]) {
			if _, ok := v[r.(string)]; !ok {
				bad("%v is missing", r)
			}
		}
		props, _ := s["properties"].(map[string]any)
		for k, p := range props {
			known[k] = true
			child, ok := v[k]
			if !ok || child == nil { // the SDK writes customAggregationUnits: null, which LINE takes
				continue
			}
			api.property(p.(map[string]any), child, at+"."+k, problems)
		}
	case []any:
		if n, ok := number(s["minItems"]); ok && float64(len(v)) < n {
			bad("%d items are too few", len(v))
		}
		if n, ok := number(s["maxItems"]); ok && float64(len(v)) > n {
			bad("%d items are too many", len(v))
		}
		if items, ok := s["items"].(map[string]any); ok {
			for i, e := range v {
				api.property(items, e, fmt.Sprintf("%s[%d]", at, i), problems)
			}
		}
	case string:
		if n, ok := number(s["maxLength"]); ok && float64(measure(v)) > n {
			bad("%d characters are too many", measure(v))
		}
		if n, ok := number(s["minLength"]); ok && float64(measure(v)) < n {
			bad("%d characters are too few", measure(v))
		}
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			bad("%q does not match %s", v, p)
		}
	}
}

func (api openAPI) property(s map[string]any, v any, at string, problems *[]string) {
	if ref, ok := s["$ref"].(string); ok {
		api.named(refName(ref), v, at, problems)
		return
	}
	api.apply(s, v, at, problems, map[string]bool{})
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case uint64:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func isKind(v any, kind string) bool {
	switch kind {
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "integer":
		f, ok := v.(float64)
		return ok && f == float64(int64(f))
	case "number":
		_, ok := v.(float64)
		return ok
	}
	return true
}

// The checker itself must find what is wrong, or the goldens prove nothing.
func TestSchemaChecker(t *testing.T) {
	api := schemas(t)
	text := map[string]any{"type": "text", "text": "x"}
	for _, tt := range []struct {
		name string
		v    any
		want string // part of a problem; "" for none
	}{
		{"good", text, ""},
		{"unknown type", map[string]any{"type": "telegram"}, "is no kind of Message"},
		{"missing", map[string]any{"type": "flex", "altText": "x"}, "contents is missing"},
		{"wrong type", map[string]any{"type": "text", "text": 1.0}, "is no string"},
		{"unknown property", map[string]any{"type": "text", "text": "x", "markdown": true}, "has no property markdown"},
		{"enum", map[string]any{"type": "flex", "altText": "x", "contents": map[string]any{"type": "bubble", "size": "huge"}},
			"is none of"},
		{"nested", map[string]any{"type": "flex", "altText": "x", "contents": map[string]any{"type": "bubble",
			"body": map[string]any{"type": "box", "layout": "vertical", "contents": []any{map[string]any{"type": "text",
				"wrap": "yes"}}}}}, "wrap: string is no boolean"},
	} {
		got := strings.Join(api.check("Message", tt.v), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: problems %q, want one with %q", tt.name, got, tt.want)
		}
	}
	five := []any{text, text, text, text, text}
	if got := api.check("PushMessageRequest", map[string]any{"to": "U1", "messages": append(five, text)}); len(got) == 0 {
		t.Error("six messages in a push are accepted")
	}
}
