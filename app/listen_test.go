package app_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

// dial opens a connection that is closed at the test's end.
func (w *world) dial(addr string) net.Conn {
	w.t.Helper()
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
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
	w := newWorld(t, webhooksApart)
	id := w.expect(transfer(2000), client.Pending).ApprovalID
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
	w.expect(transfer(2000), client.Approved)
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

// Rule 2.12: who it is that sends is judged before the body, at every door. These bodies never come.
func TestRule12_StrangersAreRefusedBeforeTheirBody(t *testing.T) {
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
		{"POST /webhook/slack HTTP/1.1" + json + "\r\nX-Slack-Request-Timestamp: 1\r\nX-Slack-Signature: v0=" + strings.Repeat("0", 64), 401, "signature"},
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
	w := newWorld(t)
	id := w.expect(transfer(2000), client.Pending).ApprovalID
	head := "POST /webhook/line HTTP/1.1\r\nContent-Type: application/json\r\nX-Line-Signature: " + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for range 60 {
		w.half(w.app.WebhookAddr(), head, strings.Repeat(" ", 10_000))
	}
	w.eventually("they gave way", func() bool { return w.metric(`countersign_request_bodies_refused_total{sender="webhook"}`) >= 60-16 })
	if n, bytes := w.metric(`countersign_request_bodies{sender="webhook"}`), w.metric(`countersign_request_body_bytes{sender="webhook"}`); n > 16 || bytes > 16*10_000 {
		t.Errorf("%d bodies with %d bytes are on their way", n, bytes)
	}
	w.tapLINE("hana", id, "approve")
	w.expect(transfer(2000), client.Approved)
	w.eventually("they were given up", func() bool { return w.metric(`countersign_request_bodies{sender="webhook"}`) == 0 })
}
