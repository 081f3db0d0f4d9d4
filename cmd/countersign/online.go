package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"countersign/internal/config"
	"countersign/internal/setup"
)

// findings collects findings, and prints each as it comes unless they are for a program.
type findings struct {
	s     *std
	print func(setup.Finding)
	list  []setup.Finding
}

// watch is what is told of findings.
func (f *findings) watch() setup.Watch {
	w := setup.Watch{Found: func(x setup.Finding) {
		f.s.clear()
		f.list = append(f.list, x)
		if f.print != nil {
			f.print(x)
		}
	}}
	if isTerminal(f.s.err) {
		w.Doing = func(what string) { fmt.Fprintf(f.s.err, "\r\x1b[Klooking at %s …", visible(what)) }
	}
	return w
}

// clear takes the line of progress off the terminal.
func (s *std) clear() {
	if isTerminal(s.err) {
		fmt.Fprint(s.err, "\r\x1b[K")
	}
}

func (f *findings) count(l setup.Level) (n int) {
	for _, x := range f.list {
		if x.Level == l {
			n++
		}
	}
	return n
}

func (f *findings) problems() int { return f.count(setup.Problem) }

// line is a finding on one line: what it is, and after an arrow what to do.
func (s *std) line(mark string, x setup.Finding) {
	text := x.Message
	if x.Do != "" {
		text += " → " + x.Do
	}
	s.printf("%s  %-7s  %s\n", mark, visible(x.Channel), visible(text))
}

// online asks the platforms.
func (f *findings) online(ctx context.Context, cfg *config.Config) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := setup.Online(ctx, cfg, f.watch())
	f.s.clear()
	if errors.Is(err, context.Canceled) {
		return &exitError{exitFailed, "interrupted"}
	}
	return err
}

// online asks the platforms, and prints what they say.
func (s *std) online(ctx context.Context, cfg *config.Config) error {
	f := &findings{s: s}
	f.print = func(x setup.Finding) { s.line(fmt.Sprintf("%-7s", x.Level), x) }
	if err := f.online(ctx, cfg); err != nil {
		return err
	}
	s.printf("%s\n", strings.Join([]string{
		fmt.Sprintf("%d ok", f.count(setup.OK)), count(f.count(setup.Warning), "warning", "warnings"),
		count(f.problems(), "problem", "problems"),
	}, ", "))
	if f.problems() > 0 {
		return &exitError{exitFailed, ""}
	}
	return nil
}
