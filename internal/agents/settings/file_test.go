package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func change(t *testing.T, path, to string) *Change {
	t.Helper()
	c, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	c.New = []byte(to)
	return c
}

func TestFilesAreWrittenWholeWithTheirModeThroughLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.WriteFile(at("real"), []byte("old\n"), 0o640), os.Chmod(at("real"), 0o640),
		os.Symlink("real", at("link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := change(t, at("link"), "new\n")
	if got, want := c.Diff(), "--- "+at("link")+"\n+++ "+at("link")+"\n@@ -1,1 +1,1 @@\n-old\n+new\n"; got != want {
		t.Errorf("the difference is\n%s\nwant\n%s", got, want)
	}
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(at("link"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	if info, err = os.Stat(at("real")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode became %v, %v; want 0640", info.Mode(), err)
	}
	if b, _ := os.ReadFile(at("real")); string(b) != "new\n" {
		t.Errorf("the file holds %q", b)
	}

	c = change(t, at("deep/er/new"), "x\n")
	if err := c.Write(); err != nil || !strings.HasPrefix(c.Diff(), "--- /dev/null\n") {
		t.Errorf("a new file: %v\n%s", err, c.Diff())
	}
	if names, _ := filepath.Glob(at(".*")); len(names) > 0 {
		t.Errorf("%v were left", names)
	}
}

func TestAFileThatChangedMeanwhileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := change(t, path, "new\n")
	fresh := change(t, filepath.Join(dir, "g"), "new\n")
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("theirs\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*Change{c, fresh} {
		if err := c.Write(); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
			t.Errorf("%s: got %v", c.Path, err)
		}
		if b, _ := os.ReadFile(c.Path); string(b) != "theirs\n" {
			t.Errorf("%s holds %q", c.Path, b)
		}
	}
}

func TestAFileThatWouldHoldNothingGoes(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "f"), filepath.Join(dir, "link")
	for _, err := range []error{os.WriteFile(path, []byte("{\"a\":1}\n"), 0o600), os.Symlink("f", link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if c := change(t, link, "{}\n"); c.Removes() {
		t.Error("what a link leads to would go, and the link would lead nowhere")
	}
	c := change(t, path, "{}\n")
	if err := c.Write(); err != nil || !strings.Contains(c.Diff(), "+++ /dev/null") {
		t.Errorf("%v\n%s", err, c.Diff())
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, err := range map[string]error{
		"loop":    os.Symlink("loop", filepath.Join(dir, "loop")),
		"nowhere": os.Symlink("missing", filepath.Join(dir, "nowhere")),
		"folder":  os.Mkdir(filepath.Join(dir, "folder"), 0o700),
		"long":    os.WriteFile(filepath.Join(dir, "long"), make([]byte, maxFile+1), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
