package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres/*.sql
var postgres embed.FS

// MigratePostgres is [Migrate] for a PostgreSQL database, whichever of several programs calls it at once: one of them
// changes the tables, and the others wait for that. A database of a newer program is no error: that program has seen to
// it that this one can go on. It returns the version that the database has then.
func MigratePostgres(ctx context.Context, db *sql.DB) (version int64, err error) {
	files, err := fs.Sub(postgres, "postgres")
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	if err := checkOwner(ctx, db); err != nil {
		return 0, err
	}
	if _, err := p.Up(ctx); err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	version, err = p.GetDBVersion(ctx)
	if err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	return version, nil
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
