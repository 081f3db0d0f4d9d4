package approval_test

import (
	"context"
	"testing"
	"time"

	"countersign/approval"
)

// gained are what a policy may ask of an approver by now beside the yes, and an approval that has it.
var gained = map[string]struct {
	asks func(*approval.Verdict)
	has  func(*approval.Decision)
	code approval.Code
}{
	"a second yes": {
		func(v *approval.Verdict) { v.Need = v.Need.Stricter(&approval.Need{Confirm: true}) },
		func(d *approval.Decision) { d.Confirmed = true }, approval.CodeConfirmRequired,
	},
	"a reason": {
		func(v *approval.Verdict) { v.RequireReason = true },
		func(d *approval.Decision) { d.Reason = "It is due." }, approval.CodeReasonRequired,
	},
}

// asksFor returns a policy that needs so many, and something more.
func asksFor(need *approval.Need, more ...func(*approval.Verdict)) func(approval.Call) approval.Verdict {
	return func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Need = need
		for _, ask := range more {
			ask(&v)
		}
		return v
	}
}

func (w *council) approves(id, name string, has ...func(*approval.Decision)) (approval.Request, error) {
	who, _ := w.person(name)
	d := approval.Decision{RequestID: id, Approve: true, By: who, Via: approval.ViaAPI}
	for _, f := range has {
		f(&d)
	}
	return w.gate.Decide(w.ctx, d)
}

// What the policy asks of an approver by the time of the use, the approval was given with; else people are asked anew.
func TestRule4_WhatAnApprovalTakesByNowIsAskedForBeforeTheUse(t *testing.T) {
	for name, more := range gained {
		for _, need := range []*approval.Need{nil, financeTwice} {
			for way, use := range map[string]func(w *council, first approval.Answer) (approval.Answer, error){
				"asked again": func(w *council, _ approval.Answer) (approval.Answer, error) {
					return w.gate.Check(w.ctx, transfer)
				},
				"waited": func(w *council, first approval.Answer) (approval.Answer, error) {
					return w.holdOn(transfer, first, time.Minute)
				},
			} {
				w := newCouncil(t, nil, fHana, fKen)
				w.policy(asksFor(need))
				first := w.expect(transfer, approval.AnswerPending)
				id := first.Request.ID
				w.approve(id, "hana")
				if need != nil {
					w.approve(id, "ken")
				}
				w.policy(asksFor(need, more.asks))
				o, err := use(w, first)
				if err != nil || o.Kind == approval.AnswerApproved || o.Kind == approval.AnswerAllow {
					t.Fatalf("%s, %s: %+v, %v", name, way, o, err)
				}
				if r := w.request(id); r.Status != approval.Cancelled || r.ResolveReason != "policy_changed" ||
					!r.ConsumedAt.IsZero() {
					t.Errorf("%s, %s: %s, %s", name, way, r.Status, r.ResolveReason)
				}
				again := w.expect(transfer, approval.AnswerPending).Request.ID
				_, err = w.approves(again, "hana")
				wantCode(t, err, more.code)
				if _, err = w.approves(again, "hana", more.has); err != nil {
					t.Fatal(err)
				}
				if need != nil {
					if _, err = w.approves(again, "ken", more.has); err != nil {
						t.Fatal(err)
					}
				}
				w.expect(transfer, approval.AnswerApproved)
			}
		}
	}
}

// An approval that was given with it is used, and so is any where the policy has come to allow the call.
func TestRule4_AnApprovalThatHasWhatItTakesByNowIsUsed(t *testing.T) {
	for name, more := range gained {
		w := newCouncil(t, nil, fHana, fKen)
		w.policy(asksFor(financeTwice, more.asks))
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		for _, who := range []string{"hana", "ken"} {
			if _, err := w.approves(id, who, more.has); err != nil {
				t.Fatal(name, err)
			}
		}
		w.policy(asksFor(financeTwice, more.asks))
		if o := w.expect(transfer, approval.AnswerApproved); o.Request.ID != id {
			t.Error(name, "it is another one")
		}
	}
}

// While the request is pending, a vote that was given without it counts no more, and its voter is asked again.
func TestRule4_AVoteWithoutWhatItTakesByNowCountsNoMore(t *testing.T) {
	for name, more := range gained {
		w := newCouncil(t, nil, fHana, fKen)
		w.policy(asksFor(financeTwice))
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		w.approve(id, "hana")
		w.policy(asksFor(financeTwice, more.asks))
		_, err := w.approves(id, "ken")
		wantCode(t, err, more.code)
		if r, err := w.approves(id, "ken", more.has); err != nil || r.Status != approval.Pending {
			t.Fatalf("%s: one vote that counts: %s, %v", name, r.Status, err)
		}
		s, err := w.gate.Standing(context.Background(), id)
		if err != nil || s.Have != 1 || s.Need != 2 || len(s.Votes) != 1 || s.Votes[0].Person != "ken" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if r, err := w.approves(id, "hana", more.has); err != nil || r.Status != approval.Approved {
			t.Fatalf("%s: %s, %v", name, r.Status, err)
		}
		w.expect(transfer, approval.AnswerApproved)
	}
}

func TestRule4_ADecisionWithoutTheReasonThatItTakesByNowIsNotGivenForLonger(t *testing.T) {
	w := newWorld(t)
	w.policy(forLonger)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.policy(func(c approval.Call) approval.Verdict {
		v := forLonger(c)
		v.RequireReason = true
		return v
	})
	_, err := w.grantIn(hana, id, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeGrantRefused)
}
