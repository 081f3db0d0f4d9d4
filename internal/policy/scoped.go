package policy

import (
	"encoding/json"
	"errors"
	"strings"

	"countersign/internal/policy/shell"

	"github.com/go-json-experiment/json/jsontext"
)

// ShellReadOnly, under shell in a condition, holds for a command of a shell of which [shell.ReadOnly] is certain that
// it only reads.
const ShellReadOnly = "read_only"

// scopeBase, among the folders under which a path may lie, is the folder that the call itself runs in.
const scopeBase = "scope"

// scoped is a test that also looks at the folder that a call runs in.
type scoped interface {
	test
	holdsIn(v value, scope string) (outcome, error)
}

// holdsIn judges a value of a call with a scope.
func holdsIn(t test, v value, scope string) (outcome, error) {
	if s, ok := t.(scoped); ok {
		return s.holdsIn(v, scope)
	}
	return t.holds(v)
}

// shellTest holds for a command, a line or the words of one, that only reads.
type shellTest struct{}

func (t shellTest) holds(v value) (outcome, error) { return t.holdsIn(v, "") }

func (shellTest) holdsIn(v value, scope string) (outcome, error) {
	switch v.kind {
	case '"':
		return holdsIf(shell.ReadOnly(string(v.text), scope) == nil), nil
	case '[':
		var words []string
		var all []jsontext.Value
		if json.Unmarshal(v.raw, &all) != nil {
			break
		}
		for _, raw := range all {
			if raw.Kind() != '"' {
				return fails, errors.New("has something else than text in its list")
			}
			words = append(words, string(newValue(raw).text))
		}
		return holdsIf(shell.ReadOnlyArgs(words, scope) == nil), nil
	}
	return fails, wrongType(v, "text or a list of texts")
}

func (shellTest) phrase() (string, string) {
	return "is a shell command that only reads", "is not for certain a shell command that only reads"
}

// inScope is the absolute path that a text stands for in a scope, if it lies in there by its text.
func inScope(text, scope string) bool {
	base, ok := placePath(scope)
	if !ok || base == "/" {
		return false
	}
	if !strings.HasPrefix(text, "/") {
		first, _, _ := strings.Cut(text, "/")
		if text == "" || text[0] == '~' || strings.Contains(first, ":") {
			return false
		}
		text = base + "/" + text
	}
	p, ok := placePath(text)
	return ok && isUnder(literalFolder(p), base)
}

func (t underTest) holdsIn(v value, scope string) (outcome, error) {
	if t.scope && v.kind == '"' && inScope(string(v.text), scope) {
		return holds, nil
	}
	return t.holds(v)
}
