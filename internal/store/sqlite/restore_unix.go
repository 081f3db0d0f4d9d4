//go:build unix

package sqlite

import (
	"io/fs"
	"os"
	"syscall"
)

// giveTo has files that root has made belong to the owner of another: the gate, which runs as another user, could not
// open them.
func giveTo(owner fs.FileInfo, paths ...string) error {
	is, ok := owner.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	for _, path := range paths {
		if err := os.Chown(path, int(is.Uid), int(is.Gid)); err != nil {
			return err
		}
	}
	return nil
}
