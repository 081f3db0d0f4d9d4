package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/budget"
)

const (
	pathLive = "/live"
	// livePerSession is how many pages of one session are kept current at a time.
	livePerSession = 6
	// livePerPerson is how many are of all their sessions.
	livePerPerson = 18
	// liveEvery is how often a page is told at most that something has changed.
	liveEvery = time.Second
	// liveCheck is how long a page goes without a word at most: one that hears nothing for much longer knows that its
	// connection is dead. A session that has come to its time is seen then.
	liveCheck = 20 * time.Second
	// liveWrite is how long one write may take.
	liveWrite = 10 * time.Second
)

// liveUpdates keep pages current.
type liveUpdates struct {
	gate      *approval.Gate
	directory *auth.Directory
	stopping  context.Context
	count     liveCount
	every     time.Duration // [liveEvery], but in tests
	check     time.Duration // [liveCheck], but in tests
}

func (l *liveUpdates) routes() []route {
	return []route{{method: http.MethodGet, path: pathLive, audience: people, handle: l.stream, stream: true}}
}

// liveCount counts the connections of each session and of each person.
type liveCount struct {
	mu sync.Mutex
	of map[string]int
}

// join takes a place; false: there is none left.
func (c *liveCount) join(session, person string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of["session "+session] >= livePerSession || c.of["person "+person] >= livePerPerson {
		return false
	}
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of["session "+session]++
	c.of["person "+person]++
	return true
}

func (c *liveCount) leave(session, person string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range []string{"session " + session, "person " + person} {
		if c.of[key]--; c.of[key] <= 0 {
			delete(c.of, key)
		}
	}
}

// sessionEnds are the events with which sessions end before their time: a passkey takes with it those that it began.
var sessionEnds = []approval.EventType{approval.EventSessionEnded, approval.EventSignedOut,
	approval.EventPasskeyRemoved, approval.EventPasskeyBlocked}

// ending wakes when somebody's session may have ended, by what somebody did or by another configuration: it says
// nothing of whose. It wakes once at first, for what ended before it was called. The caller must call cancel.
func (l *liveUpdates) ending(ctx context.Context) (ended, replaced <-chan struct{}, cancel func()) {
	ended, forget := l.gate.Broker().Events("", sessionEnds...)
	other := make(chan struct{}, 1)
	_, done := l.directory.Hold(ctx, func() error { // who is woken looks whether it still holds; here nothing may wait
		select {
		case other <- struct{}{}:
		default: // it has yet to look
		}
		return nil
	})
	return ended, other, func() { done(); forget() }
}

// stream tells a page whenever something has changed, and nothing of what: the page is fetched anew, by whoever may. It
// ends with the session.
func (l *liveUpdates) stream(ctx context.Context, x *exchange) error {
	id, person := x.viewer.Session.ID, x.viewer.Name
	if !l.count.join(id, person) {
		return approval.Errorf(approval.CodeRateLimited, "You have too many pages open.")
	}
	defer l.count.leave(id, person)
	release, err := x.account().Hold(ctx, budget.Streams)
	if err != nil {
		return err
	}
	defer release()
	ended, replaced, forget := l.ending(ctx)
	defer forget()
	hears, err := l.hear(x)
	if err != nil {
		return err
	}
	defer hears.cancel()
	x.Header().Set("Content-Type", "text/event-stream")
	x.Header().Set("X-Accel-Buffering", "no") // a proxy that keeps it back would make it late
	if !x.tell("retry: 2000\n\nevent: open\ndata: 1\n\n") {
		return nil
	}
	check := time.After(l.check)
	var rest <-chan time.Time // until when the page is told nothing: what comes meanwhile is one wake
	for {
		wake, text := hears.wake, ""
		if rest != nil {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.stopping.Done():
			return nil
		case <-rest:
			rest = nil
			continue
		case <-ended:
		case <-replaced:
		case <-wake:
			text = "event: changed\ndata: 1\n\n"
			if hears.once {
				hears.wake = nil
			}
		case <-check:
			text = "event: here\ndata: 1\n\n"
		}
		if err := x.admitStill(hears.whom); err != nil {
			x.tell("event: ended\ndata: 1\n\n")
			return nil
		}
		if text == "" {
			continue
		}
		if !x.tell(text) {
			return nil
		}
		check, rest = time.After(l.check), time.After(l.every)
	}
}

// tell sends a part of a stream; false: nobody is there.
func (x *exchange) tell(text string) bool {
	c := http.NewResponseController(x.ResponseWriter)
	_ = c.SetWriteDeadline(time.Now().Add(liveWrite))
	if _, err := x.Write([]byte(text)); err != nil {
		return false
	}
	return c.Flush() == nil
}
