package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"countersign/internal/backup"
	"countersign/internal/config"
	"countersign/internal/store/sqlite"
)

// storeFile names the file of a store.
type storeFile struct {
	file
	Store string `placeholder:"FILE" help:"The database file. Default: the one that the configuration names."`
}

// read returns the configuration, nil where the store is named instead. What check warns of is nothing to tell here.
func (f *storeFile) read(s *std) (*config.Config, error) {
	if f.Store != "" {
		return nil, nil
	}
	quiet, problems := *s, new(bytes.Buffer)
	quiet.err = problems
	cfg, _, err := f.load(&quiet)
	if err != nil {
		_, _ = problems.WriteTo(s.err)
		return nil, err
	}
	f.Store = cfg.StorePath
	return cfg, nil
}

type backupCmd struct {
	storeFile
	output
	To string `arg:"" optional:"" name:"to" placeholder:"FILE" help:"The file to write; an existing file is not overwritten. Default: one more in the folder that backup in the configuration names."`
}

func (*backupCmd) Help() string {
	return `The copy is complete and checked, and only you can read it (mode 0600). It holds all arguments unmasked: keep it as you keep secrets. The configuration and the file of secrets are not in it: copy them too.

With a FILE the copy is the database as it is. Without one it is as the gate's own backups are: compressed, encrypted for those whom the configuration names, and the newest are kept.

countersign restore puts a copy back.

Examples:

    countersign backup countersign-2026-11-24.db
    countersign backup --config /etc/countersign/countersign.yaml /backup/countersign.db
    countersign backup --store /var/lib/countersign/countersign.db /backup/countersign.db
    countersign backup --config /etc/countersign/countersign.yaml`
}

func (c *backupCmd) Run(ctx context.Context, s *std) error {
	cfg, err := c.read(s)
	if err != nil {
		return err
	}
	switch {
	case cfg != nil && cfg.IsDatabase():
		return errors.New("the store is a PostgreSQL database, and this copies SQLite files: use pg_dump, or what " +
			"keeps the database for you (docs/replicas.md)")
	case c.To == "" && (cfg == nil || !cfg.Backups.IsSet()):
		return usagef("name the file to write, or the folder for backups in the configuration: backup: {dir: …} " +
			"(docs/backup.md)")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.doing("copying and checking %s", visible(c.Store))
	var made backup.Backup
	if c.To != "" {
		made.Path = c.To
		made.Bytes, err = sqlite.Backup(ctx, c.Store, c.To)
	} else {
		made, err = c.add(ctx, s, &cfg.Backups)
	}
	s.done()
	if err != nil {
		return err
	}
	if c.forPrograms() {
		return c.print(s, map[string]any{"store": c.Store, "backup": made.Path, "bytes": made.Bytes})
	}
	s.printf("Backed up %s to %s (%s).\n", visible(c.Store), visible(made.Path), megabytes(made.Bytes))
	return nil
}

// add makes a backup as the gate does.
func (c *backupCmd) add(ctx context.Context, s *std, plan *backup.Plan) (made backup.Backup, err error) {
	copied, err := sqlite.MakeCopy(ctx, c.Store, filepath.Dir(c.Store))
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	now := s.now()
	if made, err = plan.Write(ctx, copied, now); err != nil {
		return made, err
	}
	return made, plan.RemoveOld(now)
}

// megabytes tells how large a file is: "0.3 MB".
func megabytes(size int64) string { return fmt.Sprintf("%.1f MB", max(0.1, float64(size)/1e6)) }
