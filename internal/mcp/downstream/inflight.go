package downstream

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// inflightRequests are the requests in flight, by the id that the client gave them.
type inflightRequests struct {
	mu sync.Mutex
	m  map[string]context.CancelCauseFunc
}

// add reports false for an id that is in flight already.
func (c *inflightRequests) add(id jsontext.Value, cancel context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.m[string(id)]; twice {
		return false
	}
	if c.m == nil {
		c.m = map[string]context.CancelCauseFunc{}
	}
	c.m[string(id)] = cancel
	return true
}

func (c *inflightRequests) remove(id jsontext.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, string(id))
}

// cancelNamed takes a notifications/cancelled. One that names nothing in flight came too late.
func (c *inflightRequests) cancelNamed(m mcp.Message) {
	o, err := mcp.ReadObject(m.Params)
	if err != nil {
		return
	}
	c.mu.Lock()
	cancel := c.m[string(o.Get("requestId"))]
	c.mu.Unlock()
	if cancel != nil {
		cancel(ErrCancelled)
	}
}

func (c *inflightRequests) cancelAll(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.m {
		cancel(cause)
	}
}

// pendingAsks are the requests that a client was sent and has not answered.
type pendingAsks struct {
	mu   sync.Mutex
	last int64
	m    map[string]chan mcp.Message
}

func (a *pendingAsks) open() (jsontext.Value, <-chan mcp.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m = map[string]chan mcp.Message{}
	}
	a.last++
	id, ch := mcp.Number(a.last), make(chan mcp.Message, 1)
	a.m[string(id)] = ch
	return id, ch
}

// close reports whether the request was still without an answer.
func (a *pendingAsks) close(id jsontext.Value) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, open := a.m[string(id)]
	delete(a.m, string(id))
	return open
}

// takeResponse takes a client's response. It reports false for one that nothing waits for.
func (a *pendingAsks) takeResponse(m mcp.Message) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch, ok := a.m[string(m.ID)]
	if ok {
		delete(a.m, string(m.ID))
		ch <- m
	}
	return ok
}

// ask sends the client a request with send and returns its response. A client that is not waited for any
// more is told so. ctx is the asker's, alive the context of the request that it asks for.
func (a *pendingAsks) ask(ctx, alive context.Context, method string, params jsontext.Value,
	send func(mcp.Message) error) (mcp.Message, error) {
	id, ch := a.open()
	if err := send(mcp.Request(id, method, params)); err != nil {
		a.close(id)
		return mcp.Message{}, err
	}
	var err error
	select {
	case m := <-ch:
		return m, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-alive.Done():
		if err = context.Cause(alive); err == context.Canceled { //nolint:errorlint // it is that of the request's own context
			err = errClientGone
		}
	}
	if a.close(id) {
		_ = send(mcp.Notification("notifications/cancelled", append(append([]byte(`{"requestId":`), id...), '}')))
	}
	return mcp.Message{}, err
}
