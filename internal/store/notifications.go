package store

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"countersign/approval"
)

func (t notifications) InsertNotification(n approval.Notification) error {
	s := t.write(insertNotification)
	if s.err != nil {
		return s.err
	}
	row := &t.Room().notification
	*row = n
	err := notificationColumns.bind(s, row).put()
	*row = approval.Notification{}
	if err != nil {
		return err
	}
	t.NoteID(n.ID)
	if waits(n.Status) {
		t.noteQueued(n.ID)
	}
	return nil
}

// noteQueued notes that a notification is to be sent.
func (t notifications) noteQueued(id string) {
	c := t.Summary()
	c.Queued = append(c.Queued, id)
}

// waits reports whether a notification of this status is still to be sent.
func waits(s approval.NotificationStatus) bool { return s == approval.Queued || s == approval.Retrying }

func (t notifications) Waiting(id string) (approval.Notification, error) {
	return one(t.read(selectQueued).text(id), scanWaiting)
}

func (t notifications) Notification(id string) (approval.Notification, error) {
	return one(t.read(selectNotification).text(id), notificationColumns.scan)
}

func (t notifications) UpdateNotification(n approval.Notification, status approval.NotificationStatus,
	attempt int) (bool, error) {
	q, changing := updateNotification, changingColumns
	if n.Narrow {
		q, changing = updateNarrow, changingNarrowColumns
	}
	s := t.write(q)
	if s.err != nil {
		return false, s.err
	}
	row := &t.Room().notification
	*row = n
	changing.bind(s, row)
	*row = approval.Notification{}
	ok, err := s.text(n.ID).text(string(status)).number(int64(attempt)).expect()
	if ok && waits(n.Status) && !n.LeaseUntil.After(t.Now()) && (!waits(status) || !n.NextAttemptAt.After(t.Now())) {
		t.noteQueued(n.ID)
	}
	return ok, err
}

func (t notifications) SetDead(a approval.Address, dead bool, at time.Time) (bool, error) {
	was, err := t.Dead(a)
	if err != nil {
		return false, err
	}
	put := t.write(putAddress).text(a.Channel).text(a.To).number(bit(dead)).time(at)
	if ok, err := put.change(); err != nil || !ok {
		return false, err
	}
	is, err := t.Dead(a)
	return is != was, err
}

func (t notifications) Dead(a approval.Address) (bool, error) {
	rows, err := all(t.read(selectDead).text(a.Channel).text(a.To), 1, scanInt)
	return len(rows) > 0, err
}

// ofFew reports whether a query is about a request, a card or a message, of which there are few notifications: these
// are found by what they are about, and put into order then.
func ofFew(q *approval.NotificationQuery) bool {
	return q.ApprovalID != "" || q.BatchID != "" || q.MessageID != ""
}

// notificationsAlong is [requestsAlong] for notifications.
func notificationsAlong(q *approval.NotificationQuery) along {
	switch {
	case ofFew(q):
		return along{}
	case q.Channel != "" && q.Recipient != "" && (q.Several || q.Kind == approval.KindReply):
		return along{"approval_notifications_several",
			"(kind = 'reply' OR batch_id IS NOT NULL) AND channel = ? AND recipient = ?", []any{q.Channel, q.Recipient}}
	case q.Status == approval.Queued, q.Status == approval.Retrying:
		return along{"approval_notifications_sendable", "status IN ('queued', 'retrying')", nil}
	case q.Status == approval.Failed, q.Status == approval.Skipped:
		return along{"approval_notifications_unsent", "status IN ('failed', 'skipped') AND status = ?",
			[]any{string(q.Status)}}
	}
	return along{index: "sqlite_autoindex_approval_notifications_1"} // of the ids
}

func (t notifications) Notifications(q approval.NotificationQuery) ([]approval.Notification, error) {
	names, scan := notificationColumns.names(), notificationColumns.scan
	if q.Narrow {
		names, scan = narrowColumns.names(), scanNarrow
	}
	l := notificationList(names, q)
	if ofFew(&q) && q.Limit <= 0 && q.Bytes <= 0 { // SQLite's own sorting would cost more than reading them
		ns, err := all(t.list(l), 0, scan)
		slices.SortFunc(ns, func(a, b approval.Notification) int { return strings.Compare(b.ID, a.ID) })
		return ns, err
	}
	l.add(" ORDER BY " + notificationOrder(&q) + " DESC")
	return page(t.list(l), q.Limit, q.Bytes, scan)
}

// notificationOrder is by what notifications are listed. Where few are found by what they are about, SQLite must not
// take the index that has them in order.
func notificationOrder(q *approval.NotificationQuery) string {
	if ofFew(q) {
		return `id || ''`
	}
	return "id"
}

func notificationList(columns string, q approval.NotificationQuery) *list {
	l := newListAlong(columns, "approval_notifications", notificationsAlong(&q))
	switch {
	case q.ApprovalID != "" && q.BatchID != "":
		l.where(`(approval_id = ? OR batch_id = ? OR id IN (SELECT notification FROM reminded WHERE request = ?))`,
			q.ApprovalID, q.BatchID, q.ApprovalID)
	case q.ApprovalID != "":
		l.where("(approval_id = ? OR id IN (SELECT notification FROM reminded WHERE request = ?))",
			q.ApprovalID, q.ApprovalID)
	case q.BatchID != "":
		l.where("batch_id = ?", q.BatchID)
	}
	l.equal("message_id", q.MessageID)
	l.equal("status", string(q.Status))
	l.equal("channel", q.Channel)
	l.equal("recipient", q.Recipient)
	l.equal("kind", string(q.Kind))
	if q.Several {
		l.where("(kind = 'reply' OR batch_id IS NOT NULL)")
	}
	if len(q.Addresses) > 0 {
		cond, args := make([]string, len(q.Addresses)), make([]any, 0, 2*len(q.Addresses))
		for i, a := range q.Addresses {
			cond[i], args = "channel = ? AND recipient = ?", append(args, a.Channel, a.To)
		}
		l.where("("+strings.Join(cond, " OR ")+")", args...)
	}
	l.ids(q.From, q.After, q.Since, q.Until)
	l.whereBetween("created_at", q.Since, q.Until)
	return l
}

func (t notifications) NotificationReach(q approval.NotificationQuery, look int) (string, error) {
	if ofFew(&q) {
		return "", nil
	}
	return t.reach(notificationReach(q), look)
}

// notificationReach lists the ids among which a query selects.
func notificationReach(q approval.NotificationQuery) *list {
	l := newListAlong("id", "approval_notifications", notificationsAlong(&q))
	l.ids("", q.After, q.Since, q.Until)
	l.add(" ORDER BY id DESC")
	return l
}

func (t notifications) Pushes(since time.Time, after string, limit int) ([]approval.Push, error) {
	from := ""
	if since = ceil(since); !since.IsZero() {
		from = firstID(since)
	}
	s := t.read(selectPushes).text(from).text(cmp.Or(after, afterIDs))
	return all(s, limit, pushColumns.scan)
}

// afterIDs sorts after every id.
const afterIDs = "~"

func (t notifications) Sendable(limit int) ([]approval.Notification, error) {
	now := t.Now()
	s := t.read(selectSendable).time(now).want(untilEnough)
	var ns []approval.Notification
	taken := map[string]bool{} // targets of the outcomes among ns: a sender that takes these takes them at once
	for (limit <= 0 || len(ns) < limit) && s.next() {
		ns = append(ns, approval.Notification{})
		n := &ns[len(ns)-1]
		scanWaiting(s, n)
		if n.Kind == approval.KindEdit && n.TargetID != "" {
			if taken[n.TargetID] {
				ns = ns[:len(ns)-1]
				continue
			}
			taken[n.TargetID] = true
		}
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	return ns, nil
}

func (t notifications) DueSoon(to approval.Address, until time.Time) ([]approval.Notification, error) {
	now := t.Now()
	s := t.read(selectDueSoon).time(now).time(until).text(to.Channel).text(to.To)
	return all(s, 0, scanWaiting)
}

func (t notifications) NextSendable() (time.Time, error) {
	s := t.read(selectWaiting).want(untilEnough)
	var next time.Time
	for s.next() {
		at, lease := s.ColumnTime(), s.ColumnTime()
		if !next.IsZero() && !at.Before(next) {
			break // and so are all that follow
		}
		if lease.After(at) {
			at = lease
		}
		next = earliest(next, at)
	}
	if err := s.finish(); err != nil {
		return time.Time{}, err
	}
	return next, nil
}
