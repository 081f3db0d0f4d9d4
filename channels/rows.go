package channels

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval/legible"
)

// Row is one line of a card's args, ready to be shown: masked, visible, and still whole.
type Row struct {
	Depth int    // 0 for a top-level arg
	Key   string // in quotes unless it is a plain word; "[2]" in an array
	Value string // "" where members follow
	Lines bool   // Value has several lines and is shown as a block
	Open  bool   // an object or array whose members follow
	Gloss string // our own reading of a long number or an amount, "= 20.00"; shown apart from Value, never as part of it

	Ignored bool // another value makes no other request of it, and this one runs; such rows stand last
}

const (
	// maxRows is how many rows a card keeps of one request; no platform can show as many.
	maxRows = 500
	// maxRowDepth is how deep args are drawn as rows of a card; what is deeper is compact JSON.
	maxRowDepth = 3
	// maxInline is the longest array of plain values, in bytes, that is one row.
	maxInline = 120
)

// argRows turns the canonical, masked args into rows, those of the ignored ones last. leaves counts the
// values they stand for, also of rows past maxRows.
func argRows(args []byte, ignored []string) (rows []Row, leaves int) {
	return buildRows(args, ignored, rowBuilder{most: maxRows, deepest: maxRowDepth})
}

// allRows is argRows without any limit.
func allRows(args []byte, ignored []string) []Row {
	rows, _ := buildRows(args, ignored, rowBuilder{most: math.MaxInt, deepest: math.MaxInt})
	return rows
}

func buildRows(args []byte, ignored []string, kept rowBuilder) (rows []Row, leaves int) {
	dropped := kept
	kept.members(0, args, func(name string) *rowBuilder {
		if slices.Contains(ignored, name) {
			return &dropped
		}
		return &kept
	})
	for _, r := range dropped.rows {
		r.Ignored = true
		kept.rows = append(kept.rows, r)
	}
	return kept.rows, kept.leaves + dropped.leaves
}

type rowBuilder struct {
	rows          []Row
	leaves        int
	most, deepest int // how many rows are kept, and how deep they go
}

// members adds a row for each member of an object or element of an array. Where route is given it says,
// by the member's name, whose rows it is among.
func (b *rowBuilder) members(depth int, raw []byte, route func(name string) *rowBuilder) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	open, err := d.ReadToken()
	if err != nil {
		return
	}
	object := open.Kind() == '{'
	named := sync.OnceValues(func() (string, bool) { return currency(raw) })
	for i := 0; d.PeekKind() != '}' && d.PeekKind() != ']'; i++ {
		key, to, money := "["+strconv.Itoa(i)+"]", b, amount(0)
		if object {
			name, err := d.ReadToken()
			if err != nil {
				return
			}
			key, money = rowKey(name.String()), amountOf(name.String(), named)
			if route != nil {
				to = route(name.String())
			}
		}
		v, err := d.ReadValue()
		if err != nil {
			return
		}
		to.value(depth, key, v, money)
	}
}

func (b *rowBuilder) value(depth int, key string, v jsontext.Value, money amount) {
	r := Row{Depth: depth, Key: key}
	kind := v.Kind()
	switch {
	case kind == '"':
		s, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return
		}
		r.Value, r.Lines = rowText(string(s))
	case kind == '{' && len(v) > 2 && depth+1 < b.deepest, kind == '[' && len(v) > 2 && depth+1 < b.deepest && !inline(v):
		r.Open = true
	case kind == '0':
		r.Value = string(v)
		r.Gloss = gloss(r.Value, money)
	default:
		r.Value = legible.Line(string(v))
	}
	if len(b.rows) < b.most {
		b.rows = append(b.rows, r)
	}
	if r.Open {
		b.members(depth+1, v.Clone(), nil)
		return
	}
	b.leaves++
}

// inline reports whether an array is short and holds plain values only.
func inline(v jsontext.Value) bool {
	return len(v) <= maxInline && !bytes.ContainsAny(v[1:], "[{")
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.$@/-]+$`)

// rowKey shows a key so that it cannot pass for more than one.
func rowKey(s string) string {
	if plainKey.MatchString(s) {
		return s
	}
	return legible.Line(quote(s))
}

// literal matches text that would be taken for another JSON value, with or without our reading of it.
var literal = regexp.MustCompile(`^(true|false|null|-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?)( *=.*)?$`)

// rowText shows a string value: as it is where it can only be a string, in quotes where it looks like
// another value or its ends cannot be seen, as a block where it has several lines.
func rowText(s string) (text string, lines bool) {
	if strings.Contains(s, "\n") {
		return block(s), true
	}
	if s == "" || s != strings.TrimSpace(s) || strings.IndexByte(`"{[`, s[0]) >= 0 || literal.MatchString(s) {
		s = quote(s)
	}
	return legible.Line(s), false
}

// block shows text of several lines. A line break that would not be seen, at the end or in a row of
// empty lines, is shown by its code point.
func block(s string) string {
	s = legible.Lines(s)
	const shown = "⟨U+000A⟩"
	body := strings.TrimRight(s, "\n")
	end := strings.Repeat(shown, len(s)-len(body))
	var b strings.Builder
	for run := 0; body != ""; {
		i := strings.IndexByte(body, '\n')
		if i < 0 {
			b.WriteString(body)
			break
		}
		if i > 0 {
			run = 0
		}
		b.WriteString(body[:i])
		if run++; run <= 2 {
			b.WriteByte('\n')
		} else {
			b.WriteString(shown)
		}
		body = body[i+1:]
	}
	return b.String() + end
}

func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // not UTF-8: args cannot hold it
		return strconv.Quote(s)
	}
	return string(b)
}

// point is the code point that text begins with, in the notation of ⟨U+202E⟩.
func point(s string) string {
	at, _, _ := strings.Cut(s, "⟩")
	return at
}

// everyday are the code points that plain text is shown with: line ends, a tab, and the bracket that they stand in.
var everyday = []string{"000A", "000D", "0009", "27E8"}

// invisible reports whether something of a row is shown by its code point that would not be seen, or would hide the
// rest.
func (r Row) invisible() bool {
	for _, s := range []string{r.Key, r.Value} {
		for found := true; found; {
			if _, s, found = strings.Cut(s, "⟨U+"); found && !slices.Contains(everyday, point(s)) {
				return true
			}
		}
	}
	return false
}

// Fitted is as much of a card's args as a platform has room for.
type Fitted struct {
	Rows      []Row
	Shown     int // values among Rows
	Total     int
	Shortened bool // a key or value is shortened, and says so
}

// All reports whether every value is there, though it may be shortened.
func (f Fitted) All() bool { return f.Shown == f.Total }

// valueCaps are the lengths that values are shortened to, one after the other, until all rows fit.
var valueCaps = []int{partCap, 400, 250, 160, 100, 60, 36}

// partCap is the longest that a value is shown which is not shown whole: who decides reads it elsewhere, and the
// buttons are below it.
const partCap = 600

// keyCap is the longest that a key is shown.
const keyCap = 80

// FitRows fits rows into a budget. cost is what one row takes of it, at least as much as its value
// measures in unit, in which keys and values are shortened; no value is longer than most, and none that is cut longer
// than partCap. Showing a part
// of every value goes before showing all of some; where even that does not fit, the first rows are
// shown, as many as fit.
func FitRows(rows []Row, total, budget, most int, unit func(string) int, cost func(Row) int) Fitted {
	f := Fitted{Total: total}
	lengths := make([]int, len(rows))
	for i, r := range rows {
		lengths[i] = legible.MeasureUpTo(r.Value, max(most, partCap), unit)
	}
	caps := append([]int{most}, valueCaps...)
	for i, limit := range caps {
		last := i == len(caps)-1
		if limit > most && !last {
			continue
		}
		if !last { // a glance: shortening is the dear part
			least := 0
			for _, n := range lengths {
				least += min(n, limit)
			}
			if least > budget {
				continue
			}
		}
		f.Rows, f.Shown, f.Shortened = f.Rows[:0], 0, false
		left := budget
		for i, r := range rows {
			short := r
			short.Key = legible.ShortenMiddle(r.Key, min(keyCap, limit), unit)
			if lengths[i] > limit {
				short.Value = legible.ShortenMiddle(r.Value, limit, unit)
			}
			if left -= cost(short); left < 0 {
				break
			}
			f.Rows = append(f.Rows, short)
			f.Shortened = f.Shortened || short.Key != r.Key || short.Value != r.Value
			if !r.Open {
				f.Shown++
			}
		}
		if left >= 0 && len(f.Rows) == len(rows) && (!f.Shortened || limit <= partCap) {
			break
		}
	}
	return f
}

// Prefix marks how deep a row is; unlike blanks it is seen everywhere and survives trimming.
func (r Row) Prefix() string { return strings.Repeat("› ", r.Depth) }
