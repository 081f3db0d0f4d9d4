package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"

	"countersign/internal/safefile"
)

// repository is the folder above that has a .git, or folder itself.
func repository(folder string) string {
	for dir := folder; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return folder
		}
	}
}

// Change is a file as it is and as it shall be.
type Change struct {
	Path   string // as it was named
	Old    []byte
	New    []byte
	Says   []string // what it comes to, a sentence each
	exists bool
	real   string // where it is
}

// maxFile is how long a file may be that is changed.
const maxFile = 4 << 20

// Read begins a change of the file at path, which need not be there. A symbolic link is followed: what it
// leads to is changed, and the link stays.
func Read(path string) (*Change, error) {
	c := &Change{Path: path, real: path}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		if c.real, err = filepath.EvalSymlinks(path); err != nil {
			return nil, fmt.Errorf("%s is a symbolic link that leads nowhere: %w", path, err)
		}
	}
	info, err := os.Stat(c.real)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s is longer than 4 MiB", path)
	}
	c.Old, err = os.ReadFile(c.real)
	c.New, c.exists = c.Old, true
	return c, err
}

// Exists reports whether the file was there.
func (c *Change) Exists() bool { return c.exists }

// Empty reports whether there is nothing to change.
func (c *Change) Empty() bool { return bytes.Equal(c.Old, c.New) }

// Removes reports whether the file is taken away: it would hold nothing any more.
func (c *Change) Removes() bool {
	return c.exists && c.real == c.Path && !c.Empty() && string(bytes.TrimSpace(c.New)) == "{}"
}

// Diff is the difference in the unified format.
func (c *Change) Diff() string {
	from, to, becomes := c.Path, c.Path, c.New
	if !c.exists {
		from = "/dev/null"
	}
	if c.Removes() {
		to, becomes = "/dev/null", nil
	}
	text := diff.Diff(from, c.Old, to, becomes)
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return string(text)
}

// Write makes the change: the whole new file is there or the old one, with its mode. A file that has
// changed since it was read is left alone.
func (c *Change) Write() error {
	now, err := os.ReadFile(c.real)
	if errors.Is(err, fs.ErrNotExist) && !c.exists {
		err = nil
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.Old) {
		return fmt.Errorf("%s was changed meanwhile; nothing was written to it", c.Path)
	}
	if c.Removes() {
		return safefile.Remove(c.real)
	}
	mode := fs.FileMode(0o644)
	if c.exists {
		info, err := os.Stat(c.real)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	} else if err := os.MkdirAll(filepath.Dir(c.real), 0o755); err != nil {
		return err
	}
	return safefile.Write(c.real, c.New, mode)
}
