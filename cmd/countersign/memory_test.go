package main

import "testing"

func TestMemoryIsReleasedOnceAfterEachBusyTime(t *testing.T) {
	const mib = 1 << 20
	m := newMemoryUse(100 * mib)
	for _, look := range []struct {
		is        string
		allocated uint64
		want      bool
	}{
		{"nothing was done", 100 * mib, false},
		{"load begins", 130 * mib, false},
		{"load goes on", 900 * mib, false},
		{"load has ended", 900*mib + mib/8, true},
		{"a heartbeat", 900*mib + mib/4, false},
		{"a little load", 910 * mib, false},
		{"which was not worth it", 910 * mib, false},
		{"more of it", 935 * mib, false},
		{"which was, together", 935 * mib, true},
		{"quiet again", 935 * mib, false},
	} {
		if got := m.look(look.allocated); got != look.want {
			t.Errorf("%s: %v, want %v", look.is, got, look.want)
		}
	}
}

func TestWhatIsAllocatedIsCounted(t *testing.T) {
	before := allocatedBytes()
	kept := make([]byte, 8<<20)
	if got := allocatedBytes() - before; got < uint64(len(kept)) {
		t.Errorf("%d bytes", got)
	}
}
