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

func visibleRunes(s, keep string) string {
	var b strings.Builder
	marks := maxMarks + 1 // a mark at the beginning has nothing to stand on
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		mark := unicode.Is(unicode.M, r)
		if mark {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "⟨0x%02X⟩", s[i])
			marks = maxMarks + 1
		case strings.ContainsRune(keep, r):
			b.WriteRune(r)
			marks = maxMarks + 1
		case hidden(r) || mark && marks > maxMarks:
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
			marks = maxMarks + 1
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func hidden(r rune) bool {
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

// paint is a word in its colour, where somebody looks on who wants colours.
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

// printJSON writes v for programs, indented. JSON's own escapes stand for control characters, and ours
// are not for programs.
func printJSON(w io.Writer, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return err
	}
	_, err = out.WriteTo(w)
	return err
}

// printJSONLine writes v for programs that read line by line.
func printJSONLine(w io.Writer, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

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

// away tells how far away something is: in 28m, 5s ago.
func away(d time.Duration) string {
	if d < 0 {
		return span(-d) + " ago"
	}
	return "in " + span(d)
}

// span writes a duration in its two largest units.
func span(d time.Duration) string {
	s := int64(d / time.Second)
	two := func(a int64, unitA string, b int64, unitB string) string {
		if b == 0 {
			return fmt.Sprintf("%d%s", a, unitA)
		}
		return fmt.Sprintf("%d%s%d%s", a, unitA, b, unitB)
	}
	switch {
	case s >= 86400:
		return two(s/86400, "d", s%86400/3600, "h")
	case s >= 3600:
		return two(s/3600, "h", s%3600/60, "m")
	case s >= 60:
		return two(s/60, "m", s%60, "s")
	}
	return fmt.Sprintf("%ds", s)
}

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
