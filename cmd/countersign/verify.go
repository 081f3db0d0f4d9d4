package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"countersign/internal/config"
	"countersign/internal/setup"
)

type verifyCmd struct {
	file
	remote
	output
	Webhook string   `placeholder:"URL" help:"The base address of the gate's webhooks, without /webhook/line. Default: public_url, else the address at which the gate listens."`
	Agent   string   `placeholder:"NAME" help:"The configured agent that makes the test call. Default: the first."`
	Wait    duration `default:"5m" help:"How long you have to tap."`
	NoTap   bool     `help:"Ask nobody to tap, and cancel the test request."`
}

func (*verifyCmd) Help() string {
	return `The running gate sends a test card, for a tool that does nothing, to everybody whom it notifies. Then verify posts taps to the gate's own webhooks that must not decide it: forged, too old, a stranger's, the same one twice, and one meant for another bot or workspace. It signs some of them with the channels' secrets from the configuration, as LINE and Slack would, but never in the name of a configured person. After each it checks that the request is still waiting, and that the audit log has the refusal. Then it asks you to tap Approve, and tries them again. At the end it cancels the test request; the gate's answers to the made-up strangers stay in the notification log as failed.

It needs the gate's own configuration, and an admin's token: --token, COUNTERSIGN_TOKEN, or else that of the configuration's first admin. Exit code: 0 all checks passed, 1 a check failed.

Examples:

    countersign verify
    countersign verify --no-tap --json
    countersign verify --config /etc/countersign/countersign.yaml --webhook https://gate.example.com`
}

func (c *verifyCmd) Run(ctx context.Context, s *std) error {
	cfg, _, err := c.load(s)
	if err != nil {
		return err
	}
	admin, agent, err := c.clients(s, cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	defer agent.Close()
	webhook := strings.TrimRight(c.Webhook, "/")
	if webhook == "" {
		webhook = setup.WebhookURL(cfg)
	}
	if !c.forPrograms() {
		fmt.Fprintf(s.err, "A test card goes to everybody whom the gate at %s notifies. Then taps that must not decide it "+
			"are posted to %s/webhook/…: forged, too old, strangers', doubled, misdirected. Some are signed with the "+
			"channels' own secrets, none as a person of the configuration.\n",
			visible(admin.server), visible(webhook))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := &findings{s: s, list: []setup.Finding{}}
	if !c.forPrograms() {
		marks := map[setup.Level]string{setup.OK: "✔", setup.Warning: "!", setup.Problem: "✘"}
		f.print = func(x setup.Finding) { s.line(marks[x.Level], x) }
	}
	t := setup.Trial{Config: cfg, Admin: admin.Client, Agent: agent.Client, Webhook: webhook, Wait: time.Duration(c.Wait),
		Waiting: s.countdown(), Watch: f.watch()}
	if c.NoTap {
		t.Wait = 0
	}
	err = setup.Verify(ctx, t)
	s.clear()
	if err != nil {
		return admin.failure(err)
	}
	held := f.problems() == 0
	if c.forPrograms() {
		if err := c.print(s, map[string]any{"ok": held, "findings": f.list}); err != nil {
			return err
		}
	} else if held {
		s.printf("Everything held.\n")
	} else {
		s.printf("%s.\n", count(f.problems(), "check failed", "checks failed"))
	}
	if !held {
		return &exitError{exitFailed, ""}
	}
	return nil
}

// clients connects as an admin and as an agent.
func (c *verifyCmd) clients(s *std, cfg *config.Config) (admin, agent *connection, err error) {
	as, at := c.remote, cfg.File.Agents
	if as.Server == "" && s.getenv("COUNTERSIGN_SERVER") == "" {
		as.Server = setup.ServerURL(cfg)
	}
	from := ""
	if as.Token == "" && s.getenv("COUNTERSIGN_TOKEN") == "" {
		i := slices.IndexFunc(cfg.File.People, func(p config.Person) bool {
			return p.Token != "" &&
				slices.Contains(p.Roles, "admin")
		})
		if i < 0 {
			return nil, nil, usagef("nobody in %s has the role admin and a token; give an admin's with COUNTERSIGN_TOKEN",
				c.Config)
		}
		as.Token, from = cfg.File.People[i].Token.Reveal(), c.Config
	}
	if c.Agent != "" {
		at = slices.DeleteFunc(slices.Clone(at), func(a config.Agent) bool { return a.Name != c.Agent })
	}
	if len(at) == 0 {
		return nil, nil, usagef("%s has no such agent to make the test call; --agent names one", c.Config)
	}
	if admin, err = as.connect(s); err != nil {
		return nil, nil, err
	}
	if from != "" {
		admin.tokenFrom = from
	}
	asking := remote{Server: admin.server, Token: at[0].Token.Reveal()}
	if agent, err = asking.connect(s); err != nil {
		admin.Close()
		return nil, nil, err
	}
	return admin, agent, nil
}

// countdown asks the person to tap, and on a terminal tells how long there is.
func (s *std) countdown() func(left time.Duration) {
	const ask = "Now tap Approve on the card, on your phone"
	var once sync.Once
	return func(left time.Duration) {
		left = left.Round(time.Second)
		if isTerminal(s.err) {
			fmt.Fprintf(s.err, "\r\x1b[K%s … %s left", ask, span(left))
			return
		}
		once.Do(func() { fmt.Fprintf(s.err, "%s: within %s.\n", ask, span(left)) })
	}
}
