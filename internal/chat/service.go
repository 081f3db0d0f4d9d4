// Package chat is what people press and type, and what they are told, on any channel.
//
// An [Interaction] is one signed event of a platform. Its event id, the decision it carries and the answer to the
// person who made it are one transaction: all of it is kept, or the platform may deliver it again. Whether a person may
// decide is the gate's to say ([approval.Gate]); this package finds out what is meant, and the words for what came of
// it. What is not clear decides nothing: a bare yes brings up the cards, and so does an approval with any further word.
// Where a reason is required it is asked for, and the next message is it ([work.giveReason]).
package chat

import (
	"context"
	"time"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// Outbox is the queue of notifications: the package outbox.
type Outbox interface {
	// Queue queues a notification.
	Queue(tx approval.Tx, n approval.Notification) error
	// ToAdmins queues what is made for each admin's address; the zero Notification is not queued.
	ToAdmins(tx approval.Tx, card func(to approval.Address) approval.Notification) error
	// ToRoute queues a notification for the first address of a route that is alive.
	ToRoute(tx approval.Tx, route approval.Route, n approval.Notification) error
	// MarkDelivered marks the cards of a request over which the person at an address acted.
	MarkDelivered(tx approval.Tx, from approval.Address, r approval.Request) error
	// ReleaseCards has the cards go out that waited at an address for what was typed, or pressed, there now.
	ReleaseCards(tx approval.Tx, from approval.Address) error
	// DropJoined drops what waits to be sent to an address of what has joined a card: an answer brings it there.
	DropJoined(tx approval.Tx, to approval.Address, card string) error
	// MarkUnreachable takes note that nothing reaches an address any more. after, where it is not nil, is called after the
	// commit.
	MarkUnreachable(ctx context.Context, tx approval.Tx, by approval.Actor, a approval.Address,
		at time.Time) (after func(context.Context), err error)
	// MarkReachable takes note that an address is reached.
	MarkReachable(ctx context.Context, tx approval.Tx, by approval.Actor, a approval.Address, at time.Time) error
}

// Readers are those who are answered, as they are configured now. It is asked inside transactions and must not block.
type Readers interface {
	// Say says a phrase to a person in their language, as [phrases.Phrase.Say] does in English.
	Say(to approval.Actor, p phrases.Phrase, args ...any) string
	// NameOf says whose address it is, "" where it is no person's.
	NameOf(a approval.Address) string
	// Agents returns the configured agents, in the order of their names.
	Agents() []string
	// RouteOf returns how a person is reached, nil where they are not.
	RouteOf(person string) approval.Route
	// Status adds lines to the answer to the typed word "status".
	Status(to approval.Actor) []string
}

// SignIn makes links that sign people in to the pages.
type SignIn interface {
	// LinkIn makes one for a person who asked on a channel, from an address of it, in a transaction that is under way, and
	// returns its id. An error with [approval.CodeRateLimited] says that they asked too often, one with
	// [approval.CodeUnauthorized] that the address is not theirs any more, one with [approval.CodeNotFound] that the pages
	// are nowhere.
	LinkIn(ctx context.Context, tx approval.Tx, person string, via approval.Via, from string) (id string, err error)
	// HereOnly reports whether links open on the gate's own machine alone.
	HereOnly() bool
}

// Options are what a [Service] is made of. All but SignIn and Whose are required.
type Options struct {
	Store   approval.Store
	Gate    *approval.Gate
	Audit   *approval.AuditLog
	Outbox  Outbox
	Readers Readers
	SignIn  SignIn // nil: there are no pages
	// Whose says who the person with a user id of a channel is now. It is asked inside transactions and must not block.
	// nil: the person that they were when the event came in.
	Whose func(channel, id string) (approval.Actor, bool)
	// Summary says to a person what a request does, as its card does. nil: answers have the tool's name.
	Summary func(to approval.Actor, r approval.Request) string
}

// Service carries out what people press and type. It is safe for concurrent use.
type Service struct {
	store   approval.Store
	gate    *approval.Gate
	audit   *approval.AuditLog
	outbox  Outbox
	readers Readers
	signIn  SignIn
	whose   func(channel, id string) (approval.Actor, bool)
	summary func(to approval.Actor, r approval.Request) string
}

// New returns a service.
func New(o Options) *Service {
	return &Service{store: o.Store, gate: o.Gate, audit: o.Audit, outbox: o.Outbox, readers: o.Readers,
		signIn: o.SignIn, whose: o.Whose, summary: o.Summary}
}

// sayTo says a phrase to a person, in times as the machine's clock has them.
func (s *Service) sayTo(to approval.Actor, p phrases.Phrase, args ...any) string {
	for i, v := range args {
		if t, ok := v.(time.Time); ok {
			args[i] = s.store.ToWall(t)
		}
	}
	return s.readers.Say(to, p, args...)
}

// RecordRefused puts a signed event on record that is not acted on.
func (s *Service) RecordRefused(ctx context.Context, actor, channel, reason string) error {
	return s.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		return s.audit.Append(ctx, tx, approval.Event{Type: approval.EventWebhookRefused, Actor: actor, Reason: reason,
			Data: approval.EventData(map[string]any{"channel": channel})})
	})
}

// at is the person at an address, as far as they are known.
func (s *Service) at(a approval.Address) approval.Actor {
	if name := s.readers.NameOf(a); name != "" {
		return s.gate.PersonNow(name)
	}
	return approval.Actor{}
}
