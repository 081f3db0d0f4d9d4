package approval

import "context"

// Report takes what came of a call that an agent's side sent on after its approval was used.
func (g *Gate) Report(ctx context.Context, who Actor, id string, ran Ran) (Request, error) {
	r, err := g.Request(ctx, who, id)
	if err != nil {
		return r, err
	}
	return r, &Error{Code: CodeInvalidParameter, Message: "This call was not sent on by the gate's side, so there is nothing to report.", Request: &r}
}

// Orphaned marks every call that was sent on and of which nobody said what came of it as [RanUnknown],
// and returns how many that were. It is for start-up, before any call is let through.
func (g *Gate) Orphaned(ctx context.Context) (int, error) { return 0, ctx.Err() }

// Tasks returns the agent's live requests whose calls the gate's side runs once they are approved, oldest
// first; every agent's for "".
func (g *Gate) Tasks(ctx context.Context, agent string) ([]Request, error) {
	rs, err := g.Requests(ctx, RequestQuery{Agent: agent, Status: Pending})
	return rs[:0], err
}
