package sqlite

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/safefile"
)

// leftovers is what a process that was cut off has left in the event log, for the next one. Some of it may be damaged:
// what is whole is taken in all the same, wherever it lies, and the audit log says what is missing.
//
// In each half the newest frames come first. What follows them is of an earlier use, often from the middle of a frame
// on; or it was being written when the process ended. So what is no frame is passed over byte by byte. No agent can
// have one found within what it says: a frame has zeros in its head, and neither a name nor JSON has any.
type leftovers struct {
	taken  int64     // up to which event the database has them
	latest time.Time // no event is of later

	events  []loggedEvent // that the database does not have; in the end by position, each once
	damaged bool          // a frame lies there that cannot be read, and may be of an event that the database does not have
	claimed int64         // the position that such a frame has, 0: none is known
}

// maxPosition is more than there can be.
const maxPosition = 1 << 48

// unwritten is what most of a half consists of. No frame begins where its head and position would be zeros, and most of
// the time to read a half would be looking there byte by byte.
var unwritten [4096]byte

// positionBytes is the length of the position, which begins a frame's body.
const positionBytes = 8

// read reads a half of the file.
func (l *leftovers) read(b []byte) {
	// begins: a frame begins at b, if there is one; next: the position that it has then.
	first, begins, next := true, true, l.taken+1
	for len(b) >= frameHead+bodyHead {
		if len(b) >= len(unwritten) && bytes.Equal(b[:len(unwritten)], unwritten[:]) {
			// A frame may begin in its last bytes.
			first, begins, b = false, false, b[len(unwritten)-frameHead-positionBytes+1:]
			continue
		}
		body, position, whole := frameAt(b)
		if e, err := readEvent(body); whole && err == nil && l.sound(&e) {
			if position > l.taken {
				l.events = append(l.events, e)
			}
			b = b[frameHead+len(body):]
			first, begins, next = false, true, position+1
			continue
		}
		follows := begins && position == next
		written := first && !bytes.Equal(b[:frameHead], make([]byte, frameHead))
		if old := 0 < position && position <= l.taken; !old && (whole || follows || written) {
			l.damaged = true
			if follows {
				l.claimed = max(l.claimed, position)
			}
		}
		first, begins, b = false, false, b[1:]
	}
}

// frameAt returns what could be a frame at the start of b, and whether it has the sum that its head says.
func frameAt(b []byte) (body []byte, position int64, whole bool) {
	size, sum := int64(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint32(b[4:])
	position = int64(binary.LittleEndian.Uint64(b[frameHead:]))
	if size < bodyHead || size > maxFrame || size > int64(len(b)-frameHead) || position <= 0 || position > maxPosition {
		return nil, position, false
	}
	body = b[frameHead:][:size]
	return body, position, crc32.Checksum(body, castagnoli) == sum
}

// sound reports whether the gate may have written an event: what is taken in is listed, and moves the store's time.
func (l *leftovers) sound(e *loggedEvent) bool {
	v := &e.event
	if v.Type != approval.EventCallAllowed || v.At.Before(fromEpoch(1)) || v.At.After(l.latest) {
		return false
	}
	for _, s := range texts(v) {
		if !utf8.ValidString(s) {
			return false
		}
	}
	data := jsontext.Value(v.Data)
	return data == nil || data.IsValid() && data.Kind() == '{'
}

// sort puts the events into their order. Of two with one position the later is the one: it was written after a start
// that could not read the other.
func (l *leftovers) sort() {
	slices.SortFunc(l.events, func(a, b loggedEvent) int {
		return cmp.Or(cmp.Compare(a.position, b.position), b.event.At.Compare(a.event.At))
	})
	l.events = slices.CompactFunc(l.events, func(a, b loggedEvent) bool { return a.position == b.position })
}

// newest is the position of the newest event that there was, as far as is known.
func (l *leftovers) newest() int64 {
	newest := max(l.taken, l.claimed)
	if n := len(l.events); n > 0 {
		newest = max(newest, l.events[n-1].position)
	}
	return newest
}

// missing is how many events are missing for certain.
func (l *leftovers) missing() int64 { return l.newest() - l.taken - int64(len(l.events)) }

// latestEvent is a time that no event in the log can be after, by the time that is kept and the machine's. It is far
// away: in a new store none is kept, and a machine without a clock of its own starts in 1970.
func latestEvent(kept time.Duration, now time.Time) time.Time {
	return fromEpoch(max(kept, sinceEpoch(now))).AddDate(100, 0, 0)
}

// damagedPattern is what follows the store's name in those of the event logs that were set aside.
const damagedPattern = eventLogSuffix + `\.damaged-[0-9]{8}T[0-9]{6}Z`

// setAside keeps the file under another name, for the operator to look into what is damaged in it, and goes on with a
// new one. What of it is whole is in the database. Where it cannot be kept, it is written on.
func (l *eventLog) setAside(now time.Time) (err error) {
	path := l.db.path + eventLogSuffix
	aside := path + ".damaged-" + now.UTC().Format(copyTime)
	if err := l.file.Close(); err != nil {
		l.db.log.Warn("the damaged event log could not be closed", slog.Any("error", err))
	}
	if err := safefile.Name(path, aside); err != nil {
		l.db.log.Error("the event log beside the store is damaged, and could not be set aside", slog.Any("error", err))
	}
	l.file, err = openOwn(path, os.O_CREATE)
	return err
}

// findAside notes the event logs that were set aside, and removes all but the newest.
func (d *DB) findAside() {
	paths, err := d.newest(damagedPattern)
	if err != nil {
		d.log.Warn("damaged event logs cannot be listed", slog.Any("error", err))
	}
	d.aside = paths
}

// Problems names what the operator is to look at: the event logs that were set aside, as long as they lie there.
func (d *DB) Problems() (ps []string) {
	for _, path := range d.aside {
		if _, err := os.Lstat(path); err == nil {
			ps = append(ps, fmt.Sprintf("records of allowed calls are missing in the audit log, which says so (audit_gap): "+
				"not all of the event log could be read. See that the disk is sound, then move %s away", path))
		}
	}
	return ps
}
