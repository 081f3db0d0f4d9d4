package signin

import (
	"sync"
	"time"
)

const (
	attemptsPerMinute = 30
	refusalsOnRecord  = 60 // in a minute, of all together

	attemptsWindow = time.Minute
	maxCounted     = 4096
)

// attempts counts what somebody does in a minute. It remembers so many of them; while there are more, those who come
// later share one count, which is no way around it.
type attempts struct {
	most int

	mu    sync.Mutex
	began time.Time // of this minute
	count map[string]int
}

func newAttempts(most int) *attempts { return &attempts{most: most, count: map[string]int{}} }

// allow counts one attempt, and reports whether there was room for it.
func (a *attempts) allow(who string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.began) >= attemptsWindow {
		a.began = now
		clear(a.count)
	}
	if _, there := a.count[who]; !there && len(a.count) >= maxCounted {
		who = ""
	}
	if a.count[who] >= a.most {
		return false
	}
	a.count[who]++
	return true
}
