//go:build unix

package store

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

// syncFolder sees to it that the names in a folder are on the disk.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // a file system that cannot do that with folders
	}
	return errors.Join(err, f.Close())
}
