package emulator

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is one way for a call to go wrong. The zero Fault does nothing.
type Fault struct {
	Name string // shown in Call.Fault

	Delay time.Duration // before anything else
	// Cut closes the connection without an answer.
	Cut bool
	// Processed lets the platform act on the request first: with Cut the answer is lost, with Status it is replaced.
	Processed bool

	Status int // answered instead of the platform's own; 0: the platform answers
	Header map[string]string
	Body   string
}

// Answer is a fault with this answer instead of the platform's own.
func Answer(status int, header map[string]string, body string) Fault {
	return Fault{Name: "answer " + strconv.Itoa(status), Status: status, Header: header, Body: body}
}

// RateLimited is LINE's 429, or Slack's: the same status, and a body that suits both. With after > 0 it carries
// Retry-After.
func RateLimited(after time.Duration) Fault {
	f := Answer(http.StatusTooManyRequests, map[string]string{"Content-Type": "application/json"},
		`{"ok":false,"error":"ratelimited","message":"The API rate limit has been exceeded. Try again later."}`)
	if after > 0 {
		f.Header["Retry-After"] = strconv.Itoa(int((after + time.Second - 1) / time.Second))
	}
	f.Name = "rate limited"
	return f
}

// MonthlyLimit is LINE's 429 for a spent quota, which no waiting cures.
func MonthlyLimit() Fault {
	f := Answer(http.StatusTooManyRequests, map[string]string{"Content-Type": "application/json"},
		`{"message":"You have reached your monthly limit."}`)
	f.Name = "monthly limit"
	return f
}

// ServerError is a 500 with a page of HTML.
func ServerError() Fault {
	f := Answer(http.StatusInternalServerError, map[string]string{"Content-Type": "text/html; charset=utf-8"},
		"<!DOCTYPE html><html><head><title>Internal Server Error</title></head><body><h1>500</h1></body></html>")
	f.Name = "server error"
	return f
}

// Unauthorized refuses the token: LINE's 401, which Slack never sends (there, use SlackError("invalid_auth")).
func Unauthorized() Fault {
	f := Answer(http.StatusUnauthorized, map[string]string{"Content-Type": "application/json"}, `{"message":"`+
		lineBadToken+`"}`)
	f.Name = "unauthorized"
	return f
}

// SlackError is HTTP 200 with ok false.
func SlackError(code string) Fault {
	f := Answer(http.StatusOK, map[string]string{"Content-Type": "application/json; charset=utf-8"},
		`{"ok":false,"error":`+strconv.Quote(code)+`}`)
	f.Name = "ok:false " + code
	return f
}

// EmptyObject is HTTP 200 with {}: neither yes nor no. Nothing was done.
func EmptyObject() Fault {
	f := Answer(http.StatusOK, map[string]string{"Content-Type": "application/json"}, `{}`)
	f.Name = "empty object"
	return f
}

// Garbage does what was asked and answers 200 with a body that is no JSON.
func Garbage() Fault {
	f := Answer(http.StatusOK, map[string]string{"Content-Type": "application/json"}, "{\"sentMess\x00")
	f.Name, f.Processed = "garbage", true
	return f
}

// ConnectionClosed closes the connection before the request is read. Nothing was done.
func ConnectionClosed() Fault { return Fault{Name: "connection closed", Cut: true} }

// LostResponse does what was asked, then closes the connection: the client cannot know.
func LostResponse() Fault { return Fault{Name: "lost response", Cut: true, Processed: true} }

// Slow answers properly, but late.
func Slow(d time.Duration) Fault { return Fault{Name: "slow", Delay: d} }

// Failure is a Fault that is switched on for an endpoint.
type Failure struct {
	e        *Emulator
	endpoint Endpoint
	fault    Fault
	left     int // calls still to fail; negative: all
	used     int
}

// Fail makes the next times calls of an endpoint go wrong, or all of them until Cancel when times is negative. Several
// failures on one endpoint are used up in the order in which they were switched on.
func (e *Emulator) Fail(endpoint Endpoint, times int, fault Fault) *Failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := &Failure{e: e, endpoint: endpoint, fault: fault, left: times}
	e.failures = append(e.failures, f)
	return f
}

// Used returns how many calls went wrong because of it.
func (f *Failure) Used() int {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	return f.used
}

// Cancel switches it off.
func (f *Failure) Cancel() {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	f.left = 0
}

// takeFault uses up one failure that is switched on for this call. The caller holds the lock.
func (e *Emulator) takeFault(platform string, endpoint Endpoint) (Fault, bool) {
	for _, f := range e.failures {
		if f.left != 0 && f.endpoint.matches(platform, endpoint) {
			if f.left > 0 {
				f.left--
			}
			f.used++
			return f.fault, true
		}
	}
	return Fault{}, false
}

// Hold stops the calls of an endpoint until it is released.
type Hold struct {
	e        *Emulator
	endpoint Endpoint
	moment   moment
	arrived  int // guarded by the lock
	once     sync.Once
	released chan struct{}
}

// moment is where in a call a hold stops it.
type moment int

const (
	beforeAct    moment = iota // it arrived, and nothing is done about it
	beforeAnswer               // it was carried out, and its answer is not sent
)

// Hold stops every call of the endpoint as soon as it arrived, before anything is done about it. A caller that goes
// away in the meantime changes nothing: once released, its request is carried out, as on a busy server.
func (e *Emulator) Hold(endpoint Endpoint) *Hold { return e.hold(endpoint, beforeAct) }

// HoldAnswer stops every call of the endpoint after it was carried out, before its answer is sent.
func (e *Emulator) HoldAnswer(endpoint Endpoint) *Hold { return e.hold(endpoint, beforeAnswer) }

func (e *Emulator) hold(endpoint Endpoint, at moment) *Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := &Hold{e: e, endpoint: endpoint, moment: at, released: make(chan struct{})}
	e.holds = append(e.holds, h)
	return h
}

// Wait waits until n calls were stopped by the hold.
func (h *Hold) Wait(ctx context.Context, n int) error {
	return h.e.WaitFor(ctx, func() bool {
		h.e.mu.Lock()
		defer h.e.mu.Unlock()
		return h.arrived >= n
	})
}

// Release lets all calls pass, those that wait and those to come. It can be called twice.
func (h *Hold) Release() { h.once.Do(func() { close(h.released) }) }

// pause stops the calling handler while a hold is on.
func (e *Emulator) pause(platform string, endpoint Endpoint, at moment) {
	e.mu.Lock()
	var waits []*Hold
	for _, h := range e.holds {
		if h.moment != at || !h.endpoint.matches(platform, endpoint) {
			continue
		}
		select {
		case <-h.released:
			continue
		default:
		}
		h.arrived++
		waits = append(waits, h)
	}
	if len(waits) > 0 {
		e.bump()
	}
	e.mu.Unlock()
	for _, h := range waits {
		select {
		case <-h.released:
		case <-e.done:
		}
	}
}

// sleep waits for d, or until the emulator is closed.
func (e *Emulator) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.done:
	}
}

// isForm reports whether a Content-Type is that of an HTML form.
func isForm(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(contentType), "application/x-www-form-urlencoded")
}
