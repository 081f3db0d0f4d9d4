package app

import (
	"net"

	"golang.org/x/sys/unix"
)

// peer returns the user whose process is at the other end of a unix socket. Where it cannot be told, it is
// nobody's.
func peer(c net.Conn) (uid int, known bool) {
	uid = -1
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return uid, true
	}
	_ = raw.Control(func(fd uintptr) { // where it fails, uid stays nobody's
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid, true
}
