package approval_test

import (
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/lists"
)

// grantIn gives a decision for longer after it was made.
func (w *world) grantIn(by approval.Actor, id string, wish approval.GrantWish) (approval.Grant, error) {
	return approval.Update(w.ctx, w.store, approval.WholeStore(), func(tx approval.Tx) (approval.Grant, error) {
		return w.gate.In(w.ctx, tx).Grants().Make(by, approval.Via("line"), id, wish)
	})
}

func (w *world) mayGrant(id string, by approval.Actor) bool {
	w.t.Helper()
	may, err := approval.View(w.ctx, w.store, func(tx approval.Tx) (bool, error) {
		r, err := tx.Request(id)
		if err != nil {
			return false, err
		}
		return w.gate.In(w.ctx, tx).Grants().May(r, by)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return may
}

func TestGrant_AfterTheDecision(t *testing.T) {
	w := newWorld(t)
	w.governedBy(&people{}, forLonger)
	o := w.expect(transfer, approval.AnswerPending)
	id := o.Request.ID
	if !w.mayGrant(id, hana) || w.mayGrant(id, root) {
		t.Error("who may vote could give it for longer, and nobody else")
	}
	_, err := w.grantIn(ken, id, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeGrantRefused) // nobody has decided
	w.mustDecide(id, true, ken, "")
	for _, who := range []approval.Actor{hana, root, stranger, bot} {
		_, err := w.grantIn(who, id, approval.GrantWish{Uses: 1})
		wantCode(t, err, approval.CodeNotAnApprover)
		if w.mayGrant(id, who) {
			t.Errorf("%s could give ken's decision for longer", who)
		}
	}
	_, err = w.grantIn(ken, id, approval.GrantWish{})
	wantCode(t, err, approval.CodeInvalidParameter)
	_, err = w.grantIn(ken, "01ARZ3NDEKTSV4RRFFQ69G5FAV", approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeNotFound)
	w.expect(transfer, approval.AnswerApproved)
	w.clock.advance(15*time.Minute - time.Millisecond)
	if !w.mayGrant(id, ken) {
		t.Error("whoever decided it may not give it for longer")
	}
	first, err := w.grantIn(ken, id, approval.GrantWish{For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.grantIn(ken, id, approval.GrantWish{Uses: 1}) // which takes its place
	if err != nil {
		t.Fatal(err)
	}
	w.ended(first.ID, "replaced", "ken")
	if o := w.expect(transfer, approval.AnswerAllow); o.Grant.ID != second.ID ||
		o.Message != "Allowed: ken approved this for 24 hours (0 uses left)." {
		t.Error(o.Message)
	}
	w.clock.advance(time.Millisecond)
	_, err = w.grantIn(ken, id, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeGrantRefused)
}

func TestGrant_AfterTheDecisionAsThePolicyIsNow(t *testing.T) {
	w, p := newWorld(t), &people{}
	w.governedBy(p, forLonger)
	o := w.expect(transfer, approval.AnswerPending)
	w.mustDecide(o.Request.ID, true, ken, "")
	w.policy(asks)
	_, err := w.grantIn(ken, o.Request.ID, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeGrantRefused)
	w.policy(forLonger)
	p.mere = []string{"ken"}
	_, err = w.grantIn(ken, o.Request.ID, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeNotAnApprover)
	if w.count("grant_made") != 0 {
		t.Error("a grant was made")
	}
}

// What ended otherwise than by a person's plain word cannot be given for longer.
func TestGrant_OfNoPlainDecision(t *testing.T) {
	w := grantWorld(t)
	edited := w.expect(transfer, approval.AnswerPending).Request.ID
	other, err := args.Parse([]byte(`{"amount_cents":1}`))
	if err != nil {
		t.Fatal(err)
	}
	d := approval.Decision{RequestID: edited, Approve: true, By: hana, Via: approval.ViaAPI, Args: &other,
		Grant: &approval.GrantWish{Uses: 1}}
	_, err = w.gate.Decide(w.ctx, d)
	wantCode(t, err, approval.CodeGrantRefused)
	if r := w.request(edited); r.Status != approval.Pending {
		t.Fatalf("it is %s", r.Status)
	}
	d.Grant = nil
	if _, err := w.gate.Decide(w.ctx, d); err != nil {
		t.Fatal(err)
	}
	_, err = w.grantIn(hana, edited, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeGrantRefused)
	late := w.expect(call(`{"n":1}`), approval.AnswerPending).Request.ID
	w.clock.advance(time.Hour)
	_, err = w.grantIn(hana, late, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeNotAnApprover)
}

// A vote that is not the last gives nothing for longer, and is not given.
func TestGrant_WithAVoteThatIsNotTheLast(t *testing.T) {
	w := grantWorld(t)
	w.policy(func(approval.Call) approval.Verdict {
		v := longer(approval.GrantTerms{})
		v.Need = &approval.Need{Stages: []approval.Stage{{Count: 2}}}
		return v
	})
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	_, err := w.decideFor(id, true, hana, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeGrantRefused)
	w.mustDecide(id, true, hana, "")
	_, err = w.decideFor(id, true, ken, approval.GrantWish{Uses: 1})
	wantCode(t, err, approval.CodeGrantRefused)
	if r := w.request(id); r.Status != approval.Pending || len(r.Votes) != 1 {
		t.Errorf("%s with %d votes", r.Status, len(r.Votes))
	}
	// A denial is one person's word, and may stand.
	if _, err := w.decideFor(id, false, ken, approval.GrantWish{Uses: 1}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	w.expect(transfer, approval.AnswerDenied)
	w.expect(transfer, approval.AnswerPending)
}

// Who stands in makes a grant in another's name, as long as they stand in.
func TestGrant_ByWhoStandsIn(t *testing.T) {
	w := newWorld(t)
	p := &people{groups: map[string][]string{"hana": {"finance"}}}
	w.governedBy(p, func(approval.Call) approval.Verdict {
		v := longer(approval.GrantTerms{})
		v.Need = &approval.Need{Stages: []approval.Stage{{Group: "finance", Count: 1}}}
		return v
	})
	if _, err := w.gate.Delegate(w.ctx, approval.Delegation{Delegator: "hana", Delegate: "ken",
		Until: start.Add(time.Hour)},
		hana, approval.ViaAPI); err != nil {
		t.Fatal(err)
	}
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	if _, err := w.decideFor(id, true, ken, approval.GrantWish{For: 2 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	w.expect(transfer, approval.AnswerApproved)
	if o := w.expect(transfer, approval.AnswerAllow); o.Message != "Allowed: ken for hana approved this for 2 hours." ||
		o.Grant.Who != "ken for hana" {
		t.Errorf("%s, %s", o.Message, o.Grant.Who)
	}
	w.clock.advance(time.Hour)
	w.expect(transfer, approval.AnswerPending)
	w.ended(w.grantOf(id).ID, "maker_changed", "system:policy")
}

func TestGrant_WhoRevokesIt(t *testing.T) {
	w := newWorld(t)
	w.governedBy(&people{}, forLonger)
	made := func() approval.Grant {
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		if _, err := w.decideFor(id, true, ken, approval.GrantWish{For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w.expect(transfer, approval.AnswerApproved)
		return w.grantOf(id)
	}
	for _, who := range []approval.Actor{ken, hana, root} {
		g := made()
		for _, other := range []approval.Actor{bot, stranger, {}} {
			_, err := w.gate.Revoke(w.ctx, other, approval.ViaAPI, g.ID)
			wantCode(t, err, approval.CodeNotAdmin)
		}
		wantCode(t, w.gate.Lift(w.ctx, who, approval.ViaAPI, g.ID), approval.CodeNotFound) // it is no denial
		if got, err := w.gate.Revoke(w.ctx, who, approval.ViaAPI, g.ID); err != nil || got.EndCode != "revoked" ||
			got.EndedBy != who.Name {
			t.Errorf("%+v, %v", got, err)
		}
		_, err := w.gate.Revoke(w.ctx, who, approval.ViaAPI, g.ID)
		wantCode(t, err, approval.CodeAlreadyResolved)
		o := w.expect(transfer, approval.AnswerPending)
		if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: o.Request.ID, By: bot,
			Via: approval.ViaAPI}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.gate.Revoke(w.ctx, hana, approval.ViaAPI, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	wantCode(t, err, approval.CodeNotFound)
}

// Lifting forgets a denial, whether it is remembered, stands, or both, by either id.
func TestGrant_Lift(t *testing.T) {
	w := newWorld(t)
	w.governedBy(&people{}, asks)
	denied := func(wish *approval.GrantWish) string {
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		d := approval.Decision{RequestID: id, By: ken, Via: approval.ViaAPI, Grant: wish}
		if _, err := w.gate.Decide(w.ctx, d); err != nil {
			t.Fatal(err)
		}
		w.expect(transfer, approval.AnswerDenied)
		return id
	}
	remembered := denied(nil)
	wantCode(t, w.gate.Lift(w.ctx, bot, approval.ViaAPI, remembered), approval.CodeNotAdmin)
	if err := w.gate.Lift(w.ctx, ken, approval.ViaAPI, remembered); err != nil {
		t.Fatal(err)
	}
	wantCode(t, w.gate.Lift(w.ctx, ken, approval.ViaAPI, remembered), approval.CodeAlreadyResolved)
	standing := denied(&approval.GrantWish{For: time.Hour})
	if err := w.gate.Lift(w.ctx, hana, approval.ViaAPI, w.grantOf(standing).ID); err != nil {
		t.Fatal(err)
	}
	w.ended(w.grantOf(standing).ID, "lifted", "hana")
	byRequest := denied(&approval.GrantWish{For: time.Hour})
	if err := w.gate.Lift(w.ctx, root, approval.ViaAPI, byRequest); err != nil {
		t.Fatal(err)
	}
	pending := w.expect(transfer, approval.AnswerPending)
	wantCode(t, w.gate.Lift(w.ctx, root, approval.ViaAPI, pending.Request.ID), approval.CodeNotFound)
	if n := w.count("denial_lifted"); n != 3 {
		t.Errorf("%d are on record", n)
	}
}

// A standing denial wins over a grant, outlives a freeze, and answers whatever the rule ignores by then.
func TestGrant_ADenialBesideAGrant(t *testing.T) {
	w := newWorld(t)
	memo := approval.GrantTerms{Vary: map[string]approval.Vary{"memo": {Any: true}}}
	w.policy(func(approval.Call) approval.Verdict { return longer(memo) })
	no := call(`{"to":"a","memo":"no"}`)
	waits := w.expect(no, approval.AnswerPending).Request.ID
	w.granted(call(`{"to":"a","memo":"yes"}`), approval.GrantWish{For: 3 * time.Hour})
	if _, err := w.decideFor(waits, false, ken, approval.GrantWish{For: 2 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	w.expect(no, approval.AnswerDenied)
	w.expect(call(`{"to":"a","memo":"other"}`), approval.AnswerAllow)
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskCritical)
		v.IgnoreArgs = []string{"to"}
		return v
	})
	w.freeze("bot", hana, "stop")
	w.unfreeze("bot")
	w.expect(no, approval.AnswerDenied)
	w.clock.advance(time.Hour)
	w.expect(no, approval.AnswerPending)
}

// A card says what a person said last of the same tool, within a day.
func TestCardSaysWhatWasSaidBefore(t *testing.T) {
	w := newWorld(t)
	first := w.expect(transfer, approval.AnswerPending)
	if first.Request.Before != nil {
		t.Errorf("something was said before: %+v", first.Request.Before)
	}
	w.mustDecide(first.Request.ID, false, hana, "wrong account")
	decided := w.clock.Now()
	w.clock.advance(2 * time.Minute)
	o := w.expect(call(`{"amount_cents":2000,"to":"0xDeF"}`), approval.AnswerPending)
	want := approval.Said{RequestID: first.Request.ID, By: "hana", At: decided, Reason: "wrong account"}
	r := w.request(o.Request.ID)
	if b := r.Before; b == nil || b.RequestID != want.RequestID || b.Approved || b.By != want.By || !b.At.Equal(want.At) ||
		b.Reason != want.Reason || b.Args != nil {
		t.Errorf("said before: %+v, want %+v", r.Before, want)
	}
	if err := w.store.View(w.ctx, func(tx approval.Tx) error { return lists.WithBefore(tx, &r) }); err != nil ||
		string(r.Before.Args) != string(transfer.Args.Canonical()) {
		t.Errorf("its args: %s, %v", r.Before.Args, err)
	}
	other := call(`{}`)
	other.Tool = "other"
	if o := w.expect(other, approval.AnswerPending); o.Request.Before != nil {
		t.Error("something was said before of another tool")
	}
	w.clock.advance(24*time.Hour - 2*time.Minute)
	if o := w.expect(call(`{"n":1}`), approval.AnswerPending); o.Request.Before != nil {
		t.Error("what was said a day ago is told")
	}
}
