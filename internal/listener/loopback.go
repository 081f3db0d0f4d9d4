package listener

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// The addresses that localhost means: browsers and programs try one, and then the other.
var (
	local4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	local6 = netip.IPv6Loopback()
)

// IsLocalhost reports whether an address to listen on, host and port, is one of localhost's two, or localhost itself.
func IsLocalhost(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	at, _ := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || at.Unmap() == local4 || at == local6
}

// portTries is how often a port is chosen that must be free at two addresses.
const portTries = 32

// Listen binds an address. Of localhost it binds both 127.0.0.1 and ::1, at one port, or neither: whoever had the other
// would be sent what is meant for us. lacks is the one that the machine does not have, so that nobody has it; the zero
// Addr where it has both, and for other addresses.
func Listen(address string) (bound net.Listener, lacks netip.Addr, err error) {
	if !IsLocalhost(address) {
		bound, err = net.Listen("tcp", address)
		return bound, lacks, err
	}
	host, port, _ := net.SplitHostPort(address)
	first, second := local4, local6
	if at, _ := netip.ParseAddr(host); at == local6 {
		first, second = second, first
	}
	for range portTries {
		if bound, lacks, err = listenBoth(first, second, port); err == nil || port != "0" {
			break
		}
	}
	return bound, lacks, err
}

// listenBoth binds a port at two addresses, of which the machine may lack one.
func listenBoth(first, second netip.Addr, port string) (_ net.Listener, lacks netip.Addr, err error) {
	one, err := listenAt(first, port)
	if isAbsent(err) {
		one, err = listenAt(second, port)
		return one, first, err
	}
	if err != nil {
		return nil, lacks, err
	}
	_, port, _ = net.SplitHostPort(one.Addr().String())
	other, err := listenAt(second, port)
	if isAbsent(err) {
		return one, second, nil
	}
	if err != nil {
		return nil, lacks, errors.Join(fmt.Errorf("%w (localhost is both 127.0.0.1 and [::1], and whoever has one of them "+
			"at this port would be sent what is meant for the gate)", err), one.Close())
	}
	return join(one, other), lacks, nil
}

func listenAt(at netip.Addr, port string) (net.Listener, error) {
	network := "tcp4"
	if at.Is6() {
		network = "tcp6"
	}
	return net.Listen(network, net.JoinHostPort(at.String(), port))
}

// isAbsent reports whether an address could not be bound because the machine does not have it. That it is in use, or
// may not be bound, is something else.
func isAbsent(err error) bool {
	const windowsNoFamily, windowsNoAddress = syscall.Errno(10047), syscall.Errno(10049)
	return slices.ContainsFunc([]error{syscall.EAFNOSUPPORT, syscall.EADDRNOTAVAIL, windowsNoFamily, windowsNoAddress},
		func(absent error) bool { return errors.Is(err, absent) })
}

// joined is two listeners as one, whose address is the first's.
type joined struct {
	first, second net.Listener
	begin, end    sync.Once
	accepted      chan accepted
	closed        chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

func join(first, second net.Listener) *joined {
	return &joined{first: first, second: second, accepted: make(chan accepted), closed: make(chan struct{})}
}

// Accept waits for a connection to either.
func (j *joined) Accept() (net.Conn, error) {
	j.begin.Do(func() {
		go j.acceptAt(j.first)
		go j.acceptAt(j.second)
	})
	select {
	case a := <-j.accepted:
		return a.conn, a.err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// acceptAt hands on what comes to one of them, until both are closed. Whoever accepts sees to errors, and waits after
// one: until then there is no other.
func (j *joined) acceptAt(l net.Listener) {
	for {
		var a accepted
		a.conn, a.err = l.Accept()
		select {
		case j.accepted <- a:
		case <-j.closed:
			if a.conn != nil {
				a.conn.Close()
			}
			return
		}
	}
}

// Close ends both.
func (j *joined) Close() (err error) {
	err = net.ErrClosed
	j.end.Do(func() {
		close(j.closed)
		err = errors.Join(j.first.Close(), j.second.Close())
	})
	return err
}

// Addr is the first's.
func (j *joined) Addr() net.Addr { return j.first.Addr() }
