package logins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/secret"
)

const token = secret.Value("token-of-hana-0123456789")

func put(t *testing.T, l *Logins, server string) Login {
	t.Helper()
	x, err := l.Put(server, token)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestATokenIsForExactlyItsServer(t *testing.T) {
	l := In(t.TempDir())
	put(t, l, "https://Gate.example:8443/")
	for server, found := range map[string]bool{
		"https://gate.example:8443":       true,
		"https://GATE.example:8443/":      true,
		"http://gate.example:8443":        false,
		"https://gate.example":            false,
		"https://gate.example:8443/other": false,
		"https://gate.example:84430":      false,
		"https://gate_example:8443":       false,
		"https://gate.example:8443@evil":  false,
		"":                                false,
	} {
		x, err := l.Get(server)
		if found && (err != nil || x.Token.Reveal() != token.Reveal()) || !found && !errors.Is(err, ErrNone) {
			t.Errorf("%q: %v, %v", server, x, err)
		}
	}
}

func TestOnlyItsUserCanReadIt(t *testing.T) {
	dir := t.TempDir()
	l := In(dir)
	x := put(t, l, "http://127.0.0.1:8787")
	for path, want := range map[string]os.FileMode{x.Path: 0o600, filepath.Dir(x.Path): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", path, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(x.Path), ".*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// What somebody else may have read or written is not used, and no error tells the token.
func TestAFileThatIsNotPrivateIsRefused(t *testing.T) {
	const server = "http://127.0.0.1:8787"
	for name, spoil := range map[string]func(path string) error{
		"the group may read it": func(path string) error { return os.Chmod(path, 0o640) },
		"all may write it":      func(path string) error { return os.Chmod(path, 0o602) },
		"a symbolic link": func(path string) error {
			if err := os.Rename(path, path+"2"); err != nil {
				return err
			}
			return os.Symlink(path+"2", path)
		},
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"no JSON":  func(path string) error { return os.WriteFile(path, []byte(token.Reveal()), 0o600) },
		"a token for another gate": func(path string) error {
			return os.WriteFile(path, []byte(`{"server":"https://evil.example","token":"`+token.Reveal()+`"}`), 0o600)
		},
		"no token": func(path string) error { return os.WriteFile(path, []byte(`{"server":"`+server+`"}`), 0o600) },
		"too long": func(path string) error {
			return os.WriteFile(path, []byte(`{"server":"`+server+`","token":"`+strings.Repeat("x", maxFile)+`"}`), 0o600)
		},
	} {
		l := In(t.TempDir())
		x := put(t, l, server)
		if err := spoil(x.Path); err != nil {
			t.Fatal(err)
		}
		got, err := l.Get(server)
		if err == nil || errors.Is(err, ErrNone) || got.Token != "" || strings.Contains(err.Error(), token.Reveal()) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if all, _ := l.All(); len(all) > 0 {
			t.Errorf("%s: listed: %v", name, all)
		}
	}
}

func TestLogout(t *testing.T) {
	l := In(t.TempDir())
	if all, err := l.All(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	a := put(t, l, "http://127.0.0.1:8787")
	put(t, l, "unix:///run/user/1000/countersign/gate.sock")
	if all, err := l.All(); err != nil || len(all) != 2 || all[0].Server != a.Server {
		t.Errorf("%v, %v", all, err)
	}
	if err := os.Chmod(a.Path, 0o644); err != nil { // what is refused can be forgotten all the same
		t.Fatal(err)
	}
	if err := l.Remove("http://127.0.0.1:8787/"); err != nil {
		t.Error(err)
	}
	if err := l.Remove("http://127.0.0.1:8787"); !errors.Is(err, ErrNone) {
		t.Errorf("a second time: %v", err)
	}
	if all, _ := l.All(); len(all) != 1 {
		t.Errorf("%v", all)
	}
}

func TestALoginDoesNotPrintItsToken(t *testing.T) {
	x := put(t, In(t.TempDir()), "http://127.0.0.1:8787")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, x); strings.Contains(got, token.Reveal()) {
			t.Errorf("%s: %s", verb, got)
		}
	}
}
