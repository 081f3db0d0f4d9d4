// Package retention removes what is over and has been kept long enough: the arguments of requests first, with what was
// made of them; then what people were sent; then whole requests; and the audit log from its beginning on, once an event
// says what goes.
//
// It works beside everybody else: it looks for what is old in transactions that only read, removes a little in each of
// many short ones, and waits between two. What is live stays whatever its age, and so does what the agent has not
// acknowledged; which that is, the store's own statements say. In the end the store gives the room back.
package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"countersign/approval"
)

// Keep says for how long things are kept, from when they were made; 0: for ever.
type Keep struct {
	Args          time.Duration // of requests that are over, what their previews show, and what people were sent
	Notifications time.Duration
	Requests      time.Duration
	Audit         time.Duration // events, by whole days of UTC
	Export        string        // the folder that events are written to before they go; "": they are not
}

// Removed counts what was removed.
type Removed struct {
	Args, Notifications, Requests, Events int
}

// All is how many rows that were, or lost what they said.
func (r Removed) All() int { return r.Args + r.Notifications + r.Requests + r.Events }

// Store is what is removed from.
type Store interface {
	approval.Store
	// Shrink gives room that is free to the disk again, beside callers and without their waiting for it, where the store
	// can do that.
	Shrink(ctx context.Context) error
}

// Pruner removes what is old from a store. [Pruner.Prune] must not be called at once.
type Pruner struct {
	store Store
	runs  int
	due   atomic.Pointer[Removed]
	// What is not newer than these was looked at.
	args, texts, notifications, requests string
}

// New returns a pruner.
func New(s Store) *Pruner { return &Pruner{store: s} }

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
// beginning. A row that cannot be removed is left, and the error names it; where it fails, what it counts is removed
// all the same. Then the store shrinks.
func (p *Pruner) Prune(ctx context.Context, keep Keep) (r Removed, err error) {
	if p.runs%wholeEvery == 0 {
		p.args, p.texts, p.notifications, p.requests = "", "", "", ""
	}
	p.runs++
	var failed error
	for _, one := range p.passes(keep, &r) {
		n, left, err := p.run(ctx, one.after, one.keep, one.kind)
		failed = cmp.Or(failed, left)
		if *one.count += n; err != nil {
			return r, errors.Join(err, failed)
		}
	}
	if keep.Audit > 0 {
		r.Events, err = p.pruneAudit(ctx, keep)
		failed = errors.Join(failed, err)
	}
	return r, errors.Join(failed, p.store.Shrink(ctx), p.lookAhead(ctx, keep))
}

// passes are those over what is removed that has an id and an age, in this order.
func (p *Pruner) passes(keep Keep, r *Removed) []pass {
	isOver := func(o approval.Old) bool { return o.Over }
	isFull := func(o approval.Old) bool { return o.Over && !o.Emptied }
	return slices.DeleteFunc([]pass{
		{kind{"the arguments of request", approval.Tx.OldRequests, isFull, approval.Retention.RemoveArgs},
			&p.args, keep.Args, &r.Args},
		{kind{"the text of notification", approval.Tx.OldNotifications, isFull, approval.Retention.RemoveText},
			&p.texts, keep.Args, new(int)},
		{kind{"notification", approval.Tx.OldNotifications, isOver, approval.Retention.RemoveNotification},
			&p.notifications, keep.Notifications, &r.Notifications},
		{kind{"request", approval.Tx.OldRequests, isOver, approval.Retention.RemoveRequest},
			&p.requests, keep.Requests, &r.Requests},
	}, func(of pass) bool { return of.keep <= 0 })
}

// pass is one over the rows of a kind: from which on, for how long they are kept, and where their count goes.
type pass struct {
	kind
	after *string
	keep  time.Duration
	count *int
}

const (
	// Ahead is how far [Pruner.Due] looks ahead, and DueAtMost how many it counts of each kind.
	Ahead     = 24 * time.Hour
	DueAtMost = 50_000
)

// Due is what will be old enough within [Ahead], as the last run that removed all has found: its arguments,
// notifications and requests, at most [DueAtMost] of each. nil: there was none yet.
func (p *Pruner) Due() *Removed { return p.due.Load() }

// lookAhead counts what will be old enough soon.
func (p *Pruner) lookAhead(ctx context.Context, keep Keep) error {
	var r Removed
	for _, one := range p.passes(keep, &r) {
		after := *one.after
		for more := true; more && *one.count < DueAtMost; {
			if err := p.store.View(ctx, func(tx approval.Tx) error {
				rows, err := one.look(tx, after, tx.Now().Add(Ahead-one.keep), lookAtOnce)
				for _, o := range rows {
					if after = o.ID; one.may(o) {
						*one.count++
					}
				}
				more = len(rows) == lookAtOnce
				return err
			}); err != nil {
				return err
			}
			if err := wait(ctx); err != nil {
				return err
			}
		}
	}
	p.due.Store(&r)
	return nil
}

// kind is what is removed.
type kind struct {
	name string
	// look returns what there is after an id and was made before a time, remove removes it, or reports false where that
	// must not be any more.
	look   func(tx approval.Tx, after string, before time.Time, limit int) ([]approval.Old, error)
	may    func(approval.Old) bool
	remove func(tx approval.Retention, id string) (bool, error)
}

// run goes through what has become old, and returns how much of it was removed, and why the first that is left because
// it could not be.
func (p *Pruner) run(ctx context.Context, after *string, keep time.Duration, of kind) (n int, left, err error) {
	for {
		var rows []approval.Old
		if err := p.store.View(ctx, func(tx approval.Tx) (err error) {
			rows, err = of.look(tx, *after, tx.Now().Add(-keep), lookAtOnce)
			return err
		}); err != nil || len(rows) == 0 {
			return n, left, err
		}
		last := rows[len(rows)-1].ID
		rows = slices.DeleteFunc(rows, func(o approval.Old) bool { return !of.may(o) })
		for some := range slices.Chunk(rows, removeAtOnce) {
			removed, err := p.remove(ctx, of, some)
			if err != nil && !isStores(err) { // one of them cannot be removed: the others can
				removed, err = 0, nil
				for i := range some {
					one, errOne := p.remove(ctx, of, some[i:i+1])
					removed += one
					if err = errOne; isStores(err) {
						break
					}
					if err != nil {
						left, err = cmp.Or(left, fmt.Errorf("%s %s: %w", of.name, some[i].ID, err)), nil
					}
				}
			}
			if n += removed; err != nil {
				return n, left, err
			}
			if err := wait(ctx); err != nil {
				return n, left, err
			}
		}
		*after = last
	}
}

// wait lets others have the store.
func wait(ctx context.Context) error {
	select {
	case <-time.After(rest):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isStores reports whether an error is of the store as it is now, and not of what was done.
func isStores(err error) bool {
	return approval.CodeOf(err) == approval.CodeStoreUnavailable || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// remove removes some in one transaction, and returns how many.
func (p *Pruner) remove(ctx context.Context, of kind, some []approval.Old) (removed int, err error) {
	err = p.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		removed = 0
		for _, o := range some {
			ok, err := of.remove(tx, o.ID)
			if err != nil {
				return err
			}
			if ok {
				removed++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}
