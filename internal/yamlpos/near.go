package yamlpos

import (
	"fmt"
	"strings"
)

// DidYouMean returns `; did you mean "x"?` for the known word that name was probably meant to be, "" if none comes
// near.
func DidYouMean(name string, known []string) string {
	if k := Nearest(name, known); k != "" {
		return fmt.Sprintf("; did you mean %q?", k)
	}
	return ""
}

// separators do not count in comparing words.
var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// Nearest returns the one of known that name was probably meant to be, "" if none comes near.
func Nearest(name string, known []string) string {
	plain := func(s string) string { return strings.ToLower(separators.Replace(s)) }
	best, least := "", 3
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d < least && d*2 < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters must be put in, left out, changed or swapped with their neighbour to get from a to b.
func distance(a, b string) int {
	const far = 64
	if len(a) > far || len(b) > far {
		return far
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			if a[i] == b[j] {
				row[j+1] = last[j]
				continue
			}
			row[j+1] = 1 + min(last[j], last[j+1], row[j])
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], 1+before[j-1])
			}
		}
	}
	return row[len(b)]
}
