package signin_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/auth/signin"
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
	p.who = map[string]approval.Actor{}
	for _, n := range names {
		p.who[n] = approval.Actor{Kind: approval.Human, Name: n}
	}
	p.who["bot"] = approval.Actor{Kind: approval.Agent, Name: "bot"} // as no directory would say it
}

type world struct {
	*signin.Service
	t      *testing.T
	path   string
	db     *sqlite.DB
	scoped *storetest.ScopedStore
	clock  *testkit.Clock
	dir    *people
	log    *testkit.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, path: schematest.NewFile(t), dir: new(people), log: new(testkit.Buffer),
		clock: testkit.NewClock(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))}
	w.dir.set("hana", "ken")
	w.open()
	t.Cleanup(func() { w.db.Close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	w.db, err = sqlite.Open(w.t.Context(), sqlite.Options{Path: w.path, Now: w.clock.Now, Elapsed: w.clock.Elapsed})
	if err != nil {
		w.t.Fatal(err)
	}
	w.scoped = storetest.ScopedIn(w.t, w.db)
	w.Service = signin.New(signin.Options{Store: w.scoped, Rows: w.scoped.SignIns,
		Audit:     approval.NewAuditLog(redact.New()),
		Directory: w.dir, Logger: slog.New(slog.NewTextHandler(w.log, nil))})
}

var here = signin.Origin{Address: "192.0.2.7", UserAgent: "Mozilla/5.0"}

func (w *world) link(person string) string {
	w.t.Helper()
	token, _, err := w.NewLink(w.t.Context(), person, "line", "")
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

func (w *world) signIn(person string) (string, signin.Session) {
	w.t.Helper()
	secret, sess, err := w.Redeem(w.t.Context(), w.link(person), here)
	if err != nil {
		w.t.Fatal(err)
	}
	return secret, sess
}

// told returns what is on record of a type, as "actor reason data".
func (w *world) told(types ...approval.EventType) (all []string) {
	w.t.Helper()
	err := w.db.View(w.t.Context(), func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Ascending: true})
		for _, e := range es {
			for _, t := range types {
				if e.Type == t {
					all = append(all, strings.Join([]string{e.Actor, e.Reason, string(e.Data)}, " "))
				}
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) signedInAs(secret string) string {
	w.t.Helper()
	sess, err := w.Session(w.t.Context(), secret)
	if err != nil && !errors.Is(err, signin.ErrNoSession) {
		w.t.Fatal(err)
	}
	return sess.Person
}

func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
