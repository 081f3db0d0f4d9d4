package approval_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

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

func TestRule11_AnAllowedCallIsOnRecordBeforeItIsAnswered(t *testing.T) {
	w, s := recordingWorld(t)
	ctx := approval.WithCorrelation(w.ctx, "corr-1")
	out, err := w.gate.CheckWriteBehind(ctx, transfer)
	if err != nil || out.Kind != approval.AnswerAllow || out.Committed != nil || s.taken != 1 || s.updates.Load() != 0 {
		t.Fatalf("got %+v, %v, with %d taken and %d updates", out, err, s.taken, s.updates.Load())
	}
	now := w.events(approval.EventCallAllowed)
	w.check(transfer)
	plain := w.events(approval.EventCallAllowed)
	if len(now) != 1 || len(plain) != 2 || now[0].CorrelationID != "corr-1" {
		t.Fatalf("%d records, then %d: %+v", len(now), len(plain), now)
	}
	a, p := now[0], plain[1]
	a.ID, a.Seq, a.At, a.CorrelationID = p.ID, p.Seq, p.At, p.CorrelationID
	if string(a.Data) != string(p.Data) {
		t.Errorf("it has %s, want %s", a.Data, p.Data)
	}
	a.Data, p.Data = nil, nil
	if a.Type != p.Type || a.Tool != p.Tool || a.Actor != p.Actor || a.Risk != p.Risk || a.Decision != p.Decision || a.Reason != p.Reason {
		t.Errorf("it is %+v, want %+v", a, p)
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
	for range 3 {
		if _, err := w.gate.CheckWriteBehind(w.ctx, transfer); approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Errorf("while the store is down: %v", err)
		}
	}
	s.set(nil, nil)
	if w.writeBehind(transfer); s.taken != 0 {
		t.Error("it was taken at once before a commit")
	}
	if w.writeBehind(transfer); s.taken != 1 {
		t.Error("nothing is taken at once any more")
	}
}

// A strict rule, an agent that is frozen and a tool that is not known keep their commit.
func TestNoRecordIsTakenAtOnceWhereACommitIsPromised(t *testing.T) {
	w, s := recordingWorld(t)
	w.policy(func(c approval.Call) approval.Verdict { v := allows(c); v.Strict = true; return v })
	w.writeBehind(transfer)
	w.policy(allows)
	w.writeBehind(read(1, `{}`))
	if s.taken != 0 {
		t.Errorf("%d were taken at once", s.taken)
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
	err := w.store.Update(w.ctx, func(tx approval.Tx) error {
		if _, refusal, err := w.gate.FreezeIn(w.ctx, tx, "", hana, approval.ViaAPI, "stop"); err != nil || refusal != nil {
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
