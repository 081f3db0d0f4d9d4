package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

const lockSuffix = ".lock"

// claim is what makes this process the owner of a store: the lock of a file beside it, which says who the owner is for
// the process that comes second, and where the system has locks that SQLite's do not meet, that of the database file
// itself. Both are open until no connection is: closing any file of the database would take SQLite's own locks away.
type claim struct {
	path string
	lock *os.File
	db   *os.File
}

// takeClaim makes this process the owner of the store at path, which is made if it is not there.
func takeClaim(path string) (_ *claim, err error) {
	c := &claim{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for _, suffix := range besideSuffixes {
		if err := checkOwn(path + suffix); err != nil {
			return nil, openFault(path, err)
		}
	}
	taken, err := c.takeLock()
	if err != nil {
		return nil, openFault(path, err)
	}
	if !taken {
		who, _ := io.ReadAll(io.LimitReader(c.lock, 1024)) // what cannot be read cannot be told
		return nil, inUse(path, strings.TrimSpace(string(who)))
	}
	if c.db, err = openOwn(path, os.O_CREATE); err != nil {
		return nil, openFault(path, err)
	}
	if !locksDatabase {
		return c, nil
	}
	switch taken, err := flock(c.db); {
	case err != nil:
		return nil, openFault(path, fmt.Errorf("lock %s: %w", path, err))
	case !taken: // by one whose lock file was removed
		return nil, inUse(path, "")
	}
	return c, nil
}

// checkLog fails where the write-ahead log beside the database is another's: that of the file which was here before a
// copy was put in its place. SQLite would take what is in it for the copy's. A copy's header says that it has none.
func (c *claim) checkLog() error { return checkLog(c.path, c.db) }

func checkLog(path string, db io.ReaderAt) error {
	const rollbackJournal = 1
	cutOff, err := wasCutOff(path)
	if err != nil {
		return openFault(path, err)
	}
	version := make([]byte, 1)
	if _, err := db.ReadAt(version, atJournals); err != nil || version[0] != rollbackJournal || !cutOff {
		return nil // what else is wrong with it SQLite says
	}
	return unavailable(fmt.Sprintf("%s-wal is of the database that was here before, and not of the copy that is at %s "+
		"now; move it away, and %s-shm with it, and start again.", path, path, path), nil)
}

// checkLogOf is checkLog for a process that has no connection to the database: to close any file of it would take
// SQLite's own locks away.
func checkLogOf(path string) (err error) {
	db, err := os.Open(path)
	if err != nil {
		return openFault(path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return checkLog(path, db)
}

func inUse(path, owner string) error {
	if owner == "" {
		owner = "another process"
	}
	return unavailable(fmt.Sprintf("The store %s is in use by %s; one process owns a store.", path, owner), nil)
}

// takeLock takes the lock of the file beside the store and writes there who has it.
func (c *claim) takeLock() (taken bool, err error) {
	f, err := openOwn(c.path+lockSuffix, os.O_CREATE)
	if err != nil {
		return false, err
	}
	if c.lock != nil {
		err = c.lock.Close()
	}
	c.lock = f
	if taken, flockErr := flock(f); flockErr != nil || !taken {
		return false, errors.Join(err, flockErr)
	}
	host, hostErr := os.Hostname()
	if hostErr != nil {
		host = "unknown host"
	}
	if err := errors.Join(err, f.Truncate(0)); err != nil {
		return false, err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0)
	return true, err
}

func (c *claim) close() error {
	var errs []error
	for _, f := range []*os.File{c.db, c.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// isStill reports whether an open file is the one at path. Where that cannot be found out, as while a volume does not
// answer, it is.
func isStill(path string, f *os.File) bool {
	at, err := os.Lstat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	is, err := f.Stat()
	return err == nil && os.SameFile(at, is)
}

// CheckClaim sees whether the files are there still that make this process the owner of the store. It is called every
// few seconds. A lock file that was removed is made anew. Once the database has gone, or another process has the lock,
// nothing is stored any more: what was answered would not be there after a restart.
func (d *DB) CheckClaim() {
	if d.lost.Load() != nil {
		return
	}
	c := d.claim
	if !isStill(c.path, c.db) {
		d.lose(fmt.Sprintf("The store's file %s was removed, or another put in its place, while the gate ran: nothing is "+
			"stored any more. Stop the gate, put the file back or restore a backup, and start again.", c.path))
		return
	}
	if isStill(c.path+lockSuffix, c.lock) {
		return
	}
	taken, err := c.takeLock()
	switch {
	case taken && err == nil:
		d.log.Warn("the lock file of the store was removed, and is made anew; while it is missing a second gate could "+
			"be started", slog.String("file", c.path+lockSuffix))
	case locksDatabase: // no other process can have the store
		d.log.Error("the lock file of the store was removed, and cannot be made anew", slog.String("file",
			c.path+lockSuffix), slog.Any("error", err))
	default:
		d.lose(fmt.Sprintf("The lock file of the store %s was removed while the gate ran, and another process may have the "+
			"store now: nothing is stored any more. See that one gate runs, and start it again.", c.path))
	}
}

// lose has everything refused that comes from now on.
func (d *DB) lose(why string) {
	err := unavailable(why, nil)
	d.lost.Store(err)
	d.log.Error("the store is lost", slog.Any("error", err))
}

// lostError is why nothing can be stored any more, nil as long as it can.
func (d *DB) lostError() error {
	if e := d.lost.Load(); e != nil {
		return e
	}
	return nil
}
