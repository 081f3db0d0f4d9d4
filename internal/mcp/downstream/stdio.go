package downstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// StdioOptions say who is at the other end of [Stdio]. Server is required.
type StdioOptions struct {
	Sessions   SessionOpener
	Agent      string
	StillValid func() error // as [Client] has it
	Logger     *slog.Logger
}

const (
	maxLine     = maxMessage
	maxInflight = 1000 // requests and notifications of one client
	maxRefusals = 1000 // refusals that a client has not read
)

// Stdio serves one client, that has started this program, until in ends or ctx does: messages are lines,
// one each. Both eras are spoken, message by message: a client may try what modern servers answer, and
// then send initialize. Nothing but messages is written to out.
//
// When in ends, the client is gone: what is in flight is given up and waited for, but no longer than 5 s.
// Stdio returns nil then, else why it ended. It cannot interrupt a read from in or a write to out that
// hangs: the goroutine that does it ends with in or out.
func Stdio(ctx context.Context, in io.Reader, out io.Writer, o StdioOptions) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &stdioConn{o: o, log: o.Logger.With("component", "downstream"), out: make(chan []byte, 64),
		finished: make(chan struct{}), broken: make(chan struct{}), written: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(errClientGone)
	go p.write(out)
	lines := make(chan line)
	go p.read(in, lines)

	err := p.serve(lines)
	p.cancel(errClientGone)
	if !p.end(5 * time.Second) {
		p.log.WarnContext(ctx, "requests or the client's end of the pipe take too long to end")
	}
	return err
}

// stdioConn is the connection of one client over stdio.
type stdioConn struct {
	o      StdioOptions
	log    *slog.Logger
	ctx    context.Context // ends with the client
	cancel context.CancelCauseFunc

	out      chan []byte   // lines
	finished chan struct{} // closed when no line follows that matters
	broken   chan struct{} // closed when nothing can be written any more
	writeErr error         // why, to be read after broken
	written  chan struct{} // closed when the writer has ended

	inflight inflightRequests
	asks     pendingAsks
	modern   *sessionRef // opened by the first request that needs it; of the serving goroutine

	work sync.WaitGroup

	mu       sync.Mutex
	legacy   *sessionRef // from initialize on
	running  int
	refusals int
}

// line is what was read: a message, or why there is none.
type line struct {
	text []byte
	bad  *mcp.Error
	err  error // the last
}

// read hands on one line after the other.
func (p *stdioConn) read(in io.Reader, lines chan<- line) {
	r := bufio.NewReaderSize(in, 64<<10)
	hand := func(l line) bool {
		select {
		case lines <- l:
			return l.err == nil
		case <-p.ctx.Done():
			return false
		}
	}
	for {
		text, tooLong, err := readLine(r)
		if tooLong {
			if !hand(line{bad: mcp.Errorf(mcp.CodeInvalidRequest, "Invalid request: the message has more than %d bytes.",
				maxLine)}) {
				return
			}
		} else if len(bytes.TrimSpace(text)) > 0 && !hand(line{text: text}) {
			return
		}
		if err != nil {
			hand(line{err: err})
			return
		}
	}
}

// readLine reads to the end of a line, and keeps nothing of one that is too long.
func readLine(r *bufio.Reader) (text []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(text)+len(part) > maxLine+len("\r\n") {
			text, tooLong = nil, true
		}
		if !tooLong {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, tooLong, err
		}
	}
}

// write is the only one who writes to out, whole lines, as many at once as there are. It ends when
// finished is closed and all is written.
func (p *stdioConn) write(out io.Writer) {
	defer close(p.written)
	var b []byte
	for last := false; !last; {
		b = b[:0]
		select {
		case l := <-p.out:
			b = append(b, l...)
		case <-p.finished:
			last = true
		}
		for more := true; more && (last || len(b) < maxPooledBuffer); {
			select {
			case l := <-p.out:
				b = append(b, l...)
			default:
				more = false
			}
		}
		if len(b) == 0 {
			continue
		}
		if _, err := out.Write(b); err != nil {
			p.writeErr = err
			close(p.broken)
			return
		}
		if cap(b) > 2*maxPooledBuffer {
			b = nil
		}
	}
}

// send has m written, and waits for its turn as long as ctx lasts.
func (p *stdioConn) send(ctx context.Context, m mcp.Message) error {
	b := m.Bytes()
	oneLine(b)
	b = append(b, '\n')
	select { // what there is room for goes out even when ctx has ended
	case p.out <- b:
		return nil
	default:
	}
	select {
	case p.out <- b:
		return nil
	case <-p.broken:
		return errClientGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refuse answers without a session. The reader goes on, so that the client can still cancel; only one that
// reads nothing and goes on sending what has to be refused is kept waiting.
func (p *stdioConn) refuse(id jsontext.Value, e *mcp.Error) {
	m := mcp.ErrorResponse(id, e)
	p.mu.Lock()
	wait := p.refusals >= maxRefusals
	if !wait {
		p.refusals++
	}
	p.mu.Unlock()
	if wait {
		_ = p.send(p.ctx, m)
		return
	}
	p.work.Go(func() {
		_ = p.send(p.ctx, m)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refusals--
	})
}

// serve takes lines until there are no more.
func (p *stdioConn) serve(lines <-chan line) error {
	for {
		select {
		case l := <-lines:
			switch {
			case errors.Is(l.err, io.EOF):
				return nil
			case l.err != nil:
				return l.err
			case l.bad != nil:
				p.refuse(nil, l.bad)
			default:
				p.handleLine(l.text)
			}
		case <-p.broken:
			return p.writeErr
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

func (p *stdioConn) handleLine(text []byte) {
	text = bytes.TrimRight(text, "\r\n")
	m, bad := mcp.Parse(text)
	if bad == nil {
		bad = checkSize(m, int64(len(text)))
	}
	switch {
	case bad != nil:
		p.refuse(m.ID, bad)
	case m.IsResponse():
		if !p.asks.takeResponse(m) {
			p.log.Debug("a response has nothing to respond to, or came too late")
		}
	case m.IsRequest():
		p.request(m)
	case m.Method == methodCancelled:
		p.inflight.cancelNamed(m)
	default:
		// Only legacy clients have anything to say outside of requests.
		if l := p.legacyRef(); l != nil {
			if !p.start(l, func() { handleNotification(p.ctx, l.session, m, p.log) }) {
				p.log.Debug("too many messages are in hand; a notification is dropped", "method", m.Method)
			}
		}
	}
}

// start runs f with a session in hand. It reports false when too much is in flight.
func (p *stdioConn) start(l *sessionRef, f func()) bool {
	p.mu.Lock()
	full := p.running >= maxInflight
	if !full {
		p.running++
	}
	p.mu.Unlock()
	if full || !l.acquire() {
		return false
	}
	p.work.Go(func() {
		defer func() {
			l.release()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.running--
		}()
		f()
	})
	return true
}

// session returns the session that a request is for.
func (p *stdioConn) session(m mcp.Message) (*sessionRef, Client, *mcp.Error) {
	meta, bad := readRequestMeta(m)
	if bad != nil {
		return nil, Client{}, bad
	}
	c := Client{Era: mcp.Modern, Agent: p.o.Agent, StillValid: p.o.StillValid, Local: true}
	if meta.modern {
		if bad := meta.validate(); bad != nil {
			return nil, c, bad
		}
		if bad := checkModernVersion(meta.version); bad != nil {
			return nil, c, bad
		}
		if m.Method == methodInitialize {
			return nil, c, errNoInitialize
		}
		if p.modern == nil {
			p.modern = newSessionRef(p.o.Sessions.Open(c), p.log)
		}
		return p.modern, c, nil
	}
	c.Era, c.Push, c.Ask = mcp.Legacy, p.push, p.ask
	l := p.legacyRef()
	switch opens := m.Method == methodInitialize; {
	case opens && l != nil:
		return nil, c, mcp.Errorf(mcp.CodeInvalidRequest, "The session has been initialized.")
	case opens:
		l = newSessionRef(p.o.Sessions.Open(c), p.log)
		p.setLegacy(l)
	case l == nil:
		return nil, c, mcp.Errorf(mcp.CodeInvalidParams,
			"Invalid params: _meta needs %q, a string. A client without it must send initialize first.", mcp.MetaVersion)
	}
	return l, c, nil
}

func (p *stdioConn) legacyRef() *sessionRef {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.legacy
}

func (p *stdioConn) setLegacy(l *sessionRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.legacy = l
}

// push sends a legacy client what belongs to no request. It is dropped where the client does not read.
func (p *stdioConn) push(m mcp.Message) {
	b := m.Bytes()
	oneLine(b)
	select {
	case p.out <- append(b, '\n'):
	default:
		p.log.Debug("a notification is dropped: the client does not read", "method", m.Method)
	}
}

// ask asks a legacy client for what belongs to no request of its own.
func (p *stdioConn) ask(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error) {
	return p.asks.ask(ctx, p.ctx, method, params, func(m mcp.Message) error { return p.send(p.ctx, m) })
}

func (p *stdioConn) request(m mcp.Message) {
	l, c, bad := p.session(m)
	if bad != nil {
		p.refuse(m.ID, bad)
		return
	}
	opens := c.Era == mcp.Legacy && m.Method == methodInitialize
	fail := func(e *mcp.Error) {
		if opens {
			p.setLegacy(nil)
			l.end()
		}
		p.refuse(m.ID, e)
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	if !p.inflight.add(m.ID, cancel) {
		cancel(nil)
		fail(mcp.Errorf(mcp.CodeInvalidRequest, "Invalid request: an earlier request with this id is not answered yet."))
		return
	}
	x := &stdioStream{conn: p, ctx: ctx, canAsk: c.Era == mcp.Legacy}
	started := p.start(l, func() {
		defer cancel(errAnswered)
		resp := handleRequest(ctx, l.session, m, x, p.log)
		p.inflight.remove(m.ID)
		if opens && resp.Err != nil {
			p.setLegacy(nil)
			l.end()
		}
		x.finish(resp)
	})
	if !started {
		p.inflight.remove(m.ID)
		cancel(nil)
		fail(mcp.Errorf(mcp.CodeUnavailable, "Too many requests wait for an answer: %d. Nothing was run; try again.",
			maxInflight))
	}
}

// end waits for what is in flight, then closes the sessions and has the last lines written. It reports
// whether all that was done in time.
func (p *stdioConn) end(patience time.Duration) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	idle := make(chan struct{})
	go func() {
		p.work.Wait()
		close(p.finished)
		close(idle)
	}()
	waits := []<-chan struct{}{idle}
	for _, l := range []*sessionRef{p.modern, p.legacyRef()} {
		if l != nil {
			go l.end()
			waits = append(waits, l.closed)
		}
	}
	for _, w := range append(waits, p.written) {
		select {
		case <-w:
		case <-t.C:
			return false
		}
	}
	return true
}

// stdioStream is one request over stdio, a [Stream].
type stdioStream struct {
	conn   *stdioConn
	ctx    context.Context
	canAsk bool

	mu       sync.Mutex
	answered bool
}

// Send implements [Stream].
func (x *stdioStream) Send(m mcp.Message) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answered {
		return errAnswered
	}
	return x.conn.send(x.ctx, m)
}

// Ask implements [Stream].
func (x *stdioStream) Ask(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error) {
	if !x.canAsk {
		return mcp.Message{}, errCannotAsk
	}
	return x.conn.asks.ask(ctx, x.ctx, method, params, x.Send)
}

// finish sends the answer, but for one that the client gave up.
func (x *stdioStream) finish(m mcp.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	if context.Cause(x.ctx) != ErrCancelled {
		_ = x.conn.send(x.ctx, m)
	}
}
