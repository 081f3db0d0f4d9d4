package approval

import "context"

// CheckAhead is [Gate.Check] for a caller who sends an allowed call on itself: see [Outcome.Committed].
func (g *Gate) CheckAhead(ctx context.Context, c Call) (Outcome, error) { return g.Check(ctx, c) }
