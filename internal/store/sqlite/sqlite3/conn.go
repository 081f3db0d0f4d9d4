// Package sqlite3 calls the SQLite library below database/sql.
//
// There, binding a value costs an allocation of its own, and reading a row the names and types of all its
// columns: together more than half of what a small transaction takes. Here a [Conn] prepares each of its
// statements once, binds values out of a buffer that it keeps, and reads columns into the types that they have.
//
// A [Conn] serves one goroutine at a time and runs one [Stmt] at a time. Values are bound, and columns read, one
// after another. The first error of an execution sticks until its end, which is where it is returned:
//
//	n, err := c.Stmt(deleteOld).BindTime(before).BindInt(100).Exec()
//
//	s := c.Stmt(selectNames).BindText(agent)
//	for s.Step() {
//		names = append(names, s.ColumnText())
//	}
//	_, err := s.Finish()
//
// Every error of the library is an [Error] with its result code. The package knows no table, and opens no
// transaction by itself.
package sqlite3

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // initialises the library
	lib "modernc.org/sqlite/lib"
)

// bufferSize is how much of a statement's values is bound without an allocation, in bytes.
const bufferSize = 64 << 10

// Query names one of [Options.Queries], by its place.
type Query int

// Options say how a connection is opened.
type Options struct {
	BusyTimeout time.Duration // to wait for a lock that another connection holds; 0: not at all
	Pragmas     []string      // run in this order, such as "synchronous = FULL"
	// Queries are the texts of the statements that [Conn.Stmt] runs, each prepared when it is first run. The
	// parameters of each are $1, $2, … and appear first in that order.
	Queries []string
}

// Conn is one connection. It serves one goroutine at a time; only Interrupt may come from another.
type Conn struct {
	tls     *libc.TLS
	db      uintptr
	queries []string
	stmts   []*Stmt          // of queries, nil: not prepared yet
	cached  map[string]*Stmt // made up at run time, by their text
	mem     uintptr          // bufferSize bytes of C memory
	buffer  []byte           // the same, seen from Go
}

// Open opens the file at path, which must exist, and runs the pragmas on it.
func Open(path string, o Options) (_ *Conn, err error) {
	defer crash()
	c := &Conn{
		tls: libc.NewTLS(), queries: o.Queries, stmts: make([]*Stmt, len(o.Queries)), cached: map[string]*Stmt{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.mem = libc.Xmalloc(c.tls, bufferSize); c.mem == 0 {
		return nil, &Error{Code: lib.SQLITE_NOMEM, Message: "out of memory"}
	}
	c.buffer = libc.GoBytes(c.mem, bufferSize)
	name, err := libc.CString(path)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, name)
	// Each connection has one user at a time, so the library need not lock it.
	const flags = lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_NOMUTEX | lib.SQLITE_OPEN_EXRESCODE
	rc := lib.Xsqlite3_open_v2(c.tls, name, c.mem, flags, 0)
	c.db = c.pointer()
	if rc != lib.SQLITE_OK {
		return nil, c.fail(rc)
	}
	busy := int32(min(o.BusyTimeout.Milliseconds(), math.MaxInt32))
	if rc := lib.Xsqlite3_busy_timeout(c.tls, c.db, busy); rc != lib.SQLITE_OK {
		return nil, c.fail(rc)
	}
	for _, p := range o.Pragmas {
		if err := c.Exec("PRAGMA " + p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// pointer reads the pointer that the library has put at the start of the buffer.
func (c *Conn) pointer() uintptr {
	if strconv.IntSize == 32 {
		return uintptr(binary.NativeEndian.Uint32(c.buffer))
	}
	return uintptr(binary.NativeEndian.Uint64(c.buffer))
}

// Close may be called on a nil connection, and again.
func (c *Conn) Close() error {
	defer crash()
	if c == nil || c.tls == nil {
		return nil
	}
	for _, s := range c.stmts {
		s.Finalize()
	}
	for _, s := range c.cached {
		s.Finalize()
	}
	var err error
	if c.db != 0 {
		if rc := lib.Xsqlite3_close_v2(c.tls, c.db); rc != lib.SQLITE_OK {
			err = c.fail(rc)
		}
		c.db = 0
	}
	if c.mem != 0 {
		libc.Xfree(c.tls, c.mem)
		c.mem, c.buffer = 0, nil
	}
	c.tls.Close()
	c.tls = nil
	return err
}

// InTransaction reports whether a transaction is open. SQLite ends one by itself when it must: the
// disk is full, a page could not be read or written, memory is short.
func (c *Conn) InTransaction() bool {
	defer crash()
	return lib.Xsqlite3_get_autocommit(c.tls, c.db) == 0
}

// Interrupt makes the statement in progress fail with [CodeInterrupt]. It may be called from any
// goroutine while the connection is open.
func (c *Conn) Interrupt() {
	defer crash()
	tls := libc.NewTLS()
	defer tls.Close()
	lib.Xsqlite3_interrupt(tls, c.db)
}

// Exec runs one statement that is not worth keeping.
func (c *Conn) Exec(sql string) error {
	s := c.Prepare(sql)
	defer s.Finalize()
	for s.Step() {
	}
	return s.err
}

// Stmt begins an execution of one of the connection's queries.
func (c *Conn) Stmt(q Query) *Stmt {
	s := c.stmts[q]
	switch {
	case s == nil:
		s = c.Prepare(c.queries[q])
		if s.err == nil {
			c.stmts[q] = s
		}
	case s.param != 0:
		s.reset() // its last execution was bound and never run
	}
	return s
}

// maxCached is how many statements made up at run time a connection keeps.
const maxCached = 128

// PrepareCached begins an execution of a statement made up at run time. It is prepared when its text is first seen.
func (c *Conn) PrepareCached(sql string) *Stmt {
	s := c.cached[sql]
	if s == nil {
		s = c.Prepare(sql)
		if s.err == nil {
			if len(c.cached) >= maxCached {
				for text, old := range c.cached {
					old.Finalize()
					delete(c.cached, text)
				}
			}
			c.cached[sql] = s
		}
	} else if s.param != 0 {
		s.reset()
	}
	return s
}

// Texts are those of the statements that [Conn.PrepareCached] has kept, in no order.
func (c *Conn) Texts() []string {
	texts := make([]string, 0, len(c.cached))
	for sql := range c.cached {
		texts = append(texts, sql)
	}
	return texts
}

// Prepare compiles a statement for its caller, who finalizes it. One that cannot be compiled says so when it is
// run.
func (c *Conn) Prepare(sql string) *Stmt {
	defer crash()
	s := &Stmt{c: c}
	text, err := libc.CString(sql)
	if err != nil {
		s.err = err
		return s
	}
	defer libc.Xfree(c.tls, text)
	rc := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, c.mem, 0)
	if rc != lib.SQLITE_OK {
		s.err = fmt.Errorf("%w, in %s", c.fail(rc), sql)
		return s
	}
	s.p = c.pointer()
	return s
}

// fail makes an error of a result code and what the connection says of it.
func (c *Conn) fail(rc int32) error {
	defer crash()
	e := &Error{Code: Code(rc), Message: libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))}
	if c.db != 0 && lib.Xsqlite3_extended_errcode(c.tls, c.db) == rc {
		e.Message = libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db))
	}
	return e
}
