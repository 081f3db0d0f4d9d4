package webhook

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"countersign/approval"
)

// How much is done at a time after Slack was answered, and for how long each may take.
const (
	maxAfterResponse    = 8
	afterResponseWithin = 10 * time.Second
)

// afterResponse is the work that is done after a platform was answered. None of it decides anything, so what
// there is no room for is left undone.
type afterResponse struct {
	ctx  context.Context
	end  context.CancelFunc
	room chan struct{}

	mu      sync.Mutex
	closed  bool
	again   map[string]bool // by what is under way: it is to be done once more
	running sync.WaitGroup
}

func newAfterResponse() *afterResponse {
	a := &afterResponse{room: make(chan struct{}, maxAfterResponse), again: map[string]bool{}}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a
}

// run has fn run, and says whether there was room. Under one name there is one at a time: while it is
// under way, what comes is done afterwards, once.
func (a *afterResponse) run(name string, fn func(ctx context.Context)) bool {
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
func (a *afterResponse) more(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.again[name] && !a.closed
	if delete(a.again, name); again {
		a.again[name] = false
	}
	return again
}

func (a *afterResponse) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.end()
	a.running.Wait()
}

// showHome shows somebody their Home tab as it is now.
func (h *Slack) showHome(userID string, by approval.Actor) {
	if h.home == nil {
		return
	}
	show := func(ctx context.Context) {
		defer func() {
			if p := recover(); p != nil {
				h.log.ErrorContext(ctx, "a Home tab could not be drawn: this is a bug in Countersign; please report it",
					"by", by.String(),
					"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}()
		h.home(ctx, userID, by)
	}
	if !h.after.run(userID, show) {
		h.log.Debug("a Home tab was not brought up to date: too many at once", "by", by.String())
	}
}
