//go:build unix

package hooks

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"countersign/internal/filediff"
)

func TestFilesAreReadWithCare(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("a"), []byte("a\n"), 0o600), os.WriteFile(at("long"), make([]byte, filediff.MaxFile+1), 0o600),
		os.WriteFile(at("fits"), make([]byte, filediff.MaxFile), 0o600),
		os.Symlink("a", at("link")), os.Symlink("loop", at("loop")), syscall.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"link": at("link") + " is a symbolic link; the file is " + at("a") + ".\n--- " + at("link") + "\n+++ " + at("link") +
			"\n@@ -1,1 +1,1 @@\n-a\n+b\n",
		"long": "The difference to " + at("long") + " is not shown: it is longer than 1 MiB.\n",
		"fits": "The difference to " + at("fits") + " is not shown: it is not text.\n",
		"pipe": "The difference to " + at("pipe") + " is not shown: it is not a regular file.\n",
		"loop": "The difference to " + at("loop") + " is not shown: it cannot be read.\n",
		"":     "The difference to " + at("") + " is not shown: it is not a regular file.\n",
	} {
		e := event(t, ClaudeCode, "Write", quote(t, map[string]string{"file_path": at(name), "content": "b\n"}))
		if got := call(t, e, ReadFile).Preview; got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}
