// Package disk says how much room there is on a disk.
package disk

// Space is the room of the file system that a file lies on, in bytes, as df counts it. The zero Space is not known.
type Space struct {
	Free int64 // which this program may still write
	All  int64 // that, and what is used
}

// level is how little is free: so many bytes, or a part of all, which counts up to so many bytes. A large disk has room
// for long when a hundredth of it is left.
type level struct{ bytes, part, most int64 }

var (
	low  = level{500 << 20, 20, 20 << 30}
	full = level{100 << 20, 100, 4 << 30}
)

func (l level) holds(s Space) bool { return s.Free < max(l.bytes, min(s.All/l.part, l.most)) }

// IsLow reports whether the disk is running full: less than 500 MiB or 5 % of it are free, on a disk of more than 400
// GiB less than 20 GiB.
func (s Space) IsLow() bool { return low.holds(s) }

// IsFull reports whether hardly anything is free: less than 100 MiB or 1 %, on a disk of more than 400 GiB less than 4
// GiB.
func (s Space) IsFull() bool { return full.holds(s) }

// Percent is how much of all is free.
func (s Space) Percent() int { return int(s.Free * 100 / max(1, s.All)) }
