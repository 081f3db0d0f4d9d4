package downstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server whose tools do what their names say. It remembers what became of its sessions.
type fake struct {
	mu       sync.Mutex
	open     map[*fakeSession]bool
	opened   []Client
	notified []string
	bad      []string // what no transport may do
	params   []mcp.ParamHeader

	holding  chan string // tells the agent of each call that is held
	released chan struct{}
	gaveUp   chan error // tells why a held call ended
	calls    atomic.Int64
}

func newFake() *fake {
	return &fake{open: map[*fakeSession]bool{}, holding: make(chan string, 4096), released: make(chan struct{}),
		gaveUp: make(chan error, 4096)}
}

func (f *fake) Open(c Client) Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &fakeSession{f: f, Client: c}
	f.open[s] = true
	f.opened = append(f.opened, c)
	return s
}

func (f *fake) wrong(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bad = append(f.bad, fmt.Sprintf(format, args...))
}

// check says what the transport has done wrong in the end. By then it has closed the sessions, unless it has said that
// they take too long, as they may on a slow machine: then they are closed later.
func (f *fake) check(t *testing.T, logs *testkit.Buffer) {
	t.Helper()
	if strings.Contains(logs.String(), "take too long to end") {
		testkit.Eventually(t, "the sessions are closed", func() bool { return len(f.sessions()) == 0 })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.bad {
		t.Error(b)
	}
	if len(f.open) > 0 {
		t.Errorf("%d sessions were not closed", len(f.open))
	}
}

func (f *fake) sessions() []*fakeSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ss []*fakeSession
	for s := range f.open {
		ss = append(ss, s)
	}
	return ss
}

type fakeSession struct {
	Client
	f      *fake
	inHand atomic.Int64
	closed atomic.Bool
}

func (s *fakeSession) Close() {
	if s.closed.Swap(true) {
		s.f.wrong("a session was closed twice")
	}
	if n := s.inHand.Load(); n > 0 {
		s.f.wrong("a session was closed with %d requests in hand", n)
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	delete(s.f.open, s)
}

func (s *fakeSession) Notify(_ context.Context, m mcp.Message) {
	if s.closed.Load() {
		s.f.wrong("a closed session was notified")
	}
	if m.Method == "notifications/panic" {
		panic("as the test wants")
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.notified = append(s.f.notified, m.Method)
}

func (s *fakeSession) ParamHeaders(tool string) []mcp.ParamHeader {
	if tool == "headers" {
		return s.f.params
	}
	return nil
}

const tools = `{"name":"echo","inputSchema":{"type":"object"}},{"name":"progress","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"hold","inputSchema":{"type":"object"}}`

func (s *fakeSession) Request(ctx context.Context, m mcp.Message, out Stream) mcp.Message {
	s.inHand.Add(1)
	defer s.inHand.Add(-1)
	if s.closed.Load() {
		s.f.wrong("a closed session was asked")
	}
	s.f.calls.Add(1)
	params, _ := mcp.ReadObject(m.Params)
	switch m.Method {
	case "initialize":
		if !s.Local {
			_ = out.Send(mcp.Notification("notifications/message", nil))
			time.Sleep(time.Millisecond) // real: gives a sign of life that comes too early the time to be sent
		}
		if params.Text("protocolVersion") == "slow" {
			s.f.holding <- "slow"
			<-ctx.Done()
		}
		if params.Text("protocolVersion") == "refused" {
			return mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeInvalidParams, "no"))
		}
		version := mcp.VersionLegacy
		if params.Text("protocolVersion") == versionOfBatches {
			version = versionOfBatches
		}
		return mcp.Response(m.ID, jsontext.Value(`{"protocolVersion":"`+version+
			`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}`))
	case "server/discover":
		return mcp.Response(m.ID,
			jsontext.Value(`{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}}}`))
	case "ping":
		return mcp.Response(m.ID, jsontext.Value(`{}`))
	case "tools/list":
		return mcp.Response(m.ID, jsontext.Value(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+tools+
			`]}`))
	case "subscriptions/listen":
		id := string(m.ID)
		if err := out.Send(mcp.Notification("notifications/subscriptions/acknowledged",
			jsontext.Value(`{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+
				`},"notifications":{"toolsListChanged":true}}`))); err != nil {
			s.f.wrong("subscriptions/listen: %v", err)
		}
		for {
			select {
			case <-ctx.Done():
				s.f.gaveUp <- context.Cause(ctx)
				return mcp.Message{}
			case <-time.After(5 * time.Millisecond):
				_ = out.Send(mcp.Notification("notifications/tools/list_changed",
					jsontext.Value(`{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`}}`)))
			}
		}
	case "tools/call":
		return s.call(ctx, m, params, out)
	}
	return mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s.", m.Method))
}

func text(id jsontext.Value, s string) mcp.Message {
	return mcp.Response(id, jsontext.Value(`{"resultType":"complete","content":[{"type":"text","text":`+
		string(mcp.Quote(s))+`}]}`))
}

func (s *fakeSession) call(ctx context.Context, m mcp.Message, params mcp.Object, out Stream) mcp.Message {
	args := string(params.Get("arguments"))
	switch params.Text("name") {
	case "echo", "headers":
		return text(m.ID, s.Agent+" "+args)
	case "pretty":
		return mcp.Response(m.ID, jsontext.Value("{\r\n \"content\": [\n ]\n}"))
	case "progress":
		meta, _ := params.Object("_meta")
		token := meta.Get("progressToken")
		for i := range 5 {
			err := out.Send(mcp.Notification("notifications/progress",
				jsontext.Value(fmt.Sprintf("{\n\"progressToken\":%s,\"progress\":%d}", token, i+1))))
			if err != nil {
				return text(m.ID, err.Error())
			}
		}
		return text(m.ID, "progressed")
	case "ask", "ask patiently", "ask briefly":
		switch params.Text("name") {
		case "ask patiently":
			ctx = context.Background()
		case "ask briefly":
			c, cancel := context.WithCancelCause(ctx)
			go func() {
				<-s.f.released
				cancel(fmt.Errorf("a person was faster"))
			}()
			ctx = c
		}
		resp, err := out.Ask(ctx, "elicitation/create",
			jsontext.Value(`{"message":"really?","requestedSchema":{"type":"object","properties":{}}}`))
		if err != nil {
			return text(m.ID, "not asked: "+err.Error())
		}
		r, _ := mcp.ReadObject(resp.Result)
		return text(m.ID, "answered: "+r.Text("action"))
	case "hold":
		s.f.holding <- s.Agent
		select {
		case <-ctx.Done():
			s.f.gaveUp <- context.Cause(ctx)
			return mcp.Message{}
		case <-s.f.released:
			return text(m.ID, "released")
		}
	case "flood":
		for {
			if err := out.Send(mcp.Notification("notifications/message", mcp.Quote(strings.Repeat("x", 64<<10)))); err != nil {
				break
			}
		}
		<-ctx.Done()
		s.f.gaveUp <- context.Cause(ctx)
		return mcp.Message{}
	case "push":
		s.Push(mcp.Notification("notifications/tools/list_changed", nil))
		s.Push(mcp.Notification("notifications/message", jsontext.Value(`{"level":"info","data":1}`)))
		return text(m.ID, "pushed")
	case "still":
		return text(m.ID, fmt.Sprint(s.StillValid()))
	case "later":
		go func() {
			defer func() { s.f.holding <- "later" }()
			<-s.f.released
			if err := out.Send(mcp.Notification("notifications/message", nil)); err != errAnswered {
				s.f.wrong("a stream was used after the answer: %v", err)
			}
		}()
		return text(m.ID, "later")
	case "panic":
		panic("as the test wants")
	case "nothing":
		return mcp.Message{}
	case "large":
		return text(m.ID, strings.Repeat("x", 1<<20))
	case "as large as a buffer":
		return text(m.ID, strings.Repeat("x", maxPooledBuffer))
	case "error":
		code := params.Get("arguments")
		o, _ := mcp.ReadObject(code)
		return mcp.Message{ID: m.ID, Err: jsontext.Value(`{"code":` + string(o.Get("code")) +
			`,"message":"as the test wants"}`)}
	}
	return mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool."))
}

// byToken knows the agents of the tests.
func byToken(r *http.Request) (Caller, error) {
	switch r.Header.Get("Authorization") {
	case "Bearer one":
		return Caller{Agent: "agent-1", StillValid: func() error { return nil }}, nil
	case "Bearer one-again":
		return Caller{Agent: "agent-1", StillValid: func() error { return fmt.Errorf("rotated") }}, nil
	case "Bearer two":
		return Caller{Agent: "agent-2"}, nil
	case "Bearer person":
		return Caller{}, ErrForbidden("This is a person's token; an agent's is needed.")
	}
	return Caller{}, fmt.Errorf("An agent's token is needed.")
}

// site is a handler behind a listener.
type site struct {
	*fake
	h    *HTTP
	srv  *httptest.Server
	logs *testkit.Buffer
}

func newSite(t testing.TB, with ...func(*HTTPOptions)) *site {
	t.Helper()
	return newSiteOn(t, httptest.NewUnstartedServer(nil), with...)
}

// newBubbleSite is a site in a synctest bubble: connections are in memory, and the server gives a request a minute.
func newBubbleSite(t testing.TB, with ...func(*HTTPOptions)) *site {
	t.Helper()
	l := &memoryListener{dialed: make(chan net.Conn), closed: make(chan struct{})}
	srv := &httptest.Server{Listener: l, Config: &http.Server{ReadTimeout: time.Minute, WriteTimeout: time.Minute}}
	s := newSiteOn(t, srv, with...)
	srv.Client().Transport.(*http.Transport).DialContext = l.dial
	return s
}

// memoryListener is a listener whose connections are pipes.
type memoryListener struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.dialed <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func newSiteOn(t testing.TB, srv *httptest.Server, with ...func(*HTTPOptions)) *site {
	t.Helper()
	f, l := newFake(), &testkit.Buffer{}
	o := HTTPOptions{Sessions: f, Authenticate: byToken, Guard: Guard{Loopback: true}, Logger: l.Logger()}
	for _, w := range with {
		w(&o)
	}
	s := &site{fake: f, h: NewHTTP(o), logs: l, srv: srv}
	srv.Config.Handler = s.h
	srv.Start()
	t.Cleanup(func() {
		s.h.Close()
		s.srv.Close()
		if tt, ok := t.(*testing.T); ok {
			f.check(tt, l)
		}
	})
	return s
}
