package outbox

import (
	"context"
	"slices"
	"time"

	"countersign/approval"
)

// Requested queues the card of new requests: one along each route, whether it shows one request or several. Where
// nothing on any route is alive, admins are told.
func (o *Outbox) Requested(tx approval.Tx, made []approval.Request, asked []approval.Audience,
	p approval.Placing) (approval.Announcement, error) {
	w := o.within(tx).routes()
	c := newCard(made...)
	c.n.ApprovalID, c.n.BatchID, c.n.NextAttemptAt = made[0].ID, made[0].BatchID, p.LeavesAt
	if p.Over {
		c.n.TurnAt = p.LeavesAt
	}
	if !p.WaitsUntil.IsZero() {
		c.n.HeldFor, c.n.NextAttemptAt = made[0].Agent, latest(p.WaitsUntil, p.LeavesAt)
	}
	to := o.findDestinations(made, asked)
	tried := map[approval.Address]bool{}
	told, err := w.tellAll(c, made, to, tried)
	if err != nil {
		return approval.Announcement{}, err
	}
	if p.Over {
		if err := w.turns().tellQueued(tried); err != nil {
			return approval.Announcement{}, err
		}
	}
	escalated, err := w.tellLater(c, to.later, tried)
	told.Pushes += escalated
	return told, err
}

// tellAll queues the card of some requests along their routes, and for admins where one of them then comes to none of
// those who are asked about it. It marks where the card goes as tried.
func (w routeWork) tellAll(c card, made []approval.Request, to destinations,
	tried map[approval.Address]bool) (approval.Announcement, error) {
	told, err := w.tell(c, to.routes, tried)
	if err != nil {
		return approval.Announcement{}, err
	}
	left := findUnreached(made, to.of, tried)
	if len(left) == 0 {
		return approval.Announcement{Pushes: told}, nil
	}
	c.n.Note = approval.NoteUnreached
	admins, err := w.tell(c, leaveOut(w.o.routing.Admins(), tried), tried)
	if err != nil {
		return approval.Announcement{}, err
	}
	reach := nobody
	if len(leaveOut(w.o.routing.Admins(), tried)) < len(w.o.routing.Admins()) {
		reach = onlyAdmins
	}
	return approval.Announcement{Pushes: told + admins, Log: w.o.logUnreached(left, reach)}, nil
}

// findUnreached returns those of some requests that come to none of the people who are asked about them: not to one of
// the addresses where their card goes. of are the routes of each of them.
func findUnreached(made []approval.Request, of [][]approval.Route,
	tried map[approval.Address]bool) (left []approval.Request) {
	for i, r := range made {
		if len(leaveOut(of[i], tried)) == len(of[i]) && (len(of[i]) > 0 || r.Need != nil) {
			left = append(left, r)
		}
	}
	return left
}

// card is a card that is to be queued, with what says when it may be sent.
type card struct {
	n     approval.Notification
	risk  approval.Risk // the highest of what it shows
	until time.Time     // the first deadline of that
}

// newCard returns the card of some requests, which says nothing yet of where they stand.
func newCard(rs ...approval.Request) card {
	c := card{n: approval.Notification{Kind: approval.KindRequest}, risk: rs[0].Risk, until: rs[0].ExpiresAt}
	for _, r := range rs[1:] {
		if r.Risk.Rank() > c.risk.Rank() {
			c.risk = r.Risk
		}
		if r.ExpiresAt.Before(c.until) {
			c.until = r.ExpiresAt
		}
	}
	return c
}

func newCardOf(hs []approval.Head) card {
	rs := make([]approval.Request, len(hs))
	for i, h := range hs {
		rs[i] = h.Request
	}
	return newCard(rs...)
}

// waitAs has the card wait as one that did not go out: for the agent's earlier ones and for its turn, and not for the
// end of its reader's quiet hours.
func (c *card) waitAs(n approval.Notification) {
	c.n.HeldFor, c.n.TurnAt, c.n.NextAttemptAt = n.HeldFor, n.TurnAt, n.TurnAt
	if n.HeldFor != "" {
		c.n.NextAttemptAt = n.NextAttemptAt
	}
}

// logUnreached says after the commit that no card of some requests reaches who should decide them.
func (o *Outbox) logUnreached(made []approval.Request, reach reach) func(context.Context) {
	return func(ctx context.Context) {
		for _, r := range made {
			o.logReach(ctx, reach, r, "last_reason", "nobody of the route is reached any more")
		}
	}
}

// destinations are where the card of some requests goes, now and later: to whom any of them goes.
type destinations struct {
	routes []approval.Route
	of     [][]approval.Route // of each of them alone
	later  []escalation
}

// escalation is where a card goes some time after the first ones.
type escalation struct {
	at     time.Time
	routes []approval.Route
}

// findDestinations returns where the card of some requests goes, each of which has its audience.
func (o *Outbox) findDestinations(made []approval.Request, asked []approval.Audience) destinations {
	to := destinations{of: make([][]approval.Route, len(made))}
	for i, r := range made {
		if i > 0 && r.Need == nil && made[0].Need == nil { // as the first one
			to.of[i] = to.of[0]
			continue
		}
		to.of[i] = o.routing.Routes(asked[i])
		others := to.routes // of the requests before, which may ask the same people
		for _, route := range to.of[i] {
			if !slices.ContainsFunc(others, func(o approval.Route) bool { return shareAddress(o, route) }) {
				to.routes = append(to.routes, route)
			}
		}
		for _, e := range asked[i].Later {
			to.later = append(to.later, escalation{e.At, o.routing.RoutesOf(e.People)})
		}
	}
	return to
}

// shareAddress reports whether two routes lead to one recipient: they share an address.
func shareAddress(a, b approval.Route) bool {
	return slices.ContainsFunc(a, func(x approval.Address) bool { return slices.Contains(b, x) })
}

// leaveOut returns the routes to those who have no card yet at any of some addresses.
func leaveOut(routes []approval.Route, tried map[approval.Address]bool) []approval.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(route approval.Route) bool {
		return slices.ContainsFunc(route, func(a approval.Address) bool { return tried[a] })
	})
}

// tellLater queues a card for those whom escalation adds, not before the card itself is sent. Those who have the card
// already get no other.
func (w routeWork) tellLater(c card, later []escalation, tried map[approval.Address]bool) (int, error) {
	told, first := 0, c.n.NextAttemptAt
	c.n.HeldFor, c.n.TurnAt = "", time.Time{}
	for _, l := range later {
		c.n.NextAttemptAt = latest(l.at, first)
		some, err := w.tell(c, leaveOut(l.routes, tried), tried)
		if told += some; err != nil {
			return told, err
		}
	}
	return told, nil
}

// Voted edits the cards of a pending request on which a vote was cast, or whose deadline changed.
func (o *Outbox) Voted(tx approval.Tx, r approval.Request) error {
	_, err := o.within(tx).cards().editPending(r, nil)
	return err
}

// Opened is Voted for a request whose open stage is another one than before, or asks others: they get the card, and
// admins where none of them is reached.
func (o *Outbox) Opened(tx approval.Tx, r approval.Request, to approval.Audience) error {
	w := o.within(tx).routes()
	routes := o.routing.Routes(to)
	tried, err := w.cards().editPending(r, routes)
	if err != nil {
		return err
	}
	c := newCard(r)
	c.n.ApprovalID = r.ID
	rest := leaveOut(routes, tried)
	told, err := w.tell(c, rest, tried)
	if err != nil || told > 0 || len(rest) < len(routes) {
		return err
	}
	c.n.Note = approval.NoteUnreached
	_, err = w.tell(c, o.routing.Admins(), tried)
	return err
}

// audience returns who is asked about a pending request of which only the narrow part was read.
func (w routeWork) audience(r approval.Request) (approval.Audience, error) {
	n, err := w.tx.NeedOf(r.ID)
	if err != nil {
		return approval.Audience{}, err
	}
	r.Need, r.Stage, r.Votes, r.RuleDigest = n.Need, n.Stage, n.Votes, n.RuleDigest
	return w.o.gate.In(w.ctx, w.tx).Votes().Audience(r)
}

// reach says who has the card of a request that met a dead end.
type reach int

const (
	others      reach = iota // others of those who are asked have it, or will
	nextAddress              // it goes to the next address of its route
	onlyAdmins               // no approver has it, and it goes to admins
	nobody                   // no approver has it, and no admin can be told
)

// deadEnd is a request whose card met a dead end.
type deadEnd struct {
	request approval.Request
	reach   reach
}

// logReach says loudly, after the commit, what became of a card that met a dead end.
func (o *Outbox) logReach(ctx context.Context, to reach, r approval.Request, about ...any) {
	about = append([]any{"approval_id", r.ID, "tool", r.Target(), "agent", r.Agent}, about...)
	switch to {
	case nextAddress:
		o.log.WarnContext(ctx, "a notification failed, or does not go out in time; the card goes on to the next address of "+
			"its recipient", about...)
	case onlyAdmins:
		o.log.ErrorContext(ctx, "none of those who decide could be told of a request: every notification failed; admins "+
			"are told instead; fix the channel", about...)
	case nobody:
		o.log.ErrorContext(ctx, "nobody could be told of a request: every notification failed; decide it with "+
			"`countersign approve` or `deny`, and fix the channel", about...)
	}
}

// ToAdmins queues what card makes for each admin, at the first of their addresses that is alive; nothing for the zero
// Notification.
func (o *Outbox) ToAdmins(tx approval.Tx, card func(to approval.Address) approval.Notification) error {
	w := o.within(tx).routes()
	tried := map[approval.Address]bool{}
	for _, route := range o.routing.Admins() {
		a, ok, err := w.pick(route, tried)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		tried[a] = true
		n := card(a)
		if n.Kind == "" {
			continue
		}
		n.Channel, n.Recipient = a.Channel, a.To
		if err := w.queue(n); err != nil {
			return err
		}
	}
	return nil
}

// ToRoute queues a notification for the first address of a route that is alive; nothing where there is none.
func (o *Outbox) ToRoute(tx approval.Tx, route approval.Route, n approval.Notification) error {
	w := o.within(tx).routes()
	a, ok, err := w.pick(route, map[approval.Address]bool{})
	if err != nil || !ok {
		return err
	}
	n.Channel, n.Recipient = a.Channel, a.To
	return w.queue(n)
}

// tell queues a card along each route, to the first address that is alive and was not tried, and returns how many
// times. It marks where it goes as tried.
func (w routeWork) tell(c card, routes []approval.Route, tried map[approval.Address]bool) (int, error) {
	told := 0
	w.tx.Ahead(func() {
		for _, a := range slices.Concat(routes...) {
			_, _ = w.tx.Dead(a)
		}
	})
	for _, route := range routes {
		a, ok, err := w.pick(route, tried)
		if err != nil {
			return told, err
		}
		if !ok {
			continue
		}
		if err := w.queue(w.cards().schedule(c, a)); err != nil {
			return told, err
		}
		tried[a] = true
		told++
	}
	return told, nil
}

// quietUntil returns when the quiet hours end in which a time of the store's is at an address, the zero time for none.
func (o *Outbox) quietUntil(a approval.Address, at time.Time) time.Time {
	wall := o.store.ToWall(at)
	end := o.routing.QuietUntil(a, wall)
	if end.IsZero() {
		return end
	}
	return at.Add(end.Sub(wall)).Truncate(time.Millisecond)
}

// pick returns the first address of a route that is alive and was not tried; one on a channel that can
// send nothing more only where there is no other.
func (w routeWork) pick(route approval.Route, tried map[approval.Address]bool) (approval.Address, bool, error) {
	var last approval.Address
	for _, a := range route {
		if tried[a] {
			continue
		}
		if dead, err := w.tx.Dead(a); err != nil {
			return approval.Address{}, false, err
		} else if dead {
			continue
		}
		if !w.o.routing.Spent(a.Channel) {
			return a, true, nil
		}
		if last == (approval.Address{}) {
			last = a
		}
	}
	return last, last != approval.Address{}, nil
}

// sendElsewhere sends the card of a pending request on along the routes that a dead end is part of, to the next
// address; where there is none, and no other approver has the card, to admins. down is a channel that sends nothing at
// present, "" for none: what waits there is not read in time.
func (w routeWork) sendElsewhere(r approval.Request, end approval.Address,
	kind approval.NotificationKind, down string) (reach, error) {
	ns, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err != nil {
		return nobody, err
	}
	has := map[approval.Address]bool{}
	c := newCard(r)
	c.n.ApprovalID, c.n.Kind = r.ID, kind
	tried := map[approval.Address]bool{end: true}
	for _, x := range ns {
		if !isCard(x) {
			continue
		}
		tried[x.Address()] = true
		if x.Address() == end && x.Status == approval.Queued && x.Attempt == 0 {
			c.waitAs(x)
		}
		if x.BatchID != "" && x.ApprovalID != "" {
			c.n.ApprovalID, c.n.BatchID = x.ApprovalID, x.BatchID // the card shows all of it
		}
		if x.Address() == end || x.Status == approval.Failed || x.Status == approval.Skipped ||
			x.Channel == down && x.SentAt.IsZero() && x.Status != approval.Delivered {
			continue
		}
		dead, err := w.tx.Dead(x.Address())
		if err != nil {
			return nobody, err
		}
		if !dead {
			has[x.Address()] = true
		}
	}
	all, hasOther, err := w.findOthers(r, has)
	if err != nil {
		return nobody, err
	}
	for _, a := range slices.Concat(slices.Concat(all, w.o.routing.Admins())...) {
		tried[a] = tried[a] || a.Channel == down
	}
	var routes []approval.Route
	for _, route := range all {
		if slices.Contains(route, end) && !slices.ContainsFunc(route, func(a approval.Address) bool { return has[a] }) {
			routes = append(routes, route)
		}
	}
	told, err := w.tell(c, routes, tried)
	switch {
	case err != nil:
		return nobody, err
	case told > 0:
		return nextAddress, nil
	case hasOther:
		return others, nil
	}
	c.n.Kind, c.n.Note = approval.KindRequest, approval.NoteUnreached
	if told, err = w.tell(c, w.o.routing.Admins(), tried); err != nil || told == 0 {
		return nobody, err
	}
	return onlyAdmins, nil
}

// findOthers returns where the card of a pending request goes, and whether an admin, or a person who is asked about it
// or will be, has it at one of some addresses: a card of several may have gone to those who are asked about the others.
func (w routeWork) findOthers(r approval.Request,
	has map[approval.Address]bool) (all []approval.Route, ok bool, err error) {
	to, err := w.audience(r)
	if err != nil {
		return nil, false, err
	}
	all = w.o.routing.Routes(to)
	who := slices.Concat(all, w.o.routing.Admins())
	for _, e := range to.Later {
		who = append(who, w.o.routing.RoutesOf(e.People)...)
	}
	return all, len(leaveOut(who, has)) < len(who), nil
}

// mostRerouted is how many pending requests are sent elsewhere when a person leaves a chat, the newest. The others are
// left to the reminders.
const mostRerouted = 2000

// MarkUnreachable takes note that since at nothing reaches an address any more; cards that wait there for an answer go
// on to the next address of their route: the first of them at once, the rest by after, which is called once the
// transaction has committed and says too what became of them. What after does not come to either is left to the
// reminders.
func (o *Outbox) MarkUnreachable(ctx context.Context, tx approval.Tx, by approval.Actor, a approval.Address,
	at time.Time) (after func(context.Context), err error) {
	w := o.in(ctx, tx).routes()
	news, err := tx.SetDead(a, true, at)
	if err != nil || !news {
		return nil, err
	}
	if err := w.recordAddress(approval.EventChannelDead, by, a); err != nil {
		return nil, err
	}
	first, err := w.rerouteSome(a, "")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		for _, m := range append(first.unreached, o.rerouteRest(ctx, a, first.upTo)...) {
			o.logReach(ctx, m.reach, m.request, "last_channel", a.Channel, "last_reason", "blocked")
		}
	}, nil
}

// MarkReachable takes note that the person at an address was heard of at a time, and so is reached.
func (o *Outbox) MarkReachable(ctx context.Context, tx approval.Tx, by approval.Actor, a approval.Address,
	at time.Time) error {
	w := o.in(ctx, tx).routes()
	news, err := tx.SetDead(a, false, at)
	if err != nil || !news {
		return err
	}
	return w.recordAddress(approval.EventChannelAlive, by, a)
}

func (w routeWork) recordAddress(t approval.EventType, by approval.Actor, a approval.Address) error {
	data := approval.EventData(map[string]any{"channel": a.Channel, "recipient": a.To})
	return w.o.audit.Append(w.ctx, w.tx, approval.Event{Type: t, Actor: by.String(), Data: data})
}

// rerouteRest sends on what the first step has not come to, in steps that others' work can come between.
func (o *Outbox) rerouteRest(ctx context.Context, a approval.Address, after string) []deadEnd {
	var all []deadEnd
	for n := perStep; after != "" && n < mostRerouted; n += perStep {
		// The person who has left had the cards of all agents.
		some, err := update(ctx, o, approval.WholeStore(), func(w *work) (rerouteStep, error) {
			return w.routes().rerouteSome(a, after)
		})
		if err != nil {
			o.log.WarnContext(ctx, "not all cards of somebody who left a chat could go to others; reminders bring the rest",
				"channel", a.Channel, "error", err)
			break
		}
		all, after = append(all, some.unreached...), some.upTo
	}
	return all
}

// rerouteStep is what one step of sending cards on came to.
type rerouteStep struct {
	unreached []deadEnd // cards that no approver has any more, or only admins
	upTo      string    // the request at which it stopped; "": it was the last step
}

// rerouteSome sends on the cards of as many pending requests as one transaction should, those after an id.
func (w routeWork) rerouteSome(a approval.Address, after string) (out rerouteStep, err error) {
	hs, err := w.tx.Heads(approval.RequestQuery{Status: approval.Pending, After: after, Limit: perStep})
	if err != nil {
		return out, err
	}
	for _, h := range hs {
		to, err := w.reroute(h.Request, a)
		if err != nil {
			return out, err
		}
		if to == nobody || to == onlyAdmins {
			out.unreached = append(out.unreached, deadEnd{h.Request, to})
		}
	}
	if len(hs) == perStep {
		out.upTo = hs[len(hs)-1].ID
	}
	return out, nil
}

// reroute sends the card of a pending request elsewhere if it went to a.
func (w routeWork) reroute(r approval.Request, a approval.Address) (reach, error) {
	if r.Due(w.tx.Now()) {
		return others, nil
	}
	ns, err := w.tx.Notifications(approval.NotificationQuery{ApprovalID: r.ID, BatchID: r.BatchID, Narrow: true})
	if err != nil || !slices.ContainsFunc(ns, func(n approval.Notification) bool {
		return n.Address() == a && isCard(n)
	}) {
		return others, err
	}
	return w.sendElsewhere(r, a, approval.KindRequest, "")
}

// isCard reports whether a notification is a request's card, pushed.
func isCard(n approval.Notification) bool {
	return n.Kind == approval.KindRequest || n.Kind == approval.KindReminder
}

// sendOn has the card of requests that a notification shows go elsewhere. down is as for [routeWork.sendElsewhere].
func (w routeWork) sendOn(row approval.Notification, hs []approval.Head, down string) (deadEnd, error) {
	var worst deadEnd
	for _, h := range hs {
		reach, err := w.sendElsewhere(h.Request, row.Address(), row.Kind, down)
		if err != nil {
			return deadEnd{}, err
		}
		if worst.request.ID == "" || reach > worst.reach {
			worst = deadEnd{h.Request, reach}
		}
		if len(row.Cards) > 0 { // a reminder of several, each of which has its own card
			break
		}
	}
	return worst, nil
}

// inTime is the part of the time that a card has until a deadline by which it is to be out: after that it goes to
// another approver too, who then has the rest.
const inTime = 2

// findLate returns those of the pending requests on a card of which too much time would be gone at its next try, and
// whether that would come after all of their deadlines.
func (w routeWork) findLate(n approval.Notification, next time.Time) (late []approval.Head, over bool, err error) {
	if !isCard(n) {
		return nil, false, nil
	}
	hs, err := w.pendingHeads(n)
	over = len(hs) > 0
	for _, h := range hs {
		if !next.Before(n.CreatedAt.Add(h.ExpiresAt.Sub(n.CreatedAt) / inTime)) {
			late = append(late, h)
		}
		over = over && !next.Before(h.ExpiresAt)
	}
	return late, over, err
}
