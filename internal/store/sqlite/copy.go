package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/safefile"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/schema"
)

// A store is copied beside itself before its tables are changed, since there is no way back: the copy is what an older
// program opens. It is whole, what is only in the write-ahead log included, or it is not there under its name: what is
// being written has another one.

// copiesKept is how many copies there are at most, the newest ones.
const copiesKept = 3

// copyNames is how many names are tried for a copy.
const copyNames = 5

const (
	copyTime    = "20060102T150405Z"
	copyPattern = `\.before-v[0-9]+-[0-9]{8}T[0-9]{6}Z`
	partPrefix  = ".countersign-copy-"
)

// upgrade brings the tables up to date, after a copy where there is something to copy.
func (d *DB) upgrade(ctx context.Context, db *sql.DB, o Options) error {
	have, err := schema.Have(ctx, db)
	if err != nil {
		return err
	}
	if have > 0 && have < schema.Version() {
		d.log.InfoContext(ctx, "the store is copied and then its tables are changed; with gigabytes this takes a minute",
			slog.Int64("schema", have), slog.Int64("to", schema.Version()))
		path, err := d.copyBeside(ctx, db, o.Now())
		if err != nil {
			return d.notCopied(err)
		}
		d.log.InfoContext(ctx, "the store was copied before its tables are changed", slog.String("copy", path),
			slog.Int64("schema", have), slog.Int64("to", schema.Version()))
		if o.Failpoint != nil {
			o.Failpoint("copied")
		}
		d.removeOldCopies(ctx)
	}
	return schema.Migrate(ctx, db)
}

// copyBeside makes a copy named by the time, or by the next second that no copy is named by: that of an upgrade which
// was cut off is not written over.
func (d *DB) copyBeside(ctx context.Context, db *sql.DB, now time.Time) (path string, err error) {
	for range copyNames {
		path = fmt.Sprintf("%s.before-v%d-%s", d.path, schema.Version(), now.UTC().Format(copyTime))
		if err = copyTo(ctx, db, path); !errors.Is(err, fs.ErrExist) {
			break
		}
		now = now.Add(time.Second)
	}
	return path, err
}

// copyTo makes a copy that is on the disk, or none. It fails with [fs.ErrExist] where the name is taken.
func copyTo(ctx context.Context, db *sql.DB, path string) error {
	folder := filepath.Dir(path)
	f, err := copyPart(ctx, db, folder)
	if err != nil {
		return err
	}
	if err := errors.Join(safefile.Name(f.Name(), path), removePart(f)); err != nil {
		return err
	}
	return safefile.SyncFolder(folder)
}

// copyPart makes a copy in a folder that has no name yet, and is removed by removePart.
func copyPart(ctx context.Context, db *sql.DB, folder string) (*os.File, error) {
	if err := removeParts(folder); err != nil {
		return nil, err
	}
	f, err := makePart(folder)
	if err != nil {
		return nil, err
	}
	if err := writeCopy(ctx, db, f); err != nil {
		return nil, errors.Join(err, removePart(f))
	}
	return f, nil
}

// removePart removes what copyPart has made, unless it has got its name.
func removePart(f *os.File) error {
	errs := []error{f.Close()}
	for _, left := range []string{f.Name(), f.Name() + "-journal"} {
		if err := os.Remove(left); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// makePart makes the file that a copy is written to. The process that writes one has it locked: what is not locked is
// what a process left that ended while it copied.
func makePart(folder string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(folder, partPrefix+"*")
		if err != nil {
			return nil, err
		}
		locked, err := lockPart(f)
		if err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
		if locked && isStill(f.Name(), f) {
			return f, nil
		}
		if err := f.Close(); err != nil { // taken for a remnant before it was locked
			return nil, err
		}
	}
}

// removeParts removes from a folder what processes left that ended while they copied.
func removeParts(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), partPrefix) || !e.Type().IsRegular() || strings.HasSuffix(e.Name(), "-journal") {
			continue
		}
		path := filepath.Join(folder, e.Name())
		f, err := openOwn(path, 0)
		if err != nil {
			continue // another user's, or gone meanwhile
		}
		left, err := lockPart(f)
		if err == nil && left {
			err = errors.Join(os.Remove(path), os.RemoveAll(path+"-journal"))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// atUserVersion is where the header of a database has its user_version.
const atUserVersion = 60

// writeCopy has SQLite write all of the database, as a transaction sees it, to an empty file that is its owner's alone,
// and notes in it that it is a copy. The copy is a file that shrinks ([DB.Shrink]), also where the database is none.
func writeCopy(ctx context.Context, db *sql.DB, f *os.File) error {
	if _, err := chooseShrinking(ctx, db); err != nil {
		return fault(sqlite3.FromDriver(err))
	}
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, f.Name()); err != nil {
		return fault(sqlite3.FromDriver(err))
	}
	if _, err := f.WriteAt(binary.BigEndian.AppendUint32(nil, copiedVersion), atUserVersion); err != nil {
		return err
	}
	return f.Sync()
}

// notCopied says what to do about a store that could not be copied.
func (d *DB) notCopied(err error) error {
	do := "See that the program may write in its folder, and that the disk has room for a second one, and start again."
	if e, ok := errors.AsType[*sqlite3.Error](err); ok && e.Code.Primary() == sqlite3.CodeFull {
		do = "The disk is full: free as much as the store takes, and start again."
	} else if e, ok := errors.AsType[*approval.Error](err); ok {
		do = e.Message
	}
	return unavailable(fmt.Sprintf("The store %s could not be copied, which is done before its tables are changed; they "+
		"are as they were. %s", d.path, do), err)
}

// beside returns the files beside the store whose names are its own and then what a pattern says.
func (d *DB) beside(pattern string) ([]string, error) {
	folder, name := filepath.Split(d.path)
	is, err := regexp.Compile(`^` + regexp.QuoteMeta(name) + pattern + `$`)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if e.Type().IsRegular() && is.MatchString(e.Name()) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths, nil
}

// removeOldCopies leaves the newest copies.
func (d *DB) removeOldCopies(ctx context.Context) {
	if _, err := d.newest(copyPattern); err != nil {
		d.log.WarnContext(ctx, "old copies of the store cannot be listed", slog.Any("error", err))
	}
}

// newest returns the newest of the files whose names end with the time that they were made, and removes the others. One
// that cannot be removed hinders nothing.
func (d *DB) newest(pattern string) ([]string, error) {
	paths, err := d.beside(pattern)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(paths, func(a, b string) int { // the newest first
		return strings.Compare(b[len(b)-len(copyTime):], a[len(a)-len(copyTime):])
	})
	kept := min(copiesKept, len(paths))
	for _, p := range paths[kept:] {
		if err := os.Remove(p); err != nil {
			d.log.Warn("an old copy beside the store cannot be removed", slog.Any("error", err))
		}
	}
	return paths[:kept], nil
}
