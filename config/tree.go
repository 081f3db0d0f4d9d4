package config

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

// Limits on a file. The parser's work grows with the square of the nesting, and aliases can make a
// small file huge.
const (
	maxFile  = 1 << 20
	maxDepth = 64
	maxNodes = 100_000
)

// position is a place in the file.
type position struct{ line, column int }

// tree is a parsed file made plain: no anchors, aliases, merge keys or tags, no duplicate keys, and
// ${NAME} replaced. Only mappings with scalar keys, sequences and scalars are left.
type tree struct {
	env     func(string) (string, bool)
	report  func(position, string)
	anchors map[string]ast.Node
	sizes   map[ast.Node]int
}

// parse returns the file's one document, nil if it is empty. It reports what is wrong, quoting no value,
// which may be a secret with a slip in it; an unreadable file leaves nothing to go on with.
func parse(data []byte, env func(string) (string, bool), report func(position, string)) (root ast.Node, ok bool) {
	if len(data) > maxFile {
		report(position{}, fmt.Sprintf("the file is %d bytes long; at most %d are read", len(data), maxFile))
		return nil, false
	}
	if !utf8.Valid(data) {
		report(invalidAt(data), "this is not UTF-8; save the file as UTF-8")
		return nil, false
	}
	defer func() {
		if r := recover(); r != nil {
			report(position{}, "this is not YAML that can be read")
			root, ok = nil, false
		}
	}()
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	tokens := lexer.Tokenize(text)
	if at, deep := tooDeep(tokens); deep {
		report(at, fmt.Sprintf("this is nested more than %d levels deep", maxDepth))
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
		if root != nil {
			report(start(d.Body), "a second document begins here; one file is one document")
			return nil, false
		}
		root = d.Body
	}
	if root == nil {
		return nil, true
	}
	t := &tree{env: env, report: report, anchors: map[string]ast.Node{}, sizes: map[ast.Node]int{}}
	root = t.plain(root, 0)
	if t.sizes[root] > maxNodes {
		report(start(root), fmt.Sprintf("the aliases make more than %d values of this", maxNodes))
		return nil, false
	}
	return root, true
}

func invalidAt(data []byte) position {
	p := position{1, 1}
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			break
		}
		if r == '\n' {
			p = position{p.line + 1, 1}
		} else {
			p.column++
		}
		data = data[n:]
	}
	return p
}

func tooDeep(tokens token.Tokens) (position, bool) {
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
	return position{}, false
}

// unquoted is a variable inside { } or [ ], where YAML takes its brace for another mapping's.
var unquoted = regexp.MustCompile(`[{\[,].*[:\[,]\s*\$\{`)

func parseError(text string, err error) (position, string) {
	if e, ok := errors.AsType[yaml.Error](err); ok {
		place, hint := at(e.GetToken()), ""
		if lines := strings.Split(text, "\n"); place.line > 0 && place.line <= len(lines) && unquoted.MatchString(lines[place.line-1]) {
			hint = "; inside { } and [ ] a variable needs quotes: \"${NAME}\""
		}
		message, _, _ := strings.Cut(e.GetMessage(), `: "`) // quotes what may be a secret
		return place, "this is not YAML that can be read: " + message + hint
	}
	return position{}, "this is not YAML that can be read"
}

func at(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// start is where a reader sees a value begin.
func start(n ast.Node) position {
	switch n := n.(type) {
	case nil:
		return position{}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return at(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return at(n.Key.GetToken())
	}
	return at(n.GetToken())
}

// plain returns n made plain, in place where it can be. What it reports is replaced by null.
func (t *tree) plain(n ast.Node, depth int) ast.Node {
	if depth > maxDepth {
		t.report(start(n), fmt.Sprintf("this is nested more than %d levels deep", maxDepth))
		return t.null(n)
	}
	size := 1
	switch v := n.(type) {
	case *ast.AnchorNode:
		value := t.plain(v.Value, depth)
		t.anchors[v.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		value, ok := t.anchors[name]
		if !ok {
			t.report(at(v.Start), "no anchor of this name stands before this alias; text that begins with * needs quotes")
			return t.null(n)
		}
		return value // already plain; its ${NAME} are not replaced twice
	case *ast.TagNode:
		if s, ok := v.Value.(ast.ScalarNode); ok && v.Start.Value == "!!str" {
			switch s.(type) {
			case *ast.StringNode, *ast.LiteralNode:
				return t.plain(s, depth)
			}
			quoted := s.GetToken().Clone() // its quotes tell it from a number
			quoted.Type = token.DoubleQuoteType
			return t.plain(ast.String(quoted), depth)
		}
		t.report(at(v.Start), "tags are not used here; leave it out, or put quotes around text that begins with !")
		return t.null(n)
	case *ast.StringNode:
		v.Value = t.expand(v.Value, start(v))
	case *ast.LiteralNode:
		v.Value.Value = t.expand(v.Value.Value, start(v))
	case *ast.SequenceNode:
		for i, e := range v.Values {
			v.Values[i] = t.plain(e, depth+1)
			size += t.sizes[v.Values[i]]
		}
	case *ast.MappingValueNode:
		m := ast.Mapping(v.Start, false, v)
		return t.plain(m, depth)
	case *ast.MappingNode:
		size += t.mapping(v, depth)
	case nil, *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
	default:
		t.report(start(n), "this is not YAML that can be read here")
		return t.null(n)
	}
	t.sizes[n] = min(size, maxNodes+1)
	return n
}

func (t *tree) null(n ast.Node) ast.Node {
	z := ast.Null(n.GetToken())
	t.sizes[z] = 1
	return z
}

// mapping makes m plain and returns how many values are in it.
func (t *tree) mapping(m *ast.MappingNode, depth int) int {
	seen := map[string]position{}
	var kept, merged []*ast.MappingValueNode
	size := 0
	for _, e := range m.Values {
		e.Value = t.plain(e.Value, depth+1)
		if e.Key.IsMergeKey() {
			merged = append(merged, t.mergeable(e.Value)...)
			continue
		}
		name, ok := keyName(e.Key)
		if !ok {
			t.report(at(e.Key.GetToken()), "a key must be a plain word")
			continue
		}
		if first, dup := seen[name]; dup {
			t.report(at(e.Key.GetToken()), fmt.Sprintf("%q is here twice; the first is at line %d", name, first.line))
			continue
		}
		seen[name] = at(e.Key.GetToken())
		kept = append(kept, e)
		size += t.sizes[e.Value]
	}
	for _, e := range merged {
		name, _ := keyName(e.Key)
		if _, own := seen[name]; own {
			continue
		}
		seen[name] = at(e.Key.GetToken())
		kept = append(kept, e)
		size += t.sizes[e.Value]
	}
	m.Values = kept
	return size
}

// mergeable returns the entries that the value of a << key brings.
func (t *tree) mergeable(n ast.Node) []*ast.MappingValueNode {
	switch v := n.(type) {
	case *ast.MappingNode:
		return v.Values
	case *ast.SequenceNode:
		var all []*ast.MappingValueNode
		for _, e := range v.Values {
			m, ok := e.(*ast.MappingNode)
			if !ok {
				t.report(start(e), "<< takes an alias of a mapping")
				continue
			}
			all = append(all, m.Values...)
		}
		return all
	}
	t.report(start(n), "<< takes an alias of a mapping")
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

// expand replaces ${NAME} by the environment's NAME, and $${ by ${.
func (t *tree) expand(s string, at position) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name, closed := strings.CutSuffix(strings.TrimPrefix(m, "${"), "}")
		if !closed || !variableName.MatchString(name) {
			t.report(at, "a ${ does not begin a variable such as ${NAME}, of letters, digits and _; write $${ for a literal ${")
			return m
		}
		value, set := t.env(name)
		switch {
		case !set:
			t.report(at, fmt.Sprintf("the environment variable %s is not set", name))
		case value == "":
			t.report(at, fmt.Sprintf("the environment variable %s is empty", name))
		}
		return value
	})
}
