package outbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/lists"
)

// Ready returns notifications that can be sent now: those of ids, or with nil ids whatever is due. next
// is when more will be due, the zero time when nothing waits. It changes nothing, and reads the narrow part of each
// row alone, however many wait for a channel that is paused: [Outbox.Load] brings the rest of one.
func (o *Outbox) Ready(ctx context.Context, ids []string,
	limit int) (ready []approval.Notification, next time.Time, err error) {
	type due struct {
		ready []approval.Notification
		next  time.Time
	}
	found, err := look(ctx, o, func(w *work) (due, error) {
		ready, err := w.sending().listReady(ids, limit)
		if err != nil {
			return due{}, err
		}
		next, err := w.tx.NextSendable()
		return due{ready, next}, err
	})
	return found.ready, found.next, err
}

func (w sendingWork) listReady(ids []string, limit int) (ready []approval.Notification, err error) {
	if ids == nil {
		return w.tx.Sendable(limit)
	}
	for _, id := range ids {
		if len(ready) == limit {
			break
		}
		n, err := w.tx.Waiting(id)
		if err != nil {
			return nil, err
		}
		if sendable(n, w.tx.Now()) {
			ready = append(ready, n)
		}
	}
	return ready, nil
}

// LoadReady is Ready of one notification, and Load of it in the same look where that is quick: it is about one request,
// which is not large. whole is nil otherwise. Where it can be sent, next is zero: when others are due is as it was.
func (o *Outbox) LoadReady(ctx context.Context, id string) (
	ready []approval.Notification, whole *channels.Delivery, next time.Time, err error,
) {
	type due struct {
		ready []approval.Notification
		whole *channels.Delivery
		next  time.Time
	}
	found, err := look(ctx, o, func(w *work) (f due, err error) {
		n, err := w.tx.Notification(id)
		if err != nil && !errors.Is(err, approval.ErrNotFound) {
			return f, err
		}
		if err != nil || !sendable(n, w.tx.Now()) {
			f.next, err = w.tx.NextSendable()
			return f, err
		}
		f.ready = []approval.Notification{n}
		if n.ApprovalID == "" || n.BatchID != "" {
			return f, nil
		}
		w.tx.Ahead(func() {
			_, _ = w.tx.Head(n.ApprovalID)
			_, _ = w.tx.Request(n.ApprovalID)
		})
		if h, err := w.tx.Head(n.ApprovalID); err != nil || h.Wide > quicklyRead {
			return f, nil
		}
		if d, err := w.sending().load(n); err == nil { // else the attempt meets the error, and sees to it
			f.whole = &d
		}
		return f, nil
	})
	return found.ready, found.whole, found.next, err
}

// quicklyRead is how large a request may be, in bytes, that is read while others wait for the queue to be looked at.
const quicklyRead = 16 << 10

// Load returns a notification that is about to be sent, whole.
func (o *Outbox) Load(ctx context.Context, id string) (channels.Delivery, error) {
	return look(ctx, o, func(w *work) (channels.Delivery, error) {
		n, err := w.tx.Notification(id)
		if err != nil {
			return channels.Delivery{}, err
		}
		return w.sending().load(n)
	})
}

// load reads what belongs to a notification.
func (w sendingWork) load(n approval.Notification) (d channels.Delivery, err error) {
	if d.Notification = n; n.Note == approval.NoteQueued {
		if d.Queued, err = w.turns().countQueued(d.Notification.Address()); err != nil {
			return d, err
		}
	}
	if len(d.Notification.Body) == 0 {
		if err := w.loadShown(&d); err != nil {
			return d, err
		}
	}
	if d.Notification.BatchID != "" {
		c, err := w.tx.Card(d.Notification.BatchID)
		if err != nil && !errors.Is(err, approval.ErrNotFound) {
			return d, err
		}
		if err == nil {
			d.Card = &c
		}
	}
	d.Notification = w.o.byWall(d.Notification)
	if d.Notification.TargetID == "" {
		return d, nil
	}
	t, err := w.tx.Notification(d.Notification.TargetID)
	d.Target = &t
	return d, err
}

// loadShown reads what a notification is drawn of.
func (w sendingWork) loadShown(d *channels.Delivery) (err error) {
	if d.Requests, err = lists.Shown(w.tx, d.Notification); err != nil {
		return err
	}
	if d.Grantable, err = w.findGrantable(*d); err != nil {
		return err
	}
	for i := range d.Requests {
		if err := lists.WithBefore(w.tx, &d.Requests[i]); err != nil {
			return err
		}
		d.Requests[i] = d.Requests[i].ByWall(w.o.store)
	}
	return nil
}

// findGrantable returns those of a delivery's requests that can be decided for longer where it is read: on a card that
// is edited, or in the answer to the approver.
func (w sendingWork) findGrantable(d channels.Delivery) (ids []string, err error) {
	n := d.Notification
	if n.Kind != approval.KindEdit && n.Note != approval.NoteMore {
		return nil, nil
	}
	for _, r := range d.Requests {
		if r.Status != approval.Approved {
			continue
		}
		may, err := w.o.gate.In(w.ctx, w.tx).Grants().May(r, w.o.gate.PersonNow(r.ResolvedBy))
		if err != nil {
			return nil, err
		}
		if may {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

func sendable(n approval.Notification, now time.Time) bool {
	return (n.Status == approval.Queued || n.Status == approval.Retrying) && !n.NextAttemptAt.After(now) &&
		!n.LeaseUntil.After(now)
}

// Begin takes a notification for sending, and returns it: counted as one more attempt, with the body that is to be
// sent. It reports false where it did not take it: a card whose request has ended is skipped instead; a notification
// that another sender holds is left alone.
func (o *Outbox) Begin(ctx context.Context, t Attempt) (n approval.Notification, begun bool, err error) {
	err = o.update(ctx, approval.OfNotification(t.Notification.ID), func(w *work) (err error) {
		n, begun, err = w.sending().begin(t)
		return err
	})
	return n, begun && err == nil, err
}

func (w sendingWork) begin(t Attempt) (n approval.Notification, ok bool, err error) {
	now := w.tx.Now()
	var overtaken []approval.Notification
	if n, err = w.tx.Notification(t.Notification.ID); err != nil || !sendable(n, now) {
		return n, false, err
	}
	switch n.Kind {
	case approval.KindRequest, approval.KindReminder:
		over, err := w.allEnded(n)
		if err == nil && over {
			err = w.skip(n)
		}
		if err != nil || over {
			return n, false, err
		}
		w.tx.Ahead(func() {
			_, _ = w.typing().openUntil(n.Address())
			_, _ = w.typing().openApprovals(n)
		})
		if waits, err := w.typing().postpone(n); err != nil || waits {
			return n, false, err
		}
		if overtaken, err = w.typing().openApprovals(n); err != nil {
			return n, false, err
		}
	case approval.KindReply:
		if n.Note == approval.NoteQueued {
			if waits, err := w.turns().countQueued(n.Address()); err != nil || waits == 0 {
				return n, false, errors.Join(err, w.skip(n))
			}
		}
	case approval.KindEdit:
		if may, err := w.mayEdit(n, t); err != nil || !may {
			return n, false, err
		}
	}
	if stale := n.Change != t.Notification.Change || len(t.Notification.Body) > 0; len(n.Body) == 0 && stale {
		// It was drawn before something changed.
		n.UpdatedAt = now // it is due all the same: the sender reads it again
		_, err := w.tx.UpdateNotification(n, n.Status, n.Attempt)
		return n, false, err
	}
	was, attempt := n.Status, n.Attempt
	n.Attempt++
	n.LeaseUntil, n.UpdatedAt = now.Add(t.Lease).Truncate(time.Millisecond), now
	if len(n.Body) == 0 {
		n.Body, n.More, n.Drawn = t.Body, t.More, n.Change
		if n.Shown, err = w.markShown(n); err != nil {
			return n, false, err
		}
	}
	if n.FirstTryAt.IsZero() {
		n.FirstTryAt = now
	}
	kept := n
	if _, signsIn := n.Note.SignIn(); signsIn {
		kept.Body = nil // it holds a secret, and is drawn alike each time
	}
	if ok, err = w.tx.UpdateNotification(kept, was, attempt); err == nil && ok {
		err = w.typing().overtake(overtaken)
	}
	return n, ok, err
}

// markShown takes note that the sending of a card is begun, as it stands, and returns its version: what joins from now
// on has a newer one. 0: it is no card of several.
func (w sendingWork) markShown(n approval.Notification) (int, error) {
	if n.BatchID == "" || n.Kind == approval.KindReply { // a reply says by it what it is about
		return n.Shown, nil
	}
	c, err := w.tx.Card(n.BatchID)
	if errors.Is(err, approval.ErrNotFound) { // made before there were any
		return 0, nil
	}
	if err != nil || c.Shown == c.Version() {
		return c.Version(), err
	}
	c.Shown = c.Version()
	return c.Shown, w.tx.PutCard(c)
}

// mayEdit reports whether an edit may begin: not while another one of the same card is under way, not
// after a newer one has gone out, and not with a picture that is no longer true.
func (w sendingWork) mayEdit(n approval.Notification, t Attempt) (bool, error) {
	siblings, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: n.ApprovalID, BatchID: n.BatchID,
		Kind: approval.KindEdit, Narrow: true})
	if err != nil {
		return false, err
	}
	for _, s := range siblings {
		switch {
		case s.TargetID != n.TargetID || s.ID == n.ID:
		case s.LeaseUntil.After(w.tx.Now()) && (s.Status == approval.Queued || s.Status == approval.Retrying):
			return false, nil // recording how it ended lets this one go
		case s.ID > n.ID && s.Status == approval.Sent:
			return false, w.skip(n)
		}
	}
	if len(n.Body) > 0 {
		return true, nil
	}
	hs, err := lists.ShownHeads(w.tx, n)
	if err != nil || !slices.ContainsFunc(hs, func(h approval.Head) bool { return h.ResolvedSeq > t.Seen }) {
		return err == nil, err
	}
	n.UpdatedAt = w.tx.Now() // it is due all the same: the sender reads it again
	_, err = w.tx.UpdateNotification(n, n.Status, n.Attempt)
	return false, err
}

// queueNextPart queues the part after one that went out, so that parts arrive in order.
func (w sendingWork) queueNextPart(n approval.Notification) error {
	if n.Part == 0 || !n.More {
		return nil
	}
	next := approval.Notification{ApprovalID: n.ApprovalID, Channel: n.Channel, Recipient: n.Recipient,
		Kind: approval.KindReply, Cards: n.Cards, Part: n.Part + 1, Language: n.Language}
	if w.o.routing.Editable(n.Channel) { // an address to answer at is good more than once there, a reply token is not
		next.ReplyTo = n.ReplyTo
	}
	return w.queue(next)
}

// Sent records that n, as Begin returned it, went out. If the request of a card that can be edited has
// ended meanwhile, the edit is queued with it. A card on which an approver has pressed before its receipt is
// recorded stays delivered.
func (o *Outbox) Sent(ctx context.Context, n approval.Notification, r channels.Receipt) error {
	return o.update(ctx, approval.OfNotification(n.ID), func(w *work) error {
		row, err := w.tx.Notification(n.ID)
		if err != nil {
			return err
		}
		early := row.Status == approval.Delivered && row.SentAt.IsZero()
		// It was dropped since its request ended after its lease was over, and went out all the same.
		dropped := row.Status == approval.Skipped && row.Attempt == n.Attempt
		if row.Status != approval.Queued && row.Status != approval.Retrying && !early && !dropped {
			return nil // a later try was recorded first
		}
		was, attempt, now := row.Status, row.Attempt, w.tx.Now()
		row.SentAt, row.UpdatedAt = now, now
		if !early {
			row.Status = approval.Sent
		}
		row.MessageID, row.HTTPStatus, row.Receipt = r.MessageID, r.HTTPStatus, r.Data
		row.Error, row.LeaseUntil, row.NextAttemptAt = "", time.Time{}, time.Time{}
		if ok, err := w.tx.UpdateNotification(row, was, attempt); err != nil || !ok {
			return err
		}
		if err := w.record(row, approval.EventNotificationSent, ""); err != nil {
			return err
		}
		if row.Kind == approval.KindEdit {
			return w.sending().releaseNextEdit(row)
		}
		if err := w.sending().queueNextPart(row); err != nil {
			return err
		}
		if !row.ShowsCard() || !o.routing.Editable(row.Channel) {
			return nil
		}
		hs, err := lists.ShownHeads(w.tx, row)
		if err != nil || row.Change == row.Drawn &&
			!slices.ContainsFunc(hs, func(h approval.Head) bool { return h.Status != approval.Pending }) {
			return err
		}
		siblings, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: row.ApprovalID, BatchID: row.BatchID,
			Kind: approval.KindEdit, Narrow: true})
		if err != nil {
			return err
		}
		return w.cards().queueEdit(row, siblings)
	})
}

// releaseNextEdit lets the edit that waits behind a finished one of the same card go, and drops those that
// the finished one has overtaken.
func (w sendingWork) releaseNextEdit(done approval.Notification) error {
	ns, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: done.ApprovalID, BatchID: done.BatchID,
		Kind: approval.KindEdit, Narrow: true})
	if err != nil {
		return err
	}
	for _, n := range ns {
		if n.TargetID != done.TargetID || n.ID == done.ID || n.Status != approval.Queued && n.Status != approval.Retrying {
			continue
		}
		switch {
		case n.ID < done.ID && done.Status == approval.Sent:
			err = w.skip(n)
		case n.ID > done.ID:
			n.NextAttemptAt, n.UpdatedAt = w.tx.Now(), w.tx.Now()
			_, err = w.tx.UpdateNotification(n, n.Status, n.Attempt)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// NotSent records that n, as Begin returned it, did not go out, or that it is not known whether it did.
func (o *Outbox) NotSent(ctx context.Context, n approval.Notification, f Failure) error {
	lost, err := update(ctx, o, approval.OfNotification(n.ID), func(w *work) (deadEnd, error) {
		row, err := w.tx.Notification(n.ID)
		if err != nil {
			return deadEnd{}, err
		}
		if row.Attempt != n.Attempt || row.Status != approval.Queued && row.Status != approval.Retrying {
			return deadEnd{}, nil // another attempt has begun since
		}
		was, attempt, before := row.Status, row.Attempt, row.Error
		late, over, err := w.routes().findLate(row, latest(w.tx.Now(), f.RetryAt))
		if err != nil {
			return deadEnd{}, err
		}
		if over && !f.Final && !f.Unbegun { // a try after the deadline is none
			f.Final, f.Detail = true, strings.TrimSuffix("no try is left before the deadline: "+f.Detail, ": ")
		}
		applyFailure(&row, f, w.tx.Now())
		if ok, err := w.tx.UpdateNotification(row, was, attempt); err != nil || !ok {
			return deadEnd{}, err
		}
		if row.Error != before || !f.Unbegun { // else it is no news
			event := approval.EventNotificationRetrying
			if f.Final {
				event = approval.EventNotificationFailed
			}
			if err := w.record(row, event, f.Reason); err != nil {
				return deadEnd{}, err
			}
		}
		if !f.Final {
			return w.routes().sendOn(row, late, row.Channel)
		}
		return w.sending().settleFailure(row)
	})
	if err != nil {
		return err
	}
	o.logReach(ctx, lost.reach, lost.request, "last_channel", n.Channel, "last_reason", f.Reason)
	return nil
}

// applyFailure has the row say what became of its last attempt.
func applyFailure(row *approval.Notification, f Failure, now time.Time) {
	row.Error, row.HTTPStatus, row.UpdatedAt, row.LeaseUntil = f.Reason, f.HTTPStatus, now, time.Time{}
	if f.Detail != "" {
		row.Error += ": " + f.Detail
	}
	if f.ReplySpent {
		row.ReplyTo = ""
	}
	if f.Final {
		row.Status, row.NextAttemptAt = approval.Failed, time.Time{}
		return
	}
	row.Status, row.NextAttemptAt = approval.Retrying, latest(now, f.RetryAt.UTC().Truncate(time.Millisecond))
	if f.Unbegun {
		if row.Attempt--; row.Attempt == 0 { // as it stands when it is begun again, it will be drawn anew
			row.Status, row.FirstTryAt, row.Body = approval.Queued, time.Time{}, nil
			row.Change++ // what was drawn before shows less than what has joined meanwhile
			if row.Kind != approval.KindReply {
				row.Shown = 0
			}
		}
	}
}

// settleFailure does what the failure of a notification for good brings with it: the card of a request that still
// waits goes elsewhere.
func (w sendingWork) settleFailure(row approval.Notification) (deadEnd, error) {
	if row.Kind == approval.KindEdit {
		return deadEnd{}, w.releaseNextEdit(row)
	}
	if row.ApprovalID == "" || row.Kind == approval.KindReply {
		return deadEnd{}, nil
	}
	hs, err := w.pendingHeads(row)
	if err != nil {
		return deadEnd{}, err
	}
	return w.routes().sendOn(row, hs, "")
}

// SendOn has the cards go elsewhere, too, that wait for a channel which sends nothing at present, and of which too much
// time is gone. It returns those with which it is done.
func (o *Outbox) SendOn(ctx context.Context, ids []string) (done []string, err error) {
	type moved struct {
		done []string
		to   []deadEnd
	}
	// A channel that sends nothing holds the cards of all agents.
	out, err := update(ctx, o, approval.WholeStore(), func(w *work) (m moved, err error) {
		for _, id := range ids {
			n, err := w.tx.Notification(id)
			if err != nil {
				return m, err
			}
			if n.Status != approval.Queued && n.Status != approval.Retrying || !isCard(n) {
				m.done = append(m.done, id)
				continue
			}
			late, _, err := w.routes().findLate(n, w.tx.Now())
			if err != nil || len(late) == 0 {
				if err != nil {
					return m, err
				}
				continue
			}
			to, err := w.routes().sendOn(n, late, n.Channel)
			if err != nil {
				return m, err
			}
			m.done, m.to = append(m.done, id), append(m.to, to)
		}
		return m, nil
	})
	for _, to := range out.to {
		o.logReach(ctx, to.reach, to.request, "last_reason", "the channel sends nothing at present")
	}
	return out.done, err
}

// Attempt is a notification about to be sent.
type Attempt struct {
	Notification approval.Notification
	Body         []byte // rendered; kept only if the row has none yet
	More         bool   // of a part: another one follows; kept with Body
	Seen         int64  // [channels.Delivery.Seen] of what Body was rendered from
	Lease        time.Duration
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

// notificationRef is what an audit event says of a notification.
type notificationRef struct {
	ID         string                      `json:"notification_id"`
	Channel    string                      `json:"channel"`
	Recipient  string                      `json:"recipient"`
	Kind       approval.NotificationKind   `json:"kind"`
	Status     approval.NotificationStatus `json:"status"`
	Attempt    int                         `json:"attempt"`
	HTTPStatus int                         `json:"http_status,omitempty"`
}

// eventData is what an audit event about a notification holds.
func eventData(n approval.Notification) []byte {
	return approval.EventData(notificationRef{n.ID, n.Channel, n.Recipient, n.Kind, n.Status, n.Attempt, n.HTTPStatus})
}
