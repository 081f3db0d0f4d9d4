package campaign

import (
	"slices"
)

// checkDecisions holds each decision that was answered as made against who may make it, and against what became of it.
func (c *checker) checkDecisions() {
	for _, ds := range c.decides {
		for _, d := range ds {
			if d.Made() && d.Answer.Status != "" {
				c.checkMay(d)
				c.checkKept(d)
				c.checkLast(d)
			}
		}
	}
	for _, o := range c.Ops {
		if o.Kind == Cancel && o.Made() {
			c.checkCancel(o)
		}
	}
}

// checkMay reports a decision that was taken from somebody who may not, or without what it needs.
func (c *checker) checkMay(d *Op) {
	r := c.requests[d.ID]
	if r == nil {
		return
	}
	if d.Forged {
		c.report("decided by nobody", r.ID, "a decision with no valid proof of who made it was taken: %v", d)
		return
	}
	voted := slices.ContainsFunc(c.votesFor(r, d), func(v *Op) bool { return v.Who == d.Who })
	if !d.Approve && voted { // whoever has said yes may take that back, also who no longer stands in for anybody
		return
	}
	if !c.any(d, func(s *Setting) bool { return c.mayDecide(r, s, d) }) {
		c.report("decided by one who may not", r.ID, "%s may not decide %s, or not so: %v", d.Who, r.Tool, d)
	}
}

// mayDecide reports whether a decision may be one under a setting. Whoever is of any stage may say no.
func (c *checker) mayDecide(r *Request, s *Setting, d *Op) bool {
	v := *d
	if !d.Approve {
		v.Confirmed = true
	}
	return slices.ContainsFunc(c.ballots(r, s, []*Op{&v}, nil), func(b ballot) bool { return len(b.options) > 0 })
}

// checkLast reports an approval that was answered as the last that it takes, and is not.
func (c *checker) checkLast(d *Op) {
	r := c.requests[d.ID]
	if r == nil || d.Answer.Status != "approved" || d.NewArgs != "" {
		return
	}
	if !c.any(d, func(s *Setting) bool { return c.isEnough(r, s, d) }) {
		c.report("no sufficient yes", r.ID, "it was approved with %s", c.tellVotes(r))
	}
}

// checkKept reports a decision that was answered as made and is not there at the end.
func (c *checker) checkKept(d *Op) {
	r := c.requests[d.ID]
	if d.NewArgs != "" {
		r = c.requests[d.Answer.ID]
	}
	if r == nil {
		c.report("lost", d.ID, "there is no request any more that was decided: %v", d)
		return
	}
	if !d.Approve && d.Answer.Status != "denied" {
		c.report("one denial ends it", r.ID, "it is %s after %v", d.Answer.Status, d)
	}
	has := slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.Person == d.Who }) ||
		d.NewArgs != "" && d.Answer.Status == "pending" // whoever edits may be of a later stage
	kept := map[string][]string{"pending": {"pending", "approved", "denied", "expired", "cancelled"},
		"approved": {"approved", "cancelled"}, "denied": {"denied"}}[d.Answer.Status]
	if !slices.Contains(kept, r.Status) || !has && r.Status != "cancelled" && r.EndCode != "edited" {
		c.report("a decision is kept", r.ID, "it is %s with the votes %v, after %v", r.Status, r.Votes, d)
	}
}

// checkCancel reports what was taken back by somebody who may not, or is not taken back.
func (c *checker) checkCancel(o *Op) {
	r := c.requests[o.ID]
	if r == nil {
		return
	}
	if r.Status != "cancelled" {
		c.report("a decision is kept", r.ID, "it is %s after %v", r.Status, o)
	}
	may := o.Who == r.Agent || slices.ContainsFunc(r.Votes, func(v Vote) bool {
		return v.Person == o.Who || v.For == o.Who
	}) || slices.ContainsFunc(c.votesFor(r, nil), func(d *Op) bool { return d.Who == o.Who }) ||
		c.any(o, func(s *Setting) bool { return s.People[o.Who].Admin })
	if !may {
		c.report("cancelled by one who may not", r.ID, "%s may not take it back from %s: %v", o.Who, r.Agent, o)
	}
}

// checkWords finds requests that are told to be denied although no person said no.
func (c *checker) checkWords() {
	for id, r := range c.requests {
		if r.Status == "denied" && r.EndCode == "" && !slices.ContainsFunc(c.decides[id], func(d *Op) bool {
			return !d.Approve && d.Maybe()
		}) {
			c.report("endings are told apart", id, "it is denied by %s, and nobody said no", r.ResolvedBy)
		}
	}
}

// checkEdits holds each edit that was answered as made against the two requests that it is about.
func (c *checker) checkEdits() {
	for _, o := range c.Ops {
		if o.Kind != Decide || o.NewArgs == "" || !o.Made() {
			continue
		}
		old, is := c.requests[o.ID], c.requests[o.Answer.ID]
		switch {
		case old == nil || is == nil:
			c.report("an edit is kept", o.ID, "a request of it is not there: %v", o)
		case old.Status != "denied" || old.EndCode != "edited" || old.ReplacedBy != is.ID || is.Replaces != old.ID:
			c.report("an edit is kept", o.ID, "it is %s (%s), replaced by %s, after %v", old.Status, old.EndCode,
				old.ReplacedBy, o)
		case string(is.Args) != o.NewArgs:
			c.report("an edit is kept", is.ID, "its arguments are %s, after %v", is.Args, o)
		}
	}
}

// checkReads reports what was shown to another agent than the request's.
func (c *checker) checkReads() {
	for _, o := range c.Ops {
		if r := c.requests[o.ID]; o.Kind == Read && o.Made() && r != nil && o.Who != r.Agent &&
			!c.any(o, func(s *Setting) bool { _, is := s.People[o.Who]; return is }) {
			c.report("shown to another", r.ID, "%s was shown what %s asked: %v", o.Who, r.Agent, o)
		}
	}
}
