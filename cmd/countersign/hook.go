package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/agents/hooks"
	"countersign/internal/agents/localgate"
)

type hookCmd struct {
	remote
	Agent   string   `arg:"" enum:"claude-code,codex,gemini" help:"Whose hook it is: claude-code, codex or gemini."`
	Own     string   `placeholder:"FILE" help:"The configuration of your own gate, which the hook starts at --server if it is not running. install writes both, so that no environment variable of the agent can send the hook elsewhere."`
	Wait    duration `placeholder:"55s" help:"How long to wait for a decision; it must be shorter than the hook's time-out. Without it a pending call is denied at once, and the agent is told what to do next."`
	Defer   bool     `help:"Claude Code only: stop the run when a call is pending; claude --resume asks about the same call again."`
	Gateway []string `sep:"none" placeholder:"NAME" help:"Do not ask about the tools of this MCP server, because it is behind a gateway that asks. Give exactly the agent's name for it; for codex one without an underscore. Repeatable."`
}

func (*hookCmd) Help() string {
	return `You need not run this yourself: "countersign install" writes it into the agent's settings. It reads the agent's event on standard input and answers in the agent's own format. For a call that the policy allows it prints nothing (for Gemini: allow), so that the agent's own rules still apply. An approved call is allowed, with exactly the bytes that were approved; every other call is denied, and the model is told what to do next. At the beginning of a session or a turn it reports what was decided since.

--gateway takes exactly the name that the agent has for the server. Codex reports only mcp__SERVER__TOOL, which does not show where the server's name ends. There a call is left to the gateway only if NAME has no underscore, which may stand for another character of another server's name, and no further "__" follows mcp__NAME__; otherwise the hook asks about it.

Exit code: 0 answered; 2 the hook could not ask or answer: the call is blocked, and standard error says why; 1 the same at the beginning of a session or a turn, where there is no call to block.

Examples:

    countersign hook claude-code --wait 55s
    countersign hook codex --wait 55s --gateway files
    countersign hook gemini`
}

// Hooks are bound in time below what agents give them: an agent that ends its hook may run the call.
const (
	hookTime  = 15 * time.Second // without --wait
	hookGrace = 4 * time.Second  // beyond --wait; install leaves one second more
)

// Run never returns but with an exit code that the agent takes for what it is.
func (c *hookCmd) Run(ctx context.Context, s *std) (err error) {
	blocks, agent := true, hooks.Agent(c.Agent)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
		if err == nil {
			return
		}
		why := strings.TrimSuffix(plainly(err, err.Error()), ".") + c.redactionHint(s)
		if blocks {
			// Gemini CLI runs a call whose hook exits with 2 and says nothing, as one whose standard error
			// is lost; it reads a denial from standard output whatever the exit code.
			if agent == hooks.Gemini {
				_, _ = s.out.Write(hooks.Block(agent, hooks.Fault(err, why)))
			}
			err = usagef("%s", hooks.Fault(err, why))
		} else {
			err = &exitError{exitFailed, "what was decided since could not be told: " + why}
		}
	}()
	if c.Defer && agent != hooks.ClaudeCode {
		return fmt.Errorf("--defer is for claude-code, %s cannot stop and resume", agent)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	bound := hookTime
	if c.Wait > 0 {
		bound = time.Duration(c.Wait) + hookGrace
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	input, err := readAll(ctx, s.in, hooks.MaxInput)
	if err != nil {
		return err
	}
	event, err := hooks.Parse(agent, input)
	if err != nil {
		return err
	}
	blocks = event.Kind == hooks.BeforeTool
	if unread(s.out) {
		return errors.New("standard output is closed or is the null device, where the agent reads no answer")
	}
	hook := hooks.Hook{Wait: time.Duration(c.Wait), Defer: c.Defer, Gateways: c.Gateway, Read: hooks.ReadFile,
		Asker: &lateAsker{cmd: c, s: s}}
	reply, err := inTime(ctx, func() (hooks.Reply, error) { return hook.Answer(ctx, event) })
	if err != nil {
		return err
	}
	if len(reply.Output) == 0 {
		return nil
	}
	if _, err := s.out.Write(reply.Output); err != nil {
		return fmt.Errorf("the answer could not be written: %w", err)
	}
	if len(reply.Told) > 0 {
		_, _ = hook.Asker.Ack(ctx, reply.Told...) // what is not acknowledged comes again, and the answer is out
	}
	return nil
}

// redactionHint says where the token of a gate that needs one may have gone: Gemini CLI can take variables with TOKEN
// in their names out of its hooks' environment (0.61.0).
func (c *hookCmd) redactionHint(s *std) string {
	server, token, _ := c.readFlags(s)
	if hooks.Agent(c.Agent) != hooks.Gemini || token != "" || server == "" || strings.HasPrefix(server, "unix:") {
		return ""
	}
	return "; where security.environmentVariableRedaction is enabled in Gemini CLI's settings, or it runs in a GitHub " +
		"action, list COUNTERSIGN_TOKEN under security.environmentVariableRedaction.allowed"
}

// unread reports whether what is written to w goes nowhere without an error. A standard output that was
// closed is the null device by now: Go opens it in its place.
func unread(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	is, err := f.Stat()
	return err != nil || os.SameFile(is, null)
}

// inTime returns what fn returns, or an error once ctx has ended and fn took no notice. What fn asked of the
// gate has then been broken off. A panic of fn is an error.
func inTime[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 2)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("internal error: %v", p)
			}
			done <- r
		}()
		r.v, r.err = fn()
	}()
	late := ctx.Done()
	for {
		select {
		case r := <-done:
			if r.err == nil && errors.Is(ctx.Err(), context.Canceled) {
				r.err = errGaveUp
			}
			return r.v, r.err
		case <-late:
			late = nil // whatever notices says more
			time.AfterFunc(hookGrace/8, func() { done <- result{err: errors.New("it took too long")} })
		}
	}
}

var errGaveUp = errors.New("the agent gave up")

// readAll reads up to limit bytes, for as long as ctx lives.
func readAll(ctx context.Context, r io.Reader, limit int) ([]byte, error) {
	b, err := inTime(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(r, int64(limit)+1)) })
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("the event did not come whole")
	case err != nil:
		return nil, fmt.Errorf("the event cannot be read: %w", err)
	case len(b) > limit:
		return nil, errors.New("the event is longer than 1 MiB")
	}
	return b, nil
}

// lateAsker connects to the gate when it is first asked: a call that is left to a gateway needs none.
type lateAsker struct {
	cmd *hookCmd
	s   *std
	g   *connection
}

func (a *lateAsker) gate(ctx context.Context) (*connection, error) {
	if a.g == nil {
		g, err := a.cmd.connect(ctx, a.s)
		if err != nil {
			return nil, errors.New(plainly(err, err.Error()))
		}
		a.g = g
	}
	return a.g, nil
}

// connect returns the gate that the settings name. COUNTERSIGN_SERVER, COUNTERSIGN_SOCKET and COUNTERSIGN_CONFIG,
// which a project's settings may set for the agent and so for its hooks, count only where they name none.
func (c *hookCmd) connect(ctx context.Context, s *std) (*connection, error) {
	if c.Own == "" {
		return c.connectAgent(ctx, s)
	}
	mine, err := localgate.At(c.Own, c.Server)
	if err != nil {
		return nil, usagef("--own: %s", err)
	}
	_, token, from := c.readFlags(s)
	g, err := c.dial(c.Server, token, from)
	if err != nil {
		return nil, err
	}
	g.own = &mine
	if err := g.renew(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Ask implements [client.Asker].
func (a *lateAsker) Ask(ctx context.Context, c client.Call, wait time.Duration) (client.Answer, error) {
	g, err := a.gate(ctx)
	if err != nil {
		return client.Answer{}, err
	}
	answer, err := g.Ask(ctx, c, wait)
	if err != nil {
		return client.Answer{}, a.fault(ctx, err)
	}
	return answer, nil
}

// Resolved implements [client.Asker].
func (a *lateAsker) Resolved(ctx context.Context, session string, wait time.Duration) ([]client.Approval, error) {
	g, err := a.gate(ctx)
	if err != nil {
		return nil, err
	}
	endings, err := g.Resolved(ctx, session, wait)
	if err != nil {
		return nil, a.fault(ctx, err)
	}
	return endings, nil
}

// Ack implements [client.Asker].
func (a *lateAsker) Ack(ctx context.Context, ids ...string) (client.Acked, error) {
	g, err := a.gate(ctx)
	if err != nil {
		return client.Acked{}, err
	}
	return g.Ack(ctx, ids...)
}

// fault says what went wrong between us and the gate.
func (a *lateAsker) fault(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errGaveUp
	}
	text := plainly(err, a.g.failure(err).Error())
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == string(approval.CodeRateLimited) {
		return &busyError{text}
	}
	return errors.New(text)
}

// busyError is of a gate whose agent is over a budget.
type busyError struct{ text string }

func (e *busyError) Error() string { return e.text }
func (e *busyError) Unwrap() error { return &approval.Error{Code: approval.CodeRateLimited} }

// plainly returns text, which quotes err, with what the system and Go's library say in it put into words that
// a model and a person can read.
func plainly(err error, text string) string {
	for err != nil {
		if words := systemWords(err); words != "" && strings.Contains(text, err.Error()) {
			return strings.Replace(text, err.Error(), words, 1)
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				text = plainly(e, text)
			}
			return text
		}
		err = errors.Unwrap(err)
	}
	return text
}

// systemWords says what went wrong, "" for an error that is not the system's.
func systemWords(err error) string {
	subject := "it"
	switch e := err.(type) {
	case *fs.PathError:
		subject = e.Path
	case *exec.Error:
		subject = e.Name
	case *url.Error, *net.OpError, *net.DNSError, *os.SyscallError, syscall.Errno, *json.SyntaxError,
		*tls.CertificateVerificationError:
	default:
		if err != context.DeadlineExceeded && err != context.Canceled && err != io.EOF && err != io.ErrUnexpectedEOF {
			return ""
		}
	}
	timed, _ := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case timed != nil && timed.Timeout():
		return subject + " took too long"
	case errors.Is(err, context.Canceled):
		return "it was broken off"
	case unknown:
		return "the name of the host is not known"
	case untrusted:
		return "its certificate is not trusted"
	case syntax:
		return "it is not JSON"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return subject + " is not there"
	case errors.Is(err, fs.ErrPermission):
		return subject + " may not be used by this user"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return "the connection broke"
	}
	return subject + " could not be used"
}
