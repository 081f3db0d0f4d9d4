package approval

import (
	"slices"
	"time"
)

// Audience is who is asked about a pending request, as it stands in a transaction.
type Audience struct {
	// People may vote in the open stage and have not: its own, those whom escalation has added, and who stands in for any
	// of them. With Everybody they are those alone who stand in for the people whom the channels notify.
	People    []Actor
	Everybody bool        // the rule names nobody: whom the channels notify is asked
	Later     []Escalated // whom escalation adds, by its times
}

// Escalated are the people who may vote on a request too, from some time on.
type Escalated struct {
	At     time.Time
	People []Actor
}

// Audience returns who is asked about a pending request now.
func (w VoteWork) Audience(r Request) (to Audience, err error) {
	to = Audience{Everybody: r.Need == nil || len(r.Need.Stages) == 0, Later: w.listEscalated(r)}
	if to.Everybody {
		to.People, err = w.standIns(r)
		return to, err
	}
	e := w.electorate(&r, r.Need)
	t, err := e.tally(r.Votes)
	if err != nil {
		return to, err
	}
	to.People, err = e.voters(&t)
	return to, err
}

// audiences are those of the requests that one card begins with, or that join it. Where neither the rule of the first
// nor that of another names anybody, they are asked alike: it is looked up once.
func (w VoteWork) audiences(made []Request) ([]Audience, error) {
	all := make([]Audience, len(made))
	for i, r := range made {
		if i > 0 && r.Need == nil && made[0].Need == nil {
			all[i] = all[0]
			continue
		}
		var err error
		if all[i], err = w.Audience(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// listEscalated returns whom escalation adds to a request, and when.
func (w VoteWork) listEscalated(r Request) (all []Escalated) {
	if r.Need == nil || w.g.dir == nil || len(r.Need.Escalate) == 0 {
		return nil
	}
	e := w.electorate(&r, r.Need)
	for _, s := range r.Need.Escalate {
		added := Escalated{At: r.RequestedAt.Add(s.After)}
		for _, p := range w.g.dir.People() {
			if e.serves(p) && belongs(p, s.To) {
				added.People = append(added.People, p)
			}
		}
		if len(added.People) > 0 {
			all = append(all, added)
		}
	}
	return all
}

// standIns returns who stands in now, on a request, for any of those whom the channels notify.
func (w VoteWork) standIns(r Request) (who []Actor, err error) {
	if w.g.dir == nil {
		return nil, nil
	}
	of := w.g.dir.Notified()
	if len(of) == 0 { // nobody looks for delegations then
		return nil, nil
	}
	e := w.electorate(&r, r.Need)
	ds, err := e.delegations()
	for _, d := range ds {
		if slices.Contains(of, d.Delegator) {
			if p := w.g.PersonNow(d.Delegate); e.serves(p) {
				who = append(who, p)
			}
		}
	}
	return who, err
}
