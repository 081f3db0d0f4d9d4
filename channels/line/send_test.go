package line

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/secret"
	"countersign/internal/testkit"
)

// platform is a server that answers as each test says and keeps what it was asked.
type platform struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

type asked struct {
	method string
	path   string
	header http.Header
	body   []byte
}

func serve(t *testing.T, answer func(w http.ResponseWriter, path string)) *platform {
	t.Helper()
	p := new(platform)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.asked = append(p.asked, asked{r.Method, r.URL.EscapedPath(), r.Header.Clone(), body})
		p.mu.Unlock()
		answer(w, r.URL.Path)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *platform) calls() []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]asked(nil), p.asked...)
}

const (
	retryKey   = "123e4567-e89b-12d3-a456-426614174000"
	replyToken = secret.Value("0f3779fba3b349968c5d07db31eab56f")
	sentBody   = `{"sentMessages":[{"id":"461230966842064897","quoteToken":"IStG5h1Tz7b"}]}`
)

func push(t *testing.T) channels.Message {
	t.Helper()
	ch := newChannel(t, DefaultAPIURL)
	body, err := ch.Render(channelstest.Cases()[0].Card())
	if err != nil {
		t.Fatal(err)
	}
	return channels.Message{Kind: approval.KindRequest, To: hana, Body: body, RetryKey: retryKey, Attempt: 1}
}

func reply(t *testing.T) channels.Message {
	m := push(t)
	m.Kind, m.ReplyTo = approval.KindReply, replyToken
	return m
}

func TestPushSendsTheStoredBytes(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) {
		w.Header().Set("X-Line-Request-Id", "req-1")
		io.WriteString(w, sentBody)
	})
	m := push(t)
	got, err := newChannel(t, p.URL).Send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	want := channels.Receipt{MessageID: "461230966842064897", HTTPStatus: 200,
		Data: []byte(`{"request_id":"req-1","messages":[{"id":"461230966842064897","quote_token":"IStG5h1Tz7b"}]}`)}
	if got.MessageID != want.MessageID || got.HTTPStatus != want.HTTPStatus || string(got.Data) != string(want.Data) {
		t.Errorf("receipt %+v %s, want %+v %s", got, got.Data, want, want.Data)
	}
	calls := p.calls()
	if len(calls) != 1 || calls[0].path != "/v2/bot/message/push" {
		t.Fatalf("calls %+v, want one push", calls)
	}
	c := calls[0]
	if got := c.header.Get("X-Line-Retry-Key"); got != retryKey {
		t.Errorf("retry key %q, want %q", got, retryKey)
	}
	if got := c.header.Get("Authorization"); got != "Bearer "+testToken.Reveal() {
		t.Error("the token is not in the Authorization header")
	}
	if !strings.Contains(string(c.body), `"messages":`+string(m.Body)) {
		t.Errorf("the stored bytes were not sent as they are:\n%s", c.body)
	}
	var v any
	if err := json.Unmarshal(c.body, &v); err != nil {
		t.Fatal(err)
	}
	for _, problem := range schemas(t).check("PushMessageRequest", v) {
		t.Errorf("against LINE's schema: %s", problem)
	}
}

func TestReplyCarriesNoRetryKey(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, sentBody) })
	if _, err := newChannel(t, p.URL).Send(t.Context(), reply(t)); err != nil {
		t.Fatal(err)
	}
	calls := p.calls()
	if len(calls) != 1 || calls[0].path != "/v2/bot/message/reply" {
		t.Fatalf("calls %+v, want one reply", calls)
	}
	if _, ok := calls[0].header["X-Line-Retry-Key"]; ok {
		t.Error("a reply carried a retry key, which LINE answers with 400")
	}
	if !strings.Contains(string(calls[0].body), replyToken.Reveal()) {
		t.Error("the reply token was not sent")
	}
}

func TestConflictIsSuccess(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) {
		w.Header().Set("X-Line-Accepted-Request-Id", "req-0")
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"message":"The retry key is already accepted","sentMessages":[{"id":"7","quoteToken":"q"}]}`)
	})
	m := push(t)
	m.Attempt = 2
	got, err := newChannel(t, p.URL).Send(t.Context(), m)
	if err != nil || got.MessageID != "7" || got.HTTPStatus != 409 || !strings.Contains(string(got.Data),
		`"accepted_request_id":"req-0"`) {
		t.Errorf("receipt %+v %s, error %v; want message 7 of request req-0", got, got.Data, err)
	}
}

func TestErrorClasses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		header string // Retry-After
		want   channels.PushError
	}{
		{"rate limit", 429, `{"message":"The API rate limit has been exceeded. Try again later."}`, "",
			channels.PushError{Reason: "rate_limited"}},
		{"rate limit with a wish", 429, `{"message":"The API rate limit has been exceeded. Try again later."}`, "7",
			channels.PushError{Reason: "rate_limited", RetryAfter: 7 * time.Second}},
		{"monthly limit", 429, `{"message":"You have reached your monthly limit."}`, "",
			channels.PushError{Reason: "monthly_limit", Final: true}},
		{"bad token", 401,
			`{"message":"Authentication failed. Confirm that the access token in the authorization header is valid."}`, "",
			channels.PushError{Reason: "bad_token", ChannelDown: true}},
		{"forbidden", 403, `{"message":"Not available."}`, "", channels.PushError{Reason: "forbidden", Final: true}},
		{"recipient", 400, `{"message":"Failed to send messages"}`, "", channels.PushError{Reason: "bad_recipient",
			Final: true}},
		{"recipient property", 400,
			`{"message":"The request body has 1 error(s)","details":[{"message":"invalid","property":"to"}]}`, "",
			channels.PushError{Reason: "bad_recipient", Final: true}},
		{"our bug", 400, `{"message":"The request body has 1 error(s)","details":[{"message":"May not be empty","property":"messages[0].text"}]}`, "", channels.PushError{Reason: "bad_request", Final: true}},
		{"too large", 413, ``, "", channels.PushError{Reason: "bad_request", Final: true}},
		{"gone", 410, ``, "", channels.PushError{Reason: "bad_request", Final: true}},
		{"500", 500, `{"message":"Internal server error"}`, "", channels.PushError{Reason: "unavailable", Unknown: true}},
		{"503 of a proxy", 503, `<html>busy</html>`, "", channels.PushError{Reason: "unavailable", Unknown: true}},
		{"broken answer", 200, `{"sentMess`, "", channels.PushError{Reason: "broken_answer", Unknown: true}},
		{"conflict without the header", 409, `{}`, "", channels.PushError{Reason: "conflict", Unknown: true}},
		{"redirect", 302, ``, "", channels.PushError{Reason: "unavailable"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, func(w http.ResponseWriter, _ string) {
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				if tt.status == 302 {
					w.Header().Set("Location", "https://evil.example/")
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			_, err := newChannel(t, p.URL).Send(t.Context(), push(t))
			checkError(t, err, tt.want, tt.status)
			if n := len(p.calls()); n != 1 {
				t.Errorf("%d calls, want 1", n)
			}
		})
	}
}

func checkError(t *testing.T, err error, want channels.PushError, status int) {
	t.Helper()
	got, ok := err.(*channels.PushError)
	if !ok {
		t.Fatalf("error %T %v, want a *PushError", err, err)
	}
	if got.Reason != want.Reason || got.Final != want.Final || got.Unknown != want.Unknown ||
		got.ChannelDown != want.ChannelDown ||
		got.RetryAfter != want.RetryAfter || got.HTTPStatus != status {
		t.Errorf("error %+v, want %+v with status %d", *got, want, status)
	}
	noSecret(t, err)
}

// noSecret checks that an error can be logged and stored.
func noSecret(t *testing.T, err error) {
	t.Helper()
	for _, s := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", errors.Unwrap(err)),
		channels.AsPushError(err).Detail()} {
		for _, hidden := range []string{testToken.Reveal(), testSecret.Reveal(), replyToken.Reveal(), "transfer_credits"} {
			if strings.Contains(s, hidden) {
				t.Errorf("an error tells %q: %s", hidden, s)
			}
		}
	}
}

// A platform, or a proxy before it, that repeats what it was sent must not get it into our logs.
func TestErrorsTellNoSecret(t *testing.T) {
	for _, status := range []int{400, 401, 403, 429, 500} {
		p := serve(t, func(w http.ResponseWriter, _ string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"message":"no: %s %s"}`, testToken.Reveal(), replyToken.Reveal())
		})
		m := reply(t)
		m.Attempt = 1
		_, err := newChannel(t, p.URL).Send(t.Context(), m)
		if err != nil {
			got := err.Error()
			if strings.Contains(got, testToken.Reveal()) || status != 400 && strings.Contains(got, replyToken.Reveal()) {
				t.Errorf("status %d: the error tells a secret: %s", status, got)
			}
		}
		_, err = newChannel(t, p.URL).Send(t.Context(), push(t))
		if err == nil || strings.Contains(err.Error(), testToken.Reveal()) {
			t.Errorf("status %d: push error %v", status, err)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		ch := newChannel(t, "http://"+l.Addr().String())
		_, err = ch.Send(t.Context(), push(t))
		checkError(t, err, channels.PushError{Reason: "unavailable"}, 0)
		// Nothing has left this machine, so the reply may be tried again.
		_, err = ch.Send(t.Context(), reply(t))
		checkError(t, err, channels.PushError{Reason: "unavailable"}, 0)
	})
	t.Run("the answer is lost", func(t *testing.T) {
		p := serve(t, func(_ http.ResponseWriter, _ string) { panic(http.ErrAbortHandler) })
		ch := newChannel(t, p.URL)
		_, err := ch.Send(t.Context(), push(t))
		checkError(t, err, channels.PushError{Reason: "unavailable", Unknown: true}, 0)
	})
	t.Run("no answer in time", func(t *testing.T) {
		release, letGo := testkit.Latch()
		defer letGo()
		ctx, pass := channelstest.Overdue(t.Context())
		p := serve(t, func(_ http.ResponseWriter, _ string) { pass(); <-release })
		_, err := newChannel(t, p.URL).Send(ctx, push(t))
		checkError(t, err, channels.PushError{Reason: "timeout", Unknown: true}, 0)
		letGo()
	})
}

// Design §6: a reply with an unknown outcome is sent, never also pushed; only a clear 400 on its first
// try falls back to a push.
func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		attempt int
		answer  func(w http.ResponseWriter)
		paths   string
		sent    bool
		unknown bool
		reason  string
	}{
		{"shown", 1, func(w http.ResponseWriter) { io.WriteString(w, sentBody) }, "reply", true, false, ""},
		{"400 on the first try", 1, func(w http.ResponseWriter) {
			w.WriteHeader(400)
			io.WriteString(w, `{"message":"Invalid reply token"}`)
		}, "reply push", true, false, ""},
		{"400 after a crash", 2, func(w http.ResponseWriter) {
			w.WriteHeader(400)
			io.WriteString(w, `{"message":"Invalid reply token"}`)
		}, "reply", true, true, ""},
		{"500", 1, func(w http.ResponseWriter) { w.WriteHeader(500) }, "reply", true, true, ""},
		{"broken answer", 1, func(w http.ResponseWriter) { io.WriteString(w, `{`) }, "reply", true, true, ""},
		{"lost", 1, func(_ http.ResponseWriter) { panic(http.ErrAbortHandler) }, "reply", true, true, ""},
		{"429", 1, func(w http.ResponseWriter) { w.WriteHeader(429) }, "reply", false, false, "rate_limited"},
		{"401", 1, func(w http.ResponseWriter) { w.WriteHeader(401) }, "reply", false, false, "bad_token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := serve(t, func(w http.ResponseWriter, path string) {
				if strings.HasSuffix(path, "push") {
					io.WriteString(w, sentBody)
					return
				}
				tt.answer(w)
			})
			m := reply(t)
			m.Attempt = tt.attempt
			r, err := newChannel(t, p.URL).Send(t.Context(), m)
			var paths []string
			for _, c := range p.calls() {
				paths = append(paths, c.path[strings.LastIndexByte(c.path, '/')+1:])
				if key := c.header.Get("X-Line-Retry-Key"); (key == retryKey) != strings.HasSuffix(c.path, "push") {
					t.Errorf("%s with retry key %q", c.path, key)
				}
			}
			if got := strings.Join(paths, " "); got != tt.paths {
				t.Errorf("called %s, want %s", got, tt.paths)
			}
			if (err == nil) != tt.sent {
				t.Fatalf("error %v, sent %t wanted", err, tt.sent)
			}
			if tt.sent && strings.Contains(string(r.Data), `"unknown":true`) != tt.unknown {
				t.Errorf("receipt %s, unknown %t wanted", r.Data, tt.unknown)
			}
			if !tt.sent && channels.AsPushError(err).Reason != tt.reason {
				t.Errorf("reason %v, want %s", err, tt.reason)
			}
		})
	}
}

// The quote of a card names it by its own id, not by that of the sentence before it.
func TestReplyWithACardHasTheCardsID(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) {
		io.WriteString(w, `{"sentMessages":[{"id":"1"},{"id":"2","quoteToken":"q"}]}`)
	})
	ch := newChannel(t, p.URL)
	m := reply(t)
	var err error
	m.Body, err = ch.Render(channelstest.Maker().Card(channelstest.Reply("One waits.", channelstest.Request(`{}`))))
	if err != nil {
		t.Fatal(err)
	}
	r, err := ch.Send(t.Context(), m)
	if err != nil || r.MessageID != "2" {
		t.Errorf("message id %q, error %v; want 2", r.MessageID, err)
	}
}

func TestProbe(t *testing.T) {
	status := 200
	p := serve(t, func(w http.ResponseWriter, path string) {
		if path != "/v2/bot/info" {
			t.Errorf("asked %s", path)
		}
		w.WriteHeader(status)
		io.WriteString(w, `{"userId":"U0123456789abcdef0123456789abcdef","basicId":"@x","displayName":"Gate","chatMode":"bot","markAsReadMode":"auto"}`)
	})
	ch := newChannel(t, p.URL)
	if got := ch.BotUserID(); got != "" {
		t.Errorf("bot %q before any probe", got)
	}
	waited := make(chan string, 1)
	go func() { waited <- ch.AwaitBotUserID(t.Context()) }()
	if err := ch.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ch.BotUserID(); got != "U0123456789abcdef0123456789abcdef" {
		t.Errorf("bot %q", got)
	}
	if got := testkit.Receive(t, "who waited for it", waited); got != ch.BotUserID() {
		t.Errorf("whoever waited got %q", got)
	}
	status = 401
	if err := ch.Probe(t.Context()); !channels.AsPushError(err).ChannelDown {
		t.Errorf("probe with a bad token: %v", err)
	}
}

// The SDK's client changes when it is given a context; ours must not be shared.
func TestConcurrentSendsKeepTheirContexts(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, sentBody) })
	ch := newChannel(t, p.URL)
	m := push(t)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 0 {
				cancel()
			}
			defer cancel()
			_, err := ch.Send(ctx, m)
			if (err == nil) != (i%2 == 1) {
				t.Errorf("send %d: %v", i, err)
			}
		})
	}
	testkit.Wait(t, "all sends", wg.Wait)
}

func TestBadInput(t *testing.T) {
	ch := newChannel(t, "http://127.0.0.1:1")
	for name, m := range map[string]channels.Message{
		"no body":      {Kind: approval.KindRequest, To: hana, RetryKey: retryKey},
		"no array":     {Kind: approval.KindRequest, To: hana, RetryKey: retryKey, Body: []byte(`{}`)},
		"six messages": {Kind: approval.KindRequest, To: hana, RetryKey: retryKey, Body: []byte(`[1,2,3,4,5,6]`)},
		"no key":       {Kind: approval.KindRequest, To: hana, Body: []byte(`[{"type":"text","text":"x"}]`)},
		"an edit":      {Kind: approval.KindEdit, To: hana, RetryKey: retryKey, Body: []byte(`[{"type":"text","text":"x"}]`)},
	} {
		if _, err := ch.Send(t.Context(), m); err == nil || !channels.AsPushError(err).Final {
			t.Errorf("%s: error %v, want a final one", name, err)
		}
	}
}

func TestConfig(t *testing.T) {
	good := Config{ChannelSecret: secret.List{testSecret}, ChannelAccessToken: testToken, Notify: []string{"hana"}}
	for _, tt := range []struct {
		field  string // of the problem; "" for none
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"channel_secret", func(c *Config) { c.ChannelSecret = nil }},
		{"channel_secret", func(c *Config) { c.ChannelSecret = secret.List{"short"} }},
		{"channel_secret", func(c *Config) { c.ChannelSecret = secret.List{"1653424377"} }},
		{"channel_secret", func(c *Config) { c.ChannelSecret = secret.List{`"8c570fa6dd201bb328f1c1eac23a96d8"`} }},
		{"channel_access_token", func(c *Config) { c.ChannelAccessToken = "" }},
		{"channel_access_token", func(c *Config) { c.ChannelAccessToken = "8c570fa6dd201bb328f1c1eac23a96d8" }},
		{"channel_access_token", func(c *Config) { c.ChannelAccessToken = "1653424377" }},
		{"channel_access_token", func(c *Config) { c.ChannelAccessToken += "\n" }},
		{"channel_access_token", func(c *Config) { c.ChannelAccessToken = "has a space in the middle" }},
		{"api_url", func(c *Config) { c.APIURL = "ftp://x" }},
		{"api_url", func(c *Config) { c.APIURL = "api.line.me" }},
		{"notify", func(c *Config) { c.Notify = []string{"hana", "hana"} }},
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
		if _, err := New(c); err == nil {
			t.Errorf("New took a config with a bad %s", tt.field)
		}
	}
}

// Somebody we do not know gets a reply or nothing: LINE forbids pushing to such.
func TestAStrangerIsNeverPushedTo(t *testing.T) {
	for _, replyTo := range []secret.Value{"reply-token", ""} {
		p := serve(t, func(w http.ResponseWriter, _ string) {
			w.WriteHeader(400)
			io.WriteString(w, `{"message":"Invalid reply token"}`)
		})
		m := reply(t)
		m.ReplyTo, m.ReplyOnly = replyTo, true
		_, err := newChannel(t, p.URL).Send(t.Context(), m)
		if e := channels.AsPushError(err); !e.Final {
			t.Errorf("with %d characters of token: %v", len(replyTo), err)
		}
		for _, c := range p.calls() {
			if strings.HasSuffix(c.path, "push") {
				t.Errorf("pushed to %s", c.path)
			}
		}
	}
}

func TestASilentCardMakesNoSound(t *testing.T) {
	for _, silent := range []bool{false, true} {
		p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, sentBody) })
		m := push(t)
		m.Silent = silent
		if _, err := newChannel(t, p.URL).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(p.calls()[0].body), `"notificationDisabled":true`); got != silent {
			t.Errorf("silent %t: sent %s", silent, p.calls()[0].body)
		}
	}
}

// What does not look as LINE writes it is told by check, and by /readyz while the gate runs with it. Another API's
// secrets are its own.
func TestSecretsOfAnotherFormAreDoubted(t *testing.T) {
	for _, tt := range []struct {
		name, secret, api string
		doubted           bool
	}{
		{"as LINE has it", "8c570fa6dd201bb328f1c1eac23a96d8", "", false},
		{"a piece of it", "8c570fa6dd201bb328f1c1eac23a96d", "", true},
		{"an access token", string(testToken), "", true},
		{"another API", "its-own-secret-of-some-form", "http://127.0.0.1:9", false},
		{"the same API, written out", "8c570fa6dd201bb328f1c1eac23a96d", DefaultAPIURL + "/", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ch, err := New(Config{ChannelSecret: secret.List{secret.Value(tt.secret)}, ChannelAccessToken: testToken,
				APIURL: tt.api})
			if err != nil {
				t.Fatal(err)
			}
			defer ch.Close()
			said := slices.DeleteFunc(ch.Problems(), func(p string) bool {
				return !strings.HasPrefix(p, "channels.line.channel_secret ")
			})
			if (len(said) == 1) != tt.doubted || strings.Contains(strings.Join(said, " "), tt.secret) {
				t.Errorf("problems %q, want one: %v", said, tt.doubted)
			}
		})
	}
}
