package approval_test

import (
	"testing"

	"countersign/approval"
)

const toldUnclear = "That could mean yes or no, so nothing was decided. Use the card's buttons, or type only: approve <id>"

// Words that could be a yes and could be a no decide nothing, not even where the next text was asked for.
func TestUnclearWordsDecideNothing(t *testing.T) {
	unclear := approval.Tap{Intent: approval.IntentUnclear, Text: "approve: not yet"}
	t.Run("waiting", func(t *testing.T) {
		w := newWorld(t)
		id := w.check(transfer).Request.ID
		if out := w.line(hana, unclear); out.Text != toldUnclear || len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
			t.Errorf("%+v", out)
		}
		if n := w.lastReply(); n.Text != toldUnclear || len(n.Cards) != 0 {
			t.Errorf("%+v", n)
		}
	})
	t.Run("asked why before a denial", func(t *testing.T) {
		w := newWorld(t)
		w.policy(needsReason)
		id := w.check(transfer).Request.ID
		w.line(hana, approval.Tap{Intent: approval.IntentDeny, RequestID: id})
		if out := w.line(hana, unclear); out.Text != toldUnclear || len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
			t.Errorf("%+v", out)
		}
	})
	t.Run("asked why after a denial", func(t *testing.T) {
		w := newWorld(t)
		id := w.check(transfer).Request.ID
		w.line(hana, approval.Tap{Intent: approval.IntentDeny, RequestID: id})
		if out := w.line(hana, unclear); out.Text != toldUnclear || len(out.Explained) != 0 || w.request(id).ResolveReason != "" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("who may not decide", func(t *testing.T) {
		w := newWorld(t)
		w.check(transfer)
		for _, by := range []approval.Actor{stranger, root} {
			if out := w.line(by, unclear); out.Code != approval.CodeNotAnApprover || out.Text != "You may not decide this request." {
				t.Errorf("%s: %+v", by, out)
			}
		}
		if n := w.count("decision_refused::not_an_approver"); n != 2 {
			t.Errorf("%d refusals in %q", n, w.trail())
		}
	})
}
