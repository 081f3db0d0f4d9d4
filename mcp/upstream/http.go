package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/mcp"
)

const (
	aside        = 10 * time.Second // for messages beside the calls: that one is cancelled, that the session is over
	drainTime    = time.Second      // for the end of a stream whose answer is there
	resumeWait   = time.Second      // before a broken stream is taken up again, unless the server says
	resumeLeast  = 20 * time.Millisecond
	resumeMost   = 30 * time.Second
	resumeTries  = 5       // in a row that fail
	maxErrorBody = 1 << 20 // of what comes with a status that is an error, in bytes
)

var (
	errSessionLost    = errors.New("the server does not know the session any more")
	errSessionRefused = errors.New("the server refuses what is sent in the session")
)

// streamable is a connection over HTTP. There is no connection in the sense of the network: it is the
// hello, a session where the server wants one, and what is in flight.
type streamable struct {
	base
	url       *url.URL
	transport http.RoundTripper
	owned     *http.Transport             // the same, if it is ours to close
	tells     bool                        // it is traced: nothing it does not tell of has happened
	header    atomic.Pointer[http.Header] // of every request; replaced, never changed
	session   atomic.Bool                 // the server opened one

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	// listening ends with the connection, before Close: nobody waits for what comes by itself.
	listening context.Context
	deaf      context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  int           // in flight
	idle   chan struct{} // closed when there are none; nil: nobody waits for it
	closer sync.Once
}

// NewTransport returns what HTTP goes through by default. It follows no redirects, since nobody does who
// uses it directly; it speaks HTTP/1.1, where it is known whether a request was written; and it closes
// idle connections before servers do, most of which wait 5 s, so that no request is lost between the two.
func NewTransport() *http.Transport {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 256,

		MaxResponseHeaderBytes: 256 << 10, // what follows is bounded by maxMessage
		IdleConnTimeout:        4 * time.Second,
		DisableCompression:     true,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

func dialHTTP(ctx context.Context, cfg Config, u *url.URL, peer Peer) (Conn, error) {
	c := &streamable{url: u, transport: cfg.Transport}
	c.init(cfg, peer)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.listening, c.deaf = context.WithCancel(c.ctx)
	if c.transport == nil {
		c.owned = NewTransport()
		c.transport = c.owned
	}
	_, c.tells = c.transport.(*http.Transport)
	h := http.Header{}
	for name, values := range cfg.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if u.User != nil {
		password, _ := u.User.Password()
		if h.Get("Authorization") == "" {
			h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		}
		u.User = nil
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "countersign")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	c.header.Store(&h)

	err := c.greet(ctx)
	if err == nil {
		return c, nil
	}
	c.Close()
	if ctx.Err() != nil {
		err = &plainError{"the server did not say what it is in time", ctx.Err()}
	}
	return nil, err
}

func (c *streamable) greet(ctx context.Context) error {
	plain := *c.header.Load()
	c.set(mcp.HeaderVersion, mcp.VersionModern)
	modern := Hello{Era: mcp.Modern}
	c.said.Store(&modern)
	// A server that swallows what it does not know must leave time for initialize.
	short, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout/2)
	m, err := c.Do(short, c.discover())
	cancel()
	if h, ok := readDiscover(m); err == nil && ok {
		c.said.Store(&h)
		return nil
	}
	if _, status := errors.AsType[*statusError](err); err != nil && !status && !Sent(err) {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.said.Store(new(Hello))
	c.header.Store(&plain)
	m, err = c.Do(ctx, c.initialize())
	if err != nil {
		return err
	}
	h, err := readInitialize(m)
	if err != nil {
		return err
	}
	c.said.Store(&h)
	if h.Version >= "2025-06-18" {
		c.set(mcp.HeaderVersion, h.Version)
	}
	if err := c.Notify(ctx, "notifications/initialized", nil); err != nil {
		return err
	}
	c.running.Go(c.listen)
	return nil
}

// set puts one more header into every request from now on.
func (c *streamable) set(name, value string) {
	h := c.header.Load().Clone()
	h.Set(name, value)
	c.header.Store(&h)
}

// enter begins something in flight, unless the connection is over.
func (c *streamable) enter() error {
	if err := c.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.calls++
	return nil
}

func (c *streamable) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls--; c.calls == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Busy reports whether a connection over HTTP has requests in flight. One to a process is shared, and counts as busy.
func Busy(conn Conn) bool {
	c, ok := conn.(*streamable)
	return !ok || c.busy() != nil
}

// busy returns what is closed when nothing is in flight any more, nil where that is now.
func (c *streamable) busy() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 {
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}

// exchange is one request of HTTP on its way.
type exchange struct {
	trace  httptrace.ClientTrace
	traced atomic.Bool // the transport tells how far it gets
	sent   atomic.Bool // it has a connection to go out on
}

// send makes a request of HTTP. sent says whether the server may have seen it.
//
// The transport sends a POST again by itself only on a connection that it finds closed before a byte is
// written, and every attempt asks for a connection anew: the last one tells.
func (c *streamable) send(ctx context.Context, method string, h http.Header, body []byte) (res *http.Response, sent bool, err error) {
	x := new(exchange)
	x.trace.GetConn = func(string) { x.traced.Store(true); x.sent.Store(false) }
	x.trace.GotConn = func(httptrace.GotConnInfo) { x.sent.Store(true) }
	r := &http.Request{Method: method, URL: c.url, Host: c.url.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		// With one of these a transport takes even a POST that was written for one that it may repeat.
		if h["Idempotency-Key"] == nil && h["X-Idempotency-Key"] == nil {
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		}
	}
	res, err = c.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, &x.trace)))
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // it would repeat the URL
		}
		if sent = x.sent.Load(); !x.traced.Load() {
			sent = !c.tells && !dialFailed(err)
		}
		if sent {
			return nil, true, fmt.Errorf("the connection to the server broke: %w", err)
		}
		return nil, false, fmt.Errorf("the server cannot be reached: %w", err)
	}
	return res, true, nil
}

// dialFailed knows the error of a connection that did not come about, for transports that do not trace.
func dialFailed(err error) bool {
	o, ok := errors.AsType[*net.OpError](err)
	return ok && o.Op == "dial"
}

// statusError is an answer of HTTP that is none of MCP.
type statusError struct{ code int }

func (e *statusError) Error() string {
	s := fmt.Sprintf("the server answered with HTTP %d %s", e.code, http.StatusText(e.code))
	if e.code/100 == 3 {
		s += ", and redirects are not followed"
	}
	return strings.TrimRight(s, " ")
}

// refused reports whether the request was certainly not acted on.
func (e *statusError) refused() bool {
	switch e.code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// errNoMessage says that what came back with a good status is no answer of MCP.
var errNoMessage = errors.New("the server's answer is not taken")

func (c *streamable) Do(ctx context.Context, r Request) (mcp.Message, error) {
	if err := ctx.Err(); err != nil {
		return mcp.Message{}, notSent(err)
	}
	if err := c.enter(); err != nil {
		return mcp.Message{}, notSent(err)
	}
	// The exchange has a context of its own: the end of a stream may be read after Do has returned.
	own, cancel := context.WithCancel(c.ctx)
	stop := context.AfterFunc(ctx, cancel)
	m, body, sent, err := c.do(own, r)
	stop()
	if body != nil && err == nil {
		c.finish(body, cancel)
	} else {
		if body != nil {
			body.Close()
		}
		cancel()
	}
	c.leave()
	if err == nil {
		return m, nil
	}
	if ctx.Err() != nil {
		if err = ctx.Err(); sent && c.said.Load().Era == mcp.Legacy && r.Method != "initialize" {
			c.aside(cancelled(r.ID, err))
		}
	} else if c.ctx.Err() != nil {
		err = errClosed
	}
	return mcp.Message{}, &Error{Sent: sent, Err: err}
}

// do sends a request and reads its answer. A body that it returns is still to be read to its end, or closed.
func (c *streamable) do(ctx context.Context, r Request) (m mcp.Message, body io.ReadCloser, sent bool, err error) {
	h := *c.header.Load()
	legacy := c.said.Load().Era == mcp.Legacy
	if !legacy || r.Header != nil {
		all := make(http.Header, len(h)+len(r.Header)+2)
		maps.Copy(all, h)
		maps.Copy(all, r.Header)
		if h = all; !legacy {
			h[mcp.HeaderMethod] = []string{mcp.EncodeHeader(r.Method)}
			if h[mcp.HeaderName] == nil {
				if name := mcp.NameOf(r.Method, r.Params); name != "" {
					h[mcp.HeaderName] = []string{mcp.EncodeHeader(name)}
				}
			}
		}
	}
	res, sent, err := c.send(ctx, http.MethodPost, h, mcp.Request(r.ID, r.Method, r.Params).Bytes())
	if err != nil {
		return m, nil, sent, err
	}
	if res.StatusCode/100 != 2 {
		m, sent, err = c.refusal(res, r.ID)
		return m, nil, sent, err
	}
	if r.Method == "initialize" {
		if session := res.Header.Get(mcp.HeaderSession); session != "" {
			c.set(mcp.HeaderSession, session)
			c.session.Store(true)
		}
	}
	switch mediaType(res.Header) {
	case "application/json":
		raw, err := readAll(res.Body, res.ContentLength, maxMessage)
		res.Body.Close()
		if err != nil {
			return m, nil, true, fmt.Errorf("the server's answer broke off: %w", err)
		}
		m, bad := mcp.Parse(raw)
		if bad != nil {
			return m, nil, true, fmt.Errorf("%w: %s", errNoMessage, bad.Message)
		}
		if m, err = whose(m, r.ID); err != nil {
			return m, nil, true, err
		}
		return m, nil, true, nil
	case "text/event-stream":
		m, body, err := c.follow(ctx, r, res.Body, legacy)
		return m, body, true, err
	}
	res.Body.Close()
	if res.StatusCode == http.StatusAccepted || res.StatusCode == http.StatusNoContent {
		return m, nil, true, fmt.Errorf("%w: it took the request (HTTP %d) and gave no answer", errNoMessage, res.StatusCode)
	}
	return m, nil, true, fmt.Errorf("%w: it is neither JSON nor a stream of events", errNoMessage)
}

// whose checks that a message answers the request. An error without an id does: the server could not read it.
func whose(m mcp.Message, id jsontext.Value) (mcp.Message, error) {
	if !m.IsResponse() || string(m.ID) != string(id) && (m.Err == nil || string(m.ID) != "null") {
		return mcp.Message{}, fmt.Errorf("%w: it answers something else", errNoMessage)
	}
	m.ID = id
	return m, nil
}

// refusal reads what came with a status that is an error: an error of MCP is the answer.
func (c *streamable) refusal(res *http.Response, id jsontext.Value) (mcp.Message, bool, error) {
	defer res.Body.Close()
	raw, err := readAll(res.Body, res.ContentLength, maxErrorBody)
	if c.lost(res) {
		return mcp.Message{}, false, errSessionLost
	}
	if err == nil && id != nil && mediaType(res.Header) == "application/json" {
		if m, bad := mcp.Parse(raw); bad == nil && m.Err != nil {
			if res.StatusCode == http.StatusBadRequest && string(m.ID) == "null" && c.session.Load() {
				// Many servers say this, and not 404, of a session that they have forgotten.
				c.over(errSessionRefused)
			}
			if m, err := whose(m, id); err == nil {
				return m, true, nil
			}
		}
	}
	status := &statusError{res.StatusCode}
	return mcp.Message{}, !status.refused(), status
}

// lost ends the connection if the server has forgotten the session.
func (c *streamable) lost(res *http.Response) bool {
	if res.StatusCode != http.StatusNotFound || !c.session.Load() {
		return false
	}
	c.session.Store(false)
	c.over(errSessionLost)
	return true
}

// over ends the connection for what comes; what is in flight may still be answered.
func (c *streamable) over(err error) {
	c.fail(err)
	c.deaf()
}

func mediaType(h http.Header) string {
	v, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(v))
}

// readAll reads a body to its end.
func readAll(r io.Reader, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return nil, errTooLong
	}
	size := 512
	if length >= 0 {
		size = int(length) + 1 // one more, so that the end is seen
	}
	b := make([]byte, 0, size)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		case len(b) > limit:
			return nil, errTooLong
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}

// finish reads a stream to its end, so that its connection can serve again.
func (c *streamable) finish(body io.ReadCloser, cancel context.CancelFunc) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		body.Close()
		cancel()
		return
	}
	c.running.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.running.Done()
		late := time.AfterFunc(drainTime, cancel)
		io.Copy(io.Discard, io.LimitReader(body, 64<<10))
		late.Stop()
		body.Close()
		cancel()
	}()
}

// follow reads the stream that a request was answered with until the answer is there. Where a legacy
// server lets it break off, or ends it on purpose, it is taken up again from the last event.
func (c *streamable) follow(ctx context.Context, r Request, body io.ReadCloser, legacy bool) (mcp.Message, io.ReadCloser, error) {
	take := func(m mcp.Message) {
		if m.IsNotification() && m.Method != "notifications/cancelled" && r.On != nil {
			r.On(m)
			return
		}
		ask := r.Ask
		if ask == nil {
			ask = c.peer.Ask
		}
		c.take(ctx, m, ask)
	}
	var last string
	wait := resumeWait
	for failed := 0; ; {
		e := newEvents(body)
		e.id = last
		m, err := c.stream(e, r.ID, take)
		last = e.id
		if e.retry >= 0 {
			wait = e.retry
		}
		e.release()
		if err == nil {
			return m, body, nil
		}
		body.Close()
		switch {
		case ctx.Err() != nil:
			return m, nil, ctx.Err()
		case errors.Is(err, errTooLong), errors.Is(err, errNoMessage):
			return m, nil, err
		case !legacy || last == "":
			return m, nil, fmt.Errorf("the server's answer broke off: %w", ended(err))
		}
		for {
			if !pause(ctx, wait) {
				return m, nil, ctx.Err()
			}
			res, err := c.get(ctx, last, true)
			if err == nil {
				body, failed = res.Body, 0
				break
			}
			status, final := errors.AsType[*statusError](err)
			if failed++; failed >= resumeTries || errors.Is(err, errSessionLost) || final && status.code < 500 {
				return m, nil, fmt.Errorf("the server's answer broke off and cannot be taken up again: %w", err)
			}
			wait = min(2*max(wait, resumeLeast), resumeMost)
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the stream ended before it")
	}
	return err
}

// pause waits, if only a moment, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, resumeLeast))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stream reads messages until the answer to id, or the end.
func (c *streamable) stream(e *events, id jsontext.Value, take func(mcp.Message)) (mcp.Message, error) {
	for {
		data, err := e.next()
		if err != nil {
			return mcp.Message{}, err
		}
		m, bad := mcp.Parse(data)
		switch {
		case bad != nil:
			if id != nil && string(answeredID(bytes.TrimSpace(data))) == string(id) {
				return mcp.Message{}, fmt.Errorf("%w: %s", errNoMessage, bad.Message)
			}
			c.log.Debug("an event that is no message is skipped", "bytes", len(data))
		case !m.IsResponse():
			take(m)
		case id == nil:
			c.log.Debug("an answer to no request in flight is dropped", "id", string(m.ID))
		default:
			if m, err := whose(m, id); err == nil {
				return m, nil
			}
			c.log.Debug("an answer to another request is dropped", "id", string(m.ID))
		}
	}
}

// take hands on what is no answer: to whom it asks, or to the peer.
func (c *streamable) take(ctx context.Context, m mcp.Message, ask func(context.Context, mcp.Message) mcp.Message) {
	switch {
	case m.Method == "notifications/cancelled":
		c.takeBack(m.Params)
	case m.IsNotification():
		c.notify(m)
	case c.said.Load().Era == mcp.Modern:
		c.log.Debug("a server of the modern era asked something, which it may not", "method", m.Method)
	default:
		c.answer(ctx, m, ask, c.aside)
	}
}

// aside posts a message that nobody waits for.
func (c *streamable) aside(m mcp.Message) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.running.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.running.Done()
		ctx, cancel := context.WithTimeout(c.ctx, aside)
		defer cancel()
		if err := c.post(ctx, m, nil); err != nil {
			c.log.Debug("a message did not reach the server", "error", err)
		}
	}()
}

// post sends a message that has no answer.
func (c *streamable) post(ctx context.Context, m mcp.Message, more http.Header) error {
	h := *c.header.Load()
	if more != nil {
		h = h.Clone()
		maps.Copy(h, more)
	}
	res, sent, err := c.send(ctx, http.MethodPost, h, m.Bytes())
	if err != nil {
		return &Error{Sent: sent, Err: err}
	}
	if res.StatusCode/100 != 2 {
		_, sent, err = c.refusal(res, nil)
		return &Error{Sent: sent, Err: err}
	}
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	res.Body.Close()
	return nil
}

func (c *streamable) Notify(ctx context.Context, method string, params jsontext.Value) error {
	if err := c.enter(); err != nil {
		return notSent(err)
	}
	defer c.leave()
	var more http.Header
	if c.said.Load().Era == mcp.Modern {
		more = http.Header{mcp.HeaderMethod: {mcp.EncodeHeader(method)}}
	}
	own, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err := c.post(own, mcp.Notification(method, params), more)
	if err != nil && ctx.Err() != nil {
		return &Error{Sent: Sent(err), Err: ctx.Err()}
	}
	return err
}

// get opens a stream of what a legacy server sends by itself, or of what followed the event last.
// again says that the server has given such a stream before.
func (c *streamable) get(ctx context.Context, last string, again bool) (*http.Response, error) {
	h := c.header.Load().Clone()
	h.Del("Content-Type")
	h.Set("Accept", "text/event-stream")
	if last != "" {
		h.Set(mcp.HeaderLastEvent, last)
	}
	res, _, err := c.send(ctx, http.MethodGet, h, nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK && mediaType(res.Header) == "text/event-stream" {
		return res, nil
	}
	io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10))
	res.Body.Close()
	if again && c.lost(res) {
		return nil, errSessionLost
	}
	if res.StatusCode/100 == 2 {
		return nil, &statusError{http.StatusMethodNotAllowed} // it has no such stream and does not say so
	}
	return nil, &statusError{res.StatusCode}
}

// listen keeps open the stream of what a legacy server sends by itself, if it has one.
func (c *streamable) listen() {
	var last string
	wait, heard := resumeWait, false
	for first := true; ; first = false {
		if !first && !pause(c.listening, wait) {
			return
		}
		res, err := c.get(c.listening, last, heard)
		if err != nil {
			if status, ok := errors.AsType[*statusError](err); ok && status.code < 500 || errors.Is(err, errSessionLost) {
				if status != nil && status.code != http.StatusMethodNotAllowed {
					c.log.Debug("there is no stream of what the server sends by itself", "error", err)
				}
				return
			}
			wait = min(2*wait, resumeMost) + rand.N(resumeWait)
			continue
		}
		wait, heard = resumeWait, true
		e := quietEvents(res.Body)
		e.id = last
		c.stream(e, nil, func(m mcp.Message) { c.take(c.listening, m, c.peer.Ask) })
		if last = e.id; e.retry >= 0 {
			wait = e.retry
		}
		e.release()
		res.Body.Close()
	}
}

// probe asks whether the server is still there. Any answer of its own will do, but in a session only a
// good one: there is nothing in a ping to refuse but the session.
func (c *streamable) probe(ctx context.Context) error {
	r := Request{ID: c.NewID(), Method: "ping"}
	if c.said.Load().Era == mcp.Modern {
		r = c.discover()
	}
	m, err := c.Do(ctx, r)
	if m.Err != nil && c.session.Load() {
		return errSessionRefused
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		switch status.code {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return err
		}
		return nil
	}
	return err
}

// Close ends the session and everything in flight.
func (c *streamable) Close() error {
	c.over(errClosed)
	c.closer.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		if c.session.Load() {
			ctx, cancel := context.WithTimeout(c.ctx, grace)
			if res, _, err := c.send(ctx, http.MethodDelete, *c.header.Load(), nil); err == nil {
				res.Body.Close()
			}
			cancel()
		}
		c.cancel()
		if busy := c.busy(); busy != nil {
			<-busy
		}
		c.running.Wait()
		if c.owned != nil {
			c.owned.CloseIdleConnections()
		}
	})
	return nil
}
