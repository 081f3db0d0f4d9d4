package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"countersign/internal/bench"
	"countersign/internal/loopback"
	"countersign/internal/secret"
)

type benchCmd struct {
	output
	Only    []string      `placeholder:"WHAT" enum:"quarantined,allowed,decided,gateway,chat" help:"Measure only these, separated by commas: quarantined, allowed, decided, gateway, chat."`
	Rounds  int           `default:"5" help:"How many rounds each figure gets."`
	Round   time.Duration `default:"400ms" help:"How long a figure is measured in a round."`
	Calls   int           `default:"5000" help:"At most how many calls are made for a figure in a round."`
	Callers int           `default:"64" help:"How many callers there are at once; over MCP at most 16."`
	Dir     string        `placeholder:"DIR" help:"A folder on the disk to measure. Default: the folder for temporary files. What bench writes there is removed at the end."`

	Server      string `placeholder:"URL" help:"Put the load on this gate instead of starting one. COUNTERSIGN_SERVER is not used here."`
	Token       string `placeholder:"TOKEN" help:"The agent's token at that gate; else COUNTERSIGN_TOKEN."`
	PersonToken string `placeholder:"TOKEN" help:"A person's token at that gate; without it no request is decided."`
	AskTool     string `placeholder:"TOOL" help:"A tool that people at that gate are asked about. Each call sends them cards, and is cancelled at the end of its round."`
	AllowTool   string `placeholder:"TOOL" help:"A tool that the gate's policy allows."`
	MCPTool     string `name:"mcp-tool" placeholder:"TOOL" help:"A tool that the gate's policy allows over MCP; it really runs."`
	MCPArgs     string `name:"mcp-args" placeholder:"JSON" help:"Its arguments; {} if not given."`
	YesLoadThis bool   `help:"Allow a gate on another machine."`
}

func (*benchCmd) Help() string {
	return `It starts a gate with a database of its own, no limits and a stand-in for LINE, and removes all of it at the end. Each figure is measured in turns with what the machine can do. Compare the ratios, not the figures: a disk's syncs per second can differ tenfold within minutes. The default takes under a minute. At the end bench compares its own counts with what the gate recorded.

With --server it puts the load on a gate that is already running. It calls only the tools that you name, decides nothing without a person's token, and refuses another machine without --yes-load-this. Its calls stay in that gate's audit log.

Exit code: 0 measured, 1 something failed, 2 usage.

Examples:

    countersign bench
    countersign bench --dir /var/lib/countersign --rounds 9
    countersign bench --only gateway -o json
    countersign bench --server http://127.0.0.1:8787 --allow-tool read_file`
}

func (c *benchCmd) Run(ctx context.Context, s *std) error {
	o, err := c.options(s)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := bench.Run(ctx, o)
	if ctx.Err() != nil {
		return &exitError{exitFailed, "stopped; what was started for it is gone"}
	}
	if report == nil {
		return err
	}
	if c.forPrograms() {
		if err := c.print(s, report); err != nil {
			return err
		}
	} else {
		report.Print(s.out)
	}
	if errors.Is(err, bench.ErrFailed) {
		return &exitError{exitFailed, strings.Join(report.Problems, "\n")}
	}
	return err
}

func (c *benchCmd) options(s *std) (bench.Options, error) {
	o := bench.Options{Dir: c.Dir, Only: c.Only, Rounds: c.Rounds, Round: c.Round, Calls: c.Calls, Callers: c.Callers,
		Log: s.err, Version: version().Version}
	if c.Rounds < 1 || c.Rounds > 1000 || c.Round < time.Millisecond || c.Round > time.Minute || c.Calls < 1 ||
		c.Callers < 1 || c.Callers > 1024 {
		return o, usagef("--rounds is 1 to 1000, --round 1ms to 1m, --calls at least 1, --callers 1 to 1024")
	}
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	o.Program = []string{self}
	if c.Server == "" {
		if c.Token+c.PersonToken+c.AskTool+c.AllowTool+c.MCPTool+c.MCPArgs != "" || c.YesLoadThis {
			return o, usagef("tokens and tools are those of a gate that --server names")
		}
		return o, nil
	}
	o.Given, err = c.given(s)
	return o, err
}

// given is the gate that --server names, unless that could be an accident.
func (c *benchCmd) given(s *std) (*bench.Given, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--server is an address such as http://127.0.0.1:8787")
	}
	if !loopback.IsHost(u.Hostname()) && !c.YesLoadThis {
		return nil, usagef("%s is not this machine: people may depend on that gate; --yes-load-this loads it all the same",
			u.Host)
	}
	g := &bench.Given{URL: c.Server, Agent: secret.Value(c.Token), Person: secret.Value(c.PersonToken), AskTool: c.AskTool,
		AllowTool: c.AllowTool, MCPTool: c.MCPTool, MCPArgs: c.MCPArgs}
	if g.Agent == "" {
		g.Agent = secret.Value(s.getenv("COUNTERSIGN_TOKEN"))
	}
	if g.Agent == "" {
		return nil, usagef("no token: set COUNTERSIGN_TOKEN, or give --token, to that of an agent of the gate")
	}
	if g.AskTool == "" && g.AllowTool == "" && g.MCPTool == "" {
		return nil, usagef("--ask-tool, --allow-tool and --mcp-tool say what may be called at that gate; name one at least")
	}
	return g, nil
}

// benchPartCmd is what bench starts: it ends with its standard input, so that nothing outlives a bench that is killed.
type benchPartCmd struct {
	Part     string `arg:"" enum:"gate,echo,floor" help:"What to be."`
	Upstream string `help:"Where the baseline forwards to."`
	Config   string `help:"The gate's configuration."`
}

func (c *benchPartCmd) Run(ctx context.Context, s *std) error {
	s.then = func() error { return c.be(ctx, s) }
	return nil
}

// be is the part until its end.
func (c *benchPartCmd) be(ctx context.Context, s *std) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	// Ctrl-C goes to all of a terminal's programs; bench is the one that acts on it.
	signal.Ignore(os.Interrupt)
	go func() {
		_, _ = io.Copy(io.Discard, s.in)
		end()
	}()
	if c.Part != "gate" {
		return bench.Part(ctx, c.Part, c.Upstream, s.out)
	}
	gate := &serveCmd{file: file{Config: c.Config}, LogLevel: "info", LogFormat: "json"}
	if err := gate.serve(ctx, s); err != nil {
		return fmt.Errorf("the gate: %w", err)
	}
	return nil
}
