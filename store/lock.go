package store

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// takeLock makes this process the owner of the store at path until the returned file is closed. The file
// says who the owner is, for whoever comes second; only the lock counts.
func takeLock(path string) (_ *os.File, err error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, openFault(path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	taken, err := flock(f)
	if err != nil {
		return nil, openFault(path, fmt.Errorf("lock %s: %w", name, err))
	}
	if !taken {
		who, _ := io.ReadAll(io.LimitReader(f, 1024)) // what cannot be read cannot be told
		owner := strings.TrimSpace(string(who))
		if owner == "" {
			owner = "another process"
		}
		return nil, unavailable(fmt.Sprintf("The store %s is in use by %s; one process owns a store.", path, owner), nil)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	if err := f.Truncate(0); err != nil {
		return nil, openFault(path, err)
	}
	if _, err := f.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0); err != nil {
		return nil, openFault(path, err)
	}
	return f, nil
}
