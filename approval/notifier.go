package approval

import "context"

// Notifier tells people of requests. The gate calls it inside the transaction in which the request is made or ends,
// so that what people are to be told is stored with it or not at all. It speaks to nobody in there: it queues. Nor does
// it ask the gate there: who is asked is handed to it, of several requests as many audiences in the same order.
type Notifier interface {
	// Serve is called once, by [NewGate]: g is whom it asks in transactions of its own.
	Serve(g *Gate)
	// Requested queues the card of new requests: of one, or of all those that a [Card] begins with.
	Requested(tx Tx, made []Request, to []Audience, p Placing) (Announcement, error)
	// Joined sees to a Card that new requests have joined, of which c has the items.
	Joined(tx Tx, c Card, made []Request, to []Audience, soon Joining) (Announcement, error)
	// Voted sees to the cards of a pending request on which somebody voted, or whose deadline changed.
	Voted(tx Tx, r Request) error
	// Opened is Voted for a request whose open stage is another one than before, or asks others: they get the card.
	Opened(tx Tx, r Request, to Audience) error
	// Ended sees to the cards of a request that has ended, or was given its reason. It takes
	// the narrow part of r as it was before.
	Ended(tx Tx, r Request) error
}

// Announcement is what a [Notifier] made of new requests.
type Announcement struct {
	Pushes int // cards that were queued: the agent's budget pays for them
	// Log says, after the commit, what is to be said of it to whoever runs the gate. nil: nothing.
	Log func(ctx context.Context)
}

// silent is the notifier of a gate that has none.
type silent struct{}

func (silent) Serve(*Gate) {}
func (silent) Requested(Tx, []Request, []Audience, Placing) (Announcement, error) {
	return Announcement{}, nil
}
func (silent) Joined(Tx, Card, []Request, []Audience, Joining) (Announcement, error) {
	return Announcement{}, nil
}
func (silent) Voted(Tx, Request) error            { return nil }
func (silent) Opened(Tx, Request, Audience) error { return nil }
func (silent) Ended(Tx, Request) error            { return nil }
