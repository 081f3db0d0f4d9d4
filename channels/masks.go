package channels

import (
	"strings"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/locale"
)

// MaskerIn returns a masker that masks what m masks, with its marks in a language.
func MaskerIn(m *redact.Masker, l *locale.Language) *redact.Masker {
	if l.Tag() == locale.Default {
		return m
	}
	return m.In(l.Mark)
}

// masker masks as configured and writes its marks in the reader's language.
func (m Maker) masker() *redact.Masker { return MaskerIn(m.Masker, m.Words) }

// sentence is a rule's sentence as it was filled in and stored when the call came, for the reader: with the marks of
// the call's secrets, which are stored in English, in the reader's language. A mark that is none of these stands as it
// is, and so does every one where the call itself brings what could pass for one.
func (m Maker) sentence(r approval.Request, s string) string {
	if redact.Marked(s) && !redact.Marked(r.Target()) && !redact.Marked(string(r.Args)) {
		var pairs []string
		m.Masker.In(func(characters int, digest string) string {
			english := redact.EnglishMark(characters, digest)
			pairs = append(pairs, english, m.Words.Mark(characters, digest))
			return english
		}).Args(r.Args)
		s = strings.NewReplacer(pairs...).Replace(s)
	}
	return m.line(s)
}
