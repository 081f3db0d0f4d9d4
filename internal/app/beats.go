package app

import (
	"strconv"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/locale"
)

// beats is what the notification log tells of the heartbeat.
func (a *App) beats() []client.Beat {
	var out []client.Beat
	for _, entry := range a.heartbeat.Enabled() {
		b := client.Beat{Entry: entry}
		if r, ok := a.heartbeat.Last(entry); ok {
			b.At, b.Result = &r.At, outcome(r.Err)
			b.Counts = &client.BeatCounts{Pending: r.Counts.Pending, Expired: r.Counts.Expired, ReNotified: r.Counts.Reminded,
				Retried: r.Counts.Retried, Unknown: r.Counts.Unknown}
		}
		out = append(out, b)
	}
	return out
}

// beatStatus is what the typed word "status" tells an admin of the heartbeat.
func (a *App) beatStatus(to approval.Actor) []string {
	l, reader := locale.Get(to.Locale), a.reader(to)
	var lines []string
	for _, entry := range a.heartbeat.Enabled() {
		r, ok := a.heartbeat.Last(entry)
		switch {
		case !ok:
			lines = append(lines, l.Say("status_beat_none"))
		case r.Err != nil:
			lines = append(lines, l.Say("status_beat_failed", "time", l.When(r.At, reader)))
		default:
			lines = append(lines, l.Say("status_beat", "time", l.When(r.At, reader), "pending", strconv.Itoa(r.Counts.Pending),
				"expired", strconv.Itoa(r.Counts.Expired), "reminded", strconv.Itoa(r.Counts.Reminded)))
		}
	}
	return lines
}
