package approval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

type waited struct {
	out approval.Answer
	err error
}

// wait starts a waiting check and returns once it waits.
func (w *world) wait(ctx context.Context, o approval.WaitOptions) (id string, done chan waited) {
	w.t.Helper()
	id = w.check(transfer).Request.ID
	before := w.gate.Broker().Waiting(id)
	done = make(chan waited, 1)
	go func() {
		out, err := w.gate.CheckWait(ctx, transfer, o)
		done <- waited{out, err}
	}()
	testkit.Eventually(w.t, "the call waits", func() bool { return w.gate.Broker().Waiting(id) != before })
	return id, done
}

func TestAWaitingCallIsLetThroughByTheApproval(t *testing.T) {
	w := newWorld(t)
	id, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
	w.mustDecide(id, true, hana, "")
	if got := testkit.Receive(t, "an answer", done); got.err != nil || got.out.Kind != approval.AnswerApproved {
		t.Errorf("%+v", got)
	}
	if r := w.request(id); r.ConsumedAt.IsZero() {
		t.Error("the approval was not used")
	}
}

// Whoever waits gets ready while an approval is committed. Where that comes to nothing, they wait on.
func TestAnApprovalThatIsNotStoredLetsNobodyThrough(t *testing.T) {
	w := newWorld(t)
	id, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
	w.gate.Broker().BeforeCommit(approval.Commit{Events: []approval.Event{
		{Type: approval.EventDecision, ApprovalID: id, Decision: "approve"}}})
	if r := w.request(id); r.Status != approval.Pending {
		t.Errorf("the request is %s", r.Status)
	}
	w.mustDecide(id, true, hana, "")
	got := testkit.Receive(t, "the approval's answer", done)
	if got.err != nil || got.out.Kind != approval.AnswerApproved || got.out.Request.ConsumedAt.IsZero() {
		t.Errorf("%+v", got) // one that came before the decision has used nothing
	}
}

func TestAWaitingCallHearsOfEachEnding(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(w *world, id string)
		word approval.AnswerKind
		code string
	}{
		{"denied", func(w *world, id string) { w.mustDecide(id, false, hana, "no") }, approval.AnswerDenied,
			"approval_required"},
		{"cancelled", func(w *world, id string) {
			w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: root, Via: approval.ViaAPI})
		}, approval.AnswerCancelled, "approval_required"},
		{"expired", func(w *world, _ string) { w.clock.advance(time.Hour); w.gate.Expire(w.ctx) }, approval.AnswerExpired,
			"approval_required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			id, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
			tt.end(w, id)
			got := testkit.Receive(t, "the answer", done)
			if got.err != nil || got.out.Kind != tt.word || got.out.ReasonCode != tt.code {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestOfTwoWhoWaitedOneIsLetThrough(t *testing.T) {
	w := newWorld(t)
	id, a := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
	_, b := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
	w.mustDecide(id, true, hana, "")
	first, second := testkit.Receive(t, "the answer", a), testkit.Receive(t, "the answer", b)
	if first.out.Kind != approval.AnswerApproved {
		first, second = second, first
	}
	if first.out.Kind != approval.AnswerApproved || second.out.Kind != approval.AnswerDenied ||
		second.out.ReasonCode != "already_used" {
		t.Errorf("%+v and %+v", first, second)
	}
	if want := "by an identical call that was let through instead of this one"; !strings.Contains(second.out.Message,
		want) {
		t.Errorf("got %q, want %q in it", second.out.Message, want)
	}
}

// Who names the request that it waits for is told how that one ended, however late, and people are asked nothing new.
func TestRule4_WhoGoesOnWaitingForARequestMakesNoOther(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(w *world, id string)
		kind approval.AnswerKind
		code string
	}{
		{"approved", func(w *world, id string) { w.mustDecide(id, true, hana, "") }, approval.AnswerApproved,
			"approval_required"},
		{"used by another", func(w *world, id string) {
			w.mustDecide(id, true, hana, "")
			w.expect(transfer, approval.AnswerApproved)
		}, approval.AnswerDenied, "already_used"},
		{"denied", func(w *world, id string) { w.mustDecide(id, false, hana, "no") }, approval.AnswerDenied,
			"approval_required"},
		{"cancelled", func(w *world, id string) {
			w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: root, Via: approval.ViaAPI})
		}, approval.AnswerCancelled, "approval_required"},
		{"expired", func(w *world, _ string) { w.clock.advance(time.Hour) }, approval.AnswerExpired, "approval_required"},
		{"lapsed", func(w *world, id string) {
			w.mustDecide(id, true, hana, "")
			w.clock.advance(time.Hour)
		}, approval.AnswerLapsed, "approval_required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.check(transfer).Request.ID
			tt.end(w, id)
			out, err := w.gate.CheckWait(w.ctx, transfer, approval.WaitOptions{For: time.Minute, Request: id})
			if err != nil || out.Kind != tt.kind || out.ReasonCode != tt.code || out.Request.ID != id {
				t.Errorf("%+v, %v", out, err)
			}
			if n := w.count("approval_requested"); n != 1 {
				t.Errorf("%d requests were made", n)
			}
		})
	}
}

func TestRule4_NobodyWaitsForTheRequestOfAnotherCall(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	w.mustDecide(id, true, hana, "")
	for name, tt := range map[string]struct {
		as   func(c *approval.Call)
		code approval.Code
	}{
		"other args":    {func(c *approval.Call) { *c = call(`{"amount_cents":1}`) }, approval.CodeInvalidParameter},
		"another scope": {func(c *approval.Call) { c.Scope = "/elsewhere" }, approval.CodeInvalidParameter},
		"another tool":  {func(c *approval.Call) { c.Tool = "pay" }, approval.CodeInvalidParameter},
		"another agent": {func(c *approval.Call) { c.Agent = "other" }, approval.CodeNotFound},
		"no tool":       {func(c *approval.Call) { c.Tool = "" }, approval.CodeInvalidTool},
	} {
		c := transfer
		tt.as(&c)
		out, err := w.gate.CheckWait(w.ctx, c, approval.WaitOptions{For: time.Minute, Request: id})
		if approval.CodeOf(err) != tt.code {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	if r := w.request(id); r.Status != approval.Approved || !r.ConsumedAt.IsZero() {
		t.Errorf("the approval is %s, used %s", r.Status, r.ConsumedAt)
	}
}

// An edit is for who takes the arguments from the answer, and for nobody else who names its request.
func TestRule4_AnEditIsNotWaitedForByWhoTakesNone(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, fMei)
	first := w.expect(transfer, approval.AnswerPending)
	next, err := w.edit(first.Request.ID, "hana", less)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.gate.CheckWait(w.ctx, transfer, approval.WaitOptions{For: time.Minute, Request: next.ID})
	if approval.CodeOf(err) != approval.CodeInvalidParameter {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestWhenTimeIsUpTheFirstAnswerStands(t *testing.T) {
	w := newWorld(t)
	out, err := w.gate.CheckWait(w.ctx, transfer, approval.WaitOptions{For: time.Millisecond})
	if err != nil || out.Kind != approval.AnswerPending || !out.Created || out.Message != "⏳ Approval requested (id: "+
		out.Request.ID+"). A person must confirm this." {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = w.gate.CheckWait(w.ctx, transfer, approval.WaitOptions{For: time.Millisecond})
	if err != nil || out.Created || out.Message != "⏳ Approval pending (id: "+out.Request.ID+
		"). Waiting for human confirmation." {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRule4_AWaiterWhoIsGoneUsesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	id, done := w.wait(ctx, approval.WaitOptions{For: time.Minute})
	cancel()
	if got := testkit.Receive(t, "an answer", done); got.err == nil {
		t.Errorf("%+v", got)
	}
	w.mustDecide(id, true, hana, "")
	if r := w.request(id); !r.ConsumedAt.IsZero() {
		t.Error("the approval was used for nobody")
	}
}

func TestRule4_AWaitersTokenAndPolicyAreLookedAtAgain(t *testing.T) {
	t.Run("token", func(t *testing.T) {
		w := newWorld(t)
		revoked := approval.Errorf(approval.CodeUnauthorized, "The token is no longer good.")
		id, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute, Still: func() error { return revoked }})
		w.mustDecide(id, true, hana, "")
		if got := testkit.Receive(t, "the answer", done); !errors.Is(got.err, revoked) {
			t.Errorf("%+v", got)
		}
		if r := w.request(id); !r.ConsumedAt.IsZero() {
			t.Error("a revoked token used the approval")
		}
	})
	for _, tt := range []struct {
		name   string
		policy func(approval.Call) approval.Verdict
		word   approval.AnswerKind
		status approval.Status
	}{
		{"deny", func(approval.Call) approval.Verdict {
			return approval.Verdict{Action: approval.Deny, Risk: approval.RiskHigh, ReasonCode: "frozen", Message: "Frozen."}
		}, approval.AnswerDenied, approval.Approved},
		{"riskier", func(approval.Call) approval.Verdict { return quarantine(approval.RiskCritical) },
			approval.AnswerCancelled, approval.Cancelled},
		{"other args count now", func(approval.Call) approval.Verdict {
			v := quarantine(approval.RiskHigh)
			v.IgnoreArgs = []string{"to"}
			return v
		}, approval.AnswerCancelled, approval.Cancelled},
		{"allow", func(approval.Call) approval.Verdict {
			return approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow}
		}, approval.AnswerApproved, approval.Approved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			id, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
			w.policy(tt.policy)
			w.mustDecide(id, true, hana, "")
			if got := testkit.Receive(t, "an answer", done); got.err != nil || got.out.Kind != tt.word {
				t.Errorf("%+v", got)
			}
			if r := w.request(id); r.Status != tt.status || (tt.word == approval.AnswerApproved) == r.ConsumedAt.IsZero() {
				t.Errorf("%s, consumed %v", r.Status, r.ConsumedAt)
			}
		})
	}
}

func TestAFeedReaderIsWokenByTheResolution(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	got := make(chan []approval.Request, 1)
	go func() {
		rs, err := w.gate.Resolved(w.ctx, "bot", "", time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- rs
	}()
	w.mustDecide(id, true, hana, "")
	if rs := testkit.Receive(t, "what the feed tells", got); len(rs) != 1 || rs[0].ID != id {
		t.Errorf("%v", rs)
	}
}

func TestWaitingForOneRequestUsesNothing(t *testing.T) {
	w := newWorld(t)
	id := w.check(transfer).Request.ID
	done := make(chan approval.Request, 1)
	go func() {
		r, err := w.gate.WaitRequest(w.ctx, bot, id, time.Minute)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	w.mustDecide(id, true, hana, "")
	if r := testkit.Receive(t, "the answer", done); r.Status != approval.Approved || !r.ConsumedAt.IsZero() {
		t.Errorf("%s, consumed %v", r.Status, r.ConsumedAt)
	}
}
