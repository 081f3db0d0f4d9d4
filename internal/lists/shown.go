package lists

import (
	"errors"
	"math"
	"slices"

	"countersign/approval"
)

// Shown returns the requests whose card a notification is. Those that stand on no card of an agent's may be several
// agents': whoever changes one of them needs the whole store where that is to show, so nothing here is older. What was
// removed since is left out.
func Shown(tx approval.Tx, n approval.Notification) ([]approval.Request, error) {
	switch {
	case n.BatchID != "" && len(n.Cards) == 0:
		rs, err := tx.Batch(n.BatchID)
		if err != nil || n.After == 0 {
			return rs, err
		}
		c, err := tx.Card(n.BatchID)
		later := c.Upto(n.After, math.MaxInt)
		return slices.DeleteFunc(rs, func(r approval.Request) bool { return !slices.Contains(later, r.ID) }), err
	case len(n.Cards) > 0:
		rs := make([]approval.Request, 0, len(n.Cards))
		for _, id := range n.Cards {
			r, err := tx.Glance().Request(id)
			if errors.Is(err, approval.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			rs = append(rs, r)
		}
		return rs, nil
	case n.ApprovalID != "":
		r, err := tx.Request(n.ApprovalID)
		return []approval.Request{r}, err
	}
	return nil, nil
}

// ShownHeads returns the narrow parts of the same.
func ShownHeads(tx approval.Tx, n approval.Notification) ([]approval.Head, error) {
	if n.BatchID != "" && len(n.Cards) == 0 {
		hs, err := tx.BatchHeads(n.BatchID)
		if err != nil || n.After == 0 {
			return hs, err
		}
		c, err := tx.Card(n.BatchID)
		later := c.Upto(n.After, math.MaxInt)
		return slices.DeleteFunc(hs, func(h approval.Head) bool { return !slices.Contains(later, h.ID) }), err
	}
	ids := n.Cards
	if len(ids) > 0 {
		tx = tx.Glance()
	} else if n.ApprovalID != "" {
		ids = []string{n.ApprovalID}
	}
	hs := make([]approval.Head, 0, len(ids))
	for _, id := range ids {
		h, err := tx.Head(id)
		if errors.Is(err, approval.ErrNotFound) && len(n.Cards) > 0 {
			continue
		}
		if err != nil {
			return nil, err
		}
		hs = append(hs, h)
	}
	return hs, nil
}

// WithBefore reads the args of the request of which something was said before r was asked, where r says so.
func WithBefore(tx approval.Tx, r *approval.Request) error {
	if r.Before == nil {
		return nil
	}
	was, err := tx.Request(r.Before.RequestID)
	if err != nil && !errors.Is(err, approval.ErrNotFound) {
		return err
	}
	before := *r.Before
	if was.ArgsRemovedAt.IsZero() {
		before.Args = was.Args
	}
	r.Before = &before
	return nil
}
