package lists

import (
	"context"

	"countersign/approval"
)

// ListRequests lists requests, newest first, at most [approval.ListBytes] of them.
func ListRequests(ctx context.Context, g *approval.Gate, q approval.RequestQuery) ([]approval.Request, error) {
	q.Bytes = listBytes(q.Bytes)
	type list struct {
		rs   []approval.Request
		late []string // over, among more that is over than [approval.LookSettled] has ended
	}
	for {
		l, err := approval.LookSettled(ctx, g, func(w *approval.Work) (l list, err error) {
			l.rs, err = w.Tx().Requests(q)
			for i := range l.rs {
				over, err := w.Over(&l.rs[i])
				if err != nil {
					return l, err
				}
				if over {
					l.late = append(l.late, l.rs[i].ID)
				}
			}
			return l, err
		})
		if err != nil || len(l.late) == 0 {
			for i := range l.rs {
				l.rs[i] = l.rs[i].ByWall(g.Clock())
			}
			return l.rs, err
		}
		if err := g.Settle(ctx, l.late); err != nil {
			return nil, err
		}
	}
}
