package logins

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"countersign/internal/safefile"
	"countersign/internal/secret"
)

// suffix ends the names of the files. The guard of the gate's files looks for it.
const suffix = ".countersign-login"

// maxFile is how long a file may be.
const maxFile = 64 << 10

// Logins are the tokens of this user.
type Logins struct{ folder string }

// Login is a stored token and the gate that it is for.
type Login struct {
	Server string       // as it was named: the token is for exactly this address
	Token  secret.Value // a person's
	Path   string       // of the file
}

// In returns those in the folder of a user's configurations, as os.UserConfigDir tells it.
func In(config string) *Logins { return &Logins{filepath.Join(config, "countersign", "logins")} }

// Server is an address as tokens are stored for it: letters of the host small, no slash at the end.
func Server(address string) string {
	address = strings.TrimRight(strings.TrimSpace(address), "/")
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || strings.EqualFold(scheme, "unix") {
		return address
	}
	host, path, _ := strings.Cut(rest, "/")
	address = strings.ToLower(scheme) + "://" + strings.ToLower(host)
	if path != "" {
		address += "/" + path
	}
	return address
}

// file is where the token for a server is: a name that tells which, and no two servers share.
func (l *Logins) file(server string) string {
	sum := sha256.Sum256([]byte(server))
	_, host, ok := strings.Cut(server, "://")
	if !ok {
		host = server
	}
	host = strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-') {
			return r
		}
		return '_'
	}, strings.ToLower(host))
	return filepath.Join(l.folder, strings.TrimLeft(host[:min(len(host), 60)], ".")+"-"+hex.EncodeToString(sum[:6])+suffix)
}

// stored is what a file holds.
type stored struct {
	Server string `json:"server"`
	Token  string `json:"token"`
}

// ErrNone is that of a server for which no token is stored.
var ErrNone = errors.New("no login is stored for it")

var errNotPlain = errors.New("it is not a plain file")

// Get returns the token for a server; ErrNone if there is none.
func (l *Logins) Get(server string) (Login, error) {
	server = Server(server)
	path := l.file(server)
	x, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Login{}, ErrNone
	case err != nil:
		return Login{}, fmt.Errorf("the login in %s: %w", path, err)
	case x.Server != server:
		return Login{}, fmt.Errorf("the login in %s is for another gate; countersign logout and login again", path)
	}
	return x, nil
}

// read reads a file that only this user can have written and can read.
func read(path string) (Login, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Login{}, err
	}
	if !info.Mode().IsRegular() { // a pipe would keep the program that opens it
		return Login{}, errNotPlain
	}
	f, err := os.Open(path)
	if err != nil {
		return Login{}, err
	}
	defer f.Close()
	opened, err := f.Stat()
	switch {
	case err != nil:
		return Login{}, err
	case !os.SameFile(info, opened):
		return Login{}, errNotPlain
	case private(opened) != nil:
		return Login{}, private(opened)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Login{}, err
	}
	var s stored
	if len(b) > maxFile || json.Unmarshal(b, &s) != nil || s.Server == "" || s.Token == "" {
		return Login{}, errors.New("it is not what login wrote")
	}
	return Login{Server: s.Server, Token: secret.Value(s.Token), Path: path}, nil
}

// Put stores a token, in place of one that is there, and returns what is stored.
func (l *Logins) Put(server string, token secret.Value) (Login, error) {
	server = Server(server)
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return Login{}, err
	}
	if err := os.Chmod(l.folder, 0o700); err != nil {
		return Login{}, err
	}
	b, err := json.Marshal(stored{server, token.Reveal()})
	if err != nil {
		return Login{}, err
	}
	path := l.file(server)
	if err := safefile.Write(path, append(b, '\n'), 0o600); err != nil {
		return Login{}, err
	}
	return Login{Server: server, Token: token, Path: path}, nil
}

// Remove forgets the token for a server; ErrNone if there was none. Whatever the file holds, it is gone.
func (l *Logins) Remove(server string) error {
	err := safefile.Remove(l.file(Server(server)))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	return err
}

// All returns the servers that tokens are stored for, by name; files that cannot be used are left out.
func (l *Logins) All() ([]Login, error) {
	entries, err := os.ReadDir(l.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Login
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		if x, err := read(filepath.Join(l.folder, e.Name())); err == nil && l.file(x.Server) == x.Path {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b Login) int { return strings.Compare(a.Server, b.Server) })
	return all, nil
}
