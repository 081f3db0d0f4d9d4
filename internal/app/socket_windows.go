package app

import (
	"errors"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/windows"
)

// bindPrivate listens at path. Who may connect is what the folder's access list says.
func bindPrivate(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// isRefused reports whether no process answers at a socket.
func isRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }
