package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"countersign/client"
)

type pendingCmd struct {
	remote
	output
	times
	long
	Agent     string `placeholder:"NAME" help:"Only this agent's."`
	Tool      string `placeholder:"[SERVER/]TOOL" help:"Only this tool's."`
	RiskLevel string `placeholder:"LEVEL" help:"Only this risk: low, medium, high or critical."`
	Follow    bool   `help:"Keep running, and print each request when it comes, gets a vote or ends, until ctrl-c."`
}

func (*pendingCmd) Help() string {
	return `SHORT is the end of the id, which is enough to name a request. VOTES is how many approvals it has, of how many it needs.

Examples:

    countersign pending
    countersign pending --risk-level critical --json
    countersign pending --follow
    countersign pending --follow --json | while read -r request; do …; done`
}

func (c *pendingCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	if c.Follow {
		return c.follow(ctx, s, g)
	}
	page, err := c.list(ctx, g)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, list("approvals", page))
	}
	if len(page.Items) == 0 {
		s.printf("Nothing waits for a decision.\n")
		return nil
	}
	defer s.startPager()()
	now := s.now()
	rows := [][]string{{"RISK", "WILL HAPPEN", "AGENT", "TOOL", "EXPIRES", "VOTES", "SHORT", "ID"}}
	for _, a := range page.Items {
		rows = append(rows, []string{a.RiskLevel, willHappen(a), a.Agent, a.Target(), away(a.ExpiresAt.Sub(now)),
			cmp.Or(progress(a.Votes, a.Needs), "-"), client.ShortID(a.ID), a.ID})
	}
	s.table(rows...)
	var again []string
	for _, a := range page.Items {
		if mayHaveRun(a.Previous) {
			again = append(again, visible(a.ID))
		}
	}
	if len(again) > 0 {
		s.printf("\nCareful: the same call was sent before and may have run (countersign show ID): %s\n",
			strings.Join(again, ", "))
	}
	return nil
}

// willHappen says what a request is about in a sentence, or by its tool and arguments where the gate says nothing.
func willHappen(a client.Approval) string {
	return shorten(cmp.Or(a.Summary, a.Target()+" "+string(a.Args)), 80)
}

// list reads all that was asked for.
func (c *pendingCmd) list(ctx context.Context, g *connection) (client.Page[client.Approval], error) {
	return pages(0, func(after string, limit int) (client.Page[client.Approval], error) {
		return g.Approvals(ctx, client.ApprovalQuery{Status: "pending", Agent: c.Agent, Tool: c.Tool, RiskLevel: c.RiskLevel,
			After: after, Limit: limit})
	})
}

type showCmd struct {
	remote
	output
	times
	long
	ID string `arg:"" help:"The request's id, or at least its last four characters."`
}

func (*showCmd) Help() string {
	return `It prints all arguments as they were sent, with control and invisible characters as their code points.

Examples:

    countersign show 9W1X3Y
    countersign show 01K9ZQ3V5T8M2N4P6R7S9W1X3Y --json`
}

func (c *showCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	a, err := g.Approval(ctx, requestID(c.ID))
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, a)
	}
	defer s.startPager()()
	s.show(a, s.now())
	return nil
}

// show prints a request in full. The agent's own words come last, under a heading that says so.
func (s *std) show(a client.Approval, now time.Time) {
	rows := [][]string{
		{"Request", a.ID},
		{"Short id", client.ShortID(a.ID)},
		{"Status", state(a)},
		{"Tool", a.Target()},
		{"Risk", a.RiskLevel},
		{"Agent", a.Agent},
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	at := func(t time.Time) string { return s.clock(t, now) }
	addTime := func(name string, t client.Time) {
		if !t.IsZero() {
			add(name, s.timeText(t.Time, now))
		}
	}
	add("Will happen", a.Summary)
	add("Scope", a.Scope)
	add("Session", a.SessionID)
	add("Turn", a.TurnID)
	add("Why asked", english.Why(a.HumanMessage, a.Target(), at))
	add("Rule", a.Rule)
	add("Reason code", a.ReasonCode)
	addTime("Requested", a.RequestedAt)
	addTime("Expires", a.ExpiresAt)
	add("Needs", needsText(a.Needs))
	if a.StepUp != "" {
		add("Step up", a.StepUp+": it is approved on its page alone")
	}
	for _, v := range a.Votes {
		add("Vote", s.voteText(v, a.Needs, now))
	}
	add("Replaces", a.Replaces)
	add("Replaced by", a.ReplacedBy)
	addTime("Resolved", a.ResolvedAt)
	add("By", a.Who())
	add("Via", a.ResolvedVia)
	add("Reason", a.ResolveReason)
	addTime("Use by", a.UseBy)
	addTime("Used", a.ConsumedAt)
	addTime("Lapsed", a.LapsedAt)
	switch {
	case a.RunResult == client.RunUnknown:
		add("Outcome", "unknown: it was sent and no answer came; it may have run")
	case a.RunResult == "" && !a.DispatchedAt.IsZero():
		add("Outcome", "not known yet: it was sent, and nobody has said what came of it")
	default:
		add("Outcome", string(a.RunResult))
	}
	add("Args hash", a.ArgsHash)
	add("Policy", shortDigest(a.PolicyDigest))
	add("Before", s.before(a.Previous, now))
	add("Said before", saidText(a.Before, now))
	s.table(rows...)
	s.texts(a, now)
}

// texts prints what of a request does not fit into a row.
func (s *std) texts(a client.Approval, now time.Time) {
	if a.ArgsRemovedAt.IsZero() {
		s.printf("\nArguments\n%s\n", prettyArgs(a.Args))
	} else {
		s.printf("\nArguments (%d bytes) were removed %s.\n", a.ArgsBytes, s.clock(a.ArgsRemovedAt.Time, now))
	}
	if a.Rationale != "" {
		s.printf("\nWritten by the agent (not verified): why\n%s\n", visibleLines(a.Rationale))
	}
	if a.Preview != "" {
		by := "Written by the agent (not verified): what it would do"
		if a.PreviewFrom != "" {
			by = "Compared with what Countersign read through " + visible(a.PreviewFrom) + " just before asking"
		}
		s.printf("\n%s\n%s\n", by, visibleLines(a.Preview))
	}
	for i, in := range a.Inputs {
		if i == 0 {
			s.printf("\nTold to the server after the approval, which no approver saw\n")
		}
		question := in.Method
		if in.Message != "" {
			question += ": " + in.Message
		}
		s.printf("%s  %s\n  %s\n", s.timeText(in.At.Time, now), visible(question), visible(in.Answer))
	}
	if a.Message != "" {
		s.printf("\nThe agent was told\n%s\n", visibleLines(a.Message))
	}
}

// before says what is known of the last use of the same call. One that was sent and of which no outcome is
// known may have run: deciding again may run it twice.
func (s *std) before(u *client.Use, now time.Time) string {
	if u == nil {
		return ""
	}
	at := func(t client.Time) string { return s.clock(t.Time, now) }
	text := fmt.Sprintf("the same call was approved by %s %s and used %s", u.ApprovedBy, at(u.ApprovedAt),
		at(u.ConsumedAt))
	switch {
	case mayHaveRun(u):
		return text + "; it was sent and may have run"
	case u.DispatchedAt.IsZero():
		return text
	}
	return text + "; it " + string(u.RunResult)
}

// saidText is what a person last said of the same tool.
func saidText(b *client.Said, now time.Time) string {
	if b == nil {
		return ""
	}
	word := "denied"
	if b.Approved {
		word = "approved"
	}
	text := fmt.Sprintf("%s by %s, %s, request %s", word, b.By, away(b.At.Sub(now)), b.RequestID)
	if b.Reason != "" {
		text += ": " + b.Reason
	}
	return text
}

// mayHaveRun reports whether the same call was sent before and no outcome of it is known.
func mayHaveRun(u *client.Use) bool {
	return u != nil && !u.DispatchedAt.IsZero() && u.RunResult != client.RunSucceeded && u.RunResult != client.RunFailed
}

// state is a request's status as people mean it.
func state(a client.Approval) string {
	switch {
	case !a.LapsedAt.IsZero():
		return "approved, but not used in time"
	case !a.ConsumedAt.IsZero():
		return "approved and used"
	case a.Status == "approved":
		return "approved, not used yet"
	}
	return a.Status
}

type cancelCmd struct {
	remote
	output
	ID string `arg:"" help:"The request's id, or at least its last four characters."`
}

func (*cancelCmd) Help() string {
	return `An agent may cancel its own requests, a person what they approved, an admin any. An approval that has been used cannot be taken back.

Examples:

    countersign cancel 9W1X3Y`
}

func (c *cancelCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	a, err := g.Cancel(ctx, requestID(c.ID), "")
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, a)
	}
	s.printf("Cancelled: %s (%s). It will not run.\n", visible(a.ID), visible(a.Target()))
	return nil
}

type versionCmd struct {
	output
}

func (*versionCmd) Help() string {
	return `Examples:

    countersign version
    countersign version --json`
}

func (c *versionCmd) Run(s *std) error {
	v := version()
	if c.forPrograms() {
		return c.print(s, v)
	}
	text := "countersign " + v.Version
	if v.Revision != "" {
		text += " (" + v.Revision + ")"
	}
	fmt.Fprintf(s.out, "%s %s\n", text, v.Go)
	return nil
}
