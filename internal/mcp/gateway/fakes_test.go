package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/testkit"
)

// pipeVar makes the test binary a server over stdio that is no more than a pipe to the address it holds:
// the server itself is in the test.
const pipeVar = "COUNTERSIGN_TEST_PIPE"

func init() {
	at := os.Getenv(pipeVar)
	if at == "" {
		return
	}
	c, err := net.Dial("tcp", at)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // what is on its way to the server is no second queue
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, c)
	os.Exit(0)
}

// serveStdio returns the configuration of a server over stdio; serve gets each process's two ends as one.
func serveStdio(t testing.TB, serve func(net.Conn)) upstream.Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); testkit.Wait(t, "the server's end", served.Wait) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return upstream.Config{Command: []string{exe}, Env: append(os.Environ(), pipeVar+"="+l.Addr().String())}
}

// fake is a server written from the documents. Its tools are what tools names; call answers them.
type fake struct {
	era   mcp.Era
	tools []string
	caps  string // its capabilities; "": tools
	call  func(*fakeCall) string

	mu        sync.Mutex
	calls     []mcp.Object // params of each tools/call
	others    []mcp.Message
	cancelled []string                      // requestIds of notifications/cancelled
	stopped   map[string]context.CancelFunc // of the calls in hand, by id
	asked     map[string]chan mcp.Message   // by the id of what was asked
	ears      map[chan mcp.Message]bool     // streams of what it sends by itself
	asks      int
	pipes     map[net.Conn]bool
}

// hangUp ends the connections over stdio.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.pipes {
		c.Close()
	}
}

// fakeCall is one tools/call.
type fakeCall struct {
	*fake
	ctx    context.Context // ends when it is cancelled
	name   string
	params mcp.Object
	meta   mcp.Object
	send   func(mcp.Message)
}

// ask asks the client, as a legacy server does, and returns its response.
func (c *fakeCall) ask(method, params string) mcp.Message {
	c.mu.Lock()
	c.asks++
	id := fmt.Sprintf(`"ask-%d"`, c.asks)
	ch := make(chan mcp.Message, 1)
	c.asked[id] = ch
	c.mu.Unlock()
	c.send(mcp.Request(jsontext.Value(id), method, jsontext.Value(params)))
	select {
	case m := <-ch:
		return m
	case <-c.ctx.Done():
		return mcp.Message{}
	}
}

// asked is what the client answered, as one string.
func answered(m mcp.Message) string {
	if m.Err != nil {
		return fmt.Sprintf("error %d", mcp.ReadError(m.Err).Code)
	}
	return string(m.Result)
}

func textResult(s string) string {
	return `{"content":[{"type":"text","text":` + string(mcp.Quote(s)) + `}]}`
}

// count is how many calls came.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// nth returns the params of a call.
func (f *fake) nth(i int) mcp.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i >= len(f.calls) {
		return nil
	}
	return f.calls[i]
}

// got returns how many messages of a method other than tools/call came.
func (f *fake) got(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.others {
		if m.Method == method {
			n++
		}
	}
	return n
}

// push sends a notification by itself, wherever somebody listens.
func (f *fake) push(m mcp.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ear := range f.ears {
		ear <- m
	}
}

func (f *fake) listeners() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ears)
}

func (f *fake) listen() (chan mcp.Message, func()) {
	ear := make(chan mcp.Message, 1000)
	f.mu.Lock()
	f.ears[ear] = true
	f.mu.Unlock()
	return ear, func() { f.mu.Lock(); delete(f.ears, ear); f.mu.Unlock() }
}

func newFake(era mcp.Era, call func(*fakeCall) string, tools ...string) *fake {
	return &fake{era: era, tools: tools, call: call, stopped: map[string]context.CancelFunc{},
		asked: map[string]chan mcp.Message{}, ears: map[chan mcp.Message]bool{}, pipes: map[net.Conn]bool{}}
}

// take answers one message; the zero Message is none.
func (f *fake) take(ctx context.Context, m mcp.Message, send func(mcp.Message)) mcp.Message {
	switch {
	case m.IsResponse():
		f.mu.Lock()
		ch := f.asked[string(m.ID)]
		delete(f.asked, string(m.ID))
		f.mu.Unlock()
		if ch != nil {
			ch <- m
		}
		return mcp.Message{}
	case m.Method == "notifications/cancelled":
		o, _ := mcp.ReadObject(m.Params)
		id := string(o.Get("requestId"))
		f.mu.Lock()
		f.cancelled = append(f.cancelled, id)
		stop := f.stopped[id]
		f.mu.Unlock()
		if stop != nil {
			stop()
		}
		return mcp.Message{}
	case m.Method != "tools/call":
		f.mu.Lock()
		f.others = append(f.others, m)
		f.mu.Unlock()
	}
	caps := f.caps
	if caps == "" {
		caps = `{"tools":{"listChanged":true}}`
	}
	more := ""
	if f.era == mcp.Modern {
		more = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	yes := func(format string, args ...any) mcp.Message {
		return mcp.Response(m.ID, jsontext.Value(fmt.Sprintf(format, args...)))
	}
	params, _ := mcp.ReadObject(m.Params)
	switch {
	case m.IsNotification():
		return mcp.Message{}
	case m.Method == "initialize" && f.era == mcp.Legacy:
		return yes(`{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"fake","version":"1"}}`, caps)
	case m.Method == "server/discover" && f.era == mcp.Modern:
		return yes(`{%s"supportedVersions":["2026-07-28"],"capabilities":%s}`, more, caps)
	case m.Method == "tools/list":
		var list []string
		for _, name := range f.tools {
			list = append(list, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		}
		return yes(`{%s"tools":[%s]}`, more, strings.Join(list, ","))
	case m.Method == "resources/list":
		return yes(`{%s"resources":[{"uri":"test://a","name":"a"},{"uri":"test://b","name":"b"}]}`, more)
	case m.Method == "resources/templates/list":
		return yes(`{%s"resourceTemplates":[]}`, more)
	case m.Method == "prompts/list":
		return yes(`{%s"prompts":[]}`, more)
	case m.Method == "resources/subscribe", m.Method == "resources/unsubscribe", m.Method == "ping":
		return yes(`{}`)
	case m.Method == "subscriptions/listen" && f.era == mcp.Modern:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f.mu.Lock()
		f.stopped[string(m.ID)] = cancel
		f.mu.Unlock()
		ear, over := f.listen()
		defer over()
		want, _ := params.Object("notifications")
		mine := func(n mcp.Message) mcp.Message {
			o, _ := mcp.ReadObject(or(n.Params, "{}"))
			n.Params = o.With("_meta", mcp.Object{{Name: mcp.MetaSubscription, Value: m.ID}}.Bytes()).Bytes()
			return n
		}
		send(mine(mcp.Notification("notifications/subscriptions/acknowledged",
			mcp.Object{{Name: "notifications", Value: want.Bytes()}}.Bytes())))
		for {
			select {
			case n := <-ear:
				if n.Method == "notifications/resources/updated" {
					o, _ := mcp.ReadObject(n.Params)
					if !bytes.Contains(want.Get("resourceSubscriptions"), o.Get("uri")) {
						continue
					}
				} else if want.Get("toolsListChanged") == nil {
					continue
				}
				send(mine(n))
			case <-ctx.Done():
				return mcp.Message{}
			}
		}
	case m.Method == "tools/call":
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f.mu.Lock()
		f.calls = append(f.calls, params)
		f.stopped[string(m.ID)] = cancel
		f.mu.Unlock()
		meta, _ := params.Object("_meta")
		result := f.call(&fakeCall{fake: f, ctx: ctx, name: params.Text("name"), params: params, meta: meta, send: send})
		f.mu.Lock()
		delete(f.stopped, string(m.ID))
		f.mu.Unlock()
		if result == "" {
			return mcp.Message{}
		}
		if code, ok := strings.CutPrefix(result, "error "); ok {
			return mcp.Message{ID: m.ID, Err: jsontext.Value(`{"code":` + code + `,"message":"no"}`)}
		}
		return mcp.Response(m.ID, jsontext.Value(result))
	}
	return mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found."))
}

func or(v jsontext.Value, otherwise string) jsontext.Value {
	if v == nil {
		return jsontext.Value(otherwise)
	}
	return v
}

// pipe serves the fake to one process.
func (f *fake) pipe(c net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.mu.Lock()
	f.pipes[c] = true
	f.mu.Unlock()
	defer func() { f.mu.Lock(); delete(f.pipes, c); f.mu.Unlock() }()
	var mu sync.Mutex
	var working sync.WaitGroup
	defer working.Wait() // real: a server ends with what it does
	defer cancel()
	send := func(m mcp.Message) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = c.Write(append(m.Bytes(), '\n'))
	}
	if f.era == mcp.Legacy {
		ear, over := f.listen()
		defer over()
		working.Go(func() {
			for {
				select {
				case m := <-ear:
					send(m)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, bad := mcp.Parse(line)
		if bad != nil {
			continue
		}
		if m.IsRequest() && (m.Method == "tools/call" || m.Method == "subscriptions/listen") {
			working.Go(func() {
				if a := f.take(ctx, m, send); a.ID != nil {
					send(a)
				}
			})
		} else if a := f.take(ctx, m, send); a.ID != nil {
			send(a)
		}
	}
}

// ServeHTTP serves the fake over streamable HTTP.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.era == mcp.Modern && r.Method != "POST" {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	event := func(m mcp.Message) {
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", m.Bytes())
		w.(http.Flusher).Flush()
	}
	switch r.Method {
	case "DELETE":
		w.WriteHeader(http.StatusNoContent)
		return
	case "GET":
		ear, over := f.listen()
		defer over()
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for {
			select {
			case m := <-ear:
				event(m)
			case <-r.Context().Done():
				return
			}
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, bad := mcp.Parse(body)
	if bad != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.Method == "tools/call" || m.Method == "subscriptions/listen" {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		var mu sync.Mutex
		send := func(m mcp.Message) { mu.Lock(); defer mu.Unlock(); event(m) }
		if a := f.take(r.Context(), m, send); a.ID != nil {
			send(a)
		}
		return
	}
	a := f.take(r.Context(), m, nil)
	if a.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == "initialize" {
		w.Header().Set(mcp.HeaderSession, rand.Text())
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.Bytes())
}

// over serves the fake and returns how a gateway reaches it.
func (f *fake) over(t testing.TB, transport string) gateway.ServerConfig {
	t.Helper()
	var c upstream.Config
	if transport == "stdio" {
		c = serveStdio(t, f.pipe)
	} else {
		srv := httptest.NewServer(f)
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		c.URL = srv.URL
	}
	c.Name = "up"
	return gateway.ServerConfig{Config: c}
}

// peer is a client over HTTP that sends raw messages.
type peer struct {
	t       testing.TB
	era     mcp.Era
	url     string
	token   string
	caps    string // its capabilities
	http    *http.Client
	session string
	answer  func(m mcp.Message) string // to what it is asked: a result, "error …", or "" for none
	heard   func(m mcp.Message)        // a notification on the stream of a request

	mu  sync.Mutex
	ids int
}

// join connects a raw client.
func join(t testing.TB, w *world, era mcp.Era, caps string, with ...func(*peer)) *peer {
	t.Helper()
	tr := &http.Transport{}
	c := &peer{t: t, era: era, url: w.url, token: agentToken, caps: caps, http: &http.Client{Transport: tr,
		Timeout: 2 * testkit.Patience}}
	for _, f := range with {
		f(c)
	}
	t.Cleanup(tr.CloseIdleConnections)
	if era == mcp.Legacy {
		m := c.do(t.Context(), "initialize", `{"protocolVersion":"2025-11-25","capabilities":`+caps+
			`,"clientInfo":{"name":"t","version":"1"}}`)
		if m.Err != nil {
			t.Fatalf("initialize: %s", m.Err)
		}
		c.send(t.Context(), mcp.Notification("notifications/initialized", nil))
	}
	return c
}

func (c *peer) newID() jsontext.Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids++
	return mcp.Number(int64(c.ids))
}

// header is of one POST.
func (c *peer) header(m mcp.Message) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Authorization": {"Bearer " + c.token}}
	if c.era == mcp.Modern {
		h.Set(mcp.HeaderVersion, mcp.VersionModern)
		h.Set(mcp.HeaderMethod, m.Method)
		if name := mcp.NameOf(m.Method, m.Params); name != "" {
			h.Set(mcp.HeaderName, name)
		}
	} else if c.session != "" {
		h.Set(mcp.HeaderSession, c.session)
	}
	return h
}

func (c *peer) post(ctx context.Context, m mcp.Message) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", c.url, bytes.NewReader(m.Bytes()))
	if err != nil {
		return nil, err
	}
	r.Header = c.header(m)
	return c.http.Do(r)
}

// send posts what has no answer.
func (c *peer) send(ctx context.Context, m mcp.Message) {
	res, err := c.post(ctx, m)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

// meta adds what the era wants in params.
func (c *peer) meta(params string) jsontext.Value {
	o, err := mcp.ReadObject([]byte(params))
	if err != nil {
		c.t.Errorf("params %s: %v", params, err)
	}
	if c.era == mcp.Modern {
		meta, _ := o.Object("_meta")
		meta = meta.With(mcp.MetaVersion, mcp.Quote(mcp.VersionModern)).With(mcp.MetaCapabilities, jsontext.Value(c.caps))
		o = o.With("_meta", meta.Bytes())
	}
	return o.Bytes()
}

// do sends a request and returns its answer; one that broke off is the zero Message.
func (c *peer) do(ctx context.Context, method, params string) mcp.Message {
	m, err := c.try(ctx, c.newID(), method, params)
	if err != nil && ctx.Err() == nil {
		c.t.Errorf("%s: %v", method, err)
	}
	return m
}

func (c *peer) try(ctx context.Context, id jsontext.Value, method, params string) (mcp.Message, error) {
	res, err := c.post(ctx, mcp.Request(id, method, c.meta(params)))
	if err != nil {
		return mcp.Message{}, err
	}
	defer res.Body.Close()
	if s := res.Header.Get(mcp.HeaderSession); s != "" {
		c.session = s
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return mcp.Message{}, err
		}
		m, bad := mcp.Parse(b)
		if bad != nil {
			return m, fmt.Errorf("%s: %s: %w", res.Status, b, bad)
		}
		return m, nil
	}
	in := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return mcp.Message{}, err
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		m, bad := mcp.Parse([]byte(data))
		if bad != nil {
			return m, bad
		}
		switch {
		case m.IsResponse():
			return m, nil
		case m.IsRequest():
			if c.answer == nil {
				c.t.Errorf("the client was asked %s", m.Method)
				continue
			}
			go func() {
				a := mcp.Message{ID: m.ID}
				switch s := c.answer(m); {
				case s == "":
					return
				case strings.HasPrefix(s, "error "):
					a.Err = jsontext.Value(`{"code":` + s[6:] + `,"message":"no"}`)
				default:
					a.Result = jsontext.Value(s)
				}
				c.send(ctx, a)
			}()
		case c.heard != nil:
			c.heard(m)
		}
	}
}

// callTool calls a tool and returns the answer.
func (c *peer) callTool(name, args string, more ...string) mcp.Message {
	return c.do(c.t.Context(), "tools/call", callParams(name, args, more...))
}

func callParams(name, args string, more ...string) string {
	return `{"name":"` + name + `","arguments":` + strings.Join(append([]string{args}, more...), ",") + `}`
}

// say is what an answer says: the text of a tool's result, marked where it is an error, or the error.
func say(m mcp.Message) string {
	if m.Err != nil {
		e := mcp.ReadError(m.Err)
		return fmt.Sprintf("error %d: %s", e.Code, e.Message)
	}
	o, err := mcp.ReadObject(m.Result)
	if err != nil {
		return "no answer"
	}
	if kind := o.Text("resultType"); kind != "" && kind != mcp.ResultComplete {
		return kind + " " + string(m.Result)
	}
	return sayResult(o)
}

func sayResult(o mcp.Object) string {
	var texts []string
	blocks, _ := mcp.ReadArray(o.Get("content"))
	for _, b := range blocks {
		block, _ := mcp.ReadObject(b)
		texts = append(texts, block.Text("text"))
	}
	s := strings.Join(texts, "\n")
	if string(o.Get("isError")) == "true" {
		s = "failed: " + s
	}
	return s
}

// member digs into JSON.
func member(v jsontext.Value, path ...string) jsontext.Value {
	for _, name := range path {
		o, err := mcp.ReadObject(v)
		if err != nil {
			return nil
		}
		v = o.Get(name)
	}
	return v
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func contains(t testing.TB, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: got %s, want it to contain %s", what, got, want)
	}
}
