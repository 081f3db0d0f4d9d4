package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"countersign/internal/store/sqlite/sqlite3"
)

// Contents says what a copy holds.
type Contents struct {
	At       time.Time `json:"at"` // its own time: nothing in it is later
	Requests int64     `json:"requests"`
	Events   int64     `json:"events"` // of the audit log

	life   string
	newest int64 // seq of an event
}

// notWhole is what is wrong with a copy.
type notWhole struct{ what string }

func (e *notWhole) Error() string { return "the copy is not whole: " + e.what }

// asNotWhole is what an error says of a copy, where it is that SQLite finds it damaged.
func asNotWhole(err error) error {
	e, ok := errors.AsType[*sqlite3.Error](sqlite3.FromDriver(err))
	if ok && (e.Code.Primary() == sqlite3.CodeCorrupt || e.Code.Primary() == sqlite3.CodeNotADB) {
		return &notWhole{"the database is damaged"}
	}
	return err
}

// checkCopy looks at all of a copy: pages, indexes, rows beside the constraints of their tables, among them which
// states a request can be in, and references. It fails where any is not as it must be.
func checkCopy(ctx context.Context, path string) (err error) {
	db, err := openBeside(path, "query_only(1)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return checkRows(ctx, db)
}

func checkRows(ctx context.Context, db *sql.DB) error {
	var found string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&found); err != nil {
		return fault(sqlite3.FromDriver(err))
	}
	if found != "ok" {
		return &notWhole{found}
	}
	var table, parent string
	switch err := db.QueryRowContext(ctx, `SELECT "table", parent FROM pragma_foreign_key_check LIMIT 1`).Scan(&table,
		&parent); {
	case err == nil:
		return &notWhole{fmt.Sprintf("a row of %s belongs to one of %s that is not there", table, parent)}
	case !errors.Is(err, sql.ErrNoRows):
		return fault(sqlite3.FromDriver(err))
	}
	var states int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM store_state`).Scan(&states); err != nil {
		return fault(sqlite3.FromDriver(err))
	}
	if states != 1 {
		return &notWhole{"it does not say how far it had come (store_state)"}
	}
	return nil
}

// readContents reads what a store of today's tables holds.
func readContents(ctx context.Context, db *sql.DB) (a Contents, err error) {
	var at string
	// Rows may be ahead of the state (stateFollows).
	err = db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM approval_requests),
    (SELECT count(*) FROM audit_events),
    max(at, coalesce((SELECT at FROM audit_events ORDER BY seq DESC LIMIT 1), '')),
    coalesce((SELECT max(seq) FROM audit_events), 0), life
  FROM store_state`).Scan(&a.Requests, &a.Events, &at, &a.newest, &a.life)
	if err != nil {
		return a, fault(sqlite3.FromDriver(err))
	}
	a.At, err = time.Parse(sqlite3.TimeFormat, at)
	return a, err
}
