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
	found, err := approval.View(ctx, o.store, func(tx approval.Tx) (due, error) {
		ready, err := readyNow(tx, ids, limit)
		if err != nil {
			return due{}, err
		}
		next, err := tx.NextSendable()
		return due{ready, next}, err
	})
	return found.ready, found.next, err
}

func readyNow(tx approval.Tx, ids []string, limit int) (ready []approval.Notification, err error) {
	if ids == nil {
		return tx.Sendable(limit)
	}
	for _, id := range ids {
		if len(ready) == limit {
			break
		}
		n, err := tx.Waiting(id)
		if err != nil {
			return nil, err
		}
		if sendable(n, tx.Now()) {
			ready = append(ready, n)
		}
	}
	return ready, nil
}

// LoadReady is Ready of one notification, and Load of it in the same look where that is quick: it is about one request,
// which is not large. whole is nil otherwise.
func (o *Outbox) LoadReady(ctx context.Context, id string) (
	ready []approval.Notification, whole *channels.Delivery, next time.Time, err error,
) {
	type due struct {
		ready []approval.Notification
		whole *channels.Delivery
		next  time.Time
	}
	found, err := approval.View(ctx, o.store, func(tx approval.Tx) (f due, err error) {
		if f.ready, err = readyNow(tx, []string{id}, 1); err != nil {
			return f, err
		}
		if f.next, err = tx.NextSendable(); err != nil || len(f.ready) == 0 {
			return f, err
		}
		n := f.ready[0]
		if n.ApprovalID == "" || n.BatchID != "" {
			return f, nil
		}
		if h, err := tx.Head(n.ApprovalID); err != nil || h.Wide > quicklyRead {
			return f, nil
		}
		if d, err := o.load(tx, id); err == nil { // else whoever sends it meets the error, and sees to it
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
	return approval.View(ctx, o.store, func(tx approval.Tx) (channels.Delivery, error) { return o.load(tx, id) })
}

func (o *Outbox) load(tx approval.Tx, id string) (d channels.Delivery, err error) {
	if d.Notification, err = tx.Notification(id); err != nil {
		return d, err
	}
	if d.Notification.Note == approval.NoteQueued {
		if d.Queued, err = queuedFor(tx, d.Notification.Address()); err != nil {
			return d, err
		}
	}
	if len(d.Notification.Body) == 0 {
		if err := o.loadShown(tx, &d); err != nil {
			return d, err
		}
	}
	if d.Notification.BatchID != "" {
		c, err := tx.Card(d.Notification.BatchID)
		if err != nil && !errors.Is(err, approval.ErrNotFound) {
			return d, err
		}
		if err == nil {
			d.Card = &c
		}
	}
	d.Notification = o.byWall(d.Notification)
	if d.Notification.TargetID == "" {
		return d, nil
	}
	t, err := tx.Notification(d.Notification.TargetID)
	d.Target = &t
	return d, err
}

// loadShown reads what a notification is drawn of.
func (o *Outbox) loadShown(tx approval.Tx, d *channels.Delivery) (err error) {
	if d.Requests, err = lists.Shown(tx, d.Notification); err != nil {
		return err
	}
	if d.Grantable, err = o.grantable(tx, *d); err != nil {
		return err
	}
	for i := range d.Requests {
		if err := lists.WithBefore(tx, &d.Requests[i]); err != nil {
			return err
		}
		d.Requests[i] = d.Requests[i].ByWall(o.store)
	}
	return nil
}

// grantable returns those of a delivery's requests that can be decided for longer where it is read: on a card that is
// edited, or in the answer to whoever approved.
func (o *Outbox) grantable(tx approval.Tx, d channels.Delivery) (ids []string, err error) {
	n := d.Notification
	if n.Kind != approval.KindEdit && n.Note != approval.NoteMore {
		return nil, nil
	}
	for _, r := range d.Requests {
		if r.Status != approval.Approved {
			continue
		}
		may, err := o.gate.In(context.Background(), tx).Grants().May(r, o.gate.PersonNow(r.ResolvedBy))
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

// Begin takes notifications for sending, in one transaction, and returns those it took: each counted
// as one more attempt, with the body that is to be sent. A card whose request has ended is skipped
// instead; a notification that somebody else holds is left alone.
func (o *Outbox) Begin(ctx context.Context, attempts []Attempt) ([]approval.Notification, error) {
	about := approval.WholeStore() // several may be several agents'
	if len(attempts) == 1 {
		about = approval.OfNotification(attempts[0].Notification.ID)
	}
	return approval.Update(ctx, o.store, about, func(tx approval.Tx) (begun []approval.Notification, err error) {
		for _, t := range attempts {
			n, ok, err := o.beginOne(tx, t)
			if err != nil {
				return nil, err
			}
			if ok {
				begun = append(begun, n)
			}
		}
		return begun, nil
	})
}

func (o *Outbox) beginOne(tx approval.Tx, t Attempt) (n approval.Notification, ok bool, err error) {
	now, overtakes := tx.Now(), false
	if n, err = tx.Notification(t.Notification.ID); err != nil || !sendable(n, now) {
		return n, false, err
	}
	switch n.Kind {
	case approval.KindRequest, approval.KindReminder:
		over, err := allEnded(tx, n)
		if err == nil && over {
			err = skip(tx, n)
		}
		if err != nil || over {
			return n, false, err
		}
		if waits, err := waitsForTyping(tx, n); err != nil || waits {
			return n, false, err
		}
		overtakes = true
	case approval.KindReply:
		if n.Note == approval.NoteQueued {
			if waits, err := queuedFor(tx, n.Address()); err != nil || waits == 0 {
				return n, false, errors.Join(err, skip(tx, n))
			}
		}
	case approval.KindEdit:
		if may, err := o.mayEdit(tx, n, t); err != nil || !may {
			return n, false, err
		}
	}
	if stale := n.Change != t.Notification.Change || len(t.Notification.Body) > 0; len(n.Body) == 0 && stale {
		// It was drawn before something changed.
		n.UpdatedAt = now // it is due all the same: whoever sends reads it again
		_, err := tx.UpdateNotification(n, n.Status, n.Attempt)
		return n, false, err
	}
	was, attempt := n.Status, n.Attempt
	n.Attempt++
	n.LeaseUntil, n.UpdatedAt = now.Add(t.Lease).Truncate(time.Millisecond), now
	if len(n.Body) == 0 {
		n.Body, n.More, n.Drawn = t.Body, t.More, n.Change
		if n.Shown, err = leaves(tx, n); err != nil {
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
	if ok, err = tx.UpdateNotification(kept, was, attempt); err == nil && ok && overtakes {
		err = overtakeQuestions(tx, n)
	}
	return n, ok, err
}

// leaves takes note that the sending of a card is begun, as it stands, and returns its version: what joins from now on
// has a newer one. 0: it is no card of several.
func leaves(tx approval.Cards, n approval.Notification) (int, error) {
	if n.BatchID == "" || n.Kind == approval.KindReply { // a reply says by it what it is about
		return n.Shown, nil
	}
	c, err := tx.Card(n.BatchID)
	if errors.Is(err, approval.ErrNotFound) { // made before there were any
		return 0, nil
	}
	if err != nil || c.Shown == c.Version() {
		return c.Version(), err
	}
	c.Shown = c.Version()
	return c.Shown, tx.PutCard(c)
}

// mayEdit reports whether an edit may begin: not while another one of the same card is under way, not
// after a newer one has gone out, and not with a picture that is no longer true.
func (o *Outbox) mayEdit(tx approval.Tx, n approval.Notification, t Attempt) (bool, error) {
	siblings, err := tx.Notifications(approval.NotificationQuery{ApprovalID: n.ApprovalID, BatchID: n.BatchID,
		Kind: approval.KindEdit, Narrow: true})
	if err != nil {
		return false, err
	}
	for _, s := range siblings {
		switch {
		case s.TargetID != n.TargetID || s.ID == n.ID:
		case s.LeaseUntil.After(tx.Now()) && (s.Status == approval.Queued || s.Status == approval.Retrying):
			return false, nil // recording how it ended lets this one go
		case s.ID > n.ID && s.Status == approval.Sent:
			return false, skip(tx, n)
		}
	}
	if len(n.Body) > 0 {
		return true, nil
	}
	hs, err := lists.ShownHeads(tx, n)
	if err != nil || !slices.ContainsFunc(hs, func(h approval.Head) bool { return h.ResolvedSeq > t.Seen }) {
		return err == nil, err
	}
	n.UpdatedAt = tx.Now() // it is due all the same: whoever sends reads it again
	_, err = tx.UpdateNotification(n, n.Status, n.Attempt)
	return false, err
}

// nextPart queues the part after one that went out, so that parts arrive in order.
func (o *Outbox) nextPart(tx approval.Tx, n approval.Notification) error {
	if n.Part == 0 || !n.More {
		return nil
	}
	next := approval.Notification{ApprovalID: n.ApprovalID, Channel: n.Channel, Recipient: n.Recipient,
		Kind: approval.KindReply, Cards: n.Cards, Part: n.Part + 1, Language: n.Language}
	if o.routing.Editable(n.Channel) { // an address to answer at is good more than once there, a reply token is not
		next.ReplyTo = n.ReplyTo
	}
	return o.Queue(tx, next)
}

// Sent records that n, as Begin returned it, went out. If the request of a card that can be edited has
// ended meanwhile, the edit is queued with it. A card over which somebody has acted before its receipt is
// recorded stays delivered.
func (o *Outbox) Sent(ctx context.Context, n approval.Notification, r channels.Receipt) error {
	return o.store.Update(ctx, approval.OfNotification(n.ID), func(tx approval.Tx) error {
		row, err := tx.Notification(n.ID)
		if err != nil {
			return err
		}
		early := row.Status == approval.Delivered && row.SentAt.IsZero()
		// It was dropped since its request ended after its lease was over, and went out all the same.
		dropped := row.Status == approval.Skipped && row.Attempt == n.Attempt
		if row.Status != approval.Queued && row.Status != approval.Retrying && !early && !dropped {
			return nil // a later try was recorded first
		}
		was, attempt, now := row.Status, row.Attempt, tx.Now()
		row.SentAt, row.UpdatedAt = now, now
		if !early {
			row.Status = approval.Sent
		}
		row.MessageID, row.HTTPStatus, row.Receipt = r.MessageID, r.HTTPStatus, r.Data
		row.Error, row.LeaseUntil, row.NextAttemptAt = "", time.Time{}, time.Time{}
		if ok, err := tx.UpdateNotification(row, was, attempt); err != nil || !ok {
			return err
		}
		if err := o.record(ctx, tx, row, approval.EventNotificationSent, ""); err != nil {
			return err
		}
		if row.Kind == approval.KindEdit {
			return o.nextEdit(tx, row)
		}
		if err := o.nextPart(tx, row); err != nil {
			return err
		}
		if !row.ShowsCard() || !o.routing.Editable(row.Channel) {
			return nil
		}
		hs, err := lists.ShownHeads(tx, row)
		if err != nil || row.Change == row.Drawn &&
			!slices.ContainsFunc(hs, func(h approval.Head) bool { return h.Status != approval.Pending }) {
			return err
		}
		siblings, err := tx.Notifications(approval.NotificationQuery{ApprovalID: row.ApprovalID, BatchID: row.BatchID,
			Kind: approval.KindEdit, Narrow: true})
		if err != nil {
			return err
		}
		return o.queueEdit(tx, row, siblings)
	})
}

// nextEdit lets the edit that waits behind a finished one of the same card go, and drops those that
// the finished one has overtaken.
func (o *Outbox) nextEdit(tx approval.Tx, done approval.Notification) error {
	ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: done.ApprovalID, BatchID: done.BatchID,
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
			err = skip(tx, n)
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

// NotSent records that n, as Begin returned it, did not go out, or that nobody knows.
func (o *Outbox) NotSent(ctx context.Context, n approval.Notification, f Failure) error {
	lost, err := approval.Update(ctx, o.store, approval.OfNotification(n.ID), func(tx approval.Tx) (rerouted, error) {
		row, err := tx.Notification(n.ID)
		if err != nil {
			return rerouted{}, err
		}
		if row.Attempt != n.Attempt || row.Status != approval.Queued && row.Status != approval.Retrying {
			return rerouted{}, nil // somebody else's attempt by now
		}
		was, attempt, before := row.Status, row.Attempt, row.Error
		late, over, err := overdue(tx, row, latest(tx.Now(), f.RetryAt))
		if err != nil {
			return rerouted{}, err
		}
		if over && !f.Final && !f.Unbegun { // a try after the deadline is none
			f.Final, f.Detail = true, strings.TrimSuffix("no try is left before the deadline: "+f.Detail, ": ")
		}
		failed(&row, f, tx.Now())
		if ok, err := tx.UpdateNotification(row, was, attempt); err != nil || !ok {
			return rerouted{}, err
		}
		if row.Error != before || !f.Unbegun { // else it is no news
			event := approval.EventNotificationRetrying
			if f.Final {
				event = approval.EventNotificationFailed
			}
			if err := o.record(ctx, tx, row, event, f.Reason); err != nil {
				return rerouted{}, err
			}
		}
		if !f.Final {
			return o.sendOn(tx, row, late, row.Channel)
		}
		return o.afterFailure(tx, row)
	})
	if err != nil {
		return err
	}
	o.logReach(ctx, lost.reach, lost.request, "last_channel", n.Channel, "last_reason", f.Reason)
	return nil
}

// failed has the row say what became of its last attempt.
func failed(row *approval.Notification, f Failure, now time.Time) {
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

// afterFailure does what the failure of a notification for good brings with it: the card of a request that still
// waits goes elsewhere.
func (o *Outbox) afterFailure(tx approval.Tx, row approval.Notification) (rerouted, error) {
	if row.Kind == approval.KindEdit {
		return rerouted{}, o.nextEdit(tx, row)
	}
	if row.ApprovalID == "" || row.Kind == approval.KindReply {
		return rerouted{}, nil
	}
	hs, err := pendingHeads(tx, row)
	if err != nil {
		return rerouted{}, err
	}
	return o.sendOn(tx, row, hs, "")
}

// pendingHeads returns the requests on a card that are pending.
func pendingHeads(tx approval.Tx, n approval.Notification) ([]approval.Head, error) {
	hs, err := lists.ShownHeads(tx, n)
	return slices.DeleteFunc(hs, func(h approval.Head) bool { return h.Status != approval.Pending }), err
}

// sendOn has the card of requests that a notification shows go elsewhere. down is as for [Outbox.elsewhere].
func (o *Outbox) sendOn(tx approval.Tx, row approval.Notification, hs []approval.Head, down string) (rerouted, error) {
	var worst rerouted
	for _, h := range hs {
		reach, err := o.elsewhere(tx, h.Request, row.Address(), row.Kind, down)
		if err != nil {
			return rerouted{}, err
		}
		if worst.request.ID == "" || reach > worst.reach {
			worst = rerouted{h.Request, reach}
		}
		if len(row.Cards) > 0 { // a reminder of several, each of which has its own card
			break
		}
	}
	return worst, nil
}

// inTime is the part of the time that a card has until a deadline by which it is to be out: after that it goes to
// somebody else too, who then has the rest.
const inTime = 2

// overdue returns those of the pending requests on a card of which too much time would be gone at its next try, and
// whether that would come after all of their deadlines.
func overdue(tx approval.Tx, n approval.Notification, next time.Time) (late []approval.Head, over bool, err error) {
	if !isCard(n) {
		return nil, false, nil
	}
	hs, err := pendingHeads(tx, n)
	over = len(hs) > 0
	for _, h := range hs {
		if !next.Before(n.CreatedAt.Add(h.ExpiresAt.Sub(n.CreatedAt) / inTime)) {
			late = append(late, h)
		}
		over = over && !next.Before(h.ExpiresAt)
	}
	return late, over, err
}

// SendOn has the cards go elsewhere, too, that wait for a channel which sends nothing at present, and of which too much
// time is gone. It returns those with which it is done.
func (o *Outbox) SendOn(ctx context.Context, ids []string) (done []string, err error) {
	type moved struct {
		done []string
		to   []rerouted
	}
	// A channel that sends nothing holds the cards of all agents.
	out, err := approval.Update(ctx, o.store, approval.WholeStore(), func(tx approval.Tx) (m moved, err error) {
		for _, id := range ids {
			n, err := tx.Notification(id)
			if err != nil {
				return m, err
			}
			if n.Status != approval.Queued && n.Status != approval.Retrying || !isCard(n) {
				m.done = append(m.done, id)
				continue
			}
			late, _, err := overdue(tx, n, tx.Now())
			if err != nil || len(late) == 0 {
				if err != nil {
					return m, err
				}
				continue
			}
			to, err := o.sendOn(tx, n, late, n.Channel)
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

// record puts on record what became of a notification.
func (o *Outbox) record(ctx context.Context, tx approval.Tx, n approval.Notification, t approval.EventType,
	reason string) error {
	e := approval.Event{Type: t, Actor: "system:outbox", ApprovalID: n.ApprovalID, Reason: reason}
	if n.ApprovalID != "" {
		r, err := tx.Head(n.ApprovalID)
		if err != nil {
			return err
		}
		e.Agent, e.Tool, e.Risk = r.Agent, r.Target(), r.Risk
	}
	e.Data = eventData(n)
	return o.audit.Append(ctx, tx, e)
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
