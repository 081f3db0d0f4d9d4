package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/upstream"
)

// session is one client: from initialize to its end in the legacy era, one request in the modern one.
type session struct {
	g           *Gateway
	client      downstream.Client
	id          string        // "" for a modern request over HTTP
	ready       atomic.Bool   // a legacy client said that it is initialized
	initialized chan struct{} // closed then

	mu      sync.Mutex
	hello   clientHello // of a legacy client
	version string
	level   string // the least that a legacy client wants logged; "": the server decides
	links   map[*server]*link
	subs    map[string]bool // resources that a legacy client listens to on shared links
	closed  bool
}

// clientHello is what a client said of itself, in initialize or in the request's metadata.
type clientHello struct {
	capabilities                  jsontext.Value // its capabilities, an object
	info                          jsontext.Value // nil: it did not say
	form, url                     bool           // elicitation
	sampling, roots, tasks, known bool
}

func parseClientHello(capabilities, info jsontext.Value) (clientHello, *mcp.Error) {
	c := clientHello{capabilities: jsontext.Value("{}"), info: info, known: true}
	if capabilities == nil {
		return c, nil
	}
	o, err := mcp.ReadObject(capabilities)
	if err != nil {
		return c, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: capabilities: %s.", err)
	}
	if v := o.Get("elicitation"); v != nil {
		e, err := mcp.ReadObject(v)
		if err != nil {
			return c, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: capabilities.elicitation: %s.", err)
		}
		c.url = e.Get("url") != nil
		c.form = e.Get("form") != nil || !c.url // an empty object means form
	}
	c.sampling, c.roots = o.Get("sampling") != nil, o.Get("roots") != nil
	if v := o.Get("extensions"); v != nil {
		e, err := mcp.ReadObject(v)
		if err != nil {
			return c, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: capabilities.extensions: %s.", err)
		}
		if c.tasks = e.Get(mcp.ExtensionTasks) != nil; c.tasks {
			o = o.With("extensions", e.Without(mcp.ExtensionTasks).Bytes()) // tasks are between the client and us
		}
	}
	c.capabilities = slices.Clone(o.Without("tasks").Bytes())
	return c, nil
}

// clientRequest is one request of a client with what was read of it.
type clientRequest struct {
	*session
	ctx           context.Context
	id            jsontext.Value
	method        string
	params        mcp.Object
	meta          mcp.Object
	declared      clientHello
	stream        downstream.Stream
	progressToken jsontext.Value // for progress; nil: none is wanted
	forTask       bool           // no client waits for it

	mu             sync.Mutex
	progressOffset float64 // what was added to progress while the call was held
}

// Request answers one request.
func (s *session) Request(ctx context.Context, m mcp.Message, out downstream.Stream) mcp.Message {
	r := &clientRequest{session: s, ctx: ctx, id: m.ID, method: m.Method, stream: out}
	result, err := r.serve(m.Params)
	if err != nil {
		return mcp.ErrorResponse(m.ID, err)
	}
	return mcp.Response(m.ID, result)
}

func (r *clientRequest) serve(params jsontext.Value) (jsontext.Value, *mcp.Error) {
	if read, ok := r.stream.(downstream.ParamsReader); ok {
		r.params, r.meta = read.ReadParams()
	} else if bad := r.read(params); bad != nil {
		return nil, bad
	}
	r.progressToken = r.meta.Get(mcp.MetaProgress)
	if r.client.Era == mcp.Modern {
		var err *mcp.Error
		if r.declared, err = parseClientHello(r.meta.Get(mcp.MetaCapabilities), r.meta.Get(mcp.MetaClient)); err != nil {
			return nil, err
		}
		if over := downstream.OverBudget(r.ctx); over != nil && r.method != "tasks/cancel" && !r.bringsDecision() {
			return r.overBudget(over)
		}
		return r.modern()
	}
	r.session.mu.Lock()
	r.declared = r.hello
	r.session.mu.Unlock()
	if over := downstream.OverBudget(r.ctx); over != nil {
		return r.overBudget(over)
	}
	return r.legacy()
}

// read reads the params of a request.
func (r *clientRequest) read(params jsontext.Value) *mcp.Error {
	if params == nil {
		return nil
	}
	release, over := r.account().TurnFor(r.ctx, len(params))
	if over != nil {
		return mcp.Errorf(mcp.CodeUnavailable, "%s Nothing was run.", budgetText(over))
	}
	var err *mcp.ObjectError
	r.params, err = mcp.ReadObject(params)
	release()
	if err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err)
	}
	if r.meta, err = r.params.Object("_meta"); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s.", err)
	}
	return nil
}

// notFound refuses a method: what is not known is not passed on.
func (r *clientRequest) notFound() *mcp.Error {
	return mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s.", strings.ToValidUTF8(r.method, "\uFFFD"))
}

func (r *clientRequest) legacy() (jsontext.Value, *mcp.Error) {
	switch r.method {
	case "initialize":
		return r.initialize()
	case "ping":
		return jsontext.Value("{}"), nil
	}
	if !r.declared.known {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "Invalid request: send initialize first.")
	}
	switch r.method {
	case "logging/setLevel":
		return r.setLevel()
	case "resources/subscribe", "resources/unsubscribe":
		return r.subscribe()
	}
	return r.common()
}

func (r *clientRequest) modern() (jsontext.Value, *mcp.Error) {
	switch r.method {
	case "server/discover":
		return r.discover()
	case "subscriptions/listen":
		return r.listen()
	case "tasks/get":
		return r.taskGet()
	case "tasks/update":
		return r.taskUpdate()
	case "tasks/cancel":
		return r.taskCancel()
	}
	return r.common()
}

func (r *clientRequest) common() (jsontext.Value, *mcp.Error) {
	switch r.method {
	case "tools/list":
		return r.toolsList()
	case "prompts/list":
		return r.list("prompts", func(c *catalog) []item { return c.prompts }, func(l *link, it item) item {
			name := l.server.offeredName(it.key)
			o, _ := mcp.ReadObject(it.raw)
			return item{name, o.With("name", mcp.Quote(name)).Bytes()}
		})
	case "resources/list":
		return r.list("resources", func(c *catalog) []item { return c.resources }, func(_ *link, it item) item { return it })
	case "resources/templates/list":
		return r.list("resourceTemplates", func(c *catalog) []item { return c.templates },
			func(_ *link, it item) item { return it })
	case "tools/call":
		return r.call()
	case "prompts/get":
		return r.promptGet()
	case "resources/read":
		return r.resourceRead()
	case "completion/complete":
		return r.complete()
	}
	return nil, r.notFound()
}

// Notify takes a notification of the client.
func (s *session) Notify(ctx context.Context, m mcp.Message) {
	switch m.Method {
	case "notifications/initialized":
		if !s.ready.Swap(true) {
			close(s.initialized)
		}
	case "notifications/roots/list_changed":
		s.mu.Lock()
		links := make([]*link, 0, len(s.links))
		for _, l := range s.links {
			links = append(links, l)
		}
		s.mu.Unlock()
		links = append(links, s.g.wrapperLinks()...)
		for _, l := range links { // a shared connection declares no roots
			l.mu.Lock()
			conn := l.conn
			l.mu.Unlock()
			if conn != nil && conn.Hello().Era == mcp.Legacy {
				_ = conn.Notify(ctx, m.Method, nil) // a server that is gone asks for the roots anew
			}
		}
	}
}

// ParamHeaders returns the headers that a tool's schema asks for.
func (s *session) ParamHeaders(name string) []mcp.ParamHeader {
	ctx, cancel := context.WithTimeout(context.Background(), startupWait)
	defer cancel()
	t, err := s.findTool(ctx, name, (*link).cachedTool)
	if err != nil || t == nil {
		return nil // the call will fail by itself
	}
	return t.params
}

// Close ends the session and the connections that are its own.
func (s *session) Close() {
	s.g.mu.Lock()
	delete(s.g.sessions, s)
	s.g.mu.Unlock()
	s.mu.Lock()
	owned, subs := s.links, s.subs
	s.links, s.subs, s.closed = nil, nil, true
	s.mu.Unlock()
	for _, l := range owned {
		l.close()
	}
	s.g.closeWrapperLinks()
	for uri := range subs {
		s.unsubscribe(uri)
	}
}

// link returns the session's way to a server.
func (s *session) link(ctx context.Context, u *server) (*link, error) {
	if s.g.o.Wrapper {
		return s.wrapperLink(u)
	}
	s.mu.Lock()
	own := s.links[u]
	s.mu.Unlock()
	if own != nil { // it lives by itself, whatever becomes of the shared one
		return own, nil
	}
	if u.shared != nil {
		if s.client.Era == mcp.Modern || u.URL == "" {
			return u.shared, nil
		}
		conn, err := u.shared.get(ctx)
		if err != nil {
			u.shared.noteMissed()
			return nil, err
		}
		if conn.Hello().Era == mcp.Modern {
			return u.shared, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.links[u]; l != nil {
		return l, nil
	}
	if s.closed {
		return nil, errors.New("the session is over")
	}
	cfg := u.Config
	if cfg.Capabilities = s.hello.capabilities; cfg.Capabilities == nil {
		cfg.Capabilities = jsontext.Value("{}")
	}
	l := &link{server: u, owner: s}
	l.get = func(ctx context.Context) (upstream.Conn, error) { return l.dial(ctx, cfg) }
	u.addSessionLink(l)
	if s.links == nil {
		s.links = map[*server]*link{}
	}
	s.links[u] = l
	return l, nil
}

// startupWait bounds how long a client waits for servers that are only starting: the others are offered then,
// and the client is told when there is more.
const startupWait = 5 * time.Second

// catalogs returns what each server has, leaving out those that cannot be reached.
func (s *session) catalogs(ctx context.Context) ([]*link, []*catalog, error) {
	return s.eachCatalog(ctx, (*link).catalog)
}

func (s *session) eachCatalog(ctx context.Context, lookup func(*link, context.Context) (*catalog,
	error)) ([]*link, []*catalog, error) {
	if !s.g.o.Wrapper {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startupWait)
		defer cancel()
	}
	type found struct {
		l   *link
		c   *catalog
		err error
	}
	all := make([]found, len(s.g.servers))
	var wg sync.WaitGroup
	for i, u := range s.g.servers {
		wg.Go(func() {
			f := &all[i]
			if f.l, f.err = s.link(ctx, u); f.err == nil {
				f.c, f.err = lookup(f.l, ctx)
			}
		})
	}
	wg.Wait()
	var links []*link
	var catalogs []*catalog
	var why error
	for i, f := range all {
		if f.err != nil {
			why = fmt.Errorf("the MCP server %s cannot be reached: %w", s.g.servers[i].Name, f.err)
			s.g.log.WarnContext(ctx, "an MCP server is left out of a list", "server", s.g.servers[i].Name, "error", f.err)
			continue
		}
		links, catalogs = append(links, f.l), append(catalogs, f.c)
	}
	return links, catalogs, why
}

// unavailable tells a client that nothing can be reached.
func (g *Gateway) unavailable(err error) *mcp.Error {
	return mcp.Errorf(mcp.CodeUnavailable, "%s. Nothing was run.", capital(g.errorText(err)))
}

// errorText is what clients are told of an error of a server. The last lines of its stderr are for whoever started it,
// as a wrapper's client has.
func (g *Gateway) errorText(err error) string {
	if g.o.Wrapper {
		return legible.Lines(err.Error())
	}
	return legible.Lines(upstream.Brief(err))
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// capabilities are what all servers together can do, as a server says it.
func (s *session) capabilities(catalogs []*catalog) jsontext.Value {
	caps := map[string]any{"tools": map[string]bool{"listChanged": true}}
	for _, c := range catalogs {
		if c.has("prompts") {
			caps["prompts"] = map[string]bool{"listChanged": true}
		}
		if c.has("resources") {
			caps["resources"] = map[string]bool{"listChanged": true, "subscribe": true}
		}
		for _, name := range []string{"logging", "completions"} {
			if c.has(name) {
				caps[name] = struct{}{}
			}
		}
	}
	if s.client.Era == mcp.Modern {
		caps["extensions"] = map[string]any{mcp.ExtensionTasks: struct{}{}}
	}
	return mcp.Marshal(caps)
}

const guidance = "Some of these tools need a person's approval. A call that is answered with \"Approval pending\" or " +
	"\"Approval requested\" has not run: " +
	"go on with other work, then call it again with exactly the same arguments, which uses the approval once. " +
	"countersign__resolved tells what was decided."

func (s *session) instructions(links []*link, catalogs []*catalog) string {
	var b strings.Builder
	for i, c := range catalogs {
		if c.hello.Instructions == "" {
			continue
		}
		if !s.g.o.Wrapper {
			fmt.Fprintf(&b, "# %s\n\n", links[i].server.Name)
		}
		b.WriteString(c.hello.Instructions + "\n\n")
	}
	b.WriteString(guidance)
	return b.String()
}

// serverInfo is who a client is told that we are.
func (s *session) serverInfo(catalogs []*catalog) jsontext.Value {
	if s.g.o.Wrapper && len(catalogs) == 1 && catalogs[0].hello.Server != nil {
		return catalogs[0].hello.Server
	}
	return s.g.implementation()
}

func (r *clientRequest) initialize() (jsontext.Value, *mcp.Error) {
	c, err := parseClientHello(r.params.Get("capabilities"), r.params.Get("clientInfo"))
	if err != nil {
		return nil, err
	}
	version := r.params.Text("protocolVersion")
	if !slices.Contains(mcp.LegacyVersions, version) {
		version = mcp.VersionLegacy
	}
	r.session.mu.Lock()
	if r.hello.known {
		r.session.mu.Unlock()
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "Invalid request: the session is initialized already.")
	}
	c.info = slices.Clone(c.info)
	r.hello, r.version = c, version
	r.session.mu.Unlock()
	links, catalogs, why := r.helloCatalogs(r.ctx)
	if r.g.o.Wrapper && len(catalogs) == 0 {
		r.session.mu.Lock()
		r.hello.known = false // it may try once more
		r.session.mu.Unlock()
		return nil, r.g.unavailable(why)
	}
	return mcp.Object{
		{Name: "protocolVersion", Value: mcp.Quote(version)},
		{Name: "capabilities", Value: r.capabilities(catalogs)},
		{Name: "serverInfo", Value: r.serverInfo(catalogs)},
		{Name: "instructions", Value: mcp.Quote(r.instructions(links, catalogs))},
	}.Bytes(), nil
}

func (r *clientRequest) discover() (jsontext.Value, *mcp.Error) {
	r.rememberHello()
	links, catalogs, why := r.helloCatalogs(r.ctx)
	if r.g.o.Wrapper && len(catalogs) == 0 {
		return nil, r.g.unavailable(why)
	}
	return (&listing{r, links, catalogs}).cacheable(mcp.Object{
		{Name: "supportedVersions", Value: mcp.Marshal(append([]string{mcp.VersionModern}, mcp.LegacyVersions...))},
		{Name: "capabilities", Value: r.capabilities(catalogs)},
		{Name: "instructions", Value: mcp.Quote(r.instructions(links, catalogs))},
	}), nil
}

// rememberHello remembers, in a wrapper, what a modern client said first: a legacy server behind it is told
// once, and for all.
func (r *clientRequest) rememberHello() {
	r.session.mu.Lock()
	defer r.session.mu.Unlock()
	if r.client.Era == mcp.Modern && !r.hello.known {
		r.hello = r.declared
		r.hello.capabilities, r.hello.info = slices.Clone(r.declared.capabilities), slices.Clone(r.declared.info)
	}
}

// findTool returns the tool that clients know by a name, nil where there is none.
func (s *session) findTool(ctx context.Context, name string,
	lookup func(*link, context.Context, string) (*tool, error)) (*tool, error) {
	for _, u := range s.g.servers {
		own, ok := name, u.Prefix == "" && !s.g.hasOtherPrefix(name, u)
		if u.Prefix != "" {
			own, ok = strings.CutPrefix(name, u.Prefix+"__")
		}
		if !ok {
			continue
		}
		l, err := s.link(ctx, u)
		var t *tool
		if err == nil {
			t, err = lookup(l, ctx, own)
		}
		if err != nil {
			return nil, fmt.Errorf("the MCP server %s cannot be reached: %w", u.Name, err)
		}
		return t, nil
	}
	return nil, nil
}

// cachedTool returns a tool by the server's name, nil where the server did not have it when it was last asked.
func (l *link) cachedTool(ctx context.Context, name string) (*tool, error) {
	c, err := l.catalog(ctx)
	if err != nil {
		return nil, err
	}
	return c.named[name], nil
}

// currentTool is [link.cachedTool], and asks the server anew before it says that there is none.
func (l *link) currentTool(ctx context.Context, name string) (*tool, error) {
	t, err := l.cachedTool(ctx, name)
	if err != nil || t != nil {
		return t, err
	}
	c, err := l.freshCatalog(ctx)
	if err != nil {
		return nil, err
	}
	return c.named[name], nil
}

// agent is the client as an actor.
func (s *session) agent() approval.Actor {
	return approval.Actor{Kind: approval.Agent, Name: s.client.Agent}
}

// setLevel passes on how much a client wants logged.
func (r *clientRequest) setLevel() (jsontext.Value, *mcp.Error) {
	level := r.params.Text("level")
	if severity(level) < 0 {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: level must be one of %s.",
			strings.Join(logLevels, ", "))
	}
	r.session.mu.Lock()
	was := r.level
	r.level = level
	r.session.mu.Unlock()
	links, catalogs, _ := r.catalogs(r.ctx)
	var last *mcp.Error
	for i, c := range catalogs {
		if !c.has("logging") {
			continue
		}
		if c.hello.Era == mcp.Modern { // it is told with each request
			if err := r.checkMethod(r.ctx, links[i], r.method,
				mcp.Object{{Name: "level", Value: mcp.Quote(level)}}.Bytes()); err != nil {
				last = err
			}
			continue
		}
		want := level
		if links[i].owner == nil {
			want = r.g.leastLevel() // others listen to the same server
		}
		params := mcp.Object{{Name: "level", Value: mcp.Quote(want)}}
		if _, err := r.gate(links[i], params, nil); err != nil {
			last = err
		}
	}
	if last != nil { // what was not let through is told to nobody later on
		r.session.mu.Lock()
		if r.level == level {
			r.level = was
		}
		r.session.mu.Unlock()
		return nil, last
	}
	return jsontext.Value("{}"), nil
}

var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func severity(level string) int { return slices.Index(logLevels, level) }

// leastLevel is the most talkative level that any session wants, "" if none wants any.
func (g *Gateway) leastLevel() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	least := len(logLevels)
	for s := range g.sessions {
		s.mu.Lock()
		if i := severity(s.level); i >= 0 {
			least = min(least, i)
		}
		s.mu.Unlock()
	}
	if least == len(logLevels) {
		return ""
	}
	return logLevels[least]
}

// wantsLog reports whether the session wants a log message of a server that others share.
func (s *session) wantsLog(params jsontext.Value) bool {
	p, err := mcp.ReadObject(params)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level != "" && severity(p.Text("level")) >= severity(s.level)
}

func (s *session) isSubscribed(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs[uri]
}

// subscribe has a resource listened to, or no more.
func (r *clientRequest) subscribe() (jsontext.Value, *mcp.Error) {
	uri := r.params.Text("uri")
	l, err := r.resourceLink(uri)
	if err != nil {
		return nil, err
	}
	params := mcp.Object{{Name: "uri", Value: mcp.Quote(uri)}}
	on := r.method == "resources/subscribe"
	if l.owner != nil {
		result, err := r.gate(l, params, nil)
		if by := l.countSubscribers(uri, 0); err == nil && on && by == 0 {
			l.countSubscribers(uri, 1)
		} else if err == nil && !on {
			l.countSubscribers(uri, -by)
		}
		return result, err
	}
	r.session.mu.Lock()
	was, n := r.subs[uri], len(r.subs)
	r.session.mu.Unlock()
	if on == was {
		return jsontext.Value("{}"), nil
	}
	if on && n >= maxSubscriptions {
		return nil, mcp.Errorf(mcp.CodeInvalidParams,
			"Invalid params: this session is subscribed to %d resources already, as many as it may be.", maxSubscriptions)
	}
	if on || l.countSubscribers(uri, 0) == 1 { // the last one who listens ends it
		if _, err := r.gate(l, params, nil); err != nil {
			return nil, err
		}
	}
	r.session.mu.Lock()
	defer r.session.mu.Unlock()
	switch {
	case r.subs[uri] == on: // another request of the session was faster
	case on:
		if r.subs == nil {
			r.subs = map[string]bool{}
		}
		r.subs[uri] = true
		l.countSubscribers(uri, 1)
	default:
		delete(r.subs, uri)
		l.countSubscribers(uri, -1)
	}
	return jsontext.Value("{}"), nil
}

// countSubscribers changes how many listen to a resource on a shared link, and returns how many that are.
func (l *link) countSubscribers(uri string, by int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subs == nil {
		l.subs = map[string]int{}
	}
	if l.subs[uri] += by; l.subs[uri] <= 0 {
		delete(l.subs, uri)
		return 0
	}
	return l.subs[uri]
}

// unsubscribe forgets that a session that is over listened to a resource.
func (s *session) unsubscribe(uri string) {
	for _, u := range s.g.servers {
		if u.shared == nil || u.shared.countSubscribers(uri, 0) == 0 {
			continue
		}
		if u.shared.countSubscribers(uri, -1) == 0 {
			u.g.background.Go(func() {
				ctx, cancel := context.WithTimeout(u.g.work, listTimeout)
				defer cancel()
				if conn, err := u.shared.get(ctx); err == nil && conn.Hello().Era == mcp.Legacy {
					_, _ = conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: "resources/unsubscribe",
						Params: mcp.Object{{Name: "uri", Value: mcp.Quote(uri)}}.Bytes()}) // updates that come all the same are dropped
				}
			})
		}
	}
}
