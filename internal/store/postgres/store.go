// Package postgres keeps Countersign's rows in a PostgreSQL database, as [approval.Store]. What the rows are, package
// store says; here is what keeps them where several programs write at once.
//
//   - A transaction is READ COMMITTED and first takes the lock of its scope ([approval.Scope]): the agent's, the
//     person's, or that of the whole store. So the transactions of one agent come one after another, whichever program
//     runs them, and the statements that decide have conditions beside.
//   - What a function writes and need not know the result of is sent with its next question, or with the COMMIT: a
//     statement costs no round trip of its own.
//   - An event has its number, its seq, only after the commit: see numbering.go. A number that was held until then
//     would be held by one transaction of all.
//   - Where the answer to a COMMIT does not come, the database is asked what became of it: see outcome.go.
//   - The time is the database's. A transaction's is read after its lock was taken.
//
// A function may run more than once: where its transaction meets another's lock for too long, or the connection is lost
// before it could commit.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/oklog/ulid/v2"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/store"
	"countersign/internal/uptime"
	"countersign/schema"
)

// Options say which store to open and how. URL is required.
type Options struct {
	URL    string       // postgres://user:password@host:port/database
	Logger *slog.Logger // default: nothing is logged
	// OnCommit is told of every update that has become durable, before its caller is answered; of one agent's in the order
	// of their commits. Events have no seq yet. It must be quick and must not call the store.
	OnCommit func(approval.Commit)
	// OnNews is told of what all programs on the database have committed, this one among them, once it has its seqs and in
	// their order: within a second, mostly in some milliseconds. Allowed calls are left out. Of an event it is told Type,
	// Seq, ApprovalID, Agent and Decision; and of the earliest deadline of all, which may have come from elsewhere. It
	// must be quick and must not call the store.
	OnNews func(approval.Commit)
	// Restored ends what is open, in a transaction about the whole store: the database is another one than the store was
	// in last, or another server has taken over, and may have lost what was committed. It is called before any other
	// function runs on such a database, by one of the programs. nil: nothing is ended.
	Restored func(ctx context.Context, tx approval.Tx) error
	// Arrived is Restored where the rows were brought from a file, which may live on.
	Arrived func(ctx context.Context, tx approval.Tx) error
	// Lossless says that no server takes over that lacks anything of what was committed: its standbys are synchronous.
	Lossless bool
	// BeforeCommit is told of what is about to become durable, and may come to nothing yet.
	BeforeCommit func(approval.Commit)

	// Failpoint, if set, is called at "before-commit" and "after-commit" of each update, so that a test can end the
	// process there.
	Failpoint func(name string)

	Program     string // its version, for operators
	Connections int    // to the database, at most, where the URL does not say it (pool_max_conns); default 32

	clock  string // what the database's clock is, for tests
	tracer pgx.QueryTracer
	look   time.Duration // how often it is looked for what others have committed, for tests
}

// DB is an open store. It is safe for concurrent use.
type DB struct {
	log          *slog.Logger
	pool         *pgxpool.Pool
	onCommit     func(approval.Commit)
	beforeCommit func(approval.Commit)
	onNews       func(approval.Commit)
	failpoint    func(string)
	restored     func(ctx context.Context, tx approval.Tx) error
	arrived      func(ctx context.Context, tx approval.Tx) error
	lossless     bool
	lineage      string // the expression that tells it
	turns        turns
	owners       owners
	numbering    numbering
	wakes        wakes
	replicas     replicas
	records      chan *recording
	recording    sync.WaitGroup
	clock        clock

	mu     sync.Mutex
	lastID ulid.ULID // given out

	closing   chan struct{}
	closeOnce sync.Once
	running   sync.WaitGroup
}

var _ interface {
	approval.Store
	approval.EventRecorder
} = (*DB)(nil)

// Open connects to the database at o.URL and brings its tables up to date. It fails with an [approval.Error] of code
// [approval.CodeStoreUnavailable] that says what to do where it cannot be reached or used.
func Open(ctx context.Context, o Options) (*DB, error) {
	config, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Tracer = o.tracer
	config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {} // they would be kept for ever
	if !strings.Contains(o.URL, "pool_max_conns") {
		config.MaxConns = int32(min(max(1, cmp.Or(o.Connections, 32)), 1<<15))
	}
	if o.Failpoint == nil {
		o.Failpoint = func(string) {}
	}
	d := &DB{log: o.Logger, onCommit: o.OnCommit, beforeCommit: o.BeforeCommit, failpoint: o.Failpoint,
		onNews: o.OnNews, restored: o.Restored, arrived: o.Arrived, lossless: o.Lossless,
		records: make(chan *recording, recordsWaiting), closing: make(chan struct{})}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.clock.sql = cmp.Or(o.clock, "clock_timestamp()")
	d.clock.now = time.Now
	begun := d.clock.now()
	d.clock.count = func() time.Duration { return d.clock.now().Sub(begun) }
	if _, ok := uptime.SinceBoot(); ok {
		d.clock.count, d.clock.countsSleep = func() time.Duration { since, _ := uptime.SinceBoot(); return since }, true
	}
	if err := migrate(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fault(err)
	}
	if err = d.findLineage(ctx); err == nil {
		err = d.wakes.prepare(ctx, d)
	}
	if err == nil {
		err = d.clock.start(ctx, d)
	}
	if err == nil {
		if err = d.replicas.start(ctx, d, o.Program); err != nil {
			d.clock.stop()
		}
	}
	if err != nil {
		d.pool.Close()
		return nil, fault(err)
	}
	d.numbering.start(d, cmp.Or(o.look, leftBehind))
	d.wakes.start()
	d.recording.Go(d.recordLoop)
	return d, nil
}

// parse reads a store's URL.
func parse(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // which may have the password in its text
		return nil, errURL
	}
	if namesSeveral(config.ConnConfig) { // the one that can be written
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = patience
	}
	return config, nil
}

var errURL = unavailable("The store's URL cannot be read; write postgres://user:password@host:5432/database, and in "+
	"the password %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %.", nil)

// namesSeveral reports whether a URL names several servers. There are fallbacks for one, too: with TLS, and without.
func namesSeveral(c *pgx.ConnConfig) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != c.Host || f.Port != c.Port
	})
}

// checkSessions fails where each transaction may have another session, and the URL does not say so: what is prepared
// on one connection is there on the next.
func checkSessions(ctx context.Context, config *pgx.ConnConfig) error {
	if config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return nil
	}
	for range 2 {
		c, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer c.Close(ctx) //nolint:errcheck // nothing is lost
		if _, err := c.Prepare(ctx, "countersign", "SELECT 1"); err != nil {
			return err
		}
	}
	return nil
}

// migrate speaks to the database through database/sql, as goose does.
func migrate(ctx context.Context, config *pgx.ConnConfig) error {
	if err := checkSessions(ctx, config); err != nil {
		return fault(err)
	}
	db := stdlib.OpenDB(*config)
	err := checkUsable(ctx, db)
	if err == nil {
		err = upgrade(ctx, db)
	}
	if err == nil {
		err = checkShut(ctx, db)
	}
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	return fault(foreign(err))
}

// foreign says it where a database is another program's.
func foreign(err error) error {
	if errors.Is(err, schema.ErrForeign) {
		return unavailable("The store's database is another program's; name another one.", err)
	}
	return err
}

// upgrade brings the tables up to date, also while others use them.
func upgrade(ctx context.Context, db *sql.DB) error {
	for try := 1; ; try++ {
		err := schema.MigratePostgres(ctx, db)
		if err == nil || try == tries || !mayRunAgain(err) {
			return err
		}
		select {
		case <-time.After(tick):
		case <-ctx.Done():
			return err
		}
	}
}

// oldest is the oldest version of PostgreSQL that the statements are for, as it numbers them.
const oldest = 14_00_00

// checkUsable looks at what a database must have.
func checkUsable(ctx context.Context, db *sql.DB) error {
	var version int
	var encoding string
	err := db.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int,
  current_setting('server_encoding')`).Scan(&version, &encoding)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return unavailable(fmt.Sprintf("The store's PostgreSQL is version %d; it must be 14 or newer.", version/10_000), nil)
	case encoding != "UTF8":
		return unavailable("The store's database has the encoding "+encoding+"; make one with ENCODING 'UTF8'.", nil)
	}
	return nil
}

// SignIns is a transaction of d with the links and sessions that it keeps.
func (*DB) SignIns(t approval.Tx) signin.Tx { return t.(*tx) }

// Passkeys is a transaction of d with the passkeys that it keeps.
func (*DB) Passkeys(t approval.Tx) passkey.Tx { return t.(*tx) }

// begin reports whether the store is open; it is not closed before end is called.
func (d *DB) begin(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.closing:
		return errClosed()
	default:
	}
	if ctx.Err() != nil {
		return notStarted(ctx)
	}
	d.running.Add(1)
	return nil
}

func (d *DB) end() { d.running.Done() }

// Close waits for the functions that have begun, and gives the connections up. What comes later is refused. It may be
// called again.
func (d *DB) Close() error {
	d.closeOnce.Do(func() {
		d.mu.Lock()
		close(d.closing)
		d.mu.Unlock()
		d.running.Wait()
		close(d.records)
		d.recording.Wait()
		d.wakes.stop()
		d.numbering.stop()
		d.replicas.stop()
		d.clock.stop()
		d.pool.Close()
	})
	return nil
}

// giveID gives out an id that is after all that were given out, and after floor.
func (d *DB) giveID(floor ulid.ULID, now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if floor.Compare(d.lastID) > 0 {
		d.lastID = floor
	}
	d.lastID = store.NextID(d.lastID, now)
	return d.lastID.String()
}
