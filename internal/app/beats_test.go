package app_test

import (
	"regexp"
	"strings"
	"testing"

	"countersign/client"
)

// The heartbeat's last run is told to admins, and to nobody else, wherever they ask how things are.
func TestAdminsSeeTheHeartbeatsLastRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	beat := func() client.Beat {
		t.Helper()
		page, err := w.hana.Notifications(w.ctx, client.NotificationQuery{})
		if err != nil || len(page.Heartbeat) != 1 || page.Heartbeat[0].Entry != "check_pending_approvals" {
			t.Fatalf("the heartbeat: %+v, %v", page.Heartbeat, err)
		}
		return page.Heartbeat[0]
	}
	if b := beat(); b.At == nil &&
		(b.Result != "" || b.Counts != nil) { // it may have run: the table goes by the machine's clock
		t.Errorf("before the first run: %+v", b)
	}
	w.stop()

	w = newWorld(t, replacing("policy:\n", `heartbeat:
  - {task: check_pending_approvals, schedule: "@every 1s", params: {remind_after: 1s, max_reminders: 1}}
policy:
`), replacing("roles: [approver], slack: U03KEN", "roles: [approver], locale: th, slack: U03KEN"))
	w.expect(transfer(2000), client.AnswerPending)
	w.eventually("a run reminded of what waits", func() bool {
		return strings.Contains(w.log.String(), "Approvals: 1 pending, 0 expired, 1 re-notified")
	})
	w.eventually("a later one moved nothing", func() bool { return beat().Counts.ReNotified == 0 })
	if b := beat(); b.At == nil || b.Result != "ok" || b.Counts.Pending != 1 || b.Counts.Expired != 0 {
		t.Errorf("the last run: %+v, %+v", b, b.Counts)
	}
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "status", ""))
	w.told(": 1 waiting, 0 expired, 0 reminded")
	w.ok(w.chat.Slack.Type(w.ctx, "ken", "status", ""))
	if err := w.chat.WaitFor(w.ctx, func() bool {
		return len(w.chat.Slack.Messages(w.chat.Slack.DM("ken"))) > 0
	}); err != nil {
		t.Fatal("ken is told nothing")
	}
	for _, m := range w.chat.Slack.Messages(w.chat.Slack.DM("ken")) {
		if text := m.Text + string(m.Blocks); strings.Contains(text, "งานประจำ") || strings.Contains(text, "reminded") {
			t.Errorf("who is no admin is told of the heartbeat: %s", text)
		}
	}
	// Of the runs that moved nothing no line is written where nobody debugs.
	if n := len(regexp.MustCompile(`level=INFO msg="?Approvals: `).FindAllString(w.log.String(), -1)); n != 1 {
		t.Errorf("%d lines of runs, want 1", n)
	}
	if _, err := w.bot.Notifications(w.ctx, client.NotificationQuery{}); err == nil {
		t.Error("an agent reads the notification log")
	}
}
