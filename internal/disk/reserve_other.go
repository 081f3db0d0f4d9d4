//go:build !linux

package disk

import "os"

// allocate has an empty file take so many bytes of the disk.
func allocate(f *os.File, bytes int64) error { return fill(f, bytes) }
