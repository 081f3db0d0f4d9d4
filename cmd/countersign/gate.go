package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"countersign/approval"
	"countersign/internal/agents/localgate"
	"countersign/internal/config"
	"countersign/internal/setup"

	"github.com/rivo/uniseg"
)

// file are the flags that name the configuration and where its variables are.
type file struct {
	Config  string `default:"countersign.yaml" placeholder:"FILE" help:"The configuration file. Default: countersign.yaml."`
	EnvFile string `placeholder:"FILE" help:"The file with its variables, one NAME=value per line. Default: the file beside it that ends in .env, if there is one. A variable in the environment wins."`
}

// load reads and checks the configuration, as serve does before all else, and prints the problems.
func (f *file) load(s *std) (*config.Config, []config.Problem, error) {
	env, err := f.env(s)
	if err != nil {
		return nil, nil, err
	}
	return f.loadWith(s, env)
}

// files are the gate's own that the configuration does not name.
func (f *file) files(s *std) []string {
	var files []string
	if f.EnvFile != "" {
		files = append(files, f.EnvFile)
	}
	if mine, err := localgate.Find(s.env); err == nil {
		files = append(files, mine.Socket)
	}
	return files
}

// loadWith is load with the variables from env, and with further files of the gate's own.
func (f *file) loadWith(s *std, env func(string) (string, bool),
	also ...string) (*config.Config, []config.Problem, error) {
	cfg, problems, err := config.Load(f.Config, env, append(f.files(s), also...)...)
	for _, p := range problems {
		fmt.Fprintln(s.err, visible(p.String()))
		fmt.Fprint(s.err, pointAt(p))
	}
	if err == nil {
		return cfg, problems, nil
	}
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		missing := ""
		if len(invalid.Missing) > 0 {
			missing = "; write the missing values into " + cmp.Or(f.EnvFile, envPath(f.Config))
		}
		return nil, problems, usagef("%s cannot be used: %s%s", f.Config,
			count(len(invalid.Problems), "problem", "problems"), missing)
	}
	return nil, nil, f.unread(s, err)
}

// unread says why a configuration could not be read, and what to do.
func (f *file) unread(s *std, err error) error {
	if errors.Is(err, fs.ErrNotExist) && f.Config == defaultConfig {
		also := ""
		if mine, err := localgate.Find(s.env); err == nil && mine.IsConfigured() {
			also = "; that of your own gate is " + mine.Config
		}
		return usagef("there is no %s here: `countersign init` writes one, --config names another file%s", defaultConfig,
			also)
	}
	return usagef("%s; --config names the file", err)
}

// maxBeside is how much of a long expression is shown on either side of the place that is meant.
const maxBeside = 60

// pointAt returns the expression of a problem with a caret under the place, "" where it has none.
func pointAt(p config.Problem) string {
	line := []rune(p.Source)
	if len(line) == 0 || p.Caret < 0 || p.Caret > len(line) {
		return ""
	}
	before, after := line[:p.Caret], line[p.Caret:]
	lead, end := "", ""
	if more := len(before) - maxBeside; more > 0 {
		before, lead = before[more:], "…"
	}
	if len(after) > maxBeside {
		after, end = after[:maxBeside], "…"
	}
	shown := lead + visible(strings.TrimLeft(string(before), " \t"))
	return fmt.Sprintf("    %s%s%s\n    %s^\n", shown, visible(string(after)), end,
		strings.Repeat(" ", uniseg.StringWidth(shown)))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

type checkCmd struct {
	file
	output
	Online bool `help:"Ask the platforms too: tokens, scopes, channels, webhook addresses, friends, quota. Nothing is sent to anybody."`
}

func (*checkCmd) Help() string {
	return `It checks everything that serve checks before it starts, and opens and calls nothing. With --online it also asks LINE and Slack what the file cannot show. Do that while the gate is running: LINE then tests whether it reaches the webhook. Exit code: 0 the configuration is valid, 1 it is valid, but --online found a problem, 2 it is not valid.

Examples:

    countersign check
    countersign check --online
    countersign check --config /etc/countersign/countersign.yaml --json`
}

func (c *checkCmd) Run(ctx context.Context, s *std) error {
	env, err := c.env(s)
	if err != nil {
		return err
	}
	if c.forPrograms() {
		return c.runJSON(ctx, s, env)
	}
	cfg, problems, err := c.loadWith(s, env)
	if err != nil {
		return err
	}
	channels := "no channel"
	if names := cfg.Channels.Names(); len(names) > 0 {
		channels = strings.Join(names, " and ")
	}
	s.printf("%s is valid: %s, %s, %s, %s", visible(c.Config), count(len(cfg.Policy.Rules()), "rule", "rules"),
		count(len(cfg.Agents()), "agent", "agents"), count(len(cfg.People()), "person", "people"), channels)
	if len(problems) > 0 {
		s.printf(" (%s)", count(len(problems), "warning", "warnings"))
	}
	s.printf("\n")
	if c.Online {
		return s.online(ctx, cfg)
	}
	return nil
}

// runJSON is Run for programs.
func (c *checkCmd) runJSON(ctx context.Context, s *std, env func(string) (string, bool)) error {
	cfg, problems, err := config.Load(c.Config, env, c.files(s)...)
	if _, invalid := errors.AsType[*config.InvalidError](err); err != nil && !invalid {
		return c.unread(s, err)
	}
	if problems == nil {
		problems = []config.Problem{}
	}
	out := map[string]any{"ok": err == nil, "problems": problems}
	failed := &exitError{exitUsage, ""}
	if err == nil && c.Online {
		found := &findings{s: s, list: []setup.Finding{}}
		if err := found.online(ctx, cfg); err != nil {
			return err
		}
		out["ok"], out["findings"] = found.problems() == 0, found.list
		failed.code = exitFailed
	}
	if err := c.print(s, out); err != nil {
		return err
	}
	if out["ok"] == false {
		return failed
	}
	return nil
}

type explainCmd struct {
	file
	output
	Tool        string `placeholder:"[SERVER/]TOOL" help:"The tool of the call; without it only the rules are printed."`
	Method      string `placeholder:"METHOD" help:"The MCP method of the call, where it is not tools/call; then --tool only says which server: SERVER/*."`
	Agent       string `placeholder:"NAME" help:"The agent that makes the call."`
	Annotations string `placeholder:"JSON" help:"The tool's annotations, as its server declares them, such as {\"readOnly\":true}."`
	callFlags
}

func (*explainCmd) Help() string {
	return `It reads the configuration file and asks no running gate. Without --tool it prints the rules alone.

Examples:

    countersign explain
    countersign explain --agent treasury-bot --tool transfer_credits --args '{"amount_cents":5000}'
    countersign explain --config other.yaml --tool github/merge --args @merge.json --json`
}

func (c *explainCmd) Run(s *std) error {
	arguments, err := c.args(s)
	if err != nil {
		return err
	}
	if c.Tool == "" && c.Method == "" && (c.Agent != "" || c.Args != "{}") {
		return usagef("--tool says which tool's call is to be explained")
	}
	cfg, _, err := c.load(s)
	if err != nil {
		return err
	}
	if c.Tool == "" && c.Method == "" {
		return c.rules(s, cfg)
	}
	q := config.Question{Agent: c.Agent, Scope: c.Scope, SessionID: c.SessionID, Method: c.Method, Tool: c.Tool,
		Args: arguments}
	if c.Annotations != "" {
		q.Annotations = []byte(c.Annotations)
	}
	x, err := cfg.Explain(q)
	if err != nil {
		return usagef("%s", err)
	}
	if c.forPrograms() {
		return c.print(s, x)
	}
	s.explanation(c.Config, x)
	return nil
}

// rules prints them all.
func (c *explainCmd) rules(s *std, cfg *config.Config) error {
	rules := append(cfg.Policy.Rules(), cfg.Policy.Otherwise())
	guard := cfg.Policy.Guard()
	if c.forPrograms() {
		out := map[string]any{"rules": rules, "policy_digest": cfg.Policy.Digest()}
		if guard != nil {
			out["guard"] = guard
		}
		return c.print(s, out)
	}
	s.printf("The rules, in the order in which a call meets them; the first that matches decides:\n\n")
	for _, r := range rules {
		s.rule(c.Config, r)
	}
	if guard != nil {
		s.guard(c.Config, *guard)
		s.printf("    after the rules, for calls that name one of these or the settings of an agent's hooks; nothing " +
			"stricter is loosened\n")
		for _, f := range guard.Files {
			s.printf("    %s\n", visible(f))
		}
	}
	s.printf("\nThe digest of this policy is %s.\n", cfg.Policy.Digest())
	return nil
}

// explanation prints what became of each rule, and what the call comes to.
func (s *std) explanation(file string, x config.Explanation) {
	for _, step := range x.Steps {
		s.rule(file, step.Rule)
		s.printf("    %s: %s\n", steps[string(step.Result)], visible(step.Why))
	}
	if g := x.Guard; g != nil {
		s.guard(file, g.GuardInfo)
		switch {
		case g.Decides:
			s.printf("    DECIDES: %s names what is guarded\n", visible(g.Touched))
		case g.Touched != "":
			s.printf("    %s names what is guarded, but what the rules say is no less strict\n", visible(g.Touched))
		default:
			s.printf("    does not touch this call\n")
		}
	}
	s.printf("\n%s: %s, risk %s, %s\n", visible(x.Tool), x.Action.Word(), x.Risk, visible(x.ReasonCode))
	if x.Reason != "" {
		s.printf("  %s\n", visible(x.Reason))
	}
	if x.Summary != "" {
		s.printf("  %s\n", visible(x.Summary))
	}
	if x.Message != "" {
		s.printf("  %s\n", visible(x.Message))
	}
	if x.Action == approval.Quarantine {
		s.printf("  People have %s to decide", x.Timeout)
		if x.RequireReason {
			s.printf(", with a reason")
		}
		s.printf(".\n")
		if need := x.NeedInfo.InWords(); need != "" {
			s.printf("  It takes %s.\n", visible(need))
		}
		if grants := x.GrantsInWords(); grants != "" {
			s.printf("  An approval can be given for longer, %s.\n", visible(grants))
		}
		if diff := x.DiffInWords(); diff != "" {
			s.printf("  Through the gateway people are shown the difference: %s.\n", visible(diff))
		}
	}
	if x.Mode == "observe" {
		s.printf("  The mode is observe: the call is allowed all the same, and this is only put on record.\n")
	}
}

// steps are the answers of rules in words.
var steps = map[string]string{
	"decides":     "DECIDES",
	"may_match":   "MAY MATCH, so it counts",
	"no_match":    "does not match",
	"error":       "CANNOT BE EVALUATED, so the call is denied",
	"not_reached": "not asked",
}

// cards are the cards of a rule's calls in words.
var cards = map[string]string{
	"turn": "with the others of its turn", "run": "with the others of its run", "call": "of its own",
}

// guard prints what the guard of the gate's files does.
func (s *std) guard(file string, g config.Guard) {
	s.printf("guard: %s → at least %s, risk %s, %s", visible(strings.Join(g.Guard, ", ")), g.Action.Word(), g.Risk,
		g.Timeout)
	if g.RequireReason {
		s.printf(", reason required")
	}
	if g.Line > 0 {
		s.printf("  (%s:%d)", visible(file), g.Line)
	}
	s.printf("\n")
	if need := g.NeedInfo.InWords(); need != "" {
		s.printf("    takes %s\n", visible(need))
	}
}

// rule prints what a rule does and what it matches.
func (s *std) rule(file string, r config.Rule) {
	label := fmt.Sprintf("%d. %s", r.Number, visible(r.Name))
	if r.Number == 0 {
		label = "otherwise"
	}
	s.printf("%s → %s, risk %s", label, r.Action.Word(), r.Risk)
	if r.Action == approval.Quarantine {
		s.printf(", %s", r.Timeout)
		if r.RequireReason {
			s.printf(", reason required")
		}
	}
	if r.Line > 0 {
		s.printf("  (%s:%d:%d)", visible(file), r.Line, r.Column)
	}
	s.printf("\n")
	part := func(name, sep string, values ...string) {
		if text := strings.Join(values, sep); text != "" {
			s.printf("    %s %s\n", name, visible(text))
		}
	}
	part("methods", ", ", r.Methods...)
	part("tools", ", ", r.Tools...)
	part("agents", ", ", r.Agents...)
	part("where its server says", "", r.AnnotationsInWords())
	part("if", " and ", r.Conditions...)
	part("when", "", r.When)
	part("takes", "", r.NeedInfo.InWords())
	part("has a card", "", cards[string(r.Group)])
	part("an approval can be given for longer,", "", r.GrantsInWords())
	part("through the gateway people are shown the difference:", "", r.DiffInWords())
	part("args that do not count:", ", ", r.IgnoreArgs...)
	part("audit", "", string(r.Audit))
}
