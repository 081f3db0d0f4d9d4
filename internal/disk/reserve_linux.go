package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

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
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if takes(info) < bytes {
		return fill(f, bytes)
	}
	return f.Sync()
}

// takes is how many bytes of the disk a file takes: a copy of the reserve may be one with holes.
func takes(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * statBlock
	}
	return info.Size()
}
