package app

import (
	"slices"
	"testing"
)

// Rule 2.12: where files are few, those who wait come after webhooks, pages and everything else.
func TestRule12_ThoseWhoWaitComeLastWhereFilesAreFew(t *testing.T) {
	for _, c := range []struct {
		free        int
		wants, want []int
	}{
		{-1, []int{16384, 256, 512}, []int{16384, 256, 512}},
		{20000, []int{16384, 256, 512}, []int{16384, 256, 512}},
		{4096, []int{16384, 256, 512}, []int{3328, 256, 512}},
		{2816, []int{16384, 256, 512}, []int{2048, 256, 512}},
		{1408, []int{16384, 256, 512}, []int{1024, 128, 256}},
		{1408, []int{64, 256, 512}, []int{64, 256, 512}},
		{0, []int{16384, 256}, []int{1, 1}},
	} {
		if got := divide(c.free, c.wants); !slices.Equal(got, c.want) {
			t.Errorf("%d files for %v: %v, want %v", c.free, c.wants, got, c.want)
		}
	}
}
