package listener

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func proxies(t testing.TB, texts ...string) Proxies {
	t.Helper()
	p, _, err := ParseProxies(texts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(from string, header http.Header) *http.Request {
	return &http.Request{RemoteAddr: from, Header: header}
}

// Rule 2.12: an address is believed only where it comes from one of our proxies.
func TestRule12_WhereARequestCameFrom(t *testing.T) {
	trusted := proxies(t, "10.0.0.0/8", "192.0.2.7", "2001:db8:ffff::/48")
	const proxy = "10.0.0.1:40000"
	for _, tt := range []struct {
		name, from string
		header     http.Header
		want       string
		scheme     string
	}{
		{"nobody between", "203.0.113.9:1", nil, "203.0.113.9", "http"},
		{"a stranger says they are somebody else", "203.0.113.9:1", http.Header{"X-Forwarded-For": {"198.51.100.1"},
			"X-Forwarded-Proto": {"https"}}, "203.0.113.9", "http"},
		{"a stranger who says it as RFC 7239 has it", "203.0.113.9:1",
			http.Header{"Forwarded": {"for=198.51.100.1;proto=https"}}, "203.0.113.9", "http"},
		{"a proxy that says nothing", proxy, nil, "10.0.0.1", "http"},
		{"a proxy", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1"}, "X-Forwarded-Proto": {"https"}}, "198.51.100.1",
			"https"},
		{"a proxy with one address", "192.0.2.7:1", http.Header{"X-Forwarded-For": {"198.51.100.1"}}, "198.51.100.1", "http"},
		{"a proxy over IPv6", "[2001:db8:ffff::1]:1", http.Header{"X-Forwarded-For": {"2001:db8::5"}}, "2001:db8::5", "http"},
		{"a proxy's IPv4 within IPv6", "[::ffff:10.0.0.1]:1", http.Header{"X-Forwarded-For": {"::ffff:198.51.100.1"}},
			"198.51.100.1", "http"},
		{"what the client had written stands before", proxy, http.Header{"X-Forwarded-For": {"192.0.2.99, 198.51.100.1"}},
			"198.51.100.1", "http"},
		{"in lines of its own", proxy, http.Header{"X-Forwarded-For": {"192.0.2.99", "198.51.100.1"}}, "198.51.100.1",
			"http"},
		{"two proxies", proxy, http.Header{"X-Forwarded-For": {"192.0.2.99,198.51.100.1,10.2.3.4"}}, "198.51.100.1", "http"},
		{"nobody but proxies", proxy, http.Header{"X-Forwarded-For": {"10.9.9.9, 10.2.3.4"}}, "10.9.9.9", "http"},
		{"with a port", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1:55"}}, "198.51.100.1", "http"},
		{"IPv6 with a port", proxy, http.Header{"X-Forwarded-For": {"[2001:db8::5]:55"}}, "2001:db8::5", "http"},
		{"IPv6 in brackets", proxy, http.Header{"X-Forwarded-For": {"[2001:db8::5]"}}, "2001:db8::5", "http"},
		{"no address", proxy, http.Header{"X-Forwarded-For": {"unknown"}}, "10.0.0.1", "http"},
		{"no address on the way", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1, unknown, 10.2.3.4"}}, "10.0.0.1",
			"http"},
		{"an empty hop", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1,"}}, "10.0.0.1", "http"},
		{"very long", proxy, http.Header{"X-Forwarded-For": {strings.Repeat("192.0.2.99,", 4000) + "198.51.100.1"}},
			"198.51.100.1", "http"},
		{"as RFC 7239 has it", proxy,
			http.Header{"Forwarded": {`for=192.0.2.99;proto=http, For="198.51.100.1:55";Proto=https;by=10.0.0.1`}},
			"198.51.100.1", "https"},
		{"IPv6 there", proxy, http.Header{"Forwarded": {`for="[2001:db8::5]:55"`}}, "2001:db8::5", "http"},
		{"a hidden client", proxy, http.Header{"Forwarded": {"for=_hidden"}}, "10.0.0.1", "http"},
		{"not well formed", proxy, http.Header{"Forwarded": {`for="198.51.100.1`}}, "10.0.0.1", "http"},
		{"twice in one hop", proxy, http.Header{"Forwarded": {`for=198.51.100.1;for=198.51.100.2`}}, "10.0.0.1", "http"},
		{"both agree", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=198.51.100.1;proto=https"}},
			"198.51.100.1", "https"},
		{"the client wrote the other one", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1"},
			"Forwarded": {"for=192.0.2.99"}}, "10.0.0.1", "http"},
		{"a scheme that is none", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1"}, "X-Forwarded-Proto": {"gopher"}},
			"198.51.100.1", "http"},
		{"two schemes", proxy, http.Header{"X-Forwarded-For": {"198.51.100.1"}, "X-Forwarded-Proto": {"https", "http"}},
			"198.51.100.1", "http"},
		{"a unix socket", "@", http.Header{"X-Forwarded-For": {"198.51.100.1"}}, "local", "http"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := trusted.Origin(request(tt.from, tt.header))
			if got.String() != tt.want || got.Scheme != tt.scheme {
				t.Errorf("got %s over %s, want %s over %s", got, got.Scheme, tt.want, tt.scheme)
			}
		})
	}
	secure := request("203.0.113.9:1", nil)
	secure.TLS = &tls.ConnectionState{}
	if got := trusted.Origin(secure); got.Scheme != "https" {
		t.Errorf("over TLS: %+v", got)
	}
	if a, b := (Origin{Addr: netip.MustParseAddr("2001:db8::1")}).Site(),
		(Origin{Addr: netip.MustParseAddr("2001:db8::2:3")}).Site(); a != b {
		t.Errorf("one network counts as %s and %s", a, b)
	}
}

func TestProxiesAreReadStrictly(t *testing.T) {
	for _, s := range []string{"", "proxy", "10.0.0.0/33", "10.0.0.1/8", "0.0.0.0/0", "::/0", "fe80::1%eth0",
		"::ffff:10.0.0.0/104", "10.0.0.0/8 "} {
		if p, i, err := ParseProxies([]string{"192.0.2.1", s}); err == nil || i != 1 {
			t.Errorf("%q: got %v, %d, %v", s, p, i, err)
		}
	}
	p := proxies(t, "192.0.2.0/24", "::1", "::ffff:198.51.100.1")
	for a, want := range map[string]bool{"192.0.2.255": true, "192.0.3.0": false, "::1": true, "::2": false,
		"198.51.100.1": true, "::ffff:192.0.2.9": true} {
		if got := p.Trust(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v, want %v", a, got, want)
		}
	}
}

// Whatever a client writes, it is counted under its own address or its proxy's.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"192.0.2.99", "unknown", `for="`, "for=192.0.2.99;proto=https", ",,", `"`,
		"10.0.0.9, 10.0.0.8", `for="\",for=1.2.3.4`, strings.Repeat("a,", 3000), "[::1", "for=;", "a=b;c=d"} {
		f.Add(s, s)
	}
	p := Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	const client, proxy = "203.0.113.9", "10.0.0.1:1"
	f.Fuzz(func(t *testing.T, xff, forwarded string) {
		one := p.Origin(request(proxy, http.Header{"X-Forwarded-For": {xff, client}})).String()
		if one != client {
			t.Errorf("X-Forwarded-For %q: got %s", xff, one)
		}
		for name, h := range map[string]http.Header{
			"Forwarded": {"Forwarded": {forwarded, "for=" + client}},
			"both":      {"X-Forwarded-For": {xff, client}, "Forwarded": {forwarded}},
			"appended":  {"X-Forwarded-For": {xff + ", " + client}, "Forwarded": {forwarded + ", for=" + client}},
		} {
			if got := p.Origin(request(proxy, h)); !slices.Contains([]string{client, "10.0.0.1"}, got.String()) {
				t.Errorf("%s: %q and %q: got %s", name, xff, forwarded, got)
			}
		}
		if got := p.Origin(request("198.51.100.1:1", http.Header{"X-Forwarded-For": {xff}, "Forwarded": {forwarded},
			"X-Forwarded-Proto": {xff}})); got.String() != "198.51.100.1" || got.Scheme != "http" {
			t.Errorf("a stranger with %q and %q: got %+v", xff, forwarded, got)
		}
	})
}
