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

func TestHowFull(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, test := range []struct {
		space   disk.Space
		low     bool
		full    bool
		percent int
	}{
		{disk.Space{Free: 500 * mib, All: 5 * gib}, false, false, 9},
		{disk.Space{Free: 500*mib - 1, All: 5 * gib}, true, false, 9},
		{disk.Space{Free: 5 * gib, All: 100 * gib}, false, false, 5},
		{disk.Space{Free: 5*gib - 1, All: 100 * gib}, true, false, 4},
		{disk.Space{Free: 20 * gib, All: 10_000 * gib}, false, false, 0},
		{disk.Space{Free: 20*gib - 1, All: 10_000 * gib}, true, false, 0},
		{disk.Space{Free: 4 * gib, All: 10_000 * gib}, true, false, 0},
		{disk.Space{Free: 4*gib - 1, All: 10_000 * gib}, true, true, 0},
		{disk.Space{Free: 100 * mib, All: 5 * gib}, true, false, 1},
		{disk.Space{Free: 100*mib - 1, All: 5 * gib}, true, true, 1},
		{disk.Space{Free: gib - 1, All: 100 * gib}, true, true, 0},
		{disk.Space{Free: gib, All: 100 * gib}, true, false, 1},
	} {
		s := test.space
		if s.IsLow() != test.low || s.IsFull() != test.full || s.Percent() != test.percent {
			t.Errorf("%+v: low %v, full %v, %d %%; want %v, %v, %d %%", s, s.IsLow(), s.IsFull(), s.Percent(), test.low,
				test.full, test.percent)
		}
	}
}
