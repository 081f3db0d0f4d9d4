package gateway

import "time"

// clock is where the gateway's time comes from. What it measures it measures by its own age: no clock that is set makes
// it older or younger. The time of day is for ids, for what clients are shown, and since when servers are up.
type clock struct{ started time.Time }

func newClock() clock { return clock{started: time.Now()} }

// age is how old the gateway is.
func (c clock) age() time.Duration { return time.Since(c.started) }

// now is the time of day.
func (c clock) now() time.Time { return time.Now() }
