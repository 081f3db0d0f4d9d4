package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// sdkServer is a server of the reference implementation. Its tools: echo answers with its argument,
// count reports progress three times first, ask asks the person at the client, wait waits for the end of
// the request, poll ends its stream before it answers, grow adds a tool.
func sdkServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "reference", Version: "1"}, &sdk.ServerOptions{Instructions: "be kind"})
	schema := json.RawMessage(`{"type":"object"}`)
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	s.AddTool(&sdk.Tool{Name: "echo", InputSchema: schema}, func(_ context.Context,
		r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	s.AddTool(&sdk.Tool{Name: "count", InputSchema: schema}, func(ctx context.Context,
		r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: float64(i + 1)}); err != nil {
				return nil, err
			}
		}
		return text("counted"), nil
	})
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: schema}, func(ctx context.Context,
		r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		a, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?", RequestedSchema: map[string]any{"type": "object",
			"properties": map[string]any{}}})
		if err != nil {
			return nil, err
		}
		return text(a.Action), nil
	})
	s.AddTool(&sdk.Tool{Name: "wait", InputSchema: schema}, func(ctx context.Context,
		r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
			Progress: 1})
		<-ctx.Done()
		return text("cancelled"), nil
	})
	s.AddTool(&sdk.Tool{Name: "poll", InputSchema: schema}, func(_ context.Context,
		r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		return text("polled"), nil
	})
	s.AddTool(&sdk.Tool{Name: "grow", InputSchema: schema}, func(_ context.Context,
		_ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddTool(&sdk.Tool{Name: "grown", InputSchema: schema},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text(""), nil })
		return text("grown"), nil
	})
	return s
}

// sdkHTTP serves it over HTTP, stateless for the modern era and with sessions for the legacy one.
func sdkHTTP(t *testing.T, era mcp.Era, o sdk.StreamableHTTPOptions) string {
	t.Helper()
	s := sdkServer()
	o.Stateless = era == mcp.Modern
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &o)
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL + "/mcp"
}

func TestTheReferenceServerMayEndAStreamBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	url := sdkHTTP(t, mcp.Legacy, sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
	c := mustDial(t, Config{URL: url}, Peer{})
	m, err := c.Do(testContext(t), toolCall(c, "poll", `{}`))
	if err != nil || !strings.Contains(string(m.Result), "polled") {
		t.Errorf("got %s, %v, want the answer", m.Bytes(), err)
	}
}

func TestTheReferenceServerTellsASubscriberOfChanges(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"stdio": fake("sdk"),
		"http": {URL: sdkHTTP(t, mcp.Modern, sdk.StreamableHTTPOptions{})}} {
		c := mustDial(t, cfg, Peer{})
		ctx, cancel := context.WithCancel(testContext(t))
		id := c.NewID()
		p, _ := mcp.ReadObject(params(c, id, "x", "{}"))
		p = p.Without("name", "arguments").With("notifications", jsontext.Value(`{"toolsListChanged":true}`))
		var got []string
		_, err := c.Do(ctx, Request{ID: id, Method: "subscriptions/listen", Params: p.Bytes(),
			OnNotification: func(m mcp.Message) {
				if got = append(got, m.Method); len(got) == 1 {
					go c.Do(ctx, toolCall(c, "grow", `{}`))
				} else {
					cancel()
				}
			}})
		want := []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"}
		if !errors.Is(err, context.Canceled) || !slices.Equal(got, want) {
			t.Errorf("over %s got %v, %v, want %v", name, got, err, want)
		}
	}
}

// params are those of a tools/call.
func params(c Conn, id jsontext.Value, tool, arguments string) jsontext.Value {
	meta := `"progressToken":` + string(id)
	if c.Hello().Era == mcp.Modern {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}`
	}
	return jsontext.Value(`{"name":"` + tool + `","arguments":` + arguments + `,"_meta":{` + meta + `}}`)
}

func toolCall(c Conn, tool, arguments string) Request {
	id := c.NewID()
	return Request{ID: id, Method: "tools/call", Params: params(c, id, tool, arguments)}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func mustDial(t *testing.T, cfg Config, peer Peer) Conn {
	t.Helper()
	c, err := Dial(testContext(t), cfg, peer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestReferenceServer(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name string
		era  mcp.Era
		cfg  func(t *testing.T) Config
	}{
		{"stdio modern", mcp.Modern, func(*testing.T) Config { return fake("sdk") }},
		{"stdio legacy", mcp.Legacy, func(*testing.T) Config { return fake("sdk-legacy") }},
		{"http modern", mcp.Modern, func(t *testing.T) Config {
			return Config{URL: sdkHTTP(t, mcp.Modern, sdk.StreamableHTTPOptions{})}
		}},
		{"http modern json", mcp.Modern, func(t *testing.T) Config {
			return Config{URL: sdkHTTP(t, mcp.Modern, sdk.StreamableHTTPOptions{JSONResponse: true})}
		}},
		{"http legacy", mcp.Legacy, func(t *testing.T) Config {
			return Config{URL: sdkHTTP(t, mcp.Legacy, sdk.StreamableHTTPOptions{})}
		}},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			cfg := way.cfg(t)
			cfg.Capabilities = jsontext.Value(`{"elicitation":{}}`)
			cfg.Logger = nil
			c := mustDial(t, cfg, Peer{})
			h := c.Hello()
			if h.Era != way.era || h.Instructions != "be kind" || h.Capabilities.Kind() != '{' {
				t.Fatalf("the server said %+v, want era %v", h, way.era)
			}
			ctx := testContext(t)
			t.Run("arguments arrive byte for byte", func(t *testing.T) {
				const args = `{"n":12345678901234567890,"d":1.10,"s":"\u00e9\n"}`
				m, err := c.Do(ctx, toolCall(c, "echo", args))
				if err != nil || !strings.Contains(string(m.Result), string(mcp.Quote(args))) {
					t.Errorf("got %s, %v, want the arguments back", m.Bytes(), err)
				}
			})
			t.Run("progress comes before the answer", func(t *testing.T) {
				var got []string
				r := toolCall(c, "count", `{}`)
				r.OnNotification = func(m mcp.Message) { got = append(got, m.Method) }
				m, err := c.Do(ctx, r)
				want := slices.Repeat([]string{"notifications/progress"}, 3)
				if way.name == "http modern json" {
					if err != nil || m.Err == nil || got != nil {
						t.Errorf("got %v and %s, %v: a server that answers in JSON has nowhere to put progress", got, m.Bytes(), err)
					}
					return
				}
				if err != nil || !strings.Contains(string(m.Result), "counted") || !slices.Equal(got, want) {
					t.Errorf("got %v and %s, %v, want %v", got, m.Bytes(), err, want)
				}
			})
			t.Run("what fails is an answer", func(t *testing.T) {
				m, err := c.Do(ctx, toolCall(c, "nosuch", `{}`))
				if err != nil || m.Err == nil {
					t.Errorf("got %s, %v, want an error of the server", m.Bytes(), err)
				}
				if way.name == "http legacy" {
					return // it answers unknown methods with a status and a text
				}
				m, err = c.Do(ctx, Request{ID: c.NewID(), Method: "no/such", Params: params(c, c.NewID(), "x", "{}")})
				if err != nil || m.Err == nil || mcp.ReadError(m.Err).Code != mcp.CodeMethodNotFound {
					t.Errorf("got %s, %v, want method not found", m.Bytes(), err)
				}
			})
			t.Run("a legacy server can ask", func(t *testing.T) {
				asked := 0
				r := toolCall(c, "ask", `{}`)
				r.Ask = func(_ context.Context, _ mcp.Message) mcp.Message {
					asked++
					return mcp.Response(nil, jsontext.Value(`{"action":"decline"}`))
				}
				m, err := c.Do(ctx, r)
				if way.era == mcp.Legacy && (err != nil || asked != 1 || !strings.Contains(string(m.Result), "decline")) {
					t.Errorf("asked %d times, got %s, %v, want decline", asked, m.Bytes(), err)
				}
				if way.era == mcp.Modern && asked != 0 {
					t.Errorf("a modern server asked %d times", asked)
				}
			})
			t.Run("many at once", func(t *testing.T) {
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						r := toolCall(c, "echo", `{"x":1}`)
						r.Params = params(c, r.ID, "echo", `{"id":`+string(r.ID)+`}`)
						m, err := c.Do(ctx, r)
						if err != nil || !strings.Contains(string(m.Result), `{\"id\":`+string(r.ID)+`}`) {
							t.Errorf("request %s got %s, %v", r.ID, m.Bytes(), err)
						}
					})
				}
				testkit.Wait(t, "all calls", wg.Wait)
			})
		})
	}
}

// runSDK is the reference server as a process.
func runSDK(t sdk.Transport) { sdkServer().Run(context.Background(), t) }

// renaming returns the messages of r with names replaced, given in pairs of old and new: a server of both eras then
// does not know the method with which one of them begins.
func renaming(r io.Reader, names ...string) io.ReadCloser {
	rename := strings.NewReplacer(names...)
	pr, pw := io.Pipe()
	go func() {
		d := json.NewDecoder(r)
		for {
			var m json.RawMessage
			if err := d.Decode(&m); err != nil {
				pw.CloseWithError(err)
				return
			}
			io.WriteString(pw, rename.Replace(string(m))+"\n")
		}
	}()
	return pr
}
