package disk_test

import (
	"path/filepath"
	"testing"

	"countersign/internal/disk"
)

func TestOf(t *testing.T) {
	s, err := disk.Of(t.TempDir())
	if err != nil || s.Free < 0 || s.All < s.Free || s.All == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := disk.Of(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("there is room at nothing")
	}
}

func TestIsLow(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, test := range []struct {
		space   disk.Space
		low     bool
		percent int
	}{
		{disk.Space{Free: 500 * mib, All: 5 * gib}, false, 9},
		{disk.Space{Free: 500*mib - 1, All: 5 * gib}, true, 9},
		{disk.Space{Free: 50 * gib, All: 1000 * gib}, false, 5},
		{disk.Space{Free: 50*gib - 1, All: 1000 * gib}, true, 4},
		{disk.Space{}, true, 0},
	} {
		if got := test.space.IsLow(); got != test.low || test.space.Percent() != test.percent {
			t.Errorf("%+v: low %v, %d %%; want %v, %d %%", test.space, got, test.space.Percent(), test.low, test.percent)
		}
	}
}
