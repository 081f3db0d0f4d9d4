//go:build unix

package disk

import "golang.org/x/sys/unix"

// IsSame reports whether two folders lie on one file system, as far as that is known.
func IsSame(a, b string) bool {
	var of, and unix.Stat_t
	return unix.Stat(a, &of) == nil && unix.Stat(b, &and) == nil && of.Dev == and.Dev
}
