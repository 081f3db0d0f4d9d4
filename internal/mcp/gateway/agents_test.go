package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/testkit"
)

// overAPI is a call as an agent asks for it over the API, with its own word for how the tool looks.
func overAPI(t testing.TB, agent, tool, raw string) approval.Call {
	t.Helper()
	a, err := args.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return approval.Call{Agent: agent, Server: "up", Tool: tool, Args: a, ToolDigest: strings.Repeat("0", 64),
		Dispatch: true, Task: true}
}

// as joins as another agent.
func as(token string) func(*peer) { return func(c *peer) { c.token = token } }

// What an agent says over the API of a server's tool changes nothing for those who call it through the gateway.
func TestRule12WhatIsSaidOverTheAPIPinsNothingForTheGateway(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		up := newFake(era, running, "tool", "free")
		w := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
		for _, tool := range []string{"free", "never", "tool"} {
			if _, err := w.gate.Check(t.Context(), overAPI(t, "other", tool, `{}`)); err != nil {
				t.Fatal(err)
			}
		}
		w.resolve(t, true) // also where a person approves it
		for _, of := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			for _, token := range []string{agentToken, otherToken} {
				c := join(t, w, of, `{}`, as(token))
				want(t, name+", a call of the tool", say(c.callTool("free", `{}`)), "ran")
			}
		}
		for _, r := range w.requests(t) {
			if r.ReasonCode == "tool_changed" {
				t.Errorf("%s: %s was asked about, because it has changed", name, r.Agent)
			}
		}
	}
}

// A legacy server over HTTP may show a session another tool, going by what its client says of itself. What one
// agent has it show is neither pinned for others nor accepted for them.
func TestRule12WhatAServerShowsOneSessionPinsNothingForOthers(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "free")
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		m, bad := mcp.Parse(body)
		switch {
		case bad == nil && m.Method == "initialize" && bytes.Contains(body, []byte(`"roots"`)):
			rec := httptest.NewRecorder()
			up.ServeHTTP(rec, r)
			rw.Header().Set(mcp.HeaderSession, "odd-session")
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(rec.Body.Bytes())
		case bad == nil && m.Method == "tools/list" && r.Header.Get(mcp.HeaderSession) == "odd-session":
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(mcp.Response(m.ID, []byte(`{"tools":[{"name":"free","description":"odd","inputSchema":{"type":"object"}}]}`)).Bytes())
		default:
			up.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	w := newWorld(t, quarantineAll,
		gateway.Options{Servers: []gateway.ServerConfig{{Config: upstream.Config{Name: "up", URL: srv.URL}}}})
	odd := join(t, w, mcp.Legacy, `{"roots":{}}`, as(otherToken))
	want(t, "the first who calls", say(odd.callTool("free", `{}`)), "ran")
	c := join(t, w, mcp.Legacy, `{}`)
	want(t, "another agent", say(c.callTool("free", `{}`)), "ran")
	// Held to what the gateway saw, once it has: the odd agent's own word stands for itself.
	second := join(t, w, mcp.Legacy, `{"roots":{}}`)
	contains(t, "the same agent, in an odd session", say(second.callTool("free", `{"n":1}`)), "are not those first seen")
	r := w.resolve(t, true)
	want(t, "accepted for it", say(second.callTool("free", `{"n":1}`)), "ran")
	if r.ReasonCode != "tool_changed" || r.ToolSeen {
		t.Errorf("got %+v", r)
	}
	third := join(t, w, mcp.Modern, `{}`, as(otherToken))
	want(t, "others, after it", say(third.callTool("free", `{"n":2}`)), "ran")
	want(t, "the agent itself, as all see it", say(c.callTool("free", `{"n":3}`)), "ran")
}

// A task that an agent asked for over the API is that agent's to run: the gateway runs none of them, though the
// agent names a server that the gateway has, neither after a restart nor for who asks after it.
func TestRule12TheGatewayRunsNoTaskThatItDidNotBegin(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	s := up.over(t, "http")
	w := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{s}})
	out, err := w.gate.Check(t.Context(), overAPI(t, "bot", "tool", `{"n":1}`))
	if err != nil || out.Kind != approval.AnswerPending {
		t.Fatalf("got %+v, %v", out, err)
	}
	c := join(t, w, mcp.Modern, withTasks)
	want(t, "tasks/get", say(c.task("tasks/get", out.Request.ID)), "error -32602: Invalid params: there is no such task.")
	w.restart(t, gateway.Options{Servers: []gateway.ServerConfig{s}})
	own := join(t, w, mcp.Modern, withTasks).begin("tool", `{"n":2}`)
	w.answer(out.Request.ID, true, "")
	w.answer(own, true, "")
	testkit.Eventually(t, "the gateway's own has run", func() bool { return up.count() == 1 })
	want(t, "what ran", string(up.nth(0).Get("arguments")), `{"n":2}`)
	if r := w.request(out.Request.ID); !r.ConsumedAt.IsZero() {
		t.Errorf("the approval was used: %+v", r)
	}
}
