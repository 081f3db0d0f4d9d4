package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/agents/localgate"
	"countersign/internal/secret"
)

const defaultServer = "http://127.0.0.1:8787"

// remote are the flags of the commands that talk to a gate.
type remote struct {
	Server string `placeholder:"URL" help:"The gate's address. Default: COUNTERSIGN_SERVER, else your own gate, else http://127.0.0.1:8787."`
	Token  string `placeholder:"TOKEN" help:"Your token. Default: COUNTERSIGN_TOKEN (which keeps it out of process lists), else, for people, the one that login stored."`
}

// connection is one to a gate, and what to say when it fails.
type connection struct {
	*client.Client
	server    string
	tokenFrom string          // what the token came from: --token, COUNTERSIGN_TOKEN or a file; "": there is none
	idle      string          // the configuration of the user's own gate, which may just not run; "": another is meant
	own       *localgate.Gate // the gate, where it is the user's own and may be started
}

// readFlags returns what the flags and the environment say.
func (r *remote) readFlags(s *std) (server, token, tokenFrom string) {
	server, token, tokenFrom = cmp.Or(r.Server, s.getenv("COUNTERSIGN_SERVER")), r.Token, "--token"
	if token == "" {
		token, tokenFrom = s.getenv("COUNTERSIGN_TOKEN"), "COUNTERSIGN_TOKEN"
	}
	return server, token, tokenFrom
}

// connect returns the gate for a person: the one that is named, else the user's own if it runs, else the one
// at the usual address. A person always has a token: one that is given, else the one stored for exactly this address.
func (r *remote) connect(s *std) (*connection, error) {
	_, token, from := r.readFlags(s)
	server := s.server(r.Server)
	if token == "" {
		var err error
		if token, from, err = s.login(server); err != nil {
			return nil, err
		}
	}
	if mine, ok := r.mine(s); ok && token == "" {
		return nil, usagef("no token: yours is in %s; set COUNTERSIGN_TOKEN to it for this command, or run countersign "+
			"login once, which stores it", envPath(mine.Config))
	}
	if token == "" {
		return nil, usagef("no token: countersign login stores one for %s; or set COUNTERSIGN_TOKEN, or give --token, to "+
			"the token that you have in the gate's configuration", server)
	}
	g, err := r.dial(server, token, from)
	if mine, ok := r.mine(s); ok && err == nil {
		g.idle = mine.Config
	}
	return g, err
}

// mine is the user's own gate, where there is a configuration of one and no other gate is named.
func (r *remote) mine(s *std) (localgate.Gate, bool) {
	if cmp.Or(r.Server, s.getenv("COUNTERSIGN_SERVER")) != "" {
		return localgate.Gate{}, false
	}
	g, err := localgate.Find(s.env)
	return g, err == nil && g.IsConfigured()
}

// server is the gate for a person: the one that is named, else the user's own if it runs, else the one at the usual
// address.
func (s *std) server(named string) string {
	if server := cmp.Or(named, s.getenv("COUNTERSIGN_SERVER")); server != "" {
		return server
	}
	if g, err := localgate.Find(s.env); err == nil {
		if up, err := g.Running(context.Background()); up {
			return g.Address()
		} else if err != nil {
			fmt.Fprintf(s.err, "countersign: %s; asking %s\n", visible(err.Error()), defaultServer)
		}
	}
	return defaultServer
}

// connectAgent returns the gate for an agent: the one that is named, else the user's own, which is started
// where it does not run and needs no token, else the one at the usual address, if there is a token for it.
func (r *remote) connectAgent(ctx context.Context, s *std) (*connection, error) {
	g, err := r.findAgents(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := g.renew(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// findAgents is connectAgent that starts nothing: [connection.renew] does, where it is the user's own.
func (r *remote) findAgents(ctx context.Context, s *std) (*connection, error) {
	server, token, from := r.readFlags(s)
	if server != "" || token != "" && !ownGate(ctx, s) {
		if token == "" && !strings.HasPrefix(server, "unix:") {
			return nil, usagef("no token: set COUNTERSIGN_TOKEN, or give --token, to the token that the agent has in the " +
				"gate's configuration")
		}
		return r.dial(cmp.Or(server, defaultServer), token, from)
	}
	mine, err := localgate.Find(s.env)
	if err != nil {
		return nil, usagef("%s; --server or COUNTERSIGN_SERVER names a gate that runs elsewhere", err)
	}
	g, err := r.dial(mine.Address(), token, from)
	if err != nil {
		return nil, err
	}
	g.own = &mine
	return g, nil
}

// ownGate reports whether the user has a gate of their own, be it only a configuration of one.
func ownGate(ctx context.Context, s *std) bool {
	g, err := localgate.Find(s.env)
	if err != nil {
		return false
	}
	up, err := g.Running(ctx)
	return up || err != nil || g.IsConfigured()
}

// renew starts the gate again if it is the user's own and has gone.
func (g *connection) renew(ctx context.Context) error {
	if g.own == nil {
		return nil
	}
	_, err := g.own.Up(ctx)
	if e, ok := errors.AsType[*localgate.StartError](err); errors.Is(err, localgate.ErrNoConfig) || ok &&
		e.Code == exitUsage {
		return usagef("%s", err)
	}
	if errors.Is(err, context.Canceled) {
		return &exitError{exitFailed, "interrupted"}
	}
	return err
}

// dial returns the gate at an address.
func (r *remote) dial(server, token, from string) (*connection, error) {
	if slip := secret.FindSlip(secret.Value(token)); slip != "" {
		return nil, usagef("the token of %s %s", from, slip)
	}
	c, err := client.New(server, token, client.WithName("cli"), client.WithProof())
	if err != nil {
		return nil, usagef("%s (--server, --token or their variables)", strings.TrimPrefix(err.Error(), "client: "))
	}
	if token == "" {
		from = ""
	}
	return &connection{Client: c, server: server, tokenFrom: from}, nil
}

// failure turns what the client returned into a sentence that says what to do, and an exit code.
func (g *connection) failure(err error) error {
	if errors.Is(err, context.Canceled) {
		return &exitError{exitFailed, "interrupted"}
	}
	e, refused := errors.AsType[*client.Error](err)
	if !refused {
		return g.explainUnanswered(err)
	}
	detail := e.Detail
	if detail == "" {
		detail = e.Error()
	}
	detail = strings.TrimSuffix(detail, ".")
	switch e.Code {
	case "unauthorized":
		if g.tokenFrom == "" {
			return &exitError{exitDenied, fmt.Sprintf("the gate at %s lets nobody in without a token; set COUNTERSIGN_TOKEN, "+
				"or give --token, to one of its configuration", g.server)}
		}
		return &exitError{exitDenied, fmt.Sprintf("the gate at %s does not know the token in %s; it must be one of an "+
			"agent or a person in the gate's configuration", g.server, g.tokenFrom)}
	case "agents_only":
		return &exitError{exitDenied, fmt.Sprintf("only agents may do this, and the token in %s is a person's; use an "+
			"agent's token for it (people's tokens decide, and must stay out of an agent's reach)", g.tokenFrom)}
	case "people_only":
		return &exitError{exitDenied, fmt.Sprintf("only people may do this, and the token in %s is an agent's; use the "+
			"token of a person in the gate's configuration", g.tokenFrom)}
	case "not_an_approver":
		return &exitError{exitDenied, detail + "; the gate's configuration gives the role approver"}
	case "not_admin":
		return &exitError{exitDenied, detail + "; the gate's configuration gives the role admin"}
	case "not_failed":
		return &exitError{exitDenied, detail}
	case "rate_limited": // it says when to try again
		return &exitError{exitFailed, detail}
	case "already_resolved", "expired":
		return &exitError{exitOver, "too late: " + detail}
	case "already_voted", "not_your_stage", "policy_denied", "grant_refused", "step_up_required":
		return &exitError{exitDenied, detail}
	case "confirm_required":
		return &exitError{exitDenied, detail + "; nothing was decided: pass --yes"}
	case "ambiguous_id":
		return &exitError{exitUsage, detail}
	case "reason_required":
		return &exitError{exitUsage, detail + "; give one with --reason"}
	case "invalid_args", "invalid_tool", "invalid_parameter", "invalid_json", "too_large":
		return &exitError{exitUsage, detail}
	}
	if e.RetryAfter > 0 {
		detail = fmt.Sprintf("%s; try again in %s", detail, span(e.RetryAfter))
	}
	if e.CorrelationID != "" && e.Status >= 500 {
		detail = fmt.Sprintf("%s (correlation id %s)", detail, e.CorrelationID)
	}
	return &exitError{exitFailed, detail}
}

// explainUnanswered says of a gate that gave no answer what to do.
func (g *connection) explainUnanswered(err error) error {
	why := strings.TrimPrefix(err.Error(), "client: ")
	switch {
	case !client.Unreachable(err):
		return &exitError{exitFailed, why}
	case g.idle != "":
		return &exitError{exitFailed, fmt.Sprintf("your own gate is not running: it starts when an agent asks it; "+
			"`countersign serve --config %s` starts it now", g.idle)}
	}
	return &exitError{exitFailed, fmt.Sprintf("no gate answers at %s: is `countersign serve` running there? --server "+
		"or COUNTERSIGN_SERVER says where it is (%s)", g.server, why)}
}

// requestID is an id as it may have been copied out of a chat.
func requestID(s string) string { return strings.ToUpper(strings.TrimSpace(s)) }

// pages calls fetch for page after page until limit items are there, all of them for 0. A page may have few items, or
// none, where the gate had looked at enough for one answer: the next goes on.
func pages[T any](limit int, fetch func(after string, limit int) (client.Page[T], error)) (client.Page[T], error) {
	const most = 200 // the server's
	var all client.Page[T]
	for {
		n := most
		if limit > 0 {
			n = min(n, limit-len(all.Items))
		}
		after := all.Next
		page, err := fetch(after, n)
		if err != nil {
			return all, err
		}
		all.Items, all.Next = append(all.Items, page.Items...), page.Next
		all.Quotas, all.Heartbeat = page.Quotas, page.Heartbeat
		if page.Next == "" || page.Next == after || limit > 0 && len(all.Items) >= limit {
			return all, nil
		}
	}
}

// list is a page as JSON: the items under their name, and the cursor.
func list[T any](name string, p client.Page[T]) map[string]any {
	items := p.Items
	if items == nil {
		items = []T{}
	}
	var next any
	if p.Next != "" {
		next = p.Next
	}
	return map[string]any{name: items, "next": next}
}

// ago reads a point in time: RFC 3339, a day, or how long ago.
func ago(s string, now time.Time) (time.Time, error) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	if d, ok := inDays(s); ok {
		return now.AddDate(0, 0, -d), nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2026-11-21T09:30:00Z, 2026-11-21 (both UTC) or how long "+
		"ago, such as 24h or 30d", s)
}

// inDays reads a number of days, such as 30d.
func inDays(s string) (days int, ok bool) {
	text, found := strings.CutSuffix(s, "d")
	n, err := strconv.Atoi(text)
	return n, found && err == nil && n > 0 && n < 1e6
}
