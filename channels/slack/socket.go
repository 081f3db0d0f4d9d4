package slack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	sdk "github.com/slack-go/slack"

	"countersign/channels"
	"countersign/internal/secret"
	"countersign/webhook"
)

// What Slack allows over a socket, and how patient we are.
const (
	maxFrame     = 1 << 20
	maxAck       = 20 << 10 // from here on Slack drops an acknowledgement without a word
	mostAtOnce   = 16       // envelopes of one connection
	socketQuiet  = 30 * time.Second
	socketHello  = 10 * time.Second
	socketWrite  = 5 * time.Second
	socketLinger = 30 * time.Second // what a connection that was asked to go may still take
	soonOver     = 5 * time.Second  // a connection that was this short is no success
	firstWait    = time.Second
	lastWait     = time.Minute
	hopelessWait = 5 * time.Minute
	tellEvery    = time.Hour
)

// socket is Slack's Socket Mode: a connection that we open to Slack, over which everything comes that
// would else be posted to the webhook. There is no signature, since Slack is known by its certificate
// and we by the app-level token. Each envelope takes the way of a delivery, and is acknowledged once what
// it asks for is stored; what could not be stored is not acknowledged, and comes again or shows the
// person an error.
//
// A connection that Slack is going to close is replaced first: the old one goes on until it ends. One
// that brings nothing for a while, or breaks, is opened anew, at longer and longer intervals.
type socket struct {
	in   *inbound // takes what comes in
	log  *slog.Logger
	http *http.Client
	dial *http.Client // of the connections themselves
	wake chan struct{}

	quiet               time.Duration // how long a connection may bring nothing, not even a ping, before it is given up
	firstWait, lastWait time.Duration // between tries
	slowWait            time.Duration // after an error that only the configuration can end

	mu       sync.Mutex
	open     int    // connections that have said hello
	trouble  string // why there is none
	lastTold string
	toldAt   time.Time
}

// newSocket returns the socket. It connects when it is run.
func newSocket(in *inbound) *socket {
	return &socket{in: in, log: in.Logger, http: channels.NewHTTPClient(channels.HTTPTimeout), dial: newDialClient(),
		wake: make(chan struct{}, 1), quiet: socketQuiet, firstWait: firstWait, lastWait: lastWait, slowWait: hopelessWait}
}

// newDialClient returns a client whose answers stay open. It follows no redirect, which would take the ticket along.
func newDialClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// state reports whether there is a connection, and why not.
func (s *socket) state() (connected bool, trouble string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0, s.trouble
}

// reconfigure tells the socket that the token or the address may have changed.
func (s *socket) reconfigure() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run keeps a connection open until ctx ends; what came in by then is finished and acknowledged.
func (s *socket) run(ctx context.Context) {
	defer s.http.CloseIdleConnections()
	defer s.dial.CloseIdleConnections()
	var serving sync.WaitGroup
	defer serving.Wait()
	var now *connection
	wait := s.firstWait
	for ctx.Err() == nil {
		token, api := s.in.appToken(), s.in.api()
		if token == "" {
			now.patience(0)
			s.pause(ctx, 0)
			continue
		}
		next, err := s.connect(ctx, api, secret.Value(token))
		if err != nil {
			if ctx.Err() == nil {
				s.pause(ctx, s.noteFailure(err, &wait))
			}
			continue
		}
		now.patience(socketLinger)
		now = next
		serving.Go(func() { s.serve(ctx, next) })
		opened := time.Now()
		if s.until(ctx, now, token, api) && time.Since(opened) < soonOver {
			s.pause(ctx, s.backoff(&wait))
		} else {
			wait = s.firstWait
		}
	}
}

// until waits until another connection is needed, and says whether that is because of the one there is.
func (s *socket) until(ctx context.Context, c *connection, token, api string) bool {
	for {
		select {
		case <-c.leaving:
			return true
		case <-s.wake:
			if s.in.appToken() != token || s.in.api() != api {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// pause waits, with 0 for as long as nothing changes.
func (s *socket) pause(ctx context.Context, d time.Duration) {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-after:
	case <-s.wake:
	case <-ctx.Done():
	}
}

// backoff returns how long to wait, and doubles it for the next time.
func (s *socket) backoff(wait *time.Duration) time.Duration {
	d := *wait
	*wait = min(2*d, s.lastWait)
	return d/2 + rand.N(d/2+1)
}

// socketError is why a connection could not be opened.
type socketError struct {
	text  string
	slow  bool // only the configuration can help
	after time.Duration
}

func (e *socketError) Error() string { return e.text }

// noteFailure takes note of why there is no new connection, and returns how long to wait. The same trouble is
// said once in a while.
func (s *socket) noteFailure(err error, wait *time.Duration) time.Duration {
	pause := s.backoff(wait)
	e, ours := errors.AsType[*socketError](err)
	if ours && e.slow {
		pause = s.slowWait
	} else if ours {
		pause = max(pause, e.after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == 0 {
		s.trouble = err.Error()
	}
	level := slog.LevelDebug
	if at := time.Now(); s.lastTold != err.Error() || at.Sub(s.toldAt) >= tellEvery {
		s.lastTold, s.toldAt = err.Error(), at
		level = slog.LevelWarn
		if ours && e.slow {
			level = slog.LevelError
		}
	}
	s.log.Log(context.Background(), level, "no connection to Slack's Socket Mode; trying again", "error", err, "wait",
		pause)
	return pause
}

// hopeless is what Slack says to an app-level token when only the configuration can help.
var hopeless = map[string]string{
	"not_allowed_token_type": "app_token is not an app-level token: make one in the app's settings under Basic " +
		"Information, App-Level Tokens, with the scope connections:write; it begins with xapp-",
	"missing_scope": "the app-level token lacks the scope connections:write: make another one in the app's " +
		"settings under Basic Information, App-Level Tokens",
	"link_disabled": "Socket Mode is switched off in the app's settings: switch it on there, or take app_token " +
		"out of the configuration",
}

// refusals are the errors of a token that does not do.
var refusals = []string{"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired",
	"no_permission", "access_denied", "org_login_required",
	"team_access_not_granted", "app_access_restricted", "forbidden_team"}

// newSocketError makes an error of what Slack said.
func newSocketError(code string) *socketError {
	if text, ok := hopeless[code]; ok {
		return &socketError{text: "Slack says " + code + ": " + text, slow: true}
	}
	if slices.Contains(refusals, code) {
		return &socketError{text: "Slack refuses the app-level token (" + code + "): replace app_token in the configuration",
			slow: true}
	}
	return &socketError{text: "Slack says " + word(code)}
}

// word makes a word from outside fit for the log.
func word(said string) string {
	if said == "" || len(said) > 64 || strings.Trim(said, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "something that is not understood"
	}
	return said
}

// connect opens a connection, and returns it once Slack has said hello. No error holds the address,
// whose ticket is a secret.
func (s *socket) connect(ctx context.Context, api string, token secret.Value) (*connection, error) {
	opening, cancel := context.WithTimeout(ctx, channels.HTTPTimeout+socketHello)
	defer cancel()
	link, err := s.link(opening, api, token)
	if err != nil {
		return nil, err
	}
	c := newConnection(s.quiet)
	ws, res, err := websocket.Dial(opening, link, &websocket.DialOptions{HTTPClient: s.dial,
		OnPingReceived: func(context.Context, []byte) bool { c.allow(c.quiet); return true }})
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		if res != nil {
			err = fmt.Errorf("HTTP status %d", res.StatusCode)
		}
		return nil, &socketError{text: "the socket could not be opened: " +
			channels.Redact(err.Error(), token, secret.Value(link))}
	}
	ws.SetReadLimit(maxFrame)
	c.open(ws)
	defer context.AfterFunc(opening, func() { c.patience(0) })()
	if err := c.hello(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// link asks Slack where to connect to.
func (s *socket) link(ctx context.Context, api string, token secret.Value) (string, error) {
	x := &exchange{http: s.http}
	c := sdk.New("", sdk.OptionAppLevelToken(token.Reveal()), sdk.OptionAPIURL(Config{APIURL: api}.base()),
		sdk.OptionHTTPClient(x))
	_, _, err := c.StartSocketModeContext(ctx)
	switch {
	case x.err != nil:
		err = x.err
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return "", &socketError{text: "apps.connections.open was not answered: " + channels.Redact(err.Error(), token)}
	case x.status == 0 && err != nil:
		return "", &socketError{text: "the address of Slack's Web API is none", slow: true}
	case x.status == http.StatusTooManyRequests:
		return "", &socketError{text: "Slack says ratelimited", after: cmp.Or(channels.RetryAfter(x.header), rateLimitWait)}
	case !x.said || x.status != http.StatusOK:
		return "", &socketError{text: fmt.Sprintf("apps.connections.open was answered with HTTP status %d and nothing that "+
			"is understood", x.status)}
	case !x.answer.OK:
		return "", newSocketError(x.answer.Error)
	}
	var at struct {
		URL string `json:"url"`
	}
	_ = json.Unmarshal(x.body, &at) // what is no text is no address either
	u, err := url.Parse(at.URL)
	plain := strings.HasPrefix(api, "http://") // only for tests and demos on this machine
	if err != nil || u.Host == "" || u.Scheme != "wss" && !(plain && u.Scheme == "ws") {
		return "", &socketError{text: "apps.connections.open named no address to connect to"}
	}
	return at.URL, nil
}

// count takes note that connections have come or gone.
func (s *socket) count(n int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.open
	s.open += n
	if (before > 0) == (s.open > 0) {
		return
	}
	s.trouble = why
	if s.open > 0 {
		s.lastTold = ""
		s.log.Info("connected to Slack's Socket Mode")
	}
}

// serve takes what comes over a connection until it ends.
func (s *socket) serve(ctx context.Context, c *connection) {
	s.count(1, "")
	undo := context.AfterFunc(ctx, func() { c.patience(0) })
	defer undo()
	why := s.read(ctx, c)
	c.leave()
	s.count(-1, why)
	if ctx.Err() == nil {
		s.log.InfoContext(ctx, "a connection to Slack's Socket Mode has ended", "error", why)
	}
	c.working.Wait()
	c.close()
}

// read takes what comes over a connection, and returns why nothing comes any more.
func (s *socket) read(ctx context.Context, c *connection) (why string) {
	for {
		m, err := c.next()
		switch {
		case errors.Is(err, websocket.ErrMessageTooBig):
			return "a message was too large"
		case websocket.CloseStatus(err) == websocket.StatusNormalClosure,
			websocket.CloseStatus(err) == websocket.StatusGoingAway:
			return "Slack closed it"
		case errors.Is(err, errQuiet) && c.isUnwanted():
			return "it is no longer wanted"
		case errors.Is(err, errQuiet):
			return errQuiet.Error()
		case err != nil:
			return "it broke"
		case ctx.Err() != nil:
			return ctx.Err().Error()
		}
		c.allow(c.quiet)
		var e envelope
		if m.kind != websocket.MessageText || channels.Strictly(m.data, &e) != nil {
			s.log.WarnContext(ctx, "a message over Slack's Socket Mode was not understood", "bytes", len(m.data))
			continue
		}
		switch {
		case e.Type == "disconnect":
			s.log.DebugContext(ctx, "Slack is going to close a connection", "reason", word(e.Reason))
			if e.Reason == "link_disabled" {
				return newSocketError(e.Reason).text
			}
			c.leave()
			c.patience(socketLinger)
		case e.ID != "":
			c.room <- struct{}{}
			c.working.Go(func() {
				defer func() { <-c.room }()
				s.take(ctx, c, e)
			})
		}
	}
}

// envelope is what Slack sends over a socket.
type envelope struct {
	ID      string          `json:"envelope_id"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
	Accepts bool            `json:"accepts_response_payload"`
	Reason  string          `json:"reason"` // of a disconnect
}

// take handles one envelope as the delivery that it is, and acknowledges it once it is stored. As over
// HTTP, a fault in the handling of one delivery is not the end of the program.
func (s *socket) take(ctx context.Context, c *connection, e envelope) {
	ctx, cancel := webhook.Bound(ctx, answerWithin)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ctx, "an envelope could not be handled and is not acknowledged: this is a bug in Countersign; "+
				"please report it", "type", word(e.Type), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	h, a := s.in, webhook.Answer{}
	switch e.Type {
	case "interactive":
		a = h.interaction(ctx, e.Payload)
	case "events_api":
		a = h.event(ctx, e.Payload)
	case "slash_commands":
		var words command
		if err := channels.Strictly(e.Payload, &words); err != nil {
			a = h.NotUnderstood(ctx)
		} else {
			a = h.command(ctx, words)
		}
	default:
		s.log.DebugContext(ctx, "an envelope of a kind that is not acted on", "type", word(e.Type))
		a.Stored = true
	}
	if !a.Stored {
		return
	}
	ack := struct {
		ID      string          `json:"envelope_id"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{ID: e.ID}
	if e.Accepts && a.Kind == "application/json" {
		ack.Payload = a.Body
	}
	b, err := json.Marshal(ack)
	if err != nil || len(b) >= maxAck {
		s.log.ErrorContext(ctx, "the answer to a dialog does not fit into Socket Mode's acknowledgement; it is left out",
			"bytes", len(a.Body))
		ack.Payload = nil
		if b, err = json.Marshal(ack); err != nil {
			return
		}
	}
	if err := c.say(b); err != nil {
		s.log.WarnContext(ctx, "an envelope could not be acknowledged; Slack may send it again, which changes nothing",
			"type", word(e.Type))
	}
}

// connection is one WebSocket connection to Slack. What it brings is read beside those who wait for it: a read that is
// given up ends the connection, and what is being worked on is still to be acknowledged over it.
type connection struct {
	ws      *websocket.Conn
	quiet   time.Duration
	room    chan struct{} // for what is being worked on
	working sync.WaitGroup
	once    sync.Once
	leaving chan struct{} // closed when another connection is needed
	come    chan frame
	closing chan struct{} // closed when no reader waits for what comes any more
	reading sync.WaitGroup

	waiting sync.Mutex  // guards the two below
	over    *time.Timer // when it has brought nothing for too long
	last    time.Time   // when it ends whatever it brings; the zero time while it may go on
}

// frame is what came over a connection, or why nothing comes any more.
type frame struct {
	kind websocket.MessageType
	data []byte
	err  error
}

var errQuiet = errors.New("nothing came for too long")

func newConnection(quiet time.Duration) *connection {
	return &connection{quiet: quiet, room: make(chan struct{}, mostAtOnce), leaving: make(chan struct{}),
		come: make(chan frame), closing: make(chan struct{}), over: time.NewTimer(quiet)}
}

// open begins to read.
func (c *connection) open(ws *websocket.Conn) {
	c.ws = ws
	c.reading.Go(func() {
		for {
			var m frame
			m.kind, m.data, m.err = ws.Read(context.Background())
			select {
			case c.come <- m:
			case <-c.closing:
				return
			}
			if m.err != nil {
				return
			}
		}
	})
}

// next waits for a message, until the connection's time is over.
func (c *connection) next() (frame, error) {
	select {
	case m := <-c.come:
		return m, m.err
	case <-c.over.C:
		return frame{}, errQuiet
	}
}

// hello waits until Slack says hello.
func (c *connection) hello() error {
	c.allow(socketHello)
	m, err := c.next()
	var e envelope
	switch {
	case err != nil:
		return &socketError{text: "Slack opened a socket and did not say hello"}
	case json.Unmarshal(bytes.TrimSpace(m.data), &e) != nil || e.Type != "hello" && e.Type != "disconnect":
		return &socketError{text: "Slack opened a socket and said something that is not understood"}
	case e.Type == "disconnect":
		return newSocketError(e.Reason)
	}
	c.allow(c.quiet)
	return nil
}

// allow is how long the connection may now bring nothing.
func (c *connection) allow(d time.Duration) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if c.last.IsZero() {
		c.over.Reset(d)
	}
}

// patience is how long a connection goes on at most, whatever it brings; the shortest counts.
func (c *connection) patience(d time.Duration) {
	if c == nil {
		return
	}
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if at := time.Now().Add(d); c.last.IsZero() || at.Before(c.last) {
		c.last = at
		c.over.Reset(d)
	}
}

// isUnwanted says that the connection was given its time.
func (c *connection) isUnwanted() bool {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	return !c.last.IsZero()
}

// leave says that another connection is needed.
func (c *connection) leave() { c.once.Do(func() { close(c.leaving) }) }

// say writes one message, in one frame: Slack wants each answer so.
func (c *connection) say(b []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), socketWrite)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, b)
}

// close ends the connection as WebSocket wants it done, and waits until nothing reads from it any more.
func (c *connection) close() {
	close(c.closing)
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	c.reading.Wait()
	c.over.Stop()
}
