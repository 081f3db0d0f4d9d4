package approval

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"countersign/approval/correlation"
	"countersign/approval/message"
)

// A freeze leaves an [Epoch] behind: the id of the freeze. What was asked for before has a smaller id and counts as
// ended from the freeze's commit on; whoever meets it first ends its row, and [Gate.Run] sees to the rest in steps.

// noReason is the reason of a freeze for which nobody took the time to give one.
const noReason = "no reason given"

// Freeze denies every call of an agent from its commit on, of all agents for "", until somebody lifts it, and ends
// what waits and what was approved and not used. Approvers and admins may. Errors: [CodeNotAnApprover],
// [CodeInvalidParameter], [CodeNotFound] for an agent that is not configured.
func (g *Gate) Freeze(ctx context.Context, agent string, by Actor, via Via, reason string) (Epoch, error) {
	return carryOut(ctx, g, WholeStore(), func(w *Work) (answered[Epoch], error) {
		e, refusal, err := w.Freezes().Freeze(agent, by, via, reason)
		return answered[Epoch]{e, refusal}, err
	})
}

// MayFreeze is the one rule of whether somebody may freeze an agent, or all; nil: they may.
func (g *Gate) MayFreeze(agent string, by Actor) *Error {
	by = g.ActorNow(by)
	switch {
	case !by.MayDecide() && !(by.Kind == Human && by.Admin):
		return Errorf(CodeNotAnApprover, "Only approvers and admins can freeze.")
	case agent != "" && !isAgent(g.dir, agent):
		return Errorf(CodeNotFound, "There is no agent of that name.")
	}
	return nil
}

// Freeze is [Gate.Freeze] in a transaction that was begun. A refusal is on record and commits.
func (w FreezeWork) Freeze(agent string, by Actor, via Via,
	reason string) (Epoch, *Error, error) {
	if reason = strings.TrimSpace(reason); Blank(reason) {
		reason = noReason
	}
	by = w.g.ActorNow(by)
	refusal := w.g.MayFreeze(agent, by)
	if refusal == nil && len(reason) > MaxReason {
		refusal = Errorf(CodeInvalidParameter, "The reason is too long: use at most 3000 characters.")
	}
	if refusal != nil {
		return Epoch{}, refusal, w.auditFreeze(EventDecisionRefused, by,
			Epoch{Agent: agent, Reason: string(refusal.Code), Via: via})
	}
	if err := NeedWholeStore(w.tx); err != nil {
		return Epoch{}, nil, err
	}
	e := Epoch{Agent: agent, ID: w.tx.NewID(), Frozen: true, FrozenAt: w.tx.Now(), FrozenBy: by.Name, Via: via,
		Reason: reason}
	if err := w.tx.PutEpoch(e); err != nil {
		return Epoch{}, nil, err
	}
	return e, nil, w.auditFreeze(EventFrozen, by, e)
}

// Unfreeze lifts a freeze; what it ended stays ended. Admins may. Errors: [CodeNotAdmin], [CodeNotFound] where nothing
// is frozen.
func (g *Gate) Unfreeze(ctx context.Context, agent string, by Actor, via Via) (Epoch, error) {
	return carryOut(ctx, g, WholeStore(), func(w *Work) (answered[Epoch], error) {
		e, refusal, err := w.Freezes().Unfreeze(agent, by, via)
		return answered[Epoch]{e, refusal}, err
	})
}

// Unfreeze is [Gate.Unfreeze] in a transaction that was begun.
func (w FreezeWork) Unfreeze(agent string, by Actor, via Via) (Epoch, *Error, error) {
	by = w.g.ActorNow(by)
	e, err := w.tx.Epoch(agent)
	if err != nil {
		return Epoch{}, nil, err
	}
	var refusal *Error
	switch {
	case by.Kind != Human || !by.Admin:
		refusal = Errorf(CodeNotAdmin, "Only admins can lift a freeze.")
	case !e.Frozen && agent == "":
		refusal = Errorf(CodeNotFound, "Not all agents are frozen.")
	case !e.Frozen:
		refusal = Errorf(CodeNotFound, "That agent is not frozen.")
	}
	if refusal != nil {
		return Epoch{}, refusal, w.auditFreeze(EventDecisionRefused, by,
			Epoch{Agent: agent, Reason: string(refusal.Code), Via: via})
	}
	if err := NeedWholeStore(w.tx); err != nil {
		return Epoch{}, nil, err
	}
	e.Frozen = false
	if err := w.tx.PutEpoch(e); err != nil {
		return Epoch{}, nil, err
	}
	e.Via = via
	return e, nil, w.auditFreeze(EventUnfrozen, by, e)
}

func (w FreezeWork) auditFreeze(t EventType, by Actor, e Epoch) error {
	agent := w.g.records.cutName(e.Agent)
	event := Event{Type: t, Actor: by.String(), Agent: agent, Reason: e.Reason,
		Data: marshal(map[string]any{"agent": cmp.Or(agent, "*"), "via": e.Via})}
	if t == EventDecisionRefused {
		event.Decision = "freeze"
	}
	return w.audit(event)
}

// epochsOf returns what was last frozen of an agent: of it alone, and of all.
func (w FreezeWork) epochsOf(agent string) (es []Epoch, err error) {
	for _, name := range []string{agent, ""} {
		e, err := w.tx.Epoch(name)
		if err != nil {
			return nil, err
		}
		if e.ID != "" {
			es = append(es, e)
		}
	}
	return es, nil
}

// frozenBy returns the newest freeze that holds an agent now, nil for none.
func (w FreezeWork) frozenBy(agent string) (*Epoch, error) {
	es, err := w.epochsOf(agent)
	var newest *Epoch
	for i := range es {
		if es[i].Frozen && (newest == nil || es[i].ID > newest.ID) {
			newest = &es[i]
		}
	}
	return newest, err
}

// DeniedByFreeze returns what an agent is told that is frozen, "" for one that is not: calls that it has begun are not
// continued either.
func (g *Gate) DeniedByFreeze(ctx context.Context, agent string) (string, error) {
	return Look(ctx, g, func(w *Work) (string, error) {
		e, err := w.Freezes().frozenBy(agent)
		if err != nil || e == nil {
			return "", err
		}
		return message.Frozen(e.FrozenBy, e.Reason), nil
	})
}

// Frozen reports whether a freeze is why the call does not run: the message says then that nothing is to be tried
// again.
func (a Answer) Frozen() bool { return a.EndCode == EndFrozen }

// denyFrozen denies a call while its agent is frozen; ok is false where it is not.
func (w FreezeWork) denyFrozen(j *judged) (out Answer, ok bool, err error) {
	e, err := w.frozenBy(j.call.Agent)
	if err != nil || e == nil {
		return Answer{}, false, err
	}
	v := j.verdict
	v.Observe = false
	j.data = w.g.records.callData(judged{call: j.call, verdict: v, key: j.key})
	out = Answer{Kind: AnswerDenied, Message: message.Frozen(e.FrozenBy, e.Reason), Risk: v.Risk, Rule: v.Rule,
		ReasonCode: EndFrozen, EndCode: EndFrozen}
	return out, true, w.audit(j.event(EventCallDenied, string(Deny), EndFrozen))
}

// Restored ends what a store that was restored from a backup has waiting, and what was approved in it and not used:
// it may have been decided or used since. It is for start-up, before any call is let through. What was frozen stays so.
func (g *Gate) Restored(ctx context.Context) error {
	return g.update(ctx, WholeStore(), func(w *Work) error { return w.Freezes().Restored() })
}

// Restored is [Gate.Restored] in a transaction that was begun, about the whole store.
func (w FreezeWork) Restored() error {
	by := Actor{Kind: System, Name: "restore"}
	if err := w.endAll(by, EndRestored); err != nil {
		return err
	}
	return w.audit(Event{Type: EventFrozen, Actor: by.String(), Reason: EndRestored})
}

// FailedOver is Restored where another server has taken over for the store's, or its database was restored, while
// programs run.
func (w FreezeWork) FailedOver() error {
	if err := w.Restored(); err != nil {
		return err
	}
	return w.audit(Event{Type: EventStoreFailover, Actor: Actor{Kind: System, Name: "restore"}.String()})
}

// endAll ends what waits, what was approved and not used, and what was given for longer. What was frozen stays so.
func (w *Work) endAll(by Actor, why string) error {
	e, err := w.tx.Epoch("")
	if err != nil {
		return err
	}
	if e.ID = w.tx.NewID(); !e.Frozen {
		e.FrozenAt, e.FrozenBy, e.Via, e.Reason = w.tx.Now(), by.String(), ViaSystem, why
	}
	return w.tx.PutEpoch(e)
}

// AcceptClock has an admin say that the machine's clock is right, after it was set: see [Store]. What waits ends with
// it, and what was approved and not used ([EndClock]): its time was another. It returns how far the clock is off:
// see [Clock]. Refusals are an [Error] with [CodeNotAdmin], or [CodeNotFound] where there is nothing to accept.
func (g *Gate) AcceptClock(ctx context.Context, by Actor, via Via) (off time.Duration, err error) {
	refusal, err := update(ctx, g, WholeStore(), func(w *Work) (refusal *Error, err error) {
		by = g.ActorNow(by)
		off = g.store.Off()
		event := Event{Type: EventClockAccepted, Actor: by.String(),
			Data: marshal(map[string]any{"off_ms": off.Milliseconds(), "via": via})}
		switch {
		case by.Kind != Human || !by.Admin:
			refusal = Errorf(CodeNotAdmin, "Only admins can say that the clock is right.")
		case off.Abs() < time.Second:
			refusal = Errorf(CodeNotFound, "The machine's clock and the store's time agree: there is nothing to accept.")
		}
		if refusal != nil {
			event.Type, event.Reason = EventDecisionRefused, string(refusal.Code)
			return refusal, w.audit(event)
		}
		if err := w.endAll(Actor{Kind: System, Name: "clock"}, EndClock); err != nil {
			return nil, err
		}
		return nil, w.audit(event)
	})
	if err != nil {
		return 0, err
	}
	if refusal != nil {
		return 0, refusal
	}
	return off, g.store.AcceptClock(ctx)
}

// findEndingFreeze returns the freeze that ended a live request, nil if there was none: one that came before its
// deadline did.
func (w *Work) findEndingFreeze(r *Request) (*Epoch, error) {
	if !r.Live() {
		return nil, nil
	}
	es, err := w.Freezes().epochsOf(r.Agent)
	for i, e := range es {
		if d := r.Deadline(); r.ID < e.ID && (d.IsZero() || e.FrozenAt.Before(d)) {
			return &es[i], err
		}
	}
	return nil, err
}

// Over reports whether a request is to be ended before anything else is done with it.
func (w *Work) Over(r *Request) (bool, error) {
	if r.Due(w.tx.Now()) {
		return true, nil
	}
	e, err := w.findEndingFreeze(r)
	return e != nil, err
}

// endFrozen ends a live request that was made before a freeze.
func (w FreezeWork) endFrozen(r Request, e *Epoch) error {
	code := frozenCode(e)
	ok, err := w.tx.Resolve(Resolution{ID: r.ID, Status: Cancelled, At: e.FrozenAt, By: e.FrozenBy, Via: e.Via,
		Reason: e.Reason, Code: code})
	if err != nil || !ok {
		return err
	}
	event := requestEvent(r, EventApprovalCancelled)
	event.Actor, event.Reason = e.FrozenBy, e.Reason
	fields := map[string]any{"via": string(e.Via), "was": r.Status, "reason_code": code}
	if err := w.with(correlation.With(w.ctx, "")).auditEnd(event, fields); err != nil { // who met it is no cause
		return err
	}
	return w.g.notifier.Ended(w.tx, r)
}

// EndFrozen ends the rows of the requests and grants that freezes have ended and returns how many those were. Without
// it they only count as ended.
func (g *Gate) EndFrozen(ctx context.Context) (int, error) {
	es, err := View(ctx, g.store, Tx.Epochs)
	total := 0
	for _, e := range es {
		n, err := inSteps(ctx, g, OfAgent(e.Agent), func(w *Work) (step, error) { return w.Freezes().endBefore(e) })
		if total += n; err != nil {
			return total, err
		}
		n, err = newUpkeep(ctx, g).endFrozenGrants(e)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, err
}

// endBefore ends as many of what a freeze has ended as one transaction should.
func (w FreezeWork) endBefore(e Epoch) (did step, err error) {
	hs, err := w.tx.LiveBefore(e.Agent, e.ID, stepRequests)
	if err != nil {
		return step{}, err
	}
	return w.eachSettled(hs, func(h Head) (int, error) {
		if h.Live() { // or the next step would find it again, and the next
			return 0, fmt.Errorf("approval: request %s is live and was made before a freeze", h.ID)
		}
		return 1, nil
	})
}
