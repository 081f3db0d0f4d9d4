package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"countersign/internal/store"
	"countersign/schema"
)

// Move is a database whose rows are taken to a file, or that gets those of one, in one transaction. No program works on
// it meanwhile.
type Move struct {
	conn *pgx.Conn
	tx   pgx.Tx
	name string
}

// moved is the lineage of a store whose rows have just come from a file.
const moved = "moved"

// inFile is the runner of what the gate that had the file has sent on, and has no answer for: it is gone.
const inFile = "file"

// inbox is where events are that have no number yet.
const inbox = "audit_inbox"

// BeginMove connects to the database at a URL, brings its tables up to date, and holds the locks of all that write. It
// fails with [approval.CodeStoreUnavailable] where a program works on the database.
func BeginMove(ctx context.Context, url string) (_ *Move, err error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	m := &Move{name: nameOf(config.ConnConfig)}
	if m.conn, err = pgx.ConnectConfig(ctx, config.ConnConfig); err != nil {
		return nil, fault(err)
	}
	if err := m.begin(ctx); err != nil {
		return nil, errors.Join(fault(err), m.Close())
	}
	return m, nil
}

// nameOf is a database as it is told.
func nameOf(c *pgx.ConnConfig) string {
	if strings.HasPrefix(c.Host, "/") { // a socket
		return "postgres:///" + c.Database + "?host=" + c.Host
	}
	return "postgres://" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

func (m *Move) begin(ctx context.Context) (err error) {
	if m.tx, err = m.conn.Begin(ctx); err != nil {
		return err
	}
	if _, err := m.tx.Exec(ctx, `SELECT set_config('jit', 'off', true), set_config('statement_timeout', '0', true),
  set_config('lock_timeout', '5s', true), set_config('idle_in_transaction_session_timeout', '0', true)`); err != nil {
		return err
	}
	for _, lock := range []int64{everything, numbers} {
		if _, err := m.tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lock); err != nil {
			return err
		}
	}
	var there int
	err = m.tx.QueryRow(ctx, programsThere, awayAfter.Milliseconds()).Scan(&there)
	if err == nil && there > 0 {
		err = errProgramsThere(m.name)
	}
	for n := int64(atOnce); err == nil && n == atOnce; {
		tag, numberErr := m.tx.Exec(ctx, numberEvents, atOnce)
		n, err = tag.RowsAffected(), numberErr
	}
	return err
}

// programsThere counts the programs that work on a database, by when they have said so last.
const programsThere = `SELECT count(*) FROM replicas, store_state
  WHERE seen_at > clock_timestamp() + (ahead_ms - held_ms - $1) * interval '1 millisecond'`

func errProgramsThere(name string) error {
	return unavailable(fmt.Sprintf("A program of the gate works on %s, or was killed less than %v ago; stop it first.",
		name, awayAfter), nil)
}

// Name tells which database it is, without secrets.
func (m *Move) Name() string { return m.name }

// CheckEmpty fails with [approval.CodeStoreUnavailable] where the database has rows.
func (m *Move) CheckEmpty(ctx context.Context) error {
	for _, table := range append(store.MovedTables(), inbox) {
		var some bool
		if err := m.tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&some); err != nil {
			return fault(err)
		}
		if some {
			return ErrHasRows(table)
		}
	}
	return nil
}

// ErrHasRows says that a database is not empty.
func ErrHasRows(table string) error {
	return unavailable("The database has rows already, in "+table+"; make an empty one.", nil)
}

// Columns are those of a table, the same in every kind of database.
func (m *Move) Columns(ctx context.Context, table string) ([]store.MovedColumn, error) {
	rows, err := m.tx.Query(ctx, `SELECT attname, atttypid::regtype::text FROM pg_attribute
  WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table)
	if err != nil {
		return nil, fault(err)
	}
	var columns []store.MovedColumn
	var name, kind string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		c := store.MovedColumn{Name: name, Kind: store.Int}
		switch kind {
		case "text":
			c.Kind = store.Text
		case "bytea":
			c.Kind = store.Bytes
		case "timestamp with time zone":
			c.Kind = store.Time
		}
		columns = append(columns, c)
		return nil
	})
	return columns, fault(err)
}

// Count returns how many rows a table has.
func (m *Move) Count(ctx context.Context, table string) (n int64, err error) {
	err = m.tx.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n)
	return n, fault(err)
}

// Rows are those of a table. A row is valid until the next.
func (m *Move) Rows(ctx context.Context, table string, columns []store.MovedColumn) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := m.tx.Query(ctx, store.MovedRows(table, columns))
		if err != nil {
			yield(nil, fault(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			values, err := rows.Values()
			for i := range values {
				switch v := values[i].(type) {
				case string:
					values[i] = decode(v)
				case time.Time:
					values[i] = v.UTC()
				case int16:
					values[i] = int64(v)
				case int32:
					values[i] = int64(v)
				}
			}
			if !yield(values, fault(err)) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fault(err))
		}
	}
}

// Put puts rows into a table.
func (m *Move) Put(ctx context.Context, table string, columns []store.MovedColumn,
	rows iter.Seq2[[]any, error]) error {
	next, stop := iter.Pull2(rows)
	defer stop()
	source := pgx.CopyFromFunc(func() ([]any, error) {
		row, err, ok := next()
		if !ok || err != nil {
			return nil, err
		}
		row = slices.Clone(row)
		for i := range row {
			if text, ok := row[i].(string); ok {
				row[i] = encode(text)
			}
		}
		return row, nil
	})
	_, err := m.tx.CopyFrom(ctx, pgx.Identifier{table}, store.MovedNames(columns), source)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(e.Code, classConstraint) {
		return unavailable(fmt.Sprintf("A row of %s does not fit: %s.", table, e.Message), err)
	}
	return fault(err)
}

// State is what the store goes on from elsewhere, but for the ids.
func (m *Move) State(ctx context.Context) (s store.MovedState, err error) {
	s.Disorder = disorder
	// at is written each second; what was committed may be later.
	err = m.tx.QueryRow(ctx, `SELECT seq, greatest(at, (SELECT max(at) FROM audit_events)),
    (SELECT coalesce(max(resolved_seq), 0) FROM approval_requests)
  FROM store_state`).Scan(&s.Seq, &s.At, &s.Endings)
	return s, fault(err)
}

// Arrive goes on from a state, and commits. The first program on the database ends all that was open.
func (m *Move) Arrive(ctx context.Context, s store.MovedState) error {
	_, err := m.tx.Exec(ctx, `UPDATE store_state SET seq = $1, at = greatest(at, $2), lineage = $3`, s.Seq, s.At, moved)
	for _, table := range []string{"approval_requests", "grant_uses"} {
		if err == nil {
			_, err = m.tx.Exec(ctx, "UPDATE "+table+" SET runner = $1 WHERE dispatched_at IS NOT NULL AND outcome IS NULL "+
				"AND runner IS NULL", inFile)
		}
	}
	if err == nil && s.Endings > 0 {
		_, err = m.tx.Exec(ctx, `SELECT setval('request_endings', $1)`, s.Endings)
	}
	if err == nil {
		err = m.tx.Commit(ctx)
	}
	return fault(err)
}

// Leave notes where the rows were taken to, and commits: no program works on the database any more.
func (m *Move) Leave(ctx context.Context, to string) error {
	_, err := m.tx.Exec(ctx, `UPDATE store_state SET moved_to = $1`, encode(to))
	if err == nil {
		err = m.tx.Commit(ctx)
	}
	return fault(err)
}

// Close gives the database up; what was not committed is undone.
func (m *Move) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return m.conn.Close(ctx)
}

// CountRows returns how many rows a database has in each table, and changes nothing. It fails where [BeginMove] would.
func CountRows(ctx context.Context, url string) (_ map[string]int64, err error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config.ConnConfig)
	defer func() { err = errors.Join(err, db.Close()) }()
	counts := map[string]int64{}
	err = checkUsable(ctx, db)
	if err == nil {
		err = schema.CheckPostgres(ctx, db)
	}
	for _, table := range append(store.MovedTables(), inbox, "replicas") {
		var there bool
		if err == nil {
			err = db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there)
		}
		if n := int64(0); err == nil && there { // an older program's may have fewer
			err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
			counts[table] = n
		}
	}
	if _, there := counts["replicas"]; err == nil && there {
		err = checkFree(ctx, db, nameOf(config.ConnConfig))
	}
	counts[store.EventTable] += counts[inbox]
	return counts, fault(foreign(err))
}

// checkFree looks at what keeps the rows of a database from being taken elsewhere, or others from coming to it.
func checkFree(ctx context.Context, db *sql.DB, name string) error {
	var knows bool // an older program's does not
	err := db.QueryRowContext(ctx, `SELECT to_jsonb(s) ? 'moved_to' FROM store_state AS s`).Scan(&knows)
	if err == nil && knows {
		err = checkShut(ctx, db)
	}
	var there int
	if err == nil {
		err = db.QueryRowContext(ctx, programsThere, awayAfter.Milliseconds()).Scan(&there)
	}
	if err == nil && there > 0 {
		err = errProgramsThere(name)
	}
	return err
}
