package approval

import "context"

// Notifier tells people of requests. The gate calls it inside the transaction in which the request is made or ends,
// so that what people are to be told is stored with it or not at all. It speaks to nobody in there: it queues.
type Notifier interface {
	// Requested queues the cards of new requests: of one, or of all those of a batch.
	Requested(tx Tx, made []Request) (Announcement, error)
	// Ended sees to the cards of a request that has ended, or was given its reason. Of r it takes the ids alone.
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

func (silent) Requested(Tx, []Request) (Announcement, error) { return Announcement{}, nil }
func (silent) Ended(Tx, Request) error                       { return nil }
