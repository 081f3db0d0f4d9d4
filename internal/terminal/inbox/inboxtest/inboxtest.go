// Package inboxtest is a whole gate in process, over HTTP and a store of its own, for the tests of inboxes: an agent,
// two approvers, rules by the name of the tool, and a clock that moves when told to.
package inboxtest

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/approval/summary"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/client"
	"countersign/internal/auth"
	"countersign/internal/rest"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// rules quarantine all; the tool says how.
type rules struct{}

// Evaluate asks about every call.
func (rules) Evaluate(_ context.Context, c approval.Call) approval.Verdict {
	v := approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh, Rule: "asks", RuleDigest: "asks-1",
		ReasonCode: "approval_required", Message: "A person must confirm this.", Timeout: time.Hour}
	switch c.Tool {
	case "refund":
		v.Sentences = &summary.Sentences{Summary: summary.Wording{"": "Refund {args.cents|money:USD/100} to {args.to}"}}
	case "deploy":
		v.RequireReason = true
	case "pay":
		v.Risk, v.Grants = approval.RiskMedium, &approval.GrantTerms{}
	case "wire":
		v.Need = &approval.Need{Stages: []approval.Stage{{Count: 2}}}
	case "close_books":
		v.Need = &approval.Need{Confirm: true}
	case "drop_database":
		v.Risk, v.Timeout = approval.RiskCritical, 30*time.Minute
	}
	return v
}

// Digest is of no policy that is kept.
func (rules) Digest() string { return "" }

// Source is the text of none.
func (rules) Source() string { return "" }

// RuleDigests are of the one rule.
func (rules) RuleDigests() map[string]string { return map[string]string{"asks": "asks-1"} }

// Terms are the usual ones.
func (rules) Terms() approval.Terms {
	return approval.Terms{UseWithin: 15 * time.Minute, RememberDenial: 10 * time.Minute, MaxPending: 50}
}

// World is the gate and those who talk to it.
type World struct {
	t         testing.TB
	Gate      *approval.Gate
	Server    *httptest.Server
	Bot       *client.Client // an agent
	Hana, Ken *client.Client // approvers
	Clock     *testkit.Clock
}

// Tokens of the people.
const (
	HanaToken = "token-of-hana-0123456789"
	BotToken  = "token-of-bot-0123456789"
)

// New returns a gate with a store in a folder of the test. It is Saturday, 09:30 UTC.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{t: t, Clock: testkit.NewClock(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC))}
	broker := approval.NewBroker()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), Now: w.Clock.Now,
		OnCommit: broker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	scoped, audit := storetest.ScopedIn(t, db), approval.NewAuditLog(redact.New())
	cards := outbox.New(outbox.Options{Store: scoped, Audit: audit, Routing: outboxtest.To("sms", "U1")})
	w.Gate = approval.NewGate(approval.Options{Store: scoped, Broker: broker, Policy: rules{}, Now: w.Clock.Now,
		Masker: redact.New(), Audit: audit, Notifier: cards})
	dir := auth.NewDirectory([]auth.AgentIdentity{{Name: "treasury-bot", Token: BotToken}},
		[]auth.Person{{Name: "hana", Approver: true, Admin: true, Token: HanaToken},
			{Name: "ken", Approver: true, Token: "token-of-ken-0123456789"}})
	stopping, stop := context.WithCancel(context.Background())
	w.Server = httptest.NewServer(rest.New(rest.Options{Gate: w.Gate, Directory: dir, Notifications: cards,
		Stopping: stopping}))
	w.Bot, w.Hana, w.Ken = w.Client(BotToken), w.Client(HanaToken), w.Client("token-of-ken-0123456789")
	t.Cleanup(func() {
		stop()
		for _, c := range []*client.Client{w.Bot, w.Hana, w.Ken} {
			c.Close()
		}
		w.Server.Close()
		db.Close()
	})
	return w
}

// Client returns one of the gate's clients.
func (w *World) Client(token string) *client.Client {
	w.t.Helper()
	c, err := client.New(w.Server.URL, token, client.WithName("cli"))
	w.Must(err)
	return c
}

// Must ends the test with an error.
func (w *World) Must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Ask has the agent call a tool, and returns the request's id.
func (w *World) Ask(tool, args string) string {
	w.t.Helper()
	a, err := w.Bot.Call(w.t.Context(), client.Call{Tool: tool, Server: "bank", Args: []byte(args), Scope: "/srv/books",
		Rationale: "The invoice is due.", AcceptsEdits: true})
	w.Must(err)
	if a.Kind != client.AnswerPending {
		w.t.Fatalf("%+v", a)
	}
	return a.ApprovalID
}

// Request returns a request as it stands.
func (w *World) Request(id string) client.Approval {
	w.t.Helper()
	a, err := w.Hana.Approval(w.t.Context(), id)
	w.Must(err)
	return a
}
