package campaign

import "slices"

// mayStandIn reports whether a person's vote may have been given for another, and counts until an operation ended; nil:
// ever.
func (c *checker) mayStandIn(who, principal string, v, until *Op) bool {
	return c.isInForce(who, principal, v) && (until == nil || c.isInForce(who, principal, until))
}

// isInForce reports whether somebody may have stood in for another at some moment of an operation.
func (c *checker) isInForce(who, principal string, o *Op) bool {
	return slices.ContainsFunc(c.delegations, func(d *Op) bool {
		if d.To != who || d.For != principal || !d.Maybe() || o.Answered && d.Start > o.End {
			return false
		}
		if c.Steady && d.Answered && o.Start > d.End+d.Lasts {
			return false
		}
		return !slices.ContainsFunc(c.Ops, func(e *Op) bool {
			return e.Kind == Undelegate && e.Made() && e.ID == d.Answer.Delegation && e.before(o)
		})
	})
}

// ballot is a vote with the stages that it may count in, and for whom.
type ballot struct {
	who     string
	options []option
}

type option struct {
	stage     int
	principal string // "": who has voted
}

// ballots are what votes may count for under a setting: each person's own, and for those that they stand in for.
func (c *checker) ballots(r *Request, s *Setting, votes []*Op, until *Op) (all []ballot) {
	for _, v := range votes {
		b := ballot{who: v.Who}
		for i, stage := range s.Tools[r.Tool].stages() {
			if s.mayVote(r, stage, v) {
				b.options = append(b.options, option{i, ""})
			}
			if !s.serves(r, v) {
				continue
			}
			for name := range s.People {
				other := *v
				other.Who = name
				if name != v.Who && s.mayVote(r, stage, &other) && c.mayStandIn(v.Who, name, v, until) {
					b.options = append(b.options, option{i, name})
				}
			}
		}
		at := slices.IndexFunc(all, func(o ballot) bool { return o.who == v.Who })
		if at < 0 {
			all = append(all, b)
		} else {
			all[at].options = append(all[at].options, b.options...)
		}
	}
	return all
}

// meet reports whether votes can be counted so that each stage has enough: each person's once, and of two of whom one
// stands in for the other one's.
func meet(ballots []ballot, short []int, spoken map[string]bool) bool {
	if !slices.ContainsFunc(short, func(n int) bool { return n > 0 }) {
		return true
	}
	if len(ballots) == 0 {
		return false
	}
	b := ballots[0]
	for _, o := range b.options {
		if short[o.stage] == 0 || spoken[b.who] || o.principal != "" && spoken[o.principal] {
			continue
		}
		short[o.stage]--
		spoken[b.who] = true
		if o.principal != "" {
			spoken[o.principal] = true
		}
		if meet(ballots[1:], short, spoken) {
			return true
		}
		short[o.stage]++
		delete(spoken, b.who)
		delete(spoken, o.principal)
	}
	return meet(ballots[1:], short, spoken)
}
