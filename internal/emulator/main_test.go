package emulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/internal/emulator"
	"countersign/internal/testkit"
	"countersign/internal/testkit/chromium"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(chromium.Tests{M: m}) }

const hanaLINE = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"

// world is an emulator with two people, a clock, and a webhook that records.
type world struct {
	*emulator.Emulator
	t     *testing.T
	clock *testkit.Clock

	mu     sync.Mutex
	hooks  []hooked
	answer func(w http.ResponseWriter, r hooked)
	client *http.Client
}

type hooked struct {
	path   string
	header http.Header
	body   []byte
}

func start(t *testing.T, change ...func(*emulator.Config)) *world {
	t.Helper()
	w := &world{t: t, clock: testkit.NewClock(time.Date(2026, 11, 21, 10, 40, 0, 0, time.UTC))}
	cfg := emulator.Config{
		People: []emulator.Person{{Name: "hana", LINE: hanaLINE, Slack: "U02HANA"}, {Name: "ben", LINE: "U" +
			strings.Repeat("0b", 16), Slack: "U03BEN"}},
		Now: w.clock.Now,
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := emulator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Emulator = s
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	hook := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := hooked{r.URL.Path, r.Header, body}
		w.mu.Lock()
		w.hooks = append(w.hooks, h)
		answer := w.answer
		w.mu.Unlock()
		if answer != nil {
			answer(rw, h)
		}
	}))
	s.SetWebhooks(hook.URL+"/webhook/line", hook.URL+"/webhook/slack")
	w.client = &http.Client{Transport: &http.Transport{}, Timeout: testkit.Patience}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		_ = s.Close()
		hook.Close()
	})
	return w
}

func (w *world) hooked() []hooked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]hooked(nil), w.hooks...)
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), testkit.Patience)
	w.t.Cleanup(cancel)
	return ctx
}

// result is an HTTP answer.
type result struct {
	status int
	header http.Header
	body   []byte
}

func (r result) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("answer %q: %v", r.body, err)
	}
	return v
}

func (w *world) do(method, target string, header map[string]string, body []byte) (result, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx(), method, target, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range header {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	res, err := w.client.Do(req)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	return result{res.StatusCode, res.Header, data}, err
}

// line calls LINE; header entries override the proper ones, an empty value leaves one out.
func (w *world) line(method, path, body string, header map[string]string) result {
	w.t.Helper()
	h := map[string]string{"Authorization": "Bearer " + w.Config().LINE.ChannelAccessToken,
		"Content-Type": "application/json"}
	for k, v := range header {
		h[k] = v
	}
	r, err := w.do(method, w.LINE.URL()+path, h, []byte(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) push(messages string, header map[string]string) result {
	w.t.Helper()
	return w.line("POST", "/v2/bot/message/push", `{"to":"`+hanaLINE+`","messages":[`+messages+`]}`, header)
}

// slack calls Slack with a form.
func (w *world) slack(method string, args url.Values) map[string]any {
	w.t.Helper()
	if !args.Has("token") {
		args.Set("token", w.Config().Slack.BotToken)
	}
	r, err := w.do("POST", w.Slack.URL()+method, map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
		[]byte(args.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	if r.status != http.StatusOK {
		w.t.Fatalf("%s: HTTP %d %s", method, r.status, r.body)
	}
	return r.json(w.t)
}

const (
	text1    = `{"type":"text","text":"hello"}`
	lineCard = `{"type":"flex","altText":"Approve?","contents":{"type":"bubble","body":{"type":"box","layout":"vertical","flex":0,"contents":[{"type":"text","text":"delete_file","wrap":true,"flex":0,"maxLines":0,"scaling":false}]},"footer":{"type":"box","layout":"horizontal","flex":0,"contents":[` +
		`{"type":"button","flex":1,"style":"primary","action":{"type":"postback","label":"Approve","data":"action=approve&id=01","displayText":"Approve"}},` +
		`{"type":"button","flex":1,"action":{"type":"postback","label":"Deny","data":"action=deny&id=01","inputOption":"openKeyboard","fillInText":"reason: "}}]}}}`
	slackCard = `[{"type":"header","text":{"type":"plain_text","text":"Approve?"}},{"type":"section","text":{"type":"mrkdwn","text":"*delete_file*","verbatim":true}},` +
		`{"type":"actions","block_id":"decide:1","elements":[{"type":"button","action_id":"approve","style":"primary","text":{"type":"plain_text","text":"Approve"},"value":"01"},` +
		`{"type":"button","action_id":"deny","style":"danger","text":{"type":"plain_text","text":"Deny"},"value":"01"}]}]`
	overflowCard = `[{"type":"actions","block_id":"decide","elements":[{"type":"overflow","action_id":"more","options":[` +
		`{"text":{"type":"plain_text","text":"+1 hour"},"value":"extend:01"},` +
		`{"text":{"type":"plain_text","text":"Freeze"},"value":"freeze:01"}]}]}]`
)

func TestAConversationOnLINE(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.push(lineCard, map[string]string{"X-Line-Retry-Key": "123e4567-e89b-12d3-a456-426614174000"})
	if r.status != 200 || r.header.Get("X-Line-Request-Id") == "" {
		t.Fatalf("push: %d %s", r.status, r.body)
	}
	d, err := w.LINE.Tap(w.ctx(), "hana", "", "Approve")
	if err != nil || d.Status != 200 {
		t.Fatalf("tap: %+v %v", d, err)
	}
	got := w.hooked()
	if len(got) != 1 || got[0].header.Get("X-Line-Signature") != emulator.SignLINE(w.Config().LINE.ChannelSecret,
		got[0].body) {
		t.Fatalf("webhook: %+v", got)
	}
	if !strings.Contains(string(got[0].body), `"data":"action=approve&id=01"`) {
		t.Errorf("webhook body: %s", got[0].body)
	}
	chat := w.LINE.Chat("hana")
	if len(chat) != 2 || chat[1].Text != "Approve" || chat[1].FromBot {
		t.Errorf("chat: %+v", chat)
	}
	if v := w.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
}

func TestAConversationOnSlack(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"Approve?"}, "blocks": {slackCard}})
	if r["ok"] != true {
		t.Fatalf("post: %v", r)
	}
	d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "approve", "")
	if err != nil || d.Status != 200 {
		t.Fatalf("tap: %+v %v", d, err)
	}
	got := w.hooked()
	if len(got) != 1 {
		t.Fatalf("webhook: %+v", got)
	}
	if want := emulator.SignSlack(w.Config().Slack.SigningSecret, got[0].header.Get("X-Slack-Request-Timestamp"),
		got[0].body); got[0].header.Get("X-Slack-Signature") != want {
		t.Errorf("signature %s, want %s", got[0].header.Get("X-Slack-Signature"), want)
	}
	if v := w.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
}
