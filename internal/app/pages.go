package app

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/internal/config"
	"countersign/internal/policy"
	"countersign/internal/web"
)

// newPages makes the pages.
func (a *App) newPages() *web.Server {
	return web.New(web.Options{Gate: a.gate, Directory: a.directory, Sessions: web.SignedIn(a.signIn),
		Roster: roster{a.who}, Freezes: a.chat, Status: health{a}.statusPage, History: a.store, NameOf: a.who.nameOf,
		Kept: a.live.kept, Budgets: a.budgets, SignIn: a.signIn, OpenID: a.openID, Passkeys: a.passkeys,
		Address: a.listeners.remote, Base: a.listeners.base, Masker: a.live.masker,
		Notifications: a.outbox, Granted: a.chat, Pushes: a.outbox, Explainer: explainer{&a.live}, Describer: a.gateway,
		Room:  func(at approval.Address) bool { return slices.Contains(a.live.Load().rooms, at) },
		Known: markPerson, Logger: a.logger("web"), Stopping: a.stopping, Now: a.o.Now})
}

// explainer says how the policy of now answers the call of a request.
type explainer struct{ live *inForce }

// ExplainRequest returns nothing for a request whose arguments were removed.
func (e explainer) ExplainRequest(r approval.Request) ([]web.RuleAnswer, error) {
	if !r.ArgsRemovedAt.IsZero() {
		return nil, nil
	}
	c, err := r.Call()
	if err != nil {
		return nil, err
	}
	var all []web.RuleAnswer
	for _, step := range e.live.Load().cfg.Policy.Explain(c).Steps {
		if step.Result == policy.StepNoMatch || step.Result == policy.StepNotReached {
			continue
		}
		all = append(all, web.RuleAnswer{Rule: cmp.Or(step.Rule.Name, step.Rule.Action.Word()),
			Decides: step.Result == policy.StepDecides, Why: step.Why, Said: step.Said})
	}
	return all, nil
}

// pagesBefore has the pages answer what is theirs, and what a browser looks for that is nobody's, and next the rest.
func pagesBefore(pages *web.Server, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isAPI := strings.HasPrefix(r.URL.Path, "/v1/")
		if !isAPI && (pages.Has(r.URL.Path) || strings.Contains(r.Header.Get("Accept"), "text/html")) {
			pages.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listenForPages gives the pages, and /mcp beside them, a listener of their own.
func (a *App) listenForPages(cfg *config.Config) (err error) {
	if a.listeners.pages, err = a.listeners.bind("pages_listen", cfg.PagesListen); err != nil {
		return err
	}
	ours := exactPaths{"/mcp": a.mcp(cfg, a.listeners.pages)}
	return a.listeners.serveOn(namePages, a.listeners.pages, cfg.PagesTLS, ours.before(a.pages))
}
