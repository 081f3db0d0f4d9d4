package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/locale/phrases"
)

var taps int

// tap sends a LINE tap of a fresh event.
func (w *world) tap(t chat.Interaction) chat.InteractionResult {
	w.t.Helper()
	taps++
	if t.EventID == "" {
		t.EventID = fmt.Sprintf("line:%d", taps)
	}
	if t.Channel == "" {
		t.Channel = "line"
	}
	if t.From == "" {
		t.From = "U1"
	}
	t.ReplyTo, t.OneReply = "reply-token", t.Channel == "line"
	out, err := w.chat.Interact(w.ctx, t)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) lastReply() approval.Notification {
	w.t.Helper()
	ns := w.notifications(approval.NotificationQuery{Kind: approval.KindReply})
	if len(ns) == 0 {
		w.t.Fatal("nobody was answered")
	}
	return ns[len(ns)-1]
}

func TestRule5_EachTapGetsItsOwnAnswer(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	approve := chat.Interaction{By: hana, Intent: chat.IntentApprove, RequestID: id}

	outsider := approve
	outsider.By = stranger
	if out := w.tap(outsider); out.Text != cannotDecide(stranger) || len(out.Decided) != 0 {
		t.Errorf("outsider: %+v", out)
	}
	if out := w.tap(approve); out.Text != "Approved: "+theCall(id)+". The agent may run it once." ||
		len(out.Decided) != 1 {
		t.Errorf("first: %+v", out)
	}
	n := w.lastReply()
	if n.Text != "Approved: "+theCall(id)+". The agent may run it once." || n.ReplyTo != "reply-token" ||
		n.ApprovalID != id || n.Status != approval.Queued {
		t.Errorf("reply %+v", n)
	}
	if card := w.notifications(approval.NotificationQuery{Channel: "line",
		Kind: approval.KindRequest})[0]; card.Status != approval.Delivered {
		t.Errorf("the card that was acted on is %s", card.Status)
	}
	if out := w.tap(approve); out.Text != theCall(id)+": You already approved this (2026-11-21T10:00:00.000Z)." {
		t.Errorf("second: %+v", out)
	}
	unknown := approve
	unknown.RequestID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	if out := w.tap(unknown); out.Text != "No such request." {
		t.Errorf("unknown: %+v", out)
	}
	late := approve
	late.RequestID = w.check(call(`{"n":1}`)).Request.ID
	w.clock.advance(time.Hour)
	if out := w.tap(late); out.Text != theCall(late.RequestID)+": This approval request has expired." {
		t.Errorf("late: %+v", out)
	}
	if got := w.count("decision_refused"); got != 4 {
		t.Errorf("%d refusals on record, want 4: %q", got, w.trail())
	}
}

func TestRule5_AReplayedEventChangesNothing(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	tap := chat.Interaction{EventID: "line:01KAFJ", By: hana, Intent: chat.IntentDeny, RequestID: id}
	w.tap(tap)
	tap.Intent = chat.IntentApprove
	if out := w.tap(tap); !out.Duplicate {
		t.Errorf("%+v", out)
	}
	if r := w.request(id); r.Status != approval.Denied {
		t.Errorf("status %s", r.Status)
	}
	if w.count("webhook_refused:approve:duplicate_event") != 1 {
		t.Errorf("trail %q", w.trail())
	}
	if ns := w.notifications(approval.NotificationQuery{Kind: approval.KindReply}); len(ns) != 1 {
		t.Errorf("%d answers", len(ns))
	}
}

func TestRule8_AnEventOlderThanItsRequestIsIgnored(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	old := chat.Interaction{By: hana, Intent: chat.IntentApprove, RequestID: id, At: start.Add(-time.Millisecond)}
	if out := w.tap(old); !out.Ignored || len(out.Decided) != 0 {
		t.Errorf("%+v", out)
	}
	old.At = start // equal counts
	if out := w.tap(old); len(out.Decided) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestABareYesNeverApproves(t *testing.T) {
	w := newWorld(t)
	yes := chat.Interaction{By: hana, Intent: chat.IntentApprove}
	if out := w.tap(yes); out.Text != "Nothing is waiting for a decision." {
		t.Errorf("%+v", out)
	}
	id := w.check(transfer).Request.ID
	out := w.tap(yes)
	if len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
		t.Fatalf("a bare yes decided: %+v", out)
	}
	if n := w.lastReply(); len(n.Cards) != 1 || n.Cards[0] != id {
		t.Errorf("cards %q", n.Cards)
	}
	for i := range 6 {
		w.check(call(fmt.Sprintf(`{"n":%d}`, i)))
	}
	out = w.tap(yes)
	if n := w.lastReply(); len(n.Cards) != 5 || !strings.HasPrefix(out.Text,
		"7 requests are waiting; these are the newest 5.") {
		t.Errorf("%d cards: %s", len(n.Cards), out.Text)
	}
}

func TestStrangersAndOthersSeeNoCards(t *testing.T) {
	w := newWorld(t)
	w.check(transfer)
	for _, by := range []approval.Actor{stranger, root} {
		for _, intent := range []chat.Intent{chat.IntentApprove, chat.IntentDeny, chat.IntentOther} {
			out := w.tap(chat.Interaction{By: by, Intent: intent})
			want := cannotDecide(by)
			if by.Kind == approval.Human && intent == chat.IntentOther {
				want = phrases.SayNotUnderstood.Say()
			}
			if n := w.lastReply(); len(n.Cards) != 0 || out.Text != want {
				t.Errorf("%s %s: %q with %d cards", by, intent, out.Text, len(n.Cards))
			}
		}
	}
}

func TestABareNoDeniesOnlyWhenItCanMeanOneRequest(t *testing.T) {
	w := newWorld(t)
	a := w.check(transfer).Request.ID
	b := w.check(call(`{"n":1}`)).Request.ID
	no := chat.Interaction{By: hana, Intent: chat.IntentDeny}
	if out := w.tap(no); len(out.Decided) != 0 || !strings.HasPrefix(out.Text,
		"2 requests are waiting, so nothing was denied.") {
		t.Errorf("%+v", out)
	}
	w.mustDecide(a, true, hana, "")
	if out := w.tap(no); len(out.Decided) != 1 || out.Decided[0].ID != b || out.Text != "Denied: "+theCall(b)+"." {
		t.Errorf("%+v", out)
	}
}

func TestQuotingACardNamesItsRequest(t *testing.T) {
	w := newWorld(t)
	a := w.check(transfer).Request.ID
	w.check(call(`{"n":1}`))
	w.send()
	card := w.notifications(approval.NotificationQuery{Channel: "line", ApprovalID: a})[0]
	out := w.tap(chat.Interaction{By: hana, Intent: chat.IntentApprove, QuotedID: card.MessageID})
	if len(out.Decided) != 1 || out.Decided[0].ID != a {
		t.Errorf("%+v", out)
	}
	out = w.tap(chat.Interaction{By: stranger, Intent: chat.IntentDeny, QuotedID: card.MessageID})
	if len(out.Decided) != 0 || out.Code != approval.CodeNotAnApprover {
		t.Errorf("%+v", out)
	}
}

func TestABatchIsDecidedTogetherOrOneByOne(t *testing.T) {
	w := newWorld(t)
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{call(`{"n":1}`), call(`{"n":2}`), call(`{"n":3}`)})
	if err != nil {
		t.Fatal(err)
	}
	w.send()
	one := w.tap(chat.Interaction{By: hana, Intent: chat.IntentDeny, RequestID: outs[1].Request.ID, Channel: "slack"})
	if len(one.Decided) != 1 {
		t.Fatalf("%+v", one)
	}
	if out := w.tap(chat.Interaction{By: stranger, Intent: chat.IntentApprove, RequestID: outs[0].Request.BatchID,
		Channel: "slack"}); out.Text != cannotDecide(stranger) {
		t.Errorf("a stranger was told %q", out.Text)
	}
	rest := w.tap(chat.Interaction{By: hana, Intent: chat.IntentApprove, RequestID: outs[0].Request.BatchID,
		Channel: "slack"})
	if len(rest.Decided) != 2 || rest.Code != "" {
		t.Errorf("%+v", rest)
	}
	if r := w.request(outs[1].Request.ID); r.Status != approval.Denied {
		t.Errorf("the one that was denied is %s", r.Status)
	}
	again := w.tap(chat.Interaction{By: hana, Intent: chat.IntentApprove, RequestID: outs[0].Request.BatchID,
		Channel: "slack"})
	if len(again.Decided) != 0 || again.Code != approval.CodeAlreadyResolved {
		t.Errorf("%+v", again)
	}
}

func TestATapWithoutTheReasonItNeedsSaysHowToGiveOne(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskCritical)
		v.RequireReason = true
		return v
	})
	id := w.check(transfer).Request.ID
	out := w.tap(chat.Interaction{By: hana, Intent: chat.IntentApprove, RequestID: id})
	if out.Code != approval.CodeReasonRequired ||
		out.Text != "transfer_credits needs a reason, so nothing is decided yet. Press Approve on its card, or type to me in a direct message: approve "+id[20:] {
		t.Errorf("%+v", out)
	}
	if out = w.tap(chat.Interaction{By: hana, Intent: chat.IntentApprove, RequestID: id, Reason: "quarter end"}); len(
		out.Decided) != 1 {
		t.Errorf("%+v", out)
	}
}
