package main

import "testing"

func TestMemoryIsGivenBackOnceAfterEachBusyTime(t *testing.T) {
	const mib = 1 << 20
	m := memoryUse{allocated: 100 * mib, atGiveBack: 100 * mib}
	for _, look := range []struct {
		is        string
		allocated uint64
		want      bool
	}{
		{"nothing was done", 100 * mib, false},
		{"load begins", 130 * mib, false},
		{"load goes on", 900 * mib, false},
		{"it has ended", 900*mib + mib/8, true},
		{"it was given back already", 900*mib + mib/8, false},
		{"a heartbeat", 901 * mib, false},
		{"a little load", 910 * mib, false},
		{"which was not worth it", 910 * mib, false},
		{"load comes back", 940 * mib, false},
		{"and ends", 940*mib + mib/8, true},
	} {
		if got := m.busyTimeOver(look.allocated); got != look.want {
			t.Errorf("%s: %t, want %t", look.is, got, look.want)
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
