package downstream

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// sessionRef counts who works with a session, so that it is closed when the last of them is done.
type sessionRef struct {
	session Session
	log     *slog.Logger

	mu     sync.Mutex
	users  int
	ended  bool
	closed chan struct{} // the session's Close has returned
}

func newSessionRef(s Session, log *slog.Logger) *sessionRef {
	return &sessionRef{session: s, log: log, closed: make(chan struct{})}
}

// acquire reports whether there is still a session to work with. The caller that acquired it releases it.
func (l *sessionRef) acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.users++
	return true
}

func (l *sessionRef) release() {
	l.mu.Lock()
	l.users--
	last := l.ended && l.users == 0
	l.mu.Unlock()
	if last {
		l.close()
	}
}

// end lets no caller take the session any more. It is closed now, or by the last who releases it.
func (l *sessionRef) end() {
	l.mu.Lock()
	last := !l.ended && l.users == 0
	l.ended = true
	l.mu.Unlock()
	if last {
		l.close()
	}
}

func (l *sessionRef) inUse() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users > 0
}

func (l *sessionRef) close() {
	defer close(l.closed)
	closeSession(l.session, l.log)
}

func closeSession(s Session, log *slog.Logger) {
	defer func() { _ = logPanic(recover(), "Close", log) }()
	s.Close()
}

// handleRequest has the session answer a request. What it makes of it is always a response to that request.
func handleRequest(ctx context.Context, s Session, m mcp.Message, to Stream, log *slog.Logger) (resp mcp.Message) {
	defer func() {
		if logPanic(recover(), m.Method, log) {
			resp = mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeInternalError,
				"Internal error. It is not known what was done with the request."))
		}
	}()
	resp = s.Request(ctx, m, to)
	if (resp.Result == nil) == (resp.Err == nil) {
		resp.Result, resp.Err = nil, missingResponse(ctx, m.Method, log)
	}
	resp.ID, resp.Method, resp.Params = m.ID, "", nil
	return resp
}

// missingResponse is the error in place of an answer that did not come.
func missingResponse(ctx context.Context, method string, log *slog.Logger) jsontext.Value {
	if ctx.Err() == nil {
		log.ErrorContext(ctx, "a session returned no response", "method", method)
	}
	return mcp.Marshal(mcp.Errorf(mcp.CodeInternalError, "There is no answer: the request was given up."))
}

func handleNotification(ctx context.Context, s Session, m mcp.Message, log *slog.Logger) {
	defer func() { _ = logPanic(recover(), m.Method, log) }()
	s.Notify(ctx, m)
}

// logPanic logs a panic, if p is one: one request must not end all the others.
func logPanic(p any, method string, log *slog.Logger) bool {
	if p == nil {
		return false
	}
	log.Error("panic", "method", method, "panic", p, "stack", string(debug.Stack()))
	return true
}
