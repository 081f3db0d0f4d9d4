package client

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clock is what the answers of a server tell of its clock.
type clock struct{ ahead atomic.Int64 }

// ClockAhead is how far the server's clock is ahead of this machine's, less than 0 where it is behind: 0 where its last
// answer leaves it open whether they differ, and otherwise never more than it is. Answers tell whole seconds.
func (c *Client) ClockAhead() time.Duration { return time.Duration(c.clock.ahead.Load()) }

// heard takes the time that an answer tells, which was made after the one time and before the other.
func (c *clock) heard(header http.Header, sent, got time.Time) {
	at, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	least, most := at.Sub(got.Round(0)), at.Add(time.Second).Sub(sent.Round(0))
	if least <= 0 && most >= 0 {
		least = 0
	}
	c.ahead.Store(int64(least))
}
