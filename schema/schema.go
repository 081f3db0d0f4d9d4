// Package schema holds the tables of Countersign as numbered SQL migrations, embedded in the program,
// and brings a database up to date with them.
//
// A migration that was released is never changed; what comes later is a file with the next number. Each
// runs in a transaction of its own, so that a crash leaves the database at one version or the next. There
// is no way back: an SQLite database that a newer program has migrated is refused, untouched. On PostgreSQL, programs
// of two versions run side by side while one after another is replaced, so each migration leaves the tables such that
// the program before can work on them, or says that it does not (min_program): what is taken away goes one release
// after the last program that uses it.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed sqlite/*.sql postgres/*.sql
var migrations embed.FS

// ErrForeign is what [Migrate] returns for a database that has tables, but none of Countersign's.
var ErrForeign = errors.New("schema: the database belongs to another program")

// NewerError is what [Migrate] returns for a database that a newer program has migrated.
type NewerError struct {
	Have int64 // the database's version
	Want int64 // the newest that this program knows
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("schema: the database has version %d, newer than this program's %d", e.Have, e.Want)
}

// Version returns the version that [Migrate] brings a database to.
func Version() int64 { return newest("sqlite") }

// newest is the number of the newest migration in a folder.
func newest(folder string) (newest int64) {
	files, err := fs.Glob(migrations, folder+"/*.sql")
	if err != nil {
		panic("schema: " + err.Error()) // the pattern is a constant
	}
	for _, f := range files {
		number, _, _ := strings.Cut(path.Base(f), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic("schema: " + f + " has no number")
		}
		newest = max(newest, n)
	}
	return newest
}

// Migrate brings an SQLite database up to date and returns nil when it is. It changes nothing when it
// returns a [NewerError] or [ErrForeign]; after another error the database is at some version in
// between, and Migrate can be called again.
func Migrate(ctx context.Context, db *sql.DB) error {
	have, err := Have(ctx, db)
	if err != nil {
		return err
	}
	switch want := Version(); {
	case have == want:
		return nil
	case have > want:
		return &NewerError{Have: have, Want: want}
	}
	if have == 0 {
		// Only a file that has no table yet can be made one that shrinks without being written anew.
		if _, err := db.ExecContext(ctx, `PRAGMA auto_vacuum = INCREMENTAL`); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	files, err := fs.Sub(migrations, "sqlite")
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("schema: migrating from version %d: %w", have, err)
	}
	return nil
}

// Have returns the version of a database, 0 for an empty one, without writing to it.
func Have(ctx context.Context, db *sql.DB) (int64, error) {
	var tables, ours int
	err := db.QueryRowContext(ctx,
		`SELECT count(*), coalesce(sum(name = $1), 0) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`,
		goose.DefaultTablename).Scan(&tables, &ours)
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	switch {
	case tables == 0:
		return 0, nil
	case ours == 0:
		return 0, ErrForeign
	}
	var v sql.NullInt64
	if err := db.QueryRowContext(ctx,
		`SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&v); err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	if v.Int64 == 0 && tables > 1 {
		return 0, ErrForeign
	}
	return v.Int64, nil
}
