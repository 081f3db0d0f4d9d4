package lists

import (
	"context"

	"countersign/approval"
)

// ListVotes returns those votes on a request that count now, in order, without those of people who could not give
// them any more.
func ListVotes(ctx context.Context, g *approval.Gate, id string) ([]approval.Vote, error) {
	vs, err := approval.Look(ctx, g, func(w *approval.Work) ([]approval.Vote, error) {
		r, err := w.Tx().Request(id)
		if err != nil {
			return nil, err
		}
		s, err := w.Votes().Standing(r)
		return s.Votes, err
	})
	for i := range vs {
		vs[i].At = g.Clock().ToWall(vs[i].At)
	}
	return vs, err
}
