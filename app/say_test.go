package app

import (
	"testing"
	"time"

	"countersign/approval"
	"countersign/chat/phrases"
)

// What people are told in a chat names the zone of this machine, where nobody has said in which zone they are.
func TestTimesInAZoneThatNobodyConfiguredNameIt(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	a := &App{o: Options{Now: func() time.Time { return now }}}
	local := now.Add(time.Minute).In(time.Local)
	for zone, want := range map[*time.Location]string{tokyo: "today 18:01", time.Local: "today " + local.Format("15:04 MST")} {
		to := approval.Actor{Name: "hana", Zone: zone}
		want = "One more hour: pay can be decided until " + want + "."
		if got := say(to, a.reader(to), phrases.SayExtended, "tool", "pay", "when", now.Add(time.Minute)); got != want {
			t.Errorf("%s: %q, want %q", zone, got, want)
		}
	}
}
