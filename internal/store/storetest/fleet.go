package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
)

// fleet is several stores of the same rows as one: each transaction runs on the next of them.
type fleet struct {
	stores []Store
	nth    atomic.Uint64
}

func (f *fleet) next() Store { return f.stores[f.nth.Add(1)%uint64(len(f.stores))] }

// Update has the next one be of another millisecond: within one, the ids of two stores are in no order.
func (f *fleet) Update(ctx context.Context, about approval.Scope, fn func(tx approval.Tx) error) error {
	defer time.Sleep(2 * time.Millisecond)
	return f.next().Update(ctx, about, fn)
}

func (f *fleet) View(ctx context.Context, fn func(tx approval.Tx) error) error {
	return f.next().View(ctx, fn)
}
func (f *fleet) AcceptClock(ctx context.Context) error { return f.next().AcceptClock(ctx) }
func (f *fleet) Now() time.Time                        { return f.next().Now() }
func (f *fleet) Off() time.Duration                    { return f.next().Off() }
func (f *fleet) ToWall(t time.Time) time.Time          { return f.next().ToWall(t) }
func (f *fleet) FromWall(t time.Time) time.Time        { return f.next().FromWall(t) }
func (f *fleet) SignIns(tx approval.Tx) signin.Tx      { return f.stores[0].SignIns(tx) }
func (f *fleet) Passkeys(tx approval.Tx) passkey.Tx    { return f.stores[0].Passkeys(tx) }

// RecordAllowed is of stores that are recorders.
func (f *fleet) RecordAllowed(c approval.AllowedCall, e approval.Event) bool {
	return f.next().(approval.EventRecorder).RecordAllowed(c, e)
}

// ofOne are the parts of the contract that one program's ids alone keep.
var ofOne = []string{"NowIDsAndSeqNeverGoBack"}

// ofFleets is the contract of several stores of the same rows.
var ofFleets = []struct {
	name string
	f    func(t *testing.T, stores []Store)
}{
	{"FreezeAgainstCreates", freezeAgainstCreates},
	{"FreezeAgainstRecords", freezeAgainstRecords},
	{"NumberingIsCommitOrder", numberingIsCommitOrder},
	{"NowNeverGoesBack", nowNeverGoesBack},
}

// RunFleet tests stores of the same rows, which are empty: what [Run] tests, with each transaction on another one, and
// what they owe each other.
func RunFleet(t *testing.T, open func(t *testing.T) []Store) {
	for _, c := range contract {
		if !slices.Contains(ofOne, c.name) {
			t.Run(c.name, func(t *testing.T) { c.f(t, &fleet{stores: open(t)}) })
		}
	}
	for _, c := range besides {
		t.Run(c.name, func(t *testing.T) { c.f(t, &fleet{stores: open(t)}) })
	}
	for _, c := range ofFleets {
		t.Run(c.name, func(t *testing.T) { c.f(t, open(t)) })
	}
}

// A request that is made while its agent is frozen elsewhere has an id before the freeze's, by which it is over: none
// is made after.
func freezeAgainstCreates(t *testing.T, stores []Store) {
	var frozen atomic.Pointer[approval.Epoch]
	var makers, begun sync.WaitGroup
	for i := range 16 {
		begun.Add(1)
		makers.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for n := 0; ; n++ {
				after := frozen.Load() != nil
				made := false
				err := stores[i%len(stores)].Update(t.Context(), approval.OfAgent("bot"), func(tx approval.Tx) error {
					e, err := tx.Epoch("bot")
					if made = err == nil && !e.Frozen; !made {
						return err
					}
					return tx.InsertRequest(newRequest(tx, "bot", fmt.Sprint("tool", i, "-", n)))
				})
				if err != nil || made && after {
					t.Errorf("made %t after the freeze: %v", made, err)
					return
				}
				if !made {
					return
				}
				first()
			}
		})
	}
	var e approval.Epoch
	begun.Wait() // each has made one, and makes more
	update(t, stores[len(stores)-1], func(tx approval.Tx) error {
		e = approval.Epoch{Agent: "bot", ID: tx.NewID(), Frozen: true, FrozenAt: tx.Now(), FrozenBy: "hana"}
		return tx.PutEpoch(e)
	})
	frozen.Store(&e)
	makers.Wait()
	view(t, stores[0], func(tx approval.Tx) error {
		late, err := tx.Requests(approval.RequestQuery{From: e.ID})
		all, allErr := tx.Requests(approval.RequestQuery{})
		if len(late) > 0 || len(all) == 0 {
			t.Errorf("%d of %d requests have an id after that of the freeze", len(late), len(all))
		}
		return errors.Join(err, allErr)
	})
}

// An allowed call that is recorded while its agent is frozen elsewhere stands before the freeze in the audit log, and
// none is recorded once the freeze is committed.
func freezeAgainstRecords(t *testing.T, stores []Store) {
	var frozen atomic.Bool
	var callers, begun sync.WaitGroup
	for i := range 16 {
		begun.Add(1)
		recorder := stores[i%len(stores)].(approval.EventRecorder)
		callers.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for refused := 0; refused < 3; {
				after := frozen.Load()
				recorded := recorder.RecordAllowed(approval.AllowedCall{Agent: "bot"},
					approval.Event{Type: approval.EventCallAllowed, Agent: "bot"})
				if recorded && after {
					t.Error("a call is recorded after the freeze")
				}
				switch {
				case recorded:
					first()
				case after:
					refused++
				}
			}
		})
	}
	begun.Wait() // each has recorded one, and records more
	update(t, stores[len(stores)-1], func(tx approval.Tx) error {
		e := approval.Epoch{Agent: "bot", ID: tx.NewID(), Frozen: true, FrozenAt: tx.Now(), FrozenBy: "hana"}
		return errors.Join(tx.PutEpoch(e), second(tx.Append(approval.Event{Type: approval.EventFrozen, Agent: "bot"})))
	})
	frozen.Store(true)
	callers.Wait()
	view(t, stores[0], func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{})
		if len(es) < 2 || es[0].Type != approval.EventFrozen {
			t.Errorf("of %d events the last is %+v", len(es), es[0])
		}
		return err
	})
}

// numbered is what one reader has read of the audit log, while others write.
type numbered struct{ ids []string }

// read reads on, and fails where there is something that was not there when a later one was.
func (n *numbered) read(t *testing.T, s Store) {
	view(t, s, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		for i, e := range es {
			switch {
			case e.Seq != int64(i+1):
				t.Errorf("event %d has the seq %d", i+1, e.Seq)
			case i < len(n.ids) && n.ids[i] != e.ID:
				t.Errorf("the event with the seq %d was %s, and is %s", e.Seq, n.ids[i], e.ID)
			}
		}
		if len(es) < len(n.ids) {
			t.Errorf("%d events are gone", len(n.ids)-len(es))
		}
		n.ids = ids(es)
		return err
	})
}

// Events are numbered without holes, in the order of their commits, and whoever reads sees the same ones under the same
// numbers, whichever store is asked.
func numberingIsCommitOrder(t *testing.T, stores []Store) {
	const writers, each = 12, 20
	var writing, reading sync.WaitGroup
	written := make(chan struct{})
	readers := make([]numbered, len(stores))
	for i, s := range stores {
		reading.Go(func() {
			for done := false; !done; {
				select {
				case <-written:
					done = true
				default:
				}
				readers[i].read(t, s)
			}
		})
	}
	for i := range writers {
		writing.Go(func() {
			agent := fmt.Sprint("bot", i%4)
			for n := range each {
				err := stores[(i+n)%len(stores)].Update(t.Context(), approval.OfAgent(agent), func(tx approval.Tx) error {
					for range 1 + n%3 {
						if _, err := tx.Append(approval.Event{Type: approval.EventCallDenied, Agent: agent}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(written)
	reading.Wait()
	want := 0
	for n := range each {
		want += writers * (1 + n%3)
	}
	for i := range readers {
		readers[i].read(t, stores[i])
		if len(readers[i].ids) != want || !reflect.DeepEqual(readers[i].ids, readers[0].ids) {
			t.Errorf("store %d has %d events, want %d, the same as the first", i, len(readers[i].ids), want)
		}
	}
	inOrder(t, stores[0])
}

// inOrder: of an agent, whose transactions come one after another, no event is of an earlier time than the one before.
func inOrder(t *testing.T, s Store) {
	view(t, s, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		last := map[string]time.Time{}
		for _, e := range es {
			if e.At.Before(last[e.Agent]) {
				t.Errorf("%+v is of before %v", e, last[e.Agent])
			}
			last[e.Agent] = e.At
		}
		return err
	})
}

// The time of what is committed later is not before, whichever store has committed it.
func nowNeverGoesBack(t *testing.T, stores []Store) {
	var last time.Time
	for i := range 60 {
		update(t, stores[i%len(stores)], func(tx approval.Tx) error {
			if tx.Now().Before(last) {
				t.Errorf("it is %v after it was %v", tx.Now(), last)
			}
			last = tx.Now()
			return nil
		})
	}
}
