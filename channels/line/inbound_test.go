package line

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/chat"
	"countersign/webhook"
	"countersign/webhook/webhooktest"
)

const (
	botID   = "U0123456789abcdef0123456789abcdef"
	request = webhooktest.Request
)

var now = webhooktest.Now

// signingSecret is made at run time so that no fixture looks like a real one.
var signingSecret = strings.Repeat("test-only-", 3)

// fixture is LINE's way in.
type fixture struct {
	*webhooktest.World
	line *inbound
	bot  string
	told chan struct{} // nil: what LINE says of us is waited for by nobody
}

func newFixture(t *testing.T) *fixture {
	people := auth.NewDirectory(nil,
		[]auth.Person{{Name: "hana", Approver: true, Addresses: map[string]string{Name: hana}}})
	f := &fixture{World: webhooktest.New(t, people), bot: botID}
	f.line = &inbound{Inbound: webhook.NewInbound(Name, f.Options()), bot: f.botNow,
		secrets: func() []string { return []string{"an-older-secret-on-its-way-out", signingSecret} }}
	return f
}

func (f *fixture) botNow(ctx context.Context) string {
	if f.told != nil {
		select {
		case <-f.told:
		case <-ctx.Done():
		}
	}
	return f.bot
}

func sign(key string, body []byte) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write(body)
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func (f *fixture) post(body, signature string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/webhook/line", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if signature != "" {
		r.Header.Set("x-line-signature", signature)
	}
	w := httptest.NewRecorder()
	f.line.ServeHTTP(w, r)
	return w
}

func (f *fixture) events(events ...string) *httptest.ResponseRecorder {
	body := `{"destination":"` + botID + `","events":[` + strings.Join(events, ",") + `]}`
	return f.post(body, sign(signingSecret, []byte(body)))
}

func postback(change ...string) string {
	e := `{"type":"postback","mode":"active","timestamp":` + strconv.FormatInt(now.UnixMilli(), 10) + `,
		"webhookEventId":"01KAFJ0Q8R6ZC4V1M2N3P4Q5R6","deliveryContext":{"isRedelivery":false},
		"source":{"type":"user","userId":"` + hana + `"},"replyToken":"0f3779fb",
		"postback":{"data":"action=approve&id=` + request + `"}}`
	return strings.NewReplacer(change...).Replace(e)
}

// The vector is that of LINE's documentation.
func TestSignaturesAreLINEs(t *testing.T) {
	body := []byte(`{"destination":"U8e742f61d673b39c7fff3cecb7536ef0","events":[]}`)
	l := inbound{secrets: func() []string { return []string{"8c570fa6dd201bb328f1c1eac23a96d8"} }}
	if !l.isSigned(http.Header{headerSignature: {"GhRKmvmHys4Pi8DxkF4+EayaH0OqtJtaZxgTD9fMDLs="}}, body) {
		t.Error("LINE's own example is refused")
	}
}

func TestLINEPostbackBecomesATap(t *testing.T) {
	f := newFixture(t)
	f.WantStatus(f.events(postback()), 200)
	f.WantInteractions(1)
	want := chat.Interaction{EventID: "line:01KAFJ0Q8R6ZC4V1M2N3P4Q5R6", Channel: "line",
		By:   approval.Actor{Kind: approval.Human, Name: "hana", Approver: true},
		From: hana, ReplyTo: "0f3779fb", Intent: chat.IntentApprove, RequestID: request, At: now, OneReply: true,
		AsksWhy: true}
	if got := f.Chat.Interactions[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLINEWordsBecomeATap(t *testing.T) {
	f := newFixture(t)
	message := func(text, quoted string) string {
		b, _ := json.Marshal(map[string]string{"type": "text", "text": text, "quotedMessageId": quoted})
		return postback(`"postback"`, `"message"`, `"type":"postback"`, `"type":"message"`,
			`{"data":"action=approve&id=`+request+`"}`, string(b))
	}
	f.WantStatus(f.events(message("deny "+strings.ToLower(request)+" wrong account", ""), message("yes", ""),
		message("no: not today", "5901"), message("hello", "")), 200)
	f.WantInteractions(4)
	for i, want := range []chat.Interaction{
		{Intent: chat.IntentDeny, RequestID: request, Reason: "wrong account"},
		{Intent: chat.IntentApprove},
		{Intent: chat.IntentDeny, QuotedID: "5901", Reason: "not today"},
		{Intent: chat.IntentOther},
	} {
		got := f.Chat.Interactions[i]
		if got.Intent != want.Intent || got.RequestID != want.RequestID || got.Reason != want.Reason ||
			got.QuotedID != want.QuotedID {
			t.Errorf("%d: got %+v, want %+v", i, got, want)
		}
	}
}

func TestLINERefusesWhatIsNotSigned(t *testing.T) {
	f := newFixture(t)
	body := `{"destination":"` + botID + `","events":[` + postback() + `]}`
	good := sign(signingSecret, []byte(body))
	for name, signature := range map[string]string{
		"none": "", "garbage": "AAAA", "other secret": sign("somebody else's secret", []byte(body)),
		"other body": sign(signingSecret, []byte(body+" ")),
		"hex":        "v0=" + good, "cut": good[:len(good)-4],
	} {
		if w := f.post(body, signature); w.Code != 401 || strings.Contains(w.Body.String(), good) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	f.WantNothing()
	if len(f.Chat.Refusals) != 0 {
		t.Errorf("unsigned requests were audited: %q", f.Chat.Refusals)
	}
	if n := strings.Count(f.Log.String(), "level=WARN"); n != 1 || f.Counts["unsigned"] != 6 {
		t.Errorf("%d lines in the log for %d refusals within a minute", n, f.Counts["unsigned"])
	}
	f.Time = f.Time.Add(time.Minute)
	f.post(body, "")
	if !strings.Contains(f.Log.String(), "count=6") || strings.Contains(f.Log.String(), good) {
		t.Errorf("log: %s", f.Log.String())
	}
	f.WantStatus(f.post(body, good), 200)
}

func TestLINEEventsThatDoNotCount(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		event        string
	}{
		{"group", "line: not_one_to_one", postback(`"type":"user"`, `"type":"group","groupId":"C1"`)},
		{"no user", "line: not_one_to_one", postback(`,"userId":"`+hana+`"`, "")},
		{"standby", "hana not_active", postback(`"active"`, `"standby"`)},
		{"no id", "hana no_event_id", postback(`"webhookEventId":"01KAFJ0Q8R6ZC4V1M2N3P4Q5R6",`, "")},
		{"a day old", "hana too_old", postback(strconv.FormatInt(now.UnixMilli(), 10),
			strconv.FormatInt(now.Add(-24*time.Hour).UnixMilli()-1, 10))},
		{"no time", "hana too_old", postback(strconv.FormatInt(now.UnixMilli(), 10), "0")},
		{"foreign button", "hana unknown_button", postback("action=approve", "action=delete")},
		{"doubled key", "hana unknown_button", postback("action=approve", "action=deny&action=approve")},
		{"unknown key", "hana unknown_button", postback("&id="+request, "&id="+request+"&x=1")},
		{"empty key, then once more", "hana unknown_button", postback("action=approve", "action=&action=approve")},
		{"not an event", "line: not_understood", `[1]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.WantStatus(f.events(tt.event),
				map[bool]int{true: 400, false: 200}[strings.HasSuffix(tt.reason, " not_understood")])
			f.WantNothing()
			if len(f.Chat.Refusals) != 1 || f.Chat.Refusals[0] != tt.reason {
				t.Errorf("audited %q, want %q", f.Chat.Refusals, tt.reason)
			}
		})
	}
	t.Run("exactly a day old counts", func(t *testing.T) {
		f := newFixture(t)
		f.events(postback(strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Add(-24*time.Hour).UnixMilli(), 10)))
		f.WantInteractions(1)
	})
	t.Run("other kinds are no news", func(t *testing.T) {
		f := newFixture(t)
		f.WantStatus(f.events(`{"type":"messageEdited","source":null}`,
			`{"type":"join","source":{"type":"group","groupId":"C1"}}`), 200)
		f.WantNothing()
		if len(f.Chat.Refusals) != 0 {
			t.Errorf("audited %q", f.Chat.Refusals)
		}
	})
	t.Run("another bot's", func(t *testing.T) {
		f := newFixture(t)
		f.bot = "Uffffffffffffffffffffffffffffffff"
		f.WantStatus(f.events(postback()), 200)
		f.WantNothing()
		if len(f.Chat.Refusals) != 1 || f.Chat.Refusals[0] != "line: wrong_destination" {
			t.Errorf("audited %q", f.Chat.Refusals)
		}
	})
	t.Run("before we know our bot", func(t *testing.T) {
		f := newFixture(t)
		f.bot = ""
		f.WantStatus(f.events(postback()), 503)
		f.WantNothing()
	})
	t.Run("the Verify button", func(t *testing.T) {
		f := newFixture(t)
		f.bot = ""
		f.WantStatus(f.events(), 200)
	})
	t.Run("a signed body that is no JSON", func(t *testing.T) {
		f := newFixture(t)
		f.WantStatus(f.post("{", sign(signingSecret, []byte("{"))), 400)
	})
}

// Rule 2.7: a press right after a restart was not acted on, and only LINE would have sent it again.
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
				f.told, f.bot = make(chan struct{}), ""
				said := time.AfterFunc(tt.after, func() {
					f.bot = botID
					close(f.told)
				})
				defer said.Stop()
				begin := time.Now()
				f.WantStatus(f.events(postback()), tt.status)
				if took := time.Since(begin); took > tt.atMost {
					t.Errorf("it took %s, more than LINE waits", took)
				}
				f.WantInteractions(tt.taps)
			})
		})
	}
}

func TestALINEStrangerIsTakenUnderTheirOwnID(t *testing.T) {
	f := newFixture(t)
	f.events(postback(hana, "Uffffffffffffffffffffffffffffffff"))
	f.WantInteractions(1)
	if by := f.Chat.Interactions[0].By; by.Kind != approval.Stranger ||
		by.String() != "line:Uffffffffffffffffffffffffffffffff" || by.Approver {
		t.Errorf("%+v", by)
	}
}

func TestRule7_WhatCannotBeStoredIsAskedForAgain(t *testing.T) {
	f := newFixture(t)
	f.Chat.Err = errors.New("disk full")
	f.WantStatus(f.events(postback()), 503)
	f.Chat.Err = nil
	f.Chat.OnInteract = func(ctx context.Context) {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > 1500*time.Millisecond || ctx.Err() != nil {
			t.Errorf("deadline %v, %v", d, ok)
		}
	}
	f.WantStatus(f.events(postback()), 200)
}

func TestSmallTalkOfStrangersIsToldWhatThisIsWithinBounds(t *testing.T) {
	const answersEach = 3
	f := newFixture(t)
	text := func(change ...string) string {
		return strings.NewReplacer(append(change, `"postback":{"data":"action=approve&id=`+request+`"}`,
			`"message":{"type":"text","text":"nice weather"}`, `"type":"postback"`, `"type":"message"`)...).Replace(postback())
	}
	f.WantStatus(f.events(text(hana, "Uffffffffffffffffffffffffffffffff"),
		text(`"type":"user"`, `"type":"group","groupId":"C1"`)), 200)
	f.WantInteractions(1) // what is said in a group is not said to us
	if got := f.Chat.Interactions[0]; got.Intent != chat.IntentHelp || got.By.Kind != approval.Stranger {
		t.Errorf("a stranger's small talk is taken as %q of %v", got.Intent, got.By)
	}
	if len(f.Chat.Refusals) != 0 || f.Counts["ignored"] != 1 {
		t.Errorf("audited %q, counts %v", f.Chat.Refusals, f.Counts)
	}
	for range 10 {
		f.events(text(hana, "Uffffffffffffffffffffffffffffffff"))
	}
	f.WantInteractions(answersEach)
	f.events(text())
	f.WantInteractions(answersEach + 1)
	if got := f.Chat.Interactions[answersEach].Intent; got != chat.IntentOther {
		t.Errorf("hana's small talk is taken as %q", got)
	}
}

func FuzzLINE(f *testing.F) {
	for _, d := range deliveries() {
		f.Add([]byte(d.Body))
		f.Add([]byte(strings.ToUpper(d.Body)))
	}
	f.Add([]byte(`{"destination":"` + botID + `","events":[` + postback() + `]}`))
	f.Add([]byte(`{"events":[{"type":"message","source":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		x := newFixture(t)
		w := x.post(string(body), sign(signingSecret, body))
		if w.Code != 200 && (w.Code != 400 || len(x.Chat.Refusals) == 0) {
			t.Errorf("%d for a signed body, on record %q", w.Code, x.Chat.Refusals)
		}
		if len(x.Chat.Interactions) > 0 &&
			!webhooktest.Spelled(string(body), "destination", "events", "type", "mode", "timestamp", "webhookEventId", "source",
				"userId") {
			t.Errorf("%q decides: %+v", body, x.Chat.Interactions)
		}
		for _, tap := range x.Chat.Interactions {
			if tap.EventID == "line:" || tap.By.Name == "" || tap.From == "" {
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
	f.WantStatus(f.events(kind("follow"), kind("follow", hana, newcomer),
		kind("unfollow", `"replyToken":"0f3779fb"`, `"x":0`)), 200)
	f.WantInteractions(3)
	for i, want := range []chat.Interaction{
		{Intent: chat.IntentFollow, From: hana, ReplyTo: "0f3779fb", By: approval.Actor{Name: "hana"}},
		{Intent: chat.IntentFollow, From: newcomer, ReplyTo: "0f3779fb", By: approval.Actor{Name: "line:" + newcomer}},
		{Intent: chat.IntentUnfollow, From: hana, By: approval.Actor{Name: "hana"}},
	} {
		got := f.Chat.Interactions[i]
		if got.Intent != want.Intent || got.From != want.From || got.ReplyTo != want.ReplyTo || got.By.Name != want.By.Name ||
			got.EventID == "line:" || got.Channel != "line" {
			t.Errorf("%d: %+v", i, got)
		}
	}
	for _, tt := range []struct{ name, event, reason string }{
		{"standby", kind("follow", `"active"`, `"standby"`), "hana not_active"},
		{"old", kind("unfollow", strconv.FormatInt(now.UnixMilli(), 10), "1"), "hana too_old"},
		{"a group", kind("follow", `"type":"user"`, `"type":"group","groupId":"C1"`), "line: not_one_to_one"},
	} {
		f := newFixture(t)
		f.events(tt.event)
		f.WantNothing()
		if len(f.Chat.Refusals) != 1 || f.Chat.Refusals[0] != tt.reason {
			t.Errorf("%s: audited %q", tt.name, f.Chat.Refusals)
		}
	}
}

func TestAllThatWasTypedIsKept(t *testing.T) {
	f := newFixture(t)
	b, _ := json.Marshal(map[string]string{"type": "text", "text": "  it is the wrong account. ",
		"quotedMessageId": "5901"})
	f.events(postback(`"postback"`, `"message"`, `"type":"postback"`, `"type":"message"`,
		`{"data":"action=approve&id=`+request+`"}`, string(b)))
	f.WantInteractions(1)
	if got := f.Chat.Interactions[0]; got.Text != "  it is the wrong account. " || got.QuotedID != "5901" || !got.AsksWhy {
		t.Errorf("%+v", got)
	}
}

func TestSecretsAreReplacedWithoutAGap(t *testing.T) {
	f := newFixture(t)
	body := `{"destination":"` + botID + `","events":[` + postback() + `]}`
	for _, key := range []string{"an-older-secret-on-its-way-out", signingSecret} {
		f.WantStatus(f.post(body, sign(key, []byte(body))), 200)
	}
	f.WantInteractions(2)
	f.line.secrets = func() []string { return nil }
	if f.line.isSigned(http.Header{headerSignature: {sign("", []byte("{}"))}}, []byte("{}")) {
		t.Error("without a secret anything is signed")
	}
}

// A second yes, the way back, an hour more and a freeze come as presses too, each with the one id that it names.
func TestWhatElseButtonsSayBecomesATap(t *testing.T) {
	for _, want := range []chat.Intent{chat.IntentConfirm, chat.IntentBack, chat.IntentExtend, chat.IntentFreeze} {
		f := newFixture(t)
		f.WantStatus(f.events(postback("action=approve", "action="+string(want))), 200)
		f.WantInteractions(1)
		if got := f.Chat.Interactions[0]; got.Intent != want || got.RequestID != request || got.Text != "" {
			t.Errorf("%s came as %+v", want, got)
		}
	}
}

// What is typed of an id's end, of an agent and of a person reaches the chat.
func TestTypedNamesAndShortIDsReachTheChat(t *testing.T) {
	f := newFixture(t)
	say := func(text string) string {
		b, _ := json.Marshal(map[string]string{"type": "text", "text": text})
		return postback(`"postback"`, `"message"`, `"type":"postback"`, `"type":"message"`,
			`{"data":"action=approve&id=`+request+`"}`, string(b))
	}
	f.WantStatus(f.events(say("approve 4c0001"), say("freeze treasury-bot pays twice")), 200)
	f.WantInteractions(2)
	if got := f.Chat.Interactions[0]; got.Intent != chat.IntentApprove || got.Typed != "4C0001" || got.RequestID != "" {
		t.Errorf("an id's end came as %+v", got)
	}
	if got := f.Chat.Interactions[1]; got.Intent != chat.IntentFreeze || got.Name != "treasury-bot" ||
		got.Reason != "pays twice" {
		t.Errorf("a freeze came as %+v", got)
	}
}

// Rule 2.12: who sends is a stranger until their signature holds, and what the headers say decides whether
// anything of theirs is read.
func TestRule12_HeadersAreJudgedBeforeTheBody(t *testing.T) {
	good := http.Header{"X-Line-Signature": {sign(signingSecret, nil)}, "Content-Type": {"application/json"}}
	for _, tt := range []struct {
		name   string
		set    http.Header // nil values: the header is taken away
		length int64
		status int
		count  string
	}{
		{"no signature", http.Header{"X-Line-Signature": nil}, 9, 401, "unsigned"},
		{"an empty signature", http.Header{"X-Line-Signature": {""}}, 9, 401, "unsigned"},
		{"no base64", http.Header{"X-Line-Signature": {strings.Repeat("*", 44)}}, 9, 401, "unsigned"},
		{"too short", http.Header{"X-Line-Signature": {"AAAA"}}, 9, 401, "unsigned"},
		{"two signatures", http.Header{"X-Line-Signature": {good.Get("X-Line-Signature"), "AAAA"}}, 9, 401, "unsigned"},
		{"another kind of body", http.Header{"Content-Type": {"text/plain"}}, 9, 415, "unsupported"},
		{"a form", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 9, 415, "unsupported"},
		{"no kind of body", http.Header{"Content-Type": nil}, 9, 415, "unsupported"},
		{"a compressed body", http.Header{"Content-Encoding": {"gzip"}}, 9, 415, "unsupported"},
		{"a long body", nil, webhook.MaxBody + 1, 413, "too_large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			r := httptest.NewRequest(http.MethodPost, "/webhook/line", webhooktest.Never{T: t})
			r.Header, r.ContentLength = good.Clone(), tt.length
			for name, values := range tt.set {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			f.line.ServeHTTP(w, r)
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
	f.line.Signed = func(*http.Request) { known++ }
	body := `{"destination":"` + botID + `","events":[]}`
	f.post(body, "")
	f.post(body, sign("somebody else's secret", []byte(body)))
	if known != 0 {
		t.Errorf("%d strangers are known", known)
	}
	f.WantStatus(f.post(body, sign(signingSecret, []byte(body))), 200)
	if known != 1 {
		t.Errorf("%d are known, want 1", known)
	}
}

// deliveries are whole ones, with all that LINE's documents say is in them.
func deliveries() []webhooktest.Delivery {
	line := func(event string) string {
		return `{"destination":"` + botID + `","events":[{"mode":"active","timestamp":` +
			strconv.FormatInt(now.UnixMilli(), 10) + `,"source":{"type":"user","userId":"` + hana +
			`"},"webhookEventId":"01KAFJ0Q8R6ZC4V1M2N3P4Q5R6","deliveryContext":{"isRedelivery":false},` +
			`"replyToken":"0f3779fb",` +
			event + `}]}`
	}
	return []webhooktest.Delivery{
		{Name: "a button", Body: line(`"type":"postback","postback":{"data":"action=approve&id=` + request + `"}`),
			Post: postSigned},
		{Name: "words",
			Body: line(`"type":"message","message":{"id":"5900","type":"text","quoteToken":"q3Plxr4AgKd","text":"approve",` +
				`"quotedMessageId":"5901"}`),
			Post: postSigned},
		{Name: "a follow", Body: line(`"type":"follow","follow":{"isUnblocked":true}`), Post: postSigned},
	}
}

func postSigned(t *testing.T, body string) (*webhooktest.World, *httptest.ResponseRecorder) {
	f := newFixture(t)
	return f.World, f.post(body, sign(signingSecret, []byte(body)))
}

func TestRule8_TheRecordedBodiesDecide(t *testing.T) {
	for _, d := range deliveries() {
		if taps, status, refused := d.Decide(t, d.Body); len(taps) != 1 || status != 200 || len(refused) != 0 {
			t.Errorf("%s: %d taps, %d, %q", d.Name, len(taps), status, refused)
		}
	}
}

func TestRule8_NoSpellingOfAKeyMakesAnotherDecision(t *testing.T) {
	webhooktest.CheckSpellings(t, deliveries())
}

// What is signed and cannot be read, or could be read in two ways, is answered 400, on record, and decides nothing.
func TestRule8_AmbiguousBodiesAreRefused(t *testing.T) {
	button := deliveries()[0]
	for what, change := range map[string][2]string{
		"a name in another case":     {`"userId"`, `"UserID"`},
		"a name twice":               {`"userId":`, `"userId":"` + hana + `","userId":`},
		"a name twice, in two cases": {`"data":`, `"Data":"action=deny&id=` + request + `","data":`},
		"events in another case":     {`"events"`, `"Events"`},
		"events twice":               {`"events":`, `"events":[],"events":`},
		"not UTF-8":                  {"0f3779fb", "0f\xff79fb"},
		"a lone surrogate":           {"0f3779fb", `0f\ud800`},
		"an unknown name twice":      {`"isRedelivery":`, `"isRedelivery":1,"isRedelivery":`},
	} {
		if !strings.Contains(button.Body, change[0]) {
			t.Fatalf("there is no %s", change[0])
		}
		checkAmbiguous(t, what, strings.Replace(button.Body, change[0], change[1], 1))
	}
	checkAmbiguous(t, "something after it", button.Body+"{}")
	checkAmbiguous(t, "no JSON", "{")
}

func checkAmbiguous(t *testing.T, what, body string) {
	t.Helper()
	w, r := postSigned(t, body)
	if len(w.Chat.Interactions) != 0 || r.Code != 400 {
		t.Errorf("%s: %d taps, answered %d", what, len(w.Chat.Interactions), r.Code)
	}
	w.WantRefusals("line: not_understood")
}

// An event that cannot be read takes none of the others along.
func TestRule7_AnUnreadableEventLosesNoOther(t *testing.T) {
	f := newFixture(t)
	f.WantStatus(f.events(`{"type":"postback","Type":"x"}`, postback()), 400)
	f.WantInteractions(1)
	if len(f.Chat.Refusals) != 1 || f.Counts["refused"] != 1 {
		t.Errorf("on record %q, counted %v", f.Chat.Refusals, f.Counts)
	}
	f.Chat.Err = errors.New("disk full")
	f.WantStatus(f.events(`{"Type":"x"}`), 503) // what cannot be put on record is to be delivered again
}
