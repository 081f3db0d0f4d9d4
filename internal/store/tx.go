package store

import (
	"context"
	"errors"
	"time"

	"countersign/approval"
	"countersign/internal/store/sqlite3"
)

// tx is one run of one function: in the writer's transaction, or in a View.
type tx struct {
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

	durability durability // of the function's commit
}

var _ approval.Tx = (*tx)(nil)

var errEnded = errors.New("store: transaction used after its function returned")

// fail turns an error of a statement into one for the function, and remembers it if nothing that the
// function does after it can be trusted.
func (t *tx) fail(err error) error {
	if err == nil {
		return nil
	}
	if broken(err) && t.broken == nil {
		t.broken = fault(err)
	}
	return fault(err)
}

// readable says whether the function may go on to read.
func (t *tx) readable() error {
	if t.ended {
		return errEnded
	}
	if t.ctx != nil && t.ctx.Err() != nil {
		return notStarted(t.ctx)
	}
	t.settled = true
	return t.broken
}

// writable says whether the function may go on to write.
func (t *tx) writable() error {
	if t.w != nil && t.durability == recorded {
		return approval.ErrRecordOnly
	}
	return t.appendable()
}

// appendable says whether the function may go on to append events, before the first time behind a savepoint if it is
// to have one.
func (t *tx) appendable() error {
	switch {
	case t.ended:
		return errEnded
	case t.w == nil:
		return approval.ErrReadOnly
	case t.broken != nil:
		return t.broken
	case !t.wrote && t.guard:
		if _, err := t.c.Stmt(savepoint).Exec(); err != nil {
			return t.fail(err)
		}
	}
	t.wrote = true
	return nil
}

// changed is the end of a statement that writes.
func (t *tx) changed(s *sqlite3.Stmt) (bool, error) {
	n, err := s.Exec()
	if err != nil {
		return false, t.fail(err)
	}
	if n > 0 {
		t.w.changes = true
	}
	return n > 0, nil
}

// Now settles the moment of a View before it looks at the clock: what the View reads is not of later.
func (t *tx) Now() time.Time {
	if t.at.IsZero() {
		if !t.settled && t.readable() == nil {
			s := t.c.Stmt(readNothing)
			s.Step()
			_, err := s.Finish()
			_ = t.fail(err) // makes the function fail when it returns
		}
		t.at = t.db.Now()
	}
	return t.at
}

// Scope is that of all transactions: the writer runs one at a time.
func (t *tx) Scope() approval.Scope { return approval.WholeStore() }

func (t *tx) Glance() approval.Tx { return t }

func (t *tx) NewID() string {
	if t.w == nil || t.ended {
		return ""
	}
	t.w.lastID = nextID(t.w.lastID, t.at)
	return t.w.lastID.String()
}

// all reads every row of s, at most limit of them if that is positive.
func all[T any](t *tx, s *sqlite3.Stmt, limit int, scan func(*sqlite3.Stmt, *T)) ([]T, error) {
	var rows []T
	for (limit <= 0 || len(rows) < limit) && s.Step() {
		rows = append(rows, *new(T))
		scan(s, &rows[len(rows)-1])
	}
	if _, err := s.Finish(); err != nil {
		return nil, t.fail(err)
	}
	return rows, nil
}

// page is all that stops after the row with which the rows' sizes are bytes, if that is positive. It looks at the
// sizes while it reads: what is beyond is never in memory.
func page[T interface{ Size() int }](
	t *tx, s *sqlite3.Stmt, limit, bytes int, scan func(*sqlite3.Stmt, *T),
) ([]T, error) {
	var rows []T
	size := 0
	for (limit <= 0 || len(rows) < limit) && (bytes <= 0 || size < bytes) && s.Step() {
		rows = append(rows, *new(T))
		row := &rows[len(rows)-1]
		scan(s, row)
		size += (*row).Size()
	}
	if _, err := s.Finish(); err != nil {
		return nil, t.fail(err)
	}
	return rows, nil
}

// one reads the row of s, or returns ErrNotFound.
func one[T any](t *tx, s *sqlite3.Stmt, scan func(*sqlite3.Stmt, *T)) (row T, err error) {
	rows, err := all(t, s, 1, scan)
	if err != nil {
		return row, err
	}
	if len(rows) == 0 {
		return row, approval.ErrNotFound
	}
	return rows[0], nil
}

// What a statement returns that is no row of a table.
func scanText(s *sqlite3.Stmt, v *string)    { *v = s.ColumnText() }
func scanInt(s *sqlite3.Stmt, v *int64)      { *v = s.ColumnInt() }
func scanTime(s *sqlite3.Stmt, v *time.Time) { *v = s.ColumnTime() }
