package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
)

// echoServer is an MCP server with one tool, as the reference SDK makes it.
func echoServer(b testing.TB) string {
	type in struct {
		Text string `json:"text"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest,
		a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	b.Cleanup(srv.Close)
	return srv.URL
}

// caller is a client that sends raw messages, and so costs next to nothing itself.
type caller struct {
	http    *http.Client
	url, id string
}

func (c *caller) post(b testing.TB, body string) []byte {
	r, _ := http.NewRequest("POST", c.url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.id != "" {
		r.Header.Set("Mcp-Session-Id", c.id)
	}
	res, err := c.http.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		c.id = id
	}
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		b.Fatalf("%s %v: %s", res.Status, err, got)
	}
	return got
}

func open(b testing.TB, url string) *caller {
	c := &caller{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}},
		url: url}
	c.post(b, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`)
	c.post(b, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// BenchmarkCall is an allowed call of 600 bytes, straight to the server and through the gateway.
func BenchmarkCall(b *testing.B) {
	text := strings.Repeat("lorem ipsum ", 48)
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `"}}}`
	up := echoServer(b)
	w := newWorld(b, allowAll,
		gateway.Options{Servers: []gateway.ServerConfig{{Config: upstream.Config{Name: "up", URL: up}}}})
	for _, to := range []struct{ name, url string }{{"direct", up}, {"gateway", w.url}} {
		b.Run(to.name, func(b *testing.B) {
			c := open(b, to.url)
			b.ReportAllocs()
			for b.Loop() {
				if got := c.post(b, call); !bytes.Contains(got, []byte(text)) {
					b.Fatalf("no echo: %s", got)
				}
			}
		})
		b.Run(to.name+"/parallel", func(b *testing.B) {
			b.SetParallelism(8)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c := open(b, to.url)
				for pb.Next() {
					c.post(b, call)
				}
			})
		})
	}
}
