package campaign

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// checkRecord reads the audit log by itself: its numbers follow each other, and a hole is named by an event.
func (c *checker) checkRecord() {
	missing := map[int64]bool{}
	for _, e := range c.Events {
		var d struct {
			From int64 `json:"from_seq"`
			To   int64 `json:"to_seq"`
		}
		if e.Type == "audit_gap" && json.Unmarshal(e.Data, &d) == nil && d.To-d.From < 1<<20 {
			for n := d.From; n <= d.To; n++ {
				missing[n] = true
			}
		}
	}
	want := int64(1)
	for _, e := range c.Events {
		for ; want < e.Seq; want++ {
			if !missing[want] {
				c.report("no holes", "", "event %d is not in the audit log, and nothing says why", want)
			}
		}
		want = e.Seq + 1
	}
}

// refusedOnRecord are the refusals of a decision that are audited.
var refusedOnRecord = []string{"not_an_approver", "already_resolved", "expired", "reason_required", "confirm_required",
	"not_your_stage", "already_voted"}

// checkAgreement holds the audit log against what was answered, both ways.
func (c *checker) checkAgreement() {
	for id := range c.requests {
		if n := c.count(id, "approval_requested"); n != 1 {
			c.report("not on record", id, "a request was made, and is on record %d times", n)
		}
	}
	said := map[string]bool{} // who said what of which request
	for i := range c.Events {
		e := &c.Events[i]
		if e.Type != "hitl_decision" && e.Type != "hitl_vote" && e.Type != "decision_refused" {
			continue
		}
		said[e.Type+" "+e.Actor+" "+e.ApprovalID] = true
		if e.Type != "decision_refused" && !strings.Contains(e.Actor, ":") && !c.mayHaveSaid(e) {
			c.report("decided by nobody", e.ApprovalID, "on record is %s by %s, who did not do it", e.Decision, e.Actor)
		}
	}
	for id, ds := range c.decides {
		for _, d := range ds {
			made := d.Made() && d.Answer.Status != ""
			// An edit is on record with the request that it ends, and what it says of the new one may be no vote yet.
			decided := said["hitl_decision "+d.Who+" "+id] || said["hitl_vote "+d.Who+" "+id]
			refused := said["decision_refused "+d.Who+" "+id]
			switch {
			case d.Forged:
			case made && !decided:
				c.report("not on record", id, "it was decided, and is not on record: %v", d)
			case d.Answered && slices.Contains(refusedOnRecord, d.Code) && c.people(d) && !refused:
				c.report("not on record", id, "it was refused, and is not on record: %v", d)
			case d.Pressed && d.Made() && c.Steady && c.plain(d) && !decided && !refused:
				c.report("not on record", id, "a press was taken, and is not on record: %v", d)
			}
		}
	}
	c.checkCounts()
}

// people reports whether whoever decides is a person at all.
func (c *checker) people(d *Op) bool {
	return c.any(d, func(s *Setting) bool { _, is := s.People[d.Who]; return is })
}

// plain reports whether one press is a decision, and nothing is asked back, whichever setting is in force.
func (c *checker) plain(d *Op) bool {
	r := c.requests[d.ID]
	if r == nil {
		return false
	}
	for _, s := range c.Settings {
		_, is := s.People[d.Who]
		if t := s.Tools[r.Tool]; !is || t.Confirm || t.Reason {
			return false
		}
	}
	return true
}

// mayHaveSaid reports whether whoever is on record with a decision has, or may have, made it.
func (c *checker) mayHaveSaid(e *Event) bool {
	r := c.requests[e.ApprovalID]
	if r == nil {
		return true
	}
	return slices.ContainsFunc(slices.Concat(c.decides[r.ID], c.decides[r.Replaces]), func(d *Op) bool {
		return d.Who == e.Actor && d.Maybe() && (d.Approve == (e.Decision == "approve") || d.NewArgs != "")
	})
}

// checkCounts holds how often calls passed, and agents were frozen, against how often that is on record.
func (c *checker) checkCounts() {
	told, kept := map[string]int{}, map[string]int{}
	for _, o := range c.Ops {
		tool := o.Tool
		if o.Server != "" {
			tool = o.Server + "/" + tool
		}
		switch {
		case o.passes() && o.Answer.Word == "allow" && o.Answer.Grant == "" && !c.mayBeLost(o):
			told["call_allowed "+o.Agent+" "+tool]++
		case o.Kind == Freeze && o.Made():
			told["frozen "+o.Agent+" "]++
		case o.Kind == Unfreeze && o.Made():
			told["unfrozen "+o.Agent+" "]++
		}
	}
	for _, e := range c.Events {
		kept[e.Type+" "+e.Agent+" "+e.Tool]++
	}
	for k, n := range told {
		if kept[k] < n {
			c.report("not on record", "", "%s: %d were answered, and %d are on record", k, n, kept[k])
		}
	}
}

// unsynced is for how long an allowed call may be on record without being synced: a second, and more where the machine
// has much to do.
const unsynced = 5 * time.Second

// mayBeLost reports whether an allowed call was answered so shortly before an outage that it need not be on record.
func (c *checker) mayBeLost(o *Op) bool {
	return slices.ContainsFunc(c.Outages, func(out Outage) bool {
		return o.End > out.Start-unsynced && o.Start < out.End
	})
}

// checkFeeds finds endings that are in no feed although their agent has not taken note of them.
func (c *checker) checkFeeds() {
	known := map[string]bool{}
	for _, ids := range c.Feed {
		for _, id := range ids {
			known[id] = true
		}
	}
	for _, o := range c.Ops {
		if o.Kind == Ack {
			known[o.ID] = true
		}
	}
	for id, r := range c.requests {
		if r.Status == "pending" || !r.ConsumedAt.IsZero() || r.Status == "approved" && r.LapsedAt.IsZero() {
			continue
		}
		if _, there := c.Feed[r.Agent]; there && !known[id] && c.count(id, "approval_acked") == 0 {
			c.report("the feed keeps endings", id, "it is %s, and %s has neither taken note of it nor finds it in the feed",
				r.Status, r.Agent)
		}
	}
}
