package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/client"
)

func TestRule12_AHookOverTheBudgetBlocks(t *testing.T) {
	over := &approval.Error{Code: approval.CodeRateLimited,
		Message: "Over the budget of calls: agent:bot may have 5 calls per minute. Try again in 12s."}
	for name, body := range map[string]string{
		"a call": bash,
		"a turn": `{"session_id":"7494b2f4","cwd":"/srv/app","hook_event_name":"UserPromptSubmit","prompt":"go on"}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := &fakeGate{answer: approved}
			charged, paused := 0, 0
			h := &Handler{Asker: func(*http.Request) (client.Asker, error) { return g, nil }, Charge: func(a client.Asker,
				bytes int) error {
				if a != client.Asker(g) {
					t.Errorf("charged %v", a)
				}
				charged += bytes
				return over
			}, Pause: func(context.Context) { paused++ }}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hooks/claude-code", strings.NewReader(body)))
			if w.Code != 200 || len(g.asked) != 0 || charged != len(body) {
				t.Errorf("got %d, asked %d times, charged %d bytes; want 200, 0, %d", w.Code, len(g.asked), charged, len(body))
			}
			if paused != 1 {
				t.Errorf("held back %d times, want once", paused)
			}
			if !strings.Contains(w.Body.String(), "Over the budget of calls") || !strings.Contains(w.Body.String(),
				"Try again in 12s") || strings.Contains(w.Body.String(), "will not help") {
				t.Errorf("the agent is told %s", w.Body)
			}
			if o := decode(t, w.Body.Bytes()); name == "a call" && o.Specific.Decision != "deny" {
				t.Errorf("the decision is %q", o.Specific.Decision)
			}
		})
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the event was read")
	return 0, io.EOF
}

func TestRule12_ALargeEventOverTheBudgetIsNotRead(t *testing.T) {
	asked, paused := 0, 0
	h := &Handler{
		Asker: func(*http.Request) (client.Asker, error) { return &fakeGate{answer: approved}, nil },
		CheckBudget: func(_ client.Asker, bytes int) error {
			asked += bytes
			return &approval.Error{Code: approval.CodeRateLimited, Message: "Over the budget of bytes. Try again in 2s."}
		},
		Charge: func(client.Asker, int) error { t.Error("it was charged"); return nil },
		Pause:  func(context.Context) { paused++ },
	}
	r := httptest.NewRequest(http.MethodPost, "/hooks/claude-code", unread{t})
	r.ContentLength = MaxInput
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if o := decode(t, w.Body.Bytes()); w.Code != 200 || o.Specific.Decision != "deny" || !strings.Contains(w.Body.String(),
		"Over the budget of bytes") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if asked != MaxInput || paused != 1 {
		t.Errorf("asked about %d bytes, held back %d times; want %d, once", asked, paused, MaxInput)
	}
}

func TestRule12_ASmallEventIsAnsweredByWhatItIs(t *testing.T) {
	h := &Handler{
		Asker:       func(*http.Request) (client.Asker, error) { return &fakeGate{answer: approved}, nil },
		CheckBudget: func(client.Asker, int) error { t.Error("it was asked"); return nil },
		Charge:      func(client.Asker, int) error { return errors.New("over") },
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hooks/claude-code",
		strings.NewReader(`{"session_id":"s","cwd":"/srv/app","hook_event_name":"UserPromptSubmit","prompt":"go on"}`)))
	if !strings.Contains(w.Body.String(), "systemMessage") {
		t.Errorf("the beginning of a turn is answered %s", w.Body)
	}
}

func TestRule12_ALargeEventOverTheBudgetIsNotParsed(t *testing.T) {
	h := &Handler{
		Asker:       func(*http.Request) (client.Asker, error) { return &fakeGate{answer: approved}, nil },
		CheckBudget: func(client.Asker, int) error { t.Error("it was asked of an unknown length"); return nil },
		Charge:      func(client.Asker, int) error { return errors.New("over") },
		Turn: func(context.Context, client.Asker, int) (func(), error) {
			t.Error("it had a turn to be parsed")
			return func() {}, nil
		},
	}
	r := httptest.NewRequest(http.MethodPost, "/hooks/claude-code", strings.NewReader(bash+
		strings.Repeat(" ", smallEvent)))
	r.ContentLength = -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if o := decode(t, w.Body.Bytes()); w.Code != 200 || o.Specific.Decision != "deny" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAnEventIsReadInPlace(t *testing.T) {
	input := []byte(bash)
	e, err := Parse(ClaudeCode, input)
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.Index(input, e.Input); at < 0 || &input[at] != &e.Input[0] {
		t.Error("the tool's input was copied")
	}
}

func TestRule12_AHeldHookOverTheBudgetIsNotAsked(t *testing.T) {
	over := errors.New("too many waits")
	g := Gate{Agent: "bot", Occupy: func(context.Context) (func(), error) { return nil, over }} // without a gate to ask
	if _, err := g.Ask(t.Context(), client.Call{Tool: "Bash", Args: json.RawMessage(`{}`)}, MaxHold); !errors.Is(err,
		over) {
		t.Errorf("got %v", err)
	}
}

func TestRule12_StrangersFillNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := &Handler{Asker: func(*http.Request) (client.Asker, error) { return nil, errors.New("the token is not known") },
			Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil))}
		lines := func() int { return strings.Count(log.String(), "\n") }
		flood := func() {
			for range 100 {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hooks/claude-code", strings.NewReader(bash)))
				if o := decode(t, w.Body.Bytes()); o.Specific.Decision != "deny" || !strings.Contains(w.Body.String(),
					"the token is not known") {
					t.Fatalf("told %s", w.Body)
				}
			}
		}
		if flood(); lines() != 1 {
			t.Errorf("%d lines, want 1", lines())
		}
		time.Sleep(time.Minute)
		if flood(); lines() != 2 || !strings.Contains(log.String(), "count=100") {
			t.Errorf("a minute later %s", log.String())
		}
	})
}

type tooMany struct{}

func (tooMany) Error() string             { return "too many bodies" }
func (tooMany) RetryAfter() time.Duration { return time.Second }

func TestRule12_AnEventThatGaveWayMayBeSentAgain(t *testing.T) {
	h := &Handler{Asker: func(*http.Request) (client.Asker, error) { return &fakeGate{answer: approved}, nil }}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hooks/claude-code", iotest.ErrReader(tooMany{})))
	if o := decode(t, w.Body.Bytes()); o.Specific.Decision != "deny" || !strings.Contains(w.Body.String(), "Try again") ||
		strings.Contains(w.Body.String(), "will not help") {
		t.Errorf("the agent is told %s", w.Body)
	}
}
