package downstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

const otherProgram = "01KAFHZX3T9W8Y7B6A5D4C3E2G"

// passingOn is a handler that has another program's sessions, which is at an address as long as there is one.
type passingOn struct {
	*httptest.Server
	h       *HTTP
	other   *httptest.Server // which answers nothing
	arrived chan struct{}
	gone    atomic.Bool
	revoked atomic.Bool
}

func newPassingOn(t *testing.T) *passingOn {
	t.Helper()
	p := &passingOn{arrived: make(chan struct{}, 1)}
	p.other = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		p.arrived <- struct{}{}
		<-r.Context().Done()
	}))
	f, log := newFake(), &testkit.Buffer{}
	p.h = NewHTTP(HTTPOptions{Sessions: f, Guard: Guard{Loopback: true}, Logger: log.Logger(),
		Authenticate: func(*http.Request) (Caller, error) {
			return Caller{Agent: "bot", StillValid: func() error {
				if p.revoked.Load() {
					return errors.New("the token is not valid any more")
				}
				return nil
			}}, nil
		},
		Fleet: &Fleet{ID: "01KAFHZX3T9W8Y7B6A5D4C3E2F", AddressOf: func(context.Context, string) (string, error) {
			if p.gone.Load() {
				return "", nil
			}
			return p.other.URL, nil
		}, Owner: func(context.Context, string, string, mcp.Object) string { return "" }}})
	p.h.watchEvery = 10 * time.Millisecond
	p.Server = httptest.NewServer(p.h)
	t.Cleanup(func() {
		p.Close()
		p.h.Close()
		p.other.Close()
		f.check(t, log)
	})
	return p
}

// post sends a request of the other program's session, and returns its status and answer.
func (p *passingOn) post(t *testing.T, body string) chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer x",
		"Accept": "application/json, text/event-stream", mcp.HeaderSession: otherProgram + ".X"} {
		r.Header.Set(name, value)
	}
	answer := make(chan string, 1)
	go func() {
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Patience}
		res, err := c.Do(r)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answer <- res.Status + " " + string(b)
	}()
	return answer
}

const (
	listTools  = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	notKnownID = `503 Service Unavailable {"jsonrpc":"2.0","id":7,"error":{"code":-31003,"message":"Another replica of the ` +
		`gate has what this is about, and did not answer: it is not known what was done with the request."}}`
)

// A client is answered when the program that has its session stands still and is taken for gone, and when its
// credential is taken back meanwhile: what was done is not known.
func TestWhoeverIsPassedOnIsAnswered(t *testing.T) {
	t.Parallel()
	for what, happens := range map[string]func(p *passingOn){
		"it stands still": func(p *passingOn) { p.gone.Store(true) },
		"it is revoked":   func(p *passingOn) { p.revoked.Store(true); p.h.Recheck() },
		"it breaks off":   func(p *passingOn) { p.other.CloseClientConnections() },
	} {
		p := newPassingOn(t)
		answer := p.post(t, listTools)
		testkit.Receive(t, "the request at the other program", p.arrived)
		happens(p)
		if got := strings.TrimSpace(testkit.Receive(t, what, answer)); got != notKnownID {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// What could not be sent was not run; and a request without a token goes nowhere.
func TestWhatIsNotPassedOn(t *testing.T) {
	t.Parallel()
	p := newPassingOn(t)
	p.other.Close()
	if got := testkit.Receive(t, "out of reach", p.post(t, listTools)); !strings.Contains(got, "nothing was run; try again") {
		t.Error(got)
	}
	if got := testkit.Receive(t, "a batch out of reach", p.post(t, "["+listTools+"]")); !strings.HasPrefix(got, "503") {
		t.Error(got)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(mcp.HeaderSession, otherProgram+".X")
	w := httptest.NewRecorder()
	r.Host = "127.0.0.1"
	if p.h.ServeHTTP(w, r); w.Code != http.StatusNotFound {
		t.Errorf("without a token: %d", w.Code)
	}
}
