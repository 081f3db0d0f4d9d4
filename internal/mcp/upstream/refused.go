package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// statusError is an answer of HTTP that is none of MCP.
type statusError struct {
	code  int
	to    string        // where a redirect leads
	said  string        // by an error of MCP
	after time.Duration // until the server wants to be asked again; 0: it does not say
}

// newStatusError reads what an answer says beside its status.
func (c *httpConn) newStatusError(res *http.Response, body []byte) *statusError {
	e := &statusError{code: res.StatusCode, after: retryAfter(res.Header)}
	if to := res.Header.Get("Location"); to != "" && e.code/100 == 3 {
		e.to = redirectTarget(c.url, to)
	}
	if m, bad := mcp.Parse(body); bad == nil && m.Err != nil {
		e.said = fmt.Sprintf("%.200s", mcp.ReadError(m.Err).Message)
	}
	return e
}

func (e *statusError) Error() string {
	s := strings.TrimRight(fmt.Sprintf("the server answered with HTTP %d %s", e.code, http.StatusText(e.code)), " ")
	switch {
	case e.to != "":
		s += fmt.Sprintf(", a redirect to %s, which is not followed; give that address instead", e.to)
	case e.code/100 == 3:
		s += ", and redirects are not followed"
	case e.said != "":
		s += ": " + strings.TrimRight(e.said, ".")
	}
	return s
}

// notActedOn reports whether the server, or what stands before it, refused the request before it acted on it.
func (e *statusError) notActedOn() bool {
	switch e.code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusProxyAuthRequired, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest,
		http.StatusTooEarly, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect: // the other redirects may come after it was done
		return true
	}
	return false
}

// longestRetryAfter is how long a server can ask for.
const longestRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After, in seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	d := time.Duration(0)
	if n, err := strconv.Atoi(v); err == nil {
		d = time.Duration(min(max(n, 0), int(longestRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		// By the server's own clock, where it says how late it is there.
		if now, err := http.ParseTime(h.Get("Date")); err == nil {
			d = at.Sub(now)
		}
	}
	return min(max(d, 0), longestRetryAfter)
}

// longestWord is how long a part of a path is taken for a word; what is longer may be a key.
const longestWord = 16

// redirectTarget is where a redirect leads, without what may be secret of our own address in it.
func redirectTarget(from *url.URL, location string) string {
	to, err := from.Parse(location)
	if err != nil {
		return ""
	}
	path := to.Path
	for part := range strings.SplitSeq(from.Path, "/") {
		if len(part) > longestWord {
			path = strings.ReplaceAll(path, part, "...")
		}
	}
	return fmt.Sprintf("%.200s", (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: path}).String())
}

// IsRefused reports whether a server, or what stands before it, refused a request before it acted on it, with a status
// of HTTP.
func IsRefused(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.notActedOn()
}

// RefusedFor says why a request certainly was not acted on, briefly and in the gate's words.
func RefusedFor(err error) string {
	switch e, ok := errors.AsType[*statusError](err); {
	case ok:
		return fmt.Sprintf("refused with HTTP %d", e.code)
	case errors.Is(err, errSessionLost):
		return "the session was forgotten"
	}
	return "not sent"
}

// RetryAfter is how long a server that refused a request wants to be left alone, 0 where it did not say. busy tells
// whether it refused since it is asked too much.
func RetryAfter(err error) (after time.Duration, busy bool) {
	e, ok := errors.AsType[*statusError](err)
	if !ok {
		return 0, false
	}
	return e.after, e.code == http.StatusTooManyRequests
}

// noSession are the words with which the transports of SDKs refuse a session that they do not know, with 400, before
// anything reads the message. Other words that speak of a session can be those of a tool that has acted.
var noSession = []string{"no valid session id provided", "missing session id", "invalid session id",
	"invalid or missing session id", "invalid or expired session id", "session not found", "unknown session",
	"mcp-session-id header is required", "server not initialized"}

// saysSessionLost reports whether a refusal says that the server does not know the session any more. 404 is the word
// for it; many say it with 400 and in words, of no request in particular.
func saysSessionLost(status int, body []byte, id jsontext.Value) bool {
	if status != http.StatusBadRequest {
		return status == http.StatusNotFound
	}
	words := string(body[:min(len(body), 4<<10)])
	if m, bad := mcp.Parse(body); bad == nil {
		if m.Err == nil || bytes.Equal(m.ID, id) {
			return false
		}
		words = mcp.ReadError(m.Err).Message
	}
	words = strings.TrimSuffix(strings.TrimSpace(strings.ToLower(words)), ".")
	return slices.Contains(noSession, strings.TrimPrefix(words, "bad request: "))
}
