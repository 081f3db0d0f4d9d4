package downstream

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"countersign/internal/loopback"
)

// Guard keeps out what a web site has a browser send: pages reach listeners on their visitor's machine
// by a name of their own that is made to mean 127.0.0.1. The zero Guard looks at Origin alone.
type Guard struct {
	// Loopback says that the listener serves this machine only: a Host that is not this machine, and not
	// allowed, is refused.
	Loopback bool
	// Allowed are hosts ("gate.example", "gate.example:8443") and origins ("https://gate.example") under
	// which the gate is known, as of public_url. One without a port stands for the usual ports.
	Allowed []string
}

// Check returns why a request is refused, an [ErrForbidden].
func (g Guard) Check(r *http.Request) error {
	if g.Loopback && !localSocket(r) && !isLoopback(r.Host) && !g.allows("", r.Host) {
		return ErrForbidden(fmt.Sprintf("Forbidden: the Host %q is not this machine. If the gate is to be reached under "+
			"that name, set public_url.", shorten(r.Host)))
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return nil
	}
	if len(origins) == 1 {
		if u, err := url.Parse(origins[0]); err == nil && u.Host != "" &&
			(sameHost(u.Scheme, u.Host, r.Host) || g.allows(u.Scheme, u.Host)) {
			return nil
		}
	}
	return ErrForbidden(fmt.Sprintf("Forbidden: the Origin %q is not the gate's own. Pages of other sites may not call "+
		"it; if this is the gate's own address, set public_url.", shorten(origins[0])))
}

// allows reports whether the host is one of the allowed, and of that scheme where both name one.
func (g Guard) allows(scheme, host string) bool {
	for _, a := range g.Allowed {
		s, h, ok := strings.Cut(a, "://")
		if !ok {
			s, h = "", a
		}
		h, _, _ = strings.Cut(h, "/")
		if s != "" && scheme != "" && !strings.EqualFold(s, scheme) {
			continue
		}
		if s == "" {
			s = scheme
		}
		if sameHost(s, h, host) {
			return true
		}
	}
	return false
}

// sameHost compares host and port. A port that is the scheme's own, or with no scheme known a usual one,
// is as good as none.
func sameHost(scheme, a, b string) bool {
	ah, ap := splitPort(a)
	bh, bp := splitPort(b)
	if ah == "" || !strings.EqualFold(ah, bh) {
		return false
	}
	return ap == bp || isDefaultPort(scheme, ap) && isDefaultPort(scheme, bp)
}

func isDefaultPort(scheme, port string) bool {
	switch port {
	case "":
		return true
	case "80":
		return !strings.EqualFold(scheme, "https")
	case "443":
		return !strings.EqualFold(scheme, "http")
	}
	return false
}

func splitPort(s string) (host, port string) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), ""
	}
	return strings.TrimSuffix(host, "."), port
}

func isLoopback(hostport string) bool {
	host, _ := splitPort(hostport)
	return loopback.IsHost(host)
}

// localSocket reports whether the request came over a unix socket, which browsers cannot reach.
func localSocket(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && a.Network() == "unix"
}

func shorten(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// ErrForbidden is an error of [Authenticate] for a caller who is known and may not come here, such as a
// person with a token of their own: the answer is 403, with this text.
type ErrForbidden string

func (e ErrForbidden) Error() string { return string(e) }
