package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"countersign/client"
)

type freezeCmd struct {
	remote
	output
	Agent  string `placeholder:"NAME" help:"Only this agent; all of them if not given."`
	Reason string `required:"" placeholder:"TEXT" help:"The reason; agents and people see it."`
}

func (*freezeCmd) Help() string {
	return `Every call of the agent, or of all agents, is denied from now on. Waiting requests and unused approvals are cancelled. The freeze lasts until an admin lifts it: countersign unfreeze. Approvers and admins may freeze.

Examples:

    countersign freeze --reason "looking into a leak"
    countersign freeze --agent treasury-bot --reason "it repeats itself"`
}

func (c *freezeCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	f, err := g.Freeze(ctx, c.Agent, c.Reason)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, f)
	}
	s.printf("Frozen: %s. Nothing of it runs until an admin lifts it: %s\n", whoIsFrozen(f), lifting(f))
	return nil
}

func whoIsFrozen(f client.Freeze) string { return cmp.Or(visible(f.Agent), "all agents") }

// lifting is the command that lifts a freeze.
func lifting(f client.Freeze) string {
	if f.Agent == "" {
		return "countersign unfreeze"
	}
	return "countersign unfreeze --agent " + visible(f.Agent)
}

type unfreezeCmd struct {
	remote
	output
	Agent string `placeholder:"NAME" help:"The agent. Without it, the freeze of all agents is lifted, and freezes of single agents stay."`
}

func (*unfreezeCmd) Help() string {
	return `Only admins can. Requests that the freeze cancelled stay cancelled: agents must ask again.

Examples:

    countersign unfreeze
    countersign unfreeze --agent treasury-bot`
}

func (c *unfreezeCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	f, err := g.Unfreeze(ctx, c.Agent)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, f)
	}
	s.printf("Lifted: the freeze of %s. What it ended stays ended.\n", whoIsFrozen(f))
	return nil
}

type clockCmd struct {
	Accept clockAcceptCmd `cmd:"" help:"Say that the clock of the gate's machine is right, after it was set (admins)."`
}

type clockAcceptCmd struct {
	remote
	output
}

func (*clockAcceptCmd) Help() string {
	return `When the clock of the gate's machine was set, /readyz says so. A jump ahead counts after five minutes; this command makes it count at once. A clock that was set back leaves the store's time ahead; after this command /readyz does not name that difference again. Waiting requests, unused approvals and grants are cancelled. Only admins can.

Examples:

    countersign clock accept`
}

func (c *clockAcceptCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	off, err := g.AcceptClock(ctx)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, map[string]any{"off_ms": off.Milliseconds()})
	}
	what := "it had jumped " + off.Round(time.Second).String() + " ahead, and the store's time has followed"
	if off < 0 {
		what = "the store's time is " + (-off).Round(time.Second).String() + " ahead of it, and comes closer by 1 s in 100"
	}
	s.printf("The clock is accepted: %s. What waited, and approvals not used yet, are cancelled: agents must ask again.\n",
		what)
	return nil
}

type frozenCmd struct {
	remote
	output
	times
	long
}

func (*frozenCmd) Help() string {
	return `Examples:

    countersign frozen`
}

func (c *frozenCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	fs, err := g.Frozen(ctx)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, map[string]any{"frozen": append([]client.Freeze{}, fs...)})
	}
	if len(fs) == 0 {
		s.printf("Nothing is frozen.\n")
		return nil
	}
	defer s.startPager()()
	now := s.now()
	rows := [][]string{{"AGENT", "SINCE", "BY", "REASON"}}
	for _, f := range fs {
		rows = append(rows, []string{cmp.Or(f.Agent, "all agents"), s.timeText(f.FrozenAt.Time, now), f.FrozenBy, f.Reason})
	}
	s.table(rows...)
	return nil
}

type delegateCmd struct {
	remote
	output
	times
	To    string `required:"" placeholder:"NAME" help:"Who votes: a person with the role approver."`
	Until string `required:"" placeholder:"TIME" help:"Until when, at most 30 days: 2026-12-01T09:00+09:00, 2026-12-01 (UTC), or how long, such as 8h or 3d."`
	From  string `placeholder:"TIME" help:"From when; now if not given."`
	Rule  string `placeholder:"NAME" help:"Only requests of this rule."`
	For   string `placeholder:"NAME" help:"For whom, if not for you; admins may."`
}

func (*delegateCmd) Help() string {
	return `The delegate gets your cards and votes in your place; the record says that they decided for you. Whichever of you votes first counts for both. Either of you, and any admin, can end it: countersign undelegate.

Examples:

    countersign delegate --to ken --until 3d
    countersign delegate --to ken --from 2026-11-28 --until 2026-12-01T09:00+09:00
    countersign delegate --to ken --until 8h --rule payments
    countersign delegate --to ken --until 3d --for hana`
}

func (c *delegateCmd) Run(ctx context.Context, s *std) error {
	now := s.now()
	d := client.Delegation{To: c.To, Rule: c.Rule, For: c.For}
	until, err := ahead(c.Until, now)
	if err != nil {
		return usagef("--until: %s", err)
	}
	d.Until = client.Time{Time: until}
	if c.From != "" {
		from, err := ahead(c.From, now)
		if err != nil {
			return usagef("--from: %s", err)
		}
		d.From = client.Time{Time: from}
	}
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	made, err := g.Delegate(ctx, d)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, made)
	}
	s.printf("Delegated: %s stands in for %s until %s. countersign undelegate %s ends it before.\n", visible(made.To),
		visible(made.For), s.timeText(made.Until.Time, now), visible(client.ShortID(made.ID)))
	return nil
}

// ahead reads a point in time to come: RFC 3339, a day, or how long until then.
func ahead(text string, now time.Time) (time.Time, error) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	if n, ok := inDays(text); ok {
		return now.AddDate(0, 0, n), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2026-12-01T09:00+09:00, 2026-12-01 (UTC) or how long, such "+
		"as 8h or 3d", text)
}

type delegationsCmd struct {
	remote
	output
	times
	long
}

func (*delegationsCmd) Help() string {
	return `It lists the delegations of now and those that begin later.

Examples:

    countersign delegations`
}

func (c *delegationsCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	ds, err := g.Delegations(ctx)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, map[string]any{"delegations": append([]client.Delegation{}, ds...)})
	}
	if len(ds) == 0 {
		s.printf("Nobody is standing in for anyone.\n")
		return nil
	}
	defer s.startPager()()
	now := s.now()
	rows := [][]string{{"ID", "SHORT", "WHO", "FOR", "FROM", "UNTIL", "RULE"}}
	for _, d := range ds {
		rule := cmp.Or(d.Rule, "all")
		if d.RuleGone {
			rule += " (changed or removed: covers nothing)"
		}
		rows = append(rows, []string{d.ID, client.ShortID(d.ID), d.To, d.For, s.timeText(d.From.Time, now),
			s.timeText(d.Until.Time, now), rule})
	}
	s.table(rows...)
	return nil
}

type undelegateCmd struct {
	remote
	output
	ID string `arg:"" help:"The delegation's id, or at least its last four characters."`
}

func (*undelegateCmd) Help() string {
	return `The delegate, the person who is represented, and any admin can end it.

Examples:

    countersign delegations
    countersign undelegate 9W1X3Y`
}

func (c *undelegateCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	d, err := g.EndDelegation(ctx, requestID(c.ID))
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, d)
	}
	s.printf("Ended: %s no longer stands in for %s.\n", visible(d.To), visible(d.For))
	return nil
}
