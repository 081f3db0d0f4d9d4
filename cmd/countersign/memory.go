package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// releaseMemory returns to the system what only starting or a busy time took: the text of catalogues and migrations as
// it was parsed, and buffers. It collects twice, since what stands in pools outlives the first collection. It asks the
// runtime and nothing else: whatever is given back by address may be in use again by then.
func releaseMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// lookEvery is how often a gate looks whether a busy time is over.
const lookEvery = 250 * time.Millisecond

const (
	quiet = 256 << 10 // bytes allocated between two looks: a heartbeat, a program that reads the metrics
	busy  = 32 << 20  // bytes after which the collector has run more than once
)

// memoryUse says when to release memory is worth its cost: some milliseconds, and as much again with the next load.
type memoryUse struct {
	allocated uint64 // since the start, at the last look
	atRelease uint64 // and when memory was last released
}

// newMemoryUse begins where memory was released just now.
func newMemoryUse(allocated uint64) memoryUse { return memoryUse{allocated, allocated} }

// look reports whether a busy time is over, by what the process has allocated since its start. It reports it once.
func (m *memoryUse) look(allocated uint64) bool {
	still := allocated-m.allocated < quiet
	m.allocated = allocated
	if !still || allocated-m.atRelease < busy {
		return false
	}
	m.atRelease = allocated
	return true
}

// allocatedBytes is how many bytes the process has allocated since its start.
func allocatedBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
