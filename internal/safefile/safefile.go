// Package safefile writes files so that a loss of power leaves what was there before, or what was written: whole, under
// its name, on the disk. A rename alone does not do that. Without a sync of the file the new name can lead to an empty
// one, and without a sync of the folder the old name can come back.
package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// syncFile is replaced by tests.
var syncFile = (*os.File).Sync

// Write puts data at path in the place of what is there. It returns nil once that outlives a loss of power; after
// an error the old file is there, or the new one. A symbolic link at path is replaced, not followed.
func Write(path string, data []byte, mode fs.FileMode) error {
	// Nobody else can read it, and its name ends as the file's, by which others tell what holds secrets.
	f, err := os.CreateTemp(filepath.Dir(path), ".*-"+filepath.Base(path))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), syncFile(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncFolder(filepath.Dir(path))
}

// Name gives a file that was written under another name its own, and takes none that is taken: it fails with
// [fs.ErrExist] then. Where a file system knows no second names, that is only looked at before. The folder is to be
// synced after it.
func Name(written, path string) error {
	err := os.Link(written, path)
	if err == nil {
		return os.Remove(written)
	}
	if _, taken := os.Lstat(path); taken == nil {
		return fs.ErrExist
	}
	return os.Rename(written, path)
}

// Remove takes a file away for good: it is not back after a loss of power.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}
