package policy

import (
	"fmt"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/internal/yamlpos"
)

var risks = []approval.Risk{approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical}

// needs checks who must say yes: what is written of it, and whether so many different people can be found.
func (c *compiler) needs(p *Policy) {
	asks := map[approval.Risk]bool{approval.RiskHigh: true, approval.RiskCritical: p.guard != nil}
	for i := range p.rules {
		r := &p.rules[i]
		in := &c.cfg.Rules[r.number-1]
		asks[r.risk] = asks[r.risk] || r.action == approval.Quarantine
		if key := in.firstKey(); key != "" && !in.unread {
			c.checkNeed(r.origin, &in.Needs)
			if r.action != approval.Quarantine {
				c.warn(r.origin, key, "%s has no effect: this rule %s, and nobody is asked", key, verb(r.action))
			}
		}
	}
	for _, risk := range risks {
		written := c.cfg.Levels[risk]
		key := written.firstKey()
		if key == "" || written.unread {
			continue
		}
		at := c.levelAt(risk)
		c.checkNeed(at, &written.Needs)
		if action := c.cfg.level(risk).Action; action != approval.Quarantine && !asks[risk] {
			c.warn(at, key, "%s has no effect: level %s %s, and nobody is asked", key, risk, verb(action))
		}
	}
	if c.opts.People != nil && !HasErrors(c.problems) {
		c.checkNeedsMet(p)
	}
}

func verb(a approval.Action) string {
	if a == approval.Deny {
		return "denies"
	}
	return "allows"
}

// levelAt is where a level is written.
func (c *compiler) levelAt(risk approval.Risk) Origin {
	path := c.cfg.Levels[risk].path
	if path == "" {
		path = c.cfg.root + ".levels." + string(risk)
	}
	return Origin{Path: path, Position: c.cfg.at[path]}
}

// checkNeed checks what is written of a need.
func (c *compiler) checkNeed(at Origin, n *Needs) {
	if deref(n.StepUp) && c.opts.NoPasskeys != "" {
		c.fail(at, "step_up", "step_up is done on the request's page, and that is not possible here: %s", c.opts.NoPasskeys)
	}
	if n.Approvers != nil {
		c.people(at, "approvers", n.Approvers)
		if n.Approvals != nil {
			c.fail(at, "approvals", "approvers is short for approvals of one stage; keep one of them")
		}
	}
	for i, s := range n.Approvals {
		where := fmt.Sprintf("approvals[%d]", i)
		if s.Count < 0 || s.Count > maxCount {
			c.fail(at, where+".count", "count (how many people must approve) must be a whole number from 1 to %d", maxCount)
		}
		switch {
		case s.Group != "" && s.Approvers != nil:
			c.fail(at, where, "a stage has either group or approvers; keep one of them")
		case s.Group != "":
			c.group(at, where+".group", s.Group)
		case s.Approvers != nil:
			c.people(at, where+".approvers", s.Approvers)
		}
	}
	for i, e := range n.Escalate {
		where := fmt.Sprintf("escalate[%d]", i)
		if e.After <= 0 {
			c.fail(at, where, "an escalation needs after, such as after: 10m")
		}
		c.duration(at, where+".after", e.After)
		c.people(at, where+".to", e.To)
	}
}

// people checks a list of names of people and groups.
func (c *compiler) people(at Origin, where string, names []string) {
	if len(names) == 0 {
		c.fail(at, where, "at least one name is needed here")
	}
	for i, name := range names {
		entry := fmt.Sprintf("%s[%d]", where, i)
		if slices.Contains(names[:i], name) {
			c.fail(at, entry, "%q is listed twice; remove one", name)
			continue
		}
		if c.opts.People == nil {
			continue
		}
		j := slices.IndexFunc(c.opts.People, func(p approval.Actor) bool { return p.Name == name })
		switch {
		case j >= 0 && !c.opts.People[j].Approver:
			c.warn(at, entry, "%s does not have the role approver, so their approval does not count", name)
		case j < 0 && !slices.Contains(c.groups(), name) && !yamlpos.MayRepeat(name): // a secret, perhaps
			c.fail(at, entry, "this is neither the name of a person in people nor of a group")
		case j < 0 && !slices.Contains(c.groups(), name):
			c.fail(at, entry, "%q is neither a person in people nor a group%s", name,
				didYouMean(name, append(c.peopleNames(), c.groups()...), nil))
		}
	}
}

func (c *compiler) group(at Origin, where, name string) {
	switch {
	case c.opts.People == nil || slices.Contains(c.groups(), name):
	case slices.Contains(c.peopleNames(), name):
		c.fail(at, where, "%s is a person, not a group; write approvers: [%s]", name, name)
	case !yamlpos.MayRepeat(name):
		c.fail(at, where, "nobody in people is in this group")
	default:
		c.fail(at, where, "nobody in people is in a group %q%s", name, didYouMean(name, c.groups(), nil))
	}
}

func (c *compiler) peopleNames() []string {
	names := make([]string, len(c.opts.People))
	for i, p := range c.opts.People {
		names[i] = p.Name
	}
	return names
}

// groups are those that at least one person is in.
func (c *compiler) groups() []string {
	var all []string
	for _, p := range c.opts.People {
		for _, g := range p.Groups {
			if !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}

// asking is what asks people, and what is written of whom.
type asking struct {
	need        *approval.Need
	rule, level Needs
	at, levelAt Origin
	agents      []string // by whom calls come to it, of those that are configured
}

// checkNeedsMet finds out of every need whether so many people can be found, and whether cards can come to them.
func (c *compiler) checkNeedsMet(p *Policy) {
	level := func(risk approval.Risk, agents []string) asking {
		l := c.cfg.level(risk)
		return asking{need: l.need(), level: l.Needs, levelAt: c.levelAt(risk), agents: agents}
	}
	for _, risk := range risks {
		c.checkNeedMet(level(risk, nil))
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.need != nil {
			in := level(r.risk, p.agentsOf(i, r, c.opts.Agents))
			in.need, in.rule, in.at = r.need, c.cfg.Rules[r.number-1].Needs, r.origin
			c.checkNeedMet(in)
		}
	}
	rest := &rule{methods: silent, targets: []target{{tool: "*"}}}
	c.checkNeedMet(level(approval.RiskHigh, p.agentsOf(len(p.rules), rest, c.opts.Agents)))
	if p.guard != nil {
		c.checkNeedMet(level(approval.RiskCritical, c.opts.Agents))
	}
}

// agentsOf are the agents whose calls can come to rule i.
func (p *Policy) agentsOf(i int, r *rule, all []string) []string {
	var some []string
	for _, a := range all {
		if r.concerns(a) && p.takenBefore(i, r, []pattern{pattern(a)}) == nil {
			some = append(some, a)
		}
	}
	return some
}

func (c *compiler) checkNeedMet(a asking) {
	if a.need == nil || len(a.need.Stages) == 0 && !a.need.SeparateDuties {
		return // any one approver, and whether there is any is not the policy's to say
	}
	if !c.canMeet(a, "", "") {
		return
	}
	c.warnUnreached(a)
	if !a.need.SeparateDuties || c.opts.Owner == nil {
		return
	}
	var seen []string
	for _, agent := range a.agents {
		if owner := c.opts.Owner(agent); owner != "" && !slices.Contains(seen, owner) {
			seen = append(seen, owner)
			c.canMeet(a, agent, owner)
		}
	}
	if len(a.agents) > 0 && len(seen) == 0 {
		at := a.at
		if a.rule.SeparateDuties == nil {
			at = a.levelAt
		}
		p := c.problem(at, "separate_duties", "separate_duties has no effect: none of the agents that this applies to has "+
			"an owner (agents[].owner)")
		p.Warning = true
		c.once(p)
	}
}

// canMeet reports whether a need can be met for an agent of that owner, "" for none.
func (c *compiler) canMeet(a asking, agent, owner string) bool {
	var people []approval.Actor
	for _, p := range c.opts.People {
		if p.Approver && (owner == "" || p.Name != owner) {
			people = append(people, p)
		}
	}
	but := ""
	if owner != "" {
		but = fmt.Sprintf("; %s, who owns %s, does not count (separate_duties)", owner, agent)
	}
	stages := a.need.InStages()
	for i, s := range stages {
		var fit []string
		for _, p := range people {
			if s.Admits(p.Name, p.Groups) {
				fit = append(fit, p.Name)
			}
		}
		if len(fit) < s.Count {
			at, where := a.place(i, owner)
			c.failOnce(at, where, "nobody can ever approve this: it needs %s, and %s%s", stageInWords(s), some(fit), but)
			return false
		}
	}
	if most := assignable(stages, people); most < a.need.Total() {
		at, where := a.place(-1, owner)
		c.failOnce(at, where, "nobody can ever approve this: its stages together need %d different people, and at most %d "+
			"of these can be found%s", a.need.Total(), most, but)
		return false
	}
	return true
}

// stageInWords says what a stage takes.
func stageInWords(s approval.Stage) string {
	said := "1 approver"
	if s.Count > 1 {
		said = fmt.Sprintf("%d approvers", s.Count)
	}
	if s.Group != "" || s.Approvers != nil {
		said += " out of " + outOf(s)
	}
	return said
}

// some says who there is.
func some(names []string) string {
	switch len(names) {
	case 0:
		return "there is none"
	case 1:
		return fmt.Sprintf("there is only 1 (%s)", names[0])
	}
	return fmt.Sprintf("there are only %d (%s)", len(names), strings.Join(names, ", "))
}

// warnUnreached warns of stages whose people cards do not reach.
func (c *compiler) warnUnreached(a asking) {
	if c.opts.Reached == nil {
		return
	}
	for i, s := range a.need.Stages {
		var fit []string
		for _, p := range c.opts.People {
			if p.Approver && s.Admits(p.Name, p.Groups) && c.opts.Reached(p.Name) {
				fit = append(fit, p.Name)
			}
		}
		if len(fit) < s.Count {
			at, where := a.place(i, "")
			p := c.problem(at, where, fmt.Sprintf("cards do not reach enough people: this needs %s, and with an address on a "+
				"channel %s", stageInWords(s), some(fit)))
			p.Warning = true
			c.once(p)
		}
	}
}

// place is where a stage of a need is written, by its number; -1: all of them. owner is who does not count, if anybody.
func (a *asking) place(stage int, owner string) (at Origin, where string) {
	n, at := a.rule, a.at
	if n.Approvers == nil && n.Approvals == nil && (owner == "" || n.SeparateDuties == nil) {
		n, at = a.level, a.levelAt
	}
	switch {
	case n.Approvers != nil:
		return at, "approvers"
	case n.Approvals != nil && stage >= 0:
		return at, fmt.Sprintf("approvals[%d]", stage)
	case n.Approvals != nil:
		return at, "approvals"
	}
	return at, "separate_duties"
}

func (c *compiler) failOnce(at Origin, where, format string, args ...any) {
	c.once(c.problem(at, where, fmt.Sprintf(format, args...)))
}

// once reports a problem that several rules may have, at their level or by an alias.
func (c *compiler) once(p Problem) {
	if !slices.ContainsFunc(c.problems, func(q Problem) bool {
		return q.Message == p.Message && q.Line == p.Line && q.Column == p.Column && (p.Line > 0 || q.Path == p.Path)
	}) {
		c.problems = append(c.problems, p)
	}
}

// assignable is how many of the votes that stages take can be given by people who each give one: the size of a largest
// matching of votes and people.
func assignable(stages []approval.Stage, people []approval.Actor) int {
	given := make([]int, len(people)) // the stage that each votes in, from 1
	var seen []bool
	var place func(stage int) bool
	place = func(stage int) bool {
		for i, p := range people {
			if seen[i] || !stages[stage].Admits(p.Name, p.Groups) {
				continue
			}
			seen[i] = true
			if given[i] == 0 || place(given[i]-1) {
				given[i] = stage + 1
				return true
			}
		}
		return false
	}
	n := 0
	for stage, s := range stages {
		for range min(s.Count, len(people)) {
			if seen = make([]bool, len(people)); place(stage) {
				n++
			}
		}
	}
	return n
}
