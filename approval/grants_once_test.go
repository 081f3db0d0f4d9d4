package approval_test

import (
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
)

// An approval of other args than were asked for is for once only, from the menu of its card too.
func TestGrant_NotAfterAnEdit(t *testing.T) {
	w := grantWorld(t)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	other, err := args.Parse([]byte(`{"amount_cents":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: hana, Via: approval.ViaAPI,
		Args: &other})
	if err != nil || r.Status != approval.Approved {
		t.Fatal(r.Status, err)
	}
	if w.mayGrant(r.ID, hana) {
		t.Error("the menu is offered")
	}
	_, err = w.grantIn(hana, r.ID, approval.GrantWish{For: time.Hour})
	wantCode(t, err, approval.CodeGrantRefused)
}

// A policy that comes into force while somebody decides gives nothing for longer that it would not.
func TestGrant_NotByAPolicyThatComesMeanwhile(t *testing.T) {
	w, judged := newWorld(t), 0
	w.governedBy(&people{}, func(c approval.Call) approval.Verdict {
		v := forLonger(c)
		if judged++; judged > 3 { // as it was asked, voted on, and found to be grantable
			v.Need = &approval.Need{Stages: []approval.Stage{{Count: 2}}}
		}
		return v
	})
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	_, err := w.decideFor(id, true, hana, approval.GrantWish{For: time.Hour})
	wantCode(t, err, approval.CodeGrantRefused)
	if r := w.request(id); r.Status != approval.Pending || w.count("grant_made") != 0 {
		t.Errorf("it is %s", r.Status)
	}
}

// What a freeze ended is not given for longer while it lasts.
func TestGrant_NotWhileFrozen(t *testing.T) {
	w := grantWorld(t)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.expect(transfer, approval.AnswerApproved)
	w.freeze("bot", hana, "")
	if w.mayGrant(id, hana) {
		t.Error("the menu is offered")
	}
	_, err := w.grantIn(hana, id, approval.GrantWish{For: time.Hour})
	wantCode(t, err, approval.CodeGrantRefused)
}

// A grant of whose approved call it is not known what came of it lets nothing through until it is.
func TestGrant_TheApprovedCallsUnknownOutcomeSuspendsIt(t *testing.T) {
	w := grantWorld(t)
	c := transfer
	c.Dispatch = true
	g := w.granted(c, approval.GrantWish{For: time.Hour})
	report := func(ran approval.RunResult) {
		t.Helper()
		if _, err := w.gate.Report(w.ctx, bot, g.RequestID, ran); err != nil {
			t.Fatal(err)
		}
	}
	report(approval.RunUnknown)
	w.expect(c, approval.AnswerPending)
	report(approval.RunFailed)
	w.expect(c, approval.AnswerAllow)
}
