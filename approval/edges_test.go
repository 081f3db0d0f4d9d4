package approval_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/auth"
	"countersign/internal/chat"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

// drawn stands for a rendered card: the states that it shows.
func drawn(d channels.Delivery) []byte {
	s := ""
	for _, r := range d.Requests {
		s += " " + string(r.Status)
	}
	return []byte(fmt.Sprintf(`{"states":"%s"}`, s))
}

func (w *world) batchOfTwo() (a, b string) {
	w.t.Helper()
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{call(`{"n":1}`), call(`{"n":2}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.send()
	return outs[0].Request.ID, outs[1].Request.ID
}

// lastEdit sends edits for a while and returns what the card shows in the end.
func (w *world) lastEdit() string {
	w.t.Helper()
	out, shown := w.outbox, ""
	for range 60 {
		w.clock.advance(time.Second)
		ready, _, err := w.ready(10)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range ready {
			begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: d.Notification,
				Body: drawn(d), Seen: d.Seen(), Lease: 18 * time.Second})
			if err != nil {
				w.t.Fatal(err)
			}
			for _, n := range begun {
				shown = string(n.Body)
				if err := out.Sent(w.ctx, n, channels.Receipt{MessageID: "x", HTTPStatus: 200,
					Data: []byte(`{"ts":"1"}`)}); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
	return shown
}

func TestAnEditDrawnBeforeAnotherDecisionIsDrawnAgain(t *testing.T) {
	w := newWorld(t)
	a, b := w.batchOfTwo()
	w.mustDecide(a, true, hana, "")
	out := w.outbox
	ready, _, err := w.ready(10)
	if err != nil || len(ready) != 1 {
		t.Fatal(ready, err)
	}
	old := outbox.Attempt{Notification: ready[0].Notification, Body: drawn(ready[0]), Seen: ready[0].Seen(),
		Lease: 18 * time.Second}
	w.mustDecide(b, false, ken, "")
	if begun, err := outboxtest.Begin(w.ctx, out, old); err != nil || len(begun) != 0 {
		t.Fatalf("the old picture goes out: %v, %v", begun, err)
	}
	if got, want := w.lastEdit(), `{"states":" approved denied"}`; got != want {
		t.Errorf("the card shows %s, want %s", got, want)
	}
}

func TestAnEditThatIsTriedAgainDoesNotUndoANewerOne(t *testing.T) {
	w := newWorld(t)
	a, b := w.batchOfTwo()
	w.mustDecide(a, true, hana, "")
	out := w.outbox
	ready, _, _ := w.ready(10)
	first, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: ready[0].Notification, Body: drawn(ready[0]),
		Seen: ready[0].Seen(), Lease: 18 * time.Second})
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	w.clock.advance(2 * time.Second)
	w.mustDecide(b, false, ken, "") // while the first edit is on its way
	w.clock.advance(8 * time.Second)
	if err := out.NotSent(w.ctx, first[0], outbox.Failure{Reason: "timeout",
		RetryAt: w.clock.Now().Add(11 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if got, want := w.lastEdit(), `{"states":" approved denied"}`; got != want {
		t.Errorf("the card shows %s, want %s", got, want)
	}
}

func TestRule5_WhoMayDecideIsJudgedAsTheyAreNow(t *testing.T) {
	w := newWorld(t)
	people := auth.NewDirectory(nil, []auth.Person{{Name: "hana", Approver: true, Admin: true},
		{Name: "ken", Approver: true}})
	w.wire(approval.Options{Store: w.store, Broker: w.gate.Broker(), Policy: rules{asks, terms}, Now: w.clock.Now,
		Directory: names{people: people.ByName}}, outboxtest.Routing{})
	id := w.check(transfer).Request.ID
	people.Replace(nil, []auth.Person{{Name: "hana", Approver: true}}) // ken was removed, hana is no admin any more
	_, err := w.decide(id, true, ken, "")
	wantCode(t, err, approval.CodeNotAnApprover)
	if out := w.tap(chat.Interaction{By: ken, Intent: chat.IntentApprove,
		RequestID: id}); out.Code != approval.CodeNotAnApprover {
		t.Errorf("%+v", out)
	}
	_, err = w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: hana, Via: approval.ViaAPI})
	wantCode(t, err, approval.CodeNotAdmin)
	w.mustDecide(id, true, hana, "")
}

func TestAQuotedMessageThatIsNotKnownIsNotGuessedAt(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	no := chat.Interaction{By: hana, Intent: chat.IntentDeny, QuotedID: "5900", Reason: "wrong account"}
	if out := w.tap(no); len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
		t.Errorf("%+v", out)
	}
}

func TestAnyMessageOfAnAnswerCanBeQuoted(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.tap(chat.Interaction{By: hana, Intent: chat.IntentPending, OneReply: true})
	out := w.outbox
	ready, _, _ := w.ready(1)
	begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: ready[0].Notification, Body: []byte("{}"),
		Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Sent(w.ctx, begun[0], channels.Receipt{MessageID: "1",
		Data: []byte(`{"messages":[{"id":"1"},{"id":"2"}]}`)}); err != nil {
		t.Fatal(err)
	}
	tap := chat.Interaction{By: hana, Intent: chat.IntentDeny, QuotedID: "2", Channel: begun[0].Channel,
		From: begun[0].Recipient}
	if got := w.tap(tap); len(got.Decided) != 1 || got.Decided[0].ID != id {
		t.Errorf("%+v", got)
	}
}

func TestALateBareNoDoesNotReachANewerRequest(t *testing.T) {
	w := newWorld(t)
	typed := w.clock.Now()
	w.clock.advance(5 * time.Minute)
	id := w.check(transfer).Request.ID
	out := w.tap(chat.Interaction{Channel: "slack", By: hana, Intent: chat.IntentDeny, At: typed})
	if len(out.Decided) != 0 || w.request(id).Status != approval.Pending {
		t.Errorf("%+v", out)
	}
}

func TestRule11_WhatTimeAndTheOutboxDoIsCorrelatedToo(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.clock.advance(time.Hour)
	w.request(id)
	for _, typ := range []approval.EventType{approval.EventNotificationSent, approval.EventDecision} {
		es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: typ, Limit: 1})
		if err != nil || len(es) != 1 || es[0].CorrelationID != id {
			t.Errorf("%s: %+v, %v", typ, es, err)
		}
	}
}

// Callers who hang up while others are refused after a write: one commit group holds both.
func TestImpatientCallersDoNotHurtTheirNeighbours(t *testing.T) {
	w := newWorld(t)
	limited := terms
	limited.MaxPending = 1
	reading := func(c approval.Call) approval.Verdict {
		if c.Tool == "read_file" {
			return approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow}
		}
		return asks(c)
	}
	if err := w.gate.SetPolicy(w.ctx, rules{reading, limited}, nil); err != nil {
		t.Fatal(err)
	}
	w.check(transfer)
	read := call(`{}`)
	read.Tool = "read_file"
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			for n := range 40 {
				ctx, cancel := context.WithTimeout(w.ctx, time.Duration(200+97*((n+i)%20))*time.Microsecond)
				w.gate.Check(ctx, read)
				cancel()
			}
		})
	}
	wg.Go(func() {
		for n := range 100 {
			_, err := w.gate.CheckBatch(w.ctx, []approval.Call{read, call(fmt.Sprintf(`{"n":%d}`, n))})
			if approval.CodeOf(err) != approval.CodeTooManyPending {
				t.Errorf("got %v", err)
			}
		}
	})
	testkit.Wait(t, "all callers", wg.Wait)
	w.expect(read, approval.AnswerAllow)
}

func TestASpentReplyTokenIsNotTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.tap(chat.Interaction{By: hana, Intent: chat.IntentApprove})
	out := w.outbox
	ready, _, err := w.ready(1)
	if err != nil || len(ready) != 1 || ready[0].Notification.ReplyTo == "" {
		t.Fatal(ready, err)
	}
	begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: ready[0].Notification, Body: []byte("{}"),
		Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.NotSent(w.ctx, begun[0], outbox.Failure{Reason: "rate_limited", ReplySpent: true,
		RetryAt: w.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	n, err := w.outbox.Notification(w.ctx, begun[0].ID)
	if err != nil || n.ReplyTo != "" || n.RetryKey != begun[0].RetryKey {
		t.Errorf("%+v, %v", n, err)
	}
}
