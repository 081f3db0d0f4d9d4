package downstream

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"countersign/internal/mcp"
)

// legacySession is a legacy client's session over HTTP, from initialize to DELETE.
type legacySession struct {
	ref           *sessionRef
	inflight      inflightRequests
	asks          pendingAsks
	notifications notificationQueue
	id            string
	agent         string
	version       string // of the protocol, as it was agreed on
	// still is of the latest credential that the session was used with.
	still atomic.Pointer[func() error]
	ended chan struct{} // closed at the end
	used  time.Time     // of the HTTP's mutex, as is idle
	idle  *time.Timer
}

// stillValid looks at the credential that came last.
func (c *legacySession) stillValid() error {
	if still := *c.still.Load(); still != nil {
		return still()
	}
	return nil
}

// notificationQueue keeps what a client is told outside of its requests until its GET stream takes it.
type notificationQueue struct {
	log *slog.Logger

	mu        sync.Mutex
	hasReader bool
	queue     []mcp.Message
	bytes     int           // of its params
	arrived   chan struct{} // holds one
}

// What waits for a slow reader, in messages and in bytes of them.
const (
	maxQueuedNotifications = 256
	maxQueuedBytes         = 4 << 20
)

func newNotificationQueue(log *slog.Logger) notificationQueue {
	return notificationQueue{log: log, arrived: make(chan struct{}, 1)}
}

// push leaves a notification. That a list has changed is kept, once, for a client that has no stream open
// or is slow to read: it says no less when it comes late. Of all else the oldest makes room.
func (b *notificationQueue) push(m mcp.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.HasSuffix(m.Method, "/list_changed") {
		for _, q := range b.queue {
			if q.Method == m.Method {
				return
			}
		}
	} else if !b.hasReader {
		b.log.Debug("a notification has no reader", "method", m.Method)
		return
	}
	if len(m.Params) > maxQueuedBytes {
		b.log.Debug("a notification is too large to be kept", "method", m.Method, "bytes", len(m.Params))
		return
	}
	for b.bytes += len(m.Params); len(b.queue) == maxQueuedNotifications || b.bytes > maxQueuedBytes; {
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

func (b *notificationQueue) take() []mcp.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue, b.bytes = nil, 0
	return q
}

// attach reports whether the caller is the one reader.
func (b *notificationQueue) attach() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hasReader {
		return false
	}
	b.hasReader = true
	return true
}

func (b *notificationQueue) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hasReader = false
}

func (b *notificationQueue) isAttached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hasReader
}

// listen is GET: the stream of what a session is told outside of its requests.
func (h *HTTP) listen(w http.ResponseWriter, r *http.Request, c *legacySession, caller Caller) {
	if !readAccept(r.Header).stream {
		refusef(w, http.StatusNotAcceptable, "GET answers with text/event-stream, which Accept does not allow.")
		return
	}
	if h.o.Budget != nil {
		release, over := h.o.Budget.Stream(r.Context(), c.agent)
		if over != nil {
			refuseOver(w, over)
			return
		}
		defer release()
	}
	if !c.notifications.attach() {
		refusef(w, http.StatusConflict, "The session has its one stream open already.")
		return
	}
	defer h.touch(c)
	defer c.notifications.detach()
	out := h.newStreamWriter(w, r)
	startStream(w)
	if out.flush(nil) != nil {
		return
	}
	tick := time.NewTicker(h.keepAlive)
	defer tick.Stop()
	var b []byte
	recheck := h.nextRecheck()
	if caller.valid() != nil {
		return
	}
	for {
		select {
		case <-recheck:
			recheck, b = h.nextRecheck(), b[:0]
		case <-c.notifications.arrived:
			b = b[:0]
			for _, m := range c.notifications.take() {
				b = appendEvent(b, m)
			}
		case <-tick.C:
			b = append(b[:0], ": nothing new\n\n"...)
		case <-r.Context().Done():
			return
		case <-c.ended:
			return
		case <-h.stopping:
			return
		}
		if caller.valid() != nil || len(b) > 0 && out.flush(b) != nil {
			return
		}
		if cap(b) > maxPooledBuffer {
			b = nil
		}
	}
}
