package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/budget"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// limited gives bot these budgets, and other none, by a clock that stands still.
func limited(l budget.Limits) around {
	c := &clock{}
	begin := c.now()
	r := budget.NewRegistry(budget.Options{Now: func() time.Time { return begin }})
	r.Replace(map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: l, {Agent: true, Name: "other"}: {}})
	return around{budgets: r}
}

func (in around) limit(l budget.Limits) {
	in.budgets.Replace(map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: l, {Agent: true, Name: "other"}: {}})
}

func perMinute(n int64) budget.Rate { return budget.Rate{Count: n, Per: time.Minute} }

func TestRule12_ACallOverTheBudgetIsAnErrorThatTheModelReads(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		in := limited(budget.Limits{})
		w := one(t, allowAll, 0, s, in)
		c, other := w.client(modern), w.clientAs(modern, otherToken, `{}`)
		in.limit(budget.Limits{Calls: perMinute(1)})
		c.send("tools/list", `{}`)
		a := c.call("t", `{}`)
		if !a.isError() || a.status != 200 || !strings.Contains(a.text(),
			"Over the budget of calls: agent:bot may have 1 call per minute") ||
			!strings.Contains(a.text(), "The call was not run") {
			t.Errorf("got %d %s", a.status, a.raw)
		}
		list := c.send("tools/list", `{}`)
		if list.Error == nil || list.Error.Code != mcp.CodeUnavailable || !strings.Contains(string(list.Error.Data),
			"rate_limited") || list.header.Get("Retry-After") != "60" {
			t.Errorf("tools/list: got %d %s, Retry-After %q", list.status, list.raw, list.header.Get("Retry-After"))
		}
		wantCalls(t, s, 0)
		if o := other.call("t", `{}`); o.isError() { // nobody else notices
			t.Errorf("another agent: %s", o.raw)
		}
		wantCalls(t, s, 1)
	})
}

func TestRule12_BytesOverTheBudget(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		in := limited(budget.Limits{})
		w := one(t, allowAll, 0, s, in)
		c := w.client(modern)
		in.limit(budget.Limits{Bytes: perMinute(200 << 10)})
		args := func(n int) string { return `{"a":"` + strings.Repeat("x", n) + `"}` }
		if a := c.call("t", args(150<<10)); a.isError() {
			t.Fatalf("within the budget: %.200s", a.raw)
		}
		if a := c.call("t", args(60<<10)); !a.isError() || !strings.Contains(a.text(),
			"the budget of bytes") { // it is read, so that the model is told
			t.Errorf("got %.200s", a.raw)
		}
		_, body := c.message("tools/call", `{"name":"t","arguments":`+args(100<<10)+`}`)
		resp, err := c.post(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("a large one: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
		}
		wantCalls(t, s, 1)
	})
}

func TestRule12_AWaitOverTheBudgetIsAnsweredAsPending(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		in := limited(budget.Limits{Waits: 1})
		w := one(t, askAll, long, s, in)
		c := w.client(modern)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, first := c.start(ctx, "tools/call", `{"name":"t","arguments":{"n":1}}`)
		w.pending(1)
		testkit.Eventually(t, "the first is held", func() bool { return !in.budgets.Agent("bot").Free(budget.Waits) })
		a := c.call("t", `{"n":2}`)
		if a.isError() || !strings.Contains(strings.Join(a.texts(), "\n"), "Approval requested") ||
			!strings.Contains(strings.Join(a.texts(), "\n"), "the budget of waits") {
			t.Errorf("got %s", a.raw)
		}
		rs := w.pending(2)
		w.answer(rs[0].ID, true, "")
		if a := finish(t, first); a.isError() {
			t.Errorf("the first: %s", a.raw)
		}
		w.answer(rs[1].ID, true, "")
		if a := c.call("t", `{"n":2}`); a.isError() {
			t.Errorf("once it was decided: %s", a.raw)
		}
		if !in.budgets.Agent("bot").Free(budget.Waits) {
			t.Error("a wait that is over still counts")
		}
	})
}

func TestRule12_ATaskCountsAsAWait(t *testing.T) {
	t.Parallel()
	in := limited(budget.Limits{Waits: 1})
	w, up := taskWorld(t, mcp.Legacy, running, in)
	c := join(t, w, mcp.Modern, withTasks)
	first := c.begin("tool", `{"n":1}`)
	contains(t, "one more", say(c.callTool("tool", `{"n":2}`)), "Approval requested")
	if r := w.newest(t); r.Task {
		t.Error("the call that is answered as pending is a task, which would run by itself")
	}
	// A cancel is not refused over a budget, as long as there is something to cancel.
	in.limit(budget.Limits{Waits: 1, Calls: perMinute(1)})
	c.do(t.Context(), "tools/list", `{}`)
	contains(t, "a look", say(c.task("tasks/get", first)), "the budget of calls")
	contains(t, "cancel", say(c.task("tasks/cancel", first)), "")
	if r := w.request(first); r.Status != approval.Cancelled {
		t.Errorf("the task's request is %s, want it cancelled", r.Status)
	}
	contains(t, "cancel again", say(c.task("tasks/cancel", first)), "the budget of calls")
	testkit.Eventually(t, "the wait is over", func() bool { return in.budgets.Agent("bot").Free(budget.Waits) })
	if up.count() != 0 {
		t.Error("something ran")
	}
}

func TestRule12_TheKeyboardsAnswerIsNotRefused(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			in := limited(budget.Limits{})
			w, up := atKeyboard(t, time.Minute, in)
			over := func() {
				in.limit(budget.Limits{Calls: perMinute(1)})
				_ = in.budgets.Agent("bot").Spend(budget.Calls, 1)
			}
			const no = `{"action":"accept","content":{"decision":"deny","reason":"not now"}}`
			c := join(t, w, era, `{"elicitation":{}}`, func(c *peer) {
				c.answer = func(_ mcp.Message) string { over(); return no }
			})
			m, _ := c.rounds("tool", `{}`, func(mcp.Member) string { over(); return no })
			contains(t, "the answer", say(m), "Approval denied by hana: not now.")
			if r := w.newest(t); r.Status != approval.Denied || up.count() != 0 {
				t.Errorf("the request is %s", r.Status)
			}
			contains(t, "the next call", say(c.callTool("tool", `{}`)), "the budget of calls")
		})
	}
}

// What was asked at the keyboard is good for ten minutes, and spares no call after that.
func TestRule12_AStateThatIsOverSparesNoBudget(t *testing.T) {
	t.Parallel()
	in, fleet, later := limited(budget.Limits{}), together(), atomic.Int64{}
	fleet.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	up := newFake(mcp.Legacy, running, "tool")
	w := newWorldIn(t, keyboardRules, gateway.Options{Hold: time.Minute,
		Servers: []gateway.ServerConfig{up.over(t, "http")}, Fleet: fleet}, in)
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	_, state := inputs(c.callTool("tool", `{}`))
	in.limit(budget.Limits{Calls: perMinute(1)})
	_ = in.budgets.Agent("bot").Spend(budget.Calls, 1)
	for after, want := range map[time.Duration]string{0: "requestState does not belong",
		10 * time.Minute: "the budget of calls"} {
		later.Store(int64(after))
		contains(t, after.String(), say(c.callTool("tool", `{"other":1}`, `"requestState":`+state)), want)
	}
}

func TestRule12_StreamsAndSessionsOverTheBudget(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	in := limited(budget.Limits{Streams: 1, Sessions: 2})
	w := one(t, allowAll, 0, s, in)
	first, second := w.client(false), w.client(false)
	get := func(c *wire) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Accept": {"text/event-stream"}, "Authorization": {"Bearer " + c.token},
			"Mcp-Session-Id": {c.session}}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	if resp := get(first); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	in.limit(budget.Limits{Streams: 1, Sessions: 2, Calls: perMinute(1)})
	if resp := get(&wire{url: w.url, token: agentToken, session: "nobody", http: first.http}); resp.StatusCode != 404 {
		t.Errorf("no such session: %s", resp.Status)
	}
	if resp := get(second); resp.StatusCode != 429 {
		t.Errorf("over the budget of calls: %s", resp.Status)
	}
	in.limit(budget.Limits{Streams: 1, Sessions: 2})
	if resp := get(second); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a second stream: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	listen := join(t, w, mcp.Modern, `{}`).do(t.Context(), "subscriptions/listen",
		`{"notifications":{"toolsListChanged":true}}`)
	contains(t, "a subscription", say(listen), "the budget of streams")
	// A session that nobody uses makes room for a third one; where all are in use there is none.
	third := w.client(false)
	if a := second.call("t", `{}`); a.status != 404 {
		t.Errorf("the session that made room: %d %s", a.status, a.raw)
	}
	s.when("tools/call", func(x *turn) { x.gone() })
	ctx, cancel := context.WithCancel(t.Context())
	_, held := third.start(ctx, "tools/call", `{"name":"t","arguments":{}}`)
	s.await("tools/call", 1)
	c := &wire{t: t, url: w.url, token: agentToken, caps: `{}`, http: third.http}
	a := c.send("initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}`)
	if a.status != 429 || a.header.Get("Retry-After") == "" || a.Error == nil || !strings.Contains(a.Error.Message,
		"the budget of sessions") {
		t.Errorf("one more session: %d %s", a.status, a.raw)
	}
	w.clientAs(false, otherToken, `{}`)
	cancel()
	testkit.Receive(t, "the held call's end", held)
}

// The attack: one agent sends large arguments without end. What another agent does beside it goes on as if it
// were alone, and of the first only what its budget allows is stored.
func TestRule12_TheAttackFillsNoMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	s := newScripted(t, false, "t")
	in := limited(budget.Limits{Bytes: perMinute(4 << 20), Requests: perMinute(120), Calls: perMinute(1000)})
	w := newWorldIn(t, askAll, gateway.Options{Hold: 0, Servers: []gateway.ServerConfig{s.server("up", "")}}, in)
	c, other := w.client(false), w.clientAs(false, otherToken, `{}`)
	stored, big := 0, strings.Repeat("x", 512<<10)
	for i := range 40 {
		_, body := c.message("tools/call", fmt.Sprintf(`{"name":"t","arguments":{"n":%d,"a":%q}}`, i, big))
		resp, err := c.post(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == 200 {
			stored++
		}
		if a := other.call("t", fmt.Sprintf(`{"n":%d}`, i)); a.isError() {
			t.Fatalf("another agent: %s", a.raw)
		}
	}
	if stored != 7 {
		t.Errorf("%d calls of half a MiB got in, want 7 of 4 MiB a minute", stored)
	}
	if rs := w.all(); len(rs) != stored+40 {
		t.Errorf("%d requests, want %d", len(rs), stored+40)
	}
}

func TestRule12_RequestsAndPushesOverTheBudget(t *testing.T) {
	t.Parallel()
	for kind, l := range map[budget.Kind]budget.Limits{
		budget.Requests: {Requests: perMinute(1)}, budget.Pushes: {Pushes: perMinute(1)},
	} {
		for name, era := range eras {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				in := limited(l)
				in.gate = func(o *approval.Options) {
					o.Budgets = in.budgets
				}
				in.cards = outboxtest.To("line", "U1")
				w, _ := taskWorld(t, mcp.Legacy, running, in)
				c := join(t, w, era, `{}`)
				contains(t, "the first", say(c.callTool("tool", `{"n":1}`)), "Approval requested")
				contains(t, "the same", say(c.callTool("tool", `{"n":1}`)), "Approval pending")
				got := say(c.callTool("tool", `{"n":2}`))
				if kind == budget.Pushes { // its card waits for its turn
					contains(t, "one more", got, "Approval requested")
				} else {
					contains(t, "one more", got, "failed: Over the budget of requests: agent:bot may have 1 ")
					contains(t, "one more", got, "The call was not run, and nobody was asked.")
				}
				contains(t, "what is allowed", say(c.callTool("free", `{}`)), "ran")
				other := join(t, w, era, `{}`, func(c *peer) { c.token = otherToken })
				contains(t, "another agent", say(other.callTool("tool", `{"n":2}`)), "Approval requested")
			})
		}
	}
}
