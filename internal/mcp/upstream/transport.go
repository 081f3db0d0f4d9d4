package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Transport is what HTTP goes through by default. It follows no redirects, since no package does that uses it directly;
// it speaks HTTP/1.1, where it is known whether a request was written; and it closes idle connections before servers
// do, most of which wait 5 s, so that no request is lost between the two.
//
// A small POST over plain HTTP, which is what nearly every call is, goes over a connection of its own pool: the
// goroutine that sends it writes and reads by itself. In [http.Transport] each connection has two goroutines for that,
// and to wake them and to be woken by them takes a good part of what a call costs. All else goes through the latter.
type Transport struct {
	*http.Transport

	mu    sync.Mutex
	pools map[string]*pool // by host and port, as they stand in the URL
}

// maxDirect is the largest body that goes directly, in bytes: what a connection takes although its server does not
// read on, so that an answer that comes early is found.
const maxDirect = 32 << 10

// NewTransport returns a transport with the connections' limits set.
func NewTransport() *Transport {
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
	return &Transport{Transport: t, pools: map[string]*pool{}}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if p := t.direct(r); p != nil {
		res, _, err := p.roundTrip(nil, r)
		return res, err
	}
	return t.Transport.RoundTrip(r)
}

// direct returns the pool that a request goes through, nil for [http.Transport].
func (t *Transport) direct(r *http.Request) *pool {
	if r.Method == http.MethodPost && r.Body != nil && r.ContentLength > 0 && r.ContentLength <= maxDirect &&
		validHeader(r.Header) {
		return t.pool(r.URL)
	}
	return nil
}

// validHeader reports whether a header can be written as it is; [http.Transport] says of others what is wrong.
func validHeader(h http.Header) bool {
	for name, values := range h {
		if name == "" {
			return false
		}
		for i := range len(name) {
			if !isToken[name[i]] {
				return false
			}
		}
		for _, v := range values {
			for i := range len(v) {
				if v[i] < ' ' && v[i] != '\t' || v[i] == 0x7f {
					return false
				}
			}
		}
	}
	return true
}

// tokenBytes are what a header's name may consist of, of which no other than these are in use.
const tokenBytes = "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

var isToken = func() (is [256]bool) {
	for _, c := range []byte(tokenBytes) {
		is[c] = true
	}
	return is
}()

// pool returns the connections to the server of u, nil where they are left to [http.Transport].
func (t *Transport) pool(u *url.URL) *pool {
	if u.Scheme != "http" || !canPeek {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.pools[u.Host]
	if !ok {
		if !t.isProxied(u) && strings.Trim(u.Host, tokenBytes+".:[]") == "" {
			port := u.Port()
			if port == "" {
				port = "80"
			}
			p = &pool{t: t.Transport, address: net.JoinHostPort(u.Hostname(), port)}
		}
		t.pools[u.Host] = p
	}
	return p
}

// isProxied reports whether there is a proxy to be asked for u, as far as is known.
func (t *Transport) isProxied(u *url.URL) bool {
	if t.Proxy == nil {
		return false
	}
	proxy, err := t.Proxy(&http.Request{URL: u})
	return proxy != nil || err != nil
}

// CloseIdleConnections closes the connections that are idle.
func (t *Transport) CloseIdleConnections() {
	t.Transport.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pools {
		if p != nil {
			p.closeIdle(0)
		}
	}
}

// pool are the connections to one server.
type pool struct {
	t       *http.Transport
	address string

	mu    sync.Mutex
	idle  []*directConn // the one used last at the end
	timer *time.Timer   // closes those that are idle; nil: there was none yet
}

// directConn is a connection that one goroutine at a time writes to and reads from.
type directConn struct {
	net.Conn
	raw     syscall.RawConn // nil: it has no descriptor
	in      *bufio.Reader
	out     *bufio.Writer
	since   time.Time // when it was last used
	left    int64     // bytes that may still be read
	written bool      // something of the request is
	ending  bool      // the end of an answer's chunks is still to come
}

var errHeaderTooLarge = errors.New("the header of the server's answer is too large")

func (c *directConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderTooLarge
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	c.left -= int64(n)
	return n, err
}

func (c *directConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written = c.written || n > 0
	return n, err
}

// take returns an idle connection that can be used, the one used last if there are several. It closes those of which
// the server has let go.
func (p *pool) take() *directConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		c := p.idle[i]
		state := connBroken
		if time.Since(c.since) < p.t.IdleConnTimeout {
			state = c.look()
		}
		if state == connEnding {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		if state == connUsable {
			return c
		}
		_ = c.Close()
	}
	return nil
}

// look finds out what has come over an idle connection: nothing must have, but what ends the last answer.
func (c *directConn) look() connState {
	if c.raw == nil {
		return connUsable
	}
	var b [len(chunksEnd) + 1]byte
	n := 0
	if c.ending {
		held, _ := c.in.Peek(min(c.in.Buffered(), len(b)))
		n = copy(b[:], held)
	}
	come, err := peek(c.raw, b[n:])
	switch got := string(b[:n+come]); {
	case err != nil, !c.ending && come > 0:
		return connBroken
	case !c.ending:
		return connUsable
	case got == chunksEnd, got == chunksEnd[len("\r\n"):]:
		c.left = math.MaxInt64
		if _, err := c.in.Discard(len(got)); err != nil || c.in.Buffered() > 0 {
			return connBroken
		}
		c.ending = false
		return connUsable
	case (strings.HasPrefix(chunksEnd, got) || strings.HasPrefix(chunksEnd[len("\r\n"):], got)) &&
		time.Since(c.since) < drainTimeout:
		return connEnding
	}
	return connBroken
}

// chunksEnd is what follows the last bytes of a body in chunks. The line break before it may have been read.
const chunksEnd = "\r\n0\r\n\r\n"

// put takes a connection back.
func (p *pool) put(c *directConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= p.t.MaxIdleConnsPerHost {
		_ = c.Close()
		return
	}
	c.since = time.Now()
	p.idle = append(p.idle, c)
	switch {
	case len(p.idle) > 1:
	case p.timer == nil:
		p.timer = time.AfterFunc(p.t.IdleConnTimeout, func() { p.closeIdle(p.t.IdleConnTimeout) })
	default:
		p.timer.Reset(p.t.IdleConnTimeout)
	}
}

// closeIdle closes the connections that were not used for so long, and looks at the others again later.
func (p *pool) closeIdle(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].since) >= after {
		_ = p.idle[n].Close()
		n++
	}
	if p.idle = append([]*directConn(nil), p.idle[n:]...); len(p.idle) > 0 {
		p.timer.Reset(p.t.IdleConnTimeout - time.Since(p.idle[0].since))
	}
}

// dial opens a connection. One that comes after ctx has ended is there for others.
func (p *pool) dial(ctx context.Context) (*directConn, error) {
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed)
	go func() {
		conn, err := p.t.DialContext(ctx, "tcp", p.address)
		select {
		case done <- dialed{conn, err}:
		case <-ctx.Done():
			if err == nil {
				p.put(newDirectConn(conn))
			}
		}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, d.err
		}
		return newDirectConn(d.conn), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newDirectConn(conn net.Conn) *directConn {
	c := &directConn{Conn: conn}
	if s, ok := conn.(syscall.Conn); ok {
		c.raw, _ = s.SyscallConn()
	}
	c.in, c.out = bufio.NewReader(c), bufio.NewWriter(c)
	return c
}

// roundTrip makes a request over a connection of the pool; sent says whether the server may have seen some of it. It
// begins anew, over another connection, only while nothing was written. It is part of the exchange x, nil for none.
func (p *pool) roundTrip(x *inflight, r *http.Request) (res *http.Response, sent bool, err error) {
	defer r.Body.Close()
	for {
		c := p.take()
		reused := c != nil
		if !reused {
			ctx := r.Context()
			if x != nil {
				ctx = x.context()
			}
			if c, err = p.dial(ctx); err != nil {
				return nil, false, err
			}
		}
		if res, err = p.exchange(x, c, r); err == nil {
			return res, true, nil // the connection may be another request's by now
		}
		if !reused || c.written || r.GetBody == nil || r.Context().Err() != nil {
			return nil, c.written, err
		}
		again := *r
		if again.Body, err = r.GetBody(); err != nil {
			return nil, false, err
		}
		r = &again
	}
}

// exchange sends a request and reads the answer up to its body, which gives the connection back when it has come to
// its end.
func (p *pool) exchange(x *inflight, c *directConn, r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c.written, c.left = false, p.t.MaxResponseHeaderBytes
	b := &directBody{p: p, c: c, x: x, ctx: ctx, left: -1}
	b.stop = context.AfterFunc(ctx, func() { _ = c.Close() })
	if x != nil && !x.hold(c) {
		b.end(connBroken)
		return nil, errClosed
	}
	err := writeRequest(c.out, r)
	if err == nil {
		err = c.out.Flush()
	}
	var res *http.Response
	if err == nil {
		res, err = readResponse(c.in, r)
	}
	if err != nil {
		b.end(connBroken)
		return nil, b.why(err)
	}
	c.left = math.MaxInt64
	b.body, b.closes, b.left = res.Body, res.Close, res.ContentLength
	b.chunks = slices.Equal(res.TransferEncoding, []string{"chunked"}) && len(res.Trailer) == 0
	if res.Body = b; res.ContentLength == 0 {
		b.end(connUsable)
		res.Body = http.NoBody
	}
	return res, nil
}

// writeRequest writes a request that [Transport.direct] lets through: its header needs no care.
func writeRequest(out *bufio.Writer, r *http.Request) error {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	line := func(parts ...string) {
		for _, p := range parts {
			_, _ = out.WriteString(p) // an error comes again with what follows
		}
	}
	line(r.Method, " ", r.URL.RequestURI(), " HTTP/1.1\r\nHost: ", host, "\r\nContent-Length: ",
		strconv.FormatInt(r.ContentLength, 10), "\r\n")
	for name, values := range r.Header {
		if name == "Host" || name == "Content-Length" || name == "Transfer-Encoding" || name == "Trailer" {
			continue // as [http.Request.Write] has it
		}
		for _, v := range values {
			line(name, ": ", v, "\r\n")
		}
	}
	line("\r\n")
	n, err := io.Copy(out, r.Body)
	if err == nil && n != r.ContentLength {
		err = fmt.Errorf("a request's body has %d bytes, and its header says %d", n, r.ContentLength)
	}
	return err
}

// maxInterim is how many answers may come before the one that counts.
const maxInterim = 5

// readResponse reads an answer, passing over those that come before it.
func readResponse(in *bufio.Reader, r *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		if _, err := in.Peek(1); err != nil {
			return nil, err // io.EOF, where there is no answer at all
		}
		res, err := http.ReadResponse(in, r)
		if err != nil {
			return nil, err
		}
		if res.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		if res.StatusCode/100 != 1 {
			return res, nil
		}
	}
	return nil, errors.New("the server does not come to an answer")
}

// directBody is the body of an answer on its way.
type directBody struct {
	p      *pool
	c      *directConn
	x      *inflight // that it is part of; nil: none
	ctx    context.Context
	body   io.ReadCloser
	left   int64       // of its length; negative where that is not known
	closes bool        // the server closes the connection after it
	chunks bool        // it comes in chunks, and ends with the last of them
	stop   func() bool // of what closes the connection when ctx ends

	mu    sync.Mutex
	ended bool
}

// connState is what becomes of a connection.
type connState int

const (
	connBroken connState = iota
	connUsable
	connEnding // what ends its last answer has not come yet
)

// end gives the connection back, once.
func (b *directBody) end(state connState) {
	b.mu.Lock()
	ended := b.ended
	b.ended = true
	b.mu.Unlock()
	if ended {
		return
	}
	usable := !b.closes && (state == connEnding || state == connUsable && b.c.in.Buffered() == 0)
	if b.x != nil {
		b.x.release()
	}
	if !b.stop() || !usable {
		_ = b.c.Close()
		return
	}
	b.c.ending = state == connEnding
	b.p.put(b.c)
}

// leave gives the connection back before the end of a body that has nothing more to say. It reports false where that
// has not come yet.
func (b *directBody) leave() bool {
	switch {
	case b.chunks && b.c.raw != nil:
		b.end(connEnding)
		return true
	case b.left >= 0 && b.left <= int64(b.c.in.Buffered()):
		_, err := io.Copy(io.Discard, b)
		return err == nil
	}
	return false
}

// why is the error of one who reads or writes: that they gave it up, if they did.
func (b *directBody) why(err error) error {
	if gone := b.ctx.Err(); gone != nil {
		return gone
	}
	return err
}

func (b *directBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	ended := b.ended
	b.mu.Unlock()
	if ended {
		return 0, io.EOF
	}
	n, err := b.body.Read(p)
	if b.left >= 0 {
		b.left -= int64(n)
	}
	switch {
	case err == io.EOF:
		b.end(connUsable)
	case err != nil:
		b.end(connBroken)
		err = b.why(err)
	}
	return n, err
}

// Close ends the connection of a body that was not read to its end.
func (b *directBody) Close() error {
	b.end(connBroken)
	return nil
}
