package approval_test

import (
	"fmt"
	"testing"
	"time"

	"countersign/approval"
)

// Of many requests some are erased at a time, and all in the end; each time it is on record who did it.
func TestAnAgentsRequestsAreErasedSomeAtATime(t *testing.T) {
	w := newWorld(t)
	const many = 150
	for n := range many {
		w.mustDecide(w.expect(call(fmt.Sprintf(`{"n":%d}`, n)), approval.AnswerPending).Request.ID, false, hana, "")
	}
	w.expect(call(`{"n":"waits"}`), approval.AnswerPending)
	w.send()
	e := approval.Erasure{Agent: "bot", By: root, Via: approval.ViaCLI}
	steps, erased, kept := 0, 0, 0
	for {
		did, err := w.gate.Erase(w.ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		steps++
		erased += did.Requests
		kept += did.Kept
		if e.After = did.Next; e.After == "" {
			break
		}
	}
	if steps != 3 || erased != many || kept != 1 || w.count("request_erased") != many {
		t.Errorf("in %d steps %d are erased, %d are kept, and %d are on record", steps, erased, kept,
			w.count("request_erased"))
	}
	for _, r := range w.feed() {
		if r.ArgsRemovedAt.IsZero() || r.Status != approval.Denied {
			t.Errorf("its agent hears of %+v", r)
		}
	}
	e.By = ken
	if _, err := w.gate.Erase(w.ctx, e); approval.CodeOf(err) != approval.CodeNotAdmin {
		t.Errorf("one who is no admin gets %v", err)
	}
}

// An approval of what was erased since cannot be given for longer, and asking whether it can fails nothing: a card that
// is still to be changed asks that.
func TestWhatWasErasedIsNotGivenForLonger(t *testing.T) {
	for _, approve := range []bool{true, false} {
		w := newWorld(t)
		w.policy(func(c approval.Call) approval.Verdict {
			v := asks(c)
			v.Grants, v.RuleDigest = &approval.GrantTerms{}, "digest"
			return v
		})
		id := w.expect(call(`{"n":1}`), approval.AnswerPending).Request.ID
		w.mustDecide(id, approve, hana, "")
		if approve {
			w.expect(call(`{"n":1}`), approval.AnswerApproved)
		}
		w.send()
		if did, err := w.gate.Erase(w.ctx, approval.Erasure{RequestID: id, By: root}); err != nil || did.Requests != 1 {
			t.Fatalf("%+v, %v", did, err)
		}
		if may, err := approval.Look(w.ctx, w.gate, func(wk *approval.Work) (bool, error) {
			return wk.Grants().May(w.request(id), hana)
		}); err != nil || may {
			t.Errorf("approved %v: it may be given for longer: %v, %v", approve, may, err)
		}
		_, err := approval.Update(w.ctx, w.store, approval.WholeStore(), func(tx approval.Tx) (approval.Grant, error) {
			return w.gate.In(w.ctx, tx).Grants().Make(hana, approval.ViaWeb, id, approval.GrantWish{For: time.Hour})
		})
		if approval.CodeOf(err) != approval.CodeGrantRefused {
			t.Errorf("approved %v: it is given for longer: %v", approve, err)
		}
		if _, err := w.edits(id, hana, `{"n":2}`); approval.CodeOf(err) != approval.CodeAlreadyResolved {
			t.Errorf("approved %v: to decide it with other args gives %v", approve, err)
		}
	}
}
