package passkey_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/approval/proof"
	"countersign/approval/redact"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/passkey/passkeytest"
	"countersign/internal/secret"
	"countersign/internal/store/sqlite"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// people are who is who, until it is changed.
type people struct {
	mu  sync.Mutex
	who map[string]approval.Actor
}

func (p *people) Person(name string) (approval.Actor, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.who[name]
	return a, ok
}

func (p *people) set(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.who = map[string]approval.Actor{"bot": {Kind: approval.Agent, Name: "bot"}}
	for _, n := range names {
		p.who[n] = approval.Actor{Kind: approval.Human, Name: n, Approver: true}
	}
}

// told are what people were told in their chats.
type told struct{ said []string }

func (t *told) tell(what, person, name string) error {
	t.said = append(t.said, what+" "+person+" "+name)
	return nil
}
func (t *told) PasskeyAdded(_ approval.Tx, p, n string) error   { return t.tell("added", p, n) }
func (t *told) PasskeyRemoved(_ approval.Tx, p, n string) error { return t.tell("removed", p, n) }
func (t *told) PasskeyBlocked(_ approval.Tx, p, n string) error { return t.tell("blocked", p, n) }

const origin = "https://gate.example.com"

type world struct {
	*passkey.Service
	t      testing.TB
	db     *sqlite.DB
	scoped *storetest.ScopedStore
	clock  *testkit.Clock
	dir    *people
	told   *told
	base   string
	log    *testkit.Buffer
	prover *proof.Prover
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: new(people), told: new(told), base: origin, log: new(testkit.Buffer), prover: proof.NewProver(),
		clock: testkit.NewClock(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))}
	w.dir.set("hana", "ken")
	var err error
	w.db, err = sqlite.Open(t.Context(), sqlite.Options{Path: schematest.NewFile(t), Now: w.clock.Now,
		Elapsed: w.clock.Elapsed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close() })
	w.scoped = storetest.ScopedIn(t, w.db)
	w.Service = w.program(secret.Keys{})
	return w
}

// program is the service of a program with these keys on the store.
func (w *world) program(keys secret.Keys) *passkey.Service {
	return passkey.New(passkey.Options{Store: w.scoped, Rows: w.scoped.Passkeys,
		Audit: approval.NewAuditLog(redact.New()), Directory: w.dir, Keys: keys,
		Teller: w.told, Prover: w.prover, Base: func() string {
			return w.base
		}, Logger: slog.New(slog.NewTextHandler(w.log, nil))})
}

// FinishSignIn is that of the service, at a door that is open to everybody.
func (w *world) FinishSignIn(ctx context.Context, ticket string, answer []byte) (passkey.Passkey, error) {
	return w.Service.FinishSignIn(ctx, ticket, answer, passkey.Door{})
}

// browser is one that has just signed in.
func (w *world) browser(person string) passkey.Browser {
	return passkey.Browser{Session: "session of " + person, Person: person, Since: w.clock.Now()}
}

// add has a person add a passkey of an authenticator.
func (w *world) add(a *passkeytest.Authenticator, b passkey.Browser, name string) passkey.Passkey {
	w.t.Helper()
	k, err := w.FinishAdding(w.t.Context(), b, name, a.Create(origin, w.options(w.BeginAdding(w.t.Context(), b, nil))))
	if err != nil {
		w.t.Fatalf("adding a passkey: %v; %s", err, w.reasons())
	}
	return k
}

func (w *world) options(o json.RawMessage, err error) []byte {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("no options: %v; %s", err, w.reasons())
	}
	return o
}

// reasons are why things were refused, by the audit log.
func (w *world) reasons() string {
	w.t.Helper()
	var all []string
	err := w.db.View(context.Background(), func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Type: approval.EventPasskeyRefused, Limit: 100})
		for _, e := range es {
			all = append(all, e.Reason)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// events counts what is on record of a type.
func (w *world) events(of approval.EventType) int {
	w.t.Helper()
	n := 0
	err := w.db.View(context.Background(), func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Type: of, Limit: 100})
		n = len(es)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
