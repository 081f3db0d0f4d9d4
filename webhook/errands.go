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
	mostErrands  = 8
	errandWithin = 10 * time.Second
)

// errands are what is done after a platform was answered. None of it decides anything, so what there is
// no room for is left undone.
type errands struct {
	ctx  context.Context
	end  context.CancelFunc
	room chan struct{}

	mu      sync.Mutex
	closed  bool
	again   map[string]bool // by what is under way: it is to be done once more
	running sync.WaitGroup
}

func newErrands() *errands {
	e := &errands{room: make(chan struct{}, mostErrands), again: map[string]bool{}}
	e.ctx, e.end = context.WithCancel(context.Background())
	return e
}

// run has fn run, and says whether there was room. Under one name there is one at a time: while it is
// under way, what comes is done afterwards, once.
func (e *errands) run(name string, fn func(ctx context.Context)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	if _, under := e.again[name]; under {
		e.again[name] = true
		return true
	}
	select {
	case e.room <- struct{}{}:
	default:
		return false
	}
	e.again[name] = false
	e.running.Go(func() {
		defer func() { <-e.room }()
		for more := true; more; more = e.more(name) {
			ctx, cancel := context.WithTimeout(e.ctx, errandWithin)
			fn(ctx)
			cancel()
		}
	})
	return true
}

// more says whether an errand is to be done once more.
func (e *errands) more(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	again := e.again[name] && !e.closed
	if delete(e.again, name); again {
		e.again[name] = false
	}
	return again
}

func (e *errands) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.end()
	e.running.Wait()
}

// showHome shows somebody their Home tab as it is now.
func (h *Slack) showHome(userID string, by approval.Actor) {
	if h.home == nil {
		return
	}
	show := func(ctx context.Context) {
		defer func() {
			if p := recover(); p != nil {
				h.log.Error("a Home tab could not be drawn: a fault of ours; please report it", "by", by.String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}()
		h.home(ctx, userID, by)
	}
	if !h.errands.run(userID, show) {
		h.log.Debug("a Home tab was not brought up to date: too many at once", "by", by.String())
	}
}
