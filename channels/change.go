package channels

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/legible"
)

// Change is a diff that was held against the arg which it is of. A card leads with it, and shows of the arg only what
// is not in it: nothing is shown twice, and nothing is left out on the word of the agent that made the diff.
type Change struct {
	Key  string     // the arg's
	Diff []DiffLine // as Item.Diff, less what cannot be checked: names of files, and words behind @@

	row  int    // of Item.Rows
	rest string // what of the arg is not in Diff
	Cut  bool   // rest is shortened
}

const (
	// mostRest is how much a card shows of an arg beside a change, in UTF-16 units.
	mostRest = 1000
	// mostKey is how much it shows of the arg's name.
	mostKey = 60
)

// Beside are the rows of args of a card that leads with the change.
func (i Item) Beside() []Row {
	c := i.Change
	if c == nil || c.row >= len(i.Rows) {
		return i.Rows
	}
	rows := slices.Clone(i.Rows)
	rows[c.row].Value, rows[c.row].Lines = c.rest, strings.Contains(c.rest, "\n")
	return rows
}

// wholeText is what args are called that hold all of what is written.
var wholeText = [][]string{{"content"}, {"contents"}, {"file", "text"}}

// change holds a request's diff against its args. unlike names an arg that says by its name that it is what the diff
// should show, where it shows none; "" where there is no such arg, or none can be shown: what is masked is not compared
// in public.
func (m Maker) change(r approval.Request, masked []byte, rows []Row) (c *Change, unlike string) {
	if _, secrets := m.masker().Text(r.Preview); secrets > 0 {
		return nil, ""
	}
	lines := readDiff(r.Preview)
	if lines == nil {
		return nil, ""
	}
	hunks := hunksOf(lines)
	ignored := m.ignoredArgs(r)
	raw, seen := topLevel(r.Args, ignored), topLevel(masked, ignored)
	best := 0
	for _, name := range raw.names {
		value := jsontext.Value(raw.values[name])
		if value.Kind() != '"' {
			continue
		}
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			continue
		}
		key := rowKey(name)
		row := slices.IndexFunc(rows, func(r Row) bool { return r.Depth == 0 && !r.Ignored && r.Key == key })
		shown, fits := inDiff(string(text), hunks)
		switch {
		case !fits && unlike == "" && slices.ContainsFunc(wholeText, func(p []string) bool {
			return slices.Equal(partsOf(name), p)
		}):
			unlike = key
		case fits && shown.lines > best && row >= 0 && raw.values[name] == seen.values[name] &&
			strings.Contains(strings.TrimSuffix(string(text), "\n"), "\n"):
			best = shown.lines
			rest := m.rest(string(text), shown.runs)
			c = &Change{Key: legible.Cut(key, mostKey), row: row, rest: rest}
			if !m.onPage { // which has room for all of it
				c.rest = legible.ShortenMiddle(rest, mostRest, legible.UTF16Len)
			}
			c.Cut = c.rest != rest
		}
	}
	if c != nil {
		c.Diff = cleanDiff(lines)
		return c, ""
	}
	return nil, legible.Cut(unlike, mostKey)
}

// hunk is the new side of a hunk: lines that stand from a place on once it is applied.
type hunk struct {
	from  int // 0 for the first line
	lines []string
	bare  bool // the last one ends without a line break, and so does the file
}

// hunksOf reads the new side of a diff of one file; nil where it does not say where its lines stand, or contradicts
// itself.
func hunksOf(lines []DiffLine) []hunk {
	var hunks []hunk
	var h *hunk
	before, after, headers := 0, 0, 0
	for n, l := range lines {
		switch l.Kind {
		case DiffHeader:
			if headers++; h != nil {
				return nil // another file
			}
		case DiffHunk:
			r := hunkRange.FindStringSubmatch(l.Text)
			if r == nil || before != 0 || after != 0 {
				return nil
			}
			from, err := strconv.Atoi(r[2])
			if err != nil {
				return nil
			}
			if before, after = count(r[1]), count(r[3]); after > 0 {
				from--
			}
			hunks = append(hunks, hunk{from: from})
			h = &hunks[len(hunks)-1]
		case DiffRemark:
			if h == nil || n == 0 {
				return nil
			}
			h.bare = h.bare || lines[n-1].Kind == DiffAdded || lines[n-1].Kind == DiffContext
		default:
			if h == nil || h.bare {
				return nil
			}
			if l.Kind != DiffAdded {
				before--
			}
			if l.Kind != DiffRemoved {
				after--
				h.lines = append(h.lines, stripSign(l))
			}
		}
	}
	if before != 0 || after != 0 {
		return nil
	}
	return hunks
}

// stripSign returns a line without its sign, which a blank one may lack.
func stripSign(l DiffLine) string {
	if l.Kind == DiffContext {
		return strings.TrimPrefix(l.Text, " ")
	}
	return l.Text[1:]
}

// shown is what of a text is in a diff: how many of its lines, and which, as pairs of from and to.
type shown struct {
	lines int
	runs  [][2]int
}

// inDiff finds the new side of a diff in a text: fits says that all of it is there, each line in its place. A text
// whose last line has no break is taken for one that has, since many tools add it.
func inDiff(text string, hunks []hunk) (in shown, fits bool) {
	lines := textLines(text)
	end := 0
	for _, h := range hunks {
		to := h.from + len(h.lines)
		if h.from < end || to > len(lines) || h.bare && to != len(lines) {
			return shown{}, false
		}
		for i, want := range h.lines {
			at := h.from + i
			got, broken := strings.CutSuffix(lines[at], "\n")
			if got != want || broken && h.bare && at == to-1 {
				return shown{}, false
			}
		}
		end = to
		if in.lines += len(h.lines); len(h.lines) > 0 {
			in.runs = append(in.runs, [2]int{h.from, to})
		}
	}
	return in, in.lines > 0
}

// textLines are a text's lines, each with its end.
func textLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// rest is a text without the lines that a diff shows: it says how many, in brackets that no text of others has.
func (m Maker) rest(text string, runs [][2]int) string {
	lines, at := textLines(text), 0
	var parts []string
	outside := func(to int) {
		if run := strings.Join(lines[at:to], ""); run != "" {
			if to < len(lines) {
				run = strings.TrimSuffix(run, "\n")
			}
			parts = append(parts, block(run))
		}
	}
	for i := 0; i < len(runs); i++ {
		from, to := runs[i][0], runs[i][1]
		for i+1 < len(runs) && runs[i+1][0] == to {
			i, to = i+1, runs[i+1][1]
		}
		outside(from)
		parts = append(parts, m.Words.Count(string(TextInDiff), to-from))
		at = to
	}
	outside(len(lines))
	return strings.Join(parts, "\n")
}

// cleanDiff returns a diff as cards lead with it.
func cleanDiff(lines []DiffLine) (kept []DiffLine) {
	for _, l := range lines {
		switch l.Kind {
		case DiffHeader:
			continue
		case DiffHunk:
			l.Text = hunkRange.FindString(l.Text)
		case DiffRemark:
			l.Text = `\ No newline at end of file`
		}
		kept = append(kept, visible(l))
	}
	return kept
}
