package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/safefile"
	"countersign/internal/store"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/schema"
)

// Leaving is a store whose rows are taken to a database of another kind. No gate runs on it meanwhile.
type Leaving struct {
	d  *DB
	db *sql.DB
	reader
}

// reader reads rows as those of a database of another kind.
type reader struct {
	from interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

// Count returns how many rows a table has.
func (r reader) Count(ctx context.Context, table string) (n int64, err error) {
	err = r.from.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
	return n, fault(sqlite3.FromDriver(err))
}

// Rows are those of a table. A row is valid until the next.
func (r reader) Rows(ctx context.Context, table string, columns []store.MovedColumn) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := r.from.QueryContext(ctx, store.MovedRows(table, columns))
		if err != nil {
			yield(nil, fault(sqlite3.FromDriver(err)))
			return
		}
		defer rows.Close()
		row, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		for rows.Next() {
			err := rows.Scan(to...)
			for i := range row {
				if text, ok := row[i].(string); ok && columns[i].Kind == store.Time && err == nil {
					row[i], err = time.Parse(sqlite3.TimeFormat, text)
				}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fault(sqlite3.FromDriver(err)))
		}
	}
}

// Leave opens a store, as [Open] does, to take its rows elsewhere.
func Leave(ctx context.Context, path string) (_ *Leaving, err error) {
	if err := checkThere(path); err != nil {
		return nil, err
	}
	d, err := Open(ctx, Options{Path: path})
	if err != nil {
		return nil, err
	}
	// What was put on record beside the database is in it then.
	if err := d.Update(ctx, approval.WholeStore(), nothing); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	db, err := openBeside(d.path, "query_only(1)")
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &Leaving{d, db, reader{db}}, nil
}

// checkThere fails where there is no store at path: to open one makes it.
func checkThere(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.Size() == 0:
		return unavailable(fmt.Sprintf("There is no store at %s.", path), err)
	case err != nil:
		return openFault(path, err)
	}
	return nil
}

// openBeside opens a database file with one connection, through the library's own driver. Not mode=ro: a store that no
// process has open may have a log to be read, for which SQLite makes a file beside it.
func openBeside(path string, pragmas ...string) (*sql.DB, error) {
	pragmas = append(pragmas, fmt.Sprintf("busy_timeout(%d)", backupPatience.Milliseconds()), "synchronous(FULL)",
		"foreign_keys(1)")
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: url.Values{
		"mode": {"rw"}, "_pragma": pragmas}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// State is what the store goes on from elsewhere, but for the ids.
func (l *Leaving) State(ctx context.Context) (s store.MovedState, err error) {
	var at string
	// Rows may be ahead of the state (stateFollows).
	err = l.db.QueryRowContext(ctx, `SELECT max(seq, coalesce((SELECT max(seq) FROM audit_events), 0)),
    max(at, coalesce((SELECT at FROM audit_events ORDER BY seq DESC LIMIT 1), '')),
    (SELECT coalesce(max(resolved_seq), 0) FROM approval_requests)
  FROM store_state`).Scan(&s.Seq, &at, &s.Endings)
	if s.Disorder = l.d.disorder; err == nil {
		s.At, err = time.Parse(sqlite3.TimeFormat, at)
	}
	return s, fault(sqlite3.FromDriver(err))
}

// Leave notes where the rows were taken to: no gate starts on the file any more.
func (l *Leaving) Leave(ctx context.Context, to string) error {
	return l.d.Update(ctx, approval.WholeStore(), func(x approval.Tx) error {
		t := x.(*tx)
		if err := t.MayWrite(); err != nil {
			return err
		}
		t.w.changes = true
		s := t.c.PrepareCached(`UPDATE store_state SET moved_to = $1`)
		s.BindText(to)
		_, err := s.Exec()
		return t.Fail(err)
	})
}

// Close gives the store up.
func (l *Leaving) Close() error { return errors.Join(l.db.Close(), l.d.Close()) }

// checkMoved fails for a store whose rows were taken elsewhere. Of one whose rows came from elsewhere it finds out in
// which order they may be.
func (d *DB) checkMoved(ctx context.Context, db *sql.DB) error {
	var to sql.NullString
	var ms int64
	err := db.QueryRowContext(ctx, `SELECT moved_to, disorder_ms FROM store_state`).Scan(&to, &ms)
	if d.disorder = time.Duration(ms) * time.Millisecond; err != nil || !to.Valid {
		return err
	}
	return unavailable(fmt.Sprintf("The store %s was moved to %s; set store: to that, and start again. To bring it back "+
		"to a file, name a new one to countersign migrate.", d.path, to.String), nil)
}

// Arriving is a file that is made of the rows of a database of another kind. It is there under its name when it is
// whole, or not at all.
type Arriving struct {
	path string
	part *os.File
	db   *sql.DB
	tx   *sql.Tx
	reader
}

// Arrive makes an empty store that is to have the name of path, where nothing may be.
func Arrive(ctx context.Context, path string) (_ *Arriving, err error) {
	if err := CheckFree(path); err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, openFault(path, err)
	}
	a := &Arriving{path: path}
	if a.part, err = makePart(filepath.Dir(path)); err != nil {
		return nil, openFault(path, err)
	}
	if a.db, err = openBeside(a.part.Name()); err == nil {
		err = schema.Migrate(ctx, a.db)
	}
	if err == nil {
		a.tx, err = a.db.BeginTx(context.WithoutCancel(ctx), nil) // it would be rolled back while it is committed
	}
	if err != nil {
		return nil, errors.Join(fault(sqlite3.FromDriver(err)), a.Close())
	}
	a.from = a.tx
	return a, nil
}

// CheckFree fails where there is a store at path, or what is left of one.
func CheckFree(path string) error {
	for _, suffix := range append([]string{""}, besideSuffixes...) {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return unavailable(fmt.Sprintf("There is something at %s already; name a new file.", path+suffix), err)
		}
	}
	return nil
}

// CountRows returns how many rows the store at path has in each table, and changes nothing.
func CountRows(ctx context.Context, path string) (_ map[string]int64, err error) {
	if err := checkThere(path); err != nil {
		return nil, err
	}
	given := path
	if path, err = realPath(given); err != nil {
		return nil, openFault(given, err)
	}
	d := &DB{path: path}
	if d.claim, err = takeClaim(path); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.claim.close()) }()
	if err := d.claim.checkLog(); err != nil {
		return nil, err
	}
	db, err := openBeside(path, "query_only(1)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	counts := map[string]int64{}
	for _, table := range append(store.MovedTables(), "store_state") {
		var there bool
		err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = $1`, table).Scan(&there)
		if err == nil && there { // an older program's may have fewer
			counts[table], err = reader{db}.Count(ctx, table)
		}
		if err != nil {
			return nil, fault(sqlite3.FromDriver(err))
		}
	}
	if counts["store_state"] == 0 {
		return nil, unavailable(fmt.Sprintf("%s is a database of another program; name the store.", path), nil)
	}
	var later bool
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM pragma_table_info('store_state') WHERE name = 'moved_to'`).
		Scan(&later)
	if err == nil && later {
		err = d.checkMoved(ctx, db)
	}
	return counts, fault(sqlite3.FromDriver(err))
}

// Put puts rows into a table.
func (a *Arriving) Put(ctx context.Context, table string, columns []store.MovedColumn,
	rows iter.Seq2[[]any, error]) error {
	params := make([]string, len(columns))
	for i := range params {
		params[i] = "$" + strconv.Itoa(i+1)
	}
	insert, err := a.tx.PrepareContext(ctx, "INSERT INTO "+table+" ("+strings.Join(store.MovedNames(columns), ", ")+
		") VALUES ("+strings.Join(params, ", ")+")")
	if err != nil {
		return fault(sqlite3.FromDriver(err))
	}
	defer insert.Close()
	for row, err := range rows {
		if err != nil {
			return err
		}
		row := append([]any(nil), row...)
		for i := range row {
			if at, ok := row[i].(time.Time); ok {
				row[i] = at.UTC().Format(sqlite3.TimeFormat)
			}
		}
		if _, err := insert.ExecContext(ctx, row...); err != nil {
			return fault(sqlite3.FromDriver(err))
		}
	}
	return nil
}

// Arrive goes on from a state, and gives the file its name. The gate takes it for a backup that was restored: the first
// that starts on it ends all that was open.
func (a *Arriving) Arrive(ctx context.Context, s store.MovedState) error {
	_, err := a.tx.ExecContext(ctx, `UPDATE store_state
  SET seq = $1, at = $2, last_id = coalesce(nullif($3, ''), last_id), endings = $4, disorder_ms = $5`,
		s.Seq, s.At.UTC().Format(sqlite3.TimeFormat), s.LastID, s.Endings, s.Disorder.Milliseconds())
	if err == nil {
		_, err = a.tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", copiedVersion))
	}
	if err == nil {
		err = a.tx.Commit()
	}
	if closeErr := a.db.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fault(sqlite3.FromDriver(err))
	}
	if err := a.part.Sync(); err != nil {
		return openFault(a.path, err)
	}
	if err := safefile.Name(a.part.Name(), a.path); err != nil {
		return openFault(a.path, err)
	}
	return safefile.SyncFolder(filepath.Dir(a.path))
}

// Close gives up what has not got its name.
func (a *Arriving) Close() error {
	var errs []error
	if a.tx != nil {
		if err := a.tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
			errs = append(errs, err)
		}
	}
	if a.db != nil {
		errs = append(errs, a.db.Close())
	}
	for _, left := range []string{a.part.Name(), a.part.Name() + "-journal"} {
		if err := os.Remove(left); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, a.part.Close())...)
}
