package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong, or worth a warning, in a policy as written. Line and Column count from
// 1; they are 0 for what was not read from a file.
type Problem struct {
	Path    string `json:"path"` // YAML path, such as $.policy.rules[2].when
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"` // the policy works, but perhaps not as meant
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
	norm := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	best, bestDistance := "", 3
	for _, k := range known {
		if d := distance(norm(got), norm(k)); d < bestDistance && d*2 < len(k) {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the number of letters to insert, delete or change to get from a to b.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
