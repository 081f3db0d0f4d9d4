package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"countersign/approval/legible"
	"countersign/client"
	"countersign/internal/terminal/inbox"

	"github.com/charmbracelet/x/ansi"
)

// Options are what [Plain] and [Screen] work with.
type Options struct {
	Inbox *inbox.Inbox
	In    io.Reader
	Out   io.Writer
	Now   func() time.Time
	Zone  *time.Location // in which times are told; UTC is named
	Width int            // of what Plain prints, in columns; 0: 80
	// Height is how many lines the screen has on which Plain prints: what is longer comes a screen at a time. 0: not
	// known, or no screen.
	Height int
	Env    func(string) (string, bool)
	// Settle is called where Plain asks something and In is a keyboard: what comes before the channel does was typed
	// before the question could be read, and is no answer to it. nil: In is no keyboard.
	Settle func() <-chan time.Time
}

// Plain asks about one request after another. It ends with the input, at q, with ctx, or with the error of running the
// inbox. Lines are answers; an empty one decides nothing.
func Plain(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	p := &asker{Options: o, lines: make(chan string, maxAhead), skipped: map[string]bool{}, running: make(chan error, 1)}
	if p.Width == 0 {
		p.Width = 80
	}
	go func() { p.running <- o.Inbox.Run(ctx) }()
	go p.read(ctx)
	err := p.loop(ctx)
	cancel()
	if !errors.Is(err, errRunning) {
		<-p.running
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var (
	errEnough  = errors.New("enough")
	errRunning = errors.New("the inbox ended")
	errOver    = errors.New("the request that was asked about does not wait any more")
)

// asker is one run of Plain.
type asker struct {
	Options
	lines   chan string
	running chan error
	skipped map[string]bool
	said    string // the last word about waiting, which is not said twice
	asked   client.Approval
}

// maxAhead is how many lines are taken before they are asked for.
const maxAhead = 256

// maxLine is how long an answer may be.
const maxLine = 64 << 10

func (p *asker) read(ctx context.Context) {
	defer close(p.lines)
	in := bufio.NewScanner(p.In)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		select {
		case p.lines <- in.Text():
		case <-ctx.Done():
			return
		}
	}
}

func (p *asker) say(format string, args ...any) { fmt.Fprintf(p.Out, format+"\n", args...) }

func (p *asker) view() view { return view{p.Inbox.GateNow(), p.Zone} }

// loop shows what waits, one by one.
func (p *asker) loop(ctx context.Context) error {
	for {
		s := p.Inbox.Snapshot()
		a, more := p.next(s)
		if a == nil {
			p.waiting(s)
			if err := p.idle(ctx); err != nil {
				return err
			}
			continue
		}
		p.said, p.asked = "", *a
		err := p.box(ctx, *a, more)
		if err == nil {
			err = p.ask(ctx, *a)
		}
		if err != nil && !errors.Is(err, errOver) {
			return err
		}
	}
}

// next is the request to ask about, nil for none, and how many wait behind it.
func (p *asker) next(s inbox.Snapshot) (first *client.Approval, more int) {
	for _, a := range s.Waiting {
		switch {
		case p.skipped[a.ID]:
		case first == nil:
			first = &a
		default:
			more++
		}
	}
	return first, more
}

// waiting says why there is nothing to ask about.
func (p *asker) waiting(s inbox.Snapshot) {
	said := "Nothing waits for a decision. New requests appear here; q ends."
	switch {
	case !s.Since.IsZero():
		said = fmt.Sprintf("Not connected since %s, trying again: %s", p.view().clock(s.Since),
			legible.Line(s.Problem.Error()))
	case !s.Read:
		return
	case len(p.skipped) > 0 && len(s.Waiting) > 0:
		said = "Nothing else waits; what was skipped still does. q ends."
	}
	if said != p.said {
		p.say("%s", said)
		p.said = said
	}
}

// idle waits until something has changed.
func (p *asker) idle(ctx context.Context) error {
	lines := p.lines
	if s := p.Inbox.Snapshot(); !s.Read && s.Since.IsZero() {
		lines = nil // an answer is to something that was shown
	}
	select {
	case <-p.Inbox.Notify():
		return nil
	case line, ok := <-lines:
		if word := strings.TrimSpace(line); !ok || word == "q" {
			return errEnough
		}
		return nil
	case err := <-p.running:
		return stopError(err)
	case <-ctx.Done():
		return errEnough
	}
}

// stopError is the end of an inbox that ended by itself.
func stopError(err error) error { return errors.Join(errRunning, err) }

// line is the next answer. Where the request ends meanwhile that is said, and the answer is to nothing: it may have
// been begun before.
func (p *asker) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(p.Out, prompt)
	var early <-chan time.Time
	if p.Settle != nil {
		early = p.Settle()
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	over := ""
	for {
		if why := ending(p.Inbox, p.asked); why != over && over == "" {
			over = why
			p.say("\nThat is over: %s. Nothing more can be decided about it; press Enter.", legible.Line(why))
		}
		select {
		case <-p.Inbox.Notify():
		case <-second.C: // deadlines pass by themselves
		case line, ok := <-p.lines:
			switch {
			case !ok:
				p.say("")
				return "", errEnough
			case over != "":
				return "", errOver
			case early == nil:
				return strings.TrimSpace(line), nil
			}
			p.say("That was typed before the question; answer again.")
			fmt.Fprint(p.Out, prompt)
		case <-early:
			early = nil
		case err := <-p.running:
			p.say("")
			return "", stopError(err)
		case <-ctx.Done():
			p.say("")
			return "", errEnough
		}
	}
}

// box draws a request.
func (p *asker) box(ctx context.Context, a client.Approval, more int) error {
	v := p.view()
	inner := p.Width - 4
	head := " " + strings.ToUpper(legible.Line(a.RiskLevel)) + " · " + client.ShortID(a.ID) + " "
	if more > 0 {
		head += fmt.Sprintf("· %d more ", more)
	}
	p.say("\n╭─%s%s╮", head, strings.Repeat("─", max(p.Width-3-ansi.StringWidth(head), 0)))
	lines := wrap(v.short(a), inner, leavePlain)
	for i := range lines {
		lines[i] = "│ " + fit(lines[i], inner) + " │"
	}
	if err := p.show(ctx, lines); err != nil {
		return err
	}
	p.say("╰%s╯", strings.Repeat("─", p.Width-2))
	p.keys(a)
	return nil
}

// show prints lines, a screen at a time: nothing is asked before all of them were to be seen.
func (p *asker) show(ctx context.Context, lines []string) error {
	for page := max(p.Height-4, 1); ; { // the head, what is asked, and where it is answered
		n := len(lines)
		if p.Height > 0 {
			n = min(n, page)
		}
		for _, line := range lines[:n] {
			p.say("%s", line)
		}
		if lines = lines[n:]; len(lines) == 0 {
			return nil
		}
		line, err := p.line(ctx, fmt.Sprintf("  … %d more lines. Enter for more, q to quit ", len(lines)))
		switch {
		case err != nil:
			return err
		case line == "q":
			return errEnough
		}
	}
}

func (p *asker) keys(a client.Approval) {
	p.say("  [a] Approve  [d] Deny  [v] View full details  [s] Skip  [q] Quit    %s left", p.view().timeLeft(a))
}

func leavePlain(_ kind, s string) string { return s }

// ask takes answers until the request is done with.
func (p *asker) ask(ctx context.Context, a client.Approval) error {
	for {
		line, err := p.line(ctx, "> ")
		if err != nil {
			return err
		}
		word, reason, _ := strings.Cut(line, " ")
		reason = strings.TrimSpace(reason)
		done := false
		switch word {
		case "a":
			done, err = p.approve(ctx, a, reason)
		case "d":
			done, err = p.deny(ctx, a, reason)
		case "v":
			lines := wrap(p.view().everything(a), p.Width-2, leavePlain)
			for i := range lines {
				lines[i] = "  " + lines[i]
			}
			if err = p.show(ctx, lines); err == nil {
				p.keys(a)
			}
		case "s":
			p.skipped[a.ID], done = true, true
		case "q":
			return errEnough
		case "":
			p.say("Nothing was decided: type a, d, v, s or q.")
		default:
			p.say("Nothing was decided: %q is not one of a, d, v, s and q.", legible.Line(line))
		}
		if err != nil || done {
			return err
		}
	}
}

// approve asks once more where the risk is critical.
func (p *asker) approve(ctx context.Context, a client.Approval, reason string) (done bool, err error) {
	if a.RiskLevel == "critical" {
		if yes, err := p.sure(ctx, "This is critical."); !yes {
			return false, err
		}
	}
	return p.decide(ctx, a, client.Approve, reason)
}

// sure asks for a yes.
func (p *asker) sure(ctx context.Context, text string) (bool, error) {
	line, err := p.line(ctx, text+" Type yes to approve: ")
	if err == nil && line != "yes" {
		p.say("Nothing was decided.")
	}
	return err == nil && line == "yes", err
}

func (p *asker) deny(ctx context.Context, a client.Approval, reason string) (done bool, err error) {
	if reason == "" {
		if reason, err = p.line(ctx, "Why? The agent is told. (Enter for no reason, q to go back) "); err != nil {
			return false, err
		}
		if reason == "q" {
			p.say("Nothing was decided.")
			return false, nil
		}
	}
	return p.decide(ctx, a, client.Deny, reason)
}

// decide decides on what was shown, and asks for what the gate wants to know beside.
func (p *asker) decide(ctx context.Context, a client.Approval, v client.Verdict, reason string) (bool, error) {
	var opts []client.DecideOption
	for {
		out := p.Inbox.Decide(ctx, a, v, reason, opts...)
		switch out.Result {
		case inbox.NeedsConfirm:
			yes, err := p.sure(ctx, legible.Line(out.Text))
			if !yes {
				return false, err
			}
			opts = []client.DecideOption{client.Confirmed()}
		case inbox.NeedsReason:
			line, err := p.line(ctx, legible.Line(out.Text)+" Why? ")
			if err != nil {
				return false, err
			}
			if line == "" {
				p.say("Nothing was decided.")
				return false, nil
			}
			reason = line
		default:
			p.say("%s", describeOutcome(out))
			if out.Result == inbox.Done { // and another may have to decide too
				p.skipped[a.ID] = true
			}
			return out.Result == inbox.Done || out.Result == inbox.Changed, nil
		}
	}
}

// describeOutcome says what became of a decision.
func describeOutcome(out inbox.Outcome) string {
	d := out.Decided
	switch {
	case out.Result == inbox.Unreached:
		return "It is not known whether that was decided: " + legible.Line(out.Text)
	case out.Result == inbox.Changed && len(out.Changes) > 0:
		return "Nothing was decided, because the request changed meanwhile: " +
			legible.Line(strings.Join(out.Changes, "; ")) + "."
	case out.Result != inbox.Done:
		return "Nothing was decided. " + legible.Line(out.Text)
	case d.Status == "approved" && d.Grant != nil:
		return "Approved, and given for longer: the same call is not asked about for a while."
	case d.Status == "approved":
		return "Approved. The agent may run it once."
	case d.Status == "pending":
		have, need := client.Progress(d.Votes, d.Needs)
		return fmt.Sprintf("Your approval counts: %d of %d.", have, need)
	case d.Status == "denied":
		return "Denied."
	}
	return "Done."
}
