package web

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/retention"
)

// Status is how the program is doing.
type Status struct {
	Version  string
	Ready    bool // calls can be decided
	Pending  int  // requests that wait
	Problems []string
	// Told is what the typed word "status" tells the viewer.
	Told      []string
	Channels  []ChannelStatus
	Servers   []ServerStatus
	Jobs      []JobStatus
	Listeners []ListenerStatus
	Store     StoreStatus
}

// ChannelStatus is that of a channel of the configuration.
type ChannelStatus struct {
	Name, Paused string // why it is paused, "" where it is not
	Metered      bool   // the platform has said how many messages were sent this month
	Used         int
	Limit        int // 0: none
	At           time.Time
}

// ServerStatus is that of an MCP server. State is up, down or starting.
type ServerStatus struct {
	Name, State string
	Since       time.Time
	Restarts    int
	Why         []string // it is down, and which tools cannot be offered
}

// JobStatus is what the heartbeat's job did last; the zero At is not yet.
type JobStatus struct {
	Name                                string
	At                                  time.Time
	Failed                              bool
	Pending, Expired, Reminded, Retried int
	Removes                             bool // it removes what was kept long enough, and counts nothing else
	Removed                             int
	Copies                              bool // it copies the store, and counts nothing
}

// ListenerStatus is what the program listens on.
type ListenerStatus struct {
	Name, Address     string
	Open, Connections int
}

// StoreStatus is that of the store: a file, or a database. Restored says that the file was an older one than was here
// before, at the start.
type StoreStatus struct {
	Path     string
	Database string // its address, without secrets
	Programs string // those on the database
	Bytes    int64
	Grows    bool  // it is known by how much
	PerDay   int64 // bytes, without what is removed
	FullIn   int   // days, after which its disk is full then; 0: that is not known
	Restored bool

	Removes bool               // retention is configured
	Due     *retention.Removed // what it removes soon; nil: that is not known

	Copied       bool      // backups are configured
	BackupAt     time.Time // of the newest; zero: there is none
	BackupBytes  int64
	FailingSince time.Time // none could be made since; zero: the last one was
	Why          string
}

// statusPages are how the program is doing.
type statusPages struct {
	status func(ctx context.Context, viewer approval.Actor) Status // nil: there is no such page
}

func (p *statusPages) routes() []route {
	return []route{{method: http.MethodGet, path: "/status", audience: approvers, handle: p.show}}
}

// statusData is what /status shows. Approvers see what a chat tells them, and admins everything.
type statusData struct {
	Ready          bool
	Problems, Told []string
	Summary        []fact
	Tables         []table
	Store          []fact
	All            bool
}

// table is a list with a heading, which says None where it is empty.
type table struct {
	ID, Title, None string
	Heads           []string
	Rows            [][]string
}

func (p *statusPages) show(ctx context.Context, x *exchange) error {
	if p.status == nil {
		return approval.ErrNotFound
	}
	is := p.status(ctx, x.viewer.Actor)
	d := statusData{Ready: is.Ready, All: x.viewer.Admin, Told: lines(is.Told)}
	if d.All {
		d.Problems = lines(is.Problems)
		d.Summary = []fact{{x.lang.Say("status_pending"), strconv.Itoa(is.Pending)},
			{x.lang.Say("status_version"), legible.Line(cmp.Or(is.Version, "-"))}}
		d.Tables = []table{channelTable(x, is.Channels), serverTable(x, is.Servers), jobTable(x, is.Jobs),
			listenerTable(x, is.Listeners)}
		d.Store = storeFacts(x, &is.Store)
	}
	return x.Page("status", "status_title", d)
}

func lines(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = legible.Line(s)
	}
	return out
}

// table starts a list: its title and heads are ids.
func (x *exchange) table(id string, heads ...string) table {
	t := table{ID: id, Title: x.lang.Say("status_" + id), None: x.lang.Say("status_no_" + id)}
	for _, h := range heads {
		t.Heads = append(t.Heads, x.lang.Say("status_"+h))
	}
	return t
}

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, lines(cells)) }

func channelTable(x *exchange, cs []ChannelStatus) table {
	t := x.table("channels", "channel", "state", "month")
	for _, c := range cs {
		state, quota := x.lang.Say("status_works"), ""
		if c.Metered && c.Limit > 0 && c.Used >= c.Limit {
			state = x.lang.Say("status_used_up")
		}
		if c.Paused != "" {
			state = x.lang.Say("status_held", "why", c.Paused)
		}
		switch {
		case c.Metered && c.Limit > 0:
			quota = x.lang.Say("status_quota_of", "used", strconv.Itoa(c.Used), "limit", strconv.Itoa(c.Limit),
				"time", x.time(c.At))
		case c.Metered:
			quota = x.lang.Say("status_quota_free", "used", strconv.Itoa(c.Used), "time", x.time(c.At))
		}
		t.add(c.Name, state, quota)
	}
	return t
}

func serverTable(x *exchange, ss []ServerStatus) table {
	t := x.table("servers", "server", "state", "since", "restarts", "why")
	for _, one := range ss {
		why := ""
		for _, w := range one.Why {
			why += w + " "
		}
		t.add(one.Name, x.lang.Say("status_server_"+one.State), x.time(one.Since), strconv.Itoa(one.Restarts), why)
	}
	return t
}

func jobTable(x *exchange, js []JobStatus) table {
	t := x.table("jobs", "job", "last", "result")
	for _, j := range js {
		switch {
		case j.At.IsZero():
			t.add(j.Name, x.lang.Say("status_never"), "")
		case j.Failed:
			t.add(j.Name, x.time(j.At), x.lang.Say("status_failed"))
		case j.Copies:
			t.add(j.Name, x.time(j.At), x.lang.Say("status_done"))
		case j.Removes:
			t.add(j.Name, x.time(j.At), x.lang.Say("status_removed", "removed", strconv.Itoa(j.Removed)))
		default:
			t.add(j.Name, x.time(j.At), x.lang.Say("status_counts", "pending", strconv.Itoa(j.Pending),
				"expired", strconv.Itoa(j.Expired), "reminded", strconv.Itoa(j.Reminded), "retried", strconv.Itoa(j.Retried)))
		}
	}
	return t
}

func listenerTable(x *exchange, ls []ListenerStatus) table {
	t := x.table("listeners", "listener", "address", "connections")
	for _, l := range ls {
		t.add(l.Name, l.Address, strconv.Itoa(l.Open)+" / "+strconv.Itoa(l.Connections))
	}
	return t
}

func storeFacts(x *exchange, st *StoreStatus) []fact {
	const mib = 1 << 20
	restored := "status_not_restored"
	if st.Restored {
		restored = "status_restored"
	}
	size := strconv.FormatFloat(float64(st.Bytes)/mib, 'f', 1, 64)
	sizes := []fact{{x.lang.Say("status_size"), x.lang.Say("status_mib", "size", size)}}
	if st.Grows {
		grows := x.lang.Say("status_mib_a_day", "size", strconv.FormatFloat(float64(st.PerDay)/mib, 'f', 1, 64))
		if st.FullIn > 0 {
			grows += " " + x.lang.Say("status_full_in", "days", strconv.Itoa(st.FullIn))
		}
		sizes = append(sizes, fact{x.lang.Say("status_growth"), grows})
	}
	sizes = append(sizes, fact{x.lang.Say("status_retention"), describeRetention(x, st)})
	if st.Database != "" {
		return append([]fact{{x.lang.Say("status_database"), legible.Line(st.Database)},
			{x.lang.Say("status_programs"), legible.Line(st.Programs)}}, sizes...)
	}
	facts := append([]fact{{x.lang.Say("status_file"), legible.Line(st.Path)}}, sizes...)
	return append(facts, fact{x.lang.Say("status_last_backup"), describeBackup(x, st)},
		fact{x.lang.Say("status_restore"), x.lang.Say(restored)})
}

// describeRetention tells what is removed soon.
func describeRetention(x *exchange, st *StoreStatus) string {
	switch {
	case !st.Removes:
		return x.lang.Say("status_retention_unset")
	case st.Due == nil:
		return x.lang.Say("status_retention_unknown")
	}
	n := func(n int) string {
		if n >= retention.DueAtMost {
			return strconv.Itoa(n) + "+"
		}
		return strconv.Itoa(n)
	}
	return x.lang.Say("status_retention_due", "args", n(st.Due.Args), "notifications", n(st.Due.Notifications), "requests",
		n(st.Due.Requests))
}

// describeBackup tells of the newest backup, and that none can be made now.
func describeBackup(x *exchange, st *StoreStatus) string {
	said := ""
	switch {
	case !st.Copied:
		return x.lang.Say("status_backup_unset")
	case st.BackupAt.IsZero():
		said = x.lang.Say("status_backup_none")
	default:
		said = x.lang.Say("status_backup_of", "time", x.time(st.BackupAt), "size",
			strconv.FormatFloat(max(0.1, float64(st.BackupBytes)/(1<<20)), 'f', 1, 64))
	}
	if !st.FailingSince.IsZero() {
		said += " " + x.lang.Say("status_backup_failing", "time", x.time(st.FailingSince), "why", legible.Line(st.Why))
	}
	return said
}
