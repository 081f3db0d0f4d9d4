package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/args/decimal"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on what a policy may say.
const (
	minDuration = time.Millisecond // what times are stored in
	maxDuration = 366 * 24 * time.Hour
	maxName     = 128 // characters
	maxMessage  = 1000
)

// Options is what a policy is checked against. Nothing of it changes a verdict.
type Options struct {
	Servers []string // the configured MCP servers
	Agents  []string // the configured agents; nil if they are not known
	// People are the configured people; nil if they are not known: then it is not checked whether a need can be met.
	People []approval.Actor
	Owner  func(agent string) string // who owns an agent, "" for none; nil: no agent has an owner
	// Reached reports whether cards can come to a person; nil: that is not looked at.
	Reached func(person string) bool
	// NoPasskeys says why nobody can use a passkey here, "" where they can: step_up is an error then.
	NoPasskeys string
	// Languages are those that texts may be written in; nil if they are not known.
	Languages []string
}

// Compile checks a policy and makes it ready. Every problem is returned, those of [Read] too, in the
// order of the file; the policy is nil if any of them is more than a warning.
func Compile(cfg Config, opts Options) (*Policy, []Problem) {
	c := &compiler{cfg: &cfg, opts: opts, problems: slices.Clone(cfg.problems)}
	p := c.compile()
	sortProblems(c.problems)
	if HasErrors(c.problems) {
		return nil, c.problems
	}
	return p, c.problems
}

type compiler struct {
	cfg      *Config
	opts     Options
	problems []Problem
}

// defaultRoot is the path of a policy that was not read from a file.
const defaultRoot = "$.policy"

func (c *compiler) compile() *Policy {
	cfg := c.cfg
	if cfg.root == "" {
		cfg.root = defaultRoot
	}
	c.include()
	p := &Policy{observe: cfg.Mode == Observe}
	switch cfg.Mode {
	case "", Enforce:
	case Observe:
		c.warn(Origin{}, "mode", "mode is observe: every call is allowed, and what would have happened is only recorded")
	default:
		c.fail(Origin{}, "mode", "mode must be enforce or observe, not %q", cfg.Mode)
	}
	p.terms = c.terms()
	for r, l := range cfg.Levels {
		if r.Rank() == 0 {
			c.fail(Origin{}, "levels", "unknown risk level %q; use low, medium, high or critical", r)
		}
		c.action(Origin{}, "levels."+string(r)+".action", l.Action)
		c.duration(Origin{}, "levels."+string(r)+".timeout", l.Timeout)
	}
	p.guard = c.guard()
	p.rules = c.rules()
	p.coverTheRest(cfg)
	p.index = newIndex(p.rules, func(r *rule) bool { return r.judges(toolsCall) })
	p.methods = newIndex(p.rules, (*rule).judgesOthers)
	p.number()
	p.spellings = newSpellings(p.rules)
	p.digest = cfg.digest(p.terms)
	p.digests = make(map[string]string, len(p.rules))
	for i := range p.rules {
		p.digests[p.rules[i].name] = p.rules[i].digest
	}
	p.source = cfg.source(p)
	c.shadows(p)
	c.asks(p)
	c.diffs(p)
	c.needs(p)
	return p
}

// terms returns what holds for all requests.
func (c *compiler) terms() approval.Terms {
	cfg := c.cfg
	terms := approval.Terms{
		UseWithin: defaultUseWithin, RememberDenial: defaultRememberDenial, MaxPending: cfg.MaxPending,
	}
	c.duration(Origin{}, "default_timeout", cfg.DefaultTimeout)
	if c.duration(Origin{}, "use_within", cfg.UseWithin); cfg.UseWithin != 0 {
		terms.UseWithin = cfg.UseWithin
	}
	if d := cfg.RememberDenial; d != nil {
		c.duration(Origin{}, "remember_denial", *d)
		terms.RememberDenial = *d
	}
	if cfg.MaxPending < 0 {
		c.fail(Origin{}, "max_pending", "max_pending must not be negative")
	}
	c.cards(&terms)
	for _, risk := range risks {
		if cfg.Levels[risk].Elicitation {
			terms.Elicitation = append(terms.Elicitation, risk)
		}
	}
	return terms
}

// rules compiles the rules, without those that are read as the guard.
func (c *compiler) rules() []rule {
	var rules []rule
	names := map[string]int{}
	for i := range c.cfg.Rules {
		if c.cfg.Rules[i].oldGuard() {
			continue
		}
		r := c.rule(i)
		if first, dup := names[r.name]; dup && r.named {
			c.fail(r.origin, "name", "rule %d has this name already", first)
		} else {
			names[r.name] = r.number
		}
		rules = append(rules, r)
	}
	return rules
}

// coverTheRest sets what holds for calls that no rule concerns.
func (p *Policy) coverTheRest(cfg *Config) {
	high := cfg.level(approval.RiskHigh)
	p.otherwise = rule{
		action: approval.Quarantine, risk: approval.RiskHigh, reasonCode: codeUnknownTool,
		timeout: high.Timeout, requireReason: deref(high.RequireReason),
	}
	p.otherwise.need, p.otherwise.group = high.need(), high.Group
	p.otherwise.setGrants(new(Rule), high.AllowSkip)
	p.otherwise.digest = new(Rule).digest(high)
	p.otherwise.tight = tightened{risk: approval.RiskHigh, timeout: high.Timeout, requireReason: p.otherwise.requireReason,
		need: p.otherwise.need}
	p.method = p.otherwise
	p.method.need, p.method.grants, p.method.digest = nil, nil, ""
	p.method.action, p.method.risk, p.method.reasonCode = approval.Allow, approval.RiskLow, codeMethodDefault
	p.method.timeout, p.method.requireReason = new(Rule).over(cfg.level(approval.RiskLow))
	p.unknown = p.otherwise
	p.unknown.need, p.unknown.grants, p.unknown.digest = nil, nil, ""
	p.unknown.action, p.unknown.reasonCode = approval.Deny, codeUnknownMethod
}

// rule compiles one rule. The order of the steps is the order of the problems that stand at one place.
func (c *compiler) rule(i int) rule {
	in := &c.cfg.Rules[i]
	r := rule{
		number: i + 1, name: in.Name, origin: in.Origin, message: in.Message, reasonCode: in.ReasonCode,
		sentences:  sentences(in),
		ignoreArgs: slices.Clone(in.IgnoreArgs), preset: in.Preset, annotations: in.Annotations,
	}
	if r.origin.Path == "" {
		r.origin.Path = fmt.Sprintf("%s.rules[%d]", c.cfg.root, i)
	}
	at := r.origin
	c.texts(&r)
	c.decision(&r, in)
	if r.strict = in.Audit == AuditStrict; !r.strict && in.Audit != "" && in.Audit != AuditNormal {
		c.fail(at, "audit", "audit must be normal or strict, not %q", string(in.Audit))
	}
	c.methods(at, &r, in.Methods)
	c.targets(&r, in)
	c.agents(&r, in)
	for j := range in.Conditions {
		compiled := c.condition(&r, in, j)
		compiled.every = r.action == approval.Allow
		r.conditions = append(r.conditions, compiled)
	}
	if in.When != "" {
		r.when = c.when(at, in.When)
	}
	c.diff(&r, in)
	r.looks = r.looksAt()
	c.warnUnproven(&r)
	return r
}

// texts checks what a rule is called and what it says, and names it by its number where it has no name.
func (c *compiler) texts(r *rule) {
	at := r.origin
	if r.named = r.name != ""; !r.named {
		r.name = "rule " + strconv.Itoa(r.number)
	} else if bad := badText(r.name, maxName); bad != "" {
		c.fail(at, "name", "the name %s", bad)
	} else if numberedRE.MatchString(r.name) {
		c.fail(at, "name", "names like %q are kept for rules without a name; choose another", r.name)
	}
	c.wording(r)
	if r.reasonCode != "" && !reasonCodeRE.MatchString(r.reasonCode) {
		c.fail(at, "reason_code", "reason_code must be 1 to 64 characters out of a-z, 0-9 and _")
	}
	for j, name := range r.ignoreArgs {
		switch {
		case name == "":
			c.fail(at, fmt.Sprintf("ignore_args[%d]", j), "an empty name")
		case strings.ContainsRune(name, '.'):
			c.warn(at, fmt.Sprintf("ignore_args[%d]", j),
				"only top-level arguments can be ignored; %q is read as the name of one", name)
		}
	}
}

// decision compiles what a rule decides and what it then asks for, from its level where it does not say.
func (c *compiler) decision(r *rule, in *Rule) {
	at := r.origin
	switch r.risk = in.Risk; {
	case r.risk == "" && in.Action == approval.Allow: // what may run unasked is no risk to anybody
		r.risk = approval.RiskLow
	case r.risk == "":
		r.risk = approval.RiskHigh
	case r.risk.Rank() == 0:
		c.fail(at, "risk", "unknown risk level %q; use low, medium, high or critical", r.risk)
	}
	c.action(at, "action", in.Action)
	c.duration(at, "timeout", in.Timeout)
	level := c.cfg.level(r.risk)
	if r.action = in.Action; r.action == "" {
		r.action = level.Action
	}
	r.timeout, r.requireReason = in.over(level)
	r.tight.risk = r.risk
	if r.risk.Rank() < approval.RiskHigh.Rank() {
		r.tight.risk = approval.RiskHigh
	}
	r.tight.timeout, r.tight.requireReason = in.over(c.cfg.level(r.tight.risk))
	if r.tight.requireReason = r.tight.requireReason || r.requireReason; r.action == approval.Quarantine {
		r.tight.timeout = min(r.tight.timeout, r.timeout)
	}
	if r.action == approval.Quarantine {
		r.need = in.Needs.over(level.Needs).need()
	}
	asks := in.Asks.over(level.Asks)
	r.group = asks.Group
	r.setGrants(in, asks.AllowSkip)
	r.digest = in.digest(level)
	r.tight.need = in.Needs.over(c.cfg.level(r.tight.risk).Needs).need().Stricter(r.need)
	if r.reasonCode == "" {
		switch r.action {
		case approval.Allow:
			r.reasonCode = codeAllowed
		case approval.Deny:
			r.reasonCode = codeForbidden
		default:
			r.reasonCode = codeApprovalRequired
		}
	}
}

// targets compiles the tools of a rule; one without any is for all.
func (c *compiler) targets(r *rule, in *Rule) {
	at := r.origin
	for j, s := range in.Tools {
		where := fmt.Sprintf("tools[%d]", j)
		t := parseTarget(s)
		switch {
		case t.tool == "" || t.qualified && t.server == "" || strings.Contains(string(t.tool), "/"):
			c.fail(at, where, "%q must be TOOL or SERVER/TOOL", s)
		case !possible(t.tool) || !possible(t.server):
			c.warn(at, where, "%q can never match: names have only A-Z a-z 0-9 _ . : - in them, and * is the only wildcard", s)
		case !r.canMatch(t):
			c.fail(at, where, "%q can never match: a call of %s has no tool of a server; write server/*, or leave tools out",
				s, join(r.methods))
		}
		t = c.presetTarget(r, where, s, t)
		r.targets = append(r.targets, t)
		if r.action == approval.Allow {
			c.allowedBroadly(r, where, s, t)
		}
		if t.qualified && t.server != "" && t.server.literal() && c.opts.Servers != nil &&
			!slices.Contains(c.opts.Servers, string(t.server)) {
			c.warn(at, where, "mcp.servers has no %q%s (this is right if the server is behind `countersign mcp` or a hook)",
				string(t.server), didYouMean(string(t.server), c.opts.Servers, nil))
		}
	}
	if len(in.Tools) == 0 {
		if r.action == approval.Allow && !in.unread {
			c.fail(at, "", "a rule with action: allow must name its tools")
		}
		r.targets = []target{{tool: "*"}}
	}
}

// allowedBroadly warns of a target, written as s in a rule that allows, that may match more than was meant.
func (c *compiler) allowedBroadly(r *rule, where, s string, t target) {
	switch {
	case t.tool == "*" && !r.judges(toolsCall):
	case t.tool == "*":
		c.warn(r.origin, where, "%q allows every tool, including tools that are added later; name the tools", s)
	case !t.qualified && len(c.opts.Servers) > 1:
		c.warn(r.origin, where, "%q is allowed on any server (%s); write server/%s to say which",
			s, strings.Join(c.opts.Servers, ", "), s)
	}
}

// agents compiles the agents of a rule.
func (c *compiler) agents(r *rule, in *Rule) {
	at := r.origin
	for j, s := range in.Agents {
		where := fmt.Sprintf("agents[%d]", j)
		a := pattern(s)
		switch {
		case a == "":
			c.fail(at, where, "an empty name")
		case !possible(a):
			c.warn(at, where, "%q can never match: names have only A-Z a-z 0-9 _ . : - in them, and * is the only wildcard", s)
		case c.opts.Agents != nil && !slices.ContainsFunc(c.opts.Agents, a.match):
			c.warn(at, where, "there is no agent %q%s", s, didYouMean(s, c.opts.Agents, nil))
		}
		r.agents = append(r.agents, a)
	}
}

// number gives a number to every top-level argument that a rule can ask for by a plain name.
func (p *Policy) number() {
	p.names = map[string]int32{}
	add := func(name string) int32 {
		if strings.Contains(name, ".") {
			return -1
		}
		n, ok := p.names[name]
		if !ok {
			n = int32(len(p.names))
			p.names[name] = n
		}
		return n
	}
	for i := range p.rules {
		r := &p.rules[i]
		for j := range r.conditions {
			for k := range r.conditions[j].params {
				one := &r.conditions[j].params[k]
				one.name = add(one.path)
			}
		}
		if r.when != nil {
			for name := range r.when.fields {
				add(name)
			}
		}
	}
}

// over returns what holds for the rule at a level: its own word first.
func (r *Rule) over(l Level) (time.Duration, bool) {
	timeout, reason := l.Timeout, deref(l.RequireReason)
	if r.Timeout != 0 {
		timeout = r.Timeout
	}
	if r.RequireReason != nil {
		reason = *r.RequireReason
	}
	return timeout, reason
}

func deref(b *bool) bool { return b != nil && *b }

var (
	reasonCodeRE = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	numberedRE   = regexp.MustCompile(`^rule [0-9]+$`)
)

// possible reports whether a pattern could match a valid name.
func possible(p pattern) bool {
	bare := strings.ReplaceAll(string(p), "*", "")
	return bare == "" || approval.ValidName(bare)
}

// badText says what is wrong with a text for people, "" if nothing is.
func badText(s string, most int) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "is empty"
	case utf8.RuneCountInString(s) > most:
		return fmt.Sprintf("is longer than %d characters", most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "holds a line break or another control character"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	return ""
}

func (c *compiler) action(at Origin, where string, a approval.Action) {
	switch a {
	case "", approval.Allow, approval.Quarantine, approval.Deny:
	default:
		c.fail(at, where, "action must be allow, ask or deny, not %q", a)
	}
}

func (c *compiler) duration(at Origin, where string, d time.Duration) {
	if d < 0 || d > maxDuration || d > 0 && d < minDuration {
		c.fail(at, where, "a duration must be between 1ms and a year")
	}
}

// condition compiles one condition of a rule.
func (c *compiler) condition(r *rule, of *Rule, j int) condition {
	at, in, where := r.origin, &of.Conditions[j], fmt.Sprintf("conditions[%d]", j)
	before := len(c.problems)
	names := in.Params
	if in.Param != "" || len(names) == 0 {
		names = append([]string{in.Param}, names...)
	}
	out := condition{params: c.params(at, where, names, of)}
	if in.Matches != "" {
		if re, err := regexp.Compile(in.Matches); err != nil {
			c.fail(at, where+".matches", "not a regular expression: %s",
				strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		} else {
			out.tests = append(out.tests, matchesTest{re})
		}
	}
	if in.Equals != nil {
		c.equals(at, where+".equals", &out, []jsontext.Value{in.Equals}, false)
	}
	if in.In != nil {
		if len(in.In) == 0 {
			c.fail(at, where+".in", "in needs at least one value")
		} else {
			c.equals(at, where+".in", &out, in.In, true)
		}
	}
	c.comparisons(at, where, &out, in)
	if in.Under != nil {
		c.under(at, where, &out, in.Under)
	}
	if in.Shell != "" {
		if in.Shell != ShellReadOnly {
			c.fail(at, where+".shell", "shell %q is not known; there is %s", in.Shell, ShellReadOnly)
		}
		out.tests = append(out.tests, shellTest{})
	}
	if len(out.tests) == 0 && len(c.problems) == before && !of.unread {
		c.fail(at, where, "the condition on %q tests nothing; it needs one of %s",
			strings.Join(names, ", "), strings.Join(operators, ", "))
	}
	return out
}

// params compiles the arguments that a condition is on.
func (c *compiler) params(at Origin, where string, names []string, of *Rule) []param {
	var params []param
	for i, name := range names {
		path := where + ".param"
		if len(names) > 1 {
			path = fmt.Sprintf("%s[%d]", path, i)
		}
		switch {
		case name == "" && of.unread:
		case slices.Contains(strings.Split(name, "."), ""):
			c.fail(at, path, "param must be the name of an argument, or a dotted path to one")
		case slices.Contains(names[:i], name):
			c.fail(at, path, "%q is listed twice; remove one", name)
		}
		params = append(params, param{path: name})
	}
	return params
}

func (c *compiler) comparisons(at Origin, where string, out *condition, in *Condition) {
	for _, op := range []struct {
		key, sign string
		token     json.Number
	}{{"gt", ">", in.GT}, {"gte", ">=", in.GTE}, {"lt", "<", in.LT}, {"lte", "<=", in.LTE}} {
		if op.token == "" {
			continue
		}
		if !decimal.IsNumber(string(op.token)) {
			c.fail(at, where+"."+op.key, "%s needs a number", op.key)
			continue
		}
		bound, err := decimal.Parse(string(op.token))
		if err != nil {
			c.fail(at, where+"."+op.key, "this %v", err)
			continue
		}
		out.tests = append(out.tests, compareTest{op.sign, string(op.token), bound})
	}
}

func (c *compiler) under(at Origin, where string, out *condition, bases []string) {
	var t underTest
	for j, base := range bases {
		if base == scopeBase {
			t.scope = true
			continue
		}
		p, ok := cleanPath(base)
		if !ok {
			c.fail(at, fmt.Sprintf("%s.under[%d]", where, j),
				"%q is not an absolute path; it must begin with / and hold no .. and no backslash", base)
			continue
		}
		t.bases = append(t.bases, p)
	}
	if len(bases) == 0 {
		c.fail(at, where+".under", "under needs at least one folder")
	}
	out.tests = append(out.tests, t)
}

func (c *compiler) equals(at Origin, where string, out *condition, choices []jsontext.Value, list bool) {
	t, err := newEqualsTest(choices, list)
	if err != nil {
		c.fail(at, where, "a value %v", err)
		return
	}
	out.tests = append(out.tests, t)
}

func (c *compiler) when(at Origin, source string) *program {
	p, problems := compileWhen(source)
	for _, problem := range problems {
		found := c.problem(at, "when", problem.message)
		found.Warning = problem.warning
		if _, ok := c.cfg.at[plainPath(found.Path)]; ok {
			found.Source, found.Caret = problem.excerpt(source)
		}
		if place, ok := c.cfg.at[textPath(found.Path)]; ok && problem.line > 0 {
			found.Line = place.Line + problem.line - 1
			found.Column = place.Column + problem.column
		} else if strings.Contains(source, "\n") {
			found.Message = fmt.Sprintf("line %d of the expression: %s", problem.line, found.Message)
		}
		c.problems = append(c.problems, found)
	}
	return p
}

// plainPath is where [Read] notes an expression in which no variable stood: no secret came into it, and it may be
// shown.
func plainPath(path string) string { return path + " plain" }

// textPath is where [Read] notes the first character of an expression whose own lines and columns
// can be added to it.
func textPath(path string) string { return path + " text" }

// shadows warns of rules that can never decide.
func (c *compiler) shadows(p *Policy) {
	if slices.ContainsFunc(c.cfg.Rules, func(r Rule) bool { return r.unread }) {
		return // what is unread may be what tells them apart
	}
	for j := range p.rules {
		if by := p.findShadowing(j); by != nil {
			c.warn(p.rules[j].origin, "", "this rule never decides: every call that it could match is decided earlier, by %s",
				strings.Join(by, " and "))
		}
	}
}

// findShadowing names the rules that, alone or together, leave nothing to rule j; nil if something is left.
func (p *Policy) findShadowing(j int) []string {
	agents := p.rules[j].agents
	if len(agents) == 0 {
		agents = []pattern{"*"}
	}
	return p.takenBefore(j, &p.rules[j], agents)
}

// takenBefore names the rules before j that leave nothing of r's calls to it, by those agents; nil if something is
// left.
func (p *Policy) takenBefore(j int, r *rule, agents []pattern) []string {
	var by []string
	for _, m := range r.methods {
		for _, t := range r.targets {
			for _, a := range agents {
				i := slices.IndexFunc(p.rules[:j], func(q rule) bool { return q.unconditional() && q.covers(m, t, a) })
				if i < 0 {
					return nil
				}
				if name := p.rules[i].nameInWords(); !slices.Contains(by, name) {
					by = append(by, name)
				}
			}
		}
	}
	return by
}

func (r *rule) unconditional() bool {
	return len(r.conditions) == 0 && r.when == nil && r.annotations == nil
}

// covers reports whether the rule's patterns match whatever m, t and a match.
func (r *rule) covers(m pattern, t target, a pattern) bool {
	return slices.ContainsFunc(r.methods, func(n pattern) bool { return n.covers(m) }) &&
		slices.ContainsFunc(r.targets, func(u target) bool { return u.covers(t) }) &&
		(len(r.agents) == 0 || slices.ContainsFunc(r.agents, func(b pattern) bool { return b.covers(a) }))
}

func (c *compiler) fail(at Origin, where, format string, args ...any) {
	c.problems = append(c.problems, c.problem(at, where, fmt.Sprintf(format, args...)))
}

// warn tells what may not be meant. An operator who includes a preset cannot change what it says.
func (c *compiler) warn(at Origin, where, format string, args ...any) {
	if strings.HasPrefix(at.Path, presetPrefix) {
		return
	}
	p := c.problem(at, where, fmt.Sprintf(format, args...))
	p.Warning = true
	c.problems = append(c.problems, p)
}

// problem finds the place in the file of where, below at; the nearest place above it if it has none
// of its own.
func (c *compiler) problem(at Origin, where, message string) Problem {
	base := at.Path
	if base == "" {
		base = c.cfg.root
	}
	path := base
	if where != "" {
		path += "." + where
	}
	p := Problem{Path: path, Message: message}
	if strings.HasPrefix(path, presetPrefix) {
		p.Message = path + ": " + message
	}
	for {
		if place, ok := c.cfg.at[path]; ok {
			p.Line, p.Column = place.Line, place.Column
			return p
		}
		i := strings.LastIndexAny(path, ".[")
		if i < len(base) {
			p.Line, p.Column = at.Line, at.Column
			return p
		}
		path = path[:i]
	}
}
