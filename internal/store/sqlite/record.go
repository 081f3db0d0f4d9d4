package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"countersign/approval"
)

// A group of nothing but records is committed without a sync: it is in the log, where the death of the process cannot
// reach it, and the next commit that syncs takes it along. There is one within syncWithin. Until then no client is told
// the seq of such a record: a caller that reads one in a View has the log synced first.

const (
	// syncWithin is for how long a record may lie in the log unsynced.
	syncWithin = time.Second
	// maxUnsynced is how many seqs may be in the log unsynced before a group is committed with a sync again.
	maxUnsynced = 1 << 16
	// skipAhead is how many seqs are passed over after a loss of power: more than can have been lost.
	skipAhead = 2 * maxUnsynced
)

// durability is what a function's commit promises.
type durability int

const (
	durable  durability = iota // it outlives a loss of power
	recorded                   // it outlives the process
)

// The levels of synchronous, as SQLite names them.
const (
	syncFull   = "FULL"
	syncNormal = "NORMAL"
)

// syncTo returns when everything up to seq outlives a loss of power.
func (d *DB) syncTo(ctx context.Context, seq int64) error {
	if d.synced.Load() >= seq {
		return nil
	}
	return d.writer.update(ctx, func(x approval.Tx) error {
		if d.synced.Load() < seq {
			x.(*tx).w.mustSync = true
		}
		return nil
	}, durable)
}

// SyncTo is called before a client is told of seq: in a View it waits until that is synced. What an Update has read
// is told after its commit.
func (t *tx) SyncTo(seq int64) error {
	if t.w == nil {
		return t.db.syncTo(t.ctx, seq)
	}
	return nil
}

// Disorder is none of what the writer has given the time and the seq at once. Rows may have come from elsewhere.
func (t *tx) Disorder() time.Duration { return t.db.disorder }

// levelFor is the level that the group is committed with. After a commit that could not be synced, none is left
// unsynced until one could be.
func (w *writer) levelFor(group []*job) string {
	if w.syncFailed || w.seq-w.db.synced.Load() >= maxUnsynced {
		return syncFull
	}
	for _, j := range group {
		if j != nil && j.durability == durable {
			return syncFull
		}
	}
	return syncNormal
}

// setLevel changes the level of the connection, between two transactions. The pragma acts when it is prepared, so that
// it is prepared anew each time; that what follows is synced is read back.
func (w *writer) setLevel(level string) error {
	if w.level == level {
		return nil
	}
	if err := w.c.Exec("PRAGMA synchronous = " + level); err != nil {
		return err
	}
	if level == syncFull {
		s := w.c.Prepare("PRAGMA synchronous")
		defer s.Finalize()
		const full = 2
		if !s.Step() || s.ColumnInt() != full {
			_, err := s.Finish()
			return errors.Join(err, errors.New("store: SQLite does not sync what it commits"))
		}
		if _, err := s.Finish(); err != nil {
			return err
		}
	}
	w.level = level
	return nil
}

// evenly is how far the clock may be from going on evenly before a group of records saves it.
const evenly = 10 * time.Millisecond

// onRows is what the rows that a group has inserted say of how far it has come, as [loadNewest] finds it.
type onRows struct {
	seq int64     // of the newest event
	at  time.Time // of that
	id  string    // the last of the ids of events, requests and notifications
}

// stateFollows reports whether what the next process starts from can be told from the group's own rows: the newest of
// them have the seq, the id and the time that were given out last, and the clock went on evenly since the state was
// saved. To save it costs a page of the log, which is as much as a record does.
func (w *writer) stateFollows() bool {
	if w.endings != w.savedEndings {
		return false
	}
	if r := &w.onRows; r.seq != w.seq || !r.at.Equal(w.newest) || r.id != w.lastID.String() {
		return false
	}
	now, was := w.db.clock.state(), w.kept
	off := now.at - was.at - (now.elapsed - was.elapsed)
	moved := now.ahead - was.ahead
	now.at, now.elapsed, now.ahead = was.at, was.elapsed, was.ahead
	return now == was && off.Abs() <= evenly && moved.Abs() <= evenly
}

// noteCommit keeps how far the log is synced, after a commit that has written something.
func (w *writer) noteCommit() {
	w.db.events.stalled.Store(false)
	if w.level == syncNormal {
		if !w.unsynced {
			w.unsynced = true
			w.syncSoon()
		}
		return
	}
	w.unsynced, w.syncFailed = false, false
	w.db.synced.Store(w.seq)
	w.db.mark.note(w.seq)
}

// syncSoon has the log synced within syncWithin, and again and again until that succeeds.
func (w *writer) syncSoon() {
	if w.syncTimer != nil {
		w.syncTimer.Reset(syncWithin)
		return
	}
	w.syncTimer = time.AfterFunc(syncWithin, w.db.syncAll)
}

func (d *DB) syncAll() {
	for {
		err := d.syncTo(context.Background(), d.seq.Load())
		if err == nil || errors.Is(err, approval.ErrClosed) {
			return
		}
		d.log.Error("records of allowed calls could not be synced to the disk: a power failure could lose them", "error", err)
		select {
		case <-time.After(syncWithin):
		case <-d.closing:
			return
		}
	}
}

// settle syncs what is not, after the last group.
func (w *writer) settle() error {
	if w.syncTimer != nil {
		w.syncTimer.Stop()
	}
	if w.c == nil || !w.unsynced && w.db.clock.state().ahead == 0 {
		return nil
	}
	if err := w.setLevel(syncFull); err != nil {
		return err
	}
	if err := w.saveState(); err != nil {
		return err
	}
	w.noteCommit()
	return nil
}

// wasCutOff reports whether the last process did not close the store at path: SQLite removes the log when it does.
func wasCutOff(path string) (bool, error) {
	info, err := os.Stat(path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	return info.Size() > 0, nil
}
