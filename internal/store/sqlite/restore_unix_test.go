//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Root restores the store of a gate that runs as another user, which can open all of it then; so it can after what was
// refused.
func TestWhatRootRestoresIsItsOwners(t *testing.T) {
	path := closed(t, 1)
	copied := backedUp(t, path)
	owner := os.Geteuid()
	if owner == 0 {
		owner = 65534
	}
	folder := filepath.Dir(path)
	own := func() {
		t.Helper()
		for _, name := range append(files(t, folder), "") {
			if err := os.Chown(filepath.Join(folder, name), owner, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	owned := func(what string) {
		t.Helper()
		for _, name := range files(t, folder) {
			info, err := os.Stat(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			if is, ok := info.Sys().(*syscall.Stat_t); !ok || int(is.Uid) != owner {
				t.Errorf("after %s, %s is another's", what, name)
			}
		}
	}
	own()
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	if _, err := PrepareRestore(t.Context(), path, strings.NewReader("no database")); err == nil {
		t.Error("no database was restored")
	}
	owned("a restore that was refused")
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	if _, err := MarkRestored(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	owned("a store was marked")
	restore(t, path, copied)
	owned("a restore")
}
