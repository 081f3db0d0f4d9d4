package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/budget"
	"countersign/internal/mcp"
	"countersign/internal/mcp/upstream"
)

// listener is a modern client's subscriptions/listen: a request whose stream brings what changes.
type listener struct {
	r     *clientRequest // every message bears its id
	kinds []string
	tasks []string

	mu     sync.Mutex
	uris   map[string]bool
	queue  []mcp.Message // for the client to take them
	bytes  int           // of their params
	closed bool

	arrived chan struct{} // holds one while something waits
}

// What waits for a client that is slow to take it, in messages and in bytes of them; the oldest makes room.
const (
	maxQueued      = 256
	maxQueuedBytes = 4 << 20
)

// enqueue leaves a message of the subscription for the request to send: the goroutine that brings it serves others too,
// and does not wait for a client. e.mu is held.
func (e *listener) enqueue(method string, params mcp.Object) {
	m := mcp.Notification(method, params.With("_meta",
		mcp.Object{{Name: mcp.MetaSubscription, Value: e.r.id}}.Bytes()).Bytes())
	if len(m.Params) > maxQueuedBytes {
		return // it fits nowhere
	}
	for e.bytes += len(m.Params); len(e.queue) == maxQueued || e.bytes > maxQueuedBytes; {
		e.bytes -= len(e.queue[0].Params)
		e.queue = append(e.queue[:0], e.queue[1:]...)
	}
	e.queue = append(e.queue, m)
	select {
	case e.arrived <- struct{}{}:
	default:
	}
}

// flush sends the client what waits for it. A client that is gone ends the request.
func (e *listener) flush() {
	e.mu.Lock()
	ms := e.queue
	e.queue, e.bytes = nil, 0
	e.mu.Unlock()
	for _, m := range ms {
		_ = e.r.stream.Send(m)
	}
}

// acknowledge tells the client what is agreed, which comes first.
func (e *listener) acknowledge(agreed mcp.Object) error {
	return e.r.stream.Send(mcp.Notification("notifications/subscriptions/acknowledged", mcp.Object{
		{Name: "notifications", Value: agreed.Bytes()},
		{Name: "_meta", Value: mcp.Object{{Name: mcp.MetaSubscription, Value: e.r.id}}.Bytes()},
	}.Bytes()))
}

// deliver passes on a notification that the client subscribed to.
func (e *listener) deliver(m mcp.Message, uri string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || m.Method == resourceUpdated && !e.uris[uri] || m.Method != resourceUpdated &&
		!slices.Contains(e.kinds, m.Method) {
		return
	}
	params, err := mcp.ReadObject(objectOrEmpty(m.Params))
	if err != nil {
		return
	}
	e.enqueue(m.Method, params)
}

// listen answers subscriptions/listen: it lasts until the client ends it.
func (r *clientRequest) listen() (jsontext.Value, *mcp.Error) {
	r.rememberHello()
	want, bad := r.params.Object("notifications")
	if bad != nil || r.params.Get("notifications") == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams,
			"Invalid params: notifications must be an object that says what to listen to.")
	}
	release, over := r.account().Hold(r.ctx, budget.Streams)
	if over != nil {
		return nil, mcp.Errorf(mcp.CodeUnavailable, "%s", budgetText(over))
	}
	defer release()
	e := &listener{r: r, uris: map[string]bool{}, arrived: make(chan struct{}, 1)}
	_, catalogs, _ := r.catalogs(r.ctx)
	agreed := e.subscribeLists(want, catalogs)
	r.g.addListener(e)
	defer r.g.removeListener(e)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	uris, err := e.subscribeResources(ctx, want.Get("resourceSubscriptions"))
	if err != nil {
		return nil, err
	}
	if len(uris) > 0 {
		agreed = append(agreed, mcp.Member{Name: "resourceSubscriptions", Value: mcp.Marshal(uris)})
	}
	if v := want.Get("taskIds"); v != nil && r.declared.tasks {
		ids, err := e.subscribeTasks(v)
		if err != nil {
			return nil, err
		}
		agreed = append(agreed, mcp.Member{Name: "taskIds", Value: mcp.Marshal(ids)})
	}
	if err := e.acknowledge(agreed); err != nil {
		return nil, mcp.Errorf(mcp.CodeInternalError, "The client is gone.")
	}
	for listening := len(agreed) > 0; listening; e.flush() {
		select {
		case <-e.arrived:
		case <-ctx.Done():
			listening = false
		case <-r.g.work.Done():
			listening = false
		case <-r.g.stopping:
			listening = false
		}
	}
	meta := mcp.Object{{Name: mcp.MetaSubscription, Value: r.id}}
	return mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)},
		{Name: "_meta", Value: meta.Bytes()}}.Bytes(), nil
}

func (g *Gateway) addListener(e *listener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listeners[e] = true
}

func (g *Gateway) removeListener(e *listener) {
	g.mu.Lock()
	delete(g.listeners, e)
	g.mu.Unlock()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
}

// subscribeLists takes up the changes of lists that the client wants, and returns those that are agreed to.
func (e *listener) subscribeLists(want mcp.Object, catalogs []*catalog) (agreed mcp.Object) {
	has := func(capability string) bool {
		return slices.ContainsFunc(catalogs, func(c *catalog) bool { return c.has(capability) })
	}
	for _, k := range []struct {
		name, method string
		able         bool
	}{
		{"toolsListChanged", toolsChanged, true},
		{"promptsListChanged", promptsChanged, has("prompts")},
		{"resourcesListChanged", resourcesChanged, has("resources")},
	} {
		if string(want.Get(k.name)) == "true" && k.able {
			e.kinds = append(e.kinds, k.method)
			agreed = append(agreed, mcp.Member{Name: k.name, Value: jsontext.Value("true")})
		}
	}
	return agreed
}

// subscribeResources has servers tell of the resources that the client wants, and returns those that it is told of.
func (e *listener) subscribeResources(ctx context.Context, want jsontext.Value) (uris []string, err *mcp.Error) {
	if want == nil {
		return nil, nil
	}
	vs, bad := mcp.ReadArray(want)
	if bad != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: resourceSubscriptions: %s.", bad)
	}
	for _, v := range vs {
		uri := mcp.Text(v)
		if len(uris) == maxSubscriptions || slices.Contains(uris, uri) {
			continue // it is not among those that are agreed to
		}
		l, err := e.r.resourceLink(uri)
		if err != nil || e.r.checkMethod(ctx, l, "resources/subscribe",
			mcp.Object{{Name: "uri", Value: mcp.Quote(uri)}}.Bytes()) != nil || !e.subscribeResource(ctx, l, uri) {
			continue
		}
		uris = append(uris, uri)
	}
	return uris, nil
}

// subscribeTasks takes up the agent's tasks among those that the client wants to be told of, and returns them.
func (e *listener) subscribeTasks(want jsontext.Value) ([]string, *mcp.Error) {
	vs, bad := mcp.ReadArray(want)
	if bad != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: taskIds: %s.", bad)
	}
	ids := []string{}
	for _, v := range vs {
		if _, none := e.r.findTask(mcp.Text(v)); none == nil && len(ids) < maxSubscriptions {
			ids = append(ids, mcp.Text(v))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tasks = ids
	return ids, nil
}

// maxSubscriptions is how many resources, and how many tasks, one subscription is told of.
const maxSubscriptions = 256

// relistenAfter is how long it takes until a lost subscription is taken up again.
const relistenAfter = time.Second

// subscribeResource has a server tell of a resource's updates while ctx lives.
func (e *listener) subscribeResource(ctx context.Context, l *link, uri string) bool {
	conn, err := l.get(ctx)
	if err != nil {
		return false
	}
	e.mu.Lock()
	e.uris[uri] = true
	e.mu.Unlock()
	if conn.Hello().Era == mcp.Modern {
		e.r.g.background.Go(func() { e.followResource(ctx, l, conn, uri) })
		return true
	}
	if l.countSubscribers(uri, 1) == 1 {
		resp, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: "resources/subscribe",
			Params: mcp.Object{{Name: "uri", Value: mcp.Quote(uri)}}.Bytes()})
		if err != nil || resp.Err != nil {
			l.countSubscribers(uri, -1)
			return false
		}
	}
	context.AfterFunc(ctx, func() {
		if e.r.g.work.Err() == nil {
			e.r.session.unsubscribe(uri)
		}
	})
	return true
}

// followResource keeps a subscription to a resource's updates with a modern server while ctx lives, over one connection
// after the other. It ends early where the server refuses it.
func (e *listener) followResource(ctx context.Context, l *link, conn upstream.Conn, uri string) {
	want := mcp.Object{{Name: "resourceSubscriptions", Value: mcp.Marshal([]string{uri})}}
	params := mcp.Object{{Name: "notifications", Value: want.Bytes()}, {Name: "_meta", Value: l.gatewayMeta()}}.Bytes()
	g := l.server.g
	for ctx.Err() == nil {
		_, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: "subscriptions/listen", Params: params,
			OnNotification: e.onResourceUpdated})
		if err == nil { // it was answered: refused, or ended
			return
		}
		for g.sleep(ctx, relistenAfter); ctx.Err() == nil; g.sleep(ctx, relistenAfter) {
			if next, err := l.get(ctx); err == nil && next.Hello().Era == mcp.Modern {
				conn = next
				break
			}
		}
	}
}

// onResourceUpdated passes on what a modern server says of a resource that the client subscribed to.
func (e *listener) onResourceUpdated(m mcp.Message) {
	if m.Method != resourceUpdated {
		return
	}
	if p, err := mcp.ReadObject(m.Params); err == nil {
		e.deliver(mcp.Notification(m.Method, p.Without("_meta").Bytes()), p.Text("uri"))
	}
}
