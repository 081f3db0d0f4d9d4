package approval_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"countersign/approval"
	"countersign/internal/testkit"
)

// freezeIn freezes the bot in a transaction, in which before runs first, and which fails with the error given.
func (w *world) freezeIn(before func(), fails error) {
	w.t.Helper()
	before = sync.OnceFunc(before) // the group may run again
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		before()
		_, refusal, err := w.gate.In(w.ctx, tx).Freezes().Freeze(transfer.Agent, hana, approval.ViaAPI, "stop")
		if refusal != nil {
			w.t.Error(refusal)
		}
		return errors.Join(err, fails)
	})
	if !errors.Is(err, fails) {
		w.t.Fatal(err)
	}
}

// allowedBeforeTheFreeze checks that so many calls are on record as allowed, each before the one freeze.
func (w *world) allowedBeforeTheFreeze(want int) {
	w.t.Helper()
	frozen, allowed := w.events(approval.EventFrozen), w.events(approval.EventCallAllowed)
	if len(frozen) != 1 || len(allowed) != want {
		w.t.Fatalf("%d freezes and %d allowed calls are on record, want 1 and %d", len(frozen), len(allowed), want)
	}
	for _, e := range allowed {
		if e.Seq >= frozen[0].Seq || e.At.After(frozen[0].At) {
			w.t.Errorf("a call is on record as allowed at %d, after the freeze at %d", e.Seq, frozen[0].Seq)
		}
	}
}

var errLost = errors.New("lost")

func TestRule11_ACallAllowedWhileAFreezeBeginsIsOnRecordBeforeIt(t *testing.T) {
	w, _ := recordingWorld(t)
	allow := func() { w.expect(transfer, approval.AnswerAllow) }
	allow()
	w.freezeIn(allow, errLost)
	allow() // from now on the gate knows that the bot is not frozen
	w.freezeIn(allow, nil)
	w.expect(transfer, approval.AnswerDenied)
	w.allowedBeforeTheFreeze(4)
}

// hooked is a context that does something, once, when it is looked into after it was armed.
type hooked struct {
	context.Context
	armed bool
	do    func()
}

func (c *hooked) Value(key any) any {
	if do := c.do; c.armed && do != nil {
		c.do = nil
		do()
	}
	return c.Context.Value(key)
}

// A freeze that commits after a call's agent was found free, and before the call is on record, holds for it.
func TestRule11_NoCallIsAllowedOnceItsAgentIsFrozen(t *testing.T) {
	for name, full := range map[string]bool{"into the log": false, "in a transaction": true} {
		w, s := recordingWorld(t)
		w.expect(transfer, approval.AnswerAllow) // who was ever frozen is known
		ctx := &hooked{Context: w.ctx, do: func() { w.freezeIn(func() {}, nil) }}
		agents := func(string) bool { ctx.armed = true; return true }
		w.wire(approval.Options{Store: s, Broker: w.gate.Broker(), Policy: rules{allows, terms}, Now: w.clock.Now,
			Logger: w.logger(), Directory: names{people: everybody, agents: agents}}, bothWays)
		w.expect(transfer, approval.AnswerAllow)
		s.full, ctx.armed = full, false
		out, err := w.gate.Check(ctx, transfer)
		if err != nil || out.Kind != approval.AnswerDenied || out.ReasonCode != approval.EndFrozen {
			t.Errorf("%s: %s, %v", name, out.Message, err)
		}
		if ctx.do != nil {
			t.Errorf("%s: nobody was frozen meanwhile", name)
		}
		w.allowedBeforeTheFreeze(2)
	}
}

func TestRule11_AFreezeInTheMidstOfCallsIsTheirLastWord(t *testing.T) {
	w := newWorld(t)
	w.wire(approval.Options{Store: w.store, Broker: w.gate.Broker(), Policy: rules{allows, terms},
		Now: w.clock.Now, Logger: w.logger()}, bothWays)
	var callers sync.WaitGroup
	begun := make(chan struct{}, 4)
	for range cap(begun) {
		callers.Go(func() {
			for first := true; ; first = false {
				out, err := w.gate.Check(w.ctx, transfer)
				if first {
					begun <- struct{}{}
				}
				if err != nil || out.Kind != approval.AnswerAllow {
					if out.ReasonCode != approval.EndFrozen {
						t.Errorf("%+v, %v", out, err)
					}
					return
				}
			}
		})
	}
	for range cap(begun) {
		testkit.Receive(t, "a call", begun)
	}
	w.freeze("bot", hana, "runaway")
	testkit.Wait(t, "all callers", callers.Wait)
	w.allowedBeforeTheFreeze(w.count("call_allowed"))
}
