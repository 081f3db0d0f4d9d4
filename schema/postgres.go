package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// VersionPostgres returns the version that [MigratePostgres] brings a database to. It also says how old a program is.
func VersionPostgres() int64 { return newest("postgres") }

// MigratePostgres is [Migrate] for a PostgreSQL database, whichever of several programs calls it at once: one of them
// changes the tables, and the others wait for that. A database of a newer program is no error: store_state.min_program
// says whether this one can work on it.
func MigratePostgres(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "postgres")
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	turn, err := takeTurn(ctx, db)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	defer turn.Rollback() //nolint:errcheck // it has changed nothing
	if err := CheckPostgres(ctx, db); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

const (
	// turnEvery is how often a program looks that waits for another one that changes the tables. It holds no connection
	// meanwhile: a pooler may have few.
	turnEvery = 250 * time.Millisecond
	// turnLooks is how many times it looks, in five minutes.
	turnLooks = int(5 * time.Minute / turnEvery)
)

// takeTurn begins a transaction that holds goose's lock until its end. goose's own locker locks for a session, and a
// pooler in transaction mode may have each statement in another one.
func takeTurn(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	for range turnLooks {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		var taken bool
		if err := tx.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock($1)
  FROM set_config('idle_in_transaction_session_timeout', '0', true)`, lock.DefaultLockID).Scan(&taken); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
		if taken {
			return tx, nil
		}
		if err := tx.Rollback(); err != nil {
			return nil, err
		}
		select {
		case <-time.After(turnEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errors.New("another program has been changing the tables for five minutes")
}

// CheckPostgres returns [ErrForeign] where the schema that tables are made in has some, but none of Countersign's.
func CheckPostgres(ctx context.Context, db *sql.DB) error {
	var tables, known int
	err := db.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE tablename IN ('store_state', $1))
  FROM pg_tables WHERE schemaname = current_schema()`, goose.DefaultTablename).Scan(&tables, &known)
	switch {
	case err != nil:
		return fmt.Errorf("schema: %w", err)
	case tables > 0 && known == 0:
		return ErrForeign
	}
	return nil
}
