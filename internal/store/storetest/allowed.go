package storetest

import (
	"errors"
	"testing"
	"time"

	"countersign/approval"
)

// An allowed call goes on record without a transaction only while what must hold of it is committed, and not while a
// transaction is under way that may change it. Where it does not, the transaction that is called instead sees the
// truth, and after it such calls go on record again.
func recordsAllowed(t *testing.T, s approval.Store) {
	recorder, ok := s.(approval.EventRecorder)
	if !ok {
		return
	}
	call := func(agent string) approval.AllowedCall { return approval.AllowedCall{Agent: agent} }
	failed := errors.New("the function fails")
	try := func(fn func(tx approval.Tx) error) {
		t.Helper()
		if err := s.Update(t.Context(), approval.WholeStore(), fn); err != nil && !errors.Is(err, failed) {
			t.Fatal(err)
		}
	}
	instead := func() { try(func(approval.Tx) error { return nil }) }
	put := func(agent string, frozen bool) func(tx approval.Tx) error {
		return func(tx approval.Tx) error {
			e := approval.Epoch{Agent: agent, ID: tx.NewID(), Frozen: frozen, FrozenAt: tx.Now(), FrozenBy: "hana"}
			return errors.Join(tx.PutEpoch(e), second(tx.Append(approval.Event{Type: approval.EventFrozen, Agent: agent})))
		}
	}
	want := func(when string, c approval.AllowedCall, want bool) {
		t.Helper()
		e := approval.Event{Type: approval.EventCallAllowed, Agent: c.Agent, Tool: c.Tool}
		got := recorder.RecordAllowed(c, e)
		for try := 0; want && !got && try < 10; try++ { // a store that is slow may ask for a transaction now and then
			instead()
			got = recorder.RecordAllowed(c, e)
		}
		if got != want {
			t.Errorf("%s: of %+v recorded is %t, want %t", when, c, got, want)
		}
	}
	instead()
	want("at the start", call("bot"), true)
	for _, agent := range []string{"bot", ""} {
		for _, end := range []error{failed, nil} {
			try(func(tx approval.Tx) error {
				err := put(agent, true)(tx)
				want("before the end of a freeze", call("bot"), false)
				return errors.Join(err, end)
			})
			if end == nil {
				want("after a freeze", call("bot"), false)
			}
			instead()
			want("after what came after a freeze", call("bot"), end != nil)
			want("of another, then", call("other"), end != nil || agent != "")
		}
		try(put(agent, false))
		instead()
		want("after it was lifted", call("bot"), true)
	}
	toolsAllowed(s, want, try, failed)
}

// toolsAllowed is what holds of the tools of such calls.
func toolsAllowed(s approval.Store, want func(string, approval.AllowedCall, bool),
	try func(func(tx approval.Tx) error), failed error) {
	pin := approval.ToolPin{Server: "files", Tool: "read", Digest: hash("a"), SeenAt: s.Now()}
	of := func(p approval.ToolPin, useWithin time.Duration) approval.AllowedCall {
		return approval.AllowedCall{Agent: "bot", Owner: p.Agent, Server: p.Server, Tool: p.Tool, Digest: p.Digest,
			UseWithin: useWithin}
	}
	put := func(p approval.ToolPin, end error) {
		try(func(tx approval.Tx) error { return errors.Join(tx.PutPin(p), end) })
	}
	want("a tool that is not on record", of(pin, 0), false)
	put(pin, failed)
	want("a tool that could not be put on record", of(pin, 0), false)
	put(pin, nil)
	want("a tool that is on record", of(pin, 0), true)
	changed, said := pin, pin
	changed.Digest, said.Agent = hash("b"), "bot"
	want("another state of it", of(changed, 0), false)
	want("what the agent said of it", of(said, 0), false)
	try(func(tx approval.Tx) error {
		err := tx.PutPin(changed)
		want("before the end of a change", of(pin, 0), false)
		want("before the end of a change", of(changed, 0), false)
		return errors.Join(err, failed)
	})
	want("a change that came to nothing", of(changed, 0), false)
	try(func(tx approval.Tx) error { return second(tx.Pin(pin.Agent, pin.Server, pin.Tool)) })
	want("a tool that was read again", of(pin, 0), true)
	changed.AcceptedBy, changed.Earlier = "hana", pin.Digest
	put(changed, nil)
	want("a tool that was accepted, whose approval may wait", of(changed, time.Hour), false)
	want("its earlier state, then", of(pin, time.Hour), false)
	changed.SeenAt = changed.SeenAt.Add(-2 * time.Hour)
	put(changed, nil)
	want("a tool that was accepted long ago", of(changed, time.Hour), true)
	want("its earlier state, long ago", of(pin, time.Hour), true)
}
