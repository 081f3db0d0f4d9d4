// Package store has Countersign's rows: which columns each table has, which statements there are, and the methods of
// [approval.Tx] that bring the two together. It knows no database. A transaction of one is an [Engine]; it embeds
// [Rows], and is an [approval.Tx] then. What a program opens is in the engine's package, store/sqlite.
//
//   - A column is one line in tables.go: its name, and where in a row its value stands. INSERT, SELECT and UPDATE are
//     put together of such lines when the program starts. What may be large stands last, and is not read where nobody
//     needs it.
//   - A statement is one text in queries.go, prepared once by each connection. Lists can be narrowed by many things at
//     once: their texts are put together when they are asked for, with parameters for values, each along an index.
//   - Every method begins its statement by read, write or list, which ask the engine whether the function may go on.
//     So none runs in a transaction that has ended, and none writes in one that only reads.
//   - Values are bound and scanned by two small interfaces, [Binder] and [Scanner]. There is no reflection in that, and
//     no language of our own for queries: a row costs a call or two for each of its columns, and nothing on the heap
//     but what was read.
//   - What a write means to others is the engine's until the commit: which number an ending has, which ids were
//     inserted, what is to be told. The order of events is its alone, and so are time, ids, and what survives.
//
// Rows decide nothing. What must hold whatever program runs it (one live request for a call, one use of an approval) is
// in the statements' conditions and in the schema; the rules are the gate's.
package store

import (
	"time"

	"countersign/approval"
)

// Rows are the methods of a transaction that read and write rows, on whatever engine has them: all of an [approval.Tx]
// but its time, its ids, its scope and Append, and what sign-in and passkeys keep besides. An engine's transaction
// embeds them, and calls [Rows.Begin] before it is used.
type Rows struct {
	access access
	requests
	votes
	delegations
	cards
	grants
	policies
	epochs
	pins
	memory
	notifications
	events
	retention
	signIns
	passkeys
}

// The nouns, each with its methods in the file of its name.
type (
	requests      struct{ *access }
	votes         struct{ *access }
	delegations   struct{ *access }
	cards         struct{ *access }
	grants        struct{ *access }
	policies      struct{ *access }
	epochs        struct{ *access }
	pins          struct{ *access }
	memory        struct{ *access }
	notifications struct{ *access }
	events        struct{ *access }
	retention     struct{ *access }
	signIns       struct{ *access }
	passkeys      struct{ *access }
)

var _ interface {
	approval.Requests
	approval.Transitions
	approval.LiveRequests
	approval.Feed
	approval.Votes
	approval.Delegations
	approval.Cards
	approval.Grants
	approval.Policies
	approval.Epochs
	approval.Pins
	approval.Memory
	approval.Notifications
	approval.Addresses
	approval.Retention
} = (*Rows)(nil)

// Begin says which transaction the rows are read and written in.
func (r *Rows) Begin(e Engine) {
	a := &r.access
	a.Engine = e
	r.requests, r.votes, r.delegations = requests{a}, votes{a}, delegations{a}
	r.cards, r.grants, r.policies = cards{a}, grants{a}, policies{a}
	r.epochs, r.pins, r.memory = epochs{a}, pins{a}, memory{a}
	r.notifications, r.events, r.retention = notifications{a}, events{a}, retention{a}
	r.signIns, r.passkeys = signIns{a}, passkeys{a}
}

// access is how rows are read and written: every statement begins here, so that none is run where the function must
// not go on.
type access struct{ Engine }

// stmt is a statement on its way: values are bound to it, then it is run. Where the function must not go on there is an
// error instead, which the end returns.
type stmt struct {
	Cursor
	on  Engine
	err error
}

// read begins a statement that reads.
func (a *access) read(q Query) stmt {
	if err := a.MayRead(); err != nil {
		return stmt{err: err}
	}
	return stmt{Cursor: a.Stmt(q), on: a.Engine}
}

// write begins a statement that writes.
func (a *access) write(q Query) stmt {
	if err := a.MayWrite(); err != nil {
		return stmt{err: err}
	}
	return stmt{Cursor: a.Stmt(q), on: a.Engine}
}

// list begins a statement that was put together.
func (a *access) list(l *list) stmt {
	if err := a.MayRead(); err != nil {
		return stmt{err: err}
	}
	return l.bind(stmt{Cursor: a.PrepareCached(l.sql.String()), on: a.Engine})
}

// noteDeadline notes that a request will be due then.
func (a *access) noteDeadline(at time.Time) {
	c := a.Summary()
	c.Deadline = earliest(c.Deadline, at)
}

func (s stmt) text(v string) stmt {
	if s.err == nil {
		s.BindText(v)
	}
	return s
}

func (s stmt) optText(v string) stmt {
	if s.err == nil {
		bindOptText(s.Cursor, v)
	}
	return s
}

func (s stmt) number(v int64) stmt {
	if s.err == nil {
		s.BindInt(v)
	}
	return s
}

func (s stmt) time(v time.Time) stmt {
	if s.err == nil {
		s.BindTime(v)
	}
	return s
}

// exec is the end of a statement that writes.
func (s stmt) exec() (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.on.Exec(s.Cursor)
}

// change is exec that reports whether a row was changed.
func (s stmt) change() (bool, error) {
	n, err := s.exec()
	return n > 0, err
}

// expect is change of what changes a row but in rare cases.
func (s stmt) expect() (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	return s.on.Expect(s.Cursor)
}

// put is exec of what always changes one.
func (s stmt) put() error {
	if s.err != nil {
		return s.err
	}
	return s.on.Put(s.Cursor)
}

// want says how many rows will be read.
func (s stmt) want(rows int) stmt {
	if s.err == nil {
		s.Want(rows)
	}
	return s
}

// end is the end of a statement that ends a request, with the seq that [Engine.NextEnding] has given for it.
func (s stmt) end(seq int64) (bool, error) {
	ok, err := s.expect()
	if ok {
		s.on.TakeEnding(seq)
	}
	return ok, err
}

// next goes to the next row of a statement that reads.
func (s stmt) next() bool { return s.err == nil && s.Step() }

// finish is the end of a statement that reads.
func (s stmt) finish() error {
	if s.err != nil {
		return s.err
	}
	_, err := s.Finish()
	return s.on.Fail(err)
}

// all reads every row of s, at most limit of them if that is positive.
func all[T any](s stmt, limit int, scan func(Scanner, *T)) ([]T, error) {
	var rows []T
	s.want(max(limit, 0))
	for from := Scanner(s.Cursor); (limit <= 0 || len(rows) < limit) && s.next(); {
		rows = append(rows, *new(T))
		scan(from, &rows[len(rows)-1])
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	return rows, nil
}

// untilEnough is how many rows are wanted where what they are decides that: see [Cursor].
const untilEnough = -1

// page is all that stops after the row with which the rows' sizes are bytes, if that is positive. It looks at the
// sizes while it reads: what is beyond is never in memory.
func page[T interface{ Size() int }](s stmt, limit, bytes int, scan func(Scanner, *T)) ([]T, error) {
	var rows []T
	size := 0
	if s.want(max(limit, 0)); bytes > 0 {
		s.want(untilEnough)
	}
	for from := Scanner(s.Cursor); (limit <= 0 || len(rows) < limit) && (bytes <= 0 || size < bytes) && s.next(); {
		rows = append(rows, *new(T))
		row := &rows[len(rows)-1]
		scan(from, row)
		size += (*row).Size()
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	return rows, nil
}

// one reads the row of s, or returns ErrNotFound.
func one[T any](s stmt, scan func(Scanner, *T)) (row T, err error) {
	rows, err := all(s, 1, scan)
	if err != nil {
		return row, err
	}
	if len(rows) == 0 {
		return row, approval.ErrNotFound
	}
	return rows[0], nil
}

// What a statement returns that is no row of a table.
func scanText(s Scanner, v *string)    { *v = s.ColumnText() }
func scanInt(s Scanner, v *int64)      { *v = s.ColumnInt() }
func scanTime(s Scanner, v *time.Time) { *v = s.ColumnTime() }
