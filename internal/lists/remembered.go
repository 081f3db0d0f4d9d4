package lists

import (
	"context"
	"errors"
	"time"

	"countersign/approval"
)

// Remembered is a denial that answers the same call again for a while, and of which no standing one was made.
type Remembered struct {
	Request approval.Request // that was denied
	At      time.Time
	Until   time.Time // a call from then on is asked about again
}

// RememberedQuery selects remembered denials, newest first.
type RememberedQuery struct {
	Agent  string // "": every agent's
	Before int64  // as [FindRemembered] has returned it; 0: from the newest
	Limit  int    // 1 or more
}

// rememberedLook is how many denials are looked at, at most, for each that is asked for: others may be lifted, standing
// or over by now.
const rememberedLook = 4

// FindRemembered returns denials that are remembered, at most [approval.ListBytes] of them, and what to go on from as
// Before; 0: there are no others.
func FindRemembered(ctx context.Context, g *approval.Gate, q RememberedQuery) (
	found []Remembered, next int64, err error) {
	type list struct {
		found []Remembered
		next  int64
	}
	l, err := approval.Look(ctx, g, func(w *approval.Work) (l list, err error) {
		l.found, l.next, err = readRemembered(g, w, q)
		return l, err
	})
	for i := range l.found {
		d := &l.found[i]
		d.Request, d.At, d.Until = d.Request.ByWall(g.Clock()), g.Clock().ToWall(d.At), g.Clock().ToWall(d.Until)
	}
	return l.found, l.next, err
}

func readRemembered(g *approval.Gate, w *approval.Work, q RememberedQuery) (found []Remembered, next int64, err error) {
	keep := g.Policy().Terms().RememberDenial
	if keep <= 0 {
		return nil, 0, nil
	}
	decided := approval.EventQuery{Type: approval.EventDecision, Decision: string(approval.Deny), Agent: q.Agent,
		Before: q.Before, Since: w.Tx().Now().Add(-keep), Limit: rememberedLook * q.Limit, Bytes: approval.ListBytes}
	denials, err := w.Tx().Events(decided)
	if err != nil {
		return nil, 0, err
	}
	size := 0
	for i := range denials {
		if len(found) == q.Limit || size >= approval.ListBytes {
			break
		}
		d, is, err := remembers(w, denials[i].ApprovalID, keep)
		if err != nil {
			return nil, 0, err
		}
		if is {
			found = append(found, d)
			size += d.Request.Size()
		}
		decided.Before = denials[i].Seq
	}
	decided.Limit = 1
	if others, err := w.Tx().Events(decided); err != nil || len(others) == 0 {
		return found, 0, err
	}
	return found, decided.Before, nil
}

// remembers reports whether a request's denial answers its call again, for so long, and nothing stands for it.
func remembers(w *approval.Work, id string, keep time.Duration) (d Remembered, is bool, err error) {
	r, err := w.Tx().Request(id)
	if errors.Is(err, approval.ErrNotFound) {
		return d, false, nil
	}
	if err != nil || r.Status != approval.Denied || r.EndCode == approval.EndEdited {
		return d, false, err
	}
	recent, err := w.Tx().Recent(r.Key())
	if err != nil || recent.DeniedID != r.ID || w.Tx().Now().Sub(recent.DeniedAt) >= keep {
		return d, false, err
	}
	standing, err := w.Tx().Grants(approval.GrantQuery{RequestID: r.ID, Limit: 1})
	if err != nil {
		return d, false, err
	}
	for i := range standing {
		if over, err := w.Grants().IsOver(&standing[i]); err != nil || !over {
			return d, false, err
		}
	}
	return Remembered{Request: r, At: recent.DeniedAt, Until: recent.DeniedAt.Add(keep)}, true, nil
}
