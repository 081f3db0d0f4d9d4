//go:build postgres

package move_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/approval"
	"countersign/internal/store"
	"countersign/internal/store/move"
	"countersign/internal/store/postgres"
	"countersign/internal/store/postgres/postgrestest"
	"countersign/internal/store/sqlite"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

var server *postgrestest.Server

func TestMain(m *testing.M) { os.Exit(runWithServer(m)) }

func runWithServer(m *testing.M) int {
	var err error
	if server, err = postgrestest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// hostile is a text with all that a database can choke on, as SQLite writes it.
const hostile = `'a' || char(0) || char(1) || '41' || CAST(x'ff' AS TEXT) || '日本' || char(10) || '\N "''' || char(9)`

// rest are rows of the tables that a large store has none in, and odd ones of the others.
var rest = []string{
	`INSERT INTO policies VALUES ('d1', 'mode: enforce')`,
	`INSERT INTO request_sessions SELECT id, ` + hostile + `, requested_at FROM approval_requests LIMIT 3`,
	`INSERT INTO reminded SELECT approval_id, id, created_at FROM approval_notifications LIMIT 3`,
	`INSERT INTO addresses VALUES ('line', 'U1', 1, '2026-11-01T00:00:00.007Z')`,
	`INSERT INTO cards VALUES ('01KAFHZX3T9W8Y7B6A5D4C3E20', 'a', '', '', '', 'turn', 'high', '2026-11-01T00:00:00.000Z', '2026-11-01T00:00:01.000Z', '2026-11-01T00:00:02.000Z', '[]', 3)`,
	`INSERT INTO delegations (id, delegator, delegate, from_at, until_at, created_at, created_by) VALUES ('01KAFHZX3T9W8Y7B6A5D4C3E21', 'hana', 'ken', '2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z', '2026-11-01T00:00:00.000Z', 'hana')`,
	`INSERT INTO epochs VALUES ('bot', '01KAFHZX3T9W8Y7B6A5D4C3E22', 1, '2026-11-01T00:00:00.000Z', 'hana', 'cli', ` + hostile + `)`,
	`INSERT INTO grants (id, deny, agent, scope, server, tool_name, args_hash, request, risk_level, tool_seen, made_by, via, made_at, expires_at, uses, used, unknown, args) VALUES ('01KAFHZX3T9W8Y7B6A5D4C3E23', 0, 'a', '', '', 't', '` + strings.Repeat("a", 64) + `', '', 'low', 0, 'hana', 'cli', '2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z', 3, 1, 0, ` + hostile + `)`,
	`INSERT INTO grant_uses (id, grant_id, args_hash, at) VALUES ('01KAFHZX3T9W8Y7B6A5D4C3E24', '01KAFHZX3T9W8Y7B6A5D4C3E23', 'x', '2026-11-01T00:00:00.000Z')`,
	`INSERT INTO said VALUES ('a', '', 't', 'r', 1, 'hana', '2026-11-01T00:00:00.000Z', NULL)`,
	`INSERT INTO recent_endings (agent, scope, server, tool_name, args_hash, method, newest) VALUES ('a', '', '', 't', 'h', '', '2026-11-01T00:00:00.000Z')`,
	`INSERT INTO tool_pins (agent, server, tool_name, digest, seen_at) VALUES ('a', '', 't', '` + strings.Repeat("b", 64) + `', '2026-11-01T00:00:00.000Z')`,
	`INSERT INTO webhook_events VALUES ('zz-of-a-platform', '2026-11-01T00:00:00.000Z')`,
	`INSERT INTO signin_links (digest, id, person, via, made_on, made_at, expires_at) VALUES ('` + strings.Repeat("c", 64) + `', '01KAFHZX3T9W8Y7B6A5D4C3E25', 'hana', 'cli', 'a machine', '2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z')`,
	`INSERT INTO signin_sessions (digest, id, person, method, origin, user_agent, created_at, seen_at, expires_at) VALUES ('` + strings.Repeat("d", 64) + `', '01KAFHZX3T9W8Y7B6A5D4C3E26', 'hana', 'link', '', ` + hostile + `, '2026-11-01T00:00:00.000Z', '2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z')`,
	`INSERT INTO passkey_owners VALUES ('hana', '` + strings.Repeat("h", 86) + `')`,
	`INSERT INTO passkeys (id, credential, person, name, public_key, rp_id, aaguid, transports, added_at, sign_count, backup_eligible, backed_up) VALUES ('01KAFHZX3T9W8Y7B6A5D4C3E27', 'cred', 'hana', 'phone', 'key', 'gate.example.com', '', '', '2026-11-01T00:00:00.000Z', 4294967296, 1, 0)`,
	`UPDATE approval_requests SET tool_args = ` + hostile + `, human_message = '' WHERE id = (SELECT max(id) FROM approval_requests)`,
	`UPDATE approval_notifications SET body = x'00ff01', receipt = ` + hostile + ` WHERE id = (SELECT max(id) FROM approval_notifications)`,
	`INSERT INTO audit_events (seq, id, at, event_type, data) SELECT seq + 1, '01KAFHZX3T9W8Y7B6A5D4C3E28', at, 'call_allowed', ` + hostile + ` FROM audit_events ORDER BY seq DESC LIMIT 1`,
}

// written writes the file of a store with rows in each table.
func written(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate.db")
	schematest.WriteLarge(t, path, 60, time.Now())
	execute(t, path, rest...)
	if err := open(t, path); err != nil { // as a gate leaves it
		t.Fatal(err)
	}
	return path
}

func connect(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

func execute(t *testing.T, path string, statements ...string) {
	t.Helper()
	db := connect(t, path)
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%v\nin %s", err, s)
		}
	}
}

// dump is all rows of a file, by table, with the types and bytes of their values.
func dump(t *testing.T, path string) map[string][]string {
	t.Helper()
	db := connect(t, path)
	defer db.Close()
	column := func(query string) (all []string) {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatalf("%v\nin %s", err, query)
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		return all
	}
	all := map[string][]string{}
	for _, table := range store.MovedTables() {
		var values []string
		for _, name := range column("SELECT name FROM pragma_table_info('" + table + "')") {
			values = append(values, fmt.Sprintf("'%s ' || typeof(%s) || ' ' || coalesce(hex(%s), '')", name, name, name))
		}
		all[table] = column("SELECT " + strings.Join(values, " || ', ' || ") + " FROM " + table + " ORDER BY 1")
	}
	all["store_state"] = column("SELECT seq || ' ' || at || ' ' || last_id || ' ' || endings FROM store_state")
	return all
}

func run(t *testing.T, from, to string) move.Moved {
	t.Helper()
	m, err := way(t, from, to).Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func way(t *testing.T, from, to string) move.Way {
	t.Helper()
	w, err := move.Parse(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// fails wants an error that says something.
func fails(t *testing.T, says string, err error) {
	t.Helper()
	if approval.CodeOf(err) != approval.CodeStoreUnavailable || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want it to say %q", err, says)
	}
}

// All tables of both kinds of databases are known: what one has beside them is of its engine.
func TestAllTablesAreKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.db")
	schematest.WriteFile(t, path)
	db := connect(t, path)
	defer db.Close()
	var ofFile []string
	rows, err := db.QueryContext(t.Context(), `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		ofFile = append(ofFile, name)
	}
	ofServer := query[[]string](t, opened(t), `SELECT array_agg(tablename::text) FROM pg_tables WHERE schemaname = 'public'`)
	own := func(tables []string) []string {
		tables = slices.DeleteFunc(tables, func(name string) bool { return slices.Contains(store.MovedTables(), name) })
		slices.Sort(tables)
		return tables
	}
	if got, want := own(ofFile), []string{"goose_db_version", "store_state"}; !slices.Equal(got, want) {
		t.Errorf("a file has %v beside them", got)
	}
	if got, want := own(ofServer), []string{"audit_inbox", "beats", "budget_use", "channel_state", "configs",
		"goose_db_version", "replicas", "store_state", "taken_once"}; !slices.Equal(got, want) {
		t.Errorf("a server has %v beside them", got)
	}
}

// opened is a database with empty tables.
func opened(t *testing.T) (at string) {
	t.Helper()
	at = server.Database(t, "")
	d, err := postgres.Open(t.Context(), postgres.Options{URL: at})
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func query[T any](t *testing.T, at, statement string) (v T) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), statement).Scan(&v); err != nil {
		t.Fatalf("%v\nin %s", err, statement)
	}
	return v
}

// What is taken to a server and back is the same, to the byte; and neither is worked on where it was.
func TestRowsGoThereAndBack(t *testing.T) {
	path := written(t)
	was := dump(t, path)
	at := server.Database(t, "")
	there := run(t, "sqlite:"+path, at)
	for _, one := range there.Tables {
		if int(one.Rows) != len(was[one.Name]) || one.Rows == 0 {
			t.Errorf("%s: %d rows, want %d", one.Name, one.Rows, len(was[one.Name]))
		}
	}
	back := filepath.Join(t.TempDir(), "back.db")
	again := run(t, at, "sqlite:"+back)
	if again.Audit != there.Audit || len(again.Audit) != 64 || again.Rows() != there.Rows() {
		t.Errorf("%+v there, %+v back", there, again)
	}
	is := dump(t, back)
	for table, rows := range was {
		if table != "store_state" && !slices.Equal(rows, is[table]) {
			t.Errorf("%s: %d rows, were %d", table, len(is[table]), len(rows))
			for i := range min(len(rows), len(is[table])) {
				if is[table][i] != rows[i] {
					t.Errorf("%s\nwas %s", is[table][i], rows[i])
					break
				}
			}
		}
	}
	newest := slices.Max(slices.Concat(idsOf(was["approval_requests"]), idsOf(was["audit_events"]), idsOf(was["cards"])))
	state := strings.Fields(is["store_state"][0])
	before := strings.Fields(was["store_state"][0])
	if state[0] != before[0] || state[1] < before[1] || state[2] < newest {
		t.Errorf("goes on from %v, was at %v with the id %s", state, before, newest)
	}

	fails(t, "was moved to postgres://127.0.0.1:", open(t, path))
	_, err := way(t, "sqlite:"+path, opened(t)).Run(t.Context(), nil)
	fails(t, "was moved to postgres://127.0.0.1:", err)
	_, err = way(t, "sqlite:"+path, opened(t)).Count(t.Context())
	fails(t, "was moved to postgres://127.0.0.1:", err)
	_, err = postgres.Open(t.Context(), postgres.Options{URL: at})
	fails(t, "was moved from this database to "+back, err)
	_, err = way(t, at, "sqlite:"+back+".2").Run(t.Context(), nil)
	fails(t, "was moved from this database to "+back, err)
	_, err = way(t, at, "sqlite:"+back+".2").Count(t.Context())
	fails(t, "was moved from this database to "+back, err)

	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: back})
	if err != nil {
		t.Fatal(err)
	}
	if !d.WasRestored() {
		t.Error("what was open on the server goes on in the file")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// idsOf are the ids of dumped rows.
func idsOf(rows []string) (ids []string) {
	for _, row := range rows {
		_, id, _ := strings.Cut(row, "id text ")
		var b []byte
		if _, err := fmt.Sscanf(id[:52], "%x", &b); err == nil {
			ids = append(ids, string(b))
		}
	}
	return ids
}

// open opens a file and closes it.
func open(t *testing.T, path string) error {
	t.Helper()
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err == nil {
		err = d.Close()
	}
	return err
}

// The first program where the rows are goes on from where they were, after it has ended what was open.
func TestAServerGoesOnFromWhereTheFileWas(t *testing.T) {
	path, at := written(t), server.Database(t, "")
	before := dump(t, path)
	execute(t, path, `UPDATE store_state SET seq = seq - 3`) // rows may be ahead of it
	run(t, "sqlite:"+path, at)
	arrived := 0
	d, err := postgres.Open(t.Context(), postgres.Options{URL: at,
		Restored: func(context.Context, approval.Tx) error {
			t.Error("it was taken for a failover")
			return nil
		},
		Arrived: func(_ context.Context, tx approval.Tx) error {
			arrived++
			_, err := tx.Append(approval.Event{Type: approval.EventFrozen})
			return err
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 {
		err := d.Update(t.Context(), approval.OfAgent("a"), func(tx approval.Tx) error {
			_, err := tx.Append(approval.Event{Type: approval.EventCallAllowed, Agent: "a"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the events have numbers", func() bool {
		return query[int](t, at, `SELECT count(*) FROM audit_inbox`) == 0
	})
	seqs := query[[]int64](t, at, `SELECT array_agg(seq ORDER BY seq) FROM (SELECT seq FROM audit_events
  ORDER BY seq DESC LIMIT 3) AS newest`)
	var seq int64
	if _, err := fmt.Sscan(before["store_state"][0], &seq); err != nil {
		t.Fatal(err)
	}
	if want := []int64{seq + 1, seq + 2, seq + 3}; arrived != 1 || !slices.Equal(seqs, want) {
		t.Errorf("ended %d times, with the numbers %v, want %v", arrived, seqs, want)
	}
	if next, was := query[int64](t, at, `SELECT nextval('request_endings')`),
		query[int64](t, at, `SELECT max(resolved_seq) FROM approval_requests`); next <= was {
		t.Errorf("the next ending is %d, after %d", next, was)
	}
}

// A server may give a later number to an event of an earlier time: in a file they are found all the same.
func TestEventsAreFoundWhateverTheirOrder(t *testing.T) {
	at, path := opened(t), filepath.Join(t.TempDir(), "gate.db")
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for seq := range 40 {
		when := begin.Add(time.Duration(seq) * time.Second)
		if seq%2 == 0 {
			when = when.Add(15 * time.Second)
		}
		query[int64](t, at, fmt.Sprintf(`INSERT INTO audit_events (seq, id, at, event_type) VALUES
  (%d, '01KAFHZX3T9W8Y7B6A5D4C3E%02d', '%s', 'frozen') RETURNING seq`, seq+1, seq, when.Format(time.RFC3339)))
	}
	query[int64](t, at, `UPDATE store_state SET seq = 40 RETURNING seq`)
	run(t, at, "sqlite:"+path)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.View(t.Context(), func(tx approval.Tx) error {
		all, err := tx.Events(approval.EventQuery{Limit: 100})
		if err != nil || len(all) != 40 {
			t.Fatalf("%d events, %v", len(all), err)
		}
		for _, e := range all {
			since, err := tx.Events(approval.EventQuery{Since: e.At, Until: e.At.Add(time.Millisecond), Limit: 100})
			if err != nil || !slices.ContainsFunc(since, func(is approval.Event) bool { return is.Seq == e.Seq }) {
				t.Errorf("event %d is not found at its time: %v, %v", e.Seq, since, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// What the gate that had the file has sent on, and nobody has an answer for, is of a program that is gone.
func TestWhatWasSentOnFromTheFileIsNobodys(t *testing.T) {
	path, at := written(t), server.Database(t, "")
	execute(t, path, `UPDATE grant_uses SET dispatched_at = at`)
	run(t, "sqlite:"+path, at)
	d, err := postgres.Open(t.Context(), postgres.Options{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if runner := query[string](t, at, `SELECT runner FROM grant_uses`); runner != "file" {
		t.Errorf("it is %q's", runner)
	}
}

// A file that somebody has written to, in which something is missing, is told with the table.
func TestWhatDoesNotFitIsSaid(t *testing.T) {
	path, at := written(t), server.Database(t, "")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `DELETE FROM grants`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	fails(t, "A row of grant_uses does not fit: ", running(way(t, "sqlite:"+path, at))(t.Context()))
}

// Nothing is moved while a gate runs on either store, or where there are rows already; and what is cut off is undone.
func TestWhatCannotBeMovedIsAsItWas(t *testing.T) {
	path := written(t)
	was := dump(t, path)
	t.Run("a gate runs on the file", func(t *testing.T) {
		d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, try := range []func(context.Context) error{running(way(t, "sqlite:"+path, opened(t))),
			counting(way(t, "sqlite:"+path, opened(t)))} {
			fails(t, "is in use by process", try(t.Context()))
		}
	})
	t.Run("a program works on the database", func(t *testing.T) {
		at := server.Database(t, "")
		d, err := postgres.Open(t.Context(), postgres.Options{URL: at})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, w := range []move.Way{way(t, "sqlite:"+path, at),
			way(t, at, "sqlite:"+filepath.Join(t.TempDir(), "new.db"))} {
			fails(t, "A program of the gate works on postgres://", running(w)(t.Context()))
			fails(t, "A program of the gate works on postgres://", counting(w)(t.Context()))
		}
	})
	t.Run("the database is another program's", func(t *testing.T) {
		at := server.Database(t, "")
		c, err := pgx.Connect(t.Context(), at)
		if err == nil {
			_, err = c.Exec(t.Context(), `CREATE TABLE invoices (id integer)`)
			err = errors.Join(err, c.Close(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
		fails(t, "is another program's", running(way(t, "sqlite:"+path, at))(t.Context()))
		fails(t, "is another program's", counting(way(t, "sqlite:"+path, at))(t.Context()))
	})
	t.Run("a newer program has changed the tables", func(t *testing.T) {
		at := opened(t)
		query[int](t, at, `UPDATE store_state SET min_program = 9001 RETURNING 1`)
		fails(t, "run the newer version", running(way(t, "sqlite:"+path, at))(t.Context()))
		fails(t, "run the newer version", counting(way(t, "sqlite:"+path, at))(t.Context()))
	})
	t.Run("there are rows", func(t *testing.T) {
		at := opened(t)
		query[string](t, at, `INSERT INTO policies VALUES ('d', 's') RETURNING digest`)
		fails(t, "has rows already, in policies", running(way(t, "sqlite:"+path, at))(t.Context()))
		fails(t, "has rows already, in policies", counting(way(t, "sqlite:"+path, at))(t.Context()))
	})
	t.Run("there is a file", func(t *testing.T) {
		at := opened(t)
		fails(t, "There is something at "+path, running(way(t, at, "sqlite:"+path))(t.Context()))
		fails(t, "There is something at "+path, counting(way(t, at, "sqlite:"+path))(t.Context()))
		fails(t, "There is no store at", running(way(t, "sqlite:"+path+".none", at))(t.Context()))
		fails(t, "There is no store at", counting(way(t, "sqlite:"+path+".none", at))(t.Context()))
	})
	t.Run("it is cut off", func(t *testing.T) {
		for _, table := range []string{"policies", "approval_notifications", store.EventTable} {
			at := server.Database(t, "")
			ctx, cancel := context.WithCancel(t.Context())
			_, err := way(t, "sqlite:"+path, at).Run(ctx, func(of string, _, _ int64) {
				if of == table {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", table, err)
			}
			for _, of := range store.MovedTables() {
				if n := query[int](t, at, "SELECT count(*) FROM "+of); n > 0 {
					t.Errorf("%s: %d rows of %s are left", table, n, of)
				}
			}
		}
	})
	if is := dump(t, path); !slices.Equal(is["audit_events"], was["audit_events"]) {
		t.Error("the file is another one than it was")
	}
	if err := open(t, path); err != nil {
		t.Error(err)
	}
}

// A way back that is cut off leaves no file, and the database to the programs.
func TestAWayBackThatIsCutOffLeavesNothing(t *testing.T) {
	path, at := written(t), server.Database(t, "")
	run(t, "sqlite:"+path, at)
	dir := t.TempDir()
	for _, table := range []string{"policies", store.EventTable} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := way(t, at, "sqlite:"+filepath.Join(dir, "back.db")).Run(ctx, func(of string, _, _ int64) {
			if of == table {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", table, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", table, left, err)
		}
	}
	d, err := postgres.Open(t.Context(), postgres.Options{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func running(w move.Way) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := w.Run(ctx, nil)
		return err
	}
}

func counting(w move.Way) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := w.Count(ctx)
		return err
	}
}

// A count tells what a move would, and changes nothing.
func TestACountIsThatOfTheMove(t *testing.T) {
	path, at := written(t), server.Database(t, "")
	w := way(t, "sqlite:"+path, at)
	counted, err := w.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, at, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`); n > 0 {
		t.Errorf("%d tables were made", n)
	}
	moved := run(t, "sqlite:"+path, at)
	if !slices.Equal(counted.Tables, moved.Tables) {
		t.Errorf("counted %v, moved %v", counted.Tables, moved.Tables)
	}
	back, err := way(t, at, "sqlite:"+path+".back").Count(t.Context())
	if err != nil || !slices.Equal(back.Tables, moved.Tables) {
		t.Errorf("counted %v, %v", back.Tables, err)
	}
}

func TestParseQuotesNoPassword(t *testing.T) {
	for _, c := range [][2]string{{"sqlite:a", "sqlite:b"}, {"postgres://u:secret-word@h/d", "postgres://h/d"},
		{"a.db", "postgres://u:secret-word@h/d"}, {"sqlite:", "postgres://u:secret-word@h/d"}, {"", ""}} {
		if _, err := move.Parse(c[0], c[1]); err == nil || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%q: %v", c, err)
		}
	}
	w, err := move.Parse("sqlite:"+written(t), "postgres://u:secret word%@h/d")
	if err == nil {
		_, err = w.Run(t.Context(), nil)
	}
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
