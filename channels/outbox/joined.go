package outbox

import (
	"slices"
	"time"

	"countersign/approval"
)

const (
	// joinedHeld is how long what has joined a card that cannot be edited waits where a caller waits for the answer.
	joinedHeld = 5 * time.Second
	// joinedLate is how long before its deadline it goes out at the latest, or where it has less than four times that, a
	// quarter of its time before it.
	joinedLate = 5 * time.Minute
)

// Joined sees to the cards of requests that others have joined. A card that can be edited is; one that was not sent yet
// shows them anyway. Where neither is so, one further message shows what has joined, after a while.
func (o *Outbox) Joined(tx approval.Tx, c approval.Card, made []approval.Request, asked []approval.Audience,
	soon approval.Joining) (approval.Announcement, error) {
	w := o.within(tx).routes()
	ns, err := tx.Notifications(approval.NotificationQuery{BatchID: c.ID, Narrow: true})
	if err != nil {
		return approval.Announcement{}, err
	}
	due, err := w.cards().scheduleJoined(c, made, soon)
	if err != nil {
		return approval.Announcement{}, err
	}
	to := o.findDestinations(made, asked)
	due = latest(due, soon.Turn)
	j := cardJoin{w: w.cards(), card: newCard(made...), due: due, ns: ns, tried: map[approval.Address]bool{}}
	j.card.n.ApprovalID, j.card.n.BatchID = made[0].ID, c.ID
	j.scheduleCard(c, soon)
	j.noteAsked(to.routes, to.later)
	for _, n := range ns {
		if err := j.visit(n); err != nil {
			return approval.Announcement{}, err
		}
	}
	if err := j.queueFollowing(); err != nil {
		return approval.Announcement{}, err
	}
	// Those who are asked about one of these alone have no card yet.
	to.routes = leaveOut(to.routes, j.tried)
	told, err := w.tellAll(j.card, made, to, j.tried)
	if err != nil {
		return approval.Announcement{}, err
	}
	some, err := w.tellLater(j.card, to.later, j.tried)
	told.Pushes += j.pushes + some
	return told, err
}

// cardJoin is what becomes of a card's notifications as requests join it.
type cardJoin struct {
	w      cardWork
	card   card
	due    time.Time
	ns     []approval.Notification
	asked  map[approval.Address]time.Time // who is asked about what has joined, and when
	tried  map[approval.Address]bool      // where what has joined is shown, or will be
	begun  map[approval.Address]int       // where it is not, and the newest version that is
	pushes int
}

// visit looks at one notification of the card.
func (j *cardJoin) visit(n approval.Notification) error {
	waiting := n.Status == approval.Queued || n.Status == approval.Retrying
	if !n.ShowsCard() || n.Kind == approval.KindReply || !waiting && n.Status != approval.Sent &&
		n.Status != approval.Delivered {
		return nil
	}
	a := n.Address()
	switch {
	case waiting && n.Attempt == 0:
		j.tried[a] = true
		return j.w.markChanged(j.bringForward(n))
	case j.w.o.routing.Editable(n.Channel):
		j.tried[a] = true
		if waiting {
			return j.w.markChanged(n)
		}
		return j.w.queueEdit(n, j.ns)
	}
	if j.begun == nil {
		j.begun = map[approval.Address]int{}
	}
	j.begun[a] = max(j.begun[a], n.Shown, 1)
	return nil
}

// queueFollowing queues one further message wherever a card cannot be edited.
func (j *cardJoin) queueFollowing() error {
	for _, n := range slices.Backward(j.ns) { // the oldest first
		a := n.Address()
		shown, ok := j.begun[a]
		if !ok || j.tried[a] {
			continue
		}
		next := j.card
		next.n.After, next.n.NextAttemptAt, next.n.TurnAt = shown, j.due, time.Time{}
		if err := j.w.queue(j.w.schedule(next, a)); err != nil {
			return err
		}
		j.tried[a] = true
		j.pushes++
	}
	return nil
}

// scheduleCard says when the card goes to those who have none yet: with the one that has not left, or at once.
func (j *cardJoin) scheduleCard(c approval.Card, soon approval.Joining) {
	j.card.n.TurnAt, j.card.n.NextAttemptAt = soon.Turn, latest(j.w.tx.Now(), soon.Turn)
	if c.Shown > 0 {
		return
	}
	j.card.n.NextAttemptAt = latest(j.card.n.NextAttemptAt, c.LeavesAt)
	for _, n := range j.ns {
		if n.Attempt == 0 && n.HeldFor != "" {
			j.card.n.NextAttemptAt, j.card.n.HeldFor = latest(j.card.n.NextAttemptAt, soon.WaitsUntil), n.HeldFor
		}
	}
}

// noteAsked notes who is asked about what has joined, now or later.
func (j *cardJoin) noteAsked(routes []approval.Route, later []escalation) {
	j.asked = map[approval.Address]time.Time{}
	note := func(routes []approval.Route, at time.Time) {
		for _, a := range slices.Concat(routes...) {
			if was, ok := j.asked[a]; !ok || at.Before(was) {
				j.asked[a] = at
			}
		}
	}
	note(routes, j.card.n.NextAttemptAt)
	for _, l := range later {
		note(l.routes, latest(l.at, j.card.n.NextAttemptAt))
	}
}

// bringForward returns a notification that was not sent yet, with when it is to be for what has joined: for the rest of
// what it shows it may have waited longer.
func (j *cardJoin) bringForward(n approval.Notification) approval.Notification {
	at, asked := j.asked[n.Address()]
	switch {
	case n.After > 0:
		at = j.due
	case !asked:
		return n
	}
	return j.w.bringForward(n, j.card, at)
}

// scheduleJoined returns when what has joined a card that cannot be edited goes out: at once where something on the
// card was decided, soon where a caller waits, and in time before a deadline.
func (w cardWork) scheduleJoined(c approval.Card, made []approval.Request, soon approval.Joining) (time.Time, error) {
	now := w.tx.Now()
	hs, err := w.tx.BatchHeads(c.ID)
	if err != nil {
		return now, err
	}
	if slices.ContainsFunc(hs, func(h approval.Head) bool { return h.Status != approval.Pending }) {
		return now, nil
	}
	due := now.Add(soon.After)
	if soon.Waits {
		due = now.Add(min(soon.After, joinedHeld))
	}
	for _, r := range made {
		late := r.ExpiresAt.Add(-min(joinedLate, r.ExpiresAt.Sub(now)/4))
		if late.Before(due) {
			due = late
		}
	}
	return latest(due, now).Truncate(time.Millisecond), nil
}

// DropJoined drops what waits to be sent to an address of what has joined a card: an answer brings it there.
func (o *Outbox) DropJoined(tx approval.Tx, to approval.Address, card string) error {
	w := o.within(tx)
	ns, err := tx.Notifications(approval.NotificationQuery{BatchID: card, Channel: to.Channel, Recipient: to.To,
		Status: approval.Queued, Narrow: true})
	if err != nil {
		return err
	}
	for _, n := range ns {
		if n.After == 0 || n.Attempt > 0 || n.Kind != approval.KindRequest {
			continue
		}
		if err := w.skip(n); err != nil {
			return err
		}
	}
	return nil
}
