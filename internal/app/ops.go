package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/internal/auth"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
)

// healthz says that the process answers.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// health tells how every part of the program does.
type health struct{ a *App }

type readiness struct {
	Status   string   `json:"status"` // ready, or why not
	Problems []string `json:"problems"`
}

// readyz says whether calls can be decided: 503 while the store does not answer or the program stops.
// Problems that keep people from being reached are named under a 200, because the gate itself holds.
func (h health) readyz(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	out := readiness{Status: "ready", Problems: []string{}}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if h.a.stopping.Err() != nil || h.a.withdrawn.Load() {
		status, out.Status = http.StatusServiceUnavailable, "stopping"
	} else if err := h.a.store.Ping(ctx); err != nil {
		status, out.Status = http.StatusServiceUnavailable, "the store does not answer"
		if e, ok := errors.AsType[*approval.Error](err); ok {
			out.Problems = append(out.Problems, e.Message)
		}
		h.a.log.ErrorContext(ctx, "not ready", "error", err)
	}
	if since := h.a.reloader.behind.Load(); since != nil && status == http.StatusOK &&
		h.a.o.Now().Sub(*since) >= tooLongBehind {
		status, out.Status = http.StatusServiceUnavailable, "its configuration is older than that of others"
	}
	out.Problems = append(out.Problems, h.problems()...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(out)
}

// problems names what keeps people from being reached, now.
func (h health) problems() []string {
	l := h.a.live.Load()
	ps := findUnreachable(l, h.a.directory)
	ps = append(ps, problemsOf(l.channels)...)
	ps = append(ps, problemsOf(h.a.receivers.handlers())...)
	ps = append(ps, h.a.store.Problems()...)
	ps = append(ps, h.a.disk.problems()...)
	ps = append(ps, h.a.growth.problems()...)
	ps = append(ps, h.a.backups.problems()...)
	if why := h.a.reloader.failed.Load(); why != nil {
		ps = append(ps, "the configuration was not reloaded ("+*why+"): the earlier one stays in force")
	}
	if since := h.a.reloader.behind.Load(); since != nil {
		ps = append(ps, "other programs on the store have a newer configuration since "+approval.FormatTime(*since)+
			": give this one the same, or stop it")
	}
	for _, c := range h.a.listeners.certificates {
		ps = append(ps, c.Problems()...)
	}
	ps = append(ps, serverProblems(h.a.gateway.Health(), h.a.live.masker())...)
	if why := h.a.openID.Trouble(); why != "" {
		ps = append(ps, "nobody can sign in at the OpenID provider: "+why)
	}
	return append(ps, h.a.sender.Problems()...)
}

// serverProblems names the MCP servers that cannot be used, and tools that cannot be offered.
func serverProblems(servers []gateway.ServerHealth, m *redact.Masker) []string {
	var ps []string
	for _, h := range servers {
		switch h.State {
		case upstream.Down:
			why := "its connection ended"
			if h.Err != nil {
				why = explainDown(h.Err, m)
			}
			ps = append(ps, fmt.Sprintf("the MCP server %s is down since %s (%s): its tools are not offered", h.Server,
				approval.FormatTime(h.Since), why))
		case upstream.Starting:
			ps = append(ps, fmt.Sprintf("the MCP server %s is starting", h.Server))
		}
		for _, p := range h.Problems {
			ps = append(ps, fmt.Sprintf("the MCP server %s: %s", h.Server, mask(p, m)))
		}
	}
	return ps
}

// explainDown says why a server is down, with the last words of one that is slow to start: it may be installing itself.
func explainDown(err error, m *redact.Masker) string {
	why := mask(upstream.Brief(err), m)
	if words := upstream.LastWords(err); words != "" {
		why += "; it last wrote: " + mask(words, m)
	}
	return why
}

// mask is a text of a server's as the operator is shown it.
func mask(s string, m *redact.Masker) string {
	text, _ := m.ForLogs().Text(s)
	return legible.Lines(text)
}

// findUnreachable names what in the configuration keeps people from being reached.
func findUnreachable(l *live, known *auth.Directory) []string {
	var ps []string
	if len(l.routes) == 0 {
		ps = append(ps, "no channel has a recipient: people are to be asked and nobody is notified; configure "+
			"channels.line.notify, channels.slack or channels.webhook.notify, or give people channels")
	}
	approvers := 0
	for _, p := range known.People() {
		if p.Approver {
			approvers++
		}
	}
	if approvers == 0 {
		ps = append(ps, "nobody has the role approver: no request can be decided")
	}
	return ps
}

// Gate is the gate, for tests that look behind the outside.
func (a *App) Gate() *approval.Gate { return a.gate }
