//go:build postgres

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/approval"
	"countersign/internal/store/postgres/postgrestest"
	"countersign/internal/store/storetest"
	"countersign/internal/testkit"
)

var server *postgrestest.Server

func TestMain(m *testing.M) { os.Exit(runWithServer(m)) }

// runWithServer runs the tests with a server, and returns the exit code.
func runWithServer(m *testing.M) (code int) {
	s, err := postgrestest.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server = s
	code = m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// empty is the name of a database with empty tables, of which others are made: that takes less time than to make them.
var empty = sync.OnceValues(func() (string, error) {
	name, url, err := server.Template()
	if err != nil {
		return "", err
	}
	d, err := Open(context.Background(), Options{URL: url})
	if err != nil {
		return "", err
	}
	// Another database is made of it, which is not the same.
	_, err = d.pool.Exec(context.Background(), `UPDATE store_state SET lineage = NULL`)
	return name, errors.Join(err, d.Close())
})

// database makes a database with empty tables.
func database(t testing.TB) (url string) {
	t.Helper()
	name, err := empty()
	if err != nil {
		t.Fatal(err)
	}
	return server.Database(t, name)
}

// used are databases whose test has ended, by what they were made of: to empty one takes less time than to make one.
var used = struct {
	mu   sync.Mutex
	urls map[string][]string
}{urls: map[string][]string{}}

// emptyAll empties all tables, whatever refers to what, and begins all counts anew.
const emptyAll = `DO $$
DECLARE name text;
BEGIN
  SET LOCAL session_replication_role = replica;
  FOR name IN SELECT quote_ident(tablename) FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'goose_db_version' LOOP
    EXECUTE 'DELETE FROM ' || name;
  END LOOP;
  INSERT INTO store_state (one) VALUES (1);
  ALTER SEQUENCE request_endings RESTART;
  ALTER TABLE audit_inbox ALTER COLUMN seq RESTART;
END $$`

// emptied returns a database with empty tables, which another test may have had.
func emptied(t testing.TB) (at string) {
	t.Helper()
	return emptiedOf(t, empty)
}

// emptiedOf is emptied for a database that is made of another.
func emptiedOf(t testing.TB, template func() (string, error)) (at string) {
	t.Helper()
	name, err := template()
	if err != nil {
		t.Fatal(err)
	}
	used.mu.Lock()
	if n := len(used.urls[name]); n > 0 {
		at, used.urls[name] = used.urls[name][n-1], used.urls[name][:n-1]
	}
	used.mu.Unlock()
	if at == "" {
		if at, err = server.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		c, err := pgx.Connect(ctx, at)
		if err == nil {
			_, err = c.Exec(ctx, emptyAll)
			err = errors.Join(err, c.Close(ctx))
		}
		if err != nil {
			t.Error(err)
			return
		}
		used.mu.Lock()
		defer used.mu.Unlock()
		used.urls[name] = append(used.urls[name], at)
	})
	return at
}

func open(t testing.TB, o Options) *DB {
	t.Helper()
	if o.URL == "" {
		o.URL = emptied(t)
	}
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	d, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// The contract, on tables that the next program has changed: while programs are replaced one after another, this one
// works on them. The other tests have its own.
func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, Options{URL: emptiedOf(t, expanded)}) })
}

// execute runs a statement in a database.
func execute(t testing.TB, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFleet(t *testing.T) {
	storetest.RunFleet(t, func(t *testing.T) []storetest.Store {
		url := emptied(t)
		var stores []storetest.Store
		for range 3 {
			stores = append(stores, open(t, Options{URL: url}))
		}
		return stores
	})
}

// What a client calls its session, or another call's turn, hides no call from whoever looks for a session's.
func TestCallsOfASessionAreFoundWhateverItsName(t *testing.T) {
	d := open(t, Options{})
	sessions := []string{"plain", "zero\x00", "one\x01", `back\slash\u0000`, `\\u0001`, "two\x00\x00\x01",
		`"quoted"`, "東京", "<&>"}
	if err := d.Update(t.Context(), approval.OfNothing(), func(tx approval.Tx) error {
		for _, session := range sessions {
			if _, err := tx.Append(approval.Event{Type: approval.EventCallAllowed, Agent: "bot",
				Data: approval.EventData(map[string]string{"session_id": session, "turn_id": "a\x00"})}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, session := range sessions {
		if err := d.View(t.Context(), func(tx approval.Tx) error {
			es, err := tx.Events(approval.EventQuery{SessionID: session})
			if err == nil && len(es) != 1 {
				t.Errorf("%q has %d calls", session, len(es))
			}
			return err
		}); err != nil {
			t.Errorf("%q: %v", session, err)
		}
	}
}
