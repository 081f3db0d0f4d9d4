package lists

import (
	"context"

	"countersign/approval"
)

// ListFrozen lists what is frozen now.
func ListFrozen(ctx context.Context, g *approval.Gate) ([]approval.Epoch, error) {
	es, err := approval.Look(ctx, g, func(w *approval.Work) ([]approval.Epoch, error) { return w.Tx().Epochs() })
	var frozen []approval.Epoch
	for _, e := range es {
		if e.Frozen {
			frozen = append(frozen, e.ByWall(g.Clock()))
		}
	}
	return frozen, err
}

// ListDelegations lists those that hold or will hold.
func ListDelegations(ctx context.Context, g *approval.Gate) ([]approval.Delegation, error) {
	ds, err := approval.Look(ctx, g, func(w *approval.Work) ([]approval.Delegation, error) { return w.Tx().Delegations() })
	for i := range ds {
		ds[i] = ds[i].ByWall(g.Clock())
	}
	return ds, err
}
