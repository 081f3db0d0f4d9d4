package approval_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/budget"
	"countersign/internal/lists"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// overBudget is a world in which bot may have one card an hour before one person, and has had it.
func overBudget(t *testing.T, change func(*approval.Verdict)) *world {
	t.Helper()
	w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 1, Per: time.Hour}},
		func(o *approval.Options, cards *outboxtest.Routing) {
			o.Policy = rules{func(c approval.Call) approval.Verdict {
				v := asks(c)
				change(&v)
				return v
			}, terms}
			*cards = outboxtest.To("line", "U1")
		})
	w.expect(numbered("bot", 0), approval.AnswerPending)
	w.send()
	return w
}

// cardsAt are the times at which cards are to go out, from now.
func (w *world) cardsAt() (waits []time.Duration) {
	w.t.Helper()
	for _, n := range w.notifications(approval.NotificationQuery{Kind: approval.KindRequest, Status: approval.Queued}) {
		waits = append(waits, n.NextAttemptAt.Sub(w.clock.Now()))
	}
	return waits
}

func TestRule12_ACriticalCardDoesNotWaitForTheBudget(t *testing.T) {
	w := overBudget(t, func(v *approval.Verdict) { v.Risk = approval.RiskCritical })
	w.expect(numbered("bot", 1), approval.AnswerPending)
	if at := w.cardsAt(); len(at) != 1 || at[0] > 0 {
		t.Errorf("it leaves in %v, want now", at)
	}
	if ns := w.notifications(approval.NotificationQuery{Kind: approval.KindReply}); len(ns) != 0 {
		t.Errorf("somebody is told that it waits: %v", ns)
	}
}

func TestRule12_NoRequestExpiresWithoutACardForTheBudget(t *testing.T) {
	w := overBudget(t, func(*approval.Verdict) {})
	for i := range 5 {
		w.expect(numbered("bot", 1+i), approval.AnswerPending)
	}
	rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Agent: "bot", Status: approval.Pending})
	if err != nil || len(rs) != 6 {
		t.Fatalf("%d requests, %v; want 6", len(rs), err)
	}
	left := rs[0].ExpiresAt.Sub(rs[0].RequestedAt)
	at := w.cardsAt()
	if len(at) != 5 {
		t.Fatalf("%d cards wait, want 5", len(at))
	}
	for _, wait := range at {
		if wait <= 0 || wait > left*2/3 {
			t.Errorf("a card leaves in %v, of %v that it has", wait, left)
		}
	}
}

// Nobody is told of cards that do not wait any more.
func TestRule12_WhoHasNothingWaitingIsNotToldOfIt(t *testing.T) {
	w := overBudget(t, func(*approval.Verdict) {})
	out, err := w.gate.Check(w.ctx, numbered("bot", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.gate.Cancel(w.ctx,
		approval.Cancellation{RequestID: out.Request.ID, By: bot, Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour - time.Minute)
	if sent := w.send(); len(sent) != 0 {
		t.Errorf("sent %v, want nothing", sent)
	}
}

// A reminder does not come beside a card that waits for its turn, and a card sent late is not reminded of at once.
func TestRule12_ACardThatWaitsForItsTurnIsNotDoubledByAReminder(t *testing.T) {
	w := overBudget(t, func(*approval.Verdict) {})
	w.expect(numbered("bot", 1), approval.AnswerPending)
	at := w.cardsAt()
	w.clock.advance(at[0] - time.Second)
	if _, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, n := range w.notifications(approval.NotificationQuery{Kind: approval.KindRequest, Status: approval.Queued}) {
		id = n.ApprovalID
	}
	for _, n := range w.notifications(approval.NotificationQuery{Kind: approval.KindReminder}) {
		if n.ApprovalID == id {
			t.Errorf("a reminder of a card that waits: %+v", n)
		}
	}
	if n := len(w.notifications(approval.NotificationQuery{ApprovalID: id, Kind: approval.KindRequest})); n != 1 {
		t.Errorf("%d cards, want one", n)
	}
}

// oneAtOnce is a world in which bot may have one card before one person, and one in ten minutes; it has had that.
func oneAtOnce(t *testing.T, asked int) (w *world, ids []string) {
	t.Helper()
	w = budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 1, Per: 10 * time.Minute}},
		func(o *approval.Options, cards *outboxtest.Routing) {
			o.Directory = names{people: everybody, asks: approval.Asks{CardsAtOnce: 1}}
			*cards = outboxtest.To("line", "U1")
		})
	for i := range asked {
		ids = append(ids, w.expect(numbered("bot", i), approval.AnswerPending).Request.ID)
	}
	return w, ids
}

// sentCards are the requests whose cards went out now.
func (w *world) sentCards() (ids []string) {
	w.t.Helper()
	for _, n := range w.send() {
		if n.Kind == approval.KindRequest {
			ids = append(ids, n.ApprovalID)
		}
	}
	return ids
}

// cardsCome wants these cards to go out now.
func (w *world) cardsCome(when string, want ...string) {
	w.t.Helper()
	if got := w.sentCards(); !slices.Equal(got, want) {
		w.t.Errorf("%s: %v came, want %v", when, got, want)
	}
}

func TestRule12_OverTheBudgetCardsComeUpAsEarlierOnesEndAndNotBeforeTheirTurn(t *testing.T) {
	w, ids := oneAtOnce(t, 4)
	w.cardsCome("at once", ids[0])
	w.mustDecide(ids[0], true, hana, "")
	w.cardsCome("before its turn")
	w.clock.advance(10*time.Minute - time.Millisecond)
	w.cardsCome("just before its turn")
	w.clock.advance(time.Millisecond)
	w.cardsCome("at its turn", ids[1]) // and not when a third of its time is left
	w.clock.advance(10 * time.Minute)
	w.cardsCome("at the turn of one that waits for an earlier one")
	w.mustDecide(ids[1], false, hana, "")
	w.cardsCome("after its turn", ids[2])
}

// The attack: an agent cancels what is before people, or would be, so that what waits behind it comes up.
func TestRule12_WhoCancelsACardOverTheBudgetHasNoneSooner(t *testing.T) {
	w, ids := oneAtOnce(t, 4)
	w.cardsCome("at once", ids[0])
	for i := range 3 {
		if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: ids[i], By: bot,
			Via: approval.ViaAPI}); err != nil {
			t.Fatal(err)
		}
		w.cardsCome("after it was cancelled")
	}
	if at := w.cardsAt(); !slices.Equal(at, []time.Duration{30 * time.Minute}) {
		t.Errorf("the last one leaves in %v, want at its turn, in 30m", at)
	}
}

// The attack: cards that wait for an earlier one past their turns are saved up, and let out in a moment by cancelling.
func TestRule12_WhatWaitedPastItsTurnsDoesNotComeUpAllAtOnce(t *testing.T) {
	for name, end := range map[string]func(w *world, id string){
		"the agent cancels": func(w *world, id string) {
			if _, err := w.gate.Cancel(w.ctx,
				approval.Cancellation{RequestID: id, By: bot, Via: approval.ViaAPI}); err != nil {
				w.t.Fatal(err)
			}
		},
		"a person decides": func(w *world, id string) { w.mustDecide(id, false, hana, "") },
	} {
		t.Run(name, func(t *testing.T) {
			w, ids := oneAtOnce(t, 4)
			w.cardsCome("at once", ids[0])
			w.clock.advance(21 * time.Minute) // the turns of two are over
			end(w, ids[0])
			w.cardsCome("after its turn", ids[1])
			end(w, ids[1])
			w.cardsCome("as one ends")
			w.clock.advance(10*time.Minute - time.Millisecond)
			w.cardsCome("just before the next push")
			w.clock.advance(time.Millisecond)
			w.cardsCome("at the next push", ids[2])
		})
	}
}

// By when a card comes up late, the budget has a push for a new one: they do not come together.
func TestRule12_ANewCardWaitsAfterOneThatCameUpLate(t *testing.T) {
	w, ids := oneAtOnce(t, 2)
	w.cardsCome("at once", ids[0])
	w.clock.advance(21 * time.Minute)
	w.mustDecide(ids[0], false, hana, "")
	w.cardsCome("after its turn", ids[1])
	w.mustDecide(ids[1], false, hana, "")
	next := w.expect(numbered("bot", 2), approval.AnswerPending).Request.ID
	w.clock.advance(10*time.Minute - time.Millisecond)
	w.cardsCome("just before the next push")
	w.clock.advance(time.Millisecond)
	w.cardsCome("at the next push", next)
}

// What goes out by another way takes of the same pushes as the cards that come up.
func TestRule12_WhatComesUpRemindersAndNewCardsShareOneBudget(t *testing.T) {
	r := budget.NewRegistry(budget.Options{Now: func() time.Time { return start }})
	r.Replace(map[budget.Principal]budget.Limits{
		{Agent: true, Name: "bot"}: {Pushes: budget.Rate{Count: 1, Per: 10 * time.Minute}}})
	if wait := r.Push(nil, "bot", approval.Pushes{Out: 1}); wait != 0 {
		t.Fatalf("what comes up first waits %v", wait)
	}
	if err := r.Take(nil, "bot", 0, 1); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("a reminder beside it: %v, want none", err)
	}
	if wait := r.Push(nil, "bot", approval.Pushes{Asked: 1, Out: 1}); wait != 10*time.Minute {
		t.Errorf("the next card waits %v, want 10m", wait)
	}
}

// However an agent asks and cancels, and whatever else becomes of what it asked: it has no more pushes than its budget,
// but for what goes out because its deadline is near.
func TestRule12_NoOrderOfAskingAndCancellingBringsMoreCardsThanTheBudget(t *testing.T) {
	w, rounds := newWorld(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		rounds++
		(&asker{rt: rt, w: w, agent: fmt.Sprint("bot", rounds), asked: map[string]time.Time{}}).run()
	})
}

// asker is an agent that asks and cancels.
type asker struct {
	rt      *rapid.T
	w       *world
	agent   string
	n       int
	pending []string
	asked   map[string]time.Time
	came    []time.Time // when cards came of which more than a third of the time was left
}

func (a *asker) run() {
	r := budget.NewRegistry(budget.Options{Now: a.w.clock.Now})
	r.Replace(map[budget.Principal]budget.Limits{
		{Agent: true, Name: a.agent}: {Pushes: budget.Rate{Count: 2, Per: 10 * time.Minute}}})
	most := rapid.IntRange(0, 2).Draw(a.rt, "cards at once")
	a.w.wire(approval.Options{Store: a.w.store, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Budgets: r,
		Now: a.w.clock.Now, Logger: a.w.logger(), Directory: names{people: everybody,
			asks: approval.Asks{CardsAtOnce: most}}},
		outboxtest.To("line", "U1"))
	a.rt.Repeat(map[string]func(*rapid.T){"ask": a.ask, "end": a.end, "time": a.wait})
}

func (a *asker) ask(*rapid.T) {
	a.n++
	id := a.w.expect(numbered(a.agent, a.n), approval.AnswerPending).Request.ID
	a.pending, a.asked[id] = append(a.pending, id), a.w.clock.Now()
	a.look()
}

func (a *asker) end(rt *rapid.T) {
	if len(a.pending) == 0 {
		return
	}
	i := rapid.IntRange(0, len(a.pending)-1).Draw(rt, "which")
	_, err := a.w.gate.Cancel(a.w.ctx, approval.Cancellation{RequestID: a.pending[i], Via: approval.ViaAPI,
		By: approval.Actor{Kind: approval.Agent, Name: a.agent}})
	if approval.CodeOf(err) != approval.CodeExpired && err != nil {
		rt.Fatal(err)
	}
	a.pending = slices.Delete(a.pending, i, i+1)
	a.look()
}

func (a *asker) wait(rt *rapid.T) {
	until := a.w.clock.Now().Add(time.Duration(rapid.IntRange(1, 600).Draw(rt, "s")) * time.Second)
	for now := a.w.clock.Now(); now.Before(until); now = a.w.clock.Now() {
		next := until // or when a card goes out, so that it is seen to come then
		for _, wait := range a.w.cardsAt() {
			if at := now.Add(wait); wait > 0 && at.Before(next) {
				next = at
			}
		}
		a.w.clock.advance(next.Sub(now))
		a.look()
	}
}

// look takes what goes out now. Two can go out at once, and one every five minutes.
func (a *asker) look() {
	now := a.w.clock.Now()
	for _, id := range a.w.sentCards() {
		at, ours := a.asked[id]
		if ours && now.Sub(at) < 40*time.Minute {
			a.came = append(a.came, now)
		}
	}
	for i, since := range a.came {
		if n, most := len(a.came)-i, 2+int(now.Sub(since)/(5*time.Minute)); n > most {
			a.rt.Fatalf("%d cards came within %v, want at most %d", n, now.Sub(since), most)
		}
	}
}

// What waits is in the store: neither a restart nor what it forgets of the budgets brings it up sooner or in another
// order.
func TestRule12_ARestartKeepsTheOrderAndTheTurnOfCardsThatWait(t *testing.T) {
	for _, most := range []int{0, 1} {
		w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
		path := filepath.Join(t.TempDir(), "gate.db")
		schematest.WriteFile(t, path)
		restart := func() {
			if w.store != nil {
				if err := w.db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			w.open(path, rules{asks, terms})
			r := budget.NewRegistry(budget.Options{Now: w.clock.Now})
			r.Replace(map[budget.Principal]budget.Limits{
				{Agent: true, Name: "bot"}: {Pushes: budget.Rate{Count: 1, Per: 10 * time.Minute}}})
			w.wire(approval.Options{Store: w.store, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Now: w.clock.Now,
				Logger: w.logger(), Budgets: r, Directory: names{people: everybody, asks: approval.Asks{CardsAtOnce: most}}},
				outboxtest.To("line", "U1"))
		}
		restart()
		var ids []string
		for i := range 4 {
			ids = append(ids, w.expect(numbered("bot", i), approval.AnswerPending).Request.ID)
		}
		w.cardsCome("at once", ids[0])
		if most == 0 {
			restart()
			w.cardsCome("after a restart")
		}
		for i := 1; i < 4; i++ {
			w.clock.advance(10*time.Minute - time.Millisecond)
			restart()
			w.mustDecide(ids[i-1], true, hana, "")
			w.cardsCome("before its turn")
			w.clock.advance(time.Millisecond)
			restart()
			w.cardsCome("at its turn", ids[i])
		}
	}
}

// Another budget is in force: what waits has the turn that it would have by that one, and none comes later than it
// would have.
func TestRule12_AReloadThatRaisesTheBudgetBringsUpWhatWaitsInOrder(t *testing.T) {
	minutes := func(ns ...int) (ds []time.Duration) {
		for _, n := range ns {
			ds = append(ds, time.Duration(n)*time.Minute)
		}
		return ds
	}
	for name, tt := range map[string]struct {
		pushes budget.Rate
		most   int
		want   []time.Duration
	}{
		"raised":              {budget.Rate{Count: 2, Per: 10 * time.Minute}, 0, minutes(5, 10, 15)},
		"none":                {budget.Rate{}, 0, minutes(0, 0, 0)},
		"as it was":           {budget.Rate{Count: 1, Per: 10 * time.Minute}, 0, minutes(10, 20, 30)},
		"lowered":             {budget.Rate{Count: 1, Per: time.Hour}, 0, minutes(10, 20, 30)},
		"none, one at a time": {budget.Rate{}, 1, minutes(40, 40, 40)}, // they come up as the one before ends
	} {
		t.Run(name, func(t *testing.T) {
			r := budget.NewRegistry(budget.Options{Now: func() time.Time { return start }})
			limit := func(of budget.Rate) {
				r.Replace(map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: {Pushes: of}})
			}
			limit(budget.Rate{Count: 1, Per: 10 * time.Minute})
			w := budgeted(t, budget.Limits{}, func(o *approval.Options, cards *outboxtest.Routing) {
				o.Budgets, o.Directory = r, names{people: everybody, asks: approval.Asks{CardsAtOnce: tt.most}}
				*cards = outboxtest.To("line", "U1")
			})
			first := w.expect(numbered("bot", 0), approval.AnswerPending)
			w.send()
			for i := range 3 {
				w.expect(numbered("bot", 1+i), approval.AnswerPending)
			}
			limit(tt.pushes)
			if err := w.outbox.Requeue(t.Context()); err != nil {
				t.Fatal(err)
			}
			if at := w.cardsAt(); !slices.Equal(at, tt.want) {
				t.Errorf("they leave in %v, want %v", at, tt.want)
			}
			if tt.most > 0 {
				w.mustDecide(first.Request.ID, true, hana, "")
				if at := w.cardsAt(); !slices.Equal(at, minutes(0, 40, 40)) {
					t.Errorf("as one ends they leave in %v, want the first now", at)
				}
			}
		})
	}
}

// Somebody leaves the chat: what waits for its turn goes to their next address, and waits there.
func TestRule12_WhatWaitsForItsTurnWaitsAtTheNextAddressToo(t *testing.T) {
	for _, most := range []int{0, 1} {
		w := budgeted(t, budget.Limits{Pushes: budget.Rate{Count: 1, Per: 10 * time.Minute}},
			func(o *approval.Options, cards *outboxtest.Routing) {
				o.Directory = names{people: everybody, asks: approval.Asks{CardsAtOnce: most}}
				cards.Cards = []approval.Route{hanasWays}
			})
		var ids []string
		for i := range 3 {
			ids = append(ids, w.expect(numbered("bot", i), approval.AnswerPending).Request.ID)
		}
		w.cardsCome("at once", ids[0])
		err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
			_, err := w.outbox.MarkUnreachable(w.ctx, tx, hana, hanasWays[0], tx.Now())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.cardsCome("of what is before people", ids[0])
		w.mustDecide(ids[0], true, hana, "")
		w.cardsCome("before its turn")
		w.clock.advance(10 * time.Minute)
		if got := w.sentCards(); !slices.Contains(got, ids[1]) || slices.Contains(got, ids[2]) {
			t.Errorf("at its turn came %v, want %s", got, ids[1])
		}
	}
}
