package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // initialises the library
	sqlite3 "modernc.org/sqlite/lib"
)

// This file speaks to the SQLite library below the driver: binding a value there costs an allocation
// of its own, and reading a row the names and types of all its columns, which together were more than
// half of what a small transaction takes.

// arenaSize is how much of a statement's text is bound without an allocation, in bytes.
const arenaSize = 64 << 10

// conn is one connection. It serves one goroutine at a time; only interrupt may come from another.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	stmts []*stmt          // by query.n
	named map[string]*stmt // made up at run time, by their text
	mem   uintptr          // arenaSize bytes of C memory
	arena []byte           // the same, seen from Go
}

// query is the text of a statement that is prepared once in each connection that runs it. Its
// parameters are $1, $2, … and appear first in that order.
type query struct {
	n   int
	sql string
}

var queries []*query

func define(sql string) *query {
	q := &query{n: len(queries), sql: sql}
	queries = append(queries, q)
	return q
}

// openConn opens the file at path, which must exist, and runs the pragmas on it.
func openConn(path string, busy time.Duration, pragmas ...string) (_ *conn, err error) {
	c := &conn{tls: libc.NewTLS(), stmts: make([]*stmt, len(queries)), named: map[string]*stmt{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.mem = libc.Xmalloc(c.tls, arenaSize); c.mem == 0 {
		return nil, &sqliteError{code: sqlite3.SQLITE_NOMEM, msg: "out of memory"}
	}
	c.arena = libc.GoBytes(c.mem, arenaSize)
	name, err := libc.CString(path)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, name)
	// Each connection has one user at a time, so the library need not lock it.
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_NOMUTEX | sqlite3.SQLITE_OPEN_EXRESCODE
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.mem, flags, 0)
	c.db = c.pointer()
	if rc != sqlite3.SQLITE_OK {
		return nil, c.fail(rc)
	}
	if rc := sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, int32(min(busy.Milliseconds(), math.MaxInt32))); rc != sqlite3.SQLITE_OK {
		return nil, c.fail(rc)
	}
	for _, p := range pragmas {
		if err := c.exec("PRAGMA " + p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// pointer reads the pointer that the library has put at the start of the arena.
func (c *conn) pointer() uintptr {
	if strconv.IntSize == 32 {
		return uintptr(binary.NativeEndian.Uint32(c.arena))
	}
	return uintptr(binary.NativeEndian.Uint64(c.arena))
}

// close may be called on a connection that was only half opened, and again.
func (c *conn) close() error {
	if c == nil || c.tls == nil {
		return nil
	}
	for _, s := range c.stmts {
		s.finalize()
	}
	for _, s := range c.named {
		s.finalize()
	}
	var err error
	if c.db != 0 {
		if rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db); rc != sqlite3.SQLITE_OK {
			err = c.fail(rc)
		}
		c.db = 0
	}
	if c.mem != 0 {
		libc.Xfree(c.tls, c.mem)
		c.mem, c.arena = 0, nil
	}
	c.tls.Close()
	c.tls = nil
	return err
}

// inTransaction reports whether a transaction is open. SQLite ends one by itself when it must: the
// disk is full, a page could not be read or written, memory is short.
func (c *conn) inTransaction() bool {
	return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0
}

// interrupt makes the statement in progress fail with SQLITE_INTERRUPT. It may be called from any
// goroutine while the connection is open.
func (c *conn) interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, c.db)
}

// fail makes an error of a result code and what the connection says of it.
func (c *conn) fail(rc int32) error {
	e := &sqliteError{code: int(rc), msg: libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))}
	if c.db != 0 && sqlite3.Xsqlite3_extended_errcode(c.tls, c.db) == rc {
		e.msg = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
	}
	return e
}

// sqliteError is an error of the library, by its extended result code.
type sqliteError struct {
	code int
	msg  string
}

func (e *sqliteError) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.msg, e.code) }

// primary returns the result code without its extension.
func (e *sqliteError) primary() int { return e.code & 0xff }

// exec runs one statement that is not worth keeping.
func (c *conn) exec(sql string) error {
	s := c.prepare(sql)
	defer s.finalize()
	for s.next() {
	}
	return s.err
}

// stmt is a prepared statement and the one execution of it that may be in progress. Values are bound,
// and columns read, one after another. The first error sticks until the execution is over; exec, or next
// returning false, ends it. The values of the one in progress are in the connection's arena, so there is
// one at a time in a connection, from its first value to its end.
type stmt struct {
	c     *conn
	p     uintptr
	err   error
	param int32  // the last one bound
	set   uint64 // which of the first 64 parameters are not NULL, as bits
	col   int32  // the next one to read
	used  int    // of the arena
	large []uintptr
	busy  bool
}

// prepare compiles sql; a statement that cannot be compiled reports so when it is run.
func (c *conn) prepare(sql string) *stmt {
	s := &stmt{c: c}
	text, err := libc.CString(sql)
	if err != nil {
		s.err = err
		return s
	}
	defer libc.Xfree(c.tls, text)
	rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, c.mem, 0)
	if rc != sqlite3.SQLITE_OK {
		s.err = fmt.Errorf("%w, in %s", c.fail(rc), sql)
		return s
	}
	s.p = c.pointer()
	return s
}

// stmt begins an execution of q.
func (c *conn) stmt(q *query) *stmt {
	s := c.stmts[q.n]
	switch {
	case s == nil:
		s = c.prepare(q.sql)
		if s.err == nil {
			c.stmts[q.n] = s
		}
	case s.param != 0:
		s.reset() // its last execution was bound and never run
	}
	return s
}

// maxNamed is how many statements made up at run time a connection keeps.
const maxNamed = 128

// text begins an execution of a statement made up at run time.
func (c *conn) text(sql string) *stmt {
	s := c.named[sql]
	if s == nil {
		s = c.prepare(sql)
		if s.err == nil {
			if len(c.named) >= maxNamed {
				for text, old := range c.named {
					old.finalize()
					delete(c.named, text)
				}
			}
			c.named[sql] = s
		}
	} else if s.param != 0 {
		s.reset()
	}
	return s
}

func (s *stmt) finalize() {
	if s == nil || s.p == 0 {
		return
	}
	s.reset()
	sqlite3.Xsqlite3_finalize(s.c.tls, s.p) // repeats the error of the last step
	s.p = 0
}

// reset ends the execution and returns its error.
func (s *stmt) reset() error {
	if s.busy {
		sqlite3.Xsqlite3_reset(s.c.tls, s.p) // repeats the error of the last step
	}
	for _, p := range s.large {
		libc.Xfree(s.c.tls, p)
	}
	err := s.err
	s.large = s.large[:0]
	s.param, s.col, s.used, s.err, s.busy = 0, 0, 0, nil, false
	if s.p == 0 {
		s.err = err // it never was prepared
	}
	return err
}

func (s *stmt) bound(rc int32) {
	s.set |= 1 << s.param
	if rc != sqlite3.SQLITE_OK && s.err == nil {
		s.err = s.c.fail(rc)
	}
}

// room returns n bytes of C memory that last as long as the execution.
func (s *stmt) room(n int) (uintptr, []byte) {
	if n <= arenaSize-s.used {
		p, b := s.c.mem+uintptr(s.used), s.c.arena[s.used:s.used+n:s.used+n]
		s.used += n
		return p, b
	}
	p := libc.Xmalloc(s.c.tls, libc.Tsize_t(n))
	if p == 0 {
		s.bound(sqlite3.SQLITE_NOMEM)
		return 0, nil
	}
	s.large = append(s.large, p)
	return p, libc.GoBytes(p, n)
}

// A value too large for the library's length is too large for SQLite's limit of a billion bytes too.
func (s *stmt) fits(n int) bool {
	if n > math.MaxInt32 {
		s.bound(sqlite3.SQLITE_TOOBIG)
	}
	return s.err == nil
}

// str binds a text, the empty one too.
func (s *stmt) str(v string) *stmt {
	s.param++
	if !s.fits(len(v)) {
		return s
	}
	p, b := s.room(len(v))
	if s.err == nil {
		copy(b, v)
		s.bound(sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, s.param, p, int32(len(v)), 0))
	}
	return s
}

// opt binds a text, NULL for the empty one.
func (s *stmt) opt(v string) *stmt {
	if v == "" {
		return s.null()
	}
	return s.str(v)
}

// json binds a JSON text, NULL for an empty one.
func (s *stmt) json(v []byte) *stmt {
	if len(v) == 0 {
		return s.null()
	}
	return s.bytes(v)
}

// bytes binds a text that is there as bytes, the empty one too.
func (s *stmt) bytes(v []byte) *stmt {
	s.param++
	if !s.fits(len(v)) {
		return s
	}
	p, b := s.room(len(v))
	if s.err == nil {
		copy(b, v)
		s.bound(sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, s.param, p, int32(len(v)), 0))
	}
	return s
}

// blob binds bytes, NULL for none.
func (s *stmt) blob(v []byte) *stmt {
	if len(v) == 0 {
		return s.null()
	}
	s.param++
	if !s.fits(len(v)) {
		return s
	}
	p, b := s.room(len(v))
	if s.err == nil {
		copy(b, v)
		s.bound(sqlite3.Xsqlite3_bind_blob(s.c.tls, s.p, s.param, p, int32(len(v)), 0))
	}
	return s
}

func (s *stmt) int(v int64) *stmt {
	s.param++
	if s.err == nil {
		s.bound(sqlite3.Xsqlite3_bind_int64(s.c.tls, s.p, s.param, v))
	}
	return s
}

func (s *stmt) bool(v bool) *stmt {
	if v {
		return s.int(1)
	}
	return s.int(0)
}

func (s *stmt) null() *stmt {
	s.param++
	if s.param < 64 && s.set&(1<<s.param) == 0 {
		return s // it is NULL from the start, or since the last time
	}
	if s.err == nil {
		s.bound(sqlite3.Xsqlite3_bind_null(s.c.tls, s.p, s.param))
		s.set &^= 1 << s.param
	}
	return s
}

// time binds a time as it is stored, NULL for the zero time.
func (s *stmt) time(v time.Time) *stmt {
	if v.IsZero() {
		return s.null()
	}
	s.param++
	if s.err != nil {
		return s
	}
	p, b := s.room(timeLen)
	if s.err != nil {
		return s
	}
	if !putTime(b, v) {
		s.err = fmt.Errorf("store: the year of %v cannot be stored", v)
		return s
	}
	s.bound(sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, s.param, p, int32(timeLen), 0))
	return s
}

// exec runs the statement and returns how many rows it changed.
func (s *stmt) exec() (int, error) {
	for s.next() {
	}
	return s.done()
}

// done ends the execution after next has returned false, or early, and returns how many rows it changed.
func (s *stmt) done() (int, error) {
	n := 0
	if s.err == nil {
		n = int(sqlite3.Xsqlite3_changes(s.c.tls, s.c.db))
	}
	return n, s.reset()
}

// next goes to the next row and reports whether there is one.
func (s *stmt) next() bool {
	if s.err != nil {
		return false
	}
	s.busy, s.col = true, 0
	switch rc := sqlite3.Xsqlite3_step(s.c.tls, s.p); rc {
	case sqlite3.SQLITE_ROW:
		return true
	case sqlite3.SQLITE_DONE:
		return false
	default:
		s.err = s.c.fail(rc)
		return false
	}
}

// view returns the next column, which lasts until the next row.
func (s *stmt) view() []byte {
	i := s.col
	s.col++
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.p, i) // a text's bytes as they are
	if p == 0 {
		return nil
	}
	return libc.GoBytes(p, int(sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, i)))
}

func (s *stmt) getString() string { return string(s.view()) }

func (s *stmt) getBytes() []byte { return slices.Clone(s.view()) }

func (s *stmt) getInt() int64 {
	i := s.col
	s.col++
	return sqlite3.Xsqlite3_column_int64(s.c.tls, s.p, i)
}

func (s *stmt) getBool() bool { return s.getInt() != 0 }

func (s *stmt) getTime() time.Time {
	b := s.view()
	if b == nil {
		return time.Time{}
	}
	t, ok := parseTime(b)
	if !ok && s.err == nil {
		s.err = fmt.Errorf("store: %q is not a stored time", b)
	}
	return t
}
