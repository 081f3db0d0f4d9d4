package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/channels/kind"
	"countersign/internal/secret"
	"countersign/internal/testkit"
)

// workspace is a server that answers as each test says and keeps what it was asked.
type workspace struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

type asked struct {
	method string
	header http.Header
	form   url.Values
	body   string
}

func serve(t *testing.T, answer func(w http.ResponseWriter, method string)) *workspace {
	t.Helper()
	p := new(workspace)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		method := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"), "api/")
		p.mu.Lock()
		p.asked = append(p.asked, asked{method, r.Header.Clone(), form, string(body)})
		p.mu.Unlock()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		answer(w, method)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *workspace) calls() []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]asked(nil), p.asked...)
}

func (p *workspace) methods() string {
	var all []string
	for _, c := range p.calls() {
		all = append(all, c.method)
	}
	return strings.Join(all, " ")
}

// good answers every method as Slack does.
func good(w http.ResponseWriter, method string) {
	switch method {
	case "auth.test":
		io.WriteString(w, `{"ok":true,"url":"https://example.slack.com/","team":"Example","user":"gate","team_id":"T0TEAM0001","user_id":"U0BOT","bot_id":"B0BOT"}`)
	case "conversations.info":
		io.WriteString(w, `{"ok":true,"channel":{"id":"C0APPROVALS","name":"approvals","is_ext_shared":false}}`)
	case "chat.postEphemeral":
		io.WriteString(w, `{"ok":true,"message_ts":"1795257600.000300"}`)
	case "chat.postMessage", "chat.update":
		// Trap 7: a malformed block in the echo must not fail a post that went out.
		io.WriteString(w, `{"ok":true,"channel":"C0APPROVALS","ts":"1795257600.000100","message":{"blocks":[{"type":"section","text":7}]},"errors":[{"odd":1}]}`)
	default:
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "ok")
	}
}

const retryKey = "123e4567-e89b-12d3-a456-426614174000"

func message(t *testing.T, what approval.NotificationKind) channels.Message {
	t.Helper()
	body, err := newChannel(t, DefaultAPIURL).Render(channelstest.Cases()[0].Card())
	if err != nil {
		t.Fatal(err)
	}
	return channels.Message{Kind: what, To: home, Body: body, RetryKey: retryKey, Attempt: 1}
}

func TestPostSendsTheStoredBytes(t *testing.T) {
	p := serve(t, good)
	m := message(t, approval.KindRequest)
	got, err := newChannel(t, p.URL+"/api").Send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if got.MessageID != "1795257600.000100" || string(got.Data) != `{"channel":"C0APPROVALS","ts":"1795257600.000100"}` {
		t.Errorf("receipt %+v %s", got, got.Data)
	}
	if want := "conversations.info chat.postMessage"; p.methods() != want {
		t.Fatalf("called %s, want %s", p.methods(), want)
	}
	var stored struct {
		Text             string
		Blocks, Metadata json.RawMessage
	}
	if err := json.Unmarshal(m.Body, &stored); err != nil {
		t.Fatal(err)
	}
	form := p.calls()[1].form
	for field, want := range map[string]string{
		"channel": home, "text": stored.Text, "blocks": string(stored.Blocks), "metadata": string(stored.Metadata),
		"client_msg_id": retryKey,
		"unfurl_links":  "false", "unfurl_media": "false", "link_names": "false", "parse": "none",
		"token": testToken.Reveal(),
	} {
		if got := form.Get(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
}

func TestErrorClasses(t *testing.T) {
	type want = channels.PushError
	minute := time.Minute
	for _, tt := range []struct {
		name   string
		status int
		body   string
		header string // Retry-After
		want   want
	}{
		{"429", 429, "", "17", want{Reason: "rate_limited", RetryAfter: 17 * time.Second}},
		{"429 without a wish", 429, "", "", want{Reason: "rate_limited", RetryAfter: 30 * time.Second}},
		{"429 with nonsense", 429, "", "soon", want{Reason: "rate_limited", RetryAfter: 30 * time.Second}},
		{"ratelimited under 200", 200, `{"ok":false,"error":"ratelimited"}`, "", want{Reason: "rate_limited",
			RetryAfter: 30 * time.Second}},
		{"500", 500, "<html>", "", want{Reason: "unavailable", Unknown: true}},
		{"503", 503, "", "", want{Reason: "unavailable", Unknown: true}},
		{"internal_error", 200, `{"ok":false,"error":"internal_error"}`, "", want{Reason: "unavailable", Unknown: true}},
		{"fatal_error", 200, `{"ok":false,"error":"fatal_error"}`, "", want{Reason: "unavailable", Unknown: true}},
		{"team_added_to_org", 200, `{"ok":false,"error":"team_added_to_org"}`, "", want{Reason: "unavailable",
			RetryAfter: 3 * minute}},
		{"invalid_auth", 200, `{"ok":false,"error":"invalid_auth"}`, "", want{Reason: "bad_token", ChannelDown: true}},
		{"token_revoked", 200, `{"ok":false,"error":"token_revoked"}`, "", want{Reason: "bad_token", ChannelDown: true}},
		{"missing_scope", 200, `{"ok":false,"error":"missing_scope","needed":"chat:write","provided":"commands"}`, "",
			want{Reason: "missing_scope", ChannelDown: true}},
		{"channel_not_found", 200, `{"ok":false,"error":"channel_not_found"}`, "", want{Reason: "bad_recipient",
			Final: true}},
		{"not_in_channel", 200, `{"ok":false,"error":"not_in_channel"}`, "", want{Reason: "bad_recipient", Final: true}},
		{"restricted_action_x", 200, `{"ok":false,"error":"restricted_action_read_only_channel"}`, "",
			want{Reason: "bad_recipient", Final: true}},
		{"invalid_blocks", 200,
			`{"ok":false,"error":"invalid_blocks","response_metadata":{"messages":["[ERROR] at /blocks/0"]}}`, "",
			want{Reason: "bad_request", Final: true}},
		{"msg_blocks_too_long", 200, `{"ok":false,"error":"msg_blocks_too_long"}`, "", want{Reason: "bad_request",
			Final: true}},
		{"invalid_metadata_format", 200, `{"ok":false,"error":"invalid_metadata_format"}`, "", want{Reason: "bad_request",
			Final: true}},
		{"a new word", 200, `{"ok":false,"error":"full_moon"}`, "", want{Reason: "unavailable"}},
		{"an odd errors array", 200, `{"ok":false,"error":"is_archived","errors":[{"x":1}]}`, "",
			want{Reason: "bad_recipient", Final: true}},
		// Trap 1: the SDK takes these for success.
		{"{}", 200, `{}`, "", want{Reason: "broken_answer", Unknown: true}},
		{"ok false without error", 200, `{"ok":false}`, "", want{Reason: "broken_answer", Unknown: true}},
		{"ok without ts", 200, `{"ok":true,"channel":"C0APPROVALS"}`, "", want{Reason: "broken_answer", Unknown: true}},
		{"no JSON", 200, `<html>`, "", want{Reason: "broken_answer", Unknown: true}},
		{"cut short", 200, `{"ok":true,"ts":"1`, "", want{Reason: "broken_answer", Unknown: true}},
		{"404", 404, ``, "", want{Reason: "bad_request", Final: true}},
		{"redirect", 302, ``, "", want{Reason: "unavailable"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, func(w http.ResponseWriter, method string) {
				if method != "chat.postMessage" {
					good(w, method)
					return
				}
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				if tt.status == 302 {
					w.Header().Set("Location", "https://evil.example/")
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			_, err := newChannel(t, p.URL).Send(t.Context(), message(t, approval.KindRequest))
			got, ok := err.(*channels.PushError)
			if !ok {
				t.Fatalf("error %T %v, want a *PushError", err, err)
			}
			if got.Reason != tt.want.Reason || got.Final != tt.want.Final || got.Unknown != tt.want.Unknown ||
				got.ChannelDown != tt.want.ChannelDown ||
				got.RetryAfter != tt.want.RetryAfter || got.HTTPStatus != tt.status {
				t.Errorf("error %+v, want %+v with status %d", *got, tt.want, tt.status)
			}
			noSecret(t, err)
		})
	}
}

// noSecret checks that an error can be logged and stored.
func noSecret(t *testing.T, err error) {
	t.Helper()
	for _, s := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", errors.Unwrap(err)),
		channels.AsPushError(err).Detail()} {
		for _, hidden := range []string{testToken.Reveal(), testSecret.Reveal(), "/actions/", "transfer_credits"} {
			if strings.Contains(s, hidden) {
				t.Errorf("an error tells %q: %s", hidden, s)
			}
		}
	}
}

func TestErrorsTellNoSecret(t *testing.T) {
	for _, body := range []string{`{"ok":false,"error":"invalid_arguments","response_metadata":{"messages":["token %s"]}}`,
		`{"ok":false,"error":"%s"}`, `%s`} {
		p := serve(t, func(w http.ResponseWriter, method string) {
			if method == "conversations.info" {
				good(w, method)
				return
			}
			fmt.Fprintf(w, body, testToken.Reveal())
		})
		_, err := newChannel(t, p.URL).Send(t.Context(), message(t, approval.KindRequest))
		if err == nil {
			t.Fatalf("%s: no error", body)
		}
		noSecret(t, err)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		ch := newChannel(t, "http://127.0.0.1:1", func(c *Config) { c.AllowShared = true })
		_, err := ch.Send(t.Context(), message(t, approval.KindRequest))
		if e := channels.AsPushError(err); e.Unknown || e.Final || e.Reason != "unavailable" {
			t.Errorf("error %+v", e)
		}
	})
	t.Run("lost", func(t *testing.T) {
		p := serve(t, func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) })
		ch := newChannel(t, p.URL, func(c *Config) { c.AllowShared = true })
		_, err := ch.Send(t.Context(), message(t, approval.KindRequest))
		if e := channels.AsPushError(err); !e.Unknown || e.Final || e.Reason != "unavailable" {
			t.Errorf("error %+v", e)
		}
	})
	t.Run("no answer in time", func(t *testing.T) {
		release, letGo := testkit.Latch()
		defer letGo()
		ctx, pass := channelstest.Overdue(t.Context())
		p := serve(t, func(http.ResponseWriter, string) { pass(); <-release })
		ch := newChannel(t, p.URL, func(c *Config) { c.AllowShared = true })
		_, err := ch.Send(ctx, message(t, approval.KindRequest))
		if e := channels.AsPushError(err); !e.Unknown || e.Final || e.Reason != "timeout" {
			t.Errorf("error %+v", e)
		}
		noSecret(t, err)
		letGo()
	})
}

// A channel that people of other organisations see gets no cards unless it is allowed.
func TestSharedChannels(t *testing.T) {
	shared := func(w http.ResponseWriter, method string) {
		if method == "conversations.info" {
			io.WriteString(w, `{"ok":true,"channel":{"id":"C0APPROVALS","is_ext_shared":true}}`)
			return
		}
		good(w, method)
	}
	p := serve(t, shared)
	ch := newChannel(t, p.URL)
	for range 2 {
		_, err := ch.Send(t.Context(), message(t, approval.KindRequest))
		if e := channels.AsPushError(err); err == nil || !e.Final || e.Reason != "channel_shared" {
			t.Errorf("error %v, want channel_shared", err)
		}
	}
	if want := "conversations.info"; p.methods() != want {
		t.Errorf("called %s, want %s once", p.methods(), want)
	}
	// A direct message is not a channel.
	m := message(t, approval.KindReply)
	m.To = "U02HANA"
	if _, err := ch.Send(t.Context(), m); err != nil {
		t.Error(err)
	}
	if _, err := newChannel(t, p.URL, func(c *Config) { c.AllowShared = true }).Send(t.Context(),
		message(t, approval.KindRequest)); err != nil {
		t.Errorf("allow_shared: %v", err)
	}

	blind := serve(t, func(w http.ResponseWriter, method string) {
		if method == "conversations.info" {
			io.WriteString(w, `{"ok":false,"error":"missing_scope","needed":"channels:read"}`)
			return
		}
		good(w, method)
	})
	_, err := newChannel(t, blind.URL).Send(t.Context(), message(t, approval.KindRequest))
	if e := channels.AsPushError(err); err == nil || !e.ChannelDown || !strings.Contains(e.Detail(), "channels:read") {
		t.Errorf("without the scope to look: %v, want the channel down and the scope named", err)
	}
}

// What Slack said of a channel is believed for a minute by the clock of the program: one that is shared with outsiders
// meanwhile gets no more cards after that.
func TestAChannelIsAskedAboutAgainAfterAMinute(t *testing.T) {
	var shared atomic.Bool
	p := serve(t, func(w http.ResponseWriter, method string) {
		if method == "conversations.info" {
			fmt.Fprintf(w, `{"ok":true,"channel":{"id":"C0APPROVALS","is_ext_shared":%t}}`, shared.Load())
			return
		}
		good(w, method)
	})
	now := time.Now()
	c := Config{BotToken: testToken, SigningSecret: secret.List{testSecret}, Channel: home, APIURL: p.URL}
	opened, err := c.Open(kind.Host{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	ch := opened.(*Channel)
	t.Cleanup(ch.Close)
	for _, step := range []struct {
		passes  time.Duration
		refused bool
	}{{0, false}, {sharedFor, false}, {1, true}} {
		now = now.Add(step.passes)
		_, err := ch.Send(t.Context(), message(t, approval.KindRequest))
		switch {
		case step.refused && (err == nil || channels.AsPushError(err).Reason != channels.ReasonChannelShared):
			t.Errorf("%v later: %v, want %s", step.passes, err, channels.ReasonChannelShared)
		case !step.refused && err != nil:
			t.Errorf("%v later: %v", step.passes, err)
		}
		shared.Store(true)
	}
}

func TestEdit(t *testing.T) {
	p := serve(t, good)
	ch := newChannel(t, p.URL)
	m := message(t, approval.KindEdit)
	m.Target = []byte(`{"channel":"D0HANA","ts":"1795257600.000100"}`)
	r, err := ch.Edit(t.Context(), m)
	if err != nil || r.MessageID != "1795257600.000100" {
		t.Fatalf("receipt %+v, error %v", r, err)
	}
	calls := p.calls()
	if len(calls) != 1 || calls[0].method != "chat.update" || calls[0].form.Get("channel") != "D0HANA" ||
		calls[0].form.Get("ts") != "1795257600.000100" || calls[0].form.Get("blocks") == "" {
		t.Errorf("calls %+v", calls)
	}
	for _, target := range []string{``, `{}`, `{"via":"response_url"}`, `{"ts":"1.2","via":"ephemeral"}`, `[`} {
		m.Target = []byte(target)
		if _, err := ch.Edit(t.Context(), m); err == nil || channels.AsPushError(err).Reason != "no_target" ||
			!channels.AsPushError(err).Final {
			t.Errorf("target %s: error %v, want no_target", target, err)
		}
	}
	for _, word := range []string{"message_not_found", "cant_update_message", "edit_window_closed", "block_mismatch"} {
		p := serve(t, func(w http.ResponseWriter, _ string) { fmt.Fprintf(w, `{"ok":false,"error":%q}`, word) })
		m.Target = []byte(`{"channel":"C0APPROVALS","ts":"1.2"}`)
		if _, err := newChannel(t, p.URL).Edit(t.Context(), m); err == nil ||
			channels.AsPushError(err).Reason != "message_gone" || !channels.AsPushError(err).Final {
			t.Errorf("%s: error %v, want message_gone", word, err)
		}
	}
}

func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		to      string
		replyTo string // after the server's address where it begins with /
		answer  func(w http.ResponseWriter, method string)
		methods string
		reason  string // "" for sent
	}{
		{"over response_url", "U02HANA", "/actions/T0/1/abc", good, "actions/T0/1/abc", ""},
		{"used up: direct message", "U02HANA", "/actions/T0/1/abc", func(w http.ResponseWriter, method string) {
			if strings.HasPrefix(method, "actions") {
				w.WriteHeader(404)
				io.WriteString(w, "expired_url")
				return
			}
			good(w, method)
		}, "actions/T0/1/abc chat.postMessage", ""},
		{"used up, in JSON", "U02HANA", "/actions/T0/1/abc", func(w http.ResponseWriter, method string) {
			if strings.HasPrefix(method, "actions") {
				io.WriteString(w, `{"ok":false,"error":"used_url"}`)
				return
			}
			good(w, method)
		}, "actions/T0/1/abc chat.postMessage", ""},
		{"response_url limited", "U02HANA", "/actions/T0/1/abc", func(w http.ResponseWriter, _ string) {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(429)
		}, "actions/T0/1/abc", "rate_limited"},
		{"response_url down", "U02HANA", "/actions/T0/1/abc", func(w http.ResponseWriter, _ string) {
			w.WriteHeader(500)
		}, "actions/T0/1/abc", "unavailable"},
		{"a stranger's address", "U02HANA", "https://evil.example/actions/T0/1/abc", good, "chat.postMessage", ""},
		{"ephemeral", Ephemeral(home, "U02HANA"), "", good, "chat.postEphemeral", ""},
		{"not in the channel: direct message", Ephemeral(home, "U02HANA"), "", func(w http.ResponseWriter, method string) {
			if method == "chat.postEphemeral" {
				io.WriteString(w, `{"ok":false,"error":"user_not_in_channel"}`)
				return
			}
			good(w, method)
		}, "chat.postEphemeral chat.postMessage", ""},
		{"direct message", "U02HANA", "", good, "chat.postMessage", ""},
		{"nowhere to go", "", "https://evil.example/x", good, "", "bad_recipient"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, tt.answer)
			m := message(t, approval.KindReply)
			m.To, m.ReplyTo = tt.to, secret.Value(tt.replyTo)
			if strings.HasPrefix(tt.replyTo, "/") {
				m.ReplyTo = secret.Value(p.URL + tt.replyTo)
			}
			_, err := newChannel(t, p.URL).Send(t.Context(), m)
			if got := p.methods(); got != tt.methods {
				t.Errorf("called %q, want %q", got, tt.methods)
			}
			reason := ""
			if err != nil {
				reason = channels.AsPushError(err).Reason
				noSecret(t, err)
			}
			if reason != tt.reason {
				t.Errorf("error %v, want reason %q", err, tt.reason)
			}
		})
	}
}

// What is sent over a response_url is what was stored, to the tapper alone.
func TestResponseURLBody(t *testing.T) {
	p := serve(t, good)
	m := message(t, approval.KindReply)
	m.ReplyTo = secret.Value(p.URL + "/actions/x")
	if _, err := newChannel(t, p.URL).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var sent, stored map[string]json.RawMessage
	if err := json.Unmarshal([]byte(p.calls()[0].body), &sent); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.Body, &stored); err != nil {
		t.Fatal(err)
	}
	if string(sent["blocks"]) != string(stored["blocks"]) {
		t.Errorf("blocks differ from the stored ones:\n%s\n%s", sent["blocks"], stored["blocks"])
	}
	if string(sent["response_type"]) != `"ephemeral"` || string(sent["replace_original"]) != "false" ||
		strings.Contains(p.calls()[0].body, testToken.Reveal()) {
		t.Errorf("sent %s", p.calls()[0].body)
	}
}

func TestMayRespond(t *testing.T) {
	platform := newChannel(t, DefaultAPIURL)
	local := newChannel(t, "http://127.0.0.1:9/api/")
	for _, tt := range []struct {
		ch   *Channel
		url  secret.Value
		want bool
	}{
		{platform, "https://hooks.slack.com/actions/T0/1/x", true},
		{platform, "https://HOOKS.slack.com/actions/T0/1/x", true},
		{platform, "https://hooks.slack-gov.com/actions/T0/1/x", true},
		{platform, "http://hooks.slack.com/actions/T0/1/x", false},
		{platform, "https://hooks.slack.com:8443/x", false},
		{platform, "https://hooks.slack.com.evil.example/x", false},
		{platform, "https://hooks.slack.com@evil.example/x", false},
		{platform, "https://evil.example/hooks.slack.com", false},
		{platform, "https://slack.com/x", false},
		{platform, "http://127.0.0.1:9/x", false},
		{platform, "", false},
		{platform, "::", false},
		{local, "http://127.0.0.1:9/response/1", true},
		{local, "http://127.0.0.1:10/response/1", false},
		{local, "https://127.0.0.1:9/response/1", false},
	} {
		if got := tt.ch.mayRespond(tt.url); got != tt.want {
			t.Errorf("mayRespond(%s) = %t, want %t", tt.url.Reveal(), got, tt.want)
		}
	}
}

func TestProbe(t *testing.T) {
	p := serve(t, good)
	ch := newChannel(t, p.URL)
	if _, ok := ch.Identity(); ok {
		t.Error("an identity before any probe")
	}
	waited := make(chan Identity, 1)
	go func() {
		id, _ := ch.AwaitIdentity(t.Context())
		waited <- id
	}()
	if err := ch.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := Identity{TeamID: "T0TEAM0001", UserID: "U0BOT", BotID: "B0BOT"}
	if got, ok := ch.Identity(); !ok || got != want {
		t.Errorf("identity %+v, want %+v", got, want)
	}
	if got := testkit.Receive(t, "who waited for it", waited); got != want {
		t.Errorf("whoever waited got %+v, want %+v", got, want)
	}
	for body, down := range map[string]bool{`{"ok":false,"error":"invalid_auth"}`: true, `{}`: false,
		`{"ok":true}`: false} {
		p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, body) })
		err := newChannel(t, p.URL).Probe(t.Context())
		if err == nil || channels.AsPushError(err).ChannelDown != down {
			t.Errorf("%s: probe %v, channel down %t wanted", body, err, down)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	p := serve(t, good)
	ch := newChannel(t, p.URL)
	m := message(t, approval.KindRequest)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if i%4 == 0 {
				if err := ch.Probe(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if _, err := ch.Send(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Wait(t, "all sends", wg.Wait)
}

func TestBadBody(t *testing.T) {
	ch := newChannel(t, "http://127.0.0.1:1")
	for _, body := range []string{``, `[]`, `{}`, `{"text":"x"}`, `{"text":"","blocks":[{}]}`,
		`{"text":"x","blocks":{}}`} {
		_, err := ch.Send(t.Context(), channels.Message{Kind: approval.KindRequest, To: home, Body: []byte(body)})
		if err == nil || !channels.AsPushError(err).Final || channels.AsPushError(err).Reason != "bad_request" {
			t.Errorf("%s: error %v, want a final bad_request", body, err)
		}
	}
}

func TestConfig(t *testing.T) {
	good := Config{BotToken: testToken, SigningSecret: secret.List{testSecret}, Channel: home}
	for _, tt := range []struct {
		field  string // of the problem; "" for none
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"", func(c *Config) { c.AppID, c.APIURL = "A0APPROVE1", "http://127.0.0.1:9/api" }},
		{"bot_token", func(c *Config) { c.BotToken = "" }},
		{"signing_secret", func(c *Config) { c.SigningSecret = secret.List{"short"} }},
		{"", func(c *Config) { c.Channel = "" }},
		{"", func(c *Config) { c.AppToken, c.SigningSecret = "xapp-1-A0APPROVE1-not-real", nil }},
		{"app_token", func(c *Config) { c.AppToken = "xoxb-not-an-app-level-token" }},
		{"bot_token", func(c *Config) { c.BotToken = `"xoxb-0123456789-abcdef"` }},
		{"bot_token", func(c *Config) { c.BotToken = "xapp-1-A0APPROVE1-not-real" }},
		{"bot_token", func(c *Config) { c.BotToken = "xoxp-0123456789-abcdef" }},
		{"bot_token", func(c *Config) { c.BotToken = "xoxe-1-0123456789-abcdef" }},
		{"signing_secret", func(c *Config) { c.SigningSecret = secret.List{testSecret, "xoxb-0123456789-abcdef"} }},
		{"signing_secret", func(c *Config) { c.SigningSecret = secret.List{"8f742231b10e8888abcd99yyyzzz85a5\r"} }},
		{"app_token", func(c *Config) { c.AppToken = "'xapp-1-A0APPROVE1-not-real'" }},
		{"channel", func(c *Config) { c.Channel = "#approvals" }},
		{"channel", func(c *Config) { c.Channel = "T0TEAM0001" }},
		{"channel", func(c *Config) { c.Channel = "A0APPROVE1" }},
		{"", func(c *Config) { c.Channel = "D0HANA" }},
		{"app_id", func(c *Config) { c.AppID = "approve" }},
		{"api_url", func(c *Config) { c.APIURL = "slack.com/api" }},
	} {
		c := good
		tt.change(&c)
		err := c.Validate()
		if tt.field == "" {
			if err != nil {
				t.Errorf("%v", err)
			}
			continue
		}
		ps, _ := err.(channels.Problems)
		if len(ps) != 1 || ps[0].Field != tt.field {
			t.Errorf("problems %v, want one of %s", err, tt.field)
		}
	}
}

// What does not look as Slack writes it is told by check, and by /readyz while the gate runs with it. Another API's
// secrets are its own.
func TestSecretsOfAnotherFormAreDoubted(t *testing.T) {
	good := Config{BotToken: "xoxb-0123456789-abcdef", SigningSecret: secret.List{"8f742231b10e8888abcd99yyyzzz85a5"},
		Channel: home}
	for _, tt := range []struct {
		name, want string
		change     func(*Config)
	}{
		{"as Slack has them", "", func(*Config) {}},
		{"a rotated bot token", "bot_token", func(c *Config) { c.BotToken = "xoxe.xoxb-1-0123456789" }},
		{"a word for a bot token", "bot_token", func(c *Config) { c.BotToken = testToken }},
		{"a piece of the signing secret", "signing_secret", func(c *Config) { c.SigningSecret[0] = c.SigningSecret[0][:31] }},
		{"an id for the signing secret", "signing_secret", func(c *Config) {
			c.SigningSecret = secret.List{"1234567890.1234567890123"}
		}},
		{"another API", "", func(c *Config) { c.BotToken, c.APIURL = testToken, "http://127.0.0.1:9/api" }},
		{"the same API, written out", "bot_token", func(c *Config) {
			c.BotToken, c.APIURL = testToken, "https://slack.com/api"
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := good
			c.SigningSecret = slices.Clone(good.SigningSecret)
			tt.change(&c)
			ch, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			defer ch.Close()
			said := slices.DeleteFunc(ch.Problems(), func(p string) bool { return !strings.HasPrefix(p, "channels.slack.") })
			if tt.want == "" && len(said) > 0 || tt.want != "" && (len(said) != 1 || !strings.HasPrefix(said[0],
				"channels.slack."+tt.want+" ")) {
				t.Errorf("problems %q, want one of %q", said, tt.want)
			}
			for _, s := range append(c.SigningSecret.Reveal(), c.BotToken.Reveal()) {
				if strings.Contains(strings.Join(said, " "), s) {
					t.Errorf("a secret is in %q", said)
				}
			}
		})
	}
}

// Ids are opaque, but what is certainly another kind's, or a name, is nobody's address.
func TestAnAddressIsAMembersID(t *testing.T) {
	for _, good := range []string{"U02HANA", "W012A3CDE", "U01", "ZNEW1"} {
		if err := checkAddress(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{"": "no name", "hana": "no name", "@hana": "no name", "U02 HANA": "no name",
		"u02hana": "no name", `"U02HANA"`: "no name",
		"<@U02HANA>": "no name", "C0APPROVALS": "channel", "D0HANA": "direct message", "G0ROOM": "channel", "B0BOT": "bot",
		"A0APP": "app", "T0TEAM": "workspace", "S0GROUP": "user group", "E0GRID": "organisation"} {
		if err := checkAddress(bad); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(),
			"Copy member ID") {
			t.Errorf("%s: %v, want that it is of a %s", bad, err, want)
		}
	}
}
