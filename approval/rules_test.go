package approval_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/correlation"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

func TestRule1_OnlyAllowAndApprovedLetACallThrough(t *testing.T) {
	w := newWorld(t)
	w.policy(func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		switch c.Tool {
		case "read":
			v.Action, v.Risk = approval.Allow, approval.RiskLow
		case "wipe":
			v.Action, v.ReasonCode, v.Message = approval.Deny, "forbidden", "Nobody may do this."
		case "odd":
			v.Action = "whatever" // a policy that says nothing we know must not allow
		}
		return v
	})
	c := transfer
	c.Tool = "read"
	if o := w.expect(c, approval.AnswerAllow); o.Message != "Allowed by policy." {
		t.Errorf("message %q", o.Message)
	}
	c.Tool = "wipe"
	if o := w.expect(c, approval.AnswerDenied); o.Message != "Policy denied: forbidden — Nobody may do this." {
		t.Errorf("message %q", o.Message)
	}
	c.Tool = "odd"
	w.expect(c, approval.AnswerDenied)
	w.expect(transfer, approval.AnswerPending)
}

func TestRule1_AStoreThatCannotCommitAllowsNothing(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		return approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow}
	})
	w.db.Close()
	o, err := w.gate.Check(w.ctx, transfer)
	if err == nil || o.Kind == approval.AnswerAllow || o.Kind == approval.AnswerApproved {
		t.Errorf("got %q, %v; a call whose audit event is not committed must not run", o.Kind, err)
	}
}

func TestRule2_AskingAgainJoinsTheLiveRequest(t *testing.T) {
	w := newWorld(t)
	first := w.expect(transfer, approval.AnswerPending)
	want := "⏳ Approval requested (id: " + first.Request.ID + "). A person must confirm this."
	if !first.Created || first.Message != want {
		t.Errorf("created %v, message %q; want %q", first.Created, first.Message, want)
	}
	again := call(` { "to" : "0xAbC" , "amount_cents" : 2000 } `) // the same args, written otherwise
	second := w.expect(again, approval.AnswerPending)
	want = "⏳ Approval pending (id: " + first.Request.ID + "). Waiting for human confirmation."
	if second.Created || second.Request.ID != first.Request.ID || second.Message != want {
		t.Errorf("created %v, id %s, message %q; want %q", second.Created, second.Request.ID, second.Message, want)
	}
	if ns := w.notifications(approval.NotificationQuery{}); len(ns) != 2 {
		t.Errorf("%d notifications for two recipients", len(ns))
	}
}

func TestRule2_EveryPartOfTheKeyCounts(t *testing.T) {
	w := newWorld(t)
	ids := map[string]bool{w.check(transfer).Request.ID: true}
	for i, change := range []func(*approval.Call){
		func(c *approval.Call) { c.Agent = "other" },
		func(c *approval.Call) { c.Scope = "/work" },
		func(c *approval.Call) { c.Server = "bank" },
		func(c *approval.Call) { c.Tool = "transfer" },
		func(c *approval.Call) { c.Args = call(`{"amount_cents":2000.0,"to":"0xAbC"}`).Args },
	} {
		c := transfer
		change(&c)
		if o := w.expect(c, approval.AnswerPending); ids[o.Request.ID] {
			t.Errorf("change %d joined another call's request", i)
		} else {
			ids[o.Request.ID] = true
		}
	}
}

func TestRule2_EqualCallsAtOnceMakeOneRequest(t *testing.T) {
	w := newWorld(t)
	const n = 64
	var created atomic.Int32
	var ids sync.Map
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			o, err := w.gate.Check(w.ctx, transfer)
			if err != nil {
				t.Error(err)
				return
			}
			ids.Store(o.Request.ID, true)
			if o.Created {
				created.Add(1)
			}
		})
	}
	testkit.Wait(t, "all callers", wg.Wait)
	distinct := 0
	ids.Range(func(any, any) bool { distinct++; return true })
	if created.Load() != 1 || distinct != 1 {
		t.Errorf("%d callers made %d requests, saw %d ids", n, created.Load(), distinct)
	}
	if ns := w.notifications(approval.NotificationQuery{}); len(ns) != 2 {
		t.Errorf("%d notifications for two recipients", len(ns))
	}
}

func TestRule3_IgnoredArgsDoNotCountAndAreMarked(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.IgnoreArgs = []string{"description", "absent"}
		return v
	})
	a := w.check(call(`{"cmd":"ls","description":"list"}`))
	b := w.check(call(`{"cmd":"ls","description":"list the files"}`))
	if a.Request.ID != b.Request.ID {
		t.Error("a rewritten description made another request")
	}
	r := w.request(a.Request.ID)
	if !slices.Equal(r.IgnoredArgs, []string{"description"}) || string(r.Args) != `{"cmd":"ls","description":"list"}` {
		t.Errorf("ignored %q of %s", r.IgnoredArgs, r.Args)
	}
	if c := w.check(call(`{"cmd":"ls -a","description":"list"}`)); c.Request.ID == a.Request.ID {
		t.Error("another command joined")
	}
}

func TestRule4_AnApprovalIsUsedOnce(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	o := w.expect(transfer, approval.AnswerApproved)
	if want := "Approved by hana at 2026-11-21T10:00:00.000Z. Run it now; this approval is used."; o.Message != want {
		t.Errorf("message %q, want %q", o.Message, want)
	}
	next := w.expect(transfer, approval.AnswerPending)
	if next.Request.ID == id || !next.Created {
		t.Error("the used approval still stands in the way")
	}
	if r := w.request(id); r.ConsumedAt.IsZero() || r.Status != approval.Approved {
		t.Errorf("consumed_at %v, status %s", r.ConsumedAt, r.Status)
	}
}

func TestRule4_OfManyConsumersOneGetsThrough(t *testing.T) {
	w := newWorld(t)
	w.mustDecide(w.check(transfer).Request.ID, true, hana, "")
	var through atomic.Int32
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			o, err := w.gate.Check(w.ctx, transfer)
			if err != nil {
				t.Error(err)
			}
			if o.Kind == approval.AnswerApproved {
				through.Add(1)
			}
		})
	}
	testkit.Wait(t, "all callers", wg.Wait)
	if through.Load() != 1 {
		t.Errorf("%d calls got through on one approval", through.Load())
	}
}

func TestRule4_AnUnusedApprovalLapsesAtUseBy(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	if _, err := w.gate.Ack(w.ctx, "bot", []string{id}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(15*time.Minute - time.Millisecond)
	if r := w.request(id); !r.LapsedAt.IsZero() {
		t.Fatal("lapsed a millisecond early")
	}
	w.clock.advance(time.Millisecond)
	if o := w.expect(transfer, approval.AnswerPending); !o.Created {
		t.Error("a lapsed approval was joined")
	}
	r := w.request(id)
	if !r.LapsedAt.Equal(r.UseBy) || r.Status != approval.Approved {
		t.Errorf("lapsed_at %v, use_by %v, status %s", r.LapsedAt, r.UseBy, r.Status)
	}
	feed := w.feed()
	want := `[APPROVAL LAPSED] transfer_credits({"amount_cents":2000,"to":"0xAbC"}): approved by hana at 2026-11-21T10:00:00.000Z but not used within 15 minutes. Ask again if it is still needed.`
	if len(feed) != 1 || feed[0].FeedMessage() != want {
		t.Errorf("an acknowledged approval that lapses must come back into the feed: %v", feed)
	}
}

func TestRule4_ThePolicyInForceIsAppliedFirst(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	w.policy(func(approval.Call) approval.Verdict {
		return approval.Verdict{Action: approval.Deny, Risk: approval.RiskHigh, ReasonCode: "frozen",
			Message: "Transfers are frozen."}
	})
	w.expect(transfer, approval.AnswerDenied)
	if r := w.request(id); !r.ConsumedAt.IsZero() {
		t.Error("a denied call used the approval")
	}
	w.policy(func(approval.Call) approval.Verdict { return quarantine(approval.RiskCritical) })
	o := w.expect(transfer, approval.AnswerPending)
	if !o.Created || o.Request.Risk != approval.RiskCritical {
		t.Error("a riskier call must be asked anew")
	}
	if r := w.request(id); r.Status != approval.Cancelled || r.ResolvedBy != "system:policy" ||
		r.ResolveReason != "policy_changed" {
		t.Errorf("the old approval is %s by %s: %s", r.Status, r.ResolvedBy, r.ResolveReason)
	}
}

func TestRule4_TheNextCardTellsOfTheLastUse(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	w.clock.advance(time.Minute)
	w.expect(transfer, approval.AnswerApproved)
	w.clock.advance(time.Hour)
	next := w.check(transfer).Request
	want := &approval.Use{RequestID: id, ApprovedBy: "hana", ApprovedAt: start, ConsumedAt: start.Add(time.Minute)}
	if got := w.request(next.ID).Previous; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	w.mustDecide(next.ID, false, hana, "")
	w.clock.advance(23 * time.Hour) // more than a day after the use
	if got := w.request(w.check(transfer).Request.ID).Previous; got != nil {
		t.Errorf("a day later the card still tells of %+v", got)
	}
}

func TestRule4_NobodyThereUsesNothing(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if o, err := w.gate.Check(ctx, transfer); err == nil {
		t.Errorf("got %s", o.Kind)
	}
	if r := w.request(id); !r.ConsumedAt.IsZero() {
		t.Error("a caller who was gone used the approval")
	}
}

func TestRule5_OfManyDecidersOneWins(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			_, err := w.decide(id, i%2 == 0, approval.Actor{Kind: approval.Human, Name: fmt.Sprint("p", i), Approver: true}, "")
			switch approval.CodeOf(err) {
			case "":
				won.Add(1)
			case approval.CodeAlreadyResolved:
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	testkit.Wait(t, "all decisions", wg.Wait)
	if won.Load() != 1 || lost.Load() != 63 {
		t.Errorf("%d won, %d were told it was decided", won.Load(), lost.Load())
	}
	if d, r := w.count("hitl_decision"), w.count("decision_refused"); d != 1 || r != 63 {
		t.Errorf("%d decisions and %d refusals on record", d, r)
	}
}

func TestRule5_EachRefusalHasItsAnswerAndItsAuditEvent(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	for _, tt := range []struct {
		name  string
		id    string
		by    approval.Actor
		prep  func()
		code  approval.Code
		words string
	}{
		{"unknown, even for a stranger", "01ARZ3NDEKTSV4RRFFQ69G5FAV", stranger, nil, approval.CodeNotFound,
			"No such request."},
		{"stranger", id, stranger, nil, approval.CodeNotAnApprover, "You may not decide this request."},
		{"admin alone", id, root, nil, approval.CodeNotAnApprover, "You may not decide this request."},
		{"late", id, ken, func() { w.clock.advance(time.Hour) }, approval.CodeExpired,
			"This approval request has expired. Ask again if it is still needed."},
		{"late stranger", id, stranger, nil, approval.CodeNotAnApprover, "You may not decide this request."},
	} {
		if tt.prep != nil {
			tt.prep()
		}
		before := w.count("decision_refused")
		_, err := w.decide(tt.id, true, tt.by, "")
		e, ok := errors.AsType[*approval.Error](err)
		if !ok || e.Code != tt.code || e.Message != tt.words {
			t.Errorf("%s: got %v, want %s %q", tt.name, err, tt.code, tt.words)
		}
		if got := w.count("decision_refused") - before; got != 1 {
			t.Errorf("%s: %d audit events", tt.name, got)
		}
	}
	if r := w.request(id); r.Status != approval.Expired {
		t.Errorf("status %s", r.Status)
	}
	id = w.check(transfer).Request.ID
	w.mustDecide(id, false, hana, "no")
	_, err := w.decide(id, true, ken, "")
	if e, ok := errors.AsType[*approval.Error](err); !ok || e.Code != approval.CodeAlreadyResolved ||
		e.Message != "Already denied by hana (2026-11-21T11:00:00.000Z)." || e.Request == nil {
		t.Errorf("second decider: %v", err)
	}
}

func TestRule5_AReasonIsRequiredWhereTheRuleSaysSo(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskCritical)
		v.RequireReason = true
		return v
	})
	id := w.check(transfer).Request.ID
	_, err := w.decide(id, true, hana, " \n ")
	wantCode(t, err, approval.CodeReasonRequired)
	_, err = w.decide(id, true, hana, strings.Repeat("x", approval.MaxReason+1))
	wantCode(t, err, approval.CodeInvalidParameter)
	if r := w.mustDecide(id, true, hana, " checked with Ken "); r.ResolveReason != "checked with Ken" {
		t.Errorf("reason %q", r.ResolveReason)
	}
}

func TestRule5_AnApprovalCanBeTakenBackUntilItIsUsed(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, ken, "")
	cancel := func(by approval.Actor) error {
		_, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: by, Via: approval.ViaAPI})
		return err
	}
	wantCode(t, cancel(approval.Actor{Kind: approval.Human, Name: "mai", Approver: true}), approval.CodeNotAdmin)
	wantCode(t, cancel(approval.Actor{Kind: approval.Agent, Name: "other"}), approval.CodeNotFound)
	if err := cancel(ken); err != nil {
		t.Fatal(err)
	}
	if r := w.request(id); r.Status != approval.Cancelled || r.ResolvedBy != "ken" {
		t.Errorf("%s by %s", r.Status, r.ResolvedBy)
	}
	if o := w.expect(transfer, approval.AnswerPending); o.Request.ID == id {
		t.Error("the cancelled approval let a call through")
	}
	id = w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	w.expect(transfer, approval.AnswerApproved)
	wantCode(t, cancel(root), approval.CodeAlreadyResolved)
}

func TestRule5_CancelAndConsumeNeverBothWin(t *testing.T) {
	w := newWorld(t)
	for range 30 {
		id := w.check(transfer).Request.ID
		w.mustDecide(id, true, hana, "")
		var used, cancelled atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			o, err := w.gate.Check(w.ctx, transfer)
			if err != nil {
				t.Error(err)
			}
			used.Store(o.Kind == approval.AnswerApproved)
		})
		wg.Go(func() {
			_, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: root, Via: approval.ViaAPI})
			cancelled.Store(err == nil)
		})
		testkit.Wait(t, "both of them", wg.Wait)
		if used.Load() == cancelled.Load() {
			t.Fatalf("used %v, cancelled %v", used.Load(), cancelled.Load())
		}
		if o := w.check(transfer); o.Kind == approval.AnswerPending {
			w.mustDecide(o.Request.ID, false, hana, "")
		}
		w.clock.advance(11 * time.Minute) // past the remembered denial
	}
}

func TestRule6_AtTheDeadlineItIsExpired(t *testing.T) {
	for _, meet := range []struct {
		name string
		do   func(w *world, id string)
	}{
		{"check", func(w *world, _ string) { w.expect(transfer, approval.AnswerPending) }},
		{"decide", func(w *world, id string) {
			_, err := w.decide(id, true, hana, "")
			wantCode(w.t, err, approval.CodeExpired)
		}},
		{"read", func(w *world, id string) { w.request(id) }},
		{"list", func(w *world, _ string) {
			rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Status: approval.Pending})
			if err != nil || len(rs) != 0 {
				w.t.Errorf("pending: %v, %v", rs, err)
			}
		}},
		{"feed", func(w *world, _ string) { w.feed() }},
		{"ack", func(w *world, id string) {
			if a, err := w.gate.Ack(w.ctx, "bot", []string{id}); err != nil || len(a.Acked) != 1 {
				w.t.Errorf("ack: %+v, %v", a, err)
			}
		}},
		{"cancel", func(w *world, id string) {
			_, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: hana, Via: approval.ViaAPI})
			wantCode(w.t, err, approval.CodeExpired)
		}},
		{"heartbeat", func(w *world, _ string) {
			if n, err := w.gate.Expire(w.ctx); err != nil || n != 1 {
				w.t.Errorf("expired %d, %v", n, err)
			}
		}},
	} {
		t.Run(meet.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.check(transfer).Request.ID
			w.clock.advance(time.Hour - time.Millisecond)
			if r := w.request(id); r.Status != approval.Pending {
				t.Fatalf("a millisecond before its deadline it is %s", r.Status)
			}
			w.clock.advance(time.Millisecond)
			meet.do(w, id)
			if n := w.count("hitl_decision:timeout"); n != 1 {
				t.Errorf("%d audit events of the expiry right after", n)
			}
			r := w.request(id)
			if r.Status != approval.Expired || !r.ResolvedAt.Equal(r.ExpiresAt) || r.ResolvedBy != "system:timeout" ||
				r.ResolvedVia != approval.ViaSystem {
				t.Errorf("%s at %v (deadline %v) by %s via %s", r.Status, r.ResolvedAt, r.ExpiresAt, r.ResolvedBy, r.ResolvedVia)
			}
			if n := w.count("hitl_decision:timeout"); n != 1 {
				t.Errorf("%d audit events of one expiry", n)
			}
		})
	}
}

func TestRule6_WaitersAreWokenAtTheDeadline(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Timeout = 30 * time.Millisecond
		return v
	})
	_, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
	w.clock.readAgain(t, 12) // nothing else reads it now: the waiter's timer fires, and its clock stands still
	select {
	case got := <-done:
		t.Fatalf("told %s, %v before the clock said so", got.out.Kind, got.err)
	default:
	}
	w.clock.advance(30 * time.Millisecond)
	got := testkit.Receive(t, "the answer", done)
	if o := got.out; got.err != nil || o.Kind != approval.AnswerExpired ||
		o.Message != `[APPROVAL EXPIRED] transfer_credits({"amount_cents":2000,"to":"0xAbC"}): Timed out after 0 seconds with no response. Ask again if it is still needed.` {
		t.Errorf("%s: %s, %v", o.Kind, o.Message, got.err)
	}
}

func TestRule6_RunKeepsDeadlinesForThoseWhoReadTheFeed(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(w.ctx)
	ran := make(chan struct{})
	go func() { defer close(ran); w.gate.Run(ctx) }()
	defer func() { stop(); testkit.Receive(t, "the end of Run", ran) }()
	w.check(transfer)
	got := make(chan []approval.Request, 1)
	go func() {
		rs, err := w.gate.Resolved(w.ctx, "bot", "", time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- rs
	}()
	w.clock.advance(2 * time.Hour) // a machine that slept: timers did not run, the clock did
	if rs := testkit.Receive(t, "what the feed tells", got); len(rs) != 1 || rs[0].Status != approval.Expired {
		t.Errorf("fed %v", rs)
	}
}

func TestRule6_TimeNeverGoesBackwards(t *testing.T) {
	w := newWorld(t)
	var before, after time.Time
	first := w.check(transfer).Request
	before = w.store.Now()
	w.clock.advance(-time.Hour)
	second := w.check(call(`{"n":1}`)).Request
	after = w.store.Now()
	if after.Before(before) || second.ID <= first.ID {
		t.Errorf("after the clock was set back: %v %s, then %v %s", before, first.ID, after, second.ID)
	}
	if told := first.RequestedAt.Add(-time.Hour); !second.RequestedAt.Equal(told) {
		t.Errorf("told as %v, want %v by the clock as it is now", second.RequestedAt, told)
	}
}

func TestRule7_ARestartLosesNothing(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "restart.db")
	w.open(path, rules{asks, terms})
	pending := w.check(transfer).Request.ID
	other := w.check(call(`{"n":2}`)).Request.ID
	w.mustDecide(other, true, hana, "")
	w.db.Close()
	w.open(path, rules{asks, terms})
	if r := w.request(pending); r.Status != approval.Pending {
		t.Errorf("pending became %s", r.Status)
	}
	if ns := w.notifications(approval.NotificationQuery{Status: approval.Queued}); len(ns) != 2 {
		t.Errorf("%d cards wait to be sent", len(ns))
	}
	if f := w.feed(); len(f) != 1 || f[0].ID != other {
		t.Errorf("feed %v", f)
	}
	w.expect(call(`{"n":2}`), approval.AnswerApproved)
}

func TestRule7_AResolutionStaysInTheFeedUntilAcknowledged(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	pending := w.check(call(`{"n":1}`)).Request.ID
	w.mustDecide(id, false, hana, "wrong account")
	want := `[APPROVAL DENIED] transfer_credits({"amount_cents":2000,"to":"0xAbC"}): denied by hana at 2026-11-21T10:00:00.000Z: wrong account`
	for range 2 {
		if f := w.feed(); len(f) != 1 || f[0].FeedMessage() != want {
			t.Fatalf("feed %v", f)
		}
	}
	for range 2 { // idempotent
		a, err := w.gate.Ack(w.ctx, "bot", []string{id, pending, "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
		if err != nil || !slices.Equal(a.Acked, []string{id}) || !slices.Equal(a.NotResolved, []string{pending}) ||
			len(a.NotFound) != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if f := w.feed(); len(f) != 0 {
		t.Errorf("feed after ack: %v", f)
	}
	if n := w.count("approval_acked"); n != 1 {
		t.Errorf("%d acks on record", n)
	}
	if a, _ := w.gate.Ack(w.ctx, "other", []string{id}); len(a.NotFound) != 1 {
		t.Error("an agent acknowledged another's request")
	}
}

func TestRule7_TheFeedNarrowsToTheSessionsThatAsked(t *testing.T) {
	w := newWorld(t)
	a := transfer
	a.SessionID = "s1"
	id := w.check(a).Request.ID
	a.SessionID = "s2"
	w.check(a) // joins
	w.mustDecide(id, true, hana, "")
	for session, want := range map[string]int{"s1": 1, "s2": 1, "s3": 0, "": 1} {
		rs, err := w.gate.Resolved(w.ctx, "bot", session, 0)
		if err != nil || len(rs) != want {
			t.Errorf("session %q: %d in the feed (%v), want %d", session, len(rs), err, want)
		}
	}
}

func TestRule8_AnAgentCannotDecide(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	for _, by := range []approval.Actor{bot, {Kind: approval.Agent, Name: "bot", Approver: true}, {Kind: approval.System,
		Name: "x", Approver: true}, {}} {
		_, err := w.decide(id, true, by, "")
		wantCode(t, err, approval.CodeNotAnApprover)
	}
	if r := w.request(id); r.Status != approval.Pending {
		t.Errorf("status %s", r.Status)
	}
}

func TestRule8_AnAgentSeesOnlyItsOwn(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	if _, err := w.gate.Request(w.ctx, bot, id); err != nil {
		t.Error(err)
	}
	for _, by := range []approval.Actor{{Kind: approval.Agent, Name: "other"}, stranger, {}} {
		_, err := w.gate.Request(w.ctx, by, id)
		wantCode(t, err, approval.CodeNotFound)
	}
}

func TestRule9_EndingsAreToldApart(t *testing.T) {
	w := newWorld(t)
	args := `transfer_credits({"amount_cents":2000,"to":"0xAbC"})`
	seen := map[string]bool{}
	expectFeed := func(want string) {
		t.Helper()
		f := w.feed()
		if len(f) != 1 || f[0].FeedMessage() != want {
			t.Errorf("feed %q, want %q", f[0].FeedMessage(), want)
		}
		seen[want] = true
		w.gate.Ack(w.ctx, "bot", []string{f[0].ID})
		w.clock.advance(time.Hour) // also past a remembered denial
	}
	at := func() string { return approval.FormatTime(w.clock.Now()) }

	w.mustDecide(w.check(transfer).Request.ID, false, hana, "")
	expectFeed("[APPROVAL DENIED] " + args + ": denied by hana at " + at() + ": no reason given")

	w.check(transfer)
	w.clock.advance(time.Hour)
	expectFeed("[APPROVAL EXPIRED] " + args +
		": Timed out after 60 minutes with no response. Ask again if it is still needed.")

	w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: w.check(transfer).Request.ID, By: bot, Via: approval.ViaAPI})
	expectFeed("[APPROVAL CANCELLED] " + args + ": cancelled by agent:bot at " + at() +
		". Ask again if it is still needed.")

	w.mustDecide(w.check(transfer).Request.ID, true, hana, "")
	expectFeed("[APPROVAL APPROVED] " + args + ": approved by hana at " + at())

	if f := w.feed(); len(f) != 1 || !strings.HasPrefix(f[0].FeedMessage(), "[APPROVAL LAPSED] ") {
		t.Errorf("the unused approval: %v", f)
	}
	if len(seen) != 4 {
		t.Errorf("%d different messages", len(seen))
	}
}

func TestRule9_ADenialAnswersTheSameCallForAWhile(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, false, hana, "wrong account")
	w.clock.advance(10*time.Minute - time.Millisecond)
	o := w.expect(transfer, approval.AnswerDenied)
	if want := "Approval denied by hana: wrong account. The call was not executed; do not repeat it, try a different approach."; o.Message != want || o.Request.ID != id {
		t.Errorf("message %q", o.Message)
	}
	w.clock.advance(time.Millisecond)
	o = w.expect(transfer, approval.AnswerPending)
	w.clock.advance(time.Hour) // this one expires: the denial before it no longer is the newest ending
	terms := terms
	terms.RememberDenial = 10 * time.Hour
	if err := w.gate.SetPolicy(w.ctx, rules{asks, terms}, nil); err != nil {
		t.Fatal(err)
	}
	w.expect(transfer, approval.AnswerPending)
}

func TestRule10_ARequestThatReachedNobodyIsSaidLoudly(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	out := w.outbox
	fail := func() {
		ready, _, err := w.ready(10)
		if err != nil {
			t.Fatal(err)
		}
		n, err := outboxtest.Begin(w.ctx, out, outbox.Attempt{Notification: ready[0].Notification, Body: []byte("{}"),
			Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.NotSent(w.ctx, n[0], outbox.Failure{Final: true, Reason: "bad_recipient"}); err != nil {
			t.Fatal(err)
		}
	}
	fail()
	if s := w.log.String(); s != "" {
		t.Errorf("said with one card still to go: %s", s)
	}
	fail()
	if s := w.log.String(); !strings.Contains(s, "level=ERROR") || !strings.Contains(s, id) ||
		!strings.Contains(s, "countersign approve") {
		t.Errorf("log: %s", s)
	}
}

func TestRule11_TheWholeLifeIsOnRecord(t *testing.T) {
	w := newWorld(t)
	ctx := correlation.With(w.ctx, "turn-7")
	o, err := w.gate.Check(ctx, transfer)
	if err != nil {
		t.Fatal(err)
	}
	w.send()
	w.decide(o.Request.ID, true, stranger, "")
	w.mustDecide(o.Request.ID, true, hana, "fine")
	w.expect(transfer, approval.AnswerApproved)
	want := []string{
		"approval_requested::approval_required",
		"notification_sent", "notification_sent",
		"decision_refused:approve:not_an_approver",
		"hitl_decision:approve:fine",
		"approval_consumed",
	}
	if got := w.trail(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	es, _ := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventApprovalRequested, Limit: 1})
	e := es[0]
	if e.CorrelationID != "turn-7" || e.Actor != "agent:bot" || e.Agent != "bot" || e.Tool != "transfer_credits" ||
		e.Risk != approval.RiskHigh || e.ApprovalID != o.Request.ID {
		t.Errorf("%+v", e)
	}
}

func TestRule11_AllowedCallsAreOnRecordMaskedAndCut(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		return approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow, Rule: "reading"}
	})
	secret := strings.Repeat("s3cr3t", 5)
	w.expect(call(`{"password":"`+secret+`","text":"`+strings.Repeat("x", 5000)+`"}`), approval.AnswerAllow)
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventCallAllowed, Limit: 1})
	if err != nil || len(es) != 1 {
		t.Fatal(es, err)
	}
	data := string(es[0].Data)
	if strings.Contains(data, secret) || !strings.Contains(data, "args_hash") || len(data) > 1400 {
		t.Errorf("%d bytes: %s", len(data), data)
	}
}

// TestRule3_NothingAnAgentSaysIsOnRecordUnmasked: whatever an agent puts into a call, its secrets stand in no audit
// row, nor does what cannot be seen.
func TestRule3_NothingAnAgentSaysIsOnRecordUnmasked(t *testing.T) {
	const hidden = "hunter2hunter2"
	url := "https://u:" + hidden + "@h/\u202e"
	for _, action := range []approval.Action{approval.Allow, approval.Deny, approval.Quarantine} {
		w := newWorld(t)
		w.ctx = correlation.With(w.ctx, "Bearer "+hidden)
		w.policy(func(approval.Call) approval.Verdict {
			return approval.Verdict{Action: action, Risk: approval.RiskLow, Rule: "r", ReasonCode: "c", Message: "m",
				Timeout: time.Hour}
		})
		c := call(`{"url":"` + "https://u:" + hidden + `@h","x":"token=$(` + hidden + `)","https://u:` + hidden + `@h":1}`)
		c.Scope, c.SessionID, c.TurnID, c.Rationale, c.Preview = url, url, url, url, url
		if o := w.check(c); o.Request != nil {
			if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: o.Request.ID,
				By: approval.Actor{Kind: approval.Agent, Name: "bot"}, Via: approval.ViaAPI, Reason: url}); err != nil {
				t.Fatal(err)
			}
		}
		es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Limit: 50})
		if err != nil || len(es) == 0 {
			t.Fatal(es, err)
		}
		for _, e := range es {
			if row := fmt.Sprintf("%+v %s", e, e.Data); strings.Contains(row, hidden) || strings.Contains(row, "\u202e") {
				t.Errorf("%s: %s", action, row)
			}
		}
	}
}

func TestObserveAllowsAndRecordsWhatWouldHaveHappened(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Observe = true
		return v
	})
	w.expect(transfer, approval.AnswerAllow)
	es, _ := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventCallAllowed, Limit: 1})
	if len(es) != 1 || !strings.Contains(string(es[0].Data), `"observed":"quarantine"`) {
		t.Errorf("%s", es[0].Data)
	}
}

func TestMaxPendingHoldsPerAgent(t *testing.T) {
	w := newWorld(t)
	limited := terms
	limited.MaxPending = 2
	if err := w.gate.SetPolicy(w.ctx, rules{asks, limited}, nil); err != nil {
		t.Fatal(err)
	}
	w.check(call(`{"n":1}`))
	w.check(call(`{"n":2}`))
	_, err := w.gate.Check(w.ctx, call(`{"n":3}`))
	wantCode(t, err, approval.CodeTooManyPending)
	w.check(call(`{"n":1}`)) // joining is not asking for more
	other := call(`{"n":3}`)
	other.Agent = "other"
	w.expect(other, approval.AnswerPending)
}
