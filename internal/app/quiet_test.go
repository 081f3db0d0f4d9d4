package app

import (
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/config"
)

func TestQuietHoursAreThoseOfWhoReadsAtAnAddress(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) { return "a-value-that-is-long-enough-" + name, true }
	cfg, _, err := config.Parse("test.yaml", []byte(`
time_zone: Asia/Tokyo
people:
  - {name: hana, roles: [approver], slack: U02HANA, token: "${HANA}", quiet_hours: "22:00-07:00"}
  - {name: ken, roles: [approver], slack: U02KEN}
channels:
  slack: {bot_token: "xoxb-${BOT}", signing_secret: "${SLACK}", channel: C0APPROVALS}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	var in inForce
	in.Store(&live{quiet: quietHours(cfg)})
	night := time.Date(2026, 1, 10, 14, 0, 0, 0, time.UTC) // 23:00 in Tokyo
	for _, c := range []struct {
		to   string
		at   time.Time
		want time.Time
	}{
		{"U02HANA", night, night.Add(8 * time.Hour)},
		{"U02HANA", night.Add(8 * time.Hour), time.Time{}},
		{"U02KEN", night, time.Time{}},
		{"C0APPROVALS", night, time.Time{}},
	} {
		if got := (routing{live: &in}).QuietUntil(approval.Address{Channel: "slack", To: c.to}, c.at); !got.Equal(c.want) {
			t.Errorf("%s at %s is quiet until %s; want %s", c.to, c.at, got, c.want)
		}
	}
}
