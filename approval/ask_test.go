package approval_test

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/lists"
)

// ask presses a button whose reason a dialog may ask for.
func (w *world) ask(t chat.Interaction) chat.Asked {
	w.t.Helper()
	t.Channel, t.From = "slack", "U02HANA"
	out, err := w.chat.Ask(w.ctx, t)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// critical has what costs a million wait for a reason.
func critical(c approval.Call) approval.Verdict {
	v := quarantine(approval.RiskHigh)
	v.RequireReason = strings.Contains(string(c.Args.Canonical()), "1000000")
	return v
}

func TestADialogIsAskedForOnlyWhereItIsNeeded(t *testing.T) {
	w := newWorld(t)
	w.policy(critical)
	plain, big := w.check(call(`{"n":1}`)).Request.ID, w.check(call(`{"n":1000000}`)).Request.ID

	out := w.ask(chat.Interaction{EventID: "slack:1", By: hana, Intent: chat.IntentDeny, RequestID: plain})
	if len(out.Open) != 1 || out.Open[0].ID != plain || len(out.Decided) != 0 ||
		w.request(plain).Status != approval.Pending {
		t.Errorf("deny: %+v", out)
	}
	if out = w.ask(chat.Interaction{EventID: "slack:1", By: hana, Intent: chat.IntentDeny,
		RequestID: plain}); !out.Duplicate || len(out.Open) != 0 {
		t.Errorf("the same press again: %+v", out)
	}
	out = w.ask(chat.Interaction{EventID: "slack:2", By: hana, Intent: chat.IntentApprove, RequestID: big})
	if len(out.Open) != 1 || out.Open[0].ID != big || w.request(big).Status != approval.Pending {
		t.Errorf("approve what needs a reason: %+v", out)
	}
	if ns := w.notifications(approval.NotificationQuery{Kind: approval.KindReply}); len(ns) != 0 {
		t.Errorf("%d answers beside the dialogs", len(ns))
	}
	out = w.ask(chat.Interaction{EventID: "slack:3", By: hana, Intent: chat.IntentApprove, RequestID: plain})
	if len(out.Open) != 0 || len(out.Decided) != 1 || w.request(plain).Status != approval.Approved {
		t.Errorf("approve what needs none: %+v", out)
	}
	out = w.ask(chat.Interaction{EventID: "slack:4", By: hana, Intent: chat.IntentDeny, RequestID: plain})
	if len(out.Open) != 0 || out.Code != approval.CodeAlreadyResolved {
		t.Errorf("deny what is over: %+v", out)
	}
	for i, by := range []approval.Actor{stranger, root} {
		out = w.ask(chat.Interaction{EventID: "slack:by" + by.Name, By: by, Intent: chat.IntentDeny, RequestID: big})
		if len(out.Open) != 0 || out.Code != approval.CodeNotAnApprover {
			t.Errorf("%d: %+v", i, out)
		}
	}
}

// mixed asks for three calls in one turn, of which one needs a reason, and returns the batch's id.
func (w *world) mixed() string {
	w.t.Helper()
	w.policy(critical)
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{call(`{"n":1}`), call(`{"n":1000000}`), call(`{"n":2}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	return outs[0].Request.BatchID
}

// How many of a batch have this status, and this reason.
func (w *world) standing(batch string, status approval.Status, reason string) int {
	w.t.Helper()
	rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, r := range rs {
		if r.BatchID == batch && r.Status == status && r.ResolveReason == reason {
			n++
		}
	}
	return n
}

// What is decided together is decided with one reason, or not at all.
func TestTogetherIsWithOneReason(t *testing.T) {
	w := newWorld(t)
	batch := w.mixed()
	out := w.ask(chat.Interaction{EventID: "slack:1", By: hana, Intent: chat.IntentApprove, RequestID: batch})
	if len(out.Decided) != 0 || len(out.Open) != 3 {
		t.Fatalf("the dialog: %+v", out)
	}
	plain := w.tap(chat.Interaction{Channel: "slack", By: hana, Intent: chat.IntentApprove, RequestID: batch})
	if plain.Code != approval.CodeReasonRequired || !strings.Contains(plain.Text, "approve "+batch) ||
		w.standing(batch, approval.Pending, "") != 3 {
		t.Errorf("without a dialog: %+v", plain)
	}
	done := w.tap(chat.Interaction{Channel: "slack", By: hana, Intent: chat.IntentApprove, RequestID: batch,
		Reason: "quarter end"})
	if len(done.Decided) != 3 || w.standing(batch, approval.Approved, "quarter end") != 3 {
		t.Errorf("%+v", done)
	}
}

func TestDenyAllTakesTheNextTextForAll(t *testing.T) {
	w := newWorld(t)
	batch := w.mixed()
	out := w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: batch})
	if out.Code != approval.CodeReasonRequired || !strings.Contains(out.Text, "deny "+batch) ||
		w.standing(batch, approval.Pending, "") != 3 {
		t.Fatalf("%+v", out)
	}
	if out = w.types(hana, "not this quarter"); len(out.Decided) != 3 || w.standing(batch, approval.Denied,
		"not this quarter") != 3 {
		t.Errorf("%+v", out)
	}
}

// A stranger's tap on all is refused as any other, and held back for nothing.
func TestTogetherIsForApprovers(t *testing.T) {
	w := newWorld(t)
	batch := w.mixed()
	if out := w.line(stranger, chat.Interaction{Intent: chat.IntentDeny,
		RequestID: batch}); out.Code != approval.CodeNotAnApprover || w.lastReply().Note != approval.NoteStranger {
		t.Errorf("%+v", out)
	}
}

func TestAReasonThatCannotBeSeenIsNone(t *testing.T) {
	w := newWorld(t)
	w.policy(needsReason)
	id := w.check(transfer).Request.ID
	for _, s := range []string{"\u200b", " \u2060\u200b ", "\u3164", "\u2800", "\u202e", "\u00ad"} {
		if _, err := w.decide(id, false, hana, s); approval.CodeOf(err) != approval.CodeReasonRequired {
			t.Errorf("%q: %v", s, err)
		}
		if out := w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id,
			Reason: s}); out.Code != approval.CodeReasonRequired {
			t.Errorf("typed %q: %+v", s, out)
		}
		if out := w.types(hana, s); len(out.Decided) != 0 {
			t.Errorf("the text %q: %+v", s, out)
		}
	}
}

// A text that was sent before the question is not its answer, however late it is delivered.
func TestAnOlderTextIsNoReason(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.clock.advance(time.Minute)
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	asked := w.clock.Now()
	w.line(hana, chat.Interaction{Intent: chat.IntentOther, Text: "good morning", At: asked.Add(-6 * time.Second)})
	if r := w.request(id); r.ResolveReason != "" {
		t.Errorf("the reason is %q", r.ResolveReason)
	}
	second := w.check(call(`{"n":2}`)).Request.ID
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: second})
	w.line(hana, chat.Interaction{Intent: chat.IntentOther, Text: "older than the request",
		At: asked.Add(-time.Millisecond)})
	if r := w.request(second); r.ResolveReason != "" {
		t.Errorf("the reason is %q", r.ResolveReason)
	}
	second = w.check(call(`{"n":3}`)).Request.ID
	w.clock.advance(4 * time.Second)
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: second})
	w.line(hana, chat.Interaction{Intent: chat.IntentOther, Text: "too early",
		At: w.clock.Now().Add(-4 * time.Second)}) // clocks differ
	if r := w.request(second); r.ResolveReason != "too early" {
		t.Errorf("the reason is %q", r.ResolveReason)
	}
}

func TestShowOfABatchSaysSo(t *testing.T) {
	w := newWorld(t)
	batch := w.mixed()
	if out := w.line(hana, chat.Interaction{Intent: chat.IntentShow, RequestID: batch}); !strings.HasPrefix(out.Text,
		"That message shows 3 requests.") {
		t.Errorf("%+v", out)
	}
}

func TestADenialIsGivenItsReasonByDenyingAgain(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	deny := chat.Interaction{By: hana, Intent: chat.IntentDeny, RequestID: id}
	w.tap(deny)
	if _, err := w.gate.Ack(w.ctx, "bot", []string{id}); err != nil {
		t.Fatal(err)
	}
	why := deny
	why.Reason = "wrong account"
	other := why
	other.By = ken
	if out := w.tap(other); out.Code != approval.CodeAlreadyResolved || len(out.Explained) != 0 {
		t.Errorf("somebody else's words: %+v", out)
	}
	long := why
	long.Reason = strings.Repeat("x", approval.MaxReason+1)
	if out := w.tap(long); out.Code != approval.CodeAlreadyResolved || len(out.Explained) != 0 {
		t.Errorf("a reason that is too long: %+v", out)
	}
	out := w.tap(why)
	if out.Code != "" || len(out.Explained) != 1 ||
		out.Text != "Thanks, the agent now has your reason. transfer_credits stays denied." {
		t.Errorf("%+v", out)
	}
	if feed := w.feed(); len(feed) != 1 || !strings.HasSuffix(feed[0].FeedMessage(), ": wrong account") {
		t.Errorf("the agent is told %+v", feed)
	}
	again := why
	again.Reason = "no, another"
	if out := w.tap(again); out.Code != approval.CodeAlreadyResolved || w.request(id).ResolveReason != "wrong account" {
		t.Errorf("a second reason: %+v", out)
	}
	if w.count("decision_reason_added") != 1 {
		t.Errorf("trail %q", w.trail())
	}
}

func TestAReasonThatWasOnlyBegunIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.policy(critical)
	for _, tt := range []struct {
		args string
		note approval.Note
	}{{`{"n":1}`, approval.NoteReason}, {`{"n":1000000}`, approval.NoteDeny}} {
		id := w.check(call(tt.args)).Request.ID
		first := w.tap(chat.Interaction{By: hana, Intent: chat.IntentDeny, RequestID: id, AsksWhy: true})
		out := w.tap(chat.Interaction{By: hana, Intent: chat.IntentReason, Text: "reason: ", AsksWhy: true})
		if n := w.lastReply(); out.Text != first.Text || n.Note != tt.note || n.ApprovalID != id {
			t.Errorf("%s: %+v, reply %+v", tt.note, out, n)
		}
		w.tap(chat.Interaction{By: hana, Intent: chat.IntentOther, Text: "wrong account", AsksWhy: true})
		if r := w.request(id); r.Status != approval.Denied || r.ResolveReason != "wrong account" {
			t.Errorf("%s: %s %q", tt.note, r.Status, r.ResolveReason)
		}
	}
}

// A reason that all of a batch was asked for goes to each that the tapper denied, and to no other.
func TestOneReasonForABatch(t *testing.T) {
	w := newWorld(t)
	w.policy(func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.RequireReason = !strings.Contains(string(c.Args.Canonical()), `"free"`)
		return v
	})
	batch := func(args ...string) (id string, ids []string) {
		t.Helper()
		var calls []approval.Call
		for _, a := range args {
			calls = append(calls, call(a))
		}
		outs, err := w.gate.CheckBatch(w.ctx, calls)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outs {
			ids = append(ids, o.Request.ID)
		}
		return outs[0].Request.BatchID, ids
	}
	id, ids := batch(`{"n":1}`, `{"n":2}`, `{"n":3}`)
	w.mustDecide(ids[2], false, ken, "mine")
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	if out := w.types(hana, "not this month"); len(out.Decided) != 2 {
		t.Errorf("%+v", out)
	}
	for i, want := range []string{"not this month", "not this month", "mine"} {
		if got := w.request(ids[i]).ResolveReason; got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	id, ids = batch(`{"n":1,"free":1}`, `{"n":2,"free":1}`)
	w.mustDecide(ids[0], false, ken, "")
	w.line(hana, chat.Interaction{Intent: chat.IntentDeny, RequestID: id})
	if out := w.types(hana, "duplicates"); len(out.Explained) != 1 || strings.Contains(out.Text, "\n") {
		t.Errorf("%+v", out)
	}
	if a, b := w.request(ids[0]), w.request(ids[1]); a.ResolveReason != "" || b.ResolveReason != "duplicates" {
		t.Errorf("reasons %q and %q", a.ResolveReason, b.ResolveReason)
	}
}

// Where the platform shows a refusal by itself there is no second answer, and where it has dialogs
// nobody is asked to type a reason.
func TestDialogsNeedNoWords(t *testing.T) {
	w := newWorld(t)
	w.policy(critical)
	plain, big := w.check(call(`{"n":1}`)).Request.ID, w.check(call(`{"n":1000000}`)).Request.ID
	replies := func(want int) {
		t.Helper()
		if ns := w.notifications(approval.NotificationQuery{Kind: approval.KindReply}); len(ns) != want {
			t.Errorf("%d answers, want %d", len(ns), want)
		}
	}
	submitted := chat.Interaction{Channel: "slack", From: "U02HANA", By: hana, Intent: chat.IntentDeny, RequestID: big,
		Told: true}
	if out := w.tap(submitted); out.Code != approval.CodeReasonRequired || out.Text == "" {
		t.Errorf("%+v", out)
	}
	replies(0)
	submitted.RequestID = plain
	w.tap(submitted)
	replies(1)
	if n := w.lastReply(); n.Note != "" {
		t.Errorf("asks for %q", n.Note)
	}
	if out := w.tap(chat.Interaction{Channel: "slack", From: "U02HANA", By: hana, Intent: chat.IntentOther,
		Text: "lunch?"}); len(out.Explained) != 0 {
		t.Errorf("%+v", out)
	}
}
