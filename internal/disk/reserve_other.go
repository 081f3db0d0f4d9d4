//go:build !linux

package disk

import (
	"io/fs"
	"os"
)

// allocate has an empty file take so many bytes of the disk.
func allocate(f *os.File, bytes int64) error { return fill(f, bytes) }

// takes is how many bytes of the disk a file takes.
func takes(info fs.FileInfo) int64 { return info.Size() }
