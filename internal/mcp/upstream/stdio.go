package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// discoverTimeout is how long server/discover may go unanswered before initialize is tried.
const discoverTimeout = time.Second

// stdioConn is a connection to a process of its own.
type stdioConn struct {
	connBase
	proc *process
	ctx  context.Context // ends with the connection
	stop context.CancelFunc

	mu         sync.Mutex
	inflight   map[string]*inflightRequest // by id as written
	queue      queue
	notReading bool          // it does not read: what we say for ourselves is dropped, and that was told
	queued     chan struct{} // something is in the queue

	junkLogged bool // the reader's: there was some, and it was told
}

// inflightRequest is a request in flight.
type inflightRequest struct {
	request Request
	ctx     context.Context    // for its Ask
	answer  chan answerOrError // of one

	mu            sync.Mutex
	notifications []mcp.Message // that OnNotification has not seen
	size          int           // of their params, in bytes
	notified      chan struct{} // holds one while there are some; nil: there is no OnNotification
}

// What waits for a slow OnNotification; the oldest makes room.
const (
	maxNotifications     = 256
	maxNotificationBytes = 4 << 20
)

type answerOrError struct {
	m   mcp.Message
	err error
}

// push leaves a notification for the call, and reports whether it wants any. It does not wait for OnNotification: the
// reader serves others too.
func (k *inflightRequest) push(m mcp.Message) bool {
	if k.notified == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notifications, k.size = append(k.notifications, m), k.size+len(m.Params)
	for len(k.notifications) > maxNotifications || k.size > maxNotificationBytes && len(k.notifications) > 1 {
		k.size -= len(k.notifications[0].Params)
		k.notifications = append(k.notifications[:0], k.notifications[1:]...)
	}
	select {
	case k.notified <- struct{}{}:
	default:
	}
	return true
}

// flush has OnNotification see what came.
func (k *inflightRequest) flush() {
	k.mu.Lock()
	ms := k.notifications
	k.notifications, k.size = nil, 0
	k.mu.Unlock()
	for _, m := range ms {
		k.request.OnNotification(m)
	}
}

// outgoing is a message on its way; its fields belong to the connection's mu.
type outgoing struct {
	sender string // whose request it is
	line   []byte
	state  sendState
}

type sendState int

const (
	stateQueued  sendState = iota
	stateWriting           // or written: it may have arrived
	stateUnsent            // taken back, or not a byte of it was taken
)

func dialStdio(ctx context.Context, cfg Config, peer Peer, hints *dialHints) (Conn, error) {
	handshake := (*stdioConn).discover
	if hints.legacy {
		handshake = (*stdioConn).initialize
	}
	c, err := startStdio(ctx, cfg, peer, handshake)
	if !hints.legacy && errors.Is(err, errExitedEarly) && ctx.Err() == nil {
		// There are servers that end at a method they do not know.
		if c, err = startStdio(ctx, cfg, peer, (*stdioConn).initialize); err == nil {
			hints.legacy = true
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// errExitedEarly says that the process ended before it said hello.
var errExitedEarly = errors.New("the server ended before it said what it is")

func startStdio(ctx context.Context, cfg Config, peer Peer, handshake func(*stdioConn, context.Context) (Hello,
	error)) (*stdioConn, error) {
	c := &stdioConn{inflight: map[string]*inflightRequest{}, queued: make(chan struct{}, 1)}
	c.init(cfg, peer)
	c.ctx, c.stop = context.WithCancel(context.Background())
	var err error
	if c.proc, err = startProcess(cfg); err != nil {
		c.stop()
		return nil, err
	}
	c.group.Go(c.read)
	c.group.Go(c.write)
	h, err := handshake(c, ctx)
	if err == nil {
		c.hello.Store(&h)
		if h.Era == mcp.Legacy {
			err = c.Notify(ctx, "notifications/initialized", nil)
		}
	}
	if err == nil {
		return c, nil
	}
	select {
	case <-c.done:
		err = fmt.Errorf("%w: %w", errExitedEarly, c.err)
	default:
		if ctx.Err() != nil {
			err = notInTime(ctx, cfg)
		}
	}
	c.Close()
	if tail := c.proc.stderrTail(); tail != "" {
		err = &startError{err, tail}
	}
	return nil, err
}

// discover finds out what the server is: it is asked in the modern way first, and in the legacy way where it does not
// understand that, or does not answer in time.
func (c *stdioConn) discover(ctx context.Context) (Hello, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	discovered := c.start(ctx, c.discoverRequest())
	silent := time.NewTimer(discoverTimeout)
	defer silent.Stop()
	select {
	case a := <-discovered:
		if a.err != nil {
			return Hello{}, a.err
		}
		if h, ok := parseDiscover(a.m); ok {
			return h, nil
		}
		return c.initialize(ctx)
	case <-silent.C:
	case <-ctx.Done():
		return Hello{}, ctx.Err()
	}
	a := <-c.start(ctx, c.initializeRequest())
	if a.err != nil {
		return Hello{}, a.err
	}
	h, err := parseInitialize(a.m)
	if err == nil {
		return h, nil
	}
	// It may be slow to start, and not old.
	late := time.NewTimer(discoverTimeout)
	defer late.Stop()
	select {
	case a := <-discovered:
		if h, ok := parseDiscover(a.m); ok {
			return h, nil
		}
	case <-late.C:
	}
	return h, err
}

// initialize is the handshake with a server that is known to speak only the legacy versions.
func (c *stdioConn) initialize(ctx context.Context) (Hello, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := <-c.start(ctx, c.initializeRequest())
	if a.err != nil {
		return Hello{}, a.err
	}
	return parseInitialize(a.m)
}

// start sends a request of the handshake, whose answer need not be waited for.
func (c *stdioConn) start(ctx context.Context, r Request) <-chan answerOrError {
	a := make(chan answerOrError, 1)
	c.group.Go(func() {
		m, err := c.Do(ctx, r)
		a <- answerOrError{m, err}
	})
	return a
}

func (c *stdioConn) Do(ctx context.Context, r Request) (mcp.Message, error) {
	if err := ctx.Err(); err != nil {
		return mcp.Message{}, notSent(err)
	}
	k := &inflightRequest{request: r, answer: make(chan answerOrError, 1)}
	if r.OnNotification != nil {
		k.notified = make(chan struct{}, 1)
	}
	if r.Ask != nil {
		var cancel context.CancelFunc
		k.ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	id := string(r.ID)
	c.mu.Lock()
	if c.inflight[id] != nil {
		c.mu.Unlock()
		return mcp.Message{}, notSent(fmt.Errorf("the id %s is in use", id))
	}
	out, err := c.enqueue(r)
	if err != nil {
		c.mu.Unlock()
		return mcp.Message{}, err
	}
	c.inflight[id] = k
	c.mu.Unlock()

	for err == nil {
		select {
		case <-k.notified:
			k.flush()
		case a := <-k.answer:
			k.flush() // what came before it
			return a.m, a.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.done:
			err = c.err
		}
	}
	c.mu.Lock()
	delete(c.inflight, id)
	sent := true
	switch out.state {
	case stateQueued:
		c.queue.remove(out)
		out.state, out.line, sent = stateUnsent, nil, false
	case stateUnsent:
		sent = false
	}
	if sent && ctx.Err() != nil && !r.isHandshake() { // before it has said hello the server may not understand
		c.enqueueOwn(cancelledNotification(r.ID, ctx.Err()))
	}
	c.mu.Unlock()
	select {
	case a := <-k.answer: // at the last moment
		k.flush()
		return a.m, a.err
	default:
		return mcp.Message{}, &Error{Sent: sent, Err: err}
	}
}

func (c *stdioConn) Notify(ctx context.Context, method string, params jsontext.Value) error {
	if err := ctx.Err(); err != nil {
		return notSent(err)
	}
	if err := c.Err(); err != nil {
		return notSent(err)
	}
	c.send(mcp.Notification(method, params))
	return nil
}

func (c *stdioConn) send(m mcp.Message) {
	c.mu.Lock()
	c.enqueueOwn(m)
	c.mu.Unlock()
}

// enqueueOwn puts a message of the connection's own into the queue; mu is held. A process that reads nothing misses it.
func (c *stdioConn) enqueueOwn(m mcp.Message) {
	if c.queue.pushControl(&outgoing{line: append(oneLine(m.Bytes()), '\n')}) {
		c.wakeWriter()
		return
	}
	if !c.notReading {
		c.notReading = true
		c.log.Warn("the server does not read: answers and notifications for it are dropped", "server", c.cfg.Name)
	}
}

// enqueue puts a request into the queue, at the place that is kept for it or at a new one; mu is held.
func (c *stdioConn) enqueue(r Request) (*outgoing, error) {
	out := &outgoing{sender: r.Sender, line: append(oneLine(mcp.Request(r.ID, r.Method, r.Params).Bytes()), '\n')}
	if k := r.Reservation; k != nil && k.c == c && k.sender == r.Sender && !k.taken {
		k.taken = true
		c.queue.resize(out.sender, len(out.line)-k.bytes)
	} else if !c.queue.reserve(out.sender, len(out.line)) {
		return nil, notSent(ErrBusy)
	}
	c.queue.push(out)
	c.wakeWriter()
	return out, nil
}

func (c *stdioConn) wakeWriter() {
	select {
	case c.queued <- struct{}{}:
	default:
	}
}

// oneLine takes line breaks out of a message: between its tokens they mean nothing, and in its strings
// JSON does not allow them.
func oneLine(b []byte) []byte {
	for i := range b {
		if b[i] == '\n' || b[i] == '\r' {
			b[i] = ' '
		}
	}
	return b
}

func (c *stdioConn) write() {
	for {
		c.mu.Lock()
		out := c.queue.next()
		if out == nil {
			c.mu.Unlock()
			select {
			case <-c.queued:
				continue
			case <-c.done:
				return
			}
		}
		out.state = stateWriting
		line := out.line
		out.line = nil
		c.mu.Unlock()
		if n, err := c.proc.stdin.Write(line); err != nil {
			c.mu.Lock()
			if n == 0 {
				out.state = stateUnsent
			}
			c.mu.Unlock()
			// The reader, which sees why, says so if it is about to.
			select {
			case <-c.done:
			case <-c.proc.groupGone:
			case <-time.After(grace):
			}
			c.end(errors.New("the server no longer reads"))
			return
		}
	}
}

// end ends the connection, and sees the process off.
func (c *stdioConn) end(err error) {
	c.fail(err)
	c.stop()
	go c.proc.stop()
}

func (c *stdioConn) Close() error {
	c.fail(errClosed)
	c.stop()
	c.proc.stop()
	c.group.Wait()
	return nil
}

func (c *stdioConn) read() {
	defer c.proc.markStdoutDone()
	r := bufio.NewReaderSize(&noticing{c.proc.stdout, c.cfg.wrote}, 64<<10)
	for {
		line, err := readLine(r, maxMessage)
		if line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))); len(line) > 0 {
			c.handleLine(bytes.Clone(line), err == nil) // what is taken refers to it
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errTooLong):
			c.end(err)
			return
		}
		c.proc.markStdoutDone()
		c.end(c.proc.exitReason())
		return
	}
}

// handleLine reads one line; whole says that it did not end with the output.
func (c *stdioConn) handleLine(line []byte, whole bool) {
	m, err := mcp.ParseAnswer(line)
	switch {
	case err != nil && whole:
		c.skipLine(line, err)
	case err != nil:
		c.log.Debug("the server's last line breaks off", "bytes", len(line))
	case m.IsResponse():
		c.complete(m.ID, answerOrError{m: m})
	case m.IsRequest():
		ctx, ask := c.askHandler()
		c.answerServer(ctx, m, ask, c.send)
	case m.Method == "notifications/cancelled":
		c.serverCancelled(m.Params)
	default:
		c.deliver(m)
	}
}

// complete gives a request in flight its answer, and reports whether there was one.
func (c *stdioConn) complete(id jsontext.Value, a answerOrError) bool {
	c.mu.Lock()
	k := c.inflight[string(id)]
	delete(c.inflight, string(id))
	c.mu.Unlock()
	if k != nil {
		k.answer <- a
	} else {
		c.log.Debug("an answer to no request in flight is dropped", "id", string(id))
	}
	return k != nil
}

// skipLine passes over a line that is no message. Servers print banners; but an answer that cannot be read
// must not leave its request waiting.
func (c *stdioConn) skipLine(line []byte, why *mcp.Error) {
	if id := answeredID(line); id != nil &&
		c.complete(id, answerOrError{err: maybeSent(fmt.Errorf("the server's answer cannot be used: %s", why.Message))}) {
		return
	}
	if !c.junkLogged {
		c.junkLogged = true
		c.log.Warn("the server writes lines that are no messages; they are skipped", "bytes", len(line))
		return
	}
	c.log.Debug("a line that is no message is skipped", "bytes", len(line))
}

// answeredID returns the id in a line that looks like an answer, as far as it can be read.
func answeredID(line []byte) jsontext.Value {
	if line[0] != '{' {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var id jsontext.Value
	d.ReadToken()
	for {
		t, err := d.ReadToken()
		if err != nil || t.Kind() != '"' {
			return id
		}
		name := t.String()
		if name == "method" {
			return nil
		}
		v, err := d.ReadValue()
		if err != nil {
			return id
		}
		if name == "id" {
			if id = mcp.WholeID(v); id == nil {
				id = v.Clone()
			}
		}
	}
}

// askHandler finds the one request in flight that can answer for itself. Over stdio a server cannot say
// for which one it asks, so where there are several none of them does.
func (c *stdioConn) askHandler() (context.Context, func(context.Context, mcp.Message) mcp.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var only *inflightRequest
	for _, k := range c.inflight {
		if k.request.Ask != nil && only != nil {
			return c.ctx, c.peer.Ask
		}
		if k.request.Ask != nil {
			only = k
		}
	}
	if only == nil {
		return c.ctx, c.peer.Ask
	}
	return only.ctx, only.request.Ask
}

// deliver hands a notification to the request it names, or to the peer. One that names a request that is
// over comes too late for a caller.
func (c *stdioConn) deliver(m mcp.Message) {
	id := requestNamed(m)
	if id == nil {
		c.notifyPeer(m)
		return
	}
	c.mu.Lock()
	k := c.inflight[string(id)]
	c.mu.Unlock()
	if k != nil && !k.push(m) {
		c.notifyPeer(m)
	}
}

// requestNamed returns the id of the request that a notification belongs to, nil where it says none.
func requestNamed(m mcp.Message) jsontext.Value {
	o, err := mcp.ReadObject(m.Params)
	if err != nil {
		return nil
	}
	if m.Method == "notifications/progress" {
		return o.Get(mcp.MetaProgress)
	}
	meta, err := o.Object("_meta")
	if err != nil {
		return nil
	}
	return meta.Get(mcp.MetaSubscription)
}
