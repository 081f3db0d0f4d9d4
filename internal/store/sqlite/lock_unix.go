//go:build unix

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock takes the lock of f without waiting. The lock is the system's and ends with the process, so a
// file that was left over is no obstacle.
func flock(f *os.File) (taken bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func readOnlyFS(err error) bool { return errors.Is(err, unix.EROFS) }

// lockPart takes the lock of a copy that is being written.
func lockPart(f *os.File) (taken bool, err error) { return flock(f) }

// openStrictly has nothing followed that is a link, and no process waited for at a pipe.
const openStrictly = unix.O_NOFOLLOW | unix.O_NONBLOCK
