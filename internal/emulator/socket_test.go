package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

// app is the other end of a Socket Mode connection. It acknowledges every envelope with what reply returns; false
// leaves it unacknowledged.
type app struct {
	conn *websocket.Conn
	done chan struct{}
	t    testing.TB

	mu     sync.Mutex
	reply  func(frame) ([]byte, bool)
	frames []frame
	pings  int
	err    error // why it ended
}

type frame = map[string]any

// accept acknowledges without an answer.
func accept(f frame) ([]byte, bool) {
	b, _ := json.Marshal(frame{"envelope_id": f["envelope_id"]})
	return b, true
}

// answersWithin is for how long the platform waits where one answer does not come and another must: a busy machine has
// the time for it.
const answersWithin = 2 * time.Second

func silent(frame) ([]byte, bool) { return nil, false }

// answering acknowledges with a payload.
func answering(payload string) func(frame) ([]byte, bool) {
	return func(f frame) ([]byte, bool) {
		b, _ := json.Marshal(frame{"envelope_id": f["envelope_id"], "payload": json.RawMessage(payload)})
		return b, true
	}
}

// link asks for the address of a socket.
func (w *world) link() string {
	w.t.Helper()
	r, err := w.do("POST", w.Slack.URL()+"apps.connections.open", map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Authorization": "Bearer " + w.Config().Slack.AppToken,
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	link, _ := r.json(w.t)["url"].(string)
	if r.json(w.t)["ok"] != true || !strings.HasPrefix(link, "ws://") ||
		r.header.Get("X-OAuth-Scopes") != "connections:write" {
		w.t.Fatalf("apps.connections.open: %s %v", r.body, r.header)
	}
	return link
}

// connect opens a socket.
func (w *world) connect(reply func(frame) ([]byte, bool)) *app {
	w.t.Helper()
	a := &app{reply: reply, done: make(chan struct{}), t: w.t}
	greeted := make(chan struct{})
	conn, _, err := websocket.Dial(w.ctx(), w.link(), &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool {
			a.mu.Lock()
			a.pings++
			a.mu.Unlock()
			return true
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	a.conn = conn
	go func() {
		defer close(a.done)
		for {
			_, data, err := conn.Read(context.Background())
			var f frame
			if err == nil {
				err = json.Unmarshal(data, &f)
			}
			a.mu.Lock()
			if err != nil {
				a.err = err
				a.mu.Unlock()
				return
			}
			a.frames = append(a.frames, f)
			if len(a.frames) == 1 {
				close(greeted)
			}
			reply := a.reply
			a.mu.Unlock()
			if f["envelope_id"] == nil {
				continue
			}
			if ack, ok := reply(f); ok {
				_ = conn.Write(context.Background(), websocket.MessageText, ack)
			}
		}
	}()
	w.t.Cleanup(a.close)
	select {
	case <-greeted:
	case <-a.done: // it may have been greeted and sent away at once
		if len(a.got()) == 0 {
			w.t.Fatalf("nothing was said over the socket: %v", a.err)
		}
	}
	return a
}

func (a *app) close() {
	_ = a.conn.CloseNow()
	testkit.Receive(a.t, "the end of the connection", a.done)
}

// answer changes how the next envelopes are acknowledged.
func (a *app) answer(reply func(frame) ([]byte, bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reply = reply
}

func (a *app) got() []frame {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.frames)
}

func (a *app) last() frame {
	all := a.got()
	return all[len(all)-1]
}

func (w *world) waitSockets(n int) []emulator.SlackSocket {
	w.t.Helper()
	open, err := w.Slack.Sockets.Wait(w.ctx(), n)
	if err != nil {
		w.t.Fatalf("%d sockets are open, want %d: %v", len(open), n, err)
	}
	return open
}

// card posts a card with buttons to the channel.
func (w *world) card() {
	w.t.Helper()
	if r := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"},
		"blocks": {slackCard}}); r["ok"] != true {
		w.t.Fatal(r)
	}
}

func (w *world) rules() (rules []string) {
	for _, v := range w.Violations() {
		rules = append(rules, v.Rule)
	}
	return rules
}

func TestSocketsCarryEverythingInsteadOfHTTP(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.card()
	a := w.connect(accept)
	w.waitSockets(1)
	hello := a.got()[0]
	if hello["type"] != "hello" || hello["num_connections"] != 1.0 || encode(t, hello["connection_info"]) != `{"app_id":"`+
		w.Config().Slack.AppID+`"}` {
		t.Errorf("hello: %v", hello)
	}

	d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "approve", "")
	if err != nil || d.Status != 200 || d.Socket == "" || d.Body != nil {
		t.Fatalf("tap: %+v %v", d, err)
	}
	f := a.last()
	payload := f["payload"].(map[string]any)
	if f["type"] != "interactive" || f["accepts_response_payload"] != true || payload["type"] != "block_actions" ||
		payload["trigger_id"] != d.EventIDs[0] {
		t.Errorf("envelope: %v", f)
	}
	if _, there := f["retry_attempt"]; there {
		t.Errorf("an interaction is not repeated: %v", f)
	}

	if d, err := w.Slack.Type(w.ctx(), "hana", "approve 01", ""); err != nil || d.Status != 200 {
		t.Fatalf("event: %+v %v", d, err)
	}
	f = a.last()
	payload = f["payload"].(map[string]any)
	if f["type"] != "events_api" || f["accepts_response_payload"] != false || f["retry_attempt"] != 0.0 ||
		f["retry_reason"] != "" ||
		payload["type"] != "event_callback" || payload["event"].(map[string]any)["text"] != "approve 01" {
		t.Errorf("envelope: %v", f)
	}

	if d, err := w.Slack.Slash(w.ctx(), "hana", "approvals", "/countersign", "pending"); err != nil || d.Status != 200 {
		t.Fatalf("command: %+v %v", d, err)
	}
	f = a.last()
	payload = f["payload"].(map[string]any)
	if f["type"] != "slash_commands" || f["accepts_response_payload"] != true || payload["command"] != "/countersign" ||
		payload["text"] != "pending" || payload["user_id"] != "U02HANA" {
		t.Errorf("envelope: %v", f)
	}
	if n := len(w.hooked()); n != 0 {
		t.Errorf("%d webhooks were posted, want none", n)
	}

	// Who wants to say how HTTP carries it, gets HTTP.
	if d, err := w.Slack.VerifyURL(w.ctx(), "c"); err != nil || d.Socket != "" || len(w.hooked()) != 1 {
		t.Errorf("url_verification: %+v %v", d, err)
	}
	if v := w.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
}

func TestSocketsTakeAnswers(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.card()
	a := w.connect(accept)
	w.waitSockets(1)
	d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "deny", "")
	if err != nil {
		t.Fatal(err)
	}
	if r := w.slack("views.open", url.Values{"trigger_id": {d.EventIDs[0]}, "view": {modal("")}}); r["ok"] != true {
		t.Fatal(r)
	}
	a.answer(answering(`{"response_action":"errors","errors":{"reason":"Please give one."}}`))
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "", nil); err != nil || !lastView(w).Open {
		t.Errorf("errors: %v, %+v", err, lastView(w))
	}
	if f := a.last(); f["type"] != "interactive" || f["payload"].(map[string]any)["type"] != "view_submission" {
		t.Errorf("envelope: %v", f)
	}
	a.answer(accept)
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "", nil); err != nil || lastView(w).Open {
		t.Errorf("empty: %v, %+v", err, lastView(w))
	}
	a.answer(answering(`{"text":"Nothing is waiting."}`))
	if _, err := w.Slack.Slash(w.ctx(), "hana", "approvals", "/countersign", "pending"); err != nil {
		t.Fatal(err)
	}
	all := w.Slack.Messages("approvals")
	if m := all[len(all)-1]; m.Text != "Nothing is waiting." || m.Ephemeral != "U02HANA" {
		t.Errorf("the answer: %+v", m)
	}
	if v := w.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
	if _, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err != nil {
		t.Fatal(err)
	}
	if got := w.rules(); !slices.Equal(got, []string{"payload_not_accepted"}) {
		t.Errorf("violations: %v", got)
	}
}

func TestSocketsDropLargeAnswers(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) { c.Slack.WebhookTimeout = answersWithin })
	sized := func(size int) func(frame) ([]byte, bool) {
		return func(f frame) ([]byte, bool) {
			empty, _ := answering(`{"text":""}`)(f)
			return []byte(strings.Replace(string(empty), `"text":""`, `"text":"`+strings.Repeat("a", size-len(empty))+`"`, 1)),
				true
		}
	}
	a := w.connect(sized(20<<10 - 1))
	w.waitSockets(1)
	if d, err := w.Slack.Slash(w.ctx(), "hana", "approvals", "/countersign", ""); err != nil || d.Status != 200 {
		t.Errorf("one byte less: %v", err)
	}
	a.answer(sized(20 << 10))
	if d, err := w.Slack.Slash(w.ctx(), "hana", "approvals", "/countersign", ""); err == nil || d.Status != 0 {
		t.Errorf("20 KB: %+v, want no acknowledgement", d)
	}
	if got := w.rules(); !slices.Equal(got, []string{"answer_too_large"}) {
		t.Errorf("violations: %v", got)
	}
}

func TestSocketsRepeatEventsOnly(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) { c.Slack.WebhookTimeout = answersWithin })
	w.card()
	w.Slack.SetRetries(0, 0, 0)
	a := w.connect(func(f frame) ([]byte, bool) {
		if f["retry_attempt"] != 2.0 {
			return silent(f)
		}
		return accept(f)
	})
	w.waitSockets(1)
	d, err := w.Slack.Type(w.ctx(), "hana", "hello", "")
	if err != nil || d.Status != 200 || len(d.Earlier) != 2 {
		t.Fatalf("%+v %v", d, err)
	}
	frames := a.got()[1:]
	first, last := frames[0], frames[2]
	if last["retry_attempt"] != 2.0 || last["retry_reason"] != "timeout" || first["envelope_id"] == last["envelope_id"] ||
		first["payload"].(map[string]any)["event_id"] != last["payload"].(map[string]any)["event_id"] {
		t.Errorf("first %v, last %v", first, last)
	}
	if d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "approve", ""); err == nil || d.Status != 0 ||
		len(d.Earlier) != 0 || len(a.got()) != 5 {
		t.Errorf("a tap is sent once: %+v %v, %d messages in all", d, err, len(a.got()))
	}
}

func TestSocketsTakeTurns(t *testing.T) {
	t.Parallel()
	w := start(t)
	a, b := w.connect(accept), w.connect(accept)
	w.waitSockets(2)
	if n := b.got()[0]["num_connections"]; n != 2.0 {
		t.Errorf("num_connections: %v", n)
	}
	for range 6 {
		if _, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err != nil {
			t.Fatal(err)
		}
	}
	if x, y := len(a.got())-1, len(b.got())-1; x != 3 || y != 3 {
		t.Errorf("%d and %d envelopes, want 3 each", x, y)
	}
	a.close()
	w.waitSockets(1)
	for range 3 {
		if d, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err != nil || d.Status != 200 {
			t.Fatal(err)
		}
	}
	for range 9 {
		w.connect(accept)
	}
	w.waitSockets(10)
	last := w.connect(accept)
	testkit.Receive(w.t, "the end of the connection", last.done)
	if got := last.got(); len(got) != 1 || got[0]["type"] != "disconnect" || got[0]["reason"] != "too_many_websockets" {
		t.Errorf("the eleventh: %v", got)
	}
}

func TestSocketsDisconnect(t *testing.T) {
	t.Parallel()
	w := start(t)
	a := w.connect(accept)
	id := w.waitSockets(1)[0].ID
	if err := w.Slack.Sockets.Disconnect(id, emulator.SocketWarning); err != nil {
		t.Fatal(err)
	}
	if d, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err != nil || d.Socket != id {
		t.Errorf("after a warning: %+v %v", d, err)
	}
	if err := w.Slack.Sockets.Disconnect("", emulator.SocketRefresh); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(w.t, "the end of the connection", a.done)
	frames := a.got()
	if len(frames) != 4 || frames[1]["reason"] != "warning" || frames[3]["type"] != "disconnect" ||
		frames[3]["reason"] != "refresh_requested" {
		t.Errorf("frames: %v", frames)
	}
	if websocket.CloseStatus(a.err) != websocket.StatusNormalClosure {
		t.Errorf("closed with %v", a.err)
	}
	w.waitSockets(0)

	// Socket Mode is on all the same: nothing goes to the webhook.
	if d, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err == nil || d.Status != 0 || len(w.hooked()) != 0 {
		t.Errorf("without a socket: %+v %v", d, err)
	}
	b := w.connect(accept)
	w.waitSockets(1)
	if err := w.Slack.Sockets.Disconnect("", emulator.SocketLinkDisabled); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(w.t, "the end of the connection", b.done)
	if f := b.last(); f["reason"] != "link_disabled" {
		t.Errorf("frame: %v", f)
	}
	c := w.connect(accept)
	testkit.Receive(w.t, "the end of the connection", c.done)
	if got := c.got(); len(got) != 1 || got[0]["reason"] != "link_disabled" {
		t.Errorf("a new socket: %v", got)
	}
	if d, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err != nil || d.Socket != "" || len(w.hooked()) != 1 {
		t.Errorf("switched off: %+v %v", d, err)
	}
	w.Slack.Sockets.SetMode(true)
	w.connect(accept)
	w.waitSockets(1)
	if err := w.Slack.Sockets.Disconnect("link-none", emulator.SocketRefresh); err == nil {
		t.Error("a socket that is not there was disconnected")
	}
	if err := w.Slack.Sockets.Disconnect("", "boredom"); err == nil {
		t.Error("an unknown reason was given")
	}
}

func TestARefreshedSocketStillTakesItsAcknowledgements(t *testing.T) {
	t.Parallel()
	w := start(t)
	answered, letGo := testkit.Latch()
	defer letGo()
	a := w.connect(func(f frame) ([]byte, bool) {
		<-answered
		return accept(f)
	})
	w.waitSockets(1)
	result := make(chan error, 1)
	go func() {
		d, err := w.Slack.Type(w.ctx(), "hana", "hello", "")
		if err == nil && d.Status != 200 {
			err = errors.New("not acknowledged")
		}
		result <- err
	}()
	if err := w.WaitFor(w.ctx(), func() bool {
		open := w.Slack.Sockets.All()
		return len(open) == 1 && open[0].Envelopes == 1
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Slack.Sockets.Disconnect("", emulator.SocketRefresh); err != nil {
		t.Fatal(err)
	}
	letGo()
	if err := testkit.Receive(t, "what came of it", result); err != nil {
		t.Error(err)
	}
	testkit.Receive(w.t, "the end of the connection", a.done)
}

func TestSocketsFail(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) {
		c.Slack.WebhookTimeout, c.Slack.PingInterval = 50*time.Millisecond, 5*time.Millisecond
	})
	a := w.connect(accept)
	w.waitSockets(1)
	if err := w.WaitFor(w.ctx(), func() bool {
		w.Page.Log("agent", "look again") // pings change nothing that is waited for
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.pings > 1
	}); err != nil {
		t.Errorf("no pings: %v", err)
	}
	w.Slack.Sockets.Freeze("")
	if d, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err == nil || d.Status != 0 {
		t.Errorf("frozen: %+v %v", d, err)
	}
	w.Slack.Sockets.Cut("")
	testkit.Receive(w.t, "the end of the connection", a.done)
	w.waitSockets(0)

	link := w.link()
	dial := func(link string) int {
		conn, res, err := websocket.Dial(w.ctx(), link, &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: &http.Transport{}}}) // on a connection of its own, or the client tries twice
		if err == nil {
			t.Cleanup(func() { _ = conn.CloseNow() })
		}
		if res == nil {
			return 0
		}
		return res.StatusCode
	}
	w.Fail(emulator.SlackSocketLink, 1, emulator.ServerError())
	if got := dial(link); got != http.StatusInternalServerError {
		t.Errorf("told to fail: %d", got)
	}
	if got := dial(link); got != http.StatusSwitchingProtocols {
		t.Errorf("a ticket that was not used: %d", got)
	}
	if got := dial(link); got != http.StatusNotFound {
		t.Errorf("a used ticket: %d", got)
	}
	old := w.link()
	w.clock.Advance(time.Minute)
	if got := dial(old); got != http.StatusNotFound {
		t.Errorf("an old ticket: %d", got)
	}
	w.Fail(emulator.SlackSocketLink, 1, emulator.ConnectionClosed())
	if got := dial(w.link()); got != 0 {
		t.Errorf("cut: %d", got)
	}
}

func TestSocketsNoticeWrongAcknowledgements(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.connect(func(f frame) ([]byte, bool) {
		b, _ := accept(f)
		return b, true
	})
	a := w.connect(silent)
	w.waitSockets(2)
	for _, message := range []string{`{"envelope_id":"nothing"}`, `{}`, `nonsense`} {
		if err := a.conn.Write(w.ctx(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WaitFor(w.ctx(), func() bool { return len(w.Violations()) == 3 }); err != nil {
		t.Fatal(err)
	}
	if got := w.rules(); !slices.Equal(got, []string{"unknown_envelope", "schema", "schema"}) {
		t.Errorf("violations: %v", got)
	}
}

func TestASocketCanBeReplayed(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.card()
	a := w.connect(accept)
	w.waitSockets(1)
	d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "approve", "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.Resend(w.ctx(), d); err != nil || again.Status != 200 {
		t.Fatalf("%+v %v", again, err)
	}
	frames := a.got()
	if encode(t, frames[1]) != encode(t, frames[2]) {
		t.Errorf("%v, %v", frames[1], frames[2])
	}
}

func TestSlackTellsItsTokensApart(t *testing.T) {
	t.Parallel()
	w := start(t)
	cfg := w.Config().Slack
	call := func(verb, method, token, form string) map[string]any {
		t.Helper()
		header := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
		if token != "" {
			header["Authorization"] = "Bearer " + token
		}
		r, err := w.do(verb, w.Slack.URL()+method, header, []byte(form))
		if err != nil {
			t.Fatal(err)
		}
		return r.json(t)
	}
	for _, c := range []struct{ name, verb, method, token, form, want string }{
		{"the app's token opens sockets", "POST", "apps.connections.open", cfg.AppToken, "", ""},
		{"the bot's does not", "POST", "apps.connections.open", cfg.BotToken, "", "not_allowed_token_type"},
		{"nor does another", "POST", "apps.connections.open", "xapp-other", "", "invalid_auth"},
		{"nor none", "POST", "apps.connections.open", "", "", "not_authed"},
		{"in the header only", "POST", "apps.connections.open", "", "token=" + cfg.AppToken, "missing_args"},
		{"by POST only", "GET", "apps.connections.open", cfg.AppToken, "", "insecure_request"},
		{"the app's token does nothing else", "POST", "auth.test", cfg.AppToken, "", "not_allowed_token_type"},
		{"the bot's does", "POST", "auth.test", cfg.BotToken, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := call(c.verb, c.method, c.token, c.form)
			if code, _ := got["error"].(string); code != c.want {
				t.Errorf("got %v, want error %q", got, c.want)
			}
		})
	}
}
