// Package sqlite keeps Countersign's rows in one SQLite file, as [approval.Store]. What the rows are, package store
// says; here is what keeps them: the writer and the readers, the clock, the event log, the lock, and copies.
//
// All updates go through one writer, a goroutine with a connection of its own. It takes what is waiting,
// at most BatchMax functions, begins one transaction, runs the functions one after another and commits:
// one write to the disk for all of them. Only then are they answered. With one caller there is nothing to
// wait for and nothing is delayed; with many, the disk's time is shared.
//
//   - An error or panic of one function undoes what it did; its neighbours commit. Since savepoints cost
//     a sixth of a small transaction and hardly any function fails after it has written, a group begins
//     without them: when one function must be undone, the group is rolled back and run again with a
//     savepoint for each, and so are the next few groups.
//   - A group that has taken long enough is committed as it is, and the rest of it goes into the next: what
//     one caller's functions cost, the others do not wait for.
//   - A caller's context decides only whether its function starts. The statements run on the writer's own
//     account, because SQLite ends the whole transaction when it interrupts a statement that writes.
//   - When SQLite has ended the transaction by itself (the disk is full, a page cannot be written), or the
//     commit fails, nothing of the group is stored: the writer opens a new connection and runs the
//     functions again, one by one. Who cannot be committed then gets [approval.CodeStoreUnavailable].
//   - The writer gives out the time, the sequence numbers and the ids. None of the three goes back, not
//     over a restart and not when the machine's clock is set back: the time then goes on by what passes, a
//     hundredth slower, until the two meet.
//
// Reads have a few connections of their own and see the last commit; they neither wait for the writer nor
// hold it up. The file is in WAL mode with synchronous=FULL: what was answered survives a loss of power. A group of
// nothing but records ([DB.RecordAllowed]) is committed without a sync of its own, and is synced within a second.
// One process owns a store, by a lock next to it. All files are readable by their owner alone.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/schema"
)

// Options say which store to open and how. Path is required.
type Options struct {
	Path   string       // of the database file; its folder must exist
	Logger *slog.Logger // default: nothing is logged
	// Now is the machine's clock; default time.Now.
	Now func() time.Time
	// Elapsed is the time that has passed since some moment, also while the machine slept, and whatever its
	// clock was set to; default the machine's own count, and for a Now of a test's how that goes on.
	Elapsed func() time.Duration
	// Boot names the start of the machine that Elapsed counts from, where it is given and that is known.
	Boot string
	// OnCommit is told of every group of updates that has become durable, in commit order and before any
	// caller of it is answered. The writer calls it: it must be quick and must not call the store.
	OnCommit func(approval.Commit)
	// BeforeCommit is told of what is about to become durable, and may come to nothing yet, so that the part that it
	// concerns can get ready. It is called as OnCommit is; nil: no one is told.
	BeforeCommit func(approval.Commit)

	// OnFull is told that the disk was full when something was to be committed, which is tried once more then. It is
	// called as OnCommit is; nil: no one is told.
	OnFull func()

	BatchMax    int           // updates in one commit; default 128
	GroupTime   time.Duration // after which a commit takes up no further update; default 50 ms
	Readers     int           // connections that read; default 4
	BusyTimeout time.Duration // to wait for another process that has locked the file; default 5 s

	// Failpoint, if set, is called by the writer at "before-begin", "before-commit" and "after-commit" of
	// every group, and by Open at "copied", before the tables are changed, so that a test can end the process there.
	Failpoint func(name string)

	pragmas []string // of the writer's connections, for tests
}

// DB is an open store. It is safe for concurrent use.
type DB struct {
	path        string
	log         *slog.Logger
	busy        time.Duration
	testPragmas []string
	clock       *clock

	seq      atomic.Int64 // the newest that was committed
	synced   atomic.Int64 // the newest that outlives a loss of power
	restored bool
	disorder time.Duration // see [store.EventLog]
	cutOff   bool          // the last process did not close the store
	aside    []string      // event logs that were damaged
	mark     *mark

	claim    *claim
	lost     atomic.Pointer[approval.Error] // why nothing can be stored any more
	writer   *writer
	events   *eventLog
	standing standing
	readers  chan *sqlite3.Conn // nil: a connection that is yet to be opened

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
}

var _ approval.Store = (*DB)(nil)

// Open opens the store at o.Path, makes it if there is none, and brings its tables up to date, after a copy. It fails
// with an [approval.Error] of code [approval.CodeStoreUnavailable] that says what to do when the file
// cannot be read and written, is not a database, belongs to another program or a newer one, or is in use
// by another process; the file is as it was then.
func Open(ctx context.Context, o Options) (_ *DB, err error) {
	if o.Path == "" || o.Path == ":memory:" {
		return nil, unavailable("The store needs the path of a file.", nil)
	}
	path, err := realPath(o.Path)
	if err != nil {
		return nil, openFault(o.Path, err)
	}
	d := &DB{path: path, log: o.Logger, busy: o.BusyTimeout, testPragmas: o.pragmas, closing: make(chan struct{})}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if d.busy <= 0 {
		d.busy = 5 * time.Second
	}
	if o.BatchMax <= 0 {
		o.BatchMax = 128
	}
	if o.GroupTime <= 0 {
		o.GroupTime = 50 * time.Millisecond
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if d.claim, err = takeClaim(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.claim.close())
		}
	}()
	if err := d.tidy(); err != nil {
		return nil, err
	}
	if d.cutOff, err = wasCutOff(path); err != nil { // the migrations leave no log behind
		return nil, openFault(path, err)
	}
	if err := d.migrate(ctx, o); err != nil {
		return nil, err
	}
	w, err := newWriter(d, o)
	if err != nil {
		return nil, d.addPath(err)
	}
	d.writer = w
	d.findAside()
	if err := d.Mark(); err != nil {
		d.log.WarnContext(ctx, "the note of how far the store has come could not be written; trying again",
			slog.Any("error", err))
	}
	d.readers = make(chan *sqlite3.Conn, o.Readers)
	for range o.Readers {
		d.readers <- nil
	}
	go w.loop()
	return d, nil
}

// realPath is where a store lies: by whatever name it is opened, its other files are beside it.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return path, nil
	}
	return filepath.EvalSymlinks(path)
}

// tidy looks at what lies beside the store before it is opened.
func (d *DB) tidy() error {
	if err := makePrivate(d.path); err != nil {
		return openFault(d.path, err)
	}
	if err := errors.Join(removeParts(filepath.Dir(d.path)), removeTwins(d.path)); err != nil {
		d.log.Warn("what a backup, a restore or an upgrade left that was cut off cannot be removed", slog.Any("error", err))
	}
	return d.claim.checkLog()
}

// makePrivate sees to it that the files are their owner's alone that others may have put there. SQLite gives those that
// it makes the mode of the database.
func makePrivate(path string) error {
	for _, suffix := range besideSuffixes {
		f, err := openOwn(path+suffix, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// migrate speaks to the database through database/sql, as goose does.
func (d *DB) migrate(ctx context.Context, o Options) error {
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(d.path), RawQuery: url.Values{
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", d.busy.Milliseconds()), "synchronous(FULL)"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	db.SetMaxOpenConns(1)
	if err = d.upgrade(ctx, db, o); err == nil {
		err = d.checkMoved(ctx, db)
	}
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	if _, ok := errors.AsType[*approval.Error](err); ok {
		return err // says already what to do
	}
	if newer, ok := errors.AsType[*schema.NewerError](err); ok {
		return unavailable(fmt.Sprintf("The store %s was made by a newer version of the program (schema %d; this one knows "+
			"%d); run that version.",
			d.path, newer.Have, newer.Want), err)
	}
	if errors.Is(err, schema.ErrForeign) {
		return unavailable(fmt.Sprintf("The store %s is a database of another program; name another file.", d.path), err)
	}
	return d.addPath(fault(sqlite3.FromDriver(err)))
}

// addPath adds the path to an error of Open, which is for the operator who starts the program.
func (d *DB) addPath(err error) error {
	if e, ok := errors.AsType[*approval.Error](err); ok {
		return unavailable(e.Message+" ("+d.path+")", e.Err)
	}
	return err
}

// Now is the store's time: what a transaction that began now would have for its own.
func (d *DB) Now() time.Time { return d.clock.now() }

// Update runs fn as [approval.Store] says. The function runs in the writer's goroutine; a panic in it
// is raised again in the caller's, with the stack of the first, and so is runtime.Goexit.
func (d *DB) Update(ctx context.Context, _ approval.Scope, fn func(tx approval.Tx) error) error {
	return d.writer.update(ctx, fn, durable)
}

// Ping returns nil as soon as the store has shown that it commits what is written: by the next group of updates,
// whosever it is, or by a write of its own.
// It does not wait for what is in the queue.
func (d *DB) Ping(ctx context.Context) error { return d.writer.ping(ctx) }

// View runs fn on the state of one moment, which is that of fn's first read or its first look at the
// time. When ctx ends, its reads fail. NewID returns "" in fn.
func (d *DB) View(ctx context.Context, fn func(tx approval.Tx) error) (err error) {
	c, err := d.takeReader(ctx)
	if err != nil {
		return err
	}
	defer func() { d.readers <- c }()
	t := (&tx{db: d, c: c, ctx: ctx}).withRows()
	defer func() {
		t.ended = true
		if c.InTransaction() {
			if _, endErr := c.Stmt(rollback).Exec(); endErr != nil && t.broken == nil {
				t.broken = fault(endErr)
			}
		}
		if t.broken != nil {
			if closeErr := c.Close(); closeErr != nil {
				d.log.WarnContext(ctx, "a broken connection to the store could not be closed", "error", closeErr)
			}
			c = nil
		}
	}()
	defer interruptWhenDone(ctx, c)()
	if _, err := c.Stmt(beginRead).Exec(); err != nil {
		_ = t.Fail(err)
		return fault(err)
	}
	err = fn(t)
	if err == nil {
		err = t.broken
	}
	return err
}

// SignIns is a transaction of d with the links and sessions that it keeps.
func (*DB) SignIns(t approval.Tx) signin.Tx { return t.(*tx) }

// Passkeys is a transaction of d with the passkeys that it keeps.
func (*DB) Passkeys(t approval.Tx) passkey.Tx { return t.(*tx) }

// takeReader returns a connection that reads, to be given back to d.readers.
func (d *DB) takeReader(ctx context.Context) (c *sqlite3.Conn, err error) {
	select {
	case <-d.closing:
		return nil, errClosed()
	default:
	}
	if err := d.lostError(); err != nil {
		return nil, err
	}
	select {
	case c = <-d.readers:
	case <-ctx.Done():
		return nil, notStarted(ctx)
	case <-d.closing:
		return nil, errClosed()
	}
	if ctx.Err() != nil {
		d.readers <- c
		return nil, notStarted(ctx)
	}
	if c == nil {
		if c, err = d.openReader(); err != nil {
			d.readers <- nil
			return nil, fault(err)
		}
	}
	return c, nil
}

// interruptEvery is how often a connection whose time is over is interrupted again.
const interruptEvery = 5 * time.Millisecond

// interruptWhenDone interrupts what c runs when ctx ends, until stop is called: an interrupt that comes late must
// not hit what follows. It interrupts again and again, because SQLite forgets an interrupt that comes when no
// statement runs as soon as the next one starts.
func interruptWhenDone(ctx context.Context, c *sqlite3.Conn) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	over, idle := make(chan struct{}), make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(idle)
		again := time.NewTicker(interruptEvery)
		defer again.Stop()
		for {
			c.Interrupt()
			select {
			case <-over:
				return
			case <-again.C:
			}
		}
	})
	return func() {
		close(over)
		if !cancel() {
			<-idle
		}
	}
}

func (d *DB) connect(pragmas ...string) (*sqlite3.Conn, error) {
	return sqlite3.Open(d.path, sqlite3.Options{BusyTimeout: d.busy, Pragmas: pragmas, Queries: queries})
}

func (d *DB) openReader() (*sqlite3.Conn, error) {
	return d.connect("query_only = ON", "mmap_size = 1073741824", "cache_size = -2048")
}

func (d *DB) openWriter() (*sqlite3.Conn, error) {
	return d.connect(append([]string{
		"journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "wal_autocheckpoint = 1000",
		"journal_size_limit = 16777216", // what the log grew to while a backup was made is given back
		"temp_store = MEMORY",           // savepoints keep the pages they may have to restore there
		"cache_size = -2048",
	}, d.testPragmas...)...)
}

// Close waits for the functions that have begun or are in the writer's queue, and for the reads in
// progress, and gives the store up. What comes later is refused. It may be called again.
func (d *DB) Close() error {
	d.closeOnce.Do(func() {
		close(d.closing)
		d.events.stop()
		d.writer.stop()
		errs := []error{}
		for range cap(d.readers) {
			errs = append(errs, (<-d.readers).Close())
		}
		errs = append(errs, d.writer.takeRest(), d.writer.settle()) // the next start counts on from here
		// The last connection to go moves the log into the database.
		errs = append(errs, d.writer.c.Close(), d.events.close(), d.mark.close(), d.claim.close())
		d.closeErr = errors.Join(errs...)
	})
	return d.closeErr
}
