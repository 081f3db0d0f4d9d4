package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"countersign/internal/demo"
)

type demoCmd struct {
	Dir    string        `help:"Keep the demo's files in this folder. Default: a temporary folder, removed at the end." placeholder:"DIR"`
	Page   string        `help:"Address of the chat page; default 127.0.0.1:8788, or a free port." placeholder:"ADDR"`
	Listen string        `help:"Address of the gate; default 127.0.0.1:8787, or a free port." placeholder:"ADDR"`
	Pace   time.Duration `default:"3s" help:"How long the agent thinks between its turns."`
	Rounds int           `help:"Stop after this many rounds of the agent's work; 0 is until ctrl-c."`
	Log    bool          `help:"Show the gate's own log too."`
}

func (*demoCmd) Help() string {
	return `It runs the real gate on a SQLite file, stand-ins for LINE and Slack with a chat page to tap in, and an agent that really writes, deletes and pays in a scratch folder, and asks first. Nothing leaves this machine.

Examples:

    countersign demo
    countersign demo --dir ./demo --log`
}

func (c *demoCmd) Run(ctx context.Context, s *std) error {
	if c.Rounds < 0 || c.Pace < 0 {
		return usagef("--rounds and --pace cannot be negative")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	level := slog.LevelWarn
	if c.Log {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
	return demo.Run(ctx, demo.Options{Dir: c.Dir, Page: c.Page, Listen: c.Listen, Pace: c.Pace, Rounds: c.Rounds,
		Out: visibleWriter{s.out}, Logger: log, Now: s.now, Version: version().Version})
}

// visibleWriter keeps what others wrote from steering the terminal.
type visibleWriter struct{ w io.Writer }

func (v visibleWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(v.w, visibleLines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
