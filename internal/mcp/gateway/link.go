package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// link is a way to one server with what was learnt over it. All agents share one, but for legacy servers
// over HTTP and in a wrapper: there each session has its own, and the server sees its client's abilities.
type link struct {
	server    *server
	owner     *session // whose it is alone; nil: shared by all agents
	get       func(ctx context.Context) (upstream.Conn, error)
	fetchSlot chan struct{} // of fill: one list at a time

	mu              sync.Mutex
	cached          *catalog
	stale           bool
	connectedBefore bool // it was connected before
	catalogMissed   bool // an agent looked and was not shown what the server has
	problemList     []string
	subs            map[string]int // resources that a client listens to, on a shared link
	listed          chan struct{}  // of a shared link: takes one when a session's own link learnt what the server has

	// Of an own link:
	dialMu   sync.Mutex
	conn     upstream.Conn
	opening  bool          // it has a place among its agent's connections, and none yet
	lastUsed time.Duration // the age of the gateway when it was asked for last
	retryAt  time.Duration // the age of the gateway before which it is not connected again
	dialErr  error
	closed   bool

	// Of a wrapper's:
	speaker          *session // who says what the client can do
	toldCapabilities string   // what the server was told of that
	attempt          *dialAttempt
	cancelAttempt    context.CancelFunc // ends trying
}

// retryAfter is how long a session waits before it tries once more to reach a server that failed.
const retryAfter = time.Second

// dial connects an own link, unless it is connected.
func (l *link) dial(ctx context.Context, cfg upstream.Config) (upstream.Conn, error) {
	l.mu.Lock()
	l.lastUsed = l.server.g.clock.age()
	l.mu.Unlock()
	if conn := l.liveConn(); conn != nil {
		return conn, nil
	}
	l.dialMu.Lock() // not mu: what the server says at once is taken while we connect
	defer l.dialMu.Unlock()
	if conn := l.liveConn(); conn != nil {
		return conn, nil
	}
	l.mu.Lock()
	old, retryAt, why, over := l.conn, l.retryAt, l.dialErr, l.closed
	l.mu.Unlock()
	if over {
		return nil, &upstream.Error{Err: errSessionOver}
	}
	if old != nil {
		l.server.g.log.WarnContext(ctx, "the connection to an MCP server ended", "server", l.server.Name, "error", old.Err())
		old.Close()
		retryAt, why = l.server.g.clock.age()+retryAfter, old.Err()
	}
	if wait := retryAt - l.server.g.clock.age(); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, &upstream.Error{Err: why}
		}
	}
	if err := l.server.makeRoom(l); err != nil {
		return nil, err
	}
	conn, err := upstream.Dial(ctx, cfg, l.peer())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opening = false
	if err == nil && l.closed {
		conn.Close()
		err = &upstream.Error{Err: errSessionOver}
	}
	if err != nil {
		l.conn, l.retryAt, l.dialErr = nil, l.server.g.clock.age()+retryAfter, err
		return nil, err
	}
	again := l.connectedBefore
	l.conn, l.stale, l.connectedBefore = conn, true, true
	if again {
		l.server.g.background.Go(func() { l.restoreSubscriptions(conn); l.announceListChanges() })
	}
	return conn, nil
}

var errSessionOver = errors.New("the session is over")

// maxSessionLinks is how many connections to one server the sessions of one agent have.
const maxSessionLinks = 16

var errManySessions = fmt.Errorf("your sessions have %d connections to it, as many as are allowed. All are in use; "+
	"try again later", maxSessionLinks)

// addSessionLink remembers the link of a session.
func (u *server) addSessionLink(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessionLinks == nil {
		u.sessionLinks = map[*link]bool{}
	}
	u.sessionLinks[l] = true
}

// makeRoom makes room for a link's connection among those of its agent. Where there are as many as may be, the one that
// was not used for longest is closed, and opened again when its session wants it; one with a call in flight never is.
func (u *server) makeRoom(l *link) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		n, unused := u.countConnections(l)
		if n < maxSessionLinks {
			break
		}
		if unused == nil {
			return &upstream.Error{Err: errManySessions}
		}
		unused.closeUnused() // else a call has begun on it meanwhile
	}
	l.mu.Lock()
	l.opening = true
	l.mu.Unlock()
	return nil
}

// countConnections returns how many connections the other sessions of a link's agent have, and the link of the one that
// was not used for longest; nil: all are in use. u.mu is held.
func (u *server) countConnections(l *link) (n int, unused *link) {
	oldest := time.Duration(0)
	for o := range u.sessionLinks {
		if o == l || o.owner.client.Agent != l.owner.client.Agent {
			continue
		}
		o.mu.Lock()
		conn, opening, used := o.conn, o.opening, o.lastUsed
		o.mu.Unlock()
		if conn == nil && !opening {
			continue
		}
		n++
		if conn != nil && !upstream.Busy(conn) && (unused == nil || used < oldest) {
			oldest, unused = used, o
		}
	}
	return n, unused
}

// closeUnused closes a link's connection, unless a call is in flight on it. A call that is about to begin there goes
// over the next one.
func (l *link) closeUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn := l.conn; conn != nil && upstream.StopIfIdle(conn) {
		l.conn = nil
		l.server.g.background.Go(func() { conn.Close() })
	}
}

// noteMissed remembers that an agent was not shown what the server has.
func (l *link) noteMissed() {
	l.mu.Lock()
	l.catalogMissed = true
	l.mu.Unlock()
}

// liveConn returns an own link's connection, nil if there is none that lives.
func (l *link) liveConn() upstream.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil
	}
	select {
	case <-l.conn.Done():
		return nil
	default:
		return l.conn
	}
}

// close ends an own link.
func (l *link) close() {
	l.mu.Lock()
	conn := l.conn
	l.conn, l.closed = nil, true
	l.mu.Unlock()
	l.server.mu.Lock()
	delete(l.server.sessionLinks, l)
	l.server.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// peer takes what the server sends by itself.
func (l *link) peer() upstream.Peer {
	p := upstream.Peer{Notification: func(m mcp.Message) { l.onNotification(m) }, Ask: declineServerRequest}
	if l.owner != nil {
		p.Ask = l.onServerRequest
	}
	return p
}

// declineServerRequest declines what a server asks over a shared link without saying for which call, as a process does
// that has several in hand.
func declineServerRequest(_ context.Context, m mcp.Message) mcp.Message {
	result, err := decline(m.Method)
	if err != nil {
		return mcp.ErrorResponse(m.ID, err)
	}
	return mcp.Response(m.ID, result)
}

// onConnected is told that a shared link is connected anew.
func (l *link) onConnected(conn upstream.Conn) {
	l.mu.Lock()
	again, news := l.connectedBefore, l.connectedBefore || l.catalogMissed
	l.connectedBefore, l.stale, l.catalogMissed = true, true, false
	l.mu.Unlock()
	g := l.server.g
	g.log.Info("connected to an MCP server", "server", l.server.Name)
	g.background.Go(func() { l.listen() })
	g.background.Go(func() {
		if again {
			l.restoreSubscriptions(conn)
		}
		l.learnCatalog(conn)
	})
	if news {
		l.announceListChanges()
	}
}

// relistAfter is how long a server that did not list what it has is left alone, unless an agent looks.
const relistAfter = 30 * time.Second

// learnCatalog has what cannot be offered told at the start, and not only when an agent looks. A server that did not
// list what it has is asked again, at once where it has just told a session on a link of its own: no other session
// looks at the connection that all share then.
func (l *link) learnCatalog(conn upstream.Conn) {
	g := l.server.g
	for tries := 0; ; tries++ {
		_, err := l.catalog(g.work)
		if err == nil && tries > 0 {
			l.announceListChanges()
		}
		if err == nil || g.work.Err() != nil {
			return
		}
		if tries == 0 {
			g.log.Warn("an MCP server did not list what it has", "server", l.server.Name, "error", err)
		}
		t := time.NewTimer(relistAfter)
		select {
		case <-t.C:
		case <-l.listed:
		case <-conn.Done():
		case <-g.work.Done():
		}
		t.Stop()
		if conn.Err() != nil || g.work.Err() != nil {
			return
		}
	}
}

// announceListChanges tells clients to look at the server's lists anew.
func (l *link) announceListChanges() {
	for _, kind := range listChanges {
		l.server.g.broadcast(l, mcp.Notification(kind, nil))
	}
}

// restoreSubscriptions tells a legacy server that is connected anew what its sessions want: it was let through when
// they asked for it.
func (l *link) restoreSubscriptions(conn upstream.Conn) {
	if conn.Hello().Era != mcp.Legacy {
		return
	}
	l.mu.Lock()
	uris := slices.Sorted(maps.Keys(l.subs))
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.server.g.work, listTimeout)
	defer cancel()
	tell := func(method, member, value string) {
		resp, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: method,
			Params: mcp.Object{{Name: member, Value: mcp.Quote(value)}}.Bytes()})
		if err == nil && resp.Err != nil {
			err = mcp.ReadError(resp.Err)
		}
		if err != nil {
			l.server.g.log.Warn("an MCP server that is up again refused what its clients had asked for", "server", l.server.Name,
				"method", method, "error", err)
		}
	}
	for _, uri := range uris {
		tell("resources/subscribe", "uri", uri)
	}
	level := ""
	if s := l.sessionOf(); s == nil {
		level = l.server.g.leastLevel()
	} else {
		s.mu.Lock()
		level = s.level
		s.mu.Unlock()
	}
	if level != "" && l.takesLogLevel(conn) {
		tell("logging/setLevel", "level", level)
	}
}

// takesLogLevel reports whether the server takes a level of logging.
func (l *link) takesLogLevel(conn upstream.Conn) bool {
	caps, err := mcp.ReadObject(conn.Hello().Capabilities)
	return err == nil && caps.Get("logging") != nil
}

const (
	toolsChanged     = "notifications/tools/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
	resourceUpdated  = "notifications/resources/updated"
	logMessage       = "notifications/message"
	progressMethod   = "notifications/progress"
)

var listChanges = []string{toolsChanged, promptsChanged, resourcesChanged}

// onNotification passes on what a server says of itself.
func (l *link) onNotification(m mcp.Message) {
	if slices.Contains(listChanges, m.Method) {
		l.markStale()
		m.Params = nil // of the modern era: it names our subscription
	}
	switch m.Method {
	case logMessage:
		if l.server.MaskResults {
			var ok bool
			if m.Params, ok = maskNotification(l.server.g.o.Masker(), m.Params); !ok {
				return
			}
		}
		l.server.g.broadcast(l, m)
	case toolsChanged, promptsChanged, resourcesChanged, resourceUpdated:
		l.server.g.broadcast(l, m)
	}
}

// markStale has the server's lists looked at anew by the session that needs them: over a shared link, also by the
// sessions that have a link of their own to the same server.
func (l *link) markStale() {
	l.mu.Lock()
	l.stale = true
	l.mu.Unlock()
	if l.owner != nil {
		return
	}
	g := l.server.g
	g.mu.Lock()
	sessions := slices.Collect(maps.Keys(g.sessions))
	g.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		own := s.links[l.server]
		s.mu.Unlock()
		if own != nil && own != l {
			own.mu.Lock()
			own.stale = true
			own.mu.Unlock()
		}
	}
}

// broadcast hands a server's notification to the sessions that it concerns.
func (g *Gateway) broadcast(l *link, m mcp.Message) {
	uri := ""
	if m.Method == resourceUpdated || m.Method == logMessage {
		p, err := mcp.ReadObject(m.Params)
		if err != nil {
			return
		}
		uri = p.Text("uri")
		if p.Get("_meta") != nil {
			m.Params = p.Without("_meta").Bytes()
		}
	}
	g.mu.Lock()
	var to []*session
	for s := range g.sessions {
		to = append(to, s)
	}
	var listeners []*listener
	for e := range g.listeners {
		listeners = append(listeners, e)
	}
	g.mu.Unlock()
	for _, s := range to {
		if s.client.Push == nil || s.client.Era != mcp.Legacy || !l.concerns(s) || !s.ready.Load() {
			continue
		}
		switch m.Method {
		case resourceUpdated:
			if l.owner == nil && !s.isSubscribed(uri) {
				continue
			}
		case logMessage:
			if l.owner == nil && !s.wantsLog(m.Params) {
				continue
			}
		}
		s.client.Push(m)
	}
	for _, e := range listeners {
		if l.concerns(e.r.session) {
			e.deliver(m, uri)
		}
	}
}

// concerns reports whether a session is told what the server says by itself.
func (l *link) concerns(s *session) bool {
	return l.owner == nil || l.owner == s || l.server.g.o.Wrapper
}

// listen keeps a subscription with a modern server, which tells of changes only there. It ends with the
// connection.
func (l *link) listen() {
	ctx, cancel := context.WithCancel(l.server.g.work)
	defer cancel()
	conn, err := l.get(ctx)
	if err != nil || conn.Hello().Era != mcp.Modern {
		return
	}
	go func() {
		defer cancel()
		select {
		case <-conn.Done():
		case <-ctx.Done():
		}
	}()
	want := map[string]bool{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}
	for ctx.Err() == nil {
		begin := l.server.g.clock.age()
		params := mcp.Object{{Name: "notifications", Value: mcp.Marshal(want)}, {Name: "_meta", Value: l.gatewayMeta()}}
		_, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: "subscriptions/listen", Params: params.Bytes(),
			OnNotification: l.onNotification})
		if err == nil { // it was answered: refused, or there is nothing to listen to
			return
		}
		if wait := 30*time.Second - (l.server.g.clock.age() - begin); wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
}

// gatewayMeta is the metadata of a modern request that the gateway makes by itself.
func (l *link) gatewayMeta() jsontext.Value {
	return mcp.Object{
		{Name: mcp.MetaVersion, Value: mcp.Quote(mcp.VersionModern)},
		{Name: mcp.MetaCapabilities, Value: jsontext.Value("{}")},
		{Name: mcp.MetaClient, Value: l.server.g.implementation()},
	}.Bytes()
}
