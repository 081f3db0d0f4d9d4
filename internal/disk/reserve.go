package disk

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
)

// Reserve is a file that takes room for nothing, so that there is some when the disk is full: it is given up then.
type Reserve struct {
	Path  string
	Bytes int64
}

// IsThere reports whether the file is there and whole.
func (r Reserve) IsThere() bool {
	info, err := os.Lstat(r.Path)
	return err == nil && info.Mode().IsRegular() && info.Size() == r.Bytes && takes(info) >= r.Bytes
}

// Make makes the file, or completes one whose making was cut off. It leaves none that is not whole, and nothing in
// place of what is there and no file.
func (r Reserve) Make() (err error) {
	if err := r.GiveUp(); err != nil {
		return err
	}
	f, err := os.OpenFile(r.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = allocate(f, r.Bytes)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(r.Path))
	}
	return err
}

// GiveUp removes the file, if it is there.
func (r Reserve) GiveUp() error {
	info, err := os.Lstat(r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "remove", Path: r.Path, Err: errors.New("it is not a file that the gate made")}
	}
	return os.Remove(r.Path)
}

// fill writes so many bytes that no file system can keep in less room.
func fill(f *os.File, bytes int64) error {
	const atOnce = 1 << 20 // each on the disk before the next: others sync beside it
	noise, block := rand.NewChaCha8([32]byte{}), make([]byte, atOnce)
	for bytes > 0 {
		b := block[:min(bytes, atOnce)]
		_, _ = noise.Read(b) // never fails
		if _, err := f.Write(b); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		bytes -= int64(len(b))
	}
	return nil
}
