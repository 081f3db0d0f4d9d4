package client_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/testkit"
)

func TestWhatCameOfACallIsReported(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	sent := transfer
	sent.Dispatch, sent.ToolDigest, sent.Task = true, strings.Repeat("0a", 32), true
	id := w.ask(sent)
	if _, err := w.bot.Report(ctx, id, client.RunSucceeded); client.CodeOf(err) != "invalid_parameter" {
		t.Errorf("before it is let through: %v", err)
	}
	_, err := w.hana.Decide(ctx, id, client.Approve, "")
	w.must(err)
	a, err := w.bot.Call(ctx, sent)
	w.must(err)
	if a.Kind != client.AnswerApproved {
		t.Fatalf("%+v", a)
	}
	r, err := w.bot.Approval(ctx, id)
	w.must(err)
	if r.DispatchedAt.IsZero() || r.RunResult != "" || !r.Task || r.Previous != nil {
		t.Errorf("once it is sent: %+v", r)
	}
	if r, err = w.bot.Report(ctx, id, client.RunUnknown); err != nil || r.ID != id || r.RunResult != client.RunUnknown {
		t.Errorf("%+v, %v", r, err)
	}
	next, err := w.bot.Approval(ctx, w.ask(sent))
	w.must(err)
	if p := next.Previous; p == nil || p.ApprovalID != id || p.ApprovedBy != "hana" || p.ApprovedAt.IsZero() ||
		p.ConsumedAt.IsZero() ||
		!p.DispatchedAt.Equal(r.DispatchedAt.Time) || p.RunResult != client.RunUnknown {
		t.Errorf("the next is told of %+v", p)
	}
	r, err = w.bot.Report(ctx, id, client.RunFailed)
	w.must(err)
	if r, err = w.bot.Report(ctx, id, client.RunSucceeded); client.CodeOf(err) != "already_resolved" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.hana.Report(ctx, id, client.RunFailed); client.CodeOf(err) != "agents_only" {
		t.Errorf("by a person: %v", err)
	}
}

func TestTheToolOfAnotherMethodIsMadeFromIt(t *testing.T) {
	w := newWorld(t)
	read := client.Call{Server: "files", Method: "resources/read", Args: []byte(`{"uri":"file:///x"}`)}
	r, err := w.hana.Approval(t.Context(), w.ask(read))
	w.must(err)
	if r.Target() != "files/resources:read" {
		t.Errorf("asked as %s", r.Target())
	}
	read.Server = "tickets"
	as, err := w.bot.CallBatch(t.Context(), []client.Call{read, {Tool: "read_file", Method: "tools/call"}})
	if err != nil || len(as) != 2 || as[0].Kind != client.AnswerPending || as[1].Kind != client.AnswerAllow {
		t.Errorf("%+v, %v", as, err)
	}
	if read.Tool != "" {
		t.Errorf("the caller's own call was changed: %+v", read)
	}
}

// onSocket serves h on a unix socket and returns its path.
func onSocket(t *testing.T, h http.Handler) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	srv.Start()
	t.Cleanup(srv.Close)
	return path
}

func TestAnAddressMayBeAUnixSocket(t *testing.T) {
	w := newWorld(t)
	path := onSocket(t, w.srv.Config.Handler)
	c, err := client.New("unix://"+path, botToken)
	w.must(err)
	defer c.Close()
	a, err := c.Call(t.Context(), client.Call{Tool: "read_file"})
	if err != nil || !a.MayRun() {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestOverASocketATokenIsNotNeeded(t *testing.T) {
	seen := make(chan *http.Request, 1)
	path := onSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		io.WriteString(w, `{"decision":"allow"}`)
	}))
	c, err := client.New("unix://"+path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(t.Context(), transfer); err != nil {
		t.Fatal(err)
	}
	r := testkit.Receive(t, "the call", seen)
	if _, there := r.Header["Authorization"]; there || r.Host != "localhost" || r.URL.Path != "/v1/calls" {
		t.Errorf("sent to %s%s with %v", r.Host, r.URL.Path, r.Header)
	}
}

func TestASocketThatIsNotThereIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	c, err := client.New("unix://"+path, botToken, client.WithTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Call(t.Context(), transfer)
	if err == nil || !client.Unreachable(err) || !strings.Contains(err.Error(), path) || errors.Is(err, &client.Error{}) {
		t.Errorf("%v", err)
	}
}

func TestAddressesOfSocketsAreWhole(t *testing.T) {
	for _, address := range []string{"unix://", "unix:///", "unix://run/gate.sock", "unix:gate.sock",
		"unix:///gate.sock?x=1", "unix:///gate.sock#x", "unix://hana@/gate.sock", "http://localhost"} {
		if _, err := client.New(address, ""); err == nil {
			t.Errorf("%s is taken without a token", address)
		}
	}
}
