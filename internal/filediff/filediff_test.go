package filediff_test

import (
	"bytes"
	"strings"
	"testing"

	"countersign/internal/filediff"
)

func TestADifferenceIsUnified(t *testing.T) {
	there := func(text string) filediff.Side {
		return filediff.Side{Path: "/a", Text: []byte(text), Exists: true}
	}
	long := filediff.Side{Path: "/a", Text: bytes.Repeat([]byte("a\n"), filediff.MaxFile/2+1), Exists: true}
	for name, c := range map[string]struct {
		is, to filediff.Side
		want   string
	}{
		"a line changes": {there("a\nb\n"), there("a\nc\n"), "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		"a new file":     {filediff.Side{Path: "/a"}, there("a\n"), "--- /dev/null\n+++ /a\n@@ -0,0 +1,1 @@\n+a\n"},
		"the same":       {there("a"), there("a"), "/a stays as it is.\n"},
		"an empty one":   {filediff.Side{Path: "/a"}, there(""), "--- /dev/null\n+++ /a\n"},
		"binary before":  {there("a\x00"), there("a"), "The difference to /a is not shown: it is not text.\n"},
		"no UTF-8 then":  {there("a"), there("\xff"), "The difference to /a is not shown: it is not text.\n"},
		"too long": {there("a"), long,
			"The difference to /a is not shown: what would be written is longer than 1 MiB.\n"},
		"a path of two lines": {filediff.Side{Path: "a\n+++ b", Text: []byte("a"), Exists: true},
			filediff.Side{Path: "a\n+++ b", Text: []byte("a"), Exists: true}, `"a\n+++ b" stays as it is.` + "\n"},
	} {
		if got := filediff.Between(c.is, c.to); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatIsClippedSaysHowMuchIsMissing(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{strings.Repeat("a\n", 50), strings.Repeat("a\n", 50)},
		{strings.Repeat("a\n", 51), strings.Repeat("a\n", 18) + "… (+33 lines)"},
		{strings.Repeat("あ", 100), strings.Repeat("あ", 12) + "… (+264 bytes)"},
	} {
		if got := filediff.Clip(c.text, 100); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
