package store

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"
)

func TestIDsGrow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var last ulid.ULID
		now := time.UnixMilli(1_800_000_000_000)
		for range rapid.IntRange(2, 200).Draw(rt, "n") {
			now = now.Add(time.Duration(rapid.IntRange(-3, 3).Draw(rt, "ms")) * time.Millisecond)
			id := NextID(last, now)
			if id.Compare(last) <= 0 || id.String() <= last.String() {
				rt.Fatalf("%s after %s", id, last)
			}
			if last.Time() < uint64(now.UnixMilli()) && id.Time() != uint64(now.UnixMilli()) {
				rt.Fatalf("%s is not of %v", id, now)
			}
			last = id
		}
	})
	// Entropy that is used up carries into the time.
	now := time.UnixMilli(1_800_000_000_000)
	var last ulid.ULID
	_ = last.SetTime(uint64(now.UnixMilli()))
	for i := 6; i < len(last); i++ {
		last[i] = 0xff
	}
	id := NextID(last, now)
	if id.Compare(last) <= 0 || id.Time() != last.Time()+1 {
		t.Errorf("%s after %s", id, last)
	}
}
