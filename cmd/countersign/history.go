package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"countersign/client"
)

type policyCmd struct {
	Show policyShowCmd `cmd:"" help:"Print the text of a policy that decided past requests."`
}

func (*policyCmd) Help() string {
	return `countersign show ID prints the digest of the policy that decided a request.

Examples:

    countersign policy show 8dae8c9d`
}

type policyShowCmd struct {
	remote
	output
	long
	Digest string `arg:"" help:"The policy's digest, as show prints it with a request; the first 8 characters are enough."`
}

func (*policyShowCmd) Help() string {
	return `The gate keeps the text of every policy that it has used, without secrets; show ID prints which one decided a request. Approvers and admins may read it.

Examples:

    countersign show 9W1X3Y
    countersign policy show 4f0c2a91bd7e`
}

func (c *policyShowCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	p, err := g.Policy(ctx, c.Digest)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, p)
	}
	defer s.startPager()()
	s.printf("%s", visibleLines(p.Text))
	return nil
}

// period is the flag of the commands that look back.
type period struct {
	Since string `default:"30d" placeholder:"30d" help:"The start: 2026-11-01T09:30:00Z, 2026-11-01 (both UTC) or how long ago, such as 24h or 30d."`
}

func (p *period) since(now time.Time) (time.Time, error) {
	t, err := ago(p.Since, now)
	if err != nil {
		return t, usagef("--since: %s", err)
	}
	return t, nil
}

type statsCmd struct {
	remote
	output
	times
	long
	period
	Until string `placeholder:"TIME" help:"The end (not included), in the same forms. Default: now."`
	Agent string `placeholder:"NAME" help:"Only this agent's."`
}

func (*statsCmd) Help() string {
	return `PER 100 is the figure before it for each 100 calls that needed a person: those that a person was asked about, and those that a grant covered. A tap that decides everything on a card is one decision. In the table of people, ASKED is how many requests a person decided. A rule without a name is called by its place and the start of its digest, as rule 3 (9f2c1a): at another time another rule may have been the third.

All of the time is counted, which may take a minute if the record is long.

Examples:

    countersign stats
    countersign stats --since 7d --agent treasury-bot
    countersign stats --since 2026-11-01 --until 2026-12-01 --json`
}

func (c *statsCmd) Run(ctx context.Context, s *std) error {
	q, now := client.StatsQuery{Agent: c.Agent, Whole: true}, s.now()
	var err error
	if q.Since, err = c.since(now); err != nil {
		return err
	}
	if c.Until != "" {
		if q.Until, err = ago(c.Until, now); err != nil {
			return usagef("--until: %s", err)
		}
	}
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.doing("counting")
	stats, err := g.Stats(ctx, q)
	s.clear()
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, stats)
	}
	defer s.startPager()()
	s.stats(stats)
	return nil
}

// doing tells a person who looks on what takes its time.
func (s *std) doing(format string, args ...any) {
	if isTerminal(s.err) {
		fmt.Fprintf(s.err, "\r\x1b[K"+format+" …", args...)
	}
}

// done takes away what doing has written.
func (s *std) done() {
	if isTerminal(s.err) {
		fmt.Fprint(s.err, "\r\x1b[K")
	}
}

func (s *std) stats(x client.Stats) {
	now := s.now()
	s.printf("From %s to %s\n", s.clock(x.Since.Time, now), s.clock(x.Until.Time, now))
	if !x.KnownSince.IsZero() {
		s.printf("Older requests or messages are not kept. The figures are complete from %s on.\n",
			s.clock(x.KnownSince.Time, now))
	}
	s.printf("\n")
	if x.Total.Quarantined == 0 && x.Total.Pushes == 0 {
		s.printf("No call needed a person.\n")
		return
	}
	total := x.Total
	total.Name = "all"
	parts := []struct {
		head string
		rows []client.Figures
	}{
		{"", []client.Figures{total}}, {"TOOL", x.ByTool}, {"RULE", x.ByRule}, {"AGENT", x.ByAgent}, {"PERSON", x.ByPerson},
	}
	var rows [][]string
	for i, part := range parts {
		if i > 0 {
			rows = append(rows, []string{""})
		}
		rows = append(rows, []string{part.head, "ASKED", "APPROVED", "DENIED", "EXPIRED", "CANCELLED", "PENDING", "GRANTED",
			"PUSHES", "PER 100", "DECISIONS", "PER 100", "P50", "P90"})
		for _, f := range part.rows {
			rows = append(rows, figuresRow(f))
		}
	}
	s.table(rows...)
}

func figuresRow(f client.Figures) []string {
	name := f.Name
	if name == "" {
		name = "(no rule)"
	}
	row := []string{shorten(name, 60)}
	for _, n := range []int{f.Asked, f.Approved, f.Denied, f.Expired, f.Cancelled, f.Pending, f.Granted, f.Pushes} {
		row = append(row, strconv.Itoa(n))
	}
	return append(row, per100(f.PushesPer100, f), strconv.Itoa(f.Decisions), per100(f.DecisionsPer100, f),
		took(f.DecideP50, f), took(f.DecideP90, f))
}

func per100(n float64, f client.Figures) string {
	if f.Quarantined == 0 {
		return "-"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// took is how long people took, where they decided anything.
func took(ms int64, f client.Figures) string {
	switch d := time.Duration(ms) * time.Millisecond; {
	case f.Approved+f.Denied == 0:
		return "-"
	default:
		return span(d.Round(time.Second))
	}
}

// shortDigest is as much of a policy's digest as is shown.
func shortDigest(digest string) string { return digest[:min(12, len(digest))] }
