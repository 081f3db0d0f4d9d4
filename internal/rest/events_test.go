package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// events is one client's end of a stream.
type events struct {
	t      *testing.T
	header http.Header
	cancel context.CancelFunc
	lines  chan string // closed when the stream ends
}

type event struct {
	id, name string
	data     map[string]any
}

func (w *world) stream(t *testing.T, token, lastID string) *events {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", w.srv.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	e := &events{t: t, header: resp.Header, cancel: cancel, lines: make(chan string, 10_000)}
	go func() {
		defer resp.Body.Close()
		defer close(e.lines)
		sc := bufio.NewScanner(resp.Body)
		sc.Buffer(nil, 16<<20)
		for sc.Scan() {
			e.lines <- sc.Text()
		}
	}()
	t.Cleanup(cancel)
	return e
}

// line returns the next line; ok is false when the stream has ended.
func (e *events) line() (line string, ok bool) {
	e.t.Helper()
	select {
	case line, ok = <-e.lines:
		return line, ok
	case <-time.After(testkit.Patience):
		e.t.Fatal("no line came")
		return "", false
	}
}

// next returns the next event.
func (e *events) next() event {
	e.t.Helper()
	var ev event
	for {
		line, ok := e.line()
		if !ok {
			e.t.Fatal("the stream ended")
		}
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			ev.id = value
		case "event":
			ev.name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &ev.data); err != nil {
				e.t.Fatalf("%v: %s", err, value)
			}
		case "":
			if ev.name != "" {
				return ev
			}
		}
	}
}

// expect fails unless the next events have these names and are about these requests.
func (e *events) expect(want ...string) (last event) {
	e.t.Helper()
	for _, w := range want {
		last = e.next()
		id, _ := last.data["id"].(string)
		if got := last.name + " " + id; got != w {
			e.t.Fatalf("got %s, want %s", got, w)
		}
	}
	return last
}

// ended fails unless the stream ends by itself.
func (e *events) ended() {
	e.t.Helper()
	for {
		if _, ok := e.line(); !ok {
			return
		}
	}
}

func TestPeopleAreToldOfEverythingAsItHappens(t *testing.T) {
	w := newWorld(t)
	w.ask(asked(9)) // before: not told
	s := w.stream(t, hanaToken, "")
	id := w.ask(transfer)
	ev := s.expect("approval.requested " + id)
	if ev.data["status"] != "pending" || len(ev.data) != 40 {
		t.Errorf("the data is %v", ev.data)
	}
	nid := w.failNotification(id)
	if ev := s.expect("notification.changed " + nid); ev.data["status"] != "failed" || ev.data["approval_id"] != id {
		t.Errorf("the data is %v", ev.data)
	}
	w.decide(kenToken, id, "approve", "").is(200)
	if ev := s.expect("approval.resolved " + id); ev.data["status"] != "approved" || ev.data["resolved_by"] != "ken" {
		t.Errorf("the data is %v", ev.data)
	}
	w.do(botToken, "POST", "/v1/calls", transfer).is(200)
	if ev := s.expect("approval.consumed " + id); ev.data["consumed_at"] == nil {
		t.Errorf("the data is %v", ev.data)
	}
	w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file"}`).is(200) // not told of
	cancelled := w.ask(asked(1))
	w.do(botToken, "POST", "/v1/approvals/"+cancelled+"/cancel", "").is(200)
	s.expect("approval.requested "+cancelled, "approval.resolved "+cancelled)
}

func TestALapseAndAnExpiryAreToldToo(t *testing.T) {
	w := newWorld(t)
	s := w.stream(t, kenToken, "")
	approved := w.ask(asked(1))
	w.decide(hanaToken, approved, "approve", "").is(200)
	expired := w.ask(asked(2))
	s.expect("approval.requested "+approved, "approval.resolved "+approved, "approval.requested "+expired)
	w.clock.Advance(15 * time.Minute)
	w.do(botToken, "GET", "/v1/approvals/"+approved, "").is(200)
	if ev := s.expect("approval.resolved " + approved); ev.data["lapsed_at"] == nil {
		t.Errorf("the data is %v", ev.data)
	}
	w.clock.Advance(45 * time.Minute)
	w.do(botToken, "GET", "/v1/approvals/"+expired, "").is(200)
	if ev := s.expect("approval.resolved " + expired); ev.data["status"] != "expired" {
		t.Errorf("the data is %v", ev.data)
	}
}

func TestAgentsAreToldOfTheirOwnAndOnlyAdminsOfNotifications(t *testing.T) {
	w := newWorld(t)
	bot, other, guest := w.stream(t, botToken, ""), w.stream(t, otherToken, ""), w.stream(t, guestToken, "")
	id := w.ask(transfer)
	w.failNotification(id)
	theirs := w.do(otherToken, "POST", "/v1/calls", transfer).is(202).str("approval_id")
	w.decide(hanaToken, id, "deny", "").is(200)
	w.decide(hanaToken, theirs, "deny", "").is(200)
	bot.expect("approval.requested "+id, "approval.resolved "+id)
	other.expect("approval.requested "+theirs, "approval.resolved "+theirs)
	guest.expect("approval.requested "+id, "approval.requested "+theirs, "approval.resolved "+id, "approval.resolved "+
		theirs)
}

func TestAStreamIsResumedWhereItBroke(t *testing.T) {
	for _, token := range []string{botToken, hanaToken} {
		w := newWorld(t)
		first, second := w.ask(asked(1)), ""
		s := w.stream(t, token, "")
		second = w.ask(asked(2))
		ev := s.expect("approval.requested " + second)
		s.cancel()
		w.decide(hanaToken, second, "deny", "").is(200)
		w.decide(hanaToken, first, "deny", "").is(200)
		s = w.stream(t, token, ev.id)
		s.expect("approval.resolved "+second, "approval.resolved "+first)
		third := w.ask(asked(3))
		s.expect("approval.requested " + third)
		// From the very beginning, as the rows now stand.
		s = w.stream(t, token, "0")
		if ev := s.expect("approval.requested " + first); ev.data["status"] != "denied" {
			t.Errorf("the data is %v", ev.data)
		}
	}
}

func TestAnIDThatIsNotKnownGetsAResetAndTheStreamGoesOn(t *testing.T) {
	for _, id := range []string{"999999", "-1", "junk", "99999999999999999999"} {
		w := newWorld(t)
		w.ask(asked(1))
		s := w.stream(t, hanaToken, id)
		ev := s.next()
		if ev.name != "reset" || ev.id == "" || ev.id == id {
			t.Fatalf("%s: got %+v", id, ev)
		}
		next := w.ask(asked(2))
		s.expect("approval.requested " + next)
		// The reset's own id can be resumed from.
		s = w.stream(t, hanaToken, ev.id)
		s.expect("approval.requested " + next)
	}
}

// prunedStore is a store whose audit log begins later.
type prunedStore struct {
	approval.Store
	oldest int64
}

type prunedTx struct {
	approval.Tx
	oldest int64
}

func (s prunedStore) View(ctx context.Context, fn func(approval.Tx) error) error {
	return s.Store.View(ctx, func(tx approval.Tx) error { return fn(prunedTx{tx, s.oldest}) })
}

func (tx prunedTx) SeqRange() (int64, int64, error) {
	_, newest, err := tx.Tx.SeqRange()
	return tx.oldest, newest, err
}

func TestAnIDThatIsNoLongerKeptGetsAReset(t *testing.T) {
	w := newWorld(t)
	for i := range 9 {
		w.ask(asked(i))
	}
	w.store.Store = prunedStore{w.store.Store, 5}
	if ev := w.stream(t, hanaToken, "3").next(); ev.name != "reset" {
		t.Errorf("after 3 with 5 the oldest: got %s", ev.name)
	}
	if ev := w.stream(t, hanaToken, "4").next(); ev.name != "approval.requested" || ev.id != "5" {
		t.Errorf("after 4 with 5 the oldest: got %s %s", ev.name, ev.id)
	}
}

func TestAResumedStreamBringsMoreThanOneLook(t *testing.T) {
	w := newWorld(t)
	const n = 2*eventsPage + 40
	var want []string
	for i := range n / 20 {
		var calls []string
		for j := range 20 {
			calls = append(calls, asked(100*i+j))
		}
		r := w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[`+strings.Join(calls, ",")+`]}`).is(200)
		for _, a := range r.list("results") {
			want = append(want, a["approval_id"].(string))
		}
	}
	s := w.stream(t, hanaToken, "0")
	var got []string
	for range n {
		got = append(got, s.next().data["id"].(string))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d events that are not the %d in order", len(got), len(want))
	}
}

func TestAQuietStreamIsKeptAlive(t *testing.T) {
	w := newWorld(t, func(s *Server) { s.keepAlive = 20 * time.Millisecond })
	s := w.stream(t, botToken, "")
	for comments := 0; comments < 3; {
		line, ok := s.line()
		if !ok {
			t.Fatal("the stream ended")
		}
		if strings.HasPrefix(line, ":") {
			comments++
		}
	}
	if d := New(Options{Gate: w.gate, Directory: w.dir}).keepAlive; d != 15*time.Second {
		t.Errorf("a comment comes every %v", d)
	}
}

func TestAStreamEndsWhenTheServerStops(t *testing.T) {
	w := newWorld(t)
	s := w.stream(t, hanaToken, "")
	w.stop()
	s.ended()
}

func TestAStreamEndsWhenItsTokenIsWithdrawn(t *testing.T) {
	w := newWorld(t, func(s *Server) { s.keepAlive = 20 * time.Millisecond })
	s := w.stream(t, botToken, "")
	w.dir.Replace(agentsConfigured[1:], peopleConfigured)
	s.ended()
	w.idle()
}

func TestARoleThatIsWithdrawnEndsWhatItBrought(t *testing.T) {
	w := newWorld(t)
	s := w.stream(t, rootToken, "")
	people := slices.Clone(peopleConfigured)
	people[2].Admin = false
	w.dir.Replace(agentsConfigured, people)
	id := w.ask(transfer)
	w.failNotification(id)
	w.decide(hanaToken, id, "deny", "").is(200)
	s.expect("approval.requested "+id, "approval.resolved "+id)
}

func TestAStreamEndsWhenTheClientGoes(t *testing.T) {
	w := newWorld(t)
	s := w.stream(t, hanaToken, "")
	w.eventually("it is served", func() bool { return w.active.Load() == 1 })
	s.cancel()
	w.idle()
}

func TestAStreamOutlastsTheServersTimeouts(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t)
	patient := w.srv
	w.srv = newSlowServer(w)
	t.Cleanup(w.srv.Close)
	s := w.stream(t, hanaToken, "")
	w.srv = patient
	time.Sleep(1500 * time.Millisecond) // real: more than the server's time-outs, and no matter how much
	id := w.ask(transfer)
	s.expect("approval.requested " + id)
}

func TestAStoreThatFailsBreaksTheStreamOff(t *testing.T) {
	w := newWorld(t, func(s *Server) { s.keepAlive = 20 * time.Millisecond })
	s := w.stream(t, hanaToken, "")
	err := error(&approval.Error{Code: approval.CodeStoreUnavailable, Message: "m"})
	w.store.err.Store(&err)
	s.ended()
	if !strings.Contains(w.log.String(), "broken off") {
		t.Error("it is not in the log")
	}
}

func TestHeadOfTheStreamIsOnlyItsHead(t *testing.T) {
	w := newWorld(t)
	r := w.do(hanaToken, "HEAD", "/v1/events", "").is(200)
	if r.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", r.header)
	}
}

func TestEventsComeInOrderWhileManyWrite(t *testing.T) {
	w := newWorld(t)
	s := w.stream(t, hanaToken, "")
	const writers, each = 8, 10
	var wg sync.WaitGroup
	defer testkit.Wait(t, "all writers", wg.Wait)
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				w.send(t.Context(), botToken, "POST", "/v1/calls", asked(1000*i+j))
			}
		})
	}
	last := -1
	for range writers * each {
		var seq int
		if _, err := fmt.Sscan(s.next().id, &seq); err != nil || seq <= last {
			t.Fatalf("seq %d after %d, %v", seq, last, err)
		}
		last = seq
	}
}
