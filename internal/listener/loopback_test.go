package listener

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"countersign/internal/testkit"
)

// hasIPv6 reports whether the machine has both addresses of localhost. Where it has one, that is all there is to it.
func hasIPv6(t *testing.T) bool {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if isAbsent(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return true
}

// Browsers and programs take either address of localhost: the gate has both, at one port, whichever is named.
func TestLocalhostIsTwoAddresses(t *testing.T) {
	both := []string{"127.0.0.1", "::1", "127.0.0.1"}
	if !hasIPv6(t) {
		both = both[:1]
	}
	for address, first := range map[string]string{"127.0.0.1:0": "127.0.0.1", "[::1]:0": "::1", "localhost:0": "127.0.0.1",
		"LocalHost:0": "127.0.0.1", "[::ffff:127.0.0.1]:0": "127.0.0.1"} {
		l, lacks, err := Listen(address)
		if err != nil || lacks.IsValid() != (len(both) == 1) {
			t.Fatalf("%s: %v, lacks %v", address, err, lacks)
		}
		host, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil || host != first && !lacks.IsValid() {
			t.Errorf("%s is at %s, %v", address, l.Addr(), err)
		}
		for _, at := range both {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(at, port), testkit.Patience)
			if err != nil {
				t.Fatalf("%s does not answer at %s: %v", address, at, err)
			}
			s, err := l.Accept()
			if err != nil || s.LocalAddr().String() != net.JoinHostPort(at, port) {
				t.Fatalf("%s at %s: accepted at %v, %v", address, at, s.LocalAddr(), err)
			}
			s.Close()
			c.Close()
		}
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), testkit.Patience) // nobody accepts it any more
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after its end: %v", err)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
	}
}

// Where another program has one of the two, the gate takes neither and says so.
func TestHalfOfLocalhostIsNotTaken(t *testing.T) {
	halves := map[string]string{"127.0.0.1:0": "[::1]:"}
	if hasIPv6(t) {
		halves["[::1]:0"] = "127.0.0.1:"
	}
	for taken, wanted := range halves {
		other, err := net.Listen("tcp", taken)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, port, _ := net.SplitHostPort(other.Addr().String())
		for _, address := range []string{wanted + port, "localhost:" + port} {
			l, lacks, err := Listen(address)
			if err == nil {
				l.Close()
			}
			if err == nil || lacks.IsValid() || !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s while another has %s: %v, lacks %v", address, other.Addr(), err, lacks)
			}
		}
	}
}

// A machine without one of them has the gate at the other.
func TestWithoutIPv6LocalhostIsOneAddress(t *testing.T) {
	nobodys := netip.MustParseAddr("2001:db8::1")
	for _, order := range [][2]netip.Addr{{local4, nobodys}, {nobodys, local4}} {
		l, lacks, err := listenBoth(order[0], order[1], "0")
		if err != nil || lacks != nobodys {
			t.Fatalf("%v: %v, lacks %v", order, err, lacks)
		}
		if at := l.Addr().(*net.TCPAddr).AddrPort().Addr(); at != local4 {
			t.Errorf("%v: it is at %s", order, at)
		}
		l.Close()
	}
	if l, _, err := listenBoth(nobodys, nobodys, "0"); err == nil {
		l.Close()
		t.Error("it listens nowhere")
	}
}

// Other addresses are taken as they are.
func TestOtherAddressesAreNotLocalhost(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true,
		"[::ffff:127.0.0.1]:1": true,
		"127.0.0.2:1":          false, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false,
		"localhost.example:1": false,
		"127.0.0.1":           false, "localhost": false} {
		if got := IsLocalhost(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
	l, lacks, err := Listen(":0")
	if err != nil || lacks.IsValid() {
		t.Fatal(err, lacks)
	}
	l.Close()
}

// An address that the machine does not have is nobody's; one that cannot be had for another reason may be somebody's.
func TestWhatIsAbsentIsNobodys(t *testing.T) {
	for code, want := range map[syscall.Errno]bool{syscall.EAFNOSUPPORT: true, syscall.EADDRNOTAVAIL: true, 10047: true,
		10049: true, syscall.EADDRINUSE: false, syscall.EACCES: false, syscall.EMFILE: false, 10048: false, 10013: false} {
		err := fmt.Errorf("listen: %w", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", code)})
		if got := isAbsent(err); got != want {
			t.Errorf("%d %v: %t", code, err, got)
		}
	}
	if isAbsent(nil) || isAbsent(errors.New("no such")) {
		t.Error("what says nothing of the address counts as absent")
	}
}
