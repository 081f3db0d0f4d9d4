package gateway

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/mcp"
	"countersign/upstream"
)

// listener is a modern client's subscriptions/listen: a request whose stream brings what changes.
type listener struct {
	session *session
	out     func(mcp.Message) error
	id      jsontext.Value // of the request; every message bears it
	kinds   []string
	tasks   []string

	mu   sync.Mutex
	uris map[string]bool
	over bool
}

// hear passes on a notification that the client subscribed to.
func (e *listener) hear(m mcp.Message, uri string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || m.Method == resourceUpdated && !e.uris[uri] || m.Method != resourceUpdated && !slices.Contains(e.kinds, m.Method) {
		return
	}
	params, err := mcp.ReadObject(orEmpty(m.Params))
	if err != nil {
		return
	}
	meta := mcp.Object{{Name: mcp.MetaSubscription, Value: e.id}}
	_ = e.out(mcp.Notification(m.Method, params.With("_meta", meta.Bytes()).Bytes())) // a client that is gone ends the request
}

// listen answers subscriptions/listen: it lasts until the client ends it.
func (r *request) listen() (jsontext.Value, *mcp.Error) {
	r.introduce()
	want, bad := r.params.Object("notifications")
	if bad != nil || r.params.Get("notifications") == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: notifications must be an object that says what to listen to.")
	}
	e := &listener{session: r.session, out: r.out.Send, id: r.id, uris: map[string]bool{}}
	_, catalogs, _ := r.catalogs(r.ctx, false)
	var agreed mcp.Object
	yes := func(name string) bool { return string(want.Get(name)) == "true" }
	has := func(capability string) bool {
		return slices.ContainsFunc(catalogs, func(c *catalog) bool { return c.has(capability) })
	}
	for _, k := range []struct {
		name, method string
		able         bool
	}{{"toolsListChanged", toolsChanged, true}, {"promptsListChanged", promptsChanged, has("prompts")}, {"resourcesListChanged", resourcesChanged, has("resources")}} {
		if yes(k.name) && k.able {
			e.kinds = append(e.kinds, k.method)
			agreed = append(agreed, mcp.Member{Name: k.name, Value: jsontext.Value("true")})
		}
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var uris []string
	if v := want.Get("resourceSubscriptions"); v != nil {
		vs, bad := mcp.ReadArray(v)
		if bad != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: resourceSubscriptions: %s.", bad)
		}
		for _, v := range vs {
			uri := mcp.Text(v)
			l, err := r.holder(uri)
			if err != nil {
				continue // it is not among those that are agreed to
			}
			if !r.subscribeFor(ctx, l, uri, e) {
				continue
			}
			uris = append(uris, uri)
		}
	}
	if len(uris) > 0 {
		agreed = append(agreed, mcp.Member{Name: "resourceSubscriptions", Value: mcp.Marshal(uris)})
	}
	if v := want.Get("taskIds"); v != nil && r.from.tasks {
		if vs, bad := mcp.ReadArray(v); bad == nil {
			for _, v := range vs {
				if _, none := r.taskOf(mcp.Text(v)); none == nil {
					e.tasks = append(e.tasks, mcp.Text(v))
				}
			}
			agreed = append(agreed, mcp.Member{Name: "taskIds", Value: mcp.Marshal(orNone(e.tasks))})
		}
	}
	meta := mcp.Object{{Name: mcp.MetaSubscription, Value: r.id}}
	if err := r.out.Send(mcp.Notification("notifications/subscriptions/acknowledged", mcp.Object{
		{Name: "notifications", Value: agreed.Bytes()}, {Name: "_meta", Value: meta.Bytes()},
	}.Bytes())); err != nil {
		return nil, mcp.Errorf(mcp.CodeInternalError, "The client is gone.")
	}
	r.g.mu.Lock()
	r.g.listeners[e] = true
	r.g.mu.Unlock()
	defer func() {
		r.g.mu.Lock()
		delete(r.g.listeners, e)
		r.g.mu.Unlock()
		e.mu.Lock()
		e.over = true
		e.mu.Unlock()
	}()
	if len(agreed) > 0 {
		select {
		case <-ctx.Done():
		case <-r.g.work.Done():
		case <-r.g.stopping:
		}
	}
	return mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)}, {Name: "_meta", Value: meta.Bytes()}}.Bytes(), nil
}

func orNone(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// subscribeFor has a server tell of a resource's updates while ctx lives.
func (r *request) subscribeFor(ctx context.Context, l *link, uri string, e *listener) bool {
	conn, err := l.get(ctx)
	if err != nil {
		return false
	}
	e.mu.Lock()
	e.uris[uri] = true
	e.mu.Unlock()
	if conn.Hello().Era == mcp.Modern {
		want := mcp.Object{{Name: "resourceSubscriptions", Value: mcp.Marshal([]string{uri})}}
		params := mcp.Object{{Name: "notifications", Value: want.Bytes()}, {Name: "_meta", Value: l.ourMeta()}}
		r.g.running.Go(func() {
			_, _ = conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: "subscriptions/listen", Params: params.Bytes(), On: func(m mcp.Message) {
				if m.Method == resourceUpdated {
					if p, err := mcp.ReadObject(m.Params); err == nil {
						e.hear(mcp.Notification(m.Method, p.Without("_meta").Bytes()), p.Text("uri"))
					}
				}
			}}) // it ends with the client's request, or with the connection
		})
		return true
	}
	if l.count(uri, 1) == 1 {
		resp, err := conn.Do(ctx, upstream.Request{ID: conn.NewID(), Method: "resources/subscribe", Params: mcp.Object{{Name: "uri", Value: mcp.Quote(uri)}}.Bytes()})
		if err != nil || resp.Err != nil {
			l.count(uri, -1)
			return false
		}
	}
	context.AfterFunc(ctx, func() { r.session.unlisten(uri) })
	return true
}
