package policy

import (
	"cmp"
	"countersign/internal/yamlpos"
	"fmt"
	"slices"
)

// Problem is one thing wrong, or worth a warning, in a policy as written. Line and Column count from
// 1; they are 0 for what was not read from a file.
type Problem struct {
	Path    string `json:"path"` // YAML path, such as $.policy.rules[2].when
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"` // the policy works, but perhaps not as meant
	// Source is the line of an expression in which the problem is, and Caret how many characters of it stand before the
	// place; "" where there is no such place.
	Source string `json:"-"`
	Caret  int    `json:"-"`
}

// String returns "line:column: message", or the path in place of an unknown position.
func (p Problem) String() string {
	where := p.Path
	if p.Line > 0 {
		where = fmt.Sprintf("%d:%d", p.Line, p.Column)
	}
	if p.Warning {
		where += ": warning"
	}
	return where + ": " + p.Message
}

// HasErrors reports whether any problem is more than a warning.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// didYouMean returns `; did you mean "x"?` for the known word that got was probably meant to be.
func didYouMean(got string, known []string, synonyms map[string]string) string {
	if s, ok := synonyms[got]; ok && slices.Contains(known, s) {
		return fmt.Sprintf("; did you mean %q?", s)
	}
	return yamlpos.DidYouMean(got, known)
}
