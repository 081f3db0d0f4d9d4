package campaign

import (
	"encoding/json"
	"slices"
	"strings"
)

// passes reports whether an agent was told to run its call, or a server ran it for the agent.
func (o *Op) passes() bool {
	return o.Kind == Call && o.Answered && slices.Contains([]string{"allow", "approved", "ran"}, o.Answer.Word)
}

// checkPasses looks at each call that was let through by itself: was it, for all that was seen, allowed to be?
func (c *checker) checkPasses() {
	for _, o := range c.Ops {
		if !o.passes() {
			continue
		}
		c.checkFrozen(o)
		switch {
		case o.Answer.Word == "approved":
			c.checkApproved(o)
		case o.Answer.Word == "allow" && o.Answer.Grant == "":
			c.checkAllowed(o)
		case o.Answer.Word == "ran" && !c.any(o, func(s *Setting) bool { return s.Tools[o.Tool].Action != "deny" }):
			c.report("denied by policy", "", "%s ran although the policy denies it: %v", o.Tool, o)
		}
	}
}

// checkFrozen holds a freeze against all that passed while it held, whatever let it through.
func (c *checker) checkFrozen(o *Op) {
	for _, f := range c.freezes {
		if f.Made() && (f.Agent == o.Agent || f.Agent == "") && f.before(o) && o.End <= c.frozenUntil(f) {
			c.report("frozen", o.Answer.ID, "%s passed for %s while it was frozen by %v: %v", o.Tool, o.Agent, f, o)
		}
	}
}

// checkAllowed holds what passed without a person against the policy.
func (c *checker) checkAllowed(o *Op) {
	if !c.any(o, func(s *Setting) bool { return s.Tools[o.Tool].Action == "allow" }) {
		c.report("deny by default", "", "%s was allowed, and no rule allows it: %v", o.Tool, o)
	}
	if ambiguous(o.Args) {
		c.report("ambiguous args", "", "%s was allowed with names that differ in letter case alone: %v", o.Tool, o)
	}
}

// ambiguous reports whether an object has two names that differ in nothing but the case of their letters.
func ambiguous(args string) bool {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &m) != nil {
		return false
	}
	seen := map[string]bool{}
	for name := range m {
		if low := strings.ToLower(name); seen[low] {
			return true
		}
		seen[strings.ToLower(name)] = true
	}
	return false
}

// checkApproved holds a call that an approval let through against that: whose it was, what people were shown, who said
// yes, and whether it was over.
func (c *checker) checkApproved(o *Op) {
	r := c.requests[o.Answer.ID]
	if r == nil {
		c.report("lost", o.Answer.ID, "there is no request %s, with which a call passed: %v", o.Answer.ID, o)
		return
	}
	if r.Agent != o.Agent || r.Tool != o.Tool || r.Server != o.Server || r.Scope != o.Scope {
		c.report("another's approval", r.ID, "%v passed with the approval of %s for %s", o, r.Tool, r.Agent)
	}
	if runs := string(o.Answer.Args); runs != string(r.Args) {
		c.report("other args", r.ID, "people were shown %s, and %s was let through: %v", r.Args, runs, o)
	}
	if !c.any(o, func(s *Setting) bool { return c.isEnough(r, s, o) }) {
		c.report("no sufficient yes", r.ID, "%s passed with %s: %v", o.Tool, c.tellVotes(r), o)
	}
	for _, p := range c.Ops {
		if p.ID == r.ID && p.Made() && p.before(o) && (p.Kind == Cancel || p.Kind == Decide && ends(p)) {
			c.report("after its end", r.ID, "it passed after %v: %v", p, o)
		}
	}
	for _, f := range c.freezes {
		if f.Made() && (f.Agent == r.Agent || f.Agent == "") && f.before(o) && c.wasThere(r.ID, f) {
			c.report("after a freeze", r.ID, "it was made before %v, and passed after it: %v", f, o)
		}
	}
}

// ends reports whether a decision was answered with an end for good: a no, or an approval of other arguments.
func ends(o *Op) bool { return o.Answer.Status == "denied" || o.NewArgs != "" && o.Answer.Status != "" }

// wasThere reports whether a request was seen before an operation began.
func (c *checker) wasThere(id string, o *Op) bool {
	return slices.ContainsFunc(c.seen[id], func(s sight) bool { return s.op != nil && s.op.before(o) })
}

// votesFor are the approvals of a request that were, or may have been, given before an operation ended; nil: ever.
func (c *checker) votesFor(r *Request, until *Op) (votes []*Op) {
	for _, d := range slices.Concat(c.decides[r.ID], c.decides[r.Replaces]) {
		if d.Approve && d.Maybe() && (until == nil || d.Start < until.End) && (d.NewArgs == "") == (d.ID == r.ID) &&
			(d.NewArgs == "" || d.NewArgs == string(r.Args)) {
			votes = append(votes, d)
		}
	}
	return votes
}

// isEnough reports whether the approvals that may count meet what a setting asks for: in each stage enough people of
// its group, and as many different people as all stages take.
func (c *checker) isEnough(r *Request, s *Setting, until *Op) bool {
	var short []int
	for _, stage := range s.Tools[r.Tool].stages() {
		short = append(short, stage.Count)
	}
	return meet(c.ballots(r, s, c.votesFor(r, until), until), short, map[string]bool{})
}

func (t Tool) stages() []Stage {
	if len(t.Stages) == 0 {
		return []Stage{{Count: 1}}
	}
	return t.Stages
}

// mayVote reports whether a person's yes counts in a stage, as they gave it.
func (s *Setting) mayVote(r *Request, stage Stage, v *Op) bool {
	t, p := s.Tools[r.Tool], s.People[v.Who]
	return s.serves(r, v) && (stage.Group == "" || slices.Contains(p.Groups, stage.Group)) &&
		(!t.Reason || v.Reason != "") && (!t.Confirm || v.Confirmed)
}

// serves reports whether a person's word, as they gave it, counts for a request at all.
func (s *Setting) serves(r *Request, v *Op) bool {
	return s.People[v.Who].Approver && !(s.Tools[r.Tool].Separate && s.Owners[r.Agent] == v.Who)
}

func (c *checker) tellVotes(r *Request) string {
	all := "nobody's yes"
	for i, v := range c.votesFor(r, nil) {
		if i == 0 {
			all = ""
		}
		all += v.String() + "; "
	}
	return all
}

// checkUses holds how often each approval was used, as agents saw it and as it is on record.
func (c *checker) checkUses() {
	used := map[string][]*Op{}
	for _, o := range c.Ops {
		if o.passes() && o.Answer.Word == "approved" {
			used[o.Answer.ID] = append(used[o.Answer.ID], o)
		}
	}
	for id := range c.requests {
		back := c.count(id, "approval_returned")
		if n := len(used[id]); n > 1+back {
			c.report("used once", id, "one approval let %d calls through: %v", n, used[id])
		}
		n := c.count(id, "approval_consumed")
		if n > 1+back {
			c.report("used once", id, "an approval was used %d times on record, and given back %d times", n, back)
		}
		if r := c.requests[id]; n > 0 && !c.enoughEver(r) {
			c.report("no sufficient yes", id, "it was used on record with %s", c.tellVotes(r))
		}
		if n < len(used[id]) {
			c.report("not on record", id, "%d calls passed, and %d are on record: %v", len(used[id]), n, used[id])
		}
	}
}

func (c *checker) enoughEver(r *Request) bool {
	for _, s := range c.Settings {
		if c.isEnough(r, s, nil) {
			return true
		}
	}
	return false
}

// checkRuns holds what ran against what is on record as let through: for each call by its very arguments, no more runs
// than uses. What an agent was told to run counts as run.
func (c *checker) checkRuns() {
	ran, may := map[string]int{}, map[string]int{}
	for _, o := range c.Ops {
		switch {
		case o.Kind == Run && c.Settings[c.First].Tools[o.Tool].Action != "allow",
			o.passes() && o.Answer.Word == "allow" && o.Answer.Grant != "":
			ran[exactly(o.Agent, o.Tool, o.Args)]++
		case o.passes() && o.Answer.Word == "approved":
			ran[exactly(o.Agent, o.Tool, string(o.Answer.Args))]++
		}
	}
	for id, r := range c.requests {
		may[exactly(r.Agent, r.Tool, string(r.Args))] += c.count(id, "approval_consumed") - c.count(id, "approval_returned")
	}
	for _, e := range c.Events {
		if e.Type == "grant_used" {
			var d struct{ Args string }
			_ = json.Unmarshal(e.Data, &d)
			may[exactly(e.Agent, e.Tool[strings.IndexByte(e.Tool, '/')+1:], d.Args)]++
		}
	}
	for k, n := range ran {
		if n > may[k] {
			c.report("ran too often", "", "%s ran %d times, and was let through %d times", k, n, may[k])
		}
	}
}

func exactly(agent, tool, args string) string { return strings.Join([]string{agent, tool, args}, " ") }
