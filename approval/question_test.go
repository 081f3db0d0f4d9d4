package approval_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
	"countersign/internal/testkit"
)

// asked is a world in which hana was asked in LINE why she approves a request, and has read it.
func asked(t *testing.T) (w *world, id string) {
	t.Helper()
	w = newWorld(t)
	w.policy(needsReason)
	id = w.check(transfer).Request.ID
	w.send()
	out := w.tap(inWords(hana, "approve "+id))
	if n := w.lastReply(); out.Code != approval.CodeReasonRequired || n.Note != approval.NoteApprove || n.Text !=
		"transfer_credits: why? Your next message here, within a minute, is the reason, and approves it. To take this back, type: back" {
		t.Fatalf("asked %+v, with %+v", out, n)
	}
	w.send()
	return w, id
}

// says is what somebody types in a one-to-one chat now.
func (w *world) says(by approval.Actor, text string) chat.Interaction {
	t := inWords(by, text)
	t.At = w.clock.Now()
	return t
}

func TestTheNextMessageIsTheReasonOfATypedApproval(t *testing.T) {
	for _, after := range []time.Duration{0, time.Minute} {
		w, id := asked(t)
		w.clock.advance(after)
		out := w.tap(w.says(hana, "checked with finance"))
		if r := w.request(id); len(out.Decided) != 1 || r.Status != approval.Approved ||
			r.ResolveReason != "checked with finance" {
			t.Errorf("after %v: %+v", after, out)
		}
		if out = w.tap(w.says(hana, "and thanks")); len(out.Decided) != 0 {
			t.Errorf("the question was answered twice: %+v", out)
		}
	}
}

// Whatever is not plainly the answer decides nothing, and closes the question: what comes after it is no reason either.
func TestWhatIsNotTheNextMessageApprovesNothing(t *testing.T) {
	quoting := func(kind approval.NotificationKind) func(*world, string) chat.Interaction {
		return func(w *world, id string) chat.Interaction {
			n := w.notifications(approval.NotificationQuery{ApprovalID: id, Channel: "line", Kind: kind})[0]
			return chat.Interaction{By: hana, From: "Uhana", AsksWhy: true, Intent: chat.IntentOther, Text: "stop",
				QuotedID: n.MessageID, At: w.clock.Now()}
		}
	}
	text := func(s string) func(*world, string) chat.Interaction {
		return func(w *world, _ string) chat.Interaction { return w.says(hana, s) }
	}
	for name, reply := range map[string]func(w *world, id string) chat.Interaction{
		"an order":            text("status"),
		"back":                text("back"),
		"back in Japanese":    text("戻る"),
		"a yes with more":     text("ok with finance"),
		"a no with more":      text("no, wrong account"),
		"a no in Thai":        text("ไม่ ผิดบัญชี"),
		"the id once more":    text("approve 01KAFHZX3T9W8Y7B6A5D4C0001 as agreed"),
		"a reason of denials": text("reason: wrong account"),
		"a question":          text("which account is that?"),
		"a question in Thai":  text("บัญชีไหนนะ จ่ายแล้วหรือยัง"),
		"a freeze of nobody":  text("freeze it"),
		"quoting the card":    quoting(approval.KindRequest),
		"in another chat": func(w *world, _ string) chat.Interaction {
			t := w.says(hana, "checked with finance")
			t.Elsewhere = true
			return t
		},
		"before the question": func(w *world, _ string) chat.Interaction {
			t := w.says(hana, "checked with finance")
			t.At = t.At.Add(-time.Millisecond)
			return t
		},
		"at no time": func(_ *world, _ string) chat.Interaction { return inWords(hana, "checked with finance") },
		"after a minute": func(w *world, _ string) chat.Interaction {
			w.clock.advance(time.Minute + time.Millisecond)
			return w.says(hana, "checked with finance")
		},
		"in time, and delivered after a minute": func(w *world, _ string) chat.Interaction {
			t := w.says(hana, "checked with finance")
			w.clock.advance(time.Minute + time.Millisecond)
			return t
		},
		"a press": func(_ *world, id string) chat.Interaction {
			return chat.Interaction{By: hana, From: "Uhana", AsksWhy: true, Intent: chat.IntentExtend, RequestID: id}
		},
		"from another person": func(w *world, _ string) chat.Interaction {
			w.tap(w.says(hana, "back"))
			t := w.says(ken, "checked with finance")
			t.From = "U2"
			return t
		},
		"a replay": func(w *world, _ string) chat.Interaction {
			t := w.says(hana, "checked with finance")
			t.EventID = "line:1-replayed"
			w.tap(w.says(hana, "back"))
			w.tap(t)
			return t
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, id := asked(t)
			for _, reply := range []chat.Interaction{reply(w, id), w.says(hana, "checked with finance")} {
				out := w.tap(reply)
				w.send()
				if r := w.request(id); len(out.Decided) != 0 || r.Status != approval.Pending {
					t.Fatalf("%q: %s because of %q", reply.Text, r.Status, r.ResolveReason)
				}
			}
		})
	}
	t.Run("quoting the question", func(t *testing.T) {
		w, id := asked(t)
		if out := w.tap(quoting(approval.KindReply)(w, id)); len(out.Decided) != 1 {
			t.Errorf("%+v", out)
		}
	})
	t.Run("before the question is sent", func(t *testing.T) {
		w := newWorld(t)
		w.policy(needsReason)
		id := w.check(transfer).Request.ID
		w.tap(inWords(hana, "approve "+id))
		w.tap(w.says(hana, "nothing happens"))
		w.send()
		if out := w.tap(w.says(hana, "checked")); len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
			t.Errorf("%+v", out)
		}
	})
}

// One question is open for each person and chat: a new one closes the old, and says so.
func TestANewQuestionClosesTheOld(t *testing.T) {
	const closed = "I no longer wait for the reason for transfer_credits: nothing was decided about it."
	w, first := asked(t)
	other := call(`{"n":2}`)
	other.Tool = "wipe"
	second := w.check(other).Request.ID
	w.tap(inWords(hana, "approve "+second))
	if n := w.lastReply(); n.Note != approval.NoteApprove ||
		n.Text != "wipe: why? Your next message here, within a minute, is the "+
			"reason, and approves it. To take this back, type: back\n"+closed {
		t.Errorf("asked %q", n.Text)
	}
	w.send()
	if out := w.tap(w.says(hana, "as agreed")); len(out.Decided) != 1 || out.Decided[0].ID != second ||
		w.request(first).Status != approval.Pending {
		t.Errorf("%+v", out)
	}
	w, _ = asked(t)
	w.tap(w.says(hana, "status"))
	if n := w.lastReply(); n.Text[len(n.Text)-len(closed):] != closed {
		t.Errorf("told %q", n.Text)
	}
}

// leaves has a card of a request leave for an address, of which it is not known whether it arrives.
func (w *world) leaves(channel, to, id string, kind approval.NotificationKind) {
	w.t.Helper()
	n := approval.Notification{ApprovalID: id, Kind: kind, Channel: channel, Recipient: to, Status: approval.Queued}
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		n.ID, n.NextAttemptAt, n.CreatedAt, n.UpdatedAt = tx.NewID(), tx.Now(), tx.Now(), tx.Now()
		return tx.InsertNotification(n)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	begun, err := outboxtest.Begin(w.ctx, w.outbox, outbox.Attempt{Notification: n, Body: []byte("{}"),
		Lease: time.Second})
	if err != nil || len(begun) != 1 {
		w.t.Fatalf("%d cards left: %v", len(begun), err)
	}
}

// A card that comes between a question and its answer closes the question: the answer may be meant for the card. It
// closes as the card leaves, since whether it arrives is known later, or never. A card of the same request, and what
// comes in another place, closes nothing.
func TestRule5_ACardThatComesMeanwhileClosesTheQuestion(t *testing.T) {
	const said = "Nothing was decided: a reason counts within a minute, while no other card has come, is no question, and does not begin " +
		"with a word such as \"ok\" or \"no\". To approve transfer_credits, type again: approve "
	for name, tt := range map[string]struct {
		channel, to string
		kind        approval.NotificationKind
		same        bool
		closes      bool
	}{
		"a card":                       {"line", "Uhana", approval.KindRequest, false, true},
		"a reminder":                   {"line", "Uhana", approval.KindReminder, false, true},
		"a card of the same request":   {"line", "Uhana", approval.KindReminder, true, false},
		"a card for somebody else":     {"line", "Uken", approval.KindRequest, false, false},
		"a card on their other chat":   {"slack", "Uhana", approval.KindRequest, false, false},
		"a card in a channel of Slack": {"slack", "C1", approval.KindRequest, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, id := asked(t)
			about := id
			if !tt.same {
				other := call(`{"n":2}`)
				other.Tool = "wipe"
				about = w.check(other).Request.ID
			}
			w.leaves(tt.channel, tt.to, about, tt.kind)
			out := w.tap(w.says(hana, "checked with finance"))
			if !tt.closes {
				if len(out.Decided) != 1 || out.Decided[0].ID != id {
					t.Errorf("it closed the question: %+v", out)
				}
				return
			}
			if n := w.lastReply(); out.Code != approval.CodeReasonRequired || n.Text != said+id[len(id)-approval.ShortID:] {
				t.Errorf("%+v, told %q", out, n.Text)
			}
			w.send()
			if out = w.tap(w.says(hana, "checked with finance")); len(out.Decided) != 0 ||
				w.request(id).Status != approval.Pending || w.request(about).Status != approval.Pending {
				t.Errorf("a later text decided: %+v", out)
			}
		})
	}
	t.Run("in direct messages of Slack",
		func(t *testing.T) { // a card in the channel does not close it, one beside it does
			for to, decided := range map[string]int{"C1": 1, "U02HANA": 0} {
				w := newWorld(t)
				w.policy(needsReason)
				id := w.check(transfer).Request.ID
				direct := func(text string) chat.Interaction {
					m := w.says(hana, text)
					m.Channel, m.From, m.AsksWhy = "slack", "U02HANA", false
					return m
				}
				w.tap(direct("approve " + id))
				w.send()
				other := call(`{"n":2}`)
				w.leaves("slack", to, w.check(other).Request.ID, approval.KindRequest)
				if out := w.tap(direct("checked with finance")); len(out.Decided) != decided {
					t.Errorf("a card to %s: %+v", to, out)
				}
			}
		})
	t.Run("what it closes is said", func(t *testing.T) {
		w, _ := asked(t)
		w.leaves("line", "Uhana", w.check(call(`{"n":2}`)).Request.ID, approval.KindRequest)
		w.tap(w.says(hana, "status"))
		if n := w.lastReply(); !strings.HasSuffix(n.Text,
			"I no longer wait for the reason for transfer_credits: nothing was decided about it.") {
			t.Errorf("told %q", n.Text)
		}
	})
}

// What comes by itself because of other agents, and is no card, closes no question: they could keep a person from
// approving by it.
func TestRule12_WhatAgentsDoClosesNoQuestion(t *testing.T) {
	w, id := asked(t)
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		q := w.lastReply()
		return tx.InsertNotification(approval.Notification{ID: tx.NewID(), Kind: approval.KindReply,
			Note:    approval.NoteQueued,
			Channel: q.Channel, Recipient: q.Recipient, Status: approval.Queued, NextAttemptAt: tx.Now(), CreatedAt: tx.Now(),
			UpdatedAt: tx.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	if out := w.tap(w.says(hana, "as agreed")); len(out.Decided) != 1 || out.Decided[0].ID != id {
		t.Errorf("%+v", out)
	}
}

// Who may decide, and what it takes, is judged when the reason comes; the question outlives a restart, being a row.
func TestRule5_AReasonIsNoWayAroundWhoMayDecide(t *testing.T) {
	t.Run("a role taken away", func(t *testing.T) {
		w, id := asked(t)
		gone := hana
		gone.Approver = false
		w.tap(w.says(gone, "checked with finance"))
		if w.request(id).Status != approval.Pending {
			t.Error("approved by who is no approver any more")
		}
	})
	t.Run("confirm", func(t *testing.T) {
		w := newWorld(t)
		w.policy(func(approval.Call) approval.Verdict {
			v := quarantine(approval.RiskCritical)
			v.RequireReason, v.Need = true, &approval.Need{Confirm: true}
			return v
		})
		id := w.check(transfer).Request.ID
		w.tap(inWords(hana, "approve "+id))
		w.send()
		if out := w.tap(w.says(hana, "checked")); len(out.Decided) != 0 || !w.lastReply().Note.AsksOnce() ||
			w.request(id).Status != approval.Pending {
			t.Errorf("%+v", out)
		}
	})
	t.Run("denied meanwhile", func(t *testing.T) {
		w, id := asked(t)
		w.mustDecide(id, false, ken, "no")
		if out := w.tap(w.says(hana, "checked")); len(out.Decided) != 0 || w.request(id).ResolveReason != "no" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("all of a card", func(t *testing.T) { // what is left of it is no more than what was pressed
		w, ids, card := together(t, func(c approval.Call) approval.Verdict {
			v := byTool(c)
			v.RequireReason = true
			return v
		})
		w.tap(all(chat.IntentApprove, card, 1, 0))
		w.send()
		w.mustDecide(ids[0], false, ken, "no")
		w.line(hana, chat.Interaction{Intent: chat.IntentOther, Text: "as agreed", At: w.clock.Now()})
		if got := w.statuses(ids); got != "denied approved pending" {
			t.Error(got)
		}
	})
}

// Of any number of messages that come at once, one is the reason.
func TestRule5_OneMessageIsTheReason(t *testing.T) {
	w, id := asked(t)
	decided := make([]bool, 8)
	var wg sync.WaitGroup
	for i := range decided {
		m := w.says(hana, fmt.Sprintf("checked by %d", i))
		m.EventID, m.Channel, m.From, m.ReplyTo, m.OneReply = fmt.Sprintf("line:race-%d", i), "line", "Uhana", "reply-token",
			true
		wg.Go(func() {
			out, err := w.chat.Interact(w.ctx, m)
			decided[i] = err == nil && len(out.Decided) == 1
		})
	}
	testkit.Wait(t, "all messages", wg.Wait)
	n := 0
	for i, did := range decided {
		if did {
			n++
			if got := w.request(id).ResolveReason; got != fmt.Sprintf("checked by %d", i) {
				t.Errorf("approved with %q", got)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d messages approved", n)
	}
}
