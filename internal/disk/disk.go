// Package disk says how much room there is on a disk.
package disk

// Space is the room of the file system that a file lies on, in bytes, as df counts it. The zero Space is not known.
type Space struct {
	Free int64 // which this program may still write
	All  int64 // that, and what is used
}

// limit is how little is free: so many bytes, or a part of all, which counts up to so many bytes. A large disk has room
// for long when a hundredth of it is left.
type limit struct{ bytes, part, most int64 }

var (
	low  = limit{500 << 20, 20, 20 << 30}
	full = limit{100 << 20, 100, 4 << 30}
)

func (l limit) holds(s Space) bool { return s.Free < max(l.bytes, min(s.All/l.part, l.most)) }

// Level says how full a disk is.
type Level int

// The levels, each worse than the one before.
const (
	Roomy Level = iota
	Low         // less than 500 MiB or 5 % are free, on a disk of more than 400 GiB less than 20 GiB
	Full        // hardly anything is: less than 100 MiB or 1 %, on a disk of more than 400 GiB less than 4 GiB
)

// Level is how full the disk is.
func (s Space) Level() Level {
	switch {
	case full.holds(s):
		return Full
	case low.holds(s):
		return Low
	}
	return Roomy
}

// Without is the room that is there once so many bytes more are written.
func (s Space) Without(bytes int64) Space { return Space{Free: max(0, s.Free-bytes), All: s.All} }

// Percent is how much of all is free.
func (s Space) Percent() int { return int(s.Free * 100 / max(1, s.All)) }
