package web

import (
	"context"
	"net/http"
	"testing"

	"countersign/approval"
)

// statusOfTests is a program with all kinds of trouble.
func statusOfTests(_ context.Context, viewer approval.Actor) Status {
	return Status{Version: "1.2.3", Ready: true, Pending: 4, Problems: []string{"the MCP server " + nasty + " is down"},
		Told: []string{"told to " + viewer.Name},
		Channels: []ChannelStatus{{Name: "line", Metered: true, Used: 200, Limit: 200, At: begin},
			{Name: "slack", Paused: nasty},
			{Name: "webhook"}},
		Servers: []ServerStatus{{Name: "files", State: "down", Since: begin, Restarts: 3, Why: []string{nasty}},
			{Name: "web", State: "up", Since: begin}},
		Jobs: []JobStatus{{Name: "remind", At: begin, Pending: 4, Reminded: 2}, {Name: "prune", At: begin, Failed: true},
			{Name: "late"}, {Name: "old", At: begin, Removes: true, Removed: 7}},
		Listeners: []ListenerStatus{{Name: "api", Address: "127.0.0.1:8787", Open: 2, Connections: 2048}},
		Store: StoreStatus{Path: "/srv/gate.db", Bytes: 3 << 20, Grows: true, PerDay: 1 << 19, FullIn: 40,
			Restored: true}}
}

func TestStatusForAdmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) { o.Status = statusOfTests })
	w.get("root", "/status").is(http.StatusOK).harmless().has("1.2.3", "&lt;script&gt;", "told to root",
		"200 of 200, as of today 10:00 UTC", "used up", "paused: ",
		"in use", "<td>down</td>", "<td>up</td>", "4 waiting, 0 expired, 2 reminded", "failed; the log says why",
		"7 rows removed or emptied",
		"not since the start", "127.0.0.1:8787", "2 / 2048",
		"/srv/gate.db", "3.0 MiB", "0.5 MiB a day came to it in the last week. If nothing is removed, the disk is full in "+
			"about 40 days.", "the store was older than expected")
}

func TestStatusOfADatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) {
		o.Status = func(context.Context, approval.Actor) Status {
			return Status{Store: StoreStatus{Database: "postgres://db.example.com/gate", Bytes: 3 << 20,
				Programs: "v1.3.0 http://10.0.0.5:8787, v1.2.0 http://10.0.0.6:8787"}}
		}
	})
	w.get("root", "/status").is(http.StatusOK).has("Database", "postgres://db.example.com/gate",
		"3.0 MiB", "v1.3.0 http://10.0.0.5:8787, v1.2.0 http://10.0.0.6:8787").lacks("Backups", "a day came")
}

// Approvers see what a chat tells them, and no more.
func TestStatusForApprovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) { o.Status = statusOfTests })
	w.get("ken", "/status").is(http.StatusOK).has("told to ken", "Calls can be decided.").lacks("/srv/gate.db",
		"127.0.0.1:8787", "script&gt;", "1.2.3", "files")
	w.get("guest", "/status").is(http.StatusForbidden)
	w.get("guest", "/").lacks(`"/status"`)
	w.get("", "/status").is(http.StatusSeeOther)
}

func TestStatusSaysThatNothingCanBeDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *Options) {
		o.Status = func(context.Context, approval.Actor) Status { return Status{} }
	})
	w.get("root", "/status").has("No call can be decided now.", `role="alert"`,
		"No channel is configured").lacks("Everything works")
	w.get("som", "/status").has("ขณะนี้ระบบยังไม่พร้อมทำงาน")
}
