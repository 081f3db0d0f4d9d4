package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// network stands between a gate and its database: what goes through comes so much later, each way.
type network struct {
	l       net.Listener
	server  string
	delay   time.Duration
	serving sync.WaitGroup
	mu      sync.Mutex
	open    []net.Conn
	closed  bool
}

// newNetwork returns one, and the URL at which a store is behind it.
func newNetwork(store string, delay time.Duration) (*network, string, error) {
	u, err := url.Parse(store)
	if err != nil || u.Port() == "" {
		return nil, "", errors.New("-delay needs a -store such as postgres://user@127.0.0.1:5432/database")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	n := &network{l: l, server: u.Host, delay: delay}
	u.Host = l.Addr().String()
	n.serving.Go(n.serve)
	return n, u.String(), nil
}

func (n *network) serve() {
	for {
		c, err := n.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", n.server)
		if err != nil {
			_ = c.Close()
			continue
		}
		n.mu.Lock()
		n.open = append(n.open, c, s)
		closed := n.closed
		n.mu.Unlock()
		if closed {
			_, _ = c.Close(), s.Close()
			return
		}
		n.serving.Go(func() { n.pass(s, c) })
		n.serving.Go(func() { n.pass(c, s) })
	}
}

// late is what was read, and when.
type late struct {
	bytes []byte
	at    time.Duration
}

func (n *network) pass(to io.WriteCloser, from io.Reader) {
	under, watch := make(chan late, 1024), startStopwatch()
	n.serving.Go(func() {
		defer to.Close()
		for part := range under {
			time.Sleep(part.at + n.delay - watch.read())
			if _, err := to.Write(part.bytes); err != nil {
				for range under { // until the other side is closed, too
				}
			}
		}
	})
	defer close(under)
	for {
		b := make([]byte, 1<<14)
		k, err := from.Read(b)
		if k > 0 {
			under <- late{b[:k], watch.read()}
		}
		if err != nil {
			return
		}
	}
}

func (n *network) close() error {
	err := n.l.Close()
	n.mu.Lock()
	n.closed = true
	for _, c := range n.open {
		_ = c.Close() // it may be closed
	}
	n.mu.Unlock()
	n.serving.Wait()
	return err
}

// roundTrip asks the database nothing, as a gate reaches it.
func (r *run) roundTrip(ctx context.Context) (operation, error) {
	c, err := pgx.Connect(ctx, r.w.store)
	if err != nil {
		return nil, err
	}
	r.undo = append(r.undo, func() error { return c.Close(context.Background()) })
	return func(ctx context.Context, _ int64) (time.Duration, error) {
		_, err := c.Exec(ctx, "SELECT 1")
		return 0, err
	}, nil
}
