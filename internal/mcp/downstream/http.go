package downstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"countersign/internal/mcp"
)

// HTTPOptions are what an [HTTP] is made of. Server and Authenticate are required.
type HTTPOptions struct {
	Sessions     SessionOpener
	Authenticate Authenticate
	// Guard looks at Host and Origin before anything else.
	Guard  Guard
	Logger *slog.Logger
	// Stopping is done when the program is about to stop: streams that wait for news end at once, requests
	// in flight a second later.
	Stopping context.Context
	// MaxBody is how many bytes a message may have; default 4 MiB. A request or notification has at most 1 MiB
	// of them beside its answers to what a server asked, which may hold images.
	MaxBody int64
	// Budget says what each agent may use. nil: there is no limit but MaxSessions.
	Budget Budget
	// MaxSessions is how many legacy sessions an agent may have open where Budget is nil; default 1000. One more
	// ends the one that was not used for the longest time.
	MaxSessions int
	// SessionIdle is how long a legacy session lives that is not used; default 1 h.
	SessionIdle time.Duration
	Fleet       *Fleet // nil: there is one program
}

// HTTP is the handler of streamable HTTP for both eras. It is safe for concurrent use. It extends the
// deadline that the [http.Server] has set for writing as it writes, so that a request may be held; for
// reading a message, and for a client that does not take what is written, it relies on the server's.
//
// The context of a request ends when its connection is gone, in either era: an approval must not be used
// for a client that cannot be told what came of it. What was sent on to a server is the session's to
// follow further.
type HTTP struct {
	o              HTTPOptions
	log            *slog.Logger
	keepAliveAfter time.Duration // how long a request may be silent before its client is shown that it is alive
	keepAlive      time.Duration
	writeWait      time.Duration // that a client may take for one event where the server sets no limit
	grace          time.Duration // that requests in flight have to be answered when the program stops
	closeTimeout   time.Duration // of Close
	proxy          *httputil.ReverseProxy
	watchEvery     time.Duration // how often it is looked whether a program is there that others wait for
	stopping       chan struct{}
	stopWatching   func() bool

	mu        sync.Mutex
	sessions  map[string]*legacySession
	counts    map[string]int // of sessions, by agent
	posts     int            // in flight
	live      map[*httpStream]struct{}
	recheck   chan struct{} // closed, and another put in its place, by Recheck
	stopCause error         // why nothing more is taken
	closed    bool
	drained   chan struct{} // closed when closed and no post is in flight
}

// NewHTTP returns a handler. Call [HTTP.Close] to have its sessions end.
func NewHTTP(o HTTPOptions) *HTTP {
	h := &HTTP{o: o, log: o.Logger, keepAliveAfter: 10 * time.Second, keepAlive: 15 * time.Second,
		writeWait: 30 * time.Second, grace: time.Second, closeTimeout: 5 * time.Second, watchEvery: 5 * time.Second,
		stopping: make(chan struct{}), sessions: map[string]*legacySession{}, counts: map[string]int{},
		live: map[*httpStream]struct{}{}, recheck: make(chan struct{}), drained: make(chan struct{})}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.log = h.log.With("component", "downstream")
	if h.o.MaxBody <= 0 {
		h.o.MaxBody = maxMessage
	}
	if h.o.MaxSessions <= 0 {
		h.o.MaxSessions = 1000
	}
	if h.o.SessionIdle <= 0 {
		h.o.SessionIdle = time.Hour
	}
	if h.o.Stopping == nil {
		h.o.Stopping = context.Background()
	}
	h.proxy = h.newProxy()
	h.stopWatching = context.AfterFunc(h.o.Stopping, func() {
		close(h.stopping)
		time.AfterFunc(h.grace, func() { h.cancelAll(errStopping) })
	})
	return h
}

// Close ends all sessions and gives up what is in flight, for which it waits, but no longer than 5 s. What
// comes after it is refused.
func (h *HTTP) Close() {
	h.stopWatching()
	h.cancelAll(errStopping)
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		if h.posts == 0 {
			close(h.drained)
		}
	}
	var all []*legacySession
	for _, c := range h.sessions {
		all = append(all, c)
	}
	h.mu.Unlock()
	waits := []<-chan struct{}{h.drained}
	for _, c := range all {
		h.end(c)
		waits = append(waits, c.ref.closed)
	}
	patience := time.NewTimer(h.closeTimeout)
	defer patience.Stop()
	for _, w := range waits {
		select {
		case <-w:
		case <-patience.C:
			h.log.Warn("sessions take too long to end")
			return
		}
	}
}

// cancelAll ends the contexts of all requests in flight, and of those to come.
func (h *HTTP) cancelAll(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopCause = cause
	for x := range h.live {
		x.cancel(cause)
	}
}

// beginPost counts a post. It reports false when nothing more is taken.
func (h *HTTP) beginPost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopCause != nil {
		return false
	}
	h.posts++
	return true
}

func (h *HTTP) endPost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.posts--; h.closed && h.posts == 0 {
		close(h.drained)
	}
}

func (h *HTTP) addLive(x *httpStream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[x] = struct{}{}
	if h.stopCause != nil {
		x.cancel(h.stopCause)
	} else if err := x.valid(); err != nil { // it may have been looked at before this one was known
		x.cancel(err)
	}
}

// Recheck ends what goes on for a credential that is not valid any more: requests in flight, streams, and sessions
// that were last used with it. It is called after credentials were replaced.
func (h *HTTP) Recheck() {
	h.mu.Lock()
	close(h.recheck)
	h.recheck = make(chan struct{})
	for x := range h.live {
		if err := x.valid(); err != nil {
			x.cancel(err)
		}
	}
	invalid := map[*legacySession]error{}
	for _, c := range h.sessions {
		if err := c.stillValid(); err != nil {
			invalid[c] = err
		}
	}
	h.mu.Unlock()
	for c, why := range invalid {
		h.endFor(c, why)
	}
}

// nextRecheck is closed by the next Recheck.
func (h *HTTP) nextRecheck() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recheck
}

func (h *HTTP) removeLive(x *httpStream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, x)
}

// ServeHTTP implements [http.Handler].
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.o.Guard.Check(r); err != nil {
		refusef(w, http.StatusForbidden, "%s", err)
		return
	}
	select {
	case <-h.stopping:
		refuse(w, http.StatusServiceUnavailable, nil, errShuttingDown)
		return
	default:
	}
	caller, err := h.o.Authenticate(r)
	if err != nil {
		if forbidden := ErrForbidden(""); errors.As(err, &forbidden) {
			refusef(w, http.StatusForbidden, "%s", err)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		refusef(w, http.StatusUnauthorized, "%s", err)
		return
	}
	for _, name := range singleHeaders {
		if len(r.Header[name]) > 1 {
			refuse(w, http.StatusBadRequest, nil, mcp.Errorf(mcp.CodeHeaderMismatch, "The header %s came more than once.", name))
			return
		}
	}
	switch r.Method {
	case http.MethodPost:
		if !h.beginPost() {
			refuse(w, http.StatusServiceUnavailable, nil, errShuttingDown)
			return
		}
		defer h.endPost()
		h.post(w, r, caller)
	case http.MethodGet, http.MethodDelete:
		// to end a session gives something back
		if over := h.charge(caller.Agent, 0); over != nil && r.Method == http.MethodGet {
			refuseOver(w, over())
			return
		}
		if owner := h.ownerOfSession(r); owner != "" && h.passOnBare(w, r, caller, owner) {
			return
		}
		c := h.find(w, r, caller)
		if c == nil {
			return
		}
		if r.Method == http.MethodGet {
			h.listen(w, r, c, caller)
			return
		}
		h.end(c)
		w.WriteHeader(http.StatusNoContent)
	default:
		h.notAllowed(w)
	}
}

var errShuttingDown = mcp.Errorf(mcp.CodeUnavailable, "The gate is stopping.")

// singleHeaders are the headers of which a second one could be read by a proxy or a server in place of the first.
var singleHeaders = []string{mcp.HeaderVersion, mcp.HeaderSession, mcp.HeaderMethod, mcp.HeaderName}

func (h *HTTP) notAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST, GET, DELETE")
	refusef(w, http.StatusMethodNotAllowed,
		"POST takes messages. GET and DELETE are for sessions, and need the header Mcp-Session-Id.")
}

// find returns the session of a GET or DELETE, or answers why there is none.
func (h *HTTP) find(w http.ResponseWriter, r *http.Request, caller Caller) *legacySession {
	id, version := r.Header.Get(mcp.HeaderSession), r.Header.Get(mcp.HeaderVersion)
	switch {
	case id == "", version == mcp.VersionModern:
		h.notAllowed(w)
	case version != "" && !isLegacyVersion(version):
		refuse(w, http.StatusBadRequest, nil, unsupportedVersion(version))
	default:
		return h.lookup(w, id, caller)
	}
	return nil
}

// lookup returns a session, or answers that there is none. Another agent's is none: an id is a name and
// opens nothing. The body is no JSON-RPC, which clients would take for the answer to their request and go
// on in a session that is gone.
func (h *HTTP) lookup(w http.ResponseWriter, id string, caller Caller) *legacySession {
	h.mu.Lock()
	c := h.sessions[id]
	if c != nil && c.agent != caller.Agent {
		c = nil
	}
	if c != nil {
		c.used = time.Now()
	}
	h.mu.Unlock()
	if c == nil {
		http.Error(w, "There is no such session. Start a new one with initialize.", http.StatusNotFound)
		return nil
	}
	c.still.Store(&caller.StillValid)
	return c
}

func (h *HTTP) post(w http.ResponseWriter, r *http.Request, caller Caller) {
	if v := r.Header["Content-Type"]; len(v) != 1 || !isJSON(v[0]) {
		refusef(w, http.StatusUnsupportedMediaType, "Content-Type must be application/json.")
		return
	}
	accept := readAccept(r.Header)
	if !accept.json && !accept.stream {
		refusef(w, http.StatusNotAcceptable, "Accept must allow application/json or text/event-stream, and both if possible.")
		return
	}
	body, over, ok := h.admitBody(w, r, caller)
	if !ok {
		return
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		h.batch(&httpStream{h: h, w: w, accept: accept, caller: caller, overBudget: over, body: body}, r)
		return
	}
	release, err := h.turn(r.Context(), caller.Agent, len(body))
	if err != nil {
		refuseOver(w, err)
		return
	}
	m, meta, status, bad := readMessage(body)
	release()
	if bad != nil {
		refuse(w, status, m.ID, bad)
		return
	}
	if over != nil && h.overBudget(w, m, over) {
		return
	}
	h.route(&httpStream{h: h, w: w, since: time.Now(), accept: accept, caller: caller, overBudget: over,
		body: body, params: meta.params, meta: meta.meta}, r, m, meta)
}

// admitBody reads the body, and answers for one that is not taken. over refuses a message of an agent that is over a
// budget, which is left to what is in the message.
func (h *HTTP) admitBody(w http.ResponseWriter, r *http.Request,
	caller Caller) (body []byte, over func() error, ok bool) {
	if r.ContentLength > smallBody && h.o.Budget != nil {
		if over := h.o.Budget.Room(caller.Agent, r.ContentLength); over != nil {
			h.o.Budget.Pause(r.Context())
			refuseOver(w, over)
			return nil, nil, false
		}
	}
	body, err := readBody(w, r, h.o.MaxBody)
	switch {
	case errors.Is(err, errTooLarge):
		w.Header().Set("Connection", "close")
		refusef(w, http.StatusRequestEntityTooLarge,
			"The message has more than %d bytes. Nothing was run; send less at once.", h.o.MaxBody)
		return nil, nil, false
	case isOverloaded(err):
		w.Header().Set("Retry-After", "2")
		refuse(w, http.StatusTooManyRequests, nil, mcp.Errorf(mcp.CodeUnavailable,
			"Too many messages arrive at once. Nothing was run; try again."))
		return nil, nil, false
	case err != nil:
		refusef(w, http.StatusBadRequest, "The message could not be read.")
		return nil, nil, false
	}
	if err := caller.valid(); err != nil { // a body may take its time
		w.Header().Set("WWW-Authenticate", "Bearer")
		refusef(w, http.StatusUnauthorized, "%s", err)
		return nil, nil, false
	}
	over = h.charge(caller.Agent, len(body))
	if over != nil && len(body) > smallBody {
		h.o.Budget.Pause(r.Context())
		refuseOver(w, over())
		return nil, nil, false
	}
	return body, over, true
}

// route gives a message to whom it is for, by its era and session.
func (h *HTTP) route(x *httpStream, r *http.Request, m mcp.Message, meta requestMeta) {
	id := m.ID
	if m.IsResponse() {
		id = nil // it is of our choice, and could be taken for that of a request of the client's
	}
	version, session := r.Header.Get(mcp.HeaderVersion), r.Header.Get(mcp.HeaderSession)
	modern := meta.modern || version == mcp.VersionModern
	switch {
	case session != "" && modern:
		refuse(x.w, http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest,
			"The message contradicts itself: %s has no sessions, but the message names one.", mcp.VersionModern))
	case modern:
		h.modern(x, r, m, meta)
	case version != "" && !isLegacyVersion(version):
		refuse(x.w, http.StatusBadRequest, id, unsupportedVersion(version))
	case session != "":
		if m.Method == methodInitialize {
			refuse(x.w, http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest, "The session has been initialized."))
			return
		}
		if owner := h.ownerOfSession(r); owner != "" && h.passOn(x, r, owner, id) {
			return
		}
		if c := h.lookup(x.w, session, x.caller); c != nil {
			h.legacy(x, r, c, m)
		}
	case m.Method == methodInitialize && m.IsRequest():
		h.initialize(x, r, m)
	default:
		refuse(x.w, http.StatusBadRequest, id, mcp.Errorf(mcp.CodeInvalidRequest,
			"The header Mcp-Session-Id is missing. Start a session with initialize, or send _meta and the headers of %s.",
			mcp.VersionModern))
	}
}

// readMessage reads a message as far as it must be known here; with bad it returns the status of the answer.
func readMessage(body []byte) (m mcp.Message, meta requestMeta, status int, bad *mcp.Error) {
	if m, bad = mcp.Parse(body); bad != nil {
		return m, meta, http.StatusBadRequest, bad
	}
	if bad = checkSize(m, int64(len(body))); bad != nil {
		return m, meta, http.StatusRequestEntityTooLarge, bad
	}
	if m.IsRequest() {
		meta, bad = readRequestMeta(m)
	}
	return m, meta, http.StatusBadRequest, bad
}

// modern serves a message that stands for itself.
func (h *HTTP) modern(x *httpStream, r *http.Request, m mcp.Message, meta requestMeta) {
	if m.IsResponse() {
		refusef(x.w, http.StatusBadRequest, "Nothing was asked: without a session there is no request to respond to.")
		return
	}
	if status, bad := checkModern(r, m, meta); bad != nil {
		refuse(x.w, status, m.ID, bad)
		return
	}
	if m.IsNotification() && m.Method == methodCancelled { // what is given up here is its stream
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	if owner := h.ownerOfRequest(x, r, m); owner != "" && h.passOn(x, r, owner, m.ID) {
		return
	}
	s := h.o.Sessions.Open(Client{Era: mcp.Modern, Agent: x.caller.Agent, StillValid: x.caller.StillValid})
	defer closeSession(s, h.log)
	if m.IsNotification() {
		handleNotification(r.Context(), s, m, h.log)
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == "tools/call" {
		if bad := checkParams(r, meta, s); bad != nil {
			refuse(x.w, http.StatusBadRequest, m.ID, bad)
			return
		}
	}
	x.era = mcp.Modern
	if resp, ok := h.run(x, r, s, m, nil); ok {
		x.finish(resp)
	}
}

// checkModern compares what a message says with what its headers say: a proxy before us may have
// gone by the headers.
func checkModern(r *http.Request, m mcp.Message, meta requestMeta) (int, *mcp.Error) {
	mismatch := func(format string, args ...any) (int, *mcp.Error) {
		return http.StatusBadRequest, mcp.Errorf(mcp.CodeHeaderMismatch, "Header mismatch: "+format, args...)
	}
	version := r.Header.Get(mcp.HeaderVersion)
	if version == "" {
		return mismatch("%s is missing.", mcp.HeaderVersion)
	}
	if m.IsRequest() {
		if bad := meta.validate(); bad != nil {
			return http.StatusBadRequest, bad
		}
		if version != meta.version {
			return mismatch("%s is %q, _meta says %q.", mcp.HeaderVersion, shorten(version), shorten(meta.version))
		}
		if bad := checkModernVersion(version); bad != nil {
			return http.StatusBadRequest, bad
		}
	}
	switch v := r.Header.Get(mcp.HeaderMethod); {
	case v == "":
		return mismatch("%s is missing.", mcp.HeaderMethod)
	case v != m.Method:
		return mismatch("%s is %q, the message says %q.", mcp.HeaderMethod, shorten(v), shorten(m.Method))
	}
	if m.Method == methodInitialize {
		return http.StatusNotFound, errNoInitialize
	}
	if name := meta.params.Text(mcp.NameMember(m.Method)); name != "" {
		vs := r.Header[mcp.HeaderName]
		if len(vs) == 0 {
			return mismatch("%s is missing.", mcp.HeaderName)
		}
		// Clients are about that put names plainly which they ought to encode.
		if v, ok := mcp.DecodeHeader(vs[0]); vs[0] != name && (!ok || v != name) {
			return mismatch("%s is %q, the message says %q.", mcp.HeaderName, shorten(vs[0]), shorten(name))
		}
	}
	return 0, nil
}

// checkParams compares the arguments with the headers that their tool wants them repeated in.
func checkParams(r *http.Request, meta requestMeta, s Session) *mcp.Error {
	for _, p := range s.ParamHeaders(meta.params.Text("name")) {
		got := r.Header[http.CanonicalHeaderKey(p.Header)]
		want, has := p.Value(meta.params.Get("arguments"))
		if !has && len(got) == 0 {
			continue
		}
		if has && len(got) == 1 {
			g, gotOK := mcp.DecodeHeader(got[0])
			if w, wantOK := mcp.DecodeHeader(want); gotOK && wantOK && g == w {
				continue
			}
		}
		return mcp.Errorf(mcp.CodeHeaderMismatch, "Header mismatch: %s does not say what the argument says.", p.Header)
	}
	return nil
}

var errDuplicateID = mcp.Errorf(mcp.CodeInvalidRequest,
	"Invalid request: an earlier request with this id is not answered yet.")

// run has a session answer, and reports false where it could not be had.
func (h *HTTP) run(x *httpStream, r *http.Request, s Session, m mcp.Message, c *legacySession) (mcp.Message, bool) {
	parent := r.Context()
	if c == nil { // without a session, to close the stream is to give the request up
		parent = context.WithoutCancel(parent)
	}
	x.ctx, x.cancel = context.WithCancelCause(parent)
	if x.overBudget != nil {
		x.ctx = context.WithValue(x.ctx, overBudgetKey{}, x.overBudget)
	}
	defer x.cancel(errAnswered)
	if c == nil {
		defer context.AfterFunc(r.Context(), func() { x.cancel(ErrCancelled) })()
	}
	h.addLive(x)
	defer h.removeLive(x)
	if c != nil {
		if !c.inflight.add(m.ID, x.cancel) {
			refuse(x.w, http.StatusBadRequest, m.ID, errDuplicateID)
			return mcp.Message{}, false
		}
		defer c.inflight.remove(m.ID)
	}
	x.startKeepAlive(r)
	return handleRequest(x.ctx, s, m, x, h.log), true
}

// legacy serves a message of a session.
func (h *HTTP) legacy(x *httpStream, r *http.Request, c *legacySession, m mcp.Message) {
	switch {
	case m.IsResponse():
		if !c.asks.takeResponse(m) {
			h.log.DebugContext(r.Context(), "a response has nothing to respond to, or came too late")
		}
	case m.Method == methodCancelled && m.IsNotification():
		c.inflight.cancelNamed(m)
	case !c.ref.acquire():
		http.Error(x.w, "The session has ended.", http.StatusNotFound)
		return
	case m.IsNotification():
		handleNotification(r.Context(), c.ref.session, m, h.log)
		c.ref.release()
	default:
		defer h.touch(c)
		defer c.ref.release()
		x.asks = &c.asks
		if resp, ok := h.run(x, r, c.ref.session, m, c); ok {
			x.finish(resp)
		}
		return
	}
	x.w.WriteHeader(http.StatusAccepted)
}

// initialize serves initialize. The session has a name only if the answer is a result, so nothing can be sent
// before it.
func (h *HTTP) initialize(x *httpStream, r *http.Request, m mcp.Message) {
	if !h.reserve(x.caller.Agent) {
		if h.o.Budget == nil {
			refuse(x.w, http.StatusTooManyRequests, m.ID, mcp.Errorf(mcp.CodeUnavailable,
				"The agent has %d sessions with unanswered requests, as many as it may have.", h.o.MaxSessions))
			return
		}
		over := h.o.Budget.NoSession(x.caller.Agent)
		retryAfter(x.w, over)
		refuse(x.w, http.StatusTooManyRequests, m.ID, overError(over))
		return
	}
	c := &legacySession{id: h.newSessionID(), agent: x.caller.Agent, notifications: newNotificationQueue(h.log),
		ended: make(chan struct{}), used: x.since}
	still := x.caller.StillValid // the session outlives x
	c.still.Store(&still)
	c.ref = newSessionRef(h.o.Sessions.Open(Client{Era: mcp.Legacy, Agent: x.caller.Agent, StillValid: c.stillValid,
		Push: c.notifications.push}), h.log)
	c.ref.acquire()
	defer c.ref.release()
	x.headersLast = true
	resp, ok := h.run(x, r, c.ref.session, m, c)
	if ok && resp.Err == nil {
		if hello, err := mcp.ReadObject(resp.Result); err == nil {
			c.version = hello.Text("protocolVersion")
		}
		if h.register(c) {
			x.w.Header()[mcp.HeaderSession] = []string{c.id}
			x.finish(resp)
			return
		}
		resp = mcp.ErrorResponse(m.ID, errShuttingDown)
	}
	h.unreserve(x.caller.Agent)
	c.ref.end()
	if ok {
		x.finish(resp)
	}
}

// reserve makes room for one more session of an agent.
func (h *HTTP) reserve(agent string) bool {
	most := h.o.MaxSessions
	if h.o.Budget != nil {
		most = h.o.Budget.Sessions(agent)
	}
	h.mu.Lock()
	if h.counts[agent] < most {
		h.counts[agent]++
		h.mu.Unlock()
		return true
	}
	var oldest *legacySession
	for _, c := range h.sessions {
		if c.agent == agent && (oldest == nil || c.used.Before(oldest.used)) && !c.ref.inUse() &&
			!c.notifications.isAttached() {
			oldest = c
		}
	}
	if oldest != nil {
		h.counts[agent]++
	}
	h.mu.Unlock()
	if oldest == nil {
		return false
	}
	h.log.Debug("a session makes room for another", "agent", agent)
	h.end(oldest)
	return true
}

func (h *HTTP) unreserve(agent string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts[agent]--; h.counts[agent] == 0 {
		delete(h.counts, agent)
	}
}

// register makes a session known under its id. It reports false when nothing more is taken.
func (h *HTTP) register(c *legacySession) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopCause != nil {
		return false
	}
	h.sessions[c.id] = c
	c.idle = time.AfterFunc(h.o.SessionIdle, func() { h.expire(c) })
	return true
}

func (h *HTTP) touch(c *legacySession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.used = time.Now()
}

// expire ends a session that was not used for long, and else looks again later.
func (h *HTTP) expire(c *legacySession) {
	h.mu.Lock()
	left := h.o.SessionIdle - time.Since(c.used)
	if c.ref.inUse() || c.notifications.isAttached() {
		left = h.o.SessionIdle
	}
	if left > 0 && h.sessions[c.id] == c {
		c.idle.Reset(left)
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	h.end(c)
}

// end ends a session, once.
func (h *HTTP) end(c *legacySession) { h.endFor(c, errSessionEnded) }

func (h *HTTP) endFor(c *legacySession, why error) {
	h.mu.Lock()
	known := h.sessions[c.id] == c
	delete(h.sessions, c.id)
	h.mu.Unlock()
	if !known {
		return
	}
	h.unreserve(c.agent)
	c.idle.Stop()
	close(c.ended)
	c.inflight.cancelAll(why)
	c.ref.end()
}
