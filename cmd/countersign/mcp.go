package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/mcp/stdioproxy"
)

type mcpCmd struct {
	remote
	Hold     duration `default:"45s" help:"How long a call may wait for its decision before it is answered as pending; 0 does not wait."`
	Name     string   `placeholder:"NAME" help:"The server's name in rules and on cards. Default: the name of its program."`
	LogLevel string   `enum:"debug,info,warn,error" default:"warn" help:"The lowest level to log to standard error: debug, info, warn or error."`
	Command  []string `arg:"" passthrough:"" help:"The server's own command, after --."`
}

func (*mcpCmd) Help() string {
	return `Put it in front of the command of an MCP server in any client's configuration. The server's tools keep their names. Before each call the gate is asked, under the name NAME/TOOL, and the call runs only if the gate says so. A call that a person must approve waits for --hold, and reports progress; after that the answer says that it is pending. Once it is approved, the same call, made again, runs once.

The gate is the one that --server or COUNTERSIGN_SERVER names, with an agent's token in COUNTERSIGN_TOKEN; otherwise your own, which is started if it is not running. While no gate answers, the tools are listed but none of them runs: each call is answered with the reason.

Examples:

    countersign mcp -- npx -y @modelcontextprotocol/server-filesystem /data
    countersign mcp --name files --hold 2m -- npx -y @modelcontextprotocol/server-filesystem /data
    countersign mcp --server https://gate.example.com -- ./my-server --stdio`
}

func (c *mcpCmd) Run(ctx context.Context, s *std) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	switch {
	case len(command) == 0:
		return usagef("no server: give its command after --, such as countersign mcp -- npx -y " +
			"@modelcontextprotocol/server-filesystem /data")
	case c.Name != "" && !approval.ValidName(c.Name):
		return usagef("--name must be 1 to 128 characters out of A-Z a-z 0-9 _ . : -")
	case time.Duration(c.Hold) > stdioproxy.MaxHold:
		return usagef("--hold is at most %s", span(stdioproxy.MaxHold))
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		panic(fmt.Sprintf("countersign: log level %q", c.LogLevel)) // the flag has only slog's names
	}
	g, err := c.findAgents(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	log := slog.New(redact.LogHandler(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}),
		func() *redact.Masker { return nil }))
	gate := &stdioproxy.RemoteGate{Client: g.Client}
	if g.own != nil {
		gate.Renew = g.renew
		// The client does not wait for it: it first wants to know the server. If it cannot be had, the client
		// has a server all the same, each of whose calls is answered with the reason until that is mended.
		begun, done := context.WithCancel(ctx)
		var starting sync.WaitGroup
		defer starting.Wait()
		defer done()
		starting.Go(func() {
			if err := g.renew(begun); err != nil && begun.Err() == nil {
				log.ErrorContext(begun, "there is no gate, so no call runs", "error", err)
			}
		})
	}
	err = stdioproxy.Run(ctx, stdioproxy.Options{
		Gate: gate, Command: command, Name: c.Name, Dir: dir, Hold: time.Duration(c.Hold), Version: version().Version,
		In: s.in, Out: s.out, Stderr: func(line string) { fmt.Fprintln(s.err, line) }, // as the client saw it before
		Logger: log,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
