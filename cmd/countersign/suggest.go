package main

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"countersign/approval"
	"countersign/internal/history"
)

type suggestCmd struct {
	remote
	output
	long
	period
}

func (*suggestCmd) Help() string {
	return `It proposes a rule where people were asked at least five times, and approved without a single denial or expiry. It allows only arguments that were the same every time; where they varied, people are still asked, and may approve for longer. It proposes nothing for critical risk, and marks what is for high risk.

It also lists the tools that no rule was for, which people were asked about at high risk, each with a rule that asks as now: say there what you want of the tool.

A proposal is evidence, not advice: read it, put it before the rule that asks and after all rules that deny, and try the changed file with countersign replay.

Examples:

    countersign suggest
    countersign suggest --since 7d
    countersign suggest --json`
}

func (c *suggestCmd) Run(ctx context.Context, s *std) error {
	since, err := c.since(s.now())
	if err != nil {
		return err
	}
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := reading{g: g, s: s, since: since}
	known, err := r.knownSince(ctx)
	if err != nil {
		return g.failure(err)
	}
	found, err := history.Suggest(ctx, r.requests(ctx))
	s.clear()
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, withKnown(suggestJSON(found, since), known))
	}
	defer s.startPager()()
	s.printKnown(known)
	s.printSuggestions(found)
	return nil
}

func (s *std) printSuggestions(found history.Suggested) {
	defer s.unknownTools(found.Unknown)
	switch {
	case found.Calls == 0 && len(found.Unknown) > 0: // which wait
		return
	case found.Calls == 0:
		s.printf("There is nothing to learn from yet: people decided nothing in this time.\n")
		return
	case len(found.Suggestions) == 0:
		s.printf("No rule to suggest out of %s that people were asked about: it takes five that were all approved, and "+
			"would have to spare a push.\n", count(found.Calls, "call", "calls"))
	default:
		s.printf("Out of %s that people were asked about:\n", count(found.Calls, "call", "calls"))
	}
	for i, x := range found.Suggestions {
		s.suggestion(i+1, x)
	}
	if len(found.Critical) > 0 {
		s.printf("\nAll approved, and of critical risk, so that nothing is suggested: %s\n",
			visible(strings.Join(found.Critical, ", ")))
	}
}

// unknownTools are the tools that no rule is for, each with a rule that asks as now.
func (s *std) unknownTools(all []history.UnknownTool) {
	if len(all) == 0 {
		return
	}
	s.printf("\nTools that no rule was for, so that people were asked at high risk:\n\n")
	at := s.now()
	rows := [][]string{{"CALLS", "TOOL", "AGENTS", "LAST"}}
	for _, u := range all[:min(len(all), maxCounts)] {
		rows = append(rows, []string{strconv.Itoa(u.Calls), u.Tool, shorten(strings.Join(u.Agents, ", "), 60),
			s.clock(u.Last, at)})
	}
	s.table(rows...)
	if more := len(all) - maxCounts; more > 0 {
		s.printf("and %d more; --json has all\n", more)
	}
	s.printf("\nA rule for each, which asks as now. Say what you want of it, and put it after all that deny:\n\n")
	for _, u := range all[:min(len(all), maxCounts)] {
		for line := range strings.Lines(u.YAML) {
			s.printf("    %s\n", visible(strings.TrimSuffix(line, "\n")))
		}
	}
}

func (s *std) suggestion(number int, x history.Suggestion) {
	s.printf("\n%d. %s: %d asked, %d approved, %d denied; %s fewer\n", number,
		visible(strings.TrimSpace(x.Tool+" "+x.Where)), x.Asked, x.Approved, x.Denied, count(x.Fewer, "push", "pushes"))
	s.printf("   %s\n", visible(x.Effect))
	if x.Caution != "" {
		s.printf("   CAUTION, risk %s: %s\n", x.Risk, visible(x.Caution))
	}
	s.printf("   Put it right before %s, after all that deny, and carry over what else is said there.\n\n",
		nameAskingRules(x.Rules))
	for _, line := range strings.Split(strings.TrimSuffix(x.YAML, "\n"), "\n") {
		s.printf("    %s\n", visible(line))
	}
}

// nameAskingRules names the rules that ask today.
func nameAskingRules(rules []string) string {
	named := make([]string, 0, len(rules))
	for _, r := range rules {
		if r != "" {
			named = append(named, strconv.Quote(visible(r)))
		}
	}
	if len(named) == 0 {
		return "the first rule that allows or asks"
	}
	return "the first of the rules that ask today (" + strings.Join(named, ", ") + ")"
}

// suggestJSON is what was found, for programs.
func suggestJSON(found history.Suggested, since time.Time) map[string]any {
	all := []map[string]any{}
	for _, x := range found.Suggestions {
		all = append(all, map[string]any{"tool": x.Tool, "where": x.Where, "agents": x.Agents, "risk_level": x.Risk,
			"asked": x.Asked, "approved": x.Approved, "denied": x.Denied, "expired": x.Expired, "pushes_fewer": x.Fewer,
			"asked_by": x.Rules, "effect": x.Effect, "caution": x.Caution, "yaml": x.YAML})
	}
	critical := found.Critical
	if critical == nil {
		critical = []string{}
	}
	unknown := []map[string]any{}
	for _, u := range found.Unknown {
		unknown = append(unknown, map[string]any{"tool": u.Tool, "agents": u.Agents, "calls": u.Calls,
			"last": approval.FormatTime(u.Last), "yaml": u.YAML})
	}
	return map[string]any{"since": approval.FormatTime(since), "calls": found.Calls, "suggestions": all,
		"critical": critical, "unknown_tools": unknown}
}
