package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// Over its agent's budget of pushes a card waits for its turn. Its reader is told how many wait, once in a
// while.
const (
	queuedTold = 5 * time.Minute
	// queuedSoon is how long after the first of them they are told, so that those that come with it are counted.
	queuedSoon = 5 * time.Second
	mostQueued = 200 // cards are looked at
)

// tellQueued has those told who get a card later.
func (w turnWork) tellQueued(to map[approval.Address]bool) error {
	addresses := make([]approval.Address, 0, len(to))
	for a := range to {
		addresses = append(addresses, a)
	}
	slices.SortFunc(addresses, func(a, b approval.Address) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.To, b.To))
	})
	for _, a := range addresses {
		if !w.o.quietUntil(a, w.tx.Now()).IsZero() {
			continue // it is no reason to wake anybody
		}
		// Where two agents' cards meet here at once, both may tell.
		ns, err := w.tx.Glance().Notifications(approval.NotificationQuery{Channel: a.Channel, Recipient: a.To,
			Kind: approval.KindReply, Since: w.tx.Now().Add(-queuedTold), Narrow: true})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(ns, func(n approval.Notification) bool { return n.Note == approval.NoteQueued }) {
			continue
		}
		if err := w.queue(approval.Notification{Channel: a.Channel, Recipient: a.To, Kind: approval.KindReply,
			Note: approval.NoteQueued, NextAttemptAt: w.tx.Now().Add(queuedSoon)}); err != nil {
			return err
		}
	}
	return nil
}

// countQueued counts the requests whose cards wait to go to an address. It is only told.
func (w turnWork) countQueued(a approval.Address) (count int, err error) {
	tx := w.tx.Glance()
	ns, err := tx.Notifications(approval.NotificationQuery{Channel: a.Channel, Recipient: a.To, Status: approval.Queued,
		Narrow: true, Limit: mostQueued})
	if err != nil {
		return 0, err
	}
	for _, n := range ns {
		if !isCard(n) || n.Attempt > 0 || !n.NextAttemptAt.After(tx.Now()) {
			continue
		}
		hs, err := lists.ShownHeads(tx, n)
		if err != nil {
			return 0, err
		}
		for _, h := range hs {
			if h.Status == approval.Pending && !h.Due(tx.Now()) {
				count++
			}
		}
	}
	return count, nil
}

// Requeue gives the cards that wait over their agents' budgets of pushes their turn anew, in the order in which they
// came, after the budgets have changed. None leaves later than it would have.
func (o *Outbox) Requeue(ctx context.Context) error {
	if o.budgets == nil {
		return nil
	}
	ts, err := update(ctx, o, approval.WholeStore(), func(w *work) ([]turn, error) { return w.turns().planTurns() })
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ts, perStep) {
		if err := o.update(ctx, approval.WholeStore(), func(w *work) error { // of all agents
			for _, t := range some {
				if err := w.turns().requeue(t); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// turn is when it is a notification's turn now.
type turn struct {
	id string
	at time.Time
}

// planTurns takes the pushes of all that waits from the budgets as they are now.
func (w turnWork) planTurns() (ts []turn, err error) {
	ns, err := w.tx.Notifications(approval.NotificationQuery{Status: approval.Queued, Narrow: true})
	if err != nil {
		return nil, err
	}
	fitted := map[string]bool{}             // agents of whom is forgotten what waits now
	of := map[string]time.Time{}            // by card: all that it goes to get it together
	for _, n := range slices.Backward(ns) { // the oldest first
		if !n.TurnAt.After(w.tx.Now()) {
			continue
		}
		h, err := w.tx.Head(n.ApprovalID)
		if err != nil {
			return nil, err
		}
		if !fitted[h.Agent] {
			fitted[h.Agent] = true
			w.o.budgets.Fit(w.tx, h.Agent)
		}
		card, wait := cmp.Or(n.BatchID, n.ApprovalID), w.o.budgets.Push(w.tx, h.Agent, pushesOf(n))
		if of[card].IsZero() {
			of[card] = w.tx.Now().Add(wait).Truncate(time.Millisecond)
		}
		if of[card].Before(n.TurnAt) {
			ts = append(ts, turn{n.ID, of[card]})
		}
	}
	return ts, nil
}

// pushesOf are what a notification that waits for its turn uses up.
func pushesOf(n approval.Notification) approval.Pushes {
	if n.HeldFor != "" {
		return approval.Pushes{Asked: 1}
	}
	return approval.Pushes{Asked: 1, Out: 1}
}

// requeue gives one that was not sent yet an earlier turn.
func (w turnWork) requeue(t turn) error {
	n, err := w.tx.Notification(t.id)
	if err != nil || n.Status != approval.Queued || n.Attempt > 0 {
		return err
	}
	hs, err := lists.ShownHeads(w.tx, n)
	if err != nil || len(hs) == 0 {
		return err
	}
	if n.TurnAt, n.UpdatedAt = t.at, w.tx.Now(); n.HeldFor == "" {
		n = w.cards().bringForward(n, newCardOf(hs), latest(w.tx.Now(), t.at))
	}
	_, err = w.tx.UpdateNotification(n, n.Status, n.Attempt)
	return err
}
