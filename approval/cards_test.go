package approval_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
)

var turnTerms = approval.Terms{UseWithin: 15 * time.Minute, RememberDenial: 10 * time.Minute, Group: approval.GroupTurn,
	GroupWithin: 300 * time.Millisecond, JoinAfter: 2 * time.Minute}

// grouped is a world whose calls share cards.
func grouped(t testing.TB, asks approval.Asks, change ...func(*outboxtest.Routing)) *world {
	t.Helper()
	w := newWorld(t)
	cards := bothWays
	for _, c := range change {
		c(&cards)
	}
	w.wire(approval.Options{Store: w.store, Broker: approval.NewBroker(), Policy: rules{byTool, turnTerms},
		Now: w.clock.Now, Logger: w.logger(),
		Directory: names{people: everybody, asks: asks}}, cards)
	return w
}

// byTool quarantines at the risk that the tool is called, or high.
func byTool(c approval.Call) approval.Verdict {
	v := quarantine(approval.RiskHigh)
	if approval.Risk(c.Tool).Rank() > 0 {
		v.Risk = approval.Risk(c.Tool)
	}
	return v
}

// inTurn is the n-th call of a turn of one session.
func inTurn(turn string, n int, tool ...string) approval.Call {
	c := call(fmt.Sprintf(`{"n":%d}`, n))
	c.SessionID, c.TurnID = "s", turn
	if len(tool) > 0 {
		c.Tool = tool[0]
	}
	return c
}

// asked asks for calls and returns their requests' ids.
func (w *world) asked(calls ...approval.Call) []string {
	w.t.Helper()
	var ids []string
	for _, c := range calls {
		ids = append(ids, w.expect(c, approval.AnswerPending).Request.ID)
	}
	return ids
}

// shown are the versions that notifications show, and after which.
func shown(ns []approval.Notification) []string {
	var s []string
	for _, n := range ns {
		s = append(s, fmt.Sprintf("%s %s %d-%d", n.Channel, n.Kind, n.After, n.Shown))
	}
	return s
}

func (w *world) wantShown(ns []approval.Notification, want ...string) {
	w.t.Helper()
	if got := shown(ns); !slices.Equal(got, want) {
		w.t.Errorf("shown: %q, want %q", got, want)
	}
}

func (w *world) card(id string) approval.Card {
	w.t.Helper()
	c, err := approval.View(w.ctx, w.store, func(tx approval.Tx) (approval.Card, error) {
		r, err := tx.Request(id)
		if err != nil {
			return approval.Card{}, err
		}
		return tx.Card(r.BatchID)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestTheCallsOfATurnComeOnOneCard(t *testing.T) {
	w := grouped(t, approval.Asks{})
	ids := w.asked(inTurn("a", 1), inTurn("a", 2, "low"))
	w.wantShown(w.send()) // the card leaves after a moment, with all that has come
	w.clock.advance(200 * time.Millisecond)
	ids = append(ids, w.asked(inTurn("a", 3, "medium"))...)
	w.clock.advance(100 * time.Millisecond)
	w.wantShown(w.send(), "line request 0-1", "slack request 0-1")
	c := w.card(ids[0])
	if got := c.Upto(0, 0); !slices.Equal(got, ids) || c.Risk != approval.RiskHigh {
		t.Errorf("the first version of the card has %v at %s, want %v", got, c.Risk, ids)
	}
	other := w.asked(inTurn("b", 1, "low"))
	if w.request(other[0]).BatchID == c.ID {
		t.Error("another turn's call is on the card")
	}
}

func TestACallWithoutSessionAndTurnIsSentAtOnce(t *testing.T) {
	w := grouped(t, approval.Asks{})
	for i := range 2 {
		r := w.expect(call(fmt.Sprintf(`{"n":%d}`, i)), approval.AnswerPending).Request
		if r.BatchID != "" {
			t.Errorf("it stands on a card: %s", r.BatchID)
		}
		w.wantShown(w.send(), "line request 0-0", "slack request 0-0")
	}
}

func TestACallOfASessionWithoutTurnSharesTheCardOfItsFirstMoment(t *testing.T) {
	w := grouped(t, approval.Asks{})
	ids := w.asked(inTurn("", 1))
	w.clock.advance(299 * time.Millisecond)
	ids = append(ids, w.asked(inTurn("", 2))...)
	w.clock.advance(time.Millisecond)
	third := w.asked(inTurn("", 3))[0]
	if a, b, c := w.request(ids[0]).BatchID, w.request(ids[1]).BatchID, w.request(third).BatchID; a == "" || a != b ||
		a == c {
		t.Errorf("cards %s, %s, %s", a, b, c)
	}
}

func TestTheAgentAndItsScopeStandForASession(t *testing.T) {
	w := grouped(t, approval.Asks{})
	at := func(n int, scope string) string {
		c := call(fmt.Sprintf(`{"n":%d}`, n))
		c.Grouped, c.Scope = true, scope
		return w.request(w.asked(c)[0]).BatchID
	}
	if a, b, c := at(1, "/x"), at(2, "/x"), at(3, "/y"); a == "" || a != b || a == c {
		t.Errorf("cards %s, %s, %s", a, b, c)
	}
}

func TestACriticalCallLeavesAtOnceAndTakesNobodyAlong(t *testing.T) {
	w := grouped(t, approval.Asks{CardsAtOnce: 1})
	ids := w.asked(inTurn("a", 1), inTurn("a", 2, "critical"), inTurn("a", 3))
	ns := w.send()
	w.wantShown(ns, "line request 0-0", "slack request 0-0")
	if ns[0].ApprovalID != ids[1] || w.request(ids[1]).BatchID != "" {
		t.Error("the critical call is not the one that left")
	}
	w.clock.advance(300 * time.Millisecond)
	w.wantShown(w.send(), "line request 0-1", "slack request 0-1")
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{inTurn("b", 1), inTurn("b", 2, "critical"), inTurn("b", 3)})
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := outs[0].Request.BatchID, outs[1].Request.BatchID, outs[2].Request.BatchID; a == "" || a != c || b != "" {
		t.Errorf("cards %q, %q, %q", a, b, c)
	}
}

func TestWhatJoinsIsShownWithoutAPushWhereTheCardCanBeEdited(t *testing.T) {
	w := grouped(t, approval.Asks{})
	w.asked(inTurn("a", 1))
	w.clock.advance(300 * time.Millisecond)
	w.send()
	w.clock.advance(10 * time.Second)
	id := w.asked(inTurn("a", 2))[0]
	w.wantShown(w.send(), "slack outcome 0-2")
	w.clock.advance(2*time.Minute - time.Millisecond)
	w.wantShown(w.send())
	w.clock.advance(time.Millisecond)
	w.wantShown(w.send(), "line request 1-2")
	if got := w.card(id).Upto(1, 2); !slices.Equal(got, []string{id}) {
		t.Errorf("joined as the second version: %v", got)
	}
	w.clock.advance(time.Minute)
	late := w.asked(inTurn("a", 3))[0] // a minute is over
	if w.request(late).BatchID == w.request(id).BatchID {
		t.Error("it joined a card of long ago")
	}
}

func TestWhatJoinedALineCardGoesOutWhenItIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		then func(w *world, first string) approval.Call
		wait time.Duration
	}{
		"decided": {func(w *world, first string) approval.Call {
			w.mustDecide(first, true, hana, "")
			return inTurn("a", 3)
		}, 0},
		"waits":    {func(*world, string) approval.Call { c := inTurn("a", 3); c.Waits = true; return c }, 5 * time.Second},
		"deadline": {func(*world, string) approval.Call { return inTurn("a", 3, "low") }, 45 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := grouped(t, approval.Asks{}, func(r *outboxtest.Routing) { r.Edits = nil })
			w.policy2(func(c approval.Call) approval.Verdict {
				v := byTool(c)
				if v.Risk == approval.RiskLow {
					v.Timeout = time.Minute
				}
				return v
			})
			ids := w.asked(inTurn("a", 1), inTurn("a", 2))
			w.clock.advance(300 * time.Millisecond)
			w.send()
			w.asked(c.then(w, ids[0]))
			if c.wait > 0 {
				w.clock.advance(c.wait - time.Millisecond)
				w.wantShown(w.send())
				w.clock.advance(time.Millisecond)
			}
			w.wantShown(w.send(), "line request 1-2", "slack request 1-2")
		})
	}
}

// policy2 is a policy with the terms of turns.
func (w *world) policy2(verdict func(approval.Call) approval.Verdict) {
	w.t.Helper()
	if err := w.gate.SetPolicy(w.ctx, rules{verdict, turnTerms}, nil); err != nil {
		w.t.Fatal(err)
	}
}

func TestADecisionHasWhatJoinedGoOutAtOnce(t *testing.T) {
	w := grouped(t, approval.Asks{}, func(r *outboxtest.Routing) { r.Edits = nil })
	first := w.asked(inTurn("a", 1))[0]
	w.clock.advance(300 * time.Millisecond)
	w.send()
	w.asked(inTurn("a", 2), inTurn("a", 3))
	w.wantShown(w.send())
	w.mustDecide(first, false, hana, "no")
	w.wantShown(w.send(), "line request 1-2", "slack request 1-2")
	// Nothing else is on its way: the two came as one message.
	w.clock.advance(time.Hour / 2)
	w.wantShown(w.send())
}

func TestACardIsJoinedByNothingWorseNorByTooMuch(t *testing.T) {
	w := grouped(t, approval.Asks{})
	first := w.asked(inTurn("a", 1, "medium"))[0]
	w.clock.advance(300 * time.Millisecond)
	w.send()
	if high := w.asked(inTurn("a", 2))[0]; w.request(high).BatchID == w.request(first).BatchID {
		t.Error("a call of higher risk joined without a push")
	}
	var on []string
	for i := range 25 {
		on = append(on, w.request(w.asked(inTurn("b", 100+i))[0]).BatchID)
	}
	if on[19] != on[0] || on[20] == on[0] || on[24] != on[20] {
		t.Errorf("25 calls stand on %v", on)
	}
}

func TestNothingJoinsACardOfWhichAllIsDecided(t *testing.T) {
	w := grouped(t, approval.Asks{})
	ids := w.asked(inTurn("a", 1))
	w.clock.advance(300 * time.Millisecond)
	w.send()
	w.mustDecide(ids[0], true, hana, "")
	w.send()
	w.asked(inTurn("a", 2))
	w.clock.advance(300 * time.Millisecond)
	w.wantShown(w.send(), "line request 0-1", "slack request 0-1")
}

func TestARunSharesItsCardForHalfAnHour(t *testing.T) {
	w := grouped(t, approval.Asks{Group: approval.GroupRun})
	first := w.asked(inTurn("a", 1))[0]
	w.clock.advance(29 * time.Minute)
	second := w.asked(inTurn("b", 2))[0]
	w.clock.advance(time.Minute)
	third := w.asked(inTurn("b", 3))[0]
	if a, b, c := w.request(first).BatchID, w.request(second).BatchID, w.request(third).BatchID; a == "" || a != b ||
		a == c {
		t.Errorf("cards %s, %s, %s", a, b, c)
	}
}

func TestGroupCallSendsEachByItself(t *testing.T) {
	w := grouped(t, approval.Asks{Group: approval.GroupCall})
	w.asked(inTurn("a", 1), inTurn("a", 2))
	w.wantShown(w.send(), "line request 0-0", "slack request 0-0", "line request 0-0", "slack request 0-0")
}

// What was drawn before something changed is not what goes out: a press would approve what nobody has seen.
func TestRule6_ACardThatWasDrawnBeforeACallJoinedIsNotSent(t *testing.T) {
	w := grouped(t, approval.Asks{})
	w.asked(inTurn("a", 1))
	w.clock.advance(300 * time.Millisecond)
	drawn, _, err := w.ready(10)
	if err != nil || len(drawn) != 2 || len(drawn[0].Requests) != 1 {
		t.Fatalf("%d drawn, %v", len(drawn), err)
	}
	w.asked(inTurn("a", 2))
	for _, d := range drawn {
		begun, err := outboxtest.Begin(w.ctx, w.outbox, outbox.Attempt{Notification: d.Notification, Body: []byte("old"),
			Seen: d.Seen(), Lease: time.Minute})
		if err != nil || len(begun) != 0 {
			t.Errorf("what one call was drawn as was begun: %v, %v", shown(begun), err)
		}
	}
	w.wantShown(w.send(), "line request 0-1", "slack request 0-1")
}

// A vote, or a call that joins, may come while the platform has the card already and we do not know yet.
func TestACardThatChangesOnItsWayIsEdited(t *testing.T) {
	for name, change := range map[string]func(w *world, id string){
		"vote":  func(w *world, id string) { w.mustDecide(id, true, hana, "") },
		"join":  func(w *world, _ string) { w.asked(inTurn("a", 2)) },
		"later": func(w *world, id string) { w.extend(id) },
	} {
		t.Run(name, func(t *testing.T) {
			w := grouped(t, approval.Asks{})
			w.policy2(func(c approval.Call) approval.Verdict {
				v := byTool(c)
				v.Need = &approval.Need{Stages: []approval.Stage{{Count: 2}}}
				return v
			})
			id := w.asked(inTurn("a", 1))[0]
			w.clock.advance(300 * time.Millisecond)
			drawn, _, err := w.ready(10)
			if err != nil {
				t.Fatal(err)
			}
			var tries []outbox.Attempt
			for _, d := range drawn {
				tries = append(tries, outbox.Attempt{Notification: d.Notification, Body: []byte("card"), Seen: d.Seen(),
					Lease: time.Minute})
			}
			begun, err := outboxtest.Begin(w.ctx, w.outbox, tries...)
			if err != nil || len(begun) != 2 {
				t.Fatal(len(begun), err)
			}
			change(w, id)
			for _, n := range begun {
				if err := w.outbox.Sent(w.ctx, n, channels.Receipt{MessageID: n.ID, HTTPStatus: 200,
					Data: []byte(`{"ts":"1"}`)}); err != nil {
					t.Fatal(err)
				}
			}
			if ns := w.send(); len(ns) != 1 || ns[0].Kind != approval.KindEdit || ns[0].Channel != "slack" {
				t.Errorf("sent %q", shown(ns))
			}
		})
	}
}

func (w *world) extend(id string) {
	w.t.Helper()
	if _, err := w.gate.Extend(w.ctx, id, hana, approval.ViaAPI); err != nil {
		w.t.Fatal(err)
	}
}

func TestAnAgentsCardsComeUpAsEarlierOnesEnd(t *testing.T) {
	w := grouped(t, approval.Asks{CardsAtOnce: 2})
	var ids []string
	for i := range 5 {
		ids = append(ids, w.asked(call(fmt.Sprintf(`{"n":%d}`, i)))...)
	}
	sent := func(want ...string) {
		t.Helper()
		var got []string
		for _, n := range w.send() {
			if n.Kind == approval.KindRequest && n.Channel == "line" {
				got = append(got, n.ApprovalID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("came up: %v, want %v", got, want)
		}
	}
	sent(ids[0], ids[1])
	w.asked(call(`{"other":1}`), inTurn("x", 1, "critical")) // which waits for nothing
	if ns := w.send(); len(ns) != 2 || ns[0].ApprovalID == ids[2] {
		t.Errorf("sent %v", shown(ns))
	}
	w.mustDecide(ids[1], true, hana, "")
	sent(ids[2])
	w.mustDecide(ids[3], true, hana, "") // which waited itself
	sent()
	w.mustDecide(ids[0], false, hana, "")
	sent(ids[4])
	w.expect(call(`{"n":1}`), approval.AnswerApproved)
	sent() // a use ends nothing that people have
}

func TestAWaitingCardIsPushedInTime(t *testing.T) {
	w := grouped(t, approval.Asks{CardsAtOnce: 1})
	ids := w.asked(call(`{"n":1}`), call(`{"n":2}`))
	w.send()
	w.clock.advance(40*time.Minute - time.Millisecond)
	w.wantShown(w.send())
	w.clock.advance(time.Millisecond)
	ns := w.send()
	w.wantShown(ns, "line request 0-0", "slack request 0-0")
	if ns[0].ApprovalID != ids[1] {
		t.Error("another card came up")
	}
}

func TestCardsOfOneAgentDoNotHoldThoseOfAnother(t *testing.T) {
	w := grouped(t, approval.Asks{CardsAtOnce: 1})
	w.asked(call(`{"n":1}`), call(`{"n":2}`))
	other := call(`{"n":3}`)
	other.Agent = "other"
	id := w.asked(other)[0]
	if ns := w.send(); len(ns) != 4 || ns[2].ApprovalID != id {
		t.Errorf("sent %q", shown(ns))
	}
}

func TestQuietHours(t *testing.T) {
	morning := start.Add(30 * time.Minute)
	quiet := func(r *outboxtest.Routing) {
		r.Hours = func(a approval.Address, at time.Time) time.Time {
			if a.Channel == "line" && at.Before(morning) {
				return morning
			}
			return time.Time{}
		}
	}
	t.Run("the card waits for their end", func(t *testing.T) {
		w := grouped(t, approval.Asks{}, quiet)
		w.asked(call(`{"n":1}`))
		w.wantShown(w.send(), "slack request 0-0")
		w.clock.advance(30 * time.Minute)
		w.wantShown(w.send(), "line request 0-0")
	})
	t.Run("what is critical does not", func(t *testing.T) {
		w := grouped(t, approval.Asks{}, quiet)
		w.asked(inTurn("", 1, "critical"))
		w.wantShown(w.send(), "line request 0-0", "slack request 0-0")
	})
	t.Run("what would expire meanwhile makes no sound", func(t *testing.T) {
		w := grouped(t, approval.Asks{}, quiet)
		w.policy2(func(approval.Call) approval.Verdict {
			v := quarantine(approval.RiskHigh)
			v.Timeout = 30 * time.Minute
			return v
		})
		w.asked(call(`{"n":1}`))
		ns := w.send()
		w.wantShown(ns, "line request 0-0", "slack request 0-0")
		if !ns[0].Silent || ns[1].Silent {
			t.Errorf("silent: %t on LINE, %t on Slack", ns[0].Silent, ns[1].Silent)
		}
	})
	t.Run("nor do reminders", func(t *testing.T) {
		w := grouped(t, approval.Asks{}, quiet)
		w.asked(call(`{"n":1}`))
		w.send()
		w.clock.advance(20 * time.Minute)
		if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		w.wantShown(w.send(), "slack reminder 0-0") // on LINE the card itself waits still
	})
}

func TestOneReminderOfAllThatWaits(t *testing.T) {
	w := grouped(t, approval.Asks{})
	ids := w.asked(call(`{"n":1}`), call(`{"n":2}`))
	w.send()
	w.clock.advance(10 * time.Minute)
	ids = append(ids, w.asked(call(`{"n":3}`))...)
	w.send()
	w.clock.advance(5 * time.Minute)
	remind := func(want int) []approval.Notification {
		t.Helper()
		if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil || n != want {
			t.Fatalf("reminded of %d, %v; want %d", n, err, want)
		}
		return w.send()
	}
	ns := remind(2)
	if len(ns) != 2 || !sameIDs(ns[0].Cards, ids) {
		t.Fatalf("%d reminders, the first of %v; want of %v", len(ns), ns[0].Cards, ids)
	}
	if n, ok := ns[0].Note.Waiting(); !ok || n != 3 {
		t.Errorf("%d wait", n)
	}
	w.clock.advance(10 * time.Minute)
	remind(1) // of the third
	w.mustDecide(ids[0], true, hana, "")
	edits := w.notifications(approval.NotificationQuery{Kind: approval.KindEdit, Status: approval.Queued})
	if len(edits) != 2 { // of its card on Slack and of the reminder that shows it there
		t.Errorf("%d edits", len(edits))
	}
}

func sameIDs(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
