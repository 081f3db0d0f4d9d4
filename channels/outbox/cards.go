package outbox

import (
	"slices"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// Ended does what every end of a request brings with it: cards that were not sent are dropped, sent ones that can be
// edited are, what has joined one of its card goes out, and the agent's next card comes up. It takes the narrow part of
// r alone, as it was before.
func (o *Outbox) Ended(tx approval.Tx, r approval.Request) error {
	w := o.within(tx).cards()
	ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err == nil {
		err = w.needScope(r, ns)
	}
	if err != nil {
		return err
	}
	next, err := w.findNext(r, ns)
	if err != nil {
		return err
	}
	for _, n := range ns {
		if !n.ShowsCard() {
			continue
		}
		switch n.Status {
		case approval.Queued, approval.Retrying:
			err = w.drop(n)
		case approval.Sent, approval.Delivered:
			err = w.queueEdit(n, ns)
		}
		if err != nil {
			return err
		}
	}
	return w.release(next)
}

// drop skips a card that was not sent, if all that it shows has ended.
func (w cardWork) drop(n approval.Notification) error {
	if n.LeaseUntil.After(w.tx.Now()) {
		return w.markChanged(n) // on its way: recording its receipt queues the edit
	}
	if n.Kind == approval.KindReply { // a reply answers what a person sent, and goes out all the same
		return w.markChanged(n)
	}
	w.tx.Ahead(func() { _, _ = w.allEnded(n) }) // once, for all the cards that show the same
	over, err := w.allEnded(n)
	switch {
	case err != nil:
		return err
	case over:
		return w.skip(n)
	}
	n.Change++
	if n.After > 0 && n.Attempt == 0 { // what has joined is shown once something is decided
		n.NextAttemptAt = earlier(n.NextAttemptAt, w.tx.Now())
	}
	n.UpdatedAt = w.tx.Now()
	_, err = w.tx.UpdateNotification(n, n.Status, n.Attempt)
	return err
}

// findNext returns what waits for the agent's earlier cards, the oldest first, where one of it may go out now: all of
// r's card has ended. A card that waited itself made no room, and what is critical took none.
func (w cardWork) findNext(r approval.Request, ns []approval.Notification) ([]approval.Notification, error) {
	if r.Status != approval.Pending || r.Risk == approval.RiskCritical {
		return nil, nil
	}
	held, err := w.tx.HeldFor(r.Agent, mostHeld)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	if slices.ContainsFunc(ns, func(n approval.Notification) bool { return n.HeldFor != "" }) {
		return nil, nil
	}
	if r.BatchID != "" {
		hs, err := w.tx.BatchHeads(r.BatchID)
		if err != nil || slices.ContainsFunc(hs, func(h approval.Head) bool { return h.Status == approval.Pending }) {
			return nil, err
		}
	}
	return held, nil
}

// mostHeld is how many notifications of waiting cards are looked at: those of the first one are among them.
const mostHeld = 64

// release has the first of some waiting cards go out at its turn: an agent that cancels what is before people, or has
// it expire, must not let out in a moment what has waited past its turns. What a transaction that comes to nothing uses
// up here is not given back: the next card is later then, and in time before its deadline all the same.
func (w cardWork) release(held []approval.Notification) error {
	var turn time.Time // the zero time: none goes out yet
	for _, n := range held {
		if n.ApprovalID != held[0].ApprovalID && (n.BatchID == "" || n.BatchID != held[0].BatchID) {
			continue
		}
		hs, err := lists.ShownHeads(w.tx, n)
		if err != nil {
			return err
		}
		hs = slices.DeleteFunc(hs, func(h approval.Head) bool { return h.Status != approval.Pending })
		if len(hs) == 0 {
			continue
		}
		if at := w.takeTurn(n.HeldFor); turn.IsZero() {
			turn = latest(at, n.TurnAt)
		}
		n = w.bringForward(n, newCardOf(hs), turn)
		if n.HeldFor, n.UpdatedAt = "", w.tx.Now(); turn.After(w.tx.Now()) {
			n.TurnAt = turn
		}
		if _, err := w.tx.UpdateNotification(n, n.Status, n.Attempt); err != nil {
			return err
		}
	}
	return nil
}

// takeTurn uses up a push of an agent's that goes out, and returns when it is its turn.
func (w cardWork) takeTurn(agent string) time.Time {
	if w.o.budgets == nil {
		return w.tx.Now()
	}
	wait := w.o.budgets.Push(w.tx, agent, approval.Pushes{Out: 1})
	return latest(w.tx.Now(), w.tx.Now().Add(wait).Truncate(time.Millisecond))
}

// bringForward returns a notification of c that was not sent yet, to go out at a time where it would go out later.
func (w cardWork) bringForward(n approval.Notification, c card, at time.Time) approval.Notification {
	c.n.NextAttemptAt = at
	if again := w.schedule(c, n.Address()); again.NextAttemptAt.Before(n.NextAttemptAt) {
		n.NextAttemptAt, n.Silent = again.NextAttemptAt, again.Silent
	}
	return n
}

// MarkDelivered marks the cards of r over which the person at an address acted. A press can come before the platform's
// answer to the push is recorded: what is under way then is marked too, and so is a card that we do not know to have
// gone out, where there is no other that the press can have come from.
func (o *Outbox) MarkDelivered(tx approval.Tx, from approval.Address, r approval.Request) error {
	w := o.within(tx)
	ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	ns = slices.DeleteFunc(ns, func(n approval.Notification) bool { return n.Channel != from.Channel })
	if err == nil {
		err = w.needScope(r, ns)
	}
	if err != nil {
		return err
	}
	ns = slices.DeleteFunc(ns, func(n approval.Notification) bool {
		return !n.ShowsCard() || n.Recipient != from.To && !o.routing.Editable(n.Channel)
	})
	arrived := slices.ContainsFunc(ns, func(n approval.Notification) bool {
		return n.Status == approval.Sent ||
			n.Status == approval.Delivered
	})
	for _, n := range ns {
		was, now := n.Status, tx.Now()
		tried := n.Attempt > 0 && (was == approval.Queued || was == approval.Retrying || was == approval.Skipped)
		if was != approval.Sent && !(tried && (n.LeaseUntil.After(now) || !arrived)) {
			continue
		}
		n.Status, n.UpdatedAt = approval.Delivered, now
		if _, err := tx.UpdateNotification(n, was, n.Attempt); err != nil {
			return err
		}
	}
	return nil
}

// queueEdit queues the edit of a sent card. One that has not begun yet will show the newest state
// anyway; behind one that has begun, the next waits, so that edits of one card cannot overtake.
func (w cardWork) queueEdit(card approval.Notification, siblings []approval.Notification) error {
	if !w.o.routing.Editable(card.Channel) || len(card.Receipt) == 0 {
		return nil
	}
	next := w.tx.Now()
	for _, n := range siblings {
		if n.Kind != approval.KindEdit || n.TargetID != card.ID || n.Status != approval.Queued &&
			n.Status != approval.Retrying {
			continue
		}
		if n.Attempt == 0 {
			return w.markChanged(n)
		}
		next = latest(next, n.LeaseUntil, n.NextAttemptAt.Add(time.Second))
	}
	return w.queue(approval.Notification{ApprovalID: card.ApprovalID, BatchID: card.BatchID, Channel: card.Channel,
		Recipient: card.Recipient,
		Kind:      approval.KindEdit, TargetID: card.ID, Cards: card.Cards, After: card.After, NextAttemptAt: next,
		Language: card.Language})
}

func latest(ts ...time.Time) time.Time {
	return slices.MaxFunc(ts, time.Time.Compare)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// editPending edits the cards of a pending request and returns the addresses at which one is on its way, and the rooms
// that have one. What waits for its turn to go to one of some routes goes out now.
func (w cardWork) editPending(r approval.Request,
	now []approval.Route) (tried map[approval.Address]bool, err error) {
	ns, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err == nil {
		err = w.needScope(r, ns)
	}
	if err != nil {
		return nil, err
	}
	tried = map[approval.Address]bool{}
	rooms := w.o.routing.Rooms()
	for _, n := range ns {
		if !n.ShowsCard() {
			continue
		}
		switch n.Status {
		case approval.Sent, approval.Delivered:
			err = w.queueEdit(n, ns)
			tried[n.Address()] = tried[n.Address()] || slices.Contains(rooms, n.Address())
		case approval.Queued, approval.Retrying:
			asked := slices.ContainsFunc(now, func(route approval.Route) bool { return slices.Contains(route, n.Address()) })
			if asked && isCard(n) && n.After == 0 && n.Attempt == 0 && n.HeldFor == "" {
				again := w.schedule(newCard(r), n.Address())
				n.NextAttemptAt = earlier(n.NextAttemptAt, latest(w.tx.Now(), again.NextAttemptAt))
				tried[n.Address()] = true
			}
			err = w.markChanged(n)
			tried[n.Address()] = tried[n.Address()] || !n.NextAttemptAt.After(w.tx.Now()) || n.HeldFor != ""
		}
		if err != nil {
			return nil, err
		}
	}
	return tried, nil
}

// schedule returns the card as it goes to an address. In its reader's quiet hours it waits for their end, or makes no
// sound where it would expire meanwhile; what is critical does neither.
func (w cardWork) schedule(c card, a approval.Address) approval.Notification {
	n := c.n
	n.Channel, n.Recipient = a.Channel, a.To
	if c.risk == approval.RiskCritical {
		return n
	}
	at := latest(n.NextAttemptAt, w.tx.Now())
	end := w.o.quietUntil(a, at)
	switch {
	case end.IsZero():
	case end.Before(c.until):
		n.NextAttemptAt = end
	default:
		n.Silent = true
	}
	return n
}
