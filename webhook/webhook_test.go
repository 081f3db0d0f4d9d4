package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lineBot  = "U0123456789abcdef0123456789abcdef"
	hanaLINE = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"
	request  = "01KAFHZX3T9W8Y7B6A5D4C3E2F"
)

var now = time.Date(2026, 11, 21, 10, 40, 0, 0, time.UTC)

// signingSecret is made at run time so that no fixture looks like a real one.
var signingSecret = strings.Repeat("test-only-", 3)

type fakeGate struct {
	mu      sync.Mutex
	taps    []chat.Interaction
	asks    []chat.Interaction
	asked   chat.Asked
	asking  func()
	refused []string
	out     chat.InteractionResult
	err     error
	tap     func(ctx context.Context)
}

func (g *fakeGate) Interact(ctx context.Context, t chat.Interaction) (chat.InteractionResult, error) {
	if g.tap != nil {
		g.tap(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taps = append(g.taps, t)
	return g.out, g.err
}

func (g *fakeGate) Ask(_ context.Context, t chat.Interaction) (chat.Asked, error) {
	if g.asking != nil {
		g.asking()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks = append(g.asks, t)
	return g.asked, g.err
}

func (g *fakeGate) Refused(_ context.Context, actor, _, reason string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = append(g.refused, actor+" "+reason)
	return g.err
}

type fixture struct {
	t      *testing.T
	o      Options
	gate   *fakeGate
	log    bytes.Buffer
	counts map[string]int
	now    time.Time
	line   *LINE
	slack  *Slack
	bot    string
	ws     Workspace
	known  bool
	told   chan struct{} // nil: what the platform says of us is waited for by nobody
}

// wait is until the platform has said who we are, or whoever asks has had enough.
func (f *fixture) wait(ctx context.Context) {
	if f.told == nil {
		return
	}
	select {
	case <-f.told:
	case <-ctx.Done():
	}
}

func (f *fixture) botNow(ctx context.Context) string {
	f.wait(ctx)
	return f.bot
}

func (f *fixture) workspace(ctx context.Context) (Workspace, bool) {
	f.wait(ctx)
	return f.ws, f.known
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, gate: &fakeGate{}, counts: map[string]int{}, now: now, bot: lineBot, ws: Workspace{Team: "T0TEAM0001", App: "A0APPROVE1"}, known: true}
	people := auth.NewDirectory(nil, []auth.Person{{Name: "hana", Approver: true, Addresses: map[string]string{"line": hanaLINE, "slack": "U02HANA"}}})
	o := Options{Chat: f.gate, People: people, Logger: slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now: func() time.Time { return f.now }, Count: func(_, result string) { f.counts[result]++ }}
	f.o = o
	secrets := func() []string { return []string{"an-older-secret-on-its-way-out", signingSecret} }
	f.line = NewLINE(o, secrets, f.botNow)
	f.slack = NewSlack(o, secrets, f.workspace)
	t.Cleanup(f.slack.Close)
	return f
}

// slackWith has Slack's handler made anew, with other options.
func (f *fixture) slackWith(change func(o *Options)) {
	change(&f.o)
	f.slack = NewSlack(f.o, func() []string { return []string{signingSecret} }, f.workspace)
	f.t.Cleanup(f.slack.Close)
}

func signLINE(key string, body []byte) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write(body)
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func (f *fixture) postLINE(body, signature string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhook/line", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if signature != "" {
		r.Header.Set("x-line-signature", signature)
	}
	w := httptest.NewRecorder()
	f.line.ServeHTTP(w, r)
	return w
}

func (f *fixture) lineEvents(events ...string) *httptest.ResponseRecorder {
	body := `{"destination":"` + lineBot + `","events":[` + strings.Join(events, ",") + `]}`
	return f.postLINE(body, signLINE(signingSecret, []byte(body)))
}

func postback(change ...string) string {
	e := `{"type":"postback","mode":"active","timestamp":` + strconv.FormatInt(now.UnixMilli(), 10) + `,
		"webhookEventId":"01KAFJ0Q8R6ZC4V1M2N3P4Q5R6","deliveryContext":{"isRedelivery":false},
		"source":{"type":"user","userId":"` + hanaLINE + `"},"replyToken":"0f3779fb",
		"postback":{"data":"action=approve&id=` + request + `"}}`
	return strings.NewReplacer(change...).Replace(e)
}

func (f *fixture) wantStatus(w *httptest.ResponseRecorder, status int) {
	f.t.Helper()
	if w.Code != status {
		f.t.Errorf("answered %d %q, want %d", w.Code, w.Body, status)
	}
}

func (f *fixture) wantTaps(n int) {
	f.t.Helper()
	if len(f.gate.taps) != n {
		f.t.Fatalf("%d taps reached the gate, want %d", len(f.gate.taps), n)
	}
}

// The vectors are those of LINE's and Slack's documentation.
func TestSignaturesAreThePlatforms(t *testing.T) {
	body := []byte(`{"destination":"U8e742f61d673b39c7fff3cecb7536ef0","events":[]}`)
	l := NewLINE(Options{}, func() []string { return []string{"8c570fa6dd201bb328f1c1eac23a96d8"} }, nil)
	if !l.signed(body, "GhRKmvmHys4Pi8DxkF4+EayaH0OqtJtaZxgTD9fMDLs=") {
		t.Error("LINE's own example is refused")
	}
	got := SlackSignature("8f742231b10e8888abcd99yyyzzz85a5", "1531420618", []byte("token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"))
	if want := "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"; got != want {
		t.Errorf("Slack's own example: got %s, want %s", got, want)
	}
}

func TestLINEPostbackBecomesATap(t *testing.T) {
	f := newFixture(t)
	f.wantStatus(f.lineEvents(postback()), 200)
	f.wantTaps(1)
	want := chat.Interaction{EventID: "line:01KAFJ0Q8R6ZC4V1M2N3P4Q5R6", Channel: "line", By: approval.Actor{Kind: approval.Human, Name: "hana", Approver: true},
		From: hanaLINE, ReplyTo: "0f3779fb", Intent: chat.IntentApprove, RequestID: request, At: now, OneReply: true, AsksWhy: true}
	if got := f.gate.taps[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLINEWordsBecomeATap(t *testing.T) {
	f := newFixture(t)
	message := func(text, quoted string) string {
		b, _ := json.Marshal(map[string]string{"type": "text", "text": text, "quotedMessageId": quoted})
		return postback(`"postback"`, `"message"`, `"type":"postback"`, `"type":"message"`, `{"data":"action=approve&id=`+request+`"}`, string(b))
	}
	f.wantStatus(f.lineEvents(message("deny "+strings.ToLower(request)+" wrong account", ""), message("yes", ""), message("no: not today", "5901"), message("hello", "")), 200)
	f.wantTaps(4)
	for i, want := range []chat.Interaction{
		{Intent: chat.IntentDeny, RequestID: request, Reason: "wrong account"},
		{Intent: chat.IntentApprove},
		{Intent: chat.IntentDeny, QuotedID: "5901", Reason: "not today"},
		{Intent: chat.IntentOther},
	} {
		got := f.gate.taps[i]
		if got.Intent != want.Intent || got.RequestID != want.RequestID || got.Reason != want.Reason || got.QuotedID != want.QuotedID {
			t.Errorf("%d: got %+v, want %+v", i, got, want)
		}
	}
}

func TestLINERefusesWhatIsNotSigned(t *testing.T) {
	f := newFixture(t)
	body := `{"destination":"` + lineBot + `","events":[` + postback() + `]}`
	good := signLINE(signingSecret, []byte(body))
	for name, signature := range map[string]string{
		"none": "", "garbage": "AAAA", "other secret": signLINE("somebody else's secret", []byte(body)), "other body": signLINE(signingSecret, []byte(body+" ")),
		"hex": "v0=" + good, "cut": good[:len(good)-4],
	} {
		if w := f.postLINE(body, signature); w.Code != 401 || strings.Contains(w.Body.String(), good) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	f.wantTaps(0)
	if len(f.gate.refused) != 0 {
		t.Errorf("unsigned requests were audited: %q", f.gate.refused)
	}
	if n := strings.Count(f.log.String(), "level=WARN"); n != 1 || f.counts["unsigned"] != 6 {
		t.Errorf("%d lines in the log for %d refusals within a minute", n, f.counts["unsigned"])
	}
	f.now = f.now.Add(time.Minute)
	f.postLINE(body, "")
	if !strings.Contains(f.log.String(), "count=6") || strings.Contains(f.log.String(), good) {
		t.Errorf("log: %s", f.log.String())
	}
	f.wantStatus(f.postLINE(body, good), 200)
}

func TestLINEEventsThatDoNotCount(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		event        string
	}{
		{"group", "line: not_one_to_one", postback(`"type":"user"`, `"type":"group","groupId":"C1"`)},
		{"no user", "line: not_one_to_one", postback(`,"userId":"`+hanaLINE+`"`, "")},
		{"standby", "hana not_active", postback(`"active"`, `"standby"`)},
		{"no id", "hana no_event_id", postback(`"webhookEventId":"01KAFJ0Q8R6ZC4V1M2N3P4Q5R6",`, "")},
		{"a day old", "hana too_old", postback(strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Add(-24*time.Hour).UnixMilli()-1, 10))},
		{"no time", "hana too_old", postback(strconv.FormatInt(now.UnixMilli(), 10), "0")},
		{"foreign button", "hana unknown_button", postback("action=approve", "action=delete")},
		{"doubled key", "hana unknown_button", postback("action=approve", "action=deny&action=approve")},
		{"unknown key", "hana unknown_button", postback("&id="+request, "&id="+request+"&x=1")},
		{"empty key, then once more", "hana unknown_button", postback("action=approve", "action=&action=approve")},
		{"not an event", "line: not_understood", `[1]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.wantStatus(f.lineEvents(tt.event), map[bool]int{true: 400, false: 200}[strings.HasSuffix(tt.reason, " not_understood")])
			f.wantTaps(0)
			if len(f.gate.refused) != 1 || f.gate.refused[0] != tt.reason {
				t.Errorf("audited %q, want %q", f.gate.refused, tt.reason)
			}
		})
	}
	t.Run("exactly a day old counts", func(t *testing.T) {
		f := newFixture(t)
		f.lineEvents(postback(strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Add(-24*time.Hour).UnixMilli(), 10)))
		f.wantTaps(1)
	})
	t.Run("other kinds are no news", func(t *testing.T) {
		f := newFixture(t)
		f.wantStatus(f.lineEvents(`{"type":"messageEdited","source":null}`, `{"type":"join","source":{"type":"group","groupId":"C1"}}`), 200)
		f.wantTaps(0)
		if len(f.gate.refused) != 0 {
			t.Errorf("audited %q", f.gate.refused)
		}
	})
	t.Run("another bot's", func(t *testing.T) {
		f := newFixture(t)
		f.bot = "Uffffffffffffffffffffffffffffffff"
		f.wantStatus(f.lineEvents(postback()), 200)
		f.wantTaps(0)
		if len(f.gate.refused) != 1 || f.gate.refused[0] != "line: wrong_destination" {
			t.Errorf("audited %q", f.gate.refused)
		}
	})
	t.Run("before we know our bot", func(t *testing.T) {
		f := newFixture(t)
		f.bot = ""
		f.wantStatus(f.lineEvents(postback()), 503)
		f.wantTaps(0)
	})
	t.Run("the Verify button", func(t *testing.T) {
		f := newFixture(t)
		f.bot = ""
		f.wantStatus(f.lineEvents(), 200)
	})
	t.Run("a signed body that is no JSON", func(t *testing.T) {
		f := newFixture(t)
		f.wantStatus(f.postLINE("{", signLINE(signingSecret, []byte("{"))), 400)
	})
}

// Rule 2.7: a press right after a restart was not acted on, and only LINE would have sent it again.
func TestRule7_APressWaitsForThePlatformToSayWhoWeAre(t *testing.T) {
	for name, post := range map[string]func(f *fixture) *httptest.ResponseRecorder{
		"LINE":  func(f *fixture) *httptest.ResponseRecorder { return f.lineEvents(postback()) },
		"Slack": func(f *fixture) *httptest.ResponseRecorder { return f.slackButton(nil) },
	} {
		for _, tt := range []struct {
			name          string
			after, atMost time.Duration
			status, taps  int
		}{
			{"it is said in time", 400 * time.Millisecond, 400 * time.Millisecond, 200, 1},
			{"it is not said", time.Hour, 1100 * time.Millisecond, 503, 0},
		} {
			t.Run(name+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					defer f.slack.Close()
					f.told, f.bot, f.known = make(chan struct{}), "", false
					said := time.AfterFunc(tt.after, func() {
						f.bot, f.known = lineBot, true
						close(f.told)
					})
					defer said.Stop()
					begin := time.Now()
					f.wantStatus(post(f), tt.status)
					if took := time.Since(begin); took > tt.atMost {
						t.Errorf("it took %s, more than the platform waits", took)
					}
					f.wantTaps(tt.taps)
				})
			})
		}
	}
}

func TestALINEStrangerIsTakenUnderTheirOwnID(t *testing.T) {
	f := newFixture(t)
	f.lineEvents(postback(hanaLINE, "Uffffffffffffffffffffffffffffffff"))
	f.wantTaps(1)
	if by := f.gate.taps[0].By; by.Kind != approval.Stranger || by.String() != "line:Uffffffffffffffffffffffffffffffff" || by.Approver {
		t.Errorf("%+v", by)
	}
}

func TestRule7_WhatCannotBeStoredIsAskedForAgain(t *testing.T) {
	f := newFixture(t)
	f.gate.err = errors.New("disk full")
	w := f.lineEvents(postback())
	f.wantStatus(w, 503)
	f.wantStatus(f.slackButton(nil), 503)
	f.gate.err = nil
	f.gate.tap = func(ctx context.Context) {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > 1500*time.Millisecond || ctx.Err() != nil {
			t.Errorf("deadline %v, %v", d, ok)
		}
	}
	f.wantStatus(f.lineEvents(postback()), 200)
}

func TestBodiesAreBounded(t *testing.T) {
	f := newFixture(t)
	f.wantStatus(f.postLINE(strings.Repeat("x", maxBody+1), signLINE(signingSecret, nil)), 413)
	r := httptest.NewRequest(http.MethodGet, "/webhook/line?action=approve", nil)
	w := httptest.NewRecorder()
	f.line.ServeHTTP(w, r)
	f.wantStatus(w, 405)
}

func (f *fixture) postSlack(contentType, body string, change func(h http.Header)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhook/slack", strings.NewReader(body))
	stamp := strconv.FormatInt(f.now.Unix(), 10)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-Slack-Request-Timestamp", stamp)
	r.Header.Set("X-Slack-Signature", SlackSignature(signingSecret, stamp, []byte(body)))
	if change != nil {
		change(r.Header)
	}
	w := httptest.NewRecorder()
	f.slack.ServeHTTP(w, r)
	return w
}

const formType = "application/x-www-form-urlencoded"

// slackButton presses Approve; change edits the payload first.
func (f *fixture) slackButton(change func(p map[string]any)) *httptest.ResponseRecorder {
	p := map[string]any{
		"type": "block_actions", "api_app_id": "A0APPROVE1", "team": map[string]any{"id": "T0TEAM0001"}, "enterprise": nil,
		"user":       map[string]any{"id": "U02HANA", "username": "hana", "team_id": "T0TEAM0001"},
		"trigger_id": "8123.1234.0a1b", "response_url": "https://hooks.slack.com/actions/T0TEAM0001/8123/abc",
		"actions": []any{map[string]any{"type": "button", "action_id": "approve", "value": request}},
	}
	if change != nil {
		change(p)
	}
	b, _ := json.Marshal(p)
	return f.postSlack(formType, "payload="+url.QueryEscape(string(b)), nil)
}

func TestSmallTalkOfStrangersIsToldWhatThisIsWithinBounds(t *testing.T) {
	f := newFixture(t)
	text := func(change ...string) string {
		return strings.NewReplacer(append(change, `"postback":{"data":"action=approve&id=`+request+`"}`, `"message":{"type":"text","text":"nice weather"}`, `"type":"postback"`, `"type":"message"`)...).Replace(postback())
	}
	f.wantStatus(f.lineEvents(text(hanaLINE, "Uffffffffffffffffffffffffffffffff"), text(`"type":"user"`, `"type":"group","groupId":"C1"`)), 200)
	f.wantTaps(1) // what is said in a group is not said to us
	if got := f.gate.taps[0]; got.Intent != chat.IntentHelp || got.By.Kind != approval.Stranger {
		t.Errorf("a stranger's small talk is taken as %q of %v", got.Intent, got.By)
	}
	if len(f.gate.refused) != 0 || f.counts["ignored"] != 1 {
		t.Errorf("audited %q, counts %v", f.gate.refused, f.counts)
	}
	for range 10 {
		f.lineEvents(text(hanaLINE, "Uffffffffffffffffffffffffffffffff"))
	}
	f.wantTaps(talkEach)
	f.lineEvents(text())
	f.wantTaps(talkEach + 1)
	if got := f.gate.taps[talkEach].Intent; got != chat.IntentOther {
		t.Errorf("hana's small talk is taken as %q", got)
	}
}

func TestABareWordInSlackHasItsTime(t *testing.T) {
	f := newFixture(t)
	f.postSlack("application/json", `{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev9","event":{"type":"message","channel_type":"im","user":"U02HANA","text":"no","ts":"1795257600.000100"}}`, nil)
	f.wantTaps(1)
	if got := f.gate.taps[0].At; got.Unix() != 1795257600 {
		t.Errorf("at %v", got)
	}
}

func TestSlackButtonBecomesATap(t *testing.T) {
	f := newFixture(t)
	w := f.slackButton(nil)
	f.wantStatus(w, 200)
	if w.Body.Len() != 0 {
		t.Errorf("body %q", w.Body)
	}
	f.wantTaps(1)
	want := chat.Interaction{EventID: "slack:8123.1234.0a1b:0", Channel: "slack", By: approval.Actor{Kind: approval.Human, Name: "hana", Approver: true},
		From: "U02HANA", ReplyTo: "https://hooks.slack.com/actions/T0TEAM0001/8123/abc", Intent: chat.IntentApprove, RequestID: request}
	if got := f.gate.taps[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSlackRefusesWhatIsNotSigned(t *testing.T) {
	f := newFixture(t)
	for name, change := range map[string]func(http.Header){
		"no signature": func(h http.Header) { h.Del("X-Slack-Signature") },
		"no time":      func(h http.Header) { h.Del("X-Slack-Request-Timestamp") },
		"other time":   func(h http.Header) { h.Set("X-Slack-Request-Timestamp", strconv.FormatInt(now.Unix()+1, 10)) },
		"garbage time": func(h http.Header) { h.Set("X-Slack-Request-Timestamp", "soon") },
		"stale": func(h http.Header) {
			stamp := strconv.FormatInt(now.Unix()-301, 10)
			h.Set("X-Slack-Request-Timestamp", stamp)
			h.Set("X-Slack-Signature", SlackSignature(signingSecret, stamp, []byte("payload={}")))
		},
		"from the future": func(h http.Header) {
			stamp := strconv.FormatInt(now.Unix()+301, 10)
			h.Set("X-Slack-Request-Timestamp", stamp)
			h.Set("X-Slack-Signature", SlackSignature(signingSecret, stamp, []byte("payload={}")))
		},
		"another's secret": func(h http.Header) {
			stamp := strconv.FormatInt(now.Unix(), 10)
			h.Set("X-Slack-Signature", SlackSignature("somebody else's", stamp, []byte("payload={}")))
		},
	} {
		if w := f.postSlack(formType, "payload={}", change); w.Code != 401 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	f.wantTaps(0)
	if len(f.gate.refused) != 0 {
		t.Errorf("audited %q", f.gate.refused)
	}
}

func TestSlackTapsFromElsewhereDoNotCount(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		change       func(p map[string]any)
	}{
		{"another team", "slack:T0TEAM0001/U02HANA wrong_workspace", func(p map[string]any) { p["team"] = map[string]any{"id": "T0OTHER"} }},
		{"no team", "slack:T0TEAM0001/U02HANA wrong_workspace", func(p map[string]any) { p["team"] = nil }},
		{"another app", "slack:T0TEAM0001/U02HANA wrong_workspace", func(p map[string]any) { p["api_app_id"] = "A0OTHER" }},
		{"no trigger", "hana no_event_id", func(p map[string]any) { delete(p, "trigger_id") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.wantStatus(f.slackButton(tt.change), 200)
			f.wantTaps(0)
			if len(f.gate.refused) != 1 || f.gate.refused[0] != tt.reason {
				t.Errorf("audited %q, want %q", f.gate.refused, tt.reason)
			}
		})
	}
	t.Run("a person of another organisation in a shared channel is a stranger", func(t *testing.T) {
		f := newFixture(t)
		f.slackButton(func(p map[string]any) { p["user"] = map[string]any{"id": "U02HANA", "team_id": "T0OTHER"} })
		f.wantTaps(1)
		if by := f.gate.taps[0].By; by.Kind != approval.Stranger || by.String() != "slack:T0OTHER/U02HANA" {
			t.Errorf("%+v", by)
		}
	})
	t.Run("an organisation-wide install has no team", func(t *testing.T) {
		f := newFixture(t)
		f.ws.Enterprise = "E0ORG"
		f.slackButton(func(p map[string]any) {
			p["team"], p["enterprise"] = nil, map[string]any{"id": "E0ORG"}
			p["user"] = map[string]any{"id": "U02HANA", "team_id": "T0SECOND"}
		})
		f.wantTaps(1)
		if by := f.gate.taps[0].By; by.Name != "hana" {
			t.Errorf("%+v", by)
		}
	})
	t.Run("before we know our workspace", func(t *testing.T) {
		f := newFixture(t)
		f.known = false
		f.wantStatus(f.slackButton(nil), 503)
		f.wantTaps(0)
	})
	t.Run("a button that decides nothing", func(t *testing.T) {
		f := newFixture(t)
		f.wantStatus(f.slackButton(func(p map[string]any) {
			p["actions"] = []any{map[string]any{"action_id": "open", "value": request}, map[string]any{"action_id": "deny", "value": "1"}}
		}), 200)
		f.wantTaps(0)
	})
}

func TestSlackPayloadIsTakenFromTheSignedBodyOnly(t *testing.T) {
	f := newFixture(t)
	r := httptest.NewRequest(http.MethodPost, "/webhook/slack?payload=%7B%22type%22%3A%22block_actions%22%7D", strings.NewReader(""))
	stamp := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set("Content-Type", formType)
	r.Header.Set("X-Slack-Request-Timestamp", stamp)
	r.Header.Set("X-Slack-Signature", SlackSignature(signingSecret, stamp, nil))
	w := httptest.NewRecorder()
	f.slack.ServeHTTP(w, r)
	f.wantStatus(w, 400)
	f.wantTaps(0)
	if len(f.gate.refused) != 1 {
		t.Errorf("audited %q", f.gate.refused)
	}
}

func TestSlackEvents(t *testing.T) {
	f := newFixture(t)
	w := f.postSlack("application/json", `{"type":"url_verification","challenge":"3eZbrw1aB"}`, nil)
	if w.Code != 200 || w.Body.String() != "3eZbrw1aB" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	message := func(more string) string {
		return `{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev1","event":{"type":"message","channel_type":"im","user":"U02HANA","text":"deny ` + request + ` 2 &lt; 3","ts":"2.0"` + more + `}}`
	}
	f.wantStatus(f.postSlack("application/json; charset=utf-8", message(""), nil), 200)
	f.wantTaps(1)
	if got := f.gate.taps[0]; got.EventID != "slack:Ev1" || got.Intent != chat.IntentDeny || got.RequestID != request || got.Reason != "2 < 3" || got.From != "U02HANA" {
		t.Errorf("%+v", got)
	}
	for _, more := range []string{`,"bot_id":"B1"`, `,"subtype":"message_changed"`} {
		f.wantStatus(f.postSlack("application/json", message(more), nil), 200)
	}
	f.wantStatus(f.postSlack("application/json", strings.Replace(message(""), `"im"`, `"channel"`, 1), nil), 200)
	f.wantTaps(1)
	f.postSlack("application/json", strings.Replace(message(`,"thread_ts":"1.5"`), "deny "+request+" 2 &lt; 3", "yes", 1), nil)
	f.wantTaps(2)
	if got := f.gate.taps[1]; got.QuotedID != "1.5" || got.Intent != chat.IntentApprove {
		t.Errorf("%+v", got)
	}
}

func TestSlashCommandIsTypedWords(t *testing.T) {
	f := newFixture(t)
	form := url.Values{"command": {"/countersign"}, "text": {"approve " + request}, "user_id": {"U02HANA"}, "team_id": {"T0TEAM0001"},
		"api_app_id": {"A0APPROVE1"}, "trigger_id": {"1.2.3"}, "response_url": {"https://hooks.slack.com/commands/1"}}
	f.wantStatus(f.postSlack(formType, form.Encode(), nil), 200)
	f.wantTaps(1)
	if got := f.gate.taps[0]; got.RequestID != request || got.Intent != chat.IntentApprove || got.By.Name != "hana" {
		t.Errorf("%+v", got)
	}
}

// spelled reports whether a body holds each of these names exactly so; one that is written with escapes counts.
func spelled(body string, names ...string) bool {
	return strings.Contains(body, `\u`) || !slices.ContainsFunc(names, func(n string) bool { return !strings.Contains(body, `"`+n+`"`) })
}

func FuzzLINE(f *testing.F) {
	for _, d := range deliveries() {
		f.Add([]byte(d.body))
		f.Add([]byte(strings.ToUpper(d.body)))
	}
	f.Add([]byte(`{"destination":"` + lineBot + `","events":[` + postback() + `]}`))
	f.Add([]byte(`{"events":[{"type":"message","source":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		x := newFixture(t)
		w := x.postLINE(string(body), signLINE(signingSecret, body))
		if w.Code != 200 && (w.Code != 400 || len(x.gate.refused) == 0) {
			t.Errorf("%d for a signed body, on record %q", w.Code, x.gate.refused)
		}
		if len(x.gate.taps) > 0 && !spelled(string(body), "destination", "events", "type", "mode", "timestamp", "webhookEventId", "source", "userId") {
			t.Errorf("%q decides: %+v", body, x.gate.taps)
		}
		for _, tap := range x.gate.taps {
			if tap.EventID == "line:" || tap.By.Name == "" || tap.From == "" {
				t.Errorf("%+v", tap)
			}
		}
	})
}

func FuzzSlack(f *testing.F) {
	for _, d := range deliveries() {
		f.Add(d.body, "application/json")
		f.Add("payload="+url.QueryEscape(d.body), formType)
	}
	f.Add("payload=%7B%22type%22%3A%22block_actions%22%7D", formType)
	f.Add(`{"type":"event_callback","event":{"type":"message"}}`, "application/json")
	f.Add(mention("<@U0BOT> deny "+request+" why", ""), "application/json")
	f.Add(homeOpened("home"), "application/json")
	f.Add("payload="+url.QueryEscape(`{"type":"view_submission","api_app_id":"A0APPROVE1","team":{"id":"T0TEAM0001"},"user":{"id":"U02HANA"},"view":{"id":"V1","Asked":{"Intent":"deny","RequestID":"`+request+`","Reason":"x"}}}`), formType)
	f.Add("command=%2Fcountersign&text=deny&team_id=T0TEAM0001&user_id=U02HANA&api_app_id=A0APPROVE1&trigger_id=1", formType)
	f.Fuzz(func(t *testing.T, body, kind string) {
		x, _ := withDialogs(t)
		w := x.postSlack(kind, body, nil)
		if w.Code != 200 && w.Code != 415 && (w.Code != 400 || len(x.gate.refused) == 0) {
			t.Errorf("%d for a signed body, on record %q", w.Code, x.gate.refused)
		}
		text, err := url.QueryUnescape(body)
		if len(x.gate.taps) > 0 && !(err == nil && (spelled(text, "type", "team", "user", "id", "trigger_id") || spelled(text, "view", "type", "team", "user", "id")) ||
			spelled(body, "type", "event", "event_id", "user", "text") || strings.Contains(body, "user_id=") && strings.Contains(body, "trigger_id=")) {
			t.Errorf("%q decides: %+v", body, x.gate.taps)
		}
		for _, tap := range x.gate.taps {
			if tap.EventID == "slack:" || tap.By.Name == "" || tap.From == "" {
				t.Errorf("%+v", tap)
			}
		}
	})
}

func TestLINEFollowAndUnfollow(t *testing.T) {
	f := newFixture(t)
	kind := func(kind string, change ...string) string {
		return strings.NewReplacer(append(change, `"type":"postback"`, `"type":"`+kind+`"`, `,
		"postback":{"data":"action=approve&id=`+request+`"}`, "")...).Replace(postback())
	}
	newcomer := "Uffffffffffffffffffffffffffffffff"
	f.wantStatus(f.lineEvents(kind("follow"), kind("follow", hanaLINE, newcomer), kind("unfollow", `"replyToken":"0f3779fb"`, `"x":0`)), 200)
	f.wantTaps(3)
	for i, want := range []chat.Interaction{
		{Intent: chat.IntentFollow, From: hanaLINE, ReplyTo: "0f3779fb", By: approval.Actor{Name: "hana"}},
		{Intent: chat.IntentFollow, From: newcomer, ReplyTo: "0f3779fb", By: approval.Actor{Name: "line:" + newcomer}},
		{Intent: chat.IntentUnfollow, From: hanaLINE, By: approval.Actor{Name: "hana"}},
	} {
		got := f.gate.taps[i]
		if got.Intent != want.Intent || got.From != want.From || got.ReplyTo != want.ReplyTo || got.By.Name != want.By.Name || got.EventID == "line:" || got.Channel != "line" {
			t.Errorf("%d: %+v", i, got)
		}
	}
	for _, tt := range []struct{ name, event, reason string }{
		{"standby", kind("follow", `"active"`, `"standby"`), "hana not_active"},
		{"old", kind("unfollow", strconv.FormatInt(now.UnixMilli(), 10), "1"), "hana too_old"},
		{"a group", kind("follow", `"type":"user"`, `"type":"group","groupId":"C1"`), "line: not_one_to_one"},
	} {
		f := newFixture(t)
		f.lineEvents(tt.event)
		f.wantTaps(0)
		if len(f.gate.refused) != 1 || f.gate.refused[0] != tt.reason {
			t.Errorf("%s: audited %q", tt.name, f.gate.refused)
		}
	}
}

func TestAllThatWasTypedIsKept(t *testing.T) {
	f := newFixture(t)
	b, _ := json.Marshal(map[string]string{"type": "text", "text": "  it is the wrong account. ", "quotedMessageId": "5901"})
	f.lineEvents(postback(`"postback"`, `"message"`, `"type":"postback"`, `"type":"message"`, `{"data":"action=approve&id=`+request+`"}`, string(b)))
	f.wantTaps(1)
	if got := f.gate.taps[0]; got.Text != "  it is the wrong account. " || got.QuotedID != "5901" || !got.AsksWhy {
		t.Errorf("%+v", got)
	}
}

func mention(text, more string) string {
	b, _ := json.Marshal(text)
	return `{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev7","event":{"type":"app_mention","channel":"C0APPROVALS","user":"U02HANA","team":"T0TEAM0001","text":` + string(b) + `,"ts":"1795257600.000100"` + more + `}}`
}

func TestAMentionIsTypedWords(t *testing.T) {
	f := newFixture(t)
	f.ws.Bot = "U0BOT"
	for _, tt := range []struct {
		text, more string
		want       chat.Interaction
	}{
		{"<@U0BOT> deny " + request + " 2 &lt; 3", "", chat.Interaction{Intent: chat.IntentDeny, RequestID: request, Reason: "2 < 3"}},
		{" <@U0BOT|countersign>: approve " + request, "", chat.Interaction{Intent: chat.IntentApprove, RequestID: request}},
		{"<@U0BOT>, no", `,"thread_ts":"1.5"`, chat.Interaction{Intent: chat.IntentDeny, QuotedID: "1.5"}},
		{"<@U0BOT> ", "", chat.Interaction{Intent: chat.IntentHelp}},
		{"<@U03KEN> approve " + request, "", chat.Interaction{Intent: chat.IntentOther}},
		{"deny " + request + " <@U0BOT>", "", chat.Interaction{Intent: chat.IntentDeny, RequestID: request, Reason: "<@U0BOT>"}},
	} {
		f.gate.taps = nil
		f.wantStatus(f.postSlack("application/json", mention(tt.text, tt.more), nil), 200)
		f.wantTaps(1)
		got := f.gate.taps[0]
		if got.Intent != tt.want.Intent || got.RequestID != tt.want.RequestID || got.Reason != tt.want.Reason || got.QuotedID != tt.want.QuotedID || got.From != "U02HANA" || got.ReplyTo != "" {
			t.Errorf("%q: %+v", tt.text, got)
		}
		if !got.Elsewhere || got.Messages != "https://slack.com/app_redirect?app=A0APPROVE1&team=T0TEAM0001" {
			t.Errorf("%q: direct messages at %q", tt.text, got.Messages)
		}
		if bare := got.RequestID == "" && got.QuotedID == ""; bare == got.At.IsZero() {
			t.Errorf("%q: at %v", tt.text, got.At)
		}
	}
	f.gate.taps = nil
	f.postSlack("application/json", mention("<@U0BOT> deny "+request, `,"edited":{"ts":"2"}`), nil)
	f.postSlack("application/json", mention("<@U0BOT> deny "+request, `,"bot_id":"B1"`), nil)
	f.wantTaps(0)
}

func TestASlashCommandAloneAsksForHelp(t *testing.T) {
	f := newFixture(t)
	form := url.Values{"command": {"/countersign"}, "text": {" "}, "user_id": {"U02HANA"}, "team_id": {"T0TEAM0001"},
		"api_app_id": {"A0APPROVE1"}, "trigger_id": {"1.2.3"}, "response_url": {"https://hooks.slack.com/commands/1"}}
	f.postSlack(formType, form.Encode(), nil)
	f.wantTaps(1)
	if got := f.gate.taps[0]; got.Intent != chat.IntentHelp || got.ReplyTo != "https://hooks.slack.com/commands/1" ||
		got.Messages != "https://slack.com/app_redirect?app=A0APPROVE1&team=T0TEAM0001" {
		t.Errorf("%+v", got)
	}
}

func TestOutsidersAreWarnedOfOnceAnHour(t *testing.T) {
	f := newFixture(t)
	outside := func(p map[string]any) { p["user"] = map[string]any{"id": "U02HANA", "team_id": "T0OTHER"} }
	warned := func() int { return strings.Count(f.log.String(), "people of another organisation") }
	f.slackButton(outside)
	f.slackButton(outside)
	f.postSlack("application/json", strings.Replace(mention("deny "+request, ""), `"team":"T0TEAM0001"`, `"team":"T0OTHER"`, 1), nil)
	f.wantTaps(3)
	for _, tap := range f.gate.taps {
		if tap.By.Kind != approval.Stranger || tap.By.Name != "slack:T0OTHER/U02HANA" {
			t.Errorf("%+v", tap.By)
		}
	}
	if warned() != 1 || !strings.Contains(f.log.String(), "channels.slack.channel") {
		t.Errorf("log: %s", f.log.String())
	}
	f.now = f.now.Add(time.Hour)
	f.slackButton(outside)
	if warned() != 2 || !strings.Contains(f.log.String(), "count=3") {
		t.Errorf("log: %s", f.log.String())
	}
	f.slackButton(nil)
	if warned() != 2 {
		t.Error("our own people are warned of")
	}
}

func TestSecretsAreReplacedWithoutAGap(t *testing.T) {
	f := newFixture(t)
	older := "an-older-secret-on-its-way-out"
	body := `{"destination":"` + lineBot + `","events":[` + postback() + `]}`
	for _, key := range []string{older, signingSecret} {
		f.wantStatus(f.postLINE(body, signLINE(key, []byte(body))), 200)
		w := f.postSlack("application/json", mention("deny "+request, ""), func(h http.Header) {
			h.Set("X-Slack-Signature", SlackSignature(key, h.Get("X-Slack-Request-Timestamp"), []byte(mention("deny "+request, ""))))
		})
		f.wantStatus(w, 200)
	}
	f.wantTaps(4)
	f.slackWith(func(*Options) {}) // the older one is gone
	body = mention("deny "+request, "")
	w := f.postSlack("application/json", body, func(h http.Header) {
		h.Set("X-Slack-Signature", SlackSignature(older, h.Get("X-Slack-Request-Timestamp"), []byte(body)))
	})
	f.wantStatus(w, 401)
	f.wantTaps(4)
	none := NewLINE(f.o, func() []string { return nil }, func(context.Context) string { return lineBot })
	if none.signed([]byte("{}"), signLINE("", []byte("{}"))) {
		t.Error("without a secret anything is signed")
	}
}

// A second yes, the way back, an hour more and a freeze come as presses too, each with the one id that it names.
func TestWhatElseButtonsSayBecomesATap(t *testing.T) {
	for _, want := range []chat.Intent{chat.IntentConfirm, chat.IntentBack, chat.IntentExtend, chat.IntentFreeze} {
		f := newFixture(t)
		f.wantStatus(f.lineEvents(postback("action=approve", "action="+string(want))), 200)
		f.wantTaps(1)
		if got := f.gate.taps[0]; got.Intent != want || got.RequestID != request || got.Text != "" {
			t.Errorf("LINE: %s came as %+v", want, got)
		}
		f = newFixture(t)
		f.wantStatus(f.slackButton(func(p map[string]any) {
			p["actions"] = []any{map[string]any{"type": "button", "action_id": want, "value": request}}
			if want == chat.IntentExtend || want == chat.IntentFreeze {
				p["actions"] = []any{map[string]any{"type": "overflow", "action_id": "more",
					"selected_option": map[string]any{"value": string(want) + ":" + request}}}
			}
		}), 200)
		f.wantTaps(1)
		if got := f.gate.taps[0]; got.Intent != want || got.RequestID != request || got.Text != "" {
			t.Errorf("Slack: %s came as %+v", want, got)
		}
	}
}

// What is typed of an id's end, of an agent and of a person reaches the chat.
func TestTypedNamesAndShortIDsReachTheChat(t *testing.T) {
	f := newFixture(t)
	say := func(text string) string {
		b, _ := json.Marshal(map[string]string{"type": "text", "text": text})
		return postback(`"postback"`, `"message"`, `"type":"postback"`, `"type":"message"`, `{"data":"action=approve&id=`+request+`"}`, string(b))
	}
	f.wantStatus(f.lineEvents(say("approve 4c0001"), say("freeze treasury-bot pays twice")), 200)
	f.wantTaps(2)
	if got := f.gate.taps[0]; got.Intent != chat.IntentApprove || got.Typed != "4C0001" || got.RequestID != "" {
		t.Errorf("an id's end came as %+v", got)
	}
	if got := f.gate.taps[1]; got.Intent != chat.IntentFreeze || got.Name != "treasury-bot" || got.Reason != "pays twice" {
		t.Errorf("a freeze came as %+v", got)
	}
}

// A dialog says yes or no of a request, and nothing else.
func TestADialogOnlyDecides(t *testing.T) {
	for _, intent := range []chat.Intent{chat.IntentConfirm, chat.IntentFreeze, chat.IntentExtend, chat.IntentBack} {
		f := newFixture(t)
		f.slackWith(func(o *Options) { o.Dialogs = &fakeDialogs{} })
		f.slackButton(func(p map[string]any) {
			p["type"], p["view"] = "view_submission", map[string]any{"id": "V1",
				"Asked": Submission{Intent: intent, RequestID: request}}
			delete(p, "actions")
		})
		f.wantTaps(0)
	}
}
