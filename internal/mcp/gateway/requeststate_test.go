package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/secret"
	"countersign/internal/testkit"
)

// oddState is a requestState with all that JSON can be written in two ways.
const oddState = `"a<b>\u00e9\/ &é\ud83d\ude00"`

// stateful is a modern server's tool that wants input once.
func stateful(c *fakeCall) string {
	if c.params.Get("requestState") != nil || c.params.Get("inputResponses") != nil {
		return `{"content":[{"type":"text","text":` + string(mcp.Quote("done "+string(c.params.Get("inputResponses")))) +
			`}]}`
	}
	args, _ := c.params.Object("arguments")
	state := `,"requestState":` + oddState
	if args.Get("stateless") != nil {
		state = ""
	}
	return `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}}` + state + `}`
}

const accept = `"inputResponses":{"a":{"action":"accept","content":{}}}`

func TestTheServersStateComesBackToItAsItWas(t *testing.T) {
	t.Parallel()
	for _, by := range transports {
		up := newFake(mcp.Modern, stateful, "in")
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, by)}})
		c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
		_, state := inputs(c.callTool("in", `{}`))
		if state == "" || strings.Contains(state, "a<b") {
			t.Fatalf("got the state %s, want one of ours", state)
		}
		want(t, "the end", say(c.callTool("in", `{}`, accept, `"requestState":`+state)),
			`done {"a":{"action":"accept","content":{}}}`)
		want(t, "the state", string(up.nth(1).Get("requestState")), oddState)

		_, state = inputs(c.callTool("in", `{"stateless":true}`))
		want(t, "without a state", say(c.callTool("in", `{"stateless":true}`, accept, `"requestState":`+state)),
			`done {"a":{"action":"accept","content":{}}}`)
		if got := up.nth(3).Get("requestState"); got != nil {
			t.Errorf("a server without a state got %s", got)
		}
	}
}

func TestAStateIsForOneCallOnce(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, stateful, "in", "other")
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	other := join(t, w, mcp.Modern, `{"elicitation":{}}`, func(c *peer) { c.token = otherToken })
	legacy := join(t, w, mcp.Legacy, `{"elicitation":{}}`)
	_, state := inputs(c.callTool("in", `{"n":1}`))
	calls := up.count()

	changed := []byte(state)
	changed[len(changed)/2] ^= 1
	const refusal = "error -32602: Invalid params: this requestState does not belong to this call"
	for what, m := range map[string]mcp.Message{
		"another agent":  other.callTool("in", `{"n":1}`, accept, `"requestState":`+state),
		"other args":     c.callTool("in", `{"n":2}`, accept, `"requestState":`+state),
		"another tool":   c.callTool("other", `{"n":1}`, accept, `"requestState":`+state),
		"a changed one":  c.callTool("in", `{"n":1}`, accept, `"requestState":`+string(changed)),
		"the server's":   c.callTool("in", `{"n":1}`, accept, `"requestState":`+oddState),
		"not a text":     c.callTool("in", `{"n":1}`, accept, `"requestState":7`),
		"an empty one":   c.callTool("in", `{"n":1}`, accept, `"requestState":""`),
		"one of nothing": legacy.callTool("in", `{"n":1}`, accept, `"requestState":""`),
	} {
		contains(t, what, say(m), refusal)
	}
	if got := up.count(); got != calls {
		t.Errorf("the server was called %d times with states that are not good", got-calls)
	}
	// None of that has used it up.
	contains(t, "the right one", say(c.callTool("in", `{"n":1}`, accept, `"requestState":`+state)), "done")
	contains(t, "once more", say(c.callTool("in", `{"n":1}`, accept, `"requestState":`+state)), refusal)
}

// together is a fleet of gateways that know of each other what was used.
func together() *gateway.Fleet {
	var used sync.Map
	return &gateway.Fleet{Keys: secret.DeriveKeys(secret.List{"of all"}, "states"), Now: time.Now,
		TakeOnce: func(_ context.Context, key string, _ time.Duration) (bool, error) {
			_, there := used.LoadOrStore(key, true)
			return !there, nil
		}}
}

// A client may come back to another gateway than it was asked by: what that gave it is good there, once in all.
func TestAStateOfOneGatewayIsGoodAtAnotherOnce(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, stateful, "in")
	fleet := together()
	at := func(f *gateway.Fleet) *peer {
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}, Fleet: f})
		return join(t, w, mcp.Modern, `{"elicitation":{}}`)
	}
	one, other, apart := at(fleet), at(fleet), at(nil)
	const refusal = "error -32602: Invalid params: this requestState does not belong to this call"
	_, state := inputs(one.callTool("in", `{}`))
	contains(t, "at a gateway that is alone", say(apart.callTool("in", `{}`, accept, `"requestState":`+state)), refusal)
	contains(t, "at another one", say(other.callTool("in", `{}`, accept, `"requestState":`+state)), "done")
	for what, c := range map[string]*peer{"the first": one, "the other": other} {
		contains(t, "again at "+what, say(c.callTool("in", `{}`, accept, `"requestState":`+state)), refusal)
	}
	fleet.TakeOnce = func(context.Context, string, time.Duration) (bool, error) { return true, errors.New("away") }
	_, state = inputs(one.callTool("in", `{}`))
	contains(t, "where nobody knows", say(other.callTool("in", `{}`, accept, `"requestState":`+state)), refusal)
}

// Answers that cannot be read do not use a state up.
func TestAnswersThatCannotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, stateful, "in")
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	_, state := inputs(c.callTool("in", `{}`))
	for _, bad := range []string{`null`, `[]`, `{"a":{},"A":{}}`, `"a"`} {
		contains(t, bad, say(c.callTool("in", `{}`, `"inputResponses":`+bad, `"requestState":`+state)),
			"error -32602: Invalid params: inputResponses")
	}
	contains(t, "the right one", say(c.callTool("in", `{}`, accept, `"requestState":`+state)), "done")
}

// A call that was approved is asked for once, however many rounds it takes.
func TestAnApprovedCallGoesOnWithoutAskingAgain(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		up := newFake(mcp.Modern, requiring, "in")
		w := newWorld(t, `{policy: {rules: [{tools: ["*"], action: quarantine}]}}`, gateway.Options{Hold: time.Minute,
			Servers: []gateway.ServerConfig{up.over(t, "http")}})
		c := join(t, w, era, `{"elicitation":{}}`, func(c *peer) { c.answer = echoing("me") })
		answer := make(chan string)
		go func() {
			m, _ := c.rounds("in", `{"rounds":3}`, func(mcp.Member) string {
				if r := w.newest(t); r.RunResult == approval.RunSucceeded || r.RunResult == approval.RunFailed {
					t.Errorf("while it is asked the outcome is %s", r.RunResult)
				}
				return `{"action":"accept"}`
			})
			answer <- say(m)
		}()
		r := w.resolve(t, true)
		contains(t, name, testkit.Receive(t, "the answer", answer), "round 3")
		now := w.newest(t)
		if now.ID != r.ID || now.RunResult != approval.RunSucceeded || up.count() != 4 {
			t.Errorf("%s: got another request %t, outcome %q, %d calls of the server; want one request that succeeded, and 4 calls", name, now.ID != r.ID, now.RunResult, up.count())
		}
	}
}

// What was approved is what is sent in every round: the stored bytes.
func TestTheContinuationSendsTheApprovedBytes(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, stateful, "in")
	w := newWorld(t, `{policy: {rules: [{tools: ["*"], action: quarantine, ignore_args: [note]}]}}`,
		gateway.Options{Hold: time.Minute, Servers: []gateway.ServerConfig{up.over(t, "http")}})
	c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
	answer := make(chan mcp.Message)
	go func() { answer <- c.callTool("in", `{"note":"first"}`) }()
	w.resolve(t, true)
	_, state := inputs(testkit.Receive(t, "the answer", answer))
	_ = c.callTool("in", `{"note":"first"}`, accept, `"requestState":`+state)
	for i := range 2 {
		want(t, "arguments", string(up.nth(i).Get("arguments")), `{"note":"first"}`)
	}
}

// memory carries HTTP to a handler without a network.
type memory struct{ h http.Handler }

type memoryWriter struct {
	header http.Header
	status int
	body   *io.PipeWriter
	begun  chan struct{}
	once   sync.Once
}

func (w *memoryWriter) Header() http.Header { return w.header }
func (w *memoryWriter) Flush()              { w.WriteHeader(http.StatusOK) }
func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() { w.status = status; close(w.begun) })
}
func (w *memoryWriter) Write(b []byte) (int, error) {
	w.Flush()
	return w.body.Write(b)
}

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	body, pw := io.Pipe()
	w := &memoryWriter{header: http.Header{}, body: pw, begun: make(chan struct{})}
	go func() { m.h.ServeHTTP(w, r); w.Flush(); pw.Close() }()
	stop := context.AfterFunc(r.Context(), func() { pw.CloseWithError(r.Context().Err()) })
	select {
	case <-w.begun:
		return &http.Response{StatusCode: w.status, Header: w.header, ContentLength: -1, Body: body}, nil
	case <-r.Context().Done():
		stop()
		return nil, r.Context().Err()
	}
}

// lenient is a gate that allows everything.
type lenient struct{ gateway.Asker }

func (lenient) Check(context.Context, approval.Call) (approval.Answer, error) {
	return approval.Answer{Kind: approval.AnswerAllow}, nil
}

// silent is the stream of a client that is sent nothing.
type silent struct{}

func (silent) Send(mcp.Message) error { return nil }
func (silent) Ask(context.Context, string, jsontext.Value) (mcp.Message, error) {
	return mcp.Message{}, io.EOF
}

// within runs a test in a bubble of its own time, with a server and a modern client without a network.
func within(t *testing.T, f *fake, test func(t *testing.T, call func(name, args string, more ...string) mcp.Message)) {
	synctest.Test(t, func(t *testing.T) {
		g, err := gateway.New(gateway.Options{Asker: lenient{}, Servers: []gateway.ServerConfig{{Timeout: time.Hour,
			Config: upstream.Config{Name: "up", URL: "http://up.example.test/mcp", Transport: memory{f}}}}})
		if err != nil {
			t.Fatal(err)
		}
		g.Start()
		c := &peer{t: t, era: mcp.Modern, caps: `{"elicitation":{}}`}
		test(t, func(name, args string, more ...string) mcp.Message {
			s := g.Open(downstream.Client{Era: mcp.Modern, Agent: "bot"})
			defer s.Close()
			return s.Request(t.Context(), mcp.Request(c.newID(), "tools/call", c.meta(callParams(name, args, more...))),
				silent{})
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestAStateIsGoodForTenMinutes(t *testing.T) {
	t.Parallel()
	within(t, newFake(mcp.Modern, stateful, "in"), func(t *testing.T, call func(string, string, ...string) mcp.Message) {
		for after, good := range map[time.Duration]bool{9*time.Minute + 59*time.Second: true, 10 * time.Minute: false} {
			_, state := inputs(call("in", `{}`))
			testkit.Elapse(after)
			if got := say(call("in", `{}`, accept, `"requestState":`+state)); strings.Contains(got, "done") != good {
				t.Errorf("after %s: got %s", after, got)
			}
		}
	})
}

// The legacy server's question is answered if the client never comes back.
func TestAServerIsAnsweredWhenTheClientStaysAway(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	f := newFake(mcp.Legacy, func(c *fakeCall) string {
		a := answered(c.ask("elicitation/create", `{"message":"m"}`))
		mu.Lock()
		defer mu.Unlock()
		got = append(got, a)
		return textResult(a)
	}, "ask")
	within(t, f, func(t *testing.T, call func(string, string, ...string) mcp.Message) {
		_, state := inputs(call("ask", `{}`))
		if state == "" {
			t.Fatal("nothing was asked")
		}
		testkit.Elapse(9 * time.Minute)
		mu.Lock()
		if len(got) != 0 {
			t.Errorf("after 9 minutes the server was answered %s", got)
		}
		mu.Unlock()
		testkit.Elapse(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(got) != 1 || got[0] != `{"action":"cancel"}` {
			t.Errorf("the server got %s, want one cancel", got)
		}
		contains(t, "too late", say(call("ask", `{}`, `"inputResponses":{"input":{"action":"accept"}}`, `"requestState":`+
			state)), "error -32602")
	})
}

// What a client says of the answers it brings to a call that is still open.
func TestAClientMayComeBackWithNoAnswer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ what, responses, want string }{
		{"an answer", `{"input":{"action":"decline"}}`, `{"action":"decline"}`},
		{"none", `{}`, `{"action":"cancel"}`},
		{"to something else", `{"else":{"action":"accept"}}`, `{"action":"cancel"}`},
	} {
		up := newFake(mcp.Legacy, asking, "ask")
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
		c := join(t, w, mcp.Modern, `{"elicitation":{}}`)
		const args = `{"ask":["x"]}`
		_, state := inputs(c.callTool("ask", args))
		contains(t, test.what+": not readable", say(c.callTool("ask", args, `"inputResponses":7`, `"requestState":`+state)),
			"error -32602")
		want(t, test.what, say(c.callTool("ask", args, `"inputResponses":`+test.responses, `"requestState":`+state)),
			test.want)
		contains(t, test.what+": again", say(c.callTool("ask", args, `"inputResponses":`+test.responses, `"requestState":`+
			state)), "error -32602")
		if up.count() != 1 {
			t.Errorf("%s: the server was called %d times, want once", test.what, up.count())
		}
	}
}

func FuzzStates(f *testing.F) {
	f.Add([]byte(`"abc"`))
	f.Add([]byte(`"` + strings.Repeat("A", 300) + `"`))
	g, err := gateway.New(gateway.Options{Asker: lenient{},
		Servers: []gateway.ServerConfig{{Config: upstream.Config{Name: "up", URL: "http://up.example.test/mcp",
			Transport: memory{newFake(mcp.Modern, stateful, "in")}}}}})
	if err != nil {
		f.Fatal(err)
	}
	g.Start()
	f.Cleanup(func() { _ = g.Stop(context.Background()) })
	f.Fuzz(func(t *testing.T, state []byte) {
		if !json.Valid(state) || bytes.Equal(bytes.TrimSpace(state), []byte("null")) {
			return
		}
		c := &peer{t: t, era: mcp.Modern, caps: `{"elicitation":{}}`}
		s := g.Open(downstream.Client{Era: mcp.Modern, Agent: "bot"})
		defer s.Close()
		m := s.Request(t.Context(), mcp.Request(c.newID(), "tools/call", c.meta(callParams("in", "{}", `"requestState":`+
			string(state)))), silent{})
		contains(t, "a state that nobody gave", say(m), "error -32602")
	})
}
