package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
)

// A file that SQLite has made with auto_vacuum=INCREMENTAL knows of each page who points to it, so that the last pages
// can be moved into free ones, and the file cut off behind them. It is shorter once the log has been moved into it.

const (
	// givenAtOnce is how many pages are given back in one transaction: a millisecond or two, and as much again for the
	// disk.
	givenAtOnce = 32
	// givingRest is for how long callers have the store to themselves after each.
	givingRest = 10 * time.Millisecond
	// checkpointAfter is after how many of them the log is moved into the database, so that it does not come to be the
	// writer who does that, while callers wait.
	checkpointAfter = 16
	// maxBehind is how many pages the log may have that cannot be moved: somebody reads how things were, as a backup
	// does, and what is written now only makes it longer.
	maxBehind = 4096

	// A store that removes as much as comes has room for what comes next: to give that back, and take it anew each hour,
	// would cost two writes a page. An hour of what is kept for some weeks is less than a hundredth of the file.
	slackPages = 1000
	slackShare = 20 // a twentieth of the file
)

// room is how many pages a file has.
type room struct{ pages, free int64 }

// spare is how many of them can be given back.
func (r room) spare() int64 { return r.free - max(slackPages, r.pages/slackShare) }

// Shrink gives room of the file that is free back to the disk, but for some that is used for what comes next, in many
// short transactions with a rest after each. A file that was not made for that is left as it is. Where something keeps
// the write-ahead log from being moved into the file, it ends early: the next call goes on.
func (d *DB) Shrink(ctx context.Context) error {
	before, shrinks, err := d.readRoom(ctx)
	if err != nil || !shrinks || before.spare() <= 0 {
		return err
	}
	now := before
	for n := 1; now.spare() > 0; n++ {
		if err := d.giveBack(ctx, min(now.spare(), givenAtOnce)); err != nil {
			return err
		}
		if n%checkpointAfter == 0 {
			if behind, err := d.checkpoint(ctx); err != nil || behind > maxBehind {
				return err
			}
		}
		select {
		case <-time.After(givingRest):
		case <-ctx.Done():
			return ctx.Err()
		case <-d.closing:
			return errClosed()
		}
		if now, _, err = d.readRoom(ctx); err != nil {
			return err
		}
	}
	d.log.InfoContext(ctx, "the store's file has given room back", slog.Int64("pages", before.pages-now.pages),
		slog.Int64("of", before.pages))
	_, err = d.checkpoint(ctx)
	return err
}

// readRoom returns how many pages the file has, and whether it can give some back.
func (d *DB) readRoom(ctx context.Context) (r room, shrinks bool, err error) {
	err = d.View(ctx, func(x approval.Tx) error {
		t := x.(*tx)
		mode, err := readPragma(t.c, "auto_vacuum")
		if err == nil {
			r.pages, err = readPragma(t.c, "page_count")
		}
		if err == nil {
			r.free, err = readPragma(t.c, "freelist_count")
		}
		shrinks = mode == incremental
		return t.Fail(err)
	})
	return r, shrinks, err
}

// chooseShrinking has the next VACUUM of a connection make a file that shrinks, and reports whether the database is
// none. Nothing is written to it: on one that shrinks already, the statement would write.
func chooseShrinking(ctx context.Context, db *sql.DB) (chosen bool, err error) {
	var mode int64
	if err := db.QueryRowContext(ctx, `PRAGMA auto_vacuum`).Scan(&mode); err != nil || mode == incremental {
		return false, err
	}
	_, err = db.ExecContext(ctx, `PRAGMA auto_vacuum = INCREMENTAL`)
	return err == nil, err
}

// incremental is what SQLite calls auto_vacuum=INCREMENTAL.
const incremental = 2

// readPragma reads a pragma that is a number.
func readPragma(c *sqlite3.Conn, name string) (n int64, err error) {
	s := c.Prepare("PRAGMA " + name)
	defer s.Finalize()
	if s.Step() {
		n = s.ColumnInt()
	}
	_, err = s.Finish()
	return n, err
}

// giveBack gives so many pages back.
func (d *DB) giveBack(ctx context.Context, pages int64) error {
	return d.Update(ctx, approval.OfNothing(), func(x approval.Tx) error {
		t := x.(*tx)
		if err := t.MayWrite(); err != nil {
			return err
		}
		return t.Fail(t.c.Exec("PRAGMA incremental_vacuum(" + strconv.FormatInt(pages, 10) + ")"))
	})
}

// checkpoint moves the log into the database as far as no reader needs it, beside the writer, and returns how many
// pages are left that could not be moved. The file is cut off to its length where none is.
func (d *DB) checkpoint(ctx context.Context) (behind int64, err error) {
	c, err := d.takeReader(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err, c = errors.Join(fault(err), c.Close()), nil
		}
		d.readers <- c
	}()
	s := c.Prepare("PRAGMA wal_checkpoint(PASSIVE)")
	defer s.Finalize()
	if s.Step() {
		s.ColumnInt() // whether another is at it
		logged, moved := s.ColumnInt(), s.ColumnInt()
		behind = logged - moved
	}
	_, err = s.Finish()
	return behind, err
}
