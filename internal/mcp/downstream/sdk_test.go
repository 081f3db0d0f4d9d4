package downstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// bearer sends a token with each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// versions are the two eras, as the SDK's client is told to speak them.
var versions = map[string]string{"legacy": mcp.VersionLegacy, "modern": mcp.VersionModern}

// dial is a way for an SDK client to reach the fake; the client is closed and everything ended by the test.
type dial func(t *testing.T, f *fake) sdk.Transport

func overHTTP(t *testing.T, f *fake) sdk.Transport {
	s := newSite(t, func(o *HTTPOptions) { o.Sessions = f })
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &sdk.StreamableClientTransport{Endpoint: s.srv.URL, HTTPClient: &http.Client{Transport: bearer{"one", tr}}}
}

func overStdio(t *testing.T, f *fake) sdk.Transport {
	in, toUs := io.Pipe()
	fromUs, out := io.Pipe()
	done, logs := make(chan error, 1), &testkit.Buffer{}
	go func() {
		done <- Stdio(context.Background(), in, out, StdioOptions{Sessions: f, Agent: "agent-1", Logger: logs.Logger()})
		out.Close()
	}()
	t.Cleanup(func() {
		toUs.Close()
		if err := testkit.Receive(t, "the end of Stdio", done); err != nil {
			t.Errorf("Stdio: %v", err)
		}
		fromUs.Close()
		f.check(t, logs)
	})
	return &sdk.IOTransport{Reader: fromUs, Writer: toUs}
}

// eachWay runs a test with a real client in both eras over both transports.
func eachWay(t *testing.T, o *sdk.ClientOptions, test func(t *testing.T, f *fake, c *sdk.ClientSession, era string)) {
	for way, d := range map[string]dial{"http": overHTTP, "stdio": overStdio} {
		for era, version := range versions {
			t.Run(way+" "+era, func(t *testing.T) {
				f := newFake()
				tr := d(t, f)
				var opts sdk.ClientOptions
				if o != nil {
					opts = *o
				}
				c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &opts).Connect(t.Context(), tr,
					&sdk.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if got := c.InitializeResult().ProtocolVersion; got != version {
					t.Fatalf("speaks %s, want %s", got, version)
				}
				test(t, f, c, era)
			})
		}
	}
}

func said(r *sdk.CallToolResult, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if len(r.Content) != 1 {
		return fmt.Sprint(r.Content)
	}
	return r.Content[0].(*sdk.TextContent).Text
}

func TestClientsCallTools(t *testing.T) {
	eachWay(t, nil, func(t *testing.T, f *fake, c *sdk.ClientSession, era string) {
		if r, err := c.ListTools(t.Context(), nil); err != nil || len(r.Tools) != 4 {
			t.Fatalf("got %+v, %v, want 4 tools", r, err)
		}
		for _, args := range []string{`{"n":9007199254740993}`, `{"ключ":"≠"}`} {
			if got, want := said(c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: json.RawMessage(args)})),
				"agent-1 "+args; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if got, want := said(c.CallTool(t.Context(), &sdk.CallToolParams{Name: "large"})), 1<<20; len(got) != want {
			t.Errorf("got %d bytes, want %d", len(got), want)
		}
		if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "nobody's"}); err == nil {
			t.Error("an unknown tool was called")
		}
		if got := said(c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo"})); got != "agent-1 {}" && got != "agent-1 " {
			t.Errorf("after an error: got %s", got)
		}
		if c, want := f.opened[0], (era == "legacy"); (c.Push != nil) != want {
			t.Errorf("Push is there: %t, want %t", c.Push != nil, want)
		}
	})
}

func TestClientsSeeProgress(t *testing.T) {
	var seen atomic.Int64
	o := &sdk.ClientOptions{ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) {
		seen.Add(1)
	}}
	eachWay(t, o, func(t *testing.T, _ *fake, c *sdk.ClientSession, _ string) {
		seen.Store(0)
		p := &sdk.CallToolParams{Name: "progress"}
		p.SetProgressToken("tok")
		if got := said(c.CallTool(t.Context(), p)); got != "progressed" {
			t.Fatal(got)
		}
		testkit.Eventually(t, "all of it", func() bool { return seen.Load() >= 5 })
	})
}

func TestLegacyClientsAreAsked(t *testing.T) {
	o := &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		return &sdk.ElicitResult{Action: "decline"}, nil
	}}
	eachWay(t, o, func(t *testing.T, _ *fake, c *sdk.ClientSession, era string) {
		want := map[string]string{"legacy": "answered: decline", "modern": "not asked: this client cannot be asked"}[era]
		if got := said(c.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask"})); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestClientsGiveUp(t *testing.T) {
	eachWay(t, nil, func(t *testing.T, f *fake, c *sdk.ClientSession, _ string) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan string)
		go func() { done <- said(c.CallTool(ctx, &sdk.CallToolParams{Name: "hold"})) }()
		testkit.Receive(t, "a held call", f.holding)
		cancel()
		testkit.Receive(t, "a call given up", f.gaveUp)
		testkit.Receive(t, "the answer", done)
		if got := said(c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo"})); got[:7] != "agent-1" {
			t.Errorf("the next call: got %s", got)
		}
	})
}

func TestClientsWaitWhileTheyAreShownSignsOfLife(t *testing.T) {
	for era, version := range versions {
		t.Run(era, func(t *testing.T) {
			s := newSite(t)
			s.h.keepAliveAfter, s.h.keepAlive = time.Millisecond, time.Millisecond
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
				&sdk.StreamableClientTransport{Endpoint: s.srv.URL, HTTPClient: &http.Client{Transport: bearer{"one", tr}}},
				&sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			time.AfterFunc(50*time.Millisecond, func() { close(s.released) })
			if got := said(c.CallTool(t.Context(), &sdk.CallToolParams{Name: "hold"})); got != "released" {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestListsThatChangeReachClients(t *testing.T) {
	changed := make(chan struct{}, 100)
	o := &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}}
	eachWay(t, o, func(t *testing.T, f *fake, c *sdk.ClientSession, era string) {
		for len(changed) > 0 {
			testkit.Receive(t, "what came before", changed)
		}
		if era == "legacy" {
			for _, s := range f.sessions() {
				s.Push(mcp.Notification("notifications/tools/list_changed", nil))
			}
		}
		testkit.Receive(t, "the change", changed)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if era == "modern" {
			testkit.Receive(t, "a call given up", f.gaveUp) // subscriptions/listen
		}
	})
}

func TestManySessionsLoseNothing(t *testing.T) {
	s := newSite(t)
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	defer tr.CloseIdleConnections()
	const sessions, each = 64, 20
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			version := mcp.VersionLegacy
			if i%2 == 0 {
				version = mcp.VersionModern
			}
			c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
				&sdk.StreamableClientTransport{Endpoint: s.srv.URL, HTTPClient: &http.Client{Transport: bearer{"one", tr}}},
				&sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for n := range each {
				args := fmt.Sprintf(`{"client":%d,"n":%d}`, i, n)
				if got := said(c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo",
					Arguments: json.RawMessage(args)})); got != "agent-1 "+args {
					t.Errorf("got %s, want %s", got, args)
				}
			}
		})
	}
	testkit.Wait(t, "all sessions", all.Wait)
}
