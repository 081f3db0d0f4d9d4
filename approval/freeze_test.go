package approval_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func (w *world) freeze(agent string, by approval.Actor, reason string) approval.Epoch {
	w.t.Helper()
	e, err := w.gate.Freeze(w.ctx, agent, by, approval.ViaAPI, reason)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func of2(c approval.Call, agent string) approval.Call { c.Agent = agent; return c }

const frozenByHana = "Frozen by hana: runaway. Nothing runs until a person lifts it; do not retry."

func TestRule1_AFreezeDeniesEverything(t *testing.T) {
	for _, c := range []struct {
		name   string
		action approval.Action
		change func(*approval.Verdict)
	}{
		{"what is allowed", approval.Allow, func(*approval.Verdict) {}},
		{"what is asked about", approval.Quarantine, func(*approval.Verdict) {}},
		{"what is denied", approval.Deny, func(*approval.Verdict) {}},
		{"in observe mode", approval.Quarantine, func(v *approval.Verdict) { v.Observe = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.policy(func(approval.Call) approval.Verdict {
				v := quarantine(approval.RiskHigh)
				v.Action = c.action
				c.change(&v)
				return v
			})
			w.check(of2(transfer, "other"))
			w.freeze("bot", hana, "runaway.")
			if o := w.check(transfer); o.Kind != approval.AnswerDenied || o.ReasonCode != "frozen" || o.Message != frozenByHana {
				t.Errorf("%s, %s: %s", o.Kind, o.ReasonCode, o.Message)
			}
			if o := w.check(of2(transfer, "other")); o.ReasonCode == "frozen" {
				t.Error("another agent is frozen")
			}
			w.freeze("", hana, "runaway")
			if o := w.check(of2(transfer, "other")); o.ReasonCode != "frozen" {
				t.Error("another agent is not frozen")
			}
			if _, err := w.gate.Unfreeze(w.ctx, "", root, approval.ViaAPI); err != nil {
				t.Fatal(err)
			}
			if o := w.check(transfer); o.ReasonCode != "frozen" {
				t.Error("lifting the freeze of all has lifted that of one")
			}
			if _, err := w.gate.Unfreeze(w.ctx, "bot", root, approval.ViaAPI); err != nil {
				t.Fatal(err)
			}
			if o := w.check(transfer); o.ReasonCode == "frozen" {
				t.Error("it is frozen still")
			}
		})
	}
}

func TestRule1_AFreezeEndsWhatWaitsAndWhatWasApproved(t *testing.T) {
	w := newWorld(t)
	pending := w.expect(call(`{"n":1}`), approval.AnswerPending).Request.ID
	approved := w.expect(call(`{"n":2}`), approval.AnswerPending).Request.ID
	w.mustDecide(approved, true, ken, "")
	used := w.expect(call(`{"n":3}`), approval.AnswerPending).Request.ID
	w.mustDecide(used, true, ken, "")
	w.expect(call(`{"n":3}`), approval.AnswerApproved)
	other := w.expect(of2(transfer, "other"), approval.AnswerPending).Request.ID
	w.clock.advance(time.Minute)
	w.freeze("bot", hana, "runaway")
	w.clock.advance(time.Minute)
	for _, id := range []string{pending, approved} {
		_, err := w.decide(id, true, ken, "") // nobody has swept yet: they count as ended
		wantCode(t, err, approval.CodeAlreadyResolved)
		r := w.request(id)
		if r.Status != approval.Cancelled || r.EndCode != "frozen" || r.ResolvedBy != "hana" ||
			r.ResolveReason != "runaway" ||
			!r.ResolvedAt.Equal(start.Add(time.Minute)) {
			t.Errorf("%s by %s: %s, %s at %s", r.Status, r.ResolvedBy, r.EndCode, r.ResolveReason, r.ResolvedAt)
		}
		if m := r.FeedMessage(); !strings.HasSuffix(m, "cancelled by hana at 2026-11-21T10:01:00.000Z. Do not retry.") {
			t.Error(m)
		}
	}
	if r := w.request(used); r.Status != approval.Approved {
		t.Errorf("what was used is %s", r.Status)
	}
	if r := w.request(other); r.Status != approval.Pending {
		t.Errorf("another agent's is %s", r.Status)
	}
	if _, err := w.gate.Unfreeze(w.ctx, "bot", hana, approval.ViaAPI); err != nil {
		t.Fatal(err)
	}
	if o := w.expect(call(`{"n":2}`), approval.AnswerPending); o.Request.ID == approved {
		t.Error("unfreezing has revived it")
	}
}

func TestRule5_WhoMayFreezeAndLift(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		by           approval.Actor
		freeze, lift approval.Code
	}{
		{hana, "", ""}, {ken, "", approval.CodeNotAdmin}, {root, "", ""},
		{approval.Actor{Kind: approval.Human, Name: "eve"}, approval.CodeNotAnApprover, approval.CodeNotAdmin},
		{bot, approval.CodeNotAnApprover, approval.CodeNotAdmin}, {stranger, approval.CodeNotAnApprover,
			approval.CodeNotAdmin},
		{approval.Actor{}, approval.CodeNotAnApprover, approval.CodeNotAdmin},
	} {
		_, err := w.gate.Freeze(w.ctx, "bot", c.by, approval.ViaAPI, "")
		if got := approval.CodeOf(err); got != c.freeze {
			t.Errorf("%s freezes: %q", c.by, got)
		}
		_, err = w.gate.Unfreeze(w.ctx, "bot", c.by, approval.ViaAPI)
		if got := approval.CodeOf(err); got != c.lift {
			t.Errorf("%s lifts: %q", c.by, got)
		}
	}
	w.freeze("bot", hana, "")
	es, err := lists.ListFrozen(w.ctx, w.gate)
	if err != nil || len(es) != 1 || es[0].Reason != "no reason given" || es[0].Agent != "bot" {
		t.Error(es, err)
	}
}

func TestRule6_WhatComesFirstEndsIt(t *testing.T) {
	w := newWorld(t)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.clock.advance(time.Hour) // its deadline, and nobody has looked
	w.freeze("bot", hana, "")
	if r := w.request(id); r.Status != approval.Expired {
		t.Errorf("it is %s", r.Status)
	}
}

func TestRule7_AFreezeHoldsAfterARestart(t *testing.T) {
	path := schematest.NewFile(t)
	w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: newWorld(t).log}
	w.open(path, rules{asks, terms})
	for i := range 200 {
		w.expect(call(fmt.Sprintf(`{"n":%d}`, i)), approval.AnswerPending)
	}
	w.freeze("bot", hana, "runaway")
	w.reopen(path) // before a row was ended
	if o := w.check(transfer); o.Message != frozenByHana {
		t.Error(o.Message)
	}
	rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Status: approval.Pending, Tool: "other",
		Limit: 100})
	if err != nil || len(rs) != 0 {
		t.Fatal(rs, err)
	}
	n, err := w.gate.EndFrozen(w.ctx)
	if err != nil || n != 200 {
		t.Errorf("%d ended, %v", n, err)
	}
	if rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Status: approval.Pending}); err != nil ||
		len(rs) != 0 {
		t.Errorf("%d wait still, %v", len(rs), err)
	}
	if n := w.count("approval_cancelled::runaway"); n != 200 {
		t.Errorf("%d are on record", n)
	}
}

func TestRule6_WhoWaitsIsToldOfAFreeze(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.gate.Run(ctx) })
	defer testkit.Wait(t, "the end of Run", wg.Wait)
	defer stop()
	_, done := w.wait(w.ctx, approval.WaitOptions{For: time.Minute})
	w.freeze("", ken, "stop")
	got := testkit.Receive(t, "the answer", done)
	if got.err != nil || got.out.Kind != approval.AnswerCancelled || got.out.ReasonCode != "frozen" ||
		!strings.HasSuffix(got.out.Message, "Do not retry.") {
		t.Errorf("%+v, %v", got.out, got.err)
	}
}

// Whatever is frozen and lifted while calls, presses and uses race, nothing runs that was asked for before a freeze.
func TestRule1_AFreezeRaced(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	type use struct{ id string }
	var mu sync.Mutex
	var uses []use
	for a := range 4 {
		c := of2(transfer, fmt.Sprintf("bot%d", a))
		wg.Go(func() {
			for range 30 {
				o, err := w.gate.Check(w.ctx, c)
				if err != nil {
					t.Error(err)
					return
				}
				switch o.Kind {
				case approval.AnswerPending:
					_, _ = w.decide(o.Request.ID, true, ken, "")
				case approval.AnswerApproved:
					mu.Lock()
					uses = append(uses, use{o.Request.ID})
					mu.Unlock()
				}
			}
		})
	}
	wg.Go(func() {
		for range 10 {
			w.freeze("", hana, "stop")
			if _, err := w.gate.Unfreeze(w.ctx, "", hana, approval.ViaAPI); err != nil {
				t.Error(err)
			}
		}
	})
	testkit.Wait(t, "all of them", wg.Wait)
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Ascending: true, Limit: 10000})
	if err != nil {
		t.Fatal(err)
	}
	asked, frozen := map[string]int64{}, int64(0)
	for _, e := range es {
		switch e.Type {
		case approval.EventApprovalRequested:
			asked[e.ApprovalID] = e.Seq
		case approval.EventFrozen:
			frozen = e.Seq
		case approval.EventApprovalConsumed:
			if asked[e.ApprovalID] < frozen {
				t.Errorf("%s was asked for before a freeze and used after it", e.ApprovalID)
			}
		}
	}
}

func TestRule7_AFreezeThatCannotCommitIsAnError(t *testing.T) {
	w := newWorld(t)
	w.db.Close()
	_, err := w.gate.Freeze(w.ctx, "bot", hana, approval.ViaAPI, "")
	wantCode(t, err, approval.CodeStoreUnavailable)
}

func TestRule4_ARestoredBackupLetsNothingThrough(t *testing.T) {
	w := newWorld(t)
	approved := w.expect(transfer, approval.AnswerPending).Request.ID
	w.mustDecide(approved, true, ken, "")
	pending := w.expect(call(`{"n":1}`), approval.AnswerPending).Request.ID
	w.clock.advance(time.Minute)
	if err := w.gate.Restored(w.ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{approved, pending} {
		r := w.request(id)
		if r.Status != approval.Cancelled || r.EndCode != "restored" || r.ResolvedBy != "system:restore" {
			t.Errorf("%s, %s by %s", r.Status, r.EndCode, r.ResolvedBy)
		}
		if !strings.HasSuffix(r.FeedMessage(), "Ask again if it is still needed.") {
			t.Error(r.FeedMessage())
		}
	}
	if o := w.expect(transfer, approval.AnswerPending); o.Request.ID == approved { // nothing is frozen
		t.Error("it is not asked anew")
	}
}

// Frozen alone, in time, and with all the others after its deadline: the first is what has ended it.
func TestRule6_TheFirstOfTwoFreezesEndsIt(t *testing.T) {
	w := newWorld(t)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.clock.advance(time.Minute)
	w.freeze("bot", hana, "first")
	w.clock.advance(2 * time.Hour)
	w.freeze("", ken, "second")
	if r := w.request(id); r.Status != approval.Cancelled || r.ResolvedBy != "hana" {
		t.Errorf("%s by %s", r.Status, r.ResolvedBy)
	}
}
