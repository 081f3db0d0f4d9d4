package disk_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"countersign/internal/disk"
)

func TestReserve(t *testing.T) {
	r := disk.Reserve{Path: filepath.Join(t.TempDir(), "reserve"), Bytes: 3<<20 + 5}
	if r.IsThere() {
		t.Error("it is there before it is made")
	}
	if err := r.GiveUp(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(r.Path, []byte("half of one"), 0o600); err != nil { // as a death while it was made leaves it
		t.Fatal(err)
	}
	if r.IsThere() {
		t.Error("half of one is said to be whole")
	}
	if err := os.Truncate(r.Path, r.Bytes); err != nil { // as a copy that leaves out zeros
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && r.IsThere() {
		t.Error("one with holes is said to be whole")
	}
	if err := r.Make(); err != nil || !r.IsThere() {
		t.Errorf("it is there: %v, %v", r.IsThere(), err)
	}
	if info, err := os.Stat(r.Path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	if err := r.GiveUp(); err != nil || r.IsThere() {
		t.Errorf("it is there: %v, %v", r.IsThere(), err)
	}
}

// What is in its place and not the gate's is left alone.
func TestReserveLeavesAloneWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	r := disk.Reserve{Path: filepath.Join(dir, "reserve"), Bytes: 1 << 20}
	if err := os.Mkdir(r.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Make(); err == nil {
		t.Error("it was made where a folder is")
	}
	if err := r.GiveUp(); err == nil {
		t.Error("a folder was given up")
	}
	if info, err := os.Stat(r.Path); err != nil || !info.IsDir() || r.IsThere() {
		t.Errorf("%v, %v", info, err)
	}
}
