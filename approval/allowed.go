package approval

import "context"

// atOnce answers a call without a transaction, if it is one that the policy allows and that can be put on record so; ok
// is false for any other. in is the policy that has judged it.
func (g *Gate) atOnce(ctx context.Context, in *Policy, j *judged) (out Answer, ok bool, err error) {
	v := &j.verdict
	allows := v.Observe || v.Action == Allow
	if j.call.ReadFor != "" && (v.Observe || !allows) {
		return Answer{Kind: AnswerDenied, Message: policyDeniedMessage(*v), Risk: v.Risk, Rule: v.Rule,
			ReasonCode: v.ReasonCode}, true, g.known(j.call.Agent)
	}
	if !allows || v.Strict || ctx.Err() != nil || !g.toolIsKnown(j.call, *in) {
		return Answer{}, false, nil
	}
	if err := g.known(j.call.Agent); err != nil {
		return Answer{}, false, err
	}
	changes := g.freezes.count()
	if frozen, err := g.isFrozen(ctx, j.call.Agent); err != nil || frozen {
		return Answer{}, false, err
	}
	if g.policy.Load() != in {
		return Answer{}, false, nil
	}
	out = Answer{Kind: AnswerAllow, Message: allowedMessage, Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode}
	e := g.records.prepared(ctx, j.event(EventCallAllowed, string(Allow), v.ReasonCode))
	// else a transaction tells whether the agent is frozen
	if !g.freezes.unchanged(changes, func() bool { return g.recordNow(e) }) {
		return Answer{}, false, nil
	}
	return out, true, nil
}

// toolIsKnown reports whether the call's tool raises no question that only a transaction can answer.
func (g *Gate) toolIsKnown(c Call, p Policy) bool {
	if c.ToolDigest == "" {
		return true
	}
	pin, ok := g.pins.get(c.pinOwner(), c.Server, c.Tool)
	return ok && pin.holds(c.ToolDigest) && (pin.AcceptedBy == "" || !pin.justAccepted(g.clock(), p.Terms()))
}

// recordNow puts an event on record without a transaction, and reports false where that cannot be or is not safe.
func (g *Gate) recordNow(e Event) bool {
	s, ok := g.store.(EventRecorder)
	return ok && s.RecordEvent(e)
}
