package passkey

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"countersign/internal/secret"
)

// Lasts is how long a challenge can be answered.
const Lasts = 5 * time.Minute

// Challenges that wait for their answer: so many of one browser, and of one person in all their browsers. More replace
// the oldest of that browser, or of that person; no one else's.
const (
	maxOfBrowser = 8
	maxOfPerson  = 64
)

// purpose is what a challenge is for. An answer to one counts for no other.
type purpose string

const (
	forAdding purpose = "add"
	forOwner  purpose = "owner" // to show that the person has a passkey already, before one more is added
	forSignIn purpose = "sign_in"
	forStepUp purpose = "step_up"
)

// challenge is one that was made and not answered yet, of a person who is signed in.
type challenge struct {
	purpose purpose
	browser Browser
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
	cs.makeRoom(maxOfBrowser, func(old challenge) bool { return old.browser.Session == c.browser.Session })
	cs.makeRoom(maxOfPerson, func(old challenge) bool { return old.browser.Person == c.browser.Person })
	cs.waiting = append(cs.waiting, c)
}

// makeRoom deletes the oldest of those that are like a new one, where there are as many as there may be.
func (cs *challenges) makeRoom(most int, like func(challenge) bool) {
	of := 0
	for _, old := range cs.waiting {
		if like(old) {
			of++
		}
	}
	if of >= most {
		i := slices.IndexFunc(cs.waiting, like)
		cs.waiting = slices.Delete(cs.waiting, i, i+1)
	}
}

// take returns the challenge of these words, once, if it is of this browser and for this purpose. A browser that brings
// an answer for another purpose, or another browser, has used it up too: it was signed, and has been seen.
func (cs *challenges) take(words, session string, p purpose, now time.Time) (challenge, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	i := slices.IndexFunc(cs.waiting, func(c challenge) bool { return c.session.Challenge == words })
	if i < 0 {
		return challenge{}, false
	}
	c := cs.waiting[i]
	cs.waiting = slices.Delete(cs.waiting, i, i+1)
	age := now.Sub(c.made)
	return c, c.browser.Session == session && c.purpose == p && age >= 0 && age < Lasts
}

// tickets stand for the challenges of those who are not signed in, of which none is kept: strangers, however many they
// are, have nothing here that could run full. A ticket says when a challenge was made, and is signed. What is kept, in
// the store, is which challenges were answered: only who has a passkey answers one.
type tickets struct{ keys secret.Keys }

// issue makes the ticket of a challenge for a host.
func (t tickets) issue(words, host string, now time.Time) string {
	made := strconv.FormatInt(now.UnixMilli(), 10)
	return made + "." + base64.RawURLEncoding.EncodeToString(t.keys.Sign(signed(words, host, made)))
}

// signed is what a ticket's signature is of.
func signed(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(strconv.Itoa(len(part)) + ":" + part)
	}
	return b.String()
}

// holds reports whether a ticket is of these words and still good. It spends nothing.
func (t tickets) holds(ticket, words, host string, now time.Time) bool {
	made, signature, _ := strings.Cut(ticket, ".")
	at, err := strconv.ParseInt(made, 10, 64)
	got, err2 := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || err2 != nil || !t.keys.Holds(got, signed(words, host, made)) {
		return false
	}
	age := now.Sub(time.UnixMilli(at))
	return age >= -time.Millisecond && age < Lasts
}

// spend spends the words of a ticket that holds, in a transaction; false: they were.
func (tickets) spend(tx Tx, words string) (bool, error) {
	return tx.FirstSight("passkey challenge " + words)
}
