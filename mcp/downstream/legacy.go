package downstream

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"countersign/mcp"
)

// conversation is a legacy client's session over HTTP, from initialize to DELETE.
type conversation struct {
	lease *lease
	calls calls
	asks  asks
	mail  mailbox
	id    string
	agent string
	// still is of the latest credential that the session was used with.
	still atomic.Pointer[func() error]
	over  chan struct{} // closed at the end
	used  time.Time     // of the HTTP's mutex, as is idle
	idle  *time.Timer
}

// stillValid looks at the credential that came last.
func (c *conversation) stillValid() error {
	if still := *c.still.Load(); still != nil {
		return still()
	}
	return nil
}

// mailbox keeps what a client is told outside of its requests until its GET stream takes it.
type mailbox struct {
	log *slog.Logger

	mu      sync.Mutex
	open    bool
	queue   []mcp.Message
	bytes   int           // of its params
	arrived chan struct{} // holds one
}

// What waits for a slow reader, in messages and in bytes of them.
const (
	maxMail      = 256
	maxMailBytes = 4 << 20
)

func newMailbox(log *slog.Logger) mailbox {
	return mailbox{log: log, arrived: make(chan struct{}, 1)}
}

// push leaves a notification. That a list has changed is kept, once, for a client that has no stream open
// or is slow to read: it says no less when it comes late. Of all else the oldest makes room.
func (b *mailbox) push(m mcp.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.HasSuffix(m.Method, "/list_changed") {
		for _, q := range b.queue {
			if q.Method == m.Method {
				return
			}
		}
	} else if !b.open {
		b.log.Debug("a notification has no reader", "method", m.Method)
		return
	}
	if len(m.Params) > maxMailBytes {
		b.log.Debug("a notification is too large to be kept", "method", m.Method, "bytes", len(m.Params))
		return
	}
	for b.bytes += len(m.Params); len(b.queue) == maxMail || b.bytes > maxMailBytes; {
		b.log.Debug("a notification makes room", "method", b.queue[0].Method)
		b.bytes -= len(b.queue[0].Params)
		b.queue = append(b.queue[:0], b.queue[1:]...)
	}
	b.queue = append(b.queue, m)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() []mcp.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue, b.bytes = nil, 0
	return q
}

// claim reports whether the caller is the one reader.
func (b *mailbox) claim() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		return false
	}
	b.open = true
	return true
}

func (b *mailbox) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = false
}

func (b *mailbox) read() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// listen is GET: the stream of what a session is told outside of its requests.
func (h *HTTP) listen(w http.ResponseWriter, r *http.Request, c *conversation, caller Caller) {
	if !readAccept(r.Header).stream {
		refusef(w, http.StatusNotAcceptable, "GET answers with text/event-stream, which Accept does not allow.")
		return
	}
	if h.o.Budget != nil {
		release, over := h.o.Budget.Stream(c.agent)
		if over != nil {
			refuseOver(w, over)
			return
		}
		defer release()
	}
	if !c.mail.claim() {
		refusef(w, http.StatusConflict, "The session has its stream open already; it can have one.")
		return
	}
	defer h.touch(c)
	defer c.mail.leave()
	out := h.newOutlet(w, r)
	startStream(w)
	if out.flush(nil) != nil {
		return
	}
	tick := time.NewTicker(h.keepAlive)
	defer tick.Stop()
	var b []byte
	recheck := h.rechecked()
	if caller.valid() != nil {
		return
	}
	for {
		select {
		case <-recheck:
			recheck, b = h.rechecked(), b[:0]
		case <-c.mail.arrived:
			b = b[:0]
			for _, m := range c.mail.take() {
				b = appendEvent(b, m)
			}
		case <-tick.C:
			b = append(b[:0], ": nothing new\n\n"...)
		case <-r.Context().Done():
			return
		case <-c.over:
			return
		case <-h.stopping:
			return
		}
		if caller.valid() != nil || len(b) > 0 && out.flush(b) != nil {
			return
		}
		if cap(b) > maxKept {
			b = nil
		}
	}
}
