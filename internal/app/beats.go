package app

import (
	"strconv"

	"countersign/approval"
	"countersign/client"
	"countersign/heartbeat"
	"countersign/internal/locale"
)

// beats is what the notification log tells of the heartbeat.
func beats(of *heartbeat.Heartbeat) []client.Beat {
	var out []client.Beat
	for _, entry := range of.Enabled() {
		b := client.Beat{Entry: entry}
		if r, ok := of.Last(entry); ok {
			b.At, b.Result = &r.At, outcome(r.Err)
			b.Counts = &client.BeatCounts{Pending: r.Counts.Pending, Expired: r.Counts.Expired, ReNotified: r.Counts.Reminded,
				Retried: r.Counts.Retried, Unknown: r.Counts.Unknown, Removed: r.Counts.Removed}
		}
		out = append(out, b)
	}
	return out
}

// beatStatus is what the typed word "status" tells an admin of the heartbeat.
func beatStatus(of *heartbeat.Heartbeat, to approval.Actor, reads locale.Reader) []string {
	l := locale.Get(to.Locale)
	var lines []string
	for _, entry := range of.Enabled() {
		r, ok := of.Last(entry)
		switch {
		case entry != heartbeat.CheckPendingApprovals && (!ok || r.Err == nil): // it asks nobody; that it fails is told
		case !ok:
			lines = append(lines, l.Say("status_beat_none"))
		case r.Err != nil:
			lines = append(lines, l.Say("status_beat_failed", "time", l.When(r.At, reads)))
		default:
			lines = append(lines, l.Say("status_beat", "time", l.When(r.At, reads), "pending", strconv.Itoa(r.Counts.Pending),
				"expired", strconv.Itoa(r.Counts.Expired), "reminded", strconv.Itoa(r.Counts.Reminded)))
		}
	}
	return lines
}
