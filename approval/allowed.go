package approval

import (
	"context"

	"countersign/approval/message"
)

// recorder answers allowed calls whose record needs no transaction.
type recorder struct {
	*Gate
	ctx context.Context
}

func newRecorder(ctx context.Context, g *Gate) recorder { return recorder{g, ctx} }

// atOnce answers a call without a transaction, if it is one that the policy allows and that can be put on record so; ok
// is false for any other. in is the policy that has judged it.
func (w recorder) atOnce(in *Policy, j *judged) (out Answer, ok bool, err error) {
	v := &j.verdict
	allows := v.Observe || v.Action == Allow
	if j.call.ReadFor != "" && (v.Observe || !allows) {
		return Answer{Kind: AnswerDenied, Message: message.PolicyDenied(v.ReasonCode, v.Message), Risk: v.Risk, Rule: v.Rule,
			ReasonCode: v.ReasonCode}, true, checkAgent(w.dir, j.call.Agent)
	}
	if !allows || v.Strict || w.ctx.Err() != nil || !w.toolIsKnown(j.call, *in) {
		return Answer{}, false, nil
	}
	if err := checkAgent(w.dir, j.call.Agent); err != nil {
		return Answer{}, false, err
	}
	changes := w.freezes.count()
	if frozen, err := isFrozen(w.ctx, w.Gate, j.call.Agent); err != nil || frozen {
		return Answer{}, false, err
	}
	if w.policy.Load() != in {
		return Answer{}, false, nil
	}
	out = Answer{Kind: AnswerAllow, Message: message.Allowed, Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode}
	e := w.records.prepared(w.ctx, j.event(EventCallAllowed, string(Allow), v.ReasonCode))
	// else a transaction tells whether the agent is frozen
	if !w.freezes.unchanged(changes, func() bool { return w.recordNow(e) }) {
		return Answer{}, false, nil
	}
	return out, true, nil
}

// toolIsKnown reports whether the call's tool raises no question that only a transaction can answer.
func (w recorder) toolIsKnown(c Call, p Policy) bool {
	if c.ToolDigest == "" {
		return true
	}
	pin, ok := w.pins.get(c.pinOwner(), c.Server, c.Tool)
	return ok && pin.holds(c.ToolDigest) && (pin.AcceptedBy == "" || !pin.justAccepted(w.clock(), p.Terms()))
}

// recordNow puts an event on record without a transaction, and reports false where that cannot be or is not safe.
func (w recorder) recordNow(e Event) bool {
	s, ok := w.store.(EventRecorder)
	return ok && s.RecordEvent(e)
}
