package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// A lock file that was removed does not let a second gate have the store.
func TestRule4_ARemovedLockFileLetsNobodyElseIn(t *testing.T) {
	path := schematest.NewFile(t)
	c, err := takeClaim(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(t.Context(), Options{Path: path}); err == nil || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("a second process has the store: %v", err)
		if err == nil {
			d.Close()
		}
	}
}

func TestALockFileThatWasRemovedIsMadeAnew(t *testing.T) {
	log := &testkit.Buffer{}
	d := open(t, Options{Logger: log.Logger()})
	d.CheckClaim()
	if err := os.Remove(d.path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	d.CheckClaim()
	if !strings.Contains(log.String(), "is made anew") {
		t.Errorf("nobody is told:\n%s", log)
	}
	if text, err := os.ReadFile(d.path + lockSuffix); err != nil || !strings.HasPrefix(string(text), "process ") {
		t.Errorf("it says %q, %v", text, err)
	}
	update(t, d, oneEvent)
}

// What is stored into a file that has no name any more is gone with the process.
func TestRule7_NothingIsAnsweredByAStoreWhoseFileIsGone(t *testing.T) {
	d := open(t, Options{})
	update(t, d, oneEvent)
	if err := os.Rename(d.path, d.path+".moved"); err != nil {
		t.Fatal(err)
	}
	schematest.WriteFile(t, d.path)
	d.CheckClaim()
	for name, err := range map[string]error{
		"an update": d.Update(t.Context(), approval.WholeStore(), oneEvent),
		"a read":    d.View(t.Context(), func(approval.Tx) error { return nil }),
		"the probe": d.Ping(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "nothing is stored any more") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d.RecordAllowed(approval.AllowedCall{}, allowedCall("a")) {
		t.Error("a record was taken")
	}
}

// Whatever lies in the place of a store's file and is none is left alone, and does not hold up the start.
func TestWhatIsNoFileOfTheStoreIsRefused(t *testing.T) {
	for _, suffix := range besideSuffixes {
		for _, what := range []string{"a symbolic link", "a named pipe", "a folder"} {
			path, target := schematest.NewFile(t), filepath.Join(t.TempDir(), "target")
			if err := os.WriteFile(target, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			var err error
			switch what {
			case "a symbolic link":
				err = os.Symlink(target, path+suffix)
			case "a named pipe":
				err = unix.Mkfifo(path+suffix, 0o600)
			default:
				err = os.Mkdir(path+suffix, 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := Open(t.Context(), Options{Path: path})
			if err == nil {
				t.Errorf("%s as %s: it was opened", what, suffix)
				d.Close()
			} else if !strings.Contains(err.Error(), suffix+" is "+what) || !strings.Contains(err.Error(), "move that away") {
				t.Errorf("%s as %s: %v", what, suffix, err)
			}
			if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o644 || info.Size() != 4 {
				t.Errorf("%s as %s: the target is %v, %v", what, suffix, info, err)
			}
		}
	}
}

// Two names of one store are one store: its other files lie beside the file itself.
func TestAStoreThatIsALinkIsTheOneThatItLeadsTo(t *testing.T) {
	path, link := schematest.NewFile(t), filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	d := open(t, Options{Path: link})
	if _, err := Open(t.Context(), Options{Path: path}); err == nil || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("it was opened by its other name: %v", err)
	}
	if names := files(t, filepath.Dir(link)); len(names) != 1 {
		t.Errorf("beside the link are %q", names)
	}
	update(t, d, oneEvent)
}
