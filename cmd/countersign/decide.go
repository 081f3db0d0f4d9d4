package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/terminal/inbox"
)

// decideFlags are what approve and deny share.
type decideFlags struct {
	remote
	output
	times
	ID     []string `arg:"" help:"The requests' ids, or at least the last six characters of each."`
	Reason string   `placeholder:"TEXT" help:"The reason; the agent sees it, and some requests need one."`
}

// longFlags are how a decision is given for longer.
type longFlags struct {
	For     *duration `placeholder:"8h" help:"Let it last this long, at most 24h: nobody is asked about the same call until then."`
	Session bool      `help:"Let it cover calls of the same session only; without --for, for 24h."`
}

// option is what the flags ask for; nil: nothing. uses is for how many calls, 0 for any number.
func (f *longFlags) option(uses int) (client.DecideOption, error) {
	t := client.GrantTerms{Uses: uses, Session: f.Session}
	if f.For != nil {
		if t.For = time.Duration(*f.For); t.For <= 0 {
			return nil, usagef("--for must be longer than that, such as 8h or 30m")
		}
	}
	if t == (client.GrantTerms{}) {
		return nil, nil
	}
	return client.GrantFor(t), nil
}

type approveCmd struct {
	decideFlags
	longFlags
	Uses *int   `placeholder:"N" help:"Let it cover N more calls."`
	Yes  bool   `help:"Confirm in advance, where a rule asks you to confirm an approval."`
	Args string `placeholder:"JSON|@FILE|-" help:"Approve these arguments, a JSON object, instead of the agent's; @FILE reads a file, - reads standard input."`
}

func (*approveCmd) Help() string {
	return `The agent may then run exactly this call, once. Look at it first: countersign show ID. Where a request needs several people, yours is one vote.

With --args the request ends, and a request with these arguments takes its place: the rules are applied to them again, and yours is the first vote. An agent that accepts edits runs them; any other is told what to ask for instead.

With --for, --uses or --session, where the rule permits it, you also make a grant: the same call then runs without asking, for as long or as often as you say. countersign grants lists grants, countersign revoke ID ends one.

Examples:

    countersign approve 9W1X3Y
    countersign approve 9W1X3Y --for 8h
    countersign approve 9W1X3Y --for 8h --uses 20
    countersign approve 9W1X3Y --session
    countersign approve 9W1X3Y 4M2N4P --reason "agreed with finance"
    countersign approve 9W1X3Y --yes
    countersign approve 9W1X3Y --args @smaller.json --reason "half of it will do"`
}

func (c *approveCmd) Run(ctx context.Context, s *std) error {
	var opts []client.DecideOption
	if c.Yes {
		opts = append(opts, client.Confirmed())
	}
	uses := 0
	if c.Uses != nil {
		if uses = *c.Uses; uses < 1 {
			return usagef("--uses must be 1 or more")
		}
	}
	longer, err := c.option(uses)
	if err != nil {
		return err
	}
	if longer != nil {
		opts = append(opts, longer)
	}
	if c.Args == "" {
		return c.decide(ctx, s, client.Approve, opts)
	}
	if len(c.ID) > 1 {
		return usagef("--args is for one request at a time")
	}
	edited, err := readArgs(s, c.Args)
	if err != nil {
		return err
	}
	if isTerminal(s.err) || isTerminalIn(s.in) {
		if err := c.showChange(ctx, s, edited); err != nil {
			return err
		}
	}
	return c.decide(ctx, s, client.Approve, append(opts, client.WithArgs(edited)))
}

// showChange says what is about to be approved that was not asked for.
func (c *approveCmd) showChange(ctx context.Context, s *std, edited json.RawMessage) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	a, err := g.Approval(ctx, requestID(c.ID[0]))
	if err != nil {
		return g.failure(err)
	}
	fmt.Fprintf(s.err, "%s of %s, changed:\n", visible(a.Target()), visible(a.Agent))
	lines := inbox.ArgChanges(a.Args, edited)
	if lines == nil {
		lines = []string{"nothing"}
	}
	for _, line := range lines {
		fmt.Fprintf(s.err, "  %s\n", visible(line))
	}
	return nil
}

type denyCmd struct {
	decideFlags
	longFlags
}

func (*denyCmd) Help() string {
	return `The agent is told who denied it and why, and not to repeat it. Where a request needs several people, one denial is enough.

With --for or --session it is a standing denial: the same call is denied without asking until then. countersign lift ID ends it earlier.

Examples:

    countersign deny 9W1X3Y --reason "wrong account"
    countersign deny 9W1X3Y 4M2N4P
    countersign deny 9W1X3Y --for 8h`
}

func (c *denyCmd) Run(ctx context.Context, s *std) error {
	longer, err := c.option(0)
	if err != nil {
		return err
	}
	var opts []client.DecideOption
	if longer != nil {
		opts = append(opts, longer)
	}
	return c.decide(ctx, s, client.Deny, opts)
}

// decide carries out a decision on one request, or on several.
func (c *decideFlags) decide(ctx context.Context, s *std, v client.Verdict, opts []client.DecideOption) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	if len(c.ID) == 1 {
		d, err := c.one(ctx, s, g, c.ID[0], v, opts)
		switch {
		case err != nil:
			return err
		case c.forPrograms():
			return c.print(s, d)
		}
		s.printf("%s\n%s", s.decidedText(d, v), g.whatWas(ctx, d.ID))
		return nil
	}
	return c.many(ctx, s, g, v, opts)
}

// one decides one request. Where a rule wants to be told twice, the person at the terminal is asked.
func (c *decideFlags) one(ctx context.Context, s *std, g *connection, id string, v client.Verdict,
	opts []client.DecideOption) (client.Decided, error) {
	d, err := g.Decide(ctx, requestID(id), v, c.Reason, opts...)
	if client.CodeOf(err) == "confirm_required" && isTerminalIn(s.in) {
		e, _ := errors.AsType[*client.Error](err)
		fmt.Fprintf(s.err, "%s Approve? [y/N] ", visible(e.Detail))
		if !yes(s) {
			return d, &exitError{exitDenied, "nothing was decided"}
		}
		d, err = g.Decide(ctx, requestID(id), v, c.Reason, append(slices.Clip(opts), client.Confirmed())...)
	}
	if err != nil {
		return d, g.failure(err)
	}
	return d, nil
}

// yes reads a line and reports whether it is a yes.
func yes(s *std) bool {
	line, _ := bufio.NewReader(s.in).ReadString('\n')
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "y" || word == "yes"
}

// many decides several requests at once, and prints what became of each. The first that was refused gives the code.
func (c *decideFlags) many(ctx context.Context, s *std, g *connection, v client.Verdict,
	opts []client.DecideOption) error {
	ids := make([]string, len(c.ID))
	for i, id := range c.ID {
		ids[i] = requestID(id)
	}
	results, err := g.DecideMany(ctx, ids, v, c.Reason, opts...)
	if err != nil {
		return g.failure(err)
	}
	var failed *exitError
	for i, r := range results {
		if client.CodeOf(asError(r.Err)) == "confirm_required" && isTerminalIn(s.in) {
			d, err := c.one(ctx, s, g, ids[i], v, opts)
			if refused, ok := errors.AsType[*exitError](err); ok {
				results[i].Err, failed = &client.Error{Detail: refused.message}, cmp.Or(failed, refused)
			} else {
				results[i] = client.DecideResult{Decided: d}
			}
		} else if r.Err != nil {
			refused, _ := errors.AsType[*exitError](g.failure(r.Err))
			results[i].Err = &client.Error{Detail: refused.message, Code: r.Err.Code}
			failed = cmp.Or(failed, refused)
		}
	}
	if err := c.printMany(ctx, s, g, ids, results, v); err != nil {
		return err
	}
	if failed != nil {
		return &exitError{failed.code, ""}
	}
	return nil
}

func asError(e *client.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func (c *decideFlags) printMany(ctx context.Context, s *std, g *connection, ids []string,
	results []client.DecideResult, v client.Verdict) error {
	if c.forPrograms() {
		return c.print(s, map[string]any{"results": results})
	}
	for i, r := range results {
		if r.Err != nil {
			fmt.Fprintf(s.err, "countersign: %s: %s\n", visible(ids[i]), visible(r.Err.Detail))
			continue
		}
		text := s.decidedText(r.Decided, v)
		if r.Status == "pending" {
			text = visible(r.ID) + ": " + text
		}
		s.printf("%s\n%s", text, g.whatWas(ctx, r.ID))
	}
	return nil
}

// whatWas is a line that says what was decided on: what will happen, by which tool, and who asked. It is "" where the
// gate does not say: the decision stands without it.
func (g *connection) whatWas(ctx context.Context, id string) string {
	a, err := g.Approval(ctx, id)
	if err != nil || a.ID != id {
		return ""
	}
	return fmt.Sprintf("  %s (%s of %s)\n", visible(willHappen(a)), visible(a.Target()), visible(a.Agent))
}

// decidedText says what a decision came to.
func (s *std) decidedText(d client.Decided, v client.Verdict) string {
	id := visible(d.ID)
	if d.Replaces != "" {
		id += ", in place of " + visible(d.Replaces)
	}
	switch {
	case d.Status == "approved":
		return fmt.Sprintf("Approved: %s, by %s. The agent may run it once.", id, visible(d.ApprovedBy)) +
			s.longerText(d.Grant)
	case d.Status == "pending" && v == client.Approve:
		text := "Your approval counts: " + cmp.Or(progress(d.Votes, d.Needs), "more are needed") + "."
		if d.Replaces != "" {
			text += " It is for " + id + "."
		}
		return text
	}
	return fmt.Sprintf("Denied: %s, by %s.", id, visible(d.DeniedBy)) + s.longerText(d.Grant)
}

// progress says how many approvals there are, of how many; "" where one will do.
func progress(votes []client.Vote, needs []client.Stage) string {
	have, need := client.Progress(votes, needs)
	if need < 2 {
		return ""
	}
	return fmt.Sprintf("%d of %d", have, need)
}

// needsText says who must say yes, stage by stage; "" where any one approver will do.
func needsText(needs []client.Stage) string {
	var stages []string
	for _, n := range needs {
		who := cmp.Or(n.Group, strings.Join(n.Approvers, ", "))
		switch {
		case who != "":
			stages = append(stages, fmt.Sprintf("%d of %s", n.Count, who))
		case n.Count > 1 || len(needs) > 1:
			stages = append(stages, count(n.Count, "approver", "approvers"))
		}
	}
	return strings.Join(stages, ", then ")
}

// voteText is one vote on one line.
func (s *std) voteText(v client.Vote, needs []client.Stage, now time.Time) string {
	text := v.Person
	if v.For != "" {
		text += " for " + v.For
	}
	word := " denied"
	if v.Decision == client.Approve {
		word = " approved"
	}
	text += word + ", " + s.clock(v.At.Time, now) + ", " + v.Via
	if v.StepUp != "" {
		text += ", with a " + v.StepUp
	}
	if len(needs) > 1 {
		text += fmt.Sprintf(", stage %d", v.Stage)
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

type extendCmd struct {
	remote
	output
	times
	ID string `arg:"" help:"The request's id, or at least its last four characters."`
}

func (*extendCmd) Help() string {
	return `A request can be extended once, by anybody who may vote on it and by admins.

Examples:

    countersign extend 9W1X3Y`
}

func (c *extendCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	a, err := g.Extend(ctx, requestID(c.ID))
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, a)
	}
	s.printf("Extended: %s (%s) now expires %s.\n", visible(a.ID), visible(a.Target()),
		s.timeText(a.ExpiresAt.Time, s.now()))
	return nil
}
