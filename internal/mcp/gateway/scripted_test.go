package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/testkit"
)

// said is a message as it came over the wire.
type said struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	raw    string
	header http.Header
}

// member returns the bytes of a member of the params.
func (m said) member(name string) string {
	var o map[string]json.RawMessage
	_ = json.Unmarshal(m.Params, &o)
	return string(o[name])
}

// scripted is an MCP server over HTTP that does as a test says, and keeps all that it was sent. It is
// written on bytes alone, so as not to share the gateway's reading of them.
type scripted struct {
	t      testing.TB
	modern bool
	srv    *httptest.Server

	mu      sync.Mutex
	caps    string
	lists   map[string][]string // elements of lists, by method
	page    int                 // how many elements a page has; 0: all
	on      map[string]func(*turn)
	got     []said
	deaf    bool            // it answers nothing but 503
	known   map[string]bool // its sessions
	changed chan struct{}
	streams map[chan string]bool
	n       int
}

// turn is one request that the server works on.
type turn struct {
	said
	s       *scripted
	w       http.ResponseWriter
	r       *http.Request
	started bool
}

// tool is an element of tools/list.
func tool(name string, more ...string) string {
	return fmt.Sprintf(`{"name":%q,"description":"does %[1]s","inputSchema":{"type":"object"}%s}`, name,
		strings.Join(append([]string{""}, more...), ","))
}

// newScripted starts a server with the tools.
func newScripted(t testing.TB, modern bool, tools ...string) *scripted {
	s := &scripted{t: t, modern: modern, caps: `{"tools":{"listChanged":true}}`, lists: map[string][]string{},
		on:      map[string]func(*turn){},
		changed: make(chan struct{}), streams: map[chan string]bool{}, known: map[string]bool{}}
	for _, name := range tools {
		s.lists["tools/list"] = append(s.lists["tools/list"], tool(name))
	}
	s.srv = httptest.NewServer(s)
	t.Cleanup(func() { s.srv.CloseClientConnections(); s.srv.Close() })
	return s
}

// server is the configuration of the server behind a gateway.
func (s *scripted) server(name, prefix string) gateway.ServerConfig {
	return gateway.ServerConfig{Config: upstream.Config{Name: name, URL: s.srv.URL}, Prefix: prefix}
}

func (s *scripted) set(f func()) { s.mu.Lock(); f(); s.mu.Unlock() }

// when has the server do f for a method.
func (s *scripted) when(method string, f func(*turn)) { s.set(func() { s.on[method] = f }) }

// calls returns what it was sent of a method.
func (s *scripted) calls(method string) []said {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.got), func(m said) bool { return m.Method != method })
}

// await waits until it was sent n messages of a method.
func (s *scripted) await(method string, n int) []said {
	s.t.Helper()
	over := time.After(testkit.Patience)
	for {
		s.mu.Lock()
		change := s.changed
		s.mu.Unlock()
		if got := s.calls(method); len(got) >= n {
			return got
		}
		select {
		case <-change:
		case <-over:
			s.t.Fatalf("the server was sent %d of %s, want %d", len(s.calls(method)), method, n)
		}
	}
}

// restart has the server forget its sessions, as a new process would.
func (s *scripted) restart() {
	s.set(func() { s.known = map[string]bool{} })
	s.srv.CloseClientConnections()
}

// push sends a notification on every stream that is open for them.
func (s *scripted) push(method, params string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams {
		c <- fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
	}
}

// listening waits until somebody has a stream open for what the server says by itself.
func (s *scripted) listening(n int) {
	s.t.Helper()
	testkit.Eventually(s.t, "somebody listens to the server", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.streams) >= n
	})
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		s.mu.Lock()
		known := s.known[id]
		s.mu.Unlock()
		if !known {
			http.Error(w, "no such session", http.StatusNotFound)
			return
		}
	}
	switch r.Method {
	case http.MethodGet:
		if s.modern {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		s.stream(w, r, "")
		return
	case http.MethodDelete:
		s.set(func() { delete(s.known, r.Header.Get("Mcp-Session-Id")) })
		w.WriteHeader(http.StatusNoContent)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	m := said{raw: string(raw), header: r.Header.Clone()}
	if err := json.Unmarshal(raw, &m); err != nil {
		s.t.Errorf("the server was sent %q: %v", raw, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.got = append(s.got, m)
	close(s.changed)
	s.changed = make(chan struct{})
	f := s.on[m.Method]
	s.n++
	n := s.n
	s.mu.Unlock()
	x := &turn{said: m, s: s, w: w, r: r}
	switch {
	case f != nil:
		f(x)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "server/discover" && s.modern:
		x.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + s.caps +
			`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"scripted","version":"1"}},"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "initialize" && !s.modern:
		id := fmt.Sprint("up-", n)
		s.set(func() { s.known[id] = true })
		w.Header().Set("Mcp-Session-Id", id)
		x.result(`{"protocolVersion":"2025-11-25","capabilities":` + s.caps +
			`,"serverInfo":{"name":"scripted","version":"1"}}`)
	case m.Method == "subscriptions/listen" && s.modern:
		w.Header().Set("Content-Type", "text/event-stream")
		s.stream(w, r, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, m.ID))
	case strings.HasSuffix(m.Method, "/list"):
		x.list()
	case m.Method == "tools/call":
		x.result(`{"content":[{"type":"text","text":"done"}]}`)
	case strings.HasPrefix(m.Method, "resources/"), strings.HasPrefix(m.Method, "logging/"), strings.HasPrefix(m.Method,
		"prompts/"), strings.HasPrefix(m.Method, "completion/"):
		x.result(`{}`)
	default:
		x.fail(-32601, "Method not found")
	}
}

func (s *scripted) stream(w http.ResponseWriter, r *http.Request, first string) {
	c := make(chan string, 64)
	flush := http.NewResponseController(w)
	if first != "" {
		fmt.Fprintf(w, "data: %s\n\n", first)
	}
	_ = flush.Flush()
	s.set(func() { s.streams[c] = true })
	defer s.set(func() { delete(s.streams, c) })
	for {
		select {
		case m := <-c:
			fmt.Fprintf(w, "data: %s\n\n", m)
			_ = flush.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// list answers a list, in pages.
func (x *turn) list() {
	x.s.mu.Lock()
	all, page := x.s.lists[x.Method], x.s.page
	x.s.mu.Unlock()
	from := 0
	if c := x.member("cursor"); c != "" {
		fmt.Sscanf(c, `"p%d"`, &from)
	}
	to, next := len(all), ""
	if page > 0 && from+page < to {
		to = from + page
		next = fmt.Sprintf(`,"nextCursor":"p%d"`, to)
	}
	member := strings.TrimSuffix(x.Method, "/list")
	if member == "resources/templates" {
		member = "resourceTemplates"
	}
	x.result(fmt.Sprintf(`{%q:[%s]%s}`, member, strings.Join(all[from:to], ","), next))
}

func (x *turn) write(m string) {
	if !x.started {
		x.started = true
		x.w.Header().Set("Content-Type", "text/event-stream")
	}
	fmt.Fprintf(x.w, "data: %s\n\n", m)
	_ = http.NewResponseController(x.w).Flush()
}

// notify sends a notification that belongs to the request.
func (x *turn) notify(method, params string) {
	x.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

func (x *turn) result(raw string) { x.finish(`"result":` + raw) }

func (x *turn) fail(code int, message string) {
	x.finish(fmt.Sprintf(`"error":{"code":%d,"message":%q}`, code, message))
}

func (x *turn) finish(what string) {
	m := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, x.ID, what)
	if x.started {
		x.write(m)
		return
	}
	x.w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(x.w, m)
}

// breakOff ends the connection without an answer.
func (x *turn) breakOff() {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.s.t.Error(err)
		return
	}
	c.Close()
}

// gone waits until whoever asked no longer waits.
func (x *turn) gone() { <-x.r.Context().Done() }

// wire is a client that sends raw messages, in either era.
type wire struct {
	t       testing.TB
	url     string
	modern  bool
	token   string
	caps    string
	session string
	http    *http.Client
	mu      sync.Mutex
	n       int
}

// client opens a client of the world's gateway.
func (w *world) client(modern bool) *wire { return w.clientAs(modern, agentToken, `{}`) }

func (w *world) clientAs(modern bool, token, caps string) *wire { //nolint:revive // the era, as eachEra gives it
	w.t.Helper()
	tr := &http.Transport{DisableCompression: true}
	c := &wire{t: w.t, url: w.url, modern: modern, token: token, caps: caps, http: &http.Client{Transport: tr,
		Timeout: 5 * testkit.Patience}}
	w.t.Cleanup(tr.CloseIdleConnections)
	if !modern {
		a := c.send("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+caps+
			`,"clientInfo":{"name":"wire","version":"1"}}`)
		if c.session = a.header.Get("Mcp-Session-Id"); c.session == "" {
			w.t.Fatalf("no session: %d %s", a.status, a.raw)
		}
		c.tell("notifications/initialized", `{}`)
	}
	return c
}

// answer is what a request was answered, and what came before it.
type answer struct {
	said
	status int
	notes  []said
	err    error
}

// text is the first text of a tool's result.
func (a answer) text() string { return a.texts()[0] }

func (a answer) texts() []string {
	var r struct{ Content []struct{ Text string } }
	_ = json.Unmarshal(a.Result, &r)
	texts := []string{}
	for _, c := range r.Content {
		texts = append(texts, c.Text)
	}
	if len(texts) == 0 {
		return []string{"no text: " + a.raw}
	}
	return texts
}

func (a answer) isError() bool {
	var r struct{ IsError bool }
	_ = json.Unmarshal(a.Result, &r)
	return r.IsError
}

// id is the approval's that an answer of the gate names.
func (a answer) id() string {
	var r struct {
		Meta map[string]any `json:"_meta"`
	}
	_ = json.Unmarshal(a.Result, &r)
	if a.Error != nil {
		_ = json.Unmarshal(a.Error.Data, &r.Meta)
	}
	id, _ := r.Meta["countersign/approval_id"].(string)
	return id
}

func (c *wire) message(method, params string) (id int, body string) {
	c.mu.Lock()
	c.n++
	id = c.n
	c.mu.Unlock()
	return id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, c.params(params))
}

// params completes params with what every modern request carries; a _meta in them must stand first.
func (c *wire) params(params string) string {
	if !c.modern {
		return params
	}
	own := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + c.caps
	if rest, ok := strings.CutPrefix(params, `{"_meta":{`); ok {
		return `{"_meta":{` + own + "," + rest
	}
	if params == "{}" {
		return `{"_meta":{` + own + `}}`
	}
	return `{"_meta":{` + own + `},` + params[1:]
}

func (c *wire) post(ctx context.Context, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.modern {
		var m said
		_ = json.Unmarshal([]byte(body), &m)
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", m.Method)
		for _, name := range []string{"name", "uri", "taskId"} {
			var v string
			if json.Unmarshal([]byte(m.member(name)), &v) == nil && v != "" {
				r.Header.Set("Mcp-Name", v)
				break
			}
		}
	}
	return c.http.Do(r)
}

// send sends a request and waits for its answer.
func (c *wire) send(method, params string) answer {
	c.t.Helper()
	a := c.sendCtx(context.Background(), method, params)
	if a.err != nil {
		c.t.Fatalf("%s: %v", method, a.err)
	}
	return a
}

func (c *wire) sendCtx(ctx context.Context, method, params string) answer {
	_, body := c.message(method, params)
	return c.raw(ctx, body, nil)
}

// raw sends bytes as they are; note is told of each notification.
func (c *wire) raw(ctx context.Context, body string, note func(said)) (a answer) {
	res, err := c.post(ctx, body)
	if err != nil {
		a.err = err
		return a
	}
	defer res.Body.Close()
	a.status, a.header = res.StatusCode, res.Header
	take := func(b []byte) {
		m := said{raw: string(b)}
		_ = json.Unmarshal(b, &m)
		if m.Method != "" {
			a.notes = append(a.notes, m)
			if note != nil {
				note(m)
			}
			return
		}
		m.header = a.header
		a.said = m
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		b, err := io.ReadAll(res.Body)
		a.err = err
		take(b)
		return a
	}
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			take(bytes.TrimSpace(data))
		}
		if err == io.EOF {
			return a
		}
		if err != nil {
			a.err = err
			return a
		}
	}
}

// start sends a request; its answer comes over the channel.
func (c *wire) start(ctx context.Context, method, params string) (id int, _ <-chan answer) {
	id, body := c.message(method, params)
	done := make(chan answer, 1)
	go func() { done <- c.raw(ctx, body, nil) }()
	return id, done
}

// tell sends a notification.
func (c *wire) tell(method, params string) {
	c.t.Helper()
	res, err := c.post(context.Background(), fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
	if err != nil {
		c.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		c.t.Fatalf("%s: %s", method, res.Status)
	}
}

// call calls a tool.
func (c *wire) call(name, args string) answer {
	c.t.Helper()
	return c.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
}

// hear opens the stream of what a session is told outside of its requests.
func (c *wire) hear() <-chan said {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", c.url, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", c.session)
	r.Header.Set("Authorization", "Bearer "+c.token)
	res, err := c.http.Do(r)
	if err != nil || res.StatusCode != 200 {
		c.t.Fatal(err, res)
	}
	heard := make(chan said, 256)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				m := said{raw: data}
				_ = json.Unmarshal([]byte(data), &m)
				heard <- m
			}
		}
	}()
	c.t.Cleanup(func() { cancel(); res.Body.Close(); testkit.Receive(c.t, "the end of the stream", done) })
	return heard
}

// nextSteps returns the next message of a method, passing over others.
func nextSteps(t testing.TB, heard <-chan said, method string) said {
	t.Helper()
	over := time.After(testkit.Patience)
	for {
		select {
		case m := <-heard:
			if m.Method == method {
				return m
			}
		case <-over:
			t.Fatalf("no %s came", method)
		}
	}
}

// finish waits for the answer of a request that was started.
func finish(t testing.TB, done <-chan answer) answer {
	t.Helper()
	a := testkit.Receive(t, "an answer", done)
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a
}

// eachEra runs a test with client and server of the legacy era, and then of the modern.
func eachEra(t *testing.T, test func(t *testing.T, modern bool)) {
	for _, modern := range []bool{false, true} {
		t.Run(map[bool]string{false: "legacy", true: "modern"}[modern], func(t *testing.T) { test(t, modern) })
	}
}

// clock is a clock that a test can move.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead).Round(0) // without the process's own count: what is added has passed
}

func (c *clock) advance(d time.Duration) { c.mu.Lock(); c.ahead += d; c.mu.Unlock() }

// processVar makes the test binary an MCP server over stdio: its value is the file that it writes what it
// was sent to, line by line.
const processVar = "COUNTERSIGN_SCRIPTED_PROCESS"

func init() {
	if path := os.Getenv(processVar); path != "" {
		runProcess(path)
		os.Exit(0)
	}
}

// process is the configuration of such a server, and what it was sent so far.
func process(t testing.TB, name, prefix string) (gateway.ServerConfig, func(method string) []said) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/sent"
	return gateway.ServerConfig{Config: upstream.Config{Name: name, Command: []string{exe}, Env: append(os.Environ(),
			processVar+"="+path)}, Prefix: prefix},
		func(method string) []said {
			b, _ := os.ReadFile(path)
			var all []said
			for line := range strings.Lines(string(b)) {
				m := said{raw: strings.TrimSpace(line)}
				if json.Unmarshal([]byte(line), &m) == nil && m.Method == method {
					all = append(all, m)
				}
			}
			return all
		}
}

// runProcess is a legacy server with a resource and the tools echo, say, die and hang.
func runProcess(path string) {
	sent, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		_, _ = sent.Write(line)
		var m said
		_ = json.Unmarshal(line, &m)
		say := func(what string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, what) }
		switch {
		case m.ID == nil:
		case m.Method == "initialize":
			say(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"process","version":"1"}}`)
		case m.Method == "tools/list":
			say(`"result":{"tools":[` + tool("echo") + "," + tool("say") + "," + tool("die") + "," + tool("hang") + `]}`)
		case m.Method == "resources/list":
			say(`"result":{"resources":[{"uri":"proc:///a","name":"a"}]}`)
		case m.Method == "resources/templates/list":
			say(`"result":{"resourceTemplates":[]}`)
		case strings.HasPrefix(m.Method, "resources/"), strings.HasPrefix(m.Method, "logging/"):
			say(`"result":{}`)
		case m.Method == "tools/call" && m.member("name") == `"say"`: // whatever the argument is
			var args struct{ Line json.RawMessage }
			_ = json.Unmarshal(m.Params, &struct{ Arguments any }{&args})
			fmt.Printf("%s\n", args.Line)
			say(`"result":{"content":[]}`)
		case m.Method == "tools/call" && m.member("name") == `"echo"`:
			text, _ := json.Marshal(m.member("arguments"))
			say(`"result":{"content":[{"type":"text","text":` + string(text) + `}]}`)
		case m.Method == "tools/call" && m.member("name") == `"die"`:
			os.Exit(7)
		case m.Method == "tools/call":
		default:
			say(`"error":{"code":-32601,"message":"no"}`)
		}
	}
}
