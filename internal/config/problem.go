package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a configuration, or worth a warning. Line and Column count from 1;
// they are 0 for what has no place in the file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`           // says what to write instead, and holds no secret
	Warning bool   `json:"warning,omitempty"` // the configuration works, but perhaps not as meant
	// Source is the line of an expression in which the problem is, and Caret how many characters of it stand before the
	// place; "" where there is no such place.
	Source string `json:"-"`
	Caret  int    `json:"-"`
}

// String returns file:line:column: message.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// InvalidError is a configuration that cannot be used.
type InvalidError struct {
	Problems []Problem // sorted by place, without the warnings
	Missing  []string  // the environment variables that are not set, or empty
}

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message))
	})
}
