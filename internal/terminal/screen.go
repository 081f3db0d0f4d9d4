package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"countersign/approval/legible"
	"countersign/client"
	"countersign/internal/terminal/inbox"
)

// Screen fills the terminal with the list and the request that is looked at, until q, the end of ctx, or the error of
// running the inbox.
func Screen(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &screen{Options: o, ctx: ctx, selected: map[string]client.Approval{}, read: map[string]string{},
		detail: viewport.New(), input: textinput.New()}
	p := tea.NewProgram(s, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(environ(o.Env)))
	defer context.AfterFunc(ctx, p.Quit)() // and not killed: the terminal is left as it was
	running := make(chan error, 1)
	go func() {
		err := o.Inbox.Run(ctx)
		running <- err
		p.Send(endedMsg{})
	}()
	_, err := p.Run()
	cancel()
	refused := <-running
	switch {
	case err != nil && !errors.Is(err, tea.ErrInterrupted):
		return err
	case errors.Is(refused, context.Canceled):
		return nil
	}
	return refused
}

// environ is what of the environment says which colours a terminal has, and which are wanted.
func environ(env func(string) (string, bool)) []string {
	var out []string
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM_PROGRAM", "TMUX",
		"STY", "WT_SESSION", "SSH_TTY", "LANG", "LC_ALL", "LC_CTYPE"} {
		if value, ok := env(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// mode is what keys are for.
type mode int

const (
	listing   mode = iota // the list, with the request beside it where there is room
	reading               // one request, and everything about it
	helping               // the keys
	answering             // yes or no
	typing                // a line of text
)

// screen is the model of the program.
type screen struct {
	Options
	ctx context.Context

	snap     inbox.Snapshot
	rows     []client.Approval          // what is listed: what waits and passes the filter, and shown
	shown    client.Approval            // what is looked at, as it stands on the screen
	passing  int                        // how many of them pass the filter
	over     string                     // why there is nothing to decide about it any more
	selected map[string]client.Approval // as they were when they were selected
	moved    time.Time                  // when shown became another by itself
	read     map[string]string          // the version in which all of a request was on the screen, by its id
	drawn    int                        // how many lines of drawnOf were on the screen, from the first on
	drawnOf  string                     // a request, its version, and how it is laid out
	asked    time.Time                  // when the gate's answer became a question
	tooSoon  bool                       // it was answered before it could be read

	mode     mode
	back     mode // where a question came from
	full     bool // everything of shown is on the screen, not the short of it
	question string
	answer   func(text string) tea.Cmd
	input    textinput.Model
	detail   viewport.Model
	filter   string
	status   string
	busy     bool

	width, height, top int
}

type (
	changedMsg struct{}
	tickMsg    struct{}
	endedMsg   struct{}
	// outcomeMsg is what became of one decision, and how to decide again with what was missing.
	outcomeMsg struct {
		shown string // the request's id
		out   inbox.Outcome
		again func(reason string, opts ...client.DecideOption) tea.Cmd
	}
	// toldMsg is what became of anything else.
	toldMsg struct{ text string }
)

// Init begins to listen to the inbox and to the time.
func (s *screen) Init() tea.Cmd { return tea.Batch(s.listen, s.tick) }

// tick waits for the next second, in which every deadline is nearer.
func (s *screen) tick() tea.Msg {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
		return tickMsg{}
	case <-s.ctx.Done():
		return nil
	}
}

// listen waits for a change.
func (s *screen) listen() tea.Msg {
	select {
	case <-s.Inbox.Notify():
		return changedMsg{}
	case <-s.ctx.Done():
		return nil
	}
}

// Update takes what happened.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case changedMsg:
		s.refresh()
		cmd = s.listen
	case tickMsg:
		s.refresh()
		cmd = s.tick
	case endedMsg:
		cmd = tea.Quit
	case outcomeMsg:
		s.busy = false
		s.refresh()
		cmd = s.outcome(msg)
	case toldMsg:
		s.busy = false
		s.refresh()
		s.status = msg.text
	case editedMsg:
		s.busy = false
		s.askAboutEdit(msg)
	case tea.KeyPressMsg:
		cmd = s.key(msg)
	case tea.PasteMsg: // what is pasted is text, and no keys
		if s.mode == typing {
			s.input, cmd = s.input.Update(msg)
		}
	}
	s.layout()
	return s, cmd
}

// refresh takes what the inbox holds now. What is looked at stays: where it ended that is said, and another does not
// take its place under the person's finger.
func (s *screen) refresh() {
	s.snap = s.Inbox.Snapshot()
	s.rows = slices.DeleteFunc(slices.Clone(s.snap.Waiting), func(a client.Approval) bool { return !s.passes(a) })
	s.passing = len(s.rows)
	for id := range s.selected {
		if !slices.ContainsFunc(s.snap.Waiting, func(a client.Approval) bool { return a.ID == id }) {
			delete(s.selected, id)
		}
	}
	if s.shown.ID == "" {
		if len(s.rows) > 0 {
			s.look(s.rows[0])
			s.moved = s.Now()
		}
		return
	}
	i := slices.IndexFunc(s.snap.Waiting, func(a client.Approval) bool { return a.ID == s.shown.ID })
	if i >= 0 {
		s.over = ""
		if is := s.snap.Waiting[i]; is.Version != s.shown.Version {
			changes := cmp.Or(strings.Join(inbox.Changes(s.shown, is), "; "), "read it again")
			s.status = "It changed: " + legible.Line(changes) + "."
			s.shown, s.moved = is, s.Now()
			s.detail.GotoTop()
		}
		if s.at() < 0 {
			s.place()
		}
		return
	}
	s.over = ending(s.Inbox, s.shown)
	s.place()
}

// place puts what is looked at into the list, where it does not wait or pass the filter any more.
func (s *screen) place() {
	i, _ := slices.BinarySearchFunc(s.rows, s.shown, func(a, b client.Approval) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt.Time), strings.Compare(a.ID, b.ID))
	})
	s.rows = slices.Insert(s.rows, i, s.shown)
}

// passes reports whether a request is one that the filter lets through.
func (s *screen) passes(a client.Approval) bool {
	for word := range strings.FieldsSeq(strings.ToLower(s.filter)) {
		text := a.Target() + " " + a.Agent + " " + a.RiskLevel + " " + a.ID + " " + a.HumanMessage + " " + a.Summary
		if !strings.Contains(strings.ToLower(text), word) {
			return false
		}
	}
	return true
}

// look has another request looked at.
func (s *screen) look(a client.Approval) {
	s.shown, s.over, s.status = a, "", ""
	s.detail.GotoTop()
}

// at is the place in the list of what is looked at.
func (s *screen) at() int {
	return slices.IndexFunc(s.rows, func(a client.Approval) bool { return a.ID == s.shown.ID })
}

// step looks at the next request, or with -1 at the one before.
func (s *screen) step(by int) {
	was := s.shown.ID
	over := s.over != ""
	i := s.at()
	if len(s.rows) == 0 {
		return
	}
	next := min(max(i+by, 0), len(s.rows)-1)
	if next == i && !over {
		return
	}
	s.look(s.rows[next])
	if over && s.shown.ID != was {
		s.refresh() // and what is over leaves the list
	}
}

// settle is how long what became another by itself has to stand before a key decides on it.
const settle = time.Second

// targets are what a key is about: what was selected, or what is looked at; none where nothing can be decided, and why
// is in the status.
func (s *screen) targets() []client.Approval {
	if len(s.selected) > 0 {
		all := make([]client.Approval, 0, len(s.selected))
		for _, a := range s.snap.Waiting {
			if was, ok := s.selected[a.ID]; ok {
				all = append(all, was)
			}
		}
		return all
	}
	if s.one() {
		return []client.Approval{s.shown}
	}
	return nil
}

// one reports whether what is looked at can be decided now.
func (s *screen) one() bool {
	switch {
	case s.shown.ID == "":
		s.status = "Nothing waits."
	case s.over != "":
		s.status = "That is over: " + legible.Line(s.over) + "."
	case s.Now().Sub(s.moved) < settle:
		s.status = "Nothing was decided: this has only just appeared or changed. Read it, and press again."
	case s.busy:
		s.status = "One moment: the gate has not answered yet."
	case s.mode == listing && !s.wide():
		s.mode, s.full = reading, false
		s.detail.GotoTop()
		s.status = "Read it, and press again."
	default:
		return true
	}
	return false
}

// whole reports whether all of what is looked at has been on the screen, as it stands: what was not seen is not
// approved. Else it is opened, to be read to its end.
func (s *screen) whole() bool {
	if version, ok := s.read[s.shown.ID]; ok && version == s.shown.Version {
		return true
	}
	if s.mode != reading {
		s.mode, s.full = reading, false
		s.detail.GotoTop()
	}
	s.status = "Not all of it was on the screen. Read it to its end (space), and press again."
	return false
}

// decide sends a decision on a request as it was shown.
func (s *screen) decide(a client.Approval, v client.Verdict, reason string, opts ...client.DecideOption) tea.Cmd {
	s.busy = true
	s.status = "…"
	again := func(more string, further ...client.DecideOption) tea.Cmd {
		return s.decide(a, v, cmp.Or(more, reason), append(slices.Clip(opts), further...)...)
	}
	return func() tea.Msg { return outcomeMsg{a.ID, s.Inbox.Decide(s.ctx, a, v, reason, opts...), again} }
}

// outcome says what became of a decision, or asks for what was missing.
func (s *screen) outcome(m outcomeMsg) tea.Cmd {
	s.status = describeOutcome(m.out)
	asks := m.out.Result == inbox.NeedsConfirm || m.out.Result == inbox.NeedsReason
	if asks && (s.mode == typing || s.mode == answering || s.mode == helping || s.shown.ID != m.shown) {
		s.status += " Press a on it again." // no question takes the keys that were meant for something else
		return nil
	}
	if asks {
		s.asked = s.Now()
	}
	switch m.out.Result {
	case inbox.NeedsConfirm:
		s.ask(legible.Line(m.out.Text)+" Approve?", func(string) tea.Cmd { return m.again("", client.Confirmed()) })
	case inbox.NeedsReason:
		return s.line(legible.Line(m.out.Text)+" Why? ", func(text string) tea.Cmd {
			if text == "" {
				s.status = "Nothing was decided."
				return nil
			}
			return m.again(text)
		})
	case inbox.Done:
		if s.mode == reading {
			s.mode = listing
		}
	}
	return nil
}

// decideAll decides several one by one, each as it was when it was selected. Approving leaves out what is critical.
func (s *screen) decideAll(all []client.Approval, v client.Verdict, reason string) tea.Cmd {
	s.busy, s.status = true, "…"
	s.selected = map[string]client.Approval{}
	return func() tea.Msg {
		done, left := 0, []string(nil)
		for _, a := range all {
			if v == client.Approve && a.RiskLevel == "critical" {
				left = append(left, client.ShortID(a.ID)+" is critical")
				continue
			}
			switch out := s.Inbox.Decide(s.ctx, a, v, reason); {
			case out.Result == inbox.Done:
				done++
			case out.Result == inbox.Changed:
				left = append(left, client.ShortID(a.ID)+" changed")
			default:
				left = append(left, client.ShortID(a.ID)+": "+out.Text)
			}
		}
		text := fmt.Sprintf("%d of %d decided.", done, len(all))
		if left != nil {
			text += " Left as they are: " + legible.Line(strings.Join(left, "; "))
		}
		return toldMsg{text}
	}
}

// ask wants a yes or a no.
func (s *screen) ask(question string, yes func(string) tea.Cmd) {
	if s.mode != answering && s.mode != typing {
		s.back = s.mode
	}
	s.mode, s.question, s.answer, s.tooSoon = answering, question, yes, false
}

// line wants a line of text.
func (s *screen) line(question string, done func(text string) tea.Cmd) tea.Cmd {
	if s.mode != answering && s.mode != typing {
		s.back = s.mode
	}
	s.mode, s.question, s.answer = typing, question, done
	s.input.Reset()
	return s.input.Focus()
}
