//go:build unix

package logins

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// private refuses a file that another user can read, or may have written.
func private(info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return errors.New("others may read it, so the token in it is no secret any more: have it replaced, then log in again")
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return errors.New("it is another user's")
	}
	return nil
}
