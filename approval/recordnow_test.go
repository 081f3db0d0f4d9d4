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
)

// recording is a store that balks, and puts events on record without a transaction as far as it is let.
type recording struct {
	balky
	full  bool
	taken int
}

func (s *recording) RecordEvent(e approval.Event) bool {
	if s.full {
		return false
	}
	s.taken++
	return s.Store.(approval.EventRecorder).RecordEvent(e)
}

func recordingWorld(t *testing.T) (*world, *recording) {
	w := newWorld(t)
	s := &recording{balky: balky{Store: w.store}}
	w.wire(approval.Options{Store: approval.NoteFailures(s), Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now,
		Logger: w.logger()}, bothWays)
	return w, s
}

// waysToAsk are all in which one call is answered: those that may write its record behind it, and those that never do.
func waysToAsk(g *approval.Gate) map[string]func(context.Context, approval.Call) (approval.Answer, error) {
	return map[string]func(context.Context, approval.Call) (approval.Answer, error){
		"Check": g.Check, "CheckWriteBehind": g.CheckWriteBehind,
		"CheckWait": func(ctx context.Context, c approval.Call) (approval.Answer, error) {
			return g.CheckWait(ctx, c, approval.WaitOptions{For: time.Minute})
		},
	}
}

func TestRule11_AnAllowedCallIsOnRecordBeforeItIsAnswered(t *testing.T) {
	for name := range waysToAsk(nil) {
		w, s := recordingWorld(t)
		ctx := approval.WithCorrelation(w.ctx, "corr-1")
		out, err := waysToAsk(w.gate)[name](ctx, transfer)
		if err != nil || out.Kind != approval.AnswerAllow || out.Committed != nil || s.taken != 1 || s.updates.Load() != 0 {
			t.Fatalf("%s: got %+v, %v, with %d taken and %d updates", name, out, err, s.taken, s.updates.Load())
		}
		now := w.events(approval.EventCallAllowed)
		s.full = true
		plain, err := w.gate.Check(w.ctx, transfer)
		if err != nil || fmt.Sprint(plain) != fmt.Sprint(out) || s.updates.Load() != 1 {
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

// Whoever does not send the call on is never answered before its record is there: a store that does not take it at once
// commits it first.
func TestRule11_ACheckWritesNoRecordBehind(t *testing.T) {
	w, s := recordingWorld(t)
	s.full = true
	s.set(errDown, nil)
	if out, err := w.gate.Check(w.ctx, transfer); wantDown(err) != nil {
		t.Fatalf("got %+v, %v", out, err)
	}
	s.set(nil, nil)
	out, err := w.gate.Check(w.ctx, transfer)
	if err != nil || out.Kind != approval.AnswerAllow || out.Committed != nil || w.count("call_allowed") != 1 {
		t.Errorf("got %+v, %v", out, err)
	}
}

// Calls of one turn are answered in one transaction, and so is a call of an agent that is frozen, is not configured any
// more, or is judged by a policy that was replaced meanwhile.
func TestRule1_WhatTakesATransactionGetsOne(t *testing.T) {
	w, s := recordingWorld(t)
	if outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{transfer}); err != nil || outs[0].Kind != approval.AnswerAllow {
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

// What the store does not take at once is written behind the call, as by a store that never does.
func TestARecordTheStoreDoesNotTakeAtOnceIsWrittenBehind(t *testing.T) {
	w, s := recordingWorld(t)
	s.full = true
	out := w.writeBehind(transfer)
	if out.Committed == nil {
		t.Fatal("it was put on record")
	}
	if err := out.Committed(w.ctx); err != nil {
		t.Fatal(err)
	}
	s.full = false
	w.writeBehind(transfer)
	if n := w.count("call_allowed"); n != 2 || s.taken != 1 {
		t.Errorf("%d records, %d of them taken at once, want 2 and 1", n, s.taken)
	}
}

// After a failure of the store nothing is taken at once until a commit has succeeded, whoever met the failure.
func TestRule3_NoRecordIsTakenAtOnceAfterAFailure(t *testing.T) {
	w, s := recordingWorld(t)
	s.set(errDown, nil)
	if _, err := w.decide("01ARZ3NDEKTSV4RRFFQ69G5FAV", true, hana, ""); wantDown(err) != nil {
		t.Fatal(err)
	}
	for name, ask := range waysToAsk(w.gate) {
		if _, err := ask(w.ctx, transfer); approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Errorf("%s, while the store is down: %v", name, err)
		}
	}
	s.set(nil, nil)
	if w.check(transfer); s.taken != 0 {
		t.Error("it was taken at once before a commit")
	}
	for name, ask := range waysToAsk(w.gate) {
		before := s.taken
		if _, err := ask(w.ctx, transfer); err != nil || s.taken != before+1 {
			t.Errorf("%s: nothing is taken at once any more: %v", name, err)
		}
	}
}

// between is a store of which something happens after a commit, before its caller is told.
type between struct {
	*recording
	then func()
}

func (s *between) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	err := s.recording.Update(ctx, about, fn)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return err
}

// A commit that was told of after a later one had failed does not say that the store can commit.
func TestRule3_AnEarlierCommitDoesNotHideAFailure(t *testing.T) {
	w, r := recordingWorld(t)
	s := &between{recording: r}
	w.wire(approval.Options{Store: approval.NoteFailures(s), Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now,
		Logger: w.logger()}, bothWays)
	r.full = true
	s.then = func() {
		r.set(errDown, nil)
		if _, err := w.gate.Check(w.ctx, transfer); wantDown(err) != nil {
			t.Error(err)
		}
		r.set(nil, nil)
	}
	w.check(transfer)
	r.full = false
	if w.check(transfer); r.taken != 0 {
		t.Error("it was taken at once after a failure")
	}
	if w.check(transfer); r.taken != 1 {
		t.Error("nothing is taken at once after a commit")
	}
}

// A strict rule and a tool that is not known keep their commit.
func TestNoRecordIsTakenAtOnceWhereACommitIsPromised(t *testing.T) {
	for name := range waysToAsk(nil) {
		w, s := recordingWorld(t)
		ask := waysToAsk(w.gate)[name]
		w.policy(func(c approval.Call) approval.Verdict { v := allows(c); v.Strict = true; return v })
		_, err := ask(w.ctx, transfer)
		w.policy(allows)
		_, other := ask(w.ctx, read(1, `{}`))
		if err != nil || other != nil || s.taken != 0 || w.count("call_allowed") != 2 {
			t.Errorf("%s: %v, %v, %d were taken at once", name, err, other, s.taken)
		}
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
	w.wire(approval.Options{Store: approval.NoteFailures(s), Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now,
		Logger: w.logger()}, bothWays)
	lift := func(agent string) {
		t.Helper()
		if _, err := w.gate.Unfreeze(w.ctx, agent, hana, approval.ViaAPI); err != nil {
			t.Fatal(err)
		}
	}
	call := func(want approval.AnswerKind) {
		t.Helper()
		if out, err := w.gate.CheckWriteBehind(w.ctx, transfer); err != nil || out.Kind != want {
			t.Fatalf("%s, %v, want %s", out.Kind, err, want)
		}
	}
	for _, agent := range []string{transfer.Agent, ""} {
		w.freeze(agent, hana, "stop")
		call(approval.AnswerDenied)
		call(approval.AnswerDenied)
		lift(agent)
		call(approval.AnswerAllow)
		views, updates := s.views.Load(), s.updates.Load()
		for range 3 {
			call(approval.AnswerAllow)
		}
		if v, u := s.views.Load()-views, s.updates.Load()-updates; v != 0 || u != 0 {
			t.Errorf("three allowed calls read the store %d times and changed it %d times", v, u)
		}
	}
	broken := errors.New("broken")
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		if _, refusal, err := w.gate.In(w.ctx, tx).Freezes().Freeze("", hana, approval.ViaAPI, "stop"); err != nil || refusal != nil {
			t.Fatal(err, refusal)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	call(approval.AnswerAllow)
	w.freeze("", hana, "stop")
	s.set(broken, nil) // a store that cannot write is read
	if denied, err := w.gate.DeniedByFreeze(w.ctx, transfer.Agent); err != nil || denied == "" {
		t.Errorf("%q, %v", denied, err)
	}
	s.set(nil, nil)
	call(approval.AnswerDenied)
}
