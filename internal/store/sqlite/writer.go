package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"countersign/approval"
	"countersign/internal/store"
	"countersign/internal/store/sqlite/sqlite3"
)

// job is one function on its way through the writer.
type job struct {
	ctx   context.Context
	fn    func(approval.Tx) error
	state atomic.Int32
	done  chan struct{} // receives one value when the rest is set
	then  func(error)   // called instead, where the caller has gone on; nil: it waits
	err   error
	value *panicked // fn panicked
	exit  bool      // fn ended its goroutine

	durability durability // of its commit
}

const (
	waiting int32 = iota
	started
	abandoned
)

var jobs = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// start reports whether the job's function may run; once it may, it may again.
func (j *job) start() bool {
	if j.state.Load() == started {
		return true
	}
	return j.ctx.Err() == nil && j.state.CompareAndSwap(waiting, started)
}

func (j *job) abandon() bool { return j.state.CompareAndSwap(waiting, abandoned) }

// finish answers the caller, if it has not gone. The job is the caller's then.
func (j *job) finish(err error) {
	j.err, j.value = err, nil
	j.answer()
}

// answer gives the caller what has been set.
func (j *job) answer() {
	if j.then == nil {
		j.done <- struct{}{}
		return
	}
	then, err := j.then, j.err
	switch {
	case j.value != nil:
		err = j.value
	case j.exit:
		err = errExited
	}
	j.free()
	then(err)
}

// free gives the job back, of which nothing is needed any more.
func (j *job) free() {
	j.ctx, j.fn, j.then, j.err, j.value, j.exit = nil, nil, nil, nil, nil, false
	j.state.Store(waiting)
	jobs.Put(j)
}

// errExited is what becomes of a function that ended its goroutine, for a caller who has gone on.
var errExited = errors.New("store: the function ended its goroutine")

// panicked is a panic of a function, raised again where Update was called.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("%v\n\nin a function given to store.Update:\n%s", p.value, p.stack)
}

func (p *panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// writer owns the connection that writes. All but queue, mu and stopped belongs to its goroutine.
type writer struct {
	db           *DB
	batchMax     int
	groupTime    time.Duration
	onCommit     func(approval.Commit)
	beforeCommit func(approval.Commit) // Options.BeforeCommit
	onFull       func()                // Options.OnFull
	failpoint    func(string)

	committed atomic.Pointer[chan struct{}] // closed when the next group has been committed
	mu        sync.RWMutex                  // held for writing when the queue is closed
	closed    bool
	queue     chan *job
	stopped   chan struct{}

	c            *sqlite3.Conn // nil: to be opened again
	seq          int64
	life         string // of the store
	endings      int64  // the resolved_seq given out last: endings are counted apart, and events without a hole
	savedEndings int64  // and as store_state has it
	lastID       ulid.ULID

	kept       clockState  // as store_state has it; zero: not known
	level      string      // of synchronous, in c
	unsynced   bool        // records lie in the log that are not synced
	syncFailed bool        // the last commit that was to be synced could not be
	syncTimer  *time.Timer // syncs what is unsynced; nil: never yet

	group         []*job // being committed
	grouped       bool   // the last group was of several callers; one who is alone waits for no other
	unbroken      int    // groups since there was nothing to do
	carried       []*job // of a group that took long enough: they come first in the next
	retries       []*job // of groups that were lost, to be committed one by one
	guardedGroups int    // groups that are still to have savepoints
	seqBefore     int64  // when the transaction began
	endingsBefore int64  // then
	changes       bool   // the transaction has changed something
	summary       approval.Commit
	mustSync      bool      // a caller waits for the log to be synced
	logged        int64     // up to which event of the event log the database has them
	takenTo       int64     // and up to which with this group
	newest        time.Time // of the transactions: none that follows is of earlier
	onRows        onRows    // what of seq, ids and time the rows of this group say
	room          store.Room
	pins          []approval.ToolPin // that this group has read or put on record
	saved         storedState        // what was written last
	gaps          []approval.Event   // what is missing in the audit log, to be told when the store is opened
	damaged       bool               // the event log was, when the store was opened
	exited        *job               // its function has ended the writer's goroutine
}

func newWriter(d *DB, o Options) (_ *writer, err error) {
	w := &writer{
		db: d, batchMax: o.BatchMax, groupTime: o.GroupTime, onCommit: o.OnCommit,
		beforeCommit: o.BeforeCommit, onFull: o.OnFull, failpoint: o.Failpoint,
		queue: make(chan *job, 4*o.BatchMax), stopped: make(chan struct{}),
	}
	committed := make(chan struct{})
	w.committed.Store(&committed)
	if w.failpoint == nil {
		w.failpoint = func(string) {}
	}
	if w.c, err = d.openWriter(); err != nil {
		return nil, fault(err)
	}
	w.level = syncFull
	err = w.load(o)
	if err == nil {
		err = w.restand()
	}
	if err != nil {
		if d.events != nil {
			err = errors.Join(err, d.events.file.Close())
		}
		return nil, errors.Join(fault(err), w.c.Close())
	}
	return w, nil
}

// load takes up time, seq and ids where the last process has left them. After one that was cut off, what it left is
// synced, and where the power may have gone seqs are passed over that it may have given out.
func (w *writer) load(o Options) error {
	kept, err := w.loadKept()
	if err != nil {
		return err
	}
	if err := w.db.recognize(w.c, &kept); err != nil {
		return err
	}
	w.life = kept.life
	if kept.seq > 0 { // after a folder was put back, an operator sees it here
		w.db.log.Info("the store goes on from where it was left", slog.Time("at", fromEpoch(kept.clock.at)),
			slog.Int64("event", kept.seq))
	}
	if err := w.openEvents(&kept, o.Now()); err != nil {
		return err
	}
	w.seq, w.endings, w.savedEndings = kept.seq, kept.endings, kept.endings
	if kept.endings < 0 {
		if w.endings = kept.seq; kept.seq > 0 {
			w.explain("endings_had_numbers", 1, kept.seq)
		}
	}
	w.logged, w.takenTo = kept.logged, kept.logged
	w.db.clock = newClock(o.Now, o.Elapsed, o.Boot, w.db.log, kept.clock)
	if boot := w.db.clock.boot; w.db.cutOff && (boot == "" || boot != kept.clock.boot) {
		w.explain("power_may_have_failed", w.seq+1, w.seq+skipAhead)
		w.seq += skipAhead
	}
	w.db.seq.Store(w.seq)
	w.db.synced.Store(w.seq)
	if !w.db.cutOff && len(w.gaps) == 0 && w.db.events.count.Load() == 0 {
		return nil
	}
	tell, beforeCommit := w.onCommit, w.beforeCommit
	w.onCommit, w.beforeCommit = nil, nil // no part is there yet which it could be told
	defer func() { w.onCommit, w.beforeCommit = tell, beforeCommit }()
	if err := w.takeUp(); err != nil || !w.damaged {
		return err
	}
	return w.db.events.setAside(o.Now())
}

// takeUp commits what is left of the last process, synced, and what load has found missing: in one transaction, so that
// no death in between leaves numbers missing that no event explains.
func (w *writer) takeUp() error {
	j := &job{ctx: context.Background(), done: make(chan struct{}, 1), fn: func(tx approval.Tx) error {
		w.mustSync = true
		w.takenTo = w.db.events.position // what is missing is told once
		for _, e := range w.gaps {
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	}}
	w.group = append(w.group[:0], j)
	return cmp.Or(w.attempt(), j.err, w.allTaken())
}

// loadKept reads what is kept, and what of it the newest rows tell.
func (w *writer) loadKept() (kept storedState, err error) {
	s := w.c.Stmt(loadState)
	if !s.Step() {
		_, err := s.Finish()
		return kept, errors.Join(err, errors.New("store: store_state is empty"))
	}
	kept = scanState(s)
	if _, err := s.Finish(); err != nil {
		return kept, err
	}
	ids := []string{kept.lastID}
	s = w.c.Stmt(loadNewest)
	if s.Step() {
		kept.seq = max(kept.seq, s.ColumnInt())
		if since := sinceEpoch(s.ColumnTime()) - kept.clock.at; since > 0 { // see stateFollows
			kept.clock.at += since
			kept.clock.elapsed += since
		}
		ids = append(ids, s.ColumnText(), s.ColumnText(), s.ColumnText())
	}
	if _, err := s.Finish(); err != nil {
		return kept, err
	}
	for _, text := range ids {
		if text == "" {
			continue
		}
		id, err := ulid.ParseStrict(text)
		if err != nil {
			return kept, fmt.Errorf("store: id %q: %w", text, err)
		}
		if id.Compare(w.lastID) > 0 {
			w.lastID = id
		}
	}
	return kept, nil
}

// gap is the event that says that something is missing in the audit log, and why.
func gap(why, data string) approval.Event {
	return approval.Event{Type: approval.EventAuditGap, Actor: "system:store", Reason: why, Data: []byte(data)}
}

// explain has an event say why numbers are missing in the audit log, as soon as there can be one.
func (w *writer) explain(why string, from, to int64) {
	w.gaps = append(w.gaps, gap(why, fmt.Sprintf(`{"from_seq":%d,"to_seq":%d}`, from, to)))
}

// openEvents opens the event log. Time goes on from the newest event that it holds, if that is later than what is kept.
func (w *writer) openEvents(kept *storedState, now time.Time) error {
	events, left, err := openEventLog(w.db, kept.logged, latestEvent(kept.clock.at, now))
	if err != nil {
		return err
	}
	if missing := left.missing(); left.damaged || missing > 0 {
		w.gaps = append(w.gaps, gap("event_log_damaged", fmt.Sprintf(`{"records":%d}`, missing)))
		w.damaged = true
		w.db.log.Error("the event log beside the store is damaged: records of allowed calls are missing in the audit log; "+
			"see that the disk is sound", slog.Int64("known", missing))
	}
	w.db.events, w.newest = events, fromEpoch(kept.clock.at)
	if newest := events.resume(left); newest != nil {
		if since := sinceEpoch(newest.At) - kept.clock.at; since > 0 {
			kept.clock.at += since
			kept.clock.elapsed += since
		}
	}
	return nil
}

// update is the callers' side of the writer.
func (w *writer) update(ctx context.Context, fn func(approval.Tx) error, promise durability) error {
	if ctx.Err() != nil {
		return notStarted(ctx)
	}
	j := jobs.Get().(*job)
	j.ctx, j.fn, j.durability = ctx, fn, promise
	if err := w.enqueue(ctx, j); err != nil {
		return err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if j.abandon() {
			return notStarted(ctx)
		}
		<-j.done // it has begun, and so it will end
	}
	err, value, exit := j.err, j.value, j.exit
	j.free()
	switch {
	case exit:
		runtime.Goexit()
	case value != nil:
		panic(value)
	}
	return err
}

// notifyCommitted tells those who asked that a group was committed that has written something.
func (w *writer) notifyCommitted() {
	next := make(chan struct{})
	close(*w.committed.Swap(&next))
}

// ping returns nil once a group is committed that had not been when it was called and has written something, whosever
// it is: one of its own unless others wait. A group that writes nothing is committed on a full disk as well.
func (w *writer) ping(ctx context.Context) error {
	committed := *w.committed.Load()
	j := &job{ctx: ctx, fn: func(x approval.Tx) error {
		x.(*tx).w.mustSync = true
		return nil
	}, done: make(chan struct{}, 1)}
	w.mu.RLock()
	if w.closed {
		w.mu.RUnlock()
		return errClosed()
	}
	select {
	case w.queue <- j:
	default:
	}
	w.mu.RUnlock()
	select {
	case <-committed:
		j.abandon()
		return nil
	case <-j.done:
		return j.err
	case <-ctx.Done():
		j.abandon()
		return notStarted(ctx)
	}
}

func (w *writer) enqueue(ctx context.Context, j *job) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return errClosed()
	}
	select {
	case w.queue <- j:
		return nil
	case <-ctx.Done():
		return notStarted(ctx)
	}
}

// enqueueNow puts a job into the queue, and reports false where it would have to wait for that.
func (w *writer) enqueueNow(j *job) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return false
	}
	select {
	case w.queue <- j:
		return true
	default:
		return false
	}
}

// stop lets the writer finish its queue and waits for its end.
func (w *writer) stop() {
	w.mu.Lock()
	w.closed = true
	close(w.queue)
	w.mu.Unlock()
	<-w.stopped
}

// loop commits groups of whatever is waiting until the queue is closed and empty.
func (w *writer) loop() {
	defer func() {
		if w.exited != nil {
			go w.resumeAfterGoexit() // this goroutine is lost; another one goes on
			return
		}
		close(w.stopped)
	}()
	for {
		if len(w.retries) > 0 {
			w.retryNext()
			continue
		}
		if !w.nextGroup() {
			return
		}
		err := w.attempt()
		if errors.Is(err, errUndo) {
			w.guardedGroups = guardedAfterUndo
			if err = w.undo(); err == nil {
				err = w.attempt()
			}
		}
		if err != nil {
			w.abort()
			w.noteFull(err)
			w.db.log.Warn("a group of updates could not be committed; trying them one by one", "updates", len(w.group), "error",
				err)
			for _, j := range w.group {
				if j != nil {
					w.retries = append(w.retries, j)
				}
			}
		}
	}
}

// noteFull has room made on the disk where there was none.
func (w *writer) noteFull(err error) {
	e, ok := errors.AsType[*sqlite3.Error](err)
	if ok && e.Code.Primary() == sqlite3.CodeFull && w.onFull != nil {
		w.onFull()
	}
}

// retryNext commits the first of the functions that are to be committed one by one.
func (w *writer) retryNext() {
	j := w.retries[0]
	w.retries = w.retries[1:]
	w.group = append(w.group[:0], j)
	if err := w.attempt(); err != nil {
		w.abort()
		w.db.log.Error("an update could not be committed", "error", err)
		j.finish(err)
	}
}

// inTurns is how many groups follow each other without a pause before that means several callers who take turns, and
// not one decision with all that comes of it.
const inTurns = 4

// next waits for something to do.
func (w *writer) next() (j *job, ok bool) {
	select {
	case j, ok = <-w.queue:
		w.unbroken++
	default:
		w.unbroken = 0
		j, ok = <-w.queue
	}
	return j, ok
}

// nextGroup waits for something to do and takes what there is, up to the most there may be in a group. It reports
// false when the queue is closed and empty.
func (w *writer) nextGroup() bool {
	w.grouped = len(w.group) > 1
	w.group = append(w.group[:0], w.carried...)
	w.carried = w.carried[:0]
	if len(w.group) == 0 {
		j, ok := w.next()
		if !ok {
			return false
		}
		if j.then == nil && (w.grouped || w.unbroken >= inTurns) {
			runtime.Gosched() // let the callers just answered come back and be part of this group
		}
		w.group = append(w.group, j)
	}
	for len(w.group) < w.batchMax {
		select {
		case j, ok := <-w.queue:
			if !ok {
				return true
			}
			w.group = append(w.group, j)
		default:
			return true
		}
	}
	return true
}

// resumeAfterGoexit goes on for a goroutine that was ended by a function, as a failing test does: that function
// comes to nothing and the others of its group begin anew.
func (w *writer) resumeAfterGoexit() {
	gone := w.exited
	w.exited = nil
	w.abort()
	for _, j := range w.group {
		if j != nil && j != gone {
			w.retries = append(w.retries, j)
		}
	}
	gone.exit = true
	gone.finish(nil)
	w.loop()
}

// attempt runs the group in one transaction and answers every caller in it. After an error nothing of it is
// stored and no caller has been answered.
func (w *writer) attempt() error {
	w.failpoint("before-begin")
	if err := w.begin(); err != nil {
		w.refuse(err)
		return nil
	}
	w.changes, w.mustSync, w.summary, w.onRows, w.pins = false, false, approval.Commit{}, onRows{}, w.pins[:0]
	err := w.takeLogged()
	if err == nil {
		err = w.restand()
	}
	if err != nil {
		w.abort()
		w.refuse(err)
		return nil
	}
	undo := undoByRerun
	switch {
	case len(w.group) == 1 && w.takenTo == w.logged:
		undo = undoAll
	case w.guardedGroups > 0:
		undo = undoToSavepoint
	}
	w.guardedGroups = max(0, w.guardedGroups-1)
	began := time.Now()
	for i, j := range w.group {
		if i > 0 && time.Since(began) >= w.groupTime { // no caller waits for the work of more than that
			w.carried = append(w.carried, w.group[i:]...)
			w.group = w.group[:i]
			break
		}
		if j == nil || !j.start() {
			w.group[i] = nil // it was given up, and is the caller's
			continue
		}
		if err := w.run(j, undo); err != nil {
			return err
		}
	}
	if err := w.commit(); err != nil {
		return fault(err)
	}
	if w.changes && w.onCommit != nil {
		w.onCommit(w.summary)
	}
	for _, j := range w.group {
		if j != nil {
			j.answer()
		}
	}
	return nil
}

// restand has the freezes known again that were changed before the transaction that has begun.
func (w *writer) restand() error {
	if w.db.standing.isSure() {
		return nil
	}
	return w.db.standing.restand((&tx{db: w.db, c: w.c, w: w, at: w.newest}).withRows().Epochs)
}

// refuse answers every caller in the group with what keeps it from being committed.
func (w *writer) refuse(err error) {
	w.db.events.stalled.Store(true)
	w.noteFull(err)
	err = fault(err)
	for _, j := range w.group {
		if j != nil && j.start() {
			j.finish(err)
		}
	}
}

func (w *writer) begin() (err error) {
	if err := w.db.lostError(); err != nil {
		return err
	}
	if w.c == nil {
		if w.c, err = w.db.openWriter(); err != nil {
			w.c = nil
			return err
		}
		w.level = syncFull
	}
	w.seqBefore, w.endingsBefore = w.seq, w.endings
	if err := w.setLevel(w.levelFor(w.group)); err != nil {
		w.abort()
		return err
	}
	if _, err := w.c.Stmt(beginWrite).Exec(); err != nil {
		if breaksConnection(err) && !busy(err) {
			w.abort()
		}
		return err
	}
	return nil
}

// errUndo is what [writer.run] returns for a function that must be undone and has no savepoint.
var errUndo = errors.New("store: a function of the group has failed")

// guardedAfterUndo is for how many groups each function gets a savepoint after one had to be undone. A
// savepoint costs a sixth of a small transaction, and hardly any function fails once it has written.
const guardedAfterUndo = 32

// undoing is how one function of a group is undone.
type undoing int

const (
	undoByRerun     undoing = iota // by running the group again, with savepoints
	undoToSavepoint                // by rolling back to the savepoint that it has
	undoAll                        // by rolling back the transaction, in which it is alone
)

// run runs one function and leaves its answer in j. An error means that the transaction is lost, or with
// errUndo that it must be given up.
func (w *writer) run(j *job, undo undoing) error {
	w.newest = w.db.Now()
	t := (&tx{db: w.db, c: w.c, w: w, at: w.newest, guard: undo == undoToSavepoint}).withRows()
	seq, endings, summary, changes, takenTo, pins := w.seq, w.endings, w.summary, w.changes, w.takenTo, len(w.pins)
	j.value = nil // of an earlier run
	err := w.call(j, t)
	t.ended = true
	if t.broken != nil {
		w.db.events.stalled.Store(true)
		err = cmp.Or(err, t.broken)
	}
	j.err = err
	switch {
	case !w.c.InTransaction():
		if t.broken == nil {
			t.broken = unavailable("The store has given up the transaction; try again.", nil)
		}
		return t.broken
	case !t.wrote:
		return nil
	case err == nil:
		if t.guard {
			_, err = w.c.Stmt(release).Exec()
		}
		return fault(err)
	}
	w.seq, w.endings, w.summary, w.changes, w.onRows = seq, endings, summary, changes, onRows{}
	w.takenTo, w.pins = takenTo, w.pins[:pins]
	switch undo {
	case undoAll:
		return w.undo()
	case undoToSavepoint:
		if _, err = w.c.Stmt(rollbackTo).Exec(); err == nil {
			_, err = w.c.Stmt(release).Exec()
		}
		return fault(err)
	}
	return errUndo
}

// undo rolls the transaction back.
func (w *writer) undo() error {
	w.seq, w.endings = w.seqBefore, w.endingsBefore
	_, err := w.c.Stmt(rollback).Exec()
	return fault(err)
}

// call turns a panic of the function into an error, and notes when it ends the goroutine.
func (w *writer) call(j *job, t *tx) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			j.value = &panicked{value: v, stack: debug.Stack()}
			err = j.value
			return
		}
		t.ended = true
		w.exited = j
	}()
	err = j.fn(t)
	returned = true
	return err
}

// commit makes durable what the functions have left, with the state that the next process starts from.
func (w *writer) commit() error {
	writes := w.changes || w.mustSync
	saves := writes && (!w.changes || w.takenTo > w.logged || !w.stateFollows())
	if saves {
		if err := w.saveState(); err != nil {
			return err
		}
	}
	if w.changes && w.beforeCommit != nil {
		w.beforeCommit(w.summary)
	}
	w.failpoint("before-commit")
	if w.c.InTransaction() {
		if _, err := w.c.Stmt(commit).Exec(); err != nil {
			w.syncFailed = true
			return err
		}
	}
	w.db.seq.Store(w.seq)
	w.db.standing.keep(w.pins)
	if w.takenTo > w.logged {
		w.logged = w.takenTo
		w.db.events.dropTaken(w.logged)
	}
	if saves {
		w.kept, w.savedEndings = w.saved.clock, w.saved.endings
	}
	if writes {
		w.noteCommit()
		w.notifyCommitted()
	}
	w.failpoint("after-commit")
	return nil
}

func (w *writer) saveState() error {
	if w.c == nil {
		return nil
	}
	w.saved = storedState{seq: w.seq, lastID: w.lastID.String(), clock: w.db.clock.state(), logged: w.takenTo,
		life: w.life, endings: w.endings}
	s := w.c.Stmt(saveState)
	w.saved.bind(s)
	_, err := s.Exec()
	return err
}

// abort gives up the transaction and its connection, of which nothing is sure any more.
func (w *writer) abort() {
	w.db.events.stalled.Store(true)
	if err := w.c.Close(); err != nil {
		w.db.log.Warn("a broken connection to the store could not be closed", "error", err)
	}
	w.c, w.seq, w.endings = nil, w.seqBefore, w.endingsBefore
}
