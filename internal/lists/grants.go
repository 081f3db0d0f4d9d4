package lists

import (
	"context"

	"countersign/approval"
)

// ListGrants returns grants and standing denials, newest first, at most [approval.ListBytes] of them.
func ListGrants(ctx context.Context, g *approval.Gate, q approval.GrantQuery) ([]approval.Grant, error) {
	q.Bytes = listBytes(q.Bytes)
	for {
		type list struct {
			grants []approval.Grant
			over   []approval.Grant // those of them that are, and have not ended
		}
		l, err := approval.Look(ctx, g, func(w *approval.Work) (l list, err error) {
			if l.grants, err = w.Tx().Grants(q); err != nil {
				return l, err
			}
			for i := range l.grants {
				over, err := w.Grants().IsOver(&l.grants[i])
				if err != nil {
					return l, err
				}
				if over && l.grants[i].EndedAt.IsZero() {
					l.over = append(l.over, l.grants[i])
				}
			}
			return l, nil
		})
		if err != nil || len(l.over) == 0 {
			for i := range l.grants {
				l.grants[i] = l.grants[i].ByWall(g.Clock())
			}
			return l.grants, err
		}
		if err := approval.SettleGrants(ctx, g, l.over); err != nil {
			return nil, err
		}
	}
}

// LiveGrants returns those grants that q selects and that are not over, with the store's times, in a transaction that
// was begun.
func LiveGrants(w *approval.Work, q approval.GrantQuery) ([]approval.Grant, error) {
	all, err := w.Tx().Grants(q)
	if err != nil {
		return nil, err
	}
	var live []approval.Grant
	for i := range all {
		over, err := w.Grants().IsOver(&all[i])
		if err != nil {
			return nil, err
		}
		if !over {
			live = append(live, all[i])
		}
	}
	return live, nil
}
