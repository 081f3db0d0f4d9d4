package approval_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/budget"
	"countersign/internal/chat"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
)

// budgeted is a world in which the agents bot and other have these budgets, and cards go to two people.
func budgeted(t *testing.T, l budget.Limits, change ...func(*approval.Options, *outboxtest.Routing)) *world {
	t.Helper()
	w := newWorld(t)
	r := budget.NewRegistry(budget.Options{Now: w.clock.Now})
	r.Replace(map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: l, {Agent: true, Name: "other"}: l})
	o := approval.Options{
		Store: w.store, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Now: w.clock.Now, Logger: w.logger(),
		Budgets: r,
	}
	cards := outboxtest.Routing{Cards: bothWays.Cards}
	for _, c := range change {
		c(&o, &cards)
	}
	w.wire(o, cards)
	return w
}

func numbered(agent string, n int) approval.Call {
	c := call(fmt.Sprintf(`{"n":%d}`, n))
	c.Agent = agent
	return c
}

func (w *world) refused(c approval.Call) time.Duration {
	w.t.Helper()
	_, err := w.gate.Check(w.ctx, c)
	wantCode(w.t, err, approval.CodeRateLimited)
	e, _ := errors.AsType[*approval.Error](err)
	return e.After
}

// The attack: with max_pending 1 an agent sent 60 messages in 7.7 s by asking and cancelling.
func TestRule12_OverTheBudgetOfPushesCardsWaitInOrder(t *testing.T) {
	w := budgeted(t, budget.DefaultAgent, func(o *approval.Options, cards *outboxtest.Routing) {
		terms := terms
		terms.MaxPending = 100
		o.Policy = rules{asks, terms}
		*cards = outboxtest.To("line", "U1")
	})
	for i := range 63 { // every request is made
		w.expect(numbered("bot", i), approval.AnswerPending)
	}
	var waits []time.Duration
	told := 0
	for _, n := range w.notifications(approval.NotificationQuery{}) {
		switch {
		case n.Note == approval.NoteQueued:
			told++
		case n.NextAttemptAt.After(w.clock.Now()):
			waits = append(waits, n.NextAttemptAt.Sub(w.clock.Now()))
		}
	}
	if want := []time.Duration{30 * time.Second, time.Minute, 90 * time.Second}; !slices.Equal(waits, want) || told != 1 {
		t.Errorf("cards wait %v, told %d times; want %v, once", waits, told, want)
	}
	if sent := len(w.send()); sent != 60 {
		t.Errorf("%d cards at once, want 60", sent)
	}
	w.clock.advance(30 * time.Second)
	ready, _, err := w.ready(100)
	if err != nil || len(ready) != 2 {
		t.Fatalf("%d are ready, %v; want a card, and how many wait", len(ready), err)
	}
	for _, d := range ready {
		if d.Notification.Note == approval.NoteQueued && d.Queued != 2 {
			t.Errorf("told that %d wait, want 2", d.Queued)
		}
	}
	w.clock.advance(5 * time.Minute) // they are told again
	for i := range 11 {
		w.expect(numbered("bot", 100+i), approval.AnswerPending)
	}
	if ns := w.notifications(approval.NotificationQuery{Kind: approval.KindReply}); len(ns) != 2 {
		t.Errorf("told %d times, want twice", len(ns))
	}
	if out, err := w.gate.Check(w.ctx, numbered("other", 1)); err != nil || out.Kind != approval.AnswerPending {
		t.Errorf("another agent: %v, %v", out.Kind, err)
	}
}

func TestRule12_RequestsAreCountedWhateverBecomesOfThem(t *testing.T) {
	w := budgeted(t, budget.Limits{Requests: budget.Rate{Count: 3, Per: time.Minute}})
	first := w.expect(numbered("bot", 1), approval.AnswerPending)
	for range 20 { // joining costs nothing
		w.expect(numbered("bot", 1), approval.AnswerPending)
	}
	if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: first.Request.ID, By: bot,
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	w.expect(numbered("bot", 1), approval.AnswerPending)
	third := w.expect(numbered("bot", 2), approval.AnswerPending)
	if d := w.refused(numbered("bot", 3)); d != 20*time.Second {
		t.Errorf("try again in %s, want 20s", d)
	}
	w.mustDecide(third.Request.ID, true, hana, "")
	w.expect(numbered("bot", 2), approval.AnswerApproved) // what is there already goes on
	w.expect(numbered("other", 3), approval.AnswerPending)
	w.clock.advance(20 * time.Second)
	w.expect(numbered("bot", 3), approval.AnswerPending)
}

func TestRule12_ABatchIsOnePushAndManyRequests(t *testing.T) {
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 4, Per: time.Minute}, Requests: budget.Rate{Count: 10,
		Per: time.Minute}})
	batch := func(from int) error {
		var cs []approval.Call
		for i := range 5 {
			cs = append(cs, numbered("bot", from+i))
		}
		_, err := w.gate.CheckBatch(w.ctx, cs)
		return err
	}
	for i := range 2 {
		if err := batch(10 * i); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, batch(20), approval.CodeRateLimited)
	w.clock.advance(30 * time.Second)
	if err := batch(20); err != nil {
		t.Fatal(err)
	}
}

// again is a store that runs every update twice, and fails some.
type again struct {
	approval.Store
	fail bool
}

var errAgain = errors.New("once more")

func (s *again) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	if err := s.Store.Update(ctx, about, func(tx approval.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errAgain
	}); !errors.Is(err, errAgain) || s.fail {
		return err
	}
	return s.Store.Update(ctx, about, fn)
}

func TestRule12_WhatDoesNotCommitCostsNothing(t *testing.T) {
	var store *again
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 6, Per: time.Minute}, Requests: budget.Rate{Count: 3,
		Per: time.Minute}},
		func(o *approval.Options, _ *outboxtest.Routing) { store = &again{Store: o.Store}; o.Store = store })
	for i := range 3 {
		store.fail = true
		for range 5 {
			if _, err := w.gate.Check(w.ctx, numbered("bot", i)); !errors.Is(err, errAgain) {
				t.Fatal(err)
			}
		}
		store.fail = false
		w.expect(numbered("bot", i), approval.AnswerPending)
	}
	w.refused(numbered("bot", 3))
}

func TestRule12_WhoHasNoRequestLeftIsRefusedBeforeAnythingIsStored(t *testing.T) {
	var ids int
	w := budgeted(t, budget.Limits{Requests: budget.Rate{Count: 1, Per: time.Minute}}, func(o *approval.Options,
		_ *outboxtest.Routing) {
		o.Store = counting{o.Store, &ids}
	})
	w.expect(numbered("bot", 0), approval.AnswerPending)
	ids = 0
	for i := range 50 {
		w.refused(numbered("bot", i+1))
	}
	if ids != 0 {
		t.Errorf("%d ids were given out", ids)
	}
	w.clock.advance(time.Minute) // and the requests that were refused were not counted
	w.expect(numbered("bot", 1), approval.AnswerPending)
	w.clock.advance(time.Minute)
	w.expect(numbered("bot", 2), approval.AnswerPending)
}

// counting is a store that counts the ids it gives out.
type counting struct {
	approval.Store
	ids *int
}

type countingTx struct {
	approval.Tx
	ids *int
}

func (s counting) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	return s.Store.Update(ctx, about, func(tx approval.Tx) error { return fn(countingTx{tx, s.ids}) })
}

func (tx countingTx) NewID() string { *tx.ids++; return tx.Tx.NewID() }

func TestRule12_WithoutRecipientsNothingIsPushed(t *testing.T) {
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 1, Per: time.Minute}}, func(_ *approval.Options,
		cards *outboxtest.Routing) {
		cards.Cards = nil
	})
	for i := range 5 {
		w.expect(numbered("bot", i), approval.AnswerPending)
	}
}

func TestRule12_RemindersWaitForTheBudget(t *testing.T) {
	var store *again
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 4, Per: time.Minute}}, func(o *approval.Options,
		_ *outboxtest.Routing) {
		store = &again{Store: o.Store}
		o.Store = store
	})
	for i := range 4 {
		w.expect(numbered("bot", i), approval.AnswerPending)
		w.clock.advance(time.Minute)
	}
	w.expect(numbered("other", 9), approval.AnswerPending)
	w.clock.advance(30 * time.Minute)
	for _, c := range []approval.Call{numbered("bot", 5), numbered("bot", 6), numbered("other", 5), numbered("other", 6)} {
		w.expect(c, approval.AnswerPending) // and their budgets are used up
	}
	for _, want := range []int{0, 5, 0} { // one message of all of them
		if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 1); err != nil || n != want {
			t.Errorf("%d reminders, %v; want %d", n, err, want)
		}
		w.clock.advance(time.Minute)
	}
	if n := len(w.notifications(approval.NotificationQuery{Kind: approval.KindReminder})); n != 2 {
		t.Errorf("%d reminders in all, want one in each of two places", n)
	}
}

// addressed begins what it says with whom it is said to.
type addressed struct{ english }

func (addressed) Say(to approval.Actor, p phrases.Phrase, args ...any) string {
	return to.Name + ": " + p.Say(args...)
}

func (addressed) NameOf(a approval.Address) string { return map[string]string{"Uroot": "root"}[a.To] }

func TestRule12_AdminsAreTold(t *testing.T) {
	people := map[string]approval.Actor{"root": root}
	w := budgeted(t, budget.Limits{}, func(o *approval.Options, cards *outboxtest.Routing) {
		cards.AdminRoutes = []approval.Route{{{Channel: "line", To: "Uroot"}, {Channel: "slack", To: "Uroot"}},
			{{Channel: "line", To: "Uroot"}}}
		o.Directory = names{people: func(name string) (approval.Actor, bool) { p, ok := people[name]; return p, ok }}
	})
	w.chat = chat.New(chat.Options{Store: w.store, Gate: w.gate, Audit: approval.NewAuditLog(nil), Outbox: w.outbox,
		Readers: addressed{}})
	if err := w.chat.OverBudget(w.ctx, bot, "pushes", "120/h"); err != nil {
		t.Fatal(err)
	}
	ns := w.notifications(approval.NotificationQuery{})
	if len(ns) != 1 || ns[0].Channel != "line" || ns[0].Recipient != "Uroot" || ns[0].Kind != approval.KindReply {
		t.Fatalf("told %+v", ns)
	}
	if want := "root: agent:bot is over its limit (pushes: 120/h)."; !strings.HasPrefix(ns[0].Text, want) {
		t.Errorf("told %q, want %q", ns[0].Text, want)
	}
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventRateLimited})
	if err != nil || len(es) != 1 || es[0].Actor != "agent:bot" || es[0].Agent != "bot" || es[0].Reason != "pushes" {
		t.Errorf("on record: %+v, %v", es, err)
	}
}
