//go:build unix

package logins

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// A pipe in the file's place keeps nobody waiting for who writes into it.
func TestAPipeIsRefused(t *testing.T) {
	const server = "http://127.0.0.1:8787"
	l := In(t.TempDir())
	path := put(t, l, server).Path
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if x, err := l.Get(server); err == nil {
		t.Errorf("%v, %v", x, err)
	}
}
