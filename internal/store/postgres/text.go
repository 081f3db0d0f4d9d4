package postgres

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// A text of PostgreSQL holds neither a zero byte nor what is no UTF-8. Both can come from outside, so they are written
// with an escape, which is a character that is written so itself: what is read is what was stored, and two texts that
// differ stay so.
const escape = '\x01'

// encode makes a text one that PostgreSQL holds.
func encode(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, escape) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == 0 || r == escape || r == utf8.RuneError && n == 1 {
			b.WriteByte(escape)
			b.WriteString(hex.EncodeToString([]byte(s[:1])))
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// decode is the other way round.
func decode(s string) string {
	before, rest, escaped := strings.Cut(s, string(escape))
	if !escaped {
		return s
	}
	var b strings.Builder
	for b.WriteString(before); escaped; b.WriteString(before) {
		if len(rest) >= 2 {
			if one, err := hex.DecodeString(rest[:2]); err == nil {
				b.Write(one)
				rest = rest[2:]
			}
		}
		before, rest, escaped = strings.Cut(rest, string(escape))
	}
	return b.String()
}
