package web

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/proof"
	"countersign/approval/redact"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/auth"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/policy"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// begin is where the clocks of these tests start.
var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// rulesOfTests is the policy of these tests; a test may give another.
const rulesOfTests = `
policy:
  rules:
    - {name: reading, tools: [read_file], action: allow}
    - {name: never, tools: [drop_table], action: deny, message: "Nobody drops tables."}
    - {name: deploys, tools: [deploy], risk: critical, action: quarantine, require_reason: true}
    - {name: wires, tools: [wire], risk: high, action: quarantine, approvals: [{group: finance, count: 2}]}
    - {name: pays, tools: [pay], risk: medium, action: quarantine, allow_skip: true}
    - {name: vault, tools: [open_vault], risk: high, action: quarantine, step_up: passkey}
    - {name: books, tools: [close_books], risk: high, action: quarantine, confirm: true}
`

var (
	agentsOfTests = []auth.AgentIdentity{{Name: "bot", Token: "token-of-bot-0123456789"},
		{Name: "other", Token: "token-of-other-0123456789"}}
	peopleOfTests = []auth.Person{
		{Name: "hana", Approver: true, Admin: true, Groups: []string{"finance"}, Token: "token-of-hana-0123456789"},
		{Name: "ken", Approver: true, Groups: []string{"finance"}}, {Name: "mei", Approver: true, Locale: "zh-TW"},
		{Name: "yuki", Approver: true, Locale: "ja", Zone: time.FixedZone("JST", 9*3600)}, {Name: "som", Approver: true,
			Locale: "th"},
		{Name: "root", Admin: true}, {Name: "guest"},
	}
)

// world is the pages before a gate and a real store.
type world struct {
	t       testing.TB
	ctx     context.Context
	clock   *testkit.Clock
	store   *sqlite.DB
	gate    *approval.Gate
	outbox  *outbox.Outbox
	dir     *auth.Directory
	pages   *Server
	srv     *httptest.Server
	log     *testkit.Buffer
	asked   string // the newest request's id
	signIns *signin.Service
	prover  *proof.Prover
}

type whoIsWho struct{ *auth.Directory }

func (w whoIsWho) Person(name string) (approval.Actor, bool) { return w.ByName(name) }
func (w whoIsWho) People() []approval.Actor                  { return w.Actors() }
func (whoIsWho) Notified() []string                          { return nil }
func (whoIsWho) Asks(string) approval.Asks                   { return approval.Asks{} }
func (whoIsWho) AtKeyboard(string) (approval.Actor, bool)    { return approval.Actor{}, false }
func (w whoIsWho) HasAgent(name string) bool                 { return w.Directory.HasAgent(name) }
func (w whoIsWho) Owner(agent string) string                 { return w.Directory.Owner(agent) }

// byName signs in whoever the cookie "person" names, for tests of what pages do once somebody is signed in.
type byName struct{}

func (byName) Of(r *http.Request) (Session, bool, error) {
	c, err := r.Cookie("person")
	if err != nil {
		return Session{}, false, nil
	}
	return Session{ID: "session-of-" + c.Value, Person: c.Value, Since: begin}, true, nil
}

func (s byName) Still(r *http.Request) (Session, bool, error) { return s.Of(r) }

// newWorld starts it. change may replace parts of the options.
func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), clock: testkit.NewClock(begin), log: &testkit.Buffer{}, prover: proof.NewProver()}
	broker := approval.NewBroker()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), Now: w.clock.Now,
		OnCommit: broker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	scoped := storetest.ScopedIn(t, db)
	w.store = db
	logger := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	audit := approval.NewAuditLog(redact.New())
	w.outbox = outbox.New(outbox.Options{Store: scoped, Audit: audit, Routing: outboxtest.To("line", "U1"),
		Logger: logger})
	w.dir = auth.NewDirectory(agentsOfTests, peopleOfTests)
	w.gate = approval.NewGate(approval.Options{Store: scoped, Broker: broker, Directory: whoIsWho{w.dir},
		Policy: policyOf(t, rulesOfTests), Audit: audit,
		Logger: logger, Masker: redact.New(), Notifier: w.outbox, Prover: w.prover})
	w.signIns = signin.New(signin.Options{Store: scoped, Rows: scoped.SignIns, Audit: audit, Directory: whoIsWho{w.dir},
		Logger: logger})
	stopping, stop := context.WithCancel(context.Background())
	o := Options{Gate: w.gate, Directory: w.dir, Sessions: byName{}, SignIn: w.signIns, Logger: logger,
		Notifications: w.outbox, Pushes: w.outbox, Stopping: stopping, Now: w.clock.Now}
	for _, c := range change {
		c(&o)
	}
	if o.Base == nil {
		o.Base = func() string { return "" }
	}
	o.Passkeys = passkey.New(passkey.Options{Store: scoped, Rows: scoped.Passkeys, Audit: audit,
		Directory: whoIsWho{w.dir}, Teller: silent{}, Prover: w.prover,
		Base: o.Base, Logger: logger})
	w.pages = New(o)
	w.srv = httptest.NewServer(w.pages)
	t.Cleanup(func() {
		stop()
		w.srv.Close()
		db.Close()
	})
	return w
}

// silent tells nobody of their passkeys.
type silent struct{}

func (silent) PasskeyAdded(approval.Tx, string, string) error   { return nil }
func (silent) PasskeyRemoved(approval.Tx, string, string) error { return nil }
func (silent) PasskeyBlocked(approval.Tx, string, string) error { return nil }

func policyOf(t testing.TB, src string) *policy.Policy {
	t.Helper()
	p, problems := policy.Compile(policy.Parse([]byte(src)), policy.Options{})
	if policy.HasErrors(problems) || len(p.Rules()) == 0 {
		t.Fatal(problems)
	}
	return p
}

// call is a call of the agent bot.
func (w *world) call(tool, raw string, change ...func(*approval.Call)) approval.Call {
	w.t.Helper()
	a, err := args.Parse([]byte(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	c := approval.Call{Agent: "bot", Tool: tool, Args: a}
	for _, f := range change {
		f(&c)
	}
	return c
}

// ask has the agent bot ask for a call, and returns the request's id.
func (w *world) ask(tool, raw string, change ...func(*approval.Call)) string {
	w.t.Helper()
	answer, err := w.gate.Check(w.ctx, w.call(tool, raw, change...))
	if err != nil {
		w.t.Fatal(err)
	}
	w.asked = answer.Request.ID
	return w.asked
}

// reply is an answer, read whole.
type reply struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   string
}

// get gets a page as a person, "" for nobody.
func (w *world) get(person, path string, header ...string) reply {
	w.t.Helper()
	return w.send(person, http.MethodGet, path, nil, header...)
}

// post sends a form as a browser does from one of our pages.
func (w *world) post(person, path string, form url.Values, header ...string) reply {
	w.t.Helper()
	if !form.Has("viewer") {
		if form = maps.Clone(form); form == nil {
			form = url.Values{}
		}
		form.Set("viewer", w.viewer(person, header))
	}
	return w.send(person, http.MethodPost, path, form, append([]string{"Sec-Fetch-Site", "same-origin"}, header...)...)
}

// viewer is who is signed in by these cookies, for whom a page of theirs is made.
func (w *world) viewer(person string, header []string) string {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.ctx, http.MethodGet, w.srv.URL, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Add(header[i], header[i+1])
	}
	if session, ok, err := w.pages.Sessions.Still(r); err == nil && ok {
		return session.Person
	}
	return person
}

func (w *world) send(person, method, path string, form url.Values, header ...string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, w.srv.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if person != "" {
		req.AddCookie(&http.Cookie{Name: "person", Value: person})
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply{w.t, method + " " + path, res.StatusCode, res.Header, string(body)}
}

func (r reply) is(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: status %d, want %d\n%s", r.what, r.status, status, r.body)
	}
	return r
}

// has holds that the page holds these texts.
func (r reply) has(texts ...string) reply {
	r.t.Helper()
	for _, s := range texts {
		if !strings.Contains(r.body, s) {
			r.t.Errorf("%s: no %q in\n%s", r.what, s, r.body)
		}
	}
	return r
}

func (r reply) lacks(texts ...string) reply {
	r.t.Helper()
	for _, s := range texts {
		if strings.Contains(r.body, s) {
			r.t.Errorf("%s: %q in\n%s", r.what, s, r.body)
		}
	}
	return r
}
