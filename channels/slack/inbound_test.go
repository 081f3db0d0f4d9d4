package slack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/channels/kind"
	"countersign/internal/auth"
	"countersign/internal/chat"
	"countersign/internal/secret"
	"countersign/webhook"
	"countersign/webhook/webhooktest"
)

const request = webhooktest.Request

var now = webhooktest.Now

// signingSecret is made at run time so that no fixture looks like a real one.
var signingSecret = strings.Repeat("test-only-", 3)

// fixture is Slack's way in.
type fixture struct {
	*webhooktest.World
	slack   *inbound
	api     *viewsAPI
	waiting waiting

	mu  sync.Mutex
	cfg *Config
	ch  *Channel
}

func newFixture(t *testing.T) *fixture {
	people := auth.NewDirectory(nil,
		[]auth.Person{{Name: "hana", Approver: true, Addresses: map[string]string{Name: "U02HANA"}}})
	f := &fixture{World: webhooktest.New(t, people), api: &viewsAPI{homes: make(chan shown, 10)}}
	f.cfg = &Config{BotToken: testToken,
		SigningSecret: secret.List{"an-older-secret-on-its-way-out", secret.Value(signingSecret)}, AppID: "A0APPROVE1"}
	f.installed(Identity{TeamID: "T0TEAM0001"})
	f.slack = newInbound(f.Options(), kind.Current{Maker: channelstest.Maker, Requests: &f.waiting,
		Channel: func() (kind.Section, channels.Channel) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.cfg, f.ch
		}})
	t.Cleanup(f.slack.Close)
	return f
}

// configure changes the configuration in force.
func (f *fixture) configure(change func(c *Config)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := *f.cfg
	change(&next)
	f.cfg = &next
}

// installed has Slack say who we are; the zero Identity is that it has not yet.
func (f *fixture) installed(we Identity) {
	f.ch = newChannel(f.T, "http://slack.example.com")
	f.ch.http = &http.Client{Transport: f.api}
	if we != (Identity{}) {
		f.ch.identity.Store(&we)
		f.ch.identify()
	}
}

// viewsAPI is Slack's API as far as views go.
type viewsAPI struct {
	opened []json.RawMessage // the dialogs that were opened
	opens  func(ctx context.Context, trigger string) error
	homes  chan shown
}

// shown is a Home tab.
type shown struct{ user, view string }

// RoundTrip answers as Slack does.
func (a *viewsAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked struct {
		TriggerID string          `json:"trigger_id"`
		UserID    string          `json:"user_id"`
		View      json.RawMessage `json:"view"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	answer := `{"ok":true,"view":{"id":"V0VIEW0001"}}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/views.publish"):
		if _, ok := r.Context().Deadline(); !ok {
			return nil, errors.New("not bounded")
		}
		select {
		case a.homes <- shown{asked.UserID, string(asked.View)}:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	default:
		a.opened = append(a.opened, asked.View)
		if a.opens == nil {
			break
		}
		if err := a.opens(r.Context(), asked.TriggerID); r.Context().Err() != nil {
			return nil, err
		} else if err != nil {
			answer = `{"ok":false,"error":"` + err.Error() + `"}`
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)),
		Request: r}, nil
}

// waiting are requests that wait.
type waiting struct {
	requests []approval.Request
	err      func() error // nil: there is none
}

func (w *waiting) Requests(context.Context, approval.RequestQuery) ([]approval.Request, error) {
	if w.err != nil {
		return nil, w.err()
	}
	return w.requests, nil
}

func (w *waiting) PendingCount(context.Context) (int, error) { return len(w.requests), nil }

func (*waiting) MayVote(context.Context, string, approval.Actor) (bool, error) { return true, nil }

func (f *fixture) postSlack(contentType, body string, change func(h http.Header)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhook/slack", strings.NewReader(body))
	stamp := strconv.FormatInt(f.Time.Unix(), 10)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-Slack-Request-Timestamp", stamp)
	r.Header.Set("X-Slack-Signature", signature(signingSecret, stamp, []byte(body)))
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

// The vector is that of Slack's documentation.
func TestSignaturesAreSlacks(t *testing.T) {
	got := signature("8f742231b10e8888abcd99yyyzzz85a5", "1531420618",
		[]byte("token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"+
			"channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"+
			"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&"+
			"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"))
	if want := "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Rule 2.7: a press right after a restart was not acted on, and Slack would not have sent it again.
func TestRule7_APressWaitsForThePlatformToSayWhoWeAre(t *testing.T) {
	for _, tt := range []struct {
		name          string
		after, atMost time.Duration
		status, taps  int
	}{
		{"it is said in time", 400 * time.Millisecond, 400 * time.Millisecond, 200, 1},
		{"it is not said", time.Hour, 1100 * time.Millisecond, 503, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				defer f.slack.Close()
				f.installed(Identity{})
				said := time.AfterFunc(tt.after, func() {
					f.ch.identity.Store(&Identity{TeamID: "T0TEAM0001"})
					f.ch.identify()
				})
				defer said.Stop()
				begin := time.Now()
				f.WantStatus(f.slackButton(nil), tt.status)
				if took := time.Since(begin); took > tt.atMost {
					t.Errorf("it took %s, more than Slack waits", took)
				}
				f.WantAsks(tt.taps)
			})
		})
	}
}

func TestRule7_WhatCannotBeStoredIsAskedForAgain(t *testing.T) {
	f := newFixture(t)
	f.Chat.Err = errors.New("disk full")
	f.WantStatus(f.slackButton(nil), 503)
}

func TestABareWordInSlackHasItsTime(t *testing.T) {
	f := newFixture(t)
	f.postSlack("application/json",
		`{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev9",`+
			`"event":{"type":"message","channel_type":"im","user":"U02HANA","text":"no","ts":"1795257600.000100"}}`,
		nil)
	f.WantInteractions(1)
	if got := f.Chat.Interactions[0].At; got.Unix() != 1795257600 {
		t.Errorf("at %v", got)
	}
}

func TestSlackButtonBecomesATap(t *testing.T) {
	f := newFixture(t)
	w := f.slackButton(nil)
	f.WantStatus(w, 200)
	if w.Body.Len() != 0 {
		t.Errorf("body %q", w.Body)
	}
	f.WantAsks(1)
	want := chat.Interaction{EventID: "slack:8123.1234.0a1b:0", Channel: "slack",
		By:   approval.Actor{Kind: approval.Human, Name: "hana", Approver: true},
		From: "U02HANA", ReplyTo: "https://hooks.slack.com/actions/T0TEAM0001/8123/abc", Intent: chat.IntentApprove,
		RequestID: request}
	if got := f.Chat.Asks[0]; !reflect.DeepEqual(got, want) {
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
			h.Set("X-Slack-Signature", signature(signingSecret, stamp, []byte("payload={}")))
		},
		"from the future": func(h http.Header) {
			stamp := strconv.FormatInt(now.Unix()+301, 10)
			h.Set("X-Slack-Request-Timestamp", stamp)
			h.Set("X-Slack-Signature", signature(signingSecret, stamp, []byte("payload={}")))
		},
		"another's secret": func(h http.Header) {
			stamp := strconv.FormatInt(now.Unix(), 10)
			h.Set("X-Slack-Signature", signature("somebody else's", stamp, []byte("payload={}")))
		},
	} {
		if w := f.postSlack(formType, "payload={}", change); w.Code != 401 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	f.WantNothing()
	if len(f.Chat.Refusals) != 0 {
		t.Errorf("audited %q", f.Chat.Refusals)
	}
}

func TestSlackTapsFromElsewhereDoNotCount(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		change       func(p map[string]any)
	}{
		{"another team", "slack:T0TEAM0001/U02HANA wrong_workspace",
			func(p map[string]any) { p["team"] = map[string]any{"id": "T0OTHER"} }},
		{"no team", "slack:T0TEAM0001/U02HANA wrong_workspace", func(p map[string]any) { p["team"] = nil }},
		{"another app", "slack:T0TEAM0001/U02HANA wrong_workspace", func(p map[string]any) { p["api_app_id"] = "A0OTHER" }},
		{"no trigger", "hana no_event_id", func(p map[string]any) { delete(p, "trigger_id") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.WantStatus(f.slackButton(tt.change), 200)
			f.WantNothing()
			if len(f.Chat.Refusals) != 1 || f.Chat.Refusals[0] != tt.reason {
				t.Errorf("audited %q, want %q", f.Chat.Refusals, tt.reason)
			}
		})
	}
	t.Run("a person of another organisation in a shared channel is a stranger", func(t *testing.T) {
		f := newFixture(t)
		f.slackButton(func(p map[string]any) { p["user"] = map[string]any{"id": "U02HANA", "team_id": "T0OTHER"} })
		f.WantAsks(1)
		if by := f.Chat.Asks[0].By; by.Kind != approval.Stranger || by.String() != "slack:T0OTHER/U02HANA" {
			t.Errorf("%+v", by)
		}
	})
	t.Run("an organisation-wide install has no team", func(t *testing.T) {
		f := newFixture(t)
		f.installed(Identity{TeamID: "T0TEAM0001", EnterpriseID: "E0ORG"})
		f.slackButton(func(p map[string]any) {
			p["team"], p["enterprise"] = nil, map[string]any{"id": "E0ORG"}
			p["user"] = map[string]any{"id": "U02HANA", "team_id": "T0SECOND"}
		})
		f.WantAsks(1)
		if by := f.Chat.Asks[0].By; by.Name != "hana" {
			t.Errorf("%+v", by)
		}
	})
	t.Run("before we know our workspace", func(t *testing.T) {
		f := newFixture(t)
		f.installed(Identity{})
		f.WantStatus(f.slackButton(nil), 503)
		f.WantNothing()
	})
	t.Run("a button that decides nothing", func(t *testing.T) {
		f := newFixture(t)
		f.WantStatus(f.slackButton(func(p map[string]any) {
			p["actions"] = []any{map[string]any{"action_id": "open", "value": request},
				map[string]any{"action_id": "deny", "value": "1"}}
		}), 200)
		f.WantNothing()
	})
}

func TestSlackPayloadIsTakenFromTheSignedBodyOnly(t *testing.T) {
	f := newFixture(t)
	r := httptest.NewRequest(http.MethodPost, "/webhook/slack?payload=%7B%22type%22%3A%22block_actions%22%7D",
		strings.NewReader(""))
	stamp := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set("Content-Type", formType)
	r.Header.Set("X-Slack-Request-Timestamp", stamp)
	r.Header.Set("X-Slack-Signature", signature(signingSecret, stamp, nil))
	w := httptest.NewRecorder()
	f.slack.ServeHTTP(w, r)
	f.WantStatus(w, 400)
	f.WantNothing()
	if len(f.Chat.Refusals) != 1 {
		t.Errorf("audited %q", f.Chat.Refusals)
	}
}

func TestSlackEvents(t *testing.T) {
	f := newFixture(t)
	w := f.postSlack("application/json", `{"type":"url_verification","challenge":"3eZbrw1aB"}`, nil)
	if w.Code != 200 || w.Body.String() != "3eZbrw1aB" ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	message := func(more string) string {
		return `{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev1",` +
			`"event":{"type":"message","channel_type":"im","user":"U02HANA","text":"deny ` +
			request + ` 2 &lt; 3","ts":"2.0"` + more + `}}`
	}
	f.WantStatus(f.postSlack("application/json; charset=utf-8", message(""), nil), 200)
	f.WantInteractions(1)
	if got := f.Chat.Interactions[0]; got.EventID != "slack:Ev1" || got.Intent != chat.IntentDeny ||
		got.RequestID != request || got.Reason != "2 < 3" || got.From != "U02HANA" {
		t.Errorf("%+v", got)
	}
	for _, more := range []string{`,"bot_id":"B1"`, `,"subtype":"message_changed"`} {
		f.WantStatus(f.postSlack("application/json", message(more), nil), 200)
	}
	f.WantStatus(f.postSlack("application/json", strings.Replace(message(""), `"im"`, `"channel"`, 1), nil), 200)
	f.WantInteractions(1)
	f.postSlack("application/json", strings.Replace(message(`,"thread_ts":"1.5"`), "deny "+request+" 2 &lt; 3", "yes", 1),
		nil)
	f.WantInteractions(2)
	if got := f.Chat.Interactions[1]; got.QuotedID != "1.5" || got.Intent != chat.IntentApprove {
		t.Errorf("%+v", got)
	}
}

func TestSlashCommandIsTypedWords(t *testing.T) {
	f := newFixture(t)
	form := url.Values{"command": {"/countersign"}, "text": {"approve " + request}, "user_id": {"U02HANA"},
		"team_id":    {"T0TEAM0001"},
		"api_app_id": {"A0APPROVE1"}, "trigger_id": {"1.2.3"}, "response_url": {"https://hooks.slack.com/commands/1"}}
	f.WantStatus(f.postSlack(formType, form.Encode(), nil), 200)
	f.WantInteractions(1)
	if got := f.Chat.Interactions[0]; got.RequestID != request || got.Intent != chat.IntentApprove ||
		got.By.Name != "hana" {
		t.Errorf("%+v", got)
	}
}

func FuzzSlack(f *testing.F) {
	for _, d := range deliveries(f) {
		f.Add(d.Body, "application/json")
		f.Add("payload="+url.QueryEscape(d.Body), formType)
	}
	f.Add("payload=%7B%22type%22%3A%22block_actions%22%7D", formType)
	f.Add(`{"type":"event_callback","event":{"type":"message"}}`, "application/json")
	f.Add(mention("<@U0BOT> deny "+request+" why", ""), "application/json")
	f.Add(homeOpened("home"), "application/json")
	f.Add("payload="+url.QueryEscape(`{"type":"view_submission","api_app_id":"A0APPROVE1","team":{"id":"T0TEAM0001"},`+
		`"user":{"id":"U02HANA"},"view":`+denial(f,
		"x")+`}`), formType)
	f.Add("command=%2Fcountersign&text=deny&team_id=T0TEAM0001&user_id=U02HANA&api_app_id=A0APPROVE1&trigger_id=1",
		formType)
	f.Fuzz(func(t *testing.T, body, kind string) {
		x := newFixture(t)
		w := x.postSlack(kind, body, nil)
		if w.Code != 200 && w.Code != 415 && (w.Code != 400 || len(x.Chat.Refusals) == 0) {
			t.Errorf("%d for a signed body, on record %q", w.Code, x.Chat.Refusals)
		}
		text, err := url.QueryUnescape(body)
		all := slices.Concat(x.Chat.Interactions, x.Chat.Asks)
		if len(all) > 0 && !(err == nil &&
			(webhooktest.Spelled(text, "type", "team", "user", "id", "trigger_id") ||
				webhooktest.Spelled(text, "view", "type", "team", "user", "id")) ||
			webhooktest.Spelled(body, "type", "event", "event_id", "user", "text") ||
			strings.Contains(body, "user_id=") && strings.Contains(body, "trigger_id=")) {
			t.Errorf("%q decides: %+v", body, all)
		}
		for _, tap := range all {
			if tap.EventID == "slack:" || tap.By.Name == "" || tap.From == "" {
				t.Errorf("%+v", tap)
			}
		}
	})
}

func mention(text, more string) string {
	b, _ := json.Marshal(text)
	return `{"type":"event_callback","team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event_id":"Ev7",` +
		`"event":{"type":"app_mention","channel":"C0APPROVALS","user":"U02HANA","team":"T0TEAM0001","text":` +
		string(b) + `,"ts":"1795257600.000100"` + more + `}}`
}

func TestAMentionIsTypedWords(t *testing.T) {
	f := newFixture(t)
	f.installed(Identity{TeamID: "T0TEAM0001", UserID: "U0BOT"})
	for _, tt := range []struct {
		text, more string
		want       chat.Interaction
	}{
		{"<@U0BOT> deny " + request + " 2 &lt; 3", "",
			chat.Interaction{Intent: chat.IntentDeny, RequestID: request, Reason: "2 < 3"}},
		{" <@U0BOT|countersign>: approve " + request, "", chat.Interaction{Intent: chat.IntentApprove, RequestID: request}},
		{"<@U0BOT>, no", `,"thread_ts":"1.5"`, chat.Interaction{Intent: chat.IntentDeny, QuotedID: "1.5"}},
		{"<@U0BOT> ", "", chat.Interaction{Intent: chat.IntentHelp}},
		{"<@U03KEN> approve " + request, "", chat.Interaction{Intent: chat.IntentOther}},
		{"deny " + request + " <@U0BOT>", "",
			chat.Interaction{Intent: chat.IntentDeny, RequestID: request, Reason: "<@U0BOT>"}},
	} {
		f.Chat.Interactions = nil
		f.WantStatus(f.postSlack("application/json", mention(tt.text, tt.more), nil), 200)
		f.WantInteractions(1)
		got := f.Chat.Interactions[0]
		if got.Intent != tt.want.Intent || got.RequestID != tt.want.RequestID || got.Reason != tt.want.Reason ||
			got.QuotedID != tt.want.QuotedID || got.From != "U02HANA" || got.ReplyTo != "" {
			t.Errorf("%q: %+v", tt.text, got)
		}
		if !got.Elsewhere || got.Messages != "https://slack.com/app_redirect?app=A0APPROVE1&team=T0TEAM0001" {
			t.Errorf("%q: direct messages at %q", tt.text, got.Messages)
		}
		if bare := got.RequestID == "" && got.QuotedID == ""; bare == got.At.IsZero() {
			t.Errorf("%q: at %v", tt.text, got.At)
		}
	}
	f.Chat.Interactions = nil
	f.postSlack("application/json", mention("<@U0BOT> deny "+request, `,"edited":{"ts":"2"}`), nil)
	f.postSlack("application/json", mention("<@U0BOT> deny "+request, `,"bot_id":"B1"`), nil)
	f.WantNothing()
}

func TestASlashCommandAloneAsksForHelp(t *testing.T) {
	f := newFixture(t)
	form := url.Values{"command": {"/countersign"}, "text": {" "}, "user_id": {"U02HANA"}, "team_id": {"T0TEAM0001"},
		"api_app_id": {"A0APPROVE1"}, "trigger_id": {"1.2.3"}, "response_url": {"https://hooks.slack.com/commands/1"}}
	f.postSlack(formType, form.Encode(), nil)
	f.WantInteractions(1)
	if got := f.Chat.Interactions[0]; got.Intent != chat.IntentHelp ||
		got.ReplyTo != "https://hooks.slack.com/commands/1" ||
		got.Messages != "https://slack.com/app_redirect?app=A0APPROVE1&team=T0TEAM0001" {
		t.Errorf("%+v", got)
	}
}

func TestOutsidersAreWarnedOfOnceAnHour(t *testing.T) {
	f := newFixture(t)
	outside := func(p map[string]any) { p["user"] = map[string]any{"id": "U02HANA", "team_id": "T0OTHER"} }
	warned := func() int { return strings.Count(f.Log.String(), "people of another organisation") }
	f.slackButton(outside)
	f.slackButton(outside)
	f.postSlack("application/json",
		strings.Replace(mention("deny "+request, ""), `"team":"T0TEAM0001"`, `"team":"T0OTHER"`, 1), nil)
	f.WantAsks(2)
	f.WantInteractions(1)
	for _, tap := range slices.Concat(f.Chat.Asks, f.Chat.Interactions) {
		if tap.By.Kind != approval.Stranger || tap.By.Name != "slack:T0OTHER/U02HANA" {
			t.Errorf("%+v", tap.By)
		}
	}
	if warned() != 1 || !strings.Contains(f.Log.String(), "channels.slack.channel") {
		t.Errorf("log: %s", f.Log.String())
	}
	f.Time = f.Time.Add(time.Hour)
	f.slackButton(outside)
	if warned() != 2 || !strings.Contains(f.Log.String(), "count=3") {
		t.Errorf("log: %s", f.Log.String())
	}
	f.slackButton(nil)
	if warned() != 2 {
		t.Error("our own people are warned of")
	}
}

func TestSecretsAreReplacedWithoutAGap(t *testing.T) {
	f := newFixture(t)
	older, body := "an-older-secret-on-its-way-out", mention("deny "+request, "")
	signed := func(key string) func(http.Header) {
		return func(h http.Header) {
			h.Set(headerSignature, signature(key, h.Get(headerStamp), []byte(body)))
		}
	}
	for _, key := range []string{older, signingSecret} {
		f.WantStatus(f.postSlack("application/json", body, signed(key)), 200)
	}
	f.WantInteractions(2)
	f.configure(func(c *Config) { c.SigningSecret = secret.List{secret.Value(signingSecret)} })
	f.WantStatus(f.postSlack("application/json", body, signed(older)), 401)
	f.WantInteractions(2)
}

// A second yes, the way back, an hour more and a freeze come as presses too, each with the one id that it names.
func TestWhatElseButtonsSayBecomesATap(t *testing.T) {
	for _, want := range []chat.Intent{chat.IntentConfirm, chat.IntentBack, chat.IntentExtend, chat.IntentFreeze} {
		f := newFixture(t)
		f.WantStatus(f.slackButton(func(p map[string]any) {
			p["actions"] = []any{map[string]any{"type": "button", "action_id": want, "value": request}}
			if want == chat.IntentExtend || want == chat.IntentFreeze {
				p["actions"] = []any{map[string]any{"type": "overflow", "action_id": "more",
					"selected_option": map[string]any{"value": string(want) + ":" + request}}}
			}
		}), 200)
		f.WantAsks(1)
		if got := f.Chat.Asks[0]; got.Intent != want || got.RequestID != request || got.Text != "" {
			t.Errorf("%s came as %+v", want, got)
		}
	}
}

// A dialog says yes or no of a request, and nothing else.
func TestADialogOnlyDecides(t *testing.T) {
	for _, intent := range []chat.Intent{chat.IntentConfirm, chat.IntentFreeze, chat.IntentExtend, chat.IntentBack} {
		f := newFixture(t)
		f.submit(strings.Replace(denial(t, "x"), `"callback_id":"deny"`, `"callback_id":"`+string(intent)+`"`, 1), nil)
		f.WantNothing()
	}
}

// Rule 2.12: who sends is a stranger until their signature holds, and what the headers say decides whether
// anything of theirs is read.
func TestRule12_HeadersAreJudgedBeforeTheBody(t *testing.T) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	good := http.Header{headerSignature: {signature(signingSecret, stamp, nil)}, headerStamp: {stamp},
		"Content-Type": {formType}}
	for _, tt := range []struct {
		name   string
		set    http.Header // nil values: the header is taken away
		length int64
		status int
		count  string
	}{
		{"no signature", http.Header{"X-Slack-Signature": nil}, 9, 401, "unsigned"},
		{"another version", http.Header{"X-Slack-Signature": {"v1=" + strings.Repeat("0", 64)}}, 9, 401, "unsigned"},
		{"no hex", http.Header{"X-Slack-Signature": {"v0=" + strings.Repeat("g", 64)}}, 9, 401, "unsigned"},
		{"too short", http.Header{"X-Slack-Signature": {"v0=00"}}, 9, 401, "unsigned"},
		{"no time", http.Header{"X-Slack-Request-Timestamp": nil}, 9, 401, "unsigned"},
		{"two times", http.Header{"X-Slack-Request-Timestamp": {stamp, stamp}}, 9, 401, "unsigned"},
		{"a time that is none", http.Header{"X-Slack-Request-Timestamp": {"now"}}, 9, 401, "unsigned"},
		{"too old", http.Header{"X-Slack-Request-Timestamp": {at(-5*time.Minute - time.Second)}}, 9, 401, "unsigned"},
		{"of the future", http.Header{"X-Slack-Request-Timestamp": {at(5*time.Minute + time.Second)}}, 9, 401, "unsigned"},
		{"another kind of body", http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, 9, 415, "unsupported"},
		{"a long body", nil, webhook.MaxBody + 1, 413, "too_large"},
		{"unsigned and long", http.Header{"X-Slack-Signature": nil}, webhook.MaxBody + 1, 401, "unsigned"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			r := httptest.NewRequest(http.MethodPost, "/webhook/slack", webhooktest.Never{T: t})
			r.Header, r.ContentLength = good.Clone(), tt.length
			for name, values := range tt.set {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			f.slack.ServeHTTP(w, r)
			f.WantStatus(w, tt.status)
			f.WantRefusals()
			if f.Counts[tt.count] != 1 || len(f.Counts) != 1 {
				t.Errorf("counted %v", f.Counts)
			}
		})
	}
}

// Somebody is known when their signature holds, and not before.
func TestASenderIsKnownByTheSignature(t *testing.T) {
	f := newFixture(t)
	known := 0
	f.slack.Signed = func(*http.Request) { known++ }
	f.postSlack("application/json", "{}", func(h http.Header) { h.Set(headerSignature, "v0="+strings.Repeat("0", 64)) })
	if known != 0 {
		t.Errorf("%d strangers are known", known)
	}
	f.WantStatus(f.postSlack("application/json", `{"type":"url_verification","challenge":"c"}`, nil), 200)
	if known != 1 {
		t.Errorf("%d are known, want 1", known)
	}
}
