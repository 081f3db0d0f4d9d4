package emulator_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/internal/emulator"
)

// setAnswer is what the webhook answers from now on.
func (w *world) setAnswer(body string) {
	w.handle(func(rw http.ResponseWriter, _ hooked) { _, _ = rw.Write([]byte(body)) })
}

func (w *world) handle(f func(http.ResponseWriter, hooked)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

func (w *world) last() hooked {
	w.t.Helper()
	all := w.hooked()
	if len(all) == 0 {
		w.t.Fatal("no webhook arrived")
	}
	return all[len(all)-1]
}

// lastPayload is the last interaction that the webhook got.
func (w *world) lastPayload() map[string]any {
	w.t.Helper()
	form, err := url.ParseQuery(string(w.last().body))
	if err != nil {
		w.t.Fatal(err)
	}
	var p map[string]any
	if err := json.Unmarshal([]byte(form.Get("payload")), &p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// lastEvents is the events of the last LINE webhook.
func (w *world) lastEvents() []map[string]any {
	w.t.Helper()
	var body struct{ Events []map[string]any }
	if err := json.Unmarshal(w.last().body, &body); err != nil {
		w.t.Fatal(err)
	}
	return body.Events
}

func TestSignaturesAreThePlatforms(t *testing.T) {
	t.Parallel()
	line := emulator.SignLINE("8c570fa6dd201bb328f1c1eac23a96d8",
		[]byte(`{"destination":"U8e742f61d673b39c7fff3cecb7536ef0","events":[]}`))
	if want := "GhRKmvmHys4Pi8DxkF4+EayaH0OqtJtaZxgTD9fMDLs="; line != want {
		t.Errorf("LINE: %s, want %s", line, want)
	}
	body := "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	slack := emulator.SignSlack("8f742231b10e8888abcd99yyyzzz85a5", "1531420618", []byte(body))
	if want := "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"; slack != want {
		t.Errorf("Slack: %s, want %s", slack, want)
	}
}

func TestLINEEventsHaveTheDocumentedShape(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(lineCard, nil)
	card := w.LINE.Chat("hana")[0]
	if _, err := w.LINE.Type(w.ctx(), "hana", "deny: wrong account", card.ID); err != nil {
		t.Fatal(err)
	}
	e := w.lastEvents()[0]
	message := e["message"].(map[string]any)
	if e["type"] != "message" || message["text"] != "deny: wrong account" || message["quotedMessageId"] != card.ID ||
		message["quoteToken"] == "" {
		t.Errorf("event: %v", e)
	}
	if encode(t, e["source"]) != `{"type":"user","userId":"`+hanaLINE+`"}` || e["mode"] != "active" ||
		encode(t, e["deliveryContext"]) != `{"isRedelivery":false}` {
		t.Errorf("event: %v", e)
	}
	if at := int64(e["timestamp"].(float64)); at != w.clock.Now().UnixMilli() {
		t.Errorf("timestamp %d", at)
	}
	if id := e["webhookEventId"].(string); len(id) != 26 || len(e["replyToken"].(string)) != 32 {
		t.Errorf("event: %v", e)
	}
	if _, err := w.LINE.Unfollow(w.ctx(), "hana"); err != nil {
		t.Fatal(err)
	}
	if e := w.lastEvents()[0]; e["type"] != "unfollow" || e["replyToken"] != nil {
		t.Errorf("unfollow: %v", e)
	}
	if _, err := w.LINE.Follow(w.ctx(), "hana"); err != nil {
		t.Fatal(err)
	}
	if e := w.lastEvents()[0]; e["type"] != "follow" || e["replyToken"] == nil ||
		encode(t, e["follow"]) != `{"isUnblocked":true}` {
		t.Errorf("follow: %v", e)
	}
}

func TestLINETapsFindTheirButton(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(lineCard, nil)
	card := w.LINE.Chat("hana")[0].ID
	w.push(strings.ReplaceAll(lineCard, "id=01", "id=02"), nil)
	tap := func(message, button string) string {
		t.Helper()
		if _, err := w.LINE.Tap(w.ctx(), "hana", message, button); err != nil {
			t.Fatal(err)
		}
		return w.lastEvents()[0]["postback"].(map[string]any)["data"].(string)
	}
	if got := tap("", "Deny"); got != "action=deny&id=02" {
		t.Errorf("the newest card: %s", got)
	}
	if got := tap(card, "Approve"); got != "action=approve&id=01" {
		t.Errorf("the old card: %s", got)
	}
	if got := tap("", "action=approve&id=01"); got != "action=approve&id=01" {
		t.Errorf("by data: %s", got)
	}
	if _, err := w.LINE.Tap(w.ctx(), "hana", "", "Explode"); err == nil {
		t.Error("a button that is not there was pressed")
	}
	if _, err := w.LINE.Tap(w.ctx(), "ben", "", "Approve"); err == nil {
		t.Error("ben has no card")
	}
	quick := `{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Wrong","text":"wrong account"}}]}}`
	w.push(quick, nil)
	if _, err := w.LINE.Tap(w.ctx(), "hana", "", "Wrong"); err != nil {
		t.Fatal(err)
	}
	if e := w.lastEvents()[0]; e["type"] != "message" {
		t.Errorf("event: %v", e)
	}
	if _, err := w.LINE.Tap(w.ctx(), "hana", "", "Wrong"); err == nil {
		t.Error("a quick reply outlived its use")
	}
}

func TestLINEEventsCanBeForgedAndReplayed(t *testing.T) {
	t.Parallel()
	w := start(t)
	event, err := w.LINE.PostbackEvent("hana", "action=approve&id=01")
	if err != nil {
		t.Fatal(err)
	}
	secret := w.Config().LINE.ChannelSecret
	none, bad := "", "AAAA"
	for _, c := range []struct {
		name  string
		post  emulator.LINEPost
		check func(h hooked) bool
	}{
		{"as it is", emulator.LINEPost{Events: []emulator.Object{event}}, func(h hooked) bool {
			return h.header.Get("X-Line-Signature") == emulator.SignLINE(secret, h.body) && strings.Contains(string(h.body),
				w.Config().LINE.BotUserID)
		}},
		{"another secret", emulator.LINEPost{Events: []emulator.Object{event}, Secret: "other"}, func(h hooked) bool {
			return h.header.Get("X-Line-Signature") == emulator.SignLINE("other", h.body)
		}},
		{"a signature", emulator.LINEPost{Events: []emulator.Object{event}, Signature: &bad}, func(h hooked) bool {
			return h.header.Get("X-Line-Signature") == bad
		}},
		{"no signature", emulator.LINEPost{Events: []emulator.Object{event}, Signature: &none}, func(h hooked) bool {
			return h.header.Values("X-Line-Signature") == nil
		}},
		{"another destination", emulator.LINEPost{Events: []emulator.Object{event}, Destination: "Uother"},
			func(h hooked) bool {
				return strings.Contains(string(h.body), `"destination":"Uother"`)
			}},
		{"a group", emulator.LINEPost{Events: []emulator.Object{event.With("source", emulator.Object{"type": "group",
			"groupId": "C1"})}}, func(h hooked) bool {
			return strings.Contains(string(h.body), `"source":{"groupId":"C1","type":"group"}`)
		}},
		{"standby, without a token",
			emulator.LINEPost{Events: []emulator.Object{event.With("mode", "standby").With("replyToken", emulator.Absent)}},
			func(h hooked) bool {
				return strings.Contains(string(h.body), `"mode":"standby"`) && !strings.Contains(string(h.body), "replyToken")
			}},
		{"any body", emulator.LINEPost{Body: []byte("nonsense")}, func(h hooked) bool {
			return string(h.body) == "nonsense"
		}},
		{"no events", emulator.LINEPost{}, func(h hooked) bool { return strings.Contains(string(h.body), `"events":[]`) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := w.LINE.Post(w.ctx(), c.post); err != nil {
				t.Fatal(err)
			}
			if h := w.last(); !c.check(h) {
				t.Errorf("header %v, body %s", h.header, h.body)
			}
		})
	}
	d, err := w.LINE.Post(w.ctx(), emulator.LINEPost{Events: []emulator.Object{event}})
	if err != nil {
		t.Fatal(err)
	}
	first := w.last()
	if _, err := w.Resend(w.ctx(), d); err != nil {
		t.Fatal(err)
	}
	if again := w.last(); string(again.body) != string(first.body) ||
		again.header.Get("X-Line-Signature") != first.header.Get("X-Line-Signature") {
		t.Error("a replay must be the same bytes")
	}
	if event["mode"] != "active" {
		t.Error("With changed the original")
	}
}

func TestLINERedelivers(t *testing.T) {
	t.Parallel()
	w := start(t)
	tries := 0
	w.handle(func(rw http.ResponseWriter, _ hooked) {
		if tries++; tries < 3 {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	d, err := w.LINE.Type(w.ctx(), "hana", "hello", "")
	if err != nil || d.Status != 503 || len(w.hooked()) != 1 {
		t.Fatalf("off by default: %+v %v", d, err)
	}
	tries = 0
	w.LINE.SetRedelivery(5, 0)
	d, err = w.LINE.Type(w.ctx(), "hana", "hello", "")
	if err != nil || d.Status != 200 || len(d.Earlier) != 2 {
		t.Fatalf("%+v %v", d, err)
	}
	first, last := object(t, string(d.Earlier[0].Sent)), object(t, string(d.Sent))
	a, b := first["events"].([]any)[0].(map[string]any), last["events"].([]any)[0].(map[string]any)
	if a["webhookEventId"] != b["webhookEventId"] || a["timestamp"] != b["timestamp"] ||
		a["replyToken"] != b["replyToken"] {
		t.Errorf("a redelivered event must be the same: %v, %v", a, b)
	}
	if encode(t, a["deliveryContext"]) != `{"isRedelivery":false}` ||
		encode(t, b["deliveryContext"]) != `{"isRedelivery":true}` {
		t.Errorf("%v, %v", a["deliveryContext"], b["deliveryContext"])
	}
}

func TestLINEWebhookEndpoint(t *testing.T) {
	t.Parallel()
	w := start(t)
	if r := w.line("GET", "/v2/bot/channel/webhook/endpoint", "", nil); r.status != 200 || r.json(t)["active"] != true {
		t.Errorf("get: %d %s", r.status, r.body)
	}
	if r := w.line("POST", "/v2/bot/channel/webhook/test", `{}`, nil); r.json(t)["success"] != true ||
		!strings.Contains(string(w.last().body), `"events":[]`) {
		t.Errorf("test: %s", r.body)
	}
	w.handle(func(rw http.ResponseWriter, _ hooked) { rw.WriteHeader(401) })
	if r := w.line("POST", "/v2/bot/channel/webhook/test", `{}`, nil); r.json(t)["reason"] != "ERROR_STATUS_CODE" ||
		r.json(t)["statusCode"] != 401.0 {
		t.Errorf("test: %s", r.body)
	}
	if r := w.line("PUT", "/v2/bot/channel/webhook/endpoint", `{"endpoint":"https://127.0.0.1:1/nobody"}`,
		nil); r.status != 200 {
		t.Errorf("put: %d %s", r.status, r.body)
	}
	if r := w.line("POST", "/v2/bot/channel/webhook/test", `{}`, nil); r.json(t)["success"] != false ||
		r.json(t)["reason"] != "COULD_NOT_CONNECT" {
		t.Errorf("test: %s", r.body)
	}
}

func TestWebhooksTimeOut(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := start(t, func(c *emulator.Config) {
		c.LINE.WebhookTimeout, c.Slack.WebhookTimeout = 20*time.Millisecond, 20*time.Millisecond
	})
	defer close(release)
	w.handle(func(http.ResponseWriter, hooked) { <-release })
	if d, err := w.LINE.Type(w.ctx(), "hana", "hello", ""); err == nil || d.Status != 0 {
		t.Errorf("LINE: %+v, want a time-out", d)
	}
	if d, err := w.Slack.Type(w.ctx(), "hana", "hello", ""); err == nil || d.Status != 0 {
		t.Errorf("Slack: %+v, want a time-out", d)
	}
}

func TestSlackPayloadsHaveTheDocumentedShape(t *testing.T) {
	t.Parallel()
	w := start(t)
	ts := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"Approve?"},
		"blocks": {slackCard}})["ts"].(string)
	if _, err := w.Slack.Tap(w.ctx(), "hana", "approvals", ts, "approve", "01"); err != nil {
		t.Fatal(err)
	}
	p := w.lastPayload()
	cfg := w.Config().Slack
	for path, want := range map[string]string{
		"type": `"block_actions"`, "api_app_id": `"` + cfg.AppID + `"`, "team": `{"domain":"sandbox","id":"` + cfg.TeamID +
			`"}`, "enterprise": "null",
		"user":      `{"id":"U02HANA","name":"hana","team_id":"` + cfg.TeamID + `","username":"hana"}`,
		"container": `{"channel_id":"C0APPROVALS","is_ephemeral":false,"message_ts":"` + ts + `","type":"message"}`,
		"channel":   `{"id":"C0APPROVALS","name":"approvals"}`, "state": `{"values":{}}`,
	} {
		if got := encode(t, p[path]); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	action := p["actions"].([]any)[0].(map[string]any)
	if action["action_id"] != "approve" || action["block_id"] != "decide:1" || action["value"] != "01" ||
		action["type"] != "button" || action["action_ts"] == "" {
		t.Errorf("action: %v", action)
	}
	if !strings.HasPrefix(p["response_url"].(string), w.URL()+"/slack/hooks/") || strings.Count(p["trigger_id"].(string),
		".") != 2 {
		t.Errorf("response_url %v, trigger_id %v", p["response_url"], p["trigger_id"])
	}
	if m := p["message"].(map[string]any); m["ts"] != ts || m["bot_id"] != cfg.BotID || len(m["blocks"].([]any)) != 3 {
		t.Errorf("message: %v", m)
	}

	if _, err := w.Slack.Type(w.ctx(), "hana", "approve <b> & co", ""); err != nil {
		t.Fatal(err)
	}
	envelope := object(t, string(w.last().body))
	event := envelope["event"].(map[string]any)
	if envelope["type"] != "event_callback" || envelope["team_id"] != cfg.TeamID ||
		!strings.HasPrefix(envelope["event_id"].(string), "Ev") {
		t.Errorf("envelope: %v", envelope)
	}
	if event["type"] != "message" || event["channel_type"] != "im" || event["user"] != "U02HANA" ||
		event["channel"] != w.Slack.DM("hana") || event["text"] != "approve &lt;b&gt; &amp; co" || event["bot_id"] != nil {
		t.Errorf("event: %v", event)
	}

	w.setAnswer("Nothing is waiting.")
	if _, err := w.Slack.Slash(w.ctx(), "hana", "approvals", "/countersign", "pending"); err != nil {
		t.Fatal(err)
	}
	form, _ := url.ParseQuery(string(w.last().body))
	if form.Get("command") != "/countersign" || form.Get("text") != "pending" || form.Get("user_id") != "U02HANA" ||
		form.Get("trigger_id") == "" || form.Get("response_url") == "" {
		t.Errorf("form: %v", form)
	}
	all := w.Slack.Messages("approvals")
	if m := all[len(all)-1]; m.Text != "Nothing is waiting." || m.Ephemeral != "U02HANA" {
		t.Errorf("the answer: %+v", m)
	}
	w.setAnswer("challenge-1")
	if d, err := w.Slack.VerifyURL(w.ctx(), "challenge-1"); err != nil || string(d.Body) != "challenge-1" {
		t.Errorf("%+v %v", d, err)
	}
}

func TestSlackRequestsCanBeForged(t *testing.T) {
	t.Parallel()
	w := start(t)
	payload, err := w.Slack.BlockActions("hana", "approvals", "1.000001", "approve", "01")
	if err != nil {
		t.Fatal(err)
	}
	none := ""
	old := w.clock.Now().Add(-10 * time.Minute)
	post := func(p emulator.SlackPost) hooked {
		t.Helper()
		if _, err := w.Slack.Post(w.ctx(), p); err != nil {
			t.Fatal(err)
		}
		return w.last()
	}
	if h := post(emulator.SlackPost{Payload: payload, Timestamp: old}); h.header.Get(
		"X-Slack-Signature") != emulator.SignSlack(w.Config().Slack.SigningSecret, "1795257000", h.body) {
		t.Errorf("stale but signed: %v", h.header)
	}
	if h := post(emulator.SlackPost{Payload: payload, Signature: &none}); h.header.Get("X-Slack-Signature")+
		h.header.Get("X-Slack-Request-Timestamp") != "" {
		t.Errorf("unsigned: %v", h.header)
	}
	if h := post(emulator.SlackPost{Payload: payload, Secret: "other"}); h.header.Get(
		"X-Slack-Signature") != emulator.SignSlack("other", h.header.Get("X-Slack-Request-Timestamp"), h.body) {
		t.Errorf("forged: %v", h.header)
	}
	post(emulator.SlackPost{Payload: payload.With("team.id", "T0OTHER").With("actions.0.value", "02").With("api_app_id",
		"A0OTHER")})
	p := w.lastPayload()
	if p["team"].(map[string]any)["id"] != "T0OTHER" || p["api_app_id"] != "A0OTHER" ||
		p["actions"].([]any)[0].(map[string]any)["value"] != "02" {
		t.Errorf("altered: %v", p)
	}
	if payload["team"].(emulator.Object)["id"] != w.Config().Slack.TeamID {
		t.Error("With changed the original")
	}
}

func TestSlackPeopleSeeOnlyTheirChannels(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) {
		c.Slack.EnterpriseID = "E0GRID"
		c.People = append(c.People, emulator.Person{Name: "eve", Slack: "W0EVE", SlackTeam: "T0OTHER"})
		c.Slack.Channels = []emulator.Channel{{ID: "C0APPROVALS", Name: "approvals", Members: []string{"hana", "W0EVE"}}}
	})
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
	w.slack("chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U02HANA"}, "text": {"a"},
		"blocks": {strings.ReplaceAll(slackCard, `"approve"`, `"secret"`)}})
	if _, err := w.Slack.Tap(w.ctx(), "ben", "approvals", "", "approve", ""); err == nil {
		t.Error("ben is not in the channel")
	}
	if _, err := w.Slack.Tap(w.ctx(), "eve", "approvals", "", "secret", ""); err == nil {
		t.Error("eve pressed a button that only hana sees")
	}
	if _, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "secret", ""); err != nil {
		t.Error(err)
	}
	if _, err := w.Slack.Tap(w.ctx(), "eve", "approvals", "", "approve", ""); err != nil {
		t.Fatal(err)
	}
	p := w.lastPayload()
	if p["team"] != nil || p["enterprise"].(map[string]any)["id"] != "E0GRID" ||
		p["user"].(map[string]any)["team_id"] != "T0OTHER" {
		t.Errorf("payload: %v", p)
	}
}

func TestSlackRepeatsEvents(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Slack.SetRetries(0, 0, 0)
	tries := 0
	w.handle(func(rw http.ResponseWriter, _ hooked) {
		if tries++; tries < 3 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	d, err := w.Slack.Type(w.ctx(), "hana", "hello", "")
	if err != nil || d.Status != 200 || len(d.Earlier) != 2 {
		t.Fatalf("%+v %v", d, err)
	}
	if h := w.last().header; h.Get("X-Slack-Retry-Num") != "2" || h.Get("X-Slack-Retry-Reason") != "http_error" {
		t.Errorf("header: %v", h)
	}
	tries = 0
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
	if d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "approve", ""); err != nil || d.Status != 500 {
		t.Errorf("interactions are not repeated: %+v %v", d, err)
	}
}

func TestSlackOverflowMenuIsPressed(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"t"}, "blocks": {overflowCard}})
	if _, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "more", "freeze:01"); err != nil {
		t.Fatal(err)
	}
	a := w.lastPayload()["actions"].([]any)[0].(map[string]any)
	option, _ := a["selected_option"].(map[string]any)
	if a["type"] != "overflow" || a["action_id"] != "more" || a["value"] != nil || option["value"] != "freeze:01" {
		t.Errorf("the choice came as %v", a)
	}
	if _, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "more", "deny:01"); err == nil {
		t.Error("an option that is not there was pressed")
	}
}
