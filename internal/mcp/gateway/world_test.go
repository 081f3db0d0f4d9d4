package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/internal/budget"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/policy"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// world is a gate, a gateway on top of it, and its address for clients.
type world struct {
	t      testing.TB
	gate   *approval.Gate
	outbox *outbox.Outbox
	db     *sqlite.DB
	gw     *gateway.Gateway
	url    string
	path   string
	http   *downstream.HTTP
}

// around is what a world stands in, where a test wants it otherwise.
type around struct {
	now   func() time.Time                    // the clock of store and gate
	store func(approval.Store) approval.Store // what stands before the store
	gate  func(*approval.Options)
	still func(agent string) error // of clients' credentials
	stop  context.Context          // is done when the program is about to stop
	// budgets are those of agents.
	budgets *budget.Registry
	who     func(*names)
	cards   outboxtest.Routing // where cards go; nowhere, by itself
	asker   func(*approval.Gate) gateway.Asker
}

// names is who is who.
type names struct {
	people, keyboard func(string) (approval.Actor, bool)
	agents           func(string) bool // nil: every name is an agent's
	owner            string            // of every agent
}

func (n names) Person(name string) (approval.Actor, bool) { return n.people(name) }
func (n names) HasAgent(name string) bool                 { return n.agents == nil || n.agents(name) }
func (n names) People() []approval.Actor                  { return nil }
func (n names) Notified() []string                        { return nil }
func (n names) Owner(string) string                       { return n.owner }
func (names) Asks(string) approval.Asks                   { return approval.Asks{} }

func (n names) AtKeyboard(agent string) (approval.Actor, bool) { return n.keyboard(agent) }

const (
	agentToken = "test-agent-token"
	otherToken = "test-other-token"
)

// person decides in tests.
var person = approval.Actor{Kind: approval.Human, Name: "hana", Approver: true, Admin: true}

func compile(t testing.TB, rules string) *policy.Policy {
	t.Helper()
	p, problems := policy.Compile(policy.Parse([]byte(rules)), policy.Options{})
	if policy.HasErrors(problems) {
		t.Fatal(problems)
	}
	return p
}

const allowAll = `{policy: {rules: [{tools: ["*"], risk: low, action: allow}]}}`

// newWorld opens a gate with the policy and a gateway in front of the servers.
func newWorld(t testing.TB, rules string, o gateway.Options) *world {
	t.Helper()
	return newWorldIn(t, rules, o, around{})
}

func newWorldIn(t testing.TB, rules string, o gateway.Options, in around) *world {
	t.Helper()
	w := &world{t: t, path: schematest.NewFile(t)}
	log := slog.New(slog.DiscardHandler)
	if tt, ok := t.(*testing.T); ok {
		log = slog.New(slog.NewTextHandler(testWriter{tt}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	broker := approval.NewBroker()
	var err error
	w.db, err = sqlite.Open(context.Background(), sqlite.Options{Path: w.path, Now: in.now,
		OnCommit: func(c approval.Commit) { broker.Publish(c) }})
	if err != nil {
		t.Fatal(err)
	}
	scoped := storetest.ScopedIn(t, w.db)
	g := approval.Options{Store: scoped, Broker: broker, Policy: compile(t, rules), Masker: redact.New(), Now: in.now,
		Audit: approval.NewAuditLog(redact.New())}
	who := names{
		keyboard: func(agent string) (approval.Actor, bool) { return person, agent == "bot" },
		people:   func(name string) (approval.Actor, bool) { return person, name == person.Name },
	}
	if in.who != nil {
		in.who(&who)
	}
	g.Directory = who
	if in.store != nil {
		g.Store = in.store(scoped)
	}
	if in.gate != nil {
		in.gate(&g)
	}
	w.outbox = outbox.New(outbox.Options{Store: g.Store, Audit: g.Audit, Routing: in.cards})
	g.Notifier = w.outbox
	w.gate = approval.NewGate(g)
	o.Asker, o.Logger, o.Stopping, o.Budgets = w.gate, log, in.stop, in.budgets
	if in.asker != nil {
		o.Asker = in.asker(w.gate)
	}
	if w.gw, err = gateway.New(o); err != nil {
		t.Fatal(err)
	}
	w.gw.Start()
	var limits downstream.Budget
	if in.budgets != nil {
		limits = budget.Messages{Registry: in.budgets}
	}
	h := downstream.NewHTTP(downstream.HTTPOptions{Sessions: w.gw, Budget: limits, Guard: downstream.Guard{Loopback: true},
		Logger: log, Stopping: in.stop, Authenticate: func(r *http.Request) (downstream.Caller, error) {
			agent := map[string]string{"": "bot", "Bearer " + agentToken: "bot", "Bearer " +
				otherToken: "other"}[r.Header.Get("Authorization")]
			if agent == "" {
				return downstream.Caller{}, errors.New("who is this?")
			}
			c := downstream.Caller{Agent: agent}
			if in.still != nil {
				c.StillValid = func() error { return in.still(agent) }
			}
			return c, nil
		}})
	w.http = h
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	srv := httptest.NewServer(mux)
	w.url = srv.URL + "/mcp"
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { w.gate.Run(ctx); close(ran) }()
	t.Cleanup(func() {
		h.Close()
		srv.Close()
		stop, done := context.WithTimeout(context.Background(), testkit.Patience)
		defer done()
		if err := w.gw.Stop(stop); err != nil {
			t.Error(err)
		}
		cancel()
		testkit.Receive(t, "the end of Run", ran)
		w.db.Close()
	})
	return w
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Helper()
	w.t.Log(string(b))
	return len(b), nil
}
