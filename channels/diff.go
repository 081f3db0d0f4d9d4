package channels

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"countersign/approval/legible"
)

// DiffKind is what a line of a unified diff is.
type DiffKind string

const (
	DiffHeader  DiffKind = "header" // names a file
	DiffHunk    DiffKind = "hunk"   // says where the lines below stand
	DiffContext DiffKind = "context"
	DiffAdded   DiffKind = "added"
	DiffRemoved DiffKind = "removed"
	DiffRemark  DiffKind = "remark" // \ No newline at end of file
	DiffCut     DiffKind = "cut"    // our own words: lines are left out here
)

// DiffLine is one line of a diff, with its sign, masked and visible: colour is never all that tells what
// it is.
type DiffLine struct {
	Kind DiffKind
	Text string
}

// diffHeader is what may stand between files.
var diffHeader = regexp.MustCompile(`^(diff |index |Index: |old mode |new mode |new file mode |deleted file mode |similarity index |dissimilarity index |rename from |rename to |copy from |copy to |={60,}$)`) //nolint:lll // one literal

var hunkRange = regexp.MustCompile(`^@@ -[0-9]+(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@`)

// diff reads a preview as a unified diff, masked and visible; nil where it has a line that no such diff has.
func (m Maker) diff(preview string) []DiffLine {
	masked, _ := m.masker().Text(preview)
	lines := readDiff(masked)
	for n := range lines {
		lines[n] = visible(lines[n])
	}
	return lines
}

// visible is a line of a diff as people are shown it.
func visible(l DiffLine) DiffLine {
	l.Text = or(legible.Lines(l.Text), " ") // many programs trim a blank line
	return l
}

// readDiff reads a unified diff as it is written; nil where it has a line that no such diff has.
func readDiff(preview string) []DiffLine {
	if !strings.Contains(preview, "@@") && !strings.Contains(preview, "+++ ") {
		return nil
	}
	raw := strings.Split(strings.TrimLeft(preview, "\r\n"), "\n")
	for len(raw) > 1 && strings.Trim(raw[len(raw)-1], "\r") == "" { // blank lines after the last
		raw = raw[:len(raw)-1]
	}
	lines := make([]DiffLine, 0, len(raw))
	inside, changes := false, 0 // inside: after a header, where lines have signs
	before, after := 0, 0       // lines that the hunk still has, by its own count
	for n, s := range raw {
		at := func(i int, prefix string) bool { return n+i < len(raw) && strings.HasPrefix(raw[n+i], prefix) }
		line := DiffLine{Text: s}
		switch {
		case at(0, "--- ") && at(1, "+++ ") && before <= 0, at(0, "+++ ") && n > 0 && lines[n-1].Kind == DiffHeader &&
			at(-1, "--- "):
			line.Kind, inside, before, after = DiffHeader, true, 0, 0
		case at(0, "@@"):
			line.Kind, inside, before, after = DiffHunk, true, 0, 0
			if r := hunkRange.FindStringSubmatch(s); r != nil {
				before, after = count(r[1]), count(r[3])
			}
		case inside && at(0, "+"):
			line.Kind, after, changes = DiffAdded, after-1, changes+1
		case inside && at(0, "-"):
			line.Kind, before, changes = DiffRemoved, before-1, changes+1
		case inside && (at(0, " ") || s == "" || s == "\r"):
			line.Kind, before, after = DiffContext, before-1, after-1
		case inside && at(0, `\`):
			line.Kind = DiffRemark
		case before <= 0 && after <= 0 && diffHeader.MatchString(s):
			line.Kind, inside = DiffHeader, false
		default:
			return nil
		}
		lines = append(lines, line)
	}
	if changes == 0 {
		return nil
	}
	return lines
}

// count reads a hunk's count of lines, which is 1 where it is not written.
func count(s string) int {
	n, err := strconv.Atoi(or(s, "1"))
	if err != nil {
		return 0
	}
	return n
}

// DiffCount tells how many lines a diff adds and removes: "+3 −1".
func DiffCount(lines []DiffLine) string {
	added, removed := 0, 0
	for _, l := range lines {
		switch l.Kind {
		case DiffAdded:
			added++
		case DiffRemoved:
			removed++
		}
	}
	return "+" + strconv.Itoa(added) + " −" + strconv.Itoa(removed)
}

// FitDiff fits a diff into a budget: no line is longer than most, in unit, and where they are too many
// those in the middle are left out, with a line that says how many. cost is what one line takes of the
// budget.
func (c Card) FitDiff(lines []DiffLine, most, budget int, unit func(string) int, cost func(DiffLine) int) []DiffLine {
	short := func(i int) DiffLine {
		l := lines[i]
		l.Text = legible.ShortenMiddle(l.Text, most, unit)
		return l
	}
	cut := func(n int) DiffLine { return DiffLine{DiffCut, c.Words.Count(string(TextDiffCut), n)} }
	var head, tail []DiffLine
	left, gap := budget, cost(cut(len(lines)))
	for len(head) < len(lines) {
		l := short(len(head))
		if left -= cost(l); left < 0 {
			break
		}
		head = append(head, l)
	}
	if len(head) == len(lines) {
		return head
	}
	// Not all: half of what there is room for from the start, the rest from the end.
	left = budget - gap
	if left < 0 {
		return nil
	}
	upper := left / 2
	for i := range head {
		if upper -= cost(head[i]); upper < 0 {
			head = head[:i]
			break
		}
		left -= cost(head[i])
	}
	for i := len(lines) - 1; i >= len(head); i-- {
		l := short(i)
		if left -= cost(l); left < 0 {
			break
		}
		tail = append(tail, l)
	}
	slices.Reverse(tail)
	return slices.Concat(head, []DiffLine{cut(len(lines) - len(head) - len(tail))}, tail)
}
