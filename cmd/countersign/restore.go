package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"filippo.io/age"

	"countersign/internal/backup"
	"countersign/internal/config"
	"countersign/internal/store/postgres"
	"countersign/internal/store/sqlite"
)

type restoreCmd struct {
	storeFile
	output
	Identity string `placeholder:"FILE" help:"The file with the secret key of age that can read an encrypted backup."`
	InPlace  bool   `help:"Replace nothing: the folder, volume or database that holds the store was put back as a whole."`
	Yes      bool   `short:"y" help:"Restore without asking."`
	From     string `arg:"" optional:"" name:"from" placeholder:"BACKUP" help:"The backup: compressed, encrypted, or as it is."`
}

func (*restoreCmd) Help() string {
	return `Stop the gate first. The backup is read and checked before anything is changed. Then it takes the place of the store, which is kept beside it.

What waits in a backup, and approvals and grants in it, may have been used since it was made. The gate's next start cancels them (restored), whatever else lies beside the store: agents ask again, and everybody signs in again. The command lists what the present store has that the backup lacks, such as freezes, and asks before it goes on.

Where a whole folder, volume or PostgreSQL database was put back, use --in-place: nothing tells that from a restart. The gate's next start cancels the same then.

Examples:

    countersign restore /var/backups/countersign/countersign-20261124T000000Z.db.zst
    countersign restore --identity key.txt countersign-20261124T000000Z.db.zst.age
    countersign restore --store /var/lib/countersign/countersign.db countersign-2026-11-24.db
    countersign restore --in-place --config /etc/countersign/countersign.yaml`
}

// restoration is what a restore has done, for programs.
type restoration struct {
	Store      string          `json:"store"`
	Backup     string          `json:"backup,omitempty"`
	Kept       string          `json:"kept,omitempty"` // where the store is that was there
	Copy       sqlite.Contents `json:"copy,omitzero"`
	Lost       *sqlite.Loss    `json:"lost,omitempty"`       // not there: there was no store, or it cannot be read
	Unreadable string          `json:"unreadable,omitempty"` // why it cannot
}

func (c *restoreCmd) Run(ctx context.Context, s *std) error {
	if (c.From == "") != c.InPlace {
		return usagef("name the backup to restore, or --in-place if the store was put back as a whole")
	}
	cfg, err := c.read(s)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch {
	case c.InPlace:
		return c.inPlace(ctx, s, cfg)
	case cfg != nil && cfg.IsDatabase():
		return errors.New("the store is a PostgreSQL database: put it back with its own programs, then run " +
			"countersign restore --in-place (docs/replicas.md)")
	}
	if err := c.checkFrom(); err != nil {
		return err
	}
	return c.restore(ctx, s)
}

// inPlace has the next start take what is there for restored.
func (c *restoreCmd) inPlace(ctx context.Context, s *std, cfg *config.Config) error {
	is, next := restoration{Store: c.Store}, "The gate's next start"
	what := "the store " + c.Store
	if cfg != nil && cfg.IsDatabase() {
		what, next = "the store in "+cfg.Store, "The next program that writes to it"
	}
	err := c.ask(ctx, s, "Have all that waits in "+what+" cancelled, and approvals and grants that are not used")
	if err != nil {
		return err
	}
	if cfg != nil && cfg.IsDatabase() {
		is.Store, err = postgres.MarkRestored(ctx, cfg.StoreURL.Reveal())
	} else {
		is.Copy, err = sqlite.MarkRestored(ctx, c.Store)
	}
	if err != nil {
		return err
	}
	if c.forPrograms() {
		return c.print(s, is)
	}
	s.printf("%s counts as restored.", visible(is.Store))
	if !is.Copy.At.IsZero() {
		s.printf(" Its own time is %s.", s.clock(is.Copy.At, s.now()))
	}
	s.printf("\n%s cancels what waits, and approvals and grants that are not used. Agents ask again, and everybody "+
		"signs in again. Freezes made since it was copied are gone: freeze again what must not run.\n", next)
	return nil
}

// checkFrom fails where the backup is not one alone.
func (c *restoreCmd) checkFrom() error {
	from, err := os.Stat(c.From)
	if err != nil {
		return err
	}
	if store, err := os.Stat(c.Store); err == nil && os.SameFile(from, store) {
		return usagef("%s is the store itself; if it was put back, use --in-place", c.From)
	}
	if log, err := os.Stat(c.From + "-wal"); err == nil && log.Size() > 0 {
		return usagef("%s-wal lies beside the backup, and has changes that the file has not: it was copied while a gate "+
			"ran. Put both in the place of the store, and use --in-place", c.From)
	}
	return nil
}

func (c *restoreCmd) restore(ctx context.Context, s *std) (err error) {
	identities, err := c.identities()
	if err != nil {
		return err
	}
	s.doing("reading and checking %s", visible(c.From))
	from, err := backup.Open(ctx, c.From, identities...)
	if err != nil {
		s.done()
		return err
	}
	r, err := sqlite.PrepareRestore(ctx, c.Store, from)
	s.done()
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	is := restoration{Store: c.Store, Backup: c.From, Copy: r.Copy}
	if is.Lost, err = r.FindLoss(ctx); err != nil {
		is.Unreadable = err.Error()
	}
	if !c.forPrograms() {
		s.printLoss(&is)
	}
	if err := c.ask(ctx, s, "Put the backup in the place of "+c.Store); err != nil {
		return err
	}
	if is.Kept, err = r.Put(s.now()); err != nil {
		return err
	}
	if c.forPrograms() {
		return c.print(s, is)
	}
	s.printf("Restored %s.", visible(c.Store))
	if is.Kept != "" {
		s.printf(" What was there is kept as %s.", visible(is.Kept))
	}
	s.printf("\nStart the gate: it cancels what waits in the backup, and approvals and grants that are not used. " +
		"Agents ask again, and everybody signs in again.\n")
	return nil
}

// ask asks whether to go on.
func (c *restoreCmd) ask(ctx context.Context, s *std, what string) error {
	if c.Yes {
		return ctx.Err()
	}
	if c.forPrograms() || !isTerminalIn(s.in) {
		return usagef("nothing was changed: there is nobody to ask; give --yes")
	}
	fmt.Fprintf(s.err, "%s? [y/N] ", visible(what))
	answered := make(chan bool, 1)
	go func() { answered <- yes(s) }()
	select {
	case is := <-answered:
		if is && ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done(): // ctrl-c
	}
	return &exitError{exitFailed, "nothing was changed"}
}

// identities are the secret keys by which an encrypted backup is read. What their file says is never repeated.
func (c *restoreCmd) identities() ([]age.Identity, error) {
	if c.Identity == "" {
		return nil, nil
	}
	f, err := os.Open(c.Identity)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ids, err := age.ParseIdentities(f)
	if err != nil {
		return nil, usagef("%s holds no secret key of age that can be read: its line begins with AGE-SECRET-KEY-1, and it "+
			"is not protected by a passphrase", c.Identity)
	}
	return ids, nil
}

// printLoss tells what a backup has, and what is lost with the store whose place it takes.
func (s *std) printLoss(is *restoration) {
	now := s.now()
	s.printf("The backup is whole: %s and %s, up to %s.\n", count(int(is.Copy.Requests), "request", "requests"),
		count(int(is.Copy.Events), "audit event", "audit events"), s.clock(is.Copy.At, now))
	l := is.Lost
	switch {
	case is.Unreadable != "":
		s.printf("What is lost with the store that is there is not known, since it cannot be read: %s\n",
			visible(is.Unreadable))
		return
	case l == nil:
		s.printf("There is no store at %s.\n", visible(is.Store))
		return
	case l.Events == 0:
		s.printf("The store that is there has nothing that is newer.\n")
		return
	}
	s.printf("The store that is there has more, which is not in the backup: %s, %s by people, %s of approvals and "+
		"grants; %s in all.\n", count(l.Requests, "request", "requests"), count(l.Decisions, "decision", "decisions"),
		count(l.Uses, "use", "uses"), count(l.Events, "audit event", "audit events"))
	for _, f := range l.Frozen {
		s.printf("  Frozen since, and no longer: %s. Freeze again what must not run.\n", describeFreeze(f))
	}
	for _, f := range l.Unfrozen {
		s.printf("  Unfrozen since, and frozen again: %s.\n", describeFreeze(f))
	}
	if len(l.Erased) > 0 {
		s.printf("  Erased since, and there again: %s. Erase again: %s.\n", count(len(l.Erased), "request", "requests"),
			visible(strings.Join(l.Erased, ", ")))
	}
	if l.Passkeys > 0 {
		s.printf("  Removed since, and there again: %s. Remove again what must not sign in.\n",
			count(l.Passkeys, "passkey", "passkeys"))
	}
	if l.Delegations > 0 {
		s.printf("  Ended since, and in force again: %s. End again what must not hold.\n",
			count(l.Delegations, "delegation", "delegations"))
	}
}

func describeFreeze(f sqlite.Freeze) string {
	return fmt.Sprintf("%s, by %s (%s)", cmp.Or(visible(f.Agent), "all agents"), visible(f.By), visible(f.Reason))
}
