package outbox

import (
	"slices"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// An approver who denies on a channel without dialogs may be typing why. A card that comes just then would stand
// between the denial and its reason, so it waits: for the next thing they send, or a short while. Nothing of this is
// kept beside the rows: that they were asked is their newest reply, and a card that waits is one that is due a little
// later.

const (
	// keyboardOpen is how long after the question a chat's next card waits at most,
	keyboardOpen = 20 * time.Second
	// ofItsTime is the part of the time that a card has until its first deadline which it waits at most,
	ofItsTime = 4
	// lastReplies is among how many replies the question is looked for: what admins are told without having asked can
	// come in between.
	lastReplies = 8
	// questionKept is longer than any question is open whose answer approves.
	questionKept = 10 * time.Minute
)

// openUntil returns until when the person at an address may be typing the reason that they were asked for: the zero
// time where the gate has not asked just now, or where they have sent something since.
//
// A card that leaves as they are asked is as one that left right before.
func (w typingWork) openUntil(a approval.Address) (time.Time, error) {
	q := approval.NotificationQuery{Channel: a.Channel, Recipient: a.To,
		Kind: approval.KindReply, Since: w.tx.Now().Add(-keyboardOpen), Limit: lastReplies, Narrow: true}
	ns, err := w.tx.Glance().Notifications(q)
	for _, n := range ns {
		switch {
		case n.Note.AsksReason():
			return n.CreatedAt.Add(keyboardOpen), nil
		case n.ReplyTo != "": // the answer to what they sent since
			return time.Time{}, nil
		}
	}
	return time.Time{}, err
}

// postponeUntil returns when a card that is due goes out, where its reader may be typing until a time: then, or earlier
// where too little would be left of the time in which it can be decided. What is critical does not wait.
func (w typingWork) postponeUntil(n approval.Notification, typing time.Time) (time.Time, error) {
	hs, err := lists.ShownHeads(w.tx, n)
	if err != nil {
		return time.Time{}, err
	}
	until := typing
	for _, h := range hs {
		if h.Status != approval.Pending {
			continue
		}
		if h.Risk == approval.RiskCritical {
			return time.Time{}, nil
		}
		until = earlier(until, n.CreatedAt.Add(h.ExpiresAt.Sub(n.CreatedAt)/ofItsTime))
	}
	return until.Truncate(time.Millisecond), nil
}

// postpone has a card wait that is about to be sent while its reader may be typing, and reports whether it does.
func (w typingWork) postpone(n approval.Notification) (bool, error) {
	if !isCard(n) {
		return false, nil
	}
	typing, err := w.openUntil(n.Address())
	if err != nil || typing.IsZero() {
		return false, err
	}
	until, err := w.postponeUntil(n, typing)
	if err != nil || !until.After(w.tx.Now()) {
		return false, err
	}
	n.NextAttemptAt, n.UpdatedAt = until, w.tx.Now()
	_, err = w.tx.UpdateNotification(n, n.Status, n.Attempt)
	return true, err
}

// ReleaseCards has the cards go out that waited for what the person at an address has sent now. It is called before
// that is answered.
func (o *Outbox) ReleaseCards(tx approval.Tx, from approval.Address) error {
	w := o.within(tx).typing()
	typing, err := w.openUntil(from)
	if err != nil || !typing.After(tx.Now()) {
		return err
	}
	if err := approval.NeedWholeStore(tx); err != nil { // the cards of all agents wait for them
		return err
	}
	soon, err := tx.DueSoon(from, typing)
	for _, n := range soon {
		if err := w.release(n, typing); err != nil {
			return err
		}
	}
	return err
}

// release has a card go out now if it waited for who was typing until a time, and for nothing else: it was due before,
// and [typingWork.postpone] set when it is now.
func (w typingWork) release(n approval.Notification, typing time.Time) error {
	if !isCard(n) {
		return nil
	}
	n, err := w.tx.Notification(n.ID)
	if err != nil {
		return err
	}
	until, err := w.postponeUntil(n, typing)
	if err != nil || !n.NextAttemptAt.Equal(until) {
		return err
	}
	n.NextAttemptAt, n.UpdatedAt = w.tx.Now(), w.tx.Now()
	_, err = w.tx.UpdateNotification(n, n.Status, n.Attempt)
	return err
}

// openApprovals returns the questions whose answer would approve something at the place that a card of another request
// leaves for: the next text there may be meant for the card. What is in another place, such as a Slack channel beside
// direct messages, is answered there.
func (w typingWork) openApprovals(n approval.Notification) ([]approval.Notification, error) {
	// A question that is asked as the card leaves is as one that was asked after it.
	replies, err := w.tx.Glance().Notifications(approval.NotificationQuery{Channel: n.Channel, Recipient: n.Recipient,
		Kind: approval.KindReply, Since: w.tx.Now().Add(-questionKept), Limit: lastReplies, Narrow: true})
	return slices.DeleteFunc(replies, func(q approval.Notification) bool {
		return q.Note != approval.NoteApprove || sameRequest(q, n)
	}), err
}

// overtake closes questions before the card that leaves can be seen, whatever becomes of the sending.
func (w typingWork) overtake(questions []approval.Notification) error {
	for _, q := range questions {
		if err := approval.NeedWholeStore(w.tx); err != nil { // it may be about another agent's request
			return err
		}
		q.Note, q.UpdatedAt = approval.NoteOvertaken, w.tx.Now()
		if _, err := w.tx.UpdateNotification(q, q.Status, q.Attempt); err != nil {
			return err
		}
	}
	return nil
}

// sameRequest reports whether a question and a card are about the same one request.
func sameRequest(q, card approval.Notification) bool {
	return q.ApprovalID == card.ApprovalID && q.BatchID == "" && card.BatchID == "" && len(card.Cards) < 2
}
