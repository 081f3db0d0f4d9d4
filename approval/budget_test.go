package approval_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/approval"
	"countersign/budget"
)

// budgeted is a world in which the agents bot and other have these budgets, and cards go to two people.
func budgeted(t *testing.T, l budget.Limits, change ...func(*approval.Options)) *world {
	t.Helper()
	w := newWorld(t)
	r := budget.NewRegistry(budget.Options{Now: w.clock.Now})
	r.Replace(map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: l, {Agent: true, Name: "other"}: l})
	o := approval.Options{
		Store: w.store, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Now: w.clock.Now, Logger: w.logger(), Budgets: r,
		Routes: func(approval.Request) []approval.Route {
			return []approval.Route{{{Channel: "line", To: "U1"}}, {{Channel: "slack", To: "C1"}}}
		},
	}
	for _, c := range change {
		c(&o)
	}
	w.gate = approval.NewGate(o)
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
func TestRule12_AskingAndCancellingEndsWithTheBudgetOfPushes(t *testing.T) {
	w := budgeted(t, budget.DefaultAgent, func(o *approval.Options) {
		terms := terms
		terms.MaxPending = 1
		o.Policy = rules{asks, terms}
		o.Routes = func(approval.Request) []approval.Route { return []approval.Route{{{Channel: "line", To: "U1"}}} }
	})
	pushed := 0
	for i := range 60 {
		out, err := w.gate.Check(w.ctx, numbered("bot", i))
		w.clock.advance(128 * time.Millisecond)
		if err != nil {
			wantCode(t, err, approval.CodeRateLimited)
			continue
		}
		pushed++
		if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: out.Request.ID, By: bot, Via: approval.ViaAPI}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.notifications(approval.NotificationQuery{})); pushed != 30 || n != 30 {
		t.Errorf("%d requests with %d pushes got through, want 30", pushed, n)
	}
	if out, err := w.gate.Check(w.ctx, numbered("other", 1)); err != nil || out.Word != approval.WordPending {
		t.Errorf("another agent: %v, %v", out.Word, err)
	}
}

func TestRule12_RequestsAreCountedWhateverBecomesOfThem(t *testing.T) {
	w := budgeted(t, budget.Limits{Requests: budget.Rate{Count: 3, Per: time.Minute}})
	first := w.expect(numbered("bot", 1), approval.WordPending)
	for range 20 { // joining costs nothing
		w.expect(numbered("bot", 1), approval.WordPending)
	}
	if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: first.Request.ID, By: bot, Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	w.expect(numbered("bot", 1), approval.WordPending)
	third := w.expect(numbered("bot", 2), approval.WordPending)
	if d := w.refused(numbered("bot", 3)); d != 20*time.Second {
		t.Errorf("try again in %s, want 20s", d)
	}
	w.mustDecide(third.Request.ID, true, hana, "")
	w.expect(numbered("bot", 2), approval.WordApproved) // what is there already goes on
	w.expect(numbered("other", 3), approval.WordPending)
	w.clock.advance(20 * time.Second)
	w.expect(numbered("bot", 3), approval.WordPending)
}

func TestRule12_WithoutAPushThereIsNoRequest(t *testing.T) {
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 5, Per: time.Minute}}) // two a request
	w.expect(numbered("bot", 1), approval.WordPending)
	w.expect(numbered("bot", 2), approval.WordPending)
	w.refused(numbered("bot", 3))
	if rs, err := w.gate.Requests(w.ctx, approval.RequestQuery{Agent: "bot"}); err != nil || len(rs) != 2 {
		t.Errorf("%d requests, %v; want 2", len(rs), err)
	}
	if n := len(w.notifications(approval.NotificationQuery{})); n != 4 {
		t.Errorf("%d notifications, want 4", n)
	}
	if n := w.count("approval_requested"); n != 2 {
		t.Errorf("%d audit events, want 2", n)
	}
	w.clock.advance(12 * time.Second) // what was left, and one more
	w.expect(numbered("bot", 3), approval.WordPending)
}

func TestRule12_ABatchIsOnePushAndManyRequests(t *testing.T) {
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 4, Per: time.Minute}, Requests: budget.Rate{Count: 10, Per: time.Minute}})
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

func (s *again) Update(ctx context.Context, fn func(approval.Tx) error) error {
	if err := s.Store.Update(ctx, func(tx approval.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errAgain
	}); !errors.Is(err, errAgain) || s.fail {
		return err
	}
	return s.Store.Update(ctx, fn)
}

func TestRule12_WhatDoesNotCommitCostsNothing(t *testing.T) {
	var store *again
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 6, Per: time.Minute}, Requests: budget.Rate{Count: 3, Per: time.Minute}},
		func(o *approval.Options) { store = &again{Store: o.Store}; o.Store = store })
	for i := range 3 {
		store.fail = true
		for range 5 {
			if _, err := w.gate.Check(w.ctx, numbered("bot", i)); !errors.Is(err, errAgain) {
				t.Fatal(err)
			}
		}
		store.fail = false
		w.expect(numbered("bot", i), approval.WordPending)
	}
	w.refused(numbered("bot", 3))
}
