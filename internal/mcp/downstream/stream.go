package downstream

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/bodies"
	"countersign/internal/mcp"
)

var (
	contentJSON = []string{"application/json"}
	contentSSE  = []string{"text/event-stream"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
)

// httpStream is one POST that waits for its answer, and the way to its client meanwhile: a [Stream]. The
// answer is plain JSON as long as nothing had to be sent before it, and else the last event of a stream.
type httpStream struct {
	h              *HTTP
	w              http.ResponseWriter
	writer         streamWriter
	era            mcp.Era
	since          time.Time // when its message had been read
	caller         Caller
	asks           *pendingAsks // nil: the client cannot be asked
	accept         acceptedTypes
	overBudget     func() error // refuses it: the agent is over a budget; nil: it is not
	body           []byte
	params, meta   mcp.Object // of its request, as they were read
	headersLast    bool       // the headers depend on the answer: no stream before it
	ctx            context.Context
	cancel         context.CancelCauseFunc
	keepAliveTimer *time.Timer

	mu        sync.Mutex // of all below, and of writing
	streaming bool
	answered  bool
}

// bufferPool are for messages on their way out.
var bufferPool = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBuffer is the largest buffer that is kept for the next message.
const maxPooledBuffer = 64 << 10

func recycle(b *[]byte) {
	if cap(*b) <= maxPooledBuffer {
		bufferPool.Put(b)
	}
}

// ReadParams implements [ParamsReader].
func (x *httpStream) ReadParams() (params, meta mcp.Object) { return x.params, x.meta }

// valid looks at the credential that the request came with.
func (x *httpStream) valid() error { return x.caller.valid() }

// startKeepAlive makes the stream ready to be waited on: from here on a proxy between is shown that the
// request is worked on.
func (x *httpStream) startKeepAlive(r *http.Request) {
	x.writer = x.h.newStreamWriter(x.w, r)
	if x.accept.stream && !x.headersLast {
		x.mu.Lock() // until the timer is known
		defer x.mu.Unlock()
		x.keepAliveTimer = time.AfterFunc(x.h.keepAliveAfter, x.keepAlive)
	}
}

func (x *httpStream) keepAlive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answered {
		return
	}
	if err := x.write([]byte(": the request is worked on\n\n")); err == nil {
		x.keepAliveTimer.Reset(x.h.keepAlive)
	}
}

// Send implements [Stream]. A client that takes no event stream gets nothing but the answer.
func (x *httpStream) Send(m mcp.Message) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.answered:
		return errAnswered
	case !x.accept.stream || x.headersLast:
		return nil
	}
	return x.writeEvent(m)
}

// Ask implements [Stream].
func (x *httpStream) Ask(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error) {
	if x.asks == nil || !x.accept.stream || x.headersLast {
		return mcp.Message{}, errCannotAsk
	}
	return x.asks.ask(ctx, x.ctx, method, params, x.Send)
}

// writeEvent writes m; x.mu is held.
func (x *httpStream) writeEvent(m mcp.Message) error {
	b := bufferPool.Get().(*[]byte)
	defer recycle(b)
	*b = appendEvent((*b)[:0], m)
	return x.write(*b)
}

// write writes to the stream, which it opens, and flushes it; x.mu is held.
func (x *httpStream) write(b []byte) error {
	if !x.streaming {
		x.streaming = true
		startStream(x.w)
	}
	return x.writer.flush(b) // what cannot be written ends the connection, and with it x.ctx
}

// streamWriter is a response that may take longer than the server allows for writing one. The server's time-out
// for reading is over once a message has been read: it then only watches whether the client is there.
type streamWriter struct {
	w       http.ResponseWriter
	control http.ResponseController
	limit   time.Duration // that the server gives for writing; 0: none
	wait    time.Duration // for one event where the server sets no limit
}

func (h *HTTP) newStreamWriter(w http.ResponseWriter, r *http.Request) streamWriter {
	o := streamWriter{w: w, control: *http.NewResponseController(w), wait: h.writeWait}
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		o.limit = srv.WriteTimeout
	}
	return o
}

// extend gives the client as long for what is written next as the server gives for a whole response. It
// leaves no deadline behind where the server would not set the next request's own.
func (o *streamWriter) extend() {
	if o.limit > 0 {
		_ = o.control.SetWriteDeadline(time.Now().Add(o.limit))
	}
}

// flush writes a part of a stream.
func (o *streamWriter) flush(b []byte) error {
	if o.extend(); o.limit <= 0 {
		_ = o.control.SetWriteDeadline(time.Now().Add(o.wait))
		defer func() { _ = o.control.SetWriteDeadline(time.Time{}) }()
	}
	if len(b) > 0 {
		if _, err := o.w.Write(b); err != nil {
			return err
		}
	}
	if err := o.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil // it will arrive later
}

func startStream(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = contentSSE
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	w.WriteHeader(http.StatusOK)
}

// appendEvent appends m as one event. JSON has line breaks only between its tokens; in an event they
// would end the data.
func appendEvent(b []byte, m mcp.Message) []byte {
	b = append(b, "event: message\ndata: "...)
	n := len(b)
	b = m.Append(b)
	oneLine(b[n:])
	return append(b, "\n\n"...)
}

// oneLine makes JSON a single line.
func oneLine(b []byte) {
	for _, c := range []byte("\n\r") {
		for rest := b; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// finish sends the answer, after which nothing can be sent.
func (x *httpStream) finish(m mcp.Message) {
	if x.keepAliveTimer != nil {
		x.keepAliveTimer.Stop()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	if x.streaming || !x.accept.json {
		_ = x.writeEvent(m)
		return
	}
	if time.Since(x.since) > x.writer.limit/8 { // before, next to nothing of the limit is used up
		x.writer.extend()
	}
	send(x.w, x.status(m), m)
}

// status is the HTTP status of an answer: in the modern era some errors have their own.
func (x *httpStream) status(m mcp.Message) int {
	if m.Err == nil || x.era == mcp.Legacy {
		return http.StatusOK
	}
	switch mcp.ReadError(m.Err).Code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// send writes m as the whole body of the response.
func send(w http.ResponseWriter, status int, m mcp.Message) {
	b := bufferPool.Get().(*[]byte)
	defer recycle(b)
	*b = m.Append((*b)[:0])
	h := w.Header()
	h["Content-Type"] = contentJSON
	if len(*b) > 2<<10 { // beyond its own buffer the server cannot know the length
		h["Content-Length"] = []string{strconv.Itoa(len(*b))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(*b)
}

// refuse answers with an error of the transport.
func refuse(w http.ResponseWriter, status int, id jsontext.Value, e *mcp.Error) {
	send(w, status, mcp.ErrorResponse(id, e))
}

func refusef(w http.ResponseWriter, status int, format string, args ...any) {
	refuse(w, status, nil, mcp.Errorf(mcp.CodeInvalidRequest, format, args...))
}

// acceptedTypes is what a client says it takes.
type acceptedTypes struct{ json, stream bool }

func readAccept(h http.Header) acceptedTypes {
	values := h["Accept"]
	if len(values) == 0 {
		return acceptedTypes{true, true}
	}
	if len(values) == 1 && values[0] == "application/json, text/event-stream" {
		return acceptedTypes{true, true}
	}
	var a acceptedTypes
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, params, _ := strings.Cut(part, ";")
			if q, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q="); ok &&
				strings.Trim(q, "0.") == "" {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "*/*":
				a = acceptedTypes{true, true}
			case "application/json", "application/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.stream = true
			}
		}
	}
	return a
}

// isJSON reports whether a Content-Type names JSON.
func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

var errTooLarge = errors.New("too large")

// isOverloaded reports whether a body could not be read because it had to give way to others.
func isOverloaded(err error) bool {
	_, ok := errors.AsType[bodies.Crowded](err)
	return ok
}

// readBody reads a body of at most limit bytes to its end, from where on the server watches whether the
// client is still there.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	got, err := bodies.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if e := (*http.MaxBytesError)(nil); errors.As(err, &e) {
			return nil, errTooLarge
		}
		return nil, err
	}
	return got, nil
}
