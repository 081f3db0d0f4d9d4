package inbox

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"countersign/client"
)

// Gate is what an inbox asks of a gate; [client.Client] is one.
type Gate interface {
	Approvals(ctx context.Context, q client.ApprovalQuery) (client.Page[client.Approval], error)
	Approval(ctx context.Context, id string) (client.Approval, error)
	Decide(ctx context.Context, id string, v client.Verdict, reason string,
		opts ...client.DecideOption) (client.Decided, error)
	Cancel(ctx context.Context, id, reason string) (client.Approval, error)
	Extend(ctx context.Context, id string) (client.Approval, error)
	Stream(ctx context.Context, lastID string) iter.Seq2[client.Event, error]
	// ClockAhead is how far the gate's clock, by which its deadlines are, is ahead of this machine's.
	ClockAhead() time.Duration
}

// Options are what [New] needs.
type Options struct {
	Gate Gate
	Now  func() time.Time // by this machine's clock
	Poll time.Duration    // how often the whole list is read, beside the events; 0: half a minute
}

// Inbox is what waits for a person. It is safe for concurrent use.
type Inbox struct {
	gate    Gate
	now     func() time.Time
	poll    time.Duration
	changed chan struct{}

	reading sync.Mutex // one reads the list at a time

	mu      sync.Mutex
	waiting map[string]client.Approval
	newer   map[string]struct{} // what was stored while the list is being read; nil: it is not
	ended   []client.Approval   // the latest, oldest first
	read    bool                // the list has been read
	since   time.Time           // from when on the gate does not answer
	problem error               // why
}

// New returns an inbox that [Inbox.Run] fills.
func New(o Options) *Inbox {
	return &Inbox{gate: o.Gate, now: o.Now, poll: cmp.Or(o.Poll, 30*time.Second), changed: make(chan struct{}, 1),
		waiting: map[string]client.Approval{}}
}

// Snapshot is an inbox at one moment.
type Snapshot struct {
	Waiting []client.Approval // the nearest deadline first
	Read    bool              // the gate has told what waits; until then nothing is known
	Since   time.Time         // from when on the gate does not answer; zero: it does
	Problem error             // why it does not
}

// GateNow is the time by the gate's clock, as far as its answers tell: deadlines are by that.
func (b *Inbox) GateNow() time.Time { return b.now().Add(b.gate.ClockAhead()) }

// Snapshot returns what is there now. What is past its deadline waits no more.
func (b *Inbox) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Snapshot{Read: b.read, Since: b.since, Problem: b.problem}
	now := b.GateNow()
	for _, a := range b.waiting {
		if now.Before(a.ExpiresAt.Time) {
			s.Waiting = append(s.Waiting, a)
		}
	}
	slices.SortFunc(s.Waiting, byDeadline)
	return s
}

// Ending returns how a request ended that was in the list a while ago.
func (b *Inbox) Ending(id string) (client.Approval, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.ended, func(a client.Approval) bool { return a.ID == id })
	if i < 0 {
		return client.Approval{}, false
	}
	return b.ended[i], true
}

// Notify receives when the snapshot may be another one. It is for one receiver.
func (b *Inbox) Notify() <-chan struct{} { return b.changed }

func (b *Inbox) tell() {
	select {
	case b.changed <- struct{}{}:
	default: // the receiver is about to look
	}
}

// none is no place in the stream of events: a client that asks from there is told at once that events may be missing.
const none = "none"

// Run keeps the inbox up to date until ctx ends, whose error it returns, or the gate refuses.
func (b *Inbox) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var polling sync.WaitGroup
	defer polling.Wait()
	defer cancel(nil)
	polling.Go(func() {
		if err := b.polls(ctx); err != nil {
			cancel(err)
		}
	})
	pause := pauses{}
	for last := none; ; {
		for e, err := range b.gate.Stream(ctx, last) {
			if err == nil {
				last = e.ID
				err = b.take(ctx, e)
			}
			if err == nil {
				pause = pauses{}
				b.answers()
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if lasting(err) {
				return err
			}
			b.silent(err)
			break
		}
		if err := pause.wait(ctx); err != nil {
			return context.Cause(ctx)
		}
	}
}

// polls reads the list again and again; what it returns is a refusal.
func (b *Inbox) polls(ctx context.Context) error {
	tick := time.NewTicker(b.poll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		err := b.Refresh(ctx)
		if err != nil && ctx.Err() == nil && lasting(err) {
			return err
		}
	}
}

// lasting reports whether an error will be the same in a moment: a refusal, not a broken connection.
func lasting(err error) bool {
	_, refused := errors.AsType[*client.Error](err)
	return refused && !client.Temporary(err)
}

// take brings an event into the list.
func (b *Inbox) take(ctx context.Context, e client.Event) error {
	switch {
	case e.Type == client.EventReset:
		return b.Refresh(ctx)
	case e.Approval != nil:
		b.put(*e.Approval)
	}
	return nil
}

// maxEnded is how many endings are remembered.
const maxEnded = 200

// put stores a request as it stands now.
func (b *Inbox) put(a client.Approval) {
	b.mu.Lock()
	b.store(a)
	b.mu.Unlock()
	b.tell()
}

// store is put, for a caller who has the lock.
func (b *Inbox) store(a client.Approval) {
	if b.newer != nil {
		b.newer[a.ID] = struct{}{}
	}
	_, here := b.waiting[a.ID]
	known := len(b.ended)
	b.ended = slices.DeleteFunc(b.ended, func(was client.Approval) bool { return was.ID == a.ID })
	here = here || len(b.ended) < known
	if a.Status == "pending" {
		b.waiting[a.ID] = a
		return
	}
	delete(b.waiting, a.ID)
	if !here {
		return
	}
	if b.ended = append(b.ended, a); len(b.ended) > maxEnded {
		b.ended = slices.Delete(b.ended, 0, 1)
	}
}

// answers notes that the gate can be reached.
func (b *Inbox) answers() {
	b.mu.Lock()
	was := b.since
	b.since, b.problem = time.Time{}, nil
	b.mu.Unlock()
	if !was.IsZero() {
		b.tell()
	}
}

// silent notes that the gate cannot be reached.
func (b *Inbox) silent(err error) {
	b.mu.Lock()
	if b.since.IsZero() {
		b.since = b.now()
	}
	b.problem = err
	b.mu.Unlock()
	b.tell()
}

// pauses space tries: half a second, doubling up to ten.
type pauses struct{ next time.Duration }

func (p *pauses) wait(ctx context.Context) error {
	p.next = min(max(2*p.next, 500*time.Millisecond), 10*time.Second)
	t := time.NewTimer(p.next/2 + rand.N(p.next/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
