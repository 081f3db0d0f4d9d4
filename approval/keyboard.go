package approval

import (
	"context"
	"errors"
	"slices"
)

// Keyboard returns who may decide r at the keyboard of an agent: the person that sits there, if r is of
// that agent, of a level that the policy lets be decided so, and that person may decide.
func (g *Gate) Keyboard(agent string, r Request) (Actor, bool) {
	if g.dir == nil {
		return Actor{}, false
	}
	who, ok := g.dir.AtKeyboard(agent)
	if !ok || who.Kind != Human || agent == "" || r.Agent != agent ||
		!slices.Contains(g.Policy().Terms().Elicitation, r.Risk) {
		return Actor{}, false
	}
	who = g.ActorNow(who)
	return who, who.Approver
}

// DecideAtKeyboard is [Gate.Decide] for an answer that was given at an agent's keyboard: it decides as the
// person that sits there; of d neither By and Via nor Args and Proof are used. That [Gate.Keyboard] holds is judged
// with the decision, in its transaction; where it does not, the answer is [CodeNotAnApprover], audited, and nothing is
// decided.
//
// The caller must have the answer from the agent's own program, asked for by us. Nothing that an agent can
// send by itself may lead here.
func (g *Gate) DecideAtKeyboard(ctx context.Context, agent string, d Decision) (Request, error) {
	d.By, d.Via, d.Args, d.Proof = Actor{Kind: Agent, Name: agent}, ViaTerminal, nil, nil
	res, err := update(ctx, g, OfID(d.RequestID), func(w *Work) (resolved, error) {
		asked, err := w.tx.Request(d.RequestID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return resolved{}, err
		}
		d := d
		if who, ok := g.Keyboard(agent, asked); ok {
			d.By = who
		}
		return w.decide(d) // an agent decides nothing
	})
	if err == nil && res.refusal != nil && res.refusal.Code == CodeNotAnApprover {
		return Request{}, res.refusal // it may not be this agent's to see
	}
	return tell(g, res, err)
}
