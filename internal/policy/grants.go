package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/args/decimal"
	"countersign/internal/yamlpos"
)

// Asks is how rarely people are asked, as written on a rule or a level. What a rule leaves out its level says.
type Asks struct {
	Group     approval.Grouping // with which calls a call shares a card; "": what its agent says
	AllowSkip *bool             // an approval can be given for longer than its call
}

// What holds where a policy says nothing of cards, and how far it can go.
const (
	defaultGroupWithin = 300 * time.Millisecond
	maxGroupWithin     = 10 * time.Second
	defaultJoinAfter   = 2 * time.Minute
	minJoinAfter       = 10 * time.Second
	maxJoinAfter       = time.Hour
	maxBoundDigits     = 40
)

// Groupings are what group may be, in a file.
func Groupings() []approval.Grouping {
	return []approval.Grouping{approval.GroupTurn, approval.GroupCall, approval.GroupRun}
}

func (r *reader) group(e pair) approval.Grouping {
	s, ok := r.text(e)
	if g := approval.Grouping(s); !ok || slices.Contains(Groupings(), g) {
		return g
	}
	r.failAt(e.pos, e.path, "group must be turn, call or run, not %q%s", s, didYouMean(s, []string{"turn", "call", "run"},
		map[string]string{"none": "call", "session": "run", "single": "call", "each": "call", "batch": "turn"}))
	return ""
}

// asksKeys adds the keys of cards and grants to those of a rule or a level.
func (r *reader) asksKeys(a *Asks, keys map[string]func(pair)) {
	keys["group"] = func(e pair) { a.Group = r.group(e) }
	keys["allow_skip"] = func(e pair) { a.AllowSkip = r.boolean(e) }
}

// over returns what holds for a rule at a level.
func (a Asks) over(l Asks) Asks {
	if a.Group == "" {
		a.Group = l.Group
	}
	if a.AllowSkip == nil {
		a.AllowSkip = l.AllowSkip
	}
	return a
}

var grantSynonyms = map[string]string{
	"args": "vary", "may_vary": "vary", "except": "vary", "any": "any_args", "all_args": "any_args",
}

var varySynonyms = map[string]string{
	"max": "at_most", "lte": "at_most", "up_to": "at_most", "limit": "at_most", "sum": "total", "budget": "total",
}

// grants reads what a grant may cover beside the very args that were approved.
func (r *reader) grants(e pair) *approval.GrantTerms {
	terms := &approval.GrantTerms{}
	before := len(r.problems)
	r.mapping(e.value, e.path, map[string]func(pair){
		"vary":     func(e pair) { terms.Vary = r.vary(e) },
		"any_args": func(e pair) { terms.AnyArgs = deref(r.boolean(e)) },
	}, grantSynonyms)
	if len(r.problems) == before && len(e.value.Entries) == 0 {
		r.failAt(e.pos, e.path, "an empty mapping has no meaning here; leave grants out")
	}
	return terms
}

func (r *reader) vary(e pair) map[string]approval.Vary {
	if e.value.Kind != yamlpos.Mapping {
		r.failAt(e.pos, e.path, "a mapping of args is needed here, such as {memo: any}, not %s", describe(e.value))
		return nil
	}
	if len(e.value.Entries) == 0 {
		r.failAt(e.pos, e.path, "an empty mapping has no meaning here; leave vary out")
	}
	vary := map[string]approval.Vary{}
	for _, e := range r.entries(e.value, e.path) {
		vary[e.key] = r.varies(e)
	}
	return vary
}

// varies reads how one arg may vary: any, or a number's bounds.
func (r *reader) varies(e pair) approval.Vary {
	var v approval.Vary
	if e.value.Kind != yamlpos.Mapping {
		if s, _ := e.value.Scalar(); s != "any" {
			r.failAt(e.pos, e.path, "%q must be any, or the bounds of a number, such as {at_most: 5000, total: 20000}", e.key)
		}
		v.Any = true
		return v
	}
	before := len(r.problems)
	r.mapping(e.value, e.path, map[string]func(pair){
		"at_most": func(e pair) { v.AtMost = string(r.number(e)) },
		"total":   func(e pair) { v.Total = string(r.number(e)) },
	}, varySynonyms)
	if v == (approval.Vary{}) && len(r.problems) == before {
		r.failAt(e.pos, e.path, "this sets no bound; add at_most, total or both, or write %s: any", e.key)
	}
	return v
}

// cards compiles what the policy says of cards.
func (c *compiler) cards(terms *approval.Terms) {
	cfg := c.cfg
	c.grouping(Origin{}, "group", cfg.Group)
	terms.Group, terms.GroupWithin, terms.JoinAfter = cfg.Group, defaultGroupWithin, defaultJoinAfter
	if terms.Group == "" {
		terms.Group = approval.GroupTurn
	}
	if d := cfg.GroupWithin; d != nil {
		if *d < 0 || *d > maxGroupWithin {
			c.fail(Origin{}, "group_within", "group_within is at most %s, and 0s sends every card at once", maxGroupWithin)
		}
		terms.GroupWithin = *d
	}
	if d := cfg.JoinAfter; d != 0 {
		if d < minJoinAfter || d > maxJoinAfter {
			c.fail(Origin{}, "join_after", "join_after is at least %s and at most %s", spell(minJoinAfter), spell(maxJoinAfter))
		}
		terms.JoinAfter = d
	}
}

func (c *compiler) grouping(at Origin, where string, g approval.Grouping) {
	if g != "" && !slices.Contains(Groupings(), g) {
		c.fail(at, where, "group must be turn, call or run, not %q", string(g))
	}
}

// asks checks what rules and levels say of cards and grants, and that it has an effect.
func (c *compiler) asks(p *Policy) {
	asked := map[approval.Risk]bool{approval.RiskHigh: true, approval.RiskCritical: p.guard != nil}
	for i := range p.rules {
		r := &p.rules[i]
		in := &c.cfg.Rules[r.number-1]
		asked[r.risk] = asked[r.risk] || r.action == approval.Quarantine
		if !in.unread {
			c.asksOfRule(r, in)
		}
	}
	for _, risk := range risks {
		written := c.cfg.Levels[risk]
		at := c.levelAt(risk)
		c.grouping(at, "group", written.Group)
		l := c.cfg.level(risk)
		acts := l.Action
		if asked[risk] { // some rule of that level does ask
			acts = approval.Quarantine
		}
		c.effect(at, "level "+string(risk), written.Asks, acts, risk, l.need())
	}
}

func (c *compiler) asksOfRule(r *rule, in *Rule) {
	c.grouping(r.origin, "group", in.Group)
	c.effect(r.origin, "this rule", in.Asks, r.action, r.risk, r.need)
	if in.Grants == nil {
		return
	}
	c.grantTerms(r, in)
	switch skip := in.Asks.over(c.cfg.level(r.risk).Asks).AllowSkip; {
	case !deref(skip):
		c.fail(r.origin, "grants", "grants has no effect, because no approval here can be given for longer: "+
			"add allow_skip: true")
	case in.AllowSkip == nil: // else that was said of allow_skip
		c.effect(r.origin, "this rule", Asks{AllowSkip: skip}, r.action, r.risk, r.need)
	}
}

// effect warns of what has none.
func (c *compiler) effect(at Origin, who string, a Asks, action approval.Action, risk approval.Risk,
	need *approval.Need) {
	if a.Group != "" {
		switch {
		case action != approval.Quarantine:
			c.warn(at, "group", "group has no effect: %s %s, and nobody is asked", who, verb(action))
		case risk == approval.RiskCritical && a.Group != approval.GroupCall:
			c.warn(at, "group", "group has no effect: a call of critical risk always has a card of its own")
		}
	}
	if !deref(a.AllowSkip) {
		return
	}
	if action != approval.Quarantine {
		c.warn(at, "allow_skip", "allow_skip has no effect: %s %s, and nobody is asked", who, verb(action))
	} else if why := ungrantable(risk, need); why != "" {
		c.warn(at, "allow_skip", "allow_skip has no effect: %s", why)
	}
}

// ungrantable says why no approval can be given for longer, "" if it can be.
func ungrantable(risk approval.Risk, need *approval.Need) string {
	switch {
	case risk == approval.RiskCritical:
		return "calls of critical risk are asked about one by one"
	case need == nil:
		return ""
	case need.Confirm:
		return "calls that need a second confirmation (confirm) are asked about each time"
	case need.StepUp:
		return "calls that need a passkey (step_up) are asked about each time"
	case len(need.Stages) > 1 || need.Total() > 1:
		return "calls that need more than one person are asked about each time"
	}
	return ""
}

// grantTerms checks what a rule's grants may cover.
func (c *compiler) grantTerms(r *rule, in *Rule) {
	g := in.Grants
	if g.AnyArgs {
		c.warn(r.origin, "grants.any_args", "%s: a grant covers every call of the tool, whatever its args, so that one "+
			"approval also lets through what its approver never saw; vary names the args that may differ", r.nameInWords())
		if len(g.Vary) > 0 {
			c.fail(r.origin, "grants.vary", "any_args lets all args vary; keep one of them")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.Vary)) {
		where, v := "grants.vary."+name, g.Vary[name]
		switch {
		case name == "":
			c.fail(r.origin, "grants.vary", "an empty name")
		case strings.ContainsRune(name, '.'):
			c.warn(r.origin, where, "only top-level arguments can vary; %q is read as the name of one", name)
		}
		if v.Any == (v.AtMost != "" || v.Total != "") {
			c.fail(r.origin, where, "write either any, or at_most and total")
		}
		c.checkBound(r.origin, where+".at_most", v.AtMost)
		c.checkBound(r.origin, where+".total", v.Total)
	}
}

// checkBound checks a number from 0 that can be added to others as it is written.
func (c *compiler) checkBound(at Origin, where, s string) {
	if s == "" {
		return
	}
	d, err := decimal.Parse(s)
	before, behind := d.Places()
	switch {
	case !decimal.IsNumber(s) || d.Sign() < 0:
		c.fail(at, where, "a bound is a number from 0")
	case err != nil || before > maxBoundDigits || behind > maxBoundDigits:
		c.fail(at, where, "a bound has at most %d digits before its point and as many after it", maxBoundDigits)
	}
}

// setGrants compiles for what an approval of the rule may be given for longer.
func (r *rule) setGrants(in *Rule, skip *bool) {
	if !deref(skip) || r.action != approval.Quarantine || ungrantable(r.risk, r.need) != "" {
		return
	}
	r.grants = &approval.GrantTerms{}
	if in.Grants != nil {
		r.grants.AnyArgs, r.grants.Vary = in.Grants.AnyArgs, maps.Clone(in.Grants.Vary)
	}
}

// AsksInfo is what a rule says of cards and grants, as data.
type AsksInfo struct {
	Group     approval.Grouping    `json:"group,omitempty"` // none: what the agent says, or the policy
	AllowSkip bool                 `json:"allow_skip,omitempty"`
	Grants    *approval.GrantTerms `json:"grants,omitempty"` // none: for exactly the args that were approved
}

func asksInfo(group approval.Grouping, grants *approval.GrantTerms) AsksInfo {
	info := AsksInfo{Group: group, AllowSkip: grants != nil}
	if grants != nil && (grants.AnyArgs || len(grants.Vary) > 0) {
		info.Grants = grants
	}
	return info
}

// GrantsInWords tells what an approval may be given for, in a line; "": for its own call alone.
func (a AsksInfo) GrantsInWords() string {
	switch {
	case !a.AllowSkip:
		return ""
	case a.Grants == nil:
		return "for the same args"
	case a.Grants.AnyArgs:
		return "for any args"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a.Grants.Vary)) {
		parts = append(parts, name+" "+varyInWords(a.Grants.Vary[name]))
	}
	return "for the same args but " + strings.Join(parts, ", ")
}

// varyInWords says how an arg may vary.
func varyInWords(v approval.Vary) string {
	var parts []string
	if v.AtMost != "" {
		parts = append(parts, "at most "+v.AtMost)
	}
	if v.Total != "" {
		parts = append(parts, "together at most "+v.Total)
	}
	if v.Any {
		return "(any)"
	}
	return fmt.Sprintf("(%s)", strings.Join(parts, ", "))
}

// isNoWider reports whether what one arg may be is no more than another says.
func isNoWider(v, w approval.Vary) bool {
	if w.Any {
		return true
	}
	return !v.Any && isNoWiderBound(v.AtMost, w.AtMost) && isNoWiderBound(v.Total, w.Total)
}

// isNoWiderBound reports whether one bound is no wider than another; "" bounds nothing.
func isNoWiderBound(b, than string) bool {
	if than == "" || b == "" {
		return than == ""
	}
	x, _ := decimal.Parse(b)
	y, _ := decimal.Parse(than)
	return x.Compare(y) <= 0
}
