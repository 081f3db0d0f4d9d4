package policy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/go-json-experiment/json/jsontext"
)

// look is where in the arguments a rule reads a key: at a dotted path, and the steps from there.
type look struct {
	param string // "": from the arguments themselves
	steps []step
	deep  bool // in any object, however deep; steps is one name
}

// step is from a value into it: by a key, or to each of its elements or members.
type step struct {
	name string
	each bool
}

func (l look) key() string {
	s := strconv.FormatBool(l.deep) + l.param
	for _, x := range l.steps {
		s += "\x00" + strconv.FormatBool(x.each) + x.name
	}
	return s
}

// looksAt returns what the rule's conditions and expression read.
func (r *rule) looksAt() []look {
	var all []look
	for _, c := range r.conditions {
		for _, p := range c.params {
			all = append(all, look{param: p.path})
			for _, t := range c.tests {
				if eq, ok := t.(equalsTest); ok {
					for _, choice := range eq.choices {
						if v, err := decodeJSON(choice.raw); err == nil {
							all = appendKeys(all, p.path, nil, v)
						}
					}
				}
			}
		}
	}
	if r.when != nil {
		all = append(all, r.when.looks...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(l look) bool {
		k := l.key()
		defer func() { seen[k] = true }()
		return seen[k]
	})
}

// appendKeys adds the keys of a value that an argument is compared with.
func appendKeys(all []look, param string, at []step, v any) []look {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			there := append(slices.Clip(at), step{name: k})
			all = appendKeys(append(all, look{param: param, steps: there}), param, there, inner)
		}
	case []any:
		for _, inner := range v {
			all = appendKeys(all, param, append(slices.Clip(at), step{each: true}), inner)
		}
	}
	return all
}

// part is what an expression within may stand for: the arguments, or what the steps from them lead to;
// or, where that cannot be said, any part of them.
type part struct {
	steps   []step
	unknown bool
}

func (p part) to(s step) part {
	if p.unknown {
		return p
	}
	return part{steps: append(slices.Clip(p.steps), s)}
}

// celLooks finds out which keys an expression reads: those it selects, indexes by a literal, or asks for with
// has() or in. Where it asks for keys that are not literals, it may ask for any text that is in it. What it
// makes of the arguments' own keys when it iterates over them is its own affair.
func celLooks(e ast.Expr) []look {
	l := &looker{vars: map[string][]part{"args": {{}}}}
	l.visit(e)
	for _, p := range l.computed {
		for _, text := range l.texts {
			l.read(p, text)
		}
	}
	return l.found
}

type looker struct {
	vars     map[string][]part
	found    []look
	texts    []string // the expression's text literals
	computed []part   // where it asks for keys that are not literals
}

func (l *looker) read(p part, name string) {
	if p.unknown {
		l.found = append(l.found, look{deep: true, steps: []step{{name: name}}})
		return
	}
	l.found = append(l.found, look{steps: append(slices.Clip(p.steps), step{name: name})})
}

// at reads a key of each part, and returns what is there.
func (l *looker) at(parts []part, key ast.Expr) []part {
	l.visit(key)
	s := step{each: true}
	if name, ok := constant(key); ok {
		s = step{name: name}
	}
	var out []part
	for _, p := range parts {
		switch {
		case !s.each:
			l.read(p, s.name)
		case key.Kind() != ast.LiteralKind:
			l.computed = append(l.computed, p)
		}
		out = append(out, p.to(s))
	}
	return out
}

// constant returns the text that a literal is, or that several are together.
func constant(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		s, ok := e.AsLiteral().(types.String)
		return string(s), ok
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == celop.Add && len(c.Args()) == 2 {
			a, ok := constant(c.Args()[0])
			b, both := constant(c.Args()[1])
			return a + b, ok && both
		}
	}
	return "", false
}

// visit returns what e may stand for; nothing if that is no part of the arguments.
func (l *looker) visit(e ast.Expr) []part {
	switch e.Kind() {
	case ast.IdentKind:
		return l.vars[e.AsIdent()]
	case ast.LiteralKind:
		if s, ok := constant(e); ok {
			l.texts = append(l.texts, s)
		}
	case ast.SelectKind:
		s := e.AsSelect()
		var out []part
		for _, p := range l.visit(s.Operand()) {
			l.read(p, s.FieldName())
			out = append(out, p.to(step{name: s.FieldName()}))
		}
		return out
	case ast.CallKind:
		if s, ok := constant(e); ok {
			l.texts = append(l.texts, s)
		}
		return l.call(e.AsCall())
	case ast.ListKind:
		return l.unknown(e.AsList().Elements())
	case ast.MapKind:
		var values []ast.Expr
		for _, x := range e.AsMap().Entries() {
			m := x.AsMapEntry()
			if name, ok := constant(m.Key()); ok { // it may be compared with an object
				l.read(part{unknown: true}, name)
			}
			values = append(values, m.Key(), m.Value())
		}
		return l.unknown(values)
	case ast.StructKind:
		var values []ast.Expr
		for _, x := range e.AsStruct().Fields() {
			values = append(values, x.AsStructField().Value())
		}
		return l.unknown(values)
	case ast.ComprehensionKind:
		return l.comprehension(e.AsComprehension())
	}
	return nil
}

// unknown visits all, and returns the unknown part if any is a part of the arguments.
func (l *looker) unknown(all []ast.Expr) []part {
	var out []part
	for _, x := range all {
		if len(l.visit(x)) > 0 {
			out = []part{{unknown: true}}
		}
	}
	return out
}

func (l *looker) call(c ast.CallExpr) []part {
	args := c.Args()
	switch name := c.FunctionName(); {
	case len(args) == 2 && (name == celop.Index || name == celop.OptIndex || name == celop.OptSelect):
		return l.at(l.visit(args[0]), args[1])
	case len(args) == 2 && name == celop.In:
		l.at(l.visit(args[1]), args[0])
		return nil
	case len(args) == 3 && name == celop.Conditional:
		l.visit(args[0])
		return append(slices.Clip(l.visit(args[1])), l.visit(args[2])...)
	case c.IsMemberFunction() && len(args) == 1 && (name == "orValue" || name == "or"):
		return append(slices.Clip(l.visit(c.Target())), l.visit(args[0])...)
	case c.IsMemberFunction() && len(args) == 0 && name == "value":
		return l.visit(c.Target())
	}
	if c.IsMemberFunction() {
		args = append(slices.Clip(args), c.Target())
	}
	return l.unknown(args)
}

func (l *looker) comprehension(c ast.ComprehensionExpr) []part {
	var each []part
	for _, p := range l.visit(c.IterRange()) {
		each = append(each, p.to(step{each: true}))
	}
	defer func(was map[string][]part) { l.vars = was }(l.vars)
	inner := map[string][]part{}
	for k, v := range l.vars {
		inner[k] = v
	}
	l.vars = inner
	inner[c.IterVar()] = each
	if c.HasIterVar2() {
		inner[c.IterVar2()] = each
	}
	inner[c.AccuVar()] = l.unknown([]ast.Expr{c.AccuInit()})
	l.visit(c.LoopCondition())
	if len(l.visit(c.LoopStep())) > 0 {
		inner[c.AccuVar()] = []part{{unknown: true}}
	}
	return l.visit(c.Result())
}

// spellings are all names that the rules of a policy read, at whatever depth, to find out quickly that no key
// of a call could be taken for another one.
type spellings struct {
	of   map[string]string // by the folded name, the name; "" where there are several
	low  bool              // folding changes none of the names
	deep bool              // not all are of top-level arguments
}

func newSpellings(rules []rule) spellings {
	s := spellings{of: map[string]string{}, low: true}
	add := func(name string) {
		folded := string(appendFold(nil, []byte(name)))
		if was, ok := s.of[folded]; ok && was != name {
			name = ""
		}
		s.of[folded] = name
		s.low = s.low && name == folded
	}
	for i := range rules {
		for _, l := range rules[i].looks {
			if l.param != "" {
				// A key may have dots itself, so each stretch of the path is a name that may be read.
				parts := strings.Split(l.param, ".")
				for from := range parts {
					for to := from + 1; to <= len(parts); to++ {
						add(strings.Join(parts[from:to], "."))
					}
				}
				s.deep = s.deep || len(parts) > 1
			}
			for _, x := range l.steps {
				if !x.each {
					add(x.name)
				}
			}
			s.deep = s.deep || l.deep || len(l.steps) > 1 || l.param != "" && len(l.steps) > 0
		}
	}
	return s
}

// suspects reports whether a key of the call could be taken for one that a rule of the policy reads, and is
// not written so. It errs on the side of yes.
func (p *Policy) suspects(e *evaluation) bool {
	if !e.searched {
		e.searched = true
		args := e.call.Args
		e.suspect = !(p.spellings.low && args.LowerKeys()) && p.spellings.differ(args.Canonical())
	}
	return e.suspect
}

// differ looks through the keys of a canonical object: the top-level ones, or all.
func (s *spellings) differ(text []byte) bool {
	var few [64]byte
	for i := 1; i < len(text); {
		if text[i] != '"' {
			i++
			continue
		}
		end := stringEnd(text, i)
		if text[end] != ':' {
			i = end
			continue
		}
		key := text[i+1 : end-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key, _ = jsontext.AppendUnquote(nil, text[i:end])
		}
		if name, ok := s.of[string(appendFold(few[:0], key))]; ok && name != string(key) {
			return true
		}
		if i = end + 1; !s.deep {
			i = valueEnd(text, i)
		}
	}
	return false
}

// appendFold appends the one form that all texts share which [strings.EqualFold] finds equal: what
// encoding/json compares the names of fields by.
func appendFold(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		if 'A' <= least && least <= 'Z' { // the long s and the Kelvin sign
			least += 'a' - 'A'
		}
		dst = utf8.AppendRune(dst, least)
		i += n
	}
	return dst
}
