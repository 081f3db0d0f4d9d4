package approval

import (
	"slices"
	"time"
)

// Clock is a store's time, by which everything inside the gate is judged. It is the machine's as long as that
// is right; it never goes back, and so it is ahead once the machine's clock was set back. What is told to us
// from outside, as when a platform says that something happened, is brought to the store's time before it is
// compared, and what leaves the gate is told by the machine's clock.
type Clock interface {
	Now() time.Time
	// ToWall tells a time of the store's by the machine's clock, FromWall the other way round. The zero time
	// stays what it is.
	ToWall(t time.Time) time.Time
	FromWall(t time.Time) time.Time
	// Off is how far the machine's clock is from the store's time. Above 0 it has jumped ahead, and the store's time goes
	// on as if it had not, since it is not known yet which is right: what lets calls through and would be over by then is
	// not used meanwhile. Below 0 it was set back, and nobody has said that it is right.
	Off() time.Duration
}

// HoldFor is how long a jump ahead must stand before the store's time takes it over.
const HoldFor = 5 * time.Minute

// refuseInDoubt refuses to use what lasts until a moment that may be past: the machine's clock says so, and it is not
// known yet whether that is right.
func (w *Work) refuseInDoubt(until time.Time) error {
	lead := w.g.store.Off()
	if lead <= 0 || w.tx.Now().Add(lead).Before(until) {
		return nil
	}
	return Errorf(CodeStoreUnavailable, "The gate's clock has just jumped ahead by %s, and the approval would be over by "+
		"it. It is not used until it is known within minutes which is right: try again later. An admin can say so: "+
		"countersign clock accept", lead.Round(time.Second))
}

// ByWall returns r with its times as the machine's clock has them. Nothing inside the gate may be judged by them.
func (r Request) ByWall(c Clock) Request {
	for _, t := range []*time.Time{&r.RequestedAt, &r.ExpiresAt, &r.ResolvedAt, &r.UseBy, &r.ConsumedAt, &r.LapsedAt,
		&r.AckedAt, &r.DispatchedAt, &r.ExtendedAt, &r.ArgsRemovedAt} {
		*t = c.ToWall(*t)
	}
	if len(r.Votes) > 0 {
		r.Votes = slices.Clone(r.Votes)
		for i := range r.Votes {
			r.Votes[i].At = c.ToWall(r.Votes[i].At)
		}
	}
	if r.Before != nil {
		before := *r.Before
		before.At = c.ToWall(before.At)
		r.Before = &before
	}
	if r.Previous != nil {
		use := *r.Previous
		for _, t := range []*time.Time{&use.ApprovedAt, &use.ConsumedAt, &use.DispatchedAt} {
			*t = c.ToWall(*t)
		}
		r.Previous = &use
	}
	return r
}

// byWall returns o with its times as the machine's clock has them.
func (o Answer) byWall(c Clock) Answer {
	if o.Request != nil {
		if o.Kind == AnswerApproved && !o.Request.DispatchedAt.IsZero() {
			if o.RunID = o.Request.ID; o.used == (consumption{}) {
				o.used = o.Request.consumption() // in the store's time
			}
		}
		r := o.Request.ByWall(c)
		o.Request = &r
	}
	if o.Grant != nil {
		gr := o.Grant.ByWall(c)
		o.Grant = &gr
	}
	return o
}

// byWall does the same for the request that a refusal carries.
func (e *Error) byWall(c Clock) *Error {
	if e.Request == nil {
		return e
	}
	r, out := e.Request.ByWall(c), *e
	out.Request = &r
	return &out
}

func allByWall(rs []Request, c Clock) []Request {
	for i := range rs {
		rs[i] = rs[i].ByWall(c)
	}
	return rs
}
