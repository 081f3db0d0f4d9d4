package listener

import (
	"sync"
	"time"
)

// BodyLimits are how much of requests' bodies there may be at once.
type BodyLimits struct {
	// Count is how many may be on their way; required.
	Count int
	// PerSender is how many of them one sender may have; 0: all.
	PerSender int
	// Bytes is how many bytes of them there may be, of those that have come; required. A reader's buffer
	// may be up to twice as large.
	Bytes int64
	// UntilAnswered has the bytes of a body that has come whole count until its request has been answered.
	UntilAnswered bool
	// Within is how long a body may take; 0: what the server allows.
	Within time.Duration
}

// Bodies are the bodies on their way. It is safe for concurrent use, also by several listeners.
type Bodies struct {
	o BodyLimits

	mu       sync.Mutex // of all below, and of each body's place
	ticks    uint64
	arriving map[*body]struct{}
	senders  map[string]tally
	bytes    int64
	stats    BodyStats
}

// tally is what one sender has on its way.
type tally struct {
	count int
	bytes int64
}

// BodyStats are the counts of [Bodies].
type BodyStats struct {
	Count int    // on their way, now
	Bytes int64  // of bodies that are there, now
	Busy  uint64 // that had to give way, since the start
}

// place is what [Bodies] knows of a body.
type place struct {
	since   uint64 // the order in which bodies came; 0: not yet
	bytes   int64  // that count
	evicted bool
}

// NewBodies returns the limits' keeper.
func NewBodies(o BodyLimits) *Bodies {
	if o.PerSender <= 0 {
		o.PerSender = o.Count
	}
	return &Bodies{o: o, arriving: map[*body]struct{}{}, senders: map[string]tally{}}
}

// Stats returns the counts.
func (b *Bodies) Stats() BodyStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Count, s.Bytes = len(b.arriving), b.bytes
	return s
}

// ErrBusy is the error of reading a body that had to give way to others. Whoever answers should say 503 or
// 429, and when to try again; it is also an interface{ RetryAfter() time.Duration }.
var ErrBusy error = busyError{}

type busyError struct{}

func (busyError) Error() string { return "too many request bodies are on their way at once" }

// RetryAfter is how soon there may be room again.
func (busyError) RetryAfter() time.Duration { return 2 * time.Second }

// enter gives x a place before its first byte is read. It reports false when x has lost it.
func (b *Bodies) enter(x *body) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.evicted {
		return false
	}
	if x.since > 0 {
		return true
	}
	switch {
	case b.senders[x.sender].count >= b.o.PerSender:
		b.evict(b.oldestOfMost(func(other *body) int64 {
			if other.sender == x.sender {
				return 1
			}
			return 0
		}))
	case len(b.arriving) >= b.o.Count:
		b.evict(b.oldestOfMost(func(other *body) int64 { return int64(b.senders[other.sender].count) }))
	}
	b.ticks++
	x.since = b.ticks
	b.arriving[x] = struct{}{}
	b.add(x.sender, 1, 0)
	if b.o.Within > 0 {
		_ = x.conn.SetReadDeadline(time.Now().Add(b.o.Within))
	}
	return true
}

// recordArrived counts n bytes of x that have come, and returns err or what became of x meanwhile.
func (b *Bodies) recordArrived(x *body, n int, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.arriving[x]; ok {
		x.bytes += int64(n)
		b.bytes += int64(n)
		b.add(x.sender, 0, int64(n))
		for b.bytes > b.o.Bytes && len(b.arriving) > 0 {
			b.evict(b.oldestOfMost(func(other *body) int64 { return b.senders[other.sender].bytes }))
		}
	}
	if x.evicted {
		return ErrBusy
	}
	if err != nil || x.whole {
		b.remove(x)
		if !b.o.UntilAnswered {
			b.release(x)
		}
	}
	return err
}

// leave ends what there is of x.
func (b *Bodies) leave(x *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(x)
	b.release(x)
}

// evict ends x for the sake of another one.
func (b *Bodies) evict(x *body) {
	x.evicted = true
	b.remove(x)
	b.release(x)
	b.stats.Busy++
	_ = x.conn.SetReadDeadline(time.Unix(1, 0)) // whoever reads it wakes up
}

// oldestOfMost returns the oldest of the bodies of which what is measured is most.
func (b *Bodies) oldestOfMost(of func(*body) int64) *body {
	var worst *body
	var most int64
	for x := range b.arriving {
		if n := of(x); worst == nil || n > most || n == most && x.since < worst.since {
			worst, most = x, n
		}
	}
	return worst
}

func (b *Bodies) add(sender string, count int, bytes int64) {
	t := b.senders[sender]
	t.count, t.bytes = t.count+count, t.bytes+bytes
	if t.count == 0 {
		delete(b.senders, sender)
		return
	}
	b.senders[sender] = t
}

// remove ends x's being on its way.
func (b *Bodies) remove(x *body) {
	if _, ok := b.arriving[x]; ok {
		delete(b.arriving, x)
		b.add(x.sender, -1, -x.bytes)
	}
}

// release ends the counting of x's bytes.
func (b *Bodies) release(x *body) {
	b.bytes -= x.bytes
	x.bytes = 0
}
