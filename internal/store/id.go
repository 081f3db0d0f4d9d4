package store

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"
)

// NextID returns a ULID of the time now that sorts after last. When last has now's millisecond, or a
// later one, it counts on from last by a random step; entropy that overflows carries into the time, so
// that there always is a next.
func NextID(last ulid.ULID, now time.Time) ulid.ULID {
	var id ulid.ULID
	if ms := uint64(now.UnixMilli()); ms > last.Time() {
		_ = id.SetTime(ms) // fails after the year 10889
		binary.BigEndian.PutUint16(id[6:], uint16(rand.Uint32()))
		binary.BigEndian.PutUint64(id[8:], rand.Uint64())
		return id
	}
	lo, carry := bits.Add64(binary.BigEndian.Uint64(last[8:]), 1+rand.Uint64N(1<<32), 0)
	hi, _ := bits.Add64(binary.BigEndian.Uint64(last[:8]), 0, carry)
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id
}

// firstID is not after any id given out at t or later.
func firstID(t time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(uint64(max(t.UnixMilli(), 0))) // fails after the year 10889
	return id.String()
}
