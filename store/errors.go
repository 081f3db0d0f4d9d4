package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"countersign/approval"
)

// remedies says, by primary result code, what an operator can do about a store that does not work.
var remedies = map[int]string{
	sqlite3.SQLITE_BUSY:     "The store is locked by another process; end that process or wait for it, then try again.",
	sqlite3.SQLITE_LOCKED:   "The store is locked by another process; end that process or wait for it, then try again.",
	sqlite3.SQLITE_PROTOCOL: "The store is locked by another process; end that process or wait for it, then try again.",
	sqlite3.SQLITE_FULL:     "The disk of the store is full; free some space, then try again.",
	sqlite3.SQLITE_READONLY: "The store cannot be written; give the program write access to the database file and its folder.",
	sqlite3.SQLITE_PERM:     "The store cannot be opened; give the program read and write access to the database file and its folder.",
	sqlite3.SQLITE_AUTH:     "The store cannot be opened; give the program read and write access to the database file and its folder.",
	sqlite3.SQLITE_CANTOPEN: "The store cannot be opened; see that its folder exists and that the program may read and write there.",
	sqlite3.SQLITE_IOERR:    "The disk of the store does not work as it should; look at the system's log, then try again.",
	sqlite3.SQLITE_NOMEM:    "The store has not enough memory; free some, then try again.",
	sqlite3.SQLITE_NOTADB:   "The store's file is not a database; name another file, or restore it from a backup.",
	sqlite3.SQLITE_CORRUPT:  "The store's database is damaged; stop the program and restore the file from a backup.",
}

// fault turns an error of the library into one of ours, and passes every other on as it is. Whatever
// hinders all work is [approval.CodeStoreUnavailable].
func fault(err error) error {
	e, ok := errors.AsType[*sqliteError](err)
	if !ok {
		return err
	}
	if text, ok := remedies[e.primary()]; ok {
		return &approval.Error{Code: approval.CodeStoreUnavailable, Message: text, Err: err}
	}
	switch {
	case e.code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return approval.ErrNotFound
	case e.primary() == sqlite3.SQLITE_INTERRUPT:
		return unavailable("The request was given up while the store was read.", err)
	}
	return fmt.Errorf("store: %w", err)
}

// broken reports whether err means that the connection, or what is under it, cannot be trusted any more.
func broken(err error) bool {
	e, ok := errors.AsType[*sqliteError](err)
	if !ok {
		return false
	}
	_, ok = remedies[e.primary()]
	return ok
}

// busy reports whether another process holds the lock: nothing is wrong with the connection.
func busy(err error) bool {
	e, ok := errors.AsType[*sqliteError](err)
	return ok && e.primary() == sqlite3.SQLITE_BUSY
}

func unavailable(message string, err error) *approval.Error {
	return &approval.Error{Code: approval.CodeStoreUnavailable, Message: message, Err: err}
}

// gaveUp is what a caller gets whose function was not started.
func gaveUp(ctx context.Context) error {
	return unavailable("The store was busy for too long; nothing was done.", ctx.Err())
}

func closed() error {
	return unavailable("The store is closed.", approval.ErrClosed)
}

// driverFault is fault for what comes through database/sql.
func driverFault(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return fault(fmt.Errorf("%w: %w", err, &sqliteError{code: e.Code(), msg: "from the driver"}))
	}
	return err
}

// openFault turns what the file system says into an error that names the path, which is for the
// operator who starts the program.
func openFault(path string, err error) error {
	what := "cannot be opened"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what = "cannot be opened: its folder does not exist; create it or name another"
	case errors.Is(err, fs.ErrPermission):
		what = "cannot be opened: the program may not write there; give it write access to the file and its folder"
	case readOnlyFS(err):
		what = "cannot be opened: its file system is read-only; name a folder that can be written"
	}
	return unavailable("The store "+path+" "+what+".", err)
}
