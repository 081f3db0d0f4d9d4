package client

import (
	"net"
	"syscall"
)

// peer returns the user whose process is at the other end of a unix socket. Where it cannot be told, it is
// nobody's.
func peer(c net.Conn) (uid int, known bool) {
	uid = -1
	u, ok := c.(*net.UnixConn)
	if !ok {
		return uid, true
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return uid, true
	}
	_ = raw.Control(func(fd uintptr) { // where it fails, uid stays nobody's
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid, true
}
