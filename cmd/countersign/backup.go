package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"countersign/internal/store/sqlite"
)

type backupCmd struct {
	file
	output
	Store string `placeholder:"FILE" help:"The database file. Default: the one that the configuration names."`
	To    string `arg:"" name:"to" placeholder:"FILE" help:"The file to write; an existing file is not overwritten."`
}

func (*backupCmd) Help() string {
	return `The copy is complete, and only you can read it (mode 0600). It holds all arguments unmasked: keep it as you keep secrets. The configuration and the file of secrets are not in it: copy them too.

To restore it, stop the gate and put the copy in the place of the database: docs/backup.md has the steps.

Examples:

    countersign backup countersign-2026-11-24.db
    countersign backup --config /etc/countersign/countersign.yaml /backup/countersign.db
    countersign backup --store /var/lib/countersign/countersign.db /backup/countersign.db`
}

func (c *backupCmd) Run(ctx context.Context, s *std) error {
	path := c.Store
	if path == "" {
		// What check warns of is nothing to tell at every backup.
		quiet, problems := *s, new(bytes.Buffer)
		quiet.err = problems
		cfg, _, err := c.load(&quiet)
		if err != nil {
			_, _ = problems.WriteTo(s.err)
			return err
		}
		if cfg.IsDatabase() {
			return errors.New("the store is a PostgreSQL database, and this copies SQLite files: use pg_dump, or what " +
				"keeps the database for you (docs/replicas.md)")
		}
		path = cfg.StorePath
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	size, err := sqlite.Backup(ctx, path, c.To)
	if err != nil {
		return err
	}
	if c.forPrograms() {
		return c.print(s, map[string]any{"store": path, "backup": c.To, "bytes": size})
	}
	s.printf("Backed up %s to %s (%s).\n", visible(path), visible(c.To), megabytes(size))
	return nil
}

// megabytes tells how large a file is: "0.3 MB".
func megabytes(size int64) string { return fmt.Sprintf("%.1f MB", max(0.1, float64(size)/1e6)) }
