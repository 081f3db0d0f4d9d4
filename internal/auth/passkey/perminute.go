package passkey

import (
	"sync"
	"time"
)

// strangersOnRecord is how many refused sign-ins are put on record in a minute, of all together.
const strangersOnRecord = 60

// perMinute counts what is put on record for strangers, so that they cannot fill the audit log.
type perMinute struct {
	mu    sync.Mutex
	began time.Time // of this minute
	count int
}

// allow counts one more, and reports whether it is among the first [strangersOnRecord] of its minute.
func (p *perMinute) allow(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) >= time.Minute {
		p.began, p.count = now, 0
	}
	p.count++
	return p.count <= strangersOnRecord
}
