// Package broker tells those who wait that something was committed. Every way of waiting is the same: subscribe, read,
// wait, read again; a wake carries no data, and several may come as one.
package broker

import (
	"iter"
	"slices"
	"sync"
	"time"
)

// Event is what those who wait are told apart by.
type Event[Type comparable] struct {
	Type           Type
	Seq            int64
	Request, Agent string // "": it is about none
	Approves       bool   // the request was approved by it
	Freezes        bool   // what waits is over by it
}

// Broker wakes those who wait for events. It is safe for concurrent use and never blocks the store.
type Broker[Type comparable] struct {
	mu       sync.Mutex
	requests map[string]map[chan struct{}]struct{}
	approved map[string]map[chan struct{}]struct{}
	agents   map[string]map[chan struct{}]struct{}
	all      map[chan struct{}]struct{}
	queues   map[*queueWake]struct{}
	due      map[*Deadlines]struct{}
	frozen   map[chan struct{}]struct{}
	types    map[Type]map[chan struct{}]string // the agent whose events wake, "": every one's
	newest   map[Type]int64                    // the seq of the newest event of a type
	seq      int64                             // of the newest of all
}

// New returns a broker without subscribers.
func New[Type comparable]() *Broker[Type] {
	return &Broker[Type]{
		requests: map[string]map[chan struct{}]struct{}{},
		approved: map[string]map[chan struct{}]struct{}{},
		agents:   map[string]map[chan struct{}]struct{}{},
		all:      map[chan struct{}]struct{}{},
		queues:   map[*queueWake]struct{}{},
		due:      map[*Deadlines]struct{}{},
		frozen:   map[chan struct{}]struct{}{},
		types:    map[Type]map[chan struct{}]string{},
		newest:   map[Type]int64{},
	}
}

// Publish wakes whoever waits for events that were committed, for some of the notifications that are queued, or for a
// deadline; the zero time is none.
func (b *Broker[Type]) Publish(events iter.Seq[Event[Type]], queued []string, deadline time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	some := false
	for e := range events {
		some = true
		if e.Request != "" {
			b.wakeApproved(e)
			wakeAll(b.requests[e.Request])
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
		if e.Freezes {
			wakeAll(b.frozen)
		}
	}
	if some {
		wakeAll(b.all)
	}
	if len(queued) > 0 {
		for q := range b.queues {
			q.add(queued)
		}
	}
	if !deadline.IsZero() {
		for d := range b.due {
			d.add(deadline)
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
func (b *Broker[Type]) Request(id string) (wake <-chan struct{}, cancel func()) {
	return b.subscribe(b.requests, id)
}

// BeforeCommit wakes those who have to get ready for events that are about to be committed, and may come to nothing.
func (b *Broker[Type]) BeforeCommit(events iter.Seq[Event[Type]]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := range events {
		b.wakeApproved(e)
	}
}

func (b *Broker[Type]) wakeApproved(e Event[Type]) {
	if e.Approves {
		wakeAll(b.approved[e.Request])
	}
}

// Approved wakes when one request is approved, before [Broker.Request] does, or is about to be: the approval may come
// to nothing yet. Who looks with a write transaction sees what came of it. The caller must call cancel.
func (b *Broker[Type]) Approved(id string) (wake <-chan struct{}, cancel func()) {
	return b.subscribe(b.approved, id)
}

// Agent wakes on every event of one agent.
func (b *Broker[Type]) Agent(name string) (wake <-chan struct{}, cancel func()) {
	return b.subscribe(b.agents, name)
}

func (b *Broker[Type]) subscribe(m map[string]map[chan struct{}]struct{}, key string) (<-chan struct{}, func()) {
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
func (b *Broker[Type]) All() (wake <-chan struct{}, cancel func()) { return b.join(b.all) }

// Events wakes on events of some types: of one agent, or of all for "". The caller must call cancel.
func (b *Broker[Type]) Events(agent string, types ...Type) (wake <-chan struct{}, cancel func()) {
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
func (b *Broker[Type]) Newest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

// Since reports whether an event of one of the types was published after the one of this seq. It says so too of a seq
// that was published before this broker was made.
func (b *Broker[Type]) Since(seq int64, types ...Type) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return seq > b.seq || slices.ContainsFunc(types, func(t Type) bool { return b.newest[t] > seq })
}

// Freezes wakes when something was frozen.
func (b *Broker[Type]) Freezes() (wake <-chan struct{}, cancel func()) { return b.join(b.frozen) }

func (b *Broker[Type]) join(set map[chan struct{}]struct{}) (<-chan struct{}, func()) {
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
func (b *Broker[Type]) Queue() (wake <-chan struct{}, take func() []string, cancel func()) {
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

// Deadlines brings whoever waits for the earliest deadline those that come before it.
type Deadlines struct {
	mu   *sync.Mutex    // the broker's
	ch   chan time.Time // the earliest of those that were committed since the last receive
	next time.Time      // that is waited for already; zero: none
}

// Earlier delivers the earliest deadline among those committed since the last receive that is before the one that is
// waited for.
func (d *Deadlines) Earlier() <-chan time.Time { return d.ch }

// add is told of a deadline that was committed. It is called under the broker's lock, and nobody else sends: so the
// channel has room after the receive.
func (d *Deadlines) add(t time.Time) {
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

// WaitFor says what is waited for from now on, zero for nothing. What was committed before it was found out may be
// earlier, and is still to be received.
func (d *Deadlines) WaitFor(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ch) == 0 {
		d.next = t
	}
}

// Deadlines wakes on deadlines. The caller must call cancel.
func (b *Broker[Type]) Deadlines() (due *Deadlines, cancel func()) {
	d := &Deadlines{mu: &b.mu, ch: make(chan time.Time, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due[d] = struct{}{}
	return d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.due, d)
	}
}

// Waiting counts those who wait for a request.
func (b *Broker[Type]) Waiting(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requests[id])
}
