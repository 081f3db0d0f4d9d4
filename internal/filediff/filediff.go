// Package filediff shows what a write would change in a file: a unified diff, bounded, or a sentence where there can
// be none.
package filediff

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

// MaxFile is how long a file may be to be compared, in bytes.
const MaxFile = 1 << 20

// Side is a file before or after a write.
type Side struct {
	Path   string
	Text   []byte
	Exists bool
}

// name is what the difference calls it.
func (s Side) name() string {
	if !s.Exists {
		return "/dev/null"
	}
	return Shown(s.Path)
}

// Between returns the unified diff between what is there and what would be, or a line that says why there is none.
func Between(is, to Side) string {
	switch {
	case !IsText(is.Text) || !IsText(to.Text):
		return fmt.Sprintf("The difference to %s is not shown: it is not text.\n", Shown(is.Path))
	case len(to.Text) > MaxFile:
		return fmt.Sprintf("The difference to %s is not shown: what would be written is longer than 1 MiB.\n",
			Shown(is.Path))
	case is.Exists && to.Exists && is.Path == to.Path && bytes.Equal(is.Text, to.Text):
		return Shown(is.Path) + " stays as it is.\n"
	}
	text := diff.Diff(is.name(), is.Text, to.name(), to.Text)
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return string(text[i+1:]) // the first line says "diff" and the names once more
	}
	return fmt.Sprintf("--- %s\n+++ %s\n", is.name(), to.name())
}

// IsText reports whether a file is text, of which lines can be compared.
func IsText(b []byte) bool { return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) }

// Shown is a path as one line.
func Shown(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return path
}

// Clip keeps text within limit bytes, in whole lines, and says how many are missing.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = 64
	kept := text[:limit-mark]
	if i := strings.LastIndexByte(kept, '\n'); i > 0 {
		kept = kept[:i+1]
		rest := text[len(kept):]
		n := strings.Count(rest, "\n")
		if !strings.HasSuffix(rest, "\n") {
			n++
		}
		return fmt.Sprintf("%s… (+%d lines)", kept, n)
	}
	for !utf8.ValidString(kept) {
		kept = kept[:len(kept)-1]
	}
	return fmt.Sprintf("%s… (+%d bytes)", kept, len(text)-len(kept))
}
