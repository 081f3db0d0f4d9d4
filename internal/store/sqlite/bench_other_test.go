//go:build !linux

package sqlite

import (
	"os"
	"time"
)

func fdatasync(f *os.File) error { return f.Sync() }

func cpuTime() time.Duration { return 0 }
