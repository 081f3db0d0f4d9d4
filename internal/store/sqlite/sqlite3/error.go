package sqlite3

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Code is a result code of the library.
type Code int

// The result codes that mean something to a caller.
const (
	CodePerm      Code = lib.SQLITE_PERM
	CodeBusy      Code = lib.SQLITE_BUSY
	CodeLocked    Code = lib.SQLITE_LOCKED
	CodeNoMem     Code = lib.SQLITE_NOMEM
	CodeReadOnly  Code = lib.SQLITE_READONLY
	CodeInterrupt Code = lib.SQLITE_INTERRUPT
	CodeIOErr     Code = lib.SQLITE_IOERR
	CodeCorrupt   Code = lib.SQLITE_CORRUPT
	CodeFull      Code = lib.SQLITE_FULL
	CodeCantOpen  Code = lib.SQLITE_CANTOPEN
	CodeProtocol  Code = lib.SQLITE_PROTOCOL
	CodeAuth      Code = lib.SQLITE_AUTH
	CodeNotADB    Code = lib.SQLITE_NOTADB

	CodeForeignKey Code = lib.SQLITE_CONSTRAINT_FOREIGNKEY // an extended code
)

// Primary returns the code without its extension.
func (c Code) Primary() Code { return c & 0xff }

// Error is an error of the library.
type Error struct {
	Code    Code // extended where the library has more to say
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.Message, e.Code) }

// FromDriver turns an error that came through database/sql into one that is an [Error] too, and passes every
// other on as it is.
func FromDriver(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return fmt.Errorf("%w: %w", err, &Error{Code: Code(e.Code()), Message: "from the driver"})
	}
	return err
}
