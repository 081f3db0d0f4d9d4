package approval

import "context"

// reasonAgentRemoved is why requests of an agent that is not configured any more are cancelled.
const reasonAgentRemoved = "agent_removed"

func isAgent(dir Directory, name string) bool { return dir == nil || dir.HasAgent(name) }

// checkAgent returns an error unless the agent is configured.
func checkAgent(dir Directory, agent string) error {
	if isAgent(dir, agent) {
		return nil
	}
	return Errorf(CodeUnauthorized, "The agent %s is not in the gate's configuration.", agent)
}

// CancelRemoved cancels the live requests of agents that are not configured any more, and returns how many those
// were: nobody is asked for what cannot run, and whoever waits is told. Without it nothing of theirs runs either.
func (g *Gate) CancelRemoved(ctx context.Context) (int, error) {
	agents, err := View(ctx, g.store, Tx.LiveAgents)
	total := 0
	for _, agent := range agents {
		n, err := inSteps(ctx, g, OfAgent(agent), func(w *Work) (step, error) { return w.cancelSome(agent) })
		if total += n; err != nil {
			return total, err
		}
	}
	return total, err
}

// cancelSome cancels as many of a removed agent's live requests as one transaction may.
func (w *Work) cancelSome(agent string) (did step, err error) {
	if isAgent(w.g.dir, agent) { // it may be back
		return step{}, nil
	}
	hs, err := w.tx.LiveOf(agent, stepRequests)
	if err != nil {
		return step{}, err
	}
	return w.eachSettled(hs, func(h Head) (int, error) {
		if !h.Live() {
			return 0, nil
		}
		return 1, w.takeBack(h.Request, Actor{Kind: System, Name: "policy"}, ViaSystem, reasonAgentRemoved)
	})
}

// eachSettled ends what is over of a step's requests, as many as one transaction should, and calls then with each,
// which says how many it counts for.
func (w *Work) eachSettled(hs []Head,
	then func(h Head) (int, error)) (did step, err error) {
	wide := 0
	for _, h := range hs {
		if wide >= stepBytes {
			did.more = true
			return did, nil
		}
		wide += h.Wide
		if h, err = w.settleHead(h); err != nil {
			return did, err
		}
		n, err := then(h)
		if err != nil {
			return did, err
		}
		did.n += n
	}
	did.more = len(hs) == stepRequests
	return did, nil
}
