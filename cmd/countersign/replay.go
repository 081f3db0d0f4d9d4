package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/config"
	"countersign/internal/history"
)

type replayCmd struct {
	remote
	output
	times
	long
	period
	Policy  string `required:"" placeholder:"FILE" help:"The policy to try: a configuration file, such as a changed copy of countersign.yaml."`
	EnvFile string `placeholder:"FILE" help:"The file with its variables, as with check."`
}

func (*replayCmd) Help() string {
	return `It applies another policy to recorded requests with all their arguments and, for admins, to calls that rules allowed or denied or that grants covered. Of such calls the audit log keeps only the start of the masked arguments; a call that this leaves uncertain counts as unknown, never as safe.

Calls that people denied and that the policy would let through come first. If there are any, the exit code is 3, else 0.

Examples:

    countersign replay --policy new.yaml
    countersign replay --policy new.yaml --since 7d --json`
}

func (c *replayCmd) Run(ctx context.Context, s *std) error {
	since, err := c.since(s.now())
	if err != nil {
		return err
	}
	f := file{Config: c.Policy, EnvFile: c.EnvFile}
	env, err := f.env(s)
	if err != nil {
		return err
	}
	cfg, _, err := f.loadWith(s, env)
	if err != nil {
		return err
	}
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := reading{g: g, s: s, since: since}
	known, err := r.knownSince(ctx)
	if err != nil {
		return g.failure(err)
	}
	result, err := history.Replay(ctx, cfg.Policy, hintsOf(cfg.Policy.Rules()), r.everything(ctx))
	s.clear()
	if err != nil {
		return g.failure(err)
	}
	if r.noAudit {
		s.warn("only admins read the audit log: the calls that rules or grants decided were not judged")
	}
	if c.forPrograms() {
		err = c.print(s, withKnown(replayJSON(result, c.Policy, cfg.Policy.Digest(), since), known))
	} else {
		end := s.startPager()
		s.printKnown(known)
		s.printReplay(c.Policy, result)
		end()
	}
	if err == nil && len(result.Denied) > 0 {
		return &exitError{exitDenied, ""}
	}
	return err
}

// hintsOf are what servers may have said of tools, as far as the rules ask.
func hintsOf(rules []config.Rule) []*approval.Annotations {
	var used []*approval.Annotations
	for _, r := range rules {
		used = append(used, r.Annotations)
	}
	return history.Hints(used...)
}

// reading reads the record over the API.
type reading struct {
	g       *connection
	s       *std
	since   time.Time
	noAudit bool // the audit log was refused
	read    int
}

// everything is all calls on record.
func (r *reading) everything(ctx context.Context) iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for _, part := range []iter.Seq2[history.Record, error]{
			r.requests(ctx), r.events(ctx, approval.EventCallAllowed), r.events(ctx, approval.EventCallDenied),
			r.events(ctx, approval.EventGrantUsed),
		} {
			for x, err := range part {
				if !yield(x, err) || err != nil {
					return
				}
			}
		}
	}
}

// knownSince is from when on the gate has all calls with their arguments, where it has removed some since the start of
// the time that is read; else the zero time.
func (r *reading) knownSince(ctx context.Context) (time.Time, error) {
	// No figures are wanted, only what comes with them.
	stats, err := r.g.Stats(ctx, client.StatsQuery{Since: r.since, Until: r.since.Add(time.Millisecond)})
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == "not_an_approver" {
		return time.Time{}, nil // but whoever reads the record otherwise may
	}
	return stats.CallsKnownSince.Time, err
}

// printKnown says from when on all is known, unless that is the whole time.
func (s *std) printKnown(known time.Time) {
	if !known.IsZero() {
		s.printf("Older calls or their arguments are not kept. The record is complete from %s on.\n\n",
			s.clock(known, s.now()))
	}
}

// withKnown has an answer for programs say the same.
func withKnown(answer map[string]any, known time.Time) map[string]any {
	if !known.IsZero() {
		answer["known_since"] = approval.FormatTime(known)
	}
	return answer
}

func (r *reading) progress() {
	if r.read++; r.read%500 == 0 {
		r.s.doing("%d calls read", r.read)
	}
}

// requests are the requests on record, newest first.
func (r *reading) requests(ctx context.Context) iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		q := client.ApprovalQuery{Limit: 200}
		for {
			page, err := r.page(ctx, q)
			if err != nil {
				yield(history.Record{}, err)
				return
			}
			for _, a := range page.Items {
				if a.RequestedAt.Before(r.since) {
					return
				}
				r.progress()
				if !yield(asRecord(a), nil) {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// page reads one, and waits where it was too much at once.
func (r *reading) page(ctx context.Context, q client.ApprovalQuery) (client.Page[client.Approval], error) {
	for {
		page, err := r.g.Approvals(ctx, q)
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Code != "rate_limited" || e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
			return page, err
		}
		r.s.doing("%d calls read, waiting for %s", r.read, e.RetryAfter)
		select {
		case <-ctx.Done():
			return page, ctx.Err()
		case <-time.After(e.RetryAfter):
		}
	}
}

func asRecord(a client.Approval) history.Record {
	r := history.Record{ID: a.ID, At: a.RequestedAt.Time, Agent: a.Agent, Scope: a.Scope, Server: a.Server, Tool: a.Tool,
		Session: a.SessionID, Args: a.Args, Was: history.Was(a.Status), By: a.ResolvedBy, Reason: a.ResolveReason,
		Rule: a.Rule, Risk: approval.Risk(a.RiskLevel), Card: a.BatchID,
		Unknown: a.ReasonCode == approval.ReasonUnknownTool}
	r.Needs = len(a.Needs) > 1 || slices.ContainsFunc(a.Needs, func(s client.Stage) bool {
		return s.Count > 1 || s.Group != "" || len(s.Approvers) > 0
	})
	if !a.ArgsRemovedAt.IsZero() {
		r.Args = nil // they are null, which no call's were
	}
	if r.Was == history.WasDenied && a.ResolvedVia == string(approval.ViaSystem) {
		r.Was = history.WasCancelled // no person's word
	}
	return r
}

// events are the calls that the audit log has of a type.
func (r *reading) events(ctx context.Context, t approval.EventType) iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pipe, into := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			q := client.AuditQuery{EventType: string(t), Since: r.since}
			into.CloseWithError(r.g.ExportAudit(ctx, q, "ndjson", into))
		}()
		defer func() {
			cancel()
			pipe.Close()
			<-done
		}()
		lines := json.NewDecoder(bufio.NewReader(pipe))
		for {
			var e client.AuditEvent
			err := lines.Decode(&e)
			refused, ok := errors.AsType[*client.Error](err)
			switch {
			case err == io.EOF:
				return
			case ok && refused.Code == "not_admin":
				r.noAudit = true
				return
			case err != nil:
				yield(history.Record{}, err)
				return
			}
			r.progress()
			x, is := history.OfEvent(approval.Event{ID: e.ID, At: e.At.Time, Type: approval.EventType(e.EventType),
				Agent: e.Agent, Tool: e.Tool, Risk: approval.Risk(e.RiskLevel), Data: e.Data})
			if is && !yield(x, nil) {
				return
			}
		}
	}
}

// warn says what else is to be known.
func (s *std) warn(text string) { _, _ = io.WriteString(s.err, "countersign: "+text+"\n") }

func (s *std) printReplay(name string, r history.Replayed) {
	name = visible(name)
	if r.Calls == 0 {
		s.printf("There is no call on record in this time.\n")
		return
	}
	if n := len(r.Denied); n > 0 {
		s.printf("%s would have let through %s that people denied:\n\n", name, count(n, "call", "calls"))
		s.cases(r.Denied)
	} else {
		s.printf("%s would have let through no call that people denied.\n", name)
	}
	if n := len(r.Refused); n > 0 {
		s.printf("\nIt would have let through what a rule denied:\n\n")
		s.cases(r.Refused)
	}
	s.printf("\n%s on record, and what it would have done:\n\n", count(r.Calls, "call", "calls"))
	rows := [][]string{{"", "ALLOWED", "ASKED", "DENIED", "UNKNOWN"}}
	for _, was := range wasOrder {
		if now := r.Table[was]; now != nil {
			row := []string{wasWords[was]}
			for _, n := range []history.Now{history.NowAllow, history.NowAsk, history.NowDeny, history.NowUnknown} {
				row = append(row, strconv.Itoa(now[n]))
			}
			rows = append(rows, row)
		}
	}
	s.table(rows...)
	s.counts("\nJudged otherwise:\n\n", r.Changes)
	s.counts("\nUnknown: too little is on record of these, or it hangs on what is not.\n\n", r.Unknown)
}

var wasOrder = []history.Was{history.WasDenied, history.WasApproved, history.WasExpired, history.WasCancelled,
	history.WasPending, history.WasGranted, history.WasRefused, history.WasAllowed}

// wasWords say what became of a call.
var wasWords = map[history.Was]string{
	history.WasDenied: "denied by people", history.WasApproved: "approved", history.WasExpired: "expired",
	history.WasCancelled: "cancelled", history.WasPending: "pending", history.WasRefused: "denied by a rule",
	history.WasAllowed: "allowed by a rule", history.WasGranted: "let through by a grant",
}

func (s *std) cases(cs []history.Case) {
	at := s.now()
	rows := [][]string{{"AT", "CALL", "AGENT", "DENIED BY", "REASON", "NOW", "ARGUMENTS"}}
	for _, c := range cs {
		by, now := c.By, ruleName(c.NowRule)
		if c.Was == history.WasRefused {
			by = "rule " + ruleName(c.Rule)
		}
		rows = append(rows, []string{s.clock(c.At, at), c.Target() + " " + client.ShortID(c.ID),
			c.Agent, by, shorten(c.Reason, 60), "allowed by " + now, shorten(string(c.Args), 100)})
	}
	s.table(rows...)
}

func ruleName(name string) string {
	if name == "" {
		return "(no rule)"
	}
	return name
}

// maxCounts is how many rows of a kind are printed; --json has them all.
const maxCounts = 40

func (s *std) counts(head string, cs []history.Count) {
	if len(cs) == 0 {
		return
	}
	s.printf("%s", head)
	rows := [][]string{{"CALLS", "TOOL", "WAS", "NOW", "BY", "SUCH AS"}}
	for _, c := range cs[:min(len(cs), maxCounts)] {
		by := ""
		if c.Now != history.NowUnknown {
			by = ruleName(c.Rule)
		}
		rows = append(rows, []string{strconv.Itoa(c.Calls), c.Tool, wasWords[c.Was], nowWords[c.Now], by, c.IDs[0]})
	}
	s.table(rows...)
	if more := len(cs) - maxCounts; more > 0 {
		s.printf("and %d more; --json has all\n", more)
	}
}

var nowWords = map[history.Now]string{history.NowAllow: "allowed", history.NowAsk: "asked", history.NowDeny: "denied",
	history.NowUnknown: "unknown"}

// replayJSON is what was found, for programs.
func replayJSON(r history.Replayed, name, digest string, since time.Time) map[string]any {
	cases := func(cs []history.Case) []map[string]any {
		all := []map[string]any{}
		for _, c := range cs {
			all = append(all, map[string]any{"id": c.ID, "at": approval.FormatTime(c.At), "agent": c.Agent, "tool": c.Target(),
				"was": c.Was, "by": c.By, "reason": c.Reason, "rule": c.Rule, "now_rule": c.NowRule})
		}
		return all
	}
	counts := func(cs []history.Count) []map[string]any {
		all := []map[string]any{}
		for _, c := range cs {
			all = append(all, map[string]any{"tool": c.Tool, "was": c.Was, "now": c.Now, "rule": c.Rule, "calls": c.Calls,
				"ids": c.IDs})
		}
		return all
	}
	return map[string]any{"policy": name, "policy_digest": digest, "since": approval.FormatTime(since), "calls": r.Calls,
		"denied_by_people_now_allowed": cases(r.Denied), "denied_by_rule_now_allowed": cases(r.Refused),
		"changes": counts(r.Changes), "unknown": counts(r.Unknown), "table": r.Table}
}
