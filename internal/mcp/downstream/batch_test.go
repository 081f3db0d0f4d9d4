package downstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// batches opens a session of the version that has batches.
func (s *site) batches(t testing.TB) http.Header {
	t.Helper()
	resp, body := s.post(t, nil, strings.Replace(initialize, "2025-11-25", versionOfBatches, 1))
	id := resp.Header.Get(mcp.HeaderSession)
	if resp.StatusCode != 200 || id == "" {
		t.Fatalf("initialize: got %s, %s", resp.Status, body)
	}
	return http.Header{"Mcp-Session-Id": {id}}
}

const ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`

func TestEachMessageOfABatchIsAnsweredAsIfItHadComeByItself(t *testing.T) {
	s := newSite(t)
	session := s.batches(t)
	batch := "[" + strings.Join([]string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, call(1, "echo", ""), strings.Replace(call(2, "error", ""),
			"{}", `{"code":-5}`, 1), call(3, "panic", ""), ping,
		`{"jsonrpc":"2.0","id":4,"method":"none"}`, `7`, `{"jsonrpc":"2.0","id":5,"method":"ping","params":{},"params":{}}`,
		`{"jsonrpc":"2.0","id":9,"result":{}}`, `{"jsonrpc":"2.0","id":6,"method":"ping","params":{` + modernMeta + `}}`,
		call(7, "ask", ""), call(8, "progress", ""),
	}, ",") + "]"
	for _, accept := range []string{"application/json, text/event-stream", "application/json", "text/event-stream"} {
		resp, body := s.post(t, with(session, "Accept", accept), " \n"+batch)
		if accept == "text/event-stream" {
			data, ok := strings.CutPrefix(body, "event: message\ndata: ")
			if body = strings.TrimSpace(data); !ok || strings.Contains(body, "\n") {
				t.Fatalf("no event: %s", body)
			}
		}
		var answers []struct {
			ID     json.RawMessage
			Result json.RawMessage
			Error  struct{ Code int }
		}
		if err := json.Unmarshal([]byte(body), &answers); err != nil || resp.StatusCode != 200 || !strings.Contains(accept,
			resp.Header.Get("Content-Type")) {
			t.Fatalf("%s: got %s %s %s: %v", accept, resp.Status, resp.Header.Get("Content-Type"), body, err)
		}
		got := ""
		for _, a := range answers {
			got += fmt.Sprintf("%s:%d ", a.ID, a.Error.Code)
		}
		if want := `1:0 2:-5 3:-32603 "p":0 4:-32601 null:-32600 null:-32600 6:-32600 7:0 8:0 `; got != want {
			t.Errorf("%s: got %s\nwant %s\n%s", accept, got, want, body)
		}
		if !strings.Contains(body, `agent-1 {}`) || !strings.Contains(body, "not asked: ") || !strings.Contains(body,
			"progressed") {
			t.Errorf("the answers are %s", body)
		}
	}
	resp, body := s.post(t, session,
		`[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":9,"result":{}}]`)
	if resp.StatusCode != http.StatusAccepted || body != "" {
		t.Errorf("what needs no answer: got %s, %s", resp.Status, body)
	}
}

// A batch that is refused as a whole has not run in part; other versions have none.
func TestWhatIsNoBatchRunsNothing(t *testing.T) {
	s := newSite(t)
	session, later := s.batches(t), s.session(t)
	many := strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/initialized"},`, maxBatch+1), ",")
	echo := call(1, "echo", "")
	before := s.calls.Load()
	for name, c := range map[string]struct {
		headers http.Header
		body    string
		code    int
	}{
		"empty":                       {session, `[]`, -32600},
		"too many":                    {session, "[" + many + "]", -32600},
		"initialize in it":            {session, "[" + echo + "," + initialize + "]", -32600},
		"one id twice":                {session, "[" + echo + "," + call(1, "ask", "") + "]", -32600},
		"half of one":                 {session, "[" + echo, -32700},
		"something after it":          {session, "[" + echo + "] 1", -32700},
		"a session of later versions": {later, "[" + echo + "]", -32600},
		"no session":                  {nil, "[" + echo + "]", -32600},
		"a header of another version": {with(session, "Mcp-Protocol-Version", "2025-06-18"), "[" + echo + "]", -32600},
		"a header of the modern era":  {with(session, "Mcp-Protocol-Version", mcp.VersionModern), "[" + echo + "]", -32600},
	} {
		resp, body := s.post(t, c.headers, c.body)
		if code, id, _ := errorOf(body); resp.StatusCode != 400 || code != c.code || id != "null" {
			t.Errorf("%s: got %s %s, want 400 and %d", name, resp.Status, body, c.code)
		}
	}
	if n := s.calls.Load() - before; n != 0 {
		t.Errorf("%d requests ran", n)
	}
	if resp, _ := s.post(t, with(session, "Authorization", "Bearer two"), "["+echo+"]"); resp.StatusCode != 404 {
		t.Errorf("another agent's session: %s", resp.Status)
	}
}

// Requests of a batch are worked on side by side: one that is held keeps no other from running, and each can be
// cancelled. The batch ends with its client.
func TestTheRequestsOfABatchAreHeldTogether(t *testing.T) {
	s := newSite(t)
	session := s.batches(t)
	var got string
	var done sync.WaitGroup
	done.Go(func() {
		_, got = s.post(t, session, "["+call(1, "hold", "")+","+call(2, "hold", "")+","+call(3, "echo", "")+"]")
	})
	testkit.Receive(t, "a held call", s.holding)
	testkit.Receive(t, "a held call", s.holding)
	s.post(t, session, `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}]`)
	testkit.Receive(t, "a call given up", s.gaveUp)
	close(s.released)
	testkit.Wait(t, "the batch's answer", done.Wait)
	if !strings.Contains(got, `"id":1,"result"`) || !strings.Contains(got, `"id":2,"error"`) || !strings.Contains(got,
		`"id":3,"result"`) {
		t.Errorf("got %s", got)
	}
}

// A request that its own batch cancels behind it does not run, in whatever order they are looked at.
func TestARequestThatItsBatchCancelsDoesNotRun(t *testing.T) {
	s := newSite(t)
	session := s.batches(t)
	before := s.calls.Load()
	cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	_, body := s.post(t, session, "["+call(1, "echo", "")+","+call(2, "echo", "")+","+cancelled+"]")
	if !strings.Contains(body, `"id":1,"error"`) || !strings.Contains(body, `"id":2,"result"`) {
		t.Errorf("got %s", body)
	}
	if n := s.calls.Load() - before; n != 1 {
		t.Errorf("%d requests ran, want the other one", n)
	}
}

// Each message of a batch is charged, and one that is over the budget is refused by itself.
func TestEachMessageOfABatchIsCharged(t *testing.T) {
	b := &counting{most: 3}
	s := newSite(t, func(o *HTTPOptions) { o.Budget = b })
	session := s.batches(t) // one
	_, body := s.post(t, session, "["+ping+
		`,{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"ping"}]`)
	if want := `"id":"p","result":{}},{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":3,"error":`; !strings.Contains(body, want) || !strings.Contains(body, "rate_limited") || b.n != 4 {
		t.Errorf("charged %d times; got %s", b.n, body)
	}
}

// counting is a budget of so many messages.
type counting struct {
	mu      sync.Mutex
	n, most int
}

func (b *counting) Room(string, int64) error { return nil }

func (b *counting) Charge(string, int) func() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n++; b.n <= b.most {
		return nil
	}
	return func() error { return errors.New("too much") }
}

func (b *counting) Turn(context.Context, string, int) (func(), error) { return func() {}, nil }
func (b *counting) Pause(context.Context)                             {}
func (b *counting) Stream(context.Context, string) (func(), error)    { return func() {}, nil }
func (b *counting) Sessions(string) int                               { return 10 }
func (b *counting) NoSession(string) error                            { return errors.New("no session") }
