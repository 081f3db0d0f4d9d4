package postgrestest

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"countersign/internal/testkit"
)

// Proxy stands between a store and the server, and can cut what goes through.
type Proxy struct {
	listener net.Listener
	server   string
	URL      string // at which the store reaches the server

	mu      sync.Mutex
	open    []net.Conn
	deaf    bool                // what the store says goes nowhere
	mute    bool                // what the server says goes nowhere
	refuses bool                // new connections are closed
	stalled chan struct{}       // nothing comes through until it is closed; nil: it does
	alter   func([]byte) []byte // what the store says; nil: nothing
}

// NewProxy makes a proxy for a store at a URL. It ends with the test.
func NewProxy(t testing.TB, store string) *Proxy {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: u.Host}
	u.Host = l.Addr().String()
	p.URL = u.String()
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.Resume()
		p.Cut()
		testkit.Wait(t, "the proxy's connections", done.Wait)
	})
	return p
}

func (p *Proxy) serve(c net.Conn) {
	defer c.Close()
	p.mu.Lock()
	if p.refuses {
		p.mu.Unlock()
		return
	}
	s, err := net.Dial("tcp", p.server)
	if err != nil {
		p.mu.Unlock()
		return
	}
	defer s.Close()
	p.open = append(p.open, c, s)
	alter := p.alter
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(s, c, &p.deaf, alter) })
	both.Go(func() { p.pass(c, s, &p.mute, nil) })
	both.Wait() // real: each side ends with its connection, which the test cuts
}

// pass passes on what comes, unless it is to go nowhere.
func (p *Proxy) pass(to, from net.Conn, lost *bool, alter func([]byte) []byte) {
	defer to.Close()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		if stalled != nil {
			<-stalled // real: the test lets it go on
		}
		p.mu.Lock()
		gone := *lost
		p.mu.Unlock()
		said := b[:n]
		if alter != nil {
			said = alter(said)
		}
		if n > 0 && !gone {
			_, _ = to.Write(said)
		}
		if err != nil {
			return
		}
	}
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open, p.deaf, p.mute = nil, false, false
}

// Stall has nothing come through, in either direction, until Resume: then all of it does.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// Resume ends a Stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
	}
	p.stalled = nil
}

// Alter has what the store says altered on connections that are made from now on.
func (p *Proxy) Alter(alter func([]byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alter = alter
}

// Set says whether what the store says goes nowhere, and what the server says, and whether new connections are closed.
func (p *Proxy) Set(deaf, mute, refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf, p.mute, p.refuses = deaf, mute, refuses
}
