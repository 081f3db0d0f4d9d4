package gateway_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// replicas are two gateways over one gate, of which each knows where the other is.
type replicas struct {
	*world
	urls      [2]string
	addresses sync.Map  // by runner
	away      error     // why they cannot be found out
	taken     chan bool // what the next look for tasks that wait has found
}

var runners = [2]string{"01KAFHZX3T9W8Y7B6A5D4C3E2F", "01KAFHZX3T9W8Y7B6A5D4C3E2G"}

func newReplicas(t *testing.T, rules string, up *fake) *replicas {
	t.Helper()
	rs := &replicas{world: newWorld(t, rules, gateway.Options{}), taken: make(chan bool, 1)}
	server := up.over(t, "http")
	for i, runner := range runners {
		fleet := together()
		fleet.Runner, fleet.AddressOf = runner, rs.addressOf
		fleet.TakeTasks = func(ctx context.Context, _ []string) (bool, error) {
			if i == 0 {
				return false, nil
			}
			select {
			case taken := <-rs.taken:
				return taken, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		gw, err := gateway.New(gateway.Options{Asker: rs.gate, Servers: []gateway.ServerConfig{server}, Fleet: fleet})
		if err != nil {
			t.Fatal(err)
		}
		gw.Start()
		h := downstream.NewHTTP(downstream.HTTPOptions{Sessions: gw, Guard: downstream.Guard{Loopback: true},
			Fleet: &downstream.Fleet{ID: runner, AddressOf: rs.addressOf, Owner: gw.Owner},
			Authenticate: func(r *http.Request) (downstream.Caller, error) {
				agent := map[string]string{"Bearer " + agentToken: "bot", "Bearer " + otherToken: "other"}[r.Header.Get(
					"Authorization")]
				if agent == "" {
					return downstream.Caller{}, errors.New("who is this?")
				}
				return downstream.Caller{Agent: agent}, nil
			}})
		srv := httptest.NewServer(h)
		rs.urls[i] = srv.URL + "/mcp"
		rs.addresses.Store(runner, srv.URL)
		t.Cleanup(func() {
			h.Close()
			srv.Close()
			stop, done := context.WithTimeout(context.Background(), testkit.Patience)
			defer done()
			if err := gw.Stop(stop); err != nil {
				t.Error(err)
			}
		})
	}
	return rs
}

func (rs *replicas) addressOf(_ context.Context, runner string) (string, error) {
	at, _ := rs.addresses.Load(runner)
	s, _ := at.(string)
	return s, rs.away
}

// at has a client of one replica.
func (rs *replicas) at(t *testing.T, i int, era mcp.Era, caps string, with ...func(*peer)) *peer {
	t.Helper()
	return join(t, rs.world, era, caps, append(with, func(c *peer) { c.url = rs.urls[i] })...)
}

// moved is the client of one replica that comes to the other one, with what it has.
func (rs *replicas) moved(c *peer) *peer {
	m := &peer{t: c.t, era: c.era, token: c.token, caps: c.caps, http: c.http, session: c.session, answer: c.answer,
		ids: 1000, heard: c.heard}
	for i, url := range rs.urls {
		if url != c.url {
			m.url = rs.urls[i]
		}
	}
	return m
}

// A task that one replica runs is the same at the other: asked for, answered, listened to and cancelled.
func TestATaskOfOneReplicaIsReachedThroughTheOther(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, func(c *fakeCall) string {
		return textResult("ran " + answered(c.ask("elicitation/create", `{"message":"Which?","requestedSchema":{}}`)))
	}, "tool")
	rs := newReplicas(t, quarantineAll, up)
	heard := make(chan string, 100)
	one := rs.at(t, 0, mcp.Modern, askableTasks)
	other := rs.moved(one)
	id := one.begin("tool", `{"n":1}`)
	if r := rs.newest(t); r.Runner != runners[0] {
		t.Errorf("it is for %q to run, want %q", r.Runner, runners[0])
	}
	want(t, "while it waits", other.status(id), "working")

	listens := rs.moved(one)
	listens.heard = func(m mcp.Message) { heard <- m.Method + " " + string(m.Params) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var listening sync.WaitGroup
	listening.Go(func() {
		_, _ = listens.try(ctx, listens.newID(), "subscriptions/listen", `{"notifications":{"taskIds":["`+id+`"]}}`)
	})
	contains(t, "what is agreed", testkit.Receive(t, "the subscription", heard), id)
	rs.resolve(t, true)
	contains(t, "what is told", testkit.Receive(t, "the task's change", heard), "notifications/tasks")
	other.becomes(id, "input_required")
	want(t, "an answer", string(other.task("tasks/update", id,
		`"inputResponses":{"input-1":{"action":"accept","content":{}}}`).Result), `{"resultType":"complete"}`)
	want(t, "the end", other.becomes(id, "completed"), `completed: ran {"action":"accept","content":{}}`)
	want(t, "at both", string(other.task("tasks/get", id).Result), string(one.task("tasks/get", id).Result))
	cancel()
	listening.Wait() // real: the request ends with its context

	id = one.begin("tool", `{"n":2}`)
	want(t, "a cancellation", string(other.task("tasks/cancel", id).Result), `{"resultType":"complete"}`)
	want(t, "at the one that was to run it", one.status(id), "cancelled")
	if r := rs.newest(t); r.Status != approval.Cancelled || up.count() != 1 {
		t.Errorf("it is %s, and %d ran", r.Status, up.count())
	}
	stranger := rs.at(t, 1, mcp.Modern, askableTasks, func(c *peer) { c.token = otherToken })
	want(t, "another agent's", say(stranger.task("tasks/get", id)), "error -32602: Invalid params: there is no such task.")
}

// The same call that is asked for at both is one task, which one of them runs.
func TestOneTaskOfTwoReplicasRunsOnce(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	rs := newReplicas(t, quarantineAll, up)
	one := rs.at(t, 0, mcp.Modern, withTasks)
	other := rs.moved(one)
	id := one.begin("tool", `{}`)
	if again := other.begin("tool", `{}`); again != id {
		t.Errorf("it is the task %s at one and %s at the other", id, again)
	}
	rs.resolve(t, true)
	for _, c := range []*peer{other, one} {
		want(t, "the end", c.becomes(id, "completed"), "completed: ran")
	}
	if n := up.count(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A replica that was taken for gone finds its task taken up by another: that runs it, and both tell of that.
func TestATaskThatAnotherReplicaTookUpRunsOnce(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	rs := newReplicas(t, quarantineAll, up)
	one := rs.at(t, 0, mcp.Modern, withTasks)
	id := one.begin("tool", `{}`)
	rs.sql(t, `UPDATE approval_requests SET runner = $1 WHERE id = $2`, runners[1], id)
	rs.taken <- true
	for _, c := range []*peer{one, rs.moved(one)} {
		want(t, "while it waits", c.status(id), "working")
	}
	rs.resolve(t, true)
	for _, c := range []*peer{one, rs.moved(one)} {
		want(t, "the end", c.becomes(id, "completed"), "completed: ran")
	}
	if n := up.count(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// sql changes what the gate has stored.
func (rs *replicas) sql(t *testing.T, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+rs.path+"?_pragma=busy_timeout(5000)")
	if err == nil {
		_, err = db.ExecContext(t.Context(), statement, args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// A task whose result is forgotten is not told to have been another call's.
func TestATaskThatIsForgottenDidRun(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	rs := newReplicas(t, quarantineAll, up)
	one := rs.at(t, 0, mcp.Modern, withTasks)
	id := one.begin("tool", `{}`)
	rs.resolve(t, true)
	one.becomes(id, "completed")
	rs.sql(t, `UPDATE approval_requests SET runner = $1, requested_at = $2, expires_at = $3 WHERE id = $4`, runners[1],
		"2026-01-01T00:00:00.000Z", "2026-01-01T00:30:00.000Z", id)
	want(t, "at the one that is to know of it", rs.moved(one).status(id),
		"completed: The call ran and succeeded; its result was lost when the gate restarted.")
}

// A task whose approval an identical call used, at the other replica, says so: nothing was restarted.
func TestATaskWhoseApprovalTheOtherReplicaUsed(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	rs := newReplicas(t, quarantineAll, up)
	one, plain := rs.at(t, 0, mcp.Modern, withTasks), rs.at(t, 1, mcp.Modern, `{}`)
	for n := range 16 { // whoever is quicker
		args := fmt.Sprintf(`{"n":%d}`, n)
		id := one.begin("tool", args)
		var calling sync.WaitGroup
		stop := make(chan struct{})
		calling.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					plain.callTool("tool", args)
				}
			}
		})
		rs.resolve(t, true)
		for _, c := range []*peer{rs.moved(one), one} {
			got := c.becomes(id, "completed")
			if got != "completed: ran" && !strings.Contains(got, "was already used at") {
				t.Errorf("the task says: %s", got)
			}
		}
		close(stop)
		testkit.Wait(t, "the other caller", calling.Wait)
		if r := rs.newest(t); r.ID != id { // it was asked for anew
			rs.resolve(t, false)
		}
	}
}

// What became of a task whose replica is gone its record tells; while that is there and out of reach, nobody guesses.
func TestATaskOfAReplicaThatIsGone(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	rs := newReplicas(t, quarantineAll, up)
	one := rs.at(t, 0, mcp.Modern, withTasks)
	other := rs.moved(one)
	ran, waits := one.begin("tool", `{"n":1}`), ""
	rs.resolve(t, true)
	one.becomes(ran, "completed")
	waits = one.begin("tool", `{"n":2}`)

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	rs.addresses.Store(runners[0], closed.URL)
	for _, id := range []string{ran, waits} {
		contains(t, "out of reach", say(other.task("tasks/get", id)), "error -31003: Another replica of the gate has what "+
			"this is about, and did not answer: nothing was run; try again.")
	}
	rs.away = errors.New("away")
	contains(t, "nobody knows", say(other.task("tasks/get", ran)), "error -31003: The gate cannot answer now")
	rs.away = nil
	rs.addresses.Delete(runners[0])
	want(t, "it has run", other.status(ran),
		"completed: The call ran and succeeded; its result was lost when the gate restarted.")
	want(t, "it waits for whoever takes it up", other.status(waits), "working")
	if n := up.count(); n != 1 {
		t.Errorf("%d ran", n)
	}
}

// A call that waits for its client's answer goes on whichever replica the client comes back to.
func TestACallThatWaitsForItsClientGoesOnThroughTheOtherReplica(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, func(c *fakeCall) string {
		return textResult("ran " + answered(c.ask("elicitation/create", `{"message":"Which?","requestedSchema":{}}`)))
	}, "tool")
	rs := newReplicas(t, allowAll, up)
	one := rs.at(t, 0, mcp.Modern, `{"elicitation":{}}`)
	_, state := inputs(one.callTool("tool", `{}`))
	const answer = `"inputResponses":{"input":{"action":"accept","content":{"a":1}}}`
	want(t, "at the other", say(rs.moved(one).callTool("tool", `{}`, answer, `"requestState":`+state)),
		`ran {"action":"accept","content":{"a":1}}`)
	for _, c := range []*peer{one, rs.moved(one)} {
		contains(t, "again", say(c.callTool("tool", `{}`, answer, `"requestState":`+state)), "error -32602")
	}
	if n := up.count(); n != 1 {
		t.Errorf("%d ran", n)
	}
}

// A session of the older protocol is one replica's, and is used through the other: its calls, what is asked within
// them, its stream, its end. Another agent has none of it, and what was passed on once goes no further.
func TestASessionOfOneReplicaIsUsedThroughTheOther(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, func(c *fakeCall) string {
		return textResult("ran " + answered(c.ask("elicitation/create", `{"message":"Which?","requestedSchema":{}}`)))
	}, "tool")
	rs := newReplicas(t, allowAll, up)
	one := rs.at(t, 0, mcp.Legacy, `{"elicitation":{}}`, func(c *peer) {
		c.answer = func(mcp.Message) string { return `{"action":"accept","content":{}}` }
	})
	if !strings.HasPrefix(one.session, runners[0]+".") {
		t.Errorf("the session is %q", one.session)
	}
	other := rs.moved(one)
	want(t, "a call", say(other.callTool("tool", `{}`)), `ran {"action":"accept","content":{}}`)
	stream := other.get(t, "GET", http.Header{"Accept": {"text/event-stream"}})
	defer stream.Body.Close()
	if stream.StatusCode != 200 {
		t.Fatalf("the stream: %s", stream.Status)
	}
	up.push(mcp.Notification("notifications/tools/list_changed", nil))
	line := make(chan string, 1)
	go func() {
		for in := bufio.NewScanner(stream.Body); in.Scan(); {
			if strings.HasPrefix(in.Text(), "data: ") {
				line <- in.Text()
				return
			}
		}
	}()
	contains(t, "what it is told", testkit.Receive(t, "an event", line), "list_changed")

	stranger := rs.moved(one)
	stranger.token = otherToken
	for what, r := range map[string]*http.Response{
		"another agent":  stranger.get(t, "GET", http.Header{"Accept": {"text/event-stream"}}),
		"passed on once": other.get(t, "GET", http.Header{"Accept": {"text/event-stream"}, downstream.HeaderHop: {"1"}}),
	} {
		if r.Body.Close(); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", what, r.Status)
		}
	}
	ended := other.get(t, "DELETE", nil)
	if ended.Body.Close(); ended.StatusCode != http.StatusNoContent {
		t.Errorf("the end: %s", ended.Status)
	}
	gone := one.get(t, "DELETE", nil)
	if gone.Body.Close(); gone.StatusCode != http.StatusNotFound {
		t.Errorf("after the end: %s", gone.Status)
	}
	rs.addresses.Delete(runners[0])
	lost := other.get(t, "DELETE", nil)
	if lost.Body.Close(); lost.StatusCode != http.StatusNotFound {
		t.Errorf("of a replica that is gone: %s", lost.Status)
	}
}

// A client that goes away through one replica is gone for the other, which has its call.
func TestAClientThatIsGoneIsGoneThroughTheOtherReplica(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	var asked atomic.Int64
	up := newFake(mcp.Legacy, func(c *fakeCall) string {
		_ = c.ask("elicitation/create", fmt.Sprintf(`{"message":"%d","requestedSchema":{}}`, asked.Add(1)))
		begun <- struct{}{}
		<-c.ctx.Done()
		return ""
	}, "tool")
	rs := newReplicas(t, allowAll, up)
	one := rs.at(t, 0, mcp.Modern, `{"elicitation":{}}`)
	_, state := inputs(one.callTool("tool", `{}`))
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	calling.Go(func() {
		rs.moved(one).do(ctx, "tools/call", callParams("tool", `{}`, `"inputResponses":{"input":{"action":"decline"}}`,
			`"requestState":`+state))
	})
	testkit.Receive(t, "the call goes on", begun)
	cancel()
	testkit.Wait(t, "the client", calling.Wait)
	testkit.Eventually(t, "the server is told", func() bool {
		up.mu.Lock()
		defer up.mu.Unlock()
		return len(up.cancelled) == 1
	})
}

// get sends a request that has no message.
func (c *peer) get(t *testing.T, method string, h http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set(mcp.HeaderSession, c.session)
	res, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
