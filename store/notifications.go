package store

import (
	"strings"
	"time"

	"countersign/approval"
)

const notificationColumns = `id, approval_id, batch_id, channel, recipient, kind, status, attempt,
  next_attempt_at, lease_until, created_at, updated_at, first_try_at, sent_at, message_id, http_status, target_id, retry_key, revived,
  error, reply_to, cards, text, note, part, more, receipt, body`

// narrowColumns are the same in number and order, without the body.
var narrowColumns = strings.TrimSuffix(notificationColumns, "body") + "NULL"

// waitingColumns are what says when and where a notification is to be sent: they all stand before what is large.
const waitingColumns = `id, approval_id, batch_id, channel, recipient, kind, status, attempt, next_attempt_at, lease_until, created_at, updated_at, target_id`

var (
	insertNotification = define(`INSERT INTO approval_notifications (` + notificationColumns + `)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)`)
	selectNotification = define(`SELECT ` + notificationColumns + ` FROM approval_notifications WHERE id = $1`)
	updateNotification = define(`UPDATE approval_notifications SET status = $1, attempt = $2,
  next_attempt_at = $3, lease_until = $4, updated_at = $5, first_try_at = $6, sent_at = $7, message_id = $8, http_status = $9, target_id = $10,
  retry_key = $11, revived = $12, error = $13, reply_to = $14, cards = $15, text = $16, note = $17, part = $18, more = $19, receipt = $20, body = $21
  WHERE id = $22 AND status = $23 AND attempt = $24`)
	updateNarrow = define(`UPDATE approval_notifications SET status = $1, attempt = $2,
  next_attempt_at = $3, lease_until = $4, updated_at = $5, first_try_at = $6, sent_at = $7, message_id = $8, http_status = $9, target_id = $10,
  retry_key = $11, revived = $12, error = $13, reply_to = $14, cards = $15, text = $16, note = $17, part = $18, more = $19, receipt = $20
  WHERE id = $21 AND status = $22 AND attempt = $23`)
	selectQueued   = define(`SELECT ` + waitingColumns + ` FROM approval_notifications WHERE id = $1`)
	selectSendable = define(`SELECT ` + waitingColumns + ` FROM approval_notifications AS n
  WHERE status IN ('queued', 'retrying') AND next_attempt_at <= $1 AND (lease_until IS NULL OR lease_until <= $1)
    AND (kind <> 'outcome' OR target_id IS NULL OR NOT EXISTS (
      SELECT 1 FROM approval_notifications AS other
      WHERE other.target_id = n.target_id AND other.kind = 'outcome' AND other.status IN ('queued', 'retrying') AND other.lease_until > $1))
  ORDER BY next_attempt_at, id`)
	selectWaiting = define(`SELECT next_attempt_at, lease_until FROM approval_notifications
  WHERE status IN ('queued', 'retrying') ORDER BY next_attempt_at`)
)

func (t *tx) InsertNotification(n approval.Notification) error {
	if err := t.write(); err != nil {
		return err
	}
	n.Narrow = false
	s := t.c.stmt(insertNotification)
	s.str(n.ID).opt(n.ApprovalID).opt(n.BatchID).str(n.Channel).str(n.Recipient).str(string(n.Kind)).str(string(n.Status)).int(int64(n.Attempt))
	s.time(n.NextAttemptAt).time(n.LeaseUntil).time(n.CreatedAt)
	if err := bindState(s, n); err != nil {
		return err
	}
	if _, err := t.changed(s); err != nil {
		return err
	}
	if waits(n.Status) {
		t.w.told.Queued = append(t.w.told.Queued, n.ID)
	}
	return nil
}

// bindState binds the columns from updated_at to the last.
func bindState(s *stmt, n approval.Notification) error {
	cards, err := encode(n.Cards, len(n.Cards) > 0)
	if err != nil {
		s.reset()
		return err
	}
	s.time(n.UpdatedAt).time(n.FirstTryAt).time(n.SentAt).opt(n.MessageID)
	if n.HTTPStatus == 0 {
		s.null()
	} else {
		s.int(int64(n.HTTPStatus))
	}
	s.opt(n.TargetID).opt(n.RetryKey).bool(n.Revived).opt(n.Error).opt(n.ReplyTo).json(cards).opt(n.Text).opt(string(n.Note)).int(int64(n.Part)).bool(n.More).json(n.Receipt)
	if !n.Narrow {
		s.blob(n.Body)
	}
	return nil
}

// waits reports whether a notification of this status is still to be sent.
func waits(s approval.NotificationStatus) bool { return s == approval.Queued || s == approval.Retrying }

func scanNotification(s *stmt) (n approval.Notification) {
	n.ID, n.ApprovalID, n.BatchID, n.Channel, n.Recipient = s.getString(), s.getString(), s.getString(), s.getString(), s.getString()
	n.Kind, n.Status, n.Attempt = approval.NotificationKind(s.getString()), approval.NotificationStatus(s.getString()), int(s.getInt())
	n.NextAttemptAt, n.LeaseUntil, n.CreatedAt, n.UpdatedAt = s.getTime(), s.getTime(), s.getTime(), s.getTime()
	n.FirstTryAt, n.SentAt, n.MessageID, n.HTTPStatus = s.getTime(), s.getTime(), s.getString(), int(s.getInt())
	n.TargetID, n.RetryKey, n.Revived = s.getString(), s.getString(), s.getBool()
	n.Error, n.ReplyTo = s.getString(), s.getString()
	scanJSON(s, &n.Cards)
	n.Text, n.Note, n.Part, n.More = s.getString(), approval.Note(s.getString()), int(s.getInt()), s.getBool()
	n.Receipt, n.Body = s.getBytes(), s.getBytes()
	return n
}

func scanWaiting(s *stmt) (n approval.Notification) {
	n.ID, n.ApprovalID, n.BatchID, n.Channel, n.Recipient = s.getString(), s.getString(), s.getString(), s.getString(), s.getString()
	n.Kind, n.Status, n.Attempt = approval.NotificationKind(s.getString()), approval.NotificationStatus(s.getString()), int(s.getInt())
	n.NextAttemptAt, n.LeaseUntil, n.CreatedAt, n.UpdatedAt, n.TargetID = s.getTime(), s.getTime(), s.getTime(), s.getTime(), s.getString()
	n.Narrow = true
	return n
}

func (t *tx) Waiting(id string) (approval.Notification, error) {
	if err := t.ready(); err != nil {
		return approval.Notification{}, err
	}
	return one(t, t.c.stmt(selectQueued).str(id), scanWaiting)
}

func scanNarrow(s *stmt) approval.Notification {
	n := scanNotification(s)
	n.Narrow = true
	return n
}

func (t *tx) Notification(id string) (approval.Notification, error) {
	if err := t.ready(); err != nil {
		return approval.Notification{}, err
	}
	return one(t, t.c.stmt(selectNotification).str(id), scanNotification)
}

func (t *tx) UpdateNotification(n approval.Notification, status approval.NotificationStatus, attempt int) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	q := updateNotification
	if n.Narrow {
		q = updateNarrow
	}
	s := t.c.stmt(q).str(string(n.Status)).int(int64(n.Attempt)).time(n.NextAttemptAt).time(n.LeaseUntil)
	if err := bindState(s, n); err != nil {
		return false, err
	}
	ok, err := t.changed(s.str(n.ID).str(string(status)).int(int64(attempt)))
	if ok && waits(n.Status) && !n.LeaseUntil.After(t.at) && (!waits(status) || !n.NextAttemptAt.After(t.at)) {
		t.w.told.Queued = append(t.w.told.Queued, n.ID)
	}
	return ok, err
}

var (
	putAddress = define(`INSERT INTO addresses (channel, recipient, dead, since) VALUES ($1, $2, $3, $4)
  ON CONFLICT (channel, recipient) DO UPDATE SET dead = excluded.dead, since = excluded.since WHERE addresses.since <= excluded.since`)
	selectDead = define(`SELECT 1 FROM addresses WHERE channel = $1 AND recipient = $2 AND dead = 1`)
)

func (t *tx) SetDead(a approval.Address, dead bool, at time.Time) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	was, err := t.Dead(a)
	if err != nil {
		return false, err
	}
	if ok, err := t.changed(t.c.stmt(putAddress).str(a.Channel).str(a.To).bool(dead).time(at)); err != nil || !ok {
		return false, err
	}
	is, err := t.Dead(a)
	return is != was, err
}

func (t *tx) Dead(a approval.Address) (bool, error) {
	if err := t.ready(); err != nil {
		return false, err
	}
	rows, err := all(t, t.c.stmt(selectDead).str(a.Channel).str(a.To), 1, func(s *stmt) int64 { return s.getInt() })
	return len(rows) > 0, err
}

func (t *tx) Sendable(limit int) ([]approval.Notification, error) {
	now := t.Now()
	if err := t.ready(); err != nil {
		return nil, err
	}
	s := t.c.stmt(selectSendable).time(now)
	var ns []approval.Notification
	taken := map[string]bool{} // targets of the outcomes among ns: whoever takes these takes them at once
	for (limit <= 0 || len(ns) < limit) && s.next() {
		n := scanWaiting(s)
		if n.Kind == approval.KindEdit && n.TargetID != "" {
			if taken[n.TargetID] {
				continue
			}
			taken[n.TargetID] = true
		}
		ns = append(ns, n)
	}
	if _, err := s.done(); err != nil {
		return nil, t.fail(err)
	}
	return ns, nil
}

func (t *tx) NextSendable() (time.Time, error) {
	if err := t.ready(); err != nil {
		return time.Time{}, err
	}
	s := t.c.stmt(selectWaiting)
	var next time.Time
	for s.next() {
		at, lease := s.getTime(), s.getTime()
		if !next.IsZero() && !at.Before(next) {
			break // and so are all that follow
		}
		if lease.After(at) {
			at = lease
		}
		next = earliest(next, at)
	}
	if _, err := s.done(); err != nil {
		return time.Time{}, t.fail(err)
	}
	return next, nil
}
