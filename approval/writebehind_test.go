package approval_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/testkit"
)

// balky is a store whose updates can be held up or fail.
type balky struct {
	approval.Store
	mu      sync.Mutex
	err     error         // of every update, nil for none
	gate    chan struct{} // updates wait until it is closed; nil: they do not
	updates atomic.Int64
}

func (b *balky) set(err error, gate chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.gate = err, gate
}

func (b *balky) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	if err := b.balk(ctx); err != nil {
		return err
	}
	return b.Store.Update(ctx, about, fn)
}

func (b *balky) Record(ctx context.Context, fn func(approval.Tx) error) error {
	if err := b.balk(ctx); err != nil {
		return err
	}
	return b.Store.Record(ctx, fn)
}

func (b *balky) balk(ctx context.Context) error {
	b.updates.Add(1)
	b.mu.Lock()
	err, gate := b.err, b.gate
	b.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return approval.Errorf(approval.CodeStoreUnavailable, "busy")
		}
	}
	return err
}

var errDown = approval.Errorf(approval.CodeStoreUnavailable, "The disk is full.")

// writeBehindWorld allows everything, over a store that can be made to balk.
func writeBehindWorld(t *testing.T) (*world, *balky) {
	w := newWorld(t)
	b := &balky{Store: w.store}
	w.wire(approval.Options{Store: b, Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now, Logger: w.logger()}, bothWays)
	return w, b
}

func (w *world) writeBehind(c approval.Call) approval.Answer {
	w.t.Helper()
	out, err := w.gate.CheckWriteBehind(w.ctx, c)
	if err != nil || out.Kind != approval.AnswerAllow {
		w.t.Fatalf("got %+v, %v", out, err)
	}
	return out
}

func (w *world) flush() {
	w.t.Helper()
	if err := w.gate.Flush(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

func TestWriteBehindAnswersBeforeTheCommit(t *testing.T) {
	w, b := writeBehindWorld(t)
	goOn := make(chan struct{})
	b.set(nil, goOn)
	ctx, cancel := context.WithCancel(approval.WithCorrelation(w.ctx, "corr-1"))
	out, err := w.gate.CheckWriteBehind(ctx, transfer)
	cancel() // who has gone since is on record all the same
	if err != nil || out.Kind != approval.AnswerAllow || out.Message != "Allowed by policy." || out.Rule != "reading" || out.Committed == nil {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := out.Committed(ctx); approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("a waiter who gives up: %v", err)
	}
	if n := w.count("call_allowed"); n != 0 {
		t.Errorf("%d records before the commit", n)
	}
	close(goOn)
	for range 2 {
		if err := out.Committed(w.ctx); err != nil {
			t.Error(err)
		}
	}
	ahead := w.events(approval.EventCallAllowed)
	w.check(transfer)
	plain := w.events(approval.EventCallAllowed)
	if len(ahead) != 1 || len(plain) != 2 || ahead[0].CorrelationID != "corr-1" {
		t.Fatalf("%d records, then %d: %+v", len(ahead), len(plain), ahead)
	}
	a, p := ahead[0], plain[1]
	a.ID, a.Seq, a.At, a.CorrelationID, p.ID, p.Seq = "", 0, p.At, "", "", 0
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", p) {
		t.Errorf("ahead\n%+v, plain\n%+v", a, p)
	}
}

// The record is written whether or not anybody asks for it.
func TestWriteBehindRecordsWithoutBeingAsked(t *testing.T) {
	w, _ := writeBehindWorld(t)
	for range 300 {
		w.writeBehind(transfer)
	}
	w.flush()
	if n := w.count("call_allowed"); n != 300 {
		t.Errorf("%d records, want 300", n)
	}
}

func TestWriteBehindOnlyWhereItIsSafe(t *testing.T) {
	strict := func(v approval.Verdict) approval.Verdict { v.Strict = true; return v }
	observe := func(v approval.Verdict) approval.Verdict { v.Observe = true; return v }
	for _, c := range []struct {
		name  string
		v     approval.Verdict
		call  approval.Call
		word  approval.AnswerKind
		ahead bool
	}{
		{"allowed", allows(approval.Call{}), transfer, approval.AnswerAllow, true},
		{"observed", observe(quarantine(approval.RiskHigh)), transfer, approval.AnswerAllow, true},
		{"strict", strict(allows(approval.Call{})), transfer, approval.AnswerAllow, false},
		{"strict, observed", strict(observe(quarantine(approval.RiskHigh))), transfer, approval.AnswerAllow, false},
		{"quarantined", quarantine(approval.RiskLow), transfer, approval.AnswerPending, false},
		{"denied", approval.Verdict{Action: approval.Deny}, transfer, approval.AnswerDenied, false},
		{"no action", approval.Verdict{}, transfer, approval.AnswerDenied, false},
		{"a tool that is known", allows(approval.Call{}), read(1, `{}`), approval.AnswerAllow, true},
		{"a tool that is not known", allows(approval.Call{}), func() approval.Call { c := read(1, `{}`); c.Tool = "new"; return c }(), approval.AnswerAllow, false},
		{"a changed tool", allows(approval.Call{}), read(2, `{}`), approval.AnswerPending, false},
	} {
		w, _ := writeBehindWorld(t)
		w.writeBehind(read(1, `{"first":1}`))
		w.policy(func(approval.Call) approval.Verdict { return c.v })
		out, err := w.gate.CheckWriteBehind(w.ctx, c.call)
		if err != nil || out.Kind != c.word || (out.Committed != nil) != c.ahead {
			t.Errorf("%s: got %+v, %v, want %s, ahead %t", c.name, out, err, c.word, c.ahead)
		}
		w.flush()
	}
	w, b := writeBehindWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if out, err := w.gate.CheckWriteBehind(ctx, transfer); approval.CodeOf(err) != approval.CodeStoreUnavailable || out.Kind != "" {
		t.Errorf("a caller who has gone: got %+v, %v", out, err)
	}
	before := b.updates.Load()
	_, err := w.gate.CheckWriteBehind(w.ctx, approval.Call{Agent: "bot", Tool: "no tool"})
	if wantCode(t, err, approval.CodeInvalidTool); b.updates.Load() != before {
		t.Error("a call that is not well formed was put on record")
	}
}

// The approval that accepted a tool is used by the call that it was for, also by one that could go ahead.
func TestWriteBehindUsesAnAcceptance(t *testing.T) {
	w, _ := writeBehindWorld(t)
	w.writeBehind(read(1, `{}`))
	id := w.expect(read(2, `{}`), approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	w.expect(read(2, `{"other":1}`), approval.AnswerAllow) // the tool is known now
	out, err := w.gate.CheckWriteBehind(w.ctx, read(2, `{}`))
	if err != nil || out.Kind != approval.AnswerApproved || out.Request.ID != id {
		t.Errorf("got %+v, %v", out, err)
	}
	w.clock.advance(time.Hour)
	if out := w.writeBehind(read(2, `{}`)); out.Committed == nil {
		t.Error("long after the acceptance calls do not go ahead")
	}
	w.flush()
}

func wantDown(err error) error {
	if approval.CodeOf(err) != approval.CodeStoreUnavailable {
		return fmt.Errorf("got %v", err)
	}
	return nil
}

// While the store cannot commit nothing is allowed, whoever it was that met the failure.
func TestWriteBehindStopsWithTheStore(t *testing.T) {
	for name, meet := range map[string]func(w *world) error{
		"a record": func(w *world) error {
			w.writeBehind(transfer)
			return nil
		},
		"a decision": func(w *world) error {
			_, err := w.decide("01ARZ3NDEKTSV4RRFFQ69G5FAV", true, hana, "")
			return wantDown(err)
		},
		"a press": func(w *world) error {
			_, err := w.chat.Interact(w.ctx, chat.Interaction{EventID: "line:1", Channel: "line", From: "U1", By: hana, Intent: chat.IntentPending})
			return wantDown(err)
		},
		"a send": func(w *world) error {
			_, err := w.outbox.Begin(w.ctx, nil)
			return wantDown(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := writeBehindWorld(t)
			b.set(errDown, nil)
			if err := meet(w); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the failure has come back", func() bool {
				_, err := w.gate.CheckWriteBehind(w.ctx, transfer)
				if err == nil && name != "a record" {
					t.Error("a call was allowed after the failure")
				}
				return err != nil
			})
			for range 20 {
				if out, err := w.gate.CheckWriteBehind(w.ctx, transfer); approval.CodeOf(err) != approval.CodeStoreUnavailable {
					t.Errorf("while the store is down: got %+v, %v", out, err)
				}
			}
			b.set(nil, nil)
			if out := w.writeBehind(transfer); out.Committed != nil && name != "a record" {
				t.Error("the first call after a failure did not wait for its record")
			}
			w.flush()
			if out := w.writeBehind(transfer); out.Committed == nil {
				t.Error("calls do not go ahead any more")
			}
			w.flush()
		})
	}
}

// An update that wrote nothing does not show that the store can commit.
func TestWriteBehindWaitsForARealCommit(t *testing.T) {
	w, b := writeBehindWorld(t)
	b.set(errDown, nil)
	if _, err := w.gate.Expire(w.ctx); err == nil {
		t.Fatal("no failure")
	}
	b.set(nil, nil)
	if _, err := w.gate.Expire(w.ctx); err != nil { // there is nothing to end
		t.Fatal(err)
	}
	if out := w.writeBehind(transfer); out.Committed != nil {
		t.Error("went ahead")
	}
}

func TestWriteBehindStopsWhenNothingArrives(t *testing.T) {
	w, b := writeBehindWorld(t)
	goOn := make(chan struct{})
	b.set(nil, goOn)
	first := w.writeBehind(transfer)
	w.clock.advance(500 * time.Millisecond)
	second := w.writeBehind(transfer) // not yet too long
	w.clock.advance(time.Millisecond)
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	if out, err := w.gate.CheckWriteBehind(ctx, transfer); err == nil {
		t.Errorf("got %+v", out)
	}
	close(goOn)
	for _, out := range []approval.Answer{first, second} {
		if err := out.Committed(w.ctx); err != nil {
			t.Error(err)
		}
	}
	w.flush()
	if out := w.writeBehind(transfer); out.Committed == nil {
		t.Error("calls do not go ahead any more")
	}
	w.flush()
}

func TestWriteBehindIsBounded(t *testing.T) {
	w, b := writeBehindWorld(t)
	goOn := make(chan struct{})
	b.set(nil, goOn)
	for range 1024 {
		w.writeBehind(transfer)
	}
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	if out, err := w.gate.CheckWriteBehind(ctx, transfer); err == nil {
		t.Errorf("got %+v", out)
	}
	close(goOn)
	w.flush()
	if n := w.count("call_allowed"); n != 1024 {
		t.Errorf("%d records, want 1024", n)
	}
}

// fails is a store of nothing: each update fails until its time has come.
type fails struct {
	approval.Store
	until time.Time
	err   error
	tries atomic.Int64
}

func (f *fails) Record(ctx context.Context, fn func(approval.Tx) error) error {
	return f.Update(ctx, approval.WholeStore(), fn)
}

func (f *fails) Update(_ context.Context, _ approval.Scope, _ func(approval.Tx) error) error {
	f.tries.Add(1)
	if time.Now().Before(f.until) {
		return f.err
	}
	return nil
}

func (f *fails) Now() time.Time { return time.Now() }

func (f *fails) View(_ context.Context, fn func(approval.Tx) error) error { return fn(nothing{}) }

// nothing is a transaction in which there is nothing.
type nothing struct{ approval.Tx }

func (nothing) Epochs() ([]approval.Epoch, error) { return nil, nil }

// A record is tried for about ten seconds while the store is unavailable, and not at all where that is of no use.
func TestWriteBehindTriesAgain(t *testing.T) {
	boom := errors.New("boom")
	closed := &approval.Error{Code: approval.CodeStoreUnavailable, Message: "The store is closed.", Err: approval.ErrClosed}
	for _, c := range []struct {
		name  string
		down  time.Duration
		err   error
		ok    bool
		least time.Duration
		most  time.Duration
	}{
		{"for a moment", 60 * time.Millisecond, errDown, true, 60 * time.Millisecond, time.Second},
		{"for nine seconds", 9 * time.Second, errDown, true, 9 * time.Second, 10 * time.Second},
		{"for good", time.Hour, errDown, false, 9 * time.Second, 11 * time.Second},
		{"closed", time.Hour, closed, false, 0, 0},
		{"otherwise", time.Hour, boom, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fails{until: time.Now().Add(c.down), err: c.err}
				log := &testkit.Buffer{}
				w := world{log: log}
				g := approval.NewGate(approval.Options{Store: f, Broker: approval.NewBroker(), Policy: rules{allows, terms}, Logger: w.logger()})
				began := time.Now()
				out, err := g.CheckWriteBehind(t.Context(), transfer)
				if err != nil {
					t.Fatal(err)
				}
				err = out.Committed(t.Context())
				if took := time.Since(began); (err == nil) != c.ok || took < c.least || took > c.most {
					t.Errorf("got %v after %v", err, took)
				}
				if told := log.String() != ""; told == c.ok {
					t.Errorf("logged %q", log.String())
				}
				if err := g.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			})
		})
	}
}

// slow is a store of nothing whose commits take a moment.
type slow struct{ fails }

const commitTakes = 100 * time.Microsecond

func (s *slow) Record(ctx context.Context, fn func(approval.Tx) error) error {
	time.Sleep(commitTakes) // bubble: a slow disk
	return s.fails.Record(ctx, fn)
}

// Records of calls that come while others are written go into one commit.
func TestWriteBehindGroupsWhatComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		g := approval.NewGate(approval.Options{Store: s, Broker: approval.NewBroker(), Policy: rules{allows, terms}})
		var waits []func(context.Context) error
		for range 20 {
			out, err := g.CheckWriteBehind(t.Context(), transfer)
			if err != nil || out.Committed == nil {
				t.Fatalf("got %+v, %v", out, err)
			}
			waits = append(waits, out.Committed)
			synctest.Wait()
		}
		began := time.Now()
		for _, wait := range waits {
			if err := wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n, took := s.tries.Load(), time.Since(began); n != 2 || took != 2*commitTakes {
			t.Errorf("%d commits in %v, want 2 in %v", n, took, 2*commitTakes)
		}
	})
}

func TestFlushGivesUp(t *testing.T) {
	w, b := writeBehindWorld(t)
	goOn := make(chan struct{})
	b.set(nil, goOn)
	w.writeBehind(transfer)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if err := w.gate.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(goOn)
	w.flush()
}

// A call that was let ahead under one policy is on record once, as it was decided, whatever policy is in force by then.
func TestWriteBehindIsOnRecordAsDecided(t *testing.T) {
	w, b := writeBehindWorld(t)
	goOn := make(chan struct{})
	b.set(nil, goOn)
	out := w.writeBehind(transfer)
	done := make(chan error)
	go func() { done <- w.gate.SetPolicy(w.ctx, rules{asks, terms}, nil) }()
	close(goOn)
	if err := errors.Join(<-done, out.Committed(w.ctx)); err != nil {
		t.Fatal(err)
	}
	es := w.events(approval.EventCallAllowed)
	if len(es) != 1 || es[0].Reason != "allowed" {
		t.Errorf("got %+v", es)
	}
	if out, err := w.gate.CheckWriteBehind(w.ctx, transfer); err != nil || out.Kind != approval.AnswerPending {
		t.Errorf("got %+v, %v", out, err)
	}
}

func BenchmarkCheckWriteBehind(b *testing.B) {
	w := newWorld(b)
	w.policy(allows)
	c := read(1, `{"path":"/data/report.txt"}`)
	w.check(c)
	b.ReportAllocs()
	for b.Loop() {
		out, err := w.gate.CheckWriteBehind(w.ctx, c)
		if err != nil {
			b.Fatal(err)
		}
		if out.Committed != nil {
			if err := out.Committed(w.ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
}
