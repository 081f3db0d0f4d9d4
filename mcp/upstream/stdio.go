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

	"countersign/mcp"
)

// silence is without an answer to server/discover, after which initialize is tried.
const silence = time.Second

// stdio is a connection to a process of its own.
type stdio struct {
	base
	proc *process
	ctx  context.Context // ends with the connection
	stop context.CancelFunc

	mu       sync.Mutex
	inFlight map[string]*call // by id as written
	queue    queue
	deaf     bool          // it does not read: what we say for ourselves is dropped, and that was told
	wake     chan struct{} // something is in the queue

	junk bool // the reader's: there was some, and it was told
}

// call is a request in flight.
type call struct {
	r      Request
	ctx    context.Context // for its Ask
	answer chan answered   // of one

	mu    sync.Mutex
	notes []mcp.Message // that On has not seen
	size  int           // of their params, in bytes
	noted chan struct{} // holds one while there are some; nil: there is no On
}

// What waits for a slow On; the oldest makes room.
const (
	maxNotes     = 256
	maxNoteBytes = 4 << 20
)

type answered struct {
	m   mcp.Message
	err error
}

// on leaves a notification for the call, and reports whether it wants any. It does not wait for On: the reader
// serves others too.
func (k *call) on(m mcp.Message) bool {
	if k.noted == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notes, k.size = append(k.notes, m), k.size+len(m.Params)
	for len(k.notes) > maxNotes || k.size > maxNoteBytes && len(k.notes) > 1 {
		k.size -= len(k.notes[0].Params)
		k.notes = append(k.notes[:0], k.notes[1:]...)
	}
	select {
	case k.noted <- struct{}{}:
	default:
	}
	return true
}

// pass has On see what came.
func (k *call) pass() {
	k.mu.Lock()
	ms := k.notes
	k.notes, k.size = nil, 0
	k.mu.Unlock()
	for _, m := range ms {
		k.r.On(m)
	}
}

// outgoing is a message on its way; its fields belong to the connection's mu.
type outgoing struct {
	from  string // whose request it is
	line  []byte
	state sending
}

type sending int

const (
	waiting sending = iota
	writing         // or written: it may have arrived
	unsent          // taken back, or not a byte of it was taken
)

func dialStdio(ctx context.Context, cfg Config, peer Peer, memory *memory) (Conn, error) {
	modern := !memory.legacy
	c, err := startStdio(ctx, cfg, peer, modern)
	if modern && errors.Is(err, errDied) && ctx.Err() == nil {
		// There are servers that end at a method they do not know.
		if c, err = startStdio(ctx, cfg, peer, false); err == nil {
			memory.legacy = true
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// errDied says that the process ended before it said hello.
var errDied = errors.New("the server ended before it said what it is")

func startStdio(ctx context.Context, cfg Config, peer Peer, modern bool) (*stdio, error) {
	c := &stdio{inFlight: map[string]*call{}, wake: make(chan struct{}, 1)}
	c.init(cfg, peer)
	c.ctx, c.stop = context.WithCancel(context.Background())
	var err error
	if c.proc, err = startProcess(cfg); err != nil {
		c.stop()
		return nil, err
	}
	c.running.Go(c.read)
	c.running.Go(c.write)
	h, err := c.greet(ctx, modern)
	if err == nil {
		c.said.Store(&h)
		if h.Era == mcp.Legacy {
			err = c.Notify(ctx, "notifications/initialized", nil)
		}
	}
	if err == nil {
		return c, nil
	}
	select {
	case <-c.done:
		err = fmt.Errorf("%w: %w", errDied, c.err)
	default:
		if ctx.Err() != nil {
			err = &plainError{"the server did not say what it is in time", ctx.Err()}
		}
	}
	c.Close()
	if said := c.proc.lastWords(); said != "" {
		err = &startError{err, said}
	}
	return nil, err
}

// greet finds out what the server is.
func (c *stdio) greet(ctx context.Context, modern bool) (Hello, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func(r Request) <-chan answered {
		a := make(chan answered, 1)
		c.running.Go(func() {
			m, err := c.do(ctx, r, false)
			a <- answered{m, err}
		})
		return a
	}
	var discovered <-chan answered
	if modern {
		discovered = ask(c.discover())
		silent := time.NewTimer(silence)
		defer silent.Stop()
		select {
		case a := <-discovered:
			if a.err != nil {
				return Hello{}, a.err
			}
			if h, ok := readDiscover(a.m); ok {
				return h, nil
			}
			discovered = nil
		case <-silent.C:
		case <-ctx.Done():
			return Hello{}, ctx.Err()
		}
	}
	a := <-ask(c.initialize())
	if a.err != nil {
		return Hello{}, a.err
	}
	h, err := readInitialize(a.m)
	if err != nil && discovered != nil {
		// It was slow to start, not old.
		late := time.NewTimer(silence)
		defer late.Stop()
		select {
		case a := <-discovered:
			if h, ok := readDiscover(a.m); ok {
				return h, nil
			}
		case <-late.C:
		}
	}
	return h, err
}

func (c *stdio) Do(ctx context.Context, r Request) (mcp.Message, error) { return c.do(ctx, r, true) }

// do sends a request. tell says whether the server is told if ctx ends: before it has said hello it may
// not understand.
func (c *stdio) do(ctx context.Context, r Request, tell bool) (mcp.Message, error) {
	if err := ctx.Err(); err != nil {
		return mcp.Message{}, notSent(err)
	}
	k := &call{r: r, answer: make(chan answered, 1)}
	if r.On != nil {
		k.noted = make(chan struct{}, 1)
	}
	if r.Ask != nil {
		var cancel context.CancelFunc
		k.ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	id := string(r.ID)
	c.mu.Lock()
	if c.inFlight[id] != nil {
		c.mu.Unlock()
		return mcp.Message{}, notSent(fmt.Errorf("the id %s is in use", id))
	}
	out, err := c.push(r)
	if err != nil {
		c.mu.Unlock()
		return mcp.Message{}, err
	}
	c.inFlight[id] = k
	c.mu.Unlock()

	for err == nil {
		select {
		case <-k.noted:
			k.pass()
		case a := <-k.answer:
			k.pass() // what came before it
			return a.m, a.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.done:
			err = c.err
		}
	}
	c.mu.Lock()
	delete(c.inFlight, id)
	sent := true
	switch out.state {
	case waiting:
		c.queue.remove(out)
		out.state, out.line, sent = unsent, nil, false
	case unsent:
		sent = false
	}
	if sent && tell && ctx.Err() != nil {
		c.say(cancelled(r.ID, ctx.Err()))
	}
	c.mu.Unlock()
	select {
	case a := <-k.answer: // at the last moment
		k.pass()
		return a.m, a.err
	default:
		return mcp.Message{}, &Error{Sent: sent, Err: err}
	}
}

func (c *stdio) Notify(ctx context.Context, method string, params jsontext.Value) error {
	if err := ctx.Err(); err != nil {
		return notSent(err)
	}
	if err := c.Err(); err != nil {
		return notSent(err)
	}
	c.send(mcp.Notification(method, params))
	return nil
}

func (c *stdio) send(m mcp.Message) {
	c.mu.Lock()
	c.say(m)
	c.mu.Unlock()
}

// say puts a message of the connection's own into the queue; mu is held. A process that reads nothing misses it.
func (c *stdio) say(m mcp.Message) {
	if c.queue.pushOwn(&outgoing{line: append(oneLine(m.Bytes()), '\n')}) {
		c.waken()
		return
	}
	if !c.deaf {
		c.deaf = true
		c.log.Warn("the server does not read: answers and notifications for it are dropped", "server", c.cfg.Name)
	}
}

// push puts a request into the queue, at the place that is kept for it or at a new one; mu is held.
func (c *stdio) push(r Request) (*outgoing, error) {
	out := &outgoing{from: r.From, line: append(oneLine(mcp.Request(r.ID, r.Method, r.Params).Bytes()), '\n')}
	if k := r.Room; k != nil && k.c == c && k.from == r.From && !k.over {
		k.over = true
		c.queue.resize(out.from, len(out.line)-k.bytes)
	} else if !c.queue.admit(out.from, len(out.line)) {
		return nil, notSent(ErrBusy)
	}
	c.queue.push(out)
	c.waken()
	return out, nil
}

func (c *stdio) waken() {
	select {
	case c.wake <- struct{}{}:
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

func (c *stdio) write() {
	for {
		c.mu.Lock()
		out := c.queue.next()
		if out == nil {
			c.mu.Unlock()
			select {
			case <-c.wake:
				continue
			case <-c.done:
				return
			}
		}
		out.state = writing
		line := out.line
		out.line = nil
		c.mu.Unlock()
		if n, err := c.proc.stdin.Write(line); err != nil {
			c.mu.Lock()
			if n == 0 {
				out.state = unsent
			}
			c.mu.Unlock()
			// The reader, which sees why, says so if it is about to.
			select {
			case <-c.done:
			case <-c.proc.gone:
			case <-time.After(grace):
			}
			c.end(errors.New("the server no longer reads"))
			return
		}
	}
}

// end ends the connection, and sees the process off.
func (c *stdio) end(err error) {
	c.fail(err)
	c.stop()
	go c.proc.stop()
}

func (c *stdio) Close() error {
	c.fail(errClosed)
	c.stop()
	c.proc.stop()
	c.running.Wait()
	return nil
}

func (c *stdio) read() {
	defer c.proc.drained()
	r := bufio.NewReaderSize(c.proc.stdout, 64<<10)
	for {
		line, err := readLine(r, maxMessage)
		if line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))); len(line) > 0 {
			c.take(bytes.Clone(line), err == nil) // what is taken refers to it
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errTooLong):
			c.end(err)
			return
		}
		c.proc.drained()
		c.end(c.proc.farewell())
		return
	}
}

// take reads one line; whole says that it did not end with the output.
func (c *stdio) take(line []byte, whole bool) {
	m, err := mcp.Parse(line)
	switch {
	case err != nil && whole:
		c.skip(line, err)
	case err != nil:
		c.log.Debug("the server's last line breaks off", "bytes", len(line))
	case m.IsResponse():
		c.settle(m.ID, answered{m: m})
	case m.IsRequest():
		ctx, ask := c.whoAnswers()
		c.answer(ctx, m, ask, c.send)
	case m.Method == "notifications/cancelled":
		c.takeBack(m.Params)
	default:
		c.deliver(m)
	}
}

// settle gives a request in flight its answer, and reports whether there was one.
func (c *stdio) settle(id jsontext.Value, a answered) bool {
	c.mu.Lock()
	k := c.inFlight[string(id)]
	delete(c.inFlight, string(id))
	c.mu.Unlock()
	if k != nil {
		k.answer <- a
	} else {
		c.log.Debug("an answer to no request in flight is dropped", "id", string(id))
	}
	return k != nil
}

// skip passes over a line that is no message. Servers print banners; but an answer that cannot be read
// must not leave its request waiting.
func (c *stdio) skip(line []byte, why *mcp.Error) {
	if id := answeredID(line); id != nil && c.settle(id, answered{err: maybeSent(fmt.Errorf("the server's answer is not taken: %s", why.Message))}) {
		return
	}
	if !c.junk {
		c.junk = true
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
			id = v.Clone()
		}
	}
}

// whoAnswers finds the one request in flight that can answer for itself. Over stdio a server cannot say
// for which one it asks, so where there are several none of them does.
func (c *stdio) whoAnswers() (context.Context, func(context.Context, mcp.Message) mcp.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var only *call
	for _, k := range c.inFlight {
		if k.r.Ask != nil && only != nil {
			return c.ctx, c.peer.Ask
		}
		if k.r.Ask != nil {
			only = k
		}
	}
	if only == nil {
		return c.ctx, c.peer.Ask
	}
	return only.ctx, only.r.Ask
}

// deliver hands a notification to the request it names, or to the peer. One that names a request that is
// over comes too late for anybody.
func (c *stdio) deliver(m mcp.Message) {
	id := names(m)
	if id == nil {
		c.notify(m)
		return
	}
	c.mu.Lock()
	k := c.inFlight[string(id)]
	c.mu.Unlock()
	if k != nil && !k.on(m) {
		c.notify(m)
	}
}

// names returns the id of the request that a notification belongs to, nil where it says none.
func names(m mcp.Message) jsontext.Value {
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
