package terminal

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"countersign/approval/legible"
	"countersign/client"
)

// key takes a key, whatever it is for now.
func (s *screen) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	switch s.mode {
	case helping:
		s.mode = listing
		return nil
	case answering:
		return s.takeAnswer(name)
	case typing:
		return s.takeKey(k, name)
	}
	if s.moves(name) {
		return nil
	}
	return s.acts(name)
}

// takeAnswer takes the answer to a question: only y is a yes.
func (s *screen) takeAnswer(name string) tea.Cmd {
	if s.Now().Sub(s.asked) < settle { // typed before the question was there
		s.tooSoon = true
		return nil
	}
	yes := s.answer
	s.mode, s.question, s.answer = s.back, "", nil
	if name != "y" && name != "Y" {
		s.status = "Nothing was decided."
		return nil
	}
	return yes("")
}

// takeKey takes a key of a line of text.
func (s *screen) takeKey(k tea.KeyPressMsg, name string) tea.Cmd {
	var cmd tea.Cmd
	switch name {
	case "esc":
		s.mode, s.question, s.answer = s.back, "", nil
		s.status = ""
	case "enter":
		done := s.answer
		s.mode, s.question, s.answer = s.back, "", nil
		cmd = done(strings.TrimSpace(s.input.Value()))
	default:
		s.input, cmd = s.input.Update(k)
	}
	return cmd
}

// moves takes the keys that only show something else.
func (s *screen) moves(name string) bool {
	switch name {
	case "j", "down":
		s.scrollOr(1)
	case "k", "up":
		s.scrollOr(-1)
	case "pgdown", "space", "ctrl+f":
		s.detail.PageDown()
	case "pgup", "ctrl+b":
		s.detail.PageUp()
	case "home", "end":
		s.leap(name)
	case "?":
		s.mode = helping
	case "v", "enter":
		if s.shown.ID != "" {
			s.mode, s.full = reading, true
			s.detail.GotoTop()
		}
	case "esc":
		if s.mode == listing {
			s.filter = ""
			s.selected = map[string]client.Approval{}
			s.refresh()
		}
		s.mode, s.status = listing, ""
	default:
		return false
	}
	return true
}

// leap goes to the first or the last of the list, or where one request fills the screen of its lines.
func (s *screen) leap(name string) {
	switch {
	case s.mode == reading && name == "home":
		s.detail.GotoTop()
	case s.mode == reading:
		s.detail.GotoBottom()
	case name == "home":
		s.step(-len(s.rows))
	default:
		s.step(len(s.rows))
	}
}

// scrollOr moves in the list, or where one request fills the screen in its text.
func (s *screen) scrollOr(by int) {
	switch {
	case s.mode != reading:
		s.step(by)
	case by > 0:
		s.detail.ScrollDown(1)
	default:
		s.detail.ScrollUp(1)
	}
}

// acts takes the keys that do something.
func (s *screen) acts(name string) tea.Cmd {
	switch name {
	case "q":
		if s.mode == reading {
			s.mode = listing
			return nil
		}
		return tea.Quit
	case "a":
		return s.approve()
	case "d":
		return s.deny()
	case "x":
		s.toggle()
	case "/":
		return s.line("Only with: ", func(text string) tea.Cmd {
			s.filter, s.shown, s.over = text, client.Approval{}, ""
			s.refresh()
			s.moved = time.Time{} // by the person at the terminal, not by itself
			return nil
		})
	case "g":
		return s.grant()
	case "e":
		if s.one() && s.whole() {
			return s.edit()
		}
	case "+":
		if s.one() {
			a := s.shown
			s.busy = true
			return func() tea.Msg {
				return toldMsg{describeResult("One more hour.", s.Inbox.Extend(s.ctx, a))}
			}
		}
	case "c":
		if s.one() {
			a := s.shown
			s.ask("Take this request back? The agent is told that it was cancelled.", func(string) tea.Cmd {
				s.busy = true
				return func() tea.Msg { return toldMsg{describeResult("Taken back.", s.Inbox.Cancel(s.ctx, a, ""))} }
			})
		}
	}
	return nil
}

// toggle selects what is looked at, as it stands, or takes it out again.
func (s *screen) toggle() {
	if s.shown.ID == "" || s.over != "" {
		return
	}
	s.selected = maps.Clone(s.selected)
	if _, ok := s.selected[s.shown.ID]; ok {
		delete(s.selected, s.shown.ID)
		return
	}
	if s.mode == listing && !s.wide() { // what was not on the screen is not selected either
		s.mode, s.full = reading, false
		s.detail.GotoTop()
		s.status = "Read it, and press again."
		return
	}
	if !s.whole() {
		return
	}
	s.selected[s.shown.ID] = s.shown
}

func (s *screen) approve() tea.Cmd {
	all := s.targets()
	switch {
	case len(all) == 0:
		return nil
	case len(s.selected) > 0:
		s.ask(fmt.Sprintf("Approve the %s that you selected? What is critical is left out.", requests(len(all))),
			func(string) tea.Cmd { return s.decideAll(all, client.Approve, "") })
		return nil
	case !s.whole():
		return nil
	case all[0].RiskLevel == "critical":
		s.ask("CRITICAL. Approve "+legible.Line(all[0].Target())+"?",
			func(string) tea.Cmd { return s.decide(all[0], client.Approve, "") })
		return nil
	}
	return s.decide(all[0], client.Approve, "")
}

func (s *screen) deny() tea.Cmd {
	all := s.targets()
	if len(all) == 0 {
		return nil
	}
	several := len(s.selected) > 0
	what := "Deny: why? "
	if several {
		what = "Deny " + requests(len(all)) + ": why? "
	}
	return s.line(what, func(reason string) tea.Cmd {
		if several {
			return s.decideAll(all, client.Deny, reason)
		}
		return s.decide(all[0], client.Deny, reason)
	})
}

func requests(n int) string {
	if n == 1 {
		return "request"
	}
	return fmt.Sprintf("%d requests", n)
}

// grant approves for longer.
func (s *screen) grant() tea.Cmd {
	if !s.one() || !s.whole() {
		return nil
	}
	a := s.shown
	return s.line("The same call without asking for: 1h, 8h, session, or a number of uses? ", func(text string) tea.Cmd {
		terms, ok := termsOf(text)
		if !ok {
			s.status = "Nothing was decided: write 30m, 8h, session or a number."
			return nil
		}
		return s.decide(a, client.Approve, "", client.GrantFor(terms))
	})
}

// termsOf reads for how long an approval is given.
func termsOf(text string) (t client.GrantTerms, ok bool) {
	if text == "session" {
		return client.GrantTerms{Session: true}, true
	}
	if n, err := strconv.Atoi(text); err == nil {
		return client.GrantTerms{Uses: n}, n > 0
	}
	d, err := time.ParseDuration(text)
	return client.GrantTerms{For: d}, err == nil && d > 0
}
