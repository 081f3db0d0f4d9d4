package approval_test

import (
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
