package sqlite3

import (
	"fmt"
	"math"
	"slices"
	"time"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Stmt is a prepared statement and the one execution of it that may be in progress. Exec ends it, and so does
// Finish after Step. The values of the one in progress are in the connection's buffer, so there is one at a time in
// a connection, from its first value to its end.
type Stmt struct {
	c     *Conn
	p     uintptr
	err   error
	param int32     // the last one bound
	set   uint64    // which of the first 64 parameters are not NULL, as bits
	col   int32     // the next one to read
	used  int       // of the connection's buffer
	large []uintptr // values for which it had no room
	begun bool      // it was stepped
}

// Finalize frees a statement that its caller has prepared.
func (s *Stmt) Finalize() {
	defer crash()
	if s == nil || s.p == 0 {
		return
	}
	s.reset()
	lib.Xsqlite3_finalize(s.c.tls, s.p) // repeats the error of the last step
	s.p = 0
}

// Err is the first error of the execution so far.
func (s *Stmt) Err() error { return s.err }

// Want does nothing: a row is made when the statement is stepped to it.
func (*Stmt) Want(int) {}

// Fail makes the execution fail, unless it has already: a value could not be encoded, or a column not decoded.
func (s *Stmt) Fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// reset ends the execution and returns its error.
func (s *Stmt) reset() error {
	defer crash()
	if s.begun {
		lib.Xsqlite3_reset(s.c.tls, s.p) // repeats the error of the last step
	}
	for _, p := range s.large {
		libc.Xfree(s.c.tls, p)
	}
	err := s.err
	s.large = s.large[:0]
	s.param, s.col, s.used, s.err, s.begun = 0, 0, 0, nil, false
	if s.p == 0 {
		s.err = err // it never was prepared
	}
	return err
}

// noteBind notes the result of binding the current parameter.
func (s *Stmt) noteBind(rc int32) {
	s.set |= 1 << s.param
	if rc != lib.SQLITE_OK && s.err == nil {
		s.err = s.c.fail(rc)
	}
}

// alloc returns n bytes of C memory that last as long as the execution.
func (s *Stmt) alloc(n int) (uintptr, []byte) {
	if n <= bufferSize-s.used {
		p, b := s.c.mem+uintptr(s.used), s.c.buffer[s.used:s.used+n:s.used+n]
		s.used += n
		return p, b
	}
	p := libc.Xmalloc(s.c.tls, libc.Tsize_t(n))
	if p == 0 {
		s.noteBind(lib.SQLITE_NOMEM)
		return 0, nil
	}
	s.large = append(s.large, p)
	return p, libc.GoBytes(p, n)
}

// fits reports whether a value of n bytes can be bound. One too large for the library's length is too large for
// SQLite's limit of a billion bytes too.
func (s *Stmt) fits(n int) bool {
	if n > math.MaxInt32 {
		s.noteBind(lib.SQLITE_TOOBIG)
	}
	return s.err == nil
}

// BindText binds a text, the empty one too.
func (s *Stmt) BindText(v string) {
	defer crash()
	s.param++
	if !s.fits(len(v)) {
		return
	}
	p, b := s.alloc(len(v))
	if s.err == nil {
		copy(b, v)
		s.noteBind(lib.Xsqlite3_bind_text(s.c.tls, s.p, s.param, p, int32(len(v)), 0))
	}
}

// BindTextBytes binds a text that is there as bytes, the empty one too.
func (s *Stmt) BindTextBytes(v []byte) {
	defer crash()
	s.param++
	if !s.fits(len(v)) {
		return
	}
	p, b := s.alloc(len(v))
	if s.err == nil {
		copy(b, v)
		s.noteBind(lib.Xsqlite3_bind_text(s.c.tls, s.p, s.param, p, int32(len(v)), 0))
	}
}

// BindBlob binds bytes, the empty ones too.
func (s *Stmt) BindBlob(v []byte) {
	defer crash()
	s.param++
	if !s.fits(len(v)) {
		return
	}
	p, b := s.alloc(len(v))
	if s.err == nil {
		copy(b, v)
		s.noteBind(lib.Xsqlite3_bind_blob(s.c.tls, s.p, s.param, p, int32(len(v)), 0))
	}
}

// BindInt binds a number.
func (s *Stmt) BindInt(v int64) {
	defer crash()
	s.param++
	if s.err == nil {
		s.noteBind(lib.Xsqlite3_bind_int64(s.c.tls, s.p, s.param, v))
	}
}

// BindNull binds NULL.
func (s *Stmt) BindNull() {
	defer crash()
	s.param++
	if s.param < 64 && s.set&(1<<s.param) == 0 {
		return // it is NULL from the start, or since the last time
	}
	if s.err == nil {
		s.noteBind(lib.Xsqlite3_bind_null(s.c.tls, s.p, s.param))
		s.set &^= 1 << s.param
	}
}

// BindTime binds a time as text in [TimeFormat], NULL for the zero time.
func (s *Stmt) BindTime(v time.Time) {
	defer crash()
	if v.IsZero() {
		s.BindNull()
		return
	}
	s.param++
	if s.err != nil {
		return
	}
	p, b := s.alloc(timeLen)
	if s.err != nil {
		return
	}
	if !putTime(b, v) {
		s.err = fmt.Errorf("sqlite3: the year of %v cannot be stored", v)
		return
	}
	s.noteBind(lib.Xsqlite3_bind_text(s.c.tls, s.p, s.param, p, int32(timeLen), 0))
}

// Parameters are the names of the statement's parameters.
func (s *Stmt) Parameters() []string {
	defer crash()
	names := make([]string, lib.Xsqlite3_bind_parameter_count(s.c.tls, s.p))
	for i := range names {
		names[i] = libc.GoString(lib.Xsqlite3_bind_parameter_name(s.c.tls, s.p, int32(i+1)))
	}
	return names
}

// Exec runs the statement to its end and returns how many rows it changed.
func (s *Stmt) Exec() (int, error) {
	for s.Step() {
	}
	return s.Finish()
}

// Finish ends the execution after Step has returned false, or early, and returns how many rows it changed.
func (s *Stmt) Finish() (int, error) {
	defer crash()
	n := 0
	if s.err == nil {
		n = int(lib.Xsqlite3_changes(s.c.tls, s.c.db))
	}
	return n, s.reset()
}

// Step goes to the next row and reports whether there is one.
func (s *Stmt) Step() bool {
	defer crash()
	if s.err != nil {
		return false
	}
	s.begun, s.col = true, 0
	switch rc := lib.Xsqlite3_step(s.c.tls, s.p); rc {
	case lib.SQLITE_ROW:
		return true
	case lib.SQLITE_DONE:
		return false
	default:
		s.err = s.c.fail(rc)
		return false
	}
}

// ColumnView returns the next column's bytes, which last until the next row; nil for NULL and the empty one.
func (s *Stmt) ColumnView() []byte {
	defer crash()
	i := s.col
	s.col++
	p := lib.Xsqlite3_column_blob(s.c.tls, s.p, i) // a text's bytes as they are
	if p == 0 {
		return nil
	}
	return libc.GoBytes(p, int(lib.Xsqlite3_column_bytes(s.c.tls, s.p, i)))
}

// ColumnText returns the next column as a text, "" for NULL.
func (s *Stmt) ColumnText() string { return string(s.ColumnView()) }

// ColumnBytes returns a copy of the next column's bytes, nil for NULL.
func (s *Stmt) ColumnBytes() []byte { return slices.Clone(s.ColumnView()) }

// ColumnInt returns the next column as a number, 0 for NULL.
func (s *Stmt) ColumnInt() int64 {
	defer crash()
	i := s.col
	s.col++
	return lib.Xsqlite3_column_int64(s.c.tls, s.p, i)
}

// ColumnTime returns the next column as a time, the zero one for NULL.
func (s *Stmt) ColumnTime() time.Time {
	b := s.ColumnView()
	if b == nil {
		return time.Time{}
	}
	t, ok := parseTime(b)
	if !ok {
		s.Fail(fmt.Errorf("sqlite3: %q is not a stored time", b))
	}
	return t
}
