// Package loopback says which hosts are this machine itself, the same for whoever asks: what may be sent in
// the clear, which callers need no token, and which Host a browser may be brought to.
package loopback

import (
	"net/netip"
	"strings"
)

// IsHost reports whether a host, without a port or brackets, can only mean this machine: localhost, and the
// loopback addresses. Other names are not looked up: what they mean is up to whoever answers for them.
func IsHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.Unmap().IsLoopback()
}
