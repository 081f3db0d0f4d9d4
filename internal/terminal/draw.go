package terminal

import (
	"cmp"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"countersign/approval/legible"
	"countersign/client"
	"countersign/internal/terminal/inbox"
)

var (
	bold    = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	alarm   = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("1"))
	warning = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	chosen  = lipgloss.NewStyle().Reverse(true)
	risks   = map[string]lipgloss.Style{"medium": warning, "high": lipgloss.NewStyle().Foreground(lipgloss.Color("1")),
		"critical": alarm}
)

// Of how many columns the list and the request stand beside each other.
const besides = 80

func (s *screen) wide() bool { return s.width >= besides }

// listWidth is how many columns the list has.
func (s *screen) listWidth() int {
	if !s.wide() {
		return s.width
	}
	return min(s.width*2/5, 60)
}

// body is how many lines there are between the head and the foot.
func (s *screen) body() int { return max(s.height-3-len(s.foot()), 1) }

// layout fits what is shown to the size.
func (s *screen) layout() {
	width := s.width
	if s.wide() && s.mode != reading {
		width -= s.listWidth() + 3
	}
	s.detail.SetWidth(max(width, 1))
	lines, height := s.request(max(width, 1)), s.body()
	if len(lines) > height {
		height = max(height-1, 1) // the last line says how many are below
	}
	s.detail.SetHeight(height)
	s.detail.SetContentLines(lines)
	s.noteDrawn(width, len(lines))
	if at := s.at(); at >= 0 {
		s.top = min(s.top, at)
		s.top = max(s.top, at-s.body()+1)
	}
}

// drawsRequest reports whether what is looked at is on the screen.
func (s *screen) drawsRequest() bool {
	switch {
	case s.width == 0, s.height < 4+len(s.foot()), s.shown.ID == "", s.mode == helping:
		return false
	}
	return s.mode == reading || s.back == reading && s.mode != listing || s.wide()
}

// noteDrawn keeps how far what is looked at has been on the screen, from its first line on, and when that was all of
// it: what was leapt over was not.
func (s *screen) noteDrawn(width, total int) {
	if !s.drawsRequest() {
		return
	}
	if of := fmt.Sprint(s.shown.ID, s.shown.Version, width, s.mode == reading && s.full); of != s.drawnOf {
		s.drawnOf, s.drawn = of, 0
	}
	if at := s.detail.YOffset(); at <= s.drawn {
		s.drawn = max(s.drawn, at+s.detail.Height())
	}
	if s.drawn >= total {
		s.read[s.shown.ID] = s.shown.Version
	}
}

// View draws the screen.
func (s *screen) View() tea.View {
	lines := []string{s.head(), s.rule()}
	switch {
	case s.width == 0:
		lines = nil
	case s.mode == helping:
		lines = append(lines, s.fill(strings.Split(keysHelp, "\n"))...)
	case s.shown.ID == "":
		lines = append(lines, s.fill(s.empty())...)
	case s.mode == reading || s.back == reading && s.mode != listing: // as in drawsRequest
		lines = append(lines, s.text("space")...)
	case s.wide():
		lines = append(lines, s.both()...)
	default:
		lines = append(lines, s.fill(s.list())...)
	}
	if s.width > 0 {
		lines = append(lines, s.rule())
		lines = append(lines, s.foot()...)
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], s.width, "…")
	}
	v := tea.NewView(strings.Join(lines[:min(len(lines), s.height)], "\n"))
	v.AltScreen = true
	return v
}

func (s *screen) rule() string { return faint.Render(strings.Repeat("─", max(s.width, 0))) }

// head says how much waits, and whether that is so.
func (s *screen) head() string {
	text := bold.Render("Countersign") + "  " + fmt.Sprintf("%d wait", len(s.snap.Waiting))
	if s.filter != "" {
		text += fmt.Sprintf(", %d with %q", s.passing, legible.Line(s.filter))
	}
	if n := len(s.selected); n > 0 {
		text += fmt.Sprintf(", %d selected", n)
	}
	state := "live"
	switch {
	case !s.snap.Since.IsZero():
		state = warning.Render("not connected since " + s.now().clock(s.snap.Since) + ", trying again")
	case !s.snap.Read:
		state = "connecting"
	}
	if ansi.StringWidth(text)+ansi.StringWidth(state)+2 > s.width && !s.snap.Since.IsZero() {
		text = "" // that it may be out of date counts for more
	}
	return fit(text, s.width-ansi.StringWidth(state)-1) + " " + state
}

func (s *screen) now() view { return view{s.Inbox.GateNow(), s.Zone} }

// fill returns as many lines as there is room for.
func (s *screen) fill(lines []string) []string {
	n := s.body()
	lines = append([]string{}, lines[:min(len(lines), n)]...)
	for len(lines) < n {
		lines = append(lines, "")
	}
	return lines
}

// empty says why there is no list.
func (s *screen) empty() []string {
	switch {
	case !s.snap.Read && s.snap.Since.IsZero():
		return []string{"", "  Asking the gate …"}
	case !s.snap.Read:
		text := "  " + legible.Line(s.snap.Problem.Error())
		return append([]string{"", "  The gate does not answer."},
			strings.Split(ansi.Wrap(text, max(s.width-2, 1), ""), "\n")...)
	case s.filter != "" && len(s.snap.Waiting) > 0:
		return []string{"", "  Nothing that waits passes the filter.", "  esc takes it away."}
	}
	return []string{"", "  Nothing waits for a decision.", "  New requests appear here as they come."}
}

// riskWords are risks in few letters, with signs for those who see no colours.
var riskWords = map[string]string{"low": "    low ", "medium": "  ! med ", "high": " !! high", "critical": "!!! crit"}

// list is the list.
func (s *screen) list() []string {
	width := s.listWidth()
	var out []string
	for _, a := range s.rows[min(s.top, len(s.rows)):min(s.top+s.body(), len(s.rows))] {
		out = append(out, s.row(a, width))
	}
	return out
}

func (s *screen) row(a client.Approval, width int) string {
	mark := " "
	if _, ok := s.selected[a.ID]; ok {
		mark = "x"
	}
	word := riskWords[a.RiskLevel]
	if word == "" {
		word = fit(legible.Line(a.RiskLevel), 8)
	}
	left := s.now().timeLeft(a)
	if a.ID == s.shown.ID && s.over != "" {
		left = "over"
	}
	left = " " + left
	what := legible.Line(cmp.Or(a.Summary, a.Target())) + "  " + legible.Line(a.Agent)
	room := width - 11 - ansi.StringWidth(left) - 1
	if a.ID == s.shown.ID {
		return chosen.Render(fit("▸"+mark+word+" "+fit(what, room)+left, width))
	}
	if style, ok := risks[a.RiskLevel]; ok {
		word = style.Render(word)
	}
	return fit(" "+mark+word+" "+fit(what, room)+left, width)
}

// text is what there is room for of the request, and how much is below that, with the keys that bring it.
func (s *screen) text(keys string) []string {
	lines := s.fill(strings.Split(s.detail.View(), "\n"))
	below := s.detail.TotalLineCount() - s.detail.YOffset() - s.detail.Height()
	if below > 0 && len(lines) > s.detail.Height() {
		lines[len(lines)-1] = faint.Render(fmt.Sprintf("… %d more lines: %s", below, keys))
	}
	return lines
}

// both are the list and the request, side by side.
func (s *screen) both() []string {
	list, detail := s.fill(s.list()), s.text("space, or v for all of it")
	for i := range list {
		list[i] = fit(list[i], s.listWidth()) + faint.Render(" │ ") + detail[i]
	}
	return list
}

// request is the text of what is looked at.
func (s *screen) request(width int) []string {
	if s.shown.ID == "" {
		return nil
	}
	v := s.now()
	var parts []part
	if s.over != "" {
		parts = append(parts, part{caution, "Over: " + legible.Line(s.over)})
	}
	if s.mode == reading && s.full {
		parts = append(parts, v.everything(s.shown)...)
	} else {
		parts = append(parts, v.short(s.shown)...)
	}
	return wrap(parts, width, paint)
}

// paint colours a line by what it is.
func paint(k kind, line string) string {
	switch k {
	case title, heading:
		return bold.Render(line)
	case quiet:
		return faint.Render(line)
	case caution:
		return warning.Render(line)
	}
	return line
}

// foot is what is asked or said, and the keys that count now.
func (s *screen) foot() []string {
	wrap := func(text string) []string { return strings.Split(ansi.Wrap(text, max(s.width, 1), ""), "\n") }
	switch s.mode {
	case typing:
		return append(wrap(s.question+legible.Line(s.input.Value())+"█"), faint.Render("enter: go on  esc: back"))
	case answering:
		question := bold.Render(s.question)
		if s.tooSoon {
			question += " That key came before this could be read: answer again."
		}
		return append(wrap(question), faint.Render("y: yes  any other key: no"))
	}
	keys := "a approve  d deny  v everything  e edit  g for longer  x select  / filter  ? keys  q quit"
	if s.mode == reading {
		keys = "a approve  d deny  e edit  g for longer  + 1h  esc back  ? keys"
	}
	if ansi.StringWidth(keys) > s.width {
		keys = "a approve  d deny  v all  ? keys"
	}
	return append(wrap(s.status), faint.Render(keys))
}

const keysHelp = `
  j k, arrows   next, previous
  space, pgup   scroll the request
  v, enter      everything about it
  a             approve
  d             deny, with a reason
  g             approve for longer
  e             edit, and approve that
  x             select, for several at once
  +             one hour more
  c             take it back
  /             filter; esc: no filter
  q             leave`

// describeResult says what became of something that is no decision.
func describeResult(done string, out inbox.Outcome) string {
	if out.Result == inbox.Done {
		return done
	}
	return describeOutcome(out)
}
