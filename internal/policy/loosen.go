package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/approval"
)

// Loosenings tells, in sentences for the log and the audit, what newer lets through more easily than older
// did: rules that became laxer, tools that a laxer rule now decides, and terms that widened. It
// compares patterns, not expressions: where a condition changed it says so, not whether it matters.
// Nothing is loosened from a nil policy.
func Loosenings(older, newer *Policy) []string {
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
	l.limits("calls that no rule covers", &older.otherwise, &newer.otherwise)
	l.probe()
	return l.said
}

type loosening struct {
	old, new *Policy
	pair     map[*rule]*rule // the new form of an old rule
	said     []string
}

func (l *loosening) say(format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

func (l *loosening) terms() {
	if l.new.observe && !l.old.observe {
		l.say("mode went from enforce to observe: every call is allowed")
	}
	o, n := l.old.terms, l.new.terms
	if n.UseWithin > o.UseWithin {
		l.say("use_within went from %s to %s: an approval can be used longer", spell(o.UseWithin), spell(n.UseWithin))
	}
	if n.RememberDenial < o.RememberDenial {
		l.say("remember_denial went from %s to %s: a denied call can be asked again sooner", spell(o.RememberDenial),
			spell(n.RememberDenial))
	}
	for _, risk := range n.Elicitation {
		if !slices.Contains(o.Elicitation, risk) {
			l.say("level %s: elicitation is on: the person at the agent's keyboard may decide", risk)
		}
	}
	switch {
	case o.MaxPending > 0 && n.MaxPending == 0:
		l.say("max_pending went from %d to no limit", o.MaxPending)
	case o.MaxPending > 0 && n.MaxPending > o.MaxPending:
		l.say("max_pending went from %d to %d", o.MaxPending, n.MaxPending)
	}
}

func (l *loosening) guard() {
	o, n := l.old.guard, l.new.guard
	switch {
	case o == nil:
		return
	case n == nil:
		l.say("the guard of the gate's files is gone: the rules alone decide calls that touch them")
		return
	}
	for _, name := range o.entries {
		if !slices.Contains(n.entries, name) && len(n.entries) > 0 {
			l.say("guard no longer names %s", name)
		}
	}
	if n.timeout > o.timeout {
		l.say("guard: timeout went from %s to %s", spell(o.timeout), spell(n.timeout))
	}
	if o.requireReason && !n.requireReason {
		l.say("guard: a reason is no longer required")
	}
	l.need("guard", o.need, n.need)
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
	name := n.nameInWords()
	if strictness(n.action) < strictness(o.action) {
		l.say("%s: action went from %s to %s", name, o.action.Word(), n.action.Word())
	} else {
		l.limits(name, o, n)
	}
	if o.strict && !n.strict && n.action != approval.Deny {
		l.say("%s: audit went from strict to normal: an allowed call may be sent before it is on record", name)
	}
	if was, is := o.conditional(), n.conditional(); was != is {
		switch {
		case n.action == approval.Allow && is == "":
			l.say("%s allows without conditions now", name)
		case n.action == approval.Allow:
			l.say("%s allows under changed conditions", name)
		case is != "":
			l.say("%s: its conditions changed, so calls that it stopped may pass it", name)
		}
	}
}

// limits compares what holds for the requests that a rule makes.
func (l *loosening) limits(name string, o, n *rule) {
	if o.action != approval.Quarantine || n.action != approval.Quarantine {
		return
	}
	if n.risk.Rank() < o.risk.Rank() {
		l.say("%s: risk went from %s to %s", name, o.risk, n.risk)
	}
	if n.timeout > o.timeout {
		l.say("%s: timeout went from %s to %s", name, spell(o.timeout), spell(n.timeout))
	}
	if o.requireReason && !n.requireReason {
		l.say("%s: a reason is no longer required", name)
	}
	var grown []string
	for _, a := range n.ignoreArgs {
		if !slices.Contains(o.ignoreArgs, a) {
			grown = append(grown, a)
		}
	}
	if len(grown) > 0 {
		l.say("%s: ignore_args now has %s", name, strings.Join(grown, ", "))
	}
	l.need(name, o.need, n.need)
	l.grants(name, o.grants, n.grants)
}

// grants compares for what an approval may be given for longer.
func (l *loosening) grants(name string, o, n *approval.GrantTerms) {
	switch {
	case n == nil:
		return
	case o == nil:
		l.say("%s: allow_skip is on: an approval can let later calls through, %s", name, asksInfo("", n).GrantsInWords())
		return
	case n.AnyArgs && !o.AnyArgs:
		l.say("%s: grants cover any args now", name)
		return
	case o.AnyArgs:
		return
	}
	for _, arg := range slices.Sorted(maps.Keys(n.Vary)) {
		switch was, ok := o.Vary[arg]; {
		case !ok:
			l.say("%s: grants let %s vary now %s", name, arg, varyInWords(n.Vary[arg]))
		case !isNoWider(n.Vary[arg], was):
			l.say("%s: grants let %s vary more: %s, from %s", name, arg, varyInWords(n.Vary[arg]), varyInWords(was))
		}
	}
}

// need compares who must say yes.
func (l *loosening) need(name string, o, n *approval.Need) {
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
			l.say("%s: %s no longer needed", name, approvals(w, outOf(s)))
		case i < w:
			l.say("%s: approvals needed out of %s went from %d to %d", name, outOf(s), w, i)
		}
	}
	if len(l.said) == before && n.Total() < o.Total() {
		l.say("%s: approvals needed went from %d to %d", name, o.Total(), n.Total())
	}
	if o.IsZero() {
		return
	}
	if o.SeparateDuties && (n == nil || !n.SeparateDuties) {
		l.say("%s: who owns the agent may approve its calls", name)
	}
	if o.Confirm && (n == nil || !n.Confirm) {
		l.say("%s: an approval is no longer asked for once more", name)
	}
	if o.StepUp && (n == nil || !n.StepUp) {
		l.say("%s: an approval no longer takes a passkey", name)
	}
	if was[""] > 0 || n == nil {
		return // whom an escalation adds could approve before
	}
	earlier := escalationTimes(o)
	for _, e := range n.Escalate {
		for _, to := range e.To {
			if at, ok := earlier[to]; !ok || e.After < at {
				l.say("%s: after %s %s may approve too", name, spell(e.After), to)
			}
		}
	}
}

func approvals(n int, of string) string {
	if n == 1 {
		return "an approval out of " + of + " is"
	}
	return fmt.Sprintf("%d approvals out of %s are", n, of)
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
		which := joinNames(found[c])
		switch {
		case c.to.action == c.from.action && c.to.number == 0:
			l.say("no rule covers %s any more, and %s than under %s", which, easier(c.from, c.to), c.from.nameInWords())
		case c.to.action == c.from.action && c.from.number == 0:
			l.say("%s %s %s, and %s than where no rule covers them", c.to.nameInWords(), present(c.to), which,
				easier(c.from, c.to))
		case c.to.action == c.from.action:
			l.say("%s %s %s, and %s than under %s", c.to.nameInWords(), present(c.to), which, easier(c.from, c.to),
				c.from.nameInWords())
		case c.to.number == 0:
			l.say("no rule covers %s any more, which %s %s", which, c.from.nameInWords(), past(c.from.action))
		case c.from.number == 0:
			l.say("%s %s %s, which no rule covered", c.to.nameInWords(), present(c.to), which)
		default:
			l.say("%s %s %s, which %s %s", c.to.nameInWords(), present(c.to), which, c.from.nameInWords(), past(c.from.action))
		}
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
	if o.action == approval.Quarantine && easier(o, n) != "" {
		return 1
	}
	return 0
}

// easier says how one rule that asks people is laxer than another one, "" if it is not.
func easier(o, n *rule) string {
	var needs, grants loosening
	if !o.need.IsZero() {
		needs.need("", o.need, n.need)
	}
	grants.grants("", o.grants, n.grants)
	switch {
	case len(needs.said) > 0:
		return "it takes less to approve them"
	case len(grants.said) > 0:
		return "an approval of them can let more calls through"
	}
	return ""
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
func joinNames(names []string) string {
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
	if more := len(kept) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(kept[:most], ", "), more)
	}
	return strings.Join(kept, ", ")
}

func past(a approval.Action) string {
	if a == approval.Deny {
		return "denied"
	}
	return "asked about"
}

func present(r *rule) string {
	one, other := "allows", "allow"
	if r.action == approval.Quarantine {
		one, other = "asks about", "ask about"
	}
	if !r.unconditional() {
		return "may now " + other
	}
	return "now " + one
}
