//go:build !unix

package upstream

import "syscall"

// canPeek says that it is known of an idle connection whether its server has let go of it.
const canPeek = false

// peek is not asked.
func peek(syscall.RawConn, []byte) (int, error) { return 0, nil }
