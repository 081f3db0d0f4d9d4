package main

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Histogram counts durations in buckets of which none is wider than a sixteenth of what is in it. The zero value is
// empty.
type Histogram struct {
	counts [buckets]int64
	n      int64
	max    time.Duration
}

const (
	subBits = 4 // sixteen buckets for each power of two
	buckets = (64 - subBits) << subBits
)

// bucket is where a duration is counted, by its microseconds.
func bucket(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	power := bits.Len64(us) - 1 - subBits
	if power < 0 {
		return int(us)
	}
	return (power+1)<<subBits | int(us>>power)&(1<<subBits-1)
}

// upTo is the first duration that is beyond a bucket.
func upTo(i int) time.Duration {
	next := uint64(i + 1)
	if power := int(next>>subBits) - 1; power > 0 {
		next = (1<<subBits | next&(1<<subBits-1)) << power
	}
	return time.Duration(next) * time.Microsecond
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(d)]++
	h.n++
	h.max = max(h.max, d)
}

// Merge counts what the other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// Count is how many durations there are.
func (h *Histogram) Count() int64 { return h.n }

// Max is the longest.
func (h *Histogram) Max() time.Duration { return h.max }

// At is the duration that the part p of all do not exceed, at most a sixteenth too long.
func (h *Histogram) At(p float64) time.Duration {
	rank, seen := max(int64(p*float64(h.n)+0.5), 1), int64(0)
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(upTo(i), h.max)
		}
	}
	return h.max
}

// Bar is one line of a histogram: how many took less than UpTo, and not less than the line before.
type Bar struct {
	UpTo  int64 `json:"up_to_us"`
	Count int64 `json:"count"`
}

// Bars are the counts by powers of two, from the first that has any to the last.
func (h *Histogram) Bars() []Bar {
	var bars []Bar
	for i, n := range h.counts {
		end := int64(1) << bits.Len64(uint64(max(upTo(i).Microseconds()-1, 0)))
		switch {
		case len(bars) > 0 && bars[len(bars)-1].UpTo == end:
			bars[len(bars)-1].Count += n
		case len(bars) > 0 || n > 0:
			bars = append(bars, Bar{end, n})
		}
	}
	for len(bars) > 0 && bars[len(bars)-1].Count == 0 {
		bars = bars[:len(bars)-1]
	}
	return bars
}

// drawBars writes bars as text, the longest of the given width.
func drawBars(bars []Bar, width int) string {
	var most, all int64
	for _, b := range bars {
		most, all = max(most, b.Count), all+b.Count
	}
	var out strings.Builder
	for _, b := range bars {
		long := int(b.Count * int64(width) / max(most, 1))
		if b.Count > 0 {
			long = max(long, 1)
		}
		fmt.Fprintf(&out, "  < %8s  %7d  %5.1f%%  %s\n", short(time.Duration(b.UpTo)*time.Microsecond), b.Count,
			100*float64(b.Count)/float64(max(all, 1)), strings.Repeat("█", long))
	}
	return out.String()
}

// short is a duration in three digits.
func short(d time.Duration) string {
	for _, unit := range []struct {
		one  time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d >= unit.one {
			return fmt.Sprintf("%.3g %s", float64(d)/float64(unit.one), unit.name)
		}
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}
