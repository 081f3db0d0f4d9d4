package schema

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

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
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if err := checkOwner(ctx, db); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// checkOwner returns [ErrForeign] where the schema that tables are made in has some, but none of Countersign's.
func checkOwner(ctx context.Context, db *sql.DB) error {
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
