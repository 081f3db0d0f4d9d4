package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	firstBackoff   = 500 * time.Millisecond
	longestBackoff = 30 * time.Second
	stableAfter    = 30 * time.Second // up for so long, a connection that ends is news again
	probeEvery     = 30 * time.Second // over HTTP
	probeTimeout   = 10 * time.Second
)

// State is how a server is doing.
type State string

// States of a server.
const (
	Starting State = "starting" // it has not said hello yet, for the first time or after it was lost
	Up       State = "up"
	Down     State = "down" // the last try failed
)

// Health is how a server is doing.
type Health struct {
	State    State
	Err      error     // the last failure; nil: there was none
	Since    time.Time // of the state
	Restarts int       // connections after the first, those that failed too
}

// Supervisor keeps a connection to one server: it connects, watches, and connects again. It is safe for
// concurrent use.
type Supervisor struct {
	cfg         Config
	peer        Peer
	now         func() time.Time
	onConnected func(Conn)
	hints       dialHints

	mu      sync.Mutex
	health  Health
	conn    Conn
	nextTry time.Time     // of the next try, while down
	stopped bool          // for good
	changed chan struct{} // closed at the next change
}

// New returns a supervisor; [Supervisor.Run] connects. now is the clock by which it says since when it is up or down.
// onConnected is called with each connection once it is up, in a goroutine of its own, which Run waits for at its end;
// it may be nil.
func New(cfg Config, peer Peer, now func() time.Time, onConnected func(Conn)) *Supervisor {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{cfg: cfg, peer: peer, now: now, onConnected: onConnected,
		health: Health{State: Starting, Since: now()}, changed: make(chan struct{})}
}

// Run keeps the connection until ctx ends, and returns when it is closed and nothing of it is left.
func (s *Supervisor) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	log := s.cfg.Logger.With("server", s.cfg.Name)
	failures := 0
	for tries := 0; ; tries++ {
		s.update(func() {
			s.health.Restarts = tries
			if s.conn = nil; failures == 0 {
				s.health.State, s.health.Since = Starting, s.now()
			}
		})
		conn, err := dial(ctx, s.cfg, s.peer, &s.hints)
		failures++
		if err == nil {
			up := s.now()
			log.InfoContext(ctx, "the server is up", "version", conn.Hello().Version)
			if err = s.serve(ctx, conn, up, &running); s.now().Sub(up) >= stableAfter {
				failures = 0
			}
		}
		if ctx.Err() != nil {
			s.update(func() {
				s.conn, s.health.State, s.health.Since, s.stopped = nil, Down, s.now(), true
			})
			return
		}
		wait := backoff(failures)
		log.WarnContext(ctx, "the server is down", "error", err, "next_try", wait.Round(time.Millisecond))
		if wait == 0 {
			s.update(func() { s.health.Err = err })
			continue
		}
		now := s.now()
		s.update(func() {
			s.conn, s.health.Err, s.nextTry = nil, err, now.Add(wait)
			if s.health.State != Down {
				s.health.State, s.health.Since = Down, now
			}
		})
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// serve offers a connection until it is over, and returns why that is. It is closed in the background.
func (s *Supervisor) serve(ctx context.Context, conn Conn, now time.Time, background *sync.WaitGroup) error {
	s.update(func() { s.conn, s.health.State, s.health.Since, s.health.Err = conn, Up, now, nil })
	if s.onConnected != nil {
		background.Go(func() { s.onConnected(conn) })
	}
	err := s.watch(ctx, conn)
	if ctx.Err() != nil {
		conn.Close()
	} else {
		background.Go(func() { Retire(ctx, conn) })
	}
	return err
}

// backoff is how long to wait after so many failures in a row: from half to the whole of twice as long
// each time.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	d := longestBackoff
	if n := failures - 1; n < 6 {
		d = min(d, firstBackoff<<n)
	}
	return d/2 + rand.N(d/2) + 1
}

// watch returns why the connection is over.
func (s *Supervisor) watch(ctx context.Context, conn Conn) error {
	c, ok := conn.(*httpConn)
	if !ok {
		select {
		case <-conn.Done():
			return conn.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t := time.NewTicker(probeEvery)
	defer t.Stop()
	for {
		select {
		case <-conn.Done():
			return conn.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if c.untilIdle() != nil {
			continue // it has been asked something already, and may be doing that alone
		}
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		err := c.probe(probe)
		cancel()
		if err != nil && ctx.Err() == nil && conn.Err() == nil && c.untilIdle() == nil {
			c.stopAccepting(fmt.Errorf("the server did not answer a health check: %w", err))
		}
	}
}

// Retire closes a connection that is over for new requests, when those in flight have ended.
func Retire(ctx context.Context, conn Conn) {
	if c, ok := conn.(*httpConn); ok {
		if busy := c.untilIdle(); busy != nil {
			select {
			case <-busy:
			case <-ctx.Done():
			}
		}
	}
	conn.Close()
}

func (s *Supervisor) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Conn returns the live connection. While the server starts, for the first time or after it was lost, it
// waits until ctx ends; while the last try has failed it returns at once, with an error that says when the
// next one is. Its errors are of the kind that nothing was sent.
func (s *Supervisor) Conn(ctx context.Context) (Conn, error) {
	for {
		s.mu.Lock()
		conn, h, next, stopped, change := s.conn, s.health, s.nextTry, s.stopped, s.changed
		s.mu.Unlock()
		switch until := time.Until(next); {
		case conn != nil && conn.Err() == nil:
			return conn, nil
		case stopped:
			return nil, notSent(errors.New("it is stopped"))
		case h.State == Down && until > 0:
			return nil, notSent(fmt.Errorf("it is down; the next try is in %s: %w", until.Round(100*time.Millisecond), h.Err))
		case h.State == Down:
			return nil, notSent(fmt.Errorf("it is down and being tried again: %w", h.Err))
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, notSent(&plainError{"it is still starting", ctx.Err()})
		}
	}
}

// Health returns how the server is doing.
func (s *Supervisor) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}
