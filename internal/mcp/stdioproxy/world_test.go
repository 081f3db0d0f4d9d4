package stdioproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/client"
	"countersign/internal/auth"
	"countersign/internal/lists"
	"countersign/internal/policy"
	"countersign/internal/rest"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

const (
	agentToken  = "test-agent-token-0123456789"
	personToken = "test-person-token-0123456789"
)

var hana = approval.Actor{Kind: approval.Human, Name: "hana", Approver: true, Admin: true}

const allowAll = `{policy: {rules: [{tools: ["*"], risk: low, action: allow}]}}`

// quarantines has people asked about everything.
const quarantines = `{policy: {rules: [{tools: ["*"], risk: medium, action: quarantine}]}}`

func compile(t testing.TB, rules string) *policy.Policy {
	t.Helper()
	p, problems := policy.Compile(policy.Parse([]byte(rules)), policy.Options{})
	if policy.HasErrors(problems) {
		t.Fatal(problems)
	}
	return p
}

// world is a gate with its API, which a test may take away and give back.
type world struct {
	t    testing.TB
	gate *approval.Gate
	dir  *auth.Directory
	url  string
	// breakOff ends all connections to the API.
	breakOff func()
	// before, if set, answers a request in the API's place when it returns true.
	before   atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	asked    atomic.Int64 // requests to the API
	inflight atomic.Int64 // of these, those without an answer yet
	ahead    atomic.Int64 // on the clock of the store and the gate, in ms
}

func (w *world) now() time.Time {
	// without the process's own count: what is added has passed
	return time.Now().Add(time.Duration(w.ahead.Load()) * time.Millisecond).Round(0)
}

func newWorld(t testing.TB, rules string) *world {
	t.Helper()
	w := &world{t: t}
	broker := approval.NewBroker()
	db, err := sqlite.Open(context.Background(), sqlite.Options{Path: schematest.NewFile(t), Now: w.now,
		OnCommit: func(c approval.Commit) { broker.Publish(c) }})
	if err != nil {
		t.Fatal(err)
	}
	w.gate = approval.NewGate(approval.Options{Store: storetest.ScopedIn(t, db), Broker: broker, Policy: compile(t, rules),
		Masker: redact.New(), Now: w.now})
	w.dir = auth.NewDirectory([]auth.AgentIdentity{{Name: "bot", Token: agentToken}},
		[]auth.Person{{Name: "hana", Approver: true, Admin: true, Token: personToken}})
	stopping, stop := context.WithCancel(context.Background())
	api := rest.New(rest.Options{Gate: w.gate, Directory: w.dir, Stopping: stopping})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		w.inflight.Add(1)
		defer w.inflight.Add(-1)
		if f := w.before.Load(); f != nil && (*f)(rw, r) {
			return
		}
		api.ServeHTTP(rw, r)
	}))
	w.url, w.breakOff = srv.URL, srv.CloseClientConnections
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { w.gate.Run(ctx); close(ran) }()
	t.Cleanup(func() {
		stop()
		srv.CloseClientConnections()
		srv.Close()
		cancel()
		testkit.Receive(t, "the end of Run", ran)
		db.Close()
	})
	return w
}

// interfere has f see requests to the API first; nil: nobody.
func (w *world) interfere(f func(http.ResponseWriter, *http.Request) bool) {
	if f == nil {
		w.before.Store(nil)
		return
	}
	w.before.Store(&f)
}

// gone breaks off every request, as a gate does that was killed.
func gone(w http.ResponseWriter, _ *http.Request) bool {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		c.Close()
	}
	return true
}

func (w *world) client(token string) *client.Client {
	w.t.Helper()
	c, err := client.New(w.url, token)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) remote() *RemoteGate {
	g := &RemoteGate{Client: w.client(agentToken)}
	w.t.Cleanup(g.Finish)
	return g
}

// pending waits until n requests are pending and returns them, oldest first.
func (w *world) pending(n int) []approval.Request {
	w.t.Helper()
	var rs []approval.Request
	testkit.Eventually(w.t, fmt.Sprintf("%d pending requests", n), func() bool {
		var err error
		if rs, err = lists.ListRequests(context.Background(), w.gate,
			approval.RequestQuery{Status: approval.Pending}); err != nil {
			w.t.Fatal(err)
		}
		return len(rs) == n
	})
	slices.Reverse(rs)
	return rs
}

func (w *world) decide(id string, approve bool, reason string) {
	w.t.Helper()
	if _, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: id, Approve: approve, By: hana,
		Via: approval.ViaCLI, Reason: reason}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) request(id string) approval.Request {
	w.t.Helper()
	r, err := w.gate.Request(context.Background(), hana, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// letThrough has a call asked for, approved and let through, and returns its request.
func (w *world) letThrough(g *RemoteGate, args string) string {
	w.t.Helper()
	c := call(w.t, "write", args)
	first, err := g.Check(context.Background(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.decide(first.Request.ID, true, "")
	if o, err := g.Check(context.Background(), c); err != nil || o.Kind != approval.AnswerApproved {
		w.t.Fatalf("got %+v, %v", o, err)
	}
	return first.Request.ID
}

func (w *world) policy(rules string) {
	w.t.Helper()
	if err := w.gate.SetPolicy(context.Background(), compile(w.t, rules), nil); err != nil {
		w.t.Fatal(err)
	}
}

// peer is a client that speaks raw lines to a wrapper, or to a bare server.
type peer struct {
	t      testing.TB
	in     io.WriteCloser
	modern bool
	caps   string
	// answer is the result that a server's request gets; "": none comes.
	answer func(method string) string

	mu      sync.Mutex
	last    int
	waiting map[string]chan line
	notes   []string // methods of notifications
	asked   []string // methods of requests
	over    chan struct{}
}

type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// text is what a tool answered, or an error, in short.
func (l line) text() string {
	if l.Error != nil {
		return fmt.Sprintf("error %d: %s", l.Error.Code, l.Error.Message)
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	_ = json.Unmarshal(l.Result, &r)
	var texts []string
	for _, c := range r.Content {
		texts = append(texts, c.Text)
	}
	if r.IsError {
		return "failed: " + strings.Join(texts, " ")
	}
	return strings.Join(texts, " ")
}

func newPeer(t testing.TB, in io.WriteCloser, out io.Reader) *peer {
	p := &peer{t: t, in: in, caps: "{}", waiting: map[string]chan line{}, over: make(chan struct{})}
	go func() {
		defer close(p.over)
		r := bufio.NewReader(out)
		for {
			b, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var l line
			if err := json.Unmarshal(b, &l); err != nil {
				t.Errorf("the client was sent what is no message: %q", b)
				continue
			}
			p.mu.Lock()
			switch {
			case l.Method == "":
				if ch := p.waiting[string(l.ID)]; ch != nil {
					ch <- l
				}
				delete(p.waiting, string(l.ID))
			case l.ID == nil:
				p.notes = append(p.notes, l.Method)
			default:
				p.asked = append(p.asked, l.Method)
				if p.answer != nil {
					if a := p.answer(l.Method); a != "" {
						go p.write(`{"jsonrpc":"2.0","id":` + string(l.ID) + `,"result":` + a + `}`)
					}
				}
			}
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *peer) write(s string) { _, _ = io.WriteString(p.in, s+"\n") }

// start sends a request; the channel gets its answer.
func (p *peer) start(method, params string) <-chan line {
	p.mu.Lock()
	p.last++
	id := strconv.Itoa(p.last)
	ch := make(chan line, 1)
	p.waiting[id] = ch
	p.mu.Unlock()
	if p.modern {
		if params = strings.TrimSuffix(params, "}"); params != "{" {
			params += ","
		}
		params += `"_meta":{"progressToken":"t` + id +
			`","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + p.caps +
			`}}`
	}
	p.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return ch
}

func (p *peer) wait(ch <-chan line) line {
	p.t.Helper()
	select {
	case l := <-ch:
		return l
	case <-p.over:
		select {
		case l := <-ch:
			return l
		default:
		}
		p.t.Fatal("the connection ended without an answer")
	case <-time.After(testkit.Patience):
		p.t.Fatalf("no answer within %s", testkit.Patience)
	}
	return line{}
}

func (p *peer) do(method, params string) line {
	p.t.Helper()
	return p.wait(p.start(method, params))
}

// hello does what a client begins with.
func (p *peer) hello() line {
	p.t.Helper()
	if p.modern {
		return p.do("server/discover", "{}")
	}
	l := p.do("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+p.caps+
		`,"clientInfo":{"name":"peer","version":"1"}}`)
	p.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return l
}

func (p *peer) call(tool, args string) <-chan line {
	return p.start("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
}

func (p *peer) called(tool, args string) string {
	p.t.Helper()
	return p.wait(p.call(tool, args)).text()
}

// saw counts the notifications, or requests, of a method.
func (p *peer) saw(method string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range append(slices.Clone(p.notes), p.asked...) {
		if m == method {
			n++
		}
	}
	return n
}

// wrapped is a wrapper in this process around a server in another.
type wrapped struct {
	*peer
	log   string // of the server
	stop  context.CancelFunc
	ended chan error
	said  *lines // on stderr, and the wrapper's log
}

type lines struct {
	mu sync.Mutex
	b  strings.Builder
	n  int
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if l.b.Len() < 1<<20 {
		l.b.Write(p)
	}
	return len(p), nil
}

func (l *lines) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// command is that of a server with habits, and the log that it writes.
func command(t testing.TB, habits ...string) (command []string, log string) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(t.TempDir(), "server.log")
	return append([]string{exe, "mcp-server", log}, habits...), log
}

func (w *world) wrap(habits ...string) *wrapped {
	w.t.Helper()
	command, log := command(w.t, habits...)
	return wrapWith(w.t, log, Options{Gate: w.remote(), Command: command})
}

func wrapWith(t testing.TB, log string, o Options) *wrapped {
	t.Helper()
	in, toIt := io.Pipe()
	fromIt, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	x := &wrapped{peer: newPeer(t, toIt, fromIt), log: log, stop: stop, ended: make(chan error, 1), said: &lines{}}
	o.In, o.Out, o.Stderr = in, out, func(s string) { fmt.Fprintln(x.said, s) }
	if o.Name == "" {
		o.Name = "fake"
	}
	if o.Dir == "" {
		o.Dir = "/home/ken/project"
	}
	if o.Hold == 0 {
		o.Hold = 30 * time.Second
	}
	o.Logger = slog.New(slog.NewTextHandler(x.said, nil))
	go func() {
		err := Run(ctx, o)
		in.Close()
		out.Close()
		x.ended <- err
		close(x.ended)
	}()
	t.Cleanup(func() {
		x.in.Close()
		stop()
		testkit.Receive(t, "the wrapper's end", x.ended)
		testkit.Receive(t, "the end of what it writes", x.over)
		if t.Failed() {
			t.Logf("the wrapper said:\n%s", x.said)
		}
	})
	return x
}

// events are the lines of the server's log that begin with a word.
func (x *wrapped) events(word string) (found []string) {
	b, _ := os.ReadFile(x.log)
	for l := range strings.Lines(string(b)) {
		if event, ok := strings.CutPrefix(strings.TrimSpace(l), word); ok {
			found = append(found, strings.TrimSpace(event))
		}
	}
	return found
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

func contains(t testing.TB, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s:\ngot  %s\nwant it to contain %q", what, got, part)
		}
	}
}
