package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
)

// attachedStream is the stream of whichever request of a client waits for a forwarded call just now. While none does,
// what is sent is dropped.
type attachedStream struct {
	mu          sync.Mutex
	to          downstream.Stream
	question    question
	questionKey string // of the question that the client was asked; "": none
	timer       *time.Timer
}

var errNoStream = errors.New("no request of the client waits for this call")

// detach ends the use of the stream; it waits for a send that is under way.
func (r *attachedStream) detach() {
	r.mu.Lock()
	r.to = nil
	r.mu.Unlock()
}

// setQuestion remembers the question that the client was sent.
func (r *attachedStream) setQuestion(q question, key string, timer *time.Timer) {
	r.mu.Lock()
	r.question, r.questionKey, r.timer = q, key, timer
	r.mu.Unlock()
}

// attach makes a request of the client the stream, if it brings the answer to the question that is open.
func (r *attachedStream) attach(out downstream.Stream, key string) (question, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key == "" || key != r.questionKey {
		return question{}, false
	}
	r.timer.Stop()
	r.to, r.questionKey = out, ""
	return r.question, true
}

// Send sends a notification to the request that waits.
func (r *attachedStream) Send(m mcp.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to == nil {
		return errNoStream
	}
	return r.to.Send(m)
}

// Ask asks the client over the request that waits.
func (r *attachedStream) Ask(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error) {
	r.mu.Lock()
	out := r.to
	r.mu.Unlock()
	if out == nil {
		return mcp.Message{}, errNoStream
	}
	return out.Ask(ctx, method, params)
}
