package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte lies behind what the lock file says, so that others can read it.
const lockedByte = 1 << 20

// flock takes the lock of f without waiting. The lock is the system's and ends with the process, so a
// file that was left over is no obstacle.
func flock(f *os.File) (taken bool, err error) {
	at := windows.Overlapped{Offset: lockedByte}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0,
		1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func readOnlyFS(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

// lockPart has nothing to do: a file that a process has open cannot be removed here.
func lockPart(*os.File) (taken bool, err error) { return true, nil }

// openStrictly has nothing to add: links and pipes in a folder are seen before.
const openStrictly = 0
