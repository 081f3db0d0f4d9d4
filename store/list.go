package store

import (
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/store/sqlite3"
)

// list puts a SELECT together out of the conditions that a query has set. Values are parameters, so
// that there are few texts, each prepared once.
type list struct {
	sql  strings.Builder
	args []any // string, int64 or time.Time
	ands int
}

func newList(sql string) *list {
	l := &list{}
	l.sql.WriteString(sql)
	return l
}

// where adds a condition; each ? in it stands for the next of args.
func (l *list) where(cond string, args ...any) {
	if l.ands == 0 {
		l.sql.WriteString(" WHERE ")
	} else {
		l.sql.WriteString(" AND ")
	}
	l.ands++
	l.add(cond, args...)
}

func (l *list) add(text string, args ...any) {
	for _, a := range args {
		before, after, _ := strings.Cut(text, "?")
		l.args = append(l.args, a)
		l.sql.WriteString(before + "$" + strconv.Itoa(len(l.args)))
		text = after
	}
	l.sql.WriteString(text)
}

// equal adds a condition unless the value is empty.
func (l *list) equal(column, value string) {
	if value != "" {
		l.where(column+" = ?", value)
	}
}

func (l *list) bind(c *sqlite3.Conn) *sqlite3.Stmt {
	s := c.Cached(l.sql.String())
	for _, a := range l.args {
		switch v := a.(type) {
		case string:
			s.BindText(v)
		case int64:
			s.BindInt(v)
		case time.Time:
			s.BindTime(v)
		}
	}
	return s
}

func (t *tx) Requests(q approval.RequestQuery) ([]approval.Request, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return page(t, requestList(selectColumns, q).bind(t.c), q.Limit, q.Bytes, scanRequest)
}

func (t *tx) Heads(q approval.RequestQuery) ([]approval.Head, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return page(t, requestList(headColumns, q).bind(t.c), q.Limit, q.Bytes, scanHead)
}

func requestList(columns string, q approval.RequestQuery) *list {
	every := `SELECT ` + columns + ` FROM approval_requests`
	l, end := newList(every), " ORDER BY id DESC"
	if q.Status == approval.Pending {
		// Few are pending: their ids are sorted, rather than looked for among all.
		l, end = newList(every+` WHERE id IN (SELECT id FROM approval_requests`), ` ORDER BY id || '' DESC`
		l.where(`status = 'pending'`)
	} else {
		l.equal("status", string(q.Status))
	}
	if server, tool, ok := strings.Cut(q.Tool, "/"); ok {
		l.where("server = ? AND tool_name = ?", server, tool)
	} else {
		l.equal("tool_name", q.Tool)
	}
	l.equal("agent", q.Agent)
	l.equal("risk_level", string(q.Risk))
	if q.After != "" {
		l.where("id < ?", q.After)
	}
	l.add(end)
	if q.Status == approval.Pending {
		if q.Limit > 0 {
			l.add(" LIMIT ?", int64(q.Limit))
		}
		l.add(") ORDER BY id DESC")
	}
	return l
}

func (t *tx) Notifications(q approval.NotificationQuery) ([]approval.Notification, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	columns, scan := notificationColumns, scanNotification
	if q.Narrow {
		columns, scan = narrowColumns, scanNarrow
	}
	l := newList(`SELECT ` + columns + ` FROM approval_notifications`)
	order := "id"
	switch {
	case q.ApprovalID != "" && q.BatchID != "":
		l.where("(approval_id = ? OR batch_id = ?)", q.ApprovalID, q.BatchID)
		order = `id || ''`
	case q.ApprovalID != "":
		l.where("approval_id = ?", q.ApprovalID)
		order = `id || ''`
	case q.BatchID != "":
		l.where("batch_id = ?", q.BatchID)
		order = `id || ''`
	case q.MessageID != "":
		order = `id || ''`
	}
	l.equal("message_id", q.MessageID)
	l.equal("status", string(q.Status))
	l.equal("channel", q.Channel)
	l.equal("recipient", q.Recipient)
	if q.Kind == approval.KindReply {
		l.where("kind = 'reply'") // as the index has it
	} else {
		l.equal("kind", string(q.Kind))
	}
	if q.Several {
		l.where("(kind = 'reply' OR batch_id IS NOT NULL)")
	}
	if q.After != "" {
		l.where("id < ?", q.After)
	}
	if !q.Since.IsZero() {
		l.where("created_at >= ?", q.Since)
		l.where("id >= ?", firstID(q.Since)) // an id begins with its time: what is older need not be read
	}
	l.add(" ORDER BY " + order + " DESC")
	return page(t, l.bind(t.c), q.Limit, q.Bytes, scan)
}

func (t *tx) Events(q approval.EventQuery) ([]approval.Event, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	from, to := q.AfterSeq+1, q.Before // to is exclusive, 0: the end
	if !q.Since.IsZero() {
		seq, err := t.firstAt(ceil(q.Since))
		if err != nil {
			return nil, err
		}
		from = max(from, seq)
	}
	if !q.Until.IsZero() {
		seq, err := t.firstAt(ceil(q.Until))
		if err != nil {
			return nil, err
		}
		if to == 0 || seq < to {
			to = seq
		}
	}
	l := newList(`SELECT ` + eventColumns + ` FROM audit_events`)
	l.where("seq >= ?", from)
	if to != 0 {
		l.where("seq < ?", to)
	}
	if q.Type != "" {
		l.where("event_type = ?", string(q.Type))
		switch q.Type {
		case approval.EventCallAllowed, approval.EventApprovalRequested, approval.EventNotificationSent:
		default:
			l.where(`event_type <> 'call_allowed' AND event_type <> 'approval_requested' AND event_type <> 'notification_sent'`) // as the index has it
		}
	}
	l.equal("decision", q.Decision)
	l.equal("risk_level", string(q.Risk))
	l.equal("tool", q.Tool)
	l.equal("agent", q.Agent)
	if q.Told {
		l.where(`event_type <> 'call_allowed' AND event_type <> 'call_denied' AND event_type <> 'notification_sent' AND event_type <> 'notification_retrying' AND event_type <> 'notification_failed'`) // as the index has it
	}
	l.add(" ORDER BY seq")
	if !q.Ascending {
		l.add(" DESC")
	}
	return page(t, l.bind(t.c), q.Limit, q.Bytes, scanEvent)
}

// ceil rounds up to the milliseconds that are stored.
func ceil(t time.Time) time.Time {
	if ms := t.Truncate(time.Millisecond); ms.Before(t) {
		return ms.Add(time.Millisecond)
	}
	return t
}

// firstAt returns the seq of the first event at or after a time, one more than the newest if there is
// none. Both grow together, so it is found by bisection and no index on the time is needed.
func (t *tx) firstAt(at time.Time) (int64, error) {
	oldest, newest, err := t.SeqRange()
	if err != nil {
		return 0, err
	}
	type row struct {
		seq int64
		at  time.Time
	}
	if newest == 0 {
		return 1, nil
	}
	lo, hi := oldest, newest+1 // the answer lies in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		r, err := one(t, t.c.Stmt(eventTime).BindInt(mid), func(s *sqlite3.Stmt) row { return row{s.ColumnInt(), s.ColumnTime()} })
		if err != nil {
			return 0, err
		}
		if r.at.Before(at) {
			lo = r.seq + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}
