package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
)

// remedies says, by primary result code, what an operator can do about a store that does not work.
var remedies = map[sqlite3.Code]string{
	sqlite3.CodeBusy:     "The store is locked by another process; end that process or wait for it, then try again.",
	sqlite3.CodeLocked:   "The store is locked by another process; end that process or wait for it, then try again.",
	sqlite3.CodeProtocol: "The store is locked by another process; end that process or wait for it, then try again.",
	sqlite3.CodeFull:     "The disk of the store is full; free some space, then try again.",
	sqlite3.CodeReadOnly: "The store cannot be written; give the program write access to the database file and its " +
		"folder.",
	sqlite3.CodePerm: "The store cannot be opened; give the program read and write access to the database file and " +
		"its folder.",
	sqlite3.CodeAuth: "The store cannot be opened; give the program read and write access to the database file and " +
		"its folder.",
	sqlite3.CodeCantOpen: "The store cannot be opened; see that its folder exists and that the program may read and " +
		"write there.",
	sqlite3.CodeIOErr:   "The disk of the store does not work as it should; look at the system's log, then try again.",
	sqlite3.CodeNoMem:   "The store has not enough memory; free some, then try again.",
	sqlite3.CodeNotADB:  "The store's file is not a database; name another file, or restore it from a backup.",
	sqlite3.CodeCorrupt: "The store's database is damaged; stop the program and restore the file from a backup.",
}

// fault turns an error of the library into one of ours, and passes every other on as it is. Whatever
// hinders all work is [approval.CodeStoreUnavailable].
func fault(err error) error {
	e, ok := errors.AsType[*sqlite3.Error](err)
	if !ok {
		return err
	}
	if text, ok := remedies[e.Code.Primary()]; ok {
		return &approval.Error{Code: approval.CodeStoreUnavailable, Message: text, Err: err}
	}
	switch {
	case e.Code == sqlite3.CodeForeignKey:
		return approval.ErrNotFound
	case e.Code.Primary() == sqlite3.CodeInterrupt:
		return unavailable("The request was given up while the store was read.", err)
	}
	return fmt.Errorf("store: %w", err)
}

// breaksConnection reports whether err means that the connection, or what is under it, cannot be trusted any more.
func breaksConnection(err error) bool {
	e, ok := errors.AsType[*sqlite3.Error](err)
	if !ok {
		return false
	}
	_, ok = remedies[e.Code.Primary()]
	return ok
}

// busy reports whether another process holds the lock: nothing is wrong with the connection.
func busy(err error) bool {
	e, ok := errors.AsType[*sqlite3.Error](err)
	return ok && e.Code.Primary() == sqlite3.CodeBusy
}

func unavailable(message string, err error) *approval.Error {
	return &approval.Error{Code: approval.CodeStoreUnavailable, Message: message, Err: err}
}

// notStarted is what a caller gets whose function was not started.
func notStarted(ctx context.Context) error {
	return unavailable("The store was busy for too long; nothing was done.", ctx.Err())
}

func errClosed() error {
	return unavailable("The store is closed.", approval.ErrClosed)
}

// openFault turns what the file system says into an error that names the path, which is for the
// operator who starts the program.
func openFault(path string, err error) error {
	what := "cannot be opened"
	if strange, ok := errors.AsType[*strangeFile](err); ok {
		return unavailable(fmt.Sprintf("The store %s cannot be opened: %v; move that away, and start again.", path, strange),
			err)
	}
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
