package line

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/testkit"
)

// account answers each path with the body that a test gives for it.
func account(t *testing.T, bodies map[string]string) (*Channel, *platform) {
	t.Helper()
	p := serve(t, func(w http.ResponseWriter, path string) {
		body, ok := bodies[path]
		if !ok {
			t.Errorf("asked %s", path)
		}
		io.WriteString(w, body)
	})
	return newChannel(t, p.URL), p
}

// hostile are answers with a 200 that are not what LINE documents.
var hostile = map[string]string{
	"empty object":  `{}`,
	"nothing":       ``,
	"null":          `null`,
	"an array":      `[]`,
	"a page":        `<html><body>Sign in to the hotel's network</body></html>`,
	"cut short":     `{"type":"limited","value":10`,
	"wrong types":   `{"type":7,"value":"many","totalUsage":"some","userId":1,"displayName":[],"endpoint":{},"active":"yes","success":"yes","statusCode":"200"}`,
	"nulls":         `{"type":null,"value":null,"totalUsage":null,"userId":null,"endpoint":null,"active":null,"success":null,"statusCode":null}`,
	"out of range":  `{"type":"limited","value":-1,"totalUsage":-1,"userId":"","endpoint":"","active":true,"success":null,"statusCode":200}`,
	"another type":  `{"type":"infinite","value":10}`,
	"a huge number": `{"type":"limited","value":1e400,"totalUsage":1e400,"statusCode":1e400}`,
	"a huge body": `{"type":"none","totalUsage":1,"userId":"` + hana +
		`","endpoint":"https://x.example","active":true,"success":true,"statusCode":200,"pad":"` +
		strings.Repeat("x", 2<<20) + `"}`,
}

// questions are all calls of this file, each with its method and path.
var questions = []struct {
	name, method, path string
	ask                func(ctx context.Context, ch *Channel) error
}{
	{"Quota", "GET", "/v2/bot/message/quota", func(ctx context.Context, ch *Channel) error {
		_, _, _, err := ch.AskQuota(ctx)
		return err
	}},
	{"Profile", "GET", "/v2/bot/profile/" + hana, func(ctx context.Context, ch *Channel) error {
		_, _, err := ch.Profile(ctx, hana)
		return err
	}},
	{"Webhook", "GET", "/v2/bot/channel/webhook/endpoint", func(ctx context.Context, ch *Channel) error {
		_, _, err := ch.Webhook(ctx)
		return err
	}},
	{"TestWebhook", "POST", "/v2/bot/channel/webhook/test", func(ctx context.Context, ch *Channel) error {
		_, _, _, err := ch.TestWebhook(ctx)
		return err
	}},
	{"ValidatePush", "POST", "/v2/bot/message/validate/push", func(ctx context.Context, ch *Channel) error {
		return ch.ValidatePush(ctx, channels.Body(`[{"type":"text","text":"hello"}]`))
	}},
}

func TestQuota(t *testing.T) {
	for _, tt := range []struct {
		quota, consumption string
		limit              int
		limited            bool
		used               int
	}{
		{`{"type":"limited","value":1000}`, `{"totalUsage":500}`, 1000, true, 500},
		{`{"type":"limited","value":200}`, `{"totalUsage":0}`, 200, true, 0},
		{`{"type":"none"}`, `{"totalUsage":12}`, 0, false, 12},
		{`{"type":"none","value":5}`, `{"totalUsage":12,"more":true}`, 0, false, 12},
	} {
		ch, _ := account(t, map[string]string{"/v2/bot/message/quota": tt.quota,
			"/v2/bot/message/quota/consumption": tt.consumption})
		limit, limited, used, err := ch.AskQuota(t.Context())
		if err != nil || limit != tt.limit || limited != tt.limited || used != tt.used {
			t.Errorf("%s %s: %d %t %d, error %v; want %d %t %d", tt.quota, tt.consumption, limit, limited, used, err, tt.limit,
				tt.limited, tt.used)
		}
	}
	// How many are used up must be said too: nobody is to be told of zero.
	for name, body := range hostile {
		ch, _ := account(t, map[string]string{"/v2/bot/message/quota": `{"type":"limited","value":1000}`,
			"/v2/bot/message/quota/consumption": body})
		if _, _, _, err := ch.AskQuota(t.Context()); channels.AsPushError(err).Reason != channels.ReasonBrokenAnswer {
			t.Errorf("consumption is %s: error %v", name, err)
		}
	}
}

func TestProfile(t *testing.T) {
	for _, tt := range []struct{ body, name, language string }{
		{`{"displayName":"LINE taro","userId":"` + hana +
			`","language":"en","pictureUrl":"https://obs.line-apps.com/x","statusMessage":"Hello, LINE!"}`, "LINE taro", "en"},
		{`{"displayName":"花","userId":"` + hana + `","language":"zh-TW"}`, "花", "zh-TW"},
		{`{"displayName":"花","userId":"` + hana + `"}`, "花", ""},
		{`{"displayName":"a\u202eb\nc","userId":"` + hana + `","language":"en\nx"}`, "a⟨U+202E⟩b⟨U+000A⟩c", ""},
	} {
		ch, _ := account(t, map[string]string{"/v2/bot/profile/" + hana: tt.body})
		name, language, err := ch.Profile(t.Context(), hana)
		if err != nil || name != tt.name || language != tt.language {
			t.Errorf("%s: %q %q, error %v; want %q %q", tt.body, name, language, err, tt.name, tt.language)
		}
	}
	ch, _ := account(t, map[string]string{"/v2/bot/profile/" + hana: `{"displayName":"` + strings.Repeat("n", 5000) +
		`","userId":"` + hana + `"}`})
	if name, _, err := ch.Profile(t.Context(), hana); err != nil || len([]rune(name)) > 2*maxName {
		t.Errorf("a name of %d characters, error %v", len([]rune(name)), err)
	}
	// An id goes into a path, and must stay one part of it.
	ch, p := account(t, map[string]string{"/v2/bot/profile/../../info?x": `{"userId":"../../info?x","displayName":"x"}`})
	if _, _, err := ch.Profile(t.Context(), "../../info?x"); err != nil ||
		p.calls()[0].path != "/v2/bot/profile/..%2F..%2Finfo%3Fx" {
		t.Errorf("asked %s, error %v", p.calls()[0].path, err)
	}
	for _, id := range []string{"", ".", ".."} {
		if _, _, err := ch.Profile(t.Context(), id); !channels.AsPushError(err).Final ||
			channels.AsPushError(err).Reason != channels.ReasonBadRecipient {
			t.Errorf("%q: error %v", id, err)
		}
	}
	if n := len(p.calls()); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestProfileOfAStranger(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) {
		w.WriteHeader(404)
		io.WriteString(w, `{"message":"Not found"}`)
	})
	_, _, err := newChannel(t, p.URL).Profile(t.Context(), hana)
	e := channels.AsPushError(err)
	if e.Reason != channels.ReasonBadRecipient || !e.Final || !strings.Contains(e.Detail(), "friend") {
		t.Errorf("error %v, want a final one that says what to do", err)
	}
}

func TestWebhook(t *testing.T) {
	for _, active := range []bool{true, false} {
		ch, _ := account(t, map[string]string{"/v2/bot/channel/webhook/endpoint": fmt.Sprintf(`{"endpoint":"https://example.com/test","active":%t}`, active)})
		if endpoint, on, err := ch.Webhook(t.Context()); err != nil || endpoint != "https://example.com/test" ||
			on != active {
			t.Errorf("%q %t, error %v", endpoint, on, err)
		}
	}
	p := serve(t, func(w http.ResponseWriter, _ string) {
		w.WriteHeader(404)
		io.WriteString(w, `{"message":"Webhook endpoint not found"}`)
	})
	if endpoint, on, err := newChannel(t, p.URL).Webhook(t.Context()); err != nil || endpoint != "" || on {
		t.Errorf("none set: %q %t, error %v", endpoint, on, err)
	}
}

func TestTestWebhook(t *testing.T) {
	for _, tt := range []struct {
		body    string
		success bool
		status  int
		reason  string
	}{
		{`{"success":true,"timestamp":"2020-09-30T05:38:20.031Z","statusCode":200,"reason":"OK","detail":"200"}`, true, 200,
			"OK: 200"},
		{`{"success":false,"timestamp":"2023-07-07T04:29:51.043124Z","statusCode":0,"reason":"COULD_NOT_CONNECT","detail":"TLS handshake failure: https://example.com/webhook"}`,
			false, 0, "COULD_NOT_CONNECT: TLS handshake failure: https://example.com/webhook"},
		{`{"success":false,"timestamp":"2023-07-07T04:29:51.043124Z","statusCode":401,"reason":"ERROR_STATUS_CODE","detail":"401"}`, false, 401, "ERROR_STATUS_CODE: 401"},
		{`{"success":false,"statusCode":-1}`, false, -1, ""},
		{`{"success":false,"statusCode":0,"reason":"x","detail":"` + testToken.Reveal() + `"}`, false, 0, "x: <secret>"},
	} {
		ch, p := account(t, map[string]string{"/v2/bot/channel/webhook/test": tt.body})
		success, status, reason, err := ch.TestWebhook(t.Context())
		if err != nil || success != tt.success || status != tt.status || reason != tt.reason {
			t.Errorf("%s: %t %d %q, error %v", tt.body, success, status, reason, err)
		}
		// Without an endpoint it is the one that is set which is tested.
		if got := string(p.calls()[0].body); got != `{}` {
			t.Errorf("asked with %s", got)
		}
	}
	ch, _ := account(t, map[string]string{"/v2/bot/channel/webhook/test": `{"success":false,"statusCode":0,"reason":"` +
		strings.Repeat("long ", 5000) + `"}`})
	if _, _, reason, err := ch.TestWebhook(t.Context()); err != nil || len(reason) > 1000 {
		t.Errorf("a reason of %d bytes, error %v", len(reason), err)
	}
}

func TestValidatePush(t *testing.T) {
	m := push(t)
	for _, answer := range []string{`{}`, ``, "\n"} {
		ch, p := account(t, map[string]string{"/v2/bot/message/validate/push": answer})
		if err := ch.ValidatePush(t.Context(), m.Body); err != nil {
			t.Fatal(err)
		}
		c := p.calls()[0]
		if got, want := string(c.body), `{"messages":`+string(m.Body)+`}`; got != want {
			t.Errorf("asked with %s, want %s", got, want)
		}
		if _, ok := c.header["X-Line-Retry-Key"]; ok {
			t.Error("a retry key, which LINE takes for pushes only")
		}
		var v any
		if err := json.Unmarshal(c.body, &v); err != nil {
			t.Fatal(err)
		}
		for _, problem := range schemas(t).check("ValidateMessageRequest", v) {
			t.Errorf("against LINE's schema: %s", problem)
		}
	}
	p := serve(t, func(w http.ResponseWriter, _ string) {
		w.WriteHeader(400)
		io.WriteString(w, `{"message":"The request body has 1 error(s)","details":[{"message":"May not be empty","property":"messages[0].text"}]}`)
	})
	err := newChannel(t, p.URL).ValidatePush(t.Context(), m.Body)
	if e := channels.AsPushError(err); e.Reason != channels.ReasonBadRequest || !e.Final || !strings.Contains(e.Detail(),
		"messages[0].text") {
		t.Errorf("error %v, want one that names the property", err)
	}
	if err := newChannel(t, p.URL).ValidatePush(t.Context(),
		channels.Body(`[`)); channels.AsPushError(err).Reason != channels.ReasonBadRequest || len(p.calls()) != 1 {
		t.Errorf("a body that is no JSON: error %v, %d calls", err, len(p.calls()))
	}
}

func TestQuestionsNameTheirPathAndToken(t *testing.T) {
	for _, q := range questions {
		p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, `{}`) })
		_ = q.ask(t.Context(), newChannel(t, p.URL)) // what it makes of {} is another test's
		c := p.calls()[0]
		if c.method != q.method || c.path != q.path || c.header.Get("Authorization") != "Bearer "+testToken.Reveal() ||
			c.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %s, want %s %s; headers %v", q.name, c.method, c.path, q.method, q.path, c.header)
		}
	}
}

func TestQuestionsBelieveNoOddAnswer(t *testing.T) {
	for _, q := range questions {
		for name, body := range hostile {
			if q.name == "ValidatePush" && (body == "" || strings.HasPrefix(body, "{") && name != "cut short" &&
				name != "a huge body") {
				continue // it is asked for nothing but the status
			}
			p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, body) })
			err := q.ask(t.Context(), newChannel(t, p.URL))
			if err == nil {
				t.Errorf("%s took %s", q.name, name)
				continue
			}
			checkError(t, err, channels.PushError{Reason: channels.ReasonBrokenAnswer}, 200)
		}
	}
}

func TestQuestionsThatFail(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		header string // Retry-After
		want   channels.PushError
	}{
		{401, `{"message":"Authentication failed due to the following reason: invalid token"}`, "",
			channels.PushError{Reason: "bad_token", ChannelDown: true}},
		{403, `{"message":"Not available."}`, "", channels.PushError{Reason: "forbidden", Final: true}},
		{429, `{"message":"The API rate limit has been exceeded. Try again later."}`, "7",
			channels.PushError{Reason: "rate_limited", RetryAfter: 7 * time.Second}},
		{400, `{"message":"Invalid webhook endpoint URL"}`, "", channels.PushError{Reason: "bad_request", Final: true}},
		{500, `{"message":"Internal server error ` + testToken.Reveal() + `"}`, "",
			channels.PushError{Reason: "unavailable"}},
		{503, `<html>busy</html>`, "", channels.PushError{Reason: "unavailable"}},
		{302, ``, "", channels.PushError{Reason: "unavailable"}},
	} {
		p := serve(t, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", "https://evil.example/")
			if tt.header != "" {
				w.Header().Set("Retry-After", tt.header)
			}
			w.WriteHeader(tt.status)
			io.WriteString(w, tt.body)
		})
		for _, q := range questions {
			checkError(t, q.ask(t.Context(), newChannel(t, p.URL)), tt.want, tt.status)
		}
	}
}

func TestQuestionsEndWithTheirContext(t *testing.T) {
	release, letGo := testkit.Latch()
	defer letGo()
	var pass func()
	p := serve(t, func(_ http.ResponseWriter, _ string) { pass(); <-release })
	for _, q := range questions {
		var ctx context.Context
		ctx, pass = channelstest.Overdue(t.Context())
		checkError(t, q.ask(ctx, newChannel(t, p.URL)), channels.PushError{Reason: channels.ReasonTimeout}, 0)
	}
	letGo()
}
