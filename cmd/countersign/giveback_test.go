package main

import "testing"

func TestMemoryIsGivenBackOnceAfterEachBusyTime(t *testing.T) {
	const mib = 1 << 20
	m := newMemoryUse(100 * mib)
	for _, look := range []struct {
		is        string
		allocated uint64
		times     int // looks that find nothing due, before the one that counts
		want      due
	}{
		{"nothing was done", 100 * mib, 0, dueNothing},
		{"what starting left behind", 100 * mib, 6, dueFiles},
		{"load begins", 130 * mib, 0, dueNothing},
		{"load has ended", 900 * mib, 1, dueAll},
		{"what ended with it read files", 900*mib + mib/8, 7, dueFiles},
		{"quiet for a while", 900*mib + mib/4, 59, dueFiles},
		{"a heartbeat", 901 * mib, 59, dueFiles},
		{"a little load", 910 * mib, 0, dueNothing},
		{"which was not worth it", 910 * mib, 57, dueNothing},
		{"but a while has passed", 910 * mib, 0, dueFiles},
		{"quiet again", 910 * mib, 58, dueNothing},
		{"load when files are due", 930 * mib, 0, dueNothing},
		{"which has ended", 930 * mib, 0, dueFiles},
		{"load comes back and ends", 940 * mib, 1, dueAll},
	} {
		for n := range look.times {
			if got := m.look(look.allocated); got != dueNothing {
				t.Errorf("%s: %d at look %d", look.is, got, n+1)
			}
		}
		if got := m.look(look.allocated); got != look.want {
			t.Errorf("%s: %d, want %d", look.is, got, look.want)
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
