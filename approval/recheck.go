package approval

import "context"

// Recheck brings every pending request to where it stands by the policy and the people of now, after either has
// changed: a stage that falls short opens again, a need that is more now holds, and whoever is asked gets the card.
// Grants that would not be made any more end. It returns the requests that nobody is left to approve; they wait for
// their deadline, and never pass.
func (g *Gate) Recheck(ctx context.Context) (unmet []Request, err error) {
	for after := ""; ; {
		// The newest first, of all agents: whom it concerns, the new policy alone says.
		p, err := update(ctx, g, WholeStore(), func(w *Work) (rechecked, error) { return w.recheckSome(after) })
		if err != nil {
			return allByWall(unmet, g.store), err
		}
		if unmet, after = append(unmet, p.unmet...), p.next; after == "" {
			return allByWall(unmet, g.store), newUpkeep(ctx, g).recheckGrants()
		}
	}
}

// rechecked is what one step of [Gate.Recheck] came to.
type rechecked struct {
	unmet []Request // without what may be large
	next  string    // the request at which it stopped; "": it was the last step
}

// recheckSome looks at as many pending requests as one transaction should, those after an id.
func (w *Work) recheckSome(after string) (p rechecked, err error) {
	hs, err := w.tx.Heads(RequestQuery{Status: Pending, After: after, Limit: stepRequests})
	if err != nil {
		return p, err
	}
	wide := 0
	for i, h := range hs {
		r, short, err := w.recheck(h)
		if err != nil {
			return p, err
		}
		if short {
			r.Args, r.Rationale, r.Preview = nil, "", ""
			p.unmet = append(p.unmet, r)
		}
		if wide += h.Wide; wide >= stepBytes || i == stepRequests-1 {
			p.next = h.ID
			break
		}
	}
	return p, nil
}

// recheck brings one pending request to where it stands, and reports whether too few people are left for its stage.
func (w *Work) recheck(h Head) (Request, bool, error) {
	if did, err := w.end(h.Request); err != nil || did {
		return h.Request, false, err
	}
	r, err := w.tx.Request(h.ID)
	if err != nil {
		return r, false, err
	}
	r, e, t, err := w.Votes().stand(r)
	if err != nil || w.g.dir == nil || r.Need.IsZero() {
		return r, false, err
	}
	short, err := e.cannotBeMet(&t)
	if err != nil || !short {
		return r, false, err
	}
	event := requestEvent(r, EventNeedUnmet)
	event.Actor, event.Reason = Actor{Kind: System, Name: "policy"}.String(), openStage(&r)
	return r, true, w.auditFor(&r, event)
}

// cannotBeMet reports whether too few people are left for the open stage, escalation that is to come included.
func (e *electorate) cannotBeMet(t *tally) (bool, error) {
	stages := e.need.InStages()
	if t.isMet() {
		return false, nil
	}
	later := *e
	for _, s := range e.need.Escalate {
		if at := e.r.RequestedAt.Add(s.After); at.After(later.now) {
			later.now = at
		}
	}
	who, err := later.voters(t)
	return t.have[t.open]+len(who) < stages[t.open].Count, err
}
