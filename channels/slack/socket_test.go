package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/emulator"
	"countersign/internal/secret"
	"countersign/internal/testkit"
)

// socketed is a socket between our handler and Slack's stand-in.
type socketed struct {
	*fixture
	ctx      context.Context
	platform *emulator.Emulator
	socket   *socket
	end      func() // ends Run
	stop     func() // ends Run, and waits for it
}

// appToken is made at run time, as Slack's look.
var appToken = "xapp-" + strings.Repeat("test-only-", 2)

func newSocketed(t *testing.T, change func(s *socket), slack ...func(c *emulator.SlackConfig)) *socketed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s := &socketed{fixture: newFixture(t), ctx: ctx}
	cfg := emulator.Config{
		Slack: emulator.SlackConfig{BotToken: "xoxb-test-only", SigningSecret: signingSecret, AppToken: appToken,
			TeamID: "T0TEAM0001", AppID: "A0APPROVE1", BotUserID: "U0BOT", SocketMode: true,
			PingInterval: 50 * time.Millisecond, Channels: []emulator.Channel{{ID: "C0APPROVALS", Name: "approvals"}}},
		People: []emulator.Person{{Name: "hana", Slack: "U02HANA"}},
	}
	for _, change := range slack {
		change(&cfg.Slack)
	}
	platform, err := emulator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := platform.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { platform.Close() })
	s.platform = platform
	s.slack.Count = func(_, _ string) {}
	s.configure(func(c *Config) { c.AppToken, c.APIURL = secret.Value(appToken), platform.Slack.URL() })
	s.socket = s.slack.socket
	s.socket.firstWait, s.socket.lastWait = 5*time.Millisecond, 20*time.Millisecond
	if change != nil {
		change(s.socket)
	}
	running, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); s.slack.Run(running) }()
	s.end, s.stop = end, func() { end(); testkit.Receive(t, "the end of Run", done) }
	t.Cleanup(s.stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Log)
		}
		for _, word := range []string{appToken, "ticket", "xoxb-test-only"} {
			if strings.Contains(s.Log.String(), word) {
				t.Errorf("the log shows %s:\n%s", word, s.Log)
			}
		}
	})
	return s
}

// set puts an app-level token in force.
func (s *socketed) set(token string) {
	s.configure(func(c *Config) { c.AppToken = secret.Value(token) })
	s.slack.Reconfigure()
}

// at has Slack's Web API be elsewhere.
func (s *socketed) at(url string) {
	s.configure(func(c *Config) { c.APIURL = url })
	s.slack.Reconfigure()
}

// up reports whether there is a connection.
func (s *socketed) up() bool {
	up, _ := s.socket.state()
	return up
}

// trouble is why there is none.
func (s *socketed) trouble() string {
	_, why := s.socket.state()
	return why
}

// connected waits until n sockets are open.
func (s *socketed) connected(n int) []emulator.SlackSocket {
	s.T.Helper()
	open, err := s.platform.Slack.Sockets.Wait(s.ctx, n)
	if err != nil {
		s.T.Fatalf("%d sockets: %v\n%s", n, err, s.Log)
	}
	return open
}

// eventually waits for what the stand-in does not announce.
func (s *socketed) eventually(what string, cond func() bool) {
	s.T.Helper()
	testkit.Eventually(s.T, what, cond)
}

// says waits until the log has said each of these.
func (s *socketed) says(words ...string) {
	s.T.Helper()
	for _, w := range words {
		s.eventually(w, func() bool { return strings.Contains(s.Log.String(), w) })
	}
}

func (s *socketed) press(action string) (emulator.Delivery, error) {
	p, err := s.platform.Slack.BlockActions("hana", "C0APPROVALS", "1795257600.000100", action, request)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.platform.Slack.Post(s.ctx, emulator.SlackPost{Payload: p})
}

func TestEverythingComesOverTheSocket(t *testing.T) {
	s := newSocketed(t, nil)
	s.connected(1)
	s.eventually("connected", s.up)
	if d, err := s.press("approve"); err != nil || !d.OK() || d.Socket == "" || len(d.Body) != 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := s.platform.Slack.Slash(s.ctx, "hana", "C0APPROVALS", "/countersign",
		"deny "+request+" wrong account"); err != nil || !d.OK() {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := s.platform.Slack.Type(s.ctx, "hana", "approve "+request, ""); err != nil || !d.OK() {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := s.platform.Slack.Mention(s.ctx, "hana", "C0APPROVALS", "approve "+request, ""); err != nil || !d.OK() {
		t.Fatalf("%+v, %v", d, err)
	}
	if asks := s.Chat.Asks; len(asks) != 1 || asks[0].Intent != chat.IntentApprove || asks[0].By.Name != "hana" {
		t.Errorf("asks %+v", asks)
	}
	taps := s.Chat.Taken()
	if len(taps) != 3 || taps[0].Reason != "wrong account" || taps[0].ReplyTo == "" || taps[1].RequestID != request ||
		taps[2].RequestID != request {
		t.Errorf("taps %+v", taps)
	}
	s.Chat.Result = chat.InteractionResult{Code: approval.CodeExpired, Text: "Expired."}
	d, err := s.platform.Slack.Post(s.ctx, emulator.SlackPost{Payload: emulator.Object{
		"type": "view_submission", "api_app_id": "A0APPROVE1", "team": emulator.Object{"id": "T0TEAM0001"},
		"trigger_id": "1.2",
		"user":       emulator.Object{"id": "U02HANA", "team_id": "T0TEAM0001"},
		"view":       json.RawMessage(denial(t, "too late")),
	}})
	if err != nil || !strings.Contains(string(d.Body), `"response_action":"update"`) {
		t.Errorf("%s, %v", d.Body, err)
	}
	if v := s.platform.Violations(); len(v) != 0 {
		t.Errorf("Slack's rules were broken: %v", v)
	}
}

// answersWithin is for how long Slack waits where one answer does not come and another must: a busy machine has the
// time for it.
const answersWithin = 2 * time.Second

func TestRule7_WhatCouldNotBeStoredIsNotAcknowledged(t *testing.T) {
	s := newSocketed(t, nil, func(c *emulator.SlackConfig) { c.WebhookTimeout = answersWithin })
	s.connected(1)
	fails := 2
	s.Chat.OnInteract = func(context.Context) {
		if fails--; fails >= 0 {
			s.Chat.SetErr(errors.New("disk full"))
		} else {
			s.Chat.SetErr(nil)
		}
	}
	s.platform.Slack.SetRetries(0, 0)
	d, err := s.platform.Slack.Type(s.ctx, "hana", "approve "+request, "")
	if err != nil || !d.OK() || len(d.Earlier) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	if taps := s.Chat.Taken(); len(taps) != 3 || taps[0].EventID != taps[2].EventID {
		t.Errorf("%+v", taps)
	}
}

// A fault of ours costs one envelope or one Home tab, and not the gate that everybody else waits for.
func TestAFaultCostsOneEnvelope(t *testing.T) {
	s := newSocketed(t, nil, func(c *emulator.SlackConfig) { c.WebhookTimeout = answersWithin })
	s.connected(1)
	faults := make(chan struct{}, 1)
	faults <- struct{}{}
	s.Chat.OnInteract = func(context.Context) {
		select {
		case <-faults:
			panic("boom")
		default:
		}
	}
	s.platform.Slack.SetRetries(0)
	d, err := s.platform.Slack.Type(s.ctx, "hana", "approve "+request, "")
	if err != nil || !d.OK() || len(d.Earlier) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	s.says("boom", "is not acknowledged")
	if taps := s.Chat.Taken(); len(taps) != 1 {
		t.Errorf("%+v", taps)
	}
}

func TestAnotherConnectionIsOpenBeforeTheOldOneCloses(t *testing.T) {
	s := newSocketed(t, nil)
	old := s.connected(1)[0]
	begun := make(chan struct{})
	release, letGo := testkit.Latch()
	defer letGo()
	s.Chat.OnAsk = func() { close(begun); <-release }
	delivered := make(chan emulator.Delivery, 1)
	go func() {
		d, err := s.press("approve")
		if err != nil {
			t.Error(err)
		}
		delivered <- d
	}()
	testkit.Receive(t, "the press is handled", begun)
	if err := s.platform.Slack.Sockets.Disconnect(old.ID, emulator.SocketRefresh); err != nil {
		t.Fatal(err)
	}
	s.eventually("another socket", func() bool {
		open := s.platform.Slack.Sockets.All()
		return len(open) == 1 && open[0].ID != old.ID
	})
	if !s.up() {
		t.Error(s.trouble())
	}
	letGo()
	if d := testkit.Receive(t, "the press is delivered", delivered); !d.OK() || d.Socket != old.ID {
		t.Errorf("%+v", d)
	}
	s.Chat.OnAsk = nil
	if d, err := s.press("approve"); err != nil || !d.OK() || d.Socket == old.ID {
		t.Errorf("%+v, %v", d, err)
	}
	if err := s.platform.Slack.Sockets.Disconnect("", emulator.SocketWarning); err != nil {
		t.Fatal(err)
	}
	s.connected(2) // the one that was warned goes on until Slack closes it
}

func TestABrokenConnectionIsOpenedAnew(t *testing.T) {
	s := newSocketed(t, func(s *socket) { s.quiet = 400 * time.Millisecond })
	old := s.connected(1)[0]
	other := func(than string) func() bool {
		return func() bool {
			open := s.platform.Slack.Sockets.All()
			return len(open) > 0 && open[len(open)-1].ID != than
		}
	}
	s.platform.Slack.Sockets.Cut(old.ID)
	s.eventually("another socket after a cut", other(old.ID))
	old = s.platform.Slack.Sockets.All()[0]
	s.platform.Slack.Sockets.Freeze(old.ID)
	s.eventually("another socket after silence", other(old.ID))
	s.platform.Fail(emulator.SlackConnectionOpen, 2, emulator.SlackError("internal_error"))
	s.platform.Slack.Sockets.Cut("")
	s.says("nothing came for too long", "internal_error")
	s.connected(1)
}

func TestATokenThatDoesNotDoIsSaidOnceAndClearly(t *testing.T) {
	for _, tt := range []struct{ token, want string }{
		{"xapp-another", "Slack refuses the app-level token (invalid_auth): replace app_token in the configuration"},
		{"xoxb-test-only", "app_token is not an app-level token"},
	} {
		s := newSocketed(t, func(s *socket) { s.slowWait = 10 * time.Millisecond })
		s.connected(1)
		s.set("")
		s.connected(0)
		s.set(tt.token)
		s.eventually("three tries", func() bool { return len(s.platform.Calls(emulator.SlackConnectionOpen)) >= 4 })
		if s.up() || !strings.Contains(s.trouble(), tt.want) {
			t.Errorf("connected: %t, %s", s.up(), s.trouble())
		}
		if n := strings.Count(s.Log.String(), "level=ERROR"); n != 1 || !strings.Contains(s.Log.String(), tt.want) {
			t.Errorf("said %d times:\n%s", n, s.Log)
		}
		s.set(appToken)
		s.connected(1)
		s.eventually("connected", func() bool { return s.up() && s.trouble() == "" })
		s.stop()
		if s.up() {
			t.Error("connected after the end")
		}
	}
}

func TestSocketModeSwitchedOffIsSaid(t *testing.T) {
	s := newSocketed(t, nil)
	s.connected(1)
	s.platform.Slack.Sockets.SetMode(false)
	s.eventually("trouble", func() bool { return strings.Contains(s.trouble(), "switch it on there") })
	if s.up() {
		t.Error("connected")
	}
	s.platform.Slack.Sockets.SetMode(true)
	s.slack.Reconfigure()
	s.connected(1)
}

func TestWhatCameInIsFinishedAtTheEnd(t *testing.T) {
	s := newSocketed(t, nil)
	s.connected(1)
	begun := make(chan struct{}, 2)
	release, letGo := testkit.Latch()
	defer letGo()
	s.Chat.OnAsk = func() { begun <- struct{}{}; <-release }
	delivered := make(chan emulator.Delivery, 2)
	for range 2 { // several at once
		go func() {
			d, err := s.press("approve")
			if err != nil {
				t.Error(err)
			}
			delivered <- d
		}()
	}
	testkit.Receive(t, "a press is handled", begun)
	testkit.Receive(t, "a press is handled", begun)
	s.end()
	s.eventually("the end begins", func() bool { return !s.up() })
	letGo()
	s.stop()
	for range 2 {
		if d := testkit.Receive(t, "a press is delivered", delivered); !d.OK() {
			t.Errorf("%+v", d)
		}
	}
	s.connected(0)
}

func TestAnAnswerThatDoesNotFitIsLeftOut(t *testing.T) {
	s := newSocketed(t, nil)
	s.connected(1)
	s.Chat.Result = chat.InteractionResult{Code: approval.CodeExpired, Text: strings.Repeat("界", maxAck)}
	d, err := s.platform.Slack.Post(s.ctx, emulator.SlackPost{Payload: emulator.Object{
		"type": "view_submission", "api_app_id": "A0APPROVE1", "team": emulator.Object{"id": "T0TEAM0001"},
		"trigger_id": "1.2",
		"user":       emulator.Object{"id": "U02HANA", "team_id": "T0TEAM0001"}, "view": json.RawMessage(denial(t, "x")),
	}})
	if err != nil || !d.OK() || len(d.Body) != 0 {
		t.Errorf("%d %d bytes, %v", d.Status, len(d.Body), err)
	}
	if v := s.platform.Violations(); len(v) != 0 {
		t.Errorf("Slack's rules were broken: %v", v)
	}
}

// A peer that is not Slack, or not well: nothing that it sends ends the program or is taken for a tap.
func TestWhatASocketCannotMakeSenseOf(t *testing.T) {
	s := newSocketed(t, nil)
	var mu sync.Mutex
	scripts := [][]string{
		{`{"type":"hello"}`, "junk", `[]`, `{"type":"disconnect"`, `{}`,
			`{"envelope_id":"e1","type":"interactive","payload":7}`, `{"envelope_id":"e2","type":"news"}`,
			`{"envelope_id":"e3","type":"slash_commands","payload":"no"}`},
		{`{"type":"news"}`},
		{`{"type":"hello"}`, `{"envelope_id":"e4","type":"news","payload":"` + strings.Repeat("x", maxFrame) + `"}`},
		{`{"type":"disconnect","reason":"too_many_websockets"}`},
		{},
	}
	acks := make(chan string, 10)
	var fake *httptest.Server
	fake = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/apps.connections.open") {
			json.NewEncoder(w).Encode(map[string]any{"ok": true,
				"url": "ws" + strings.TrimPrefix(fake.URL, "http") + "/link?ticket=1"})
			return
		}
		mu.Lock()
		var script []string
		if len(scripts) > 0 {
			script, scripts = scripts[0], scripts[1:]
		}
		mu.Unlock()
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		for _, line := range script {
			ws.Write(r.Context(), websocket.MessageText, []byte(line))
		}
		for range strings.Count(strings.Join(script, ""), "envelope_id") {
			_, b, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			acks <- string(b)
		}
	}))
	defer fake.Close()
	s.at(fake.URL + "/api")
	got := map[string]bool{}
	for range 3 {
		got[testkit.Receive(t, "an acknowledgement", acks)] = true
	}
	for _, id := range []string{"e1", "e2", "e3"} {
		if !got[`{"envelope_id":"`+id+`"}`] {
			t.Errorf("acknowledged %v, want %s among them", got, id)
		}
	}
	s.says("not understood", "a message was too large", "too_many_websockets", "did not say hello",
		"said something that is not understood")
	if len(s.Chat.Taken()) != 0 {
		t.Errorf("%+v", s.Chat.Taken())
	}
}

func TestWhereASocketMayLead(t *testing.T) {
	var said string
	status := http.StatusOK
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+appToken {
			t.Errorf("%s with %q", r.Method, r.Header.Get("Authorization"))
		}
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		w.Write([]byte(said))
	}))
	defer fake.Close()
	s := newFixture(t).slack.socket
	defer s.http.CloseIdleConnections()
	for _, tt := range []struct {
		status int
		said   string
		want   string
	}{
		{200, `{"ok":true,"url":"wss://wss-primary.slack.example/link/?ticket=1"}`, ""},
		{200, `{"ok":true,"url":"https://example.com/"}`, "named no address"},
		{200, `{"ok":true,"url":"wss:"}`, "named no address"},
		{200, `{"ok":true}`, "named no address"},
		{200, `{}`, "something that is not understood"},
		{200, `{"ok":false,"error":"<b>"}`, "something that is not understood"},
		{200, `<html>`, "HTTP status 200"},
		{302, `{"ok":true}`, "HTTP status 302"},
		{500, `oops`, "HTTP status 500"},
		{429, `{"ok":false,"error":"ratelimited"}`, "ratelimited"},
	} {
		status, said = tt.status, tt.said
		link, err := s.link(t.Context(), fake.URL, secret.Value(appToken))
		if tt.want == "" {
			if err != nil || link == "" {
				t.Errorf("%s: %q, %v", tt.said, link, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), appToken) {
			t.Errorf("%d %s: %v, want %q", tt.status, tt.said, err, tt.want)
		}
		if e, _ := errors.AsType[*socketError](err); tt.status == 429 && e.after != 7*time.Second {
			t.Errorf("to be tried again after %v", e.after)
		}
	}
	if _, err := s.link(t.Context(), "https://127.0.0.1:1/?q="+appToken, secret.Value(appToken)); err == nil ||
		strings.Contains(err.Error(), appToken) {
		t.Errorf("%v", err)
	}
}

func TestRule8_ATicketGoesNowhereElse(t *testing.T) {
	var link string
	followed := make(chan string, 1)
	var fake *httptest.Server
	fake = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/apps.connections.open"):
			json.NewEncoder(w).Encode(map[string]any{"ok": true, "url": link})
		case r.URL.Path == "/link":
			http.Redirect(w, r, fake.URL+"/elsewhere?"+r.URL.RawQuery, http.StatusFound)
		default:
			followed <- r.URL.String()
		}
	}))
	defer fake.Close()
	s := newFixture(t).slack.socket
	defer s.http.CloseIdleConnections()
	defer s.dial.CloseIdleConnections()
	for at, want := range map[string]string{
		"ws" + strings.TrimPrefix(fake.URL, "http") + "/link?ticket=t1cket": "HTTP status 302",
		"ws://127.0.0.1:1/link?ticket=t1cket":                               "the socket could not be opened",
	} {
		link = at
		_, err := s.connect(t.Context(), fake.URL, secret.Value(appToken))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "t1cket") {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
	if len(followed) > 0 {
		t.Errorf("the ticket went to %s", testkit.Receive(t, "where it went", followed))
	}
}
