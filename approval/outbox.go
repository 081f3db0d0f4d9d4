package approval

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Outbox hands notifications to whoever sends them and records what became of each. A notification is
// a row before it is a message: taken for a while, tried, and recorded; what was in flight at a crash
// is tried again when its lease is over, with the same bytes and the same retry key.
type Outbox struct{ g *Gate }

// Outbox returns the gate's queue of notifications.
func (g *Gate) Outbox() *Outbox { return &Outbox{g} }

// Delivery is a notification with what is needed to render it, with times as the machine's clock has them. When
// it is to be sent is told by the store's.
type Delivery struct {
	Notification Notification
	Requests     []Request     // where Body is empty: the one, the batch's, or those whose cards a reply brings
	Target       *Notification // of an outcome: the card that it edits
}

// Ready returns notifications that can be sent now: those of ids, or with nil ids whatever is due. next
// is when more will be due, the zero time when nothing waits. It changes nothing, and reads the narrow part of each
// row alone, however many wait for a channel that is paused: [Outbox.Load] brings the rest of one.
func (o *Outbox) Ready(ctx context.Context, ids []string, limit int) (ready []Notification, next time.Time, err error) {
	err = o.g.store.View(ctx, func(tx Tx) error {
		ready = nil
		if ids == nil {
			if ready, err = tx.Sendable(limit); err != nil {
				return err
			}
		}
		for _, id := range ids {
			if len(ready) == limit {
				break
			}
			n, err := tx.Waiting(id)
			if err != nil {
				return err
			}
			if n.sendable(tx.Now()) {
				ready = append(ready, n)
			}
		}
		next, err = tx.NextSendable()
		return err
	})
	return ready, next, err
}

// Load returns a notification that is about to be sent, whole.
func (o *Outbox) Load(ctx context.Context, id string) (Delivery, error) {
	var d Delivery
	err := o.g.store.View(ctx, func(tx Tx) (err error) {
		d = Delivery{}
		if d.Notification, err = tx.Notification(id); err != nil {
			return err
		}
		if len(d.Notification.Body) == 0 {
			if d.Requests, err = shown(tx, d.Notification); err != nil {
				return err
			}
			d.Requests = o.g.toldAll(d.Requests)
		}
		d.Notification = o.g.toldNotification(d.Notification)
		if d.Notification.TargetID == "" {
			return nil
		}
		t, err := tx.Notification(d.Notification.TargetID)
		d.Target = &t
		return err
	})
	return d, err
}

// Seen tells how new the state is that the delivery's requests are in: it grows whenever one ends, or is
// given its reason.
func (d Delivery) Seen() int64 {
	newest := int64(0)
	for _, r := range d.Requests {
		newest = max(newest, r.ResolvedSeq)
	}
	return newest
}

func (n Notification) sendable(now time.Time) bool {
	return (n.Status == Queued || n.Status == Retrying) && !n.NextAttemptAt.After(now) && !n.LeaseUntil.After(now)
}

// Attempt is a notification about to be sent.
type Attempt struct {
	Notification Notification
	Body         []byte // rendered; kept only if the row has none yet
	More         bool   // of a part: another one follows; kept with Body
	Seen         int64  // Delivery.Seen of what Body was rendered from
	Lease        time.Duration
}

// Begin takes notifications for sending, in one transaction, and returns those it took: each counted
// as one more attempt, with the body that is to be sent. A card whose request has ended is skipped
// instead; a notification that somebody else holds is left alone.
func (o *Outbox) Begin(ctx context.Context, tries []Attempt) ([]Notification, error) {
	var begun []Notification
	err := o.g.store.Update(ctx, func(tx Tx) error {
		begun = nil
		now := tx.Now()
		for _, t := range tries {
			n, err := tx.Notification(t.Notification.ID)
			if err != nil {
				return err
			}
			if !n.sendable(now) {
				continue
			}
			if n.Kind == KindRequest || n.Kind == KindReminder {
				over, err := o.g.allEnded(tx, n)
				if err != nil {
					return err
				}
				if over {
					if err := o.g.skip(tx, n); err != nil {
						return err
					}
					continue
				}
			}
			if n.Kind == KindEdit {
				if ok, err := o.g.mayEdit(tx, n, t); err != nil {
					return err
				} else if !ok {
					continue
				}
			}
			was, attempt := n.Status, n.Attempt
			n.Attempt++
			n.LeaseUntil, n.UpdatedAt = now.Add(t.Lease).Truncate(time.Millisecond), now
			if len(n.Body) == 0 {
				n.Body, n.More = t.Body, t.More
			}
			if n.FirstTryAt.IsZero() {
				n.FirstTryAt = now
			}
			ok, err := tx.UpdateNotification(n, was, attempt)
			if err != nil {
				return err
			}
			if ok {
				begun = append(begun, n)
			}
		}
		return nil
	})
	return begun, err
}

// mayEdit reports whether an edit may begin: not while another one of the same card is under way, not
// after a newer one has gone out, and not with a picture that is no longer true.
func (g *Gate) mayEdit(tx Tx, n Notification, t Attempt) (bool, error) {
	siblings, err := tx.Notifications(NotificationQuery{ApprovalID: n.ApprovalID, BatchID: n.BatchID, Kind: KindEdit, Narrow: true})
	if err != nil {
		return false, err
	}
	for _, s := range siblings {
		switch {
		case s.TargetID != n.TargetID || s.ID == n.ID:
		case s.LeaseUntil.After(tx.Now()) && (s.Status == Queued || s.Status == Retrying):
			return false, nil // recording how it ended lets this one go
		case s.ID > n.ID && s.Status == Sent:
			return false, g.skip(tx, n)
		}
	}
	if len(n.Body) > 0 {
		return true, nil
	}
	hs, err := shownHeads(tx, n)
	if err != nil || !slices.ContainsFunc(hs, func(h Head) bool { return h.ResolvedSeq > t.Seen }) {
		return err == nil, err
	}
	n.UpdatedAt = tx.Now() // it is due all the same: whoever sends reads it again
	_, err = tx.UpdateNotification(n, n.Status, n.Attempt)
	return false, err
}

// Receipt is what a platform returned for a message.
type Receipt struct {
	MessageID  string
	HTTPStatus int
	Data       []byte // JSON
}

// nextPart queues the part after one that went out, so that parts arrive in order.
func (g *Gate) nextPart(tx Tx, n Notification) error {
	if n.Part == 0 || !n.More {
		return nil
	}
	next := Notification{ApprovalID: n.ApprovalID, Channel: n.Channel, Recipient: n.Recipient, Kind: KindReply, Cards: n.Cards, Part: n.Part + 1}
	if g.editable(n.Channel) { // an address to answer at is good more than once there, a reply token is not
		next.ReplyTo = n.ReplyTo
	}
	return g.queue(tx, next)
}

// Sent records that n, as Begin returned it, went out. If the request of a card that can be edited has
// ended meanwhile, the edit is queued with it. A card over which somebody has acted before its receipt is
// recorded stays delivered.
func (o *Outbox) Sent(ctx context.Context, n Notification, r Receipt) error {
	return o.g.store.Update(ctx, func(tx Tx) error {
		row, err := tx.Notification(n.ID)
		if err != nil {
			return err
		}
		early := row.Status == Delivered && row.SentAt.IsZero()
		if row.Status != Queued && row.Status != Retrying && !early {
			return nil // a later try was recorded first
		}
		was, attempt, now := row.Status, row.Attempt, tx.Now()
		row.SentAt, row.UpdatedAt = now, now
		if !early {
			row.Status = Sent
		}
		row.MessageID, row.HTTPStatus, row.Receipt = r.MessageID, r.HTTPStatus, r.Data
		row.Error, row.LeaseUntil, row.NextAttemptAt = "", time.Time{}, time.Time{}
		if ok, err := tx.UpdateNotification(row, was, attempt); err != nil || !ok {
			return err
		}
		if err := o.g.auditNotification(ctx, tx, row, EventNotificationSent, ""); err != nil {
			return err
		}
		if row.Kind == KindEdit {
			return o.g.nextEdit(tx, row)
		}
		if err := o.g.nextPart(tx, row); err != nil {
			return err
		}
		if !row.showsCard() || !o.g.editable(row.Channel) {
			return nil
		}
		hs, err := shownHeads(tx, row)
		if err != nil || !slices.ContainsFunc(hs, func(h Head) bool { return h.Status != Pending }) {
			return err
		}
		siblings, err := tx.Notifications(NotificationQuery{ApprovalID: row.ApprovalID, BatchID: row.BatchID, Kind: KindEdit, Narrow: true})
		if err != nil {
			return err
		}
		return o.g.queueEdit(tx, row, siblings)
	})
}

// nextEdit lets the edit that waits behind a finished one of the same card go, and drops those that
// the finished one has overtaken.
func (g *Gate) nextEdit(tx Tx, done Notification) error {
	ns, err := tx.Notifications(NotificationQuery{ApprovalID: done.ApprovalID, BatchID: done.BatchID, Kind: KindEdit, Narrow: true})
	if err != nil {
		return err
	}
	for _, n := range ns {
		if n.TargetID != done.TargetID || n.ID == done.ID || n.Status != Queued && n.Status != Retrying {
			continue
		}
		switch {
		case n.ID < done.ID && done.Status == Sent:
			err = g.skip(tx, n)
		case n.ID > done.ID:
			n.NextAttemptAt, n.UpdatedAt = tx.Now(), tx.Now()
			_, err = tx.UpdateNotification(n, n.Status, n.Attempt)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Failure is why a notification did not go out.
type Failure struct {
	Final      bool
	RetryAt    time.Time // when to try again
	Reason     string    // stable and short
	Detail     string    // what the platform said; safe to show
	HTTPStatus int
	Unbegun    bool // the try does not count: the channel is paused
	ReplySpent bool // the reply token is of no use any more: later tries push
}

// NotSent records that n, as Begin returned it, did not go out, or that nobody knows.
func (o *Outbox) NotSent(ctx context.Context, n Notification, f Failure) error {
	var r Request
	fate := held
	err := o.g.store.Update(ctx, func(tx Tx) error {
		fate = held
		row, err := tx.Notification(n.ID)
		if err != nil {
			return err
		}
		if row.Attempt != n.Attempt || row.Status != Queued && row.Status != Retrying {
			return nil // somebody else's try by now
		}
		was, attempt, now := row.Status, row.Attempt, tx.Now()
		why := f.Reason
		if f.Detail != "" {
			why += ": " + f.Detail
		}
		news := row.Error != why || !f.Unbegun
		row.Error, row.HTTPStatus, row.UpdatedAt, row.LeaseUntil = why, f.HTTPStatus, now, time.Time{}
		if f.ReplySpent {
			row.ReplyTo = ""
		}
		event := EventNotificationRetrying
		switch {
		case f.Final:
			row.Status, row.NextAttemptAt, event = Failed, time.Time{}, EventNotificationFailed
		default:
			row.Status, row.NextAttemptAt = Retrying, latest(now, f.RetryAt.UTC().Truncate(time.Millisecond))
			if f.Unbegun {
				if row.Attempt--; row.Attempt == 0 {
					row.Status, row.FirstTryAt = Queued, time.Time{}
				}
			}
		}
		if ok, err := tx.UpdateNotification(row, was, attempt); err != nil || !ok {
			return err
		}
		if news {
			if err := o.g.auditNotification(ctx, tx, row, event, f.Reason); err != nil {
				return err
			}
		}
		if !f.Final {
			return nil
		}
		if row.Kind == KindEdit {
			return o.g.nextEdit(tx, row)
		}
		if row.ApprovalID == "" || row.Kind == KindReply {
			return nil
		}
		over, err := o.g.allEnded(tx, row)
		if err != nil || over {
			return err
		}
		if r, err = tx.Request(row.ApprovalID); err != nil {
			return err
		}
		fate, err = o.g.elsewhere(tx, r, row.address(), row.Kind)
		return err
	})
	if err != nil {
		return err
	}
	o.g.sayWhere(ctx, fate, r, "last_channel", n.Channel, "last_reason", f.Reason)
	return nil
}

func (g *Gate) auditNotification(ctx context.Context, tx Tx, n Notification, t EventType, reason string) error {
	e := Event{Type: t, Actor: "system:outbox", ApprovalID: n.ApprovalID, Reason: reason}
	if n.ApprovalID != "" {
		r, err := tx.Head(n.ApprovalID)
		if err != nil {
			return err
		}
		e.Agent, e.Tool, e.Risk = r.Agent, r.Target(), r.Risk
	}
	e.Data = notificationData(n)
	return g.audit(ctx, tx, e)
}

// notificationRef is what an audit event says of a notification.
type notificationRef struct {
	ID         string             `json:"notification_id"`
	Channel    string             `json:"channel"`
	Recipient  string             `json:"recipient"`
	Kind       NotificationKind   `json:"kind"`
	Status     NotificationStatus `json:"status"`
	Attempt    int                `json:"attempt"`
	HTTPStatus int                `json:"http_status,omitempty"`
}

func notificationData(n Notification) []byte {
	return marshal(notificationRef{n.ID, n.Channel, n.Recipient, n.Kind, n.Status, n.Attempt, n.HTTPStatus})
}

// NotificationID returns the id of the notification that a notification event is about, or "".
func (e Event) NotificationID() string {
	var d notificationRef
	if json.Unmarshal(e.Data, &d) != nil {
		return ""
	}
	return d.ID
}

// Notifications lists the notification log, newest first and without bodies, at most [ListBytes] of it.
func (g *Gate) Notifications(ctx context.Context, q NotificationQuery) ([]Notification, error) {
	var ns []Notification
	q.Narrow, q.Bytes = true, listBytes(q.Bytes)
	err := g.store.View(ctx, func(tx Tx) (err error) {
		ns, err = tx.Notifications(q)
		return err
	})
	for i := range ns {
		ns[i] = g.toldLog(ns[i])
	}
	return ns, err
}

// Notification returns one row of the notification log; [CodeNotFound] if there is none.
func (g *Gate) Notification(ctx context.Context, id string) (Notification, error) {
	var n Notification
	err := g.store.View(ctx, func(tx Tx) (err error) {
		n, err = tx.Notification(id)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return n, Errorf(CodeNotFound, "No such notification.")
	}
	return g.toldLog(n), err
}

// Retry has a failed notification sent again, from the start: same row, new retry key, no attempts
// counted. [CodeNotFound], or [CodeNotFailed] when it has not failed.
func (g *Gate) Retry(ctx context.Context, by Actor, id string) (Notification, error) {
	var n Notification
	err := g.store.Update(ctx, func(tx Tx) (err error) {
		n, err = tx.Notification(id)
		if errors.Is(err, ErrNotFound) {
			return Errorf(CodeNotFound, "No such notification.")
		}
		if err != nil {
			return err
		}
		if n.Status != Failed {
			return Errorf(CodeNotFailed, "This notification has not failed; it is %s.", n.Status)
		}
		attempt, now := n.Attempt, tx.Now()
		n.Status, n.Attempt, n.NextAttemptAt, n.UpdatedAt = Queued, 0, now, now
		n.RetryKey, n.FirstTryAt, n.LeaseUntil, n.Revived = newUUID(), time.Time{}, time.Time{}, false
		if n.Kind == KindEdit {
			n.Body = nil // an edit shows how things stand when it goes out
		}
		if _, err = tx.UpdateNotification(n, Failed, attempt); err != nil {
			return err
		}
		e := Event{Type: EventNotificationRetrying, Actor: by.String(), ApprovalID: n.ApprovalID, Reason: "asked_for", Data: notificationData(n)}
		return g.audit(ctx, tx, e)
	})
	return g.toldLog(n), err
}

// RetryFailed gives the failed cards of pending requests one further try each, and returns how many.
func (g *Gate) RetryFailed(ctx context.Context) (int, error) {
	total := 0
	err := g.eachPending(ctx, func(tx Tx, r Request) error {
		ns, err := tx.Notifications(NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Status: Failed, Narrow: true})
		if err != nil {
			return err
		}
		for _, n := range ns {
			if n.Revived || n.Kind != KindRequest && n.Kind != KindReminder {
				continue
			}
			n.Revived, n.Status, n.NextAttemptAt, n.UpdatedAt = true, Retrying, tx.Now(), tx.Now()
			ok, err := tx.UpdateNotification(n, Failed, n.Attempt)
			if err != nil {
				return err
			}
			if ok {
				total++
				if err := g.auditNotification(ctx, tx, n, EventNotificationRetrying, "heartbeat"); err != nil {
					return err
				}
			}
		}
		return nil
	}, &total, nil)
	return total, err
}

// Remind pushes the cards of requests that nobody has answered for a while again: each time after has
// passed since the last card, as a new message, at most limit times. It returns how many requests
// people were reminded of. Reminders for which an agent's budget of pushes has no room come with a later run.
func (g *Gate) Remind(ctx context.Context, after time.Duration, limit int) (int, error) {
	total := 0
	t := tab{budgets: g.budgets}
	err := g.eachPending(ctx, func(tx Tx, r Request) error {
		if tx.Now().Sub(r.RequestedAt) < after {
			return nil
		}
		ns, err := tx.Notifications(NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
		if err != nil {
			return err
		}
		rounds := map[time.Time]bool{} // one round of reminders has one time
		newest := r.RequestedAt
		for _, n := range ns {
			if n.Kind == KindReminder {
				rounds[n.CreatedAt] = true
			}
			if n.Kind == KindReminder || n.Kind == KindRequest {
				newest = latest(newest, n.CreatedAt)
			}
		}
		if len(rounds) >= limit || tx.Now().Sub(newest) < after {
			return nil
		}
		var to []Address
		for _, route := range g.routes(r) {
			a, ok, err := g.again(tx, route, ns)
			if err != nil {
				return err
			}
			if ok && !slices.Contains(to, a) {
				to = append(to, a)
			}
		}
		if len(to) == 0 || t.take(r.Agent, 0, len(to)) != nil {
			return nil
		}
		for _, a := range to {
			if err := g.queue(tx, Notification{ApprovalID: r.ID, Channel: a.Channel, Recipient: a.To, Kind: KindReminder}); err != nil {
				return err
			}
		}
		total++
		return nil
	}, &total, &t)
	return total, err
}

// eachPending calls fn for the narrow part of every pending request, one page of them per transaction, after what
// was due has ended. A transaction that runs again undoes what it counted, and what t holds of it.
func (g *Gate) eachPending(ctx context.Context, fn func(tx Tx, r Request) error, total *int, t *tab) error {
	if _, err := g.Expire(ctx); err != nil {
		return err
	}
	after := ""
	for {
		var hs []Head
		before := *total
		err := g.store.Update(ctx, func(tx Tx) (err error) {
			*total = before
			t.void()
			if hs, err = tx.Heads(RequestQuery{Status: Pending, After: after, Limit: stepRequests}); err != nil {
				return err
			}
			for _, h := range hs {
				if h.Due(tx.Now()) {
					continue
				}
				if err := fn(tx, h.Request); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.void()
			return err
		}
		t.keep()
		if len(hs) < stepRequests {
			return nil
		}
		after = hs[len(hs)-1].ID
	}
}

// PendingCount counts the pending requests.
func (g *Gate) PendingCount(ctx context.Context) (int, error) {
	n := 0
	err := g.view(ctx, func(tx Tx) (err error) {
		n, err = tx.CountPending("")
		return err
	})
	return n, err
}

// How long a webhook event's id is remembered: longer than any platform delivers it again.
const rememberEvent = 3 * 24 * time.Hour

// Prune drops what is no longer needed: webhook event ids after three days, endings after a day or
// remember_denial, whichever is longer.
func (g *Gate) Prune(ctx context.Context) (int, error) {
	total := 0
	keep := max(rememberUse, g.Policy().Terms().RememberDenial)
	for {
		n := 0
		err := g.store.Update(ctx, func(tx Tx) (err error) {
			n, err = tx.Prune(tx.Now().Add(-rememberEvent), tx.Now().Add(-keep), stepRows)
			return err
		})
		if total += n; err != nil || n < stepRows {
			return total, err
		}
	}
}

// Audit lists audit events, at most [ListBytes] of them.
func (g *Gate) Audit(ctx context.Context, q EventQuery) ([]Event, error) {
	var es []Event
	q.Since, q.Until = g.store.FromWall(q.Since), g.store.FromWall(q.Until)
	q.Bytes = listBytes(q.Bytes)
	err := g.store.View(ctx, func(tx Tx) (err error) {
		es, err = tx.Events(q)
		return err
	})
	for i := range es {
		es[i].At = g.store.ToWall(es[i].At)
	}
	return es, err
}

// Follow returns the next audit events of an ascending q, and the seq to go on from: that of the last of them, or the
// newest there is once no other is left; more says that there may be others. So what q does not select is passed over
// once, not at every look.
func (g *Gate) Follow(ctx context.Context, q EventQuery) (es []Event, upTo int64, more bool, err error) {
	q.Ascending, q.Bytes = true, listBytes(q.Bytes)
	err = g.store.View(ctx, func(tx Tx) error {
		_, newest, err := tx.SeqRange()
		if err != nil {
			return err
		}
		if es, err = tx.Events(q); err != nil {
			return err
		}
		size := 0
		for _, e := range es {
			size += e.Size()
		}
		more, upTo = len(es) > 0 && (len(es) == q.Limit || size >= q.Bytes), max(newest, q.AfterSeq)
		if more {
			upTo = es[len(es)-1].Seq
		}
		return nil
	})
	for i := range es {
		es[i].At = g.store.ToWall(es[i].At)
	}
	return es, upTo, more, err
}

// AuditRange returns the oldest and newest seq on record, zeros for none.
func (g *Gate) AuditRange(ctx context.Context) (oldest, newest int64, err error) {
	err = g.store.View(ctx, func(tx Tx) (err error) {
		oldest, newest, err = tx.SeqRange()
		return err
	})
	return oldest, newest, err
}

// Broker returns the broker that wakes on what the gate commits.
func (g *Gate) Broker() *Broker { return g.broker }

// WebhookRefused audits a signed event that was not acted on.
func (g *Gate) WebhookRefused(ctx context.Context, actor, channel, reason string) error {
	return g.store.Update(ctx, func(tx Tx) error {
		return g.audit(ctx, tx, Event{Type: EventWebhookRefused, Actor: actor, Reason: reason, Data: marshal(map[string]any{"channel": channel})})
	})
}
