package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/auth"
	"countersign/internal/history/export"
	"countersign/internal/lists"
)

// Notifications is the notification log: the package outbox.
type Notifications interface {
	// Search returns the q.Limit newest that q selects among the look newest that are there.
	Search(ctx context.Context, q approval.NotificationQuery, look int) (lists.Found[approval.Notification], error)
	// Retry has a failed notification sent again.
	Retry(ctx context.Context, by approval.Actor, id string) (approval.Notification, error)
}

const (
	pathHistory       = "/history"
	pathAudit         = "/audit"
	pathNotifications = "/notifications"
)

// recordPages are the logs: requests, events and notifications, with their exports.
type recordPages struct {
	gate          *approval.Gate
	directory     *auth.Directory
	notifications Notifications
	exports       *exports
}

func (p *recordPages) routes() []route {
	return []route{
		{method: http.MethodGet, path: pathHistory, audience: approvers, handle: p.showHistory},
		{method: http.MethodGet, path: pathHistory + "/export", audience: approvers, handle: p.exportHistory, stream: true},
		{method: http.MethodGet, path: pathAudit, audience: admins, handle: p.showAudit},
		{method: http.MethodGet, path: pathAudit + "/export", audience: admins, handle: p.exportAudit, stream: true},
		{method: http.MethodGet, path: pathNotifications, audience: admins, handle: p.showPushes},
		{method: http.MethodGet, path: pathNotifications + "/export", audience: admins, handle: p.exportPushes, stream: true},
		{method: http.MethodPost, path: pathNotifications + "/{id}/retry", audience: admins, handle: p.retryPush},
	}
}

// found is what the pages of records show: the form, and what was found with it.
type found struct {
	*filters
	Path  string
	Here  string // address of this page
	Rows  any
	Some  bool
	Short bool   // not all were looked at
	Next  string // address of the next page; ""
	First string // address of the newest, where this is not the first page
	CSV   string
	JSON  string
}

// show answers with the page of a search, or with what is wrong with the filters.
func show[R, S any](x *exchange, page, path string, f *filters, r lists.Found[R], shown func(R) S) error {
	d := found{filters: f, Path: path, Some: len(r.Rows) > 0, Short: r.Short,
		CSV:  f.address(path+"/export", "format", string(export.CSV)),
		JSON: f.address(path+"/export", "format", string(export.NDJSON))}
	if d.Here = f.address(path); f.Cursor != "" {
		d.First, d.Here = d.Here, f.address(path, "after", f.Cursor)
	}
	rows := make([]S, len(r.Rows))
	for i := range r.Rows {
		rows[i] = shown(r.Rows[i])
	}
	d.Rows = rows
	if r.Next != "" {
		d.Next = f.address(path, "after", r.Next)
	}
	return x.Page(page, "frame_"+page, d)
}

// wrong answers with the form as it was filled in, and what is wrong with it.
func wrong(x *exchange, page, path string, f *filters) error {
	return x.page(http.StatusBadRequest, page, x.lang.Say("frame_"+page), found{filters: f, Path: path})
}

// shownText is a text of anybody's as a row shows it.
func shownText(s string) string { return legible.Cut(legible.Line(s), maxCell) }

// historyQuery reads what is looked for among the requests.
func historyQuery(f *filters) approval.RequestQuery {
	q := approval.RequestQuery{Tool: f.tool(), Agent: f.agent(), Person: f.words("person"),
		Risk: one(f, "risk", "risk_", approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical),
		Status: one(f, "status", "history_status_", approval.Pending, approval.Approved, approval.Denied,
			approval.Expired, approval.Cancelled),
		Text: f.words("text"), CorrelationID: f.words("correlation")}
	q.Since, q.Until = f.days()
	return q
}

// historyRow is one request of the history.
type historyRow struct {
	ID, Summary, Target, Agent, Message, By, Reason string
	Status                                          approval.Status
	Risk                                            approval.Risk
	Asked, Ended                                    time.Time
	Used                                            bool
}

// showHistory shows the requests of every state.
func (p *recordPages) showHistory(ctx context.Context, x *exchange) error {
	f := readFilters(x)
	q := historyQuery(f)
	if !f.end(isID) {
		return wrong(x, "history", pathHistory, f)
	}
	q.Limit, q.After = rowsShown, f.Cursor
	r, err := lists.SearchRequests(ctx, p.gate, q, rowsLooked)
	if err != nil {
		return err
	}
	m := x.maker()
	rows, err := lists.ReadRows(ctx, p.gate, r.Rows)
	if err != nil {
		return err
	}
	all := lists.Found[approval.Request]{Rows: rows, Next: r.Next, Short: r.Short}
	return show(x, "history", pathHistory, f, all, func(r approval.Request) historyRow {
		return historyRow{ID: r.ID, Summary: shownText(m.Summary(r)), Target: shownText(r.Target()),
			Agent: shownText(r.Agent), Message: shownText(m.Why(r)), By: shownText(r.WhoEnded()),
			Reason: shownText(r.ResolveReason), Status: r.Status,
			Risk: r.Risk, Asked: r.RequestedAt, Ended: r.ResolvedAt, Used: !r.ConsumedAt.IsZero()}
	})
}

// auditQuery reads what is looked for among the events.
func auditQuery(f *filters) approval.EventQuery {
	q := approval.EventQuery{Type: one(f, "type", "", approval.EventTypes...), Actor: f.words("actor"),
		Decision: one(f, "decision", "", approval.EventDecisions...), Tool: f.tool(), Agent: f.agent(),
		Risk:       one(f, "risk", "risk_", approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical),
		ApprovalID: f.id("request"), CorrelationID: f.words("correlation")}
	q.Since, q.Until = f.days()
	return q
}

// auditRow is one event.
type auditRow struct {
	Seq                                        int64
	At                                         time.Time
	Type, Actor, Agent, Tool, Decision, Reason string
	Risk                                       approval.Risk
	Request, Correlation, Data                 string
}

// maxData is how much of an event's data a page shows; the export has all of it.
const maxData = 8000

// shownData is an event's data, a member on each line.
func shownData(data []byte) string {
	var b bytes.Buffer
	if len(data) == 0 || json.Indent(&b, data, "", "  ") != nil {
		return ""
	}
	return legible.Cut(legible.Lines(b.String()), maxData)
}

// isSeq reports whether a text has the form of a seq.
func isSeq(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n > 0
}

// showAudit shows the audit log.
func (p *recordPages) showAudit(ctx context.Context, x *exchange) error {
	f := readFilters(x)
	q := auditQuery(f)
	if !f.end(isSeq) {
		return wrong(x, "audit", pathAudit, f)
	}
	q.Limit = rowsShown
	q.Before, _ = strconv.ParseInt(f.Cursor, 10, 64) // 0, where there is none: the newest
	r, err := lists.SearchAudit(ctx, p.gate, q, rowsLooked)
	if err != nil {
		return err
	}
	return show(x, "audit", pathAudit, f, r, func(e approval.Event) auditRow {
		return auditRow{Seq: e.Seq, At: e.At, Type: string(e.Type), Actor: shownText(e.Actor), Agent: shownText(e.Agent),
			Tool: shownText(e.Tool), Risk: e.Risk, Decision: shownText(e.Decision), Reason: shownText(e.Reason),
			Request: e.ApprovalID, Correlation: shownText(e.CorrelationID), Data: shownData(e.Data)}
	})
}

// pushesQuery reads what is looked for among the notifications.
func (p *recordPages) pushesQuery(f *filters) approval.NotificationQuery {
	q := approval.NotificationQuery{
		Status: one(f, "status", "pushes_status_", approval.Queued, approval.Retrying, approval.Sent, approval.Delivered,
			approval.Failed, approval.Skipped),
		Channel: f.readTyped("channel", approval.ValidName),
		Kind: one(f, "kind", "pushes_kind_", approval.KindRequest, approval.KindReminder, approval.KindEdit,
			approval.KindReply)}
	f.add(filter{Name: "person", Type: "text"}, "history_wrong_person", func(v string) bool {
		q.Addresses = addressesOf(p.directory, v)
		return len(q.Addresses) > 0
	})
	q.Since, q.Until = f.days()
	return q
}

// addressesOf returns where a person is reached.
func addressesOf(d *auth.Directory, name string) (all []approval.Address) {
	for _, p := range d.People() {
		if p.Name != name {
			continue
		}
		for channel, to := range p.Addresses {
			all = append(all, approval.Address{Channel: channel, To: to})
		}
	}
	return all
}

// pushRow is one notification.
type pushRow struct {
	ID, Request, Channel, To, Error string
	Kind                            approval.NotificationKind
	Status                          approval.NotificationStatus
	Attempts                        int
	Made, Sent, Next                time.Time // Next: only of one that waits
	Failed                          bool
}

// showPushes shows the notification log.
func (p *recordPages) showPushes(ctx context.Context, x *exchange) error {
	f := readFilters(x)
	q := p.pushesQuery(f)
	if !f.end(isID) {
		return wrong(x, "notifications", pathNotifications, f)
	}
	q.Limit, q.After = rowsShown, f.Cursor
	r, err := p.notifications.Search(ctx, q, rowsLooked)
	if err != nil {
		return err
	}
	return show(x, "notifications", pathNotifications, f, r, func(n approval.Notification) pushRow {
		row := pushRow{ID: n.ID, Request: n.ApprovalID, Channel: shownText(n.Channel), To: shownText(n.Recipient),
			Error: shownText(n.Error), Kind: n.Kind, Status: n.Status, Attempts: n.Attempt, Made: n.CreatedAt,
			Sent: n.SentAt, Failed: n.Status == approval.Failed}
		if who, ok := p.directory.ByChat(n.Channel, n.Recipient); ok {
			row.To = shownText(who.Name) + " (" + row.To + ")"
		}
		if n.Status == approval.Queued || n.Status == approval.Retrying {
			row.Next = n.NextAttemptAt
		}
		return row
	})
}

// retryPush has a failed notification sent again, and says what came of it where the viewer came from.
func (p *recordPages) retryPush(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	n, err := p.notifications.Retry(ctx, x.viewer.Actor, x.r.PathValue("id"))
	switch {
	case err == nil:
		x.Note("pushes_retried", "channel", n.Channel, "to", shownText(n.Recipient))
	case approval.CodeOf(err) == approval.CodeNotFailed:
		x.Refuse("pushes_not_failed", "status", x.lang.Say("pushes_status_"+string(n.Status)))
	default:
		return err
	}
	x.Redirect(cmp.Or(form.Get("back"), pathNotifications))
	return nil
}
