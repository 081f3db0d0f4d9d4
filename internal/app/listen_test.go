package app_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/testkit"
)

// dial opens a connection that is closed at the test's end.
func (w *world) dial(addr string) net.Conn {
	w.t.Helper()
	c, err := net.DialTimeout("tcp", addr, testkit.Patience)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// metric reads a metric's value.
func (w *world) metric(name string) int {
	w.t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(w.get("/metrics"))
	if m == nil {
		w.t.Fatalf("there is no metric %s", name)
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return int(f)
}

// Rule 2.12: 1,030 idle connections on the webhooks' listener made the API unreachable.
func TestRule12_AFullWebhookListenerLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webhooksApart)
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	for i := range 600 {
		c := w.dial(w.app.WebhookAddr())
		if i%3 == 0 {
			if _, err := io.WriteString(c, "POST /webhook/line HTTP/1.1\r\nHost:"); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.eventually("the connections are taken", func() bool {
		return w.metric(`countersign_connections_closed_total{listener="webhook",reason="evicted"}`) >= 600-256
	})
	if n := w.metric(`countersign_connections{listener="webhook"}`); n > 256 {
		t.Errorf("the listener holds %d connections", n)
	}
	w.tapLINE("hana", id, "approve") // a delivery finds its way all the same
	w.expect(transfer(2000), client.AnswerApproved)
	for range 20 {
		w.dial(w.app.WebhookAddr())
	}
	if got := w.get("/healthz"); got != "ok\n" {
		t.Errorf("healthz %q", got)
	}
}

// half sends a request's head, and less of its body than it promises.
func (w *world) half(addr, head, body string) net.Conn {
	w.t.Helper()
	c := w.dial(addr)
	c.SetDeadline(time.Now().Add(20 * time.Second)) // the server's own time-out for a body is 30 s
	if _, err := fmt.Fprintf(c, "%s\r\nHost: %s\r\nContent-Length: 100000\r\n\r\n%s", head, addr, body); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// Rule 2.12: an agent that has used up its bytes is refused before its next large body. These never come.
func TestRule12_WhoIsOverTheBudgetIsRefusedBeforeTheirBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, replacing("limits: none", "limits: {agent: {bytes: 100KiB/m}, person: {calls: 0}}"))
	w.expect(client.Call{Tool: "read_ledger", Args: []byte(`{"a":"` + strings.Repeat("x", 90<<10) + `"}`)},
		client.AnswerAllow)
	const headers = " HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nAuthorization: Bearer "
	for _, door := range []string{"/v1/calls", "/mcp", "/hooks/claude-code"} {
		c := w.half(w.app.Addr(), "POST "+door+headers+secrets["AGENT_TOKEN"], "")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: no answer: %v", door, err)
			continue
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || !strings.Contains(string(body), "Over the budget of bytes") {
			t.Errorf("%s: got %d %s (%v)", door, res.StatusCode, body, err)
		}
		c.Close()
	}
}

// Rule 2.12: who it is that sends is judged before the body, at every door. These bodies never come.
func TestRule12_StrangersAreRefusedBeforeTheirBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const json = "\r\nContent-Type: application/json"
	agent := "\r\nAuthorization: Bearer " + secrets["AGENT_TOKEN"]
	person := "\r\nAuthorization: Bearer " + secrets["HANA_TOKEN"]
	for _, tt := range []struct {
		head   string
		status int
		has    string
	}{
		{"POST /v1/calls HTTP/1.1" + json, 401, "unauthorized"},
		{"POST /v1/calls HTTP/1.1" + json + "\r\nAuthorization: Bearer somebody-else-entirely", 401, "unauthorized"},
		{"POST /v1/calls HTTP/1.1" + json + person, 403, "agents_only"},
		{"POST /v1/calls HTTP/1.1\r\nContent-Type: text/plain" + agent, 415, "unsupported_media_type"},
		{"POST /v1/approvals/01KAFHZX3T9W8Y7B6A5D4C3E2F/decide HTTP/1.1" + json, 401, "unauthorized"},
		{"POST /v1/nothing HTTP/1.1" + json, 401, "unauthorized"},
		{"POST /nothing HTTP/1.1" + json, 404, "not_found"},
		{"POST /mcp HTTP/1.1" + json, 401, "token"},
		{"POST /mcp HTTP/1.1" + json + person, 403, "person"},
		{"POST /hooks/claude-code HTTP/1.1" + json, 200, `"deny"`},
		{"POST /hooks/claude-code HTTP/1.1" + json + person, 200, `"deny"`},
		{"POST /webhook/line HTTP/1.1" + json, 401, "signature"},
		{"POST /webhook/line HTTP/1.1" + json + "\r\nX-Line-Signature: AAAA", 401, "signature"},
		{"POST /webhook/slack HTTP/1.1" + json + "\r\nX-Slack-Request-Timestamp: 1\r\nX-Slack-Signature: v0=" +
			strings.Repeat("0", 64), 401, "signature"},
		{"POST /healthz HTTP/1.1", 200, "ok"},
		{"POST /readyz HTTP/1.1", 200, "ready"},
		{"POST /metrics HTTP/1.1", 200, "countersign_"},
		{"POST /openapi.json HTTP/1.1", 405, "method_not_allowed"},
	} {
		c := w.half(w.app.Addr(), tt.head, "")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: no answer: %v", tt.head, err)
			continue
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || res.StatusCode != tt.status || !strings.Contains(string(body), tt.has) {
			t.Errorf("%s: got %d %s (%v), want %d with %q", tt.head, res.StatusCode, body, err, tt.status, tt.has)
		}
		c.Close()
	}
}

// Rule 2.12: 400 half-sent bodies that could have been signed took 470 MB.
func TestRule12_HalfSentWebhooksAreFewAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	head := "POST /webhook/line HTTP/1.1\r\nContent-Type: application/json\r\nX-Line-Signature: " +
		base64.StdEncoding.EncodeToString(make([]byte, 32))
	for range 60 {
		w.half(w.app.WebhookAddr(), head, strings.Repeat(" ", 10_000))
	}
	w.eventually("they gave way", func() bool {
		return w.metric(`countersign_request_bodies_refused_total{sender="webhook"}`) >= 60-16
	})
	if n, bytes := w.metric(`countersign_request_bodies{sender="webhook"}`),
		w.metric(`countersign_request_body_bytes{sender="webhook"}`); n > 16 || bytes > 16*10_000 {
		t.Errorf("%d bodies with %d bytes are on their way", n, bytes)
	}
	w.tapLINE("hana", id, "approve")
	w.expect(transfer(2000), client.AnswerApproved)
	w.eventually("they were given up", func() bool {
		return w.metric(`countersign_request_bodies{sender="webhook"}`) == 0
	})
}

// Rule 2.11: what an agent sends slowly does not use up the time in which records are brought to the store's disk.
func TestRule11_ASlowSenderDoesNotUseUpTheTimeToStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.half(w.app.Addr(), "POST /v1/calls HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer "+
		secrets["AGENT_TOKEN"], `{"tool":`)
	w.eventually("its body is on its way", func() bool {
		return w.metric(`countersign_request_bodies{sender="token"}`) == 1
	})
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	if err := w.app.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("stop: %v; time left: %v", err, ctx.Err() == nil)
	}
}

// issue writes a certificate for 127.0.0.1 and its key, and returns the certificate in PEM.
func issue(t *testing.T, serial int64, cert, key string) []byte {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(5 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	said := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, b := range map[string][]byte{cert: said, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
		Bytes: b})} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return said
}

// The webhooks over TLS, with a certificate that is renewed while the gate runs.
func TestTLSWithRenewal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(issue(t, 1, cert, key))
	w := newWorld(t, webhooksApart, replacing("agents:", "webhook_tls: {cert: "+cert+", key: "+key+"}\nagents:"))
	serial := func() int64 {
		t.Helper()
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: testkit.Patience}, "tcp", w.app.WebhookAddr(),
			&tls.Config{RootCAs: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("certificate %d is in use", got)
	}
	status, body := w.request(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, "", "POST", "https://"+
		w.app.WebhookAddr()+"/webhook/line", "{}")
	if status != 401 {
		t.Errorf("an unsigned webhook got %d %s", status, body)
	}
	if status, _ := w.request(&http.Transport{}, "", "POST", "http://"+w.app.WebhookAddr()+"/webhook/line",
		"{}"); status != 400 {
		t.Errorf("without TLS: got %d", status)
	}
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got,
		"webhook_tls: the certificate in use expires at") {
		t.Errorf("five days before its end /readyz says %s", got)
	}
	if got, soon := w.metric(`countersign_tls_certificate_expiry_timestamp_seconds{listener="webhook"}`),
		time.Now().Add(6*24*time.Hour).Unix(); int64(got) > soon || got <= 0 {
		t.Errorf("the metric says %d", got)
	}
	pool.AppendCertsFromPEM(issue(t, 2, cert, key))
	if err := w.app.Reload(w.ctx); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 2 {
		t.Errorf("after the renewal certificate %d is in use", got)
	}
	if err := os.WriteFile(cert, []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.app.Reload(w.ctx); err == nil {
		t.Error("a configuration with a broken certificate was read")
	}
	if got := serial(); got != 2 {
		t.Errorf("with a broken file certificate %d is in use", got)
	}
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got,
		"the earlier certificate stays in use") || !strings.Contains(got, "was not reloaded") {
		t.Errorf("/readyz says %s", got)
	}
}

// A reload that failed is a problem until one succeeds.
func TestAFailedReloadIsInReadyz(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path, append([]byte("lisen: 127.0.0.1:1\n"), good...), 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("the problem", func() bool {
		return strings.Contains(w.get("/readyz"), "countersign.yaml:1:1: unknown key")
	})
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) {
		t.Errorf("the gate is not ready for it: %s", got)
	}
	w.expect(client.Call{Tool: "read_ledger"}, client.AnswerAllow)
	if err := os.WriteFile(w.path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is gone", func() bool { return !strings.Contains(w.get("/readyz"), "not reloaded") })
}

// Where the variables' file cannot be read that is the reason, not the variable that is missing for it.
func TestAFailedReloadNamesTheVariablesFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trouble = func() error { return errors.New("gate.env:3: this is not NAME=value") }
	w.lock.Lock()
	token := w.env["AGENT_TOKEN"]
	delete(w.env, "AGENT_TOKEN")
	w.lock.Unlock()
	if err := w.app.Reload(w.ctx); err == nil || !strings.Contains(err.Error(), "gate.env:3") ||
		!strings.Contains(err.Error(), "AGENT_TOKEN") {
		t.Errorf("the reload: %v", err)
	}
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got,
		"gate.env:3: this is not NAME=value; ") || !strings.Contains(got, "AGENT_TOKEN") {
		t.Errorf("readyz: %s", got)
	}
	w.lock.Lock()
	w.env["AGENT_TOKEN"] = token
	w.lock.Unlock()
	if err := w.app.Reload(w.ctx); err != nil || strings.Contains(w.get("/readyz"), "gate.env") {
		t.Errorf("mended: %v, %s", err, w.get("/readyz"))
	}
}

// Rule 2.12: those behind a trusted proxy are counted each for themselves, and nobody else is believed.
func TestRule12_SendersBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		proxies string
		want    int // bodies on their way of 40 by as many clients, as it is said
	}{{"127.0.0.0/8", 40}, {"192.0.2.1", 16}} {
		w := newWorld(t, replacing("agents:", "trusted_proxies: ["+tt.proxies+"]\nagents:"))
		var clients []net.Conn
		for i := range 40 {
			clients = append(clients, w.half(w.app.Addr(), fmt.Sprintf("POST /webhook/line HTTP/1.1\r\n"+
				"X-Forwarded-For: 192.0.2.99, 203.0.113.%d\r\nContent-Type: application/json\r\nX-Line-Signature: %s",
				i, base64.StdEncoding.EncodeToString(make([]byte, 32))), "x"))
		}
		w.eventually("all have come", func() bool {
			m := w.metric(`countersign_request_bodies{sender="webhook"}`)
			return m == tt.want && m+w.metric(`countersign_request_bodies_refused_total{sender="webhook"}`) == 40
		})
		for _, c := range clients { // else stopping waits until their bodies are given up
			c.Close()
		}
		w.stop()
	}
}

// Whoever is let in without a token was brought by nobody, a trusted proxy or not.
func TestATrustedProxyBringsNoAnonymousCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webhooksApart, replacing("agents:", "anonymous_agent: bot\ntrusted_proxies: [127.0.0.0/8]\nagents:"))
	send := func(header string) int {
		t.Helper()
		c := w.dial(w.app.Addr())
		c.SetDeadline(time.Now().Add(testkit.Patience))
		if _, err := fmt.Fprintf(c, "POST /v1/calls HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 22\r\n%s\r\n%s", w.app.Addr(), header, `{"tool":"read_ledger"}`); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := send(""); got != 200 {
		t.Fatalf("without any such header: got %d", got)
	}
	for _, h := range []string{"X-Forwarded-For: 127.0.0.1\r\n", "Forwarded: for=127.0.0.1\r\n",
		"X-Forwarded-Proto: http\r\n", "Via: 1.1 x\r\n"} {
		if got := send(h); got != 401 {
			t.Errorf("%q: got %d, want 401", h, got)
		}
	}
}

// Rule 2.12: agents within their budgets held every connection with long polls, and nobody could decide or freeze.
func TestRule12_WaitingAgentsLockNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, replacing("limits: none", "limits: {connections: 64}"))
	id := w.expect(transfer(2000), client.AnswerPending).ApprovalID
	begin := func(head, token, body string) net.Conn {
		c := w.dial(w.app.Addr())
		c.SetDeadline(time.Now().Add(testkit.Patience))
		if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", head, w.app.Addr(), secrets[token], len(body),
			body); err != nil {
			t.Fatal(err)
		}
		return c
	}
	poll := "GET /v1/approvals/" + id + "?wait=60s"
	for range 56 {
		begin(poll, "AGENT_TOKEN", "")
	}
	const refused = `countersign_waits_refused_total{listener="api"}`
	w.eventually("a part of the waits is refused", func() bool { return w.metric(refused) == 56-48 })
	hook := `{"session_id":"1","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"make"}}`
	for _, tt := range []struct {
		head, token, body string
		status            int
		has               string
	}{
		{poll, "AGENT_TOKEN", "", 429, `"code":"rate_limited"`},
		{"GET /v1/approvals/resolved?wait=60s", "AGENT_TOKEN", "", 429, `"code":"rate_limited"`},
		{"GET /v1/events", "AGENT_TOKEN", "", 429, `"code":"rate_limited"`},
		{"POST /v1/calls?wait=60s", "AGENT_TOKEN", `{"tool":"transfer_credits","args":{"amount_cents":2000,"to":"0xAbC"}}`,
			429, "rate_limited"},
		{"POST /hooks/claude-code?wait=60s", "AGENT_TOKEN", hook, 200, "Too many requests wait"},
		{"GET /v1/approvals/" + id, "AGENT_TOKEN", "", 200, id},
		{"GET /readyz", "AGENT_TOKEN", "", 200, "ready"},
		{"POST /v1/freeze", "HANA_TOKEN", `{"agent":"bot","reason":"too many"}`, 200, "bot"},
		{"POST /v1/approvals/" + id + "/decide", "HANA_TOKEN", `{"decision":"approve"}`, 409, "frozen"},
	} {
		c := begin(tt.head, tt.token, tt.body)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: no answer: %v", tt.head, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != tt.status || !strings.Contains(string(body), tt.has) {
			t.Errorf("%s: got %d %s (%v), want %d with %q", tt.head, res.StatusCode, body, err, tt.status, tt.has)
		}
		if tt.status == http.StatusTooManyRequests && res.Header.Get("Retry-After") != "5" {
			t.Errorf("%s: Retry-After %q", tt.head, res.Header.Get("Retry-After"))
		}
		c.Close()
	}
	if !strings.Contains(w.log.String(), "a listener has no room") {
		t.Error("the log does not say what was refused")
	}
}
