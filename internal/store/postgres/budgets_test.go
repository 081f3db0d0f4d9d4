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
	"countersign/internal/budget"
)

// budgetsOn are the budgets of one program on d, where bot has these.
func budgetsOn(d *DB, l budget.Limits) *budget.Registry {
	r := budget.NewRegistry(budget.Options{Rows: d.Budgets})
	r.Replace(map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: l})
	return r
}

// burst is a rate of which so many may be used at once, and then one more each half a minute or less often.
func burst(n int64) budget.Rate { return budget.Rate{Count: 4 * n, Per: time.Hour} }

// Rule 2.12: an agent has its budget of requests once, however many programs it asks, at once and after another.
func TestRule12_AnAgentHasItsBudgetOfRequestsOnceInAllPrograms(t *testing.T) {
	url := emptied(t)
	var ds []*DB
	gates := map[*DB]*approval.Gate{}
	join := func() {
		d := open(t, Options{URL: url})
		gates[d], _ = boundedGateOn(d, budgetsOn(d, budget.Limits{Requests: burst(20)}), 100)
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
	if join(); made != 20 {
		t.Errorf("%d requests were made, want 20", made)
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
	r := budgetsOn(d, budget.Limits{Requests: burst(20), Pushes: burst(20)})
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
		if err := take(20, own); !errors.Is(err, own) {
			t.Fatal(err)
		}
		r.Give(nil, "bot", 20, approval.Pushes{Asked: 20, Out: 20}) // as is done then
	}
	if err := take(21, nil); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("21 of 20: %v", err)
	}
	if err := take(20, nil); err != nil {
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
	r = budgetsOn(d, budget.Limits{Requests: burst(10), Pushes: burst(10)})
	if err := take(1, nil); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("one more, of half as many: %v", err)
	}
	r = budgetsOn(d, budget.Limits{Requests: burst(30), Pushes: burst(30)})
	if err := take(11, nil); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("11 more, of 10 more than before: %v", err)
	}
	if err := take(10, nil); err != nil {
		t.Errorf("10 more, of 10 more than before: %v", err)
	}
}
