package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/auth/bearer"
	"countersign/internal/config"
	"countersign/internal/loopback"
)

// listenForDebug serves profiles of the process on an address of their own, where there is one.
func (a *App) listenForDebug(cfg *config.Config) (err error) {
	if cfg.DebugListen == "" {
		return nil
	}
	if a.listeners.debug, err = a.listeners.bind("debug_listen", cfg.DebugListen); err != nil {
		return err
	}
	return a.listeners.serveOn(nameDebug, a.listeners.debug, nil, &profiles{log: a.log, directory: a.directory})
}

// DebugAddr is the address of the profiles, "" where there is none.
func (a *App) DebugAddr() string {
	if a.listeners.debug == nil {
		return ""
	}
	return a.listeners.debug.Addr().String()
}

// profilesPath is what the names of the profiles follow.
const profilesPath = "/debug/pprof/"

// profiles are the runtime's profiles, for admins on this machine: one at a time, since taking one costs the rest. What
// the process was started with is not among them.
type profiles struct {
	log       *slog.Logger
	directory *auth.Directory
	busy      sync.Mutex
}

func (p *profiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, status, why := p.admit(r)
	if why != "" {
		http.Error(w, why, status)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, profilesPath)
	if !ok || name == "cmdline" || name == "symbol" {
		http.NotFound(w, r)
		return
	}
	if name == "" {
		pprof.Index(w, r)
		return
	}
	if !p.busy.TryLock() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "Another profile is being taken.", http.StatusTooManyRequests)
		return
	}
	defer p.busy.Unlock()
	p.log.InfoContext(r.Context(), "a profile is taken", "profile", name, "by", who.String())
	switch name {
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Handler(name).ServeHTTP(w, r)
	}
}

// admit returns who asks, or why they may not: a page of another site that was brought here by its name, and callers
// who are no admins.
func (p *profiles) admit(r *http.Request) (who approval.Actor, status int, why string) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !loopback.IsHost(strings.Trim(host, "[]")) || r.Header.Get("Origin") != "" {
		return who, http.StatusForbidden, "profiles are for this machine alone, and for no browser's page"
	}
	who, ok := p.directory.ByToken(bearer.Token(r))
	switch {
	case !ok:
		return who, http.StatusUnauthorized, "an admin's token is needed: Authorization: Bearer TOKEN"
	case who.Kind != approval.Human || !who.Admin:
		return who, http.StatusForbidden, "only admins may take profiles"
	case r.Method != http.MethodGet:
		return who, http.StatusMethodNotAllowed, "profiles are read with GET"
	}
	markKnown(r, who)
	return who, 0, ""
}
