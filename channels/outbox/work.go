package outbox

import (
	"context"
	"countersign/internal/lists"
	"slices"
	"time"

	"countersign/approval"
)

// work is what happens inside one transaction of the store, on whose behalf, and the outbox that it is of, as
// [approval.Work] is the gate's. Its methods and those of its nouns begin no transaction and commit none: its caller,
// who began it, does, and an error undoes all of it. It is of one goroutine, and of no use after its transaction.
type work struct {
	o   *Outbox
	ctx context.Context // carries what goes on record; it ends nothing
	tx  approval.Tx
}

// The nouns of the outbox's work.
type (
	cardWork     struct{ *work } // cards follow what becomes of their requests
	routeWork    struct{ *work } // along which route, and to which address, a card goes
	sendingWork  struct{ *work } // a notification is drawn, taken, and recorded
	typingWork   struct{ *work } // a card waits while its reader may be typing
	turnWork     struct{ *work } // cards over a budget of pushes wait for their turn
	reminderWork struct{ *work } // people are told again of what waits for them
)

func (w *work) cards() cardWork         { return cardWork{w} }
func (w *work) routes() routeWork       { return routeWork{w} }
func (w *work) sending() sendingWork    { return sendingWork{w} }
func (w *work) typing() typingWork      { return typingWork{w} }
func (w *work) turns() turnWork         { return turnWork{w} }
func (w *work) reminders() reminderWork { return reminderWork{w} }

func (o *Outbox) in(ctx context.Context, tx approval.Tx) *work { return &work{o, ctx, tx} }

// within is work in a transaction of the gate's, or of the chat's, which puts on record itself what happens there.
func (o *Outbox) within(tx approval.Tx) *work { return o.in(context.Background(), tx) }

// update does work in a write transaction and returns what it found in the run that was committed. fn may run more than
// once: what it finds it returns, and it keeps nothing of a run elsewhere.
func update[T any](ctx context.Context, o *Outbox, about approval.Scope, fn func(w *work) (T, error)) (T, error) {
	return approval.Update(ctx, o.store, about, func(tx approval.Tx) (T, error) { return fn(o.in(ctx, tx)) })
}

// look does work that only reads, and returns what it found.
func look[T any](ctx context.Context, o *Outbox, fn func(w *work) (T, error)) (T, error) {
	return approval.View(ctx, o.store, func(tx approval.Tx) (T, error) { return fn(o.in(ctx, tx)) })
}

func (o *Outbox) update(ctx context.Context, about approval.Scope, fn func(w *work) error) error {
	return o.store.Update(ctx, about, func(tx approval.Tx) error { return fn(o.in(ctx, tx)) })
}
func (w *work) queue(n approval.Notification) error {
	_, err := w.insert(n)
	return err
}

func (w *work) insert(n approval.Notification) (approval.Notification, error) {
	now := w.tx.Now()
	n.ID, n.Status, n.RetryKey = w.tx.NewID(), approval.Queued, newUUID()
	n.CreatedAt, n.UpdatedAt = now, now
	if n.NextAttemptAt.IsZero() {
		n.NextAttemptAt = now
	}
	return n, w.tx.InsertNotification(n)
}

// needScope is for a transaction that is to change notifications of a request. A reminder of several requests, which
// may be several agents', is its first one's.
func (w *work) needScope(r approval.Request, ns []approval.Notification) error {
	if slices.ContainsFunc(ns, func(n approval.Notification) bool {
		return n.ApprovalID != r.ID && (n.BatchID == "" || n.BatchID != r.BatchID)
	}) {
		return approval.NeedWholeStore(w.tx)
	}
	return nil
}

func (w *work) allEnded(n approval.Notification) (bool, error) {
	hs, err := lists.ShownHeads(w.tx, n)
	return !slices.ContainsFunc(hs, func(h approval.Head) bool { return h.Status == approval.Pending }), err
}

func (w *work) skip(n approval.Notification) error {
	was, attempt := n.Status, n.Attempt
	n.Status, n.UpdatedAt, n.LeaseUntil = approval.Skipped, w.tx.Now(), time.Time{}
	_, err := w.tx.UpdateNotification(n, was, attempt)
	return err
}

// markChanged takes note that a notification which was not sent yet shows something else now.
func (w *work) markChanged(n approval.Notification) error {
	n.Change++
	n.UpdatedAt = w.tx.Now()
	_, err := w.tx.UpdateNotification(n, n.Status, n.Attempt)
	return err
}

// pendingHeads returns the requests on a card that are pending.
func (w *work) pendingHeads(n approval.Notification) ([]approval.Head, error) {
	hs, err := lists.ShownHeads(w.tx, n)
	return slices.DeleteFunc(hs, func(h approval.Head) bool { return h.Status != approval.Pending }), err
}

// record puts on record what became of a notification.
func (w *work) record(n approval.Notification, t approval.EventType, reason string) error {
	e := approval.Event{Type: t, Actor: "system:outbox", ApprovalID: n.ApprovalID, Reason: reason}
	if n.ApprovalID != "" {
		r, err := w.tx.Head(n.ApprovalID)
		if err != nil {
			return err
		}
		e.Agent, e.Tool, e.Risk = r.Agent, r.Target(), r.Risk
	}
	e.Data = eventData(n)
	return w.o.audit.Append(w.ctx, w.tx, e)
}
