package client_test

import (
	"context"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/client"
	"countersign/internal/auth"
	"countersign/internal/rest"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	botToken  = "token-of-bot-0123456789"
	hanaToken = "token-of-hana-0123456789"
	kenToken  = "token-of-ken-0123456789"
)

// asks quarantines all but read_file, for a time that the tool's name gives.
type asks struct{}

func (asks) Evaluate(_ context.Context, c approval.Call) approval.Verdict {
	v := approval.Verdict{Action: approval.Quarantine, Risk: approval.RiskHigh, Rule: "asks",
		ReasonCode: "approval_required",
		Message:    "A person must confirm this.", Timeout: time.Hour}
	switch c.Tool {
	case "read_file":
		v.Action, v.Risk, v.ReasonCode = approval.Allow, approval.RiskLow, "allowed"
	case "deploy":
		v.RequireReason = true
	case "pay": // whose approvals may be given for longer
		v.Risk, v.RuleDigest = approval.RiskMedium, "pay-1"
		v.Grants = &approval.GrantTerms{Vary: map[string]approval.Vary{"cents": {AtMost: "5000", Total: "9000"}}}
	case "wire":
		v.Need = &approval.Need{Stages: []approval.Stage{{Count: 2}}}
	case "close_books":
		v.Need = &approval.Need{Confirm: true}
	}
	return v
}

func (asks) Digest() string                 { return "" }
func (asks) Source() string                 { return "" }
func (asks) RuleDigests() map[string]string { return map[string]string{"asks": "asks-1"} }
func (asks) Terms() approval.Terms {
	return approval.Terms{UseWithin: 15 * time.Minute, RememberDenial: 10 * time.Minute, MaxPending: 3}
}

// world is a server over a real store, with an agent's and a person's client.
type world struct {
	t         *testing.T
	gate      *approval.Gate
	outbox    *outbox.Outbox
	srv       *httptest.Server
	bot, hana *client.Client
	ken       *client.Client
	clock     *atomic.Int64 // added to the wall clock, in nanoseconds
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: new(atomic.Int64)}
	// without the process's own count: what is added has passed
	now := func() time.Time { return time.Now().Add(time.Duration(w.clock.Load())).Round(0) }
	broker := approval.NewBroker()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), Now: now, OnCommit: broker.Publish})
	if err != nil {
		t.Fatal(err)
	}
	scoped, audit := storetest.ScopedIn(t, db), approval.NewAuditLog(redact.New())
	w.outbox = outbox.New(outbox.Options{Store: scoped, Audit: audit, Routing: outboxtest.To("line", "U1")})
	w.gate = approval.NewGate(approval.Options{Store: scoped, Broker: broker, Policy: asks{}, Now: now,
		Masker: redact.New(), Audit: audit, Notifier: w.outbox})
	dir := auth.NewDirectory([]auth.AgentIdentity{{Name: "bot", Token: botToken}},
		[]auth.Person{{Name: "hana", Approver: true, Admin: true, Token: hanaToken},
			{Name: "ken", Approver: true, Token: kenToken}})
	stopping, stop := context.WithCancel(context.Background())
	w.srv = httptest.NewServer(rest.New(rest.Options{Gate: w.gate, Directory: dir, Notifications: w.outbox,
		Stopping: stopping}))
	w.bot, w.hana = w.client(botToken), w.client(hanaToken, client.WithName("cli"))
	w.ken = w.client(kenToken)
	t.Cleanup(func() {
		stop()
		w.bot.Close()
		w.hana.Close()
		w.ken.Close()
		w.srv.Close()
		db.Close()
	})
	return w
}

func (w *world) client(token string, opts ...client.Option) *client.Client {
	w.t.Helper()
	c, err := client.New(w.srv.URL, token, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ask has bot make a request and returns its id.
func (w *world) ask(c client.Call) string {
	w.t.Helper()
	a, err := w.bot.Call(w.t.Context(), c)
	w.must(err)
	if a.Kind != client.AnswerPending {
		w.t.Fatalf("%+v", a)
	}
	return a.ApprovalID
}
