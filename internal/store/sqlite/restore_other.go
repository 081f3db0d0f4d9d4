//go:build !unix

package sqlite

import "io/fs"

// giveTo has nothing to do where a file's folder says who may open it.
func giveTo(fs.FileInfo, ...string) error { return nil }
