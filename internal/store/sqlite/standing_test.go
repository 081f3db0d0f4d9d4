package sqlite

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"countersign/approval"
	"countersign/internal/testkit"
)

// A function of a group that is undone takes with it what it read and put on record of tools, and nothing that another
// of the group has.
func TestRule1_WhatAFunctionUndoesIsNotKnown(t *testing.T) {
	d := open(t, Options{})
	mine := approval.ToolPin{Tool: "pay", Digest: strings.Repeat("a", 64), SeenAt: d.Now()}
	other := approval.ToolPin{Tool: "read", Digest: strings.Repeat("b", 64), SeenAt: d.Now()}
	undone := mine
	undone.Digest = strings.Repeat("c", 64)
	failed := errors.New("fails")
	letGo := held(t, d) // so that the three are one group
	var wg sync.WaitGroup
	for _, fn := range []func(approval.Tx) error{
		func(tx approval.Tx) error { return tx.PutPin(mine) },
		func(tx approval.Tx) error { return errors.Join(tx.PutPin(undone), failed) },
		func(tx approval.Tx) error { return tx.PutPin(other) },
	} {
		wg.Go(func() {
			if err := d.Update(t.Context(), approval.WholeStore(), fn); err != nil && !errors.Is(err, failed) {
				t.Error(err)
			}
		})
	}
	testkit.Eventually(t, "all three wait", func() bool { return len(d.writer.queue) == 3 })
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	testkit.Wait(t, "all updates", wg.Wait)
	of := func(p approval.ToolPin) approval.AllowedCall {
		return approval.AllowedCall{Agent: "bot", Tool: p.Tool, Digest: p.Digest}
	}
	if d.RecordAllowed(of(undone), allowedCall("pay")) {
		t.Error("a call of a tool was recorded that was never on record")
	}
	update(t, d, func(tx approval.Tx) error { return second(tx.Pin("", "", "pay")) })
	for _, p := range []approval.ToolPin{mine, other} {
		testkit.Eventually(t, "a call of "+p.Tool+" is recorded", func() bool {
			return d.RecordAllowed(of(p), allowedCall(p.Tool))
		})
	}
}

// Who races a freeze is on record before it, or is told to ask in a transaction.
func TestRule1_NoAllowedCallIsRecordedBehindAFreeze(t *testing.T) {
	d := open(t, Options{})
	call := approval.AllowedCall{Agent: "bot"}
	for range 5 {
		began := make(chan struct{})
		var wg sync.WaitGroup
		begin := sync.OnceFunc(func() { close(began) })
		for range 4 {
			wg.Go(func() {
				for range 100 {
					d.RecordAllowed(call, allowedCall("race"))
					begin()
				}
			})
		}
		testkit.Receive(t, "the first of those who race", began)
		update(t, d, func(tx approval.Tx) error {
			e := approval.Epoch{Agent: "bot", ID: tx.NewID(), Frozen: true, FrozenAt: tx.Now(), FrozenBy: "hana",
				Via: approval.ViaAPI, Reason: "stop"}
			return errors.Join(tx.PutEpoch(e), second(tx.Append(approval.Event{Type: approval.EventFrozen})))
		})
		if d.RecordAllowed(call, allowedCall("after")) {
			t.Error("recorded after the freeze")
		}
		testkit.Wait(t, "the record", wg.Wait)
		update(t, d, func(approval.Tx) error { return nil })
		var newest []approval.Event
		view(t, d, func(tx approval.Tx) (err error) {
			newest, err = tx.Events(approval.EventQuery{Limit: 1})
			return err
		})
		if len(newest) != 1 || newest[0].Type != approval.EventFrozen {
			t.Fatalf("the newest event is %+v", newest)
		}
		update(t, d, func(tx approval.Tx) error {
			return tx.PutEpoch(approval.Epoch{Agent: "bot", ID: tx.NewID(), FrozenAt: tx.Now(), FrozenBy: "hana",
				Via: approval.ViaAPI, Reason: "stop"})
		})
		update(t, d, func(approval.Tx) error { return nil })
	}
}
