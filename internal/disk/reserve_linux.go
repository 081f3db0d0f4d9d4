package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// statBlock is what st_blocks counts in, whatever the file system's own blocks are (stat(2)).
const statBlock = 512

// allocate has an empty file take so many bytes of the disk. Some file systems promise that and keep nothing, such as
// ZFS: it is written there.
func allocate(f *os.File, bytes int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return err
	}
	if s.Blocks*statBlock < bytes {
		return fill(f, bytes)
	}
	return f.Sync()
}
