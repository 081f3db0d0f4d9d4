package approval

import (
	"regexp"
	"strings"
	"testing"
)

func TestNamesAreWhatTheRefusalsOfOthersSay(t *testing.T) {
	texts := []string{"", "a", "A", "é", "a\n", "\n", "a/b", "_", "tools/call", strings.Repeat("a", 63),
		strings.Repeat("a", 64),
		strings.Repeat("a", 65), strings.Repeat("0", 63), strings.Repeat("0", 64), strings.Repeat("0", 64) + "\n",
		strings.Repeat("a", 128), strings.Repeat("a", 129)}
	for c := range 256 {
		b := string([]byte{byte(c)})
		texts = append(texts, b, "a"+b, b+"a", strings.Repeat("0", 63)+b)
	}
	for name, c := range map[string]struct {
		valid func(string) bool
		want  string
	}{
		"of a tool, a server or an agent": {ValidName, `^[A-Za-z0-9_.:-]{1,128}$`},
		"of a method":                     {validMethod, `^[a-z][A-Za-z/_]{0,63}$`},
		"of a tool's digest":              {validDigest, `^[0-9a-f]{64}$`},
	} {
		want := regexp.MustCompile(c.want)
		for _, text := range texts {
			if got := c.valid(text); got != want.MatchString(text) {
				t.Errorf("%s: %q is valid: %t", name, text, got)
			}
		}
	}
}
