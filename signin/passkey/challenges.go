package passkey

import (
	"slices"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
)

// Lasts is how long a challenge can be answered.
const Lasts = 5 * time.Minute

// Challenges that wait for their answer: so many of one browser, and in all. More of one browser replace its oldest;
// more in all replace the oldest of those that nobody has signed in for, before any other.
const (
	maxOfOne = 8
	maxInAll = 4096
)

// purpose is what a challenge is for. An answer to one counts for no other.
type purpose string

const (
	forAdding purpose = "add"
	forOwner  purpose = "owner" // to show that somebody has a passkey already, before one more is added
	forSignIn purpose = "sign_in"
	forStepUp purpose = "step_up"
)

// challenge is one that was made and not answered yet.
type challenge struct {
	purpose purpose
	browser string // the session's id, or the digest of the ticket of who is not signed in
	wanted  Wanted // of a step-up
	session webauthn.SessionData
	made    time.Time
}

// challenges are those that wait.
type challenges struct {
	mu      sync.Mutex
	waiting []challenge // oldest first
}

// keep keeps one until it is answered.
func (cs *challenges) keep(c challenge, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.waiting = slices.DeleteFunc(cs.waiting, func(old challenge) bool { return now.Sub(old.made) >= Lasts })
	of := 0
	for _, old := range cs.waiting {
		if old.browser == c.browser {
			of++
		}
	}
	if of >= maxOfOne {
		i := slices.IndexFunc(cs.waiting, func(old challenge) bool { return old.browser == c.browser })
		cs.waiting = slices.Delete(cs.waiting, i, i+1)
	}
	if len(cs.waiting) >= maxInAll {
		i := max(0, slices.IndexFunc(cs.waiting, func(old challenge) bool { return old.purpose == forSignIn }))
		cs.waiting = slices.Delete(cs.waiting, i, i+1)
	}
	cs.waiting = append(cs.waiting, c)
}

// take returns the challenge of these words, once, if it is of this browser and for this purpose. Whoever brings an
// answer for another purpose or from another browser has used it up too: it was signed, and somebody has seen it.
func (cs *challenges) take(words, browser string, p purpose, now time.Time) (challenge, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	i := slices.IndexFunc(cs.waiting, func(c challenge) bool { return c.session.Challenge == words })
	if i < 0 {
		return challenge{}, false
	}
	c := cs.waiting[i]
	cs.waiting = slices.Delete(cs.waiting, i, i+1)
	age := now.Sub(c.made)
	return c, c.browser == browser && c.purpose == p && age >= 0 && age < Lasts
}
