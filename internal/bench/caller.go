package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// caller sends requests with one token, and costs next to nothing itself.
type caller struct {
	http    *http.Client
	bases   []string
	sent    atomic.Int64
	token   string
	session string // of MCP
}

// newCaller returns one that keeps as many connections as n callers need, and sends its requests to several servers in
// turns.
func newCaller(bases []string, token string, n int) *caller {
	return &caller{bases: bases, token: token, http: &http.Client{
		Timeout:       patience * 2,
		Transport:     &http.Transport{Proxy: nil, MaxIdleConns: n, MaxIdleConnsPerHost: n, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *caller) close() { c.http.CloseIdleConnections() }

// send returns the answer to a request that has the wanted status; any other is an error.
func (c *caller) send(ctx context.Context, method, path, body string, want int) ([]byte, error) {
	base := c.bases[int(c.sent.Add(1)-1)%len(c.bases)]
	r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.token != "" {
		r.Header["Authorization"] = []string{"Bearer " + c.token}
	}
	if c.session != "" {
		r.Header["Mcp-Session-Id"] = []string{c.session}
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != want {
		return nil, fmt.Errorf("%s %s answers %s: %.200q", method, path, res.Status, got)
	}
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && c.session == "" {
		c.session = id
	}
	return got, nil
}

// hello opens a session of MCP.
func (c *caller) hello(ctx context.Context) error {
	const first = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	c.session = ""
	if _, err := c.send(ctx, http.MethodPost, mcpPath, first, http.StatusOK); err != nil {
		return err
	}
	_, err := c.send(ctx, http.MethodPost, mcpPath, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		http.StatusAccepted)
	return err
}

// tool calls a tool over MCP, and returns an error unless what holds stands in a result that is none itself.
func (c *caller) tool(ctx context.Context, body, holds string) error {
	got, err := c.send(ctx, http.MethodPost, mcpPath, body, http.StatusOK)
	if err != nil {
		return err
	}
	if text := string(got); !strings.Contains(text, `"result"`) || strings.Contains(text, `"isError":true`) ||
		!strings.Contains(text, holds) {
		return fmt.Errorf("the tool's call is answered with %.300q", got)
	}
	return nil
}

const mcpPath = "/mcp"

// toolCall is the message that calls a tool.
func toolCall(name, args string) (string, error) {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call",
		"params": map[string]any{"name": name, "arguments": json.RawMessage(args)}})
	return string(b), err
}

// answer is what the API says of a call.
type answer struct {
	Decision string `json:"decision"`
	ID       string `json:"approval_id"`
}

// serial numbers calls: no two that are asked about are the same.
type serial struct {
	run string
	n   atomic.Int64
}

func (s *serial) call(tool string) string {
	n := s.n.Add(1)
	return fmt.Sprintf(`{"tool":%q,"session_id":"%s-%d","args":{"bench":%q,"n":%d,"text":%q}}`, tool, s.run, n, s.run, n,
		lorem)
}

// lorem is 576 bytes, the text of every call.
var lorem = strings.Repeat("lorem ipsum ", 48)

// ask asks about a call that waits for a person, and returns the request's id.
func (c *caller) ask(ctx context.Context, call, query string, want int, decision string) (string, error) {
	got, err := c.send(ctx, http.MethodPost, "/v1/calls"+query, call, want)
	if err != nil {
		return "", err
	}
	var a answer
	if err := json.Unmarshal(got, &a); err != nil {
		return "", err
	}
	if a.Decision != decision {
		return "", fmt.Errorf("the call is answered with %q, not with %q", a.Decision, decision)
	}
	if decision == "pending" && a.ID == "" {
		return "", errors.New("the call waits, and its request has no id")
	}
	return a.ID, nil
}
