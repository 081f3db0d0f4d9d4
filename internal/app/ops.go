package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"countersign/approval"
)

// healthz says that the process answers.
func (a *App) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

type readiness struct {
	Status   string   `json:"status"` // ready, or why not
	Problems []string `json:"problems"`
}

// readyz says whether calls can be decided: 503 while the store does not answer or the program stops.
// Problems that keep people from being reached are named under a 200, because the gate itself holds.
func (a *App) readyz(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	out := readiness{Status: "ready", Problems: []string{}}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if a.stopping.Err() != nil {
		status, out.Status = http.StatusServiceUnavailable, "stopping"
	} else if err := a.store.Ping(ctx); err != nil {
		status, out.Status = http.StatusServiceUnavailable, "the store does not answer"
		if e, ok := errors.AsType[*approval.Error](err); ok {
			out.Problems = append(out.Problems, e.Message)
		}
		a.log.ErrorContext(ctx, "not ready", "error", err)
	}
	out.Problems = append(out.Problems, a.problems()...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(out)
}

// problems names what keeps people from being reached, now.
func (a *App) problems() []string {
	l := a.live.Load()
	ps := a.unreachable()
	ps = append(ps, reports(l.channels)...)
	ps = append(ps, reports(a.handlers())...)
	ps = append(ps, a.store.Problems()...)
	switch c := a.store.Clock(); {
	case c.Lead > 0:
		ps = append(ps, fmt.Sprintf("this machine's clock has jumped %v ahead; the store's time follows in %v and ends what "+
			"is due then: if the clock is wrong, set it right by then; if it is right, an admin can say so at once: "+
			"countersign clock accept", c.Lead.Round(time.Second), c.For.Round(time.Second)))
	case c.Ahead >= time.Second && !c.Accepted:
		ps = append(ps, fmt.Sprintf("this machine's clock is %v behind the store's time, which never goes back and runs a "+
			"hundredth slower until they meet: see that the clock is right; if it is, an admin can say so: "+
			"countersign clock accept", c.Ahead.Round(time.Second)))
	}
	if why := a.unread.Load(); why != nil {
		ps = append(ps, "the configuration was not reloaded ("+*why+"): the earlier one stays in force")
	}
	for _, c := range a.certificates {
		ps = append(ps, c.Problems()...)
	}
	ps = append(ps, a.serverProblems()...)
	if why := a.openID.Trouble(); why != "" {
		ps = append(ps, "nobody can sign in at the OpenID provider: "+why)
	}
	return append(ps, a.sender.Problems()...)
}

// unreachable names what in the configuration keeps people from being reached.
func (a *App) unreachable() []string {
	var ps []string
	if len(a.live.Load().routes) == 0 {
		ps = append(ps, "no channel has a recipient: people are to be asked and nobody is notified; configure "+
			"channels.line.notify, channels.slack or channels.webhook.notify, or give people channels")
	}
	approvers := 0
	for _, p := range a.directory.People() {
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
