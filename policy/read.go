package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"countersign/approval"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Read takes the policy out of a configuration file: the top-level policy, or security.hitl, which is
// the same with policies for levels and enabled for mode. doc is the body of the parsed document;
// every other top-level key is left to others, and a file without a policy gives the zero Config,
// under which everything is quarantined. Values are read from the nodes as they are now, so a caller
// may have replaced the text of strings before.
//
// What is wrong is kept in the Config, with its place in the file, and [Compile] returns it together
// with what it finds itself.
func Read(doc ast.Node) Config {
	r := &reader{anchors: map[string]ast.Node{}, at: map[string]Position{}}
	cfg := Config{at: r.at}
	if doc != nil {
		ast.Walk(anchorFinder{r.anchors}, doc)
		r.document(doc, &cfg)
	}
	cfg.problems = r.problems
	return cfg
}

func (r *reader) document(doc ast.Node, cfg *Config) {
	top, ok := r.resolve(doc, "$")
	if !ok || isNull(top) {
		return
	}
	m, ok := top.(*ast.MappingNode)
	if !ok {
		r.fail(top, "$", "the file must be a mapping of names to values")
		return
	}
	var policy, hitl *pair
	for _, e := range r.entries(m, "$") {
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
		r.config(*policy, cfg, false)
	case hitl != nil:
		r.config(*hitl, cfg, true)
	}
}

// Parse reads a YAML document like [Read].
func Parse(src []byte) Config {
	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		p := Problem{Path: "$", Message: err.Error()}
		if y, ok := errors.AsType[yaml.Error](err); ok {
			p.Message = y.GetMessage()
			if t := y.GetToken(); t != nil && t.Position != nil {
				p.Line, p.Column = t.Position.Line, t.Position.Column
			}
		}
		return Config{problems: []Problem{p}}
	}
	switch len(file.Docs) {
	case 0:
		return Config{}
	case 1:
		return Read(file.Docs[0].Body)
	}
	p := Problem{Path: "$", Message: "the file has more than one document"}
	if body := file.Docs[1].Body; body != nil {
		place := place(body)
		p.Line, p.Column = place.Line, place.Column
	}
	return Config{problems: []Problem{p}}
}

type anchorFinder struct{ anchors map[string]ast.Node }

func (f anchorFinder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		f.anchors[a.Name.GetToken().Value] = a.Value
	}
	return f
}

// Limits on what aliases can unfold to.
const (
	maxNodes = 100_000
	maxDepth = 64
)

type reader struct {
	anchors  map[string]ast.Node
	at       map[string]Position
	problems []Problem
	nodes    int
}

// pair is one entry of a mapping. pos is where its value is, or its key if there is no value.
type pair struct {
	key    string
	keyPos Position
	value  ast.Node
	pos    Position
	path   string
}

func (r *reader) failAt(p Position, path, format string, args ...any) {
	r.problems = append(r.problems, Problem{Path: path, Line: p.Line, Column: p.Column, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) fail(n ast.Node, path, format string, args ...any) {
	p := place(n)
	if known, ok := r.at[path]; ok && isNull(n) {
		p = known
	}
	r.failAt(p, path, format, args...)
}

// place returns where a node begins.
func place(n ast.Node) Position {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{t.Position.Line, t.Position.Column}
}

func isNull(n ast.Node) bool { return n == nil || n.Type() == ast.NullType }

// resolve follows anchors, aliases and the !!str tag to the value meant.
func (r *reader) resolve(n ast.Node, path string) (ast.Node, bool) {
	from := n
	if r.nodes++; r.nodes > maxNodes {
		if r.nodes == maxNodes+1 {
			r.fail(from, path, "the aliases of this file unfold to too much")
		}
		return nil, false
	}
	for range maxDepth {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			target, ok := r.anchors[name]
			if !ok {
				r.fail(from, path, "there is no anchor %q", name)
				return nil, false
			}
			n = target
		case *ast.TagNode:
			if tag := x.GetToken().Value; tag != "!!str" {
				r.fail(from, path, "the tag %s has no meaning here", tag)
				return nil, false
			}
			if s, ok := x.Value.(*ast.StringNode); ok {
				return s, true
			}
			if s, ok := x.Value.(*ast.LiteralNode); ok {
				return s, true
			}
			if isNull(x.Value) {
				r.fail(from, path, "a text is missing")
				return nil, false
			}
			// Told apart from a bare number by its quotes.
			t := x.Value.GetToken().Clone()
			t.Type = token.DoubleQuoteType
			return ast.String(t), true
		case nil:
			return nil, false
		default:
			return n, true
		}
	}
	r.fail(from, path, "an alias refers to itself")
	return nil, false
}

// entries lists a mapping's pairs; those merged in with << come after its own, unless it has the key.
func (r *reader) entries(m *ast.MappingNode, path string) []pair {
	var out []pair
	seen := map[string]bool{}
	r.gather(m, path, &out, seen, 0)
	return out
}

func (r *reader) gather(m *ast.MappingNode, path string, out *[]pair, seen map[string]bool, depth int) {
	if depth > maxDepth {
		r.fail(m, path, "mappings are merged too deeply")
		return
	}
	own := map[string]bool{}
	for _, v := range m.Values {
		if v.Key == nil || v.Key.IsMergeKey() {
			continue
		}
		key := keyText(v.Key)
		keyPos := place(v.Key)
		p := path + "." + key
		if own[key] {
			r.failAt(keyPos, p, "%q is there twice", key)
			continue
		}
		own[key] = true
		if seen[key] {
			continue // the merging mapping's own value stands
		}
		seen[key] = true
		e := pair{key: key, keyPos: keyPos, value: v.Value, pos: keyPos, path: p}
		if !isNull(v.Value) {
			e.pos = place(v.Value)
		}
		r.at[p] = e.pos
		*out = append(*out, e)
	}
	for _, v := range m.Values {
		if v.Key == nil || !v.Key.IsMergeKey() {
			continue
		}
		n, ok := r.resolve(v.Value, path)
		if !ok {
			continue
		}
		merged := []ast.Node{n}
		if list, ok := n.(*ast.SequenceNode); ok {
			merged = list.Values
		}
		for _, n := range merged {
			n, ok := r.resolve(n, path)
			if !ok {
				continue
			}
			if from, ok := n.(*ast.MappingNode); ok {
				r.gather(from, path, out, seen, depth+1)
			} else {
				r.fail(v.Value, path, "<< needs a mapping")
			}
		}
	}
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	if t := k.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// mapping reads a mapping strictly: each key by its own function.
func (r *reader) mapping(n ast.Node, path string, keys map[string]func(pair), synonyms map[string]string) bool {
	resolved, ok := r.resolve(n, path)
	if !ok {
		return false
	}
	m, ok := resolved.(*ast.MappingNode)
	if !ok {
		r.fail(n, path, "a mapping of names to values is needed here, not %s", describe(resolved))
		return false
	}
	for _, e := range r.entries(m, path) {
		read, ok := keys[e.key]
		if !ok {
			known := make([]string, 0, len(keys))
			for k := range keys {
				known = append(known, k)
			}
			slices.Sort(known)
			r.failAt(e.keyPos, e.path, "unknown key %q%s", e.key, didYouMean(e.key, known, synonyms))
			continue
		}
		read(e)
	}
	return true
}

// describe names what a node is, for people.
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "a text"
}

// scalar is a text as written; plain if it has no quotes.
type scalar struct {
	text  string
	plain bool
	node  ast.Node
}

// text reads a string node, or what [Read]'s caller made of it.
func (r *reader) scalar(n ast.Node, path string) (scalar, bool) {
	n, ok := r.resolve(n, path)
	if !ok {
		return scalar{}, false
	}
	switch x := n.(type) {
	case *ast.StringNode:
		t := x.Token
		plain := t != nil && t.Type != token.SingleQuoteType && t.Type != token.DoubleQuoteType
		return scalar{x.Value, plain, n}, true
	case *ast.LiteralNode:
		return scalar{x.Value.Value, false, n}, true
	}
	return scalar{node: n}, false
}

func (r *reader) text(e pair) (string, bool) { return r.textNode(e.value, e.path) }

func (r *reader) textNode(n ast.Node, path string) (string, bool) {
	s, ok := r.scalar(n, path)
	if !ok {
		if s.node != nil {
			hint := ""
			switch s.node.(type) {
			case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
				hint = "; put it in quotes if it is one"
			}
			r.fail(n, path, "a text is needed here, not %s%s", describe(s.node), hint)
		}
		return "", false
	}
	if s.text == "" {
		r.fail(n, path, "an empty text has no meaning here")
		return "", false
	}
	return s.text, true
}

// texts reads a list of strings; one alone stands for a list of one.
func (r *reader) texts(e pair) []string {
	n, ok := r.resolve(e.value, e.path)
	if !ok {
		return nil
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		if isNull(n) {
			r.failAt(e.pos, e.path, "a list is needed here")
			return nil
		}
		if _, ok := n.(*ast.MappingNode); ok {
			r.failAt(e.pos, e.path, "a list is needed here, not a mapping")
			return nil
		}
		s, ok := r.text(e)
		if !ok {
			return nil
		}
		r.at[e.path+"[0]"] = e.pos
		return []string{s}
	}
	if len(list.Values) == 0 {
		r.failAt(e.pos, e.path, "an empty list has no meaning here; leave %s out", e.key)
	}
	out := []string{}
	for i, item := range list.Values {
		path := fmt.Sprintf("%s[%d]", e.path, i)
		r.at[path] = place(item)
		if s, ok := r.textNode(item, path); ok {
			out = append(out, s)
		}
	}
	return out
}

func (r *reader) boolean(e pair) *bool {
	n, ok := r.resolve(e.value, e.path)
	if !ok {
		return nil
	}
	if b, ok := n.(*ast.BoolNode); ok {
		v := b.Value
		return &v
	}
	if s, ok := n.(*ast.StringNode); ok && (s.Value == "true" || s.Value == "false") {
		v := s.Value == "true"
		return &v
	}
	r.failAt(e.pos, e.path, "%s is true or false", e.key)
	return nil
}

// duration reads 30m, 1h30m, or plain seconds.
func (r *reader) duration(e pair) (time.Duration, bool) {
	n, ok := r.resolve(e.value, e.path)
	if !ok {
		return 0, false
	}
	text := ""
	switch x := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text = x.GetToken().Value
	default:
		if s, ok := r.scalar(n, e.path); ok {
			text = s.text
		}
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	var d time.Duration
	if isNumber(text) {
		// Only a few digits can be a duration, so the power of ten stays small.
		exact, err := parseDecimal(text)
		if err != nil || exact.exp > 12 || exact.exp < -12 || len(exact.digits) > 30 {
			r.failAt(e.pos, e.path, "%s is not a duration that can be waited for", text)
			return 0, false
		}
		seconds, _ := new(big.Rat).SetString(text)
		nanos := new(big.Rat).Mul(seconds, big.NewRat(int64(time.Second), 1))
		whole := new(big.Int).Quo(nanos.Num(), nanos.Denom())
		if !whole.IsInt64() {
			r.failAt(e.pos, e.path, "%s is not a duration that can be waited for", text)
			return 0, false
		}
		d = time.Duration(whole.Int64())
	} else {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			r.failAt(e.pos, e.path, "a duration is written like 30m or 1h30m, or in seconds like 90")
			return 0, false
		}
	}
	if d < 0 || d > maxDuration || d > 0 && d < minDuration {
		r.failAt(e.pos, e.path, "a duration is at least 1ms and at most a year")
		return 0, false
	}
	return d, true
}

// timeout reads a duration that is not zero.
func (r *reader) timeout(e pair, into *time.Duration) {
	d, ok := r.duration(e)
	if ok && d == 0 {
		r.failAt(e.pos, e.path, "%s must be longer than zero", e.key)
	}
	*into = d
}

// policySynonyms are words of other tools, or easily taken for ours, with what they are here.
var policySynonyms = map[string]string{
	"policies": "levels", "risk_levels": "levels", "risks": "levels", "enabled": "mode", "timeout": "default_timeout",
	"rule": "rules", "approval_timeout": "default_timeout", "use_by": "use_within", "levels": "policies",
}

func (r *reader) config(e pair, cfg *Config, hitl bool) {
	if n, ok := r.resolve(e.value, e.path); !ok || isNull(n) {
		return
	}
	cfg.root = e.path
	var modeAt, levelsAt *pair
	setMode := func(e pair, m Mode) {
		if modeAt != nil {
			r.failAt(e.keyPos, e.path, "%s and %s say the same thing; keep one of them", modeAt.key, e.key)
			return
		}
		modeAt, cfg.Mode = &e, m
		r.at[cfg.root+".mode"] = e.pos // also where it is called enabled
	}
	levels := func(e pair) {
		if levelsAt != nil {
			r.failAt(e.keyPos, e.path, "%s and %s say the same thing; keep one of them", levelsAt.key, e.key)
			return
		}
		levelsAt = &e
		r.levels(e, cfg)
	}
	keys := map[string]func(pair){
		"mode": func(e pair) {
			s, ok := r.text(e)
			if ok && s != string(Enforce) && s != string(Observe) {
				r.failAt(e.pos, e.path, "mode %q is neither enforce nor observe", s)
				return
			}
			setMode(e, Mode(s))
		},
		"default_timeout": func(e pair) { r.timeout(e, &cfg.DefaultTimeout) },
		"use_within":      func(e pair) { r.timeout(e, &cfg.UseWithin) },
		"remember_denial": func(e pair) {
			if d, ok := r.duration(e); ok {
				cfg.RememberDenial = &d
			}
		},
		"max_pending": func(e pair) { cfg.MaxPending = r.count(e) },
		"guard":       func(e pair) { cfg.Guard = r.texts(e) },
		"rules":       func(e pair) { r.rules(e, cfg) },
		"levels":      levels,
	}
	if hitl {
		keys["policies"] = levels
		keys["enabled"] = func(e pair) {
			b := r.boolean(e)
			switch {
			case b == nil:
			case *b:
				setMode(e, Enforce)
			default:
				setMode(e, Observe)
			}
		}
	}
	r.mapping(e.value, e.path, keys, policySynonyms)
}

func (r *reader) count(e pair) int {
	n, ok := r.resolve(e.value, e.path)
	if !ok {
		return 0
	}
	if i, ok := n.(*ast.IntegerNode); ok {
		switch v := i.Value.(type) {
		case uint64:
			if v <= 1<<31 {
				return int(v)
			}
		case int64:
			if v >= 0 && v <= 1<<31 {
				return int(v)
			}
		}
	}
	r.failAt(e.pos, e.path, "%s is a whole number, 0 for no limit", e.key)
	return 0
}

// risk reads a risk level in any of its spellings.
func (r *reader) risk(name string, at Position, path string) approval.Risk {
	if level, ok := riskNames[name]; ok {
		return level
	}
	known := []string{"low", "medium", "high", "critical"}
	r.failAt(at, path, "there is no risk level %q; there are %s%s", name, strings.Join(known, ", "),
		didYouMean(name, known, map[string]string{"none": "low", "moderate": "medium", "severe": "critical", "extreme": "critical"}))
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
		switch action := approval.Action(s); action {
		case approval.Allow, approval.Quarantine, approval.Deny:
			a.set(e, action)
		default:
			if ok {
				known := []string{"allow", "quarantine", "deny"}
				a.r.failAt(e.pos, e.path, "action %q is none of allow, quarantine and deny%s", s, didYouMean(s, known, map[string]string{
					"block": "deny", "forbid": "deny", "forbidden": "deny", "reject": "deny", "ask": "quarantine", "approve": "quarantine",
					"approval": "quarantine", "confirm": "quarantine", "require_approval": "quarantine", "permit": "allow", "run": "allow", "pass": "allow",
				}))
			}
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

func (r *reader) levels(e pair, cfg *Config) {
	n, ok := r.resolve(e.value, e.path)
	if !ok || isNull(n) {
		return
	}
	m, ok := n.(*ast.MappingNode)
	if !ok {
		r.failAt(e.pos, e.path, "a mapping of risk levels is needed here, not %s", describe(n))
		return
	}
	cfg.Levels = map[approval.Risk]Level{}
	names := map[approval.Risk]string{}
	for _, e := range r.entries(m, e.path) {
		if e.key == forbidden {
			r.failAt(e.keyPos, e.path, "forbidden is not a level but action: deny")
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
		var l Level
		a := act{r: r}
		keys := map[string]func(pair){
			"timeout":        func(e pair) { r.timeout(e, &l.Timeout) },
			"require_reason": func(e pair) { l.RequireReason = r.boolean(e) },
			"elicitation": func(e pair) {
				b := r.boolean(e)
				l.Elicitation = b != nil && *b
			},
			"allow_skip": func(e pair) {
				if b := r.boolean(e); b != nil && *b {
					r.failAt(e.pos, e.path, `allow_skip: true ("always allow") is not available: each call is approved by itself; write allow_skip: false, or action: allow`)
				}
			},
		}
		a.keys(keys)
		r.mapping(e.value, e.path, keys, map[string]string{"elicit": "elicitation", "keyboard": "elicitation", "reason": "require_reason"})
		l.Action = a.action
		cfg.Levels[risk] = l
	}
}

func (r *reader) rules(e pair, cfg *Config) {
	n, ok := r.resolve(e.value, e.path)
	if !ok || isNull(n) {
		return
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.failAt(e.pos, e.path, "a list of rules is needed here, not %s", describe(n))
		return
	}
	for i, item := range list.Values {
		path := fmt.Sprintf("%s[%d]", e.path, i)
		at := place(item)
		r.at[path] = at
		cfg.Rules = append(cfg.Rules, r.rule(item, path, at))
	}
}

var ruleSynonyms = map[string]string{
	"methods": "method", "mcp_method": "method", "log": "audit", "strict": "audit", "tool": "tools", "tool_name": "tools", "agent": "agents", "condition": "conditions", "cel": "when", "if": "when", "expression": "when",
	"decision": "action", "effect": "action", "risk_level": "risk", "level": "risk", "human_message": "message", "reason": "message",
	"description": "message", "id": "name", "reason-code": "reason_code", "code": "reason_code", "ignore": "ignore_args", "approval": "require_approval",
}

func (r *reader) rule(n ast.Node, path string, at Position) Rule {
	rule := Rule{Origin: Origin{Path: path, Position: at}}
	a := act{r: r}
	var deny *pair
	keys := map[string]func(pair){
		"name":   func(e pair) { rule.Name, _ = r.text(e) },
		"method": func(e pair) { rule.Methods = r.texts(e) },
		"tools":  func(e pair) { rule.Tools = r.texts(e) },
		"agents": func(e pair) { rule.Agents = r.texts(e) },
		"when": func(e pair) {
			rule.When, _ = r.text(e)
			r.textStart(e, rule.When)
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
		"message":        func(e pair) { rule.Message = r.sentence(e) },
		"ignore_args":    func(e pair) { rule.IgnoreArgs = r.texts(e) },
		"require_reason": func(e pair) { rule.RequireReason = r.boolean(e) },
		"audit": func(e pair) {
			s, ok := r.text(e)
			if rule.Audit = Audit(s); ok && rule.Audit != AuditNormal && rule.Audit != AuditStrict {
				r.failAt(e.pos, e.path, "audit %q is neither normal nor strict", s)
				rule.Audit = ""
			}
		},
	}
	a.keys(keys)
	before := len(r.problems)
	if isNull(n) {
		r.failAt(at, path, "an empty rule")
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

// sentence reads a text for people; line breaks of a folded one become spaces.
func (r *reader) sentence(e pair) string {
	s, ok := r.text(e)
	if !ok {
		return ""
	}
	return strings.Join(strings.Fields(s), " ")
}

// textStart notes where an expression's first character stands if its lines and columns can be added
// to that: not for folded text, escapes, or text that was replaced after parsing.
func (r *reader) textStart(e pair, text string) {
	s, ok := r.scalar(e.value, e.path)
	if !ok {
		return
	}
	if _, alias := e.value.(*ast.AliasNode); alias {
		return
	}
	switch x := s.node.(type) {
	case *ast.StringNode:
		t := x.Token
		if t == nil || t.Position == nil || t.Value != text || strings.Contains(strings.TrimSpace(t.Origin), "\n") {
			return
		}
		quotes := 0
		if !s.plain {
			quotes = 1
		}
		if len(strings.TrimSpace(t.Origin)) == len(text)+2*quotes {
			r.at[textPath(e.path)] = Position{t.Position.Line, t.Position.Column + quotes}
		}
	case *ast.LiteralNode:
		// The token's own column is that of its last line.
		t := x.Value.GetToken()
		first := strings.TrimLeft(t.Origin, " ")
		switch x.Start.Value {
		case "|", "|-", "|+":
			if t.Value == text && !strings.HasPrefix(first, "\n") && x.Start.Position != nil {
				r.at[textPath(e.path)] = Position{x.Start.Position.Line + 1, len(t.Origin) - len(first) + 1}
			}
		}
	}
}

var conditionSynonyms = map[string]string{
	"regex": "matches", "match": "matches", "pattern": "matches", "eq": "equals", "equal": "equals", "is": "equals", "value": "equals",
	"one_of": "in", "any_of": "in", "greater_than": "gt", "less_than": "lt", "ge": "gte", "le": "lte", "min": "gte", "max": "lte",
	"path": "param", "arg": "param", "field": "param", "parameter": "param", "name": "param", "within": "under", "prefix": "under", "inside": "under",
}

func (r *reader) conditions(e pair) []Condition {
	n, ok := r.resolve(e.value, e.path)
	if !ok {
		return nil
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.failAt(e.pos, e.path, "a list of conditions is needed here, not %s", describe(n))
		return nil
	}
	if len(list.Values) == 0 {
		r.failAt(e.pos, e.path, "an empty list has no meaning here; leave conditions out")
	}
	var out []Condition
	for i, item := range list.Values {
		path := fmt.Sprintf("%s[%d]", e.path, i)
		r.at[path] = place(item)
		var c Condition
		tested := false
		tests := func(f func(pair)) func(pair) {
			return func(e pair) { tested = true; f(e) }
		}
		number := func(into *json.Number) func(pair) {
			return tests(func(e pair) { *into = r.number(e) })
		}
		param, before := false, len(r.problems)
		r.mapping(item, path, map[string]func(pair){
			"param":   func(e pair) { param = true; r.param(e, &c) },
			"matches": tests(func(e pair) { c.Matches, _ = r.text(e) }),
			"equals":  tests(func(e pair) { c.Equals = r.json(e.value, e.path, 0) }),
			"in": tests(func(e pair) {
				n, ok := r.resolve(e.value, e.path)
				if !ok {
					return
				}
				list, ok := n.(*ast.SequenceNode)
				if !ok || len(list.Values) == 0 {
					r.failAt(e.pos, e.path, "in needs a list of values")
					return
				}
				for i, item := range list.Values {
					path := fmt.Sprintf("%s[%d]", e.path, i)
					r.at[path] = place(item)
					c.In = append(c.In, r.json(item, path, 0))
				}
			}),
			"gt": number(&c.GT), "gte": number(&c.GTE), "lt": number(&c.LT), "lte": number(&c.LTE),
			"under": tests(func(e pair) { c.Under = r.texts(e) }),
		}, conditionSynonyms)
		switch {
		case len(r.problems) > before:
		case !param:
			r.failAt(r.at[path], path, "the condition does not say which param it is about")
		case !tested:
			r.failAt(r.at[path], path, "the condition tests nothing; it needs one of %s", strings.Join(operators, ", "))
		}
		out = append(out, c)
	}
	return out
}

// param reads the name of an argument, or a list of its names.
func (r *reader) param(e pair, c *Condition) {
	if n, ok := r.resolve(e.value, e.path); ok {
		if _, list := n.(*ast.SequenceNode); list {
			c.Params = r.texts(e)
			return
		}
	}
	c.Param, _ = r.text(e)
}

// number reads a number exactly as written, also one that YAML takes for a text because of its size.
func (r *reader) number(e pair) json.Number {
	n, ok := r.resolve(e.value, e.path)
	if !ok {
		return ""
	}
	text := ""
	switch x := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text = x.GetToken().Value
	default:
		if s, ok := r.scalar(n, e.path); ok {
			text = s.text
		}
	}
	if !isNumber(text) {
		r.failAt(e.pos, e.path, "%s needs a number in plain decimal, such as 1000 or 0.5", e.key)
		return ""
	}
	return json.Number(text)
}

// json turns any value into JSON, numbers kept as written.
func (r *reader) json(n ast.Node, path string, depth int) jsontext.Value {
	if depth > maxDepth {
		r.fail(n, path, "nested too deeply")
		return nil
	}
	from := n
	n, ok := r.resolve(n, path)
	if !ok {
		return nil
	}
	switch x := n.(type) {
	case *ast.NullNode:
		return jsontext.Value("null")
	case *ast.BoolNode:
		if x.Value {
			return jsontext.Value("true")
		}
		return jsontext.Value("false")
	case *ast.IntegerNode, *ast.FloatNode:
		if text := x.GetToken().Value; isNumber(text) {
			return jsontext.Value(text)
		}
		r.fail(from, path, "write the number in plain decimal, such as 1000 or 0.5, or in quotes if it is a text")
		return nil
	case *ast.InfinityNode, *ast.NanNode:
		r.fail(from, path, "no argument can have this value")
		return nil
	case *ast.SequenceNode:
		out := jsontext.Value("[")
		for i, item := range x.Values {
			if i > 0 {
				out = append(out, ',')
			}
			v := r.json(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
			if v == nil {
				return nil
			}
			out = append(out, v...)
		}
		return append(out, ']')
	case *ast.MappingNode:
		out := jsontext.Value("{")
		for i, e := range r.entries(x, path) {
			if i > 0 {
				out = append(out, ',')
			}
			out, _ = jsontext.AppendQuote(out, e.key)
			v := r.json(e.value, e.path, depth+1)
			if v == nil {
				return nil
			}
			out = append(append(out, ':'), v...)
		}
		return append(out, '}')
	}
	s, ok := r.scalar(n, path)
	if !ok {
		r.fail(from, path, "this value cannot be compared with an argument")
		return nil
	}
	// YAML takes 1e3 and numbers of more than 64 bits for text; without quotes they are numbers here.
	if s.plain && isNumber(s.text) {
		return jsontext.Value(s.text)
	}
	out, err := jsontext.AppendQuote(nil, s.text)
	if err != nil {
		r.fail(from, path, "the text is not UTF-8")
		return nil
	}
	return out
}
