package store

import (
	"os"
	"path/filepath"
	"testing"

	"countersign/approval"
)

// An older file in the place of a store is told from the store itself, and a crash is not taken for that.
func TestAnOlderFileInItsPlaceIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.db")
	use := func(events int) bool {
		t.Helper()
		d, err := Open(t.Context(), Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for range events {
			if err := d.Update(t.Context(), func(tx approval.Tx) error {
				_, err := tx.Append(approval.Event{Type: approval.EventCallAllowed})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		return d.Restored()
	}
	if use(3) {
		t.Error("a new store was restored")
	}
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if use(3) || use(0) {
		t.Error("a store that was not touched was restored")
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + suffix)
	}
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	if !use(0) {
		t.Error("an older file was not noticed")
	}
	if use(1) {
		t.Error("it is noticed once")
	}
	if err := os.WriteFile(path+".mark", []byte("1\n"), 0o600); err != nil { // of long before the last commit
		t.Fatal(err)
	}
	if use(0) {
		t.Error("a mark that was not kept up says nothing")
	}
	if err := os.WriteFile(path+".mark", []byte("much"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: path}); err == nil {
		t.Error("a mark that cannot be read is taken for none")
	}
}
