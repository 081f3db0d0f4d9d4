package lists

import (
	"context"

	"countersign/approval"
)

// Details is one request as a person sees it who may do this and that about it.
type Details struct {
	approval.Request
	approval.Powers
}

// ReadDetails returns a request, whole, and what a person may do about it. Errors: as [approval.Gate.Request].
func ReadDetails(ctx context.Context, g *approval.Gate, who approval.Actor, id string) (Details, error) {
	if who.Kind != approval.Human {
		return Details{}, approval.ErrNotFound
	}
	if _, err := g.RequestHead(ctx, who, id); err != nil { // which ends what is over
		return Details{}, err
	}
	return approval.Look(ctx, g, func(w *approval.Work) (d Details, err error) {
		if d.Request, err = w.Tx().Request(id); err != nil {
			return Details{}, err
		}
		if err := WithBefore(w.Tx(), &d.Request); err != nil {
			return d, err
		}
		if d.Powers, err = w.Powers(d.Request, who); err != nil {
			return d, err
		}
		d.Request = d.Request.ByWall(g.Clock())
		for i := range d.Standing.Votes {
			d.Standing.Votes[i].At = g.Clock().ToWall(d.Standing.Votes[i].At)
		}
		return d, nil
	})
}
