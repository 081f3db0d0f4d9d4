package settings

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"countersign/internal/config"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// CodingAgentPreset is the preset for the agents whose settings are known.
const CodingAgentPreset = "preset/coding-agent"

// Includes reports whether a configuration can be read, and includes a preset.
func Includes(name string, text []byte, preset string, env func(string) (string, bool)) bool {
	c, _, err := config.Parse(name, text, env)
	return err == nil && slices.Contains(c.PolicyConfig.Include, preset)
}

// Include returns a configuration whose policy includes a preset, behind those that it includes already; its comments
// and all else are as they were. Where that would touch more than a line, it is an error.
func Include(name string, old []byte, preset string, env func(string) (string, bool)) ([]byte, error) {
	return include(name, old, env, func(lines []string, was []string) (edited, want []string, ok bool) {
		if slices.Contains(was, preset) {
			return lines, was, true
		}
		edited, ok = includePreset(lines, was, preset)
		return edited, append(slices.Clone(was), preset), ok
	})
}

// Exclude returns a configuration without the line that [Include] put in. What a person wrote stays.
func Exclude(name string, old []byte, preset string, env func(string) (string, bool)) ([]byte, error) {
	return include(name, old, env, func(lines []string, was []string) (edited, want []string, ok bool) {
		ours := strings.TrimSpace(includeText(0, preset))
		at := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == ours })
		if at < 0 || !slices.Equal(was, []string{preset}) {
			return lines, was, true
		}
		return slices.Delete(lines, at, at+1), nil, true
	})
}

// include edits the lines of a configuration, and holds that nothing but what it includes becomes other.
func include(name string, old []byte, env func(string) (string, bool),
	change func(lines, was []string) (edited, want []string, ok bool)) ([]byte, error) {
	text := bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n"))
	was, _, err := config.Parse(name, text, env)
	if err != nil {
		return nil, fmt.Errorf("it cannot be used as it is: %w", err)
	}
	whole := text
	if len(whole) > 0 && whole[len(whole)-1] != '\n' {
		whole = append(slices.Clone(whole), '\n')
	}
	lines := strings.SplitAfter(string(whole), "\n")
	edited, want, ok := change(lines[:len(lines)-1], was.PolicyConfig.Include)
	if !ok {
		return nil, errByHand
	}
	if slices.Equal(want, was.PolicyConfig.Include) {
		return old, nil
	}
	result := []byte(strings.Join(edited, ""))
	is, _, err := config.Parse(name, result, env)
	if err != nil || !slices.Equal(is.PolicyConfig.Include, want) {
		return nil, errByHand
	}
	is.PolicyConfig.Include = was.PolicyConfig.Include
	if !reflect.DeepEqual(was.File, is.File) || !slices.Equal(is.PolicyConfig.Guard, was.PolicyConfig.Guard) ||
		!was.PolicyConfig.SameButGuard(is.PolicyConfig) {
		return nil, errByHand
	}
	if bytes.Contains(old, []byte("\r\n")) {
		result = bytes.ReplaceAll(result, []byte("\n"), []byte("\r\n"))
	}
	return result, nil
}

// includePreset puts a preset into the policy in some lines: into its list, if there is one and it is on one line.
func includePreset(lines, was []string, preset string) ([]string, bool) {
	file, err := parser.ParseBytes([]byte(strings.Join(lines, "")), 0)
	if err != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, false
	}
	p := policyOf(file.Docs[0].Body)
	if p == nil {
		if value(file.Docs[0].Body, "security") != nil {
			return nil, false
		}
		return append(lines, "policy: "+mark+"\n", includeText(2, preset)), true
	}
	line, column := position(p)
	if len(was) > 0 {
		i := value(p.Value, "include")
		if i == nil {
			return nil, false
		}
		at, _ := position(i)
		before, after, found := strings.Cut(lines[at-1], "]")
		if !found || strings.Contains(before, "#") {
			return nil, false
		}
		lines[at-1] = strings.TrimRight(before, " ,") + ", " + preset + "]" + after
		return lines, true
	}
	if empty(p.Value) {
		return slices.Insert(lines, line, includeText(column+2, preset)), true
	}
	m, ok := p.Value.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) == 0 {
		return nil, false
	}
	_, column = position(m.Values[0])
	return slices.Insert(lines, line, includeText(column, preset)), true
}

// includeText is the line of an include that is ours.
func includeText(column int, preset string) string {
	return strings.Repeat(" ", column) + "include: [" + preset + "] " + mark + "\n"
}
