package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
)

// pull reads a stream one event at a time.
func pull(t *testing.T, seq iter.Seq2[client.Event, error]) (next func() client.Event, stop func()) {
	n, stop := iter.Pull2(seq)
	return func() client.Event {
		t.Helper()
		e, err, ok := n()
		if err != nil || !ok {
			t.Fatalf("%v, %v", err, ok)
		}
		return e
	}, stop
}

func TestEventsCarryWhatChanged(t *testing.T) {
	w := newWorld(t)
	first := w.ask(call(1))
	next, stop := pull(t, w.hana.Events(t.Context(), "0"))
	defer stop()
	if e := next(); e.Type != client.EventRequested || e.Approval == nil || e.Approval.ID != first || e.ID == "" {
		t.Fatalf("%+v", e)
	}
	_, err := w.hana.Decide(t.Context(), first, client.Deny, "")
	w.must(err)
	if e := next(); e.Type != client.EventResolved || e.Approval.Status != "denied" {
		t.Errorf("%+v", e)
	}
}

// cut breaks every connection to the server.
func (w *world) cut() {
	w.srv.CloseClientConnections()
	w.bot.Close()
}

func TestAStreamThatBreaksIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next, stop := pull(t, w.hana.Events(t.Context(), "0"))
	defer stop()
	first := w.ask(call(1))
	if e := next(); e.Approval.ID != first {
		t.Fatalf("%+v", e)
	}
	w.cut()
	second := w.ask(call(2))
	if e := next(); e.Type != client.EventRequested || e.Approval.ID != second {
		t.Errorf("%+v", e)
	}
	w.cut()
	_, err := w.bot.Cancel(t.Context(), second, "")
	w.must(err)
	if e := next(); e.Type != client.EventResolved || e.Approval.ID != second {
		t.Errorf("%+v", e)
	}
}

func TestAStreamPassesAResetOn(t *testing.T) {
	w := newWorld(t)
	w.ask(call(1))
	next, stop := pull(t, w.hana.Events(t.Context(), "12345"))
	defer stop()
	if e := next(); e.Type != client.EventReset || e.Approval != nil {
		t.Errorf("%+v", e)
	}
}

func TestAStreamEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	for _, err := range w.hana.Events(ctx, "") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAStreamThatIsRefusedEnds(t *testing.T) {
	w := newWorld(t)
	c := w.client("somebody-elses-token")
	defer c.Close()
	n := 0
	for _, err := range c.Events(t.Context(), "") {
		if n++; client.CodeOf(err) != "unauthorized" {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d rounds", n)
	}
}

func TestAStreamThatNeverOpensEndsAtOnce(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	c, err := client.New(url, botToken)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range c.Events(t.Context(), "") {
		if n++; !client.Unreachable(err) {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d rounds", n)
	}
}

// A server may split its stream anywhere and say things that are not known here.
func TestAStreamIsReadByTheRulesOfServerSentEvents(t *testing.T) {
	var tries atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		switch tries.Add(1) {
		case 1:
			fmt.Fprint(w, ": hello\n\nretry: 1\n\nid: 1\nevent: approval.requested\ndata: {\"id\":\ndata:\"a\"}\n\nid: 2\nevent: something.new\ndata: x\n\n")
			fmt.Fprint(w, "id: 3\n\nid: 4\nevent: approval.resolved\ndata: {\"id\":\"cut")
		default:
			if got := r.Header.Get("Last-Event-ID"); got != "3" {
				t.Errorf("taken up after %q", got)
			}
			fmt.Fprint(w, "id:4\nevent:approval.resolved\ndata:{\"id\":\"b\"}\n\n")
		}
		w.(http.Flusher).Flush()
		io.Copy(io.Discard, r.Body)
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, botToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	next, stop := pull(t, c.Events(t.Context(), ""))
	defer stop()
	if e := next(); e.ID != "1" || e.Approval.ID != "a" {
		t.Errorf("%+v", e)
	}
	if e := next(); e.ID != "2" || e.Type != "something.new" {
		t.Errorf("%+v", e)
	}
	if e := next(); e.ID != "4" || e.Approval.ID != "b" {
		t.Errorf("%+v", e)
	}
}

func TestAServerThatIsAwayForAMomentIsComeBackTo(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := tries.Add(1); {
		case n == 2:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"code":"store_unavailable","title":"Store unavailable"}`)
		case n == 3:
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/v1/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: %d\nevent: approval.requested\ndata: {\"id\":\"a\"}\n\n", n)
		case r.Method == "POST":
			fmt.Fprint(w, `{"acked":[]}`)
		default:
			fmt.Fprintf(w, `{"approvals":[{"id":"%d"}]}`, n)
		}
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, botToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	next, stop := pull(t, c.Events(t.Context(), ""))
	defer stop()
	for _, want := range []string{"1", "4"} {
		if e := next(); e.ID != want {
			t.Errorf("got %s, want %s", e.ID, want)
		}
	}
	tries.Store(1)
	for a, err := range c.Feed(t.Context(), "") {
		if err != nil || a.ID != "4" {
			t.Errorf("got %s, %v", a.ID, err)
		}
		break
	}
	// An acknowledgement that fails is no end either: the ending comes again.
	tries.Store(0)
	var got []string
	for a, err := range c.Feed(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, a.ID); len(got) == 2 {
			break
		}
	}
	if got[0] != "1" || got[1] != "4" {
		t.Errorf("got %v", got)
	}
}
