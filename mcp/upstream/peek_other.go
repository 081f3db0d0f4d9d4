//go:build !unix

package upstream

import "syscall"

// canPeek says that it is known of an idle connection whether its server has let go of it.
const canPeek = false

// quiet is not asked.
func quiet(syscall.RawConn) bool { return false }
