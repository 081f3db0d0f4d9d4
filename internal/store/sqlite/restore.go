package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"countersign/internal/safefile"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/schema"
)

// A copy that is put in the place of a store says in itself that it is one (mark.go). The first gate that starts on it
// ends all that was open in it, before it lets any call through.

// Restoration is a copy on its way into the place of a store, which no gate can open meanwhile.
type Restoration struct {
	Copy Contents

	path       string
	claim      *claim
	owner      fs.FileInfo // whose the store is
	fresh      bool        // there was no store
	newLock    bool        // nor a lock
	foreignLog bool        // the log beside the store is another's
	part       *os.File
}

// header is how a database file begins, and of what the next two bytes say by which kind of log it is written.
const (
	header     = "SQLite format 3\x00"
	atJournals = 18
)

// PrepareRestore writes a copy beside the store at path, where there may be none, checks it, and brings its tables up
// to date. Nothing of the store is changed: it fails where a gate runs on it, and where the copy is not whole, no
// store, or one of a newer program.
func PrepareRestore(ctx context.Context, path string, from io.Reader) (_ *Restoration, err error) {
	given := path
	if path, err = realPath(given); err != nil {
		return nil, openFault(given, err)
	}
	r := &Restoration{path: path}
	if r.fresh, err = isEmpty(path); err != nil {
		return nil, openFault(path, err)
	}
	if r.newLock, err = isEmpty(path + lockSuffix); err != nil {
		return nil, openFault(path, err)
	}
	if r.claim, r.owner, err = claimFor(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	folder := filepath.Dir(path)
	if err := errors.Join(removeParts(folder), removeTwins(path)); err != nil {
		return nil, openFault(path, err)
	}
	r.foreignLog = r.claim.checkLog() != nil
	if r.part, err = makePart(folder); err != nil {
		return nil, openFault(path, err)
	}
	if err := r.write(from); err != nil {
		return nil, notRestored(err)
	}
	if err := r.prepare(ctx); err != nil {
		return nil, notRestored(err)
	}
	return r, r.part.Sync()
}

// claimFor claims a store for a process that may be root, whose the store is not: the gate must be able to open what
// it makes.
func claimFor(path string) (*claim, fs.FileInfo, error) {
	owner, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		owner, err = os.Stat(filepath.Dir(path))
	}
	if err != nil {
		return nil, nil, openFault(path, err)
	}
	c, err := takeClaim(path)
	if err != nil {
		return nil, nil, err
	}
	if err := giveTo(owner, path, path+lockSuffix); err != nil {
		return nil, nil, errors.Join(openFault(path, err), c.close())
	}
	return c, owner, nil
}

// removeTwins removes second names of the store that a restore has made which died before it was done: what is kept
// under them would change with the store.
func removeTwins(store string) error {
	is, err := os.Stat(store)
	if err != nil {
		return err
	}
	kept, err := (&DB{path: store}).beside(keptPattern)
	for _, path := range kept {
		if twin, statErr := os.Stat(path); statErr == nil && os.SameFile(twin, is) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// isEmpty reports whether there is nothing at path, or an empty file.
func isEmpty(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && info.Size() == 0, err
}

// notRestored says of a copy that it is not put in the place of the store.
func notRestored(err error) error {
	if errors.Is(err, schema.ErrForeign) {
		err = &notWhole{"it is a database of another program"}
	}
	if newer, ok := errors.AsType[*schema.NewerError](err); ok {
		return unavailable(fmt.Sprintf("Nothing was restored: the copy was made by a newer version of the program (schema "+
			"%d; this one knows %d); restore it with that version.", newer.Have, newer.Want), nil)
	}
	if e, ok := errors.AsType[*notWhole](asNotWhole(err)); ok {
		return unavailable(fmt.Sprintf("Nothing was restored: %v. Restore another one.", e), nil)
	}
	return unavailable("Nothing was restored: the copy could not be read, or not be written beside the store.", err)
}

// write writes the copy to the part, as a file that has no log of its own.
func (r *Restoration) write(from io.Reader) error {
	if _, err := io.Copy(r.part, from); err != nil {
		return err
	}
	head := make([]byte, len(header))
	if _, err := r.part.ReadAt(head, 0); err != nil || !bytes.Equal(head, []byte(header)) {
		return &notWhole{"it is no database"}
	}
	_, err := r.part.WriteAt([]byte{1, 1}, atJournals)
	return err
}

// prepare checks the copy, and has it be one that the gate takes for restored.
func (r *Restoration) prepare(ctx context.Context) (err error) {
	db, err := openBeside(r.part.Name())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if have, err := schema.Have(ctx, db); err != nil {
		return err
	} else if have == 0 {
		return &notWhole{"it is an empty database"}
	}
	if err := checkRows(ctx, db); err != nil {
		return err
	}
	if err := schema.Migrate(ctx, db); err != nil {
		return err
	}
	if chosen, err := chooseShrinking(ctx, db); err != nil {
		return fault(sqlite3.FromDriver(err))
	} else if chosen {
		if _, err := db.ExecContext(ctx, `VACUUM`); err != nil {
			return fault(sqlite3.FromDriver(err))
		}
	}
	if r.Copy, err = readContents(ctx, db); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", copiedVersion))
	return fault(sqlite3.FromDriver(err))
}

const (
	keptMark    = ".before-restore-"
	keptPattern = `\.before-restore-[0-9]{8}T[0-9]{6}Z`
	// keptNames is how many names are tried for the file that a copy takes the place of.
	keptNames = 60
)

// contentSuffixes are of the files beside a store that belong to what is in it, in the order in which they are renamed.
// Without its mark a store is taken for a restored one: so the mark is the first to go.
var contentSuffixes = []string{markSuffix, "-wal", "-shm", eventLogSuffix}

// Put puts the copy in the place of the store, whose files are kept beside it under the name that is returned, "" where
// there was nothing. A death at any moment leaves the old store or the copy, and a gate that starts on either takes it
// for restored, from the moment on that the first file has another name.
func (r *Restoration) Put(now time.Time) (kept string, err error) {
	// Some systems rename no file that is open.
	if err = errors.Join(r.claim.db.Close(), giveTo(r.owner, r.part.Name())); err != nil {
		return "", openFault(r.path, err)
	}
	r.claim.db = nil
	if kept, err = r.freeName(now); err != nil {
		return "", openFault(r.path, err)
	}
	some, err := r.keep(kept)
	if err == nil {
		err = errors.Join(r.part.Close(), rename(r.part.Name(), r.path))
	}
	if err != nil {
		return "", errors.Join(openFault(r.path, err), r.putBack(kept))
	}
	r.part, r.fresh = nil, false
	if !some {
		kept = ""
	}
	return kept, safefile.SyncFolder(filepath.Dir(r.path))
}

// freeName returns a name by the time that neither a kept store has nor anything that belonged to one.
func (r *Restoration) freeName(now time.Time) (string, error) {
	for i := range keptNames {
		name := r.path + keptMark + now.UTC().Add(time.Duration(i)*time.Second).Format(copyTime)
		free := true
		for _, suffix := range append([]string{""}, contentSuffixes...) {
			_, err := os.Lstat(name + suffix)
			free = free && errors.Is(err, fs.ErrNotExist)
		}
		if free {
			return name, nil
		}
	}
	return "", fs.ErrExist
}

// keep has the files of the old store get other names, and reports whether there were any. The database itself stays
// until the copy takes its place, and has a second one, where there can be one.
func (r *Restoration) keep(kept string) (some bool, err error) {
	for _, suffix := range contentSuffixes {
		switch err := rename(r.path+suffix, r.nameOf(kept, suffix)); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return some, err
		}
		some = true
		if suffix == markSuffix { // before the log is not there any more
			if err := safefile.SyncFolder(filepath.Dir(r.path)); err != nil {
				return some, err
			}
		}
	}
	if r.fresh {
		return some, nil
	}
	if err := os.Link(r.path, kept); err == nil || errors.Is(err, fs.ErrExist) {
		return true, err
	}
	return true, rename(r.path, kept)
}

// nameOf is what a file beside the store is kept as. A log that is another's does not come to lie beside the store
// again: SQLite would take it for its own.
func (r *Restoration) nameOf(kept, suffix string) string {
	if r.foreignLog && (suffix == "-wal" || suffix == "-shm") {
		return kept + ".other" + suffix
	}
	return kept + suffix
}

// rename is replaced by tests.
var rename = os.Rename

// putBack has the files of the old store get their names again.
func (r *Restoration) putBack(kept string) error {
	var errs []error
	if _, err := os.Lstat(r.path); errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, rename(kept, r.path))
	} else {
		errs = append(errs, os.Remove(kept))
	}
	for _, suffix := range slices.Backward(contentSuffixes) { // the mark last
		errs = append(errs, rename(r.nameOf(kept, suffix), r.path+suffix))
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })...)
}

// Close gives up what was not put in the place of the store.
func (r *Restoration) Close() error {
	var errs []error
	if r.part != nil {
		errs = append(errs, removePart(r.part))
	}
	if r.fresh { // made by the claim
		errs = append(errs, os.Remove(r.path))
		if r.newLock {
			errs = append(errs, os.Remove(r.path+lockSuffix))
		}
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	return errors.Join(append(errs, r.claim.close())...)
}

// MarkRestored has the next gate that starts on the store at path take it for one that was restored: a whole folder was
// put back, which is not seen otherwise. It fails where a gate runs on it.
func MarkRestored(ctx context.Context, path string) (about Contents, err error) {
	if err := checkThere(path); err != nil {
		return about, err
	}
	given := path
	if path, err = realPath(given); err != nil {
		return about, openFault(given, err)
	}
	c, _, err := claimFor(path)
	if err != nil {
		return about, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.checkLog(); err != nil {
		return about, err
	}
	db, err := openBeside(path)
	if err != nil {
		return about, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return markRestored(ctx, db, path)
}

func markRestored(ctx context.Context, db *sql.DB, path string) (about Contents, err error) {
	have, err := schema.Have(ctx, db)
	switch {
	case errors.Is(err, schema.ErrForeign), err == nil && have == 0:
		return about, unavailable(fmt.Sprintf("%s is a database of another program; name the store.", path), err)
	case err != nil:
		return about, fault(sqlite3.FromDriver(err))
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", copiedVersion)); err != nil {
		return about, fault(sqlite3.FromDriver(err))
	}
	if have != schema.Version() {
		return about, nil // the next start brings its tables up to date
	}
	return readContents(ctx, db)
}
