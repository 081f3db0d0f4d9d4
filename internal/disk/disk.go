// Package disk says how much room there is on a disk.
package disk

// Space is the room of the file system that a file lies on, in bytes, as df counts it.
type Space struct {
	Free int64 // which this program may still write
	All  int64 // that, and what is used
}

const (
	// low is how much is free when a disk is running full, and lowPart is that as a part of all: whichever comes first.
	low     = 500 << 20
	lowPart = 20
	// full and fullPart are the same of what is left for what must go on.
	full     = 100 << 20
	fullPart = 100
)

// IsLow reports whether the disk is running full: less than 500 MiB or 5 % of it are free.
func (s Space) IsLow() bool { return s.Free < low || s.Free < s.All/lowPart }

// IsFull reports whether hardly anything is free: less than 100 MiB or 1 %.
func (s Space) IsFull() bool { return s.Free < full || s.Free < s.All/fullPart }

// Percent is how much of all is free.
func (s Space) Percent() int { return int(s.Free * 100 / max(1, s.All)) }
