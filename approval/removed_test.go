package approval_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
)

// without makes the gate one of a configuration in which agents can be removed.
func (w *world) without() (remove func(agents ...string)) {
	var gone atomic.Pointer[[]string]
	remove = func(agents ...string) { gone.Store(&agents) }
	remove()
	w.wire(approval.Options{Store: w.store, Broker: approval.NewBroker(), Policy: rules{asks, terms}, Now: w.clock.Now,
		Logger:    w.logger(),
		Directory: names{people: everybody, agents: func(name string) bool { return !slices.Contains(*gone.Load(), name) }}},
		outboxtest.Routing{})
	return remove
}

// For an agent that was removed nothing is let through, whichever way it asks, and nobody is asked.
func TestRule1_RemovedAgentsAreLetThroughNowhere(t *testing.T) {
	w := newWorld(t)
	remove := w.without()
	allowed, approved := call(`{"n":1}`), call(`{"n":2}`)
	allowed.Tool = "read"
	first := w.expect(approved, approval.AnswerPending)
	w.mustDecide(first.Request.ID, true, hana, "")
	waited := call(`{"n":3}`)
	held := w.expect(waited, approval.AnswerPending)
	w.mustDecide(held.Request.ID, true, hana, "")
	w.policy(func(c approval.Call) approval.Verdict {
		if c.Tool == "read" {
			return approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow, Rule: "reading"}
		}
		return asks(c)
	})
	w.expect(allowed, approval.AnswerAllow)
	remove("bot")
	before := w.trail()
	for name, ask := range map[string]func() (approval.Answer, error){
		"Check, allowed":  func() (approval.Answer, error) { return w.gate.Check(w.ctx, allowed) },
		"Check, approved": func() (approval.Answer, error) { return w.gate.Check(w.ctx, approved) },
		"Check, new":      func() (approval.Answer, error) { return w.gate.Check(w.ctx, call(`{"n":4}`)) },
		"CheckBatch": func() (approval.Answer, error) {
			outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{allowed, approved})
			return append(outs, approval.Answer{})[0], err
		},
		"CheckWait": func() (approval.Answer, error) {
			return w.gate.CheckWait(w.ctx, approved, approval.WaitOptions{For: time.Minute})
		},
		"Wait, for what is approved": func() (approval.Answer, error) {
			return w.holdOn(waited, held, time.Minute)
		},
	} {
		if out, err := ask(); approval.CodeOf(err) != approval.CodeUnauthorized {
			t.Errorf("%s: got %s, %v", name, out.Kind, err)
		}
	}
	if after := w.trail(); !slices.Equal(after, before) {
		t.Errorf("something was done: %q", after[len(before):])
	}
	if r := w.request(held.Request.ID); !r.Live() {
		t.Errorf("the approval is used: %+v", r)
	}
}

// What a removed agent has waiting ends, and is told as cancelled; what others have stays.
func TestRule1_RemovedAgentsRequestsEnd(t *testing.T) {
	w := newWorld(t)
	remove := w.without()
	var ids []string
	for i := range 70 { // more than one transaction cancels
		id := w.expect(call(fmt.Sprintf(`{"n":%d}`, i)), approval.AnswerPending).Request.ID
		if i%7 == 0 {
			w.mustDecide(id, true, hana, "")
		}
		ids = append(ids, id)
	}
	other := transfer
	other.Agent = "other"
	stays := w.expect(other, approval.AnswerPending).Request.ID
	if n, err := w.gate.CancelRemoved(w.ctx); n != 0 || err != nil {
		t.Fatalf("nobody was removed: got %d, %v", n, err)
	}
	remove("bot")
	if n, err := w.gate.CancelRemoved(w.ctx); n != len(ids) || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	for _, id := range ids {
		if r := w.request(id); r.Status != approval.Cancelled || r.ResolvedBy != "system:policy" ||
			r.ResolveReason != "agent_removed" {
			t.Fatalf("got %+v", r)
		}
	}
	if n := w.count("approval_cancelled"); n != len(ids) {
		t.Errorf("%d cancellations are on record", n)
	}
	if r := w.request(stays); r.Status != approval.Pending {
		t.Errorf("another's: %+v", r)
	}
	_, err := w.decide(ids[1], true, hana, "")
	wantCode(t, err, approval.CodeAlreadyResolved)
	remove() // it is back: people are asked anew
	if out := w.expect(call(`{"n":0}`), approval.AnswerPending); !out.Created {
		t.Errorf("got %+v", out)
	}
}
