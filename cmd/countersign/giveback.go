package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// giveBack returns to the system what only starting or a busy time took: the text of catalogues and migrations as
// it was parsed, buffers, and the code that did it. Twice, since what stands in pools outlives the first collection;
// and the next ones count from what is left.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
	giveBackProgram()
}

// lookEvery is how often a gate looks whether a busy time is over.
const lookEvery = 250 * time.Millisecond

const (
	quiet = 256 << 10 // bytes allocated between two looks: a heartbeat, somebody who reads the metrics
	busy  = 32 << 20  // bytes after which the collector has run more than once
)

// memoryUse says when giving back is worth its cost: some milliseconds, and as much again when there is load anew.
type memoryUse struct {
	allocated  uint64 // since the start, at the last look
	atGiveBack uint64 // and when memory was last given back
}

// busyTimeOver reports whether a busy time is over, by what the process has allocated since its start. After a yes it
// takes another busy time.
func (m *memoryUse) busyTimeOver(allocated uint64) bool {
	still := allocated-m.allocated < quiet
	m.allocated = allocated
	if !still || allocated-m.atGiveBack < busy {
		return false
	}
	m.atGiveBack = allocated
	return true
}

// allocatedBytes is how many bytes the process has allocated since its start.
func allocatedBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
