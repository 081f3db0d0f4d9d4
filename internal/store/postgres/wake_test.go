//go:build postgres

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/store/postgres/postgrestest"
	"countersign/internal/testkit"
)

// heard is what a store has told.
type heard struct {
	mu      sync.Mutex
	commits []approval.Commit
}

func (h *heard) hear(c approval.Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits = append(h.commits, c)
}

func (h *heard) events() (all []approval.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.commits {
		all = append(all, c.Events...)
	}
	return all
}

func (h *heard) deadlines() (all []time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.commits {
		if !c.Deadline.IsZero() {
			all = append(all, c.Deadline)
		}
	}
	return all
}

func say(t *testing.T, s approval.Store, kind approval.EventType, agent string) {
	t.Helper()
	if err := s.Update(t.Context(), approval.OfNothing(), func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: kind, Agent: agent, Decision: "approve", ApprovalID: tx.NewID()})
		return err
	}); err != nil {
		t.Error(err)
	}
}

// Each program is told of what all commit, once and in the order of the seqs, and of allowed calls nothing.
func TestNewsOfAllPrograms(t *testing.T) {
	t.Parallel()
	url := emptied(t)
	var all [3]heard
	var stores []*DB
	for i := range all {
		stores = append(stores, open(t, Options{URL: url, OnNews: all[i].hear}))
	}
	const each = 40
	var writers sync.WaitGroup
	for i, s := range stores {
		writers.Go(func() {
			for n := range each {
				say(t, s, approval.EventDecision, fmt.Sprint("bot", i, "-", n))
				say(t, s, approval.EventCallAllowed, "quiet")
			}
		})
	}
	testkit.Wait(t, "the writers", writers.Wait)
	for i := range all {
		testkit.Eventually(t, "all is told", func() bool { return len(all[i].events()) >= each*len(stores) })
		told := all[i].events()
		inOrder := slices.IsSortedFunc(told, func(a, b approval.Event) int { return int(a.Seq - b.Seq) })
		if len(told) != each*len(stores) || !inOrder {
			t.Errorf("%d events are told, or not in order", len(told))
		}
		for _, e := range told {
			if e.Type != approval.EventDecision || e.Decision != "approve" || e.ApprovalID == "" || e.Seq == 0 {
				t.Errorf("told of %+v", e)
			}
		}
	}
}

// What one program commits is told to another that does not look by itself.
func TestANotificationWakesTheOthers(t *testing.T) {
	t.Parallel()
	url := emptied(t)
	var h heard
	open(t, Options{URL: url, OnNews: h.hear, look: time.Hour})
	other := open(t, Options{URL: url, look: time.Hour})
	for n := range 3 {
		say(t, other, approval.EventDecision, "bot")
		testkit.Eventually(t, "it is told", func() bool { return len(h.events()) == n+1 })
	}
}

// Where the connection for it is lost, others are heard of all the same.
func TestNewsWithoutNotifications(t *testing.T) {
	t.Parallel()
	url := emptied(t)
	p := postgrestest.NewProxy(t, url)
	var h heard
	open(t, Options{URL: p.URL, OnNews: h.hear})
	other := open(t, Options{URL: url})
	for n := range 5 {
		say(t, other, approval.EventDecision, "bot")
		p.Cut()
		testkit.Eventually(t, "it is told", func() bool { return len(h.events()) == n+1 })
	}
}

// A deadline that another program has made is told too, a little later than that one sees to it.
func TestDeadlinesOfOthers(t *testing.T) {
	t.Parallel()
	url := emptied(t)
	var h heard
	open(t, Options{URL: url, OnNews: h.hear})
	m := join(t, Options{URL: url})
	r := m.check(t, callOf(t, "bot", "send", `{"a":1}`), approval.AnswerPending)
	testkit.Eventually(t, "it is told", func() bool { return len(h.deadlines()) > 0 })
	if got := h.deadlines()[0]; !got.Equal(r.ExpiresAt.Add(leeway)) {
		t.Errorf("%s, want %s after %s", got, leeway, r.ExpiresAt)
	}
}

// A waiter of one program wakes on what is decided at another, and a freeze there ends what waits here.
func TestWaitersWakeOverPrograms(t *testing.T) {
	t.Parallel()
	url := emptied(t)
	here, there := broadcasting(t, url), broadcasting(t, url)
	c := callOf(t, "bot", "send", `{"a":1}`)
	first := here.check(t, c, approval.AnswerPending)
	answers := make(chan approval.Answer, 1)
	go func() {
		out, err := here.gate.CheckWait(t.Context(), c, approval.WaitOptions{For: testkit.Patience})
		if err != nil {
			t.Error(err)
		}
		answers <- out
	}()
	testkit.Eventually(t, "somebody waits", func() bool { return here.gate.Broker().Waiting(first.ID) > 0 })
	if _, err := there.gate.Decide(t.Context(), approval.Decision{RequestID: first.ID, Approve: true, By: hana,
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	if out := testkit.Receive(t, "the answer", answers); out.Kind != approval.AnswerApproved {
		t.Errorf("%s", out.Kind)
	}
	frozen, cancel := here.gate.Broker().Freezes()
	defer cancel()
	if _, err := there.gate.Freeze(t.Context(), "", hana, approval.ViaAPI, ""); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the freeze", frozen)
}

// broadcasting is a member whose gate is woken by all.
func broadcasting(t *testing.T, url string) *member {
	t.Helper()
	b := approval.NewBroker()
	m := join(t, Options{URL: url, OnCommit: b.Publish, OnNews: b.Publish})
	m.gate = approval.NewGate(approval.Options{Store: m.DB, Broker: b, Policy: rules{}})
	return m
}

// A database that has lost its newest events, whose numbers others have by now, has these told: also where there are
// more of them already.
func TestNewsAfterEventsWereLost(t *testing.T) {
	t.Parallel()
	for _, again := range []int{1, 7} {
		var h heard
		d := open(t, Options{OnNews: h.hear, look: time.Hour})
		tell := func() {
			t.Helper()
			if err := d.numbering.gather(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			say(t, d, approval.EventDecision, "bot")
		}
		tell()
		w := wakes{db: d}
		var err error
		if w.seen, err = w.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.seen.lineage = "that of before"
		if _, err := d.pool.Exec(t.Context(), `WITH lost AS (DELETE FROM audit_events WHERE seq > 5)
  UPDATE store_state SET seq = 5`); err != nil {
			t.Fatal(err)
		}
		for range again {
			say(t, d, approval.EventFrozen, "lost")
		}
		tell()
		var found news
		var events []approval.Event
		for more := true; more; {
			if err := w.readMore(t.Context(), &found); err != nil {
				t.Fatal(err)
			}
			more = w.see(&found)
			events = append(events, found.events...)
		}
		events = slices.DeleteFunc(events, func(e approval.Event) bool { return e.Agent != "lost" })
		if len(events) != again {
			t.Errorf("%d are told, want %d", len(events), again)
		}
	}
}

// Who waits is woken by news at once. A deadline that could not be read with it is told the next time.
func TestADeadlineThatCouldNotBeReadIsTold(t *testing.T) {
	t.Parallel()
	var h heard
	log, url := &testkit.Buffer{}, emptied(t)
	d, err := Open(t.Context(), Options{URL: url, Logger: log.Logger(), OnNews: h.hear})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	here := join(t, Options{URL: url})
	here.check(t, callOf(t, "bot", "send", `{}`), approval.AnswerPending)
	c := connect(t, url)
	testkit.Eventually(t, "it is told when a request ends", func() bool { return len(h.deadlines()) > 0 })
	before, told := len(h.deadlines()), len(h.events())
	if _, err := c.Exec(t.Context(), `BEGIN; LOCK TABLE approval_requests IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	say(t, d, approval.EventFrozen, "bot")
	testkit.Eventually(t, "the deadline is waited for in vain", func() bool {
		_, err := c.Exec(t.Context(), `SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted
  AND relation = 'approval_requests'::regclass`)
		return err == nil && strings.Contains(log.String(), "or not be told")
	})
	if n := len(h.events()); n != told+1 {
		t.Errorf("%d were told, want one more than %d", n, told)
	}
	if n := len(h.deadlines()); n != before {
		t.Errorf("%d deadlines were told, want the %d of before", n, before)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the deadline is told", func() bool { return len(h.deadlines()) == before+1 })
	if n := len(h.events()); n != told+1 {
		t.Errorf("%d were told in the end, want one more than %d", n, told)
	}
}

// A notification that arrives on a connection that is not for it, as behind a pooler, is not kept there.
func TestNotificationsDoNotPileUp(t *testing.T) {
	d := open(t, Options{Connections: 1, look: time.Hour})
	conn, err := d.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{"LISTEN countersign", "NOTIFY countersign", "SELECT 1"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := conn.Conn().WaitForNotification(ctx); err == nil {
		t.Errorf("%+v was kept", n)
	}
}

// An operator is told once where notifications do not arrive.
func TestAPoolerIsNoticed(t *testing.T) {
	t.Parallel()
	log := &testkit.Buffer{}
	url := emptied(t)
	p := postgrestest.NewProxy(t, url)
	p.Alter(func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("LISTEN countersign"), []byte("LISTEN another_one"))
	})
	var h heard
	d, err := Open(t.Context(), Options{URL: p.URL, Logger: log.Logger(), OnNews: h.hear})
	if err != nil {
		t.Fatal(err)
	}
	say(t, open(t, Options{URL: url}), approval.EventFrozen, "")
	testkit.Eventually(t, "it is told all the same", func() bool { return len(h.events()) == 1 })
	testkit.Eventually(t, "it is said", func() bool { return strings.Contains(log.String(), "do not arrive") })
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
