package approval_test

import (
	"context"
	"sync/atomic"
	"testing"

	"countersign/approval"
	"countersign/internal/testkit"
)

// soon is a store that records for those who go on, as far as it is let.
type soon struct {
	balky
	taken atomic.Int64
	full  atomic.Bool
}

func (s *soon) RecordSoon(fn func(approval.Tx) error, done func(error)) bool {
	if s.full.Load() {
		return false
	}
	s.taken.Add(1)
	if err := s.balk(context.Background()); err != nil {
		go done(err)
		return true
	}
	return s.Store.(approval.SoonRecorder).RecordSoon(fn, done)
}

func soonWorld(t *testing.T) (*world, *soon) {
	w := newWorld(t)
	s := &soon{balky: balky{Store: w.store}}
	w.wire(approval.Options{Store: s, Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now, Logger: w.logger()}, bothWays)
	return w, s
}

func TestTheRecordOfACallThatIsAloneIsGivenToTheStoreAtOnce(t *testing.T) {
	w, s := soonWorld(t)
	for range 3 {
		if err := w.writeBehind(transfer).Committed(w.ctx); err != nil {
			t.Fatal(err)
		}
		w.flush()
	}
	if n, taken := w.count("call_allowed"), s.taken.Load(); n != 3 || taken != 3 {
		t.Errorf("%d records, %d of them taken at once, want 3 and 3", n, taken)
	}
	s.full.Store(true)
	if err := w.writeBehind(transfer).Committed(w.ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.count("call_allowed"); n != 4 {
		t.Errorf("%d records, want the one too that the store did not take at once", n)
	}
}

func TestRecordsThatCameWhileOneWasWrittenAreWrittenAfterIt(t *testing.T) {
	w, s := soonWorld(t)
	goOn := make(chan struct{})
	s.Store = held{w.store, goOn}
	for range 5 { // the first is under way; nobody waits for any of them
		w.writeBehind(transfer)
	}
	if n := s.taken.Load(); n != 1 {
		t.Errorf("%d taken at once, want the first", n)
	}
	close(goOn)
	w.flush()
	if n := w.count("call_allowed"); n != 5 {
		t.Errorf("%d records, want 5", n)
	}
}

// held is a store that tells of what it has recorded for others only when it may.
type held struct {
	approval.Store
	goOn chan struct{}
}

func (h held) RecordSoon(fn func(approval.Tx) error, done func(error)) bool {
	return h.Store.(approval.SoonRecorder).RecordSoon(fn, func(err error) {
		go func() { <-h.goOn; done(err) }()
	})
}

// A record that could not be committed is tried again, and until one succeeds no call is allowed before its record.
func TestARecordTheStoreCouldNotCommitAtOnceIsTriedAgain(t *testing.T) {
	w, s := soonWorld(t)
	s.set(errDown, nil)
	out := w.writeBehind(transfer)
	tried := func() bool { return s.updates.Load() > 1 }
	testkit.Eventually(t, "the record to be tried again", tried)
	if _, err := w.gate.CheckWriteBehind(w.ctx, transfer); approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("while the store cannot commit a call was answered: %v", err)
	}
	s.set(nil, nil)
	if err := out.Committed(w.ctx); err != nil {
		t.Error(err)
	}
	w.flush()
	if n := w.count("call_allowed"); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}
