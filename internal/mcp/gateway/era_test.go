//lint:file-ignore SA1019 sampling and roots are deprecated, and still to be carried

package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/testkit"
)

// Both eras and transports of either side, with the reference implementation at both ends.

func inputRequests() map[string]sdk.InputRequest {
	return map[string]sdk.InputRequest{
		"form": &sdk.ElicitParams{Mode: "form", Message: "sure?", RequestedSchema: map[string]any{"type": "object",
			"properties": map[string]any{"n": map[string]any{"type": "integer"}}}},
		"url": &sdk.ElicitParams{Mode: "url", Message: "look", URL: "https://example.test/a", ElicitationID: "e1"},
		"model": &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user",
			Content: &sdk.TextContent{Text: "hi"}}}},
		"roots": &sdk.ListRootsParams{},
	}
}

// reference is a server of the SDK.
func reference() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "reference", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	text := func(format string, args ...any) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	s.AddTool(&sdk.Tool{Name: "count", InputSchema: schema}, func(ctx context.Context,
		r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: float64(i + 1)}); err != nil {
				return nil, err
			}
		}
		return text("counted %s", r.Params.Arguments), nil
	})
	for name, q := range inputRequests() {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: schema}, func(_ context.Context,
			r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			switch a := r.Params.InputResponses["q"].(type) {
			case nil:
				if len(r.Params.InputResponses) > 0 || r.Params.RequestState != "" {
					return text("no answer"), nil
				}
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": q}, RequestState: "s é"}, nil
			case *sdk.ElicitResult:
				return text("%s %v", a.Action, a.Content["n"]), nil
			case *sdk.CreateMessageResult:
				return text("%s", a.Model), nil
			case *sdk.CreateMessageWithToolsResult:
				return text("%s", a.Model), nil
			case *sdk.ListRootsResult:
				return text("%s", append(a.Roots, &sdk.Root{URI: "no roots"})[0].URI), nil
			default:
				return text("%T", a), nil
			}
		})
	}
	return s
}

// withoutDiscover makes what a server reads look as if nobody had heard of the modern era.
func withoutDiscover(r io.Reader) io.ReadCloser {
	pr, pw := io.Pipe()
	go func() {
		d := json.NewDecoder(r)
		for {
			var m json.RawMessage
			if err := d.Decode(&m); err != nil {
				pw.CloseWithError(err)
				return
			}
			s := strings.Replace(string(m), `"server/discover"`, `"server/nosuch"`, 1)
			if _, err := io.WriteString(pw, strings.ReplaceAll(s, "io.modelcontextprotocol/protocolVersion", "x/y")+
				"\n"); err != nil {
				return
			}
		}
	}()
	return pr
}

// referenceOver serves it, and returns how a gateway reaches it.
func referenceOver(t *testing.T, era mcp.Era, transport string) gateway.ServerConfig {
	t.Helper()
	s := reference()
	var c upstream.Config
	if transport == "stdio" {
		c = serveStdio(t, func(conn net.Conn) {
			tr := &sdk.IOTransport{Reader: conn, Writer: conn}
			if era == mcp.Legacy {
				tr.Reader = withoutDiscover(conn)
			}
			_ = s.Run(context.Background(), tr)
		})
	} else {
		srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
			return s
		}, &sdk.StreamableHTTPOptions{Stateless: era == mcp.Modern}))
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		c.URL = srv.URL
	}
	c.Name = "ref"
	return gateway.ServerConfig{Config: c}
}

type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+agentToken)
	return b.next.RoundTrip(r)
}

// connect has a client of the SDK join.
func connect(t *testing.T, w *world, era mcp.Era, transport string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	var tr sdk.Transport
	if transport == "stdio" {
		in, toUs := io.Pipe()
		fromUs, out := io.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- downstream.Stdio(context.Background(), in, out, downstream.StdioOptions{Sessions: w.gw, Agent: "bot",
				Logger: slog.New(slog.DiscardHandler)})
			out.Close()
		}()
		t.Cleanup(func() {
			toUs.Close()
			if err := testkit.Receive(t, "the end of Stdio", done); err != nil {
				t.Errorf("Stdio: %v", err)
			}
			fromUs.Close()
		})
		tr = &sdk.IOTransport{Reader: fromUs, Writer: toUs}
	} else {
		h := &http.Transport{}
		t.Cleanup(h.CloseIdleConnections)
		tr = &sdk.StreamableClientTransport{Endpoint: w.url, HTTPClient: &http.Client{Transport: bearer{h}}}
	}
	version := mcp.VersionLegacy
	if era == mcp.Modern {
		version = mcp.VersionModern
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	if o.Capabilities.RootsV2 != nil {
		client.AddRoots(&sdk.Root{URI: "file:///r"})
	}
	c, err := client.Connect(t.Context(), tr, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if got := c.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the client speaks %s, want %s", got, version)
	}
	return c
}

var (
	eras       = map[string]mcp.Era{"legacy": mcp.Legacy, "modern": mcp.Modern}
	transports = []string{"http", "stdio"}
)

// able are a client's abilities, each with an answer of its own.
func able(progress func(float64)) *sdk.ClientOptions {
	return &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}, Sampling: &sdk.SamplingCapabilities{},
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{},
				URL: &sdk.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if r.Params.Mode == "url" {
				return &sdk.ElicitResult{Action: "decline"}, nil
			}
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"n": 7}}, nil
		},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "m1", Role: "assistant", Content: &sdk.TextContent{Text: "ho"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			progress(r.Params.Progress)
		},
	}
}

func told(r *sdk.CallToolResult, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	s := r.Content[0].(*sdk.TextContent).Text
	if r.IsError {
		s = "failed: " + s
	}
	return s
}

func TestAllPairsOfErasAndTransports(t *testing.T) {
	t.Parallel()
	for upEra, up := range eras {
		for _, upBy := range transports {
			for downEra, down := range eras {
				for _, downBy := range transports {
					t.Run(fmt.Sprintf("%s %s to %s %s", downEra, downBy, upEra, upBy), func(t *testing.T) {
						t.Parallel()
						w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{referenceOver(t, up, upBy)}})
						var mu sync.Mutex
						var progress []float64
						c := connect(t, w, down, downBy, able(func(f float64) { mu.Lock(); progress = append(progress, f); mu.Unlock() }))
						unable := connect(t, w, down, downBy, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})

						p := &sdk.CallToolParams{Name: "count", Arguments: json.RawMessage(`{"n":9007199254740993}`)}
						p.SetProgressToken("tok")
						want(t, "count", told(c.CallTool(t.Context(), p)), `counted {"n":9007199254740993}`)
						testkit.Eventually(t, "progress", func() bool {
							mu.Lock()
							defer mu.Unlock()
							return slices.Equal(progress, []float64{1, 2, 3})
						})

						for name, answer := range map[string]string{"form": "accept 7", "url": "decline <nil>", "model": "m1",
							"roots": "file:///r"} {
							got := told(c.CallTool(t.Context(), &sdk.CallToolParams{Name: name}))
							want(t, name, got, answer)
							if got := told(unable.CallTool(t.Context(), &sdk.CallToolParams{Name: name})); got == answer ||
								strings.Contains(got, "accept") {
								t.Errorf("%s: a client that cannot answer it said %s", name, got)
							}
						}
					})
				}
			}
		}
	}
}

// An approved call goes on when its client is lost, and not when its client takes it back. What came of it
// is on record either way.
func TestCancellingReachesTheServer(t *testing.T) {
	t.Parallel()
	for name, down := range eras {
		for _, rules := range []string{"allow", "quarantine"} {
			t.Run(name+" "+rules, func(t *testing.T) {
				begun := make(chan struct{}, 1)
				up := newFake(mcp.Legacy, func(c *fakeCall) string { begun <- struct{}{}; <-c.ctx.Done(); return "" }, "wait")
				w := newWorld(t, `{policy: {rules: [{tools: ["*"], action: `+rules+`}]}}`, gateway.Options{Hold: time.Minute,
					Servers: []gateway.ServerConfig{up.over(t, "http")}})
				// A modern client that can be asked has its call detached from the request.
				c := join(t, w, down, `{"elicitation":{}}`)
				ctx, cancel := context.WithCancel(t.Context())
				id, done := c.newID(), make(chan struct{})
				go func() { defer close(done); _, _ = c.try(ctx, id, "tools/call", callParams("wait", "{}")) }()
				if rules == "quarantine" {
					w.resolve(t, true)
				}
				testkit.Receive(t, "the call is under way", begun)
				if down == mcp.Legacy {
					c.send(t.Context(), mcp.Notification("notifications/cancelled", []byte(`{"requestId":`+string(id)+`}`)))
				} else {
					cancel()
				}
				testkit.Eventually(t, "the server is told", func() bool {
					up.mu.Lock()
					defer up.mu.Unlock()
					return len(up.cancelled) == 1
				})
				if rules == "quarantine" {
					testkit.Eventually(t, "the outcome is unknown", func() bool {
						return w.newest(t).RunResult == approval.RunUnknown
					})
				}
				cancel()
				testkit.Receive(t, "the call's end", done)
			})
		}
	}
}

// newest returns the request that was made last, the zero Request if there is none.
func (w *world) newest(t testing.TB) approval.Request {
	t.Helper()
	rs, err := lists.ListRequests(context.Background(), w.gate, approval.RequestQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(rs) == 0 {
		return approval.Request{}
	}
	return rs[0]
}

// resolve waits for a request that is pending, and decides it.
func (w *world) resolve(t testing.TB, approve bool) approval.Request {
	t.Helper()
	var r approval.Request
	testkit.Eventually(t, "a request is pending", func() bool { r = w.newest(t); return r.Status == approval.Pending })
	r, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: r.ID, Approve: approve, By: person,
		Via: approval.ViaAPI, Reason: "because"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inputs are what an answer of input_required asks for, and the state that it gives.
func inputs(m mcp.Message) (wanted mcp.Object, state string) {
	o, err := mcp.ReadObject(m.Result)
	if err != nil || o.Text("resultType") != mcp.ResultInputRequired {
		return nil, ""
	}
	wanted, _ = o.Object("inputRequests")
	return wanted, string(o.Get("requestState"))
}

// rounds calls a tool as modern clients do, until it is answered, and returns how often it was asked.
func (c *peer) rounds(name, args string, answer func(mcp.Member) string) (mcp.Message, int) {
	c.t.Helper()
	more := []string{}
	for n := 0; ; n++ {
		m := c.callTool(name, args, more...)
		wanted, state := inputs(m)
		if wanted == nil || n == 20 {
			return m, n
		}
		var responses []string
		for _, q := range wanted {
			if a := answer(q); a != "" {
				responses = append(responses, string(mcp.Quote(q.Name))+":"+a)
			}
		}
		more = []string{`"inputResponses":{` + strings.Join(responses, ",") + `}`, `"requestState":` + state}
	}
}

// asking is a legacy server's tool that asks for each of its argument's texts, one after the other.
func asking(c *fakeCall) string {
	args, _ := c.params.Object("arguments")
	texts, _ := mcp.ReadArray(args.Get("ask"))
	var got []string
	for _, text := range texts {
		got = append(got, answered(c.ask("elicitation/create", `{"message":`+string(text)+
			`,"requestedSchema":{"type":"object","properties":{}}}`)))
	}
	return textResult(strings.Join(got, " "))
}

func echoing(who string) func(mcp.Message) string {
	return func(m mcp.Message) string {
		p, _ := mcp.ReadObject(m.Params)
		return `{"action":"accept","content":{"text":"` + who + " " + p.Text("message") + `"}}`
	}
}

func TestEachClientIsAskedForItsOwnCall(t *testing.T) {
	t.Parallel()
	const clients = 4
	var in sync.WaitGroup
	in.Add(clients)
	up := newFake(mcp.Legacy, func(c *fakeCall) string { in.Done(); in.Wait(); return asking(c) }, "ask")
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	var done sync.WaitGroup
	for i := range clients {
		who, era := fmt.Sprintf("c%d", i), mcp.Era(i%2)
		c := join(t, w, era, `{"elicitation":{}}`, func(c *peer) { c.answer = echoing(who) })
		done.Go(func() {
			m, n := c.rounds("ask", `{"ask":["x","y"]}`, func(q mcp.Member) string {
				return echoing(who)(mcp.Message{Params: member(q.Value, "params")})
			})
			want(t, who, say(m),
				fmt.Sprintf(`{"action":"accept","content":{"text":"%s x"}} {"action":"accept","content":{"text":"%[1]s y"}}`, who))
			if era == mcp.Modern && n != 2 {
				t.Errorf("%s was asked %d times, want 2", who, n)
			}
		})
	}
	testkit.Wait(t, "all calls", done.Wait)
}

// A process cannot say for which of its calls it asks: it is told that nobody answers, in the words of what it asked.
func TestOverASharedPipeNobodyIsAskedForAnothersCall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ method, wanted string }{
		{"elicitation/create", `{"action":"cancel"}`},
		{"sampling/createMessage", "error -1"},
		{"roots/list", "error -32601"},
	} {
		var in, out sync.WaitGroup
		in.Add(2)
		out.Add(2)
		up := newFake(mcp.Legacy, func(c *fakeCall) string {
			in.Done()
			in.Wait()
			defer out.Wait()
			defer out.Done()
			return textResult(answered(c.ask(test.method,
				`{"message":"m","requestedSchema":{"type":"object","properties":{}}}`)))
		}, "ask")
		w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "stdio")}})
		var done sync.WaitGroup
		for i := range 2 {
			c := join(t, w, mcp.Legacy, `{"elicitation":{},"sampling":{},"roots":{}}`) // being asked fails the test
			done.Go(func() {
				want(t, fmt.Sprintf("%s, client %d", test.method, i), say(c.callTool("ask", fmt.Sprintf(`{"i":%d}`, i))),
					test.wanted)
			})
		}
		testkit.Wait(t, "both calls", done.Wait)
	}
}

func TestSeveralQuestionsAtOnceEachGetTheirOwnAnswer(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Legacy, func(c *fakeCall) string {
		got := make([]string, 3)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				got[i] = answered(c.ask("elicitation/create", fmt.Sprintf(`{"message":"q%d","requestedSchema":{}}`, i)))
			})
		}
		all.Wait()
		return textResult(strings.Join(got, " "))
	}, "ask")
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	wanted := `{"action":"accept","content":{"text":"me q0"}} {"action":"accept","content":{"text":"me q1"}} {"action":"accept","content":{"text":"me q2"}}`
	for name, era := range eras {
		c := join(t, w, era, `{"elicitation":{}}`, func(c *peer) { c.answer = echoing("me") })
		m, _ := c.rounds("ask", "{}", func(q mcp.Member) string {
			return echoing("me")(mcp.Message{Params: member(q.Value, "params")})
		})
		want(t, name, say(m), wanted)
	}
}

// requiring is a modern server's tool that wants input in each round, up to as many as its argument says.
func requiring(c *fakeCall) string {
	args, _ := c.params.Object("arguments")
	wants := 0
	_ = json.Unmarshal(args.Get("rounds"), &wants)
	round := 0
	if s := c.params.Text("requestState"); s != "" {
		_, _ = fmt.Sscanf(s, "round %d", &round)
	}
	if round == wants {
		return `{"resultType":"complete","content":[{"type":"text","text":` +
			string(mcp.Quote(fmt.Sprintf("round %d %s", round, c.params.Get("inputResponses")))) + `}]}`
	}
	method := "elicitation/create"
	if m := args.Text("method"); m != "" {
		method = m
	}
	return fmt.Sprintf(
		`{"resultType":"input_required","inputRequests":{"a":{"method":"%s","params":{"message":"m%d","requestedSchema":{}}}},"requestState":"round %d"}`, method, round, round+1)
}

func TestAModernServersRoundsAreAskedOfALegacyClient(t *testing.T) {
	t.Parallel()
	up := newFake(mcp.Modern, requiring, "in")
	w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
	asked := 0
	c := join(t, w, mcp.Legacy, `{"elicitation":{}}`, func(c *peer) {
		c.answer = func(m mcp.Message) string { asked++; return echoing("me")(m) }
	})
	want(t, "three rounds", say(c.callTool("in", `{"rounds":3}`)),
		`round 3 {"a":{"action":"accept","content":{"text":"me m2"}}}`)
	if asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
	asked = 0
	contains(t, "ten rounds", say(c.callTool("in", `{"rounds":10}`)), "round 10")
	asked = 0
	want(t, "endless rounds", say(c.callTool("in", `{"rounds":1000}`)),
		"failed: The MCP server up needs more input than this client can give. The call may have run; find out before you call it again.")
	if asked != 10 {
		t.Errorf("asked %d times, want 10", asked)
	}
	if got := string(member(up.nth(0).Get("_meta"), mcp.MetaCapabilities)); got != `{"elicitation":{}}` {
		t.Errorf("the server was told that the client can %s", got)
	}
}

func TestWhatAClientCannotAnswerIsDeclined(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		legacy string // what a legacy server gets
	}{
		{"elicitation/create", `{"action":"cancel"}`},
		{"sampling/createMessage", "error -1"},
		{"roots/list", "error -32601"},
		{"nobody/knows", "error -32601"},
	} {
		for name, down := range eras {
			up := newFake(mcp.Legacy, func(c *fakeCall) string {
				return textResult(answered(c.ask(test.method, `{"message":"m"}`)))
			}, "ask")
			w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
			for _, caps := range []string{`{}`, `{"elicitation":{"url":{}}}`} {
				want(t, test.method+" of a legacy server, "+name, say(join(t, w, down, caps).callTool("ask", "{}")), test.legacy)
			}
			up = newFake(mcp.Modern, requiring, "in")
			w = newWorld(t, allowAll, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "stdio")}})
			answer := say(join(t, w, down, `{}`).callTool("in", `{"rounds":1,"method":"`+test.method+`"}`))
			if down == mcp.Legacy && test.method == "elicitation/create" {
				want(t, test.method+" of a modern server", answer, `round 1 {"a":{"action":"cancel"}}`)
			} else if down == mcp.Legacy {
				want(t, test.method+" of a modern server", answer, `round 1 null`)
			} else {
				want(t, test.method+" of a modern server, modern", answer,
					"failed: The MCP server up needs more input than this client can give. The call may have run; find out before you call it again.")
			}
		}
	}
}

func TestPolicyKeepsServersFromAsking(t *testing.T) {
	t.Parallel()
	caps := `{"elicitation":{},"sampling":{}}`
	for _, method := range []string{"elicitation/create", "sampling/createMessage"} {
		rules := `{policy: {rules: [{tools: ["*"], action: allow}, {method: ` + method + `, action: deny, risk: high}]}}`
		for name, down := range eras {
			up := newFake(mcp.Legacy, func(c *fakeCall) string { return textResult(answered(c.ask(method, `{"message":"m"}`))) },
				"ask")
			w := newWorld(t, rules, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
			want(t, method+" of a legacy server, "+name, say(join(t, w, down, caps).callTool("ask", "{}")),
				fmt.Sprint("error ", mcp.CodeDenied))

			up = newFake(mcp.Modern, requiring, "in")
			w = newWorld(t, rules, gateway.Options{Servers: []gateway.ServerConfig{up.over(t, "http")}})
			answer := say(join(t, w, down, caps).callTool("in", `{"rounds":1,"method":"`+method+`"}`))
			switch {
			case down == mcp.Modern:
				contains(t, method+" of a modern server, modern", answer,
					"failed: The MCP server up needs input for this call, and may not ask for it: Policy denied")
			case method == "elicitation/create":
				want(t, method+" of a modern server", answer, `round 1 {"a":{"action":"cancel"}}`)
			default:
				want(t, method+" of a modern server", answer, `round 1 null`)
			}
		}
	}
}
