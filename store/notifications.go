package store

import (
	"strings"
	"time"

	"countersign/approval"
	"countersign/store/sqlite3"
)

const notificationColumns = `id, approval_id, batch_id, channel, recipient, kind, status, attempt,
  next_attempt_at, lease_until, created_at, updated_at, first_try_at, sent_at, message_id, http_status, target_id, retry_key, revived,
  error, reply_to, cards, text, note, part, more, receipt, body`

// narrowColumns are the same in number and order, without the body.
var narrowColumns = strings.TrimSuffix(notificationColumns, "body") + "NULL"

// waitingColumns are what says when and where a notification is to be sent: they all stand before what is large.
const waitingColumns = `id, approval_id, batch_id, channel, recipient, kind, status, attempt, next_attempt_at, lease_until, created_at, updated_at, target_id`

func (t *tx) InsertNotification(n approval.Notification) error {
	if err := t.writable(); err != nil {
		return err
	}
	n.Narrow = false
	s := t.c.Stmt(insertNotification)
	s.BindText(n.ID).BindOptText(n.ApprovalID).BindOptText(n.BatchID).BindText(n.Channel).BindText(n.Recipient).BindText(string(n.Kind)).BindText(string(n.Status)).BindInt(int64(n.Attempt))
	s.BindTime(n.NextAttemptAt).BindTime(n.LeaseUntil).BindTime(n.CreatedAt)
	bindState(s, n)
	if _, err := t.changed(s); err != nil {
		return err
	}
	if waits(n.Status) {
		t.w.summary.Queued = append(t.w.summary.Queued, n.ID)
	}
	return nil
}

// bindState binds the columns from updated_at to the last.
func bindState(s *sqlite3.Stmt, n approval.Notification) {
	cards, err := encode(n.Cards, len(n.Cards) > 0)
	if err != nil {
		s.Fail(err)
	}
	s.BindTime(n.UpdatedAt).BindTime(n.FirstTryAt).BindTime(n.SentAt).BindOptText(n.MessageID)
	s.BindOptInt(int64(n.HTTPStatus))
	s.BindOptText(n.TargetID).BindOptText(n.RetryKey).BindBool(n.Revived).BindOptText(n.Error).BindOptText(n.ReplyTo).BindOptTextBytes(cards).BindOptText(n.Text).BindOptText(string(n.Note)).BindInt(int64(n.Part)).BindBool(n.More).BindOptTextBytes(n.Receipt)
	if !n.Narrow {
		s.BindOptBlob(n.Body)
	}
}

// waits reports whether a notification of this status is still to be sent.
func waits(s approval.NotificationStatus) bool { return s == approval.Queued || s == approval.Retrying }

func scanNotification(s *sqlite3.Stmt) (n approval.Notification) {
	n.ID, n.ApprovalID, n.BatchID, n.Channel, n.Recipient = s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText()
	n.Kind, n.Status, n.Attempt = approval.NotificationKind(s.ColumnText()), approval.NotificationStatus(s.ColumnText()), int(s.ColumnInt())
	n.NextAttemptAt, n.LeaseUntil, n.CreatedAt, n.UpdatedAt = s.ColumnTime(), s.ColumnTime(), s.ColumnTime(), s.ColumnTime()
	n.FirstTryAt, n.SentAt, n.MessageID, n.HTTPStatus = s.ColumnTime(), s.ColumnTime(), s.ColumnText(), int(s.ColumnInt())
	n.TargetID, n.RetryKey, n.Revived = s.ColumnText(), s.ColumnText(), s.ColumnBool()
	n.Error, n.ReplyTo = s.ColumnText(), s.ColumnText()
	scanJSON(s, &n.Cards)
	n.Text, n.Note, n.Part, n.More = s.ColumnText(), approval.Note(s.ColumnText()), int(s.ColumnInt()), s.ColumnBool()
	n.Receipt, n.Body = s.ColumnBytes(), s.ColumnBytes()
	return n
}

func scanWaiting(s *sqlite3.Stmt) (n approval.Notification) {
	n.ID, n.ApprovalID, n.BatchID, n.Channel, n.Recipient = s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText(), s.ColumnText()
	n.Kind, n.Status, n.Attempt = approval.NotificationKind(s.ColumnText()), approval.NotificationStatus(s.ColumnText()), int(s.ColumnInt())
	n.NextAttemptAt, n.LeaseUntil, n.CreatedAt, n.UpdatedAt, n.TargetID = s.ColumnTime(), s.ColumnTime(), s.ColumnTime(), s.ColumnTime(), s.ColumnText()
	n.Narrow = true
	return n
}

func (t *tx) Waiting(id string) (approval.Notification, error) {
	if err := t.readable(); err != nil {
		return approval.Notification{}, err
	}
	return one(t, t.c.Stmt(selectQueued).BindText(id), scanWaiting)
}

func scanNarrow(s *sqlite3.Stmt) approval.Notification {
	n := scanNotification(s)
	n.Narrow = true
	return n
}

func (t *tx) Notification(id string) (approval.Notification, error) {
	if err := t.readable(); err != nil {
		return approval.Notification{}, err
	}
	return one(t, t.c.Stmt(selectNotification).BindText(id), scanNotification)
}

func (t *tx) UpdateNotification(n approval.Notification, status approval.NotificationStatus, attempt int) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	q := updateNotification
	if n.Narrow {
		q = updateNarrow
	}
	s := t.c.Stmt(q).BindText(string(n.Status)).BindInt(int64(n.Attempt)).BindTime(n.NextAttemptAt).BindTime(n.LeaseUntil)
	bindState(s, n)
	ok, err := t.changed(s.BindText(n.ID).BindText(string(status)).BindInt(int64(attempt)))
	if ok && waits(n.Status) && !n.LeaseUntil.After(t.at) && (!waits(status) || !n.NextAttemptAt.After(t.at)) {
		t.w.summary.Queued = append(t.w.summary.Queued, n.ID)
	}
	return ok, err
}

func (t *tx) SetDead(a approval.Address, dead bool, at time.Time) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	was, err := t.Dead(a)
	if err != nil {
		return false, err
	}
	if ok, err := t.changed(t.c.Stmt(putAddress).BindText(a.Channel).BindText(a.To).BindBool(dead).BindTime(at)); err != nil || !ok {
		return false, err
	}
	is, err := t.Dead(a)
	return is != was, err
}

func (t *tx) Dead(a approval.Address) (bool, error) {
	if err := t.readable(); err != nil {
		return false, err
	}
	rows, err := all(t, t.c.Stmt(selectDead).BindText(a.Channel).BindText(a.To), 1, func(s *sqlite3.Stmt) int64 { return s.ColumnInt() })
	return len(rows) > 0, err
}

func (t *tx) Sendable(limit int) ([]approval.Notification, error) {
	now := t.Now()
	if err := t.readable(); err != nil {
		return nil, err
	}
	s := t.c.Stmt(selectSendable).BindTime(now)
	var ns []approval.Notification
	taken := map[string]bool{} // targets of the outcomes among ns: whoever takes these takes them at once
	for (limit <= 0 || len(ns) < limit) && s.Step() {
		n := scanWaiting(s)
		if n.Kind == approval.KindEdit && n.TargetID != "" {
			if taken[n.TargetID] {
				continue
			}
			taken[n.TargetID] = true
		}
		ns = append(ns, n)
	}
	if _, err := s.Finish(); err != nil {
		return nil, t.fail(err)
	}
	return ns, nil
}

func (t *tx) NextSendable() (time.Time, error) {
	if err := t.readable(); err != nil {
		return time.Time{}, err
	}
	s := t.c.Stmt(selectWaiting)
	var next time.Time
	for s.Step() {
		at, lease := s.ColumnTime(), s.ColumnTime()
		if !next.IsZero() && !at.Before(next) {
			break // and so are all that follow
		}
		if lease.After(at) {
			at = lease
		}
		next = earliest(next, at)
	}
	if _, err := s.Finish(); err != nil {
		return time.Time{}, t.fail(err)
	}
	return next, nil
}
