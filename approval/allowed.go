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
	if !allows || v.Strict || w.ctx.Err() != nil {
		return Answer{}, false, nil
	}
	if err := checkAgent(w.dir, j.call.Agent); err != nil {
		return Answer{}, false, err
	}
	if w.policy.Load() != in {
		return Answer{}, false, nil
	}
	out = Answer{Kind: AnswerAllow, Message: message.Allowed, Risk: v.Risk, Rule: v.Rule, ReasonCode: v.ReasonCode}
	e := w.records.prepare(w.ctx, j.event(EventCallAllowed, string(Allow), v.ReasonCode))
	if s, ok := w.store.(EventRecorder); !ok || !s.RecordAllowed(j.call.asAllowed((*in).Terms()), e) {
		return Answer{}, false, nil
	}
	return out, true, nil
}

// asAllowed is what must hold of the call to be on record as allowed without a transaction.
func (c *Call) asAllowed(terms Terms) AllowedCall {
	a := AllowedCall{Agent: c.Agent}
	if c.ToolDigest != "" {
		a.Owner, a.Server, a.Tool, a.Digest, a.UseWithin = c.pinOwner(), c.Server, c.Tool, c.ToolDigest, terms.UseWithin
	}
	return a
}
