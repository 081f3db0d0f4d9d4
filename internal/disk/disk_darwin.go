package disk

import "golang.org/x/sys/unix"

// Of is the room where a folder lies.
func Of(path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, err
	}
	size := int64(s.Bsize)
	free := int64(s.Bavail) * size
	return Space{Free: free, All: free + int64(s.Blocks-s.Bfree)*size}, nil
}
