package sqlite3

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimesAreStoredWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) time.Time { // years 0 to 9999
			return time.UnixMicro(rapid.Int64Range(-62167219200_000000, 253402300799_999999).Draw(rt, name))
		}
		a, b := draw("a"), draw("b")
		texts := [2][timeLen]byte{}
		for i, v := range []time.Time{a, b} {
			if !putTime(texts[i][:], v) {
				rt.Fatalf("%v cannot be stored", v)
			}
			if want := v.UTC().Format(TimeFormat); string(texts[i][:]) != want {
				rt.Fatalf("stored %s, want %s", texts[i], want)
			}
			got, ok := parseTime(texts[i][:])
			if want := v.UTC().Truncate(time.Millisecond); !ok || !got.Equal(want) || got.Location() != time.UTC {
				rt.Fatalf("read %v, want %v", got, want)
			}
		}
		// The order of the texts is that of the times.
		if got, want := strings.Compare(string(texts[0][:]), string(texts[1][:])),
			a.Truncate(time.Millisecond).Compare(b.Truncate(time.Millisecond)); got != want {
			rt.Fatalf("%s and %s compare as %d, want %d", texts[0], texts[1], got, want)
		}
	})
	for _, year := range []int{-1, 10000} {
		if putTime(make([]byte, timeLen), time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("year %d was stored", year)
		}
	}
	for _, text := range []string{"", "2026-11-21T12:00:00Z", "2026-11-21 12:00:00.000Z", "2026-02-30T12:00:00.000Z",
		"2026-11-21T12:00:0x.000Z", "2026-11-21T12:00:00.000z"} {
		if got, ok := parseTime([]byte(text)); ok {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
