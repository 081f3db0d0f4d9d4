package outbox

import (
	"math"
	"time"

	"countersign/channels"
)

// Retries says how often, and how far apart, a send that may still succeed is repeated.
type Retries struct {
	Max   int           // after the first try
	First time.Duration // before the first of them; each further wait is twice as long
	Cap   time.Duration // no wait is longer
}

// DefaultRetries returns what is used where the configuration says nothing.
func DefaultRetries() Retries {
	return Retries{Max: 3, First: 10 * time.Second, Cap: 5 * time.Minute}
}

// Validate returns what is wrong with the section notifications, as [channels.Problems].
func (r Retries) Validate() error {
	var ps channels.Problems
	if r.Max < 0 || r.Max > 100 {
		ps.Add("max_retries", "must be 0 to 100")
	}
	if r.First < time.Second {
		ps.Add("first_retry", "must be at least 1s: platforms ask for it")
	}
	if r.Cap < r.First || r.Cap > 12*time.Hour {
		ps.Add("max_backoff", "must be between first_retry and 12h")
	}
	return ps.Err()
}

// Delay returns how long to wait after a number of tries, 1 or more. random, in [0, 1), moves it by up
// to a fifth either way, so that what failed together is not repeated together.
func (r Retries) Delay(tries int, random float64) time.Duration {
	d := float64(r.First) * math.Pow(2, float64(min(max(tries, 1), 60)-1))
	d = min(d, float64(r.Cap)) * (0.8 + 0.4*random)
	return min(time.Duration(d), r.Cap)
}

// keyLife is how long after the first try a retry key is used. LINE forgets a key after 24 hours, and
// would then show the message a second time.
const keyLife = 23 * time.Hour
