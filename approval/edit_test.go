package approval_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
)

func (w *council) edit(id, name, raw string) (approval.Request, error) {
	w.t.Helper()
	a, err := args.Parse([]byte(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	p, _ := w.person(name)
	return w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: p, Via: approval.ViaAPI, Args: &a})
}

const less = `{"amount_cents":500,"to":"0xAbC"}`

func TestRule3_AnEditCoversExactlyTheNewArgs(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	next, err := w.edit(id, "hana", less)
	if err != nil {
		t.Fatal(err)
	}
	if next.Status != approval.Approved || next.Replaces != id || string(next.Args) != less || len(next.Ballots()) != 1 {
		t.Fatalf("%+v", next)
	}
	old := w.status(id, approval.Denied)
	if old.EndCode != "edited" || old.ReplacedBy != next.ID || old.ResolvedBy != "hana" {
		t.Fatalf("%+v", old)
	}
	o := w.expect(transfer, approval.AnswerDenied)
	want := "Not as asked. hana approved these arguments instead: " + less + ". Call again with exactly them."
	if o.Message != want || o.ReasonCode != "edited" {
		t.Errorf("%s: %s", o.ReasonCode, o.Message)
	}
	if o := w.expect(call(less), approval.AnswerApproved); o.Request.ID != next.ID || o.Args != nil {
		t.Errorf("%+v", o)
	}
	w.expect(call(less), approval.AnswerPending) // once
	w.expect(transfer, approval.AnswerPending)   // nothing is left of the edit
}

func TestRule4_WhoAcceptsEditsIsLetThroughWithTheNewArgsOnce(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, fMei)
	c := transfer
	c.AcceptsEdits = true
	id := w.expect(c, approval.AnswerPending).Request.ID
	next, err := w.edit(id, "hana", less)
	if err != nil || next.Status != approval.Pending {
		t.Fatal(next.Status, err) // two people are needed
	}
	if o := w.expect(c, approval.AnswerPending); o.Request.ID != next.ID {
		t.Error("it does not wait for the new one")
	}
	if o := w.expect(transfer, approval.AnswerDenied); !strings.HasPrefix(o.Message, "Not as asked. hana proposes") {
		t.Error(o.Message)
	}
	w.approve(next.ID, "ken")
	o := w.expect(c, approval.AnswerApproved)
	if string(o.Args) != less || o.Request.ID != next.ID || !strings.Contains(o.Message,
		"hana and ken changed the arguments") {
		t.Errorf("%s with %s", o.Message, o.Args)
	}
	w.expect(c, approval.AnswerPending) // asked anew
}

func TestRule4_WhoWaitsIsLetThroughWithTheNewArgs(t *testing.T) {
	w := newCouncil(t, nil, fHana)
	c := transfer
	c.AcceptsEdits = true
	first := w.expect(c, approval.AnswerPending)
	if _, err := w.edit(first.Request.ID, "hana", less); err != nil {
		t.Fatal(err)
	}
	o, err := w.holdOn(c, first, time.Minute)
	if err != nil || o.Kind != approval.AnswerApproved || string(o.Args) != less {
		t.Fatalf("%+v, %v", o, err)
	}
	o, err = w.holdOn(c, first, time.Minute) // the other one who waited
	if err != nil || o.Kind != approval.AnswerDenied {
		t.Fatalf("%+v, %v", o, err)
	}
}

func TestRule1_AnEditIsJudgedAgain(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen)
	w.policy(func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		if strings.Contains(string(c.Args.Canonical()), "evil") {
			v.Action, v.ReasonCode, v.Message = approval.Deny, "forbidden", "No."
		}
		if strings.Contains(string(c.Args.Canonical()), "two") {
			v.Need = financeTwice
		}
		return v
	})
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	_, err := w.edit(id, "hana", `{"to":"evil"}`)
	wantCode(t, err, approval.CodePolicyDenied)
	w.status(id, approval.Pending)
	next, err := w.edit(id, "hana", `{"to":"two"}`)
	if err != nil || next.Status != approval.Pending || len(next.Votes) != 1 {
		t.Fatal(next, err)
	}
	_, err = w.edit(id, "ken", less)
	wantCode(t, err, approval.CodeAlreadyResolved)
}

func TestRule2_AnEditJoinsALiveRequest(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	live := w.expect(call(less), approval.AnswerPending).Request.ID
	w.approve(live, "ken")
	next, err := w.edit(id, "hana", less)
	if err != nil || next.ID != live || next.Status != approval.Approved || next.WhoEnded() != "ken and hana" {
		t.Fatal(next, err)
	}
	w.expect(call(less), approval.AnswerApproved)
}

func TestRule5_WhoMayNotDecideMayNotEdit(t *testing.T) {
	w := newCouncil(t, thenSecurity, fHana, fKen, sAbe, nobodys)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	for name, want := range map[string]approval.Code{
		"joe": approval.CodeNotAnApprover, "abe": approval.CodeNotYourStage, "root": approval.CodeNotAnApprover,
	} {
		_, err := w.edit(id, name, less)
		wantCode(t, err, want)
	}
	w.approve(id, "hana")
	next, err := w.edit(id, "hana", string(transfer.Args.Canonical()))
	wantCode(t, err, approval.CodeAlreadyVoted) // the same args are a plain approval
	_ = next
	if next, err = w.edit(id, "ken", less); err != nil || len(next.Votes) != 1 || next.Votes[0].Person != "ken" {
		t.Fatal(next, err) // old votes do not carry over
	}
}

type schemas struct{}

func (schemas) CheckArgs(_ context.Context, _, _ string, canonical []byte) string {
	if strings.Contains(string(canonical), "amount_cents") {
		return ""
	}
	return "amount_cents is missing."
}

func TestAnEditIsCheckedAgainstTheToolsSchema(t *testing.T) {
	w := newWorld(t)
	w.wire(approval.Options{Store: w.store, Broker: w.gate.Broker(), Policy: rules{asks, terms}, Schemas: schemas{}},
		bothWays)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	a, _ := args.Parse([]byte(`{"to":"x"}`))
	_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: hana, Via: approval.ViaAPI,
		Args: &a})
	wantCode(t, err, approval.CodeInvalidArgs)
	if r := w.request(id); r.Status != approval.Pending {
		t.Errorf("it is %s", r.Status)
	}
}

func TestAnEditByWhoStandsInSaysForWhom(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, nobodys)
	w.delegate("hana", "joe", time.Hour)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	next, err := w.edit(id, "joe", less)
	if err != nil || next.Votes[0].Voter() != "joe for hana" {
		t.Fatalf("%+v, %v", next.Votes, err)
	}
	if got := w.request(id).WhoEnded(); got != "joe for hana" {
		t.Errorf("the one in its place was put forward by %s", got)
	}
	if o := w.expect(transfer, approval.AnswerDenied); !strings.HasPrefix(o.Message,
		"Not as asked. joe for hana proposes") {
		t.Error(o.Message)
	}
}

// The people who must agree to an edit get one card of it each, whether they are of the stage that the editor's vote
// leaves open or of the one that it opens.
func TestRule2_AnEditIsPushedOnceToWhomItIsUpTo(t *testing.T) {
	for name, need := range map[string]*approval.Need{
		"of the same stage": financeTwice, "of the next stage": stages(of("finance", 1), of("security", 1)),
	} {
		w := newCouncil(t, need, fHana, fKen, sAbe)
		first := w.expect(transfer, approval.AnswerPending)
		next, err := w.edit(first.Request.ID, "hana", less)
		if err != nil || next.Status != approval.Pending {
			t.Fatal(next.Status, err)
		}
		pushed := map[string]int{}
		for _, n := range w.notifications(approval.NotificationQuery{ApprovalID: next.ID, Kind: approval.KindRequest}) {
			pushed[n.Channel+" "+n.Recipient]++
		}
		if len(pushed) == 0 {
			t.Errorf("%s: nobody is asked", name)
		}
		for to, n := range pushed {
			if n != 1 {
				t.Errorf("%s: %s got %d cards", name, to, n)
			}
		}
	}
}
