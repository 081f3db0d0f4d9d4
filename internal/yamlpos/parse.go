package yamlpos

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFile is how many bytes of a file are read at most.
const MaxFile = 1 << 20

// Limits on what is in a file. The parser's work grows with the square of the nesting, and aliases can make a
// small file huge.
const (
	maxDepth = 64
	maxNodes = 100_000
)

const unreadable = "this is not valid YAML"

// reader makes nodes of what the parser found.
type reader struct {
	env     func(string) (string, bool)
	report  func(Position, string)
	anchors map[string]*Node
}

// Parse returns the file's one document, nil if it is empty. Variables are looked up with env; where that is nil,
// texts stay as they are written. Parse reports what is wrong; an unreadable file leaves nothing to go on with,
// and ok is false.
func Parse(data []byte, env func(string) (string, bool), report func(Position, string)) (root *Node, ok bool) {
	if len(data) > MaxFile {
		report(Position{}, fmt.Sprintf("the file is %d bytes long; it may be at most %d", len(data), MaxFile))
		return nil, false
	}
	if !utf8.Valid(data) {
		report(invalidAt(data), "this is not UTF-8; save the file as UTF-8")
		return nil, false
	}
	defer func() { // the parser panics on some of what is no YAML
		if r := recover(); r != nil {
			report(Position{}, unreadable)
			root, ok = nil, false
		}
	}()
	body, ok := document(string(bytes.TrimPrefix(data, []byte("\ufeff"))), report)
	if !ok || body == nil {
		return nil, ok
	}
	r := &reader{env: env, report: report, anchors: map[string]*Node{}}
	root = r.node(body, 0)
	if root.size > maxNodes {
		report(root.Position, fmt.Sprintf("the aliases make more than %d values of this", maxNodes))
		return nil, false
	}
	return root, true
}

// document returns the body of the text's one document, nil if there is none.
func document(text string, report func(Position, string)) (body ast.Node, ok bool) {
	tokens := lexer.Tokenize(text)
	if at, deep := tooDeep(tokens); deep {
		report(at, fmt.Sprintf("this is nested more than %d levels deep; flatten it", maxDepth))
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		report(parseError(text, err))
		return nil, false
	}
	for _, d := range file.Docs {
		if d.Body == nil || d.Body.Type() == ast.DirectiveType {
			continue
		}
		if body != nil {
			report(start(d.Body), "a second document begins here; remove the --- line, or use a file of its own")
			return nil, false
		}
		body = d.Body
	}
	return body, true
}

func invalidAt(data []byte) Position {
	p := Position{1, 1}
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			break
		}
		if r == '\n' {
			p = Position{p.Line + 1, 1}
		} else {
			p.Column++
		}
		data = data[n:]
	}
	return p
}

func tooDeep(tokens token.Tokens) (Position, bool) {
	flow, entries, line := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Line != line {
				line, entries = t.Position.Line, 0
			}
			entries++
		}
		if flow > maxDepth || entries > maxDepth {
			return at(t), true
		}
	}
	return Position{}, false
}

// unquoted is a variable inside { } or [ ], where YAML takes its brace for another mapping's.
var unquoted = regexp.MustCompile(`[{\[,].*[:\[,]\s*\$\{`)

func parseError(text string, err error) (Position, string) {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return Position{}, unreadable
	}
	place, hint := at(e.GetToken()), ""
	lines := strings.Split(text, "\n")
	if place.Line > 0 && place.Line <= len(lines) && unquoted.MatchString(lines[place.Line-1]) {
		hint = "; inside { } and [ ] a variable needs quotes: \"${NAME}\""
	}
	message, _, _ := strings.Cut(e.GetMessage(), `: "`) // quotes what may be a secret
	return place, unreadable + ": " + message + hint
}

func at(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{t.Position.Line, t.Position.Column}
}

// start is where a reader sees a value begin.
func start(n ast.Node) Position {
	switch n := n.(type) {
	case nil:
		return Position{}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return at(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return at(n.Key.GetToken())
	}
	return at(n.GetToken())
}

// node makes a node of n. What it reports becomes null.
func (r *reader) node(n ast.Node, depth int) *Node {
	if depth > maxDepth {
		return r.null(n, start(n), fmt.Sprintf("this is nested more than %d levels deep; flatten it", maxDepth))
	}
	switch v := n.(type) {
	case *ast.AnchorNode:
		value := r.node(v.Value, depth)
		r.anchors[v.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		if value, ok := r.anchors[v.Value.GetToken().Value]; ok {
			return value
		}
		return r.null(n, at(v.Start), "no anchor of this name stands before this alias; text that begins with * needs quotes")
	case *ast.TagNode:
		return r.readTagged(v, depth)
	case *ast.SequenceNode:
		out := r.scalar(List, n)
		for _, e := range v.Values {
			item := r.node(e, depth+1)
			out.Items = append(out.Items, item)
			out.grow(item)
		}
		return out
	case *ast.MappingValueNode:
		return r.mapping(n, []*ast.MappingValueNode{v}, depth)
	case *ast.MappingNode:
		return r.mapping(n, v.Values, depth)
	case *ast.StringNode:
		return r.text(v)
	case *ast.LiteralNode:
		return r.block(v)
	case nil, *ast.NullNode:
		return r.scalar(Null, n)
	case *ast.BoolNode:
		out := r.scalar(Bool, n)
		out.True = v.Value
		return out
	case *ast.IntegerNode:
		out := r.scalar(Int, n)
		out.integer = v.Value
		return out
	case *ast.FloatNode:
		return r.scalar(Float, n)
	case *ast.InfinityNode, *ast.NanNode:
		return r.scalar(NotFinite, n)
	}
	return r.null(n, start(n), unreadable+" here")
}

// scalar returns a node of the kind, where n is and as n is written.
func (r *reader) scalar(kind Kind, n ast.Node) *Node {
	out := &Node{Kind: kind, Position: start(n), size: 1}
	if n != nil && n.GetToken() != nil {
		out.Source = n.GetToken().Value
	}
	return out
}

func (n *Node) grow(by *Node) { n.size = min(n.size+by.size, maxNodes+1) }

// null reports n, and stands for it.
func (r *reader) null(n ast.Node, place Position, message string) *Node {
	r.report(place, message)
	if n == nil {
		return &Node{size: 1}
	}
	return &Node{Position: at(n.GetToken()), size: 1}
}

// readTagged takes !!str, and no other tag.
func (r *reader) readTagged(v *ast.TagNode, depth int) *Node {
	s, ok := v.Value.(ast.ScalarNode)
	if !ok || v.Start.Value != "!!str" {
		return r.null(v, at(v.Start), "YAML tags are not supported; remove it, or put quotes around text that begins with !")
	}
	switch s.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return r.node(s, depth)
	}
	out := r.scalar(Text, s)
	out.Quoted, out.Written = true, out.Source
	return out
}

func (r *reader) text(v *ast.StringNode) *Node {
	out := r.scalar(Text, v)
	out.Source, out.Written = r.expand(v.Value, out.Position), v.Value
	t := v.Token
	if t == nil {
		out.Quoted = true
		return out
	}
	quotes := 0
	if t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
		out.Quoted, quotes = true, 1
	}
	origin := strings.TrimSpace(t.Origin)
	plain := t.Value == out.Source && !strings.Contains(origin, "\n") && len(origin) == len(out.Source)+2*quotes
	if plain && t.Position != nil {
		out.TextStart = Position{t.Position.Line, t.Position.Column + quotes}
	}
	return out
}

// block reads a text written below | or >.
func (r *reader) block(v *ast.LiteralNode) *Node {
	out := r.scalar(Text, v)
	out.Quoted = true
	out.Source, out.Written = r.expand(v.Value.Value, out.Position), v.Value.Value
	t := v.Value.GetToken() // its own column is that of its last line
	first := strings.TrimLeft(t.Origin, " ")
	switch v.Start.Value {
	case "|", "|-", "|+":
		if t.Value == out.Source && !strings.HasPrefix(first, "\n") && v.Start.Position != nil {
			out.TextStart = Position{v.Start.Position.Line + 1, len(t.Origin) - len(first) + 1}
		}
	}
	return out
}

func (r *reader) mapping(n ast.Node, values []*ast.MappingValueNode, depth int) *Node {
	out := r.scalar(Mapping, n)
	seen := map[string]Position{}
	add := func(e Entry) {
		seen[e.Key] = e.KeyPosition
		out.Entries = append(out.Entries, e)
		out.grow(e.Value)
	}
	var merged []Entry
	for _, v := range values {
		value := r.node(v.Value, depth+1)
		if v.Key.IsMergeKey() {
			merged = append(merged, r.mergeable(value)...)
			continue
		}
		place := at(v.Key.GetToken())
		name, ok := keyName(v.Key)
		if !ok {
			r.report(place, "a key must be a plain word")
			continue
		}
		if first, dup := seen[name]; dup {
			r.report(place, fmt.Sprintf("%q appears twice; the first is at line %d", name, first.Line))
			continue
		}
		add(Entry{name, place, value})
	}
	for _, e := range merged {
		if _, own := seen[e.Key]; !own {
			add(e)
		}
	}
	if m, ok := n.(*ast.MappingNode); !ok || !m.IsFlowStyle {
		out.Position = at(n.GetToken())
		if len(out.Entries) > 0 {
			out.Position = out.Entries[0].KeyPosition
		}
	}
	return out
}

// mergeable returns the entries that the value of a << key brings.
func (r *reader) mergeable(n *Node) []Entry {
	switch n.Kind {
	case Mapping:
		return n.Entries
	case List:
		var all []Entry
		for _, item := range n.Items {
			if item.Kind != Mapping {
				r.report(item.Position, "<< needs an alias of a mapping, such as *base")
			}
			all = append(all, item.Entries...)
		}
		return all
	}
	r.report(n.Position, "<< needs an alias of a mapping, such as *base")
	return nil
}

func keyName(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return k.GetToken().Value, true
	}
	return "", false
}

var variable = regexp.MustCompile(`\$?\$\{[^}]*\}?`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// VariableName reports whether an environment's variable may be called this.
func VariableName(s string) bool { return variableName.MatchString(s) }

// expand replaces ${NAME} by the environment's NAME, and $${ by ${.
func (r *reader) expand(s string, at Position) string {
	if r.env == nil || !strings.Contains(s, "${") {
		return s
	}
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name, closed := strings.CutSuffix(strings.TrimPrefix(m, "${"), "}")
		if !closed || !VariableName(name) {
			r.report(at, "a ${ does not begin a variable such as ${NAME}, of letters, digits and _; write $${ for a literal ${")
			return m
		}
		value, set := r.env(name)
		switch {
		case !set:
			r.report(at, fmt.Sprintf("the environment variable %s is not set", name))
		case value == "":
			r.report(at, fmt.Sprintf("the environment variable %s is empty", name))
		}
		return value
	})
}
