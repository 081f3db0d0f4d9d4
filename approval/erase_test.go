package approval_test

import (
	"fmt"
	"testing"

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
