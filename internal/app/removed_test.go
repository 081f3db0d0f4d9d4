package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/testkit"
)

// reload changes the configuration, and waits until it is in force.
func (w *world) reload(change func(string) string) {
	w.t.Helper()
	text, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	before := strings.Count(w.log.String(), "was reloaded and is in force")
	if err := os.WriteFile(w.path, []byte(change(string(text))), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the reload", func() bool {
		return strings.Count(w.log.String(), "was reloaded and is in force") > before
	})
}

// door is one request that is held: what it begins with, and what it ends with.
type door struct {
	name string
	what []string // method, path, body
	mcp  map[string]string
	// begun is in what comes before the reload, "" where nothing does; ends in what comes then.
	begun, ends string
	answer      chan string
}

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	promptArgs = `{"name":"countersign__permission_prompt","arguments":{"tool_name":"Bash","input":{"command":"make PROMPT"}}}`
)

// open sends the request, and returns once it is held as far as that can be seen.
func (w *world) open(d *door, token string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, d.what[0], w.url(d.what[1]), strings.NewReader(d.what[2]))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secrets[token])
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(d.what[1], "/mcp") {
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for k, v := range d.mcp {
		r.Header.Set(k, v)
	}
	d.answer = make(chan string, 1)
	begun := make(chan struct{})
	go func() {
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			d.answer <- "error " + err.Error()
			return
		}
		defer res.Body.Close()
		b, seen := bufio.NewReader(res.Body), res.Status+"\n"
		for d.begun != "" && !strings.Contains(seen, d.begun) {
			line, err := b.ReadString('\n')
			if seen += line; err != nil {
				d.answer <- seen
				return
			}
		}
		if d.begun != "" {
			close(begun)
		}
		rest, err := io.ReadAll(b)
		if err != nil {
			rest = append(rest, " ended by "+err.Error()...)
		}
		d.answer <- seen + string(rest)
	}()
	if d.begun != "" {
		select {
		case <-begun:
		case got := <-d.answer:
			w.t.Fatalf("%s: %s", d.name, got)
		case <-w.ctx.Done():
			w.t.Fatalf("%s never began", d.name)
		}
	}
}

// session begins an MCP session of the legacy era.
func (w *world) session(token string) map[string]string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, "POST", w.url("/mcp"), strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secrets[token])
	r.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	id := res.Header.Get("Mcp-Session-Id")
	if id == "" {
		w.t.Fatalf("no session: %s", res.Status)
	}
	return map[string]string{"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25"}
}

// doors are all the ways in which an agent waits, streams or has a session. own is the id of a request of its own.
func (w *world) doors(token, own string) []*door {
	session := w.session(token)
	modern := func(method string) map[string]string {
		return map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
			"Mcp-Name": "countersign__permission_prompt"}
	}
	listen := modern("subscriptions/listen")
	delete(listen, "Mcp-Name")
	return []*door{
		{name: "a call that waits", what: []string{"POST", "/v1/calls?wait=60s",
			`{"tool":"close_books","args":{"by":"REST"}}`}, ends: "401"},
		{name: "a request that is waited for", what: []string{"GET", "/v1/approvals/" + own + "?wait=60s", ""}, ends: "401"},
		{name: "the feed that is waited for", what: []string{"GET", "/v1/approvals/resolved?wait=60s", ""}, ends: "401"},
		{name: "the stream of events", what: []string{"GET", "/v1/events", ""}, begun: "retry:"},
		{name: "a hook that waits", what: []string{"POST", "/hooks/claude-code?wait=60s",
			`{"session_id":"7494b2f4","cwd":"/srv/app","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"make HOOK"}}`},
			ends: `"permissionDecision":"deny"`},
		{name: "a held call in a session", what: []string{"POST", "/mcp",
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + promptArgs + `}`}, mcp: session, ends: "deny"},
		{name: "a held call without a session", what: []string{"POST", "/mcp",
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":` +
				strings.Replace(promptArgs[:len(promptArgs)-1], "PROMPT", "MODERN", 1) + `,` + modernMeta + `}}`},
			mcp: modern("tools/call"), ends: "deny"},
		{name: "a session's stream", what: []string{"GET", "/mcp", ""}, mcp: session, begun: "200"},
		{name: "a subscription", what: []string{"POST", "/mcp",
			`{"jsonrpc":"2.0","id":4,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` +
				modernMeta + `}}`},
			mcp: listen, begun: "subscriptions/acknowledged"},
	}
}

// Whoever is taken out of the configuration, or has another token by then, has nothing that goes on: not what they
// wait for, nor what they listen to. What they had asked for does not run when it is approved.
func TestRule1_RemovedAgentsDoorsClose(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world) func(string) string{
		"removed": func(*world) func(string) string {
			return replacing("  - {name: other, token: \"${OTHER_TOKEN}\"}\n", "")
		},
		"token replaced": func(w *world) func(string) string {
			w.env["NEW_TOKEN"] = "test-agent-token-another"
			return replacing("${OTHER_TOKEN}", "${NEW_TOKEN}")
		},
		"token given to another": func(w *world) func(string) string {
			w.env["NEW_TOKEN"] = "test-agent-token-another"
			return replacing("name: other, token: \"${OTHER_TOKEN}\"",
				"name: other, token: \"${NEW_TOKEN}\"}\n  - {name: third, token: \"${OTHER_TOKEN}\"")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			own, err := w.client("OTHER_TOKEN").Call(w.ctx, client.Call{Tool: "close_books"})
			if err != nil {
				t.Fatal(err)
			}
			doors := w.doors("OTHER_TOKEN", own.ApprovalID)
			for _, d := range doors {
				w.open(d, "OTHER_TOKEN")
			}
			stays := &door{name: "another's stream", what: []string{"GET", "/v1/events", ""}, begun: "retry:"}
			w.open(stays, "AGENT_TOKEN")
			var pending []client.Approval
			w.eventually("all calls are held", func() bool {
				p, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{Status: "pending"})
				pending = p.Items
				return err == nil && len(pending) == 5
			})
			w.reload(change(w))
			for _, d := range doors {
				select {
				case got := <-d.answer:
					if !strings.Contains(got, d.ends) {
						t.Errorf("%s: got %q, want %q in it", d.name, got, d.ends)
					}
				case <-w.ctx.Done():
					t.Fatalf("%s goes on", d.name)
				}
			}
			again := &door{name: "the session", what: []string{"POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`},
				mcp: doors[5].mcp}
			w.open(again, map[string]string{"removed": "AGENT_TOKEN", "token replaced": "AGENT_TOKEN",
				"token given to another": "OTHER_TOKEN"}[name])
			if got := testkit.Receive(t, "the answer", again.answer); !strings.Contains(got, "404") {
				t.Errorf("the session goes on: %s", got)
			}
			for _, r := range pending {
				_, err := w.hana.Decide(w.ctx, r.ID, client.Approve, "go on")
				if name == "removed" && client.CodeOf(err) != "already_resolved" || name != "removed" && err != nil {
					t.Errorf("approving %s: %v", r.Tool, err)
				}
				if now := w.status(r.ID); !now.ConsumedAt.IsZero() || name == "removed" && (now.Status != "cancelled" ||
					now.ResolveReason != "agent_removed") {
					t.Errorf("got %+v", now)
				}
			}
			select {
			case got := <-stays.answer:
				t.Errorf("%s ended: %s", stays.name, got)
			default:
			}
		})
	}
}

// A person who is taken out of the configuration sees and decides nothing more.
func TestRule8_RemovedPeopleSeeAndDecideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(transfer(4000), client.AnswerPending).ApprovalID
	doors := []*door{
		{name: "the stream of events", what: []string{"GET", "/v1/events", ""}, begun: "retry:"},
		{name: "a request that is waited for", what: []string{"GET", "/v1/approvals/" + id + "?wait=60s", ""}, ends: "401"},
	}
	for _, d := range doors {
		w.open(d, "KEN_TOKEN")
	}
	w.reload(replacing("  - {name: ken, roles: [approver], slack: U03KEN, token: \"${KEN_TOKEN}\"}\n", ""))
	for _, d := range doors {
		if got := testkit.Receive(t, "the answer", d.answer); !strings.Contains(got, d.ends) ||
			strings.Contains(got, "4000") {
			t.Errorf("%s: got %q", d.name, got)
		}
	}
	if _, err := w.client("KEN_TOKEN").Decide(w.ctx, id, client.Approve, "go on"); client.CodeOf(err) != "unauthorized" {
		t.Errorf("got %v", err)
	}
	if r := w.status(id); r.Status != "pending" {
		t.Errorf("got %+v", r)
	}
}

// The folder of the configuration is written to all the time where the database lies beside it.
func TestAChangeIsReadThoughItsFolderNeverRests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(stop); testkit.Wait(t, "the writer", wg.Wait) })
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				_ = os.WriteFile(filepath.Join(filepath.Dir(w.path), "busy"), fmt.Append(nil, n), 0o600)
			}
		}
	})
	w.reload(func(text string) string { return text + "# changed\n" })
}
