package outbox

import (
	"log/slog"
	"time"

	"countersign/approval"
)

// Routing says where cards can go, as configured now. It is asked inside transactions: it answers from memory, and must
// not block.
type Routing interface {
	// Routes says where the card of a pending request goes now: one card along each route.
	Routes(to approval.Audience) []approval.Route
	// RoutesOf returns the routes of those of some people who are reached at all.
	RoutesOf(people []approval.Actor) []approval.Route
	// Rooms are the addresses at which several people read.
	Rooms() []approval.Address
	// Admins are the routes of a request that reached none of those who are asked.
	Admins() []approval.Route
	// Spent says whether a channel can send nothing for a while, as when a month's messages are used up or its token
	// is refused: another channel of the same route is then taken first.
	Spent(channel string) bool
	// QuietUntil returns when the quiet hours end of the person at an address at a time, the zero time where it is in
	// none.
	QuietUntil(a approval.Address, at time.Time) time.Time
	// Editable says whether a sent card of the channel can be edited.
	Editable(channel string) bool
}

// Options are what an [Outbox] is made of. Store, Audit and Routing are required.
type Options struct {
	Store   approval.Store
	Audit   *approval.AuditLog
	Routing Routing
	// Budgets bound the reminders of each agent's requests. nil: nothing does.
	Budgets approval.Budgets
	Logger  *slog.Logger
}

// Outbox is the queue of notifications. It is safe for concurrent use.
type Outbox struct {
	store   approval.Store
	audit   *approval.AuditLog
	routing Routing
	budgets approval.Budgets
	log     *slog.Logger
	// gate is whose notifier it is. It is asked in transactions of the outbox and of the chat; in the gate's own it hands
	// over what it says.
	gate *approval.Gate
}

var _ approval.Notifier = (*Outbox)(nil)

// New returns the outbox of a store.
func New(o Options) *Outbox {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Outbox{store: o.Store, audit: o.Audit, routing: o.Routing, budgets: o.Budgets, log: o.Logger}
}

// Serve implements [approval.Notifier].
func (o *Outbox) Serve(g *approval.Gate) { o.gate = g }

// perStep is how many requests a write transaction sees to before it leaves the rest to the next one, so that what
// others want of the store comes in between.
const perStep = 64

// Queue queues a notification, of which the id, the times and the status are given to it here.
func (o *Outbox) Queue(tx approval.Tx, n approval.Notification) error {
	return o.within(tx).queue(n)
}

// byWall returns n with its times as the machine's clock has them, but for those that a sender goes by, which are the
// store's.
func (o *Outbox) byWall(n approval.Notification) approval.Notification {
	for _, t := range []*time.Time{&n.SentAt, &n.CreatedAt, &n.UpdatedAt} {
		*t = o.store.ToWall(*t)
	}
	return n
}

// logByWall returns n with all of its times as the machine's clock has them.
func (o *Outbox) logByWall(n approval.Notification) approval.Notification {
	n = o.byWall(n)
	for _, t := range []*time.Time{&n.NextAttemptAt, &n.LeaseUntil, &n.FirstTryAt} {
		*t = o.store.ToWall(*t)
	}
	return n
}
