package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/lists"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/policy"
	"countersign/internal/store/sqlite"
	"countersign/internal/testkit"
)

// gateVar makes the test binary a program of its own with a gate over the store that it names, in front of
// the server at serverVar.
const (
	gateVar   = "COUNTERSIGN_TEST_GATE"
	serverVar = "COUNTERSIGN_TEST_SERVER"
	holdVar   = "COUNTERSIGN_TEST_HOLD"
)

func init() {
	if path := os.Getenv(gateVar); path != "" {
		if err := program(path, os.Getenv(serverVar), os.Getenv(holdVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

// program serves until it is killed. Beside /mcp it has a person's side: /approve decides the newest
// request, /newest shows it. At start it does what the real one does.
func program(path, server, hold string) error {
	ctx := context.Background()
	rules, _ := policy.Compile(policy.Parse([]byte(`{policy: {rules: [{tools: [free], action: allow}, {tools: ["*"], action: quarantine}]}}`)), policy.Options{})
	broker := approval.NewBroker()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path, OnCommit: func(c approval.Commit) { broker.Publish(c) }})
	if err != nil {
		return err
	}
	gate := approval.NewGate(approval.Options{Store: db, Broker: broker, Policy: rules, Masker: redact.New()})
	if _, err := gate.Orphaned(ctx, ""); err != nil {
		return err
	}
	go gate.Run(ctx)
	wait, err := time.ParseDuration(hold)
	if err != nil {
		return err
	}
	gw, err := gateway.New(gateway.Options{Asker: gate, Hold: wait,
		Servers: []gateway.ServerConfig{{Config: upstream.Config{Name: "up", URL: server}}}})
	if err != nil {
		return err
	}
	gw.Start()
	newest := func() (r approval.Request) {
		if rs, err := lists.ListRequests(ctx, gate, approval.RequestQuery{Limit: 1}); err == nil && len(rs) > 0 {
			r = rs[0]
		}
		return r
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", downstream.NewHTTP(downstream.HTTPOptions{Sessions: gw, MaxSessions: 10000,
		Guard:        downstream.Guard{Loopback: true},
		Authenticate: func(*http.Request) (downstream.Caller, error) { return downstream.Caller{Agent: "bot"}, nil }}))
	mux.HandleFunc("/approve", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := gate.Decide(ctx, approval.Decision{RequestID: newest().ID, Approve: true, By: person,
			Via: approval.ViaAPI}); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("/newest", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(newest()) })
	mux.HandleFunc("/pending", func(w http.ResponseWriter, _ *http.Request) {
		n, after := 0, ""
		for {
			rs, err := lists.ListRequests(ctx, gate, approval.RequestQuery{Status: approval.Pending, Limit: 200, After: after})
			if n += len(rs); err != nil || len(rs) == 0 {
				fmt.Fprint(w, n)
				return
			}
			after = rs[len(rs)-1].ID
		}
	})
	mux.HandleFunc("/memory", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(memoryUse()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, mux)
}

// killable is a program that can be killed.
type killable struct {
	t    testing.TB
	cmd  *exec.Cmd
	addr string
}

func startProgram(t testing.TB, path, server, hold string) *killable {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &killable{t: t, cmd: testkit.Command(t, exe)}
	p.cmd.Env = append(os.Environ(), gateVar+"="+path, serverVar+"="+server, holdVar+"="+hold)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.addr = strings.TrimSpace(line)
	return p
}

// kill ends the program as nothing else does: it has no time for anything.
func (p *killable) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *killable) get(path string) []byte {
	p.t.Helper()
	res, err := http.Get("http://" + p.addr + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s %s %v", path, res.Status, b, err)
	}
	return b
}

func (p *killable) newest() (r approval.Request) {
	p.t.Helper()
	if err := json.Unmarshal(p.get("/newest"), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// approve waits for a pending request and approves it.
func (p *killable) approve() approval.Request {
	p.t.Helper()
	testkit.Eventually(p.t, "a request is pending", func() bool { return p.newest().Status == approval.Pending })
	r := p.newest()
	p.get("/approve")
	return r
}

func (p *killable) join(era mcp.Era, caps string) *peer {
	return join(p.t, &world{url: "http://" + p.addr + "/mcp"}, era, caps)
}

// blocking is a tool that answers only when it is let, and may hold up the first call for ever.
func blocking(c *fakeCall) string {
	if c.count() == 1 {
		<-c.ctx.Done()
		return ""
	}
	return textResult("ran")
}

func TestAKilledGateLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			up := newFake(mcp.Legacy, blocking, "tool")
			server := up.over(t, "http").URL
			path := filepath.Join(t.TempDir(), "gate.db")
			p := startProgram(t, path, server, "1m")
			c := p.join(era, `{}`)
			broke := make(chan struct{})
			go func() {
				defer close(broke)
				_, _ = c.try(context.Background(), c.newID(), "tools/call", callParams("tool", `{"n":1}`))
			}()
			first := p.approve()
			testkit.Eventually(t, "the call is sent", func() bool { return up.count() == 1 })
			p.kill()
			testkit.Receive(t, "the end of the call to the gateway that was killed", broke)

			p = startProgram(t, path, server, "50ms")
			if r := p.newest(); r.ID != first.ID || r.RunResult != approval.RunUnknown || r.DispatchedAt.IsZero() {
				t.Errorf("after the restart: outcome %q, dispatched %s; want unknown", r.RunResult, r.DispatchedAt)
			}
			c = p.join(era, `{}`)
			contains(t, "the same call", say(c.callTool("tool", `{"n":1}`)), "Approval requested")
			r := p.newest()
			if r.ID == first.ID || r.Previous == nil || r.Previous.RequestID != first.ID ||
				r.Previous.RunResult != approval.RunUnknown {
				t.Errorf("the new request tells %+v of the last, want that its outcome is unknown", r.Previous)
			}
			if up.count() != 1 {
				t.Errorf("it was sent %d times before anybody approved it again", up.count())
			}
			p.get("/approve")
			want(t, "approved again", say(c.callTool("tool", `{"n":1}`)), "ran")
			if r := p.newest(); r.RunResult != approval.RunSucceeded || up.count() != 2 {
				t.Errorf("outcome %q, sent %d times; want succeeded, 2", r.RunResult, up.count())
			}
		})
	}
}

// What is approved while nobody is there to use it, is used by nobody else.
func TestAKilledGateUsesNothing(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool", "free")
	server := up.over(t, "http").URL
	path := filepath.Join(t.TempDir(), "gate.db")
	p := startProgram(t, path, server, "1m")
	c := p.join(mcp.Legacy, `{}`)
	go func() { _, _ = c.try(context.Background(), c.newID(), "tools/call", callParams("tool", `{}`)) }()
	testkit.Eventually(t, "a request is pending", func() bool { return p.newest().Status == approval.Pending })
	p.kill()
	p = startProgram(t, path, server, "1m")
	p.approve()
	next := p.join(mcp.Legacy, `{}`)
	want(t, "another call", say(next.callTool("free", `{}`)), "ran") // what would run by itself has run before this
	if r := p.newest(); !r.ConsumedAt.IsZero() || up.count() != 1 {
		t.Errorf("used at %s, the server got %d calls, want 1", r.ConsumedAt, up.count())
	}
	want(t, "the call", say(next.callTool("tool", `{}`)), "ran")
}

func TestTasksOutliveAKill(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, blocking, "tool")
	server := up.over(t, "http").URL
	path := filepath.Join(t.TempDir(), "gate.db")
	p := startProgram(t, path, server, "1m")
	c := p.join(mcp.Modern, withTasks)
	sent := c.begin("tool", `{"n":1}`)
	p.approve()
	testkit.Eventually(t, "the call is sent", func() bool { return up.count() == 1 })
	pending := c.begin("tool", `{"n":2}`)
	p.kill()

	p = startProgram(t, path, server, "1m")
	p.approve()
	testkit.Eventually(t, "the pending one runs without a poll", func() bool { return up.count() == 2 })
	c = p.join(mcp.Modern, withTasks)
	want(t, "the pending one", c.becomes(pending, "completed"), "completed: ran")
	contains(t, "the one that was sent", c.status(sent), "completed: failed: The outcome is unknown")
	p.kill()

	p = startProgram(t, path, server, "1m")
	contains(t, "the one that ended", p.join(mcp.Modern, withTasks).status(pending), "The call ran and succeeded")
	if up.count() != 2 {
		t.Errorf("sent %d times, want 2", up.count())
	}
}

// A process that dies in the middle of a call.
func TestAServerThatDiesLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for name, upEra := range eras {
		for downName, era := range eras {
			up := newFake(upEra, blocking, "free", "tool")
			w := newWorld(t, quarantineAll, gateway.Options{Hold: time.Minute,
				Servers: []gateway.ServerConfig{up.over(t, "stdio")}})
			c := join(t, w, era, `{"elicitation":{}}`)
			answer := make(chan string)
			go func() { answer <- say(c.callTool("tool", `{}`)) }()
			w.resolve(t, true)
			testkit.Eventually(t, "the call is sent", func() bool { return up.count() == 1 })
			up.hangUp()
			contains(t, name+" to "+downName, testkit.Receive(t, "the answer", answer),
				"failed: The outcome is unknown: the call was sent to the MCP server up and no answer came")
			first := w.newest(t)
			if first.RunResult != approval.RunUnknown {
				t.Errorf("outcome %q, want unknown", first.RunResult)
			}
			testkit.Eventually(t, "the server is back", func() bool { return w.gw.Health()[0].State == upstream.Up })
			go func() { answer <- say(c.callTool("tool", `{}`)) }()
			if r := w.resolve(t, true); r.Previous == nil || r.Previous.RequestID != first.ID ||
				r.Previous.RunResult != approval.RunUnknown {
				t.Errorf("the new request tells %+v of the last", r.Previous)
			}
			want(t, name+" to "+downName+" again", testkit.Receive(t, "the answer", answer), "ran")
			if up.count() != 2 {
				t.Errorf("sent %d times, want 2", up.count())
			}
		}
	}
}
