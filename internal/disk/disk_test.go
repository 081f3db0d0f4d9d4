package disk_test

import (
	"path/filepath"
	"runtime"
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

func TestIsSame(t *testing.T) {
	dir := t.TempDir()
	if !disk.IsSame(dir, dir) {
		t.Error("a folder lies on another disk than itself")
	}
	if runtime.GOOS == "linux" && disk.IsSame(dir, "/proc") {
		t.Error("a folder lies on the disk of /proc")
	}
	if disk.IsSame(dir, "") && runtime.GOOS != "windows" {
		t.Error("a folder lies where nothing is")
	}
}

func TestHowFull(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, test := range []struct {
		space   disk.Space
		level   disk.Level
		percent int
	}{
		{disk.Space{Free: 500 * mib, All: 5 * gib}, disk.Roomy, 9},
		{disk.Space{Free: 500*mib - 1, All: 5 * gib}, disk.Low, 9},
		{disk.Space{Free: 5 * gib, All: 100 * gib}, disk.Roomy, 5},
		{disk.Space{Free: 5*gib - 1, All: 100 * gib}, disk.Low, 4},
		{disk.Space{Free: 20 * gib, All: 10_000 * gib}, disk.Roomy, 0},
		{disk.Space{Free: 20*gib - 1, All: 10_000 * gib}, disk.Low, 0},
		{disk.Space{Free: 4 * gib, All: 10_000 * gib}, disk.Low, 0},
		{disk.Space{Free: 4*gib - 1, All: 10_000 * gib}, disk.Full, 0},
		{disk.Space{Free: 100 * mib, All: 5 * gib}, disk.Low, 1},
		{disk.Space{Free: 100*mib - 1, All: 5 * gib}, disk.Full, 1},
		{disk.Space{Free: gib - 1, All: 100 * gib}, disk.Full, 0},
		{disk.Space{Free: gib, All: 100 * gib}, disk.Low, 1},
	} {
		s := test.space
		if s.Level() != test.level || s.Percent() != test.percent {
			t.Errorf("%+v: level %d, %d %%; want %d, %d %%", s, s.Level(), s.Percent(), test.level, test.percent)
		}
	}
}
