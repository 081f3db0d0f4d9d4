package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestVisible(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain text, 日本語　ไทย", "plain text, 日本語　ไทย"},
		{"a\tb\nc", "a⟨U+0009⟩b⟨U+000A⟩c"},
		{"\x1b[2J", "⟨U+001B⟩[2J"},
		{"\u202egnp.exe", "⟨U+202E⟩gnp.exe"},
		{"zero\u200bwidth", "zero⟨U+200B⟩width"},
		{"no\u00a0break", "no⟨U+00A0⟩break"},
		{"soft\u00adhyphen \u3164", "soft⟨U+00AD⟩hyphen ⟨U+3164⟩"},
		{"not UTF-8: \xff", "not UTF-8: ⟨0xFF⟩"},
		{"looks like ⟨U+202E⟩", "looks like ⟨U+27E8⟩U+202E⟩"},
		{"e\u0301", "e\u0301"},
		{"\u0301", "⟨U+0301⟩"},
		{"e" + strings.Repeat("\u0301", 8), "e" + strings.Repeat("\u0301", 6) + "⟨U+0301⟩⟨U+0301⟩"},
	} {
		if got := visible(test.in); got != test.want {
			t.Errorf("visible(%q) = %q, want %q", test.in, got, test.want)
		}
	}
	if got, want := visibleLines("a\tb\nc\r"), "a\tb\nc⟨U+000D⟩"; got != want {
		t.Errorf("visibleLines = %q, want %q", got, want)
	}
}

// A terminal never receives a control character, and no two texts look the same.
func FuzzVisible(f *testing.F) {
	f.Add("a\x1b]0;x\x07", "b")
	f.Add("⟨U+0041⟩", "A")
	f.Fuzz(func(t *testing.T, a, b string) {
		va, vb := visible(a), visible(b)
		if i := strings.IndexFunc(va, func(r rune) bool { return unicode.In(r, unicode.C) }); i >= 0 {
			t.Errorf("visible(%q) = %q", a, va)
		}
		if a != b && va == vb {
			t.Errorf("%q and %q both become %q", a, b, va)
		}
	})
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 59 * time.Second: "59 s", 60 * time.Second: "1 min", 90 * time.Second: "2 min", time.Hour: "1 h",
		25 * time.Hour:                  "25 h",
		28*time.Minute + 29*time.Second: "28 min", 65 * time.Minute: "1 h 5 min", 48 * time.Hour: "2 days",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
	if got, want := away(-5*time.Minute), "5 min ago"; got != want {
		t.Errorf("away = %q, want %q", got, want)
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"24h":                       now.Add(-24 * time.Hour),
		"2026-11-20":                time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		"2026-11-20T08:30":          time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC),
		"2026-11-20T09:30:00+09:00": time.Date(2026, 11, 20, 0, 30, 0, 0, time.UTC),
	} {
		if got, err := ago(in, now); err != nil || !got.Equal(want) {
			t.Errorf("ago(%q) = %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "yesterday", "-1h", "2026-13-01"} {
		if got, err := ago(in, now); err == nil {
			t.Errorf("ago(%q) = %s", in, got)
		}
	}
}

func TestShorten(t *testing.T) {
	if diff := cmp.Diff([]string{"日本", "日… (+1)"}, []string{shorten("日本", 2), shorten("日本", 1)}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// In process, so that the goroutines of a whole gate are counted: none is left over.
func TestServeStopsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "gate.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\nstore: sqlite:"+filepath.Join(dir, "gate.db")+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log := &serving{begun: cancel}
	code := run(ctx, []string{"serve", "--config", file}, strings.NewReader(""), new(bytes.Buffer), log,
		func(string) (string, bool) { return "", false })
	if code != exitDone {
		t.Errorf("exit code %d\n%s", code, log.String())
	}
}

// serving is a log that tells when the gate serves.
type serving struct {
	bytes.Buffer
	begun func()
}

func (s *serving) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("msg=serving")) {
		s.begun()
	}
	return s.Buffer.Write(p)
}
