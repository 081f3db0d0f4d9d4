package approval_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/correlation"
)

var errDown = approval.Errorf(approval.CodeStoreUnavailable, "The disk is full.")

func wantDown(err error) error {
	if approval.CodeOf(err) != approval.CodeStoreUnavailable {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

// recording is a store that puts events on record without a transaction as far as it is let.
type recording struct {
	approval.Store
	full           bool
	err            error // of every update, nil for none
	taken, updates int
}

func (s *recording) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	if s.updates++; s.err != nil {
		return s.err
	}
	return s.Store.Update(ctx, about, fn)
}

func (s *recording) RecordAllowed(c approval.AllowedCall, e approval.Event) bool {
	if s.full || !s.Store.(approval.EventRecorder).RecordAllowed(c, e) {
		return false
	}
	s.taken++
	return true
}

func recordingWorld(t *testing.T) (*world, *recording) {
	w := newWorld(t)
	s := &recording{Store: w.store}
	w.wire(approval.Options{Store: s, Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now,
		Logger: w.logger()}, bothWays)
	return w, s
}

// waysToAsk are all in which one call is answered.
func waysToAsk(g *approval.Gate) map[string]func(context.Context, approval.Call) (approval.Answer, error) {
	return map[string]func(context.Context, approval.Call) (approval.Answer, error){
		"Check": g.Check,
		"CheckWait": func(ctx context.Context, c approval.Call) (approval.Answer, error) {
			return g.CheckWait(ctx, c, approval.WaitOptions{For: time.Minute})
		},
	}
}

func TestRule11_AnAllowedCallIsOnRecordBeforeItIsAnswered(t *testing.T) {
	for name := range waysToAsk(nil) {
		w, s := recordingWorld(t)
		ctx := correlation.With(w.ctx, "corr-1")
		out, err := waysToAsk(w.gate)[name](ctx, transfer)
		if err != nil || out.Kind != approval.AnswerAllow || s.taken != 1 || s.updates != 0 {
			t.Fatalf("%s: got %+v, %v, with %d taken and %d updates", name, out, err, s.taken, s.updates)
		}
		now := w.events(approval.EventCallAllowed)
		s.full = true
		plain, err := w.gate.Check(w.ctx, transfer)
		if err != nil || fmt.Sprint(plain) != fmt.Sprint(out) || s.updates != 1 {
			t.Errorf("%s: answered with %+v, and in a transaction with %+v, %v", name, out, plain, err)
		}
		both := w.events(approval.EventCallAllowed)
		if len(now) != 1 || len(both) != 2 || now[0].CorrelationID != "corr-1" {
			t.Fatalf("%s: %d records, then %d: %+v", name, len(now), len(both), now)
		}
		a, p := now[0], both[1]
		a.ID, a.Seq, a.At, a.CorrelationID = p.ID, p.Seq, p.At, p.CorrelationID
		if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", p) {
			t.Errorf("%s: the record is\n%+v, in a transaction\n%+v", name, a, p)
		}
	}
}

// What the store does not take at once is committed first: nobody is answered before it is there.
func TestRule11_ARecordThatIsNotTakenAtOnceIsCommittedFirst(t *testing.T) {
	for name := range waysToAsk(nil) {
		w, s := recordingWorld(t)
		ask := waysToAsk(w.gate)[name]
		s.full = true
		s.err = errDown
		if out, err := ask(w.ctx, transfer); wantDown(err) != nil || out.Kind != "" || w.count("call_allowed") != 0 {
			t.Errorf("%s, while the store is down: got %+v, %v", name, out, err)
		}
		s.err = nil
		out, err := ask(w.ctx, transfer)
		if err != nil || out.Kind != approval.AnswerAllow || s.taken != 0 || w.count("call_allowed") != 1 {
			t.Errorf("%s: got %+v, %v", name, out, err)
		}
	}
}

// Calls of one turn are answered in one transaction, and so is a call of an agent that is frozen, is not configured any
// more, or is judged by a policy that was replaced meanwhile.
func TestRule1_WhatTakesATransactionGetsOne(t *testing.T) {
	w, s := recordingWorld(t)
	if outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{transfer}); err != nil ||
		outs[0].Kind != approval.AnswerAllow {
		t.Fatalf("got %+v, %v", outs, err)
	}
	var replace sync.Once
	w.policy(func(c approval.Call) approval.Verdict {
		replace.Do(func() { w.policy(asks) })
		return allows(c)
	})
	if out, err := w.gate.Check(w.ctx, transfer); err != nil || out.Kind != approval.AnswerPending {
		t.Errorf("judged by a policy that was replaced: %+v, %v", out, err)
	}
	w.policy(allows)
	if _, err := w.gate.Freeze(w.ctx, "bot", hana, approval.ViaAPI, "stop"); err != nil {
		t.Fatal(err)
	}
	if out, err := w.gate.Check(w.ctx, transfer); err != nil || out.Kind != approval.AnswerDenied || !out.Frozen() {
		t.Errorf("frozen: %+v, %v", out, err)
	}
	if s.taken != 0 {
		t.Errorf("%d records were taken at once", s.taken)
	}
}

// A strict rule keeps its commit, and so does what only a transaction can answer.
func TestARecordIsTakenAtOnceOnlyWhereItIsSafe(t *testing.T) {
	strict := func(v approval.Verdict) approval.Verdict { v.Strict = true; return v }
	observe := func(v approval.Verdict) approval.Verdict { v.Observe = true; return v }
	unknown := read(1, `{}`)
	unknown.Tool = "new"
	for _, c := range []struct {
		name string
		v    approval.Verdict
		call approval.Call
		want approval.AnswerKind
		once int
	}{
		{"allowed", allows(approval.Call{}), transfer, approval.AnswerAllow, 1},
		{"observed", observe(quarantine(approval.RiskHigh)), transfer, approval.AnswerAllow, 1},
		{"strict", strict(allows(approval.Call{})), transfer, approval.AnswerAllow, 0},
		{"strict, observed", strict(observe(quarantine(approval.RiskHigh))), transfer, approval.AnswerAllow, 0},
		{"quarantined", quarantine(approval.RiskLow), transfer, approval.AnswerPending, 0},
		{"denied", approval.Verdict{Action: approval.Deny}, transfer, approval.AnswerDenied, 0},
		{"no action", approval.Verdict{}, transfer, approval.AnswerDenied, 0},
		{"a tool that is known", allows(approval.Call{}), read(1, `{}`), approval.AnswerAllow, 1},
		{"a tool that is not known", allows(approval.Call{}), unknown, approval.AnswerAllow, 0},
		{"a changed tool", allows(approval.Call{}), read(2, `{}`), approval.AnswerPending, 0},
	} {
		w, s := recordingWorld(t)
		w.expect(read(1, `{"first":1}`), approval.AnswerAllow)
		w.policy(func(approval.Call) approval.Verdict { return c.v })
		out, err := w.gate.Check(w.ctx, c.call)
		if err != nil || out.Kind != c.want || s.taken != c.once {
			t.Errorf("%s: got %s, %v, and %d were taken at once; want %s and %d", c.name, out.Kind, err, s.taken, c.want, c.once)
		}
	}
}

func TestACallerWhoHasGoneIsAllowedNothing(t *testing.T) {
	w, s := recordingWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	out, err := w.gate.Check(ctx, transfer)
	if wantDown(err) != nil || out.Kind != "" || s.taken != 0 || w.count("call_allowed") != 0 {
		t.Errorf("got %+v, %v", out, err)
	}
}

// The approval that accepted a tool is used by the call that it was for, also by one that needs no transaction.
func TestAnAllowedCallUsesAnAcceptance(t *testing.T) {
	w, s := recordingWorld(t)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	id := w.expect(read(2, `{}`), approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.expect(read(2, `{"other":1}`), approval.AnswerAllow) // the tool is known now
	if out := w.expect(read(2, `{}`), approval.AnswerApproved); out.Request.ID != id {
		t.Errorf("got %+v", out)
	}
	w.clock.advance(time.Hour)
	if w.expect(read(2, `{}`), approval.AnswerAllow); s.taken != 1 {
		t.Errorf("long after the acceptance %d were taken at once, want 1", s.taken)
	}
}

// looking is a store that counts how often it is read.
type looking struct {
	*recording
	views atomic.Int64
}

func (s *looking) View(ctx context.Context, fn func(approval.Tx) error) error {
	s.views.Add(1)
	return s.Store.View(ctx, fn)
}

// How an agent stands that was frozen once is not read again for each of its calls, and a freeze holds at once all the
// same, whoever makes it and whether or not another could not be committed before.
func TestRule1_AFreezeHoldsAtOnceForWhoWasFrozenBefore(t *testing.T) {
	w, r := recordingWorld(t)
	s := &looking{recording: r}
	w.wire(approval.Options{Store: s, Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now,
		Logger: w.logger()}, bothWays)
	lift := func(agent string) {
		t.Helper()
		if _, err := w.gate.Unfreeze(w.ctx, agent, hana, approval.ViaAPI); err != nil {
			t.Fatal(err)
		}
	}
	call := func(want approval.AnswerKind) {
		t.Helper()
		if out, err := w.gate.Check(w.ctx, transfer); err != nil || out.Kind != want {
			t.Fatalf("%s, %v, want %s", out.Kind, err, want)
		}
	}
	for _, agent := range []string{transfer.Agent, ""} {
		w.freeze(agent, hana, "stop")
		call(approval.AnswerDenied)
		call(approval.AnswerDenied)
		lift(agent)
		call(approval.AnswerAllow)
		views, updates := s.views.Load(), s.updates
		for range 3 {
			call(approval.AnswerAllow)
		}
		if v, u := s.views.Load()-views, s.updates-updates; v != 0 || u != 0 {
			t.Errorf("three allowed calls read the store %d times and changed it %d times", v, u)
		}
	}
	broken := errors.New("broken")
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		if _, refusal, err := w.gate.In(w.ctx, tx).Freezes().Freeze("", hana, approval.ViaAPI, "stop"); err != nil ||
			refusal != nil {
			t.Fatal(err, refusal)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	call(approval.AnswerAllow)
	w.freeze("", hana, "stop")
	s.err = broken // a store that cannot write is read
	if denied, err := w.gate.DeniedByFreeze(w.ctx, transfer.Agent); err != nil || denied == "" {
		t.Errorf("%q, %v", denied, err)
	}
	s.err = nil
	call(approval.AnswerDenied)
}

func BenchmarkCheckAllowed(b *testing.B) {
	w := newWorld(b)
	w.policy(allows)
	c := read(1, `{"path":"/data/report.txt"}`)
	w.check(c)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.gate.Check(w.ctx, c); err != nil {
			b.Fatal(err)
		}
	}
}
