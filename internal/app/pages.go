package app

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/internal/config"
	"countersign/internal/listener"
	"countersign/internal/policy"
	"countersign/internal/web"
)

// newPages makes the pages.
func (a *App) newPages() *web.Server {
	o := web.Options{Gate: a.gate, Directory: a.directory, Sessions: web.SignedIn(a.signIn),
		SignIn: a.signIn, OpenID: a.openID, Passkeys: a.passkeys, Address: a.remote, Base: a.base, Masker: a.masker,
		Notifications: a.outbox, Granted: a.chat, Pushes: a.outbox, Explainer: explainer{a}, Describer: a.gateway,
		Room:  func(at approval.Address) bool { return slices.Contains(a.live.Load().rooms, at) },
		Known: signedIn, Logger: a.part("web"), Stopping: a.stopping, Now: a.o.Now}
	a.aroundInbox(&o)
	return web.New(o)
}

// explainer says how the policy of now answers the call of a request.
type explainer struct{ a *App }

func (e explainer) ExplainRequest(r approval.Request) ([]web.RuleAnswer, error) {
	c, err := r.Call()
	if err != nil {
		return nil, err
	}
	var all []web.RuleAnswer
	for _, step := range e.a.live.Load().cfg.Policy.Explain(c).Steps {
		if step.Result == policy.StepNoMatch || step.Result == policy.StepNotReached {
			continue
		}
		all = append(all, web.RuleAnswer{Rule: cmp.Or(step.Rule.Name, step.Rule.Action.Word()),
			Decides: step.Result == policy.StepDecides, Why: step.Why})
	}
	return all, nil
}

// base is where people reach the pages: public_url, and without one this machine. "": nowhere, since in the clear
// nobody signs in from another one.
func (a *App) base() string {
	cfg := a.live.Load().cfg
	if cfg.PublicURL != "" {
		return cfg.PublicURL
	}
	at, pair := a.listener, cfg.TLS
	if a.atPages != nil {
		at, pair = a.atPages, cfg.PagesTLS
	}
	bound, ok := at.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	scheme, host := "http", "localhost"
	if pair != nil {
		scheme = "https"
	}
	if !bound.IP.IsUnspecified() && !listener.IsLocalhost(bound.String()) {
		if pair == nil && !bound.IP.IsLoopback() {
			return ""
		}
		host = bound.AddrPort().Addr().Unmap().WithZone("").String() // where it alone listens: localhost may be another's
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(bound.Port))
}

// pagesBefore has the pages answer what is theirs, and next the rest.
func (a *App) pagesBefore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/") && a.pages.Has(r.URL.Path) {
			a.pages.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listenForPages gives the pages, and /mcp beside them, a listener of their own.
func (a *App) listenForPages(cfg *config.Config) (err error) {
	if a.atPages, err = a.bind("pages_listen", cfg.PagesListen); err != nil {
		return err
	}
	ours := exactly{"/mcp": a.mcp(cfg, a.atPages)}
	return a.serveOn(namePages, a.atPages, cfg.PagesTLS, ours.before(a.pages))
}
