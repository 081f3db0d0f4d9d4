package rest

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

func TestALargeBodyLeavesLittleMoreThanItsLengthBehind(t *testing.T) {
	const size, times = 1 << 20, 10
	want := strings.Repeat("x", size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if got, err := readInto(new(bytes.Buffer), strings.NewReader(want), size); len(got) != size || err != nil {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / times; got > 2*size {
		t.Errorf("a body of %d bytes took %d of memory", size, got)
	}
}
