package channels

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
)

// A request that is shown whole is plain text: every arg, uncut, and all else that is known of it. It
// has no styles that could set foreign text apart, so its lines do: each begins with words of ours or
// with the name of an arg, what has several lines of its own stands behind bars, and a line that is
// broken goes on behind an arrow. No value can look like a line of its own, on whichever page it falls.
const (
	bar   = "│ "
	arrow = "↳ "
)

const (
	widestLine  = 600 // a page breaks at the end of a line
	headingRoom = 160
)

// Part makes page d.Notification.Part of a reply that shows all of its one request, in pages of at most
// limit, which is some hundred at least; more says that another one follows. The lines of all pages,
// less the first of each, are the whole text: what a page holds does not change when the request ends
// meanwhile, or the clock goes on.
func (m Maker) Part(d Delivery, limit int, unit func(string) int) (c Card, more bool) {
	n := d.Notification
	m = m.to(n)
	c = Card{Kind: approval.KindReply, At: n.CreatedAt, Words: m.Words}
	if len(d.Requests) == 0 {
		return c, false
	}
	r := d.Requests[0]
	head := min(headingRoom, limit/4)
	room := limit - head
	var text strings.Builder
	for _, line := range m.whole(r) {
		text.WriteString(wrap(line, min(widestLine, room/4), unit))
		text.WriteByte('\n')
	}
	pages := Split(strings.TrimSuffix(text.String(), "\n"), room, unit)
	c.Text = r.ID
	if len(pages) > 1 {
		c.Text += " " + m.say(TextPart, "part", strconv.Itoa(n.Part), "parts", strconv.Itoa(len(pages)))
	}
	title, _ := m.standing(n.Kind, r)
	c.Text += " · " + title
	if StateOf(r) == StatePending && n.Part == 1 {
		c.Text += " · " + m.say(TextDeadline) + " " + m.time(r.ExpiresAt)
	}
	c.Text = legible.ShortenMiddle(c.Text, head-1, unit)
	if i := n.Part - 1; 0 <= i && i < len(pages) {
		c.Text += "\n" + strings.TrimSuffix(pages[i], "\n")
	}
	return c, n.Part < len(pages)
}

// whole is everything about a request, line by line. What warns of the request itself comes first, how it stands
// last: all before that never changes.
func (m Maker) whole(r approval.Request) []string {
	i := m.item(approval.Notification{}, r)
	var lines []string
	fact := func(label, value string) {
		if value != "" {
			lines = append(lines, m.say(TextFact, "label", label, "value", value))
		}
	}
	words := func(label, value string) {
		if value != "" {
			lines = append(append(lines, label), addBars(value)...)
		}
	}
	for _, n := range i.Notices {
		if n.First {
			lines = append(lines, n.Text, "")
		}
	}
	fact(m.say(TextTool), i.Tool)
	fact(m.say(TextRisk), RiskIcon(r.Risk)+" "+m.say(RiskText(r.Risk)))
	for _, f := range m.facts(r, math.MaxInt) {
		fact(f.Label, f.Value)
	}
	fact(m.say(TextAskedAt), m.time(r.RequestedAt))
	fact(m.say(TextWhy), i.Why)
	fact(m.say(TextHash), legible.Line(r.ArgsHash))
	lines = append(lines, "")

	lines = append(lines, m.allArgs(r)...)
	if r.Rationale != "" || r.Preview != "" && i.PreviewRead == "" {
		lines = append(lines, "", m.say(TextOwnWords))
		words(m.say(TextRationale), i.Rationale)
	}
	if i.PreviewRead != "" {
		lines = append(lines, "")
	}
	words(cmp.Or(i.PreviewRead, m.say(TextPreview)), i.Preview)

	i.Notices = slices.DeleteFunc(i.Notices, func(n Notice) bool { return n.First })
	if len(i.Notices)+len(i.Progress) > 0 || i.Sentence != "" {
		lines = append(lines, "")
	}
	for _, n := range i.Notices {
		s := n.Text
		if n.Reason { // a text has no buttons
			s = m.say(TextReasonNeeded, "id", i.Short)
		}
		lines = append(lines, s)
	}
	lines = append(lines, i.Progress...)
	if i.Sentence != "" {
		lines = append(lines, i.Sentence)
	}
	return lines
}

// allArgs are the args of a request, line by line.
func (m Maker) allArgs(r approval.Request) []string {
	masked, _ := m.masker().Args(r.Args)
	rows := allRows(masked, m.ignoredArgs(r))
	if len(rows) == 0 {
		return []string{m.say(TextNoArgs)}
	}
	lines := []string{m.say(TextArgs)}
	for n, row := range rows {
		if row.Ignored && (n == 0 || !rows[n-1].Ignored) {
			lines = append(lines, m.say(TextIgnored))
		}
		name := row.Prefix() + row.Key + ":"
		switch {
		case row.Open:
			lines = append(lines, name)
		case row.Lines:
			lines = append(append(lines, name), addBars(row.Value)...)
		default:
			lines = append(lines, name+" "+row.Value)
		}
	}
	return lines
}

// addBars sets text of several lines apart.
func addBars(s string) []string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = bar + l
	}
	return lines
}

// wrap breaks a line that is wider than width.
func wrap(line string, width int, unit func(string) int) string {
	var b strings.Builder
	for {
		piece, rest := legible.CutWithin(line, width-unit(arrow), unit)
		b.WriteString(piece)
		if rest == "" {
			return b.String()
		}
		b.WriteString("\n" + arrow)
		line = rest
	}
}

// Split cuts text into pieces of at most limit: at the end of a line where there is one in a piece's
// last quarter, else between two characters as drawn. The pieces together are the text.
func Split(text string, limit int, unit func(string) int) []string {
	var pieces []string
	for {
		piece, rest := legible.CutWithin(text, limit, unit)
		if rest == "" {
			return append(pieces, piece)
		}
		if end := strings.LastIndexByte(piece, '\n') + 1; unit(piece[:end]) >= limit-limit/4 {
			piece, rest = text[:end], text[end:]
		}
		pieces, text = append(pieces, piece), rest
	}
}
