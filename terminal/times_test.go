package terminal

import (
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
	for d, want := range map[time.Duration]string{28 * time.Minute: "28 min", time.Second: "1 s", 0: "over", -time.Hour: "over"} {
		if got := v.left(client.Approval{ExpiresAt: client.Time{Time: v.now.Add(d)}}); got != want {
			t.Errorf("%s left: %q, want %q", d, got, want)
		}
	}
}
