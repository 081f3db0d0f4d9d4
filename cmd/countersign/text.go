package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"github.com/rivo/uniseg"
)

// visible returns s as a terminal may have it: whatever would not be seen, or would change what is
// seen elsewhere, is replaced by its code point, such as ⟨U+202E⟩, line breaks and tabs too. It keeps
// less than the cards do (no joined emoji), so that it need not know more about text.
func visible(s string) string { return visibleRunes(s, "") }

// visibleLines is visible for text on several lines.
func visibleLines(s string) string { return visibleRunes(s, "\n\t") }

// maxMarks is how many combining marks a character may carry; a long stack paints over other lines.
const maxMarks = 6

// sight looks at the characters of a text one after the other.
type sight struct{ marks int }

// begin is where a mark has nothing to stand on.
func (v *sight) begin() { v.marks = maxMarks + 1 }

// hides reports whether a terminal would not show r, or would show other things with it.
func (v *sight) hides(r rune) bool {
	mark := unicode.Is(unicode.M, r)
	if mark {
		v.marks++
	} else {
		v.marks = 0
	}
	if isHidden(r) || mark && v.marks > maxMarks {
		v.begin()
		return true
	}
	return false
}

func visibleRunes(s, keep string) string {
	var b strings.Builder
	var v sight
	v.begin()
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "⟨0x%02X⟩", s[i])
			v.begin()
		case strings.ContainsRune(keep, r):
			b.WriteRune(r)
			v.begin()
		case v.hides(r):
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func isHidden(r rune) bool {
	switch r {
	case ' ', '\u3000':
		return false
	case '⟨', '\u2800', '\ufffc', '\U0001d159', '\U00016fe4': // our own bracket; letters and symbols that are blank
		return true
	}
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// shorten returns the first limit characters of s and says how many are missing.
func shorten(s string, limit int) string {
	n := utf8.RuneCountInString(s)
	if n <= limit {
		return s
	}
	return fmt.Sprintf("%s… (+%d)", string([]rune(s)[:limit]), n-limit)
}

// table prints rows under headings, in columns as wide as what a terminal makes of their cells.
func (s *std) table(rows ...[]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			row[i] = visible(cell)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(s.paint(cell))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)+2))
			}
		}
		fmt.Fprintln(s.out, strings.TrimRight(line.String(), " "))
	}
}

// paints are the colours of words that stand alone in a cell.
var paints = map[string]string{"medium": "33", "high": "31", "critical": "1;31", "denied": "31", "failed": "31",
	"approved": "32"}

// paint is a word in its colour, where a person looks on who wants colours.
func (s *std) paint(cell string) string {
	if code := paints[cell]; code != "" && s.colours() {
		return "\x1b[" + code + "m" + cell + "\x1b[m"
	}
	return cell
}

// colours reports whether colours are wanted: no-color.org.
func (s *std) colours() bool {
	return s.terminal && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"
}

// printJSON writes v for programs, indented; for a terminal too, with everything escaped that it would not show.
func (s *std) printJSON(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return err
	}
	return s.writeJSON(out.Bytes())
}

// printJSONLine writes v for programs that read line by line.
func (s *std) printJSONLine(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return s.writeJSON(b)
}

// writeJSON escapes what a reader would not see for programs too: what they hand on comes to a terminal in the end.
func (s *std) writeJSON(b []byte) error {
	_, err := s.out.Write(seenJSON(b))
	return err
}

// seenJSON is JSON that means the same, with what a terminal would not show, or would obey, as JSON's own escapes.
// Outside of its strings JSON has no such characters but line ends.
func seenJSON(b []byte) []byte {
	out := make([]byte, 0, len(b))
	var v sight
	v.begin()
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == '\n' || r == '"': // no mark may stand on what is no letter of the text
			out = append(out, b[0])
			v.begin()
		case r == utf8.RuneError && n == 1:
			out = append(out, `\ufffd`...)
			v.begin()
		case r == '⟨' || !v.hides(r):
			out = append(out, b[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out
}

// seenLines hands on whole lines, each as seen makes it.
type seenLines struct {
	w    io.Writer
	seen func(line []byte) []byte
	rest []byte
}

func (l *seenLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	if _, err := l.w.Write(l.seen(l.rest[:end])); err != nil {
		return 0, err
	}
	l.rest = append(l.rest[:0], l.rest[end:]...)
	return len(p), nil
}

// Close writes what did not end in a line end.
func (l *seenLines) Close() error {
	_, err := l.w.Write(l.seen(l.rest))
	l.rest = nil
	return err
}

// exportWriter returns where an export is written, row by row.
func (s *std) exportWriter(format string) io.WriteCloser {
	switch {
	case format != "csv":
		return &seenLines{w: s.out, seen: seenJSON}
	case !s.terminal: // CSV has no escapes
		return asItIs{s.out}
	default:
		return &seenLines{w: s.out, seen: func(lines []byte) []byte {
			return []byte(visibleLines(strings.ReplaceAll(string(lines), "\r\n", "\n")))
		}}
	}
}

// asItIs is a writer with nothing to finish.
type asItIs struct{ io.Writer }

func (asItIs) Close() error { return nil }

// encode is json.Marshal with a line end, without escapes for web pages.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// prettyArgs returns args in full, indented, every value as it was sent.
func prettyArgs(args json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, args, "", "  "); err != nil {
		return visible(string(args))
	}
	return visibleLines(b.String())
}

// away tells how far ahead something is, or how long ago it was: "in 28 min", "5 min ago".
func away(d time.Duration) string { return english.Away(d) }

// span tells how long something takes: "28 min".
func span(d time.Duration) string { return english.Duration(d) }

// isTerminalIn reports whether a person is there to type.
func isTerminalIn(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// isTerminal reports whether a person is looking at what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
