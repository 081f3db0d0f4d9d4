package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// SlackSocket is an open Socket Mode connection.
type SlackSocket struct {
	ID        string
	At        time.Time // when it was opened
	Envelopes int       // how many were sent over it
}

// Why Slack says disconnect, for [SlackSockets.Disconnect].
const (
	SocketWarning      = "warning"           // about ten seconds before it closes
	SocketRefresh      = "refresh_requested" // every few hours
	SocketLinkDisabled = "link_disabled"     // Socket Mode was switched off
	socketTooMany      = "too_many_websockets"
)

const (
	slackMaxSockets = 10
	// slackMaxAnswer is the size in bytes from which on an acknowledgement is dropped without a word.
	slackMaxAnswer   = 20 << 10
	slackMaxFrame    = 1 << 20
	ticketLife       = 30 * time.Second
	socketWriteLimit = 5 * time.Second
)

var (
	errNoSocket   = errors.New("emulator: Socket Mode is on and no socket is open")
	errSocketGone = errors.New("emulator: the socket closed before it acknowledged")
)

// socketMode is how the app's Socket Mode stands.
type socketMode int

const (
	socketModeUnset socketMode = iota // the first socket switches it on
	socketModeOn
	socketModeOff
)

// SlackSockets are the app's Socket Mode connections.
type SlackSockets struct {
	e     *Emulator
	slack *Slack

	// Guarded by the Emulator's lock.
	mode      socketMode
	open      []*socket // oldest first
	greeting  int       // connections that are being greeted
	turn      int       // whose turn it is
	tickets   map[string]time.Time
	envelopes map[string]*envelope
}

func newSlackSockets(s *Slack) *SlackSockets {
	ss := &SlackSockets{e: s.e, slack: s, tickets: map[string]time.Time{}, envelopes: map[string]*envelope{}}
	if s.cfg.SocketMode {
		ss.mode = socketModeOn
	}
	return ss
}

type socket struct {
	id     string
	conn   *websocket.Conn
	opened time.Time
	gone   chan struct{} // closed when the connection has ended
	leave  chan struct{} // closed when it shall end, once what waits is answered

	// Guarded by the lock.
	sent     int
	waiting  int  // envelopes not yet acknowledged
	draining bool // nothing new goes over it
	frozen   bool
}

// envelope is one payload on its way over a socket.
type envelope struct {
	socket  *socket
	accepts bool
	over    bool        // acknowledged, or given up
	answer  chan []byte // holds one: the payload of the acknowledgement
}

// say writes one message. It must not be called under the lock.
func (sk *socket) say(data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), socketWriteLimit)
	defer cancel()
	return sk.conn.Write(ctx, websocket.MessageText, data)
}

// end closes the connection as WebSocket wants it done.
func (sk *socket) end() { _ = sk.conn.Close(websocket.StatusNormalClosure, "") }

// newLink is apps.connections.open. It takes an app-level token and nothing else, in the header only.
func (ss *SlackSockets) newLink(_ *Call, _ url.Values) answer {
	ss.e.mu.Lock()
	defer ss.e.mu.Unlock()
	ticket := randomHex(16)
	ss.tickets[ticket] = ss.e.now()
	link := "ws" + strings.TrimPrefix(ss.e.baseURL, "http") + "/slack/link/?" +
		url.Values{"ticket": {ticket}, "app_id": {ss.slack.cfg.AppID}}.Encode()
	return slackOK(map[string]any{"url": link})
}

// serve is the other end of a Socket Mode connection.
func (ss *SlackSockets) serve(w http.ResponseWriter, r *http.Request) {
	ss.e.mu.Lock()
	if ss.e.closed {
		ss.e.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	ss.e.handlers.Add(1)
	defer ss.e.handlers.Done()
	c := &Call{
		Seq: len(ss.e.calls) + 1, At: ss.e.now(), Platform: "slack", Endpoint: SlackSocketLink,
		Method: r.Method, Path: r.URL.Path, Header: publicHeader(r.Header),
	}
	ss.e.calls = append(ss.e.calls, c)
	fault, failing := ss.e.takeFault(c.Platform, c.Endpoint)
	if failing {
		c.Fault = fault.Name
	}
	ss.e.bump()
	ss.e.mu.Unlock()

	ss.e.sleep(fault.Delay)
	if fault.Cut {
		ss.e.finish(c, nil, false)
		panic(http.ErrAbortHandler)
	}
	ss.e.pause(c.Platform, c.Endpoint, beforeAct)
	refuse := func(status int, header map[string]string, body string) {
		for k, v := range header {
			w.Header().Set(k, v)
		}
		ss.e.finish(c, &answer{status, header, []byte(body)}, false)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
	if fault.Status != 0 {
		refuse(fault.Status, fault.Header, fault.Body)
		return
	}
	ticket := r.URL.Query().Get("ticket")
	ss.e.mu.Lock()
	issued, known := ss.tickets[ticket]
	delete(ss.tickets, ticket) // it opens one socket
	valid := known && ss.e.now().Sub(issued) <= ticketLife
	c.Authorized = valid
	ss.e.mu.Unlock()
	if !valid {
		refuse(http.StatusNotFound, nil, "the ticket is used, expired, or none of ours")
		return
	}
	// the ticket is the secret, not the page
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil { // it has answered
		ss.e.finish(c, &answer{status: http.StatusBadRequest}, false)
		return
	}
	conn.SetReadLimit(slackMaxFrame)
	ss.e.finish(c, &answer{status: http.StatusSwitchingProtocols}, true)
	ss.keep(&socket{id: "link-" + randomHex(4), conn: conn, opened: ss.e.now(), gone: make(chan struct{}),
		leave: make(chan struct{})})
}

// keep greets and then listens until the connection ends.
func (ss *SlackSockets) keep(sk *socket) {
	var pings sync.WaitGroup
	defer pings.Wait()
	defer func() {
		_ = sk.conn.CloseNow()
		ss.e.mu.Lock()
		ss.open = slices.DeleteFunc(ss.open, func(other *socket) bool { return other == sk })
		ss.e.bump()
		ss.e.mu.Unlock()
		close(sk.gone)
	}()
	ss.e.mu.Lock()
	open, off := len(ss.open)+ss.greeting, ss.mode == socketModeOff
	if !off && open < slackMaxSockets { // it counts from now on, though nothing is sent over it before its greeting
		ss.greeting++
	}
	ss.e.mu.Unlock()
	switch {
	case off:
		_ = sk.say(farewell(SocketLinkDisabled))
		sk.end()
		return
	case open >= slackMaxSockets:
		_ = sk.say(farewell(socketTooMany))
		sk.end()
		return
	}
	hello := sk.say(mustJSON(Object{
		"type": "hello", "num_connections": open + 1, "connection_info": Object{"app_id": ss.slack.cfg.AppID},
		"debug_info": Object{"host": "applink-sandbox", "started": ss.e.now().UTC().Format("2006-01-02 15:04:05.000"),
			"build_number": 1, "approximate_connection_time": 3600},
	}))
	ss.e.mu.Lock()
	ss.greeting--
	if hello != nil {
		ss.e.mu.Unlock()
		return
	}
	ss.open, ss.mode = append(ss.open, sk), socketModeOn
	ss.e.bump()
	ss.e.mu.Unlock()
	pings.Go(func() { ss.ping(sk) })
	for {
		_, data, err := sk.conn.Read(context.Background())
		if err != nil {
			return
		}
		ss.acknowledge(sk, data)
	}
}

func farewell(reason string) []byte {
	return mustJSON(Object{"type": "disconnect", "reason": reason, "debug_info": Object{"host": "applink-sandbox"}})
}

// ping keeps a connection alive, and closes it when its time has come.
func (ss *SlackSockets) ping(sk *socket) {
	beat := time.NewTicker(ss.slack.cfg.PingInterval)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			ss.e.mu.Lock()
			frozen := sk.frozen
			ss.e.mu.Unlock()
			if !frozen {
				ctx, cancel := context.WithTimeout(context.Background(), socketWriteLimit)
				_ = sk.conn.Ping(ctx)
				cancel()
			}
		case <-sk.leave:
			for {
				changed := ss.e.change()
				ss.e.mu.Lock()
				waiting := sk.waiting
				ss.e.mu.Unlock()
				if waiting == 0 {
					sk.end()
					return
				}
				select {
				case <-changed:
				case <-sk.gone:
					return
				case <-ss.e.done:
					_ = sk.conn.CloseNow()
					return
				}
			}
		case <-sk.gone:
			return
		case <-ss.e.done:
			_ = sk.conn.CloseNow()
			return
		}
	}
}

// acknowledge takes what the app says over a socket: that it has got an envelope, and perhaps an answer to it.
func (ss *SlackSockets) acknowledge(sk *socket, data []byte) {
	ss.e.mu.Lock()
	defer ss.e.mu.Unlock()
	if sk.frozen {
		return
	}
	wrong := func(rule, detail string) {
		ss.e.violate(&Call{Platform: "slack", Endpoint: SlackSocketLink}, rule, detail)
	}
	if len(data) >= slackMaxAnswer {
		wrong("answer_too_large", fmt.Sprintf("%d bytes: from %d on Slack drops the acknowledgement", len(data),
			slackMaxAnswer))
		return
	}
	var ack struct {
		ID      string          `json:"envelope_id"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(data, &ack); err != nil || ack.ID == "" {
		wrong("schema", "an acknowledgement is an object with an envelope_id")
		return
	}
	if string(ack.Payload) == "null" {
		ack.Payload = nil
	}
	e := ss.envelopes[ack.ID]
	switch {
	case e == nil || e.socket != sk:
		wrong("unknown_envelope", "nothing was sent under "+ack.ID+" over this socket")
		return
	case e.over:
		wrong("late_acknowledgement", ack.ID+" was acknowledged before, or too late")
		return
	case ack.Payload != nil && !e.accepts:
		wrong("payload_not_accepted", "an event takes no answer")
		ack.Payload = nil
	}
	e.over = true
	e.answer <- bytes.Clone(ack.Payload)
}

// deliver reports whether payloads go over sockets instead of HTTP.
func (ss *SlackSockets) deliver() bool {
	ss.e.mu.Lock()
	defer ss.e.mu.Unlock()
	return ss.mode == socketModeOn
}

// post delivers what [Slack.Post] was given over a socket. Events are repeated as over HTTP.
func (ss *SlackSockets) post(ctx context.Context, p SlackPost) (Delivery, error) {
	frame := Object{"accepts_response_payload": true}
	var ids []string
	var waits []time.Duration
	switch {
	case p.Payload != nil:
		frame["type"], frame["payload"], ids = "interactive", p.Payload, []string{str(p.Payload["trigger_id"])}
	case p.Form != nil:
		fields := Object{}
		for name := range p.Form {
			fields[name] = p.Form.Get(name)
		}
		frame["type"], frame["payload"], ids = "slash_commands", fields, []string{p.Form.Get("trigger_id")}
	default:
		frame["type"], frame["payload"], ids = "events_api", p.Event, []string{str(p.Event["event_id"])}
		frame["accepts_response_payload"], frame["retry_attempt"], frame["retry_reason"] = false, 0, ""
		ss.e.mu.Lock()
		waits = ss.slack.retries
		ss.e.mu.Unlock()
	}
	var earlier []Delivery
	for try := 0; ; try++ {
		// Each try is an envelope of its own: only the event id tells that it is the same event.
		frame["envelope_id"] = requestID()
		d, err := ss.send(ctx, mustJSON(frame))
		d.EventIDs, d.Earlier = ids, earlier
		if d.OK() || try >= len(waits) || ctx.Err() != nil {
			return d, err
		}
		frame["retry_attempt"], frame["retry_reason"] = try+1, "connection_failed"
		if isTimeout(err) {
			frame["retry_reason"] = "timeout"
		}
		earlier = append(earlier, d)
		ss.e.sleep(waits[try])
	}
}

// send sends one envelope over the next socket in turn and waits for its acknowledgement.
func (ss *SlackSockets) send(ctx context.Context, frame []byte) (Delivery, error) {
	var head struct {
		ID      string `json:"envelope_id"`
		Accepts bool   `json:"accepts_response_payload"`
	}
	_ = json.Unmarshal(frame, &head) // it is our own
	d := Delivery{Platform: "slack", Sent: frame}
	ss.e.mu.Lock()
	var sk *socket
	for range ss.open {
		ss.turn++
		if next := ss.open[ss.turn%len(ss.open)]; !next.draining {
			sk = next
			break
		}
	}
	if sk == nil {
		ss.e.mu.Unlock()
		return d, errNoSocket
	}
	e := &envelope{socket: sk, accepts: head.Accepts, answer: make(chan []byte, 1)}
	ss.envelopes[head.ID] = e
	sk.sent++
	sk.waiting++
	frozen := sk.frozen
	ss.e.bump()
	ss.e.mu.Unlock()

	d.Socket = sk.id
	ctx, cancel := context.WithTimeout(ctx, ss.slack.cfg.WebhookTimeout)
	defer cancel()
	latency := measure()
	var err error
	if !frozen && sk.say(frame) != nil {
		err = errSocketGone
	}
	if err == nil {
		select {
		case d.Body = <-e.answer:
			d.Status = http.StatusOK
		case <-sk.gone:
			err = errSocketGone
		case <-ctx.Done():
			err = fmt.Errorf("emulator: no acknowledgement: %w", ctx.Err())
		}
	}
	d.Latency = latency()
	ss.e.mu.Lock()
	defer ss.e.mu.Unlock()
	if err != nil && e.over { // it came in the same moment
		d.Body, d.Status, err = <-e.answer, http.StatusOK, nil
	}
	e.over = true
	sk.waiting--
	ss.e.bump()
	ss.e.log.DebugContext(ctx, "envelope", "socket", sk.id, "status", d.Status, "latency", d.Latency, "error", err)
	return d, err
}

// All returns the open Socket Mode connections, oldest first.
func (ss *SlackSockets) All() []SlackSocket {
	ss.e.mu.Lock()
	defer ss.e.mu.Unlock()
	var open []SlackSocket
	for _, sk := range ss.open {
		if !sk.draining {
			open = append(open, SlackSocket{ID: sk.id, At: sk.opened, Envelopes: sk.sent})
		}
	}
	return open
}

// Wait waits until exactly n sockets are open, and returns them.
func (ss *SlackSockets) Wait(ctx context.Context, n int) ([]SlackSocket, error) {
	var open []SlackSocket
	err := ss.e.WaitFor(ctx, func() bool {
		open = ss.All()
		return len(open) == n
	})
	return open, err
}

// SetMode switches Socket Mode on or off, as in the app's settings. The first socket that is opened switches
// it on by itself. While it is on, nothing goes to the webhook, even when no socket is open. Switched off, every socket
// is told link_disabled and closed, a new one likewise, and the webhook is used again.
func (ss *SlackSockets) SetMode(on bool) { //nolint:revive // a switch is what it is
	ss.e.mu.Lock()
	ss.mode = socketModeOff
	if on {
		ss.mode = socketModeOn
	}
	ss.e.bump()
	ss.e.mu.Unlock()
	if !on {
		ss.dismiss("", SocketLinkDisabled)
	}
}

// Disconnect sends a disconnect message over a socket; an empty id means every one. After
// [SocketWarning] the socket goes on as before. After [SocketRefresh] nothing new goes over it, and it is closed as
// soon as what was sent over it is acknowledged or given up. [SocketLinkDisabled] is Socket Mode switched off: see
// [SlackSockets.SetMode].
func (ss *SlackSockets) Disconnect(id, reason string) error {
	switch reason {
	case SocketWarning, SocketRefresh:
	case SocketLinkDisabled:
		ss.SetMode(false)
		return nil
	default:
		return fmt.Errorf("emulator: Slack knows no reason %q to disconnect", reason)
	}
	if ss.dismiss(id, reason) == 0 {
		return fmt.Errorf("emulator: no open socket %q", id)
	}
	return nil
}

// dismiss says disconnect over the sockets meant by id and, but for a warning, lets them end. It returns how many there
// were.
func (ss *SlackSockets) dismiss(id, reason string) int {
	meant := ss.pick(id, func(sk *socket) { sk.draining = sk.draining || reason != SocketWarning })
	for _, sk := range meant {
		_ = sk.say(farewell(reason))
		if reason != SocketWarning {
			close(sk.leave)
		}
	}
	return len(meant)
}

// Cut breaks a socket's connection without a word, as a failing network does. An empty id means every
// socket.
func (ss *SlackSockets) Cut(id string) {
	for _, sk := range ss.pick(id, func(*socket) {}) {
		_ = sk.conn.CloseNow()
	}
}

// Freeze leaves a socket's connection open while nothing comes over it any more, neither envelopes nor
// pings, as when something on the way has forgotten it. An empty id means every socket.
func (ss *SlackSockets) Freeze(id string) {
	ss.pick(id, func(sk *socket) { sk.frozen = true })
}

// pick returns the sockets with this id, or all, that are not already leaving, after change was made to each.
func (ss *SlackSockets) pick(id string, change func(*socket)) []*socket {
	ss.e.mu.Lock()
	defer ss.e.mu.Unlock()
	var meant []*socket
	for _, sk := range ss.open {
		if (id == "" || sk.id == id) && !sk.draining {
			change(sk)
			meant = append(meant, sk)
		}
	}
	ss.e.bump()
	return meant
}
