package approval_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
	"countersign/internal/lists"
)

func kinds(ns []approval.Notification) []string {
	var s []string
	for _, n := range ns {
		s = append(s, n.Channel+" "+string(n.Kind)+" "+string(n.Status))
	}
	return s
}

func (w *world) expectLog(q approval.NotificationQuery, want ...string) []approval.Notification {
	w.t.Helper()
	ns := w.notifications(q)
	if got := kinds(ns); !slices.Equal(got, want) {
		w.t.Fatalf("notifications %q, want %q", got, want)
	}
	return ns
}

func TestRule7_ACrashedSendIsTriedAgainWithTheSameBytesAndKey(t *testing.T) {
	w := newWorld(t)
	w.check(transfer)
	out := w.outbox
	ready, _, err := w.ready(1)
	if err != nil || len(ready) != 1 || len(ready[0].Requests) != 1 {
		t.Fatal(ready, err)
	}
	try := outbox.Attempt{Notification: ready[0].Notification, Body: []byte(`{"first":1}`), Lease: 15 * time.Second}
	first, err := outboxtest.Begin(w.ctx, out, try)
	if err != nil || len(first) != 1 || first[0].Attempt != 1 {
		t.Fatal(first, err)
	}
	if again, err := outboxtest.Begin(w.ctx, out, try); err != nil || len(again) != 0 {
		t.Fatalf("a second sender took it too: %v, %v", again, err)
	}
	w.clock.advance(15 * time.Second) // the sender died; nobody recorded anything
	try.Body = []byte(`{"second":2}`)
	again, err := outboxtest.Begin(w.ctx, out, try)
	if err != nil || len(again) != 1 {
		t.Fatal(again, err)
	}
	if string(again[0].Body) != `{"first":1}` || again[0].RetryKey != first[0].RetryKey || again[0].Attempt != 2 {
		t.Errorf("second try: %s, key %s, attempt %d", again[0].Body, again[0].RetryKey, again[0].Attempt)
	}
}

// What is quickly read is read with the look at the queue; what is not, is left to whoever sends it.
func TestOneNotificationIsReadWithTheLookAtTheQueue(t *testing.T) {
	large := call(`{"text":"` + strings.Repeat("x", 20<<10) + `"}`)
	for _, tt := range []struct {
		name  string
		call  approval.Call
		whole bool
	}{{"small", transfer, true}, {"large", large, false}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.check(tt.call)
			id := w.notifications(approval.NotificationQuery{Channel: "line"})[0].ID
			ready, whole, next, err := w.outbox.LoadReady(w.ctx, id)
			if err != nil || len(ready) != 1 || ready[0].ID != id || !next.IsZero() || (whole != nil) != tt.whole {
				t.Fatalf("ready %v, whole %v, next %v, error %v", ready, whole, next, err)
			}
			d, err := w.outbox.Load(w.ctx, id)
			if err != nil || tt.whole && !reflect.DeepEqual(*whole, d) {
				t.Errorf("read %+v at once, %+v later, error %v", *whole, d, err)
			}
			try := outbox.Attempt{Notification: d.Notification, Body: []byte(`{}`), Lease: 15 * time.Second}
			if begun, err := outboxtest.Begin(w.ctx, w.outbox, try); err != nil || len(begun) != 1 {
				t.Fatal(begun, err)
			}
			if ready, whole, _, err := w.outbox.LoadReady(w.ctx, id); err != nil || len(ready) != 0 || whole != nil {
				t.Errorf("somebody has it: ready %v, whole %v, error %v", ready, whole, err)
			}
		})
	}
}

func TestAnEndedRequestsCardIsNotSent(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	w.expectLog(approval.NotificationQuery{}, "line request skipped", "slack request skipped")
	if n := w.send(); len(n) != 0 {
		t.Errorf("sent %q", kinds(n))
	}
}

// A push may take longer than its lease: its request ends meanwhile, and the card comes out all the same.
func TestRule7_ACardThatWasDroppedOnItsWayAndArrivedIsEdited(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	ready, _, err := w.ready(10)
	if err != nil || len(ready) != 2 {
		t.Fatal(ready, err)
	}
	var tries []outbox.Attempt
	for _, d := range ready {
		tries = append(tries, outbox.Attempt{Notification: d.Notification, Body: []byte(`{}`), Lease: 15 * time.Second})
	}
	begun, err := outboxtest.Begin(w.ctx, w.outbox, tries...)
	if err != nil || len(begun) != 2 {
		t.Fatal(begun, err)
	}
	w.clock.advance(15 * time.Second)
	w.mustDecide(id, true, hana, "")
	w.expectLog(approval.NotificationQuery{}, "line request skipped", "slack request skipped")
	for _, n := range begun {
		if err := w.outbox.Sent(w.ctx, n, channels.Receipt{MessageID: "m", Data: []byte(`{"ts":"1"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	w.expectLog(approval.NotificationQuery{}, "line request sent", "slack request sent", "slack outcome queued")
}

func TestASentCardIsEditedOnceItsRequestEnds(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.mustDecide(id, false, hana, "")
	ns := w.expectLog(approval.NotificationQuery{}, "line request sent", "slack request sent", "slack outcome queued")
	if ns[2].TargetID != ns[1].ID {
		t.Errorf("edits %s, want %s", ns[2].TargetID, ns[1].ID)
	}
	ready, _, err := w.ready(10)
	if err != nil || len(ready) != 1 || ready[0].Target == nil || string(ready[0].Target.Receipt) != `{"ts":"1"}` ||
		ready[0].Requests[0].Status != approval.Denied {
		t.Errorf("%+v, %v", ready, err)
	}
}

func TestACardOnItsWayWhenTheRequestEndsIsEditedToo(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	out := w.outbox
	ready, _, _ := w.ready(10)
	slack := ready[slices.IndexFunc(ready, func(d channels.Delivery) bool { return d.Notification.Channel == "slack" })]
	begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: slack.Notification, Body: []byte("{}"),
		Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	w.mustDecide(id, true, hana, "")
	if err := out.Sent(w.ctx, begun[0], channels.Receipt{MessageID: "1.2", Data: []byte(`{"ts":"1.2"}`)}); err != nil {
		t.Fatal(err)
	}
	w.expectLog(approval.NotificationQuery{Channel: "slack"}, "slack request sent", "slack outcome queued")
}

func TestEditsOfOneCardDoNotOvertake(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.send()
	w.mustDecide(id, true, hana, "")
	out := w.outbox
	ready, _, _ := w.ready(10)
	begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: ready[0].Notification, Body: []byte("{}"),
		Seen: ready[0].Seen(), Lease: time.Minute})
	if err != nil || len(begun) != 1 {
		t.Fatal(begun, err)
	}
	if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: hana, Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	if ready, _, _ := w.ready(10); len(ready) != 0 {
		t.Fatalf("the second edit is ready while the first is on its way: %q", ready[0].Notification.Kind)
	}
	if err := out.Sent(w.ctx, begun[0], channels.Receipt{MessageID: "1"}); err != nil {
		t.Fatal(err)
	}
	ready, _, _ = w.ready(10)
	if len(ready) != 1 || ready[0].Requests[0].Status != approval.Cancelled {
		t.Errorf("after the first edit: %d ready", len(ready))
	}
}

func TestAFailedSendWaitsAndAPausedChannelCostsNoAttempt(t *testing.T) {
	w := newWorld(t)
	w.check(transfer)
	out := w.outbox
	begin := func() approval.Notification {
		t.Helper()
		ready, _, err := w.ready(1)
		if err != nil || len(ready) == 0 {
			t.Fatal(ready, err)
		}
		begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: ready[0].Notification, Body: []byte("{}"),
			Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return begun[0]
	}
	n := begin()
	at := w.clock.Now().Add(time.Minute)
	if err := out.NotSent(w.ctx, n, outbox.Failure{Reason: "bad_token", RetryAt: at, Unbegun: true}); err != nil {
		t.Fatal(err)
	}
	got, _ := w.outbox.Notification(w.ctx, n.ID)
	if got.Attempt != 0 || got.Status != approval.Queued || !got.NextAttemptAt.Equal(at) || !got.FirstTryAt.IsZero() {
		t.Errorf("after a pause: %+v", got)
	}
	w.clock.advance(time.Minute)
	for n = begin(); n.ID != got.ID; n = begin() {
	}
	if err := out.NotSent(w.ctx, n, outbox.Failure{Reason: "rate_limited", Detail: "slow down",
		RetryAt: w.clock.Now().Add(30 * time.Second), HTTPStatus: 429}); err != nil {
		t.Fatal(err)
	}
	got, _ = w.outbox.Notification(w.ctx, n.ID)
	if got.Attempt != 1 || got.Status != approval.Retrying || got.Error != "rate_limited: slow down" ||
		got.HTTPStatus != 429 {
		t.Errorf("after a failure: %+v", got)
	}
	if w.count("notification_retrying") != 2 {
		t.Errorf("trail %q", w.trail())
	}
}

func failAll(t *testing.T, w *world) {
	t.Helper()
	out := w.outbox
	ready, _, err := w.ready(100)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ready {
		begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: d.Notification, Body: []byte("{}"),
			Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.NotSent(w.ctx, begun[0], outbox.Failure{Final: true, Reason: "unavailable"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheHeartbeatTriesFailedCardsOnceMore(t *testing.T) {
	w := newWorld(t)
	w.check(transfer)
	failAll(t, w)
	if n, err := w.outbox.RetryFailed(w.ctx); err != nil || n != 2 {
		t.Fatalf("retried %d, %v", n, err)
	}
	failAll(t, w)
	if n, err := w.outbox.RetryFailed(w.ctx); err != nil || n != 0 {
		t.Errorf("retried %d a second time, %v", n, err)
	}
}

func TestAnAdminsRetryStartsAfresh(t *testing.T) {
	w := newWorld(t)
	w.check(transfer)
	n := w.notifications(approval.NotificationQuery{Channel: "line"})[0]
	_, err := w.outbox.Retry(w.ctx, hana, n.ID)
	wantCode(t, err, approval.CodeNotFailed)
	_, err = w.outbox.Retry(w.ctx, hana, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	wantCode(t, err, approval.CodeNotFound)
	failAll(t, w)
	again, err := w.outbox.Retry(w.ctx, hana, n.ID)
	if err != nil || again.ID != n.ID || again.RetryKey == n.RetryKey || again.Attempt != 0 ||
		again.Status != approval.Queued {
		t.Errorf("%+v, %v", again, err)
	}
	if sent := w.send(); len(sent) != 1 || sent[0].ID != n.ID {
		t.Errorf("sent %q", kinds(sent))
	}
}

func TestPeopleAreRemindedOfWhatTheyDidNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.check(transfer)
	w.send()
	remind := func() int {
		t.Helper()
		n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 2)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := remind(); n != 0 {
		t.Errorf("reminded of %d at once", n)
	}
	w.clock.advance(15 * time.Minute)
	if n := remind(); n != 1 {
		t.Errorf("reminded of %d after 15 minutes", n)
	}
	if n := remind(); n != 0 {
		t.Errorf("reminded of %d again at once", n)
	}
	ns := w.expectLog(approval.NotificationQuery{Channel: "line"}, "line request sent", "line reminder queued")
	if ns[0].RetryKey == ns[1].RetryKey {
		t.Error("a reminder is a new message and needs a key of its own")
	}
	w.clock.advance(29 * time.Minute)
	if n := remind(); n != 0 {
		t.Errorf("a second round came after 29 minutes: %d", n)
	}
	w.clock.advance(time.Minute)
	if n := remind(); n != 1 {
		t.Errorf("second round: %d", n)
	}
	w.clock.advance(14 * time.Minute)
	if n := remind(); n != 0 {
		t.Errorf("a third round although two are the limit: %d", n)
	}
}

func TestABatchComesAsOneCard(t *testing.T) {
	w := newWorld(t)
	w.policy(func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		if c.Tool == "read" {
			v.Action = approval.Allow
		}
		return v
	})
	read := call(`{}`)
	read.Tool = "read"
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{call(`{"n":1}`), read, call(`{"n":2}`), call(`{"n":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	var words []approval.AnswerKind
	for _, o := range outs {
		words = append(words, o.Kind)
	}
	if !slices.Equal(words, []approval.AnswerKind{"pending", "allow", "pending", "pending"}) ||
		outs[3].Request.ID != outs[0].Request.ID || outs[3].Created {
		t.Fatalf("words %q, ids %s and %s", words, outs[0].Request.ID, outs[3].Request.ID)
	}
	ns := w.expectLog(approval.NotificationQuery{}, "line request queued", "slack request queued")
	if ns[0].BatchID == "" || ns[0].BatchID != outs[0].Request.BatchID {
		t.Errorf("batch %q", ns[0].BatchID)
	}
	w.send()
	w.mustDecide(outs[0].Request.ID, true, hana, "")
	w.expectLog(approval.NotificationQuery{Kind: approval.KindEdit}, "slack outcome queued")
	w.mustDecide(outs[2].Request.ID, false, hana, "")
	w.expectLog(approval.NotificationQuery{Kind: approval.KindEdit},
		"slack outcome queued") // the one that waits shows both
	ready, _, err := w.ready(10)
	if err != nil || len(ready) != 1 || len(ready[0].Requests) != 2 {
		t.Errorf("%d ready, %v", len(ready), err)
	}
}

func TestABatchsCardIsOnlySkippedWhenAllOfItHasEnded(t *testing.T) {
	w := newWorld(t)
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{call(`{"n":1}`), call(`{"n":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	w.mustDecide(outs[0].Request.ID, true, hana, "")
	w.expectLog(approval.NotificationQuery{}, "line request queued", "slack request queued")
	w.mustDecide(outs[1].Request.ID, true, hana, "")
	w.expectLog(approval.NotificationQuery{}, "line request skipped", "slack request skipped")
}

func TestABadCallRefusesTheWholeBatch(t *testing.T) {
	w := newWorld(t)
	bad := call(`{}`)
	bad.Tool = "rm -rf"
	_, err := w.gate.CheckBatch(w.ctx, []approval.Call{transfer, bad})
	wantCode(t, err, approval.CodeInvalidTool)
	if rs, _ := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{}); len(rs) != 0 {
		t.Errorf("%d requests of a refused batch", len(rs))
	}
	_, err = w.gate.CheckBatch(w.ctx, nil)
	wantCode(t, err, approval.CodeInvalidParameter)
	_, err = w.gate.CheckBatch(w.ctx, make([]approval.Call, approval.MaxBatch+1))
	wantCode(t, err, approval.CodeInvalidParameter)
}

// A press can be here before the platform's answer to the push that it came over.
func TestRule7_APressBeforeItsPushsAnswerIsDelivered(t *testing.T) {
	begin := func(w *world, channel string) approval.Notification {
		w.t.Helper()
		out := w.outbox
		ready, _, err := w.ready(10)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range ready {
			if d.Notification.Channel != channel || d.Notification.Kind != approval.KindRequest {
				continue
			}
			begun, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: d.Notification, Body: []byte(`{}`),
				Lease: 20 * time.Second})
			if err != nil || len(begun) != 1 {
				w.t.Fatal(begun, err)
			}
			return begun[0]
		}
		w.t.Fatalf("no card for %s is ready", channel)
		return approval.Notification{}
	}
	get := func(w *world, id string) approval.Notification {
		w.t.Helper()
		n, err := w.outbox.Notification(w.ctx, id)
		if err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	receipt := channels.Receipt{MessageID: "m-1", HTTPStatus: 200, Data: []byte(`{"ts":"1"}`)}
	for _, channel := range []string{"line", "slack"} {
		for _, c := range []struct {
			name   string
			before func(w *world, n approval.Notification) // between the push and the press
			after  func(w *world, n approval.Notification)
			sent   bool
		}{
			{"recorded after the press", func(*world, approval.Notification) {}, func(w *world, n approval.Notification) {
				if err := w.outbox.Sent(w.ctx, n, receipt); err != nil {
					w.t.Fatal(err)
				}
			}, true},
			{"recorded before the press", func(w *world, n approval.Notification) {
				if err := w.outbox.Sent(w.ctx, n, receipt); err != nil {
					w.t.Fatal(err)
				}
			}, func(*world, approval.Notification) {}, true},
			{"no answer", func(w *world, n approval.Notification) {
				if err := w.outbox.NotSent(w.ctx, n, outbox.Failure{Reason: "timeout", RetryAt: w.clock.Now()}); err != nil {
					w.t.Fatal(err)
				}
			}, func(w *world, _ approval.Notification) { w.send() }, false},
			{"no answer, after the press", func(*world, approval.Notification) {}, func(w *world, n approval.Notification) {
				if err := w.outbox.NotSent(w.ctx, n, outbox.Failure{Reason: "timeout", RetryAt: w.clock.Now()}); err != nil {
					w.t.Fatal(err)
				}
				w.send()
			}, false},
			{"gone at the crash", func(*world, approval.Notification) {}, func(w *world, _ approval.Notification) {
				w.clock.advance(time.Minute) // past its lease
				w.send()
			}, false},
		} {
			t.Run(channel+"/"+c.name, func(t *testing.T) {
				w := newWorld(t)
				id := w.check(transfer).Request.ID
				n := begin(w, channel)
				c.before(w, n)
				from := n.Recipient
				if channel == "slack" {
					from = "U02HANA" // who presses is not the channel that the card went to
				}
				if out := w.tap(chat.Interaction{Channel: channel, From: from, By: hana, Intent: chat.IntentApprove,
					RequestID: id}); len(out.Decided) != 1 {
					t.Fatalf("%+v", out)
				}
				c.after(w, n)
				got := get(w, n.ID)
				if got.Status != approval.Delivered || got.SentAt.IsZero() == c.sent || (got.MessageID == "m-1") != c.sent {
					t.Errorf("the card that was pressed is %s, sent at %v as %q", got.Status, got.SentAt, got.MessageID)
				}
				edits := w.notifications(approval.NotificationQuery{Kind: approval.KindEdit, Channel: channel})
				if want := channel == "slack" && c.sent; (len(edits) == 1) != want {
					t.Errorf("%d edits of the card", len(edits))
				}
				if n := w.count("notification_sent"); c.sent && n != 1 {
					t.Errorf("%d sends on record", n)
				}
			})
		}
	}
}
