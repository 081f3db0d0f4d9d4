//go:build !linux

package client

import "net"

// peer returns the user whose process is at the other end of a unix socket, where the system tells.
func peer(net.Conn) (uid int, known bool) { return 0, false }
