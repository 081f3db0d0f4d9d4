//go:build unix

package listener

import (
	"math"

	"golang.org/x/sys/unix"
)

// Descriptors is how many file descriptors the process may have open, -1 where that cannot be told. The Go
// runtime has raised the soft limit to the hard one when the program started.
func Descriptors() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || uint64(l.Cur) > math.MaxInt32 {
		return -1
	}
	return int(l.Cur)
}
