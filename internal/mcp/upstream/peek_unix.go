//go:build unix

package upstream

import (
	"errors"
	"io"
	"syscall"
)

// canPeek says that it is known of an idle connection whether its server has let go of it.
const canPeek = true

// peek returns how much of b it could fill with what has come over a connection and was not read, without waiting.
// There is an error where nothing has come any more, which io.EOF says of the end.
func peek(c syscall.RawConn, b []byte) (n int, err error) {
	failed := c.Read(func(fd uintptr) bool {
		n, _, err = syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK)
		return true
	})
	switch {
	case failed != nil:
		return 0, failed
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return 0, nil
	case err == nil && n == 0:
		err = io.EOF
	}
	return max(n, 0), err
}
