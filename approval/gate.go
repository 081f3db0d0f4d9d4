package approval

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"countersign/approval/proof"
	"countersign/approval/redact"
)

// Options are what a [Gate] is made of. Store, Broker and Policy are required.
type Options struct {
	Store  Store
	Broker *Broker // fed by Store after each commit
	Policy Policy
	// Directory says who is who. nil: actors are taken as given, every name is an agent's, and nobody sits at a keyboard.
	Directory Directory
	// Notifier is told of requests, for people. nil: nobody is told.
	Notifier Notifier
	// Audit is what audit events are written with; nil: one of the gate's own.
	Audit *AuditLog
	// Budgets bound the requests and pushes of each agent. nil: nothing does.
	Budgets Budgets
	// CheckSpace returns an [Error] with [CodeStoreFull] where a new request of so many bytes is not to be kept. It is
	// asked inside transactions and must not block. nil: there is space for all.
	CheckSpace func(bytes int) error
	// Schemas are asked about args that a person approves in place of others. nil: nothing is known of any tool.
	Schemas Schemas
	// Page returns the address of a request's page, "" where there is none; nil: there is none.
	Page func(id string) string
	// Prover is whose proofs the gate takes. nil: it takes none, and nothing is approved that needs one.
	Prover *proof.Prover
	Masker *redact.Masker
	Logger *slog.Logger
	Now    func() time.Time // the clock of those who wait; default the store's, with whose times they compare it
}

// Gate holds every rule about who may run what. It is safe for concurrent use.
type Gate struct {
	store    Store
	broker   *Broker
	policy   atomic.Pointer[Policy]
	dir      Directory // nil: none
	notifier Notifier
	budgets  Budgets
	space    func(bytes int) error
	schemas  Schemas                       // nil: of no tool is known what it takes
	prover   *proof.Prover                 // nil: no proof is taken
	page     func(id string) string        // nil: no request has a page
	masker   atomic.Pointer[redact.Masker] // of the messages of rules, which people decide by
	records  *AuditLog
	log      *slog.Logger
	clock    func() time.Time // of the store's time, but for the tests

	turns       turns
	comparisons comparisons
}

// NewGate returns a gate over o.Store. Call [Gate.Run] to have deadlines kept to the moment.
func NewGate(o Options) *Gate {
	g := &Gate{store: o.Store, broker: o.Broker, dir: o.Directory, notifier: o.Notifier, records: o.Audit,
		budgets: o.Budgets, space: o.CheckSpace, schemas: o.Schemas, prover: o.Prover, page: o.Page, log: o.Logger,
		clock: o.Now}
	if g.notifier == nil {
		g.notifier = silent{}
	}
	if g.space == nil {
		g.space = func(int) error { return nil }
	}
	if g.records == nil {
		g.records = NewAuditLog(o.Masker)
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.clock == nil {
		g.clock = func() time.Time { return g.store.Now() }
	}
	g.policy.Store(&o.Policy)
	g.SetMasker(o.Masker)
	g.notifier.Serve(g)
	return g
}

// Broker returns the broker that wakes on what the gate commits.
func (g *Gate) Broker() *Broker { return g.broker }

// SetMasker says anew what is masked in audit events and in the messages of rules.
func (g *Gate) SetMasker(m *redact.Masker) {
	g.masker.Store(m)
	g.records.setMasker(m)
}

// Policy returns the policy in force.
func (g *Gate) Policy() Policy { return *g.policy.Load() }

// SetPolicy puts p in force, keeps its text and audits it, with the sentences that say which rules it loosened. If
// that cannot be committed the old policy stays.
func (g *Gate) SetPolicy(ctx context.Context, p Policy, loosened []string) error {
	data := marshal(map[string]any{"loosened": loosened})
	err := g.update(ctx, OfNothing(), func(w *Work) error {
		if err := w.keepPolicy(p); err != nil {
			return err
		}
		return w.audit(Event{Type: EventPolicyReloaded, Actor: "system:policy", Data: data})
	})
	if err == nil {
		g.policy.Store(&p)
	}
	return err
}

// PolicyReloadFailed audits a reload that kept the running config.
func (g *Gate) PolicyReloadFailed(ctx context.Context, why string) error {
	return g.update(ctx, OfNothing(), func(w *Work) error {
		return w.audit(Event{Type: EventPolicyReloadFailed, Actor: "system:policy", Reason: why})
	})
}
