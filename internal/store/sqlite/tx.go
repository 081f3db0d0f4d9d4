package sqlite

import (
	"context"
	"errors"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/store"
	"countersign/internal/store/sqlite/sqlite3"
)

// tx is one run of one function: in the writer's transaction, or in a View. It is the engine of its rows.
type tx struct {
	store.Rows
	db      *DB
	c       *sqlite3.Conn
	w       *writer         // nil in a View
	ctx     context.Context // of a View, nil in the writer
	at      time.Time
	settled bool  // a View has read, so that its moment is settled
	guard   bool  // the function is to have a savepoint
	wrote   bool  // it has begun to write, behind its savepoint if it has one
	broken  error // makes the function fail whatever it returns
	ended   bool
}

var _ interface {
	signin.Tx
	passkey.Tx
	store.Engine
} = (*tx)(nil)

func (t *tx) withRows() *tx {
	t.Begin(t)
	return t
}

var errEnded = errors.New("store: transaction used after its function returned")

// Fail turns an error of a statement into one for the function, and remembers it if nothing that the
// function does after it can be trusted.
func (t *tx) Fail(err error) error {
	if err == nil {
		return nil
	}
	if breaksConnection(err) && t.broken == nil {
		t.broken = fault(err)
	}
	return fault(err)
}

// MayRead says whether the function may go on to read.
func (t *tx) MayRead() error {
	if t.ended {
		return errEnded
	}
	if t.ctx != nil && t.ctx.Err() != nil {
		return notStarted(t.ctx)
	}
	t.settled = true
	return t.broken
}

// MayWrite says whether the function may go on to write, before the first time behind a savepoint if it is to have one.
func (t *tx) MayWrite() error {
	switch {
	case t.ended:
		return errEnded
	case t.w == nil:
		return approval.ErrReadOnly
	case t.broken != nil:
		return t.broken
	case !t.wrote && t.guard:
		if _, err := t.c.Stmt(savepoint).Exec(); err != nil {
			return t.Fail(err)
		}
	}
	t.wrote = true
	return nil
}

func (t *tx) Stmt(q store.Query) store.Cursor       { return t.c.Stmt(ofRows + sqlite3.Query(q)) }
func (t *tx) PrepareCached(sql string) store.Cursor { return t.c.PrepareCached(sql) }

func (t *tx) Exec(c store.Cursor) (int, error) {
	for c.Step() {
	}
	n, err := c.Finish()
	if err != nil {
		return 0, t.Fail(err)
	}
	t.w.changes = t.w.changes || n > 0
	return n, nil
}

func (t *tx) Put(c store.Cursor) error {
	_, err := t.Exec(c)
	return err
}

// Expect knows at once.
func (t *tx) Expect(c store.Cursor) (bool, error) {
	n, err := t.Exec(c)
	return n > 0, err
}

func (t *tx) NextEnding() int64 {
	if t.w == nil {
		return 0 // a View ends nothing
	}
	return t.w.endings + 1
}

func (t *tx) TakeEnding(seq int64)      { t.w.endings = max(t.w.endings, seq) }
func (t *tx) NoteID(id string)          { t.w.onRows.id = max(t.w.onRows.id, id) }
func (t *tx) Summary() *approval.Commit { return &t.w.summary }
func (t *tx) Room() *store.Room         { return &t.w.room }

// Now settles the moment of a View before it looks at the clock: what the View reads is not of later.
func (t *tx) Now() time.Time {
	if t.at.IsZero() {
		if !t.settled && t.MayRead() == nil {
			s := t.c.Stmt(readNothing)
			s.Step()
			_, err := s.Finish()
			_ = t.Fail(err) // makes the function fail when it returns
		}
		t.at = t.db.Now()
	}
	return t.at
}

// Scope is that of all transactions: the writer runs one at a time.
func (t *tx) Scope() approval.Scope { return approval.WholeStore() }

func (t *tx) Glance() approval.Tx { return t }

// Ahead has nothing to save: a statement is as quick by itself.
func (*tx) Ahead(func()) {}

func (t *tx) NewID() string {
	if t.w == nil || t.ended {
		return ""
	}
	t.w.lastID = store.NextID(t.w.lastID, t.at)
	return t.w.lastID.String()
}

// Append gives an event its seq, its id and its time.
func (t *tx) Append(e approval.Event) (approval.Event, error) {
	if err := t.MayWrite(); err != nil {
		return approval.Event{}, err
	}
	if e.Type == approval.EventFrozen { // what was allowed before it stands before it
		if err := t.w.takeNewer(t); err != nil {
			return approval.Event{}, err
		}
	}
	return t.append(e)
}

// append is Append where that has been found possible.
func (t *tx) append(e approval.Event) (approval.Event, error) {
	e.ID, e.Seq, e.At = t.NewID(), t.w.seq+1, t.at
	if err := t.InsertEvent(&e); err != nil {
		return approval.Event{}, err
	}
	t.w.seq++
	t.w.onRows = onRows{e.Seq, e.At, e.ID}
	if t.w.onCommit != nil {
		t.w.summary.Events = append(t.w.summary.Events, e)
	}
	return e, nil
}
