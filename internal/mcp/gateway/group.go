package gateway

import (
	"log/slog"
	"runtime/debug"
	"sync"
)

// group is the goroutines of a gateway. Unlike a [sync.WaitGroup] it takes more at any time, also while
// its owner waits for its end: what servers and clients do does not ask whether the gateway is stopping. One
// that panics does not end the program, which has others in hand.
type group struct {
	log *slog.Logger

	mu   sync.Mutex
	n    int
	idle []chan struct{}
}

// Go has f run.
func (c *group) Go(f func()) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	go func() {
		defer c.done()
		defer func() {
			if p := recover(); p != nil {
				c.log.Error("panic", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f()
	}()
}

func (c *group) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		for _, ch := range c.idle {
			close(ch)
		}
		c.idle = nil
	}
}

// Wait returns in a moment in which none runs.
func (c *group) Wait() {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return
	}
	ch := make(chan struct{})
	c.idle = append(c.idle, ch)
	c.mu.Unlock()
	<-ch
}
