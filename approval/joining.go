package approval

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// How long later calls join a card, from when it was opened.
const (
	joinTurn = time.Minute
	joinRun  = 30 * time.Minute
)

// placer puts the new requests of one transaction on cards.
type placer struct {
	*Work
	terms Terms
	bill  *bill
	batch string // what the calls have in common that were made as one batch: the id of a card; "" for a single call

	placed []*placed
}

// placed are new requests that come to people together.
type placed struct {
	card  *Card // nil: one request, by itself
	opens bool  // the card is new, or there is none
	held  bool  // the card waits for the agent's earlier ones
	waits bool  // whoever asks for one of them waits for the answer
	made  []Request
}

// of returns where the request of a call goes, which is to be made.
func (p *placer) of(j *judged) (*placed, error) {
	like, alone := p.like(j)
	if alone {
		at := &placed{opens: true}
		p.placed = append(p.placed, at)
		return at, nil
	}
	now := p.tx.Now()
	for _, at := range p.placed {
		if at.card != nil && at.card.alike(like) && at.card.takes(j.verdict.Risk, now) {
			return at, nil
		}
	}
	if like.ID == "" {
		found, err := p.joinable(like, j.verdict.Risk)
		if err != nil {
			return nil, err
		}
		if found != nil {
			at := &placed{card: found}
			p.placed = append(p.placed, at)
			return at, nil
		}
		like.ID = p.tx.NewID()
	}
	at := &placed{card: &like, opens: true}
	p.placed = append(p.placed, at)
	return at, nil
}

// like is the card that a call begins where it joins none. A call that stands alone takes nobody along.
func (p *placer) like(j *judged) (c Card, alone bool) {
	if j.verdict.Risk == RiskCritical {
		return Card{}, true
	}
	now, call := p.tx.Now(), &j.call
	c = Card{Agent: call.Agent, Session: call.SessionID, Turn: call.TurnID, Risk: j.verdict.Risk,
		OpenedAt: now, LeavesAt: now.Add(p.terms.GroupWithin).Truncate(time.Millisecond), Grouping: p.grouping(j)}
	if c.Session == "" && call.Grouped {
		c.Scope = call.Scope
	}
	switch named := c.Session != "" || call.Grouped; {
	case c.Grouping == GroupCall || !named && c.Turn == "":
		if p.batch == "" {
			return Card{}, true
		}
		// What was asked for as one is one card, which nothing else joins.
		c.ID, c.Turn, c.Grouping, c.LeavesAt, c.JoinBy = p.batch, p.batch, GroupCall, now, now
		c.Session, c.Scope = "", "" // they may be of several
	case c.Grouping == GroupRun && named:
		c.Turn, c.JoinBy = "", now.Add(joinRun)
	case c.Turn != "":
		c.Grouping, c.JoinBy = GroupTurn, now.Add(joinTurn)
	default:
		c.JoinBy = c.LeavesAt
	}
	return c, false
}

// grouping is what the call's rule says, or else its agent's configuration, or else the policy.
func (p *placer) grouping(j *judged) Grouping {
	if j.verdict.Group != "" {
		return j.verdict.Group
	}
	if by := asksOf(p.g.dir, j.call.Agent).Group; by != "" {
		return by
	}
	if p.terms.Group == "" {
		return GroupCall
	}
	return p.terms.Group
}

// asksOf returns how an agent's calls come to people.
func asksOf(dir Directory, agent string) Asks {
	if dir == nil {
		return Asks{}
	}
	return dir.Asks(agent)
}

// joinable returns the card that a call joins, nil for none. Nothing joins a card of which all is decided: nobody
// would look at it again.
func (p *placer) joinable(like Card, risk Risk) (*Card, error) {
	c, err := p.tx.NewestCard(like)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	full := func(at *placed) bool { return at.card != nil && at.card.ID == c.ID } // by calls of this transaction
	if err != nil || !c.takes(risk, p.tx.Now()) || slices.ContainsFunc(p.placed, full) {
		return nil, err
	}
	hs, err := p.tx.BatchHeads(c.ID)
	if err != nil || !slices.ContainsFunc(hs, func(h Head) bool { return h.Status == Pending && !h.Due(p.tx.Now()) }) {
		return nil, err
	}
	return &c, nil
}

// alike reports whether the calls of two cards belong together.
func (c *Card) alike(o Card) bool {
	return c.Agent == o.Agent && c.Scope == o.Scope && c.Session == o.Session && c.Turn == o.Turn &&
		c.Grouping == o.Grouping
}

// takes reports whether a request of a risk may join the card at a time. What is on its way to people already is joined
// by nothing worse than it.
func (c *Card) takes(risk Risk, now time.Time) bool {
	open := now.Before(c.JoinBy) || c.OpenedAt.Equal(now)
	return open && len(c.Items) < MaxCard && (c.Shown == 0 || risk.Rank() <= c.Risk.Rank())
}

// add puts a request that was made on the card.
func (at *placed) add(r Request, waits bool) {
	at.made, at.waits = append(at.made, r), at.waits || waits
	c := at.card
	if c == nil {
		return
	}
	c.Items = append(c.Items, CardItem{ID: r.ID, Version: c.Shown + 1})
	if r.Risk.Rank() > c.Risk.Rank() {
		c.Risk = r.Risk
	}
}

// announce stores the cards and has people told of them.
func (p *placer) announce() (Announcement, error) {
	var all Announcement
	for _, at := range p.placed {
		if len(at.made) == 0 {
			continue
		}
		told, err := p.tell(at)
		if err != nil {
			return all, err
		}
		all.Pushes += told.Pushes
		all.Log = both(all.Log, told.Log)
	}
	return all, nil
}

func (p *placer) tell(at *placed) (told Announcement, err error) {
	var when Placing
	if at.opens {
		if when.WaitsUntil, err = p.waitsUntil(at); err != nil {
			return Announcement{}, err
		}
	}
	at.held = !when.WaitsUntil.IsZero()
	turn, over := p.turn(at)
	defer func() { p.bill.push(at.pushes(told.Pushes - 1)) }() // each recipient counts
	when.LeavesAt, when.Over = turn, over
	if c := at.card; c != nil {
		if at.opens && c.LeavesAt.Before(when.LeavesAt) {
			c.LeavesAt = when.LeavesAt
		} else if in := at.inTime(); !at.opens && c.Shown == 0 && in.Before(c.LeavesAt) {
			c.LeavesAt = in // what has joined has less time
		}
		when.LeavesAt = c.LeavesAt
		if err := p.tx.PutCard(*c); err != nil {
			return Announcement{}, err
		}
	}
	to, err := p.Votes().audiences(at.made)
	if err != nil {
		return Announcement{}, err
	}
	if !at.opens {
		return p.g.notifier.Joined(p.tx, *at.card, at.made, to, Joining{at.waits, p.terms.JoinAfter, at.inTime(), turn})
	}
	return p.g.notifier.Requested(p.tx, at.made, to, when)
}

// pushes are n of its card.
func (at *placed) pushes(n int) Pushes {
	if at.held {
		return Pushes{Asked: n}
	}
	return Pushes{n, n}
}

// turn uses up a push and returns when it is its turn, the zero time for at once. What is critical does not wait, and
// nothing until less than a third of its time is left.
func (p *placer) turn(at *placed) (leaves time.Time, over bool) {
	wait := p.bill.push(at.pushes(1))
	critical := slices.ContainsFunc(at.made, func(r Request) bool { return r.Risk == RiskCritical })
	if wait <= 0 || critical {
		return time.Time{}, false
	}
	leaves = p.tx.Now().Add(wait).Truncate(time.Millisecond)
	if in := at.inTime(); in.Before(leaves) {
		leaves = in
	}
	return leaves, true
}

// waitsUntil returns until when a new card waits for the agent's earlier ones at most, the zero time where it need not:
// with a third of its time left it goes to people all the same.
func (p *placer) waitsUntil(at *placed) (time.Time, error) {
	first := at.made[0]
	most := asksOf(p.g.dir, first.Agent).CardsAtOnce
	if most == 0 || first.Risk == RiskCritical {
		return time.Time{}, nil
	}
	held, err := p.tx.HeldFor(first.Agent, 1)
	if err != nil {
		return time.Time{}, err
	}
	if len(held) == 0 {
		up, err := p.tx.PendingCards(first.Agent, most+len(p.placed))
		if err != nil {
			return time.Time{}, err
		}
		if i := slices.Index(up, cmp.Or(at.cardID(), first.ID)); i >= 0 && i < most {
			return time.Time{}, nil
		}
	}
	return at.inTime(), nil
}

// inTime is when the first of the new requests has a third of its time left.
func (at *placed) inTime() time.Time {
	var first time.Time
	for _, r := range at.made {
		until := r.ExpiresAt.Add(-r.ExpiresAt.Sub(r.RequestedAt) / 3).Truncate(time.Millisecond)
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	return first
}

// cardID is that of the card, "" where there is none.
func (at *placed) cardID() string {
	if at.card == nil {
		return ""
	}
	return at.card.ID
}

// both says two things after a commit, either of which may be nil.
func both(a, b func(context.Context)) func(context.Context) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(ctx context.Context) { a(ctx); b(ctx) }
}
