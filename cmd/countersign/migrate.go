package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"countersign/internal/store/move"
)

type migrateCmd struct {
	output
	From   string `arg:"" name:"from" placeholder:"STORE" help:"Where the rows are: sqlite:FILE or postgres://…"`
	To     string `arg:"" name:"to" placeholder:"STORE" help:"Where they go: an empty PostgreSQL database, or a new file."`
	DryRun bool   `help:"Count the rows of both, and change nothing."`
}

func (*migrateCmd) Help() string {
	return `Takes all rows of a store to a database of another kind: from a file to PostgreSQL, or back. Stop the gate first.

All rows go, or none. Then no gate starts any more on the store where they were. Where they are now, the first gate cancels what waits and all approvals not used yet (restored), because they may be used in an old copy: agents ask again, and everybody signs in again.

A password in an argument can be seen by others on the machine: leave it out, and set PGPASSWORD.

Examples:

    countersign migrate --dry-run sqlite:countersign.db postgres://countersign@db.example.com/gate
    export PGPASSWORD=…
    countersign migrate sqlite:countersign.db "postgres://countersign@db.example.com/gate?sslmode=verify-full"
    countersign migrate postgres://countersign@db.example.com/gate sqlite:back.db`
}

func (c *migrateCmd) Run(ctx context.Context, s *std) error {
	way, err := move.Parse(c.From, c.To)
	if err != nil {
		return usagef("%v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.DryRun {
		return c.count(ctx, s, way)
	}
	var tell move.Progress
	if !c.forPrograms() {
		tell = s.movedSoFar
	}
	moved, err := way.Run(ctx, tell)
	if err != nil {
		return err
	}
	if c.forPrograms() {
		return c.print(s, moved)
	}
	s.printf("Moved %d rows. The audit log is the same in both: SHA-256 %s.\n", moved.Rows(), moved.Audit)
	if way.ToServer() {
		s.printf("Next: in the configuration, write store: postgres://… and replicas: (docs/replicas.md), and start " +
			"the gate.\n")
	} else {
		s.printf("Next: in the configuration, write store: %s, take replicas: out, and start the gate.\n", visible(c.To))
	}
	return nil
}

// movedSoFar tells each table once its rows are there, and how far a long one is.
func (s *std) movedSoFar(table string, rows, of int64) {
	if rows < of {
		s.doing("%s: %d of %d rows", table, rows, of)
		return
	}
	s.done()
	s.printf("%-24s %12d\n", table, rows)
}

// count says how many rows there are to be moved.
func (c *migrateCmd) count(ctx context.Context, s *std, way move.Way) error {
	moved, err := way.Count(ctx)
	if err != nil {
		return err
	}
	if c.forPrograms() {
		return c.print(s, moved)
	}
	for _, t := range moved.Tables {
		s.movedSoFar(t.Name, t.Rows, t.Rows)
	}
	s.printf("%d rows would be moved. Nothing was changed.\n", moved.Rows())
	return nil
}
