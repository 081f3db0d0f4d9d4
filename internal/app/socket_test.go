package app

import (
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var quiet = slog.New(slog.DiscardHandler)

// answers reports whether somebody takes connections at path.
func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func TestASocketIsForItsUserAloneAndGoesWithItsListener(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "gate.sock")
	l, err := listenSocket(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]os.FileMode{path: 0o600 | os.ModeSocket, dir: 0o700 | os.ModeDir,
		filepath.Dir(dir): 0o700 | os.ModeDir} {
		if info, err := os.Lstat(at); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v, want %v", at, info.Mode(), err, want)
		}
	}
	if !answers(path) {
		t.Error("nobody answers")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if es, err := os.ReadDir(dir); err != nil || len(es) != 0 {
		t.Errorf("left behind: %v, %v", es, err)
	}
}

func TestASocketTakesOnlyADeadOnesPlace(t *testing.T) {
	t.Parallel()
	listen := func(t *testing.T, path string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
		return l
	}
	for name, tt := range map[string]struct {
		before func(t *testing.T, path string)
		want   string // of the error; "": none
	}{
		"nothing there": {func(*testing.T, string) {}, ""},
		"dead":          {func(t *testing.T, path string) { listen(t, path).Close() }, ""},
		"alive":         {func(t *testing.T, path string) { listen(t, path) }, "another process answers there"},
		"a file": {func(_ *testing.T, path string) { os.WriteFile(path, []byte("mine"), 0o600) },
			"not a socket"},
		"a link to nowhere": {func(_ *testing.T, path string) { os.Symlink("nowhere", path) }, "not a socket"},
		"a folder":          {func(_ *testing.T, path string) { os.Mkdir(path, 0o700) }, "not a socket"},
		"a folder of everybody's": {func(_ *testing.T, path string) { os.Chmod(filepath.Dir(path), 0o777) },
			"everybody may write"},
		"a folder such as /tmp": {func(_ *testing.T, path string) { os.Chmod(filepath.Dir(path), 0o777|os.ModeSticky) }, ""},
		"of another kind": {func(t *testing.T, path string) {
			c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
		}, "cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			tt.before(t, path)
			was, _ := os.Lstat(path)
			l, err := listenSocket(path, quiet)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if !answers(path) {
					t.Error("nobody answers")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got the error %v, want one with the path and %q", err, tt.want)
			}
			if now, _ := os.Lstat(path); (was == nil) != (now == nil) || was != nil && !os.SameFile(was, now) {
				t.Error("what was there is not there any more")
			}
		})
	}
	if _, err := listenSocket(filepath.Join(t.TempDir(), strings.Repeat("long", 30)), quiet); err == nil ||
		!strings.Contains(err.Error(), "bytes") {
		t.Errorf("a path that is too long: got %v", err)
	}
}

func TestASocketLeavesItsSuccessorAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	first, err := listenSocket(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := listenSocket(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if !answers(path) {
		t.Error("the second listener's socket is gone")
	}
}

func TestAnotherUsersProcessIsTurnedAway(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	made, err := listenSocket(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	l := made.(*socketListener)
	peer := l.peer
	for _, tt := range []struct {
		uid   int
		known bool
		in    bool
	}{{os.Geteuid(), true, true}, {0, true, true}, {os.Geteuid() + 1, true, false}, {-1, true, false}, {0, false, true}} {
		uids := []int{tt.uid, os.Geteuid()}
		known := []bool{tt.known, true}
		l.peer = func(c net.Conn) (int, bool) {
			if uid, ok := peer(c); ok && uid != os.Geteuid() || ok != (runtime.GOOS == "linux") {
				t.Errorf("the peer is told as %d, %t", uid, ok)
			}
			uid, ok := uids[0], known[0]
			uids, known = uids[1:], known[1:]
			return uid, ok
		}
		first, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		second, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if in := len(uids) == 1; in != tt.in {
			t.Errorf("uid %d, known %t: let in %t, want %t", tt.uid, tt.known, in, tt.in)
		} else if !in {
			if _, err := first.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("uid %d: the connection was not closed: %v", tt.uid, err)
			}
		} else if left, err := l.Accept(); err != nil {
			t.Error(err)
		} else {
			left.Close()
		}
		for _, c := range []net.Conn{c, first, second} {
			c.Close()
		}
	}
}
