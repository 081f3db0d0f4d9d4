package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"countersign/approval"
	"countersign/internal/safefile"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/schema"
)

// backupPatience is for how long a backup waits where another process has locked the file for a moment.
const backupPatience = 10 * time.Second

// Backup copies the store at path to a new file, and returns how many bytes it has. The store may be in use: the copy
// is what it was at one moment, whole and checked, what is only in the write-ahead log included. The copy is its
// owner's alone. It is there under its name when it is on the disk, or not at all. Backup fails with
// [approval.CodeStoreUnavailable] and what to do where there is no store at path, where it is another program's
// database or is damaged, and where to is there already.
func Backup(ctx context.Context, path, to string) (size int64, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return 0, notOverwritten(to, err)
	}
	folder := filepath.Dir(to)
	c, err := MakeCopy(ctx, path, folder)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := safefile.Name(c.Name(), to); err != nil {
		return 0, notBackedUp(to, err)
	}
	return c.Bytes, safefile.SyncFolder(folder)
}

// Copy is a copy of a store, in a file that is its owner's alone, and is gone once it is closed.
type Copy struct {
	*os.File
	Bytes int64
}

// MakeCopy is [Backup] to a file in folder that has no name of its own. What a process left there that ended while it
// copied is removed. The process has the store not open itself: see [DB.MakeCopy].
func MakeCopy(ctx context.Context, path, folder string) (*Copy, error) {
	if err := checkThere(path); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, openFault(path, err)
	}
	if err := checkLogOf(abs); err != nil {
		return nil, err
	}
	return makeCopy(ctx, abs, folder)
}

// MakeCopy is the function MakeCopy of an open store.
func (d *DB) MakeCopy(ctx context.Context, folder string) (*Copy, error) {
	return makeCopy(ctx, d.path, folder)
}

func makeCopy(ctx context.Context, path, folder string) (_ *Copy, err error) {
	db, err := openBeside(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	switch have, err := schema.Have(ctx, db); {
	case errors.Is(err, schema.ErrForeign), err == nil && have == 0:
		return nil, unavailable(fmt.Sprintf("%s is a database of another program; name the store.", path), err)
	case err != nil:
		return nil, fault(sqlite3.FromDriver(err))
	}
	f, err := copyPart(ctx, db, folder)
	if err != nil {
		return nil, notBackedUp(folder, err)
	}
	c := &Copy{File: f}
	// While it was copied nothing could leave the write-ahead log, which has grown. The gate would have one of its callers
	// wait until that is made up for; here it hinders no caller.
	if _, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		return nil, errors.Join(fault(sqlite3.FromDriver(err)), c.Close())
	}
	if err = checkCopy(ctx, f.Name()); err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil {
			c.Bytes = info.Size()
			return c, nil
		}
	}
	if e, ok := errors.AsType[*notWhole](asNotWhole(err)); ok {
		err = unavailable(fmt.Sprintf("No backup was made: %v. The store itself may be damaged: look at the disk and the "+
			"system's log, and keep the backups that you have.", e), nil)
	}
	return nil, errors.Join(err, c.Close())
}

// Close removes the file, if it has got no name of its own.
func (c *Copy) Close() error { return removePart(c.File) }

// notOverwritten refuses a name that is taken; err is nil, or why that is not known.
func notOverwritten(to string, err error) error {
	if err != nil {
		return unavailable(fmt.Sprintf("No backup was made: %s cannot be looked at.", to), err)
	}
	return unavailable(fmt.Sprintf("%s exists already, and a backup overwrites nothing; name another file.", to), nil)
}

// notBackedUp says what to do about a backup that could not be written there; nothing of it is left.
func notBackedUp(to string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return notOverwritten(to, nil)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	do := "See that its folder is there and can be written, and that the disk has room for it."
	if e, ok := errors.AsType[*sqlite3.Error](err); ok && e.Code.Primary() == sqlite3.CodeFull {
		do = "The disk is full: free as much as the store takes, or name a file on another disk."
	} else if e, ok := errors.AsType[*approval.Error](err); ok {
		do = e.Message
	}
	return unavailable(fmt.Sprintf("The backup could not be written to %s. %s", to, do), err)
}
