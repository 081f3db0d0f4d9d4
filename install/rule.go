package install

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"countersign/config"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// RuleName is what our rule is called in a policy.
const RuleName = "the gate's files and the agents' settings"

// Guarded is what calls may not touch unseen, by absolute path.
type Guarded struct {
	Files   []string          // the gate's: configuration, variables, store, socket
	Folders map[string]string // an agent's folder of settings, where it is not the usual one
}

// usual are the folders in which agents keep their settings.
var usual = []struct{ agent, folder string }{{ClaudeCode, ".claude"}, {Codex, ".codex"}, {Gemini, ".gemini"}}

// texts are the arguments that hold what is to be written or said: a text about these files touches none.
// Every other argument may be a path or a command line, whatever it is called.
var texts = []string{"content", "contents", "file_text", "insert_text", "new_source", "new_str", "new_string", "old_str", "old_string",
	"body", "comment", "description", "message", "plan", "prompt"}

// How much of a call the rule looks at, so that it keeps within the cost limit of expressions. What is more
// is asked about unseen.
const (
	maxText  = 100_000 // characters of one text
	maxExact = 20_000  // of one that has some of the words: it is asked about for those alone
	maxList  = 500     // members of a list
)

// inside stands for what may come between a folder and a file in it, in a path or in a command that goes
// there first.
const inside = `[^\w.-](.*[^\w.-])?`

// patterns find, in the working directory and an argument, whatever names what is guarded. hint is cheap,
// and matches wherever exact does.
func (g Guarded) patterns() (hint, exact string) {
	var hints, ps []string
	add := func(to *[]string, p string) {
		if !slices.Contains(*to, p) {
			*to = append(*to, p)
		}
	}
	add(&hints, "countersign")
	for _, f := range g.Files {
		base, dir := filepath.Base(f), filepath.Base(filepath.Dir(f))
		if strings.Contains(strings.ToLower(base), "countersign") { // nobody else's
			add(&ps, regexp.QuoteMeta(base))
			continue
		}
		add(&hints, regexp.QuoteMeta(base))
		if dir == "." || dir == string(filepath.Separator) {
			add(&ps, `(^|[^\w.-])`+regexp.QuoteMeta(base))
		} else {
			add(&ps, regexp.QuoteMeta(dir)+inside+regexp.QuoteMeta(base))
		}
	}
	var folders []string
	for _, u := range usual {
		add(&folders, regexp.QuoteMeta(u.folder))
		if folder := g.Folders[u.agent]; folder != "" && filepath.Base(folder) != u.folder {
			add(&folders, regexp.QuoteMeta(filepath.Base(folder)))
		}
	}
	hints = append(hints, folders...)
	// The folder as a whole, or the files in it that count.
	add(&ps, `(`+strings.Join(folders, "|")+`)(([/\\]\.?)*([^\w./\\-]|$)|`+inside+`(settings|hooks|config))`)
	add(&hints, `\.mcp\.json`)
	add(&ps, `\.(claude|mcp)\.json`)
	add(&ps, `countersign\S?\s+(un)?install`)
	return `(?i)` + strings.Join(hints, "|"), `(?is)` + strings.Join(ps, "|")
}

// Rule is the policy rule, as lines of YAML that begin with a dash. It looks at every argument but texts:
// at text, and at lists and objects of text, to a depth of an object in a list.
func Rule(g Guarded) string {
	quoted := make([]string, len(texts))
	for i, n := range texts {
		quoted[i] = "'" + n + "'"
	}
	hint, exact := g.patterns()
	literal := func(pattern string) string { return "r'" + strings.ReplaceAll(pattern, "'", `\x27`) + "'" }
	return fmt.Sprintf(`- name: %[1]s
  when: |-
    [[%[2]s]].exists(texts, args.exists(k, !(k in texts) &&
      [type(args[k]) == list ? args[k] : [args[k]]].exists(l, l.size() > %[3]d || l.exists(e,
        (type(e) == map ? e.map(m, m in texts ? '' : e[m]) : [e]).exists(s,
          type(s) == string && s != '' && (s.size() > %[4]d || (scope + '/' + s).matches(
            %[5]s) && (s.size() > %[6]d || (scope + '/' + s).matches(
            %[7]s))))))))
  risk: critical
  action: quarantine
  reason_code: gate_files
  message: "{toolName} touches the gate's own files or the settings of an agent's hooks"
`, RuleName, strings.Join(quoted, ", "), maxList, maxText, literal(hint), maxExact, literal(exact))
}

// errByHand says that the rule can only be put in by hand.
var errByHand = errors.New("the rule cannot be put in without touching more of the file")

// Insert returns a configuration with the rule before all others, its comments and all else as they are. A
// rule of that name is brought up to date where it stands. name is what problems call the file, env has its
// variables.
func Insert(name string, old []byte, rule string, env func(string) (string, bool)) ([]byte, error) {
	was, _, err := config.Parse(name, old, env)
	if err != nil {
		return nil, fmt.Errorf("it cannot be used as it is: %w", err)
	}
	at := -1
	for i, r := range was.PolicyConfig.Rules {
		if r.Name == RuleName {
			at = i
		}
	}
	file, err := parser.ParseBytes(old, 0)
	if err != nil {
		return nil, errByHand
	}
	new, ok := splice(file, old, rule, at)
	if !ok {
		return nil, errByHand
	}
	is, _, err := config.Parse(name, new, env)
	if err != nil {
		return nil, errByHand
	}
	// Whatever was done to the text, the file must say what it said, and the rule.
	a, b := was.PolicyConfig.Rules, is.PolicyConfig.Rules
	if at < 0 {
		at = 0
	} else {
		a = append(a[:at:at], a[at+1:]...)
	}
	if len(b) != len(a)+1 || b[at].Name != RuleName {
		return nil, errByHand
	}
	b = append(b[:at:at], b[at+1:]...)
	for i := range a {
		a[i].Origin = b[i].Origin // lines moved
		if !reflect.DeepEqual(a[i], b[i]) {
			return nil, errByHand
		}
	}
	if !reflect.DeepEqual(was.File, is.File) {
		return nil, errByHand
	}
	return new, nil
}

// splice puts the lines of the rule into the text: over the rule at a place, or for -1 before the first.
func splice(file *ast.File, old []byte, rule string, at int) ([]byte, bool) {
	newline := "\n"
	if bytes.Contains(old, []byte("\r\n")) {
		newline = "\r\n"
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(old[:len(old):len(old)], newline...)
	}
	lines := strings.SplitAfter(string(old), "\n")
	put := func(from, to int, text string, indent int) []byte {
		var b strings.Builder
		for _, l := range lines[:from] {
			b.WriteString(l)
		}
		for l := range strings.Lines(text) {
			b.WriteString(strings.Repeat(" ", indent) + strings.TrimSuffix(l, "\n") + newline)
		}
		for _, l := range lines[to:] {
			b.WriteString(l)
		}
		return []byte(b.String())
	}
	nested := func(text string, by int) string {
		var b strings.Builder
		for l := range strings.Lines(text) {
			b.WriteString(strings.Repeat(" ", by) + l)
		}
		return b.String()
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil || len(file.Docs) > 1 {
		return nil, false
	}
	policy := value(file.Docs[0].Body, "policy")
	if policy == nil {
		if hitl := value(file.Docs[0].Body, "security"); hitl != nil {
			if policy = value(hitl.Value, "hitl"); policy == nil {
				return nil, false
			}
		}
	}
	if policy == nil {
		return put(len(lines)-1, len(lines)-1, "policy:\n  rules:\n"+nested(rule, 4), 0), true
	}
	if empty(policy.Value) {
		line, column := position(policy)
		return put(line, line, "rules:\n"+nested(rule, 2), column+2), true
	}
	rules := value(policy.Value, "rules")
	if rules == nil {
		m, ok := policy.Value.(*ast.MappingNode)
		if !ok || m.IsFlowStyle || len(m.Values) == 0 {
			return nil, false
		}
		line, column := position(m.Values[0])
		return put(line-1, line-1, "rules:\n"+nested(rule, 2), column), true
	}
	line, column := position(rules)
	if empty(rules.Value) {
		return put(line, line, rule, column+2), true
	}
	list, ok := rules.Value.(*ast.SequenceNode)
	if !ok || list.IsFlowStyle || list.Start == nil {
		return nil, false
	}
	column = list.Start.Position.Column - 1
	if at < 0 {
		if list.Start.Position.Line <= line {
			return nil, false
		}
		return put(line, line, rule, column), true
	}
	if at >= len(list.Values) {
		return nil, false
	}
	from := list.Values[at].GetToken().Position.Line - 1
	if m, ok := list.Values[at].(*ast.MappingNode); ok && len(m.Values) > 0 {
		from = m.Values[0].Key.GetToken().Position.Line - 1
	}
	if from >= len(lines) || !strings.HasPrefix(strings.TrimLeft(lines[from], " "), "- ") {
		return nil, false
	}
	to := from + 1
	for to < len(lines) && strings.TrimSpace(lines[to]) != "" && len(lines[to])-len(strings.TrimLeft(lines[to], " ")) > column {
		to++
	}
	return put(from, to, rule, column), true
}

// value returns the member of a mapping, nil where it is absent or n is no mapping in block style.
func value(n ast.Node, name string) *ast.MappingValueNode {
	switch m := n.(type) {
	case *ast.MappingNode:
		for _, v := range m.Values {
			if v.Key.String() == name {
				return v
			}
		}
	case *ast.MappingValueNode:
		if m.Key.String() == name {
			return m
		}
	}
	return nil
}

// position is the line, from 1, and the column, from 0, of a member.
func position(v *ast.MappingValueNode) (line, column int) {
	p := v.Key.GetToken().Position
	return p.Line, p.Column - 1
}

func empty(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return n == nil || null
}
