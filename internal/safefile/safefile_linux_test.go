package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// syncs notes what is synced in the test, and what lay under path then.
func syncs(t *testing.T, path string, fail error) *[]string {
	t.Helper()
	var done []string
	before := syncFile
	syncFile = func(f *os.File) error {
		name := "file"
		if info, err := f.Stat(); err == nil && info.IsDir() {
			name = "folder"
		}
		now, _ := os.ReadFile(path)
		done = append(done, name+" while it says "+string(now))
		return errors.Join(before(f), fail)
	}
	t.Cleanup(func() { syncFile = before })
	return &done
}

func TestRule7_AFileIsOnTheDiskBeforeItHasItsNameAndItsNameBeforeItIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.env")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	done := syncs(t, path, nil)
	if err := Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if want := []string{"file while it says old", "folder while it says new"}; !slices.Equal(*done, want) {
		t.Errorf("synced were %q, want %q", *done, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it is %v, %v", info, err)
	}
	*done = nil
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if want := []string{"folder while it says "}; !slices.Equal(*done, want) {
		t.Errorf("synced after it was removed were %q, want %q", *done, want)
	}
	if err := Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there was removed: %v", err)
	}
}

func TestWhatCannotBeSyncedLeavesTheOldFileAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.env")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	syncs(t, path, broken)
	if err := Write(path, []byte("new"), 0o600); !errors.Is(err, broken) {
		t.Errorf("it was written: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
		t.Errorf("it says %q, %v", text, err)
	}
	if es, err := os.ReadDir(filepath.Dir(path)); err != nil || len(es) != 1 {
		t.Errorf("beside it are %v, %v", es, err)
	}
}

// While it is written it is told from other files as the file itself is: by the end of its name.
func TestWhatIsBeingWrittenEndsAsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.env")
	seen := false
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	syncFile = func(f *os.File) error {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			seen = strings.HasSuffix(f.Name(), ".env") && info.Mode().Perm() == 0o600
		}
		return before(f)
	}
	if err := Write(path, []byte("new"), 0o600); err != nil || !seen {
		t.Errorf("%v, seen as it is: %v", err, seen)
	}
}
