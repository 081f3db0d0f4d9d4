//go:build unix

package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSocketPath leaves room for the name that a socket has before its own one.
const maxSocketPath = 100

// bindPrivate listens at path. The socket is made in a folder that only we can enter, and moved to its
// place when its mode is 0600.
func bindPrivate(path string) (_ net.Listener, err error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path has %d bytes; systems take about %d", len(path), maxSocketPath)
	}
	dir, name := filepath.Split(path)
	var apart string
	for range 10 {
		apart = filepath.Join(dir, "."+rand.Text()[:4])
		if err = os.Mkdir(apart, 0o700); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(apart)
	at := filepath.Join(apart, "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it will have another name
	if err = os.Chmod(at, 0o600); err == nil {
		err = os.Rename(at, filepath.Join(dir, name))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// isRefused reports whether no process answers at a socket.
func isRefused(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT)
}
