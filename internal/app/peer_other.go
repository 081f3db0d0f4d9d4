//go:build !linux

package app

import "net"

// peer cannot be told here: the mode of the socket, and the folder that it is in, keep others out.
func peer(net.Conn) (uid int, known bool) { return 0, false }
