package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/auth"
	"countersign/internal/auth/signin"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin is where the clocks of these tests start.
var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// rules is a policy made of a function.
type rules struct {
	verdict func(approval.Call) approval.Verdict
	terms   approval.Terms
}

func (r rules) Evaluate(_ context.Context, c approval.Call) approval.Verdict { return r.verdict(c) }
func (rules) Digest() string                                                 { return "" }
func (rules) Source() string                                                 { return "" }
func (rules) RuleDigests() map[string]string                                 { return ruleDigests }
func (r rules) Terms() approval.Terms                                        { return r.terms }

var ruleDigests = map[string]string{"asks": "asks-1"}

var terms = approval.Terms{UseWithin: 15 * time.Minute, RememberDenial: 10 * time.Minute}

// byName decides by the tool's name.
func byName(c approval.Call) approval.Verdict {
	v := approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh, Rule: "asks", RuleDigest: "asks-1",
		ReasonCode: "approval_required", Message: "A person must confirm this.", Timeout: time.Hour}
	switch c.Tool {
	case "read_file":
		return approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow, Rule: "reading", ReasonCode: "allowed"}
	case "drop_table":
		return approval.Verdict{Action: approval.Deny, Risk: approval.RiskCritical, Rule: "never", ReasonCode: "forbidden",
			Message: "Nobody drops tables."}
	case "deploy":
		v.Risk, v.RequireReason = approval.RiskCritical, true
	case "wire":
		v.Need = &approval.Need{Stages: []approval.Stage{{Group: "finance", Count: 2}, {Approvers: []string{"mei"},
			Count: 1}}}
	case "pay": // whose approvals may be given for longer
		v.Risk, v.RuleDigest, v.Grants = approval.RiskMedium, "pay-1", &approval.GrantTerms{}
	case "tip":
		v.Risk, v.RuleDigest = approval.RiskMedium, "tip-1"
		v.Grants = &approval.GrantTerms{Vary: map[string]approval.Vary{"cents": {AtMost: "500", Total: "1000"},
			"memo": {Any: true}}}
	case "close_books":
		v.Need = &approval.Need{Confirm: true}
	case "wipe":
		v.Need = &approval.Need{StepUp: true}
	}
	return v
}

const (
	botToken   = "token-of-bot-0123456789"
	otherToken = "token-of-other-0123456789"
	hanaToken  = "token-of-hana-0123456789"  // approver and admin
	kenToken   = "token-of-ken-0123456789"   // approver
	rootToken  = "token-of-root-0123456789"  // admin
	guestToken = "token-of-guest-0123456789" // neither
	meiToken   = "token-of-mei-0123456789"   // approver
)

var (
	agentsConfigured = []auth.AgentIdentity{{Name: "bot", Token: botToken}, {Name: "other", Token: otherToken}}
	peopleConfigured = []auth.Person{
		{Name: "hana", Approver: true, Admin: true, Token: hanaToken, Groups: []string{"finance"}},
		{Name: "ken", Approver: true, Token: kenToken, Groups: []string{"finance"}},
		{Name: "root", Admin: true, Token: rootToken}, {Name: "guest", Token: guestToken}, {Name: "mei", Approver: true,
			Token: meiToken},
	}
)

// whoIsWho answers the gate from the directory that callers are found in.
type whoIsWho struct{ *world }

func (w whoIsWho) HasAgent(name string) bool {
	anonymous := auth.Anonymous{}
	if w.rest.callers.Anonymous != nil {
		anonymous = w.rest.callers.Anonymous()
	}
	return w.dir.HasAgent(name) || name == anonymous.TCP || name == anonymous.Socket
}

func (w whoIsWho) Person(name string) (approval.Actor, bool) { return w.dir.ByName(name) }
func (w whoIsWho) People() []approval.Actor                  { return w.dir.Actors() }
func (w whoIsWho) Notified() []string                        { return nil }
func (w whoIsWho) Owner(agent string) string                 { return w.dir.Owner(agent) }
func (w whoIsWho) Asks(string) approval.Asks                 { return approval.Asks{} }
func (w whoIsWho) AtKeyboard(string) (approval.Actor, bool)  { return approval.Actor{}, false }

// world is a server over a real store.
type world struct {
	signIns *signin.Service
	t       testing.TB
	clock   *testkit.Clock
	store   *failingStore
	gate    *approval.Gate
	outbox  *outbox.Outbox
	dir     *auth.Directory
	rest    *Server
	srv     *httptest.Server
	stop    context.CancelFunc // the server is about to stop
	log     *testkit.Buffer
	active  atomic.Int64 // requests that are being answered
}

// failingStore is a store that can be told to fail.
type failingStore struct {
	approval.Store
	err  atomic.Pointer[error]
	slow atomic.Bool // nothing starts before the caller's patience ends
	view atomic.Pointer[func(context.Context) error]
}

func (s *failingStore) fails(ctx context.Context) error {
	if s.slow.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if e := s.err.Load(); e != nil {
		return *e
	}
	return nil
}

func (s *failingStore) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	if err := s.fails(ctx); err != nil {
		return err
	}
	return s.Store.Update(ctx, about, fn)
}

func (s *failingStore) View(ctx context.Context, fn func(approval.Tx) error) error {
	if err := s.fails(ctx); err != nil {
		return err
	}
	if before := s.view.Load(); before != nil {
		if err := (*before)(ctx); err != nil {
			return err
		}
	}
	return s.Store.View(ctx, fn)
}

// pagesAt makes links to pages.
type pagesAt struct{ *signin.Service }

func (p pagesAt) LinkFor(ctx context.Context, person string, via approval.Via, shown string) (string, signin.Link,
	error) {
	token, l, err := p.NewLink(ctx, person, via, shown)
	return "https://gate.example.com/signin/link?t=" + token, l, err
}

func newWorld(t testing.TB, change ...func(*Server)) *world {
	t.Helper()
	w := &world{t: t, clock: testkit.NewClock(begin), log: &testkit.Buffer{}}
	broker := approval.NewBroker()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), Now: w.clock.Now,
		OnCommit: broker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	scoped := storetest.ScopedIn(t, db)
	w.store = &failingStore{Store: scoped}
	logger := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.outbox = outbox.New(outbox.Options{Store: w.store, Audit: approval.NewAuditLog(redact.New()),
		Routing: outboxtest.To("line", "U1"), Logger: logger})
	w.dir = auth.NewDirectory(agentsConfigured, peopleConfigured)
	w.gate = approval.NewGate(approval.Options{
		Store: w.store, Broker: broker, Directory: whoIsWho{w}, Policy: rules{byName, terms}, Now: w.clock.Now,
		Logger: logger, Masker: redact.New(), Notifier: w.outbox,
	})
	var stopping context.Context
	stopping, w.stop = context.WithCancel(context.Background())
	w.signIns = signin.New(signin.Options{Store: w.store, Rows: scoped.SignIns, Audit: approval.NewAuditLog(redact.New()),
		Directory: whoIsWho{w}, Logger: logger})
	w.rest = New(Options{Gate: w.gate, Directory: w.dir, Notifications: w.outbox, History: w.store, Logger: logger,
		Version: "1.2.3", Stopping: stopping, SignIn: pagesAt{w.signIns}})
	for _, c := range change {
		c(w.rest)
	}
	w.srv = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.active.Add(1)
		defer w.active.Add(-1)
		w.rest.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		w.stop()
		w.srv.Close()
		db.Close()
	})
	return w
}

// reply is an answer, read whole.
type reply struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   []byte
}

// doc is the OpenAPI document that every answer of these tests is held against.
var doc = sync.OnceValue(func() *document {
	return readDocument(bare().document())
})

// bare is a server without a store.
func bare() *Server {
	return New(Options{Gate: approval.NewGate(approval.Options{Policy: rules{}}), Directory: new(auth.Directory)})
}

// do sends one request. header holds names and values by turns.
func (w *world) do(token, method, path, body string, header ...string) reply {
	w.t.Helper()
	return w.send(w.t.Context(), token, method, path, body, header...)
}

func (w *world) send(ctx context.Context, token, method, path, body string, header ...string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.srv.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return reply{t: w.t, what: "given up"}
		}
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	r := reply{t: w.t, what: method + " " + path, status: resp.StatusCode, header: resp.Header, body: b}
	if id := resp.Header.Get("X-Correlation-Id"); id == "" {
		w.t.Errorf("%s: no X-Correlation-Id", r.what)
	}
	doc().check(w.t, method, strings.SplitN(path, "?", 2)[0], r)
	return r
}

// is fails the test unless the answer has the status and, for a problem, the code.
func (r reply) is(status int, code ...approval.Code) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: got status %d, want %d: %s", r.what, r.status, status, r.body)
	}
	if len(code) > 0 {
		if got := r.str("code"); got != string(code[0]) {
			r.t.Fatalf("%s: got code %q, want %q: %s", r.what, got, code[0], r.body)
		}
		if ct := r.header.Get("Content-Type"); ct != "application/problem+json" {
			r.t.Errorf("%s: a problem's Content-Type is %q", r.what, ct)
		}
	}
	return r
}

func (r reply) object() map[string]any {
	r.t.Helper()
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		r.t.Fatalf("%s: %v: %s", r.what, err, r.body)
	}
	return m
}

// at returns the value at a path of names, nil if there is none.
func (r reply) at(path ...string) any {
	r.t.Helper()
	var v any = r.object()
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func (r reply) str(path ...string) string {
	r.t.Helper()
	s, _ := r.at(path...).(string)
	return s
}

// list returns the objects of a list.
func (r reply) list(name string) []map[string]any {
	r.t.Helper()
	vs, ok := r.at(name).([]any)
	if !ok {
		r.t.Fatalf("%s: no list %s: %s", r.what, name, r.body)
	}
	var ms []map[string]any
	for _, v := range vs {
		ms = append(ms, v.(map[string]any))
	}
	return ms
}

const transfer = `{"tool":"transfer","args":{"cents":2000,"to":"abc"},"session_id":"s1"}`

// ask has bot make a request and returns its id.
func (w *world) ask(call string) string {
	w.t.Helper()
	r := w.do(botToken, "POST", "/v1/calls", call).is(202)
	return r.str("approval_id")
}

func (w *world) decide(token, id, decision, reason string) reply {
	w.t.Helper()
	b, _ := json.Marshal(map[string]string{"decision": decision, "reason": reason})
	return w.do(token, "POST", "/v1/approvals/"+id+"/decide", string(b))
}

// asked returns the n-th of equal requests that differ in their args.
func asked(n int) string {
	return `{"tool":"transfer","args":{"cents":` + string(json.Number(itoa(n))) + `}}`
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// eventually waits for something that happens by itself.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	testkit.Eventually(w.t, what, ok)
}

// idle waits until no request is being answered.
func (w *world) idle() {
	w.t.Helper()
	w.eventually("the requests end", func() bool { return w.active.Load() == 0 })
}

// fail makes the first notification of a request fail for good, and returns its id.
func (w *world) failNotification(requestID string) string {
	w.t.Helper()
	ctx, out := w.t.Context(), w.outbox
	ds, _, err := out.Ready(ctx, nil, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range ds {
		if d.ApprovalID != requestID {
			continue
		}
		ns, err := outboxtest.Begin(ctx, out, outbox.Attempt{Notification: d, Body: []byte("{}"), Lease: time.Minute})
		if err != nil || len(ns) != 1 {
			w.t.Fatalf("Begin: %v, %v", ns, err)
		}
		if err := out.NotSent(ctx, ns[0], outbox.Failure{Final: true, Reason: "bad_recipient", Detail: "no such user",
			HTTPStatus: 400}); err != nil {
			w.t.Fatal(err)
		}
		return ns[0].ID
	}
	w.t.Fatalf("no notification of %s is ready", requestID)
	return ""
}

var ulidRE = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

// newSlowServer serves w with time-outs that are shorter than a wait.
func newSlowServer(w *world) *httptest.Server {
	s := httptest.NewUnstartedServer(w.rest)
	s.Config.ReadTimeout, s.Config.WriteTimeout = time.Second, time.Second
	s.Start()
	return s
}
