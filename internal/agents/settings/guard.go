package settings

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"countersign/internal/config"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// mark is the comment on lines of the gate's configuration that [Guard] wrote: [Unguard] takes those away alone.
const mark = "# countersign install"

// usual are the folders in which agents keep their settings; every guard is of those.
var usual = map[string]string{ClaudeCode: ".claude", Codex: ".codex", Gemini: ".gemini"}

// GuardPaths is what the guard is to name: folders are where agents keep their settings, by agent, "" for the
// usual ones.
func GuardPaths(folders map[string]string) []string {
	guard := []string{config.GuardGateFiles}
	for _, agent := range []string{ClaudeCode, Codex, Gemini} {
		folder, err := filepath.Abs(folders[agent])
		if err == nil && folders[agent] != "" && filepath.Base(folder) != usual[agent] {
			guard = append(guard, strings.TrimRight(filepath.ToSlash(folder), "/")+"/")
		}
	}
	return guard
}

// GuardLine is the line that guards, as it stands under policy.
func GuardLine(guard []string) string {
	if len(guard) == 1 {
		return "guard: " + guard[0]
	}
	quoted := []string{guard[0]}
	for _, g := range guard[1:] {
		quoted = append(quoted, "'"+strings.ReplaceAll(g, "'", "''")+"'")
	}
	return "guard: [" + strings.Join(quoted, ", ") + "]"
}

// errByHand says that only a person can make the change.
var errByHand = errors.New("the line cannot be put in without touching more of the file")

// Guard returns a configuration whose policy has the guard, its comments and all else as they are. A rule that
// an earlier install wrote goes out; a guard that is there stays, and names what it did not name. name is what
// problems call the file, env has its variables.
func Guard(name string, old []byte, guard []string, env func(string) (string, bool)) ([]byte, error) {
	return edit(name, old, env, func(_ []byte, was *config.Config) []string {
		all := slices.Clone(was.PolicyConfig.Guard)
		for _, g := range guard {
			if !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
		return all
	})
}

// Unguard returns a configuration without the guard and the rules that install wrote into it. A guard that
// a person wrote stays.
func Unguard(name string, old []byte, env func(string) (string, bool)) ([]byte, error) {
	return edit(name, old, env, func(old []byte, was *config.Config) []string {
		if at := guardLine(old, was); at >= 0 && !strings.Contains(strings.Split(string(old), "\n")[at], mark) {
			return was.PolicyConfig.Guard
		}
		return nil
	})
}

// guardLine is the index of the line that the guard of a configuration stands in, -1 for none.
func guardLine(text []byte, c *config.Config) int {
	file, err := parser.ParseBytes(text, 0)
	if err != nil || len(c.PolicyConfig.Guard) == 0 || len(file.Docs) != 1 {
		return -1
	}
	if p := policyOf(file.Docs[0].Body); p != nil {
		if g := value(p.Value, "guard"); g != nil {
			line, _ := position(g)
			return line - 1
		}
	}
	return -1
}

// edit returns a configuration with the guard that want gives, and without rules that an earlier install wrote.
func edit(name string, old []byte, env func(string) (string, bool),
	want func(old []byte, was *config.Config) []string) ([]byte, error) {
	if bytes.Contains(old, []byte("\r\n")) { // places in such a file are not told rightly
		plain := bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n"))
		if !bytes.Equal(bytes.ReplaceAll(plain, []byte("\n"), []byte("\r\n")), old) {
			return nil, errByHand
		}
		edited, err := edit(name, plain, env, want)
		return bytes.ReplaceAll(edited, []byte("\n"), []byte("\r\n")), err
	}
	was, _, err := config.Parse(name, old, env)
	if err != nil {
		return nil, fmt.Errorf("it cannot be used as it is: %w", err)
	}
	guard := want(old, was)
	if slices.Equal(guard, was.PolicyConfig.Guard) && len(was.PolicyConfig.OldGuards()) == 0 {
		return old, nil
	}
	edited, ok := splice(old, was, guard)
	if !ok {
		return nil, errByHand
	}
	is, _, err := config.Parse(name, edited, env)
	// Whatever was done to the text, the file must say what it said, but for the guard.
	if err != nil || !reflect.DeepEqual(was.File, is.File) || !slices.Equal(is.PolicyConfig.Guard, guard) ||
		len(is.PolicyConfig.OldGuards()) > 0 ||
		!was.PolicyConfig.SameButGuard(is.PolicyConfig) {
		return nil, errByHand
	}
	return edited, nil
}

// splice edits lines: it puts the guard in, changes it, or takes it out, and takes out rules of an earlier install.
func splice(old []byte, was *config.Config, guard []string) ([]byte, bool) {
	file, err := parser.ParseBytes(old, 0)
	if err != nil || len(file.Docs) == 0 || file.Docs[0].Body == nil || len(file.Docs) > 1 {
		return nil, false
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(old[:len(old):len(old)], '\n')
	}
	lines := strings.SplitAfter(string(old), "\n")
	lines = lines[:len(lines)-1]
	if !dropOldGuards(lines, was) {
		return nil, false
	}
	join := func() ([]byte, bool) { return []byte(strings.Join(lines, "")), true }
	put := func(at int, text string) ([]byte, bool) {
		lines = slices.Insert(lines, at, text)
		return join()
	}
	if slices.Equal(guard, was.PolicyConfig.Guard) {
		return join()
	}
	p := policyOf(file.Docs[0].Body)
	if p == nil {
		if value(file.Docs[0].Body, "security") != nil {
			return nil, false
		}
		return put(len(lines), "policy: "+mark+"\n"+guardText(2, guard))
	}
	line, column := position(p)
	if at := guardLine(old, was); at >= 0 {
		if !changeGuard(lines, at, p, guard) {
			return nil, false
		}
		return join()
	}
	if empty(p.Value) {
		return put(line, guardText(column+2, guard))
	}
	m, ok := p.Value.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) == 0 {
		return nil, false
	}
	_, column = position(m.Values[0])
	return put(line, guardText(column, guard))
}

// dropOldGuards empties the lines of rules that an earlier install wrote.
func dropOldGuards(lines []string, was *config.Config) bool {
	for _, at := range was.PolicyConfig.OldGuards() {
		from := at.Line - 1
		if from < 0 || from >= len(lines) || !strings.HasPrefix(strings.TrimLeft(lines[from], " "), "- ") {
			return false
		}
		column := indentOf(lines[from])
		lines[from] = ""
		for to := from + 1; to < len(lines) && strings.TrimSpace(lines[to]) != "" && indentOf(lines[to]) > column; to++ {
			lines[to] = ""
		}
	}
	return true
}

// changeGuard changes the line of a guard, or takes it out.
func changeGuard(lines []string, at int, p *ast.MappingValueNode, guard []string) bool {
	g := value(p.Value, "guard")
	last := lines[at]
	if from, _ := position(g); from != at+1 || g.Value.GetToken().Position.Line != from ||
		strings.TrimLeft(last, " ") == last ||
		!strings.HasPrefix(strings.TrimSpace(last), "guard:") {
		return false
	}
	switch {
	case len(guard) > 0 && strings.Contains(last, mark):
		lines[at] = guardText(indentOf(last), guard)
	case len(guard) > 0:
		comment := ""
		if i := strings.Index(last, " #"); i >= 0 {
			comment = strings.TrimSuffix(last[i:], "\n")
		}
		lines[at] = strings.Repeat(" ", indentOf(last)) + GuardLine(guard) + comment + "\n"
	default:
		lines[at] = ""
		line, _ := position(p)
		alone := "policy: " + mark
		if m, ok := p.Value.(*ast.MappingNode); ok && len(m.Values) == 1 &&
			strings.HasSuffix(strings.TrimSpace(lines[line-1]), alone) {
			lines[line-1] = ""
		}
	}
	return true
}

// guardText is the line of a guard that is ours.
func guardText(column int, guard []string) string {
	return strings.Repeat(" ", column) + GuardLine(guard) + " " + mark + "\n"
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// policyOf is the policy in a document, under either of its names.
func policyOf(body ast.Node) *ast.MappingValueNode {
	if p := value(body, "policy"); p != nil {
		return p
	}
	if s := value(body, "security"); s != nil {
		return value(s.Value, "hitl")
	}
	return nil
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
