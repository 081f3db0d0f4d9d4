package history

import (
	"time"

	"countersign/approval"
)

// Kept says for how long what is read here is kept, from when it was made; 0: for ever.
type Kept struct {
	Requests, Args, Pushes, Audit time.Duration
}

// StatsSince returns from when on all is there that [Stats] counts, by the machine's clock, where since is before that;
// else the zero time.
func (k Kept) StatsSince(c approval.Clock, since time.Time) time.Time {
	return knownSince(c, since, k.Requests, k.Pushes, k.Audit)
}

// CallsSince is StatsSince of what [Suggest] and [Replay] learn from: calls with their args.
func (k Kept) CallsSince(c approval.Clock, since time.Time) time.Time {
	return knownSince(c, since, k.Requests, k.Args, k.Audit)
}

func knownSince(c approval.Clock, since time.Time, kept ...time.Duration) (known time.Time) {
	for _, long := range kept {
		if from := millisecond(c.ToWall(c.Now().Add(-long))); long > 0 && since.Before(from) && known.Before(from) {
			known = from
		}
	}
	return known
}
