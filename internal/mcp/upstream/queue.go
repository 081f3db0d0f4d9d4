package upstream

import (
	"errors"
	"slices"
)

// What may wait for a process to read it: requests, the rooms kept for them among them, and beside these what the
// connection says for itself (answers, notices that a request is cancelled).
const (
	maxQueuedBytes    = 64 << 20 // bytes of requests
	maxQueuedRequests = 4096     // requests
	maxControlBytes   = 4 << 20  // bytes of the connection's own
)

// ErrBusy is within the error of a request for which a connection has no room: it was not sent.
var ErrBusy = errors.New("it is busy, and too many calls wait for it already; try again later")

// queue is what waits for a process to read it. Each sender has a queue of its own, and these take turns. Who has
// much waiting finds the queue full while others still find room: a sender takes no more than it would leave free,
// which is half of the queue for one sender alone, a third each for two. What it has taken it never drops.
type queue struct {
	control      []*outgoing // goes first
	controlBytes int
	senders      map[string]*senderQueue
	ready        []*senderQueue // those with something to send, in whose turn it is
	bytes        int            // of all senders
	count        int
}

type senderQueue struct {
	sender  string
	waiting []*outgoing
	bytes   int // that wait, or are kept
	count   int
}

// reserve takes n bytes of room for a request of sender, and reports whether there was.
func (q *queue) reserve(sender string, n int) bool {
	l := q.senders[sender]
	if l == nil {
		l = &senderQueue{sender: sender}
	}
	if l.bytes+n > maxQueuedBytes-q.bytes || l.count+1 > maxQueuedRequests-q.count {
		return false
	}
	if q.senders == nil {
		q.senders = map[string]*senderQueue{}
	}
	q.senders[sender] = l
	l.bytes, l.count, q.bytes, q.count = l.bytes+n, l.count+1, q.bytes+n, q.count+1
	return true
}

// resize makes the room of one request n bytes larger, or smaller: the reservation is an estimate, and holds.
func (q *queue) resize(sender string, n int) {
	q.senders[sender].bytes += n
	q.bytes += n
}

// unreserve gives n bytes of room of one request back.
func (q *queue) unreserve(sender string, n int) {
	l := q.senders[sender]
	l.bytes, l.count, q.bytes, q.count = l.bytes-n, l.count-1, q.bytes-n, q.count-1
	if l.count == 0 && len(l.waiting) == 0 {
		delete(q.senders, sender)
	}
}

// push puts a request that was admitted behind those of its sender.
func (q *queue) push(out *outgoing) {
	l := q.senders[out.sender]
	if l.waiting = append(l.waiting, out); len(l.waiting) == 1 {
		q.ready = append(q.ready, l)
	}
}

// pushControl puts a message of the connection's own into the queue, and reports whether there was room.
func (q *queue) pushControl(out *outgoing) bool {
	if q.controlBytes+len(out.line) > maxControlBytes && len(q.control) > 0 {
		return false
	}
	q.control, q.controlBytes = append(q.control, out), q.controlBytes+len(out.line)
	return true
}

// next takes out what is to be written next, nil where nothing waits.
func (q *queue) next() *outgoing {
	if len(q.control) > 0 {
		out := q.control[0]
		if q.control, q.controlBytes = q.control[1:], q.controlBytes-len(out.line); len(q.control) == 0 {
			q.control = nil
		}
		return out
	}
	if len(q.ready) == 0 {
		return nil
	}
	l := q.ready[0]
	q.ready = q.ready[1:]
	out := l.waiting[0]
	if l.waiting = l.waiting[1:]; len(l.waiting) > 0 {
		q.ready = append(q.ready, l)
	} else {
		l.waiting = nil
	}
	q.unreserve(out.sender, len(out.line))
	return out
}

// remove takes a request out that waits.
func (q *queue) remove(out *outgoing) {
	l := q.senders[out.sender]
	if l.waiting = slices.DeleteFunc(l.waiting, func(o *outgoing) bool { return o == out }); len(l.waiting) == 0 {
		l.waiting = nil
		q.ready = slices.DeleteFunc(q.ready, func(t *senderQueue) bool { return t == l })
	}
	q.unreserve(out.sender, len(out.line))
}

// Reservation is a place in the queue of a connection, kept for one request. The zero of it, nil, keeps none.
type Reservation struct {
	c      *stdioConn
	sender string
	bytes  int
	taken  bool
}

// Release gives the room back, unless its request has taken it. It may be called again.
func (r *Reservation) Release() {
	if r == nil {
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.release()
}

func (r *Reservation) release() {
	if !r.taken {
		r.taken = true
		r.c.queue.unreserve(r.sender, r.bytes)
	}
}

// Reserve keeps a place for a request of sender with so many bytes of params, or fails with an error of which nothing
// was sent, [ErrBusy] within it.
func (c *stdioConn) Reserve(sender string, bytes int) (*Reservation, error) {
	bytes += lineOverhead
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.queue.reserve(sender, bytes) {
		return nil, notSent(ErrBusy)
	}
	return &Reservation{c: c, sender: sender, bytes: bytes}, nil
}

// lineOverhead is about what a request takes beside its params.
const lineOverhead = 1 << 10
