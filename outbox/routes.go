package outbox

import (
	"context"
	"slices"
	"time"

	"countersign/approval"
)

// Requested queues the cards of new requests: one along each route, whether it shows one request or a batch. Where
// nothing on any route is alive, admins are told.
func (o *Outbox) Requested(tx approval.Tx, made []approval.Request) (approval.Announcement, error) {
	n := approval.Notification{ApprovalID: made[0].ID, Kind: approval.KindRequest}
	if len(made) > 1 {
		n.BatchID = made[0].BatchID
	}
	routes, tried := o.routing.Routes(made[0]), map[approval.Address]bool{}
	told, err := o.tell(tx, n, routes, tried)
	if err != nil || told > 0 || len(routes) == 0 {
		return approval.Announcement{Pushes: told}, err
	}
	n.Note = approval.NoteUnreached
	if told, err = o.tell(tx, n, o.routing.Admins(), tried); err != nil {
		return approval.Announcement{}, err
	}
	reach := nobody
	if told > 0 {
		reach = onlyAdmins
	}
	return approval.Announcement{Pushes: told, Log: func(ctx context.Context) {
		for _, r := range made {
			o.logReach(ctx, reach, r, "last_reason", "nobody of the route is reached any more")
		}
	}}, nil
}

// reach says who has the card of a request that met a dead end.
type reach int

const (
	others      reach = iota // somebody else has it, or will
	nextAddress              // it goes to the next address of its route
	onlyAdmins               // nobody has it, and it goes to admins
	nobody                   // nobody has it, and nobody can be told
)

// rerouted is a request whose card met a dead end.
type rerouted struct {
	request approval.Request
	reach   reach
}

// logReach says loudly, after the commit, what became of a card that met a dead end.
func (o *Outbox) logReach(ctx context.Context, to reach, r approval.Request, about ...any) {
	about = append([]any{"approval_id", r.ID, "tool", r.Target(), "agent", r.Agent}, about...)
	switch to {
	case nextAddress:
		o.log.WarnContext(ctx, "a notification failed for good; the card goes on to the next address of its recipient",
			about...)
	case onlyAdmins:
		o.log.ErrorContext(ctx, "nobody who should be could be told of a request: every notification of it failed; it goes "+
			"to the admins; mend the channel", about...)
	case nobody:
		o.log.ErrorContext(ctx, "nobody could be told of a request: every notification of it failed; decide it with "+
			"`countersign approve` or `deny`, and mend the channel", about...)
	}
}

// ToAdmins queues what card makes for each admin, at the first of their addresses that is alive.
func (o *Outbox) ToAdmins(tx approval.Tx, card func(to approval.Address) approval.Notification) error {
	tried := map[approval.Address]bool{}
	for _, route := range o.routing.Admins() {
		a, ok, err := o.pick(tx, route, tried)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		tried[a] = true
		n := card(a)
		n.Channel, n.Recipient = a.Channel, a.To
		if err := o.Queue(tx, n); err != nil {
			return err
		}
	}
	return nil
}

// tell queues n along each route, to the first address that is alive and was not tried, and returns how
// many times. It marks where it goes as tried.
func (o *Outbox) tell(tx approval.Tx, n approval.Notification, routes []approval.Route,
	tried map[approval.Address]bool) (int, error) {
	told := 0
	for _, route := range routes {
		a, ok, err := o.pick(tx, route, tried)
		if err != nil {
			return told, err
		}
		if !ok {
			continue
		}
		n.Channel, n.Recipient = a.Channel, a.To
		if err := o.Queue(tx, n); err != nil {
			return told, err
		}
		tried[a] = true
		told++
	}
	return told, nil
}

// pick returns the first address of a route that is alive and was not tried; one on a channel that can
// send nothing more only where there is no other.
func (o *Outbox) pick(tx approval.Tx, route approval.Route,
	tried map[approval.Address]bool) (approval.Address, bool, error) {
	var last approval.Address
	for _, a := range route {
		if tried[a] {
			continue
		}
		if dead, err := tx.Dead(a); err != nil {
			return approval.Address{}, false, err
		} else if dead {
			continue
		}
		if !o.routing.Spent(a.Channel) {
			return a, true, nil
		}
		if last == (approval.Address{}) {
			last = a
		}
	}
	return last, last != approval.Address{}, nil
}

// elsewhere sends the card of a pending request on along the routes that a dead end is part of, to the
// next address; where there is none, and nobody else has the card, to admins.
func (o *Outbox) elsewhere(tx approval.Tx, r approval.Request, end approval.Address,
	kind approval.NotificationKind) (reach, error) {
	ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err != nil {
		return nobody, err
	}
	hasOther, has := false, map[approval.Address]bool{}
	n := approval.Notification{ApprovalID: r.ID, Kind: kind}
	tried := map[approval.Address]bool{end: true}
	for _, x := range ns {
		if !isCard(x) {
			continue
		}
		tried[x.Address()] = true
		if x.BatchID != "" && x.ApprovalID != "" {
			n.ApprovalID, n.BatchID = x.ApprovalID, x.BatchID // the card shows the whole batch
		}
		if x.Address() == end || x.Status == approval.Failed || x.Status == approval.Skipped {
			continue
		}
		dead, err := tx.Dead(x.Address())
		if err != nil {
			return nobody, err
		}
		if !dead {
			hasOther, has[x.Address()] = true, true
		}
	}
	var routes []approval.Route
	for _, route := range o.routing.Routes(r) {
		if slices.Contains(route, end) && !slices.ContainsFunc(route, func(a approval.Address) bool { return has[a] }) {
			routes = append(routes, route)
		}
	}
	told, err := o.tell(tx, n, routes, tried)
	switch {
	case err != nil:
		return nobody, err
	case told > 0:
		return nextAddress, nil
	case hasOther:
		return others, nil
	}
	n.Kind, n.Note = approval.KindRequest, approval.NoteUnreached
	if told, err = o.tell(tx, n, o.routing.Admins(), tried); err != nil || told == 0 {
		return nobody, err
	}
	return onlyAdmins, nil
}

// mostRerouted is how many pending requests are sent elsewhere when somebody leaves, the newest. The others are left
// to the reminders.
const mostRerouted = 2000

// Left takes note that since at nothing reaches an address any more; cards that wait there for an answer go on
// to the next address of their route: the first of them at once, the rest by after, which is called once the
// transaction has committed and says too what became of them. What after does not come to either is left to the
// reminders.
func (o *Outbox) Left(ctx context.Context, tx approval.Tx, by approval.Actor, a approval.Address,
	at time.Time) (after func(context.Context), err error) {
	news, err := tx.SetDead(a, true, at)
	if err != nil || !news {
		return nil, err
	}
	if err := o.recordAddress(ctx, tx, approval.EventChannelDead, by, a); err != nil {
		return nil, err
	}
	first, err := o.rerouteSome(tx, a, "")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		for _, m := range append(first.unreached, o.rerouteRest(ctx, a, first.upTo)...) {
			o.logReach(ctx, m.reach, m.request, "last_channel", a.Channel, "last_reason", "blocked")
		}
	}, nil
}

// Returned takes note that somebody at an address was heard of at a time, and so is reached.
func (o *Outbox) Returned(ctx context.Context, tx approval.Tx, by approval.Actor, a approval.Address,
	at time.Time) error {
	news, err := tx.SetDead(a, false, at)
	if err != nil || !news {
		return err
	}
	return o.recordAddress(ctx, tx, approval.EventChannelAlive, by, a)
}

func (o *Outbox) recordAddress(ctx context.Context, tx approval.Tx, t approval.EventType, by approval.Actor,
	a approval.Address) error {
	data := approval.EventData(map[string]any{"channel": a.Channel, "recipient": a.To})
	return o.audit.Append(ctx, tx, approval.Event{Type: t, Actor: by.String(), Data: data})
}

// rerouteRest sends on what the first step has not come to, in steps that others' work can come between.
func (o *Outbox) rerouteRest(ctx context.Context, a approval.Address, after string) []rerouted {
	var all []rerouted
	for n := perStep; after != "" && n < mostRerouted; n += perStep {
		some, err := approval.Update(ctx, o.store, func(tx approval.Tx) (rerouting,
			error) {
			return o.rerouteSome(tx, a, after)
		})
		if err != nil {
			o.log.WarnContext(ctx, "the cards of somebody who left could not all be sent on; the reminders see to the rest",
				"channel", a.Channel, "error", err)
			break
		}
		all, after = append(all, some.unreached...), some.upTo
	}
	return all
}

// rerouting is what one step of sending cards on came to.
type rerouting struct {
	unreached []rerouted // cards that nobody has any more, or only admins
	upTo      string     // the request at which it stopped; "": it was the last step
}

// rerouteSome sends on the cards of as many pending requests as one transaction should, those after an id.
func (o *Outbox) rerouteSome(tx approval.Tx, a approval.Address, after string) (out rerouting, err error) {
	hs, err := tx.Heads(approval.RequestQuery{Status: approval.Pending, After: after, Limit: perStep})
	if err != nil {
		return out, err
	}
	for _, h := range hs {
		to, err := o.reroute(tx, h.Request, a)
		if err != nil {
			return out, err
		}
		if to == nobody || to == onlyAdmins {
			out.unreached = append(out.unreached, rerouted{h.Request, to})
		}
	}
	if len(hs) == perStep {
		out.upTo = hs[len(hs)-1].ID
	}
	return out, nil
}

// reroute sends the card of a pending request elsewhere if it went to a.
func (o *Outbox) reroute(tx approval.Tx, r approval.Request, a approval.Address) (reach, error) {
	if r.Due(tx.Now()) {
		return others, nil
	}
	ns, err := tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err != nil || !slices.ContainsFunc(ns, func(n approval.Notification) bool {
		return n.Address() == a && isCard(n)
	}) {
		return others, err
	}
	return o.elsewhere(tx, r, a, approval.KindRequest)
}

// isCard reports whether a notification is a request's card, pushed.
func isCard(n approval.Notification) bool {
	return n.Kind == approval.KindRequest || n.Kind == approval.KindReminder
}
