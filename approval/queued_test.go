package approval_test

import (
	"testing"
	"time"

	"countersign/approval"
	"countersign/budget"
	"countersign/outbox/outboxtest"
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
	rs, err := w.gate.Requests(w.ctx, approval.RequestQuery{Agent: "bot", Status: approval.Pending})
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
