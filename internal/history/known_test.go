package history_test

import (
	"testing"
	"time"

	"countersign/internal/history"
)

func TestWhatIsKnownBeginsWithTheShortestTime(t *testing.T) {
	const day = 24 * time.Hour
	r := newRecord(t)
	now := r.ToWall(r.Now())
	for _, c := range []struct {
		name         string
		kept         history.Kept
		since        time.Duration // how long ago
		stats, calls time.Duration // how long ago; 0: not said
	}{
		{"all is kept", history.Kept{}, 1000 * day, 0, 0},
		{"requests", history.Kept{Requests: 400 * day}, 1000 * day, 400 * day, 400 * day},
		{"args", history.Kept{Requests: 400 * day, Args: 90 * day}, 1000 * day, 400 * day, 90 * day},
		{"pushes", history.Kept{Requests: 400 * day, Pushes: 90 * day}, 1000 * day, 90 * day, 400 * day},
		{"the audit log", history.Kept{Requests: 400 * day, Audit: 30 * day}, 1000 * day, 30 * day, 30 * day},
		{"asked for less", history.Kept{Requests: 400 * day, Args: 90 * day, Pushes: 90 * day}, 90 * day, 0, 0},
		{"asked for a little more", history.Kept{Args: 90 * day}, 90*day + time.Millisecond, 0, 90 * day},
	} {
		since := now.Add(-c.since)
		for what, x := range map[string]struct {
			got  time.Time
			want time.Duration
		}{
			"statistics": {c.kept.StatsSince(r, since), c.stats}, "calls": {c.kept.CallsSince(r, since), c.calls},
		} {
			if x.want == 0 && !x.got.IsZero() || x.want > 0 && !x.got.Equal(now.Add(-x.want)) {
				t.Errorf("%s: %s are known since %s, want %s ago", c.name, what, x.got, x.want)
			}
		}
	}
}
