package outbox

import (
	"cmp"
	"slices"
	"time"

	"countersign/approval"
)

// Over its agent's budget of pushes a card waits for its turn. Whoever it goes to is told how many wait, once in a
// while.
const (
	queuedTold = 5 * time.Minute
	// queuedSoon is how long after the first of them they are told, so that those that come with it are counted.
	queuedSoon = 5 * time.Second
	mostQueued = 200 // cards are looked at
)

// tellQueued has those told who get a card later.
func (o *Outbox) tellQueued(tx approval.Tx, to map[approval.Address]bool) error {
	addresses := make([]approval.Address, 0, len(to))
	for a := range to {
		addresses = append(addresses, a)
	}
	slices.SortFunc(addresses, func(a, b approval.Address) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.To, b.To))
	})
	for _, a := range addresses {
		if !o.quietEnd(a, tx.Now()).IsZero() {
			continue // it is no reason to wake anybody
		}
		ns, err := tx.Notifications(approval.NotificationQuery{Channel: a.Channel, Recipient: a.To,
			Kind: approval.KindReply, Since: tx.Now().Add(-queuedTold), Narrow: true})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(ns, func(n approval.Notification) bool { return n.Note == approval.NoteQueued }) {
			continue
		}
		if err := o.Queue(tx, approval.Notification{Channel: a.Channel, Recipient: a.To, Kind: approval.KindReply,
			Note: approval.NoteQueued, NextAttemptAt: tx.Now().Add(queuedSoon)}); err != nil {
			return err
		}
	}
	return nil
}

// queuedFor counts the requests whose cards wait to go to an address.
func queuedFor(tx approval.Tx, a approval.Address) (count int, err error) {
	ns, err := tx.Notifications(approval.NotificationQuery{Channel: a.Channel, Recipient: a.To, Status: approval.Queued,
		Narrow: true, Limit: mostQueued})
	if err != nil {
		return 0, err
	}
	for _, n := range ns {
		if !isCard(n) || n.Attempt > 0 || !n.NextAttemptAt.After(tx.Now()) {
			continue
		}
		hs, err := approval.ShownHeads(tx, n)
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
