package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/testkit"
)

// mcpServer is an MCP server for these tests. It writes what happens into server.log of its folder.
func mcpServer() {
	note := func(format string, args ...any) {
		if f, err := os.OpenFile("server.log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintf(f, format+"\n", args...)
			f.Close()
		}
	}
	note("start %d", os.Getpid())
	if len(os.Args) > 1 { // a child that nothing but a kill ends
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(time.Hour) // real: it is killed
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		_ = json.Unmarshal(lines.Bytes(), &m)
		answer := `"error":{"code":-32601,"message":"Method not found"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"test-server","version":"1"}}`
		case "tools/list":
			answer = `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"write","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			note("call %s %s", m.Params.Name, m.Params.Arguments)
			if m.Params.Name == "hang" {
				child := exec.Command(os.Args[0], "child") // real: a server leaves it behind
				if err := child.Start(); err != nil {
					note("%v", err)
				}
				continue
			}
			text, _ := json.Marshal(string(m.Params.Arguments))
			answer = `"result":{"content":[{"type":"text","text":` + string(text) + `}]}`
		}
		if m.ID != nil {
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", m.ID, answer)
		}
	}
}

// mcpHome is a user's home with a gate of their own.
type mcpHome struct {
	t      *testing.T
	dir    string
	config string
	env    []string
}

const mcpConfig = `listen: 127.0.0.1:0
store: sqlite:own.db
people: [{name: hana, roles: [approver, admin], token: hana-token-0123456789}]
policy:
  rules:
    - {tools: ["*/echo"], risk: low}
`

func newMCPHome(t *testing.T, config string) *mcpHome {
	t.Helper()
	h := &mcpHome{t: t, dir: t.TempDir()}
	h.config = filepath.Join(h.dir, "config", "countersign", "countersign.yaml")
	h.env = append(os.Environ(), "HOME="+h.dir, "XDG_CONFIG_HOME="+filepath.Join(h.dir, "config"), "XDG_CACHE_HOME="+
		filepath.Join(h.dir, "cache"),
		"XDG_RUNTIME_DIR="+filepath.Join(h.dir, "run"), "COUNTERSIGN_SERVER=", "COUNTERSIGN_TOKEN=",
		"GORACE=atexit_sleep_ms=0")
	if err := os.MkdirAll(filepath.Dir(h.config), 0o700); err != nil {
		t.Fatal(err)
	}
	h.configure(config)
	t.Cleanup(func() { h.endGate() })
	return h
}

func (h *mcpHome) configure(config string) {
	h.t.Helper()
	if config == "" {
		return
	}
	if err := os.WriteFile(h.config, []byte(config), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// endGate kills the gate, if one runs.
func (h *mcpHome) endGate() {
	if p, err := owner(filepath.Dir(h.config)); err == nil && p.Kill() == nil {
		processEnds(h.t, fmt.Sprint(p.Pid))
	}
}

// person is hana's way to the gate.
func (h *mcpHome) person() *client.Client {
	h.t.Helper()
	c, err := client.New("unix://"+filepath.Join(h.dir, "run", "countersign", "gate.sock"), "hana-token-0123456789")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// pending waits for the one request that waits for a decision.
func (h *mcpHome) pending() client.Approval {
	h.t.Helper()
	c := h.person()
	var found []client.Approval
	testkit.Eventually(h.t, "one pending request", func() bool {
		page, err := c.Approvals(context.Background(), client.ApprovalQuery{Status: "pending"})
		found = page.Items
		return err == nil && len(found) == 1
	})
	return found[0]
}

func (h *mcpHome) approve(id string) {
	h.t.Helper()
	if _, err := h.person().Decide(context.Background(), id, client.Approve, ""); err != nil {
		h.t.Fatal(err)
	}
}

// starts is how often the log says that a gate serves.
func (h *mcpHome) starts() int {
	log, _ := os.ReadFile(filepath.Join(h.dir, "cache", "countersign", "serve.log"))
	return strings.Count(string(log), "msg=serving")
}

// gone is whether no process has the number.
func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	defer p.Release()
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// processEnds waits until no process with the number runs.
func processEnds(t testing.TB, pid string) {
	t.Helper()
	testkit.Eventually(t, "the end of process "+pid, func() bool {
		state, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			var n int
			fmt.Sscan(pid, &n)
			return gone(n)
		}
		_, after, _ := strings.Cut(string(state), ") ")
		return strings.HasPrefix(after, "Z") // nobody buries it everywhere
	})
}

// wrapper is the program around a server, as a client starts it.
type wrapper struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	dir    string
	stderr *testkit.Buffer

	mu      sync.Mutex
	last    int
	waiting map[int]chan string
	held    chan struct{} // a call waits for a person
	over    chan struct{}
}

func (h *mcpHome) wrap(dir string) *wrapper {
	h.t.Helper()
	w := &wrapper{t: h.t, dir: filepath.Join(h.dir, dir), stderr: new(testkit.Buffer), waiting: map[int]chan string{},
		held: make(chan struct{}, 1), over: make(chan struct{})}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	w.cmd = testkit.Command(h.t, "countersign", "mcp", "--name", "test", "--", "mcp-server")
	w.cmd.Dir, w.cmd.Env, w.cmd.Stderr = w.dir, append(h.env, "PWD="+w.dir), w.stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		h.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer close(w.over)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var m struct {
				ID     int
				Method string
			}
			_ = json.Unmarshal(lines.Bytes(), &m)
			if m.Method == "notifications/progress" {
				select {
				case w.held <- struct{}{}:
				default:
				}
			}
			w.mu.Lock()
			if ch := w.waiting[m.ID]; ch != nil {
				ch <- lines.Text()
			}
			delete(w.waiting, m.ID)
			w.mu.Unlock()
		}
	}()
	h.t.Cleanup(func() {
		w.in.Close()
		_ = w.cmd.Process.Kill()
		testkit.Receive(h.t, "the end of the wrapper", w.over)
		_ = w.cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("on stderr:\n%s", w.stderr)
		}
	})
	return w
}

func (w *wrapper) start(method, params string) <-chan string {
	w.mu.Lock()
	w.last++
	id, ch := w.last, make(chan string, 1)
	w.waiting[id] = ch
	w.mu.Unlock()
	fmt.Fprintf(w.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	return ch
}

func (w *wrapper) wait(ch <-chan string) string {
	w.t.Helper()
	select {
	case s := <-ch:
		return s
	case <-w.over:
		w.t.Fatalf("the wrapper ended without an answer")
	case <-time.After(60 * time.Second):
		w.t.Fatal("no answer within 60 s")
	}
	return ""
}

func (w *wrapper) hello() {
	w.t.Helper()
	if s := w.wait(w.start("initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)); !strings.Contains(s,
		`"test-server"`) {
		w.t.Fatalf("initialize: %s", s)
	}
	fmt.Fprintln(w.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (w *wrapper) call(tool, args string) <-chan string {
	return w.start("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
}

// noted are the lines of the server's log that begin with a word.
func (w *wrapper) noted(word string) (found []string) {
	b, _ := os.ReadFile(filepath.Join(w.dir, "server.log"))
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l), word); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found
}

func says(t testing.TB, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s: got %s\nwant it to contain %s", what, got, part)
		}
	}
}

func TestManyWrappersShareOneGate(t *testing.T) {
	h := newMCPHome(t, mcpConfig)
	var wg sync.WaitGroup
	for i := range 10 {
		w := h.wrap(fmt.Sprint("project-", i))
		wg.Go(func() {
			w.hello()
			says(t, "a call", w.wait(w.call("echo", `{"n":1}`)), `{\"n\":1}`)
		})
	}
	wg.Wait() // real: as long as ten programs take to start; each answer is waited for with a bound
	if n := h.starts(); n != 1 {
		t.Errorf("%d gates were started, want 1", n)
	}
}

func TestAWrapperWithoutAGateSaysWhyAndRecovers(t *testing.T) {
	for name, tt := range map[string]struct {
		config string
		says   []string
	}{
		"none": {"", []string{"Countersign isn't set up yet", "countersign init --own"}},
		"broken": {"policies: {}\n", []string{"The gate could not be started", "countersign.yaml:1:1: unknown key",
			"The call was not run"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newMCPHome(t, tt.config)
			w := h.wrap("project")
			w.hello()
			says(t, "the tools", w.wait(w.start("tools/list", "{}")), `"name":"echo"`)
			says(t, "a call", w.wait(w.call("echo", `{"n":1}`)), append(tt.says, `"isError":true`)...)
			testkit.Eventually(t, "the log says so", func() bool {
				return strings.Contains(w.stderr.String(), "there is no gate, so no call runs")
			})
			if len(w.noted("call")) != 0 {
				t.Error("it ran")
			}
			h.configure(mcpConfig)
			says(t, "once that is mended", w.wait(w.call("echo", `{"n":1}`)), `{\"n\":1}`)
		})
	}
}

func TestAHeldCallGoesOnWaitingWhenItsGateIsKilled(t *testing.T) {
	h := newMCPHome(t, mcpConfig)
	w := h.wrap("project")
	w.hello()
	// The request is there a little before the wrapper has read the answer to the call that made it, and a gate that
	// dies in between may have done with the call whatever it did: only then is the call held.
	answer := w.start("tools/call", `{"name":"write","arguments":{"n":1},"_meta":{"progressToken":1}}`)
	testkit.Receive(t, "the call is held", w.held)
	r := h.pending()
	if r.Server != "test" || !strings.HasPrefix(r.Scope, w.dir+" (command ") {
		t.Errorf("got server %s in the scope %s", r.Server, r.Scope)
	}
	h.endGate()
	again := h.pending() // the wrapper has started another
	if again.ID != r.ID {
		t.Errorf("another request is pending: %s, want %s", again.ID, r.ID)
	}
	h.approve(r.ID)
	says(t, "the call", w.wait(answer), `{\"n\":1}`)
	if n := h.starts(); n != 2 {
		t.Errorf("%d gates were started, want 2", n)
	}
}

func TestNothingOutlivesAWrapperThatIsKilled(t *testing.T) {
	h := newMCPHome(t, mcpConfig)
	w := h.wrap("project")
	w.hello()
	w.call("hang", `{"n":1}`)
	first := h.pending()
	h.approve(first.ID)
	testkit.Eventually(t, "the server has a child", func() bool { return len(w.noted("start")) == 2 })
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range w.noted("start") {
		processEnds(t, pid)
	}
	r, err := h.person().Approval(t.Context(), first.ID)
	if err != nil || r.DispatchedAt.IsZero() || r.RunResult != "" {
		t.Errorf("got %+v, %v, want it dispatched without an outcome", r, err)
	}
	// The next card says so.
	again := h.wrap("project")
	again.hello()
	again.call("hang", `{"n":1}`)
	if next := h.pending(); next.Previous == nil || next.Previous.ApprovalID != first.ID ||
		next.Previous.DispatchedAt.IsZero() || next.Previous.RunResult != "" {
		t.Errorf("got %+v", next.Previous)
	}
}

func TestAWrapperEndsInGoodOrder(t *testing.T) {
	for name, end := range map[string]func(*wrapper){
		"SIGTERM":         func(w *wrapper) { _ = w.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":          func(w *wrapper) { _ = w.cmd.Process.Signal(os.Interrupt) },
		"the client goes": func(w *wrapper) { w.in.Close() },
		"while it is held": func(w *wrapper) {
			w.start("tools/call", `{"name":"write","arguments":{},"_meta":{"progressToken":1}}`)
			testkit.Receive(w.t, "the call is held", w.held)
			_ = w.cmd.Process.Signal(syscall.SIGTERM)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newMCPHome(t, mcpConfig)
			w := h.wrap("project")
			w.hello()
			w.wait(w.call("echo", "{}"))
			end(w)
			testkit.Receive(t, "the end of the wrapper", w.over)
			if err := w.cmd.Wait(); err != nil {
				t.Errorf("got %v", err)
			}
			for _, pid := range w.noted("start") {
				processEnds(t, pid)
			}
		})
	}
}
