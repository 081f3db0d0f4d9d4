package outbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"countersign/approval"
)

// RetryFailed gives the failed cards of pending requests one further attempt each, and returns how many.
func (o *Outbox) RetryFailed(ctx context.Context) (int, error) {
	return o.eachPending(ctx, nil, func(w *work, r approval.Request) (revived int, err error) {
		ns, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID,
			Status: approval.Failed, Narrow: true})
		if err != nil {
			return 0, err
		}
		for _, n := range ns {
			if n.Revived || n.Kind != approval.KindRequest && n.Kind != approval.KindReminder {
				continue
			}
			n.Revived, n.Status, n.NextAttemptAt, n.UpdatedAt = true, approval.Retrying, w.tx.Now(), w.tx.Now()
			ok, err := w.tx.UpdateNotification(n, approval.Failed, n.Attempt)
			if err == nil && ok {
				revived++
				err = w.record(n, approval.EventNotificationRetrying, "heartbeat")
			}
			if err != nil {
				return 0, err
			}
		}
		return revived, nil
	})
}

// Remind tells people once more of requests that no approver has answered: after has passed since the card, then twice
// that since the first reminder, then four times that, at most limit times. A person for whom several wait gets one
// message of all. It returns how many requests people were reminded of. Reminders for which an agent's budget of pushes
// has no room come with a later run.
func (o *Outbox) Remind(ctx context.Context, after time.Duration, limit int) (int, error) {
	due := &dueReminders{at: map[approval.Address]*addressDue{}}
	err := o.lookThrough(ctx, func(w *work, r approval.Request) error {
		if w.tx.Now().Sub(r.RequestedAt) < after {
			return nil
		}
		ns, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
		if err != nil {
			return err
		}
		rounds, newest := countReminders(r, ns)
		if rounds >= limit || w.tx.Now().Sub(newest) < after<<min(rounds, 20) {
			return nil
		}
		return w.reminders().collect(due, r, ns)
	})
	if err != nil || len(due.order) == 0 {
		return 0, err
	}
	due.others = true
	err = o.lookThrough(ctx, func(w *work, r approval.Request) error {
		if due.full() || due.ids[r.ID] {
			return nil
		}
		ns, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
		if err != nil {
			return err
		}
		return w.reminders().collect(due, r, ns)
	})
	if err != nil {
		return 0, err
	}
	return o.remindAll(ctx, due)
}

// countReminders returns how many reminders of a request there were at the address that had most of them, and when its
// newest card was made.
func countReminders(r approval.Request, ns []approval.Notification) (rounds int, newest time.Time) {
	newest = r.RequestedAt
	at := map[approval.Address]int{}
	for _, n := range ns {
		if !isCard(n) {
			continue
		}
		if n.Kind == approval.KindReminder {
			at[n.Address()]++
			rounds = max(rounds, at[n.Address()])
		}
		newest = latest(newest, n.CreatedAt, n.SentAt)
	}
	return rounds, newest
}

// isOutstanding reports whether a card is still to be sent to an address for the first time.
func isOutstanding(ns []approval.Notification, to approval.Address) bool {
	return slices.ContainsFunc(ns, func(n approval.Notification) bool {
		return isCard(n) && n.Address() == to && n.Status == approval.Queued && n.Attempt == 0 &&
			n.NextAttemptAt.After(n.CreatedAt)
	})
}

// dueReminders is what waits for whom, of those to whom a reminder is due.
type dueReminders struct {
	at     map[approval.Address]*addressDue
	order  []approval.Address // as they came, so that a run does as the one before
	ids    map[string]bool    // requests of which a reminder is due
	others bool               // what is not due is looked at, for those who get a reminder anyway
}

// addressDue is what waits for the readers at an address.
type addressDue struct {
	due, others []approval.Head
}

// mostReminded is how many requests one message shows.
const mostReminded = 10

// full reports whether each message shows all that it can.
func (d *dueReminders) full() bool {
	for _, at := range d.at {
		if len(at.due)+len(at.others) < mostReminded {
			return false
		}
	}
	return true
}

// collect notes where people would be reminded of a request.
func (w reminderWork) collect(d *dueReminders, r approval.Request, ns []approval.Notification) error {
	to, err := w.routes().audience(r)
	if err != nil {
		return err
	}
	seen := map[approval.Address]bool{}
	for _, route := range w.o.routing.Routes(to) {
		a, ok, err := w.pickAgain(route, ns)
		if err != nil {
			return err
		}
		if !ok || seen[a] || isOutstanding(ns, a) {
			continue
		}
		seen[a] = true
		d.note(a, r, w.o.quietUntil(a, w.tx.Now()))
	}
	return nil
}

func (d *dueReminders) note(a approval.Address, r approval.Request, quiet time.Time) {
	at := d.at[a]
	h := approval.Head{Request: r}
	switch {
	case d.others:
		if at != nil && len(at.others) < mostReminded {
			at.others = append(at.others, h)
		}
		return
	case !quiet.IsZero() && r.Risk != approval.RiskCritical && quiet.Before(r.ExpiresAt):
		return // after the quiet hours
	case at == nil:
		at = &addressDue{}
		d.at[a], d.order = at, append(d.order, a)
	}
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	d.ids[r.ID] = true
	at.due = append(at.due, h)
}

// remindAll queues the reminders, each in a transaction of its own, and returns of how many requests.
func (o *Outbox) remindAll(ctx context.Context, d *dueReminders) (int, error) {
	of := map[string]bool{}
	paid := &pushes{budgets: o.budgets}
	for _, a := range d.order {
		id := "" // of the reminder
		for some := range slices.Chunk(d.at[a].due, perStep) {
			r := reminder{id, some, d.at[a].others, len(d.at[a].due)}
			told, err := update(ctx, o, r.scope(), func(w *work) (t queuedReminder, err error) {
				paid.giveBack()
				return w.reminders().remind(a, r, paid)
			})
			if err != nil {
				paid.giveBack()
				return len(of), err
			}
			paid.keep()
			if id = told.by; id == "" {
				break
			}
			for _, h := range told.of {
				of[h.ID] = true
			}
		}
	}
	return len(of), nil
}

// reminder is what the readers at an address are to be reminded of: some requests in each transaction.
type reminder struct {
	id     string // "": it is still to be queued
	due    []approval.Head
	others []approval.Head
	all    int // how many are due in all
}

// scope is that of the agents whose requests it is about.
func (r reminder) scope() approval.Scope {
	var agents []string
	for _, h := range slices.Concat(r.due, r.others) {
		agents = append(agents, h.Agent)
	}
	return approval.OfAgents(agents...)
}

// queuedReminder is a reminder, and of which requests it was due.
type queuedReminder struct {
	by string // its id; "": there is none
	of []approval.Head
}

// remind queues one reminder of all that waits for the readers at an address, or puts more on record of one that is
// queued. The agent of the first request that has room for it pays.
func (w reminderWork) remind(a approval.Address, r reminder, paid *pushes) (queuedReminder, error) {
	due, err := w.findPending(r.due)
	if err != nil || len(due) == 0 {
		return queuedReminder{by: r.id}, err
	}
	if r.id == "" {
		if !slices.ContainsFunc(due, func(h approval.Head) bool { return paid.take(w.tx, h.Agent, 1) }) {
			return queuedReminder{}, nil
		}
		others, err := w.findPending(r.others)
		if err != nil {
			return queuedReminder{}, err
		}
		n := newReminder(slices.Concat(due, others), r.all-len(r.due))
		n.Channel, n.Recipient = a.Channel, a.To
		if n, err = w.insert(n); err != nil {
			return queuedReminder{}, err
		}
		r.id = n.ID
	}
	for _, h := range due {
		if err := w.tx.PutReminded(h.ID, r.id); err != nil {
			return queuedReminder{}, err
		}
	}
	return queuedReminder{r.id, due}, nil
}

// newReminder returns the reminder of some requests, and of more: the card of one, or of the one card that they all
// stand on, or else those of the first.
func newReminder(hs []approval.Head, more int) approval.Notification {
	n := approval.Notification{Kind: approval.KindReminder}
	switch batch := hs[0].BatchID; {
	case len(hs)+more == 1:
		n.ApprovalID = hs[0].ID
		return n
	case batch != "" && more == 0 && !slices.ContainsFunc(hs, func(h approval.Head) bool { return h.BatchID != batch }):
		n.ApprovalID, n.BatchID = hs[0].ID, batch
		return n
	}
	// Not all may have room on it, and the first is read first.
	hs = slices.SortedStableFunc(slices.Values(hs), func(a, b approval.Head) int {
		return cmp.Compare(b.Risk.Rank(), a.Risk.Rank())
	})
	n.ApprovalID, n.Note = hs[0].ID, approval.WaitingNote(len(hs)+more)
	for _, h := range hs[:min(len(hs), mostReminded)] {
		n.Cards = append(n.Cards, h.ID)
	}
	return n
}

// findPending leaves out what has ended meanwhile.
func (w reminderWork) findPending(hs []approval.Head) ([]approval.Head, error) {
	var still []approval.Head
	for _, h := range hs {
		now, err := w.tx.Head(h.ID)
		if err != nil {
			return nil, err
		}
		if now.Status == approval.Pending && !now.Due(w.tx.Now()) {
			still = append(still, now)
		}
	}
	return still, nil
}

// lookThrough calls fn for the narrow part of every pending request that is not due, oldest pages last, and changes
// nothing.
func (o *Outbox) lookThrough(ctx context.Context, fn func(w *work, r approval.Request) error) error {
	for after := ""; ; {
		next, err := look(ctx, o, func(w *work) (string, error) {
			hs, err := w.tx.Heads(approval.RequestQuery{Status: approval.Pending, After: after, Limit: perStep})
			if err != nil {
				return "", err
			}
			for _, h := range hs {
				if h.Due(w.tx.Now()) {
					continue
				}
				if err := fn(w, h.Request); err != nil {
					return "", err
				}
			}
			if len(hs) < perStep {
				return "", nil
			}
			return hs[len(hs)-1].ID, nil
		})
		if err != nil || next == "" {
			return err
		}
		after = next
	}
}

// pickAgain returns where along a route a reminder goes: to where the card went, or else to the first
// address that is alive.
func (w reminderWork) pickAgain(route approval.Route,
	ns []approval.Notification) (approval.Address, bool, error) {
	arrived := approval.Route{}
	for _, a := range route {
		if slices.ContainsFunc(ns, func(n approval.Notification) bool {
			return n.Address() == a && isCard(n) && (n.Status == approval.Sent || n.Status == approval.Delivered)
		}) {
			arrived = append(arrived, a)
		}
	}
	if a, ok, err := w.routes().pick(arrived, nil); err != nil || ok {
		return a, ok, err
	}
	return w.routes().pick(route, nil)
}

// eachPending calls fn for the narrow part of every pending request that is not due, one page of them per
// transaction, and adds up what fn counts. paid, where it is not nil, is what fn took from budgets.
func (o *Outbox) eachPending(ctx context.Context, paid *pushes,
	fn func(w *work, r approval.Request) (int, error)) (int, error) {
	type page struct {
		count int
		next  string // "": it was the last
	}
	total, after := 0, ""
	for {
		// A page is of all agents, as what was taken from their budgets is.
		p, err := update(ctx, o, approval.WholeStore(), func(w *work) (p page, err error) {
			paid.giveBack()
			hs, err := w.tx.Heads(approval.RequestQuery{Status: approval.Pending, After: after, Limit: perStep})
			if err != nil {
				return page{}, err
			}
			for _, h := range hs {
				if h.Due(w.tx.Now()) {
					continue
				}
				n, err := fn(w, h.Request)
				if err != nil {
					return page{}, err
				}
				p.count += n
			}
			if len(hs) == perStep {
				p.next = hs[len(hs)-1].ID
			}
			return p, nil
		})
		if err != nil {
			paid.giveBack()
			return total, err
		}
		paid.keep()
		if total, after = total+p.count, p.next; after == "" {
			return total, nil
		}
	}
}

// pushes are what was taken from agents' budgets in a transaction that may still come to nothing. nil: nothing.
type pushes struct {
	budgets approval.Budgets // nil: there are none
	taken   map[string]int   // by agent
}

// take reports whether the agent's budget has room for n pushes, and takes them.
func (p *pushes) take(tx approval.Tx, agent string, n int) bool {
	if p.budgets == nil {
		return true
	}
	if err := p.budgets.Take(tx, agent, 0, n); err != nil {
		return false
	}
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	p.taken[agent] += n
	return true
}

// giveBack takes it all back: the transaction did not commit, or begins anew.
func (p *pushes) giveBack() {
	if p == nil {
		return
	}
	for agent, n := range p.taken {
		p.budgets.Give(nil, agent, 0, approval.Pushes{Asked: n, Out: n})
	}
	clear(p.taken)
}

// keep takes note that the transaction has committed.
func (p *pushes) keep() {
	if p != nil {
		clear(p.taken)
	}
}
