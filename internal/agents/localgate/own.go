// Package localgate finds the user's own gate, and starts it where it does not run: the one that wrappers, hooks
// and the command line talk to when no other is named. It is found by a unix socket of the user's, so no
// token and no address have to be told to any program; many wrappers share it, and it stays when they go.
//
// A program that needs it and does not find it starts `serve` on the user's configuration, apart from themselves:
// in a session of its own, with a log file for its output. A lock sees to it that of any number who need it
// at once one starts it and the others wait. A gate that cannot be started is an error that says what to do
// about it, with the end of its log; no call is let through for want of a gate.
//
// Whose socket it is counts: what another user put in its place is not talked to, because a gate that is not
// ours could say yes.
package localgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Gate is where the user's own gate is. Its paths are absolute.
type Gate struct {
	Config string // of its configuration
	Socket string // that it listens on
	Log    string // that it writes to when it was started by [Gate.Up]
	// Program is what is started as the gate, with serve as its first argument; default: this program.
	Program string
}

// Find says where the user's own gate is: the configuration at COUNTERSIGN_CONFIG, or in the user's folder of
// configurations; the socket at COUNTERSIGN_SOCKET, or in XDG_RUNTIME_DIR, or else in the user's folder of
// caches. The error says which of them this environment does not tell.
func Find(env func(string) (string, bool)) (Gate, error) {
	get := func(name string) string { v, _ := env(name); return v }
	var g Gate
	cache, err := os.UserCacheDir()
	if err != nil {
		return Gate{}, fmt.Errorf("the user's own gate: %w", err)
	}
	g.Log = filepath.Join(cache, "countersign", "serve.log")
	g.Socket = filepath.Join(cache, "countersign", "gate.sock")
	if dir := get("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		g.Socket = filepath.Join(dir, "countersign", "gate.sock")
	}
	if path := get("COUNTERSIGN_SOCKET"); path != "" {
		if g.Socket, err = filepath.Abs(path); err != nil {
			return Gate{}, fmt.Errorf("COUNTERSIGN_SOCKET: %w", err)
		}
	}
	if path := get("COUNTERSIGN_CONFIG"); path != "" {
		if g.Config, err = filepath.Abs(path); err != nil {
			return Gate{}, fmt.Errorf("COUNTERSIGN_CONFIG: %w", err)
		}
		return g, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return Gate{}, fmt.Errorf("the user's own gate: %w", err)
	}
	g.Config = filepath.Join(dir, "countersign", "countersign.yaml")
	return g, nil
}

// At is the gate with this configuration at the address, which [Gate.Address] made: whatever the environment says.
func At(config, address string) (Gate, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "unix" || u.Path == "" && u.Opaque == "" {
		return Gate{}, fmt.Errorf("%q is no address of the user's own gate, such as "+
			"unix:///run/user/1000/countersign/gate.sock", address)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Gate{}, fmt.Errorf("the user's own gate: %w", err)
	}
	return Gate{Config: config, Socket: filepath.FromSlash(cmp.Or(u.Path, u.Opaque)),
		Log: filepath.Join(cache, "countersign", "serve.log")}, nil
}

// Is reports whether path is the configuration of this gate.
func (g Gate) Is(path string) bool {
	a, err := os.Stat(path)
	if err != nil {
		return false
	}
	b, err := os.Stat(g.Config)
	return err == nil && os.SameFile(a, b)
}

// IsConfigured reports whether there is a configuration.
func (g Gate) IsConfigured() bool {
	_, err := os.Stat(g.Config)
	return !errors.Is(err, fs.ErrNotExist)
}

// Address is that of the gate, for a client.
func (g Gate) Address() string {
	return (&url.URL{Scheme: "unix", Path: filepath.ToSlash(g.Socket)}).String()
}

// patience is how long a gate may take to say that it is there.
const patience = 5 * time.Second

// Running reports whether the gate answers. The error says what else is found in its place.
func (g Gate) Running(ctx context.Context) (bool, error) {
	info, err := os.Lstat(g.Socket)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = g.fit(info)
	}
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", g.Socket)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/healthz", nil)
	if err != nil {
		return false, err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		if ctx.Err() == nil { // no gate answers, or one that is going away
			return false, nil
		}
		return false, fmt.Errorf("the gate at %s does not answer: %w", g.Socket, ctx.Err())
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 16))
	if err != nil || resp.StatusCode != http.StatusOK || strings.TrimSpace(string(said)) != "ok" {
		return false, fmt.Errorf("what answers at %s is not a gate; COUNTERSIGN_SOCKET names another path", g.Socket)
	}
	return true, nil
}

// fit reports, with an error, whether what is at the socket's path may be talked to.
func (g Gate) fit(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s should be a gate's socket, and is something else; COUNTERSIGN_SOCKET names another path",
			g.Socket)
	case !ours(info):
		return fmt.Errorf("the socket %s is another user's, so it is not talked to; COUNTERSIGN_SOCKET names another path",
			g.Socket)
	}
	return nil
}
