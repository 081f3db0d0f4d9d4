package approval_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

// measured is a store that notes what each transaction asks of it.
type measured struct {
	approval.Store
	steps []step // of Update, in order
	views []step
}

// step is what one transaction has asked for.
type step struct {
	calls int // of methods that go by request or by row
	bytes int // of what large columns came back with
}

func (m *measured) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	return m.Store.Update(ctx, about, func(tx approval.Tx) error {
		t := measuredTx{tx, &step{}}
		err := fn(t)
		m.steps = append(m.steps, *t.step)
		return err
	})
}

func (m *measured) View(ctx context.Context, fn func(approval.Tx) error) error {
	return m.Store.View(ctx, func(tx approval.Tx) error {
		t := measuredTx{tx, &step{}}
		err := fn(t)
		m.views = append(m.views, *t.step)
		return err
	})
}

// most returns the most that any step has asked for, and forgets them all.
func (m *measured) most() (most step, n int) {
	for _, s := range slices.Concat(m.steps, m.views) {
		most.calls, most.bytes = max(most.calls, s.calls), max(most.bytes, s.bytes)
	}
	n = len(m.steps)
	m.steps, m.views = nil, nil
	return most, n
}

type measuredTx struct {
	approval.Tx
	step *step
}

func (t measuredTx) requests(rs ...approval.Request) {
	t.step.calls++
	for _, r := range rs {
		t.step.bytes += len(r.Args) + len(r.Rationale) + len(r.Preview)
	}
}

func (t measuredTx) Request(id string) (approval.Request, error) {
	r, err := t.Tx.Request(id)
	t.requests(r)
	return r, err
}

func (t measuredTx) Head(id string) (approval.Head, error) {
	h, err := t.Tx.Head(id)
	t.requests(h.Request)
	return h, err
}

func (t measuredTx) Requests(q approval.RequestQuery) ([]approval.Request, error) {
	rs, err := t.Tx.Requests(q)
	t.requests(rs...)
	return rs, err
}

func (t measuredTx) Batch(id string) ([]approval.Request, error) {
	rs, err := t.Tx.Batch(id)
	t.requests(rs...)
	return rs, err
}

func (t measuredTx) Feed(agent, session string, limit, bytes int) ([]approval.Request, error) {
	rs, err := t.Tx.Feed(agent, session, limit, bytes)
	t.requests(rs...)
	return rs, err
}

func (t measuredTx) Notifications(q approval.NotificationQuery) ([]approval.Notification, error) {
	ns, err := t.Tx.Notifications(q)
	t.step.calls++
	for _, n := range ns {
		t.step.bytes += len(n.Body)
	}
	return ns, err
}

func (t measuredTx) Ack(agent, id string) (bool, error) {
	t.step.calls++
	return t.Tx.Ack(agent, id)
}

func (t measuredTx) Resolve(r approval.Resolution) (bool, error) {
	t.step.calls++
	return t.Tx.Resolve(r)
}

// measure puts a gate over the world's store that notes what its transactions ask for.
func (w *world) measure() *measured {
	w.t.Helper()
	m := &measured{Store: w.store}
	w.wire(approval.Options{Store: m, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Now: w.clock.Now,
		Logger: w.logger()},
		outboxtest.Routing{Cards: []approval.Route{{{Channel: "line", To: "U1"}, {Channel: "slack", To: "C1"}}}})
	return m
}

// askMany makes n requests with large args and returns their ids.
func (w *world) askMany(n, large int) []string {
	w.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = w.expect(call(fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat("x", large))),
			approval.AnswerPending).Request.ID
	}
	return ids
}

// A step is what one transaction may ask for: 64 requests with a few statements each, and none of their args.
const mostCalls = 64 * 8

func TestRule12_AnAcknowledgementIsCappedDedupedAndCutIntoSteps(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	ids := w.askMany(150, 1000)
	for _, id := range ids {
		w.mustDecide(id, false, hana, "")
	}
	m.most()

	var flood []string
	for len(flood) <= approval.MaxAck {
		flood = append(flood, ids[0])
	}
	if _, err := w.gate.Ack(w.ctx, "bot", flood); approval.CodeOf(err) != approval.CodeInvalidParameter {
		t.Errorf("%d ids: %v", len(flood), err)
	}
	if _, n := m.most(); n != 0 {
		t.Errorf("what is refused took %d transactions", n)
	}

	a, err := w.gate.Ack(w.ctx, "bot", flood[1:])
	if err != nil || !slices.Equal(a.Acked, ids[:1]) || len(a.NotFound)+len(a.NotResolved) != 0 {
		t.Errorf("one id %d times: %+v, %v", len(flood)-1, a, err)
	}
	if most, n := m.most(); n != 1 || most.calls > 3 {
		t.Errorf("one id took %d transactions of up to %d calls", n, most.calls)
	}

	none := strings.Repeat("0", 26)
	a, err = w.gate.Ack(w.ctx, "bot", slices.Concat(ids, []string{none}, ids))
	if err != nil || !slices.Equal(a.Acked, ids) || !slices.Equal(a.NotFound, []string{none}) {
		t.Errorf("all: %d acked, %v not found, %v", len(a.Acked), a.NotFound, err)
	}
	if most, n := m.most(); n != 3 || most.calls > mostCalls || most.bytes != 0 {
		t.Errorf("151 ids took %d transactions of up to %d calls, which read %d bytes of args", n, most.calls, most.bytes)
	}
	if rest := w.feed(); len(rest) != 0 {
		t.Errorf("%d endings are left", len(rest))
	}
}

func TestRule12_RowsThatAreLargeMakeStepsSmaller(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	ids := w.askMany(12, 1<<20-100)
	for _, id := range ids {
		w.mustDecide(id, false, hana, "")
	}
	m.most()
	// Each row that is acknowledged is stored again, whole.
	if a, err := w.gate.Ack(w.ctx, "bot", ids); err != nil || !slices.Equal(a.Acked, ids) {
		t.Fatalf("%+v, %v", a, err)
	}
	if most, n := m.most(); n != 3 || most.bytes != 0 {
		t.Errorf("12 requests of 1 MiB took %d transactions, which read %d bytes of args; want 3 of 4 MiB, and none", n,
			most.bytes)
	}
}

func TestRule12_WhatIsDueEndsInSteps(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	w.askMany(150, 1000)
	w.clock.advance(2 * time.Hour)
	m.most()
	if n, err := w.gate.Expire(w.ctx); n != 150 || err != nil {
		t.Fatalf("%d expired, %v", n, err)
	}
	if most, n := m.most(); n != 3 || most.calls > mostCalls || most.bytes > 64<<10 { // the args of 64, which go on record
		t.Errorf("150 due requests took %d transactions of up to %d calls, which read %d bytes of args and bodies", n,
			most.calls, most.bytes)
	}
}

func TestRule12_RemindersAreMadeInSteps(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	w.askMany(150, 1000)
	w.clock.advance(20 * time.Minute)
	m.most()
	if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); n != 150 || err != nil {
		t.Fatalf("%d reminded, %v", n, err)
	}
	if most, _ := m.most(); most.calls > mostCalls || most.bytes != 0 {
		t.Errorf("a transaction took %d calls and read %d bytes of args and bodies", most.calls, most.bytes)
	}
}

func TestRule12_WhoLeavesHoldsNobodyUp(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	ids := w.askMany(150, 1000)
	m.most()
	if _, err := w.chat.Interact(w.ctx, chat.Interaction{EventID: "left", Channel: "line", From: "U1", By: hana,
		Intent: chat.IntentUnfollow}); err != nil {
		t.Fatal(err)
	}
	if most, n := m.most(); n != 3 || most.calls > mostCalls || most.bytes != 0 {
		t.Errorf("150 cards took %d transactions of up to %d calls, which read %d bytes of args and bodies", n, most.calls,
			most.bytes)
	}
	for _, id := range ids {
		ns := w.notifications(approval.NotificationQuery{ApprovalID: id, Channel: "slack"})
		if len(ns) != 1 {
			t.Fatalf("%s: %d cards went on to Slack", id, len(ns))
		}
	}
}

func TestRule12_EveryListStopsAtItsBudgetOfBytes(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	const each = 300 << 10
	ids := w.askMany(20, each)
	for _, id := range ids {
		w.mustDecide(id, false, hana, strings.Repeat("r", 10_000))
	}
	m.most()
	if feed := w.feed(); len(feed) != 14 { // the row with which 4 MiB are full is the last
		t.Errorf("the feed brings %d of 20 requests of 300 KiB", len(feed))
	}
	rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Limit: 200})
	if err != nil || len(rs) != 14 {
		t.Errorf("the list brings %d of 20, %v", len(rs), err)
	}
	if rs, err = lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Limit: 200,
		After: rs[len(rs)-1].ID}); err != nil || len(rs) != 6 {
		t.Errorf("its next page brings %d, %v", len(rs), err)
	}
	if most, _ := m.most(); most.bytes > approval.ListBytes+each {
		t.Errorf("a list read %d bytes", most.bytes)
	}
	// Events and notifications are small; that they have the same budget shows by a smaller one.
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventDecision, Bytes: 25_000})
	if err != nil || len(es) != 3 {
		t.Errorf("%d events of 10 KB within 25 KB, %v", len(es), err)
	}
	ns, err := w.outbox.Notifications(w.ctx, approval.NotificationQuery{Limit: 20, Bytes: 1500})
	if err != nil || len(ns) != 3 {
		t.Errorf("%d notifications of half a KB within 1500 bytes, %v", len(ns), err)
	}
}

func TestRule12_AStreamPassesForeignRowsOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		c := call(fmt.Sprintf(`{"n":%d}`, i))
		c.Agent = "other"
		w.expect(c, approval.AnswerPending)
	}
	q := approval.EventQuery{Agent: "bot", Told: true, Limit: 2}
	_, newest, err := lists.EventRange(w.ctx, w.gate)
	if err != nil {
		t.Fatal(err)
	}
	found, err := lists.FollowEvents(w.ctx, w.gate, q)
	if len(found.Events) != 0 || found.UpTo != newest || found.More || err != nil {
		t.Errorf("%+v, %v; want none up to %d", found, err, newest)
	}
	w.askMany(3, 1)
	var got []int64
	q.AfterSeq, found.More = found.UpTo, true
	for ; found.More; q.AfterSeq = found.UpTo {
		if found, err = lists.FollowEvents(w.ctx, w.gate, q); err != nil {
			t.Fatal(err)
		}
		for _, e := range found.Events {
			got = append(got, e.Seq)
		}
	}
	if want := []int64{newest + 1, newest + 2, newest + 3}; !slices.Equal(got, want) || found.UpTo != newest+3 {
		t.Errorf("got %v up to %d, want %v", got, found.UpTo, want)
	}
}

func TestRule12_AReadEndsPartOfWhatPiledUpAndAllThatItShows(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	w.askMany(1200, 1)
	w.clock.advance(2 * time.Hour)
	m.most()
	rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Limit: 10})
	if err != nil || len(rs) != 10 {
		t.Fatalf("%d requests, %v", len(rs), err)
	}
	for _, r := range rs { // the newest, which are ended last
		if r.Status != approval.Expired {
			t.Errorf("%s is told as %s", r.ID, r.Status)
		}
	}
	if _, n := m.most(); n != 16+1+3 { // as many steps as a read takes, what the list shows, and the rest at the next look
		t.Errorf("the list took %d transactions that write", n)
	}
}

func TestRule12_PruningGoesInSteps(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	for i := range 1200 {
		err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
			_, err := tx.FirstSight(fmt.Sprint("event ", i))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.clock.advance(4 * 24 * time.Hour)
	if n, err := w.gate.Forget(w.ctx); n != 1200 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
	if _, n := m.most(); n != 3 {
		t.Errorf("in %d transactions, want 3", n)
	}
}

func TestRule12_FewListsOfOnePrincipalAreInMemoryAtATime(t *testing.T) {
	w := newWorld(t)
	for _, id := range w.askMany(3, 1) {
		w.mustDecide(id, false, hana, "")
	}
	const readers = 12
	var mu sync.Mutex
	held, most := 0, 0
	over, letGo := testkit.Latch()
	defer letGo()
	var wg sync.WaitGroup
	begun := make(chan struct{}, readers)
	for range readers {
		wg.Go(func() {
			err := w.gate.TellResolved(w.ctx, "bot", "", time.Minute, func(_ []approval.Request) error {
				mu.Lock()
				held++
				most = max(most, held)
				mu.Unlock()
				begun <- struct{}{}
				<-over
				mu.Lock()
				held--
				mu.Unlock()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		testkit.Receive(t, "a list is read", begun)
	}
	if rs, err := w.gate.Resolved(w.ctx, "other", "", 0); len(rs) != 0 || err != nil {
		t.Errorf("another agent reads %d, %v", len(rs), err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.gate.Turn(ctx,
		bot); approval.CodeOf(err) != approval.CodeRateLimited { // it is not the store that is slow
		t.Error("a fifth list has its turn")
	}
	letGo()
	testkit.Wait(t, "all readers", wg.Wait)
	if most != 4 {
		t.Errorf("%d lists were held at a time, want 4", most)
	}
	for range 100 { // where there is room, it is not for having come late that a list is one too many
		release, err := w.gate.Turn(ctx, bot)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
}

func TestRule12_AListOfGrantsEndsThoseThatAreOverInOneTransaction(t *testing.T) {
	w := newWorld(t)
	m := w.measure()
	if err := w.store.Update(w.ctx, approval.OfAgent("bot"), func(tx approval.Tx) error {
		for i := range 10 {
			gr := approval.Grant{ID: tx.NewID(), Agent: "bot", Tool: "pay", By: "hana", Via: approval.ViaAPI,
				RequestID: tx.NewID(), Risk: approval.RiskHigh, Args: []byte("{}"), ArgsHash: strings.Repeat("0", 64),
				MadeAt:    tx.Now(),
				ExpiresAt: tx.Now().Add(time.Duration(1+i/2) * time.Hour)}
			if err := tx.PutGrant(gr); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	m.most()
	grants, err := lists.ListGrants(w.ctx, w.gate, approval.GrantQuery{All: true, Limit: 20})
	ended := slices.DeleteFunc(slices.Clone(grants), func(g approval.Grant) bool { return g.EndedAt.IsZero() })
	if err != nil || len(grants) != 10 || len(ended) != 2 {
		t.Errorf("%d grants, of which %d have ended, %v; want 10 and 2", len(grants), len(ended), err)
	}
	if _, updates := m.most(); updates != 1 {
		t.Errorf("%d write transactions for one list, want 1", updates)
	}
}
