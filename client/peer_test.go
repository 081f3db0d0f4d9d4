package client

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestOnlyOnesOwnGateIsTrustedOverASocket(t *testing.T) {
	for _, c := range []struct {
		gate, own int
		want      bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {-1, 1000, false}, {1000, 0, false}, {0, 0, true}} {
		if got := isTrusted(c.gate, c.own); got != c.want {
			t.Errorf("a gate of user %d for one of %d is trusted: %v, want %v", c.gate, c.own, got, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, known := peer(conn); known != (runtime.GOOS == "linux") || known && uid != os.Geteuid() {
		t.Errorf("the process at the other end is told to be of user %d (%v), want %d", uid, known, os.Geteuid())
	}
}
