package approval

import (
	"context"
	"slices"
	"time"
)

// announce queues the cards of new requests: one along each route, whether it shows one request or a
// batch. Where nothing on any route is alive, admins are told. What it queues is on the bill: without a push
// there is no request.
func (g *Gate) announce(tx Tx, made []Request, b *bill) (onward, error) {
	if len(made) == 0 {
		return held, nil
	}
	n := Notification{ApprovalID: made[0].ID, Kind: KindRequest}
	if len(made) > 1 {
		n.BatchID = made[0].BatchID
	}
	routes, tried := g.routes(made[0]), map[Address]bool{}
	told, err := g.tell(tx, n, routes, tried)
	if err != nil {
		return held, err
	}
	if told > 0 || len(routes) == 0 {
		return held, b.pushed(told)
	}
	n.Note = NoteUnreached
	if told, err = g.tell(tx, n, g.admins(), tried); err == nil {
		err = b.pushed(told)
	}
	if err != nil || told == 0 {
		return stranded, err
	}
	return toAdmins, nil
}

// sayWhere says loudly, after the commit, what became of cards that met a dead end.
func (g *Gate) sayWhere(ctx context.Context, fate onward, r Request, about ...any) {
	about = append([]any{"approval_id", r.ID, "tool", r.Target(), "agent", r.Agent}, about...)
	switch fate {
	case wentOn:
		g.log.WarnContext(ctx, "a notification failed for good; the card goes on to the next address of its recipient", about...)
	case toAdmins:
		g.log.ErrorContext(ctx, "nobody who should be could be told of a request: every notification of it failed; it goes to the admins; mend the channel", about...)
	case stranded:
		g.log.ErrorContext(ctx, "nobody could be told of a request: every notification of it failed; decide it with `countersign approve` or `deny`, and mend the channel", about...)
	}
}

// tell queues n along each route, to the first address that is alive and was not tried, and returns how
// many times. It marks where it goes as tried.
func (g *Gate) tell(tx Tx, n Notification, routes []Route, tried map[Address]bool) (int, error) {
	told := 0
	for _, route := range routes {
		a, ok, err := g.pick(tx, route, tried)
		if err != nil {
			return told, err
		}
		if !ok {
			continue
		}
		n.Channel, n.Recipient = a.Channel, a.To
		if err := g.queue(tx, n); err != nil {
			return told, err
		}
		tried[a] = true
		told++
	}
	return told, nil
}

// pick returns the first address of a route that is alive and was not tried; one on a channel that can
// send nothing more only where there is no other.
func (g *Gate) pick(tx Tx, route Route, tried map[Address]bool) (Address, bool, error) {
	var last Address
	for _, a := range route {
		if tried[a] {
			continue
		}
		if dead, err := tx.Dead(a); err != nil {
			return Address{}, false, err
		} else if dead {
			continue
		}
		if !g.spent(a.Channel) {
			return a, true, nil
		}
		if last == (Address{}) {
			last = a
		}
	}
	return last, last != Address{}, nil
}

// again returns where along a route a reminder goes: to where the card went, or else to the first
// address that is alive.
func (g *Gate) again(tx Tx, route Route, ns []Notification) (Address, bool, error) {
	arrived := Route{}
	for _, a := range route {
		if slices.ContainsFunc(ns, func(n Notification) bool {
			return n.address() == a && (n.Kind == KindRequest || n.Kind == KindReminder) && (n.Status == Sent || n.Status == Delivered)
		}) {
			arrived = append(arrived, a)
		}
	}
	if a, ok, err := g.pick(tx, arrived, nil); err != nil || ok {
		return a, ok, err
	}
	return g.pick(tx, route, nil)
}

func (n Notification) address() Address { return Address{n.Channel, n.Recipient} }

// onward is what became of a card that met a dead end.
type onward int

const (
	stranded onward = iota // nobody has it, and nobody can be told
	held                   // somebody else has it, or will
	wentOn                 // it goes to the next address of its route
	toAdmins               // nobody has it, and it goes to admins
)

// elsewhere sends the card of a pending request on along the routes that a dead end is part of, to the
// next address; where there is none, and nobody else has the card, to admins.
func (g *Gate) elsewhere(tx Tx, r Request, end Address, kind NotificationKind) (onward, error) {
	ns, err := tx.Notifications(NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err != nil {
		return stranded, err
	}
	reached, has := false, map[Address]bool{}
	n := Notification{ApprovalID: r.ID, Kind: kind}
	tried := map[Address]bool{end: true}
	for _, x := range ns {
		if x.Kind != KindRequest && x.Kind != KindReminder {
			continue
		}
		tried[x.address()] = true
		if x.BatchID != "" && x.ApprovalID != "" {
			n.ApprovalID, n.BatchID = x.ApprovalID, x.BatchID // the card shows the whole batch
		}
		if x.address() == end || x.Status == Failed || x.Status == Skipped {
			continue
		}
		dead, err := tx.Dead(x.address())
		if err != nil {
			return stranded, err
		}
		if !dead {
			reached, has[x.address()] = true, true
		}
	}
	var routes []Route
	for _, route := range g.routes(r) {
		if slices.Contains(route, end) && !slices.ContainsFunc(route, func(a Address) bool { return has[a] }) {
			routes = append(routes, route)
		}
	}
	told, err := g.tell(tx, n, routes, tried)
	switch {
	case err != nil:
		return stranded, err
	case told > 0:
		return wentOn, nil
	case reached:
		return held, nil
	}
	n.Kind, n.Note = KindRequest, NoteUnreached
	if told, err = g.tell(tx, n, g.admins(), tried); err != nil || told == 0 {
		return stranded, err
	}
	return toAdmins, nil
}

// mostRerouted is how many pending requests are sent elsewhere when somebody leaves, the newest. The others are left
// to the reminders.
const mostRerouted = 2000

// left takes note that nothing reaches an address any more; cards that wait there for an answer go on
// to the next address of their route: the first of them at once, the rest by [Gate.leaveRest].
func (g *Gate) left(ctx context.Context, tx Tx, t Interaction) (out InteractionResult, err error) {
	a := Address{t.Channel, t.From}
	news, err := tx.SetDead(a, true, t.when(tx))
	if err != nil || !news {
		return InteractionResult{}, err
	}
	if err := g.auditAddress(ctx, tx, EventChannelDead, t); err != nil {
		return InteractionResult{}, err
	}
	out.unreached, out.rerouted, err = g.rerouteSome(tx, a, "")
	return out, err
}

// leaveRest sends on what [Gate.left] has not come to, in steps that others' work can come between. What it does
// not come to either is left to the reminders.
func (g *Gate) leaveRest(ctx context.Context, t Interaction, after string) []moved {
	var all []moved
	for n := stepRequests; after != "" && n < mostRerouted; n += stepRequests {
		var some []moved
		next := ""
		err := g.store.Update(ctx, func(tx Tx) (err error) {
			some, next, err = g.rerouteSome(tx, Address{t.Channel, t.From}, after)
			return err
		})
		if err != nil {
			g.log.WarnContext(ctx, "the cards of somebody who left could not all be sent on; the reminders see to the rest", "channel", t.Channel, "error", err)
			break
		}
		all, after = append(all, some...), next
	}
	return all
}

// rerouteSome sends on the cards of as many pending requests as one transaction should, those after an id, and
// returns where it stopped, "" at the end.
func (g *Gate) rerouteSome(tx Tx, a Address, after string) (out []moved, next string, err error) {
	hs, err := tx.Heads(RequestQuery{Status: Pending, After: after, Limit: stepRequests})
	if err != nil {
		return nil, "", err
	}
	for _, h := range hs {
		fate, err := g.reroute(tx, h.Request, a)
		if err != nil {
			return nil, "", err
		}
		if fate == stranded || fate == toAdmins {
			out = append(out, moved{h.Request, fate})
		}
	}
	if len(hs) == stepRequests {
		next = hs[len(hs)-1].ID
	}
	return out, next, nil
}

// moved is a request whose card met a dead end.
type moved struct {
	request Request
	fate    onward
}

// reroute sends the card of a pending request elsewhere if it went to a.
func (g *Gate) reroute(tx Tx, r Request, a Address) (onward, error) {
	if r.Due(tx.Now()) {
		return held, nil
	}
	ns, err := tx.Notifications(NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err != nil || !slices.ContainsFunc(ns, func(n Notification) bool {
		return n.address() == a && (n.Kind == KindRequest || n.Kind == KindReminder)
	}) {
		return held, err
	}
	return g.elsewhere(tx, r, a, KindRequest)
}

// came greets somebody who added us. A person we know is reached again; anybody else is told the id
// that the configuration needs.
func (g *Gate) came(ctx context.Context, tx Tx, t Interaction) (InteractionResult, error) {
	if err := g.alive(ctx, tx, t); err != nil {
		return InteractionResult{}, err
	}
	out := InteractionResult{Text: g.say(t.By, SayWelcome, "address", t.From)}
	if t.By.Kind == Human {
		out.Text = g.say(t.By, SayWelcomeBack, "who", t.By.Name)
	}
	return out, g.reply(tx, t, Notification{Text: out.Text}, nil)
}

// alive takes note that somebody wrote, tapped or came back, and so is reached.
func (g *Gate) alive(ctx context.Context, tx Tx, t Interaction) error {
	news, err := tx.SetDead(Address{t.Channel, t.From}, false, t.when(tx))
	if err != nil || !news {
		return err
	}
	return g.auditAddress(ctx, tx, EventChannelAlive, t)
}

// when is the time of a tap: as the platform says, or now.
func (t Interaction) when(tx Tx) time.Time {
	if t.At.IsZero() || t.At.After(tx.Now()) {
		return tx.Now()
	}
	return t.At
}

func (g *Gate) auditAddress(ctx context.Context, tx Tx, e EventType, t Interaction) error {
	return g.audit(ctx, tx, Event{Type: e, Actor: t.By.String(), Data: marshal(map[string]any{"channel": t.Channel, "recipient": t.From})})
}
