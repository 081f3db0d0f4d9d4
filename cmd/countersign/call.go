package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"countersign/approval/args"
	"countersign/client"
)

// callFlags describe a call.
type callFlags struct {
	Args      string `default:"{}" placeholder:"JSON|@FILE|-" help:"The arguments, a JSON object; @FILE reads a file, - reads standard input."`
	Scope     string `placeholder:"TEXT" help:"Where the call belongs, such as a directory or a tenant. An approval counts in its scope only."`
	SessionID string `placeholder:"ID" help:"The agent's session."`
}

// maxArgs is how much of args is read; the gate takes less than that.
const maxArgs = 4 << 20

// args returns the arguments as JSON text.
func (f *callFlags) args(s *std) (json.RawMessage, error) { return readArgs(s, f.Args) }

// readArgs returns what --args says: JSON, or where it is.
func readArgs(s *std, given string) (json.RawMessage, error) {
	var b []byte
	var err error
	switch {
	case given == "-":
		b, err = io.ReadAll(io.LimitReader(s.in, maxArgs))
	case strings.HasPrefix(given, "@"):
		b, err = os.ReadFile(given[1:])
	default:
		b = []byte(given)
	}
	if err != nil {
		return nil, usagef("--args: %s", err)
	}
	b = bytes.TrimSpace(b)
	if err := json.Unmarshal(b, new(json.RawMessage)); err != nil {
		return nil, usagef("--args is not JSON: %s", err)
	}
	if len(b) == 0 || b[0] != '{' {
		return nil, usagef(`--args must be a JSON object, such as {"path":"/tmp/x"}`)
	}
	return b, nil
}

type callCmd struct {
	remote
	output
	Tool string `required:"" placeholder:"[SERVER/]TOOL" help:"The tool; SERVER/TOOL for a tool of an MCP server."`
	callFlags
	TurnID    string   `placeholder:"ID" help:"The agent's turn."`
	Rationale string   `placeholder:"TEXT" help:"Why the agent wants it, in its own words."`
	Preview   string   `placeholder:"TEXT" help:"What it would do, in the agent's own words or as a diff."`
	Wait      duration `placeholder:"30s" help:"How long to wait for a decision; without it a pending request is answered at once."`

	AcceptsEdits bool `help:"You will run the arguments that are printed, if a person approved different ones."`
}

func (*callCmd) Help() string {
	return `It prints the answer as the agent's model should read it. A call that a person must approve is pending. Once it is approved, ask again with the same arguments: that uses the approval, once. Exit code: 0 run it now, 3 denied, 4 pending, 5 expired, cancelled or lapsed (approved, but not used in time).

Without --server and COUNTERSIGN_SERVER it asks your own gate, and starts it if it is not running; init --own writes its configuration. Your own gate needs no agent's token.

Examples:

    countersign call --tool read_file --args '{"path":"notes.txt"}'
    countersign call --tool transfer_credits --args @transfer.json --wait 5m && ./transfer
    countersign call --tool transfer_credits --args @transfer.json --accepts-edits --json
    make-args | countersign call --tool github/merge --args - --rationale "tests pass"`
}

// duration is a flag such as 30s, or a number of seconds.
type duration time.Duration

// UnmarshalText reads it.
func (d *duration) UnmarshalText(text []byte) error {
	s := string(text)
	t, err := time.ParseDuration(s)
	if n, errN := strconv.ParseInt(s, 10, 32); errN == nil {
		t, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || t < 0 {
		return fmt.Errorf("%q is not a duration such as 30s or 5m", s)
	}
	*d = duration(t)
	return nil
}

func (c *callCmd) Run(ctx context.Context, s *std) error {
	arguments, err := c.args(s)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, err := c.connectAgent(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	call := client.Call{Tool: c.Tool, Args: arguments, Scope: c.Scope, TurnID: c.TurnID, SessionID: c.SessionID,
		Rationale: c.Rationale, Preview: c.Preview, AcceptsEdits: c.AcceptsEdits, Waits: c.Wait > 0}
	if server, tool, found := strings.Cut(c.Tool, "/"); found {
		call.Server, call.Tool = server, tool
	}
	first, err := g.Call(ctx, call)
	if err != nil {
		return g.failure(err)
	}
	answer := first
	if first.Kind == client.AnswerPending && c.Wait > 0 {
		progress := s.progress(first.ApprovalID)
		answer, err = g.Await(ctx, call, first, time.Duration(c.Wait))
		progress()
		switch {
		case err != nil && ctx.Err() == nil:
			e := g.failure(err).(*exitError)
			e.message += fmt.Sprintf("; request %s is left as it is", visible(first.ApprovalID))
			return e
		case err != nil:
			answer = first
		}
	}
	if c.forPrograms() {
		if err := c.print(s, answer); err != nil {
			return err
		}
	} else {
		s.printf("%s\n", visibleLines(answer.Message))
		if answer.Kind == client.AnswerApproved && !sameArgs(arguments, answer.Args) {
			s.printf("It was approved with these arguments, which is how to run it: %s\n", visible(string(answer.Args)))
		}
	}
	switch answer.Kind {
	case client.AnswerAllow, client.AnswerApproved:
		return nil
	case client.AnswerPending:
		if !c.forPrograms() {
			fmt.Fprintf(s.err, "Ask again with the same command; --wait 60s waits for the decision. `countersign cancel %s` "+
				"takes the request back.\n", visible(answer.ApprovalID))
		}
		return &exitError{exitPending, ""}
	case client.AnswerExpired, client.AnswerCancelled, client.AnswerLapsed:
		return &exitError{exitOver, ""}
	}
	return &exitError{exitDenied, ""} // denied, and any word that is not known here
}

// sameArgs reports whether the stored arguments of an approved call, where the answer has them, are the ones that it
// was asked with: what a rule ignores may differ.
func sameArgs(asked, stored json.RawMessage) bool {
	if len(stored) == 0 {
		return true
	}
	is, err := args.Parse(asked)
	was, bad := args.Parse(stored)
	return err == nil && bad == nil && bytes.Equal(is.Canonical(), was.Canonical())
}

// progress tells a person at the terminal what is waited for, until the function it returns is called.
func (s *std) progress(id string) (done func()) {
	if !isTerminal(s.err) {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	begun := s.now()
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			fmt.Fprintf(s.err, "\r\x1b[Kwaiting for a decision … %s, request %s, ctrl-c leaves it pending",
				span(time.Since(begun)), visible(id))
			select {
			case <-tick.C:
			case <-stop:
				fmt.Fprint(s.err, "\r\x1b[K")
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
