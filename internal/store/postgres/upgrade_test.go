//go:build postgres

package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/approval"
	"countersign/internal/testkit"
)

// expand does to the tables what a newer program may do while this one works on them.
const expand = `DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT quote_ident(tablename) FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'goose_db_version' LOOP
    EXECUTE 'ALTER TABLE ' || name || ' ADD COLUMN later_id text, ADD COLUMN later_count integer NOT NULL DEFAULT 7';
  END LOOP;
  CREATE TABLE later_table (id text PRIMARY KEY REFERENCES approval_requests (id));
  CREATE INDEX later_index ON approval_requests (later_id) WHERE later_id IS NOT NULL;
  INSERT INTO goose_db_version (version_id, is_applied) VALUES (9001, true);
END $$`

// expanded is a database as the program after this one leaves it, of which others are made.
var expanded = sync.OnceValues(func() (string, error) {
	from, err := empty()
	if err != nil {
		return "", err
	}
	at, err := server.Create(from)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	c, err := pgx.Connect(ctx, at)
	if err != nil {
		return "", err
	}
	_, err = c.Exec(ctx, expand)
	return c.Config().Database, errors.Join(err, c.Close(ctx))
})

// A program that a newer one has said to be too old, or whose rows were taken elsewhere, changes nothing any more, from
// that moment on.
func TestRule1_TablesThatAreShutAreNotWorkedOn(t *testing.T) {
	for name, c := range map[string]struct{ shut, says string }{
		"a newer program": {`UPDATE store_state SET min_program = 9001`, "run the newer version"},
		"moved to a file": {`UPDATE store_state SET moved_to = '/var/lib/countersign.db'`, "/var/lib/countersign.db"},
	} {
		t.Run(name, func(t *testing.T) {
			at := emptied(t)
			d := open(t, Options{URL: at})
			call := approval.AllowedCall{Agent: "a", Owner: "a", Tool: "t"}
			event := approval.Event{Type: approval.EventCallAllowed, Agent: "a", Tool: "t"}
			if !d.RecordAllowed(call, event) {
				t.Fatal("an allowed call was not recorded before")
			}
			execute(t, at, c.shut)
			ran := false
			err := d.Update(t.Context(), approval.OfAgent("a"), func(approval.Tx) error {
				ran = true
				return nil
			})
			if code := approval.CodeOf(err); ran || code != approval.CodeStoreUnavailable ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("ran %v, %v", ran, err)
			}
			if d.RecordAllowed(call, event) {
				t.Error("an allowed call was recorded")
			}
			if mine, err := d.ClaimBeat(t.Context(), "expire", time.Now()); mine || err != nil {
				t.Errorf("it runs the heartbeat: %v, %v", mine, err)
			}
			if _, err := Open(t.Context(), Options{URL: at}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("opened again: %v", err)
			}
		})
	}
}

// Where something else reads the tables for long while they are to be changed, as a dump does, the start waits for it
// and no program that runs waits for the start.
func TestNobodyWaitsForTablesThatAreToBeChanged(t *testing.T) {
	at := server.Database(t, "")
	open(t, Options{URL: at}).Close()
	execute(t, at, `DROP INDEX grant_uses_grant;
  ALTER TABLE approval_requests DROP COLUMN args_removed_at, DROP COLUMN args_bytes;
  ALTER TABLE replicas DROP COLUMN program;
  ALTER TABLE store_state DROP COLUMN moved_to, DROP COLUMN min_program, DROP COLUMN held_ms,
    DROP COLUMN held_since;
  DELETE FROM goose_db_version WHERE version_id >= 2`)
	dump := dial(t, at)
	query(t, dump, `BEGIN`)
	query(t, dump, `SELECT * FROM store_state`)
	opened := make(chan error, 1)
	go func() {
		d, err := Open(context.Background(), Options{URL: at})
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	runs := dial(t, at)
	waiting := func() (n int) {
		err := runs.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	testkit.Eventually(t, "the start waits for the dump", func() bool { return waiting() > 0 })
	query(t, runs, `SELECT * FROM store_state`) // when the start has given way
	query(t, dump, `COMMIT`)
	if err := testkit.Receive(t, "the start", opened); err != nil {
		t.Error(err)
	}
	query(t, runs, `SELECT min_program, moved_to, program FROM store_state, replicas`)
}

func dial(t *testing.T, at string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func query(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
