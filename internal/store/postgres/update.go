package postgres

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"countersign/approval"
)

const (
	// tries is how often a function runs at most whose transaction comes to nothing because of others.
	tries = 10
	// pause is for how long at most one waits before it runs again.
	pause = 100 * time.Millisecond
)

// Update runs fn as [approval.Store] says, in the caller's goroutine.
func (d *DB) Update(ctx context.Context, about approval.Scope, fn func(tx approval.Tx) error) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	err := d.updateIn(ctx, about, fn)
	if approval.IsNarrow(err) && !about.IsWhole() {
		err = d.updateIn(ctx, approval.WholeStore(), fn)
	}
	return err
}

// updateIn is Update, once it is the turn of its scope.
func (d *DB) updateIn(ctx context.Context, about approval.Scope, fn func(tx approval.Tx) error) error {
	of, err := d.resolve(ctx, about)
	if err != nil {
		return err
	}
	release, err := d.turns.take(ctx, of)
	if err != nil {
		return err
	}
	defer release()
	verifies := false
	for try := 1; ; try++ {
		r := run{db: d, about: about, of: of, verifies: verifies, fn: fn}
		err := r.attempt(ctx)
		if r.own {
			return err
		}
		if isUnmet(err) {
			verifies = true
			continue
		}
		if errors.Is(err, errMoved) {
			ending := d.endRestored(ctx)
			if ending == nil && try < tries {
				continue
			}
			err = cmp.Or(ending, err)
		}
		if err == nil || r.unknown || try == tries || !mayRunAgain(err) {
			return fault(err)
		}
		if !r.started && ctx.Err() != nil {
			return notStarted(ctx)
		}
		time.Sleep(rand.N(pause))
	}
}

// run is one run of a function.
type run struct {
	db       *DB
	about    approval.Scope
	of       approval.Scope // the same, resolved
	verifies bool           // it waits for what it expects, since that was not so
	follows  bool           // it runs although the database is of another lineage than the store was
	fn       func(tx approval.Tx) error
	started  bool
	own      bool // the error is the function's own
	unknown  bool // what became of the COMMIT could not be found out
}

// attempt runs the function in a transaction of its own.
func (r *run) attempt(ctx context.Context) error {
	t := &tx{db: r.db, ctx: ctx, about: r.about, of: r.of, verifies: r.verifies}
	t.Begin(t)
	if err := t.take(ctx); err != nil {
		if ctx.Err() != nil {
			return notStarted(ctx)
		}
		return err
	}
	defer t.release()
	defer func() { // also where the function panics or ends its goroutine
		t.ended = true
		t.rollback()
	}()
	if err := t.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return notStarted(ctx)
		}
		err = lostOn(t.c, err)
		r.db.replace(err)
		return err
	}
	if t.shut != "" {
		return errShut(t.shut)
	}
	if t.was != t.lineage && !r.follows && isOther(t.was, t.lineage, false) {
		return errMoved
	}
	r.started = true
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	t.ctx = within
	err := r.fn(t)
	if err != nil && t.assumes && t.broken == nil { // it may be because of a change that was not made
		t.broken = lostOn(t.c, t.flush())
	}
	if err != nil && t.broken == nil {
		r.own = true
		return err
	}
	if t.broken != nil {
		return t.broken
	}
	if r.db.beforeCommit != nil && t.wrote {
		r.db.beforeCommit(t.summary)
	}
	if err := r.commit(t); err != nil {
		return err
	}
	r.db.failpoint("after-commit")
	if kind, agent := t.of.Of(); kind == approval.ScopeAgent {
		r.db.owners.learn(agent, t.made...)
	}
	if t.wrote {
		r.db.committed(&t.summary)
	}
	return nil
}

// committed tells of what has become durable.
func (d *DB) committed(c *approval.Commit) {
	if len(c.Events) > 0 {
		d.numbering.note()
		d.wakes.note(c.Events)
	}
	if d.onCommit != nil {
		d.onCommit(*c)
	}
}

// begin begins the transaction, with the lock of its scope, and then its time: nothing that is committed before has a
// later one.
func (t *tx) begin(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.ctx = within
	t.queue("BEGIN")
	t.queue(limits)
	t.queued = append(t.queued, locks(t.of)...)
	floor := `SELECT max(id) FROM epochs`
	if t.of.IsWhole() { // a freeze is after all that was asked for, by whichever program
		floor = newestID
	}
	t.queued = append(t.queued, t.db.clock.read(t, "pg_current_xact_id()::text, coalesce(("+floor+"), ''), "+
		"coalesce(lineage, ''), "+t.db.lineage+", "+shutIs),
		queued{sql: nextEndings, take: t.takeEndings})
	t.prefetch()
	return t.flush()
}

// newestID is the greatest id of what a freeze ends, and of freezes: ids of several programs grow together only as far
// as their times do.
const newestID = `SELECT greatest((SELECT max(id) FROM epochs), (SELECT max(id) FROM approval_requests),
    (SELECT max(id) FROM grants))`

// replace has no connection used again where err means that one was lost while it was idle: all may have been, more
// than are tried one after another.
func (d *DB) replace(err error) {
	if errors.Is(err, errLost) {
		d.pool.Reset()
	}
}

// rollback gives the transaction up, if there is one. A connection on which that fails is not used again.
func (t *tx) rollback() {
	if t.c == nil || t.c.IsClosed() || t.c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), patience)
	defer cancel()
	_, _ = t.c.Exec(ctx, "ROLLBACK")
}

// commit commits the transaction, with what waits to be sent.
func (r *run) commit(t *tx) error {
	r.db.failpoint("before-commit")
	results, err := t.send("COMMIT", nil)
	if err == nil {
		tag, commitErr := results.Exec()
		if err = errors.Join(commitErr, results.Close()); err == nil && tag.String() != "COMMIT" {
			err = errors.New("store: the database has undone the transaction instead of committing it")
		}
	}
	if err = lostOn(t.c, err); err == nil || !isLost(err) {
		return err
	}
	t.release() // all may have been lost at once, and each is to be asked about on another
	committed, unknown := r.db.outcome(t.xid, t.lineage)
	if unknown != nil {
		r.unknown = true
		return unavailable("The connection to the store's database was lost while it committed, and it is not known whether "+
			"it has. Look before you do it again.", errors.Join(err, unknown))
	}
	if committed {
		return nil
	}
	return err
}

// end ends a View. Who has read does not wait for the database to know.
func (t *tx) end() {
	t.ended = true
	if t.late != nil {
		t.late.Stop()
	}
	t.db.running.Go(func() {
		t.rollback()
		t.release()
	})
}

// View runs fn on the state of one moment, which is that of fn's first read or its first look at the time. When ctx
// ends, its reads fail. NewID returns "" in fn.
func (d *DB) View(ctx context.Context, fn func(tx approval.Tx) error) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	within, giveUp := context.WithCancel(ctx)
	defer giveUp()
	t := &tx{db: d, ctx: within, about: approval.WholeStore(), reads: true, giveUp: giveUp}
	t.Begin(t)
	if err := t.take(ctx); err != nil {
		if ctx.Err() != nil {
			return notStarted(ctx)
		}
		return fault(err)
	}
	defer t.end()
	t.queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	t.queue(limits)
	t.queued = append(t.queued, d.clock.read(t, "'', '', '', '', ''"))
	err := fn(t)
	if err == nil {
		err = fault(t.broken)
	}
	return err
}
