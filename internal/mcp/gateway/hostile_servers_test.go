package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/testkit"
)

// A server of the legacy era does not get to ask a modern client by answering as modern ones do: what
// policy and the client's abilities say of questions would be passed by.
func TestALegacyServerDoesNotAskInTheModernWay(t *testing.T) {
	t.Parallel()
	const asking = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form","message":"Your password?","requestedSchema":{"type":"object","properties":{}}}}}}`
	for name, rules := range map[string]string{
		"allowed":  `{policy: {rules: [{tools: ["*"], risk: low, action: allow}, {method: elicitation/create, action: deny, risk: high}]}}`,
		"approved": `{policy: {rules: [{tools: ["*"], risk: low, action: quarantine}, {method: elicitation/create, action: deny, risk: high}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, result := range []string{asking, strings.Replace(asking, "resultType", `result\u0054ype`, 1),
				strings.Replace(asking, "input_required", "task", 1)} {
				s := newScripted(t, false, "t")
				s.when("tools/call", func(x *turn) { x.result(result) })
				w := one(t, rules, brief, s, around{})
				c := w.clientAs(true, agentToken, canAnswer)
				a := c.call("t", `{}`)
				if name == "approved" {
					w.answer(a.id(), true, "")
					a = c.call("t", `{}`)
				}
				contains(t, "the answer", a.text(), "The MCP server up answered with a result of the kind ")
				if strings.Contains(a.raw, "password") {
					t.Errorf("the client is asked: %s", a.raw)
				}
				wantCalls(t, s, 1)
			}
		})
	}
}

// Answers that no state of ours goes with are the client's own addition: policy that allows the call lets
// them along, as between the two alone. A person who approves it has not seen them.
func TestAnswersThatNobodyAskedForGoAlongOnlyWithWhatPolicyAllows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, rules  string
		modern, sent bool
	}{{"allowed", allowAll, true, true}, {"allowed, to a legacy server", allowAll, false, false},
		{"approved", askAll, true, false}} {
		t.Run(test.name, func(t *testing.T) {
			s := newScripted(t, test.modern, "t")
			w := one(t, test.rules, brief, s, around{})
			c := w.clientAs(true, agentToken, canAnswer)
			const call = `{"name":"t","arguments":{},"inputResponses":{"sure":{"action":"accept"}}}`
			a := c.send("tools/call", call)
			if test.rules == askAll {
				w.answer(a.id(), true, "")
				a = c.send("tools/call", call)
			}
			wantText(t, a, "done")
			if raw := wantCalls(t, s, 1)[0].raw; strings.Contains(raw, "inputResponses") != test.sent {
				t.Errorf("sent along %v, want %v: %s", !test.sent, test.sent, raw)
			}
		})
	}
}

// What a person approved is the tool as it was when they were asked.
func TestRule3_ACallIsNotSentToAToolThatChangedWhileItWasHeld(t *testing.T) {
	t.Parallel()
	change := func(s *scripted, c *wire) {
		s.set(func() { s.lists["tools/list"] = []string{tool("t", `"annotations":{"destructiveHint":true}`)} })
		c.send("tools/list", `{}`)
	}
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t")
		w := one(t, askAll, time.Minute, s, around{})
		c := w.client(modern)
		answered := make(chan answer, 1)
		go func() { answered <- c.call("t", `{"a":1}`) }()
		r := w.pending(1)[0]
		change(s, c)
		w.answer(r.ID, true, "")
		wantErrorText(t, testkit.Receive(t, "the answer", answered),
			"The tool up/t was changed by its server while the call waited. The call was not run. Call it again if it is still needed: people are asked about the tool as it is now.")
		wantCalls(t, s, 0)
		if r = w.request(r.ID); !r.Live() {
			t.Errorf("the approval is %+v, want it unused", r)
		}
		go func() { answered <- c.call("t", `{"a":1}`) }() // which asks about the tool as it is
		again := w.pending(1)[0]
		if again.ReasonCode != "tool_changed" {
			t.Errorf("the reason is %s, want tool_changed", again.ReasonCode)
		}
		w.answer(again.ID, true, "")
		wantText(t, testkit.Receive(t, "the answer", answered), "done")
		wantCalls(t, s, 1)
	})
	t.Run("task", func(t *testing.T) {
		s := newScripted(t, true, "t")
		w := one(t, askAll, brief, s, around{})
		c := w.clientAs(true, agentToken, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
		c.call("t", `{"a":1}`)
		r := w.pending(1)[0]
		change(s, c)
		w.answer(r.ID, true, "")
		testkit.Eventually(w.t, "the task has ended", func() bool {
			return strings.Contains(c.send("tasks/get", `{"taskId":"`+r.ID+`"}`).raw,
				"The tool up/t was changed by its server while the call waited.")
		})
		wantCalls(t, s, 0)
	})
}

// stuck is the stream of a client that takes a few messages and then none.
type stuck struct {
	ctx   context.Context
	takes atomic.Int32
	sent  chan struct{} // one for each that it did not take
}

func (s *stuck) Send(mcp.Message) error {
	if s.takes.Add(-1) >= 0 {
		return nil
	}
	select {
	case s.sent <- struct{}{}:
	default:
	}
	<-s.ctx.Done()
	return s.ctx.Err()
}

func (s *stuck) Ask(context.Context, string, jsontext.Value) (mcp.Message, error) {
	return mcp.Message{}, context.Canceled
}

// A client that does not read holds up nobody else on the same server.
func TestAClientThatDoesNotReadHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	const asModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}`
	for name, params := range map[string]string{
		"subscriptions/listen": `{"notifications":{"toolsListChanged":true},` + asModern + `}`,
		"tools/call":           `{"name":"talk","arguments":{},` + asModern + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			talking, hush := make(chan struct{}), make(chan struct{})
			up := newFake(mcp.Legacy, func(c *fakeCall) string {
				if c.name != "talk" {
					return textResult("ran")
				}
				for i := range 3 {
					c.send(mcp.Notification("notifications/progress",
						mcp.Object{{Name: "progressToken", Value: c.meta.Get("progressToken")},
							{Name: "progress", Value: mcp.Number(int64(i))}}.Bytes()))
				}
				close(talking)
				<-hush
				return textResult("talked")
			}, "talk", "t")
			w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "stdio")}})
			other := join(t, w, mcp.Modern, `{}`)
			want(t, "another's call", say(other.callTool("t", `{}`)), "ran")

			ctx, cancel := context.WithCancel(t.Context())
			out := &stuck{ctx: ctx, sent: make(chan struct{}, 1)}
			s := w.gw.Open(downstream.Client{Era: mcp.Modern, Agent: "bot"})
			ended := make(chan struct{})
			if name == "subscriptions/listen" {
				out.takes.Store(1) // what is agreed
			}
			go func() {
				s.Request(ctx, mcp.Request(jsontext.Value("1"), name, jsontext.Value(params)), out)
				close(ended)
			}()
			t.Cleanup(func() { cancel(); testkit.Receive(t, "the request's end", ended); s.Close() })
			t.Cleanup(func() { close(hush) })
			if name == "tools/call" {
				testkit.Receive(t, "the server talks", talking)
			} else {
				testkit.Eventually(t, "it listens", func() bool { return out.takes.Load() <= 0 })
				up.push(mcp.Notification("notifications/tools/list_changed", nil))
			}
			testkit.Receive(t, "what the client does not read", out.sent)
			want(t, "another's call meanwhile", say(other.callTool("t", `{}`)), "ran")
		})
	}
}

// panicky is a store whose next update panics once it is armed.
type panicky struct {
	approval.Store
	armed atomic.Bool
}

func (p *panicky) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	if p.armed.Swap(false) {
		panic("of the store")
	}
	return p.Store.Update(ctx, about, fn)
}

// Whatever breaks while an approved call is under way breaks that call alone.
func TestAPanicInAFlightEndsOneCall(t *testing.T) {
	t.Parallel()
	var db *panicky
	s := newScripted(t, true, "t")
	w := one(t, askAll, brief, s, around{store: func(s approval.Store) approval.Store {
		db = &panicky{Store: s}
		return db
	}})
	c := w.client(true)
	w.answer(c.call("t", `{}`).id(), true, "")
	s.when("tools/call", func(x *turn) { db.armed.Store(true); x.result(`{"content":[]}`) })
	if a := c.call("t", `{}`); a.Error == nil || a.Error.Code != mcp.CodeUnknown {
		t.Errorf("got %s, want that the outcome is unknown", a.raw)
	}
	w.answer(c.call("t", `{"a":1}`).id(), true, "")
	s.when("tools/call", func(x *turn) { x.result(`{"content":[{"type":"text","text":"done"}]}`) })
	wantText(t, c.call("t", `{"a":1}`), "done")
}

// What a server that does not start complained of is for whoever runs it, and not for agents.
func TestLastWordsAreNotToldToAgents(t *testing.T) {
	t.Parallel()
	cfg := upstream.Config{Name: "up", Command: []string{"sh", "-c", `printf 'the key is not-for-agents\n' >&2; exit 3`}}
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{{Config: cfg}}})
	testkit.Eventually(w.t, "it is down", func() bool { return w.gw.Health()[0].State == upstream.Down })
	err := w.gw.Health()[0].Err
	if text := err.Error(); !strings.Contains(text, "not-for-agents") {
		t.Errorf("whoever runs it is told %s", text)
	}
	for _, modern := range []bool{false, true} {
		c := w.client(modern)
		a, list := c.call("t", `{}`), c.send("prompts/get", `{"name":"p"}`)
		contains(t, "a call", a.text(), "The MCP server up cannot be reached: ")
		if strings.Contains(a.raw+list.raw, "not-for-agents") {
			t.Errorf("agents are told %s and %s", a.raw, list.raw)
		}
	}
	contains(t, "why it is down, in brief", upstream.Brief(err), "the server ended before it said what it is")
	if strings.Contains(upstream.Brief(err), "words") {
		t.Errorf("in brief it is %s", upstream.Brief(err))
	}
}

// The program's own tools hear of a credential that is not valid any more: one may use an approval.
func TestOwnToolsLookAtTheCredential(t *testing.T) {
	t.Parallel()
	revoked := approval.Errorf(approval.CodeUnauthorized, "The token is not valid any more.")
	var gone atomic.Bool
	own := gateway.Tool{Name: "countersign__own", Schema: jsontext.Value(`{"type":"object"}`),
		Call: func(_ context.Context, agent string, still func() error, _ jsontext.Value) (string, bool) {
			gone.Store(true)
			return agent + ": " + still().Error(), true
		}}
	w := newWorldIn(t, allowAll, gateway.Options{Tools: []gateway.Tool{own}}, around{still: func(string) error {
		if gone.Load() {
			return revoked
		}
		return nil
	}})
	wantErrorText(t, w.client(true).call("countersign__own", `{}`), "bot: "+revoked.Error())
}
