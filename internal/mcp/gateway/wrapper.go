package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/upstream"
)

// In a wrapper all sessions are one client's: it may begin as modern clients do and turn to initialize then.
// The server that was started for the first session serves the next, unless that says that the client can do
// something else: a legacy server is told so once, when it starts.

// dialAttempt is one attempt to connect. It does not end with the request that began it: the next one wants it too.
type dialAttempt struct {
	done chan struct{} // closed when conn and err are set
	conn upstream.Conn
	err  error
}

// wrapperLink returns a wrapper's one way to its server.
func (s *session) wrapperLink(u *server) (*link, error) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if !s.g.sessions[s] {
		return nil, errSessionOver
	}
	l := u.wrapperLink
	if l == nil {
		l = &link{server: u, owner: s}
		l.get = l.connect
		u.wrapperLink = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.speaker == nil || s.client.Era == mcp.Legacy {
		l.speaker = s
	}
	return l, nil
}

// wrapperLinks are a wrapper's, for as long as a session of its client is open.
func (g *Gateway) wrapperLinks() (ls []*link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range g.servers {
		if u.wrapperLink != nil {
			ls = append(ls, u.wrapperLink)
		}
	}
	return ls
}

// closeWrapperLinks ends a wrapper's connections with the last session of its client.
func (g *Gateway) closeWrapperLinks() {
	g.mu.Lock()
	var over []*link
	if len(g.sessions) == 0 {
		for _, u := range g.servers {
			if u.wrapperLink != nil {
				over = append(over, u.wrapperLink)
				u.wrapperLink = nil
			}
		}
	}
	g.mu.Unlock()
	for _, l := range over {
		l.mu.Lock()
		if l.cancelAttempt != nil {
			l.cancelAttempt()
		}
		l.mu.Unlock()
		l.close()
	}
}

// capabilityText are what a client says that it can do, as far as legacy servers are told.
func (c clientHello) capabilityText() string {
	o, err := mcp.ReadObject(objectOrEmpty(c.capabilities))
	if err != nil {
		return ""
	}
	v := jsontext.Value(o.Without("extensions").Bytes())
	_ = v.Canonicalize() // what ReadObject took can be
	return string(v)
}

// speakerHello is the client as the one who speaks for it now has described it.
func (l *link) speakerHello() clientHello {
	l.mu.Lock()
	s := l.speaker
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello
}

// connect returns the live connection of a wrapper, after starting the server where none runs that was told
// what the client can do. It waits as long as the client does.
func (l *link) connect(ctx context.Context) (upstream.Conn, error) {
	for {
		can := l.speakerHello().capabilityText()
		l.mu.Lock()
		if conn := l.conn; conn != nil && conn.Err() == nil && (conn.Hello().Era == mcp.Modern || l.toldCapabilities == can) {
			l.mu.Unlock()
			return conn, nil
		}
		if l.closed || l.server.g.work.Err() != nil {
			l.mu.Unlock()
			return nil, &upstream.Error{Err: errSessionOver}
		}
		t := l.attempt
		if t == nil {
			t = &dialAttempt{done: make(chan struct{})}
			var tries context.Context
			tries, l.cancelAttempt = context.WithCancel(l.server.g.work)
			l.attempt = t
			l.server.g.background.Go(func() { l.start(tries, t) })
		}
		l.mu.Unlock()
		select {
		case <-t.done:
			if t.err != nil {
				return nil, t.err
			}
			if t.conn.Err() != nil { // it ended at once; the caller that sends over it is told
				return t.conn, nil
			}
		case <-ctx.Done():
			return nil, &upstream.Error{Err: errStarting}
		}
	}
}

// start starts the server, after seeing off the one before.
func (l *link) start(ctx context.Context, t *dialAttempt) {
	l.mu.Lock()
	old, again, retryAt := l.conn, l.connectedBefore, l.retryAt
	l.conn = nil
	l.mu.Unlock()
	retold := old != nil && old.Err() == nil
	if old != nil {
		if !retold {
			l.server.g.log.WarnContext(ctx, "the connection to the MCP server ended; it is started again", "server",
				l.server.Name, "error",
				old.Err())
		}
		old.Close()
	}
	if wait := retryAt - l.server.g.clock.age(); wait > 0 && !retold {
		l.server.g.sleep(ctx, wait)
	}
	who := l.speakerHello()
	cfg := l.server.Config
	if cfg.Capabilities = who.capabilities; cfg.Capabilities == nil {
		cfg.Capabilities = jsontext.Value("{}")
	}
	if who.info != nil { // the server is told who it is for, as if we were not there
		cfg.Client = who.info
	}
	conn, err := upstream.Dial(ctx, cfg, l.peer())
	l.mu.Lock()
	l.cancelAttempt()
	if err == nil && l.closed {
		l.mu.Unlock() // its reader may want it
		conn.Close()
		l.mu.Lock()
		conn, err = nil, &upstream.Error{Err: errSessionOver}
	}
	l.retryAt = l.server.g.clock.age() + retryAfter // also where it is up: the next start is counted from here
	l.attempt = nil
	if t.conn, t.err = conn, err; err == nil {
		l.conn, l.toldCapabilities, l.stale, l.connectedBefore = conn, who.capabilityText(), true, true
	}
	l.mu.Unlock()
	close(t.done)
	if err == nil && conn.Hello().Era == mcp.Modern {
		l.server.g.background.Go(l.listen)
	}
	if err == nil && again && !retold {
		l.restoreSubscriptions(conn)
		for _, kind := range listChanges {
			l.server.g.broadcast(l, mcp.Notification(kind, nil))
		}
	}
}

// sessionOf is the session that a link is for, nil for the shared one's.
func (l *link) sessionOf() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.speaker != nil {
		return l.speaker
	}
	return l.owner
}

var errStarting = errors.New("it is still starting")

// onServerRequest carries what the server asks the client by itself, as it does for roots when it has started. It waits
// until the client has said that it is ready to be asked.
func (l *link) onServerRequest(ctx context.Context, m mcp.Message) mcp.Message {
	s := l.sessionOf()
	r := &clientRequest{session: s, ctx: ctx, method: m.Method, stream: sessionStream{s.client}}
	var result jsontext.Value
	var err *mcp.Error
	select {
	case <-s.initialized:
		s.mu.Lock()
		r.declared = s.hello
		s.mu.Unlock()
		result, err = r.ask(ctx, l, m.Method, m.Params)
	case <-ctx.Done():
		result, err = decline(m.Method)
	}
	if err != nil {
		return mcp.ErrorResponse(m.ID, err)
	}
	return mcp.Response(m.ID, result)
}

// sessionStream is the way to a client outside of its requests.
type sessionStream struct{ client downstream.Client }

func (c sessionStream) Send(m mcp.Message) error {
	if c.client.Push == nil {
		return errNoSessionStream
	}
	c.client.Push(m)
	return nil
}

func (c sessionStream) Ask(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error) {
	if c.client.Ask == nil {
		return mcp.Message{}, errNoSessionStream
	}
	return c.client.Ask(ctx, method, params)
}

var errNoSessionStream = errors.New("this client takes nothing outside of its requests")

// helloCatalogs are what the servers say of themselves. A wrapper's client waits for no lists with it: it would
// not without us.
func (s *session) helloCatalogs(ctx context.Context) ([]*link, []*catalog, error) {
	if !s.g.o.Wrapper {
		return s.catalogs(ctx)
	}
	var links []*link
	var catalogs []*catalog
	for _, u := range s.g.servers {
		l, err := s.link(ctx, u)
		var conn upstream.Conn
		if err == nil {
			conn, err = l.get(ctx)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the MCP server %s cannot be reached: %w", u.Name, err)
		}
		links, catalogs = append(links, l), append(catalogs, newCatalog(conn.Hello()))
	}
	return links, catalogs, nil
}
