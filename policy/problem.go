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

// distance is the number of letters to insert, delete, change or swap with their neighbour to get from
// a to b.
func distance(a, b string) int {
	const far = 40
	if len(a) > far || len(b) > far {
		return far
	}
	var rows [far + 1][far + 1]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
				}
			}
		}
	}
	return rows[len(a)][len(b)]
}
