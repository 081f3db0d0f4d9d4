package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/mcp"
	"countersign/mcp/upstream"
)

// link is a way to one server with what was learnt over it. Everybody shares one, but for legacy servers
// over HTTP and in a wrapper: there each session has its own, and the server sees its client's abilities.
type link struct {
	server    *server
	owner     *session // whose it is alone; nil: everybody's
	get       func(ctx context.Context) (upstream.Conn, error)
	fetchSlot chan struct{} // of fill: one list at a time

	mu              sync.Mutex
	cached          *catalog
	stale           bool
	connectedBefore bool // it was connected before
	catalogMissed   bool // somebody looked and was not shown what the server has
	problemList     []string
	subs            map[string]int // resources that somebody listens to, on a shared link

	// Of an own link:
	dialMu   sync.Mutex
	conn     upstream.Conn
	opening  bool      // it has a place among its agent's connections, and none yet
	lastUsed time.Time // when it was asked for last
	lastTry  time.Time // when it last failed to connect
	dialErr  error
	closed   bool

	// Of a wrapper's:
	speaker          *session // who says what the client can do
	toldCapabilities string   // what the server was told of that
	attempt          *dialAttempt
	cancelAttempt    context.CancelFunc // ends trying
}

// catalog is what a server has.
type catalog struct {
	conn      upstream.Conn // over which it was learnt; nil: it is not kept
	hello     upstream.Hello
	caps      mcp.Object
	tools     []*tool
	named     map[string]*tool // by the server's name
	prompts   []item
	resources []item
	templates []item
}

// item is an element of a list, its key (a name or a URI) and all of it.
type item struct {
	key string
	raw jsontext.Value
}

// tool is a tool of a server.
type tool struct {
	link    *link
	name    string // the server's
	offered string
	raw     jsontext.Value
	digest  string
	output  bool // it declares an output schema, which clients hold results to
	params  []mcp.ParamHeader
}

// seenByAll reports whether the gateway saw the tool so over the connection that all agents share. A connection of one
// session's own is made with what its client says of itself, and a server may go by that: what it shows there is
// nobody else's business, unless it shows the same to all.
func (t *tool) seenByAll() bool {
	if t.link.owner == nil {
		return true
	}
	shared := t.link.server.shared
	if shared == nil { // a wrapper's
		return false
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cached == nil {
		return false
	}
	same := shared.cached.named[t.name]
	return same != nil && same.digest == t.digest
}

// has reports whether the server declared a capability.
func (c *catalog) has(name string) bool { return c.caps.Get(name) != nil }

// retryAfter is how long a session waits before it tries once more to reach a server that failed.
const retryAfter = time.Second

// dial connects an own link, unless it is connected.
func (l *link) dial(ctx context.Context, cfg upstream.Config) (upstream.Conn, error) {
	l.mu.Lock()
	l.lastUsed = time.Now()
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
	old, failed, why, over := l.conn, l.lastTry, l.dialErr, l.closed
	l.mu.Unlock()
	if over {
		return nil, &upstream.Error{Err: errSessionOver}
	}
	if old != nil {
		l.server.g.log.WarnContext(ctx, "the connection to an MCP server ended", "server", l.server.Name, "error", old.Err())
		old.Close()
		failed, why = time.Now(), old.Err()
	}
	if since := time.Since(failed); since < retryAfter {
		select {
		case <-time.After(retryAfter - since):
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
		l.conn, l.lastTry, l.dialErr = nil, time.Now(), err
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

var errManySessions = fmt.Errorf("your sessions have %d connections to it, as many as are allowed, and all are in use; try again later", maxSessionLinks)

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
	n, oldest, unused := 0, time.Time{}, (*link)(nil)
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
		if conn != nil && !upstream.Busy(conn) && (unused == nil || used.Before(oldest)) {
			oldest, unused = used, o
		}
	}
	if n >= maxSessionLinks {
		if unused == nil {
			return &upstream.Error{Err: errManySessions}
		}
		unused.mu.Lock()
		conn := unused.conn
		unused.conn = nil
		unused.mu.Unlock()
		if conn != nil {
			u.g.background.Go(func() { upstream.Retire(u.g.work, conn) }) // a call that has begun just now ends first
		}
	}
	l.mu.Lock()
	l.opening = true
	l.mu.Unlock()
	return nil
}

// noteMissed remembers that somebody was not shown what the server has.
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
		// What cannot be offered is told at the start, and not only when somebody looks.
		if _, err := l.catalog(g.work); err != nil && g.work.Err() == nil {
			g.log.Warn("an MCP server does not say what it has", "server", l.server.Name, "error", err)
		}
	})
	if news {
		l.announceListChanges()
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
		resp, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: method, Params: mcp.Object{{Name: member, Value: mcp.Quote(value)}}.Bytes()})
		if err == nil && resp.Err != nil {
			err = mcp.ReadError(resp.Err)
		}
		if err != nil {
			l.server.g.log.Warn("an MCP server that came back does not take what its clients want", "server", l.server.Name, "method", method, "error", err)
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
	case toolsChanged, promptsChanged, resourcesChanged, resourceUpdated, logMessage:
		l.server.g.broadcast(l, m)
	}
}

// markStale has the server's lists looked at anew by whoever needs them: over a shared link, also by the
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
			if l.owner == nil && !s.subscribed(uri) {
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
		if l.concerns(e.session) {
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
		begin := time.Now()
		params := mcp.Object{{Name: "notifications", Value: mcp.Marshal(want)}, {Name: "_meta", Value: l.gatewayMeta()}}
		_, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: "subscriptions/listen", Params: params.Bytes(), OnNotification: l.onNotification})
		if err == nil { // it was answered: refused, or there is nothing to listen to
			return
		}
		if wait := 30*time.Second - time.Since(begin); wait > 0 {
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

// catalog returns what the server has, as it said when it was last asked. What another process said before this one
// does not count.
func (l *link) catalog(ctx context.Context) (*catalog, error) {
	l.mu.Lock()
	c, stale := l.cached, l.stale
	l.mu.Unlock()
	if c != nil && !stale && c.conn.Err() == nil {
		return c, nil
	}
	return l.newerCatalog(ctx, c)
}

// freshCatalog asks the server what it has.
func (l *link) freshCatalog(ctx context.Context) (*catalog, error) {
	l.mu.Lock()
	c := l.cached
	l.mu.Unlock()
	return l.newerCatalog(ctx, c)
}

// newerCatalog asks the server what it has, unless somebody else has asked since c was looked at.
func (l *link) newerCatalog(ctx context.Context, c *catalog) (*catalog, error) {
	select {
	case l.slot() <- struct{}{}:
		defer func() { <-l.fetchSlot }()
	case <-ctx.Done():
		return nil, &upstream.Error{Err: ctx.Err()}
	}
	l.mu.Lock()
	if l.cached != nil && l.cached != c && !l.stale && l.cached.conn.Err() == nil { // somebody else has asked meanwhile
		c = l.cached
		l.mu.Unlock()
		return c, nil
	}
	l.stale = false
	l.mu.Unlock()
	next, bad, err := l.fetchCatalog(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.stale, l.catalogMissed = true, true
		return nil, err
	}
	for _, b := range bad {
		if !slices.Contains(l.problemList, b) {
			l.server.g.log.ErrorContext(ctx, "not all that an MCP server has is offered", "server", l.server.Name, "problem", b)
		}
	}
	l.cached, l.problemList = next, bad
	return next, nil
}

func (l *link) slot() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fetchSlot == nil {
		l.fetchSlot = make(chan struct{}, 1)
	}
	return l.fetchSlot
}

func (l *link) problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.problemList)
}

// listTimeout bounds one look at a server's lists.
const listTimeout = 30 * time.Second

// fetchCatalog asks the server for all that it has.
func (l *link) fetchCatalog(ctx context.Context) (*catalog, []string, error) {
	conn, err := l.get(ctx) // a start has a time of its own
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c := newCatalog(conn.Hello())
	c.conn = conn
	var bad []string
	if c.has("tools") {
		items, err := l.fetchList(ctx, conn, "tools/list", "tools", "name", c)
		if err != nil {
			return nil, nil, err
		}
		for _, it := range items {
			t, problem := l.newTool(it)
			switch {
			case problem != "":
				bad = append(bad, problem)
			case t == nil: // not one of those that the configuration offers
			case c.named[t.name] != nil:
				bad = append(bad, fmt.Sprintf("the server lists %q twice; the first counts", t.name))
			default:
				c.named[t.name] = t
				c.tools = append(c.tools, t)
			}
		}
		for _, name := range l.server.Tools {
			if c.named[name] == nil {
				bad = append(bad, fmt.Sprintf("the configuration offers %q, and the server has no such tool", name))
			}
		}
	}
	// A server is of use without the rest: many that have resources do not know of templates.
	for _, rest := range []struct {
		capability, method, member, key string
		items                           *[]item
		need                            bool
	}{
		{"prompts", "prompts/list", "prompts", "name", &c.prompts, true},
		{"resources", "resources/list", "resources", "uri", &c.resources, true},
		{"resources", "resources/templates/list", "resourceTemplates", "uriTemplate", &c.templates, false},
	} {
		if !c.has(rest.capability) {
			continue
		}
		*rest.items, err = l.fetchList(ctx, conn, rest.method, rest.member, rest.key, c)
		if _, lost := errors.AsType[*upstream.Error](err); lost {
			return nil, nil, err
		}
		if e, answered := errors.AsType[*mcp.Error](err); err != nil && (rest.need || !answered || e.Code != mcp.CodeMethodNotFound) {
			bad = append(bad, err.Error())
		}
	}
	return c, bad, nil
}

func newCatalog(h upstream.Hello) *catalog {
	c := &catalog{hello: h, named: map[string]*tool{}}
	if caps, err := mcp.ReadObject(h.Capabilities); err == nil {
		c.caps = caps
	}
	return c
}

// maxPages is how many pages of one list are asked for, and maxList how many bytes its elements have: a server
// whose list never ends must end.
const (
	maxPages = 1000
	maxList  = 32 << 20
)

func (l *link) fetchList(ctx context.Context, conn upstream.Conn, method, member, key string, c *catalog) ([]item, error) {
	var items []item
	size, cursor := 0, jsontext.Value(nil)
	for range maxPages {
		var params mcp.Object
		if cursor != nil {
			params = params.With("cursor", cursor)
		}
		if c.hello.Era == mcp.Modern {
			params = params.With("_meta", l.gatewayMeta())
		}
		resp, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: method, Params: params.Bytes()})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		if resp.Err != nil {
			return nil, fmt.Errorf("%s: %w", method, mcp.ReadError(resp.Err))
		}
		result, bad := mcp.ReadObject(resp.Result)
		if bad != nil {
			return nil, fmt.Errorf("%s: the server's answer: %w", method, bad)
		}
		vs, bad := mcp.ReadArray(result.Get(member))
		if bad != nil {
			return nil, fmt.Errorf("%s: %s: %w", method, member, bad)
		}
		for _, v := range vs {
			if size += len(v); size > maxList {
				return nil, fmt.Errorf("%s: the list has more than %d MiB", method, maxList>>20)
			}
			o, bad := mcp.ReadObject(v)
			if bad != nil {
				l.server.g.log.ErrorContext(ctx, "an element of a server's list is left out", "server", l.server.Name, "list", method, "problem", bad)
				continue
			}
			items = append(items, item{o.Text(key), slices.Clone(v)})
		}
		if cursor = slices.Clone(result.Get("nextCursor")); cursor == nil || mcp.Text(cursor) == "" {
			return items, nil
		}
	}
	return nil, fmt.Errorf("%s: the list did not end after %d pages", method, maxPages)
}

var toolRE = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// maxOfferedName is how long an offered name may be: model APIs take no more. Names are refused, not cut.
const maxOfferedName = 64

// ownPrefix begins the names of the gate's own tools.
const ownPrefix = "countersign__"

// newTool makes a tool of an element of a server's list: nil where the configuration does not offer it.
func (l *link) newTool(it item) (t *tool, problem string) {
	offered := l.server.offeredName(it.key)
	switch {
	case l.server.Tools != nil && !slices.Contains(l.server.Tools, it.key):
		return nil, ""
	case !toolRE.MatchString(it.key):
		return nil, fmt.Sprintf("the name %q is not 1 to 128 characters out of A-Z a-z 0-9 _ . -", it.key)
	case strings.HasPrefix(offered, ownPrefix):
		return nil, fmt.Sprintf("%q begins as the gate's own tools do", offered)
	case l.server.Prefix == "" && l.server.g.hasOtherPrefix(it.key, l.server):
		return nil, fmt.Sprintf("%q begins as another server's tools do", it.key)
	case !l.server.g.o.Wrapper && len(offered) > maxOfferedName:
		return nil, fmt.Sprintf("%q is %d characters long, and clients take %d; a shorter prefix helps", offered, len(offered), maxOfferedName)
	}
	o, err := mcp.ReadObject(it.raw)
	if err != nil {
		return nil, fmt.Sprintf("%q: %s", it.key, err)
	}
	t = &tool{link: l, name: it.key, offered: offered, digest: toolDigest(o), output: o.Get("outputSchema") != nil,
		params: mcp.ParamHeaders(o.Get("inputSchema"))}
	t.raw = o.With("name", mcp.Quote(offered)).Bytes()
	return t, ""
}

// hasOtherPrefix reports whether a name begins with the prefix of another server than u.
func (g *Gateway) hasOtherPrefix(name string, u *server) bool {
	return slices.ContainsFunc(g.servers, func(other *server) bool {
		return other != u && other.Prefix != "" && strings.HasPrefix(name, other.Prefix+"__")
	})
}

// toolDigest is the SHA-256 of what a model and a person are told of a tool.
func toolDigest(o mcp.Object) string {
	var told mcp.Object
	for _, name := range []string{"annotations", "description", "inputSchema", "outputSchema", "title"} {
		if v := o.Get(name); v != nil {
			told = append(told, mcp.Member{Name: name, Value: v})
		}
	}
	b := told.Bytes()
	if c := b.Clone(); c.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) == nil {
		b = c
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// mergeLists is one list of all servers, in the order of the configuration and then of the server.
func mergeLists(links []*link, catalogs []*catalog, pick func(*catalog) []item, own func(*link, item) item) []item {
	var all []item
	seen := map[string]bool{}
	for i, c := range catalogs {
		for _, it := range pick(c) {
			it = own(links[i], it)
			if seen[it.key] {
				links[i].server.g.log.Debug("two servers have the same; the first is offered", "name", it.key, "server", links[i].server.Name)
				continue
			}
			seen[it.key] = true
			all = append(all, it)
		}
	}
	return all
}
