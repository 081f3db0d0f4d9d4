package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/mcp"
	"countersign/mcp/downstream"
)

// rider is the stream of whichever request of a client waits for a flight just now. While none does,
// what is sent is dropped.
type rider struct {
	mu    sync.Mutex
	out   downstream.Stream
	q     question
	key   string // of the question that the client was asked; "": none
	timer *time.Timer
}

var errNoRider = errors.New("no request of the client waits for this call")

// leave ends the use of the stream; it waits for a send that is under way.
func (r *rider) leave() {
	r.mu.Lock()
	r.out = nil
	r.mu.Unlock()
}

// parked remembers the question that the client goes away with.
func (r *rider) parked(q question, key string, timer *time.Timer) {
	r.mu.Lock()
	r.q, r.key, r.timer = q, key, timer
	r.mu.Unlock()
}

// board has a request of the client ride along, if it brings the answer to the question that is open.
func (r *rider) board(out downstream.Stream, key string) (question, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key == "" || key != r.key {
		return question{}, false
	}
	r.timer.Stop()
	r.out, r.key = out, ""
	return r.q, true
}

// Send sends a notification to the request that waits.
func (r *rider) Send(m mcp.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out == nil {
		return errNoRider
	}
	return r.out.Send(m)
}

// Ask asks the client over the request that waits.
func (r *rider) Ask(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error) {
	r.mu.Lock()
	out := r.out
	r.mu.Unlock()
	if out == nil {
		return mcp.Message{}, errNoRider
	}
	return out.Ask(ctx, method, params)
}
