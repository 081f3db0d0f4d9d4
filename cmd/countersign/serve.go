package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"countersign/approval"
	"countersign/internal/agents/localgate"
	"countersign/internal/app"
	"countersign/internal/config"
)

type serveCmd struct {
	file
	Socket    string `placeholder:"FILE" help:"Also serve the API on this unix socket, which only you can use. Default: the configuration's socket; your own gate always has one."`
	LogLevel  string `enum:"debug,info,warn,error" default:"info" help:"The lowest level to log: debug, info, warn or error."`
	LogFormat string `enum:"text,json" default:"text" help:"The log format: text or json."`
}

func (*serveCmd) Help() string {
	return `It logs to standard error. SIGTERM or ctrl-c stops it once the current requests are answered; a second one stops it at once. It reads the configuration again when the file changes or on SIGHUP, and keeps the old one if the new one has a mistake. After a change of the variables send SIGHUP. Under systemd use Type=notify.

Examples:

    countersign serve
    countersign serve --config /etc/countersign/countersign.yaml --log-format json`
}

// stopWithin is how long a stop may take before it is cut short.
const stopWithin = 30 * time.Second

func (c *serveCmd) Run(ctx context.Context, s *std) error {
	s.then = func() error { return c.serve(ctx, s) }
	return nil
}

// serve runs the gate until it is stopped.
func (c *serveCmd) serve(ctx context.Context, s *std) error {
	vars, err := c.variables(s)
	if err != nil {
		return err
	}
	cfg, _, err := c.loadWith(s, vars.lookup, c.Socket)
	if err != nil {
		return err
	}
	// From here on a signal is an order to stop in good order, also while starting.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	log := c.logger(s)
	socket := c.socket(s, cfg)
	a, err := app.New(ctx, app.Options{Config: cfg, Env: vars.lookup, EnvTrouble: vars.trouble, Logger: log,
		Version: version().Version, Socket: socket})
	if socket != "" && approval.CodeOf(err) == approval.CodeStoreUnavailable {
		return fmt.Errorf("%w If it is a gate without the socket %s that has the store, restart that one so that it is "+
			"found, or name its address with --server or COUNTERSIGN_SERVER", err, socket)
	}
	if err != nil {
		return err
	}
	if err := a.Start(); err != nil {
		return errors.Join(err, stop(a))
	}
	s.notifySystemd(log, "READY=1")
	return s.serveUntilStopped(ctx, a, log, signals)
}

// serveUntilStopped serves, reads the configuration again when it is told to, and releases memory after a busy time.
func (s *std) serveUntilStopped(ctx context.Context, a *app.App, log *slog.Logger, signals <-chan os.Signal) error {
	releaseMemory()
	use := newMemoryUse(allocatedBytes())
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if use.look(allocatedBytes()) {
				releaseMemory()
			}
		case err := <-a.Failed():
			return errors.Join(err, stop(a))
		case <-ctx.Done():
			return stop(a)
		case got := <-signals:
			if got == syscall.SIGHUP {
				_ = a.Reload(ctx) // it says what goes wrong
				continue
			}
			log.InfoContext(ctx, "stopping; send the signal again to stop at once", "signal", got.String())
			s.notifySystemd(log, "STOPPING=1")
			return stopUnlessHurried(a, signals)
		}
	}
}

// stopUnlessHurried stops a in good order; another signal ends it at once.
func stopUnlessHurried(a *app.App, signals <-chan os.Signal) error {
	stopped := make(chan error, 1)
	go func() {
		a.Withdraw(context.Background())
		stopped <- stop(a)
	}()
	for {
		select {
		case err := <-stopped:
			return err
		case got := <-signals:
			if got != syscall.SIGHUP {
				return &exitError{exitFailed, "stopped at once; what was in hand goes on at the next start"}
			}
		}
	}
}

// socket is the path of the socket to serve on; "" leaves it to the configuration. The user's own gate is
// found by its socket.
func (c *serveCmd) socket(s *std, cfg *config.Config) string {
	if mine, err := localgate.Find(s.env); c.Socket == "" && cfg.Socket == "" && err == nil && mine.Is(c.Config) {
		return mine.Socket
	}
	return c.Socket
}

// stop stops a in good order, as far as the time is enough.
func stop(a *app.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	return a.Stop(ctx)
}

func (c *serveCmd) logger(s *std) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		panic(fmt.Sprintf("countersign: log level %q", c.LogLevel)) // the flag has only slog's names
	}
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(s.err, options))
	}
	return slog.New(slog.NewTextHandler(s.err, options))
}

// notifySystemd tells the service manager how far we are, where one wants to know.
func (s *std) notifySystemd(log *slog.Logger, state string) {
	name := s.getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		log.Warn("the service manager could not be told", "state", state, "error", err)
	}
}
