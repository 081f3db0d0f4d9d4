package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/approval"
	"countersign/internal/disk"
)

// diskWatch sees a disk that is running full before it is, and keeps some room on it for decisions.
type diskWatch struct {
	path string // of the store's file; "": it has none
	of   func(path string) (disk.Space, error)
	log  *slog.Logger
	// tell tells the admins of a level, with what is free.
	tell map[disk.Level]func(ctx context.Context, free int64, percent int) error

	space   atomic.Pointer[disk.Space] // beside the reserve, whether it is there or not; nil: not known
	reserve reserve

	level  disk.Level
	untold disk.Level               // that the admins are to be told of
	told   map[disk.Level]time.Time // when they were told of it last
	again  time.Time                // they are not told before, since it failed
}

const (
	// tellDiskAgain is for how long the admins are not told once more of a level, where it was better meanwhile.
	tellDiskAgain = 24 * time.Hour
	// reserveBytes is how many bytes the reserve has.
	reserveBytes = 64 << 20
	// reserveAtLast is with how few bytes left the reserve is given up before a write has failed.
	reserveAtLast = 16 << 20
	// reserveRest is how many looks pass before the reserve is made anew that a write has given up: the disk may say
	// that it has room, and have none for the store.
	reserveRest = 12
)

func newDiskWatch(path string, of func(string) (disk.Space, error), log *slog.Logger) *diskWatch {
	if is, err := filepath.EvalSymlinks(path); path != "" && err == nil { // the store lies where a link leads
		path = is
	}
	d := &diskWatch{path: path, of: of, log: log, told: map[disk.Level]time.Time{}}
	if d.of == nil {
		d.of = disk.Of
	}
	d.reserve = reserve{watch: d, file: disk.Reserve{Path: path + ".reserve", Bytes: reserveBytes}}
	return d
}

// look looks at the disk, and has an operator and the admins know where it is running full.
func (d *diskWatch) look(ctx context.Context, now time.Time) {
	s, known := d.read()
	if !known {
		d.space.Store(nil)
		return
	}
	s = d.reserve.keep(ctx, s)
	d.space.Store(&s)
	was := d.level
	switch d.level = s.Level(); {
	case d.level > was:
		d.untold = d.level
		d.log.WarnContext(ctx, "the disk is running full; once it is, nothing can be asked or decided", "path", d.path,
			"free", describe(s), "do", "make room on it; docs/retention.md says how to keep less")
	case d.level == disk.Roomy && was > d.level:
		d.log.InfoContext(ctx, "the disk has room again", "path", d.path, "free", describe(s))
	}
	d.untold = min(d.untold, d.level)
	if d.untold == disk.Roomy || now.Before(d.again) {
		return
	}
	if last, ever := d.told[d.untold]; ever && now.Sub(last) < tellDiskAgain {
		return
	}
	if err := d.tell[d.untold](ctx, s.Free, s.Percent()); err != nil {
		d.log.WarnContext(ctx, "the admins could not be told that the disk is running full; trying again", "error", err)
		d.again = now.Add(time.Minute)
		return
	}
	d.told[d.untold], d.untold = now, disk.Roomy
}

// read returns how much room the disk has, if that is known. Where it cannot be read, the store itself says why.
func (d *diskWatch) read() (s disk.Space, known bool) {
	if d.path == "" {
		return s, false
	}
	s, err := d.of(filepath.Dir(d.path))
	return s, err == nil && s != disk.Space{}
}

// makeRoom has the store open on a disk that is full already.
func (d *diskWatch) makeRoom() {
	if s, known := d.read(); known && s.Free < reserveAtLast && d.reserve.file.IsThere() {
		d.giveUpReserve()
	}
}

// giveUpReserve gives decisions room on a disk that has none left, if there is a reserve yet.
func (d *diskWatch) giveUpReserve() {
	if s, known := d.read(); known {
		s = d.reserve.giveUp(context.Background(), s)
		d.reserve.postpone()
		d.space.Store(&s)
	}
}

// reserve keeps a file beside the store, which is given up when the disk is full.
type reserve struct {
	watch *diskWatch
	file  disk.Reserve

	mu      sync.Mutex
	rest    int   // how many looks are left before it is made anew
	gone    bool  // it was given up, and is not there again
	before  int64 // how many bytes were free then
	helped  bool  // there were more after
	failing bool  // it cannot be made, which was logged
}

// keep makes the reserve where there is room for it, gives it up where there is hardly any, and returns what is free
// beside it: as if it were there, where it was given up.
func (r *reserve) keep(ctx context.Context, s disk.Space) disk.Space {
	r.mu.Lock()
	is, rest, gone := r.file.IsThere(), r.rest, r.gone
	r.rest = max(0, rest-1)
	r.helped = r.helped || s.Free-r.before >= r.file.Bytes/2
	r.mu.Unlock()
	if is && s.Free >= reserveAtLast {
		return s
	}
	if is {
		return r.giveUp(ctx, s)
	}
	without := s.Without(r.file.Bytes)
	switch {
	case gone && (without.Level() == disk.Full || rest > 0): // it comes first when there is room again
		return without
	case without.Level() == disk.Full: // a disk that has never had room for it
		return s
	}
	r.make(ctx)
	return without
}

func (r *reserve) make(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.file.Make()
	if err != nil && !r.failing {
		r.watch.log.WarnContext(ctx, "no room could be reserved on the disk for when it is full; trying again", "path",
			r.file.Path, "error", err)
	}
	r.failing, r.gone = err != nil, r.gone && err != nil
}

// giveUp gives the reserve up, and returns what is free then beside it.
func (r *reserve) giveUp(ctx context.Context, s disk.Space) disk.Space {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.file.IsThere() {
		return s.Without(r.file.Bytes)
	}
	if err := r.file.GiveUp(); err != nil {
		r.watch.log.ErrorContext(ctx, "the disk is full, and the room reserved on it could not be given up", "path",
			r.file.Path, "error", err, "do", "make room on the disk")
		return s
	}
	r.gone, r.before = true, s.Free
	if after, known := r.watch.read(); known {
		s = after
	}
	r.helped = s.Free-r.before >= r.file.Bytes/2
	r.watch.log.WarnContext(ctx, "the disk is full; the room reserved on it is given up, for decisions", "path",
		r.file.Path, "free", describe(s), "do", "make room on the disk")
	return s.Without(r.file.Bytes)
}

// postpone has the reserve made anew only after a while.
func (r *reserve) postpone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = reserveRest
}

// problem says what came of the reserve, "" while it is there.
func (r *reserve) problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.gone:
		return ""
	case !r.helped:
		return "; the reserve of 64 MiB was given up and gave no room: look for snapshots of the disk, or a quota"
	}
	return "; the reserve of 64 MiB was given up for decisions"
}

// largeRequest is how many bytes a request has, with its preview, that is not kept any more while the disk is running
// full.
const largeRequest = 64 << 10

// checkSpace refuses new requests while there is hardly space for decisions, and large ones before that.
func (d *diskWatch) checkSpace(bytes int) error {
	s := d.space.Load()
	if s == nil {
		return nil
	}
	switch level := s.Level(); {
	case level == disk.Full:
		return approval.Errorf(approval.CodeStoreFull, "The gate's disk is full but for what decisions need, so nothing new "+
			"can be asked. Whoever runs the gate must make room on it.")
	case level == disk.Low && bytes > largeRequest:
		return approval.Errorf(approval.CodeStoreFull, "The gate's disk is running full, so nothing new of more than 64 KiB "+
			"can be asked. Whoever runs the gate must make room on it.")
	}
	return nil
}

// problems names a disk that is running full.
func (d *diskWatch) problems() []string {
	s := d.space.Load()
	if s == nil || s.Level() == disk.Roomy {
		return nil
	}
	refused := "requests over 64 KiB are refused"
	if s.Level() == disk.Full {
		refused = "new requests are refused"
	}
	return []string{fmt.Sprintf("the disk of %s is running full, %s left, and %s: make room on it; once it is full, "+
		"nothing can be decided either%s", d.path, describe(*s), refused, d.reserve.problem())}
}

func describe(s disk.Space) string { return fmt.Sprintf("%d MiB (%d %%)", s.Free>>20, s.Percent()) }

var (
	diskFree = prometheus.NewDesc("countersign_store_disk_free_bytes",
		"Bytes that are free on the disk of the store's file, beside the reserve. -1: not known, as with a database.",
		nil, nil)
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
		free, state = s.Free, float64(s.Level())
	}
	ch <- prometheus.MustNewConstMetric(diskFree, prometheus.GaugeValue, float64(free))
	ch <- prometheus.MustNewConstMetric(diskState, prometheus.GaugeValue, state)
}
