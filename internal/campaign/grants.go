package campaign

import (
	"encoding/json"
	"slices"
)

// checkGrants holds each call that a grant let through against the grant, and each grant against its uses.
func (c *checker) checkGrants() {
	uses, spent := map[string]int{}, map[string]int{}
	for _, o := range c.Ops {
		if o.passes() && o.Answer.Grant != "" {
			uses[o.Answer.Grant]++
			spent[o.Answer.Grant] += c.checkUse(o)
		}
	}
	recorded := map[string]int{}
	for i := range c.Events {
		e := &c.Events[i]
		if e.Type != "grant_used" {
			continue
		}
		var d struct {
			GrantID string `json:"grant_id"`
		}
		_ = json.Unmarshal(e.Data, &d)
		recorded[d.GrantID]++
		if g := c.grants[d.GrantID]; g != nil && c.Steady && !e.At.Before(g.ExpiresAt) {
			c.report("a grant ends", g.ID, "it was used at %s, and ended at %s", e.At, g.ExpiresAt)
		}
	}
	for id, g := range c.grants {
		t := c.Settings[c.First].Tools[g.Tool]
		if n := max(uses[id], recorded[id]); g.Uses > 0 && n > g.Uses {
			c.report("a grant's uses", id, "it was for %d calls, and let %d through (%d on record)", g.Uses, uses[id],
				recorded[id])
		}
		if t.Total > 0 && spent[id] > t.Total {
			c.report("a grant's total", id, "its calls came to %d, of at most %d", spent[id], t.Total)
		}
		if recorded[id] < uses[id] {
			c.report("not on record", id, "a grant let %d calls through, and %d are on record", uses[id], recorded[id])
		}
	}
}

// checkUse holds one call against the grant that let it through, and returns what it spent.
func (c *checker) checkUse(o *Op) int {
	g := c.grants[o.Answer.Grant]
	if g == nil {
		c.report("lost", o.Answer.Grant, "there is no grant %s, with which a call passed: %v", o.Answer.Grant, o)
		return 0
	}
	if g.Agent != o.Agent || g.Tool != o.Tool || g.Scope != o.Scope || g.Decision != "approve" {
		c.report("another's approval", g.ID, "%v passed with the grant for %s of %s", o, g.Agent, g.Tool)
	}
	t := c.Settings[c.First].Tools[o.Tool]
	amount, rest := splitAmount(o.Args)
	_, granted := splitAmount(string(g.Args))
	switch {
	case t.AtMost == 0 && o.Args != string(g.Args):
		c.report("other args", g.ID, "it is for %s, and let through: %v", g.Args, o)
	case t.AtMost > 0 && (amount < 0 || amount > t.AtMost || rest != granted):
		c.report("other args", g.ID, "it is for %s, where amount may be at most %d, and let through: %v", g.Args,
			t.AtMost, o)
	}
	if !c.any(o, func(s *Setting) bool { return s.Tools[o.Tool].Grants && c.couldMake(g, s, o) }) {
		c.report("no sufficient yes", g.ID, "the grant of %s let through: %v", g.MadeBy, o)
	}
	for _, p := range c.Ops {
		if p.Kind == Revoke && p.ID == g.ID && p.Made() && p.before(o) {
			c.report("a grant ends", g.ID, "it was used after %v: %v", p, o)
		}
	}
	for _, f := range c.freezes {
		if f.Made() && (f.Agent == g.Agent || f.Agent == "") && f.before(o) && c.wasMade(g, f) {
			c.report("after a freeze", g.ID, "the grant was made before %v, and used after it: %v", f, o)
		}
	}
	return amount
}

// couldMake reports whether a person who may have made a grant could still do so under a setting.
func (c *checker) couldMake(g *Grant, s *Setting, until *Op) bool {
	r := c.requests[g.RequestID]
	if r == nil {
		return false
	}
	return slices.ContainsFunc(c.votesFor(r, until), func(v *Op) bool {
		return v.Who == g.MadeBy && v.Grants && s.Tools[r.Tool].stages()[0].Count == 1 &&
			meet(c.ballots(r, s, []*Op{v}, until), []int{1}, map[string]bool{})
	})
}

// wasMade reports whether the decision that made a grant was answered before an operation began.
func (c *checker) wasMade(g *Grant, o *Op) bool {
	for _, d := range c.decides[g.RequestID] {
		if d.Grants && d.Approve && d.Made() && d.before(o) {
			return true
		}
	}
	return false
}

// splitAmount takes the amount out of arguments; -1 where there is none.
func splitAmount(args string) (amount int, rest string) {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &m) != nil || json.Unmarshal(m["amount"], &amount) != nil {
		return -1, args
	}
	delete(m, "amount")
	b, err := json.Marshal(m)
	if err != nil {
		return -1, args
	}
	return amount, string(b)
}
