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
	giveBackFiles()
}

// lookEvery is how often a gate looks whether a busy time is over.
const lookEvery = 250 * time.Millisecond

const (
	quiet = 256 << 10 // bytes allocated between two looks: a heartbeat, somebody who reads the metrics
	busy  = 32 << 20  // bytes after which the collector has run more than once
)

// The pages of files are given back again after so many looks, if the last one is quiet. Closing what a busy time has
// opened reads some of them, and so does each heartbeat.
const (
	looksAfterwards = int(2 * time.Second / lookEvery)
	looksWhileQuiet = int(15 * time.Second / lookEvery)
)

// due is what there is to give back.
type due int

const (
	dueNothing due = iota
	dueFiles       // the pages of files: some hundred faults when they are used again
	dueAll         // the heap as well: some milliseconds, and as much again when there is load anew
)

// memoryUse says when giving back is worth its cost.
type memoryUse struct {
	allocated  uint64 // since the start, at the last look
	atGiveBack uint64 // and when all was last given back
	looks      int    // until files are due
}

// newMemoryUse begins where all was given back just now.
func newMemoryUse(allocated uint64) memoryUse {
	return memoryUse{allocated, allocated, looksAfterwards}
}

// look says what is due, by what the process has allocated since its start: nothing while it works.
func (m *memoryUse) look(allocated uint64) due {
	still := allocated-m.allocated < quiet
	m.allocated = allocated
	m.looks--
	switch {
	case !still:
		return dueNothing
	case allocated-m.atGiveBack >= busy:
		m.atGiveBack, m.looks = allocated, looksAfterwards
		return dueAll
	case m.looks <= 0:
		m.looks = looksWhileQuiet
		return dueFiles
	}
	return dueNothing
}

// allocatedBytes is how many bytes the process has allocated since its start.
func allocatedBytes() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
