//go:build postgres

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/approval"
	"countersign/internal/store/postgres/postgrestest"
	"countersign/internal/testkit"
)

// appended counts the events of an agent.
func appended(t *testing.T, d *DB, agent string) (n int) {
	t.Helper()
	if err := d.View(t.Context(), func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{Agent: agent})
		n = len(es)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func appends(agent string, runs *atomic.Int32) func(tx approval.Tx) error {
	return func(tx approval.Tx) error {
		runs.Add(1)
		_, err := tx.Append(approval.Event{Type: approval.EventDecision, Agent: agent})
		return err
	}
}

// Rule 2.7: what a caller is told of an update is what is stored, also where the answer to the COMMIT does not come.
func TestRule7_ACommitWithoutAnAnswerIsFoundOut(t *testing.T) {
	for name, test := range map[string]struct {
		cut  func(t *testing.T, p *postgrestest.Proxy, committed func() bool)
		runs int32
		told bool // it is known what has become of it
	}{
		"before the database heard of it": {func(_ *testing.T, p *postgrestest.Proxy, _ func() bool) { p.Cut() }, 2, true},
		"after it had committed": {func(t *testing.T, p *postgrestest.Proxy, committed func() bool) {
			p.Set(false, true, false)
			go func() {
				testkit.Eventually(t, "the commit", committed)
				p.Cut()
			}()
		}, 1, true},
		"and the database is gone": {func(t *testing.T, p *postgrestest.Proxy, committed func() bool) {
			p.Set(false, true, true)
			go func() {
				testkit.Eventually(t, "the commit", committed)
				p.Cut()
			}()
		}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			direct := database(t)
			looking := open(t, Options{URL: direct})
			p := postgrestest.NewProxy(t, direct)
			var armed atomic.Bool
			d := open(t, Options{URL: p.URL, Connections: 1, Failpoint: func(string) {
				if armed.CompareAndSwap(true, false) {
					test.cut(t, p, func() bool { return appended(t, looking, "bot") == 1 })
				}
			}})
			var runs atomic.Int32 // a connection knows the statements after the first
			if err := d.Update(t.Context(), approval.OfAgent("first"), appends("first", &runs)); err != nil {
				t.Fatal(err)
			}
			runs.Store(0)
			armed.Store(true)
			err := d.Update(t.Context(), approval.OfAgent("bot"), appends("bot", &runs))
			if n := appended(t, looking, "bot"); runs.Load() != test.runs || n != 1 {
				t.Errorf("it has run %d times, and %d events are stored", runs.Load(), n)
			}
			if (err == nil) != test.told || err != nil && approval.CodeOf(err) != approval.CodeStoreUnavailable {
				t.Errorf("its caller is told %v", err)
			}
			p.Set(false, false, false)
		})
	}
}

// Rules 2.3 and 2.7: while connections are ended all the time, whoever is told that an update was done finds it stored
// once, and whoever is told that it was not finds nothing.
func TestRule7_AStormOfLostConnections(t *testing.T) {
	const perCaller = 60
	at := database(t)
	d := open(t, Options{URL: at, Connections: 12})
	ended, stop := make(chan int), make(chan struct{})
	go func() {
		n := 0
		defer func() { ended <- n }()
		for c := connect(t, at); ; time.Sleep(rand.N(10 * time.Millisecond)) { // real: connections are ended at any time
			select {
			case <-stop:
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
				return
			default:
			}
			tag, err := c.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) AS one`)
			if err != nil {
				t.Error(err)
			}
			n += int(tag.RowsAffected())
		}
	}()
	var callers sync.WaitGroup
	var done, refused atomic.Int32
	told := make([]error, 16*perCaller)
	for i := range 16 {
		callers.Go(func() {
			for n := range perCaller {
				agent := fmt.Sprintf("bot%d-%d", i, n)
				var runs atomic.Int32
				err := d.Update(t.Context(), approval.OfAgent(agent), appends(agent, &runs))
				if told[i*perCaller+n] = err; err == nil {
					done.Add(1)
				} else if refused.Add(1); approval.CodeOf(err) != approval.CodeStoreUnavailable {
					t.Errorf("a caller is told %v", err)
				}
			}
		})
	}
	testkit.Wait(t, "the callers", callers.Wait)
	close(stop)
	t.Logf("%d connections were ended; %d updates were done, %d refused", testkit.Receive(t, "how many", ended),
		done.Load(), refused.Load())
	if int(done.Load()) < len(told)/2 {
		t.Errorf("only %d of %d updates were done", done.Load(), len(told))
	}
	for i, err := range told {
		n := appended(t, d, fmt.Sprintf("bot%d-%d", i/perCaller, i%perCaller))
		if err == nil && n != 1 || err != nil && n != 0 && !strings.Contains(err.Error(), "not known") {
			t.Errorf("%d events are stored, and the caller was told %v", n, err)
		}
	}
}

func connect(t *testing.T, at string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A connection that was lost while nobody used it is nobody's trouble.
func TestConnectionsLostMeanwhileAreReplaced(t *testing.T) {
	at := database(t)
	d := open(t, Options{URL: at})
	for range 3 {
		execute(t, at, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if n := appended(t, d, "bot"); n != 0 {
			t.Errorf("%d events", n)
		}
		execute(t, at, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if err := d.Update(t.Context(), approval.OfNothing(), func(approval.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

// However many were lost at once, whatever comes next is done.
func TestAllConnectionsLostMeanwhileAreReplaced(t *testing.T) {
	const connections = 2 * tries
	at := database(t)
	d := open(t, Options{URL: at, Connections: connections})
	for name, next := range map[string]func() error{
		"update": func() error {
			return d.Update(t.Context(), approval.OfNothing(), func(approval.Tx) error { return nil })
		},
		"view": func() error {
			return d.View(t.Context(), func(tx approval.Tx) error {
				_, err := tx.CountPending("")
				return err
			})
		},
		"numbering": func() error { return d.numbering.gather(t.Context(), nil) },
	} {
		held, letGo := testkit.Latch()
		t.Cleanup(letGo)
		var views sync.WaitGroup
		var begun atomic.Int32
		for range connections {
			views.Go(func() {
				if err := d.View(t.Context(), func(tx approval.Tx) error {
					tx.Now()
					begun.Add(1)
					<-held
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		testkit.Eventually(t, "all connections", func() bool { return begun.Load() == connections })
		letGo()
		testkit.Wait(t, "the views", views.Wait)
		execute(t, at, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if err := next(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of two transactions, the one that has begun first may be committed last: what is asked for by time is found all the
// same, on each side of it.
func TestEventsAreFoundByTimeWhateverTheirOrder(t *testing.T) {
	d := open(t, Options{})
	var early, late approval.Event
	first := func(tx approval.Tx) (err error) {
		early, err = tx.Append(approval.Event{Type: approval.EventDecision, Agent: "first"})
		time.Sleep(20 * time.Millisecond) // real: the other one begins later
		return errors.Join(err, d.Update(t.Context(), approval.OfAgent("second"), func(tx approval.Tx) (err error) {
			late, err = tx.Append(approval.Event{Type: approval.EventDecision, Agent: "second"})
			return err
		}), d.numbering.gather(t.Context(), nil))
	}
	if err := d.Update(t.Context(), approval.OfAgent("first"), first); err != nil {
		t.Fatal(err)
	}
	if !early.At.Before(late.At) {
		t.Fatalf("%v is not before %v", early.At, late.At)
	}
	for _, test := range []struct {
		q    approval.EventQuery
		want []string
	}{
		{approval.EventQuery{}, []string{early.ID, late.ID}},
		{approval.EventQuery{Since: late.At}, []string{late.ID}},
		{approval.EventQuery{Until: late.At}, []string{early.ID}},
		{approval.EventQuery{Since: early.At, Until: late.At}, []string{early.ID}},
	} {
		if err := d.View(t.Context(), func(tx approval.Tx) error {
			es, err := tx.Events(test.q)
			var found []string
			for _, e := range es {
				found = append(found, e.ID)
			}
			if !slices.Equal(found, test.want) {
				t.Errorf("%+v: %v, want %v", test.q, found, test.want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// A function's own error is its caller's, and the function does not run again for it.
func TestAFunctionsErrorIsItsOwn(t *testing.T) {
	d := open(t, Options{})
	runs := 0
	err := d.Update(t.Context(), approval.OfNothing(), func(approval.Tx) error {
		runs++
		return io.ErrUnexpectedEOF
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) || approval.CodeOf(err) == approval.CodeStoreUnavailable || runs != 1 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

// A View that looks for events, for which all that is committed is numbered first, does with one connection.
func TestAViewHoldsNoConnectionWhileEventsAreNumbered(t *testing.T) {
	d := open(t, Options{Connections: 1})
	var runs atomic.Int32
	if err := d.Update(t.Context(), approval.OfAgent("bot"), appends("bot", &runs)); err != nil {
		t.Fatal(err)
	}
	if n := appended(t, d, "bot"); n != 1 {
		t.Errorf("%d events are found", n)
	}
}

// Whoever waits for a lock for too long is told that the store was busy, and not that it has a fault.
func TestALockThatIsHeldForTooLongIsToldAsSuch(t *testing.T) {
	at := database(t)
	d := open(t, Options{URL: at})
	holder := connect(t, at)
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, numbers); err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int32
	if err := d.Update(t.Context(), approval.OfAgent("bot"), appends("bot", &runs)); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for name, err := range map[string]error{
		"a view, for which events are numbered": d.View(short, func(tx approval.Tx) error {
			_, _, err := tx.SeqRange()
			return err
		}),
		"an update, after its last try": fault(&pgconn.PgError{Code: codeLockTimeout}),
	} {
		if approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := holder.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// An answer that does not come is not waited for for ever, also by those whose context does not end.
func TestAnAnswerThatDoesNotComeIsGivenUp(t *testing.T) {
	p := postgrestest.NewProxy(t, database(t))
	d := open(t, Options{URL: p.URL})
	p.Set(false, true, false)
	updated, viewed := make(chan error, 1), make(chan error, 1)
	go func() {
		updated <- d.Update(context.Background(), approval.OfAgent("bot"), func(approval.Tx) error { return nil })
	}()
	go func() {
		viewed <- d.View(context.Background(), func(tx approval.Tx) error {
			_, err := tx.CountPending("")
			return err
		})
	}()
	time.Sleep(300 * time.Millisecond) // real: both have asked by then, and the answers are lost
	p.Set(false, false, false)
	if err := testkit.Receive(t, "the update", updated); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, "the view", viewed); err != nil && approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Error(err)
	}
}
