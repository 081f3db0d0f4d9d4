package hooks

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
)

func post(t *testing.T, g client.Asker, refuse error, query, body string) (int, string) {
	t.Helper()
	h := &Handler{Asker: func(*http.Request) (client.Asker, error) { return g, refuse }, Now: time.Now}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hooks/claude-code"+query, strings.NewReader(body)))
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("the content type is %q", got)
	}
	return w.Code, w.Body.String()
}

var bash = strings.NewReplacer("TOOL", "Bash", "INPUT", `{"command":"ls","description":"x"}`).Replace(
	events[ClaudeCode])

func TestOverHTTPTheAnswersAreTheSame(t *testing.T) {
	g := &fakeGate{answer: approved}
	code, body := post(t, g, nil, "?wait=55s&gateway=files&gateway=mail&defer=false", bash)
	if o := decode(t, []byte(body)); code != 200 || o.Specific.Decision != "allow" ||
		string(o.Specific.Input) != `{"command":"ls"}` {
		t.Errorf("got %d %s", code, body)
	}
	if g.wait != 55*time.Second {
		t.Errorf("the call was held for %s, want 55s", g.wait)
	}
	if code, body := post(t, &fakeGate{answer: client.Answer{Kind: client.AnswerAllow, Message: "Allowed by policy."}},
		nil, "", bash); code != 200 || body != "{}\n" {
		t.Errorf("what policy allows got %d %q, want no opinion", code, body)
	}
	if code, body := post(t, &fakeGate{answer: client.Answer{Kind: client.AnswerPending, Message: "⏳"}}, nil,
		"?defer=true", bash); code != 200 || decode(t, []byte(body)).Specific.Decision != "defer" {
		t.Errorf("with defer a pending call got %d %s", code, body)
	}
	if code, body := post(t, nil, nil, "?gateway=mail&gateway=files", strings.NewReplacer("TOOL", "mcp__files__x", "INPUT",
		`{}`).Replace(events[ClaudeCode])); code != 200 || body != "{}\n" {
		t.Errorf("a tool behind a gateway got %d %q, want no opinion", code, body)
	}
	for _, other := range []string{named(ClaudeCode, "files__x"), named(ClaudeCode, "evil"), "{}"} {
		denies := &fakeGate{answer: client.Answer{Kind: client.AnswerDenied, Message: "no"}}
		if code, body := post(t, denies, nil, "?gateway=files", strings.NewReplacer("TOOL", "mcp__files__x__y", "INPUT",
			other).Replace(events[ClaudeCode])); code != 200 || decode(t, []byte(body)).Specific.Decision != "deny" {
			t.Errorf("a tool that is perhaps not behind the gateway, with %s, got %d %q; want it asked about", other, code, body)
		}
	}
}

func TestOverHTTPEveryFaultIsADenialThatTheAgentReads(t *testing.T) {
	unasked := &fakeGate{answer: approved}
	for _, c := range []struct {
		name        string
		gate        client.Asker
		refuse      error
		query, body string
		want        string
	}{
		{"no token", unasked, errors.New("The token is not known."), "", bash, "The token is not known"},
		{"a person's token", unasked, errors.New("only agents may ask"), "", bash, "only agents may ask"},
		{"nothing", unasked, nil, "", "", "there is nothing"},
		{"no JSON", unasked, nil, "", "{", "not JSON"},
		{"too long", unasked, nil, "", strings.Repeat(" ", MaxInput+1), "longer than 1 MiB"},
		{"an event of another kind", unasked, nil, "", `{"hook_event_name":"Stop"}`, `"Stop"`},
		{"a wait of no length", unasked, nil, "?wait=soon", bash, "wait in the hook's URL"},
		{"a wait that is too long", unasked, nil, "?wait=11m", bash, "up to 10m0s"},
		{"an unclear defer", unasked, nil, "?defer=perhaps", bash, "defer in the hook's URL"},
		{"an unknown flag", unasked, nil, "?gatway=files", bash, "gatway"},
		{"a broken query", unasked, nil, "?wait=%zz", bash, "query"},
		{"a refusal of the gate", &fakeGate{err: approval.Errorf(approval.CodeTooManyPending, "20 wait already")}, nil, "",
			bash, "20 wait already"},
		{"args that are refused", &fakeGate{err: &args.Error{Reason: "nested more than 64 levels deep"}}, nil, "", bash,
			"nested more than 64 levels deep"},
		{"a broken store", &fakeGate{err: errors.New("disk I/O error at /var/lib/gate.db")}, nil, "", bash,
			"the gate could not answer"},
		{"a panic", nil, nil, "", bash, "an internal error"},
	} {
		code, body := post(t, c.gate, c.refuse, c.query, c.body)
		o := decode(t, []byte(body))
		if code != 200 || o.Specific.Event != "PreToolUse" || o.Specific.Decision != "deny" ||
			!strings.Contains(o.Specific.Reason, c.want) || strings.Contains(o.Specific.Reason, "/var/lib") {
			t.Errorf("%s: got %d %s\nwant a denial that says %q", c.name, code, body, c.want)
		}
	}
	if len(unasked.asked) != 0 {
		t.Errorf("the gate was asked %d times", len(unasked.asked))
	}
}

func TestOverHTTPEndingsAreAcknowledgedAfterTheyWereWritten(t *testing.T) {
	const prompt = `{"session_id":"s1","hook_event_name":"UserPromptSubmit","cwd":"/srv","prompt":"x"}`
	g := &fakeGate{endings: []client.Approval{{ID: "A", Message: "[APPROVAL DENIED] x"}}}
	if code, body := post(t, g, nil, "", prompt); code != 200 ||
		!strings.Contains(decode(t, []byte(body)).Specific.Context, "DENIED") || strings.Join(g.acked, " ") != "A" {
		t.Errorf("got %d %s, acknowledged %v", code, body, g.acked)
	}
	g.acked = nil
	h := &Handler{Asker: func(*http.Request) (client.Asker, error) { return g, nil }}
	h.ServeHTTP(brokenWriter{httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost, "/hooks/claude-code",
		strings.NewReader(prompt)))
	if g.acked != nil {
		t.Errorf("%v were acknowledged, and nobody read them", g.acked)
	}
	code, body := post(t, &fakeGate{err: errors.New("x")}, nil, "", prompt)
	if o := decode(t, []byte(body)); code != 200 || o.Specific.Decision != "" || o.Decision != "" ||
		!strings.Contains(o.System, "could not find out") {
		t.Errorf("a fault at the beginning of a turn got %d %s, want a word to the user", code, body)
	}
}

type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestHooksArePosted(t *testing.T) {
	w := httptest.NewRecorder()
	(&Handler{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/hooks/claude-code", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("got %d, allowing %q", w.Code, w.Header().Get("Allow"))
	}
}
