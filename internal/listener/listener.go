package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Options are what a [Listener] is made of.
type Options struct {
	// Connections is how many there are at most; required.
	Connections int
	// Strangers is how many of them may be such on which nobody known is being answered; 0: all. What waits for long is
	// by somebody known, so there may be thousands of those and no more that cost without a token.
	Strangers int
	// PerAddress is how many of them one remote address may have beside those on which somebody known is
	// being answered; 0: all. Of IPv6 the first 64 bits count, which one subscriber usually has.
	PerAddress int
	// Shared reports the addresses behind which there are many, such as a proxy's: PerAddress does not hold
	// for them. Loopback addresses are always such. nil: no others.
	Shared func(netip.Addr) bool
	// Bodies says which limits a request's body is under, and who counts as its sender. nil: none.
	Bodies func(r *http.Request) (*Bodies, string)
	// Refused is told of each connection, and of each wait, for which there was no room; it must not block. nil: nobody
	// is.
	Refused func(what Refusal)
}

// Refusal is what a listener had no room for.
type Refusal string

// What can be refused.
const (
	RefusedConnection Refusal = "connection" // closed at once: all others were in use
	RefusedWait       Refusal = "wait"       // see [Wait]
)

// Listener is a [net.Listener] with a limited number of connections. Its server needs [Listener.Context] as
// ConnContext and [Listener.Handler] around its handler. It is safe for concurrent use.
type Listener struct {
	net.Listener
	o     Options
	ticks atomic.Uint64 // orders what connections do
	dated dates         // what answers say of the time
	known atomic.Int64  // connections on which somebody known is being answered

	mu    sync.Mutex // of all below
	conns map[*conn]struct{}
	from  map[netip.Addr]int // connections by address
	stats Stats
}

// Stats are a listener's counts.
type Stats struct {
	Open     int    // connections, now
	Accepted uint64 // since the start
	Evicted  uint64 // closed to make room for another one
	Refused  uint64 // closed at once: all others were in use
	Waits    uint64 // that were refused
}

// New returns a listener that takes its connections from l.
func New(l net.Listener, o Options) *Listener {
	if o.Strangers <= 0 || o.Strangers > o.Connections {
		o.Strangers = o.Connections
	}
	if o.PerAddress <= 0 {
		o.PerAddress = o.Connections
	}
	if o.Shared == nil {
		o.Shared = func(netip.Addr) bool { return false }
	}
	if o.Refused == nil {
		o.Refused = func(Refusal) {}
	}
	return &Listener{Listener: l, o: o, conns: map[*conn]struct{}{}, from: map[netip.Addr]int{}}
}

// Stats returns the counts.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Open = len(l.conns)
	return s
}

// Accept waits for a connection, for which it closes another one if there are too many.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, l: l, from: l.site(inner)}
		c.since.Store(l.ticks.Add(1))
		if l.admit(c) {
			return c, nil
		}
		inner.Close()
		l.o.Refused(RefusedConnection)
	}
}

// site is the address whose connections are counted together; the zero one stands for many.
func (l *Listener) site(c net.Conn) netip.Addr {
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	a := at.AddrPort().Addr().Unmap().WithZone("")
	if a.IsLoopback() || l.o.Shared(a) {
		return netip.Addr{}
	}
	return network(a)
}

// network is what of an address stands for one subscriber: of IPv6 the network, in which a host has as many
// addresses as it likes.
func network(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// admit takes c in, if need be in another one's place. It reports false where there is none.
func (l *Listener) admit(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Accepted++
	ok := true
	switch {
	case c.from.IsValid() && l.from[c.from] >= l.o.PerAddress && l.countUnidentified(c.from) >= l.o.PerAddress:
		ok = l.evict(func(other *conn) bool { return other.from == c.from })
	case l.full():
		ok = l.evict(func(*conn) bool { return true })
	}
	if ok && l.full() {
		ok = l.evict(func(*conn) bool { return true })
	}
	if !ok {
		l.stats.Refused++
		return false
	}
	l.conns[c] = struct{}{}
	l.from[c.from]++
	return true
}

// full reports whether there is no room for one more connection. l.mu is held.
func (l *Listener) full() bool {
	open := len(l.conns)
	return open >= l.o.Connections || open-int(l.known.Load()) >= l.o.Strangers
}

// countUnidentified counts an address's connections but for those on which somebody known is being answered.
func (l *Listener) countUnidentified(from netip.Addr) int {
	n := 0
	for c := range l.conns {
		if c.from == from && c.state.Load() != servingKnown {
			n++
		}
	}
	return n
}

// evict closes the one that can best be spared among the connections that may go, and reports whether there
// was one. l.mu is held.
func (l *Listener) evict(may func(*conn) bool) bool {
	for {
		var best *conn
		var seen state
		for c := range l.conns {
			if s := c.state.Load(); s < servingKnown && may(c) && (best == nil || l.evictBefore(c, s, best, seen)) {
				best, seen = c, s
			}
		}
		if best == nil {
			return false
		}
		if best.state.CompareAndSwap(seen, evicted) { // else it has just begun with something
			l.forget(best)
			l.stats.Evicted++
			best.Conn.Close()
			return true
		}
	}
}

// evictBefore reports whether c, in state s, is to be closed rather than other in its state. l.mu is held.
func (l *Listener) evictBefore(c *conn, s state, other *conn, otherState state) bool {
	if s != otherState {
		return s < otherState
	}
	if n, m := l.connectionsFrom(c), l.connectionsFrom(other); n != m {
		return n > m
	}
	return c.since.Load() < other.since.Load()
}

// connectionsFrom is how many connections c's address has; 0 where many may share it.
func (l *Listener) connectionsFrom(c *conn) int {
	if !c.from.IsValid() {
		return 0
	}
	return l.from[c.from]
}

// forget takes c out of the counts. l.mu is held.
func (l *Listener) forget(c *conn) {
	if _, ok := l.conns[c]; !ok {
		return
	}
	delete(l.conns, c)
	if l.from[c.from]--; l.from[c.from] <= 0 {
		delete(l.from, c.from)
	}
}

// Context is for [http.Server.ConnContext].
func (l *Listener) Context(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

type connKey struct{}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// Sender is who sends a request, as far as it matters for the room that is kept for them.
type Sender int

// Who sends requests.
const (
	// Agents are programs, which may wait for people by the thousand.
	Agents Sender = iota
	// People are those for whom room is kept: people, the platforms that bring what they press, and operations.
	People
)

// room is how many of the connections may be answered at once for a sender to be protected, and to wait. What one may
// not have is kept for the next: agents that wait leave room for the calls of other agents, all agents for people, and
// people's streams for their decisions.
func (l *Listener) room(who Sender, sixteenths int64) bool {
	if who == People {
		sixteenths += 3
	}
	return l.known.Load() <= max(1, int64(l.o.Connections)*sixteenths/16)
}

// Parts of the connections, in sixteenths, that agents may have.
const (
	agentsWait = 12 // for what takes long: waits, streams. People: fifteen
	agentsAll  = 14 // for anything. People: all
)

// Known notes that whoever sends the request with this context has shown who they are: their connection is
// not closed for another one's sake while the request is answered, and later than a stranger's afterwards. Beyond
// seven eighths of all connections an agent's is closed as a stranger's would be.
func Known(ctx context.Context, who Sender) {
	c := connOf(ctx)
	if c == nil || !c.state.CompareAndSwap(serving, servingKnown) {
		return
	}
	if c.l.known.Add(1); !c.l.room(who, agentsAll) {
		c.l.known.Add(-1)
		c.state.Store(serving)
	}
}

// ErrFull is the error of [Wait].
var ErrFull = errors.New("too many requests wait at once")

// Wait asks whether the request with this context may now wait for long on its connection; the error is [ErrFull].
// Whoever is refused is told to come again.
func Wait(ctx context.Context, who Sender) error {
	c := connOf(ctx)
	if c == nil || c.l.room(who, agentsWait) {
		return nil
	}
	c.l.mu.Lock()
	c.l.stats.Waits++
	c.l.mu.Unlock()
	c.l.o.Refused(RefusedWait)
	return ErrFull
}

// state is what a connection is doing, in the order in which connections can be spared.
type state = uint32

const (
	waiting      state = iota // nothing, or it is on its way with a request's head, and who it is nobody knows
	serving                   // a request is answered of which nobody knows yet whose it is
	waitingKnown              // nothing, after a request of somebody known
	servingKnown              // a request of somebody known is answered
	evicted                   // it is closed
)

// conn is one connection.
type conn struct {
	net.Conn
	l     *Listener
	from  netip.Addr
	state atomic.Uint32
	since atomic.Uint64 // when the state began, in the listener's ticks
}

// begin notes that a request's head has come. It reports false when the connection has been closed.
func (c *conn) begin() bool {
	c.since.Store(c.l.ticks.Add(1))
	return c.state.CompareAndSwap(waiting, serving) || c.state.CompareAndSwap(waitingKnown, serving)
}

// end notes that the request has been answered.
func (c *conn) end() {
	c.since.Store(c.l.ticks.Add(1))
	if c.state.CompareAndSwap(servingKnown, waitingKnown) {
		c.l.known.Add(-1)
		return
	}
	c.state.CompareAndSwap(serving, waiting)
}

// Close ends the connection.
func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.forget(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends the side that writes, where the connection has two.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}
