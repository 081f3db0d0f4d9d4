package approval

import (
	"context"
	"errors"
	"time"
)

// Remembered is a denial that answers the same call again for a while, and of which no standing one was made.
type Remembered struct {
	Request Request // that was denied
	At      time.Time
	Until   time.Time // a call from then on is asked about again
}

// RememberedQuery selects remembered denials, newest first.
type RememberedQuery struct {
	Agent  string // "": every agent's
	Before int64  // as [Gate.Remembered] has returned it; 0: from the newest
	Limit  int    // 1 or more
}

// rememberedLook is how many denials are looked at, at most, for each that is asked for: others may be lifted, standing
// or over by now.
const rememberedLook = 4

// Remembered returns denials that are remembered, at most [ListBytes] of them, and what to go on from as Before; 0:
// there are no others.
func (g *Gate) Remembered(ctx context.Context, q RememberedQuery) (found []Remembered, next int64, err error) {
	type list struct {
		found []Remembered
		next  int64
	}
	l, err := look(ctx, g, func(w *Work) (l list, err error) {
		l.found, l.next, err = w.rememberedIn(q)
		return l, err
	})
	for i := range l.found {
		d := &l.found[i]
		d.Request, d.At, d.Until = g.told(d.Request), g.store.ToWall(d.At), g.store.ToWall(d.Until)
	}
	return l.found, l.next, err
}

func (w *Work) rememberedIn(q RememberedQuery) (found []Remembered, next int64, err error) {
	keep := w.g.Policy().Terms().RememberDenial
	if keep <= 0 {
		return nil, 0, nil
	}
	decided := EventQuery{Type: EventDecision, Decision: string(Deny), Agent: q.Agent, Before: q.Before,
		Since: w.tx.Now().Add(-keep), Limit: rememberedLook * q.Limit, Bytes: ListBytes}
	denials, err := w.tx.Events(decided)
	if err != nil {
		return nil, 0, err
	}
	size := 0
	for i := range denials {
		if len(found) == q.Limit || size >= ListBytes {
			break
		}
		d, is, err := w.remembers(denials[i].ApprovalID, keep)
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
	if others, err := w.tx.Events(decided); err != nil || len(others) == 0 {
		return found, 0, err
	}
	return found, decided.Before, nil
}

// MayLift reports whether somebody may lift the denial of a request: whoever denied it, for whom it was denied, and an
// admin.
func (r *Request) MayLift(by Actor) bool {
	return by.Kind == Human && (by.Admin || by.Name == r.ResolvedBy || r.deniedFor(by.Name))
}

// remembers reports whether a request's denial answers its call again, for so long, and nothing stands for it.
func (w *Work) remembers(id string, keep time.Duration) (d Remembered, is bool, err error) {
	r, err := w.tx.Request(id)
	if errors.Is(err, ErrNotFound) {
		return d, false, nil
	}
	if err != nil || r.Status != Denied || r.EndCode == EndEdited {
		return d, false, err
	}
	recent, err := w.tx.Recent(r.Key())
	if err != nil || recent.DeniedID != r.ID || w.tx.Now().Sub(recent.DeniedAt) >= keep {
		return d, false, err
	}
	standing, err := w.tx.Grants(GrantQuery{RequestID: r.ID, Limit: 1})
	if err != nil {
		return d, false, err
	}
	for i := range standing {
		if over, err := w.Grants().isOver(&standing[i]); err != nil || !over {
			return d, false, err
		}
	}
	return Remembered{Request: r, At: recent.DeniedAt, Until: recent.DeniedAt.Add(keep)}, true, nil
}
