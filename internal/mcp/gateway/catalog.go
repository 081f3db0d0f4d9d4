package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

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
	raw     jsontext.Value // as modern clients are told of it
	legacy  jsontext.Value // as legacy ones are
	digest  string         // of what the server says of it
	// listedDigest is the digest with its schemas' lists in the server's order, "" where that is no other.
	listedDigest string
	// output and legacyOutput say whether clients of either era are told an output schema: they hold results to it.
	output, legacyOutput bool
	params               []mcp.ParamHeader
	// annotations are the server's hints about it, nil where it gives none.
	annotations *approval.Annotations
}

// isSeenByAll reports whether the gateway saw the tool so over the connection that all agents share. A connection of
// one session's own is made with what its client says of itself, and a server may go by that: what it shows there is
// no other session's business, unless it shows the same to all.
func (t *tool) isSeenByAll() bool {
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

// has reports whether the server declared a capability. null declares nothing.
func (c *catalog) has(name string) bool {
	v := c.caps.Get(name)
	return v != nil && string(v) != isNull
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

// newerCatalog asks the server what it has, unless another caller has asked since c was looked at.
func (l *link) newerCatalog(ctx context.Context, c *catalog) (*catalog, error) {
	select {
	case l.slot() <- struct{}{}:
		defer func() { <-l.fetchSlot }()
	case <-ctx.Done():
		return nil, &upstream.Error{Err: ctx.Err()}
	}
	l.mu.Lock()
	if l.cached != nil && l.cached != c && !l.stale && l.cached.conn.Err() == nil { // another caller has asked meanwhile
		c = l.cached
		l.mu.Unlock()
		return c, nil
	}
	l.mu.Unlock()
	conn, err := l.get(ctx) // a start has a time of its own
	if err != nil {
		l.mu.Lock()
		l.stale, l.catalogMissed = true, true
		l.mu.Unlock()
		return nil, err
	}
	next, bad, err := l.fetchCatalog(ctx, conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.stale, l.catalogMissed = true, true
		if !errors.Is(err, context.Canceled) { // the caller is gone: that says nothing of the server
			l.problemList = []string{"its tools are not offered: " + l.server.g.errorText(err)}
		}
		return nil, err
	}
	for _, b := range bad {
		if !slices.Contains(l.problemList, b) {
			l.server.g.log.ErrorContext(ctx, "something that an MCP server has is not offered to agents",
				"server", l.server.Name, "problem", b)
		}
	}
	l.cached, l.problemList = next, bad
	if shared := l.server.shared; shared != nil && l.owner != nil {
		select {
		case shared.listed <- struct{}{}:
		default:
		}
	}
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

// maxSessionProblems is how many problems are named that only sessions met.
const maxSessionProblems = 20

// problems names what of the server is not offered: over the connection that all share, and to sessions with one of
// their own.
func (u *server) problems() []string {
	all := u.shared.problems()
	u.mu.Lock()
	links := slices.Collect(maps.Keys(u.sessionLinks))
	u.mu.Unlock()
	var more []string
	for _, l := range links {
		for _, p := range l.problems() {
			if !slices.Contains(all, p) {
				more = append(more, p)
			}
		}
	}
	slices.Sort(more)
	more = slices.Compact(more)
	return append(all, more[:min(len(more), maxSessionProblems)]...)
}

// listTimeout bounds one look at a server's lists.
const listTimeout = 30 * time.Second

// fetchCatalog asks the server for all that it has.
//
//nolint:funlen // one straight way
func (l *link) fetchCatalog(ctx context.Context, conn upstream.Conn) (*catalog, []string, error) {
	l.mu.Lock()
	l.stale = false // only now: connecting marks it stale, and what changes later does so again
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c := newCatalog(conn.Hello())
	c.conn = conn
	var bad []string
	if c.has("tools") {
		items, odd, err := l.fetchList(ctx, conn, "tools/list", "tools", "name", c)
		if err != nil {
			return nil, nil, err
		}
		bad = append(bad, odd...)
		for _, it := range items {
			t, problem := l.newTool(it, c.hello.Era)
			switch {
			case problem != "":
				bad = append(bad, problem)
			case t == nil: // not one of those that the configuration offers
			case c.named[t.name] != nil:
				bad = append(bad, fmt.Sprintf("the server lists %q twice; only the first is offered", t.name))
			default:
				c.named[t.name] = t
				c.tools = append(c.tools, t)
			}
		}
		for _, name := range l.server.Tools {
			if c.named[name] == nil {
				bad = append(bad, fmt.Sprintf("the configuration names the tool %q, which the server does not have", name))
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
		items, odd, err := l.fetchList(ctx, conn, rest.method, rest.member, rest.key, c)
		if errors.Is(err, context.Canceled) || err != nil && conn.Err() != nil {
			return nil, nil, err
		}
		if e, answered := errors.AsType[*mcp.Error](err); err != nil &&
			(rest.need || !answered || e.Code != mcp.CodeMethodNotFound) {
			bad = append(bad, l.server.g.errorText(err))
		}
		bad = append(bad, odd...)
		for _, it := range items {
			fine, problem := repairItem(it)
			if problem != "" {
				bad = append(bad, fmt.Sprintf("%s: %.128q: %s", rest.method, it.key, problem))
				continue
			}
			*rest.items = append(*rest.items, fine)
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
	maxOdd   = 100 // elements that cannot be read
)

func (l *link) fetchList(ctx context.Context, conn upstream.Conn, method, member, key string,
	c *catalog) (items []item, odd []string, _ error) {
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
			return nil, nil, fmt.Errorf("%s: %w", method, err)
		}
		if resp.Err != nil {
			return nil, nil, fmt.Errorf("%s: %w", method, mcp.ReadError(resp.Err))
		}
		result, bad := mcp.ReadObject(resp.Result)
		if bad != nil {
			return nil, nil, fmt.Errorf("%s: the server's answer: %w", method, bad)
		}
		vs, bad := mcp.ReadArray(result.Get(member))
		if bad != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", method, member, bad)
		}
		for _, v := range vs {
			if size += len(v); size > maxList {
				return nil, nil, fmt.Errorf("%s: the list has more than %d MiB", method, maxList>>20)
			}
			o, bad := mcp.ReadObject(v)
			if bad != nil {
				if odd = append(odd, fmt.Sprintf("%s: element %d: %s", method, len(items)+len(odd)+1, bad)); len(odd) > maxOdd {
					return nil, nil, fmt.Errorf("%s: more than %d elements cannot be read", method, maxOdd)
				}
				continue
			}
			items = append(items, item{o.Text(key), slices.Clone(v)})
		}
		if cursor = slices.Clone(result.Get("nextCursor")); cursor == nil || mcp.Text(cursor) == "" {
			return items, odd, nil
		}
	}
	return nil, nil, fmt.Errorf("%s: the list did not end after %d pages", method, maxPages)
}

var toolRE = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// maxOfferedName is how long an offered name may be: model APIs take no more. Names are refused, not cut.
const maxOfferedName = 64

// ownPrefix begins the names of the gate's own tools.
const ownPrefix = "countersign__"

// newTool makes a tool of an element of a server's list: nil where the configuration does not offer it.
func (l *link) newTool(it item, era mcp.Era) (t *tool, problem string) {
	offered := l.server.offeredName(it.key)
	switch {
	case l.server.Tools != nil && !slices.Contains(l.server.Tools, it.key):
		return nil, ""
	case !toolRE.MatchString(it.key):
		return nil, fmt.Sprintf("the name %q is not 1 to 128 characters out of A-Z a-z 0-9 _ . -", it.key)
	case strings.HasPrefix(offered, ownPrefix):
		return nil, fmt.Sprintf("%q begins like the gate's own tools", offered)
	case l.server.Prefix == "" && l.server.g.hasOtherPrefix(it.key, l.server):
		return nil, fmt.Sprintf("%q begins like another server's tools", it.key)
	case !l.server.g.o.Wrapper && len(offered) > maxOfferedName:
		return nil, fmt.Sprintf("%q is %d characters long, and clients take at most %d; give the server a shorter prefix",
			offered, len(offered), maxOfferedName)
	}
	o, err := mcp.ReadObject(it.raw)
	if err != nil {
		return nil, fmt.Sprintf("%q: %s", it.key, err)
	}
	said := o
	if o, problem = repairTool(o, era); problem != "" {
		return nil, fmt.Sprintf("%q: %s", it.key, problem)
	}
	t = &tool{link: l, name: it.key, offered: offered, params: mcp.ParamHeaders(o.Get("inputSchema")),
		annotations: annotationsOf(said)}
	t.digest, t.listedDigest = toolDigests(said)
	o = o.With("name", mcp.Quote(offered))
	t.raw, t.output = o.Bytes(), o.Get("outputSchema") != nil
	t.legacy, t.legacyOutput = t.raw, t.output
	if era == mcp.Modern && t.output {
		o = forLegacy(o)
		t.legacy, t.legacyOutput = o.Bytes(), o.Get("outputSchema") != nil
	}
	return t, ""
}

// annotationsOf are the hints that a server gives about a tool. What is no true or false says nothing.
func annotationsOf(tool mcp.Object) *approval.Annotations {
	hints, err := tool.Object("annotations")
	if err != nil {
		return nil
	}
	var a approval.Annotations
	for _, h := range []struct {
		name string
		to   **bool
	}{
		{"readOnlyHint", &a.ReadOnly}, {"destructiveHint", &a.Destructive}, {"idempotentHint", &a.Idempotent},
		{"openWorldHint", &a.OpenWorld},
	} {
		switch string(hints.Get(h.name)) {
		case "true":
			*h.to = new(true)
		case "false":
			*h.to = new(false)
		}
	}
	if a == (approval.Annotations{}) {
		return nil
	}
	return &a
}

// hasOtherPrefix reports whether a name begins with the prefix of another server than u.
func (g *Gateway) hasOtherPrefix(name string, u *server) bool {
	return slices.ContainsFunc(g.servers, func(other *server) bool {
		return other != u && other.Prefix != "" && strings.HasPrefix(name, other.Prefix+"__")
	})
}

// Describe returns what a server says of one of its tools, and the digest of all that it says of it
// ([approval.Call.ToolDigest]), as the connection that all agents share has last learnt it. No server is asked. false:
// nothing is known. The words are the server's: they are unchecked, and they may be of any length.
func (g *Gateway) Describe(of, tool string) (words, digest string, ok bool) {
	i := slices.IndexFunc(g.servers, func(u *server) bool { return u.Name == of })
	if i < 0 || g.servers[i].shared == nil {
		return "", "", false
	}
	l := g.servers[i].shared
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cached == nil || l.cached.named[tool] == nil {
		return "", "", false
	}
	t := l.cached.named[tool]
	o, err := mcp.ReadObject(t.raw)
	if err != nil {
		return "", "", false
	}
	return o.Text("description"), t.digest, true
}
