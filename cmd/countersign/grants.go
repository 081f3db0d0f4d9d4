package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/client"
)

// longerText says what a decision that was given for longer does from now on, on a line of its own.
func (s *std) longerText(g *client.Grant) string {
	if g == nil {
		return ""
	}
	until := s.timeText(g.ExpiresAt.Time, s.now())
	if g.SessionID != "" {
		until += ", in this session"
	}
	short := visible(client.ShortID(g.ID))
	if g.Decision == client.Deny {
		return fmt.Sprintf("\nIt stands: %s, %s is denied without asking until %s. countersign lift %s ends it before.",
			short, nameCovered(g), until, short)
	}
	if g.Uses > 0 {
		until += ", " + count(g.Uses, "use", "uses")
	}
	return fmt.Sprintf("\nGranted: %s, %s is let through without asking until %s. countersign revoke %s ends it before.",
		short, nameCovered(g), until, short)
}

// nameCovered names the calls that a grant answers.
func nameCovered(g *client.Grant) string {
	switch {
	case g.AnyArgs:
		return "this tool, with any arguments,"
	case len(g.Vary) > 0:
		return "the same call, but for " + visible(strings.Join(slices.Sorted(maps.Keys(g.Vary)), ", ")) + ","
	}
	return "the same call"
}

type grantsCmd struct {
	remote
	output
	long
	All   bool   `help:"Include those that have ended."`
	Agent string `placeholder:"NAME" help:"Only this agent's."`
}

func (*grantsCmd) Help() string {
	return `A grant allows the calls that it covers without asking; a standing denial denies them. Approvers and admins see all of them. SHORT is the end of the id, which is enough for countersign revoke.

Examples:

    countersign grants
    countersign grants --agent treasury-bot --all
    countersign grants --json`
}

func (c *grantsCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	page, err := pages(0, func(after string, limit int) (client.Page[client.Grant], error) {
		return g.Grants(ctx, client.GrantQuery{Agent: c.Agent, All: c.All, After: after, Limit: limit})
	})
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, list("grants", page))
	}
	if len(page.Items) == 0 {
		s.printf("Nothing is granted, and no denial stands.\n")
		return nil
	}
	defer s.startPager()()
	now := s.now()
	rows := [][]string{{"ID", "SHORT", "WHAT", "AGENT", "TOOL", "ENDS", "USES", "BY", "ARGS"}}
	for _, g := range page.Items {
		rows = append(rows, []string{g.ID, client.ShortID(g.ID), grantKind(g), g.Agent, g.Target(), grantEnd(g, now),
			grantUses(g), cmp.Or(g.Who, g.MadeBy), grantArgs(g)})
	}
	s.table(rows...)
	return nil
}

// grantKind is what a grant is called.
func grantKind(g client.Grant) string {
	if g.Decision == client.Deny {
		return "standing denial"
	}
	return "grant"
}

// grantEnd says until when a grant holds, or why it does not.
func grantEnd(g client.Grant, now time.Time) string {
	switch {
	case !g.EndedAt.IsZero():
		return fmt.Sprintf("%s %s", strings.ReplaceAll(g.EndCode, "_", " "), away(g.EndedAt.Sub(now)))
	case !g.SuspendedAt.IsZero():
		return "suspended: its last outcome is not known"
	case g.SessionID != "":
		return away(g.ExpiresAt.Sub(now)) + ", session " + g.SessionID
	}
	return away(g.ExpiresAt.Sub(now))
}

// grantUses says how often a grant was used, of how often it may be.
func grantUses(g client.Grant) string {
	if g.Uses == 0 {
		return fmt.Sprint(g.Used)
	}
	return fmt.Sprintf("%d of %d", g.Used, g.Uses)
}

// grantArgs says with which arguments calls are covered.
func grantArgs(g client.Grant) string {
	if g.AnyArgs {
		return "any"
	}
	text := shorten(string(g.Args), 60)
	var vary []string
	for _, name := range slices.Sorted(maps.Keys(g.Vary)) {
		v, bounds := g.Vary[name], []string(nil)
		if v.AtMost != "" {
			bounds = append(bounds, "at most "+v.AtMost)
		}
		if v.Total != "" {
			bounds = append(bounds, fmt.Sprintf("%s of %s in all", cmp.Or(g.Spent[name], "0"), v.Total))
		}
		vary = append(vary, name+": "+cmp.Or(strings.Join(bounds, ", "), "any"))
	}
	if vary != nil {
		text += "; " + strings.Join(vary, "; ")
	}
	return text
}

type revokeCmd struct {
	remote
	output
	ID []string `arg:"" help:"The grants' ids, or at least the last four characters of each."`
}

func (*revokeCmd) Help() string {
	return `People are asked again about the calls that the grant covered. The person who made a grant can revoke it, and so can admins. It ends standing denials too, as countersign lift does.

Examples:

    countersign grants
    countersign revoke 9W1X3Y
    countersign revoke 9W1X3Y 4M2N4P`
}

func (c *revokeCmd) Run(ctx context.Context, s *std) error {
	return eachID(&c.remote, &c.output, s, c.ID, "grants", func(g *connection, id string) (client.Grant, string, error) {
		was, err := g.Revoke(ctx, id)
		if err != nil {
			return was, "", err
		}
		return was, fmt.Sprintf("Revoked: %s (%s of %s). The next call is asked about.", visible(was.ID),
			visible(was.Target()), visible(was.Agent)), nil
	})
}

type liftCmd struct {
	remote
	output
	ID []string `arg:"" help:"The ids of denied requests or of standing denials, or at least the last four characters of each."`
}

func (*liftCmd) Help() string {
	return `After a denial the same call is denied for a while without asking; a standing denial lasts as long as its maker said. lift ends that, so that a person is asked about the next such call. The person who denied can lift it, and so can admins.

Examples:

    countersign lift 9W1X3Y
    countersign lift 9W1X3Y 4M2N4P`
}

func (c *liftCmd) Run(ctx context.Context, s *std) error {
	return eachID(&c.remote, &c.output, s, c.ID, "lifted", func(g *connection, id string) (client.Lifted, string, error) {
		l, err := g.Lift(ctx, id)
		if err != nil {
			return l, "", err
		}
		return l, fmt.Sprintf("Lifted: the denial %s. The next call is asked about.", visible(l.ID)), nil
	})
}

// eachID does something with each of the ids, and prints what became of it: JSON, where that is asked for, of one by
// itself and of several as a list under a name. The first that was refused gives the exit code.
func eachID[T any](r *remote, out *output, s *std, ids []string, name string,
	do func(g *connection, id string) (T, string, error)) error {
	g, err := r.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	done := []T{}
	var failed *exitError
	for _, id := range ids {
		is, text, err := do(g, requestID(id))
		if err != nil {
			refused, _ := errors.AsType[*exitError](g.failure(err))
			if len(ids) == 1 {
				return refused
			}
			fmt.Fprintf(s.err, "countersign: %s: %s\n", visible(requestID(id)), visible(refused.message))
			failed = cmp.Or(failed, refused)
			continue
		}
		if done = append(done, is); !out.forPrograms() {
			s.printf("%s\n", text)
		}
	}
	switch {
	case out.forPrograms() && len(ids) == 1:
		err = out.print(s, done[0])
	case out.forPrograms():
		err = out.print(s, map[string]any{name: done})
	}
	if err == nil && failed != nil {
		return &exitError{failed.code, ""}
	}
	return err
}
