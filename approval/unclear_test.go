package approval_test

import (
	"fmt"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/lists"
)

const toldUnclear = "Nothing was decided: an approval is the word and the id, and nothing else. Use the card's buttons, or type only: approve <id>"

// A yes with more that may change it decides nothing, not even where the next text was asked for; the card comes.
func TestUnclearWordsDecideNothing(t *testing.T) {
	unclear := chat.Interaction{Intent: chat.IntentUnclear, Text: "approve: not yet"}
	t.Run("waiting", func(t *testing.T) {
		w := newWorld(t)
		id := w.check(transfer).Request.ID
		if out := w.line(hana, unclear); out.Text != toldUnclear || len(out.Decided) != 0 ||
			w.request(id).Status != approval.Pending {
			t.Errorf("%+v", out)
		}
		if n := w.lastReply(); n.Text != toldUnclear || len(n.Cards) != 1 || n.Cards[0] != id {
			t.Errorf("%+v", n)
		}
	})
	t.Run("asked why before a denial", func(t *testing.T) {
		w := newWorld(t)
		w.policy(needsReason)
		id := w.check(transfer).Request.ID
		w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
		if out := w.line(hana, unclear); out.Text != toldUnclear || len(out.Decided) != 0 ||
			w.request(id).Status != approval.Pending {
			t.Errorf("%+v", out)
		}
	})
	t.Run("asked why after a denial", func(t *testing.T) {
		w := newWorld(t)
		id := w.check(transfer).Request.ID
		w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
		if out := w.line(hana, unclear); out.Text != "Nothing is waiting for a decision." || len(out.Explained) != 0 ||
			w.request(id).ResolveReason != "" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("who may not decide", func(t *testing.T) {
		w := newWorld(t)
		w.check(transfer)
		for _, by := range []approval.Actor{stranger, root} {
			if out := w.line(by, unclear); out.Code != approval.CodeNotAnApprover || out.Text != cannotDecide(by) {
				t.Errorf("%s: %+v", by, out)
			}
		}
		if n := w.count("decision_refused::not_an_approver"); n != 2 {
			t.Errorf("%d refusals in %q", n, w.trail())
		}
	})
}

// typed is what a text was read as, by [chat.ParseWords].
func typed(i chat.Intent, text, id, quoted, reason string) chat.Interaction {
	return chat.Interaction{Intent: i, Text: text, RequestID: id, QuotedID: quoted, Reason: reason}
}

func TestATypedApprovalTakesNoReasonBesideIt(t *testing.T) {
	const approve, deny, why = chat.IntentApprove, chat.IntentDeny, "agreed with finance"
	for _, named := range []string{"id", "quote"} {
		for _, required := range []bool{false, true} {
			w := newWorld(t)
			if required {
				w.policy(needsReason)
			}
			id := w.check(transfer).Request.ID
			w.check(call(`{"n":2}`))
			w.send()
			quoted := ""
			tap := func(i chat.Intent, text, reason string) chat.InteractionResult {
				if named == "id" {
					return w.line(hana, typed(i, text, id, "", reason))
				}
				return w.line(hana, typed(i, text, "", quoted, reason))
			}
			quoted = w.notifications(approval.NotificationQuery{Channel: "line", ApprovalID: id})[0].MessageID
			out := tap(approve, "approve: "+why, why)
			if n := w.lastReply(); out.Text != toldUnclear || len(n.Cards) != 1 || n.Cards[0] != id ||
				w.request(id).Status != approval.Pending {
				t.Errorf("%s: %+v, %+v", named, out, n)
			}
			if w.count("decision_refused:approve:unclear") != 1 {
				t.Errorf("%s: trail %q", named, w.trail())
			}
			// A denial takes one, and its word alone decides too.
			if out = tap(deny, "deny "+why, why); len(out.Decided) != 1 || w.request(id).ResolveReason != why {
				t.Errorf("%s: %+v", named, out)
			}
			// Of what is over they are told how it ended, not to type it another way.
			if out = tap(approve, "approve: "+why, why); !strings.HasPrefix(out.Text, "transfer_credits (bot, "+id[20:]+
				"): You already denied this") {
				t.Errorf("%s: %+v", named, out)
			}
		}
	}
}

// Slack's dialog has a field for the reason, which nobody types beside a word.
func TestADialogsReasonIsNoTypedWord(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	out := w.tap(chat.Interaction{By: hana, Channel: "slack", Intent: chat.IntentApprove, RequestID: id,
		Reason: "not a duplicate", Told: true})
	if len(out.Decided) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestWordsThatNameTwoRequestsDecideNeither(t *testing.T) {
	for _, intent := range []chat.Intent{chat.IntentApprove, chat.IntentDeny} {
		w := newWorld(t)
		one, two := w.check(transfer).Request.ID, w.check(call(`{"n":2}`)).Request.ID
		w.send()
		card := w.notifications(approval.NotificationQuery{Channel: "line", ApprovalID: one})[0].MessageID
		out := w.line(hana, typed(intent, string(intent)+" "+two, two, card, ""))
		if len(out.Decided) != 0 || w.request(one).Status != approval.Pending || w.request(two).Status != approval.Pending {
			t.Errorf("%s: %+v", intent, out)
		}
		if out = w.line(hana, typed(intent, string(intent)+" "+one, one, card, "")); len(out.Decided) != 1 {
			t.Errorf("%s, of the card that is quoted: %+v", intent, out)
		}
	}
}

func TestUnclearWordsBringAtMostFiveCards(t *testing.T) {
	w := newWorld(t)
	var calls []approval.Call
	for i := range 8 {
		calls = append(calls, call(fmt.Sprintf(`{"n":%d}`, i)))
	}
	outs, err := w.gate.CheckBatch(w.ctx, calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, tap := range []chat.Interaction{
		typed(chat.IntentUnclear, "approve all of it", outs[0].Request.BatchID, "", ""),
		typed(chat.IntentApprove, "approve … fine", outs[0].Request.BatchID, "", "fine"),
		typed(chat.IntentUnclear, "approve everything", "", "", ""),
	} {
		if out := w.line(hana, tap); out.Text != toldUnclear || len(out.Decided) != 0 || len(w.lastReply().Cards) != 5 {
			t.Errorf("%q: %+v, %d cards", tap.Text, out, len(w.lastReply().Cards))
		}
	}
	if n, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Status: approval.Pending,
		Limit: 20}); err != nil || len(n) != 8 {
		t.Errorf("%d pending, %v", len(n), err)
	}
}
