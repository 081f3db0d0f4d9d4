//go:build postgres

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/internal/budget"
)

// budgetsOn are the budgets of one program on d, where bot has these.
func budgetsOn(d *DB, l budget.Limits) *budget.Registry {
	r := budget.NewRegistry(budget.Options{Rows: d.Budgets})
	r.Replace(map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: l})
	return r
}

// burst is a rate of which so many may be used at once, and then one more each two minutes or less often.
func burst(n int64) budget.Rate { return budget.Rate{Count: 4 * n, Per: time.Hour} }

// Rule 2.12: an agent has its budget of requests once, however many programs it asks, at once and after another.
func TestRule12_AnAgentHasItsBudgetOfRequestsOnceInAllPrograms(t *testing.T) {
	url := emptied(t)
	var ds []*DB
	gates := map[*DB]*approval.Gate{}
	join := func() {
		d := open(t, Options{URL: url})
		gates[d], _ = boundedGateOn(d, budgetsOn(d, budget.Limits{Requests: burst(4)}), 100)
		ds = append(ds, d)
	}
	join()
	join()
	var n atomic.Int64
	ask := func(d *DB) (bool, error) {
		_, err := gates[d].Check(t.Context(), callOf(t, "bot", "send", fmt.Sprintf(`{"a":%d}`, n.Add(1))))
		if approval.CodeOf(err) == approval.CodeRateLimited {
			return false, nil
		}
		return err == nil, err
	}
	made := raced(t, ds, ask) + raced(t, ds, ask) + raced(t, ds, ask)
	if join(); made != 4 {
		t.Errorf("%d requests were made, want 4", made)
	}
	if ok, err := ask(ds[2]); ok || err != nil {
		t.Errorf("a program that has started since makes one more: %v", err)
	}
}

// Cards beyond the budget of pushes wait for their turn, one after another, whichever program makes them.
func TestRule12_CardsOfAllProgramsWaitForTheirTurn(t *testing.T) {
	url := emptied(t)
	var gates []*approval.Gate
	d := open(t, Options{URL: url})
	for _, d := range []*DB{d, open(t, Options{URL: url})} {
		g, _ := boundedGateOn(d, budgetsOn(d, budget.Limits{Pushes: budget.Rate{Count: 4, Per: time.Hour}}), 100)
		gates = append(gates, g)
	}
	for i := range 6 {
		if _, err := gates[i%2].Check(t.Context(), callOf(t, "bot", "send", fmt.Sprintf(`{"a":%d}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	ns, err := approval.View(t.Context(), d, func(tx approval.Tx) ([]approval.Notification, error) {
		return tx.Notifications(approval.NotificationQuery{Status: approval.Queued})
	})
	ns = slices.DeleteFunc(ns, func(n approval.Notification) bool { return n.Kind != approval.KindRequest })
	if err != nil || len(ns) != 6 {
		t.Fatalf("%d cards, %v", len(ns), err)
	}
	for i := range ns { // the newest first
		n := ns[len(ns)-1-i]
		if wait := n.TurnAt.Sub(n.CreatedAt).Round(time.Minute); i < 4 && !n.TurnAt.IsZero() ||
			i >= 4 && wait != time.Duration(i-3)*15*time.Minute {
			t.Errorf("card %d waits for %v", i, wait)
		}
	}
}

// What was used in a transaction that comes to nothing is not used; what is used in one is known there at once; and
// where another rate is in force as much was used as before.
func TestRule12_WhatIsUsedIsUsedWithTheTransaction(t *testing.T) {
	d := open(t, Options{})
	r := budgetsOn(d, budget.Limits{Requests: burst(4), Pushes: burst(4)})
	take := func(n int, then error) error {
		return d.Update(t.Context(), approval.OfAgent("bot"), func(tx approval.Tx) error {
			for range n {
				if err := r.Take(tx, "bot", 1, 1); err != nil {
					return err
				}
			}
			return then
		})
	}
	own := errors.New("own")
	for range 2 {
		if err := take(4, own); !errors.Is(err, own) {
			t.Fatal(err)
		}
		r.Give(nil, "bot", 4, approval.Pushes{Asked: 4, Out: 4}) // as is done then
	}
	if err := take(5, nil); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("5 of 4: %v", err)
	}
	if err := take(4, nil); err != nil {
		t.Fatal(err)
	}
	if err := take(1, nil); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("one more: %v", err)
	}
	if err := d.Update(t.Context(), approval.OfAgent("bot"), func(tx approval.Tx) error {
		r.Give(tx, "bot", 1, approval.Pushes{Asked: 1, Out: 1})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := take(1, nil); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	r = budgetsOn(d, budget.Limits{Requests: burst(2), Pushes: burst(2)})
	if err := take(1, nil); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("one more, of half as many: %v", err)
	}
	r = budgetsOn(d, budget.Limits{Requests: burst(6), Pushes: burst(6)})
	if err := take(3, nil); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("3 more, of 2 more than before: %v", err)
	}
	if err := take(2, nil); err != nil {
		t.Errorf("2 more, of 2 more than before: %v", err)
	}
}

// After a budget of pushes was raised, cards that wait have each a turn of its own, in their order, and new ones come
// after them.
func TestRule12_CardsThatWaitGetTheirTurnsAnew(t *testing.T) {
	d := open(t, Options{})
	ask := func(perHour int64, n ...int) *outbox.Outbox {
		g, o := boundedGateOn(d, budgetsOn(d, budget.Limits{Pushes: budget.Rate{Count: perHour, Per: time.Hour}}), 100)
		for _, i := range n {
			if _, err := g.Check(t.Context(), callOf(t, "bot", "send", fmt.Sprintf(`{"a":%d}`, i))); err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	ask(4, 1, 2, 3, 4, 5, 6, 7)
	if err := ask(6).Requeue(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(6, 8)
	ns, err := approval.View(t.Context(), d, func(tx approval.Tx) ([]approval.Notification, error) {
		return tx.Notifications(approval.NotificationQuery{Status: approval.Queued})
	})
	if err != nil {
		t.Fatal(err)
	}
	ns = slices.DeleteFunc(ns, func(n approval.Notification) bool { return n.TurnAt.IsZero() })
	slices.Reverse(ns)
	if len(ns) != 4 {
		t.Fatalf("%d cards wait", len(ns))
	}
	for i := range len(ns) - 1 {
		if after := ns[i+1].TurnAt.Sub(ns[i].TurnAt); after < 9*time.Minute || after > 11*time.Minute {
			t.Errorf("card %d comes %v after the one before", i+1, after)
		}
	}
}

// What is used is used in a transaction that writes.
func TestWhatIsUsedIsNotKeptByALook(t *testing.T) {
	d := open(t, Options{})
	r := budgetsOn(d, budget.Limits{Requests: burst(4)})
	if err := d.View(t.Context(), func(tx approval.Tx) error { return r.Take(tx, "bot", 1, 0) }); !errors.Is(err,
		approval.ErrReadOnly) {
		t.Error(err)
	}
}
