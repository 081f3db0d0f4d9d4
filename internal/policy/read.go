package policy

import (
	"encoding/json"
	"maps"
	"strings"

	"countersign/approval"
	"countersign/internal/yamlpos"

	"github.com/go-json-experiment/json/jsontext"
)

// Read takes the policy out of a configuration file: the top-level policy, or security.hitl, which is
// the same with policies for levels and enabled for mode. doc is the file's document; every other
// top-level key is left to others, and a file without a policy gives the zero Config, under which
// everything is quarantined.
//
// What is wrong is kept in the Config, with its place in the file, and [Compile] returns it together
// with what it finds itself.
func Read(doc *yamlpos.Node) Config {
	r := &reader{at: map[string]yamlpos.Position{}}
	cfg := Config{at: r.at}
	if doc != nil && doc.Kind != yamlpos.Null {
		r.document(doc, &cfg)
	}
	cfg.problems = r.problems
	return cfg
}

// Parse is [Read] for a file's content. Where that cannot be read, it is all that the Config says.
func Parse(src []byte) Config {
	r := &reader{}
	doc, _ := yamlpos.Parse(src, nil, func(at yamlpos.Position, message string) { r.failAt(at, "$", "%s", message) })
	if len(r.problems) > 0 {
		return Config{problems: r.problems}
	}
	return Read(doc)
}

func (r *reader) document(doc *yamlpos.Node, cfg *Config) {
	if doc.Kind != yamlpos.Mapping {
		r.fail(doc, "$", "the file must hold keys and values, such as listen: 127.0.0.1:8787")
		return
	}
	var policy, hitl *pair
	for _, e := range r.entries(doc, "$") {
		switch e.key {
		case "policy":
			policy = &e
		case "security":
			r.mapping(e.value, e.path, map[string]func(pair){"hitl": func(h pair) { hitl = &h }}, nil)
		}
	}
	switch {
	case policy != nil && hitl != nil:
		r.failAt(hitl.pos, hitl.path, "security.hitl is another spelling of policy, which is there too; keep one of them")
	case policy != nil:
		r.config(*policy, cfg, nil)
	case hitl != nil:
		r.config(*hitl, cfg, (*settings).harombe)
	}
}

// policySynonyms are words of other tools, or easily taken for ours, with what they are here.
var policySynonyms = map[string]string{
	"policies": "levels", "risk_levels": "levels", "risks": "levels", "enabled": "mode", "timeout": "default_timeout",
	"rule":     "rules",
	"includes": "include", "preset": "include", "presets": "include", "extends": "include",
	"approval_timeout": "default_timeout", "use_by": "use_within", "levels": "policies",
}

// settings reads a policy's own keys.
type settings struct {
	r                *reader
	cfg              *Config
	modeAt, levelsAt *pair
}

// config reads a policy. also adds the keys of another spelling, where it is written in one.
func (r *reader) config(e pair, cfg *Config, also func(*settings, map[string]func(pair))) {
	if e.value.Kind == yamlpos.Null {
		return
	}
	cfg.root, cfg.written = e.path, encodeNode(e.value, "rules")
	s := &settings{r: r, cfg: cfg}
	keys := map[string]func(pair){
		"mode":            s.mode,
		"default_timeout": func(e pair) { r.timeout(e, &cfg.DefaultTimeout) },
		"use_within":      func(e pair) { r.timeout(e, &cfg.UseWithin) },
		"remember_denial": func(e pair) {
			if d, ok := r.duration(e); ok {
				cfg.RememberDenial = &d
			}
		},
		"max_pending": func(e pair) { cfg.MaxPending = r.count(e) },
		"group":       func(e pair) { cfg.Group = r.group(e) },
		"group_within": func(e pair) {
			if d, ok := r.duration(e); ok {
				cfg.GroupWithin = &d
			}
		},
		"join_after": func(e pair) { r.timeout(e, &cfg.JoinAfter) },
		"guard":      func(e pair) { cfg.Guard = r.texts(e) },
		"rules":      func(e pair) { r.rules(e, cfg) },
		"include":    func(e pair) { cfg.Include = r.texts(e) },
		"levels":     s.levels,
	}
	if also != nil {
		also(s, keys)
	}
	r.mapping(e.value, e.path, keys, policySynonyms)
}

// harombe adds the keys that security.hitl has.
func (s *settings) harombe(keys map[string]func(pair)) {
	keys["policies"] = s.levels
	keys["enabled"] = func(e pair) {
		b := s.r.boolean(e)
		switch {
		case b == nil:
		case *b:
			s.setMode(e, Enforce)
		default:
			s.setMode(e, Observe)
		}
	}
}

func (s *settings) mode(e pair) {
	m, ok := s.r.text(e)
	if ok && m != string(Enforce) && m != string(Observe) {
		s.r.failAt(e.pos, e.path, "mode must be enforce or observe, not %q", m)
		return
	}
	s.setMode(e, Mode(m))
}

func (s *settings) setMode(e pair, m Mode) {
	if s.modeAt != nil {
		s.r.failAt(e.keyPos, e.path, "%s and %s say the same thing; keep one of them", s.modeAt.key, e.key)
		return
	}
	s.modeAt, s.cfg.Mode = &e, m
	s.r.at[s.cfg.root+".mode"] = e.pos // also where it is called enabled
}

func (s *settings) levels(e pair) {
	if s.levelsAt != nil {
		s.r.failAt(e.keyPos, e.path, "%s and %s say the same thing; keep one of them", s.levelsAt.key, e.key)
		return
	}
	s.levelsAt = &e
	s.r.levels(e, s.cfg)
}

// risk reads a risk level in any of its spellings.
func (r *reader) risk(name string, at yamlpos.Position, path string) approval.Risk {
	if level, ok := riskNames[name]; ok {
		return level
	}
	known := []string{"low", "medium", "high", "critical"}
	r.failAt(at, path, "unknown risk level %q; use one of %s%s", name, strings.Join(known, ", "),
		didYouMean(name, known, map[string]string{"none": "low", "moderate": "medium", "severe": "critical",
			"extreme": "critical"}))
	return ""
}

// act reads what to do with a call, in either spelling.
type act struct {
	r      *reader
	first  *pair
	action approval.Action
}

func (a *act) set(e pair, action approval.Action) {
	if a.first != nil {
		a.r.failAt(e.keyPos, e.path, "%s and %s say the same thing; keep one of them", a.first.key, e.key)
		return
	}
	a.first, a.action = &e, action
}

func (a *act) keys(keys map[string]func(pair)) {
	keys["action"] = func(e pair) {
		s, ok := a.r.text(e)
		switch action := approval.Action(s); {
		case s == approval.Quarantine.Word():
			a.set(e, approval.Quarantine)
		case action == approval.Allow || action == approval.Quarantine || action == approval.Deny:
			a.set(e, action)
		case ok:
			a.r.failAt(e.pos, e.path, "action must be allow, ask or deny, not %q%s", s,
				didYouMean(s, []string{"allow", "ask", "deny"}, actionSynonyms))
		}
	}
	keys["require_approval"] = func(e pair) {
		if b := a.r.boolean(e); b != nil && *b {
			a.set(e, approval.Quarantine)
		} else if b != nil {
			a.set(e, approval.Allow)
		}
	}
}

// actionSynonyms are words that are typed for an action. The program's own older word for ask is taken as it is.
var actionSynonyms = map[string]string{
	"block": "deny", "forbid": "deny", "forbidden": "deny", "reject": "deny",
	"approve": "ask", "approval": "ask", "confirm": "ask", "require_approval": "ask", "hold": "ask",
	"permit": "allow", "run": "allow", "pass": "allow",
}

func (r *reader) levels(e pair, cfg *Config) {
	switch e.value.Kind {
	case yamlpos.Null:
		return
	case yamlpos.Mapping:
	default:
		r.failAt(e.pos, e.path, "a mapping of risk levels is needed here, not %s", describe(e.value))
		return
	}
	cfg.Levels = map[approval.Risk]Level{}
	names := map[approval.Risk]string{}
	for _, e := range r.entries(e.value, e.path) {
		if e.key == forbidden {
			r.failAt(e.keyPos, e.path, "forbidden is not a level; write a rule with action: deny")
			continue
		}
		risk := r.risk(e.key, e.keyPos, e.path)
		if risk == "" {
			continue
		}
		if first, dup := names[risk]; dup {
			r.failAt(e.keyPos, e.path, "%s and %s are the same risk level", first, e.key)
			continue
		}
		names[risk] = e.key
		cfg.Levels[risk] = r.level(e)
	}
}

var levelSynonyms = withNeeds(map[string]string{
	"elicit": "elicitation", "keyboard": "elicitation", "reason": "require_reason",
})

// withNeeds adds to synonyms those of the keys that rules and levels share.
func withNeeds(synonyms map[string]string) map[string]string {
	maps.Copy(synonyms, map[string]string{
		"approver": "approvers", "approved_by": "approvers", "reviewers": "approvers",
		"stages": "approvals", "needs": "approvals", "quorum": "approvals",
		"four_eyes": "separate_duties", "separation_of_duties": "separate_duties", "separate_duty": "separate_duties",
		"escalation": "escalate", "escalations": "escalate", "confirmation": "confirm", "passkey": "step_up",
		"skip": "allow_skip", "always_allow": "allow_skip", "allow_always": "allow_skip", "remember": "allow_skip",
		"grouping": "group", "card": "group",
	})
	return synonyms
}

func (r *reader) level(e pair) Level {
	l := Level{path: e.path}
	a := act{r: r}
	keys := map[string]func(pair){
		"timeout":        func(e pair) { r.timeout(e, &l.Timeout) },
		"require_reason": func(e pair) { l.RequireReason = r.boolean(e) },
		"elicitation":    func(e pair) { l.Elicitation = deref(r.boolean(e)) },
	}
	a.keys(keys)
	r.needKeys(&l.Needs, keys)
	r.asksKeys(&l.Asks, keys)
	before := len(r.problems)
	r.mapping(e.value, e.path, keys, levelSynonyms)
	l.unread = len(r.problems) > before
	l.Action = a.action
	return l
}

func (r *reader) rules(e pair, cfg *Config) {
	switch e.value.Kind {
	case yamlpos.Null:
		return
	case yamlpos.List:
	default:
		r.failAt(e.pos, e.path, "a list of rules is needed here, not %s", describe(e.value))
		return
	}
	for i, item := range e.value.Items {
		cfg.Rules = append(cfg.Rules, r.rule(item, r.item(e.path, i, item)))
	}
}

var ruleSynonyms = withNeeds(map[string]string{
	"methods": "method", "mcp_method": "method", "log": "audit", "strict": "audit", "tool": "tools", "tool_name": "tools",
	"agent": "agents", "condition": "conditions", "cel": "when", "if": "when", "expression": "when",
	"decision": "action", "effect": "action", "risk_level": "risk", "level": "risk", "human_message": "message",
	"reason":      "message",
	"description": "message", "messages": "message", "summaries": "summary", "title": "summary", "headline": "summary",
	"what": "summary",
	"why":  "message", "id": "name", "reason-code": "reason_code", "code": "reason_code", "ignore": "ignore_args",
	"approval": "require_approval", "grant": "grants", "hints": "annotations", "annotation": "annotations",
	"preview": "diff", "difference": "diff", "diffs": "diff", "compare": "diff",
})

func (r *reader) rule(n *yamlpos.Node, path string) Rule { //nolint:funlen // a table of keys
	rule := Rule{Origin: Origin{Path: path, Position: n.Position}, written: encodeNode(n)}
	a := act{r: r}
	var deny *pair
	keys := map[string]func(pair){
		"name": func(e pair) {
			rule.Name, _ = r.text(e)
			rule.nameWritten = e.value.Written
		},
		"method": func(e pair) { rule.Methods = r.texts(e) },
		"tools":  func(e pair) { rule.Tools = r.texts(e) },
		"agents": func(e pair) { rule.Agents = r.texts(e) },
		"when": func(e pair) {
			rule.When, _ = r.text(e)
			if e.value.Written == rule.When {
				r.at[plainPath(e.path)] = e.pos
			}
			if start := e.value.TextStart; start.Line > 0 {
				r.at[textPath(e.path)] = start
			}
		},
		"conditions": func(e pair) { rule.Conditions = r.conditions(e) },
		"risk": func(e pair) {
			if s, ok := r.text(e); ok {
				rule.Risk = r.risk(s, e.pos, e.path)
				if s == forbidden {
					deny = &e
				}
			}
		},
		"timeout":        func(e pair) { r.timeout(e, &rule.Timeout) },
		"reason_code":    func(e pair) { rule.ReasonCode, _ = r.text(e) },
		"ignore_args":    func(e pair) { rule.IgnoreArgs = r.texts(e) },
		"require_reason": func(e pair) { rule.RequireReason = r.boolean(e) },
		"grants":         func(e pair) { rule.Grants = r.grants(e) },
		"annotations":    func(e pair) { rule.Annotations = r.annotations(e) },
		"diff":           func(e pair) { rule.Diff = r.diff(e) },
		"audit": func(e pair) {
			s, ok := r.text(e)
			if rule.Audit = Audit(s); ok && rule.Audit != AuditNormal && rule.Audit != AuditStrict {
				r.failAt(e.pos, e.path, "audit must be normal or strict, not %q", s)
				rule.Audit = ""
			}
		},
	}
	a.keys(keys)
	r.sayKeys(&rule, keys)
	r.needKeys(&rule.Needs, keys)
	r.asksKeys(&rule.Asks, keys)
	before := len(r.problems)
	if n.Kind == yamlpos.Null {
		r.failAt(n.Position, path, "an empty rule")
	} else {
		r.mapping(n, path, keys, ruleSynonyms)
	}
	rule.unread = len(r.problems) > before
	rule.Action = a.action
	if deny != nil {
		if a.first != nil && a.action != approval.Deny {
			r.failAt(deny.pos, deny.path, "risk: forbidden means action: deny, but the rule says %s otherwise", a.first.key)
		}
		rule.Action = approval.Deny
	}
	return rule
}

var conditionSynonyms = map[string]string{
	"regex": "matches", "match": "matches", "pattern": "matches", "eq": "equals", "equal": "equals", "is": "equals",
	"value":  "equals",
	"one_of": "in", "any_of": "in", "greater_than": "gt", "less_than": "lt", "ge": "gte", "le": "lte", "min": "gte",
	"max":  "lte",
	"path": "param", "arg": "param", "field": "param", "parameter": "param", "name": "param", "within": "under",
	"prefix": "under", "inside": "under", "command": "shell",
}

func (r *reader) conditions(e pair) []Condition {
	if e.value.Kind != yamlpos.List {
		r.failAt(e.pos, e.path, "a list of conditions is needed here, not %s", describe(e.value))
		return nil
	}
	if len(e.value.Items) == 0 {
		r.failAt(e.pos, e.path, "an empty list has no meaning here; leave conditions out")
	}
	var out []Condition
	for i, item := range e.value.Items {
		out = append(out, r.condition(item, r.item(e.path, i, item)))
	}
	return out
}

func (r *reader) condition(n *yamlpos.Node, path string) Condition {
	var c Condition
	param, tested, before := false, false, len(r.problems)
	tests := func(f func(pair)) func(pair) {
		return func(e pair) { tested = true; f(e) }
	}
	number := func(into *json.Number) func(pair) {
		return tests(func(e pair) { *into = r.number(e) })
	}
	r.mapping(n, path, map[string]func(pair){
		"param":   func(e pair) { param = true; r.param(e, &c) },
		"matches": tests(func(e pair) { c.Matches, _ = r.text(e) }),
		"equals":  tests(func(e pair) { c.Equals = r.json(e.value, e.path) }),
		"in":      tests(func(e pair) { c.In = r.oneOf(e) }),
		"gt":      number(&c.GT), "gte": number(&c.GTE), "lt": number(&c.LT), "lte": number(&c.LTE),
		"under": tests(func(e pair) { c.Under = r.texts(e) }),
		"shell": tests(func(e pair) { c.Shell, _ = r.text(e) }),
	}, conditionSynonyms)
	switch {
	case len(r.problems) > before:
	case !param:
		r.failAt(r.at[path], path, "the condition needs param, the argument that it tests")
	case !tested:
		r.failAt(r.at[path], path, "the condition tests nothing; it needs one of %s", strings.Join(operators, ", "))
	}
	return c
}

// param reads the name of an argument, or a list of its names.
func (r *reader) param(e pair, c *Condition) {
	if e.value.Kind == yamlpos.List {
		c.Params = r.texts(e)
		return
	}
	c.Param, _ = r.text(e)
}

// oneOf reads the values of which an argument must be one.
func (r *reader) oneOf(e pair) []jsontext.Value {
	if len(e.value.Items) == 0 {
		r.failAt(e.pos, e.path, "in needs a list of values")
		return nil
	}
	var out []jsontext.Value
	for i, item := range e.value.Items {
		out = append(out, r.json(item, r.item(e.path, i, item)))
	}
	return out
}
