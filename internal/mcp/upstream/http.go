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

	"countersign/internal/mcp"
)

const (
	postAsyncTimeout   = 10 * time.Second // for messages beside the calls: that one is cancelled, that the session is over
	drainTimeout       = time.Second      // for the end of a stream whose answer is there
	resumeWait         = time.Second      // before a broken stream is taken up again, unless the server says
	shortestResumeWait = 20 * time.Millisecond
	longestResumeWait  = 30 * time.Second
	resumeTries        = 5       // in a row that fail
	maxErrorBody       = 1 << 20 // of what comes with a status that is an error, in bytes
)

var (
	errSessionLost    = errors.New("the server does not know the session any more")
	errSessionRefused = errors.New("the server refuses what is sent in the session")
)

// httpConn is a connection over HTTP. There is no connection in the sense of the network: it is the
// hello, a session where the server wants one, and what is in flight.
type httpConn struct {
	connBase
	url          *url.URL
	transport    http.RoundTripper
	ownTransport *Transport                  // the same, if it is ours to close
	traceable    bool                        // it is traced: nothing it does not tell of has happened
	header       atomic.Pointer[http.Header] // of every request; replaced, never changed
	inSession    atomic.Bool                 // the server opened one

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	// listening ends with the connection, before Close: no caller waits for what comes by itself.
	listening     context.Context
	stopListening context.CancelFunc

	mu        sync.Mutex
	closed    bool
	inflight  map[*inflight]struct{} // in flight
	drained   chan struct{}          // closed when there are none; nil: no goroutine waits for it
	closeOnce sync.Once
}

// inflight is a request of HTTP in flight, with its answer. It ends with the caller, and with the connection.
type inflight struct {
	c    *httpConn
	ctx  context.Context // of the caller
	conn *directConn     // that it goes over; c.mu guards it

	// own ends with both, where something needs a context of the two: a connection of the pool does not.
	own    context.Context
	cancel context.CancelFunc
	stop   func() bool
}

// context returns one that ends with the caller and with the connection.
func (x *inflight) context() context.Context {
	if x.own == nil {
		x.own, x.cancel = context.WithCancel(x.c.ctx)
		x.stop = context.AfterFunc(x.ctx, x.cancel)
	}
	return x.own
}

// detach returns what ends what is left of the exchange, which the caller does not end any more.
func (x *inflight) detach() context.CancelFunc {
	x.context()
	x.stop()
	return x.cancel
}

func (x *inflight) err() error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	return x.c.ctx.Err()
}

// hold tells which connection of the pool the exchange goes over, and reports false where it is over.
func (x *inflight) hold(conn *directConn) bool {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	if x.c.closed {
		return false
	}
	x.conn = conn
	return true
}

// release tells that it does not any more.
func (x *inflight) release() {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	x.conn = nil
}

func dialHTTP(ctx context.Context, cfg Config, u *url.URL, peer Peer) (Conn, error) {
	c := &httpConn{url: u, transport: cfg.Transport, inflight: map[*inflight]struct{}{}}
	c.init(cfg, peer)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.listening, c.stopListening = context.WithCancel(c.ctx)
	if c.transport == nil {
		c.ownTransport = NewTransport()
		c.transport = c.ownTransport
	}
	switch c.transport.(type) {
	case *Transport, *http.Transport:
		c.traceable = true
	}
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

	err := c.handshake(ctx)
	if err == nil {
		return c, nil
	}
	c.Close()
	if ctx.Err() != nil {
		err = notInTime(ctx, cfg)
	}
	return nil, err
}

func (c *httpConn) handshake(ctx context.Context) error {
	plain := *c.header.Load()
	c.setHeader(mcp.HeaderVersion, mcp.VersionModern)
	modern := Hello{Era: mcp.Modern}
	c.hello.Store(&modern)
	// A server that swallows what it does not know must leave time for initialize.
	short, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout/2)
	m, err := c.Do(short, c.discoverRequest())
	cancel()
	if h, ok := parseDiscover(m); err == nil && ok {
		c.hello.Store(&h)
		return nil
	}
	if _, status := errors.AsType[*statusError](err); err != nil && !status && !Sent(err) {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.hello.Store(new(Hello))
	c.header.Store(&plain)
	m, err = c.Do(ctx, c.initializeRequest())
	if err != nil {
		return err
	}
	h, err := parseInitialize(m)
	if err != nil {
		return err
	}
	c.hello.Store(&h)
	if h.Version >= "2025-06-18" {
		c.setHeader(mcp.HeaderVersion, h.Version)
	}
	if err := c.Notify(ctx, "notifications/initialized", nil); err != nil {
		return err
	}
	c.group.Go(c.listen)
	return nil
}

// setHeader puts one more header into every request from now on.
func (c *httpConn) setHeader(name, value string) {
	h := c.header.Load().Clone()
	h.Set(name, value)
	c.header.Store(&h)
}

// beginExchange begins something in flight, unless the connection is over.
func (c *httpConn) beginExchange(ctx context.Context) (*inflight, error) {
	x := &inflight{c: c, ctx: ctx}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	if c.closed {
		return nil, errClosed
	}
	c.inflight[x] = struct{}{}
	return x, nil
}

func (c *httpConn) endExchange(x *inflight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.inflight, x); len(c.inflight) == 0 && c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
}

// Busy reports whether a connection over HTTP has requests in flight. One to a process is shared, and counts as busy.
func Busy(conn Conn) bool {
	c, ok := conn.(*httpConn)
	return !ok || c.untilIdle() != nil
}

// StopIfIdle has a connection over HTTP begin no more requests, and reports whether it does: one with requests in
// flight stays as it is. It is still to be closed.
func StopIfIdle(conn Conn) bool {
	c, ok := conn.(*httpConn)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inflight) > 0 {
		return false
	}
	c.fail(errClosed)
	return true
}

// untilIdle returns what is closed when nothing is in flight any more, nil where that is now.
func (c *httpConn) untilIdle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inflight) == 0 {
		return nil
	}
	if c.drained == nil {
		c.drained = make(chan struct{})
	}
	return c.drained
}

// sendTrace tells how far one HTTP request got.
type sendTrace struct {
	trace     httptrace.ClientTrace
	supported atomic.Bool // the transport tells how far it gets
	connected atomic.Bool // it has a connection to go out on
}

// roundTrip makes a request of HTTP. sent says whether the server may have seen it.
func (c *httpConn) roundTrip(ctx context.Context, method string, h http.Header,
	body []byte) (res *http.Response, sent bool, err error) {
	return c.roundTripIn(ctx, nil, method, h, body)
}

// roundTripIn is roundTrip in an exchange; ctx is that of the caller then. Without one, x is nil.
func (c *httpConn) roundTripIn(ctx context.Context, x *inflight, method string, h http.Header,
	body []byte) (res *http.Response, sent bool, err error) {
	r := (&http.Request{Method: method, URL: c.url, Host: c.url.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		// With one of these a transport takes even a POST that was written for one that it may repeat.
		if h["Idempotency-Key"] == nil && h["X-Idempotency-Key"] == nil {
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		}
	}
	if res, sent, err = c.send(x, r); err == nil {
		return res, true, nil
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // it would repeat the URL
	}
	if sent {
		return nil, true, fmt.Errorf("the connection to the server broke: %w", err)
	}
	return nil, false, fmt.Errorf("the server cannot be reached: %w", err)
}

// send has the transport make a request.
//
// [http.Transport] sends a POST again by itself only on a connection that it finds closed before a byte is written,
// and every attempt asks for a connection anew: the last one tells whether it was sent.
func (c *httpConn) send(x *inflight, r *http.Request) (res *http.Response, sent bool, err error) {
	if t, ok := c.transport.(*Transport); ok {
		if p := t.direct(r); p != nil {
			return p.roundTrip(x, r)
		}
	}
	ctx := r.Context()
	if x != nil {
		ctx = x.context()
	}
	t := new(sendTrace)
	t.trace.GetConn = func(string) { t.supported.Store(true); t.connected.Store(false) }
	t.trace.GotConn = func(httptrace.GotConnInfo) { t.connected.Store(true) }
	res, err = c.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, &t.trace)))
	if sent = t.connected.Load(); err != nil && !t.supported.Load() {
		sent = !c.traceable && !dialFailed(err)
	}
	return res, sent, err
}

// dialFailed knows the error of a connection that did not come about, for transports that do not trace.
func dialFailed(err error) bool {
	o, ok := errors.AsType[*net.OpError](err)
	return ok && o.Op == "dial"
}

// errBadAnswer says that what came back with a good status is no answer of MCP.
var errBadAnswer = errors.New("the server's answer cannot be used")

func (c *httpConn) Do(ctx context.Context, r Request) (mcp.Message, error) {
	if err := ctx.Err(); err != nil {
		return mcp.Message{}, notSent(err)
	}
	x, err := c.beginExchange(ctx)
	if err != nil {
		return mcp.Message{}, notSent(err)
	}
	m, body, sent, err := c.do(x, r)
	direct, ok := body.(*directBody)
	switch {
	case ok && err == nil && direct.leave():
	case !ok && body != nil && err == nil: // the end of a stream may be read after Do has returned
		c.drain(body, x.detach())
		x.own = nil
	case body != nil:
		body.Close()
	}
	if x.own != nil {
		x.detach()()
	}
	c.endExchange(x)
	if err == nil {
		return m, nil
	}
	if ctx.Err() != nil {
		if err = ctx.Err(); sent && c.hello.Load().Era == mcp.Legacy && r.Method != "initialize" {
			c.postAsync(cancelledNotification(r.ID, err))
		}
	} else if c.ctx.Err() != nil {
		err = errClosed
	}
	return mcp.Message{}, &Error{Sent: sent, Err: err}
}

// do sends a request and reads its answer. A body that it returns is still to be read to its end, or closed.
func (c *httpConn) do(x *inflight, r Request) (m mcp.Message, body io.ReadCloser, sent bool, err error) {
	res, sent, err := c.roundTripIn(x.ctx, x, http.MethodPost, c.requestHeader(r),
		mcp.Request(r.ID, r.Method, r.Params).Bytes())
	if err != nil {
		return m, nil, sent, err
	}
	if res.StatusCode/100 != 2 {
		m, sent, err = c.readRefusal(res, r.ID)
		return m, nil, sent, err
	}
	if r.Method == "initialize" {
		if session := res.Header.Get(mcp.HeaderSession); session != "" {
			c.setHeader(mcp.HeaderSession, session)
			c.inSession.Store(true)
		}
	}
	switch mediaType(res.Header) {
	case "application/json":
		raw, err := readAll(res.Body, res.ContentLength, maxMessage)
		res.Body.Close()
		if err != nil {
			return m, nil, true, fmt.Errorf("the server's answer broke off: %w", err)
		}
		m, bad := mcp.ParseAnswer(raw)
		if bad != nil {
			return m, nil, true, fmt.Errorf("%w: %s", errBadAnswer, bad.Message)
		}
		if m, err = checkAnswers(m, r.ID); err != nil {
			return m, nil, true, err
		}
		return m, nil, true, nil
	case "text/event-stream":
		m, body, err := c.followStream(x, r, res.Body)
		return m, body, true, err
	}
	res.Body.Close()
	if res.StatusCode == http.StatusAccepted || res.StatusCode == http.StatusNoContent {
		return m, nil, true, fmt.Errorf("%w: it took the request (HTTP %d) and gave no answer", errBadAnswer, res.StatusCode)
	}
	return m, nil, true, fmt.Errorf("%w: it is neither JSON nor a stream of events", errBadAnswer)
}

// requestHeader is what the request is sent with. The connection's own headers are shared, so they are copied before
// anything is added.
func (c *httpConn) requestHeader(r Request) http.Header {
	common, legacy := *c.header.Load(), c.hello.Load().Era == mcp.Legacy
	if legacy && r.Header == nil {
		return common
	}
	h := make(http.Header, len(common)+len(r.Header)+2)
	maps.Copy(h, common)
	maps.Copy(h, r.Header)
	if legacy {
		return h
	}
	h[mcp.HeaderMethod] = []string{mcp.EncodeHeader(r.Method)}
	if h[mcp.HeaderName] == nil {
		if name := mcp.NameOf(r.Method, r.Params); name != "" {
			h[mcp.HeaderName] = []string{mcp.EncodeHeader(name)}
		}
	}
	return h
}

// checkAnswers makes sure that a message answers the request. An error without an id does: the server could not read
// it.
func checkAnswers(m mcp.Message, id jsontext.Value) (mcp.Message, error) {
	if !m.IsResponse() || string(m.ID) != string(id) && (m.Err == nil || string(m.ID) != "null") {
		what := fmt.Sprintf("the request %.40s", m.ID)
		if !m.IsResponse() {
			what = fmt.Sprintf("%.40q", m.Method)
		}
		return mcp.Message{}, fmt.Errorf("%w: it answers something else than the request %s: %s", errBadAnswer, id, what)
	}
	m.ID = id
	return m, nil
}

// readRefusal reads what came with a status that is an error: an error of MCP is the answer.
func (c *httpConn) readRefusal(res *http.Response, id jsontext.Value) (mcp.Message, bool, error) {
	defer res.Body.Close()
	raw, err := readAll(res.Body, res.ContentLength, maxErrorBody)
	if c.sessionLost(res.StatusCode, raw, id) {
		return mcp.Message{}, false, errSessionLost
	}
	status := c.newStatusError(res, raw)
	if status.notActedOn() {
		return mcp.Message{}, false, status
	}
	if err == nil && id != nil && mediaType(res.Header) == "application/json" {
		if m, ok := c.errorAnswer(res.StatusCode, raw, id); ok {
			return m, true, nil
		}
	}
	return mcp.Message{}, true, status
}

// errorAnswer reads the error of MCP that came with a status, if there is one and it answers the request.
func (c *httpConn) errorAnswer(status int, raw []byte, id jsontext.Value) (mcp.Message, bool) {
	m, bad := mcp.ParseAnswer(raw)
	if bad != nil || m.Err == nil {
		return mcp.Message{}, false
	}
	if status == http.StatusBadRequest && string(m.ID) == "null" && c.inSession.Load() {
		// Many servers say this, and not 404, of a session that they have forgotten.
		c.stopAccepting(errSessionRefused)
	}
	m, err := checkAnswers(m, id)
	return m, err == nil
}

// sessionLost ends the connection if a refusal says that the server has forgotten the session.
func (c *httpConn) sessionLost(status int, body []byte, id jsontext.Value) bool {
	if !c.inSession.Load() || !saysSessionLost(status, body, id) {
		return false
	}
	c.inSession.Store(false)
	c.stopAccepting(errSessionLost)
	return true
}

// stopAccepting ends the connection for what comes; what is in flight may still be answered.
func (c *httpConn) stopAccepting(err error) {
	c.fail(err)
	c.stopListening()
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

// drain reads a stream to its end, so that its connection can serve again.
func (c *httpConn) drain(body io.ReadCloser, cancel context.CancelFunc) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		body.Close()
		cancel()
		return
	}
	c.group.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.group.Done()
		late := time.AfterFunc(drainTimeout, cancel)
		io.Copy(io.Discard, io.LimitReader(body, 64<<10))
		late.Stop()
		body.Close()
		cancel()
	}()
}

// followStream reads the stream that a request was answered with until the answer is there. Where a legacy
// server lets it break off, or ends it on purpose, it is taken up again from the last event.
func (c *httpConn) followStream(x *inflight, r Request,
	body io.ReadCloser) (mcp.Message, io.ReadCloser, error) {
	take := func(m mcp.Message) {
		if m.IsNotification() && m.Method != "notifications/cancelled" && r.OnNotification != nil {
			r.OnNotification(m)
			return
		}
		ask := r.Ask
		if ask == nil {
			ask = c.peer.Ask
		}
		c.dispatch(x.context(), m, ask)
	}
	var last string
	wait := resumeWait
	for failed := 0; ; {
		e := newEventReader(body)
		e.id = last
		m, err := c.readStream(e, r.ID, take)
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
		case x.err() != nil:
			return m, nil, x.err()
		case errors.Is(err, errTooLong), errors.Is(err, errBadAnswer):
			return m, nil, err
		case c.hello.Load().Era == mcp.Modern || last == "":
			return m, nil, fmt.Errorf("the server's answer broke off: %w", streamEnded(err))
		}
		for {
			if !sleep(x.context(), wait) {
				return m, nil, x.err()
			}
			res, err := c.resumeStream(x.context(), last)
			if err == nil {
				body, failed = res.Body, 0
				break
			}
			status, final := errors.AsType[*statusError](err)
			if failed++; failed >= resumeTries || errors.Is(err, errSessionLost) || final && status.code < 500 {
				return m, nil, fmt.Errorf("the server's answer broke off and cannot be continued: %w", err)
			}
			wait = min(2*max(wait, shortestResumeWait), longestResumeWait)
		}
	}
}

func streamEnded(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the stream ended before it")
	}
	return err
}

// sleep waits, if only a moment, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, shortestResumeWait))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// readStream reads messages until the answer to id, or the end.
func (c *httpConn) readStream(e *eventReader, id jsontext.Value, take func(mcp.Message)) (mcp.Message, error) {
	for {
		data, err := e.next()
		if err != nil {
			return mcp.Message{}, err
		}
		m, bad := mcp.ParseAnswer(data)
		switch {
		case bad != nil:
			if id != nil && string(answeredID(bytes.TrimSpace(data))) == string(id) {
				return mcp.Message{}, fmt.Errorf("%w: %s", errBadAnswer, bad.Message)
			}
			c.log.Debug("an event that is no message is skipped", "bytes", len(data))
		case !m.IsResponse():
			take(m)
		case id == nil:
			c.log.Debug("an answer to no request in flight is dropped", "id", string(m.ID))
		default:
			if m, err := checkAnswers(m, id); err == nil {
				return m, nil
			}
			c.log.Debug("an answer to another request is dropped", "id", string(m.ID))
		}
	}
}

// dispatch hands on what is no answer: to whom it asks, or to the peer.
func (c *httpConn) dispatch(ctx context.Context, m mcp.Message, ask func(context.Context, mcp.Message) mcp.Message) {
	switch {
	case m.Method == "notifications/cancelled":
		c.serverCancelled(m.Params)
	case m.IsNotification():
		c.notifyPeer(m)
	case c.hello.Load().Era == mcp.Modern:
		c.log.DebugContext(ctx, "a server of the modern era asked something, which it may not", "method", m.Method)
	default:
		c.answerServer(ctx, m, ask, c.postAsync)
	}
}

// postAsync posts a message that no caller waits for.
func (c *httpConn) postAsync(m mcp.Message) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.group.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.group.Done()
		ctx, cancel := context.WithTimeout(c.ctx, postAsyncTimeout)
		defer cancel()
		if err := c.post(ctx, m, nil); err != nil {
			c.log.DebugContext(ctx, "a message did not reach the server", "error", err)
		}
	}()
}

// post sends a message that has no answer.
func (c *httpConn) post(ctx context.Context, m mcp.Message, more http.Header) error {
	h := *c.header.Load()
	if more != nil {
		h = h.Clone()
		maps.Copy(h, more)
	}
	res, sent, err := c.roundTrip(ctx, http.MethodPost, h, m.Bytes())
	if err != nil {
		return &Error{Sent: sent, Err: err}
	}
	if res.StatusCode/100 != 2 {
		_, sent, err = c.readRefusal(res, nil)
		return &Error{Sent: sent, Err: err}
	}
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	res.Body.Close()
	return nil
}

func (c *httpConn) Notify(ctx context.Context, method string, params jsontext.Value) error {
	x, err := c.beginExchange(ctx)
	if err != nil {
		return notSent(err)
	}
	defer c.endExchange(x)
	var more http.Header
	if c.hello.Load().Era == mcp.Modern {
		more = http.Header{mcp.HeaderMethod: {mcp.EncodeHeader(method)}}
	}
	err = c.post(x.context(), mcp.Notification(method, params), more)
	x.detach()()
	if err != nil && ctx.Err() != nil {
		return &Error{Sent: Sent(err), Err: ctx.Err()}
	}
	return err
}

// openStream opens a stream of what a legacy server sends by itself, or of what followed the event last.
func (c *httpConn) openStream(ctx context.Context, last string) (*http.Response, error) {
	h := c.header.Load().Clone()
	h.Del("Content-Type")
	h.Set("Accept", "text/event-stream")
	if last != "" {
		h.Set(mcp.HeaderLastEvent, last)
	}
	res, _, err := c.roundTrip(ctx, http.MethodGet, h, nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK && mediaType(res.Header) == "text/event-stream" {
		return res, nil
	}
	io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10))
	res.Body.Close()
	if res.StatusCode/100 == 2 {
		return nil, &statusError{code: http.StatusMethodNotAllowed} // it has no such stream and does not say so
	}
	return nil, c.newStatusError(res, nil)
}

// resumeStream opens a stream such as the server has given before: if it now knows none, it has forgotten the session.
func (c *httpConn) resumeStream(ctx context.Context, last string) (*http.Response, error) {
	res, err := c.openStream(ctx, last)
	if status, ok := errors.AsType[*statusError](err); ok && c.sessionLost(status.code, nil, nil) {
		return nil, errSessionLost
	}
	return res, err
}

// listen keeps open the stream of what a legacy server sends by itself, if it has one.
func (c *httpConn) listen() {
	var last string
	wait, open := resumeWait, c.openStream
	for first := true; ; first = false {
		if !first && !sleep(c.listening, wait) {
			return
		}
		res, err := open(c.listening, last)
		if err != nil {
			if status, ok := errors.AsType[*statusError](err); ok && status.code < 500 || errors.Is(err, errSessionLost) {
				if status != nil && status.code != http.StatusMethodNotAllowed {
					c.log.Debug("there is no stream of what the server sends by itself", "error", err)
				}
				return
			}
			wait = min(2*wait, longestResumeWait) + rand.N(resumeWait)
			continue
		}
		wait, open = resumeWait, c.resumeStream
		e := newSmallEventReader(res.Body)
		e.id = last
		c.readStream(e, nil, func(m mcp.Message) { c.dispatch(c.listening, m, c.peer.Ask) })
		if last = e.id; e.retry >= 0 {
			wait = e.retry
		}
		e.release()
		res.Body.Close()
	}
}

// probe asks whether the server is still there. Any answer of its own will do, but in a session only a
// good one: there is nothing in a ping to refuse but the session.
func (c *httpConn) probe(ctx context.Context) error {
	r := Request{ID: c.NewID(), Method: "ping"}
	if c.hello.Load().Era == mcp.Modern {
		r = c.discoverRequest()
	}
	m, err := c.Do(ctx, r)
	if m.Err != nil && c.inSession.Load() {
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
func (c *httpConn) Close() error {
	c.stopAccepting(errClosed)
	c.closeOnce.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		if c.inSession.Load() {
			ctx, cancel := context.WithTimeout(c.ctx, grace)
			if res, _, err := c.roundTrip(ctx, http.MethodDelete, *c.header.Load(), nil); err == nil {
				res.Body.Close()
			}
			cancel()
		}
		c.cancel()
		c.mu.Lock()
		for x := range c.inflight {
			if x.conn != nil {
				_ = x.conn.Close()
			}
		}
		c.mu.Unlock()
		if busy := c.untilIdle(); busy != nil {
			<-busy
		}
		c.group.Wait()
		if c.ownTransport != nil {
			c.ownTransport.CloseIdleConnections()
		}
	})
	return nil
}
