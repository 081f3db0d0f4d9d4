package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"

	"countersign/internal/store"
)

// What no text of PostgreSQL holds comes back as it was, and what is written otherwise stays different.
func TestAnyTextIsKept(t *testing.T) {
	texts := []string{"", "plain", "日本 é", "a\x00b", "\x01", "\x0100", "\x01\x00", "\xff\xfe", "é\xc3", "\ufffd", "\x01zz",
		"\x00\x00", strings.Repeat("x\x00", 1000)}
	seen := map[string]string{}
	for _, s := range texts {
		written := encode(s)
		if !utf8.ValidString(written) || strings.ContainsRune(written, 0) || decode(written) != s {
			t.Errorf("%q is written as %q, and comes back as %q", s, written, decode(written))
		}
		if other, ok := seen[written]; ok {
			t.Errorf("%q and %q are written as %q", s, other, written)
		}
		seen[written] = s
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("a\x00b\x01")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, s string) {
		written := encode(s)
		if !utf8.ValidString(written) || strings.ContainsRune(written, 0) || decode(written) != s {
			t.Errorf("%q is written as %q, and comes back as %q", s, written, decode(written))
		}
		decode(s) // which somebody else has written
	})
}

// Nothing of what SQLite alone understands is left, and each spelling is of something that is there.
func TestAllIsSpelledAnew(t *testing.T) {
	all := strings.Join(queries, "\n")
	for _, only := range []string{"INDEXED", "GLOB", "iif(", "+id", "'$.", "length($2))"} {
		if strings.Contains(strings.ReplaceAll(all, "right(id, length($2))", ""), only) {
			t.Errorf("%s is still there", only)
		}
	}
	before := strings.Join(store.Queries(), "\n")
	for i := 0; i < len(spellings); i += 2 {
		if listed := strings.Contains(spellings[i], "INDEXED") || strings.Contains(spellings[i], "session_id"); !listed &&
			!strings.Contains(before, spellings[i]) {
			t.Errorf("%q is in no statement", spellings[i])
		}
	}
}
