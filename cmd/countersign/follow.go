package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"countersign/client"
	"countersign/internal/locale"
)

// follower prints requests as they come and as they end.
type follower struct {
	c     *pendingCmd
	s     *std
	g     *connection
	known map[string]bool // those that were printed as waiting
}

// fromNow is no place in the stream of events: a client that asks from there is told at once to read what there is.
const fromNow = "now"

// follow prints what waits, oldest first, and then what comes and what ends, until a person ends it.
func (c *pendingCmd) follow(ctx context.Context, s *std, g *connection) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := follower{c, s, g, map[string]bool{}}
	for e, err := range g.Events(ctx, fromNow) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return g.failure(err)
		case e.Type == client.EventReset:
			err = f.all(ctx)
		case e.Approval != nil:
			err = f.event(e.Type, *e.Approval)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// all prints what waits and was not printed yet.
func (f *follower) all(ctx context.Context) error {
	page, err := f.c.list(ctx, f.g)
	if err != nil {
		return f.g.failure(err)
	}
	for i := len(page.Items) - 1; i >= 0; i-- {
		if err := f.event(client.EventRequested, page.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// event prints a request that is new, or of which something is.
func (f *follower) event(kind string, a client.Approval) error {
	known := f.known[a.ID]
	switch {
	case !f.c.wants(a), !known && a.Status != "pending", known && kind == client.EventRequested:
		return nil
	case a.Status == "pending":
		f.known[a.ID] = true
	default:
		delete(f.known, a.ID)
	}
	if f.c.forPrograms() {
		return f.c.printLine(f.s, a)
	}
	now := f.s.now()
	word, more := "waits", away(a.ExpiresAt.Sub(now))
	switch {
	case a.Status != "pending":
		word, more = a.Status, ""
		if a.ResolvedBy != "" {
			more = "by " + visible(a.Who())
		}
	case kind == client.EventVoted:
		word, more = "voted", cmp.Or(progress(a.Votes, a.Needs), "1 of 1")
	case kind == client.EventExtended:
		word, more = "extended", away(a.ExpiresAt.Sub(now))
	}
	f.s.printf("%s  %s  %s  %s  %s  %s  %s\n", locale.Clock(now, f.s.zone()), fmt.Sprintf("%-9s", visible(word)),
		f.s.paint(visible(a.RiskLevel)), visible(willHappen(a)), visible(a.Agent), visible(client.ShortID(a.ID)), more)
	return nil
}

// wants reports whether a request is one of those that were asked for.
func (c *pendingCmd) wants(a client.Approval) bool {
	return (c.Agent == "" || c.Agent == a.Agent) && (c.RiskLevel == "" || c.RiskLevel == a.RiskLevel) &&
		(c.Tool == "" || c.Tool == a.Tool || c.Tool == a.Target())
}
