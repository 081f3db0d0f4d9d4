//go:build !linux

package main

import (
	"os"
	"time"
)

// processorTime is what a process has used so far; 0: not known.
func processorTime(int) time.Duration { return 0 }

// resident is what a process has in memory, in bytes; 0: not known.
func resident(int) int64 { return 0 }

// syncData brings what was written to the disk.
func syncData(f *os.File) error { return f.Sync() }

// inMemory reports whether a folder is on no disk at all, where that can be told.
func inMemory(string) bool { return false }
