package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/history/export"
)

// document is the OpenAPI document with the schemas of its answers.
type document struct {
	raw      map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	schemas  map[string]*jsonschema.Schema
}

func readDocument(b []byte) *document {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", v); err != nil {
		panic(err)
	}
	return &document{raw: v.(map[string]any), compiler: c, schemas: map[string]*jsonschema.Schema{}}
}

// path returns the document's path that a request's path is of, "" for none.
// inPath is a parameter in a path.
var inPath = regexp.MustCompile(`\{[a-z]+\}`)

func (d *document) path(path string) string {
	if _, ok := d.paths()[path]; ok {
		return path
	}
	for p := range d.paths() {
		if strings.Contains(p, "{") && regexp.MustCompile("^"+inPath.ReplaceAllString(p, "[^/]+")+"$").MatchString(path) {
			return p
		}
	}
	return ""
}

func (d *document) paths() map[string]any { return d.raw["paths"].(map[string]any) }

// check holds an answer against what the document says of it.
func (d *document) check(t testing.TB, method, path string, r reply) {
	t.Helper()
	p := d.path(path)
	op, ok := dig(d.paths(), p, strings.ToLower(method)).(map[string]any)
	if !ok {
		return // a path or method that is not there
	}
	resp, ok := dig(op, "responses", fmt.Sprint(r.status)).(map[string]any)
	if !ok {
		t.Errorf("%s: status %d is not documented: %s", r.what, r.status, r.body)
		return
	}
	mediaType := strings.SplitN(r.header.Get("Content-Type"), ";", 2)[0]
	if dig(resp, "content", mediaType) == nil {
		t.Errorf("%s: %d %s is not documented", r.what, r.status, mediaType)
		return
	}
	for name := range mapOf(resp["headers"]) {
		if r.header.Get(name) == "" {
			t.Errorf("%s: %d without the documented header %s", r.what, r.status, name)
		}
	}
	if !strings.HasSuffix(mediaType, "json") || mediaType == export.TypeNDJSON || p == "/openapi.json" {
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.body))
	if err != nil {
		t.Errorf("%s: %v: %s", r.what, err, r.body)
		return
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	at := fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%d/content/%s/schema",
		escape.Replace(p), strings.ToLower(method), r.status, escape.Replace(mediaType))
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.schemas[at]
	if s == nil {
		if s, err = d.compiler.Compile(at); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		d.schemas[at] = s
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: the answer is not what the document says: %v\n%s", r.what, err, r.body)
	}
}

func dig(v any, path ...string) any {
	for _, p := range path {
		v = mapOf(v)[p]
	}
	return v
}

func mapOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func TestEveryRouteIsDocumentedAndEveryDocumentedRouteIsThere(t *testing.T) {
	s := bare()
	var routes, documented []string
	for _, rt := range s.routes {
		routes = append(routes, rt.method+" "+rt.path)
	}
	for p, item := range doc().paths() {
		for m := range mapOf(item) {
			documented = append(documented, strings.ToUpper(m)+" "+p)
		}
	}
	slices.Sort(routes)
	slices.Sort(documented)
	if !slices.Equal(routes, documented) {
		t.Errorf("routes\n%v\ndocumented\n%v", routes, documented)
	}
	// And what is documented is really answered by the mux.
	for _, d := range documented {
		method, path, _ := strings.Cut(d, " ")
		req := &http.Request{Method: method, URL: mustURL(inPath.ReplaceAllString(path, "X"))}
		if _, pattern := s.mux.Handler(req); pattern != d {
			t.Errorf("%s is answered by %q", d, pattern)
		}
	}
}

func TestTheDocumentIsServedToAnyone(t *testing.T) {
	w := newWorld(t)
	r := w.do("", "GET", "/openapi.json", "").is(200)
	if got := r.str("openapi"); got != "3.1.0" {
		t.Errorf("openapi is %q", got)
	}
	if got := r.str("info", "version"); got != "1.2.3" {
		t.Errorf("version is %q", got)
	}
}

func TestEveryReferenceInTheDocumentLeadsSomewhere(t *testing.T) {
	schemas := mapOf(dig(doc().raw, "components", "schemas"))
	used := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				name, found := strings.CutPrefix(ref, "#/components/schemas/")
				if used[name] = true; !found || schemas[name] == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doc().raw)
	for name := range schemas {
		if !used[name] {
			t.Errorf("schema %s is not used", name)
		}
		if _, err := doc().compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
}

func TestEveryOperationHasItsErrors(t *testing.T) {
	for p, item := range doc().paths() {
		for m, op := range mapOf(item) {
			if dig(op, "summary") == "" || dig(op, "operationId") == nil {
				t.Errorf("%s %s has no summary or id", m, p)
			}
			if p == "/openapi.json" {
				continue
			}
			for _, status := range []string{"400", "401", "500", "503"} {
				if p == "/v1/proof" && status == "503" { // it asks no store
					continue
				}
				if dig(op, "responses", status, "content", "application/problem+json") == nil {
					t.Errorf("%s %s does not document %s", m, p, status)
				}
			}
		}
	}
}

func TestEveryCodeHasAStatusAndATitle(t *testing.T) {
	for _, rt := range bare().routes {
		for _, c := range rt.codes() {
			if k := kinds[c]; k.status == 0 || k.title == "" {
				t.Errorf("%s has no status or title", c)
			}
		}
	}
}

// documented returns the names of a body's fields.
func documented(body any) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(body)) {
		if tag, ok := f.Tag.Lookup("json"); ok {
			name, _, _ := strings.Cut(tag, ",")
			names = append(names, name)
		}
	}
	return names
}

func TestTheDocumentedFieldsAreTheOnesThatAreRead(t *testing.T) {
	for body, want := range map[any]string{
		&callBody{}:  "args tool server scope turn_id session_id rationale preview method tool_digest tool_digest_listed dispatch task accepts_edits waits annotations",
		&batchBody{}: "calls", &ackBody{}: "ids", &decideBody{}: "decision reason confirmed args grant version",
		&decideManyBody{}: "ids decision reason confirmed grant", &grantBody{}: "for uses session",
		&client.Annotations{}: "readOnly destructive idempotent openWorld", &freezeBody{}: "agent reason",
		&delegationBody{}: "to until from rule for",
		&cancelBody{}:     "reason", &outcomeBody{}: "outcome",
		&inputBody{}: "method message answer",
	} {
		names := documented(reflect.ValueOf(body).Elem().Interface())
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%T: documented %s, want %s", body, got, want)
		}
		for _, name := range names {
			if err := decode([]byte(`{"`+name+`":null}`), body); approval.CodeOf(err) == codeUnknownField {
				t.Errorf("%T: %v", body, err)
			}
			for _, other := range []string{strings.ToUpper(name), name + "_", "x"} {
				if err := decode([]byte(`{"`+other+`":null}`), body); approval.CodeOf(err) != codeUnknownField {
					t.Errorf("%T: %s is taken: %v", body, other, err)
				}
			}
		}
	}
}

func TestTheDocumentDescribesTheRequestsThatAreTaken(t *testing.T) {
	s, err := doc().compiler.Compile("openapi.json#/components/schemas/Call")
	if err != nil {
		t.Fatal(err)
	}
	for body, ok := range map[string]bool{
		transfer: true, `{"tool":"x"}`: true, `{"tool":"x","session_id":null}`: true,
		`{"tool":"prompts:get","method":"prompts/get","tool_digest":"` + strings.Repeat("0a", 32) +
			`","dispatch":true,"task":false}`: true,
		`{"tool":"x","dispatch":null,"task":null,"method":null,"tool_digest":null}`:    true,
		`{"tool":"x","dispatch":"yes"}`:                                                false,
		`{"tool":"x","waits":true,"annotations":{"readOnly":true,"destructive":null}}`: true,
		`{"tool":"x","waits":null,"annotations":null}`:                                 true,
		`{"tool":"x","annotations":{"readonly":true}}`:                                 false,
		`{"tool":"x","annotations":{"readOnly":"yes"}}`:                                false,
		`{"tool":"x","annotations":[]}`:                                                false,
		`{"tool":"x","tool_digest":"0A"}`:                                              false,
		`{"tool":"x","tool_digest_listed":"0A"}`:                                       false, `{"args":{}}`: false,
		`{"tool":"x","args":[]}`: false, `{"tool":"x","args":null}`: false, `{"tool":"x","bogus":1}`: false,
		`{"tool":"a b"}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
		if _, err := readCall([]byte(body), "bot"); ok && err != nil {
			t.Errorf("%s is not taken: %v", body, err)
		}
	}
}

func TestCodesOfTheDomainAreKnownHere(t *testing.T) {
	for _, c := range []approval.Code{
		approval.CodeUnauthorized, approval.CodeAgentsOnly, approval.CodePeopleOnly, approval.CodeNotAnApprover,
		approval.CodeNotAdmin,
		approval.CodeNotFound, approval.CodeAlreadyResolved, approval.CodeNotFailed, approval.CodeExpired,
		approval.CodeReasonRequired,
		approval.CodeTooManyPending, approval.CodeRateLimited, approval.CodeStoreUnavailable, approval.CodeInvalidArgs,
		approval.CodeInvalidTool, approval.CodeInvalidParameter, approval.CodeInternal, approval.CodeAlreadyVoted,
		approval.CodeNotYourStage, approval.CodeConfirmRequired, approval.CodeChanged, approval.CodeStepUpRequired,
		approval.CodePolicyDenied, approval.CodeAmbiguousID, approval.CodeGrantRefused, approval.CodeStoreFull,
	} {
		if _, ok := kinds[c]; !ok {
			t.Errorf("%s has no status", c)
		}
	}
}
