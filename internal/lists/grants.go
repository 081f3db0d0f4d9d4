package lists

import (
	"context"

	"countersign/approval"
)

// ListGrants returns grants and standing denials, newest first, at most [approval.ListBytes] of them.
func ListGrants(ctx context.Context, g *approval.Gate, q approval.GrantQuery) ([]approval.Grant, error) {
	q.Bytes = listBytes(q.Bytes)
	for step := 0; ; step++ {
		type list struct {
			grants []approval.Grant
			over   bool // one of them is
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
				l.over = l.over || over && l.grants[i].EndedAt.IsZero()
			}
			return l, nil
		})
		if err != nil || !l.over {
			for i := range l.grants {
				l.grants[i] = l.grants[i].ByWall(g.Clock())
			}
			return l.grants, err
		}
		for i := range l.grants {
			if l.grants[i].EndedAt.IsZero() {
				if _, err := g.Grant(ctx, l.grants[i].ID); err != nil { // which ends one that is over
					return nil, err
				}
			}
		}
	}
}
