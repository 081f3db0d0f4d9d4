package outbox

import (
	"context"
	"slices"
	"time"

	"countersign/approval"
)

// RetryFailed gives the failed cards of pending requests one further attempt each, and returns how many.
func (o *Outbox) RetryFailed(ctx context.Context) (int, error) {
	return o.eachPending(ctx, nil, func(tx approval.Tx, r approval.Request) (revived int, err error) {
		ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Status: approval.Failed,
			Narrow: true})
		if err != nil {
			return 0, err
		}
		for _, n := range ns {
			if n.Revived || n.Kind != approval.KindRequest && n.Kind != approval.KindReminder {
				continue
			}
			n.Revived, n.Status, n.NextAttemptAt, n.UpdatedAt = true, approval.Retrying, tx.Now(), tx.Now()
			ok, err := tx.UpdateNotification(n, approval.Failed, n.Attempt)
			if err == nil && ok {
				revived++
				err = o.record(ctx, tx, n, approval.EventNotificationRetrying, "heartbeat")
			}
			if err != nil {
				return 0, err
			}
		}
		return revived, nil
	})
}

// Remind pushes the cards of requests that nobody has answered for a while again: each time after has
// passed since the last card, as a new message, at most limit times. It returns how many requests
// people were reminded of. Reminders for which an agent's budget of pushes has no room come with a later run.
func (o *Outbox) Remind(ctx context.Context, after time.Duration, limit int) (int, error) {
	paid := &pushes{budgets: o.budgets}
	return o.eachPending(ctx, paid, func(tx approval.Tx, r approval.Request) (int, error) {
		if tx.Now().Sub(r.RequestedAt) < after {
			return 0, nil
		}
		ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
		if err != nil {
			return 0, err
		}
		if rounds, newest := reminded(r, ns); rounds >= limit || tx.Now().Sub(newest) < after {
			return 0, nil
		}
		var to []approval.Address
		for _, route := range o.routing.Routes(r) {
			a, ok, err := o.again(tx, route, ns)
			if err != nil {
				return 0, err
			}
			if ok && !slices.Contains(to, a) {
				to = append(to, a)
			}
		}
		if len(to) == 0 || !paid.take(r.Agent, len(to)) {
			return 0, nil
		}
		for _, a := range to {
			n := approval.Notification{ApprovalID: r.ID, Channel: a.Channel, Recipient: a.To, Kind: approval.KindReminder}
			if err := o.Queue(tx, n); err != nil {
				return 0, err
			}
		}
		return 1, nil
	})
}

// reminded returns how many rounds of reminders there were, and when the newest card was made.
func reminded(r approval.Request, ns []approval.Notification) (rounds int, newest time.Time) {
	at := map[time.Time]bool{} // one round of reminders has one time
	newest = r.RequestedAt
	for _, n := range ns {
		if n.Kind == approval.KindReminder {
			at[n.CreatedAt] = true
		}
		if n.Kind == approval.KindReminder || n.Kind == approval.KindRequest {
			newest = latest(newest, n.CreatedAt)
		}
	}
	return len(at), newest
}

// again returns where along a route a reminder goes: to where the card went, or else to the first
// address that is alive.
func (o *Outbox) again(tx approval.Tx, route approval.Route,
	ns []approval.Notification) (approval.Address, bool, error) {
	arrived := approval.Route{}
	for _, a := range route {
		if slices.ContainsFunc(ns, func(n approval.Notification) bool {
			return n.Address() == a && isCard(n) && (n.Status == approval.Sent || n.Status == approval.Delivered)
		}) {
			arrived = append(arrived, a)
		}
	}
	if a, ok, err := o.pick(tx, arrived, nil); err != nil || ok {
		return a, ok, err
	}
	return o.pick(tx, route, nil)
}

// eachPending calls fn for the narrow part of every pending request that is not due, one page of them per
// transaction, and adds up what fn counts. paid, where it is not nil, is what fn took from budgets.
func (o *Outbox) eachPending(ctx context.Context, paid *pushes,
	fn func(tx approval.Tx, r approval.Request) (int, error)) (int, error) {
	type page struct {
		count int
		next  string // "": it was the last
	}
	total, after := 0, ""
	for {
		p, err := approval.Update(ctx, o.store, func(tx approval.Tx) (p page, err error) {
			paid.giveBack()
			hs, err := tx.Heads(approval.RequestQuery{Status: approval.Pending, After: after, Limit: perStep})
			if err != nil {
				return page{}, err
			}
			for _, h := range hs {
				if h.Due(tx.Now()) {
					continue
				}
				n, err := fn(tx, h.Request)
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
func (p *pushes) take(agent string, n int) bool {
	if p.budgets == nil {
		return true
	}
	if err := p.budgets.Take(agent, 0, n); err != nil {
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
		p.budgets.Give(agent, 0, n)
	}
	clear(p.taken)
}

// keep takes note that the transaction has committed.
func (p *pushes) keep() {
	if p != nil {
		clear(p.taken)
	}
}
