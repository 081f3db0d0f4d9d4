package approval_test

import (
	"slices"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/chat"
)

// theirs is the same call of another agent.
func theirs() approval.Call {
	c := transfer
	c.Agent = "other"
	return c
}

// In these the work of one agent meets another's. The store of the world sees that each transaction keeps to its scope,
// and the tests see that it does what is right all the same.

func TestAPressHasOtherAgentsCardsGoOn(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.pressesDeny(id)
	other := w.check(theirs()).Request.ID
	if got := w.cardsSent("line", "U1"); got != 1 {
		t.Fatalf("%d cards at the address where somebody may be typing", got)
	}
	w.tap(chat.Interaction{EventID: "line:extends", By: hana, Intent: chat.IntentExtend, RequestID: id})
	w.send()
	ns := w.notifications(approval.NotificationQuery{ApprovalID: other, Channel: "line", Kind: approval.KindRequest})
	if len(ns) != 1 || ns[0].SentAt.IsZero() {
		t.Errorf("the other agent's card still waits: %+v", ns)
	}
}

func TestACardOvertakesAQuestionAboutAnotherAgent(t *testing.T) {
	w, id := asked(t)
	question := w.lastReply()
	w.leaves("line", question.Recipient, w.check(theirs()).Request.ID, approval.KindRequest)
	w.send()
	ns := w.notifications(approval.NotificationQuery{ApprovalID: id, Kind: approval.KindReply})
	if ns[0].Note != approval.NoteOvertaken {
		t.Errorf("the question is %q", ns[0].Note)
	}
	if out := w.tap(w.says(hana, "checked with finance")); len(out.Decided) != 0 {
		t.Errorf("the answer to it decided: %+v", out)
	}
}

func TestARequestEndsOnAReminderOfSeveralAgents(t *testing.T) {
	w := newWorld(t)
	ids := []string{w.check(transfer).Request.ID, w.check(theirs()).Request.ID}
	w.send()
	w.clock.advance(15 * time.Minute)
	if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	w.send()
	edits := func() (n int) {
		for _, e := range w.notifications(approval.NotificationQuery{Channel: "slack", Kind: approval.KindEdit}) {
			if len(e.Cards) == 2 {
				n++
			}
		}
		return n
	}
	for i, id := range ids {
		w.mustDecide(id, true, hana, "")
		w.send()
		if got := edits(); got != i+1 {
			t.Errorf("after %d decisions the reminder was edited %d times", i+1, got)
		}
	}
}

func TestAnAgentAcknowledgesNothingOfAnothers(t *testing.T) {
	w := newWorld(t)
	mine, other := w.check(transfer).Request.ID, w.check(theirs()).Request.ID
	w.mustDecide(mine, false, hana, "")
	w.mustDecide(other, false, hana, "")
	got, err := w.gate.Ack(w.ctx, "bot", []string{mine, other})
	if err != nil || !slices.Equal(got.Acked, []string{mine}) || !slices.Equal(got.NotFound, []string{other}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSeveralAgentsRequestsAreDecidedTogether(t *testing.T) {
	w := newWorld(t)
	ids := []string{w.check(transfer).Request.ID, w.check(theirs()).Request.ID}
	all, err := w.gate.DecideMany(w.ctx, ids, approval.Decision{Approve: true, By: hana, Via: approval.ViaAPI})
	if err != nil || len(all) != 2 || all[0].Refusal != nil || all[1].Refusal != nil {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestAConfirmedFreezeIsOfTheWholeStore(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.tap(chat.Interaction{EventID: "line:freezes", By: hana, Intent: chat.IntentFreeze, RequestID: id})
	w.tap(chat.Interaction{EventID: "line:confirms", By: hana, Intent: chat.IntentConfirm, RequestID: w.lastReply().ID})
	if es, err := w.gate.Frozen(w.ctx); err != nil || len(es) != 1 || es[0].Agent != "bot" {
		t.Errorf("frozen is %+v, %v", es, err)
	}
}
