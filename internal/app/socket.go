package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"countersign/internal/auth"
)

// anonymous says who callers without a token are. What the configuration was checked for is true of the
// addresses that it names; while others are bound, no caller comes in over them without a token.
func (d directory) anonymous() auth.Anonymous {
	cfg, bound := d.live.Load().cfg, d.bound
	who := auth.Anonymous{Socket: cfg.AnonymousAgent}
	if who.Socket == "" {
		who.Socket = auth.LocalAgent
	}
	if cfg.Listen == bound.Listen && cfg.WebhookListen == bound.WebhookListen && cfg.PagesListen == bound.PagesListen {
		who.TCP = cfg.AnonymousAgent
	}
	return who
}

// socketListener listens on a unix socket that only this process's user can connect to.
type socketListener struct {
	net.Listener
	path string
	file fs.FileInfo
	peer func(net.Conn) (uid int, known bool)
	log  *slog.Logger
}

// listenSocket makes the socket at path. It has mode 0600 before anybody can find it, and takes the place
// of one that a dead process left.
func listenSocket(path string, log *slog.Logger) (_ net.Listener, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("socket %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("everybody may write in %s, and could put another socket in its place; use a folder of your "+
			"own", dir)
	}
	if err := checkVacant(path); err != nil {
		return nil, err
	}
	l, err := bindPrivate(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socketListener{Listener: l, path: path, file: file, peer: peer, log: log}, nil
}

// checkVacant reports, with an error, whether a socket may be put at path: nothing is there, or a socket on which
// no process answers.
func checkVacant(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return errors.New("there is a file there that is not a socket, which is left alone")
	}
	c, err := net.DialTimeout("unix", path, 2*time.Second)
	if err == nil {
		c.Close()
		return errors.New("another process answers there; stop it, or use another path")
	}
	if !isRefused(err) {
		return fmt.Errorf("there is a socket of which it cannot be told whether somebody has it: %w", err)
	}
	return nil
}

// Addr is where the socket is by now.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Accept waits for a connection by this process's own user. Another user who gets hold of the socket all the
// same is turned away; root can be any user, and is let in.
func (l *socketListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, known := l.peer(c)
		if !known || uid == os.Geteuid() || uid == 0 {
			return c, nil
		}
		l.log.Warn("a process of another user connected to the socket and was refused", "socket", l.path, "uid", uid)
		c.Close()
	}
}

// Close ends listening and takes the socket away, unless another one is in its place by now.
func (l *socketListener) Close() error {
	err := l.Listener.Close()
	if now, statErr := os.Lstat(l.path); statErr == nil && os.SameFile(now, l.file) {
		if rmErr := os.Remove(l.path); !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	return err
}

// onSocket serves h on the socket, where there is to be one.
func (a *App) onSocket(h http.Handler) error {
	path := a.who.socket
	if path == "" {
		return nil
	}
	l, err := listenSocket(path, a.logger("socket"))
	if err != nil {
		return err
	}
	return a.listeners.serveOn(nameSocket, l, nil, h)
}
