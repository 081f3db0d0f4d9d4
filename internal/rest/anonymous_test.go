package rest

import (
	"bufio"
	"context"
	"countersign/internal/auth"
	"countersign/internal/testkit"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// open lets callers without a token in as bot over TCP and as local over the socket.
func open(s *Server) {
	s.callers.Anonymous = func() auth.Anonymous { return auth.Anonymous{TCP: "bot", Socket: auth.LocalAgent} }
}

// raw sends a request as it stands and returns the answer's status.
func raw(t *testing.T, network, address, request string) int {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(strings.ReplaceAll(request, "\n", "\r\n"))); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return resp.StatusCode
}

// onSocket serves w's API on a unix socket too.
func onSocket(w *world) (path string) {
	w.t.Helper()
	path = filepath.Join(w.t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: w.rest}}
	s.Start()
	w.t.Cleanup(s.Close)
	return path
}

const body = "Content-Type: application/json\nContent-Length: 20\nConnection: close\n\n" + `{"tool":"read_file"}`

func TestACallerWithoutATokenIsTheAnonymousAgent(t *testing.T) {
	w := newWorld(t, open)
	socket := onSocket(w)
	tcp := w.srv.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(tcp)
	for _, tt := range []struct {
		network, address, host, more string
	}{
		{"tcp", tcp, tcp, ""}, {"tcp", tcp, "localhost:" + port, ""}, {"tcp", tcp, "LocalHost:" + port, ""},
		{"tcp", tcp, "[::1]:" + port, ""},
		{"tcp", tcp, tcp, "Origin: http://" + tcp + "\nSec-Fetch-Site: same-origin\n"},
		{"tcp", tcp, tcp, "Sec-Fetch-Site: none\n"},
		{"unix", socket, "localhost", ""}, {"unix", socket, "gate", ""}, {"unix", socket, "127.0.0.1:1", ""},
		{"unix", socket, "[::1]", ""},
	} {
		if got := raw(t, tt.network, tt.address, "POST /v1/calls HTTP/1.1\nHost: "+tt.host+"\n"+tt.more+body); got != 200 {
			t.Errorf("%s, Host %s, %q: got %d, want 200", tt.network, tt.host, tt.more, got)
		}
	}
	r := w.do(hanaToken, "GET", "/v1/approvals", "")
	if n := len(r.list("approvals")); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
	agents := map[string]bool{}
	for _, e := range w.do(hanaToken, "GET", "/v1/audit?event_type=call_allowed", "").list("events") {
		agents[e["actor"].(string)] = true
	}
	if !agents["agent:bot"] || !agents["agent:local"] || len(agents) != 2 {
		t.Errorf("got the actors %v, want agent:bot and agent:local", agents)
	}
}

func TestAForeignRequestNeedsAToken(t *testing.T) {
	w := newWorld(t, open)
	socket := onSocket(w)
	tcp := w.srv.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(tcp)
	headers := []string{
		"Origin: null", "Origin: https://" + tcp, "Origin: http://evil.example", "Origin: http://localhost:1", "Origin: ",
		"Origin: http://" + tcp + "\nOrigin: http://" + tcp,
		"Origin: http://" + tcp + ".evil.example", "Origin: http://127.0.0.2:" + port, "Sec-Fetch-Site: cross-site",
		"Sec-Fetch-Site: same-site",
		"Sec-Fetch-Site: none\nSec-Fetch-Site: cross-site",
		"Forwarded: for=127.0.0.1", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost", "X-Forwarded-Proto: http",
		"x-forwarded-anything: 1", "X_Forwarded_For: 127.0.0.1",
		"X-Forwarded: 1", "X-Forward-For: 1", "X-Real-IP: 127.0.0.1", "Via: 1.1 proxy", "CF-Connecting-IP: 192.0.2.1",
		"CF-Ray: 1", "Cdn-Loop: cloudflare", "True-Client-IP: 127.0.0.1",
		"X-Client-IP: ::1", "Client-IP: ::1", "X-Cluster-Client-IP: ::1", "Fastly-Client-IP: ::1", "Fly-Client-IP: ::1",
		"X-Envoy-External-Address: ::1",
		"Tailscale-User-Login: hana", "X-Original-Host: a", "X-Original-Forwarded-For: ::1", "X-Amzn-Trace-Id: 1",
		"X-Amz-Cf-Id: 1", "X-ProxyUser-Ip: ::1", "Forwarded: ", "Via:",
		"Authorization: Bearer nobodys-token-000000", "Authorization: Bearer ", "Authorization:", "authorization: Basic Og==",
		"Authorization: Bearer " + botToken + "\nAuthorization: Bearer " + botToken,
	}
	for _, at := range []struct{ network, address, host string }{{"tcp", tcp, tcp}, {"unix", socket, "localhost"}} {
		for _, h := range headers {
			if got := raw(t, at.network, at.address, "POST /v1/calls HTTP/1.1\nHost: "+at.host+"\n"+h+"\n"+body); got != 401 {
				t.Errorf("%s with %q: got %d, want 401", at.network, h, got)
			}
		}
	}
	for _, host := range []string{"evil.example", "evil.example:" + port, "127.0.0.1", "localhost", "127.0.0.1:1",
		"127.0.0.1:", "127.0.0.1:+" + port, "0.0.0.0:" + port,
		"[::]:" + port, "192.168.0.1:" + port, "localhost.evil.example:" + port, "localhost.:" + port, "evil.localhost:" +
			port, "2130706433:" + port, "gate:" + port, "", "::1"} {
		if got := raw(t, "tcp", tcp, "POST /v1/calls HTTP/1.1\nHost: "+host+"\n"+body); got != 401 {
			t.Errorf("tcp with Host %q: got %d, want 401", host, got)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example", "", "192.168.0.1",
		"[fe80::1]:80"} {
		if got := raw(t, "unix", socket, "POST /v1/calls HTTP/1.1\nHost: "+host+"\n"+body); got != 401 {
			t.Errorf("unix with Host %q: got %d, want 401", host, got)
		}
	}
	if got := raw(t, "tcp", tcp, "POST http://"+tcp+"/v1/calls HTTP/1.1\nHost: "+tcp+"\n"+body); got != 401 {
		t.Errorf("a proxy's request line: got %d, want 401", got)
	}
	// With a token none of it matters.
	if got := raw(t, "tcp", tcp,
		"POST /v1/calls HTTP/1.1\nHost: gate.example\nX-Forwarded-For: 192.0.2.1\nAuthorization: Bearer "+botToken+"\n"+
			body); got != 200 {
		t.Errorf("through a proxy with a token: got %d, want 200", got)
	}
}

func TestOnlyLoopbackAndTheSocketHaveAnonymousCallers(t *testing.T) {
	both := auth.Anonymous{TCP: "bot", Socket: "local"}
	tcp := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	for _, tt := range []struct {
		who          auth.Anonymous
		at           net.Addr
		remote, host string
		want         string
	}{
		{both, tcp("127.0.0.1:80"), "127.0.0.1:5000", "127.0.0.1", "bot"},
		{both, tcp("[::1]:8787"), "[::1]:5000", "localhost:8787", "bot"},
		{both, tcp("127.0.0.1:8787"), "[::ffff:127.0.0.1]:5000", "localhost:8787", "bot"},
		{both, tcp("127.0.0.1:8787"), "192.0.2.1:5000", "localhost:8787", ""},
		{both, tcp("192.0.2.1:8787"), "127.0.0.1:5000", "localhost:8787", ""},
		{both, tcp("192.0.2.1:8787"), "192.0.2.1:5000", "localhost:8787", ""},
		{both, tcp("127.0.0.1:8787"), "", "localhost:8787", ""},
		{both, nil, "127.0.0.1:5000", "localhost:8787", ""},
		{both, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8787}, "127.0.0.1:5000", "localhost:8787", ""},
		{both, &net.UnixAddr{Name: "/run/s", Net: "unix"}, "@", "localhost", "local"},
		{auth.Anonymous{Socket: "local"}, tcp("127.0.0.1:80"), "127.0.0.1:5000", "127.0.0.1", ""},
		{auth.Anonymous{TCP: "bot"}, &net.UnixAddr{Name: "/run/s", Net: "unix"}, "@", "localhost", ""},
		{auth.Anonymous{}, tcp("127.0.0.1:80"), "127.0.0.1:5000", "127.0.0.1", ""},
	} {
		r := httptest.NewRequest("POST", "/v1/calls", nil)
		r.Host, r.RemoteAddr = tt.host, tt.remote
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.at))
		if got, ok := tt.who.Admit(r); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%+v at %v from %q for %q: got %q %t, want %q", tt.who, tt.at, tt.remote, tt.host, got, ok, tt.want)
		}
	}
}

func TestRule8_AnAnonymousCallerIsOnlyAnAgent(t *testing.T) {
	w := newWorld(t, func(s *Server) {
		s.callers.Anonymous = func() auth.Anonymous { return auth.Anonymous{TCP: "hana"} }
	})
	id := w.ask(transfer)
	nid := w.failNotification(id)
	for _, tt := range targets(id, nid) {
		if tt.path == "/v1/events" { // which does not end
			address := w.srv.Listener.Addr().String()
			if got := raw(t, "tcp", address, "GET /v1/events HTTP/1.1\nHost: "+address+"\n\n"); got != 200 {
				t.Errorf("GET /v1/events: got %d, want 200", got)
			}
			continue
		}
		r := w.do("", tt.method, tt.path, tt.body)
		switch path := strings.TrimPrefix(tt.path, "/v1/"); {
		case strings.Contains(path, id), strings.Contains(path, nid), path == "grants/"+unknownID: // another's, or nobody's
			r.is(404, "not_found")
		case path == "approvals", path == "notifications", path == "audit", path == "approvals/decide", path == "stats",
			path == "sign-in-links", path == "clock/accept", path == "erase",
			strings.HasPrefix(path, "freeze"), strings.HasPrefix(path, "delegations"), strings.HasPrefix(path, "policies"):
			r.is(403, "people_only")
		default:
			if r.status >= 300 {
				t.Errorf("%s %s: got %d: %s", tt.method, tt.path, r.status, r.body)
			}
		}
	}
	if got := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").str("status"); got != "pending" {
		t.Errorf("the request of bot is %s, want pending", got)
	}
}

func TestWhoWaitsWithoutATokenIsRefusedWhenNobodyMayAnyMore(t *testing.T) {
	var now atomic.Pointer[auth.Anonymous]
	now.Store(&auth.Anonymous{TCP: "bot"})
	w := newWorld(t, func(s *Server) { s.callers.Anonymous = func() auth.Anonymous { return *now.Load() } })
	for i, then := range []auth.Anonymous{{}, {TCP: "other"}, {Socket: "bot"}} {
		now.Store(&auth.Anonymous{TCP: "bot"})
		answered := make(chan reply, 1)
		go func() { answered <- w.do("", "POST", "/v1/calls?wait=60s", asked(100+i)) }()
		var id string
		w.eventually("the request is there", func() bool {
			as := w.do(hanaToken, "GET", "/v1/approvals?status=pending", "").list("approvals")
			if len(as) == 1 {
				id = as[0]["id"].(string)
			}
			return id != ""
		})
		now.Store(&then)
		w.decide(hanaToken, id, "approve", "").is(200)
		testkit.Receive(t, "the answer", answered).is(401, "unauthorized")
		if got := w.do(hanaToken, "GET", "/v1/approvals/"+id, "").at("consumed_at"); got != nil {
			t.Errorf("%+v: the approval was used at %v", then, got)
		}
		now.Store(&auth.Anonymous{TCP: "bot"})
		w.do("", "POST", "/v1/calls", asked(100+i)).is(200)
	}
}
