package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"countersign/internal/loopback"
)

// LocalAgent is the agent that callers over the gate's unix socket are, where the configuration names no
// other.
const LocalAgent = "local"

// Anonymous says which agents callers without a token are. The zero Anonymous lets no caller in. An agent is
// all that they can be: deciding takes a person's token, over whatever way it comes.
type Anonymous struct {
	TCP    string // over the loopback interface; "": none
	Socket string // over the gate's unix socket, to which only the gate's own user comes; "": none
}

// Admit reports which agent sends a request that has no token. A request that comes from somewhere else, or
// may have been brought by a browser or a proxy for another program, is no agent's: callers such as those have a
// token to show. What cannot be told of a request counts against it. A caller that waits is to be admitted again
// after the wait.
func (a Anonymous) Admit(r *http.Request) (agent string, ok bool) {
	if _, has := r.Header["Authorization"]; has || r.URL.Host != "" || isCarried(r.Header) {
		return "", false
	}
	switch at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); at := at.(type) {
	case *net.UnixAddr:
		// Nothing is foreign to a socket by its address; but a name with a dot is of a web site, whose page
		// came here through a forwarded port.
		host, _ := hostPort(r.Host)
		if !loopback.IsHost(host) && (host == "" || strings.ContainsAny(host, ".:")) || len(r.Header["Origin"]) > 0 {
			return "", false
		}
		return a.Socket, a.Socket != ""
	case *net.TCPAddr:
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() || !at.IP.IsLoopback() {
			return "", false
		}
		if host, port := hostPort(r.Host); !loopback.IsHost(host) || port != at.AddrPort().Port() {
			return "", false
		}
		own := "http://" + r.Host
		if r.TLS != nil {
			own = "https://" + r.Host
		}
		if o := r.Header["Origin"]; len(o) > 1 || len(o) == 1 && !strings.EqualFold(o[0], own) {
			return "", false
		}
		return a.TCP, a.TCP != ""
	}
	return "", false
}

// hostPort takes a Host header apart; the port is 80 where it says none, 0 where it says nonsense.
func hostPort(s string) (host string, port uint16) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().String(), ap.Port()
	}
	host, digits, err := net.SplitHostPort(s)
	if err != nil {
		return strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), 80
	}
	ap, err := netip.ParseAddrPort("0.0.0.0:" + digits)
	if err != nil {
		return host, 0
	}
	return host, ap.Port()
}

// What proxies, tunnels and content networks add to what they pass on, in lower case.
var (
	carriers = map[string]bool{
		"forwarded": true, "via": true, "client-ip": true, "true-client-ip": true, "fastly-client-ip": true,
		"fly-client-ip": true, "cdn-loop": true,
		"x-real-ip": true, "x-client-ip": true, "x-cluster-client-ip": true, "x-proxyuser-ip": true, "x-remote-ip": true,
		"x-remote-addr":    true,
		"x-originating-ip": true, "x-original-host": true, "x-host": true, "x-appengine-user-ip": true,
		"x-amzn-trace-id":  true,
		"x-azure-clientip": true, "x-arr-log-id": true,
		"x-countersign-hop": true, // another replica of the gate
	}
	carrierPrefixes = []string{"x-forward", "x-original-forwarded", "cf-", "x-envoy-", "tailscale-", "x-amz-cf-",
		"x-vercel-", "fastly-", "x-akamai-"}
)

// isCarried reports whether another program than its sender brought the request: a proxy, or a browser for a
// page of another site.
func isCarried(h http.Header) bool {
	for name, values := range h {
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if carriers[name] {
			return true
		}
		for _, p := range carrierPrefixes {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
		if name == "sec-fetch-site" && (len(values) != 1 || values[0] != "same-origin" && values[0] != "none") {
			return true
		}
	}
	return false
}
