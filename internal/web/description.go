package web

import (
	"strings"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
)

// Describer says what a server says of one of its tools.
type Describer interface {
	// Describe returns the server's words, which nobody has checked, and the digest of all that it says of the tool
	// ([approval.Call.ToolDigest]). false: nothing is known.
	Describe(server, tool string) (words, digest string, ok bool)
}

// How much of a server's words is shown at once, in characters and lines; how much with what is behind the disclosure,
// and how much is read, in bytes.
const (
	wordsShown     = 400
	wordsLines     = 8
	wordsDisclosed = 32 << 10
	wordsRead      = 64 << 10
)

// serverWords are what a server says of a request's tool.
type serverWords struct {
	Beginning, Rest string
	// Since: it is what the server says now, and it said something else when the call was asked for.
	Since bool
}

// serverWordsOf returns what its server says of a request's tool; nil where nothing is known.
func serverWordsOf(x *exchange, d Describer, r *approval.Request) *serverWords {
	if d == nil || r.ToolDigest == "" {
		return nil
	}
	words, digest, ok := d.Describe(r.Server, r.Tool)
	known, since := channels.CompareDescription(r, digest)
	if !ok || !known {
		return nil
	}
	words = strings.TrimSpace(words)
	read, unread := words[:min(len(words), wordsRead)], words[min(len(words), wordsRead):]
	whole, _ := x.masker().Text(read)
	switch {
	case whole == "":
		return nil
	case len(whole) > wordsDisclosed || unread != "":
		whole = legible.CutBytes(whole, wordsDisclosed, utf8.RuneCountInString(unread))
	}
	beginning, rest := legible.CutWithin(whole, wordsShown, legible.UTF16Len)
	if at := lineEnd(beginning, wordsLines); at >= 0 {
		beginning, rest = whole[:at], whole[at+1:]
	}
	return &serverWords{legible.Lines(beginning), legible.Lines(rest), since}
}

// lineEnd is where the n-th line of s ends, -1 where it has fewer.
func lineEnd(s string, n int) int {
	at := -1
	for range n {
		i := strings.IndexByte(s[at+1:], '\n')
		if i < 0 {
			return -1
		}
		at += 1 + i
	}
	return at
}
