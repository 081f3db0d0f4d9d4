package webhook

import (
	"context"
	"sync"
	"time"
)

// How much is done at a time after a platform was answered, and for how long each may take.
const (
	maxAfterResponse    = 8
	afterResponseWithin = 10 * time.Second
)

// AfterResponse is the work that is done after a platform was answered. None of it decides anything, so what
// there is no room for is left undone.
type AfterResponse struct {
	ctx  context.Context
	end  context.CancelFunc
	room chan struct{}

	mu      sync.Mutex
	closed  bool
	again   map[string]bool // by what is under way: it is to be done once more
	running sync.WaitGroup
}

// NewAfterResponse returns room for work. Close must be called.
func NewAfterResponse() *AfterResponse {
	a := &AfterResponse{room: make(chan struct{}, maxAfterResponse), again: map[string]bool{}}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a
}

// Run has fn run, and says whether there was room. Under one name there is one at a time: while it is
// under way, what comes is done afterwards, once.
func (a *AfterResponse) Run(name string, fn func(ctx context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	if _, under := a.again[name]; under {
		a.again[name] = true
		return true
	}
	select {
	case a.room <- struct{}{}:
	default:
		return false
	}
	a.again[name] = false
	a.running.Go(func() {
		defer func() { <-a.room }()
		for more := true; more; more = a.more(name) {
			ctx, cancel := context.WithTimeout(a.ctx, afterResponseWithin)
			fn(ctx)
			cancel()
		}
	})
	return true
}

// more says whether a piece of work is to be done once more.
func (a *AfterResponse) more(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.again[name] && !a.closed
	if delete(a.again, name); again {
		a.again[name] = false
	}
	return again
}

// Close ends what is still under way, and waits for it.
func (a *AfterResponse) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.end()
	a.running.Wait()
}
