package listener

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses whose word is taken for where a request came from. Nobody else's is.
type Proxies []netip.Prefix

// ParseProxies reads addresses and networks such as 10.0.0.0/8. The error says what is wrong with the i-th.
func ParseProxies(texts []string) (p Proxies, i int, err error) {
	for i, s := range texts {
		at, err := parseProxy(s)
		if err != nil {
			return nil, i, err
		}
		p = append(p, at)
	}
	return p, 0, nil
}

func parseProxy(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	at, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return at, errors.New("is neither an address nor a network such as 10.0.0.0/8")
	case at.Addr().Is4In6():
		return at, errors.New("is an IPv4 network written as IPv6; write it as IPv4")
	case at.Bits() == 0:
		return at, errors.New("is everybody, who could then say that they are somebody else")
	case at != at.Masked():
		return at, fmt.Errorf("has bits beyond its length; %s is the network", at.Masked())
	}
	return at, nil
}

// Trust reports whether an address is a proxy's.
func (p Proxies) Trust(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, at := range p {
		if at.Contains(a) {
			return true
		}
	}
	return false
}

// Origin is where a request came from, as far as it can be told.
type Origin struct {
	// Addr is the address of the client, or of the nearest one that can be told; the zero one is this
	// machine, over a unix socket.
	Addr netip.Addr
	// Scheme is http or https: what the client speaks with the first of us.
	Scheme string
}

// String is the address, or "local".
func (o Origin) String() string {
	if !o.Addr.IsValid() {
		return "local"
	}
	return o.Addr.String()
}

// Site is what stands for the client where they are counted: of IPv6 the network.
func (o Origin) Site() string {
	if !o.Addr.IsValid() {
		return "local"
	}
	return network(o.Addr).String()
}

// maxForwarded is how much of forwarding headers is read, in bytes.
const maxForwarded = 4 << 10

// Origin says where a request came from: over whoever connected to us, if that is a proxy, back to the last
// address that is none. X-Forwarded-For and Forwarded both tell; a proxy that writes one often passes on
// what the client wrote into the other, so where they do not agree, or cannot be read, it is the proxy that
// stands for all it brings.
func (p Proxies) Origin(r *http.Request) Origin {
	o := Origin{Scheme: "http"}
	if r.TLS != nil {
		o.Scheme = "https"
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return o
	}
	o.Addr = peer.Addr().Unmap().WithZone("")
	if !p.Trust(o.Addr) {
		return o
	}
	xff, forwarded := r.Header["X-Forwarded-For"], r.Header["Forwarded"]
	var told Origin
	switch {
	case len(xff) == 0 && len(forwarded) == 0:
		return o
	case len(forwarded) == 0:
		told = p.last(readXForwardedFor(xff))
	case len(xff) == 0:
		told = p.last(readForwarded(forwarded))
	default:
		a, b := p.last(readXForwardedFor(xff)), p.last(readForwarded(forwarded))
		if a.Addr != b.Addr {
			return o
		}
		told = b
	}
	if !told.Addr.IsValid() {
		return o
	}
	o.Addr = told.Addr
	if protos := r.Header["X-Forwarded-Proto"]; len(protos) == 1 && told.Scheme == "" {
		told.Scheme = strings.ToLower(strings.TrimSpace(protos[0]))
	}
	if told.Scheme == "http" || told.Scheme == "https" {
		o.Scheme = told.Scheme
	}
	return o
}

// last returns the last hop that is no proxy of ours, or else the first of all; none where a hop on the way
// to it cannot be told.
func (p Proxies) last(hops []Origin) Origin {
	for i := len(hops) - 1; i >= 0; i-- {
		switch {
		case !hops[i].Addr.IsValid():
			return Origin{}
		case i == 0 || !p.Trust(hops[i].Addr):
			return hops[i]
		}
	}
	return Origin{}
}

// readXForwardedFor reads the hops of X-Forwarded-For. One that is no address has none.
func readXForwardedFor(lines []string) []Origin {
	all := strings.Join(lines, ",")
	cut := len(all) > maxForwarded
	if cut { // its end is what the nearest proxies wrote
		all = all[len(all)-maxForwarded:]
	}
	var hops []Origin
	for hop := range strings.SplitSeq(all, ",") {
		hops = append(hops, Origin{Addr: readHop(strings.Trim(hop, " \t"))})
	}
	if cut {
		hops[0] = Origin{} // a part of one
	}
	return hops
}

// readHop reads an address, with or without a port.
func readHop(s string) netip.Addr {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}
		}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// readForwarded reads the hops of Forwarded (RFC 7239); none where it is not well formed, since then nobody
// can tell where one ends.
func readForwarded(lines []string) []Origin {
	s := strings.Join(lines, ",")
	if len(s) > maxForwarded {
		return nil
	}
	var hops []Origin
	var hop Origin
	seen := map[string]bool{}
	for {
		s = strings.TrimLeft(s, " \t")
		if s != "" && s[0] != ',' && s[0] != ';' {
			name, value, rest, ok := readPair(s)
			if name = strings.ToLower(name); !ok || seen[name] {
				return nil
			}
			switch seen[name] = true; name {
			case "for":
				hop.Addr = readHop(value)
			case "proto":
				hop.Scheme = strings.ToLower(value)
			}
			s = strings.TrimLeft(rest, " \t")
		}
		switch {
		case s == "":
			return append(hops, hop)
		case s[0] == ',':
			hops, hop, seen = append(hops, hop), Origin{}, map[string]bool{}
		case s[0] != ';':
			return nil
		}
		s = s[1:]
	}
}

// readPair reads name=value or name="value" from the beginning of s.
func readPair(s string) (name, value, rest string, ok bool) {
	n := tokenLength(s)
	if n == 0 || n == len(s) || s[n] != '=' {
		return "", "", "", false
	}
	name, s = s[:n], s[n+1:]
	if !strings.HasPrefix(s, `"`) {
		n = tokenLength(s)
		return name, s[:n], s[n:], n > 0
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return name, b.String(), s[i+1:], true
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c < ' ' && c != '\t' || c == 0x7f:
			return "", "", "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", "", false
}

// tokenLength is how many bytes at the beginning of s are a token of HTTP. A colon, which is none, is taken
// too: clients write addresses with ports without the quotes they need.
func tokenLength(s string) int {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/;<=>?@[\]{}`, c) >= 0 {
			return i
		}
	}
	return len(s)
}
