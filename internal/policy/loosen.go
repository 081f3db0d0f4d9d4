package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// Loosenings tells, in sentences for the log, the audit and the admins, what newer lets through more easily than older
// did: rules that became laxer, tools that a laxer rule now decides, and terms that widened. It
// compares patterns, not expressions: where a condition changed it says so, not whether it matters.
// Nothing is loosened from a nil policy.
func Loosenings(older, newer *Policy) []phrases.Said {
	if older == nil || newer == nil {
		return nil
	}
	l := &loosening{old: older, new: newer, pair: map[*rule]*rule{}}
	l.terms()
	l.guard()
	l.match()
	for i := range older.rules {
		if o := &older.rules[i]; l.pair[o] != nil {
			l.compare(o, l.pair[o])
		}
	}
	l.limits(said(phrases.LooserOtherwise), &older.otherwise, &newer.otherwise)
	l.probe()
	return l.said
}

type loosening struct {
	old, new *Policy
	pair     map[*rule]*rule // the new form of an old rule
	said     []phrases.Said
}

func (l *loosening) say(p phrases.Phrase, args ...any) {
	l.said = append(l.said, said(p, args...))
}

func (l *loosening) terms() {
	if l.new.observe && !l.old.observe {
		l.say(phrases.LooserObserve)
	}
	o, n := l.old.terms, l.new.terms
	if n.UseWithin > o.UseWithin {
		l.say(phrases.LooserUseWithin, "from", spell(o.UseWithin), "to", spell(n.UseWithin))
	}
	if n.RememberDenial < o.RememberDenial {
		l.say(phrases.LooserRemember, "from", spell(o.RememberDenial), "to", spell(n.RememberDenial))
	}
	for _, risk := range n.Elicitation {
		if !slices.Contains(o.Elicitation, risk) {
			l.say(phrases.LooserKeyboard, "level", risk)
		}
	}
	switch {
	case o.MaxPending > 0 && n.MaxPending == 0:
		l.say(phrases.LooserPendingNone, "from", o.MaxPending)
	case o.MaxPending > 0 && n.MaxPending > o.MaxPending:
		l.say(phrases.LooserPending, "from", o.MaxPending, "to", n.MaxPending)
	}
}

func (l *loosening) guard() {
	o, n := l.old.guard, l.new.guard
	switch {
	case o == nil:
		return
	case n == nil:
		l.say(phrases.LooserGuardGone)
		return
	}
	for _, name := range o.entries {
		if !slices.Contains(n.entries, name) && len(n.entries) > 0 {
			l.say(phrases.LooserGuardEntry, "entry", name)
		}
	}
	name := said(phrases.LooserGuard)
	if n.timeout > o.timeout {
		l.say(phrases.LooserTimeout, "rule", name, "from", spell(o.timeout), "to", spell(n.timeout))
	}
	if o.requireReason && !n.requireReason {
		l.say(phrases.LooserReason, "rule", name)
	}
	l.need(name, o.need, n.need)
}

// match pairs rules by the name they were given, and those without one by what they match.
func (l *loosening) match() {
	l.pair[&l.old.otherwise] = &l.new.otherwise
	byKey := map[string][]*rule{}
	for i := range l.new.rules {
		n := &l.new.rules[i]
		byKey[n.identity()] = append(byKey[n.identity()], n)
	}
	for i := range l.old.rules {
		o := &l.old.rules[i]
		if same := byKey[o.identity()]; len(same) > 0 {
			l.pair[o], byKey[o.identity()] = same[0], same[1:]
		}
	}
}

func (r *rule) identity() string {
	if r.named {
		return "name " + r.name
	}
	return fmt.Sprintf("what %q %q %q %s", join(r.methods), join(r.targets), join(r.agents), r.conditional())
}

// conditional tells what a rule demands beside its patterns, "" for nothing.
func (r *rule) conditional() string {
	s := ""
	for i := range r.conditions {
		c := &r.conditions[i]
		s += fmt.Sprintf("%q ", c.String())
	}
	if r.when != nil {
		s += strings.TrimSpace(r.when.source)
	}
	if r.annotations != nil {
		s += " annotations " + annotationsInWords(r.annotations)
	}
	return s
}

func strictness(a approval.Action) int {
	switch a {
	case approval.Deny:
		return 2
	case approval.Quarantine:
		return 1
	}
	return 0
}

func (l *loosening) compare(o, n *rule) {
	name := n.said()
	if strictness(n.action) < strictness(o.action) {
		l.say(phrases.LooserAction, "rule", name, "from", o.action.Word(), "to", n.action.Word())
	} else {
		l.limits(name, o, n)
	}
	if o.strict && !n.strict && n.action != approval.Deny {
		l.say(phrases.LooserAudit, "rule", name)
	}
	if was, is := o.conditional(), n.conditional(); was != is {
		switch {
		case n.action == approval.Allow && is == "":
			l.say(phrases.LooserAllowsAll, "rule", name)
		case n.action == approval.Allow:
			l.say(phrases.LooserAllowsChanged, "rule", name)
		case is != "":
			l.say(phrases.LooserConditions, "rule", name)
		}
	}
}

// limits compares what holds for the requests that a rule makes.
func (l *loosening) limits(name phrases.Said, o, n *rule) {
	if o.action != approval.Quarantine || n.action != approval.Quarantine {
		return
	}
	if n.risk.Rank() < o.risk.Rank() {
		l.say(phrases.LooserRisk, "rule", name, "from", o.risk, "to", n.risk)
	}
	if n.timeout > o.timeout {
		l.say(phrases.LooserTimeout, "rule", name, "from", spell(o.timeout), "to", spell(n.timeout))
	}
	if o.requireReason && !n.requireReason {
		l.say(phrases.LooserReason, "rule", name)
	}
	var grown []string
	for _, a := range n.ignoreArgs {
		if !slices.Contains(o.ignoreArgs, a) {
			grown = append(grown, a)
		}
	}
	if len(grown) > 0 {
		l.say(phrases.LooserIgnore, "rule", name, "args", strings.Join(grown, ", "))
	}
	l.need(name, o.need, n.need)
	l.grants(name, o.grants, n.grants)
}

// grants compares for what an approval may be given for longer.
func (l *loosening) grants(name phrases.Said, o, n *approval.GrantTerms) {
	switch {
	case n == nil:
		return
	case o == nil:
		l.say(phrases.LooserSkip, "rule", name, "how", grantsSaid(n))
		return
	case n.AnyArgs && !o.AnyArgs:
		l.say(phrases.LooserAnyArgs, "rule", name)
		return
	case o.AnyArgs:
		return
	}
	for _, arg := range slices.Sorted(maps.Keys(n.Vary)) {
		switch was, ok := o.Vary[arg]; {
		case !ok:
			l.say(phrases.LooserVary, "rule", name, "arg", arg, "how", varySaid(n.Vary[arg]))
		case !isNoWider(n.Vary[arg], was):
			l.say(phrases.LooserVaryMore, "rule", name, "arg", arg, "to", varySaid(n.Vary[arg]), "from", varySaid(was))
		}
	}
}

// need compares who must say yes.
func (l *loosening) need(name phrases.Said, o, n *approval.Need) {
	before := len(l.said)
	was, is := votes(o), votes(n)
	var seen []string
	for _, s := range o.InStages() {
		of := people(s)
		if of == "" || slices.Contains(seen, of) {
			continue
		}
		seen = append(seen, of)
		switch w, i := was[of], is[of]; {
		case i == 0:
			if w == 1 {
				l.say(phrases.LooserNeedOne, "rule", name, "of", outOfSaid(s))
			} else {
				l.say(phrases.LooserNeedMany, "rule", name, "count", w, "of", outOfSaid(s))
			}
		case i < w:
			l.say(phrases.LooserNeedFewer, "rule", name, "of", outOfSaid(s), "from", w, "to", i)
		}
	}
	if len(l.said) == before && n.Total() < o.Total() {
		l.say(phrases.LooserNeedTotal, "rule", name, "from", o.Total(), "to", n.Total())
	}
	if o.IsZero() {
		return
	}
	if o.SeparateDuties && (n == nil || !n.SeparateDuties) {
		l.say(phrases.LooserOwner, "rule", name)
	}
	if o.Confirm && (n == nil || !n.Confirm) {
		l.say(phrases.LooserConfirm, "rule", name)
	}
	if o.StepUp && (n == nil || !n.StepUp) {
		l.say(phrases.LooserPasskey, "rule", name)
	}
	if was[""] > 0 || n == nil {
		return // whom an escalation adds could approve before
	}
	earlier := escalationTimes(o)
	for _, e := range n.Escalate {
		for _, to := range e.To {
			if at, ok := earlier[to]; !ok || e.After < at {
				l.say(phrases.LooserEscalate, "rule", name, "after", spell(e.After), "who", to)
			}
		}
	}
}

// outOfSaid names those out of whom a stage's approvals are.
func outOfSaid(s approval.Stage) any {
	if s.Group == "" && s.Approvers == nil {
		return said(phrases.LooserApprovers)
	}
	return outOf(s)
}

// grantsSaid is [AsksInfo.GrantsInWords], to be said in any language.
func grantsSaid(g *approval.GrantTerms) phrases.Said {
	switch {
	case g.AnyArgs:
		return said(phrases.LooserAny)
	case len(g.Vary) == 0:
		return said(phrases.LooserSame)
	}
	var but []phrases.Said
	for _, arg := range slices.Sorted(maps.Keys(g.Vary)) {
		but = append(but, said(phrases.LooserArg, "arg", arg, "how", varySaid(g.Vary[arg])))
	}
	return said(phrases.LooserSameBut, "args", but)
}

// varySaid says how an arg may vary.
func varySaid(v approval.Vary) phrases.Said {
	switch {
	case v.Any:
		return said(phrases.LooserVaryAny)
	case v.Total == "":
		return said(phrases.LooserVaryMost, "most", v.AtMost)
	case v.AtMost == "":
		return said(phrases.LooserVaryTotal, "total", v.Total)
	}
	return said(phrases.LooserVaryBoth, "most", v.AtMost, "total", v.Total)
}

// people names those out of whom a stage's are, in one way; "": any approver.
func people(s approval.Stage) string {
	if s.Group != "" {
		return s.Group
	}
	return strings.Join(slices.Sorted(slices.Values(s.Approvers)), ", ")
}

// votes counts what a need takes by those out of whom.
func votes(n *approval.Need) map[string]int {
	by := map[string]int{}
	for _, s := range n.InStages() {
		by[people(s)] += s.Count
	}
	return by
}

// escalationTimes says after how long each person or group is added.
func escalationTimes(n *approval.Need) map[string]time.Duration {
	after := map[string]time.Duration{}
	for _, e := range n.Escalate {
		for _, to := range e.To {
			if at, ok := after[to]; !ok || e.After < at {
				after[to] = e.After
			}
		}
	}
	return after
}

// nameInWords names a rule in a sentence.
func (r *rule) nameInWords() string {
	if r.named {
		return fmt.Sprintf("rule %q", r.name)
	}
	return r.name
}

// said is nameInWords, to be said in any language.
func (r *rule) said() phrases.Said {
	if r.named {
		return said(phrases.LooserRule, "name", r.name)
	}
	return said(phrases.LooserNthRule, "number", r.number)
}

// anyName stands in probes for a name that no pattern spells out; no valid name holds it.
const anyName = "\x00"

// maxProbes bounds the time that a comparison of huge policies takes.
const maxProbes = 200_000

// probe asks both policies about every method, tool, server and agent that their patterns tell apart, and
// reports where a rule now stands that is laxer than what stood there.
func (l *loosening) probe() {
	methods, tools, servers, agents := l.witnesses()
	type change struct{ from, to *rule }
	var order []change
	found := map[change][]string{}
	probes := 0
	try := func(method, server, tool, agent string) {
		if probes++; probes > maxProbes {
			return
		}
		was := l.old.chain(method, server, tool, agent)
		is := l.new.chain(method, server, tool, agent)
		for i, o := range was {
			n := l.laxer(was[:i], o, is)
			if n == nil {
				continue
			}
			c := change{o, n}
			if found[c] == nil {
				order = append(order, c)
			}
			found[c] = append(found[c], display(server, tool, agent))
		}
	}
	for _, server := range servers {
		for _, agent := range agents {
			for _, method := range methods {
				try(method, server, approval.MethodTool(method), agent)
			}
			for _, tool := range tools {
				try(toolsCall, server, tool, agent)
			}
		}
	}
	for _, c := range order {
		l.tellChange(c.from, c.to, joinNames(found[c]))
	}
}

// tellChange tells that calls which one rule decided are another one's now.
func (l *loosening) tellChange(from, to *rule, calls phrases.Said) {
	now := said(present(to), "rule", to.said(), "calls", calls)
	if to.number == 0 {
		now = said(phrases.LooserNone, "calls", calls)
	}
	switch {
	case to.action == from.action && from.number == 0:
		l.say(phrases.LooserThanNone, "now", now, "easier", easier(from, to))
	case to.action == from.action:
		l.say(phrases.LooserThan, "now", now, "easier", easier(from, to), "was", from.said())
	case from.number == 0 && to.number != 0:
		l.say(phrases.LooserWasNone, "now", now)
	case from.action == approval.Deny:
		l.say(phrases.LooserWasDenied, "now", now, "was", from.said())
	default:
		l.say(phrases.LooserWasAsked, "now", now, "was", from.said())
	}
}

// laxer returns the laxest rule of the new chain that can now decide ahead of, or instead of, the old
// rule o, leaving out what could do so before.
func (l *loosening) laxer(before []*rule, o *rule, is []*rule) *rule {
	var laxest *rule
	most := 0
	for _, n := range is {
		if n == l.pair[o] {
			break
		}
		if slices.ContainsFunc(before, func(b *rule) bool { return l.pair[b] == n }) {
			continue
		}
		if by := l.laxerBy(o, n); by > most {
			laxest, most = n, by
		}
	}
	return laxest
}

// laxerBy is how much laxer a rule is than another one: 0 not, 1 by who must approve, and more by its action.
func (l *loosening) laxerBy(o, n *rule) int {
	if by := strictness(o.action) - strictness(n.action); by != 0 {
		return max(0, 1+by)
	}
	if o.action == approval.Quarantine && easier(o, n).Phrase != "" {
		return 1
	}
	return 0
}

// easier says how one rule that asks people is laxer than another one, nothing if it is not.
func easier(o, n *rule) (how phrases.Said) {
	var needs, grants loosening
	if !o.need.IsZero() {
		needs.need(how, o.need, n.need)
	}
	grants.grants(how, o.grants, n.grants)
	switch {
	case len(needs.said) > 0:
		how.Phrase = phrases.LooserLess
	case len(grants.said) > 0:
		how.Phrase = phrases.LooserLetsMore
	}
	return how
}

// chain returns the rules that can decide a call, in order, down to the first that always does.
func (p *Policy) chain(method, server, tool, agent string) []*rule {
	set := make(ruleSet, (len(p.rules)+63)/64)
	p.candidates(set, method, server, tool)
	var chain []*rule
	for i := set.next(0); i >= 0; i = set.next(i + 1) {
		r := &p.rules[i]
		if !r.concerns(agent) {
			continue
		}
		chain = append(chain, r)
		if r.unconditional() {
			return chain
		}
	}
	return append(chain, p.fallback(method))
}

// witnesses returns names that stand for all that the patterns of both policies tell apart.
func (l *loosening) witnesses() (methods, tools, servers, agents []string) {
	methods = append([]string{anyName}, knownMethods...)
	tools, servers, agents = []string{anyName}, []string{anyName, ""}, []string{anyName}
	seen := map[string]bool{}
	add := func(kind byte, list *[]string, name string) {
		if k := string(kind) + name; !seen[k] {
			seen[k] = true
			*list = append(*list, name)
		}
	}
	seen["t"+anyName], seen["s"+anyName], seen["s"], seen["a"+anyName] = true, true, true, true
	for _, m := range append(methods, toolsCall) {
		seen["m"+m] = true
	}
	var wild []pattern
	witness := func(p pattern) string { return strings.ReplaceAll(string(p), "*", anyName) }
	for _, p := range []*Policy{l.old, l.new} {
		for i := range p.rules {
			for _, t := range p.rules[i].targets {
				add('t', &tools, witness(t.tool))
				if !t.tool.literal() && !slices.Contains(wild, t.tool) {
					wild = append(wild, t.tool)
				}
				if t.qualified {
					add('s', &servers, witness(t.server))
				}
			}
			for _, m := range p.rules[i].methods {
				add('m', &methods, witness(m))
			}
			for _, a := range p.rules[i].agents {
				add('a', &agents, witness(a))
			}
		}
	}
	// Names that two patterns share although neither covers the other: a*, *b.
	const most = 100
	for _, p := range wild[:min(len(wild), most)] {
		for _, q := range wild[:min(len(wild), most)] {
			name := p.prefix() + anyName + string(q)[strings.LastIndexByte(string(q), '*')+1:]
			if p.match(name) && q.match(name) {
				add('t', &tools, name)
			}
		}
	}
	return methods, tools, servers, agents
}

// display writes a probed name as a pattern again.
func display(server, tool, agent string) string {
	s := tool
	if server != anyName && server != "" {
		s = server + "/" + tool
	}
	if agent != anyName {
		s += " by " + agent
	}
	return strings.ReplaceAll(s, anyName, "*")
}

// joinNames joins what was found, the general cases standing for the special ones.
func joinNames(names []string) phrases.Said {
	var kept []string
	for _, n := range names {
		bare := n
		if _, after, ok := strings.Cut(bare, "/"); ok {
			bare = after
		}
		tool, _, _ := strings.Cut(bare, " by ")
		general := n != tool && slices.Contains(kept, tool)
		if !general && !slices.Contains(kept, n) {
			kept = append(kept, n)
		}
	}
	const most = 8
	var listed []phrases.Said
	for _, n := range kept[:min(len(kept), most)] {
		tool, agent, by := strings.Cut(n, " by ")
		one := said(phrases.LooserCall, "tool", tool)
		if by {
			one = said(phrases.LooserBy, "tool", tool, "agent", agent)
		}
		listed = append(listed, one)
	}
	if more := len(kept) - most; more > 0 {
		return said(phrases.LooserMore, "calls", listed, "more", more)
	}
	return said(phrases.LooserCalls, "calls", listed)
}

// present is the phrase for what a rule does now.
func present(r *rule) phrases.Phrase {
	switch asks := r.action == approval.Quarantine; {
	case asks && r.unconditional():
		return phrases.LooserNowAsks
	case asks:
		return phrases.LooserMayAsk
	case r.unconditional():
		return phrases.LooserNowAllows
	}
	return phrases.LooserMayAllow
}
