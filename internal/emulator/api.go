package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
)

// answer is what a platform says to one call.
type answer struct {
	status int
	header map[string]string
	body   []byte
}

// api is one endpoint of one platform.
type api struct {
	platform  string
	endpoint  Endpoint
	bodyLimit int64
	tokens    []string // blanked in what is recorded
	// authorized judges the token; body is the raw body.
	authorized func(r *http.Request, body []byte) bool
	// arrive is called for every request whose body was read, also for those that fail afterwards. May be nil.
	arrive func(c *Call, r *http.Request, body []byte)
	// tooLarge answers a request over bodyLimit.
	tooLarge func() answer
	// act carries the request out. It takes the lock itself.
	act func(c *Call, r *http.Request, body []byte) answer
}

// serve takes a call through recording, holds and failures to the platform itself.
func (e *Emulator) serve(a api, w http.ResponseWriter, r *http.Request) {
	c, fault := e.begin(a, r)
	defer e.handlers.Done()
	defer func() {
		// A fault of the stand-in itself must not look like a failing platform.
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			e.breach(c, "stand_in_panic", fmt.Sprintf("%v\n%s", p, debug.Stack()))
			e.log.ErrorContext(r.Context(), "the stand-in panicked", "endpoint", string(c.Endpoint), "panic", p)
			panic(http.ErrAbortHandler)
		} else if p != nil {
			panic(p)
		}
	}()

	e.sleep(fault.Delay)
	if fault.Cut && !fault.Processed {
		e.finish(c, nil, false)
		panic(http.ErrAbortHandler)
	}
	body, tooLarge := e.read(a, c, w, r)
	e.pause(a.platform, a.endpoint, beforeAct)

	var ans answer
	processed := fault.Processed || fault.Status == 0
	switch {
	case !processed:
	case tooLarge:
		ans = a.tooLarge()
	default:
		ans = a.act(c, r, body)
	}
	e.pause(a.platform, a.endpoint, beforeAnswer)
	if fault.Cut {
		e.finish(c, nil, true)
		panic(http.ErrAbortHandler)
	}
	if fault.Status != 0 {
		ans = answer{status: fault.Status, header: fault.Header, body: []byte(fault.Body)}
		if a.platform == "line" {
			ans.header = withHeader(ans.header, "X-Line-Request-Id", requestID())
		}
	}
	// Recorded before it is sent: who has the answer also finds it here.
	e.finish(c, &ans, processed)
	ans.write(w)
}

// begin records that a call came, and what failure it meets. It counts the handler; the caller counts it out.
func (e *Emulator) begin(a api, r *http.Request) (*Call, Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		panic(http.ErrAbortHandler)
	}
	e.handlers.Add(1)
	c := &Call{
		Seq: len(e.calls) + 1, At: e.now(), Platform: a.platform, Endpoint: a.endpoint,
		Method: r.Method, Path: r.URL.RequestURI(), Header: publicHeader(r.Header),
	}
	e.calls = append(e.calls, c)
	fault, failing := e.takeFault(a.platform, a.endpoint)
	if failing {
		c.Fault = fault.Name
	}
	e.bump()
	return c, fault
}

// read reads a call's body, and records it without the tokens.
func (e *Emulator) read(a api, c *Call, w http.ResponseWriter, r *http.Request) (body []byte, tooLarge bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.bodyLimit))
	tooLarge = errors.As(err, new(*http.MaxBytesError))
	if err != nil && !tooLarge {
		e.finish(c, nil, false)
		panic(http.ErrAbortHandler) // the caller went away in mid-sentence
	}
	authorized := a.authorized == nil || a.authorized(r, body)
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Body = body
	for _, token := range a.tokens {
		c.Body = bytes.ReplaceAll(c.Body, []byte(token), []byte("<token>"))
	}
	c.Authorized = authorized
	if a.arrive != nil && !tooLarge {
		a.arrive(c, r, body)
	}
	return body, tooLarge
}

func (a answer) write(w http.ResponseWriter) {
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	if a.status != http.StatusNoContent {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

func (e *Emulator) finish(c *Call, ans *answer, processed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Done, c.Processed = true, processed
	if ans != nil {
		c.Status, c.Answer = ans.status, ans.body
		c.AnswerHeader = http.Header{}
		for k, v := range ans.header {
			c.AnswerHeader.Set(k, v)
		}
	}
	e.bump()
	e.log.Debug("call", "platform", c.Platform, "endpoint", string(c.Endpoint), "status", c.Status, "fault", c.Fault)
}

func withHeader(header map[string]string, key, value string) map[string]string {
	with := map[string]string{key: value}
	for k, v := range header {
		with[k] = v
	}
	return with
}

func publicHeader(h http.Header) http.Header {
	public := h.Clone()
	for _, secret := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
		public.Del(secret)
	}
	return public
}

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// routes is the whole outside: two APIs, the response URLs, the sockets, people's own webhooks and
// the page.
func (e *Emulator) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/line/", e.LINE.api.serve)
	mux.HandleFunc("/slack/api/{method}", e.Slack.api.serve)
	mux.HandleFunc("/slack/hooks/", e.Slack.api.serveHook)
	mux.HandleFunc("GET /slack/link/", e.Slack.Sockets.serve)
	mux.HandleFunc("/webhook/{person}", e.Webhooks.serve)
	e.Page.routes(mux)
	return mux
}
