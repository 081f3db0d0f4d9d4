package approval

import (
	"context"
	"time"
)

// upkeep ends what is over, one transaction after another.
type upkeep struct {
	*Gate
	ctx context.Context
}

func newUpkeep(ctx context.Context, g *Gate) upkeep { return upkeep{g, ctx} }

// PendingCount counts the pending requests.
func (g *Gate) PendingCount(ctx context.Context) (int, error) {
	return LookSettled(ctx, g, func(w *Work) (int, error) { return w.tx.CountPending("") })
}

// How long a webhook event's id is remembered: longer than any platform delivers it again.
const rememberEvent = 3 * 24 * time.Hour

// Forget drops what is no longer needed: webhook event ids after three days, endings after a day or
// remember_denial, whichever is longer. Grants whose time has come end.
func (g *Gate) Forget(ctx context.Context) (int, error) {
	if _, err := newUpkeep(ctx, g).endDueGrants(); err != nil {
		return 0, err
	}
	keep := max(rememberUse, g.Policy().Terms().RememberDenial)
	return inSteps(ctx, g, OfNothing(), func(w *Work) (step, error) {
		n, err := w.tx.Prune(w.tx.Now().Add(-rememberEvent), w.tx.Now().Add(-keep), stepRows)
		return step{n, n >= stepRows}, err
	})
}
