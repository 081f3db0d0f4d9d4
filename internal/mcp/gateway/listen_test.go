package gateway_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

const withResources = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`

// ear is a modern client that listens.
type ear struct {
	t    *testing.T
	id   string
	got  chan mcp.Message
	end  chan mcp.Message
	stop context.CancelFunc
}

// listenTo has a client subscribe, and returns once it was told what is agreed.
func listenTo(t *testing.T, w *world, caps, wanted string, with ...func(*peer)) (*ear, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	e := &ear{t: t, got: make(chan mcp.Message, 1000), end: make(chan mcp.Message, 1), stop: cancel}
	c := join(t, w, mcp.Modern, caps, with...)
	c.heard = func(m mcp.Message) { e.got <- m }
	id := c.newID()
	e.id = string(id)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m, err := c.try(ctx, id, "subscriptions/listen", `{"notifications":`+wanted+`}`)
		if err == nil {
			e.end <- m
		}
	}()
	t.Cleanup(func() { cancel(); testkit.Receive(t, "the end of the subscription", done) })
	first := e.next()
	if first.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("first comes %s, want the acknowledgement", first.Method)
	}
	return e, string(member(first.Params, "notifications"))
}

// next returns the next message, which must bear the subscription's id.
func (e *ear) next() mcp.Message {
	e.t.Helper()
	select {
	case m := <-e.got:
		if got := string(member(m.Params, "_meta", mcp.MetaSubscription)); got != e.id {
			e.t.Errorf("%s bears the subscription %s, want %s", m.Method, got, e.id)
		}
		return m
	case m := <-e.end:
		e.t.Fatalf("the subscription ended: %s", say(m))
	case <-time.After(testkit.Patience):
		e.t.Fatal("nothing came")
	}
	return mcp.Message{}
}

func TestWhatIsAgreedIsWhatWasAskedForAndCanBeHad(t *testing.T) {
	t.Parallel()
	tools := newFake(mcp.Legacy, running, "tool")
	w := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{tools.over(t, "http")}})
	both := newFake(mcp.Modern, running, "tool")
	both.caps = withResources
	wr := newWorld(t, quarantineAll, gateway.Options{Servers: []gateway.ServerConfig{both.over(t, "http")}})
	id := join(t, w, mcp.Modern, withTasks).begin("tool", `{}`)
	const all = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://a","test://a"],"unheard":true}`
	for _, test := range []struct {
		what         string
		w            *world
		caps, wanted string
		agreed       string
	}{
		{"tools only", w, `{}`, all, `{"toolsListChanged":true}`},
		{"with resources", wr, `{}`, all,
			`{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://a"]}`},
		{"not wanted", wr, `{}`, `{"toolsListChanged":false,"resourcesListChanged":true}`, `{"resourcesListChanged":true}`},
		{"tasks", w, withTasks, `{"taskIds":["` + id + `","01M7ZQ9R4DS6VSQ8ZDXJW2JJDC"]}`, `{"taskIds":["` + id + `"]}`},
	} {
		e, agreed := listenTo(t, test.w, test.caps, test.wanted)
		want(t, test.what, agreed, test.agreed)
		e.stop()
	}
	// With nothing agreed there is nothing to wait for.
	c := join(t, w, mcp.Modern, `{}`)
	for _, wanted := range []string{`{}`, `{"taskIds":["` + id + `"]}`, `{"promptsListChanged":true}`} {
		acked := ""
		c.heard = func(m mcp.Message) { acked = string(member(m.Params, "notifications")) }
		m := c.do(t.Context(), "subscriptions/listen", `{"notifications":`+wanted+`}`)
		want(t, "nothing", acked+mcp.Text(member(m.Result, "resultType")), "{}complete")
	}
	for _, bad := range []string{`{}`, `{"notifications":[]}`, `{"notifications":{"resourceSubscriptions":"test://a"}}`} {
		contains(t, bad, say(c.do(t.Context(), "subscriptions/listen", bad)), "error -32602")
	}
	contains(t, "a legacy client", say(join(t, w, mcp.Legacy, `{}`).do(t.Context(), "subscriptions/listen",
		`{"notifications":{"toolsListChanged":true}}`)), "error -32601")
}

func TestChangesReachThoseWhoListen(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		for _, by := range transports {
			up := newFake(era, running, "tool")
			up.caps = withResources
			w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, by)}})
			e, _ := listenTo(t, w, `{}`, `{"toolsListChanged":true}`)
			r, agreed := listenTo(t, w, `{}`, `{"resourceSubscriptions":["test://a"]}`)
			want(t, "agreed", agreed, `{"resourceSubscriptions":["test://a"]}`)
			testkit.Eventually(t, "the server is listened to", func() bool {
				return up.listeners() >= map[mcp.Era]int{mcp.Legacy: 1, mcp.Modern: 2}[era]
			})
			up.push(mcp.Notification("notifications/resources/updated", []byte(`{"uri":"test://b"}`)))
			up.push(mcp.Notification("notifications/resources/updated", []byte(`{"uri":"test://a"}`)))
			up.push(mcp.Notification("notifications/tools/list_changed", nil))
			m := r.next()
			want(t, name+" "+by+" a resource", m.Method+" "+mcp.Text(member(m.Params, "uri")),
				"notifications/resources/updated test://a")
			want(t, name+" "+by+" the tools", e.next().Method, "notifications/tools/list_changed")
			r.stop()
			if era == mcp.Legacy {
				testkit.Eventually(t, "the server is told that nobody listens", func() bool {
					return up.got("resources/unsubscribe") == 1
				})
			} else {
				testkit.Eventually(t, "the server's stream ends", func() bool { return up.listeners() == 1 })
			}
		}
	}
}

func TestPolicyDecidesAboutListening(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		up := newFake(era, running, "tool")
		up.caps = withResources
		w := newWorld(t, `{policy: {rules: [{method: resources/subscribe, when: 'args.uri == "test://a"', action: deny, risk: high}]}}`, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
		_, agreed := listenTo(t, w, `{}`, `{"resourceSubscriptions":["test://a","test://b"]}`)
		want(t, name, agreed, `{"resourceSubscriptions":["test://b"]}`)
	}
}

// A server that was lost is listened to again when it is back.
func TestListeningOutlivesTheServersConnection(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		up := newFake(era, running, "tool")
		up.caps = withResources
		s := up.over(t, "stdio")
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{s}})
		r, _ := listenTo(t, w, `{}`, `{"resourceSubscriptions":["test://a"]}`)
		listening := func(n int) func() bool {
			return func() bool {
				if era == mcp.Legacy {
					return up.got("resources/subscribe") == n && up.listeners() == 1
				}
				return up.listeners() == 2
			}
		}
		testkit.Eventually(t, name+": it is listened to", listening(1))
		up.hangUp()
		testkit.Eventually(t, name+": it is gone", func() bool { return up.listeners() == 0 })
		testkit.Eventually(t, name+": it is listened to again", listening(2))
		up.push(mcp.Notification("notifications/resources/updated", []byte(`{"uri":"test://a"}`)))
		want(t, name, r.next().Method, "notifications/resources/updated")
	}
}

func TestListeningEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, running, "tool")
	stopping, stop := context.WithCancel(context.Background())
	w := newWorldIn(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}},
		around{stop: stopping})
	e, _ := listenTo(t, w, `{}`, `{"toolsListChanged":true}`)
	stop()
	select {
	case m := <-e.end:
		want(t, "the end", mcp.Text(member(m.Result, "resultType")), "complete")
		want(t, "the end's subscription", string(member(m.Result, "_meta", mcp.MetaSubscription)), e.id)
	case <-time.After(testkit.Patience):
		t.Error("it did not end")
	}
}

func TestTasksAreToldToThoseWhoListen(t *testing.T) {
	t.Parallel()
	w, up := taskWorld(t, mcp.Legacy, asking, around{})
	c := join(t, w, mcp.Modern, askableTasks)
	id := c.begin("tool", `{"ask":["x"]}`)
	e, agreed := listenTo(t, w, withTasks, `{"taskIds":["`+id+`"]}`)
	want(t, "agreed", agreed, `{"taskIds":["`+id+`"]}`)
	foreign := join(t, w, mcp.Modern, withTasks, func(c *peer) { c.token = otherToken })
	foreign.heard = func(m mcp.Message) {
		want(t, "another agent's", string(member(m.Params, "notifications")), `{"taskIds":[]}`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _ = foreign.try(ctx, foreign.newID(), "subscriptions/listen", `{"notifications":{"taskIds":["`+id+`"]}}`)
	w.resolve(t, true)
	var states []string
	for {
		m := e.next()
		want(t, "method", m.Method, "notifications/tasks")
		want(t, "task", mcp.Text(member(m.Params, "taskId")), id)
		s := mcp.Text(member(m.Params, "status"))
		states = append(states, s)
		if s == "input_required" {
			q, _ := mcp.ReadObject(member(m.Params, "inputRequests"))
			c.task("tasks/update", id, `"inputResponses":{`+string(mcp.Quote(q[0].Name))+`:{"action":"decline"}}`)
		}
		if s == "completed" {
			contains(t, "the result", string(member(m.Params, "result")), "decline")
			break
		}
	}
	want(t, "states", strings.Join(states, " "), "working input_required completed")
	if up.count() != 1 {
		t.Errorf("ran %d times", up.count())
	}
}

// What goes on after a restart is not told to be over.
func TestStoppingDoesNotEndTasks(t *testing.T) {
	t.Parallel()
	w, up := taskWorld(t, mcp.Legacy, running, around{})
	id := join(t, w, mcp.Modern, withTasks).begin("tool", `{}`)
	e, _ := listenTo(t, w, withTasks, `{"taskIds":["`+id+`"]}`)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := w.gw.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the end of the subscription", e.end)
	select {
	case m := <-e.got:
		t.Errorf("was told %s", m.Params)
	default:
	}
	if r := w.newest(t); r.Status != approval.Pending || up.count() != 0 {
		t.Errorf("the request is %s, ran %d times", r.Status, up.count())
	}
	late := w.gw.Open(downstream.Client{Era: mcp.Modern, Agent: "bot"})
	defer late.Close()
	c := &peer{t: t, era: mcp.Modern, caps: withTasks}
	m := late.Request(t.Context(), mcp.Request(c.newID(), "tasks/get", c.meta(`{"taskId":"`+id+`"}`)), silent{})
	want(t, "the task", mcp.Text(member(m.Result, "status")), "working")
}

func TestManyListen(t *testing.T) {
	t.Parallel()
	const listeners = 64
	up := newFake(mcp.Modern, running, "tool")
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	ears := make([]*ear, listeners)
	var all sync.WaitGroup
	for i := range ears {
		ears[i], _ = listenTo(t, w, `{}`, `{"toolsListChanged":true}`)
	}
	testkit.Eventually(t, "the server is listened to", func() bool { return up.listeners() == 1 })
	const times = 20
	for range times {
		up.push(mcp.Notification("notifications/tools/list_changed", nil))
	}
	for _, e := range ears {
		all.Go(func() {
			for range times {
				if m := e.next(); m.Method != "notifications/tools/list_changed" {
					t.Errorf("got %s", m.Method)
				}
			}
		})
	}
	testkit.Wait(t, "all listeners", all.Wait)
	if n := up.listeners(); n != 1 {
		t.Errorf("the server has %d streams for all of them, want 1", n)
	}
}
