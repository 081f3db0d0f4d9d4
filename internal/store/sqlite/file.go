package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// The files of a store are its own. A link in the place of one would have another file written, and its mode changed;
// a pipe would hold up the start until a process writes to it.

// besideSuffixes are of all the files that lie beside a store's while it is open.
var besideSuffixes = []string{"-wal", "-shm", eventLogSuffix, markSuffix, lockSuffix}

// strangeFile is what [openOwn] says of something that is no file of ours.
type strangeFile struct{ path, what string }

func (e *strangeFile) Error() string {
	return fmt.Sprintf("%s is %s, and not a file that the gate made", e.path, e.what)
}

// whatInstead says what an entry of a folder is that is no regular file, "" of one that is.
func whatInstead(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	}
	return "no regular file"
}

// checkOwn fails where something else than a file of ours is at path. Nothing may be there.
func checkOwn(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if what := whatInstead(info.Mode()); what != "" {
		return &strangeFile{path, what}
	}
	return nil
}

// openOwn opens a file of ours, for its owner alone, and with os.O_CREATE makes it where there is none. It follows no
// link and waits for no process.
func openOwn(path string, flags int) (_ *os.File, err error) {
	if err := checkOwn(path); err != nil { // says what it is, and is all that some systems can do
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|flags|openStrictly, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		if what := whatInstead(info.Mode()); what != "" {
			err = &strangeFile{path, what}
		}
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
