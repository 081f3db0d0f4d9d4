package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/disk"
)

// diskWatch sees a disk that is running full before it is.
type diskWatch struct {
	path   string // of the store's file; "": it has none
	of     func(path string) (disk.Space, error)
	log    *slog.Logger
	admins *chat.Service

	space atomic.Pointer[disk.Space] // nil: not known
	low   bool
	tell  bool      // the admins are to be told
	told  time.Time // when they were told last; zero: never
	again time.Time // they are not told before, since it failed
}

// tellDiskAgain is for how long the admins are not told once more, where the disk has had room meanwhile.
const tellDiskAgain = 24 * time.Hour

// look looks at the disk, and has an operator and the admins know where it is running full.
func (d *diskWatch) look(ctx context.Context, now time.Time) {
	if d.path == "" {
		return
	}
	s, err := d.of(filepath.Dir(d.path))
	if err != nil || s == (disk.Space{}) { // the store itself says what is wrong with it
		d.space.Store(nil)
		return
	}
	d.space.Store(&s)
	was := d.low
	switch d.low = s.IsLow(); {
	case d.low && !was:
		d.tell = true
		d.log.WarnContext(ctx, "the disk is running full; once it is, nothing can be asked or decided", "path", d.path,
			"free", describe(s), "do", "make room on it; docs/retention.md says how to keep less")
	case !d.low && was:
		d.log.InfoContext(ctx, "the disk has room again", "path", d.path, "free", describe(s))
	}
	if !d.low || !d.tell || now.Before(d.again) || !d.told.IsZero() && now.Sub(d.told) < tellDiskAgain {
		return
	}
	if err := d.admins.DiskLow(ctx, s.Free, s.Percent()); err != nil {
		d.log.WarnContext(ctx, "the admins could not be told that the disk is running full; trying again", "error", err)
		d.again = now.Add(time.Minute)
		return
	}
	d.tell, d.told = false, now
}

// largeRequest is how many bytes a request has, with its preview, that is not kept any more while the disk is running
// full.
const largeRequest = 64 << 10

// checkSpace refuses new requests while there is hardly space for decisions, and large ones before that.
func (d *diskWatch) checkSpace(bytes int) error {
	switch s := d.space.Load(); {
	case s == nil:
		return nil
	case s.IsFull():
		return approval.Errorf(approval.CodeStoreFull, "The gate's disk is full but for what decisions need, so nothing new "+
			"can be asked. Whoever runs the gate must make room on it.")
	case s.IsLow() && bytes > largeRequest:
		return approval.Errorf(approval.CodeStoreFull, "The gate's disk is running full, so nothing new of more than 64 KiB "+
			"can be asked. Whoever runs the gate must make room on it.")
	}
	return nil
}

// problems names a disk that is running full.
func (d *diskWatch) problems() []string {
	s := d.space.Load()
	if s == nil || !s.IsLow() {
		return nil
	}
	refused := "requests over 64 KiB are refused"
	if s.IsFull() {
		refused = "new requests are refused"
	}
	return []string{fmt.Sprintf("the disk of %s is running full, %s left, and %s: make room on it; once it is full, "+
		"nothing can be decided either", d.path, describe(*s), refused)}
}

func describe(s disk.Space) string { return fmt.Sprintf("%d MiB (%d %%)", s.Free>>20, s.Percent()) }

var (
	diskFree = prometheus.NewDesc("countersign_store_disk_free_bytes",
		"Bytes that are free on the disk of the store's file. -1: not known, as with a database.", nil, nil)
	diskState = prometheus.NewDesc("countersign_store_disk_state",
		"0: that disk has room; 1: it is running full; 2: new requests are refused. -1: not known.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (d *diskWatch) Describe(ch chan<- *prometheus.Desc) {
	ch <- diskFree
	ch <- diskState
}

// Collect implements [prometheus.Collector].
func (d *diskWatch) Collect(ch chan<- prometheus.Metric) {
	free, state := int64(-1), -1.0
	if s := d.space.Load(); s != nil {
		free, state = s.Free, 0
		if s.IsFull() {
			state = 2
		} else if s.IsLow() {
			state = 1
		}
	}
	ch <- prometheus.MustNewConstMetric(diskFree, prometheus.GaugeValue, float64(free))
	ch <- prometheus.MustNewConstMetric(diskState, prometheus.GaugeValue, state)
}
