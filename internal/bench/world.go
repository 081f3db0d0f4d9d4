package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"countersign/internal/secret"
)

// world is what the load goes to.
type world struct {
	urls        []string // of the gates
	agents      []secret.Value
	person      secret.Value
	pids        []int  // of the gates, where they are ours
	store       string // at which they reach the database; "": none
	idle        int64  // what one has in memory before anything is asked of it; 0: not known
	echo, floor *process
	phone       *phone // nil: nobody's

	askTool, allowTool string // "": none
	mcpCall, mcpHolds  string // the message of a call over MCP, and what stands in its answer

	undo []func() error
}

// isOurs reports whether the gates were started for the run.
func (w *world) isOurs() bool { return len(w.pids) > 0 }

// close ends all of it, last things first.
func (w *world) close() error {
	var errs []error
	for i := len(w.undo) - 1; i >= 0; i-- {
		errs = append(errs, w.undo[i]())
	}
	return errors.Join(errs...)
}

// process is a server. One of our own runs while its standard input is open, so that it does not outlive this one.
type process struct {
	cmd     *exec.Cmd
	in      io.Closer
	log     *tail
	address string
	ended   chan error
}

func (p *process) url() string { return "http://" + p.address }

// startProcess starts one, and returns when it has said its address: find looks for it in a line of its output.
func startProcess(ctx context.Context, command []string, find func(line []byte) string) (*process, error) {
	p := &process{log: new(tail), ended: make(chan error, 1),
		cmd: exec.Command(command[0], command[1:]...)} //nolint:gosec // this very program, or the one that is measured
	p.cmd.WaitDelay = 10 * time.Second
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	said := make(chan string, 1)
	lines := &lineWriter{each: func(line []byte) {
		p.log.add(line)
		if at := find(line); at != "" {
			select {
			case said <- at:
			default:
			}
		}
	}}
	p.cmd.Stdout, p.cmd.Stderr = lines, lines
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	fail := func(err error) (*process, error) {
		_ = p.stop()
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command[1:], " "), err, p.log)
	}
	select {
	case p.address = <-said:
	case err := <-p.ended:
		p.ended <- err
		return fail(errors.New("it ended before it served"))
	case <-time.After(patience):
		return fail(errors.New("it does not say where it serves"))
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	return p, nil
}

// stop ends it in good order, or after a while at once.
func (p *process) stop() error {
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Process.Signal(os.Interrupt) // for the gate
	_ = p.in.Close()                       // for the others; where it has ended, it is closed
	return <-p.ended
}

// lineWriter takes output apart into lines. One process writes to it.
type lineWriter struct {
	mu   sync.Mutex
	rest []byte
	each func(line []byte)
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.each(line)
		l.rest = rest
	}
}

// tail keeps the last lines that a process has written.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 20 {
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, string(line))
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// beside starts the servers that a gate is measured beside.
func (w *world) beside(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	whole := func(line []byte) string {
		if _, _, err := net.SplitHostPort(string(line)); err != nil {
			return ""
		}
		return string(line)
	}
	part := func(args ...string) (*process, error) {
		p, err := startProcess(ctx, append([]string{self, partCommand}, args...), whole)
		if err == nil {
			w.undo = append(w.undo, p.stop)
		}
		return p, err
	}
	if w.echo, err = part(PartEcho); err != nil {
		return err
	}
	w.floor, err = part(PartFloor, w.echo.url()+mcpPath)
	return err
}
