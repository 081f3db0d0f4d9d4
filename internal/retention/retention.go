// Package retention removes what is over and has been kept long enough: the arguments of requests first, with what was
// made of them; then what people were sent; then whole requests. The audit log stays.
//
// It works beside everybody else: it looks for what is old in transactions that only read, removes a little in each of
// many short ones, and waits between two. What is live stays whatever its age, and so does what the agent has not
// acknowledged; which that is, the store's own statements say.
package retention

import (
	"context"
	"slices"
	"time"

	"countersign/approval"
)

// Keep says for how long things are kept, from when they were made; 0: for ever.
type Keep struct {
	Args          time.Duration // of requests that are over, what their previews show, and what people were sent
	Notifications time.Duration
	Requests      time.Duration
}

// Removed counts what was removed.
type Removed struct {
	Args, Notifications, Requests int
}

// All is how many rows that were, or lost what they said.
func (r Removed) All() int { return r.Args + r.Notifications + r.Requests }

// Pruner removes what is old from a store. Its methods must not be called at once.
type Pruner struct {
	store approval.Store
	runs  int
	// What is not newer than these was looked at.
	args, texts, notifications, requests string
}

// New returns a pruner.
func New(s approval.Store) *Pruner { return &Pruner{store: s} }

const (
	// lookAtOnce is how many rows are looked at in one transaction.
	lookAtOnce = 500
	// removeAtOnce is how many are removed in one: a request is a dozen rows.
	removeAtOnce = 20
	// rest is for how long others have the store to themselves after each.
	rest = 10 * time.Millisecond
	// wholeEvery is after how many runs all is looked at that was left before: what was in the way may be over.
	wholeEvery = 24
)

// Prune removes what is older than keep says. It goes on where the run before ended, and now and then from the
// beginning. Where it fails, what it counts is removed all the same.
func (p *Pruner) Prune(ctx context.Context, keep Keep) (r Removed, err error) {
	if p.runs%wholeEvery == 0 {
		p.args, p.texts, p.notifications, p.requests = "", "", "", ""
	}
	p.runs++
	for _, one := range []struct {
		after   *string
		keep    time.Duration
		removed *int
		look    look
		remove  remove
	}{
		{&p.args, keep.Args, &r.Args, oldRequests(func(r approval.OldRequest) bool { return r.Over && !r.Emptied }),
			approval.Retention.RemoveArgs},
		{&p.texts, keep.Args, new(int), oldNotifications(func(n approval.OldNotification) bool {
			return n.Over && !n.Emptied
		}), approval.Retention.RemoveText},
		{&p.notifications, keep.Notifications, &r.Notifications, oldNotifications(func(n approval.OldNotification) bool {
			return n.Over
		}), approval.Retention.RemoveNotification},
		{&p.requests, keep.Requests, &r.Requests, oldRequests(func(r approval.OldRequest) bool {
			return r.Over
		}), approval.Retention.RemoveRequest},
	} {
		if one.keep <= 0 {
			continue
		}
		n, err := p.run(ctx, one.after, one.keep, one.look, one.remove)
		if *one.removed += n; err != nil {
			return r, err
		}
	}
	return r, nil
}

// look returns the ids of rows that may be removed, of so many after one; and the last one that it has looked at, ""
// where there is none.
type look func(tx approval.Tx, after string, before time.Time) (ids []string, last string, err error)

// remove removes a row, or reports false where that must not be any more.
type remove func(tx approval.Retention, id string) (bool, error)

func oldRequests(may func(approval.OldRequest) bool) look {
	return func(tx approval.Tx, after string, before time.Time) (ids []string, last string, err error) {
		rows, err := tx.OldRequests(after, before, lookAtOnce)
		for _, r := range rows {
			if last = r.ID; may(r) {
				ids = append(ids, r.ID)
			}
		}
		return ids, last, err
	}
}

func oldNotifications(may func(approval.OldNotification) bool) look {
	return func(tx approval.Tx, after string, before time.Time) (ids []string, last string, err error) {
		rows, err := tx.OldNotifications(after, before, lookAtOnce)
		for _, n := range rows {
			if last = n.ID; may(n) {
				ids = append(ids, n.ID)
			}
		}
		return ids, last, err
	}
}

// run goes through what has become old, and returns how much of it was removed.
func (p *Pruner) run(ctx context.Context, after *string, keep time.Duration, look look, remove remove,
) (n int, err error) {
	for {
		var ids []string
		var last string
		if err := p.store.View(ctx, func(tx approval.Tx) (err error) {
			ids, last, err = look(tx, *after, tx.Now().Add(-keep))
			return err
		}); err != nil || last == "" {
			return n, err
		}
		for some := range slices.Chunk(ids, removeAtOnce) {
			removed := 0
			if err := p.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
				removed = 0
				for _, id := range some {
					ok, err := remove(tx, id)
					if err != nil {
						return err
					}
					if ok {
						removed++
					}
				}
				return nil
			}); err != nil {
				return n, err
			}
			n += removed
			select {
			case <-time.After(rest):
			case <-ctx.Done():
				return n, ctx.Err()
			}
		}
		*after = last
	}
}
