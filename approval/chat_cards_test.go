package approval_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
)

// together is a world in which two calls of a turn were sent to people on one card, before a third joined it.
func together(t *testing.T, verdict func(approval.Call) approval.Verdict,
	change ...func(*outboxtest.Routing)) (w *world, ids []string, card string) {
	t.Helper()
	w = grouped(t, approval.Asks{}, change...)
	w.policy2(verdict)
	ids = w.asked(inTurn("a", 1), inTurn("a", 2))
	w.clock.advance(300 * time.Millisecond)
	w.send()
	w.clock.advance(10 * time.Second)
	ids = append(ids, w.asked(inTurn("a", 3))...)
	return w, ids, w.card(ids[0]).ID
}

func (w *world) statuses(ids []string) string {
	w.t.Helper()
	var all []string
	for _, id := range ids {
		all = append(all, string(w.request(id).Status))
	}
	return strings.Join(all, " ")
}

// all is a press on a button for all of a card.
func all(intent chat.Intent, card string, version, after int) chat.Interaction {
	return chat.Interaction{By: hana, AsksWhy: true, Intent: intent, RequestID: card, Shows: chat.Shows{Version: version,
		After: after}}
}

func TestApproveAllCoversWhatStoodOnTheCardThatWasPressed(t *testing.T) {
	for name, x := range map[string]struct {
		press chat.Shows
		want  string
	}{
		"a button without a version": {chat.Shows{}, "approved approved pending"},
		"the first version":          {chat.Shows{Version: 1}, "approved approved pending"},
		"with what joined":           {chat.Shows{Version: 2}, "approved approved approved"},
		"what joined alone":          {chat.Shows{Version: 2, After: 1}, "pending pending approved"},
	} {
		t.Run(name, func(t *testing.T) {
			w, ids, card := together(t, byTool)
			press := all(chat.IntentApprove, card, x.press.Version, x.press.After)
			if x.press.Version == 2 {
				w.send()
			}
			out := w.tap(press)
			if got := w.statuses(ids); got != x.want {
				t.Errorf("%s, want %s; %q", got, x.want, out.Text)
			}
		})
	}
}

func TestDenyAllCoversWhatStoodOnTheCardThatWasPressed(t *testing.T) {
	w, ids, card := together(t, byTool)
	w.tap(all(chat.IntentDeny, card, 1, 0))
	if got, want := w.statuses(ids), "denied denied pending"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	asked := w.lastReply()
	if asked.Note != approval.NoteReason || !slices.Equal(asked.Cards, ids[2:]) {
		t.Fatalf("the answer asks %q and brings %v, want why and %v", asked.Note, asked.Cards, ids[2:])
	}
	if out := w.types(hana, "wrong account"); len(out.Explained) != 2 {
		t.Errorf("the reason is that of %d denials: %q", len(out.Explained), out.Text)
	}
}

func TestWhatJoinedSinceComesWithTheAnswerAndNotOnceMore(t *testing.T) {
	w, ids, card := together(t, byTool, func(r *outboxtest.Routing) { r.Edits = nil })
	out := w.tap(all(chat.IntentApprove, card, 1, 0))
	want := "Approved: " + theCall(ids[0]) + ". The agent may run it once.\nApproved: " + theCall(ids[1]) +
		". The agent may run it once.\n" +
		"Added to the card after you tapped, so not decided: 1."
	if out.Text != want {
		t.Errorf("answered %q, want %q", out.Text, want)
	}
	if reply := w.lastReply(); !slices.Equal(reply.Cards, ids[2:]) {
		t.Errorf("the answer brings %v, want %v", reply.Cards, ids[2:])
	}
	for _, n := range w.send() {
		if n.Channel == "line" && n.Kind == approval.KindRequest {
			t.Errorf("it is sent by itself too: %+v", n)
		}
	}
}

func TestOnSlackTheCardShowsWhatJoinedAndTheAnswerSaysSo(t *testing.T) {
	w, ids, card := together(t, byTool)
	press := all(chat.IntentApprove, card, 1, 0)
	press.Channel, press.AsksWhy = "slack", false
	out := w.tap(press)
	if !strings.HasSuffix(out.Text, "\nAdded to the card after you tapped, so not decided: 1.") ||
		len(w.lastReply().Cards) > 0 {
		t.Errorf("answered %q with the cards %v", out.Text, w.lastReply().Cards)
	}
	if got, want := w.statuses(ids), "approved approved pending"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestApproveAllOfACardLeavesOutWhatAsksOnceMore(t *testing.T) {
	w, ids, card := together(t, func(c approval.Call) approval.Verdict {
		v := byTool(c)
		if strings.Contains(string(c.Args.Canonical()), "2") {
			v.Need = &approval.Need{Confirm: true}
		}
		return v
	})
	w.send() // what joined
	out := w.tap(all(chat.IntentApprove, card, 2, 0))
	if got, want := w.statuses(ids), "approved pending approved"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if want := "Left out: 1 of 3. Decide them one by one: transfer_credits (needs a second yes)."; !strings.HasSuffix(
		out.Text, "\n"+want) {
		t.Errorf("answered %q, want it to end in %q", out.Text, want)
	}
	// With nothing else on the card the answer says that alone.
	out = w.tap(all(chat.IntentApprove, card, 2, 0))
	if want := "Left out: 1 of 1. Decide them one by one: transfer_credits (needs a second yes)."; out.Text != want ||
		len(out.Decided) > 0 {
		t.Errorf("answered %q, want %q", out.Text, want)
	}
	// A denial takes no second yes.
	w.tap(all(chat.IntentDeny, card, 2, 0))
	if got, want := w.statuses(ids), "approved denied approved"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAReasonForAllOfACardIsForWhatWasPressed(t *testing.T) {
	needsOne := func(c approval.Call) approval.Verdict {
		v := byTool(c)
		v.RequireReason = true
		return v
	}
	for _, x := range []struct {
		intent chat.Intent
		shows  chat.Shows
		typed  string
		want   string
	}{
		{chat.IntentDeny, chat.Shows{Version: 1}, "wrong account", "denied denied pending"},
		{chat.IntentDeny, chat.Shows{Version: 2}, "wrong account", "denied denied denied"},
		{chat.IntentApprove, chat.Shows{Version: 1}, "as agreed", "approved approved pending"},
		{chat.IntentApprove, chat.Shows{Version: 2}, "as agreed", "approved approved approved"},
	} {
		w, ids, card := together(t, needsOne)
		if x.shows.Version == 2 {
			w.send()
		}
		out := w.tap(all(x.intent, card, x.shows.Version, x.shows.After))
		if deny := x.intent == chat.IntentDeny; out.Code != approval.CodeReasonRequired ||
			strings.Contains(out.Text, " "+x.shows.TypedID(card)+" ") != deny {
			t.Errorf("answered %q (%s)", out.Text, out.Code)
		}
		w.send()
		w.line(hana, chat.Interaction{Intent: chat.IntentOther, Text: x.typed, At: w.clock.Now()})
		if got := w.statuses(ids); got != x.want {
			t.Errorf("%s, then %q: %s, want %s", x.intent, x.typed, got, x.want)
		}
	}
}

func TestADialogForAllOfACardIsAboutWhatWasPressed(t *testing.T) {
	w, ids, card := together(t, byTool)
	out := w.ask(chat.Interaction{EventID: "slack:1", By: hana, Intent: chat.IntentDeny, RequestID: card,
		Shows: chat.Shows{Version: 1}})
	var open []string
	for _, r := range out.Open {
		open = append(open, r.ID)
	}
	if !slices.Equal(open, ids[:2]) {
		t.Errorf("the dialog is about %v, want %v", open, ids[:2])
	}
}

func TestQuotingACardIsAboutWhatItShows(t *testing.T) {
	w := grouped(t, approval.Asks{}, func(r *outboxtest.Routing) { r.Edits = nil })
	ids := w.asked(inTurn("a", 1))
	w.clock.advance(300 * time.Millisecond)
	sent := w.send()
	ids = append(ids, w.asked(inTurn("a", 2))...)
	i := slices.IndexFunc(sent, func(n approval.Notification) bool { return n.Channel == "line" })
	row := w.notifications(approval.NotificationQuery{Channel: "line", ApprovalID: ids[0], Kind: approval.KindRequest})
	if i < 0 || len(row) == 0 {
		t.Fatal("no card was sent")
	}
	w.line(hana, chat.Interaction{Intent: chat.IntentApprove, Text: "approve", QuotedID: row[0].MessageID})
	if got, want := w.statuses(ids), "approved pending"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAButtonWithoutAVersionDecidesTheFirst(t *testing.T) {
	w := grouped(t, approval.Asks{})
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{call(`{"n":1}`), call(`{"n":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	w.tap(all(chat.IntentApprove, outs[0].Request.BatchID, 0, 0))
	if got, want := w.statuses([]string{outs[0].Request.ID, outs[1].Request.ID}), "approved approved"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWhoMayNotDecideIsToldNothingOfACard(t *testing.T) {
	w, ids, card := together(t, byTool)
	press := all(chat.IntentApprove, card, 1, 0)
	press.By = stranger
	if out := w.tap(press); out.Text != cannotDecide(stranger) || len(w.lastReply().Cards) > 0 {
		t.Errorf("answered %q with %v", out.Text, w.lastReply().Cards)
	}
	if got, want := w.statuses(ids), "pending pending pending"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
