package approval

import "context"

// Details is one request as a person sees it who may do this and that about it.
type Details struct {
	Request
	Standing Standing // while it is pending
	Voters   []Actor  // who may decide it now
	// What the person may do, as things are now: whoever does it is judged again.
	MayApprove, MayDeny, MayGrant, MayExtend, MayCancel, MayFreeze bool
}

// Details returns a request, whole, and what a person may do about it. Errors: as [Gate.Request].
func (g *Gate) Details(ctx context.Context, who Actor, id string) (Details, error) {
	if who.Kind != Human {
		return Details{}, Errorf(CodeNotFound, noSuchRequest)
	}
	if _, err := g.RequestHead(ctx, who, id); err != nil { // which ends what is over
		return Details{}, err
	}
	return Look(ctx, g, func(w *Work) (Details, error) {
		r, err := w.tx.Request(id)
		if err != nil {
			return Details{}, err
		}
		if r.Before != nil {
			before := *r.Before
			if was, err := w.tx.Request(before.RequestID); err == nil {
				before.Args = was.Args
			}
			r.Before = &before
		}
		d := Details{Request: r}
		if err := w.mayDo(&d, g.ActorNow(who)); err != nil {
			return d, err
		}
		d.Request = r.ByWall(g.store)
		for i := range d.Standing.Votes {
			d.Standing.Votes[i].At = g.store.ToWall(d.Standing.Votes[i].At)
		}
		return d, nil
	})
}

// mayDo finds out what somebody may do about a request.
func (w *Work) mayDo(d *Details, who Actor) error {
	r := d.Request
	e := w.Votes().electorate(&r, r.Need)
	t, err := e.tally(r.Votes)
	if err != nil {
		return err
	}
	b, err := e.ballot(who, r.Votes, &t)
	if err != nil {
		return err
	}
	d.MayCancel = mayCancel(&r, who) == ""
	d.MayFreeze = w.g.MayFreeze(r.Agent, who) == nil
	if r.Status != Pending || r.Due(w.tx.Now()) {
		return nil
	}
	d.MayApprove = who.MayDecide() && b.stage && !b.voted
	d.MayDeny = who.MayDecide() && (b.stage || b.hasSaid)
	d.MayExtend = w.mayExtend(&r, who, &b) == nil
	if d.Standing, err = w.Votes().Standing(r); err != nil {
		return err
	}
	d.Standing.Votes = append([]Vote(nil), d.Standing.Votes...)
	if d.Voters, err = e.voters(&t); err != nil || !d.MayApprove {
		return err
	}
	d.MayGrant, err = w.Grants().May(r, who)
	return err
}
