package campaign

import (
	"slices"
	"time"
)

// sight is a request's state as one answer told it.
type sight struct {
	op    *Op // nil: as it was read at the end
	state string
}

func (s sight) String() string { return s.state + " by " + s.op.String() }

// ranks order the states of a request. Those of the last rank are ends: none follows another.
var ranks = map[string]int{"pending": 0, "approved": 1, "used": ended, "lapsed": ended, "denied": ended,
	"expired": ended, "cancelled": ended}

const ended = 2

// noteSight keeps what an operation's answer says of a request.
func (c *checker) noteSight(o *Op) {
	a := o.Answer
	if !o.Answered || o.Code != "" || a.ID == "" && a.Status == "" {
		return
	}
	switch {
	case o.Kind == Call && a.EndCode == "edited": // it tells of the request that took the place of the call's own
	case o.Kind == Call && a.Code == "already_used", o.Kind == Call && a.Word == "approved":
		c.see(a.ID, sight{o, "used"})
	case o.Kind == Call:
		c.see(a.ID, sight{o, a.Word})
	case o.Kind == Decide && o.NewArgs != "":
		c.see(o.ID, sight{o, "denied"})
		c.see(a.ID, sight{o, a.Status})
	case a.Status != "":
		c.see(o.ID, sight{o, stateOf(a.Status, a.Used, a.Lapsed)})
	}
}

// see keeps a state, where it is one: to be allowed, and to run, are not.
func (c *checker) see(id string, s sight) {
	if _, known := ranks[s.state]; known && id != "" {
		c.seen[id] = append(c.seen[id], s)
	}
}

// noteEnds keeps how each request was read at the end.
func (c *checker) noteEnds() {
	for id, r := range c.requests {
		c.see(id, sight{nil, stateOf(r.Status, !r.ConsumedAt.IsZero(), !r.LapsedAt.IsZero())})
	}
}

func stateOf(status string, used, lapsed bool) string {
	switch {
	case used:
		return "used"
	case lapsed:
		return "lapsed"
	}
	return status
}

// checkStates holds what was told of each request at different times against each other: it never goes back, and ends
// once. An approval that was given back is as it was before it was used.
func (c *checker) checkStates() {
	for id, all := range c.seen {
		if c.requests[id] == nil {
			c.report("lost", id, "it was %s, and is not there any more: %v", all[0].state, all[0].op)
			continue
		}
		if c.count(id, "approval_returned") > 0 {
			continue
		}
		end := ""
		for _, s := range all {
			if ranks[s.state] == ended && end != "" && s.state != end {
				c.report("two ends", id, "it was told to be %s and %s: %v", end, s.state, all)
			}
			if ranks[s.state] == ended {
				end = s.state
			}
		}
		for i, s := range all {
			for _, later := range all[i+1:] {
				if s.op != nil && ranks[later.state] < ranks[s.state] && (later.op == nil || s.op.before(later.op)) {
					c.report("backwards", id, "it was %s, and %s later: %v, then %v", s.state, later.state, s.op, later.op)
				}
			}
		}
	}
}

// checkTimes holds the times of each request, which one answer told, against each other and the policy.
func (c *checker) checkTimes() {
	for id, r := range c.requests {
		switch {
		case r.Status == "approved" && !r.ResolvedAt.Before(r.ExpiresAt):
			c.report("the deadline is exact", id, "it was approved at %s, and its deadline was %s", r.ResolvedAt, r.ExpiresAt)
		case r.Status == "approved" && !r.ConsumedAt.IsZero() && !r.ConsumedAt.Before(r.UseBy):
			c.report("the deadline is exact", id, "it was used at %s, and was to be by %s", r.ConsumedAt, r.UseBy)
		case r.Status == "expired" && !r.ResolvedAt.Equal(r.ExpiresAt):
			c.report("the deadline is exact", id, "it expired at %s, and its deadline was %s", r.ResolvedAt, r.ExpiresAt)
		}
		c.checkOver(r)
		long := r.ExpiresAt.Sub(r.RequestedAt)
		if most := c.Settings[c.First].Tools[r.Tool].Timeout; c.Steady && most > 0 && long > most+time.Hour {
			c.report("extended once", id, "its time is %s, and the rule gives %s", long, most)
		}
		if n := c.count(id, "approval_extended"); n > 1 {
			c.report("extended once", id, "it was extended %d times", n)
		}
	}
}

// checkOver reports a request that was live at the end although its time was up: whoever reads it has it ended.
func (c *checker) checkOver(r *Request) {
	until := r.ExpiresAt
	if r.Status == "approved" {
		until = r.UseBy
	}
	if c.Steady && r.end().IsZero() && until.Before(c.ReadAt) {
		c.report("the deadline is exact", r.ID, "it was still %s at %s, and was to end at %s", r.Status, c.ReadAt, until)
	}
}

// checkOneLive finds two requests of one call that were live at the same time, as the gate's own times have it.
func (c *checker) checkOneLive() {
	if !c.Steady {
		return
	}
	byKey := map[string][]*Request{}
	for i := range c.Requests {
		r := &c.Requests[i]
		byKey[c.keyOf(r)] = append(byKey[c.keyOf(r)], r)
	}
	for k, rs := range byKey {
		slices.SortFunc(rs, func(a, b *Request) int { return a.RequestedAt.Compare(b.RequestedAt) })
		for i := 1; i < len(rs); i++ {
			if end := rs[i-1].end(); end.IsZero() || rs[i].RequestedAt.Before(end) {
				c.report("one live request", rs[i].ID, "%s was asked for at %s, while %s was live until %s", k,
					rs[i].RequestedAt, rs[i-1].ID, end)
			}
		}
	}
}

// end is when a request ceased to be live, the zero time for one that has not.
func (r *Request) end() time.Time {
	switch {
	case !r.ConsumedAt.IsZero():
		return r.ConsumedAt
	case !r.LapsedAt.IsZero():
		return r.LapsedAt
	case r.Status == "approved":
		return time.Time{}
	}
	return r.ResolvedAt
}

// checkDenials finds requests that were made although a person had just said no to the same call.
func (c *checker) checkDenials() {
	if !c.Steady {
		return
	}
	const remembered = 10 * time.Minute // what the policy says where it is silent
	last := map[string]*Request{}
	edited := map[string]bool{}
	for i := range c.Requests {
		r := &c.Requests[i]
		if r.Replaces != "" {
			edited[c.keyOf(r)] = true
		}
		if was := last[c.keyOf(r)]; r.Status == "denied" && r.EndCode == "" && (was == nil ||
			r.ResolvedAt.Before(was.ResolvedAt)) {
			last[c.keyOf(r)] = r
		}
	}
	for i := range c.Requests {
		r := &c.Requests[i]
		d := last[c.keyOf(r)]
		if d != nil && !edited[c.keyOf(r)] && r.RequestedAt.After(d.ResolvedAt) &&
			r.RequestedAt.Sub(d.ResolvedAt) < remembered {
			c.report("a denial is remembered", r.ID, "%s was asked about at %s, and denied at %s: %s", c.keyOf(r),
				r.RequestedAt, d.ResolvedAt, d.ID)
		}
	}
}
