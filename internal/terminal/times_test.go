package terminal

import (
	"strings"
	"testing"
	"time"

	"countersign/client"
)

func TestTimesAreToldAsEverywhere(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 46, 0, 0, time.UTC)
	v := view{at.Add(-28 * time.Minute), time.FixedZone("JST", 9*60*60)}
	if got := v.clock(at); got != "today 18:46" {
		t.Errorf("%q", got)
	}
	v.zone = time.UTC
	if got := v.clock(at.Add(24 * time.Hour)); got != "tomorrow 09:46 UTC" {
		t.Errorf("in UTC: %q", got)
	}
	for d, want := range map[time.Duration]string{28 * time.Minute: "28 min", time.Second: "1 s", 0: "over",
		-time.Hour: "over"} {
		if got := v.timeLeft(client.Approval{ExpiresAt: client.Time{Time: v.now.Add(d)}}); got != want {
			t.Errorf("%s left: %q, want %q", d, got, want)
		}
	}
}

// No space is dropped where a line breaks: what is drawn is what would run, at any width.
func TestRule3_NothingIsDroppedWhereALineBreaks(t *testing.T) {
	const args = `{"command":"rm -rf /srv/a  b /srv/c   d    e","path":"/srv/x  y"}`
	parts := (view{}).everything(client.Approval{Args: []byte(args), Rationale: "a  b   c    d"})
	for width := 8; width < len(args); width++ {
		for _, p := range parts {
			if p.kind != exact {
				continue
			}
			for line := range strings.SplitSeq(p.text, "\n") {
				got := wrap([]part{{exact, line}}, width, func(_ kind, s string) string { return s })
				for i := range got[1:] {
					got[i+1] = strings.TrimPrefix(got[i+1], further)
				}
				if strings.Join(got, "") != line {
					t.Fatalf("%d columns: %q is drawn as %q", width, line, got)
				}
			}
		}
	}
}

// Arguments that were removed are not shown as if they were null.
func TestArgumentsThatWereRemovedAreNotShown(t *testing.T) {
	a := client.Approval{Args: []byte(`null`), ArgsBytes: 1234}
	a.ArgsRemovedAt.Time = time.Date(2026, 11, 22, 9, 46, 0, 0, time.UTC)
	removed := 0
	for _, p := range (view{zone: time.UTC}).everything(a) {
		if strings.Contains(p.text, "null") || strings.Contains(p.text, "exactly") {
			t.Errorf("it says %q", p.text)
		}
		if strings.Contains(p.text, "(1234 bytes) were removed") {
			removed++
		}
	}
	if removed != 1 {
		t.Errorf("it says %d times that they were removed", removed)
	}
}
