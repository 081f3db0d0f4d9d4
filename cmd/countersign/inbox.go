package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"countersign/internal/terminal"
	"countersign/internal/terminal/inbox"
)

// settles is how long a question is there before a person can have read it.
const settles = 250 * time.Millisecond

type inboxCmd struct {
	remote
	times
	Plain bool `help:"Ask about one request after another in plain text. Default without a terminal."`
}

func (*inboxCmd) Help() string {
	return `It lists the waiting requests, new ones as they come, and takes your decisions. You decide exactly what was shown: if the request has changed meanwhile, nothing is decided, and you see what is different.

With --plain, or without a terminal, each request is a box of text, and each line that you type is an answer: a, d, v, s or q. An empty line decides nothing; the end of input ends the program.

Keys:

    j k, arrows   next, previous            x   select, for several at once
    a             approve                   /   filter by tool, agent or risk
    d             deny, with a reason       g   approve for longer, where the rule allows it
    v, enter      everything about it       e   edit the arguments in $VISUAL or $EDITOR, and approve those
    +             one hour more             c   take it back
    ?             these keys                q   leave

Examples:

    countersign inbox
    countersign inbox --plain
    ssh gate.example countersign inbox --plain
    countersign inbox --server https://gate.example --utc`
}

func (c *inboxCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := terminal.Options{Inbox: inbox.New(inbox.Options{Gate: g.Client, Now: s.now}), In: s.in, Out: s.out,
		Now: s.now, Zone: s.zone(), Env: s.env}
	if isTerminalIn(s.in) {
		o.Settle = func() <-chan time.Time { return time.After(settles) }
	}
	if c.Plain || !s.terminal || !isTerminalIn(s.in) || s.getenv("TERM") == "dumb" {
		if tty, ok := s.out.(*os.File); ok && s.terminal {
			if width, height, err := term.GetSize(int(tty.Fd())); err == nil {
				o.Width, o.Height = min(max(width, 20), 100), height
			}
		}
		err = terminal.Plain(ctx, o)
	} else {
		err = terminal.Screen(ctx, o)
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return g.failure(err)
}
