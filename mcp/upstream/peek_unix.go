//go:build unix

package upstream

import (
	"errors"
	"syscall"
)

// canPeek says that it is known of an idle connection whether its server has let go of it.
const canPeek = true

// quiet reports whether nothing has come over an idle connection, not even its end.
func quiet(c syscall.RawConn) bool {
	var err error
	read := c.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return true
	})
	return read == nil && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK))
}
