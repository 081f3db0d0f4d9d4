package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/testkit"
)

const (
	withTasks     = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	askableTasks  = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	quarantineAll = `{policy: {rules: [{tools: [free], action: allow}, {tools: [never], action: deny, risk: high}, {tools: [brief], action: quarantine, timeout: 1s}, {tools: ["*"], action: quarantine}]}}`
)

// taskWorld is a world of tasks whose upstream is a fake.
func taskWorld(t *testing.T, era mcp.Era, call func(*fakeCall) string, in around) (*world, *fake) {
	up := newFake(era, call, "tool", "free", "never", "brief")
	return newWorldIn(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}}, in), up
}

// begin calls a tool and returns the task that it is answered with.
func (c *peer) begin(name, arguments string) string {
	c.t.Helper()
	m := c.callTool(name, arguments)
	id := mcp.Text(member(m.Result, "taskId"))
	if id == "" || mcp.Text(member(m.Result, "resultType")) != mcp.ResultTask {
		c.t.Fatalf("got %s, want a task", say(m))
	}
	return id
}

func (c *peer) task(method, id string, more ...string) mcp.Message {
	return c.do(c.t.Context(), method, `{"taskId":"`+strings.Join(append([]string{id + `"`}, more...), ",")+`}`)
}

// status is a task's state in one string, with its end if it has one.
func (c *peer) status(id string) string {
	m := c.task("tasks/get", id)
	if m.Err != nil {
		return say(m)
	}
	o, err := mcp.ReadObject(m.Result)
	if err != nil || o.Text("resultType") != mcp.ResultComplete || o.Text("taskId") != id {
		c.t.Errorf("tasks/get: got %s", m.Result)
	}
	s := o.Text("status")
	if r := o.Get("result"); r != nil {
		result, _ := mcp.ReadObject(r)
		s += ": " + sayResult(result)
	}
	if e := o.Get("error"); e != nil {
		s += fmt.Sprintf(": error %d", mcp.ReadError(e).Code)
	}
	return s
}

// becomes waits until a task's state begins so.
func (c *peer) becomes(id, status string) string {
	c.t.Helper()
	var got string
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the task was last %s", got)
		}
	}()
	testkit.Eventually(c.t, "the task is "+status, func() bool {
		got = c.status(id)
		return strings.HasPrefix(got, status)
	})
	return got
}

// restart has another gateway take the place of the world's, over the same gate.
func (w *world) restart(t *testing.T, o gateway.Options) {
	t.Helper()
	w.http.Close()
	stop, done := context.WithTimeout(context.Background(), testkit.Patience)
	defer done()
	if err := w.gw.Stop(stop); err != nil {
		t.Error(err)
	}
	o.Asker = w.gate
	var err error
	if w.gw, err = gateway.New(o); err != nil {
		t.Fatal(err)
	}
	w.gw.Start()
	w.http = downstream.NewHTTP(downstream.HTTPOptions{Sessions: w.gw, Guard: downstream.Guard{Loopback: true},
		Authenticate: func(r *http.Request) (downstream.Caller, error) {
			return downstream.Caller{Agent: map[string]string{"Bearer " + agentToken: "bot", "Bearer " +
				otherToken: "other"}[r.Header.Get("Authorization")]}, nil
		}})
	srv := httptest.NewServer(w.http)
	w.url = srv.URL
	gw, h := w.gw, w.http
	t.Cleanup(func() {
		h.Close()
		srv.Close()
		if err := gw.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestTasksAreForClientsThatKnowThem(t *testing.T) {
	t.Parallel()
	w, _ := taskWorld(t, mcp.Legacy, running, around{})
	for what, c := range map[string]*peer{"modern": join(t, w, mcp.Modern, `{}`), "legacy": join(t, w, mcp.Legacy,
		withTasks)} {
		contains(t, what, say(c.callTool("tool", `{"`+what+`":1}`)), "Approval requested")
	}
	c := join(t, w, mcp.Modern, withTasks)
	want(t, "an allowed call", say(c.callTool("free", `{}`)), "ran")
	contains(t, "a denied call", say(c.callTool("never", `{}`)), "failed: Policy denied")
	id := c.begin("tool", `{"n":1}`)
	if r := w.newest(t); r.ID != id || !r.Task || r.Status != approval.Pending {
		t.Errorf("got a task %s, and the newest request is %s, a task: %t, %s", id, r.ID, r.Task, r.Status)
	}
	if again := c.begin("tool", `{"n":1}`); again != id {
		t.Errorf("the identical call is another task")
	}
	want(t, "tasks/list", say(c.do(t.Context(), "tasks/list", `{}`)), "error -32601: Method not found: tasks/list.")
}

// A task is a promise that must outlive the process. A request that was made without one cannot give it.
func TestARequestThatIsNoTaskStaysNone(t *testing.T) {
	t.Parallel()
	w, up := taskWorld(t, mcp.Legacy, running, around{})
	plain, c := join(t, w, mcp.Modern, `{}`), join(t, w, mcp.Modern, withTasks)
	contains(t, "without tasks", say(plain.callTool("tool", `{}`)), "Approval requested")
	contains(t, "with tasks", say(c.callTool("tool", `{}`)), "Approval pending")
	id := w.newest(t).ID
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		want(t, method, say(c.task(method, id)), "error -32602: Invalid params: there is no such task.")
	}
	w.resolve(t, true)
	if up.count() != 0 {
		t.Error("the call has run by itself")
	}
	want(t, "with tasks, approved", say(c.callTool("tool", `{}`)), "ran")
}

func TestATaskEndsAsItsCallDoes(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		for _, test := range []struct {
			result, want string
			ran          approval.RunResult
		}{
			{`{"content":[{"type":"text","text":"done"}],"structuredContent":{"n":12345678901234567890}}`, "completed: done",
				approval.RunSucceeded},
			{`{"content":[{"type":"text","text":"oh"}],"isError":true}`, "completed: failed: oh", approval.RunFailed},
			{`error -32000`, "failed: error -32000", approval.RunFailed},
		} {
			w, up := taskWorld(t, era, func(*fakeCall) string { return test.result }, around{})
			c := join(t, w, mcp.Modern, withTasks)
			id := c.begin("tool", `{"n":9007199254740993}`)
			want(t, "before", c.status(id), "working")
			w.resolve(t, true)
			want(t, name, c.becomes(id, test.want[:6]), test.want)
			if r := w.newest(t); r.RunResult != test.ran || up.count() != 1 {
				t.Errorf("outcome %q, ran %d times; want %s, once", r.RunResult, up.count(), test.ran)
			}
			want(t, "the arguments", string(up.nth(0).Get("arguments")), `{"n":9007199254740993}`)
			if !strings.HasPrefix(test.result, "error") {
				bytes := test.result
				if era == mcp.Legacy { // which has no kinds of result
					bytes = `{"resultType":"complete",` + bytes[1:]
				}
				want(t, "the result's bytes", string(member(c.task("tasks/get", id).Result, "result")), bytes)
			}
		}
	}
}

func TestATaskThatDoesNotRunSaysWhy(t *testing.T) {
	t.Parallel()
	w, up := taskWorld(t, mcp.Legacy, running, around{})
	c := join(t, w, mcp.Modern, withTasks)
	id := c.begin("tool", `{"a":1}`)
	w.resolve(t, false)
	contains(t, "denied", c.becomes(id, "completed"), "completed: failed: Approval denied by hana: because.")
	contains(t, "denied before", say(c.callTool("tool", `{"a":1}`)), "failed: Approval denied by hana")
	id = c.begin("brief", `{}`)
	contains(t, "expired", c.becomes(id, "completed"), "completed: failed: [APPROVAL EXPIRED]")
	id = c.begin("tool", `{"a":2}`)
	if _, err := w.gate.Cancel(context.Background(), approval.Cancellation{RequestID: id, By: person,
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	contains(t, "cancelled", c.becomes(id, "completed"), "completed: failed: [APPROVAL CANCELLED]")
	if up.count() != 0 {
		t.Errorf("ran %d times", up.count())
	}
}

func TestCancellingATask(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 10)
	w, up := taskWorld(t, mcp.Legacy, func(c *fakeCall) string { begun <- struct{}{}; <-c.ctx.Done(); return "" },
		around{})
	c := join(t, w, mcp.Modern, withTasks)
	id := c.begin("tool", `{"a":1}`)
	want(t, "cancel", string(c.task("tasks/cancel", id).Result), `{"resultType":"complete"}`)
	want(t, "while pending", c.status(id), "cancelled")
	if r := w.newest(t); r.Status != approval.Cancelled || r.ResolvedBy != "agent:bot" {
		t.Errorf("the request is %s by %s, want cancelled by agent:bot", r.Status, r.ResolvedBy)
	}
	id = c.begin("tool", `{"a":2}`)
	w.resolve(t, true)
	testkit.Receive(t, "the call is under way", begun)
	c.task("tasks/cancel", id)
	want(t, "while running", c.status(id), "cancelled")
	testkit.Eventually(t, "the server is told", func() bool {
		up.mu.Lock()
		defer up.mu.Unlock()
		return len(up.cancelled) == 1
	})
	testkit.Eventually(t, "the outcome is unknown", func() bool { return w.newest(t).RunResult == approval.RunUnknown })
	want(t, "at the end", c.status(id), "cancelled")
	want(t, "once more", string(c.task("tasks/cancel", id).Result), `{"resultType":"complete"}`)
	if up.count() != 1 {
		t.Errorf("ran %d times, want once", up.count())
	}
}

// slowToSay is a gate whose cancellations return a while after the wait for the request has.
type slowToSay struct {
	*approval.Gate
	waited chan struct{}
}

func (g *slowToSay) Wait(ctx context.Context, c *approval.Call, a *approval.Answer,
	o approval.WaitOptions) (*approval.Answer, error) {
	defer close(g.waited)
	return g.Gate.Wait(ctx, c, a, o)
}

func (g *slowToSay) Cancel(ctx context.Context, c approval.Cancellation) (approval.Request, error) {
	req, err := g.Gate.Cancel(ctx, c)
	<-g.waited                        // real: the request is resolved, and so the wait ends
	time.Sleep(50 * time.Millisecond) // real: what the wait brought is there by now, if nothing holds it
	return req, err
}

// A task that its client cancels is cancelled, however soon the end of its request is noticed.
func TestACancelledTaskIsCancelledWhoeverNoticesFirst(t *testing.T) {
	t.Parallel()
	w, _ := taskWorld(t, mcp.Legacy, running, around{asker: func(g *approval.Gate) gateway.Asker {
		return &slowToSay{Gate: g, waited: make(chan struct{})}
	}})
	c := join(t, w, mcp.Modern, withTasks)
	id := c.begin("tool", `{"a":1}`)
	c.task("tasks/cancel", id)
	want(t, "the task", c.status(id), "cancelled")
}

func TestATaskAsksItsClient(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		call := requiring
		if era == mcp.Legacy {
			call = func(c *fakeCall) string { // both at once
				var got [2]string
				var both sync.WaitGroup
				for i := range got {
					both.Go(func() {
						got[i] = answered(c.ask("elicitation/create", fmt.Sprintf(`{"message":"m%d","requestedSchema":{}}`, i)))
					})
				}
				both.Wait() // real: a server that asks
				return textResult(strings.Join(got[:], " "))
			}
		}
		w, _ := taskWorld(t, era, call, around{})
		c := join(t, w, mcp.Modern, askableTasks)
		id := c.begin("tool", `{"rounds":2}`)
		contains(t, "an update before there is a question",
			string(c.task("tasks/update", id,
				`"inputResponses":{"input-0":{"action":"decline"},"input-1":{"action":"decline"}}`).Result), "complete")
		w.resolve(t, true)
		names := map[string]bool{}
		for range 2 {
			c.becomes(id, "input_required")
			var q mcp.Object
			testkit.Eventually(t, "a new question", func() bool {
				q, _ = mcp.ReadObject(member(c.task("tasks/get", id).Result, "inputRequests"))
				return len(q) == 1 && !names[q[0].Name]
			})
			names[q[0].Name] = true
			message := mcp.Text(member(q[0].Value, "params", "message"))
			c.task("tasks/update", id, `"inputResponses":{"nonsense":{},`+string(mcp.Quote(q[0].Name))+
				`:{"action":"accept","content":{"text":"`+message+`"}}}`)
		}
		got := c.becomes(id, "completed")
		for _, m := range map[mcp.Era][]string{mcp.Legacy: {"m0", "m1"}, mcp.Modern: {"m1"}}[era] {
			contains(t, name, got, `{"action":"accept","content":{"text":"`+m+`"}}`)
		}
	}
}

// listing has the gateway's start look for tasks in the moment in which one has been stored and is not there yet.
type listing struct {
	*approval.Gate
	stored, listed chan struct{}
	waits          func() // until whoever looks waits for the task to be there, or has taken it up
}

func (l *listing) Tasks(ctx context.Context, agent string) ([]approval.Request, error) {
	select {
	case <-l.stored:
	case <-ctx.Done():
	}
	rs, err := l.Gate.Tasks(ctx, agent)
	close(l.listed)
	return rs, err
}

func (l *listing) Check(ctx context.Context, c approval.Call) (approval.Answer, error) {
	a, err := l.Gate.Check(ctx, c)
	if c.Task {
		close(l.stored)
		l.waits()
	}
	return a, err
}

// A task that a client begins while the gateway takes up tasks is that client's, which is asked what the server asks.
func TestATaskThatBeginsIsNotTakenUp(t *testing.T) {
	t.Parallel()
	l := &listing{stored: make(chan struct{}), listed: make(chan struct{})}
	w, _ := taskWorld(t, mcp.Modern, requiring, around{asker: func(g *approval.Gate) gateway.Asker {
		l.Gate = g
		return l
	}})
	l.waits = func() {
		testkit.Receive(t, "the list of tasks", l.listed)
		testkit.Eventually(t, "it is known whose the task is", w.gw.TakesUpOrWaits)
	}
	c := join(t, w, mcp.Modern, askableTasks)
	id := c.begin("tool", `{"rounds":1}`)
	w.resolve(t, true)
	c.becomes(id, "input_required")
}

func TestATaskIsItsAgents(t *testing.T) {
	t.Parallel()
	w, _ := taskWorld(t, mcp.Legacy, running, around{})
	c := join(t, w, mcp.Modern, withTasks)
	other := join(t, w, mcp.Modern, withTasks, func(c *peer) { c.token = otherToken })
	id := c.begin("tool", `{}`)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		want(t, method, say(other.task(method, id)), say(other.task(method, "01M7ZQ9R4DS6VSQ8ZDXJW2JJDC")))
		m := join(t, w, mcp.Modern, `{}`).task(method, id)
		contains(t, method+" without the extension", say(m), "error -32021")
		want(t, method+" without the extension", string(member(m.Err, "data", "requiredCapabilities")), withTasks)
		contains(t, method+" of a legacy client", say(join(t, w, mcp.Legacy, withTasks).task(method, id)), "error -32601")
	}
	want(t, "the task", c.status(id), "working")
}

// A request of another scope was shown to people as that: this gateway's servers are not what they approved.
func TestATaskOfAnotherScopeDoesNotRunHere(t *testing.T) {
	t.Parallel()
	w, up := taskWorld(t, mcp.Legacy, running, around{})
	c := join(t, w, mcp.Modern, withTasks)
	none, err := args.Parse([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.gate.Check(t.Context(), approval.Call{Agent: "bot", Scope: "elsewhere", Server: "up", Tool: "tool",
		Args: none, Task: true, Dispatch: true})
	if err != nil {
		t.Fatal(err)
	}
	w.resolve(t, true)
	contains(t, "the task", say(c.task("tasks/get", out.Request.ID)), "error ")
	if n := up.count(); n != 0 {
		t.Errorf("the server was called %d times", n)
	}
}

func TestTasksOutliveTheGateway(t *testing.T) {
	t.Parallel()
	var wait atomic.Bool
	w, up := taskWorld(t, mcp.Legacy, func(c *fakeCall) string {
		if wait.Load() {
			<-c.ctx.Done()
			return ""
		}
		return textResult("ran")
	}, around{})
	o := gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "stdio")}}
	c := join(t, w, mcp.Modern, withTasks)
	pending, gone := c.begin("tool", `{"a":1}`), c.begin("tool", `{"a":2}`)
	w.resolve(t, false)
	wait.Store(true)
	running := c.begin("tool", `{"a":3}`)
	w.resolve(t, true)
	testkit.Eventually(t, "the call runs", func() bool { return up.count() == 1 })
	wait.Store(false)
	w.restart(t, o)
	if _, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: pending, Approve: true, By: person,
		Via: approval.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the pending one runs without a poll", func() bool { return up.count() == 2 })
	c = join(t, w, mcp.Modern, withTasks)
	want(t, "pending", c.becomes(pending, "completed"), "completed: ran")
	contains(t, "denied", c.status(gone), "completed: failed: [APPROVAL DENIED]")
	contains(t, "running", c.status(running), "completed: failed: The outcome is unknown")

	w.restart(t, o)
	c = join(t, w, mcp.Modern, withTasks)
	contains(t, "completed", c.status(pending), "completed: The call ran and succeeded; its result was lost")
	if up.count() != 2 {
		t.Errorf("ran %d times, want 2", up.count())
	}
}

// A server that is down does not cost the approval, neither at the start nor later.
func TestAnApprovedTaskWaitsForItsServer(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	var down atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if down.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		up.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	s := up.over(t, "http")
	s.URL = srv.URL
	w := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{s}})
	id := join(t, w, mcp.Modern, withTasks).begin("tool", `{}`)
	down.Store(true)
	w.restart(t, gateway.Options{Servers: []gateway.ServerConfig{s}})
	w.resolve(t, true)
	client := join(t, w, mcp.Modern, withTasks)
	client.task("tasks/get", id) // takes the task up, if that can be
	if r := w.newest(t); !r.ConsumedAt.IsZero() {
		t.Error("the approval was used while the server was down")
	}
	down.Store(false)
	testkit.Eventually(t, "it runs", func() bool { return up.count() == 1 })
	want(t, "the task", client.becomes(id, "completed"), "completed: ran")
}

func TestAServerThatIsLostMeanwhileCostsNoApproval(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	var down atomic.Bool
	c := serveStdio(t, func(conn net.Conn) {
		if !down.Load() {
			up.pipe(conn)
		}
	})
	c.Name = "up"
	w := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{{Config: c}}})
	client := join(t, w, mcp.Modern, withTasks)
	id := client.begin("tool", `{}`)
	down.Store(true)
	up.hangUp()
	testkit.Eventually(t, "it is lost", func() bool { return w.gw.Health()[0].State == upstream.Down })
	w.resolve(t, true)
	testkit.Eventually(t, "the task says so", func() bool {
		return strings.Contains(string(client.task("tasks/get", id).Result), "cannot be reached; the call waits for it")
	})
	if r := w.newest(t); !r.ConsumedAt.IsZero() {
		t.Error("the approval was used while the server was down")
	}
	down.Store(false)
	want(t, "the task", client.becomes(id, "completed"), "completed: ran")
}

// Whoever lost their token meanwhile has nothing run for them.
func TestATaskOfARevokedTokenDoesNotRun(t *testing.T) {
	t.Parallel()
	var revoked, looked atomic.Bool
	w, up := taskWorld(t, mcp.Legacy, running, around{still: func(string) error {
		if revoked.Load() {
			looked.Store(true)
			return errors.New("the token is not valid any more")
		}
		return nil
	}})
	c := join(t, w, mcp.Modern, withTasks)
	id := c.begin("tool", `{}`)
	revoked.Store(true)
	w.resolve(t, true)
	testkit.Eventually(t, "the task looks at its token", looked.Load)
	revoked.Store(false) // the client has another
	contains(t, "the task", c.becomes(id, "completed"), "completed: failed: The gate could not decide")
	if r := w.newest(t); up.count() != 0 || !r.ConsumedAt.IsZero() {
		t.Errorf("ran %d times, used at %s", up.count(), r.ConsumedAt)
	}
}

func TestATaskAndItsTwinRunOnce(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		w, up := taskWorld(t, mcp.Legacy, running, around{})
		c := join(t, w, mcp.Modern, withTasks)
		plain := join(t, w, mcp.Legacy, `{}`)
		id := c.begin("tool", `{}`)
		r := w.newest(t)
		answer := make(chan string)
		go func() {
			if i%2 == 0 {
				testkit.Eventually(t, "a decision", func() bool { return w.newest(t).Status != approval.Pending })
			}
			answer <- say(plain.callTool("tool", `{}`))
		}()
		w.resolve(t, true)
		twin, task := testkit.Receive(t, "the answer", answer), c.becomes(id, "completed")
		n := 0
		for _, r := range w.requests(t) {
			if !r.ConsumedAt.IsZero() {
				n++
			}
		}
		if up.count() != 1 || n != 1 || strings.HasSuffix(twin, "ran") == strings.HasSuffix(task, ": ran") {
			t.Errorf("ran %d times, %d uses; the twin: %s; the task: %s; %s", up.count(), n, twin, task, r.ID)
		}
		if !strings.HasSuffix(task, ": ran") {
			contains(t, "the task", task, "by an identical call that was let through instead of this one")
		}
	}
}
