package upstream

import (
	"errors"
	"slices"
)

// What may wait for a process to read it: requests, the rooms kept for them among them, and beside these what the
// connection says for itself (answers, notices that a request is cancelled).
const (
	maxQueued  = 64 << 20 // bytes of requests
	maxWaiting = 4096     // requests
	maxOwn     = 4 << 20  // bytes of the connection's own
)

// ErrBusy is within the error of a request for which a connection has no room: it was not sent.
var ErrBusy = errors.New("it is busy, and too much waits for it already; try again later")

// queue is what waits for a process to read it. Each sender has a lane of its own, and the lanes take turns. Who has
// much waiting finds the queue full while others still find room: a lane takes no more than it would leave free, which
// is half of the queue for one sender alone, a third each for two. What it has taken it never drops.
type queue struct {
	own      []*outgoing // goes first
	ownBytes int
	lanes    map[string]*lane
	turns    []*lane // those with something to send, in whose turn it is
	bytes    int     // of all lanes
	count    int
}

type lane struct {
	from    string
	waiting []*outgoing
	bytes   int // that wait, or are kept
	count   int
}

// admit takes n bytes of room for a request of from, and reports whether there was.
func (q *queue) admit(from string, n int) bool {
	l := q.lanes[from]
	if l == nil {
		l = &lane{from: from}
	}
	if l.bytes+n > maxQueued-q.bytes || l.count+1 > maxWaiting-q.count {
		return false
	}
	if q.lanes == nil {
		q.lanes = map[string]*lane{}
	}
	q.lanes[from] = l
	l.bytes, l.count, q.bytes, q.count = l.bytes+n, l.count+1, q.bytes+n, q.count+1
	return true
}

// resize makes the room of one request n bytes larger, or smaller: what is kept is an estimate, and holds.
func (q *queue) resize(from string, n int) {
	q.lanes[from].bytes += n
	q.bytes += n
}

// leave gives n bytes of room of one request back.
func (q *queue) leave(from string, n int) {
	l := q.lanes[from]
	l.bytes, l.count, q.bytes, q.count = l.bytes-n, l.count-1, q.bytes-n, q.count-1
	if l.count == 0 && len(l.waiting) == 0 {
		delete(q.lanes, from)
	}
}

// push puts a request that was admitted behind those of its sender.
func (q *queue) push(out *outgoing) {
	l := q.lanes[out.from]
	if l.waiting = append(l.waiting, out); len(l.waiting) == 1 {
		q.turns = append(q.turns, l)
	}
}

// pushOwn puts a message of the connection's own into the queue, and reports whether there was room.
func (q *queue) pushOwn(out *outgoing) bool {
	if q.ownBytes+len(out.line) > maxOwn && len(q.own) > 0 {
		return false
	}
	q.own, q.ownBytes = append(q.own, out), q.ownBytes+len(out.line)
	return true
}

// next takes out what is to be written next, nil where nothing waits.
func (q *queue) next() *outgoing {
	if len(q.own) > 0 {
		out := q.own[0]
		if q.own, q.ownBytes = q.own[1:], q.ownBytes-len(out.line); len(q.own) == 0 {
			q.own = nil
		}
		return out
	}
	if len(q.turns) == 0 {
		return nil
	}
	l := q.turns[0]
	q.turns = q.turns[1:]
	out := l.waiting[0]
	if l.waiting = l.waiting[1:]; len(l.waiting) > 0 {
		q.turns = append(q.turns, l)
	} else {
		l.waiting = nil
	}
	q.leave(out.from, len(out.line))
	return out
}

// remove takes a request out that waits.
func (q *queue) remove(out *outgoing) {
	l := q.lanes[out.from]
	if l.waiting = slices.DeleteFunc(l.waiting, func(o *outgoing) bool { return o == out }); len(l.waiting) == 0 {
		l.waiting = nil
		q.turns = slices.DeleteFunc(q.turns, func(t *lane) bool { return t == l })
	}
	q.leave(out.from, len(out.line))
}

// Room is a place in the queue of a connection, kept for one request. The zero of it, nil, keeps none.
type Room struct {
	c     *stdio
	from  string
	bytes int
	over  bool
}

// Release gives the room back, unless its request has taken it. It may be called again.
func (r *Room) Release() {
	if r == nil {
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.release()
}

func (r *Room) release() {
	if !r.over {
		r.over = true
		r.c.queue.leave(r.from, r.bytes)
	}
}

// Room keeps a place for a request of from with so many bytes of params, or fails with an error of which nothing was
// sent, [ErrBusy] within it.
func (c *stdio) Room(from string, bytes int) (*Room, error) {
	bytes += lineOverhead
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.queue.admit(from, bytes) {
		return nil, notSent(ErrBusy)
	}
	return &Room{c: c, from: from, bytes: bytes}, nil
}

// lineOverhead is about what a request takes beside its params.
const lineOverhead = 1 << 10
