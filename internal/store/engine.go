package store

import (
	"time"

	"countersign/approval"
)

// Binder takes the values of a statement, one after another. An error stays with the statement until it is run.
type Binder interface {
	BindNull()
	BindText(v string)
	BindTextBytes(v []byte) // a text that is there as bytes
	BindBlob(v []byte)
	BindInt(v int64)
	BindTime(v time.Time) // with its milliseconds; NULL for the zero time
	Fail(err error)       // makes the statement fail, if it has not: a value could not be encoded
}

// Scanner gives the values of a row, one after another; NULL is the zero value.
type Scanner interface {
	ColumnText() string
	ColumnBytes() []byte // a copy
	ColumnView() []byte  // until the next row
	ColumnInt() int64
	ColumnTime() time.Time
	Fail(err error) // as of a [Binder]: a value could not be decoded
	Err() error     // the first error so far
}

// Cursor is one execution of a statement: values are bound, it is stepped through its rows, and finished.
type Cursor interface {
	Binder
	Scanner
	// Want says how many rows will be read at most; 0: all, below 0: as many as turn out to be needed. It is said before
	// the first Step.
	Want(rows int)
	// Step goes to the next row and reports whether there is one.
	Step() bool
	// Finish ends the execution, after Step has returned false or before, and returns how many rows it changed.
	Finish() (changed int, err error)
}

// Engine is a transaction of a database, as far as rows need one.
type Engine interface {
	// Now is as [approval.Tx] has it.
	Now() time.Time
	// MayRead and MayWrite say whether the function may go on to read, and to write.
	MayRead() error
	MayWrite() error

	// Stmt begins an execution of one of the [Queries], PrepareCached one of a text that was put together. There is one at
	// a time.
	Stmt(q Query) Cursor
	PrepareCached(sql string) Cursor
	// Exec runs a statement that writes, to its end, and returns how many rows it changed.
	Exec(c Cursor) (changed int, err error)
	// Put is Exec of what always changes a row. An error may come later, and is the function's then.
	Put(c Cursor) error
	// Expect is Exec of what changes a row but in rare cases, as where somebody was quicker. It may report true before
	// that is known; where it is not so, the function runs again, or is told.
	Expect(c Cursor) (changed bool, err error)
	// Fail turns the error of a statement into the function's, which fails by it whatever it returns where nothing that it
	// does after that can be trusted.
	Fail(err error) error

	EventLog

	// NextEnding is the resolved_seq for the next request that ends, and TakeEnding says that one has got it.
	NextEnding() int64
	TakeEnding(seq int64)
	// NoteID says that a row with an id was inserted.
	NoteID(id string)

	// Summary is what the commit tells of the transaction, to be added to, and Room for the rows that are bound. A
	// transaction that only reads has none.
	Summary() *approval.Commit
	Room() *Room
}

// EventLog is where the events of an engine come from.
type EventLog interface {
	// GatherEvents is called before events are looked for: what was put on record is among them then. SyncTo is called
	// before a client is told of the one with a seq: it outlives a loss of power then.
	GatherEvents() error
	SyncTo(seq int64) error
	// Disorder is by how much the time of an event may be before that of one with a smaller seq; 0: they grow together.
	Disorder() time.Duration
}

// Room is for the rows that are bound: it is kept for the next, since what is bound escapes to the heap.
type Room struct {
	request      approval.Request
	notification approval.Notification
	event        approval.Event
}
