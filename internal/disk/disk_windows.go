package disk

import "golang.org/x/sys/windows"

// Of is the room where a folder lies.
func Of(path string) (Space, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Space{}, err
	}
	var mine, all, free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &mine, &all, &free); err != nil {
		return Space{}, err
	}
	return Space{Free: int64(mine), All: int64(mine + all - free)}, nil
}
