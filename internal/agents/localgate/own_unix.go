//go:build unix

package localgate

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// flock takes the lock of f without waiting. It ends with the file's being closed, or the process.
func flock(f *os.File) (taken bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// ours reports whether a file is this user's, or root's, who can be any user.
func ours(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(s.Uid) == os.Geteuid() || s.Uid == 0)
}

// detach gives cmd a session of its own, so that no terminal and no parent ends it with theirs.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
