package approval

import "context"

// reasonAgentRemoved is why requests of an agent that is not configured any more are cancelled.
const reasonAgentRemoved = "agent_removed"

// known returns an error unless the agent is configured.
func (g *Gate) known(agent string) error {
	if g.agents(agent) {
		return nil
	}
	return Errorf(CodeUnauthorized, "The agent %s is not in the gate's configuration.", agent)
}

// CancelRemoved cancels the live requests of agents that are not configured any more, and returns how many those
// were: nobody is asked for what cannot run, and whoever waits is told. Without it nothing of theirs runs either.
func (g *Gate) CancelRemoved(ctx context.Context) (int, error) {
	var agents []string
	err := g.store.View(ctx, func(tx Tx) (err error) {
		agents, err = tx.LiveAgents()
		return err
	})
	total := 0
	for _, agent := range agents {
		for more := true; err == nil && more; {
			n := 0
			err = g.store.Update(ctx, func(tx Tx) (err error) {
				n, more, err = g.cancelSome(ctx, tx, agent)
				return err
			})
			total += n
		}
	}
	return total, err
}

// cancelSome cancels as many of a removed agent's live requests as one transaction may.
func (g *Gate) cancelSome(ctx context.Context, tx Tx, agent string) (n int, more bool, err error) {
	if g.agents(agent) { // it may be back
		return 0, false, nil
	}
	hs, err := tx.LiveOf(agent, stepRequests)
	if err != nil {
		return 0, false, err
	}
	wide := 0
	for _, h := range hs {
		if wide >= stepBytes {
			return n, true, nil
		}
		wide += h.Wide
		if h, err = g.settleHead(ctx, tx, h); err != nil {
			return n, false, err
		}
		if h.Live() {
			if err := g.takeBack(ctx, tx, h.Request, Actor{Kind: System, Name: "policy"}, ViaSystem, reasonAgentRemoved); err != nil {
				return n, false, err
			}
			n++
		}
	}
	return n, len(hs) == stepRequests, nil
}
