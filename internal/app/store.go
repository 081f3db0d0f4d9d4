package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/heartbeat"
	"countersign/internal/budget"
	"countersign/internal/secret"
	"countersign/internal/store/sqlite"
)

// database is a store as the program runs it.
type database interface {
	keeper
	fleet
	Ping(ctx context.Context) error
	Close() error
	// Problems says what keeps it from working as it should, each with what to do.
	Problems() []string
	// Ahead is how far its time is ahead of the clock.
	Ahead() time.Duration
	// WasRestored reports whether it is an older one than was here before, until AcceptRestored.
	WasRestored() bool
	AcceptRestored(ctx context.Context) error
	// Shrink gives room that is free in it back to the disk, where that does not happen by itself.
	Shrink(ctx context.Context) error
	// size is how many bytes it takes, 0 where that cannot be found out.
	size(ctx context.Context) int64
	// keep does what is to be done every few seconds.
	keep(ctx context.Context, log *slog.Logger)
}

// fleet is the programs on one store: what one of them asks of all.
type fleet interface {
	// others is for how long what is to be sent is left to other programs on it, 0: there are none.
	others() time.Duration
	// Replica is this program among those on the store, "" where it has it for itself; FindGone returns those that have
	// sent calls on and are gone.
	Replica() string
	FindGone(ctx context.Context) ([]string, error)
	// TakeTasks makes this program the one to run the tasks of those that are gone, of some MCP servers, and reports
	// whether there were any.
	TakeTasks(ctx context.Context, servers []string) (bool, error)
	// AppearAt has others know at which URL they reach this program; AddressOf returns that of another, "" if it is gone.
	AppearAt(ctx context.Context, url string) error
	AddressOf(ctx context.Context, replica string) (string, error)
	// hasOthers reports whether other programs are there.
	hasOthers(ctx context.Context) bool
	// programs tells those that are there, as an operator knows them.
	programs(ctx context.Context) string
	// runs is where the heartbeat's runs are kept; nil: in this program's memory.
	runs() heartbeat.Record
	// holds are what platforms ask of all programs on the store; nil: there is one.
	holds() outbox.Holds
	// budgetRows are where what agents use is kept, by whichever program; nil: in this program's memory.
	budgetRows() budget.RowsOf
	// takeOnce takes a key for so long, and reports whether no program had it.
	takeOnce(ctx context.Context, key string, hold time.Duration) (bool, error)
	// keys are what this program signs and seals with for a use, for itself or for all programs on the store.
	keys(use string) secret.Keys
	// configure notes which configuration this program has from now on, by its digest, and reports whether it is a new
	// one: no other program had it before.
	configure(ctx context.Context, digest string) (isNew bool, err error)
	// isBehind reports whether another program has a newer configuration.
	isBehind(ctx context.Context) (bool, error)
}

// openStore opens the store of the configuration.
func openStore(ctx context.Context, a *App, broker *approval.Broker) (database, error) {
	if a.o.Config.IsDatabase() {
		return openServer(ctx, a, broker)
	}
	a.disk.makeRoom()
	d, err := sqlite.Open(ctx, sqlite.Options{
		Path: a.o.Config.StorePath, Logger: a.logger("store"), Now: a.o.Now, Elapsed: a.o.Elapsed, Failpoint: a.o.Failpoint,
		OnCommit:     a.committed(broker),
		OnFull:       a.disk.giveUpReserve,
		BeforeCommit: broker.BeforeCommit,
	})
	if err != nil {
		return nil, err
	}
	return file{DB: d, path: a.o.Config.StorePath}, nil
}

// committed counts what this program has committed, and wakes who waits for it.
func (a *App) committed(broker *approval.Broker) func(approval.Commit) {
	return func(c approval.Commit) {
		a.metrics.countCommit(c)
		broker.Publish(c)
		a.telemetry.Follow(c)
	}
}

// file is a store that one program has for itself.
type file struct {
	*sqlite.DB
	oneProgram
	path string
}

func (f file) size(context.Context) int64 { return fileSize(f.path) }

// fileSize is how many bytes a store's file takes, with its write log.
func fileSize(path string) (n int64) {
	for _, suffix := range []string{"", "-wal"} {
		if is, err := os.Stat(path + suffix); err == nil {
			n += is.Size()
		}
	}
	return n
}

func (f file) Ahead() time.Duration { return f.Clock().Ahead }

func (f file) Problems() []string {
	ps := f.DB.Problems()
	switch c := f.Clock(); {
	case c.Lead > 0:
		ps = append(ps, hasJumped("this machine's", c.Lead, c.For))
	case c.Ahead >= time.Second && !c.Accepted:
		ps = append(ps, isBehind("this machine's", c.Ahead))
	}
	return ps
}

// hasJumped is the problem of a clock that the store's time does not follow yet, isBehind of one that was set back.
func hasJumped(whose string, by, left time.Duration) string {
	return fmt.Sprintf("%s clock has jumped %v ahead; the store's time follows in %v and ends what is due then: if the "+
		"clock is wrong, set it right by then; if it is right, an admin can say so at once: countersign clock accept",
		whose, by.Round(time.Second), left.Round(time.Second))
}

func isBehind(whose string, by time.Duration) string {
	return fmt.Sprintf("%s clock is %v behind the store's time, which never goes back and runs a hundredth slower until "+
		"they meet: see that the clock is right; if it is, an admin can say so: countersign clock accept", whose,
		by.Round(time.Second))
}

// oneProgram is a program that has its store for itself.
type oneProgram struct{}

func (oneProgram) others() time.Duration { return 0 }

func (oneProgram) Replica() string { return "" }

func (oneProgram) FindGone(context.Context) ([]string, error) { return nil, nil }

func (oneProgram) TakeTasks(context.Context, []string) (bool, error) { return false, nil }

func (oneProgram) AppearAt(context.Context, string) error { return nil }

func (oneProgram) AddressOf(context.Context, string) (string, error) { return "", nil }

func (oneProgram) hasOthers(context.Context) bool { return false }

func (oneProgram) programs(context.Context) string { return "" }

func (oneProgram) runs() heartbeat.Record { return nil }

func (oneProgram) holds() outbox.Holds { return nil }

func (oneProgram) budgetRows() budget.RowsOf { return nil }

func (oneProgram) takeOnce(context.Context, string, time.Duration) (bool, error) { return true, nil }

func (oneProgram) keys(string) secret.Keys { return secret.NewKeys() }

func (oneProgram) configure(context.Context, string) (isNew bool, err error) { return true, nil }

func (oneProgram) isBehind(context.Context) (bool, error) { return false, nil }

func (f file) keep(ctx context.Context, log *slog.Logger) {
	if err := f.KeepTime(ctx); err != nil && ctx.Err() == nil {
		log.WarnContext(ctx, "a change of the machine's clock could not be stored; trying again", "error", err)
	}
	f.CheckClaim()
	if err := f.Mark(); err != nil {
		log.WarnContext(ctx, "the note of how far the store has come could not be written; trying again", "error", err)
	}
}
