package disk

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// Of is the room where a folder lies.
func Of(path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, err
	}
	size := cmp.Or(s.Frsize, s.Bsize) // what is counted in; the other is how much is best read at once
	free := int64(s.Bavail) * size
	return Space{Free: free, All: free + int64(s.Blocks-s.Bfree)*size}, nil
}
