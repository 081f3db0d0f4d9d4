package approval

import (
	"slices"
	"sync"
	"time"
)

// Broker tells those who wait that something was committed. Every way of waiting is the same:
// subscribe, read, wait, read again; a wake carries no data, and several may come as one.
// A Broker is safe for concurrent use and never blocks the store.
type Broker struct {
	mu       sync.Mutex
	requests map[string]map[chan struct{}]struct{}
	approved map[string]map[chan struct{}]struct{}
	agents   map[string]map[chan struct{}]struct{}
	all      map[chan struct{}]struct{}
	queues   map[*queueWake]struct{}
	due      map[*deadlines]struct{}
	frozen   map[chan struct{}]struct{}
	types    map[EventType]map[chan struct{}]string // the agent whose events wake, "": every one's
	newest   map[EventType]int64                    // the seq of the newest event of a type
	seq      int64                                  // of the newest of all
}

// NewBroker returns a broker without subscribers.
func NewBroker() *Broker {
	return &Broker{
		requests: map[string]map[chan struct{}]struct{}{},
		approved: map[string]map[chan struct{}]struct{}{},
		agents:   map[string]map[chan struct{}]struct{}{},
		all:      map[chan struct{}]struct{}{},
		queues:   map[*queueWake]struct{}{},
		due:      map[*deadlines]struct{}{},
		frozen:   map[chan struct{}]struct{}{},
		types:    map[EventType]map[chan struct{}]string{},
		newest:   map[EventType]int64{},
	}
}

// Publish wakes whoever waits for what c reports. A store calls it after each commit.
func (b *Broker) Publish(c Commit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range c.Events {
		e := &c.Events[i]
		if e.ApprovalID != "" {
			b.wakeApproved(e)
			wakeAll(b.requests[e.ApprovalID])
		}
		if e.Agent != "" {
			wakeAll(b.agents[e.Agent])
		}
		b.newest[e.Type], b.seq = max(b.newest[e.Type], e.Seq), max(b.seq, e.Seq)
		for ch, agent := range b.types[e.Type] {
			if agent == "" || agent == e.Agent {
				wake(ch)
			}
		}
		if e.Type == EventFrozen || e.Type == EventClockAccepted { // what waits is over by it
			wakeAll(b.frozen)
		}
	}
	if len(c.Events) > 0 {
		wakeAll(b.all)
	}
	if len(c.Queued) > 0 {
		for q := range b.queues {
			q.add(c.Queued)
		}
	}
	if !c.Deadline.IsZero() {
		for d := range b.due {
			d.add(c.Deadline)
		}
	}
}

func wakeAll(set map[chan struct{}]struct{}) {
	for ch := range set {
		wake(ch)
	}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // a wake is already waiting to be read
	}
}

// Request wakes on every event of one request. The caller must call cancel.
func (b *Broker) Request(id string) (wake <-chan struct{}, cancel func()) {
	return b.subscribe(b.requests, id)
}

// BeforeCommit wakes those who have to get ready for what c reports, which is about to be committed and may come to
// nothing. A store may call it before a commit.
func (b *Broker) BeforeCommit(c Commit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range c.Events {
		b.wakeApproved(&c.Events[i])
	}
}

func (b *Broker) wakeApproved(e *Event) {
	if e.Type == EventDecision && e.Decision == "approve" {
		wakeAll(b.approved[e.ApprovalID])
	}
}

// Approved wakes when one request is approved, before [Broker.Request] does, or is about to be: the approval may come
// to nothing yet. Who looks with a write transaction sees what came of it. The caller must call cancel.
func (b *Broker) Approved(id string) (wake <-chan struct{}, cancel func()) {
	return b.subscribe(b.approved, id)
}

// Agent wakes on every event of one agent.
func (b *Broker) Agent(name string) (wake <-chan struct{}, cancel func()) {
	return b.subscribe(b.agents, name)
}

func (b *Broker) subscribe(m map[string]map[chan struct{}]struct{}, key string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if m[key] == nil {
		m[key] = map[chan struct{}]struct{}{}
	}
	m[key][ch] = struct{}{}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(m[key], ch)
		if len(m[key]) == 0 {
			delete(m, key)
		}
	}
}

// All wakes on every event.
func (b *Broker) All() (wake <-chan struct{}, cancel func()) { return b.join(b.all) }

// Events wakes on events of some types: of one agent, or of all for "". The caller must call cancel.
func (b *Broker) Events(agent string, types ...EventType) (wake <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range types {
		if b.types[t] == nil {
			b.types[t] = map[chan struct{}]string{}
		}
		b.types[t][ch] = agent
	}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, t := range types {
			delete(b.types[t], ch)
		}
	}
}

// Newest returns the seq of the newest event that was published, 0 before the first.
func (b *Broker) Newest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

// Since reports whether an event of one of the types was published after the one of this seq. It says so too of a seq
// that was published before this broker was made.
func (b *Broker) Since(seq int64, types ...EventType) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return seq > b.seq || slices.ContainsFunc(types, func(t EventType) bool { return b.newest[t] > seq })
}

// freezes wakes when something was frozen.
func (b *Broker) freezes() (wake <-chan struct{}, cancel func()) { return b.join(b.frozen) }

func (b *Broker) join(set map[chan struct{}]struct{}) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	set[ch] = struct{}{}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(set, ch)
	}
}

// maxQueued is how many ids a queue subscriber may fall behind before it must scan instead.
const maxQueued = 4096

type queueWake struct {
	ch       chan struct{}
	mu       sync.Mutex
	ids      []string
	overflow bool
}

func (q *queueWake) add(ids []string) {
	q.mu.Lock()
	if q.overflow || len(q.ids)+len(ids) > maxQueued {
		q.overflow, q.ids = true, nil
	} else {
		q.ids = append(q.ids, ids...)
	}
	q.mu.Unlock()
	wake(q.ch)
}

// Queue wakes when notifications became due by a commit. take returns their ids since the last take;
// nil after a wake means that they were too many to name, and the taker must look at all of them.
func (b *Broker) Queue() (wake <-chan struct{}, take func() []string, cancel func()) {
	q := &queueWake{ch: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues[q] = struct{}{}
	take = func() []string {
		q.mu.Lock()
		defer q.mu.Unlock()
		ids := q.ids
		q.ids, q.overflow = nil, false
		return ids
	}
	return q.ch, take, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.queues, q)
	}
}

// deadlines brings whoever waits for the earliest deadline those that come before it.
type deadlines struct {
	b    *Broker
	ch   chan time.Time // the earliest of those that were committed since the last receive
	next time.Time      // that is waited for already; zero: none. It is the broker's lock's
}

// add is told of a deadline that was committed. It is called under the broker's lock, and nobody else sends: so the
// channel has room after the receive.
func (d *deadlines) add(t time.Time) {
	if !d.next.IsZero() && !t.Before(d.next) {
		return
	}
	d.next = t
	select {
	case <-d.ch: // a later one
	default:
	}
	d.ch <- t
}

// waitsFor says what is waited for from now on, zero for nothing. What was committed before it was found out may be
// earlier, and is still to be received.
func (d *deadlines) waitsFor(t time.Time) {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	if len(d.ch) == 0 {
		d.next = t
	}
}

// deadlines delivers the earliest deadline among those committed since the last receive that is before the one that is
// waited for.
func (b *Broker) deadlines() (*deadlines, func()) {
	d := &deadlines{b: b, ch: make(chan time.Time, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due[d] = struct{}{}
	return d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.due, d)
	}
}
