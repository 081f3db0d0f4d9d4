// Package ratelimitedlog keeps the log at one line in a while, however often something happens.
package ratelimitedlog

import (
	"cmp"
	"sync"
	"time"
)

// Counter counts what happens between two log lines. Its zero value allows one line a minute. It is safe for
// concurrent use.
type Counter struct {
	Every time.Duration // between two lines; 0: a minute

	mu     sync.Mutex
	count  int
	logged time.Time
}

// Add counts one event. Where a line may be logged now, it returns how many there were since the last one.
func (c *Counter) Add(now time.Time) (count int, log bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if !c.logged.IsZero() && now.Sub(c.logged) < cmp.Or(c.Every, time.Minute) {
		return 0, false
	}
	count, c.count, c.logged = c.count, 0, now
	return count, true
}
