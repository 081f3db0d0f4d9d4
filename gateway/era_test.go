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
	"countersign/downstream"
	"countersign/gateway"
	"countersign/mcp"
	"countersign/upstream"
)

// Both eras and transports of either side, with the reference implementation at both ends.

func inputRequests() map[string]sdk.InputRequest {
	return map[string]sdk.InputRequest{
		"form":  &sdk.ElicitParams{Mode: "form", Message: "sure?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}},
		"url":   &sdk.ElicitParams{Mode: "url", Message: "look", URL: "https://example.test/a", ElicitationID: "e1"},
		"model": &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "hi"}}}},
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
	s.AddTool(&sdk.Tool{Name: "count", InputSchema: schema}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
				return nil, err
			}
		}
		return text("counted %s", r.Params.Arguments), nil
	})
	for name, q := range inputRequests() {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: schema}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
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
			if _, err := io.WriteString(pw, strings.ReplaceAll(s, "io.modelcontextprotocol/protocolVersion", "x/y")+"\n"); err != nil {
				return
			}
		}
	}()
	return pr
}

// referenceOver serves it, and returns how a gateway reaches it.
func referenceOver(t *testing.T, era mcp.Era, transport string) gateway.Server {
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
		srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: era == mcp.Modern}))
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		c.URL = srv.URL
	}
	c.Name = "ref"
	return gateway.Server{Config: c}
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
			done <- downstream.Stdio(context.Background(), in, out, downstream.StdioOptions{Server: w.gw, Agent: "bot", Logger: slog.New(slog.DiscardHandler)})
			out.Close()
		}()
		t.Cleanup(func() {
			toUs.Close()
			if err := <-done; err != nil {
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
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if r.Params.Mode == "url" {
				return &sdk.ElicitResult{Action: "decline"}, nil
			}
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"n": 7}}, nil
		},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "m1", Role: "assistant", Content: &sdk.TextContent{Text: "ho"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress(r.Params.Progress) },
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
	for upEra, up := range eras {
		for _, upBy := range transports {
			for downEra, down := range eras {
				for _, downBy := range transports {
					t.Run(fmt.Sprintf("%s %s to %s %s", downEra, downBy, upEra, upBy), func(t *testing.T) {
						t.Parallel()
						w := newWorld(t, allowAll, gateway.Options{Servers: []gateway.Server{referenceOver(t, up, upBy)}})
						var mu sync.Mutex
						var progress []float64
						c := connect(t, w, down, downBy, able(func(f float64) { mu.Lock(); progress = append(progress, f); mu.Unlock() }))
						unable := connect(t, w, down, downBy, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})

						p := &sdk.CallToolParams{Name: "count", Arguments: json.RawMessage(`{"n":9007199254740993}`)}
						p.SetProgressToken("tok")
						want(t, "count", told(c.CallTool(t.Context(), p)), `counted {"n":9007199254740993}`)
						eventually(t, "progress", func() bool { mu.Lock(); defer mu.Unlock(); return slices.Equal(progress, []float64{1, 2, 3}) })

						for name, answer := range map[string]string{"form": "accept 7", "url": "decline <nil>", "model": "m1", "roots": "file:///r"} {
							got := told(c.CallTool(t.Context(), &sdk.CallToolParams{Name: name}))
							want(t, name, got, answer)
							if got := told(unable.CallTool(t.Context(), &sdk.CallToolParams{Name: name})); got == answer || strings.Contains(got, "accept") {
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
	for name, down := range eras {
		for _, rules := range []string{"allow", "quarantine"} {
			t.Run(name+" "+rules, func(t *testing.T) {
				begun := make(chan struct{}, 1)
				up := newFake(mcp.Legacy, func(c *fakeCall) string { begun <- struct{}{}; <-c.ctx.Done(); return "" }, "wait")
				w := newWorld(t, `{policy: {rules: [{tools: ["*"], action: `+rules+`}]}}`, gateway.Options{Hold: time.Minute, Servers: []gateway.Server{up.over(t, "http")}})
				// A modern client that can be asked has its call detached from the request.
				c := join(t, w, down, `{"elicitation":{}}`)
				ctx, cancel := context.WithCancel(t.Context())
				id, done := c.newID(), make(chan struct{})
				go func() { defer close(done); _, _ = c.try(ctx, id, "tools/call", callParams("wait", "{}")) }()
				if rules == "quarantine" {
					w.resolve(t, true)
				}
				<-begun
				if down == mcp.Legacy {
					c.send(t.Context(), mcp.Notification("notifications/cancelled", []byte(`{"requestId":`+string(id)+`}`)))
				} else {
					cancel()
				}
				eventually(t, "the server is told", func() bool { up.mu.Lock(); defer up.mu.Unlock(); return len(up.cancelled) == 1 })
				if rules == "quarantine" {
					eventually(t, "the outcome is unknown", func() bool { return w.newest(t).Ran == approval.RanUnknown })
				}
				cancel()
				<-done
			})
		}
	}
}

// newest returns the request that was made last, the zero Request if there is none.
func (w *world) newest(t testing.TB) approval.Request {
	t.Helper()
	rs, err := w.gate.Requests(context.Background(), approval.RequestQuery{Limit: 1})
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
	eventually(t, "a request is pending", func() bool { r = w.newest(t); return r.Status == approval.Pending })
	r, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: r.ID, Approve: approve, By: person, Via: approval.ViaAPI, Reason: "because"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
