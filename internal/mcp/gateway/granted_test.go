package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// granting is a gate that lets every call of a tool through by a grant, and keeps what it is asked and told. Where the
// policy allows a call it is the gate's own.
type granting struct {
	*approval.Gate
	mu     sync.Mutex
	calls  []approval.Call
	ran    map[string]approval.RunResult // by what it is reported under
	inputs map[string][]approval.Input
	frozen string // what a frozen agent is told
}

// granted is a world whose calls are all let through by grants.
func granted(t *testing.T, rules string, o gateway.Options, in around) (*world, *granting) {
	t.Helper()
	g := &granting{ran: map[string]approval.RunResult{}, inputs: map[string][]approval.Input{}}
	in.asker = func(gate *approval.Gate) gateway.Asker { g.Gate = gate; return g }
	return newWorldIn(t, rules, o, in), g
}

func (g *granting) Check(ctx context.Context, c approval.Call) (approval.Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, c)
	if c.Method != "" {
		return g.Gate.Check(ctx, c)
	}
	return approval.Answer{Kind: approval.AnswerAllow, ReasonCode: "granted",
		Message: "Allowed: hana approved this for 8 hours.",
		Grant:   &approval.Grant{ID: "a grant"}, RunID: fmt.Sprintf("use %d", len(g.calls))}, nil
}

func (g *granting) Report(_ context.Context, _ approval.Actor, id string, ran approval.RunResult) (approval.Request,
	error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ran[id] = ran
	return approval.Request{}, nil
}

func (g *granting) AddInput(_ context.Context, _ approval.Actor, id string, in approval.Input) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inputs[id] = append(g.inputs[id], in)
	return nil
}

func (g *granting) DeniedByFreeze(context.Context, string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.frozen, nil
}

func (g *granting) asked() []approval.Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

func (g *granting) outcome(id string) approval.RunResult {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ran[id]
}

// What came of a call that a grant let through is reported under the use of the grant, whichever way it ends.
func TestWhatCameOfAGrantedCallIsReportedUnderItsUse(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		for _, c := range []struct {
			name    string
			does    func(*turn)
			timeout time.Duration
			ran     approval.RunResult
		}{
			{"succeeded", func(x *turn) { x.result(`{"content":[{"type":"text","text":"fine"}]}`) }, 0, approval.RunSucceeded},
			{"failed", func(x *turn) { x.result(`{"isError":true,"content":[]}`) }, 0, approval.RunFailed},
			{"failed by the protocol", func(x *turn) { x.fail(-32603, "boom") }, 0, approval.RunFailed},
			{"broken off", func(x *turn) { x.breakOff() }, 0, approval.RunUnknown},
			{"not answered in time", func(x *turn) { x.gone() }, 200 * time.Millisecond, approval.RunUnknown},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := newScripted(t, modern, "t")
				s.when("tools/call", c.does)
				up := s.server("up", "")
				up.Timeout = c.timeout
				w, g := granted(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up}}, around{})
				w.client(modern).call("t", `{"b": 1.0, "a":9007199254740993}`)
				if got := g.outcome("use 1"); got != c.ran {
					t.Errorf("the outcome is %q, want %q", got, c.ran)
				}
				if got := s.calls("tools/call")[0].member("arguments"); got != `{"b": 1.0, "a":9007199254740993}` {
					t.Errorf("sent: %s", got)
				}
				w.pending(0)
			})
		}
	})
}

// The outcome of a granted call is wanted even if its client is gone. A modern one takes its call back by going, and
// then nobody knows whether it ran.
func TestAGrantedCallIsReportedWhenItsClientIsGone(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		release, letGo := testkit.Latch()
		defer letGo()
		s.when("tools/call", func(x *turn) { <-release; x.result(`{"content":[]}`) })
		w, g := granted(t, askAll, gateway.Options{Servers: []gateway.ServerConfig{s.server("up", "")}}, around{})
		ctx, cancel := context.WithCancel(t.Context())
		_, done := w.client(modern).start(ctx, "tools/call", `{"name":"t","arguments":{}}`)
		s.await("tools/call", 1)
		cancel()
		testkit.Receive(t, "the call's end", done)
		if modern {
			testkit.Eventually(t, "it is reported", func() bool { return g.outcome("use 1") == approval.RunUnknown })
		}
		letGo()
		if !modern {
			testkit.Eventually(t, "it is reported", func() bool { return g.outcome("use 1") == approval.RunSucceeded })
		}
	})
}

// A granted call runs at once, also for a client that knows tasks; nobody is asked, at a keyboard neither.
func TestAGrantedCallAsksNobody(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		up := newFake(era, running, "tool")
		w, g := granted(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}}, around{})
		asked := func(c *peer) {
			c.answer = func(mcp.Message) string { t.Errorf("%s: somebody is asked", name); return "" }
		}
		want(t, name+", legacy", say(join(t, w, mcp.Legacy, `{"elicitation":{}}`, asked).callTool("tool", `{}`)), "ran")
		want(t, name+", tasks", say(join(t, w, mcp.Modern, askableTasks, asked).callTool("tool", `{}`)), "ran")
		for _, use := range []string{"use 1", "use 2"} {
			if g.outcome(use) != approval.RunSucceeded {
				t.Errorf("%s: %s: %q", name, use, g.outcome(use))
			}
		}
		if n := len(w.all()); n != 0 {
			t.Errorf("%s: there are %d requests", name, n)
		}
	}
}

// A grant covers arguments. What a client brings beside them is not sent, and what a server asks for meanwhile is
// reported under the use of the grant before it is told.
func TestWhatTheServerOfAGrantedCallIsToldIsOnRecord(t *testing.T) {
	t.Parallel()
	const rules = `{policy: {rules: [{tools: ["elicitation:create"], action: allow}, {tools: ["*"], action: quarantine}]}}`
	for name, era := range eras {
		call, args := asking, `{"ask":["m1","m2"]}`
		if era == mcp.Modern {
			call, args = requiring, `{"rounds":2}`
		}
		for _, client := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			up := newFake(era, call, "tool")
			w, g := granted(t, rules, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}}, around{})
			c := join(t, w, client, `{"elicitation":{}}`, func(c *peer) { c.answer = echoing("me") })
			m, _ := c.rounds("tool", args, func(q mcp.Member) string {
				return echoing("me")(mcp.Message{Params: member(q.Value, "params")})
			})
			contains(t, name+": the answer", say(m), "me m")
			g.mu.Lock()
			if in := g.inputs["use 1"]; len(in) != 2 || !strings.Contains(in[0].Answer, "me m") {
				t.Errorf("%s: on record: %v", name, g.inputs)
			}
			if g.ran["use 1"] != approval.RunSucceeded || len(g.ran) != 1 {
				t.Errorf("%s: outcomes: %v", name, g.ran)
			}
			g.mu.Unlock()
		}
	}
	up := newFake(mcp.Modern, requiring, "tool")
	w, _ := granted(t, rules, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}}, around{})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	c.callTool("tool", `{"rounds":1}`, `"inputResponses":{"a":{"action":"accept","content":{"text":"unasked"}}}`)
	if v := up.nth(0).Get("inputResponses"); v != nil {
		t.Errorf("the server was told %s with the first call", v)
	}
}

// Who is frozen while a server waits for input gets no further.
func TestAGrantedCallThatWaitsForItsClientEndsWithAFreeze(t *testing.T) {
	t.Parallel()
	const rules = `{policy: {rules: [{tools: ["elicitation:create"], action: allow}, {tools: ["*"], action: quarantine}]}}`
	up := newFake(mcp.Modern, requiring, "tool")
	w, g := granted(t, rules, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}}, around{})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	wanted, state := inputs(c.callTool("tool", `{"rounds":1}`))
	if wanted == nil {
		t.Fatal("nothing is asked")
	}
	g.mu.Lock()
	g.frozen = "Frozen by hana: enough."
	g.mu.Unlock()
	m := c.callTool("tool", `{"rounds":1}`, `"inputResponses":{"a":{"action":"accept","content":{}}}`, `"requestState":`+
		state)
	want(t, "the answer", say(m), "failed: Frozen by hana: enough.")
	if got := g.outcome("use 1"); got != approval.RunUnknown || up.count() != 1 {
		t.Errorf("the outcome is %q after %d calls of the server", got, up.count())
	}
}

// The gate is told what a server says of its tools, with which calls a call may share a card, and whether its agent
// waits: held calls make theirs wait, tasks do not.
func TestTheGateLearnsWhatBelongsTogether(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, hold := range []time.Duration{0, long} {
		eachEra(t, func(t *testing.T, modern bool) {
			s := newScripted(t, modern)
			s.lists["tools/list"] = []string{
				tool("t", `"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":"yes","title":"T"}`),
				tool("u", `"annotations":{"title":"U"}`), tool("v"),
			}
			w, g := granted(t, askAll, gateway.Options{Hold: hold, Scope: "here", Servers: []gateway.ServerConfig{s.server("up",
				"")}}, around{})
			c := w.client(modern)
			for _, name := range []string{"t", "u", "v"} {
				c.call(name, `{}`)
			}
			calls := g.asked()
			a := calls[0].Annotations
			if a == nil || *a.ReadOnly != yes || *a.Destructive != no || a.Idempotent != nil || a.OpenWorld != nil {
				t.Errorf("annotations: %+v", a)
			}
			for _, c := range calls[1:] {
				if c.Annotations != nil {
					t.Errorf("annotations of %s: %+v", c.Tool, c.Annotations)
				}
			}
			for _, c := range calls {
				if !c.Grouped || c.Waits != (hold > 0) || c.SessionID != calls[0].SessionID || (c.SessionID == "") != modern {
					t.Errorf("the gate is asked for %+v", c)
				}
			}
			if !modern {
				w.client(modern).call("t", `{}`)
				if other := g.asked()[3]; other.SessionID == "" || other.SessionID == calls[0].SessionID {
					t.Errorf("another client has the session %q", other.SessionID)
				}
			}
		})
	}
	up := newFake(mcp.Modern, running, "tool")
	w, g := granted(t, askAll, gateway.Options{Hold: long, Servers: []gateway.ServerConfig{up.over(t, "http")}}, around{})
	join(t, w, mcp.Modern, askableTasks).callTool("tool", `{}`)
	if c := g.asked()[0]; !c.Task || c.Waits {
		t.Errorf("a task is asked for as %+v", c)
	}
}

// An approval that is given for longer lets the same call through without asking; what came of each use is on record.
// One whose outcome is not known has the next call asked about.
func TestAnApprovalGivenForLongerAnswersTheSameCallAgain(t *testing.T) {
	t.Parallel()
	const rules = `{policy: {rules: [{tools: ["*"], risk: medium, action: quarantine, allow_skip: true}]}}`
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, rules, long, s, around{})
		c := w.client(modern)
		_, done := c.start(t.Context(), "tools/call", `{"name":"t","arguments":{"n":1}}`)
		if _, err := w.gate.Decide(t.Context(), approval.Decision{RequestID: w.pending(1)[0].ID, Approve: true, By: person,
			Via: approval.ViaAPI, Grant: &approval.GrantWish{For: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		wantText(t, finish(t, done), "done")
		for range 2 {
			wantText(t, c.call("t", `{"n":1}`), "done")
		}
		s.when("tools/call", (*turn).breakOff)
		c.call("t", `{"n":1}`)
		s.when("tools/call", nil)
		used, outcomes := w.audited(approval.EventGrantUsed), w.audited(approval.EventCallOutcome)
		slices.Reverse(outcomes)
		var got []string
		for _, e := range outcomes {
			got = append(got, e.Reason)
		}
		if want := []string{"succeeded", "succeeded", "succeeded", "unknown"}; len(used) != 3 || !slices.Equal(got, want) {
			t.Errorf("%d uses, with the approval's own the outcomes %v", len(used), got)
		}
		_, again := c.start(t.Context(), "tools/call", `{"name":"t","arguments":{"n":1}}`)
		w.answer(w.pending(1)[0].ID, true, "")
		wantText(t, finish(t, again), "done")
		wantCalls(t, s, 5)
		_, other := c.start(t.Context(), "tools/call", `{"name":"t","arguments":{"n":2}}`)
		w.answer(w.pending(1)[0].ID, false, "no")
		if !finish(t, other).isError() {
			t.Error("other arguments ran")
		}
	})
}
