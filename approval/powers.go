package approval

// Powers are what a person may do about a request, as things are now: whoever does it is judged again.
type Powers struct {
	Standing Standing // while it is pending
	Voters   []Actor  // who may decide it now

	MayApprove, MayDeny, MayGrant, MayExtend, MayCancel, MayFreeze bool
}

// Powers finds out what somebody may do about a request.
func (w *Work) Powers(r Request, who Actor) (p Powers, err error) {
	who = w.g.ActorNow(who)
	e := w.Votes().electorate(&r, r.Need)
	t, err := e.tally(r.Votes)
	if err != nil {
		return p, err
	}
	b, err := e.ballot(who, r.Votes, &t)
	if err != nil {
		return p, err
	}
	p.MayCancel = mayCancel(&r, who) == ""
	p.MayFreeze = w.g.MayFreeze(r.Agent, who) == nil
	if r.Status != Pending || r.Due(w.tx.Now()) {
		return p, nil
	}
	p.MayApprove = who.MayDecide() && b.stage && !b.voted
	p.MayDeny = who.MayDecide() && (b.stage || b.hasSaid)
	p.MayExtend = w.mayExtend(&r, who, &b) == nil
	if p.Standing, err = w.Votes().Standing(r); err != nil {
		return p, err
	}
	p.Standing.Votes = append([]Vote(nil), p.Standing.Votes...)
	if p.Voters, err = e.voters(&t); err != nil || !p.MayApprove {
		return p, err
	}
	p.MayGrant, err = w.Grants().May(r, who)
	return p, err
}
