package slack

import (
	"maps"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"countersign/webhook/webhooktest"
)

func postEvent(t *testing.T, body string) (*webhooktest.World, *httptest.ResponseRecorder) {
	f := newFixture(t)
	return f.World, f.postSlack("application/json", body, nil)
}

func postPayload(t *testing.T, body string) (*webhooktest.World, *httptest.ResponseRecorder) {
	f := newFixture(t)
	return f.World, f.postSlack(formType, "payload="+url.QueryEscape(body), nil)
}

// deliveries are whole ones, with all that Slack's documents say is in them.
func deliveries(t tester) []webhooktest.Delivery {
	from := `"team":{"id":"T0TEAM0001","domain":"example"},"enterprise":null,"api_app_id":"A0APPROVE1","token":"x",` +
		`"is_enterprise_install":false,"user":{"id":"U02HANA","username":"hana","name":"hana","team_id":"T0TEAM0001"},` +
		`"trigger_id":"8123.1234.0a1b"`
	return []webhooktest.Delivery{
		{Name: "a button", Body: `{"type":"block_actions",` + from +
			`,"container":{"type":"message","message_ts":"1795257600.000100","channel_id":"C0APPROVALS",` +
			`"is_ephemeral":false},"channel":{"id":"C0APPROVALS","name":"approvals"},` +
			`"message":{"type":"message","user":"U0BOT","ts":"1795257600.000100","text":"x","team":"T0TEAM0001","blocks":[]},` +
			`"state":{"values":{}},"response_url":"https://hooks.slack.com/actions/1",` +
			`"actions":[{"action_id":"approve","block_id":"b1","text":{"type":"plain_text","text":"Approve","emoji":true},` +
			`"value":"` +
			request + `","style":"primary","type":"button","action_ts":"1795257601.1"}]}`, Post: postPayload},
		{Name: "a dialog", Body: `{"type":"view_submission",` + from + `,"view":` + denial(t, "wrong account") +
			`,"response_urls":[]}`, Post: postPayload},
		{Name: "words",
			Body: `{"token":"x","team_id":"T0TEAM0001","context_team_id":"T0TEAM0001","api_app_id":"A0APPROVE1",` +
				`"event":{"type":"message","channel":"D0HANA","channel_type":"im","user":"U02HANA","text":"approve ` +
				request + `","ts":"1795257600.000100",` +
				`"thread_ts":"1795257500.000100","team":"T0TEAM0001","user_team":"T0TEAM0001","source_team":"T0TEAM0001",` +
				`"event_ts":"1795257600.000100"},"type":"event_callback","event_id":"Ev7","event_time":1795257600,` +
				`"authorizations":[{"enterprise_id":null,"team_id":"T0TEAM0001","user_id":"U0BOT","is_bot":true}]}`,
			Post: postEvent},
		{Name: "a bot's words",
			Body: `{"team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event":{"type":"message","channel_type":"im",` +
				`"user":"U02HANA","bot_id":"B1","text":"approve ` +
				request + `","ts":"1795257600.000100"},"type":"event_callback","event_id":"Ev8"}`, Post: postEvent},
		{Name: "words of another organisation",
			Body: `{"team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event":{"type":"message","channel_type":"im",` +
				`"user":"U02HANA","user_team":"T0OTHER","text":"approve ` +
				request + `","ts":"1795257600.000100"},"type":"event_callback","event_id":"Ev9"}`, Post: postEvent},
	}
}

func TestRule8_TheRecordedBodiesDecide(t *testing.T) {
	for _, d := range deliveries(t) {
		taps, status, refused := d.Decide(t, d.Body)
		if want := !strings.Contains(d.Name, "bot"); (len(taps) == 1) != want || status != 200 || len(refused) != 0 {
			t.Errorf("%s: %d taps, %d, %q", d.Name, len(taps), status, refused)
		}
	}
}

func TestRule8_NoSpellingOfAKeyMakesAnotherDecision(t *testing.T) {
	webhooktest.CheckSpellings(t, deliveries(t))
}

// What is signed and cannot be read, or could be read in two ways, is answered 400, on record, and decides nothing.
func TestRule8_AmbiguousBodiesAreRefused(t *testing.T) {
	all := map[string]webhooktest.Delivery{}
	for _, d := range deliveries(t) {
		all[d.Name] = d
	}
	button, words := all["a button"], all["a bot's words"]
	swap := func(d webhooktest.Delivery, from, to string) webhooktest.Delivery {
		if !strings.Contains(d.Body, from) {
			t.Fatalf("%s has no %s", d.Name, from)
		}
		d.Body = strings.Replace(d.Body, from, to, 1)
		return d
	}
	for what, d := range map[string]webhooktest.Delivery{
		"a value in another case":     swap(button, `"value"`, `"Value"`),
		"actions twice":               swap(button, `"actions":`, `"actions":[],"actions":`),
		"an unknown name twice":       swap(button, `"block_id":`, `"block_id":"b0","block_id":`),
		"not UTF-8":                   swap(button, `"approvals"`, "\"\xff\""),
		"a bot's id in another case":  swap(words, `"bot_id"`, `"Bot_ID"`),
		"a bot's id without its dash": swap(words, `"bot_id"`, `"botid"`),
		"no JSON":                     {Body: "payload", Post: postPayload},
	} {
		taps, status, refused := d.Decide(t, d.Body)
		if len(taps) != 0 || status != 400 || len(refused) != 1 || refused[0] != "slack: not_understood" {
			t.Errorf("%s: %d taps, answered %d, on record %q", what, len(taps), status, refused)
		}
	}
}

// Slack's forms count as their JSON does.
func TestRule8_AmbiguousFormsAreRefused(t *testing.T) {
	payload := ""
	for _, d := range deliveries(t) {
		if d.Name == "a button" {
			payload = url.QueryEscape(d.Body)
		}
	}
	command := url.Values{"command": {"/countersign"}, "text": {"approve " + request}, "user_id": {"U02HANA"},
		"team_id":    {"T0TEAM0001"},
		"api_app_id": {"A0APPROVE1"}, "trigger_id": {"1.2.3"}, "response_url": {"https://hooks.slack.com/commands/1"},
		"channel_name": {"directmessage"}}
	with := func(name string, values ...string) string {
		form := maps.Clone(command)
		form[name] = values
		return form.Encode()
	}
	good := command.Encode()
	for what, body := range map[string]string{
		"two payloads":               "payload=" + payload + "&payload=" + payload,
		"two payloads, one escaped":  "payload=%7B%7D&%70ayload=" + payload,
		"a payload and a command":    good + "&payload=" + payload,
		"a payload in another case":  "Payload=" + payload,
		"a payload in two cases":     "PAYLOAD=%7B%7D&payload=" + payload,
		"two texts":                  with("text", "deny", "approve "+request),
		"two users":                  with("user_id", "U03KEN", "U02HANA"),
		"a user in another case":     good + "&User_ID=U03KEN",
		"an unknown name twice":      good + "&channel_name=x",
		"not UTF-8":                  with("text", "approve "+request+" \xff"),
		"a semicolon":                good + ";text=deny",
		"an escape that ends early":  good + "&x=%2",
		"nothing that is understood": "x=1",
	} {
		f := newFixture(t)
		w := f.postSlack(formType, body, nil)
		if len(f.Chat.Interactions)+len(f.Chat.Asks) != 0 || w.Code != 400 || len(f.Chat.Refusals) != 1 {
			t.Errorf("%s: %d taps, answered %d, on record %q", what, len(f.Chat.Interactions)+len(f.Chat.Asks), w.Code,
				f.Chat.Refusals)
		}
	}
	f := newFixture(t)
	f.WantStatus(f.postSlack(formType, good, nil), 200)
	f.WantInteractions(1)
}
