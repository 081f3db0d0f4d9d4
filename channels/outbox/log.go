package outbox

import (
	"context"
	"errors"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// Notifications lists the notification log, newest first and without bodies, at most [approval.ListBytes] of it.
func (o *Outbox) Notifications(ctx context.Context, q approval.NotificationQuery) ([]approval.Notification, error) {
	if q.Narrow = true; q.Bytes <= 0 || q.Bytes > approval.ListBytes {
		q.Bytes = approval.ListBytes
	}
	ns, err := look(ctx, o, func(w *work) ([]approval.Notification, error) { return w.tx.Notifications(q) })
	for i := range ns {
		ns[i] = o.logByWall(ns[i])
	}
	return ns, err
}

// Notification returns one row of the notification log; [approval.CodeNotFound] if there is none.
func (o *Outbox) Notification(ctx context.Context, id string) (approval.Notification, error) {
	n, err := look(ctx, o, func(w *work) (approval.Notification, error) { return findOne(w.tx, id) })
	return o.logByWall(n), err
}

func findOne(tx approval.Notifications, id string) (approval.Notification, error) {
	n, err := tx.Notification(id)
	if errors.Is(err, approval.ErrNotFound) {
		err = approval.Errorf(approval.CodeNotFound, "No such notification.")
	}
	return n, err
}

// Retry has a failed notification sent again, from the start: same row, new retry key, no attempts
// counted. [approval.CodeNotFound], or [approval.CodeNotFailed] when it has not failed.
func (o *Outbox) Retry(ctx context.Context, by approval.Actor, id string) (approval.Notification, error) {
	about := approval.OfNotification(id)
	n, err := update(ctx, o, about, func(w *work) (approval.Notification, error) {
		n, err := findOne(w.tx, id)
		if err != nil {
			return n, err
		}
		if n.Status != approval.Failed {
			return n, approval.Errorf(approval.CodeNotFailed, "This notification has not failed; it is %s.", n.Status)
		}
		attempt, now := n.Attempt, w.tx.Now()
		n.Status, n.Attempt, n.NextAttemptAt, n.UpdatedAt = approval.Queued, 0, now, now
		n.RetryKey, n.FirstTryAt, n.LeaseUntil, n.Revived = newUUID(), time.Time{}, time.Time{}, false
		if n.Kind == approval.KindEdit {
			n.Body = nil // an edit shows how things stand when it goes out
		}
		if _, err = w.tx.UpdateNotification(n, approval.Failed, attempt); err != nil {
			return n, err
		}
		return n, o.audit.Append(ctx, w.tx, approval.Event{Type: approval.EventNotificationRetrying, Actor: by.String(),
			ApprovalID: n.ApprovalID, Reason: "asked_for", Data: approval.NotificationData(n)})
	})
	return o.logByWall(n), err
}

// Search returns the q.Limit newest notifications, at least 1 and without bodies, that q selects among the newest, of
// which among says how many are looked at.
func (o *Outbox) Search(ctx context.Context, q approval.NotificationQuery,
	among int) (lists.Found[approval.Notification], error) {
	q.Since, q.Until = o.store.FromWall(q.Since), o.store.FromWall(q.Until)
	if q.Narrow = true; q.Bytes <= 0 || q.Bytes > approval.ListBytes {
		q.Bytes = approval.ListBytes
	}
	limit := max(q.Limit, 1)
	q.Limit = limit + 1
	type found = lists.Found[approval.Notification]
	f, err := look(ctx, o, func(w *work) (f found, err error) {
		if q.From, err = w.tx.NotificationReach(q, among); err != nil {
			return f, err
		}
		ns, err := w.tx.Notifications(q)
		return lists.FoundIn(ns, limit, q.Bytes, q.From,
			func(n approval.Notification) string { return n.ID }), err
	})
	for i := range f.Rows {
		f.Rows[i] = o.logByWall(f.Rows[i])
	}
	return f, err
}
