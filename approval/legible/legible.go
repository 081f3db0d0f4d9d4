// Package legible makes foreign text safe to show: what cannot be seen, or changes how the rest is seen, is written
// out, and what is too long is cut where a reader sees that it was.
package legible

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s with everything in it that a reader would not see, or that
// would change what they see elsewhere, replaced by its code point, such as
// ⟨U+202E⟩: control characters (line breaks and tabs too), bidirectional and
// other format characters, zero-width ones, line and paragraph separators, tags,
// variation selectors, blank letters, spaces that are neither U+0020 nor the wide
// U+3000, private use, noncharacters and what Unicode has not assigned. A byte that is not UTF-8 becomes ⟨0xFF⟩.
//
// Three things that are whole in sight are kept: a presentation selector right
// after a symbol (❤️), a joiner between two emoji (👩‍💻), and up to six combining
// marks on a character; a mark with nothing to stand on is shown by its code point.
//
// The bracket ⟨ itself becomes ⟨U+27E8⟩, so every ⟨ in the result begins an
// escape: text that only looks like one is told apart, and no two different
// strings have the same result. Hence Line is applied once, at the edge.
func Line(s string) string { return visible(s, oneLine) }

// Lines is [Line] for text shown on several lines: it keeps \n and \t.
func Lines(s string) string { return visible(s, manyLines) }

// maxMarks is how many combining marks one character may carry. Hardly a language
// needs more; a long stack paints over the neighbouring lines.
const maxMarks = 6

// layout says which characters may stand as they are beside those that can be seen.
type layout int

const (
	oneLine   layout = iota
	manyLines        // \n and \t too
)

func visible(s string, l layout) string {
	if plain(s, l) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/4 + 16)
	var (
		before rune // the character before, 0 if there is none to stand on
		base   rune // the character that the marks before stand on
		marks  int
	)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		keep := true
		switch {
		case ordinary(r):
			b.WriteString(s[i : i+n])
			i += n
			before, base, marks = r, r, 0
			continue
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "⟨0x%02X⟩", s[i])
			i++
			before, base, marks = 0, 0, 0
			continue
		case r == '\n' || r == '\t':
			keep = l == manyLines
		case r == '\u200d': // zero width joiner
			next, _ := utf8.DecodeRuneInString(s[i+n:])
			keep = emoji(base) && emoji(next) && (before == base || before == '\ufe0f' || skinTone(before))
		case r == '\ufe0e' || r == '\ufe0f': // text and emoji presentation
			keep = presentable(before)
		case isHidden(r):
			keep = false
		case unicode.Is(unicode.M, r):
			marks++
			keep = base != 0 && marks <= maxMarks
		}
		if keep {
			b.WriteString(s[i : i+n])
		} else {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
		i += n
		switch {
		case !keep || r == '\n' || r == '\t':
			before, base, marks = 0, 0, 0
		case unicode.Is(unicode.M, r), skinTone(r):
			before = r
		default:
			before, base, marks = r, r, 0
		}
	}
	return b.String()
}

// plain reports whether visible would change nothing, without looking closely.
func plain(s string, l layout) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x7f || c < ' ' && (l == oneLine || c != '\n' && c != '\t') {
			return false
		}
	}
	return true
}

// ordinary reports whether r is one of the most frequent characters, all shown as
// they are: the tables need not be asked.
func ordinary(r rune) bool {
	switch {
	case r < 0x250:
		return ' ' <= r && r < 0x7f || 0xc0 <= r
	case r < 0xe00:
		return 0x3b1 <= r && r <= 0x3c9 || 0x410 <= r && r <= 0x44f // Greek, Cyrillic
	case r < 0x3000:
		return 0xe01 <= r && r <= 0xe30 // Thai consonants
	}
	return 0x3041 <= r && r <= 0x3096 || 0x30a1 <= r && r <= 0x30fa || // kana
		0x4e00 <= r && r <= 0x9fff || 0xac00 <= r && r <= 0xd7a3 // ideographs, Hangul
}

// isHidden reports whether r is never shown as it is.
func isHidden(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' '
	case r == ' ', r == '\u3000':
		return false
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zs, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Noncharacter_Code_Point):
		return true
	}
	if unicode.Is(unicode.Cn, r) {
		// What Unicode may yet assign is shown only where it can be nothing but
		// a picture or an ideograph.
		return !(0x1f000 <= r && r <= 0x1faff || 0x20000 <= r && r <= 0x3fffd)
	}
	switch r {
	case '⟨',
		'\u2800',     // braille blank
		'\U0001d159', // musical null notehead
		'\U00016fe4', // Khitan filler
		'\ufffc':     // object replacement, where an object would be
		return true
	}
	return false
}

// emoji reports whether r is drawn by itself and may be joined to another emoji.
func emoji(r rune) bool {
	return r >= 0x2190 && unicode.Is(unicode.So, r) && r != '\u2800' && r != utf8.RuneError || skinTone(r)
}

func skinTone(r rune) bool { return 0x1f3fb <= r && r <= 0x1f3ff }

// presentable reports whether r has a text and an emoji form to choose from.
func presentable(r rune) bool {
	switch {
	case '0' <= r && r <= '9':
		return true
	case strings.ContainsRune("#*‼⁉〰〽ℹ↔◽◾", r):
		return true
	}
	return unicode.Is(unicode.So, r) && r != '\u2800'
}

// Cut returns s if it has at most limit characters, and otherwise its first
// limit characters followed by "… (+N)", where N is how many are missing.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	at := 0
	for range max(limit, 0) {
		if at == len(s) {
			return s
		}
		_, n := utf8.DecodeRuneInString(s[at:])
		at += n
	}
	if at == len(s) {
		return s
	}
	return s[:at] + missing(utf8.RuneCountInString(s[at:]))
}

// CutBytes returns the beginning of s that fits in limit bytes together with "… (+N)", where N is how many characters
// are missing, unseen further ones included; "" where not even that fits.
func CutBytes(s string, limit, unseen int) string {
	most := limit - len(missing(unseen+utf8.RuneCountInString(s)))
	if most < 0 {
		return ""
	}
	cut := runeStart(s, most)
	return s[:cut] + missing(unseen+utf8.RuneCountInString(s[cut:]))
}

func missing(n int) string { return "… (+" + strconv.Itoa(n) + ")" }

// ShortenMiddle returns s if it measures at most limit in the given unit, and
// otherwise its beginning and end around what says how many characters are
// missing between them: "abc … (+123 characters) … xyz". The result never
// measures more than limit; where that is too small, less is said, down to the
// empty string. unit must not shrink when text is added (bytes, characters,
// UTF-16 units by [UTF16Len], a display width). It does not cut between a
// character and what is drawn with it, nor inside an escape of [Line].
func ShortenMiddle(s string, limit int, unit func(string) int) string {
	if MeasureUpTo(s, limit, unit) <= limit {
		return s
	}
	total := utf8.RuneCountInString(s)
	budget := limit - unit(gap(total))
	for budget > 0 {
		head := prefixWithin(s, (budget+1)/2, unit)
		tail := suffixWithin(s[head:], budget-unit(s[:head]), unit)
		middle := s[head : len(s)-tail]
		out := s[:head] + gap(utf8.RuneCountInString(middle)) + s[len(s)-tail:]
		over := unit(out) - limit
		if over <= 0 {
			return out
		}
		budget -= over // a unit that is not additive
	}
	for _, least := range []string{missing(total), "…"} {
		if unit(least) <= limit {
			return least
		}
	}
	return ""
}

// MeasureUpTo returns what s measures in the given unit, or, where that is more than enough, what a beginning of it
// that is more than enough does: of a long text no more is measured than must be. unit is as [ShortenMiddle] needs it.
func MeasureUpTo(s string, enough int, unit func(string) int) int {
	for n := max(enough, 64); n < len(s); n *= 2 {
		if measured := unit(s[:runeStart(s, n)]); measured > enough {
			return measured
		}
	}
	return unit(s)
}

// CutWithin returns the longest beginning of s that measures at most limit in the given unit, cut where
// [ShortenMiddle] cuts too, and the rest of s. It is at least one character long, unless s is empty.
func CutWithin(s string, limit int, unit func(string) int) (beginning, rest string) {
	n := prefixWithin(s, limit, unit)
	if n == 0 && s != "" {
		_, n = utf8.DecodeRuneInString(s)
	}
	return s[:n], s[n:]
}

// UTF16Len returns how many UTF-16 code units s takes: the unit of many chat
// platforms' limits. A byte that is not UTF-8 counts as one.
func UTF16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

func gap(n int) string { return " … (+" + Characters(n) + ") … " }

// prefixWithin returns the length of the longest prefix of s, cut between
// characters as drawn, that measures at most budget. It measures no more of s
// than it must.
func prefixWithin(s string, budget int, unit func(string) int) int {
	low, high := 0, 64
	for high < len(s) && unit(s[:runeStart(s, high)]) <= budget {
		low, high = high, high*2
	}
	low, high = runeStart(s, low), min(high, len(s))
	for low < high { // low fits; nothing longer than high does
		mid := runeEnd(s, low+(high-low)/2)
		if unit(s[:mid]) <= budget {
			low = mid
		} else {
			high = runeStart(s, mid-1)
		}
	}
	return boundaryBefore(s, low)
}

// suffixWithin is prefixWithin from the end.
func suffixWithin(s string, budget int, unit func(string) int) int {
	low, high := 0, 64
	from := func(n int) int { return runeStart(s, len(s)-n) }
	for high < len(s) && unit(s[from(high):]) <= budget {
		low, high = high, high*2
	}
	// In offsets: start is the cut, the suffix is s[start:].
	start, least := len(s), 0
	if low > 0 {
		start = from(low)
	}
	if high < len(s) {
		least = from(high)
	}
	for least < start { // start fits; nothing before least does
		mid := runeStart(s, least+(start-least)/2)
		if unit(s[mid:]) <= budget {
			start = mid
		} else {
			_, n := utf8.DecodeRuneInString(s[mid:])
			least = mid + n
		}
	}
	return len(s) - boundaryAfter(s, start)
}

// runeStart moves i back to where a character begins.
func runeStart(s string, i int) int {
	if i <= 0 {
		return 0
	}
	if i >= len(s) {
		return len(s)
	}
	for j := i; j > i-utf8.UTFMax && j >= 0; j-- {
		if utf8.RuneStart(s[j]) {
			if _, n := utf8.DecodeRuneInString(s[j:]); j+n > i {
				return j
			}
			break
		}
	}
	return i // among stray bytes each is a character
}

// runeEnd moves i, which is before the end, past the character at i.
func runeEnd(s string, i int) int {
	i = runeStart(s, i)
	_, n := utf8.DecodeRuneInString(s[i:])
	return i + n
}

// maxCluster is how far, in bytes, a cut moves to spare a cluster. Longer ones are
// made to hide things, and are cut between characters.
const maxCluster = 64

// boundaryBefore moves a cut at i back to where a character as drawn begins.
func boundaryBefore(s string, i int) int {
	for j := i; j >= 0 && i-j <= maxCluster; {
		if !isJoined(s, j) {
			return j
		}
		_, n := utf8.DecodeLastRuneInString(s[:j])
		j -= n
	}
	return i
}

// boundaryAfter moves a cut at i forward likewise.
func boundaryAfter(s string, i int) int {
	for j := i; j <= len(s) && j-i <= maxCluster; {
		if !isJoined(s, j) {
			return j
		}
		_, n := utf8.DecodeRuneInString(s[j:])
		j += n
	}
	return i
}

// isJoined reports whether the characters on both sides of a cut at i belong together.
func isJoined(s string, i int) bool {
	if i <= 0 || i >= len(s) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i:])
	switch {
	case before == '\r' && after == '\n', before == '\u200d', after == '\u200d':
		return true
	case unicode.In(after, unicode.M, unicode.Variation_Selector), skinTone(after):
		return true
	case 0x1160 <= after && after <= 0x11ff: // Hangul vowels and finals
		return true
	case regional(before) && regional(after):
		return flagsBefore(s[:i])%2 == 1
	}
	return insideEscape(s, i)
}

func regional(r rune) bool { return 0x1f1e6 <= r && r <= 0x1f1ff }

// flagsBefore counts the regional indicators at the end of s, of which two make a
// flag.
func flagsBefore(s string) int {
	n := 0
	for len(s) > 0 {
		r, size := utf8.DecodeLastRuneInString(s)
		if !regional(r) {
			break
		}
		s = s[:len(s)-size]
		n++
	}
	return n
}

// maxEscape is the length of the longest escape of Line, ⟨U+10FFFF⟩.
const maxEscape = len("⟨U+10FFFF⟩")

// insideEscape reports whether a cut at i would split an escape of Line.
func insideEscape(s string, i int) bool {
	from := max(0, i-maxEscape+1)
	open := strings.LastIndex(s[from:i], "⟨")
	if open < 0 {
		return false
	}
	open += from
	shut := strings.Index(s[open:min(len(s), open+maxEscape)], "⟩")
	return shut >= 0 && i < open+shut+len("⟩")
}

// Characters returns "1 character", "2 characters".
func Characters(n int) string {
	if n == 1 {
		return "1 character"
	}
	return strconv.Itoa(n) + " characters"
}
