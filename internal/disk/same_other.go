//go:build !unix

package disk

import (
	"path/filepath"
	"strings"
)

// IsSame reports whether two folders lie on one file system, as far as that is known.
func IsSame(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && strings.EqualFold(filepath.VolumeName(a), filepath.VolumeName(b))
}
