package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/testkit"
)

// withSocket has the gate listen on a socket too.
func withSocket(t *testing.T) (path string, change func(string) string) {
	path = filepath.Join(t.TempDir(), "gate.sock")
	return path, replacing("listen: 127.0.0.1:0", "listen: 127.0.0.1:0\nsocket: "+path)
}

// over sends a request over the socket and returns the answer's status and body.
func (w *world) over(path, token, method, target, body string) (int, string) {
	w.t.Helper()
	return w.request(&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}, token, method, "http://localhost"+target, body)
}

func (w *world) request(via *http.Transport, token, method, url, body string) (int, string) {
	w.t.Helper()
	defer via.CloseIdleConnections()
	r, err := http.NewRequestWithContext(w.ctx, method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if r.Header.Set("Content-Type", "application/json"); token != "" {
		r.Header.Set("Authorization", "Bearer "+secrets[token])
	}
	res, err := (&http.Client{Transport: via}).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestTheSocketIsTheAPIWithoutTheWebhooks(t *testing.T) {
	t.Parallel()
	path, socket := withSocket(t)
	w := newWorld(t, socket)
	var id string
	for _, tt := range []struct {
		token, method, target, body string
		status                      int
		has                         string
	}{
		{"", "GET", "/healthz", "", 200, "ok"},
		{"", "GET", "/readyz", "", 200, "ready"},
		{"", "POST", "/v1/calls", `{"tool":"close_books"}`, 202, "approval_id"},
		{"", "POST", "/v1/approvals/{id}/decide", `{"decision":"approve","reason":"please"}`, 403, "people_only"},
		{"", "GET", "/v1/approvals", "", 403, "people_only"},
		{"", "GET", "/v1/audit", "", 403, "people_only"},
		{"OTHER_TOKEN", "GET", "/v1/approvals/{id}", "", 404, "not_found"},
		{"OTHER_TOKEN", "POST", "/v1/calls", `{"tool":"read_ledger"}`, 200, "allow"},
		{"", "POST", "/webhook/line", `{}`, 404, "not_found"},
		{"AGENT_TOKEN", "POST", "/webhook/slack", `{}`, 404, "not_found"},
		{"HANA_TOKEN", "POST", "/v1/approvals/{id}/decide", `{"decision":"approve","reason":"it is right"}`, 200, "approved"},
		{"", "POST", "/v1/calls", `{"tool":"close_books"}`, 200, `"approved"`},
	} {
		status, body := w.over(path, tt.token, tt.method, strings.ReplaceAll(tt.target, "{id}", id), tt.body)
		if status != tt.status || !strings.Contains(body, tt.has) {
			t.Errorf("%s %s with %q: got %d %s, want %d with %s", tt.method, tt.target, tt.token, status, body, tt.status,
				tt.has)
		}
		var a struct {
			ID string `json:"approval_id"`
		}
		if json.Unmarshal([]byte(body), &a) == nil && a.ID != "" {
			id = a.ID
		}
	}
	if r := w.status(id); r.Agent != "local" || r.ResolvedBy != "hana" {
		t.Errorf("got the agent %q and the person %q, want local and hana", r.Agent, r.ResolvedBy)
	}
	if status, _ := w.request(&http.Transport{}, "", "POST", w.url("/v1/calls"), `{"tool":"read_ledger"}`); status != 401 {
		t.Errorf("over TCP without a token: got %d, want 401", status)
	}
	w.stop()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestASocketThatIsTakenStopsStartUp(t *testing.T) {
	t.Parallel()
	path, socket := withSocket(t)
	w := newWorld(t, socket)
	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	w.env["STORE"] = filepath.Join(t.TempDir(), "another.db")
	cfg, _, err := config.Parse("other.yaml", text, w.lookup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.New(w.ctx, app.Options{Config: cfg}); err == nil || !strings.Contains(err.Error(),
		"another process answers") {
		t.Errorf("got %v", err)
	}
	if status, _ := w.over(path, "", "GET", "/healthz", ""); status != 200 {
		t.Errorf("the first gate answers %d", status)
	}
}

// webhooksApart is what anonymous_agent asks of a configuration with webhooks.
func webhooksApart(text string) string {
	return replacing("listen: 127.0.0.1:0", "listen: 127.0.0.1:0\nwebhook_listen: 127.0.0.1:0")(text)
}

func TestAReloadThatTakesTheAnonymousAgentAwayRefusesWhoWaits(t *testing.T) {
	t.Parallel()
	path, socket := withSocket(t)
	w := newWorld(t, webhooksApart, socket, replacing("agents:", "anonymous_agent: bot\nagents:"))
	reload := func(change func(string) string) {
		t.Helper()
		text, err := os.ReadFile(w.path)
		if err != nil {
			t.Fatal(err)
		}
		before := strings.Count(w.log.String(), "reloaded and is in force")
		if err := os.WriteFile(w.path, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		w.eventually("the reload", func() bool { return strings.Count(w.log.String(), "reloaded and is in force") > before })
	}
	type answer struct {
		status int
		body   string
	}
	tcp, unix := make(chan answer, 1), make(chan answer, 1)
	const call = `{"tool":"close_books"}`
	go func() {
		status, body := w.request(&http.Transport{}, "", "POST", w.url("/v1/calls?wait=60s"), call)
		tcp <- answer{status, body}
	}()
	go func() {
		status, body := w.over(path, "", "POST", "/v1/calls?wait=60s", call)
		unix <- answer{status, body}
	}()
	var id string
	w.eventually("the request", func() bool {
		p, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{Status: "pending"})
		if err == nil && len(p.Items) == 1 {
			id = p.Items[0].ID
		}
		return id != ""
	})
	if a := w.status(id); a.Agent != "bot" {
		t.Errorf("got the agent %q, want bot", a.Agent)
	}
	reload(replacing("anonymous_agent: bot\n", ""))
	if _, err := w.hana.Decide(w.ctx, id, client.Approve, "go on"); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]answer{"tcp": testkit.Receive(t, "the answer", tcp), "socket": testkit.Receive(t,
		"the answer", unix)} {
		if got.status != 401 {
			t.Errorf("%s: got %d %s, want 401", name, got.status, got.body)
		}
	}
	if a := w.status(id); !a.ConsumedAt.IsZero() {
		t.Error("the approval was used by who may not any more")
	}
	w.expect(client.Call{Tool: "close_books"}, client.AnswerApproved)
}

// What was checked of anonymous_agent is not true of the addresses that are bound.
func TestAnAddressThatWasNotCheckedForItHasNoAnonymousCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	next := replacing("agents:", "anonymous_agent: bot\nagents:")(webhooksApart(string(text)))
	if err := os.WriteFile(w.path, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	// It is on record before it is in force, and the log comes last.
	w.eventually("the log asks for a restart", func() bool {
		return strings.Contains(w.log.String(), "this change needs a restart")
	})
	if status, body := w.request(&http.Transport{}, "", "POST", w.url("/v1/calls"),
		`{"tool":"read_ledger"}`); status != 401 {
		t.Errorf("got %d %s, want 401", status, body)
	}
	w.stop()
	w.start()
	if status, body := w.request(&http.Transport{}, "", "POST", w.url("/v1/calls"),
		`{"tool":"read_ledger"}`); status != 200 {
		t.Errorf("after the restart: got %d %s, want 200", status, body)
	}
}
