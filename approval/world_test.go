package approval_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/channels"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/chat"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is where the clocks of these tests start.
var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// clock is a wall clock that only moves when told to, with a count of the time that passes.
type clock struct {
	mu      sync.Mutex
	now     time.Time
	elapsed time.Duration
	reads   int
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	return c.now
}

func (c *clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

// readAgain waits until the clock was read a number of times more.
func (c *clock) readAgain(t testing.TB, times int) {
	t.Helper()
	read := func() int { c.mu.Lock(); defer c.mu.Unlock(); return c.reads }
	enough := read() + times
	testkit.Eventually(t, "the clock is read", func() bool { return read() >= enough })
}

// advance lets time pass, or, below zero, sets the clock back.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.elapsed += max(0, d)
}

// set sets the clock.
func (c *clock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// rules is a policy made of a function.
type rules struct {
	verdict func(approval.Call) approval.Verdict
	terms   approval.Terms
}

func (r rules) Evaluate(_ context.Context, c approval.Call) approval.Verdict { return r.verdict(c) }
func (rules) Digest() string                                                 { return "" }
func (rules) Source() string                                                 { return "" }
func (rules) RuleDigests() map[string]string                                 { return nil }
func (r rules) Terms() approval.Terms                                        { return r.terms }

var terms = approval.Terms{UseWithin: 15 * time.Minute, RememberDenial: 10 * time.Minute}

func quarantine(risk approval.Risk) approval.Verdict {
	return approval.Verdict{Action: approval.Quarantine, Risk: risk, Rule: "asks", ReasonCode: "approval_required",
		Message: "A person must confirm this.", Timeout: time.Hour}
}

// asks quarantines everything, at high risk, for an hour.
func asks(approval.Call) approval.Verdict { return quarantine(approval.RiskHigh) }

type world struct {
	t     testing.TB
	ctx   context.Context
	clock *clock
	db    *sqlite.DB
	store *storetest.ScopedStore
	gate  *approval.Gate
	log   *testkit.Buffer

	outbox *outbox.Outbox
	chat   *chat.Service
}

var (
	hana     = approval.Actor{Kind: approval.Human, Name: "hana", Approver: true, Admin: true}
	ken      = approval.Actor{Kind: approval.Human, Name: "ken", Approver: true}
	root     = approval.Actor{Kind: approval.Human, Name: "root", Admin: true}
	stranger = approval.Actor{Kind: approval.Stranger, Name: "line:Uffffffffffffffffffffffffffffffff"}
	bot      = approval.Actor{Kind: approval.Agent, Name: "bot"}
)

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), clock: &clock{now: start}, log: &testkit.Buffer{}}
	w.open(schematest.NewFile(t), rules{asks, terms})
	return w
}

func (w *world) open(path string, p approval.Policy) {
	w.t.Helper()
	broker := approval.NewBroker()
	db, err := sqlite.Open(w.ctx, sqlite.Options{Path: path, Now: w.clock.Now, Elapsed: w.clock.Elapsed, Boot: "one",
		OnCommit:     broker.Publish,
		BeforeCommit: broker.BeforeCommit})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { db.Close() })
	w.db, w.store = db, storetest.ScopedIn(w.t, db)
	w.wire(approval.Options{Store: w.store, Broker: broker, Policy: p, Logger: w.logger()}, bothWays)
}

// bothWays is one card on LINE and one on Slack.
var bothWays = outboxtest.Routing{
	Cards: []approval.Route{{{Channel: "line", To: "U1"}}, {{Channel: "slack", To: "C1"}}},
	Edits: []string{"slack"},
}

// wire makes the gate anew, with the outbox and the chat around it.
func (w *world) wire(o approval.Options, cards outboxtest.Routing) {
	o.Audit = approval.NewAuditLog(o.Masker)
	w.outbox = outbox.New(outbox.Options{Store: o.Store, Audit: o.Audit, Routing: cards, Budgets: o.Budgets,
		Logger: o.Logger})
	o.Notifier = w.outbox
	w.gate = approval.NewGate(o)
	w.chat = chat.New(chat.Options{Store: o.Store, Gate: w.gate, Audit: o.Audit, Outbox: w.outbox, Readers: english{}})
}

// english answers everybody in English.
type english struct{}

func (english) Say(_ approval.Actor, p phrases.Phrase, with ...any) string { return p.Say(with...) }
func (english) NameOf(approval.Address) string                             { return "" }
func (english) RouteOf(person string) approval.Route {
	return approval.Route{{Channel: "line", To: "U" + person}}
}
func (english) Agents() []string               { return []string{"bot"} }
func (english) Status(approval.Actor) []string { return nil }

// everybody is the people of these tests.
func everybody(name string) (approval.Actor, bool) {
	who, ok := map[string]approval.Actor{"hana": hana, "ken": ken, "root": root}[name]
	return who, ok
}

// names is who is who in these tests.
type names struct {
	people   func(string) (approval.Actor, bool)
	agents   func(string) bool                   // nil: every name is an agent's
	keyboard func(string) (approval.Actor, bool) // nil: nobody sits there
	all      func() []approval.Actor             // nil: nobody
	owner    func(string) string                 // nil: nobody owns an agent
	asks     approval.Asks                       // of every agent
	notified []string
}

func (n names) Person(name string) (approval.Actor, bool) { return n.people(name) }
func (n names) HasAgent(name string) bool                 { return n.agents == nil || n.agents(name) }
func (n names) People() []approval.Actor {
	if n.all == nil {
		return nil
	}
	return n.all()
}
func (n names) Notified() []string { return n.notified }
func (n names) Owner(agent string) string {
	if n.owner == nil {
		return ""
	}
	return n.owner(agent)
}
func (n names) Asks(string) approval.Asks { return n.asks }

func (n names) AtKeyboard(agent string) (approval.Actor, bool) {
	if n.keyboard == nil {
		return approval.Actor{}, false
	}
	return n.keyboard(agent)
}

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w.log, nil)) }

func (w *world) policy(verdict func(approval.Call) approval.Verdict) {
	w.t.Helper()
	if err := w.gate.SetPolicy(w.ctx, rules{verdict, terms}, nil); err != nil {
		w.t.Fatal(err)
	}
}

func call(raw string) approval.Call {
	a, err := args.Parse([]byte(raw))
	if err != nil {
		panic(err)
	}
	return approval.Call{Agent: "bot", Tool: "transfer_credits", Args: a}
}

var transfer = call(`{"amount_cents":2000,"to":"0xAbC"}`)

func (w *world) check(c approval.Call) approval.Answer {
	w.t.Helper()
	o, err := w.gate.Check(w.ctx, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// holdOn has a call that was answered so wait for a person.
func (w *world) holdOn(c approval.Call, first approval.Answer, d time.Duration) (approval.Answer, error) {
	a, err := w.gate.Wait(w.ctx, &c, &first, approval.WaitOptions{For: d})
	return *a, err
}

// expect checks a call and returns the outcome, whose word must be want.
func (w *world) expect(c approval.Call, want approval.AnswerKind) approval.Answer {
	w.t.Helper()
	o := w.check(c)
	if o.Kind != want {
		w.t.Fatalf("got %s (%s), want %s", o.Kind, o.Message, want)
	}
	return o
}

func (w *world) decide(id string, approve bool, by approval.Actor, reason string) (approval.Request, error) {
	return w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: approve, By: by, Via: approval.ViaAPI,
		Reason: reason})
}

func (w *world) mustDecide(id string, approve bool, by approval.Actor, reason string) approval.Request {
	w.t.Helper()
	r, err := w.decide(id, approve, by, reason)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// theCall is how an answer says which call it is about.
func theCall(id string) string {
	return "transfer_credits (bot, " + id[len(id)-approval.ShortID:] + ")"
}

func (w *world) request(id string) approval.Request {
	w.t.Helper()
	r, err := w.gate.Request(w.ctx, hana, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) feed() []approval.Request {
	w.t.Helper()
	rs, err := w.gate.Resolved(w.ctx, "bot", "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return rs
}

// trail tells the audit log, oldest first, as "type:decision:reason" words.
func (w *world) trail() []string {
	w.t.Helper()
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Ascending: true, Limit: 10000})
	if err != nil {
		w.t.Fatal(err)
	}
	var s []string
	for _, e := range es {
		s = append(s, strings.TrimRight(fmt.Sprintf("%s:%s:%s", e.Type, e.Decision, e.Reason), ":"))
	}
	return s
}

func (w *world) count(event string) int {
	n := 0
	for _, e := range w.trail() {
		if strings.HasPrefix(e, event) {
			n++
		}
	}
	return n
}

func (w *world) notifications(q approval.NotificationQuery) []approval.Notification {
	w.t.Helper()
	ns, err := w.outbox.Notifications(w.ctx, q)
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(ns)
	return ns
}

// send has every notification that is due sent, and returns them.
func (w *world) send() []approval.Notification {
	w.t.Helper()
	out := w.outbox
	ready, _, err := w.ready(100)
	if err != nil {
		w.t.Fatal(err)
	}
	var tries []outbox.Attempt
	for _, d := range ready {
		tries = append(tries, outbox.Attempt{Notification: d.Notification, Body: []byte(`{"card":1}`), Seen: d.Seen(),
			Lease: 20 * time.Second})
	}
	begun, err := outboxtest.Begin(w.ctx, out, tries...)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range begun {
		if err := out.Sent(w.ctx, n, channels.Receipt{MessageID: "m-" + n.ID, HTTPStatus: 200,
			Data: []byte(`{"ts":"1"}`)}); err != nil {
			w.t.Fatal(err)
		}
	}
	return begun
}

func wantCode(t testing.TB, err error, want approval.Code) {
	t.Helper()
	if got := approval.CodeOf(err); got != want {
		t.Fatalf("got code %q (%v), want %q", got, err, want)
	}
}

// ready returns what can be sent now, loaded, and when more can be.
func (w *world) ready(limit int) (ds []channels.Delivery, next time.Time, err error) {
	w.t.Helper()
	out := w.outbox
	ns, next, err := out.Ready(w.ctx, nil, limit)
	for _, n := range ns {
		d, err := out.Load(w.ctx, n.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		ds = append(ds, d)
	}
	return ds, next, err
}

// cannotDecide is what a chat answers to somebody who may not decide: a stranger is told what to ask for.
func cannotDecide(by approval.Actor) string {
	if by.Kind == approval.Stranger {
		return "This is Countersign. You're not an approver here. Ask whoever runs it to add your ID: U1"
	}
	return "You may not decide this request."
}
