package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/approval"
	"countersign/internal/backup"
	"countersign/internal/disk"
	"countersign/internal/store/sqlite"
)

// backups has copies of the store made when they are due, and knows how that went.
type backups struct {
	disk *diskWatch
	live *inForce
	log  *slog.Logger
	now  func() time.Time // the store's
	tell func(ctx context.Context, why string) error
	// copy makes a copy of the store in a folder.
	copy func(ctx context.Context, folder string) (*sqlite.Copy, error)

	mu     sync.Mutex
	newest backup.Backup // the zero Backup: none is known
	begun  time.Time     // when the first was looked for
	since  time.Time     // since when none could be made; zero: the last one was
	why    string        // it could not
	told   time.Time     // when the admins were told of it last

	// Of run alone: none is tried before again, in the folder where one has failed.
	again time.Time
	dir   string
}

const (
	// tryBackupAgain is how long a backup that failed rests: it may have cost minutes and a disk's room.
	tryBackupAgain = time.Hour
	// tellBackupAgain is for how long the admins are not told once more.
	tellBackupAgain = 24 * time.Hour
)

// look sees which copies there are.
func (b *backups) look(plan *backup.Plan) ([]backup.Backup, error) {
	all, err := backup.List(plan.Dir)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun.IsZero() {
		b.begun = b.now()
	}
	if err == nil {
		b.newest = backup.Backup{}
		if past := backup.DropLater(all, b.now()); len(past) > 0 {
			b.newest = past[0]
		}
	}
	return all, err
}

// begin has the newest copy known from the start, where its folder answers.
func (b *backups) begin() {
	if plan := &b.live.Load().cfg.Backups; plan.IsSet() {
		_, _ = b.look(plan) // the next run tells what is wrong
	}
}

// run makes a copy if one is due.
func (b *backups) run(ctx context.Context) error {
	plan := &b.live.Load().cfg.Backups
	if !plan.IsSet() {
		return nil
	}
	if plan.Dir != b.dir { // another may work
		b.dir, b.again = plan.Dir, time.Time{}
	}
	now := b.now()
	all, err := b.look(plan)
	switch {
	case err == nil && !plan.IsDue(all, now): // also where somebody has made one by hand
		b.settle()
		return nil
	case err == nil && now.Before(b.again):
		return nil
	case err == nil:
		err = b.make(ctx, plan, now)
	}
	if err != nil && ctx.Err() == nil {
		b.fail(ctx, now, err)
	}
	return err
}

// settle notes that the newest copy is there.
func (b *backups) settle() {
	b.again = time.Time{}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = time.Time{}
}

// make makes a copy. It lies beside the store before it is compressed and encrypted: what is in it is not in the clear
// anywhere else.
func (b *backups) make(ctx context.Context, plan *backup.Plan, now time.Time) (err error) {
	b.again = now.Add(tryBackupAgain)
	if s, known := b.disk.read(); known {
		size := fileSize(b.disk.path)
		if disk.IsSame(filepath.Dir(b.disk.path), plan.Dir) { // what becomes of it is smaller, but may be nearly as large
			size *= 2
		}
		if s.Without(size).Level() == disk.Full {
			return fmt.Errorf("it takes up to %d MiB on the store's disk for a while, which has %s left", size>>20,
				describe(s))
		}
	}
	c, err := b.copy(ctx, filepath.Dir(b.disk.path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	made, err := plan.Write(ctx, c, now)
	if err != nil {
		return err
	}
	if err := plan.RemoveOld(now); err != nil {
		b.log.WarnContext(ctx, "backups that are too many could not be removed; trying again with the next one", "error",
			err)
	}
	b.settle()
	b.mu.Lock()
	b.newest = made
	b.mu.Unlock()
	b.log.InfoContext(ctx, "a backup of the store was made", "path", made.Path, "bytes", made.Bytes, "took",
		b.now().Sub(now))
	return nil
}

// fail notes that no copy could be made, and tells the admins.
func (b *backups) fail(ctx context.Context, now time.Time, err error) {
	why := err.Error()
	if e, ok := errors.AsType[*approval.Error](err); ok {
		why = e.Message
	}
	b.mu.Lock()
	if b.since.IsZero() {
		b.since = now
	}
	b.why = why
	tell := b.told.IsZero() || now.Sub(b.told) >= tellBackupAgain
	b.mu.Unlock()
	if !tell {
		return
	}
	if err := b.tell(ctx, why); err != nil {
		b.log.WarnContext(ctx, "the admins could not be told that no backup could be made; trying again with the next one",
			"error", err)
		return
	}
	b.mu.Lock()
	b.told = now
	b.mu.Unlock()
}

// problems names copies that are not made.
func (b *backups) problems() []string {
	plan := &b.live.Load().cfg.Backups
	b.mu.Lock()
	defer b.mu.Unlock()
	if !plan.IsSet() || b.begun.IsZero() {
		return nil
	}
	last := b.begun
	if !b.newest.At.IsZero() {
		last = b.newest.At
	}
	switch {
	case !b.since.IsZero():
		return []string{fmt.Sprintf("no backup of the store could be made since %s (%s): see that the folder %s is there, "+
			"that the gate may write to it, and that its disk and the store's have room", approval.FormatTime(b.since), b.why,
			plan.Dir)}
	case b.now().Sub(last) > 2*plan.Every:
		return []string{fmt.Sprintf("no backup of the store was made since %s: see that the heartbeat's entry backup is "+
			"enabled", approval.FormatTime(last))}
	}
	return nil
}

// state is the newest copy, and since when none could be made and why.
func (b *backups) state() (newest backup.Backup, since time.Time, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest, b.since, b.why
}

var (
	backupAt = prometheus.NewDesc("countersign_backup_last_success_timestamp_seconds",
		"When the newest backup of the store was made, as Unix time. 0: there is none.", nil, nil)
	backupBytes = prometheus.NewDesc("countersign_backup_bytes", "Bytes that it takes.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (*backups) Describe(ch chan<- *prometheus.Desc) {
	ch <- backupAt
	ch <- backupBytes
}

// Collect implements [prometheus.Collector]. Where none are configured nothing is told.
func (b *backups) Collect(ch chan<- prometheus.Metric) {
	if !b.live.Load().cfg.Backups.IsSet() {
		return
	}
	newest, _, _ := b.state()
	at := 0.0
	if !newest.At.IsZero() {
		at = float64(newest.At.Unix())
	}
	ch <- prometheus.MustNewConstMetric(backupAt, prometheus.GaugeValue, at)
	ch <- prometheus.MustNewConstMetric(backupBytes, prometheus.GaugeValue, float64(newest.Bytes))
}
