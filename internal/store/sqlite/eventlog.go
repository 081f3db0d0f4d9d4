package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"countersign/approval"
)

// An event that changes nothing but the audit log, and that a call waits for, needs no transaction of its own. It is
// appended to a file beside the database, the event log, where the death of the process cannot reach it; the writer
// takes it into the database with its next group, takeWithin later at the most, and only there it gets its seq. What
// reads events has them taken in first. How far they are is kept in store_state, in the transaction that takes them
// in: each comes into the database once, whenever the process ends. The power may fail before the file is on the disk:
// that is what [approval.EventRecorder] promises of a record.
//
// The file has two halves. While a group takes in what lies in one of them, the other is written.

const (
	eventLogSuffix = "-events"
	// takeWithin is for how long events gather before they are taken in.
	takeWithin = 50 * time.Millisecond
	// takeAt is how many of them are taken in without waiting for that.
	takeAt = 256
	// halfBytes is how much each half of the file holds.
	halfBytes = 1 << 20
	// stuckAfter is for how long events may wait with none taken in before no more are put behind them: what holds the
	// writer up keeps them from the disk.
	stuckAfter = 500 * time.Millisecond
	// takeAgain is when it is tried again to take in what could not be.
	takeAgain = 250 * time.Millisecond
)

// eventLog is the file and what of it is not in the database.
type eventLog struct {
	db    *DB
	file  *os.File
	count atomic.Int64 // of what waits to be taken in
	// stalled is set when the store could not commit, whichever transaction it was, and until a commit has written
	// something: one that wrote nothing shows nothing.
	stalled atomic.Bool

	mu       sync.Mutex
	halves   [2]half
	active   int       // the half that is written
	position int64     // of the newest event: they are counted, and the count never goes back
	moved    time.Time // by the store, when some were taken in last, or the first of those that wait came
	failing  bool      // the file could not be written when that was tried last
	closed   bool
	timer    *time.Timer // has what waits taken in; nil: never yet
	frame    []byte
}

type half struct {
	size   int64 // of what is written
	events []loggedEvent
}

type loggedEvent struct {
	position int64
	event    approval.Event
}

// openEventLog opens the file beside the database, and reads what the last process has left in it after the event
// taken. None is of later than latest.
func openEventLog(d *DB, taken int64, latest time.Time) (_ *eventLog, left leftovers, err error) {
	f, err := openOwn(d.path+eventLogSuffix, os.O_CREATE)
	if err != nil {
		return nil, left, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 2*halfBytes))
	if err != nil {
		return nil, left, errors.Join(err, f.Close())
	}
	left = leftovers{taken: taken, latest: latest}
	for half := range slices.Chunk(b, halfBytes) {
		left.read(half)
	}
	left.sort()
	return &eventLog{db: d, file: f}, left, nil
}

// resume puts what the last process has left before all that comes. It returns the newest of it, nil for none.
func (l *eventLog) resume(left leftovers) *approval.Event {
	l.position = left.newest()
	n := len(left.events)
	if n == 0 {
		return nil
	}
	// Nothing is written into either half before these are taken in.
	l.halves[0] = half{halfBytes, left.events}
	l.halves[1].size = halfBytes
	l.count.Store(int64(n))
	return &left.events[n-1].event
}

// append puts an event on record, and reports false where it cannot.
func (l *eventLog) append(e *approval.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &l.halves[l.active]
	if l.closed || l.stalled.Load() || l.db.lostError() != nil {
		return false
	}
	e.At = l.db.Now()
	switch {
	case l.count.Load() == 0:
		l.moved = e.At
	case e.At.Sub(l.moved) > stuckAfter:
		return false
	}
	l.frame = appendFrame(l.frame[:0], l.position+1, e)
	if len(l.frame) > maxFrame || h.size+int64(len(l.frame)) > halfBytes {
		return false
	}
	_, err := l.file.WriteAt(l.frame, int64(l.active)*halfBytes+h.size)
	if failed := err != nil; failed != l.failing {
		l.failing = failed
		if failed {
			l.db.log.Error("the event log beside the store cannot be written; allowed calls are recorded in the store "+
				"itself, which takes longer", "error", err)
		}
	}
	if err != nil {
		return false
	}
	l.position++
	h.size += int64(len(l.frame))
	h.events = append(h.events, loggedEvent{l.position, *e})
	l.count.Add(1)
	switch len(h.events) {
	case 1:
		l.takeIn(takeWithin)
	case takeAt:
		l.takeIn(0)
	}
	return true
}

// takeIn has what waits taken in after some time; l.mu is held.
func (l *eventLog) takeIn(after time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(after, l.ask)
		return
	}
	l.timer.Reset(after)
}

// ask has the writer commit a group, which takes in what waits.
func (l *eventLog) ask() {
	if l.count.Load() > 0 {
		l.db.writer.soon(l.afterGroup)
	}
}

// afterGroup is told what has become of a group: after one that failed it is tried again.
func (l *eventLog) afterGroup(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !l.closed {
		l.takeIn(takeAgain)
	}
}

// waiting returns what is to be taken in, oldest first. What comes from now on is written into the other half, if that
// is free.
func (l *eventLog) waiting() []loggedEvent {
	if l.count.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	other := 1 - l.active
	if len(l.halves[other].events) == 0 {
		l.active, other = other, l.active
		l.halves[l.active].size = 0
	}
	es := l.halves[other].events
	if newer := l.halves[l.active].events; len(newer) > 0 {
		es = slices.Concat(es, newer)
	}
	return es
}

// dropTaken is told up to which event what waited is in the database.
func (l *eventLog) dropTaken(position int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = l.db.Now()
	for i := range l.halves {
		h := &l.halves[i]
		n := 0
		for n < len(h.events) && h.events[n].position <= position {
			n++
		}
		l.count.Add(-int64(n))
		clear(h.events[:n])
		if n < len(h.events) {
			h.events = h.events[n:]
		} else {
			h.events, h.size = h.events[:0], 0
		}
	}
	if l.count.Load() > 0 && !l.closed {
		l.takeIn(takeWithin)
	}
}

// stop takes no more events. What waits is to be taken in then.
func (l *eventLog) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// close removes the file, if nothing in it is still to be taken in.
func (l *eventLog) close() error {
	err := l.file.Close()
	if n := l.count.Load(); n > 0 {
		l.db.log.Error("records of allowed calls could not be taken into the store; they are in the event log beside "+
			"it, and the next start takes them in", "records", n)
		return err
	}
	return errors.Join(err, os.Remove(l.db.path+eventLogSuffix))
}

// The frames of the file: the length of what follows the sum, the CRC-32C of that, the position, the time in
// milliseconds, and the texts of the event, each after its length.

const (
	frameHead  = 8
	bodyHead   = 16
	textFields = 10
	// maxFrame is how long a frame may be; a longer event is recorded in the store itself.
	maxFrame = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// texts are the fields of an event that are in a frame, but for its time and for its data, which come last.
func texts(e *approval.Event) [textFields - 1]string {
	return [...]string{string(e.Type), e.CorrelationID, e.Actor, e.ApprovalID, e.Agent, e.Tool, string(e.Risk), e.Decision,
		e.Reason}
}

func appendFrame(b []byte, position int64, e *approval.Event) []byte {
	start := len(b)
	b = append(b, make([]byte, frameHead)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(position))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.At.UnixMilli()))
	for _, s := range texts(e) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = append(binary.AppendUvarint(b, uint64(len(e.Data))), e.Data...)
	body := b[start+frameHead:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

var errFrame = errors.New("store: the event log has a frame that cannot be read")

func readEvent(b []byte) (e loggedEvent, err error) {
	if len(b) < bodyHead {
		return e, errFrame
	}
	e.position = int64(binary.LittleEndian.Uint64(b))
	e.event.At = time.UnixMilli(int64(binary.LittleEndian.Uint64(b[8:]))).UTC()
	b = b[bodyHead:]
	var s [textFields]string
	for i := range s {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return e, errFrame
		}
		s[i] = string(b[n:][:size])
		b = b[n+int(size):]
	}
	v := &e.event
	v.Type, v.CorrelationID, v.Actor, v.ApprovalID, v.Agent = approval.EventType(s[0]), s[1], s[2], s[3], s[4]
	v.Tool, v.Risk, v.Decision, v.Reason = s[5], approval.Risk(s[6]), s[7], s[8]
	if s[9] != "" {
		v.Data = []byte(s[9])
	}
	if len(b) > 0 {
		return e, errFrame
	}
	return e, nil
}

// takeLogged appends what waits in the event log to the audit log, in the transaction that has begun, before anything
// else is done in it.
func (w *writer) takeLogged() error {
	es := w.db.events.waiting()
	w.takenTo = w.logged
	if w.onCommit != nil {
		w.summary.Events = slices.Grow(w.summary.Events, len(es))
	}
	for i := range es {
		at := es[i].event.At
		if at.Before(w.newest) { // times grow with the seq
			at = w.newest
		}
		w.newest = at
		if err := w.take((&tx{db: w.db, c: w.c, w: w, at: at}).withRows(), &es[i]); err != nil {
			return err
		}
	}
	return nil
}

// takeNewer is takeLogged for what has come since the group began, in the transaction of one of its functions.
func (w *writer) takeNewer(t *tx) error {
	es := w.db.events.waiting()
	for i := range es {
		if es[i].position <= w.takenTo {
			continue
		}
		if err := w.take(t, &es[i]); err != nil {
			return err
		}
	}
	return nil
}

// take appends one event of the event log to the audit log.
func (w *writer) take(t *tx, e *loggedEvent) error {
	if _, err := t.append(e.event); err != nil {
		if t.broken != nil || !w.c.InTransaction() {
			return err
		}
		w.db.log.Error("a record of an allowed call does not fit into the store, and is lost", "agent", e.event.Agent,
			"tool", e.event.Tool, "error", err)
		if _, err := t.append(gap("record_does_not_fit", `{"records":1}`)); err != nil {
			return err
		}
	}
	w.takenTo = e.position
	return nil
}

// takeRest takes in what waits, with no group, when the store is closed.
func (w *writer) takeRest() error {
	if w.db.events.count.Load() == 0 {
		return nil
	}
	w.group = w.group[:0]
	return cmp.Or(w.attempt(), w.allTaken())
}

// allTaken fails where something still waits to be taken in.
func (w *writer) allTaken() error {
	if n := w.db.events.count.Load(); n > 0 {
		return fmt.Errorf("store: %d records could not be taken from %s into the store", n, w.db.path+eventLogSuffix)
	}
	return nil
}

// soon commits a group that takes in what is in the event log, and tells then of it. It does nothing where the queue is
// full: another group is near then.
func (w *writer) soon(then func(error)) {
	j := jobs.Get().(*job)
	j.ctx, j.fn, j.then, j.durability = context.Background(), nothing, then, recorded
	if !w.enqueueNow(j) {
		j.free()
	}
}

// nothing is the function of a group that is only to be committed.
func nothing(approval.Tx) error { return nil }

// GatherEvents has what was put on record before this look at the events taken in, unless the View's moment is past.
func (t *tx) GatherEvents() error {
	if t.w != nil || t.settled || t.ended || t.db.events.count.Load() == 0 {
		return nil
	}
	return t.db.writer.update(t.ctx, nothing, recorded)
}
