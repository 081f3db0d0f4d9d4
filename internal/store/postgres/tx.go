package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oklog/ulid/v2"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/budget"
	"countersign/internal/store"
)

// tx is one run of one function, in a transaction of its own. It is the engine of its rows.
type tx struct {
	store.Rows
	db    *DB
	held  *pgxpool.Conn
	c     *pgx.Conn // the same
	ctx   context.Context
	about approval.Scope
	of    approval.Scope // whose locks it holds
	made  []string       // the ids of what it has inserted
	reads bool           // it is a View

	giveUp context.CancelFunc // ends ctx of a View
	late   *time.Timer        // calls that, once an answer has been waited for for too long

	queued []queued // what waits to be sent

	prefetched  []*prefetched
	prefetching bool // statements are queued to be prefetched, and have no rows yet
	verifies    bool // it waits for what it expects
	assumes     bool // it has told the function of a change that the database may not have made

	at    time.Time // zero in a View until its moment is settled
	xid   string    // its number, "" in a View
	floor ulid.ULID // its ids are after this one

	lineage string // of the database
	was     string // that which the store was last of
	shut    string // why the tables are shut to this program

	used map[string]budget.Used // what it has written of agents' budgets

	ending   int64 // the resolved_seq given out last
	endingTo int64 // and the last that may be

	wrote   bool
	broken  error // makes the function fail whatever it returns
	ended   bool
	summary approval.Commit
	room    store.Room
}

var _ interface {
	signin.Tx
	passkey.Tx
	store.Engine
} = (*tx)(nil)

// queued is a statement that waits to be sent, and what is made of its result; nil: nothing.
type queued struct {
	sql  string
	args []any
	take func(pgx.BatchResults) error
}

// patience is for how long an answer of the database is waited for. It ends a statement before that by itself, but not
// a network that is gone.
const patience = 10 * time.Second

// limits are set for each transaction, since a connection may be another one's next, behind a pool: the planner's
// compiler takes longer than any statement here; no lock outlives a program that stands still; and what was committed
// is on the disk, whatever is set for the database.
const limits = `SELECT set_config('jit', 'off', true), set_config('statement_timeout', '5s', true),
  set_config('lock_timeout', '2s', true), set_config('idle_in_transaction_session_timeout', '5s', true),
  set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)`

func (t *tx) queue(sql string, args ...any) {
	t.queued = append(t.queued, queued{sql: sql, args: args})
}

// take takes a connection, in place of one that is lost.
func (t *tx) take(ctx context.Context) error {
	t.release()
	conn, err := t.db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	t.held, t.c = conn, conn.Conn()
	return nil
}

// release gives the connection back. One that is not as it should be is closed by that.
func (t *tx) release() {
	if t.held != nil {
		t.held.Release()
		t.held, t.c = nil, nil
	}
}

// send sends a statement after what waits to be sent, and returns the results of it alone, which the caller closes. A
// connection may have been lost while nobody used it: a View that has read nothing goes on with another.
func (t *tx) send(sql string, args []any) (pgx.BatchResults, error) {
	waiting := t.queued
	t.queued = nil
	t.waitNoLonger()
	for try := 1; ; try++ {
		results, err := t.sendAll(waiting, sql, args)
		unread := t.reads && t.at.IsZero() && t.ctx.Err() == nil
		if err == nil || !unread || try == tries || !isLost(lostOn(t.c, err)) {
			return results, err
		}
		t.db.replace(lostOn(t.c, err))
		if err := t.take(t.ctx); err != nil {
			return nil, err
		}
	}
}

// waitNoLonger has a View end where it gets no answer for too long. An Update's context ends by itself.
func (t *tx) waitNoLonger() {
	switch {
	case !t.reads:
	case t.late == nil:
		t.late = time.AfterFunc(patience, t.giveUp)
	default:
		t.late.Reset(patience)
	}
}

func (t *tx) sendAll(waiting []queued, sql string, args []any) (pgx.BatchResults, error) {
	var b pgx.Batch
	for _, q := range waiting {
		b.Queue(q.sql, q.args...)
	}
	if sql != "" {
		b.Queue(sql, args...)
	}
	results := t.c.SendBatch(t.ctx, &b)
	for _, q := range waiting {
		var err error
		if q.take == nil {
			_, err = results.Exec()
		} else {
			err = q.take(results)
		}
		if err != nil {
			_ = results.Close() // the error is the same
			return nil, err
		}
	}
	return results, nil
}

// flush sends what waits to be sent.
func (t *tx) flush() error {
	if len(t.queued) == 0 {
		return nil
	}
	results, err := t.send("", nil)
	if err == nil {
		err = results.Close()
	}
	return err
}

func (t *tx) types() *pgtype.Map { return t.c.TypeMap() }

var errEnded = errors.New("store: transaction used after its function returned")

// Fail turns an error of a statement into one for the function. The database does nothing more in a transaction in
// which a statement has failed, so the function fails by it.
func (t *tx) Fail(err error) error {
	switch {
	case err == nil:
		return nil
	case t.reads && t.ctx.Err() != nil:
		err = notStarted(t.ctx)
	default:
		err = lostOn(t.c, err)
	}
	if t.broken == nil {
		t.broken = err
	}
	return fault(err)
}

func (t *tx) MayRead() error {
	switch {
	case t.ended:
		return errEnded
	case t.broken != nil:
		return fault(t.broken)
	case t.reads && t.ctx.Err() != nil:
		return notStarted(t.ctx)
	}
	return nil
}

func (t *tx) MayWrite() error {
	if (t.reads || t.prefetching) && !t.ended {
		return approval.ErrReadOnly
	}
	return t.MayRead()
}

func (t *tx) Stmt(q store.Query) store.Cursor { return &cursor{t: t, sql: queries[q]} }

func (t *tx) PrepareCached(sql string) store.Cursor { return &cursor{t: t, sql: spell(sql)} }

func (t *tx) Exec(c store.Cursor) (int, error) {
	for c.Step() {
	}
	n, err := c.Finish()
	t.invalidate(c.(*cursor).sql) // what was fetched along with it is from before it
	t.wrote = t.wrote || n > 0
	return n, t.Fail(err)
}

// Put queues a statement: what it comes to is known when something else is asked, or at the end.
func (t *tx) Put(c store.Cursor) error {
	q := c.(*cursor)
	if q.err != nil {
		return t.Fail(q.err)
	}
	t.invalidate(q.sql)
	t.queue(q.sql, q.args...)
	t.wrote = true
	return nil
}

// Expect queues the statement, and fails the transaction later where it changes no row, if there are prefetched rows
// that the function can have decided by.
func (t *tx) Expect(c store.Cursor) (bool, error) {
	if q := c.(*cursor); q.err == nil && t.prefetched != nil && !t.verifies {
		q.sql, t.assumes = orFail(q.sql), true
		return true, t.Put(q)
	}
	n, err := t.Exec(c)
	return n > 0, err
}

func (t *tx) GatherEvents() error {
	switch {
	case !t.reads:
		return t.Fail(t.number())
	case t.at.IsZero(): // nothing was sent yet: no connection is held while another is waited for
		t.release()
		err := t.db.numbering.gather(t.ctx, nil)
		if err == nil {
			err = t.take(t.ctx)
		}
		return t.Fail(err)
	}
	return nil
}

// SyncTo has nothing to do: what has a seq is committed.
func (*tx) SyncTo(int64) error { return nil }

// disorder is how long a transaction takes at most from when its time was read until its events may have a seq.
const disorder = 2 * patience

// Disorder implements [store.Engine]: a transaction may be committed after one that began later.
func (*tx) Disorder() time.Duration { return disorder }

func (t *tx) NextEnding() int64 {
	if t.reads {
		return 0 // a View ends nothing
	}
	if t.ending == t.endingTo {
		t.queued = append(t.queued, queued{sql: nextEndings, take: t.takeEndings})
		_ = t.Fail(t.flush()) // makes the function fail
	}
	return t.ending + 1
}

// TakeEnding says that one has got it. What was numbered elsewhere is not of the sequence.
func (t *tx) TakeEnding(seq int64) {
	if seq == t.ending+1 {
		t.ending = seq
	}
}

const (
	nextEndings = `SELECT nextval('request_endings')`
	// endingsAtOnce is by what the sequence grows.
	endingsAtOnce = 1000
)

func (t *tx) takeEndings(r pgx.BatchResults) error {
	var first int64
	err := r.QueryRow().Scan(&first)
	t.ending, t.endingTo = first-1, first-1+endingsAtOnce
	return err
}

// NoteID remembers an id, of which it is known then whose it is.
func (t *tx) NoteID(id string) { t.made = append(t.made, id) }

func (t *tx) Summary() *approval.Commit { return &t.summary }
func (t *tx) Room() *store.Room         { return &t.room }

// Now settles the moment of a View, which is before what it returns.
func (t *tx) Now() time.Time {
	if t.prefetching && t.at.IsZero() {
		return t.db.Now() // near enough to ask by
	}
	if t.at.IsZero() && t.MayRead() == nil {
		_ = t.Fail(t.flush()) // makes the function fail when it returns
	}
	return t.at
}

func (t *tx) Scope() approval.Scope { return t.about }
func (t *tx) Glance() approval.Tx   { return t }

func (t *tx) NewID() string {
	if t.reads || t.ended {
		return ""
	}
	return t.db.giveID(t.floor, t.at)
}

// Append gives an event its id and its time. It has its seq after the commit.
func (t *tx) Append(e approval.Event) (approval.Event, error) {
	if err := t.MayWrite(); err != nil {
		return approval.Event{}, err
	}
	e.ID, e.Seq, e.At = t.NewID(), 0, t.at
	if err := t.InsertEvent(&e); err != nil {
		return approval.Event{}, err
	}
	t.summary.Events = append(t.summary.Events, e)
	return e, nil
}
