package webhook

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"countersign/internal/chat"
)

// delivery is a body as the platforms send it, and how it is delivered.
type delivery struct {
	name, body string
	post       func(f *fixture, body string) *httptest.ResponseRecorder
}

func overLINE(f *fixture, body string) *httptest.ResponseRecorder {
	return f.postLINE(body, signLINE(signingSecret, []byte(body)))
}

func overSlack(f *fixture, body string) *httptest.ResponseRecorder {
	return f.postSlack("application/json", body, nil)
}

func asPayload(f *fixture, body string) *httptest.ResponseRecorder {
	return f.postSlack(formType, "payload="+url.QueryEscape(body), nil)
}

// deliveries are whole ones, with all that the platforms' documents say is in them.
func deliveries() []delivery {
	line := func(event string) string {
		return `{"destination":"` + lineBot + `","events":[{"mode":"active","timestamp":` + strconv.FormatInt(now.UnixMilli(), 10) + `,"source":{"type":"user","userId":"` + hanaLINE +
			`"},"webhookEventId":"01KAFJ0Q8R6ZC4V1M2N3P4Q5R6","deliveryContext":{"isRedelivery":false},"replyToken":"0f3779fb",` + event + `}]}`
	}
	from := `"team":{"id":"T0TEAM0001","domain":"example"},"enterprise":null,"api_app_id":"A0APPROVE1","token":"x","is_enterprise_install":false,"user":{"id":"U02HANA","username":"hana","name":"hana","team_id":"T0TEAM0001"},"trigger_id":"8123.1234.0a1b"`
	submitted, _ := json.Marshal(denial("wrong account"))
	return []delivery{
		{"a LINE button", line(`"type":"postback","postback":{"data":"action=approve&id=` + request + `"}`), overLINE},
		{"LINE words", line(`"type":"message","message":{"id":"5900","type":"text","quoteToken":"q3Plxr4AgKd","text":"approve","quotedMessageId":"5901"}`), overLINE},
		{"a LINE follow", line(`"type":"follow","follow":{"isUnblocked":true}`), overLINE},
		{"a Slack button", `{"type":"block_actions",` + from + `,"container":{"type":"message","message_ts":"1795257600.000100","channel_id":"C0APPROVALS","is_ephemeral":false},"channel":{"id":"C0APPROVALS","name":"approvals"},` +
			`"message":{"type":"message","user":"U0BOT","ts":"1795257600.000100","text":"x","team":"T0TEAM0001","blocks":[]},"state":{"values":{}},"response_url":"https://hooks.slack.com/actions/1",` +
			`"actions":[{"action_id":"approve","block_id":"b1","text":{"type":"plain_text","text":"Approve","emoji":true},"value":"` + request + `","style":"primary","type":"button","action_ts":"1795257601.1"}]}`, asPayload},
		{"a Slack dialog", `{"type":"view_submission",` + from + `,"view":{"id":"V0VIEW0001","team_id":"T0TEAM0001","type":"modal","Asked":` + string(submitted) + `},"response_urls":[]}`, asPayload},
		{"Slack words", `{"token":"x","team_id":"T0TEAM0001","context_team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event":{"type":"message","channel":"D0HANA","channel_type":"im","user":"U02HANA","text":"approve ` + request + `","ts":"1795257600.000100",` +
			`"thread_ts":"1795257500.000100","team":"T0TEAM0001","user_team":"T0TEAM0001","source_team":"T0TEAM0001","event_ts":"1795257600.000100"},"type":"event_callback","event_id":"Ev7","event_time":1795257600,"authorizations":[{"enterprise_id":null,"team_id":"T0TEAM0001","user_id":"U0BOT","is_bot":true}]}`, overSlack},
		{"a Slack bot's words", `{"team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event":{"type":"message","channel_type":"im","user":"U02HANA","bot_id":"B1","text":"approve ` + request + `","ts":"1795257600.000100"},"type":"event_callback","event_id":"Ev8"}`, overSlack},
		{"Slack words of another organisation", `{"team_id":"T0TEAM0001","api_app_id":"A0APPROVE1","event":{"type":"message","channel_type":"im","user":"U02HANA","user_team":"T0OTHER","text":"approve ` + request + `","ts":"1795257600.000100"},"type":"event_callback","event_id":"Ev9"}`, overSlack},
	}
}

// decided are the taps that a body leads to, buttons that a dialog may ask about included.
func (d delivery) decided(t *testing.T, body string) (taps []chat.Interaction, status int, refused []string) {
	f, _ := withDialogs(t)
	w := d.post(f, body)
	return append(slices.Clone(f.gate.taps), f.gate.asks...), w.Code, f.gate.refused
}

var aKey = regexp.MustCompile(`"([A-Za-z_]+)":`)

func TestRule8_TheRecordedBodiesDecide(t *testing.T) {
	for _, d := range deliveries() {
		taps, status, refused := d.decided(t, d.body)
		if want := !strings.Contains(d.name, "bot"); (len(taps) == 1) != want || status != 200 || len(refused) != 0 {
			t.Errorf("%s: %d taps, %d, %q", d.name, len(taps), status, refused)
		}
	}
}

// No change of a key's case, and no key that comes twice, makes another decision of a body: it is refused, or
// the key is one that does not count.
func TestRule8_NoSpellingOfAKeyMakesAnotherDecision(t *testing.T) {
	all := deliveries()
	others := []string{`"x"`, `null`, `{}`, `[]`, `1`, `true`, `"deny"`, `"U03KEN"`, `"T0OTHER"`}
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.SampledFrom(all).Draw(rt, "delivery")
		keys := aKey.FindAllStringSubmatchIndex(d.body, -1)
		at := rapid.SampledFrom(keys).Draw(rt, "key")
		key, before, after := d.body[at[2]:at[3]], d.body[:at[0]], d.body[at[1]:]
		other := rapid.SampledFrom(others).Draw(rt, "other value")
		respelled := respell(rt, key)
		value, err := jsontext.NewDecoder(strings.NewReader(after)).ReadValue()
		if err != nil {
			rt.Fatal(err)
		}
		member := func(key, value string) string { return `"` + key + `":` + value }
		given := member(key, string(value))
		body := before + rapid.SampledFrom([]string{
			member(respelled, string(value)),
			member(key, other) + "," + given, given + "," + member(key, other),
			member(respelled, other) + "," + given, given + "," + member(respelled, other),
			member(respelled, string(value)) + "," + member(key, other),
		}).Draw(rt, "members") + after[len(value):]
		want, _, _ := d.decided(t, d.body)
		got, status, refused := d.decided(t, body)
		if len(got) > 0 && !reflect.DeepEqual(got, want) {
			rt.Fatalf("%s\n%s\nleads to %+v\ninstead of %+v", d.name, body, got, want)
		}
		if status != 200 && (status != 400 || len(refused) == 0) {
			rt.Fatalf("%s\n%s\nis answered %d, on record %q", d.name, body, status, refused)
		}
	})
}

// respell changes the case of some letters, or escapes one.
func respell(rt *rapid.T, key string) string {
	b := []byte(key)
	i := rapid.IntRange(0, len(b)-1).Draw(rt, "letter")
	if rapid.Bool().Draw(rt, "one") && b[i] != '_' {
		b[i] ^= 0x20
		return string(b)
	}
	return rapid.SampledFrom([]string{strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:], strings.ReplaceAll(key, "_", ""), strings.ReplaceAll(key, "s", "\u017f"), strings.ReplaceAll(key, "k", "\u212a")}).Draw(rt, "spelling")
}

// What is signed and cannot be read, or could be read in two ways, is answered 400, on record, and decides nothing.
func TestRule8_AmbiguousBodiesAreRefused(t *testing.T) {
	all := map[string]delivery{}
	for _, d := range deliveries() {
		all[d.name] = d
	}
	button, slack, words := all["a LINE button"], all["a Slack button"], all["a Slack bot's words"]
	swap := func(d delivery, from, to string) delivery {
		if !strings.Contains(d.body, from) {
			t.Fatalf("%s has no %s", d.name, from)
		}
		d.body = strings.Replace(d.body, from, to, 1)
		return d
	}
	for what, d := range map[string]delivery{
		"LINE: a name in another case":       swap(button, `"userId"`, `"UserID"`),
		"LINE: a name twice":                 swap(button, `"userId":`, `"userId":"`+hanaLINE+`","userId":`),
		"LINE: a name twice, in two cases":   swap(button, `"data":`, `"Data":"action=deny&id=`+request+`","data":`),
		"LINE: events in another case":       swap(button, `"events"`, `"Events"`),
		"LINE: events twice":                 swap(button, `"events":`, `"events":[],"events":`),
		"LINE: not UTF-8":                    swap(button, "0f3779fb", "0f\xff79fb"),
		"LINE: a lone surrogate":             swap(button, "0f3779fb", `0f\ud800`),
		"LINE: an unknown name twice":        swap(button, `"isRedelivery":`, `"isRedelivery":1,"isRedelivery":`),
		"LINE: something after it":           {body: button.body + "{}", post: overLINE},
		"LINE: no JSON":                      {body: "{", post: overLINE},
		"Slack: a value in another case":     swap(slack, `"value"`, `"Value"`),
		"Slack: actions twice":               swap(slack, `"actions":`, `"actions":[],"actions":`),
		"Slack: an unknown name twice":       swap(slack, `"block_id":`, `"block_id":"b0","block_id":`),
		"Slack: not UTF-8":                   swap(slack, `"approvals"`, "\"\xff\""),
		"Slack: a bot's id in another case":  swap(words, `"bot_id"`, `"Bot_ID"`),
		"Slack: a bot's id without its dash": swap(words, `"bot_id"`, `"botid"`),
		"Slack: no JSON":                     {body: "payload", post: asPayload},
	} {
		taps, status, refused := d.decided(t, d.body)
		if len(taps) != 0 || status != 400 || len(refused) != 1 || !strings.HasSuffix(refused[0], ": not_understood") {
			t.Errorf("%s: %d taps, answered %d, on record %q", what, len(taps), status, refused)
		}
	}
}

// Slack's forms count as their JSON does.
func TestRule8_AmbiguousFormsAreRefused(t *testing.T) {
	payload := ""
	for _, d := range deliveries() {
		if d.name == "a Slack button" {
			payload = url.QueryEscape(d.body)
		}
	}
	command := url.Values{"command": {"/countersign"}, "text": {"approve " + request}, "user_id": {"U02HANA"}, "team_id": {"T0TEAM0001"},
		"api_app_id": {"A0APPROVE1"}, "trigger_id": {"1.2.3"}, "response_url": {"https://hooks.slack.com/commands/1"}, "channel_name": {"directmessage"}}
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
		f, _ := withDialogs(t)
		w := f.postSlack(formType, body, nil)
		if len(f.gate.taps)+len(f.gate.asks) != 0 || w.Code != 400 || len(f.gate.refused) != 1 {
			t.Errorf("%s: %d taps, answered %d, on record %q", what, len(f.gate.taps)+len(f.gate.asks), w.Code, f.gate.refused)
		}
	}
	f, _ := withDialogs(t)
	f.wantStatus(f.postSlack(formType, good, nil), 200)
	f.wantTaps(1)
}

// An event that cannot be read takes none of the others along.
func TestRule7_AnUnreadableEventLosesNoOther(t *testing.T) {
	f := newFixture(t)
	f.wantStatus(f.lineEvents(`{"type":"postback","Type":"x"}`, postback()), 400)
	f.wantTaps(1)
	if len(f.gate.refused) != 1 || f.counts["refused"] != 1 {
		t.Errorf("on record %q, counted %v", f.gate.refused, f.counts)
	}
	f.gate.err = errors.New("disk full")
	f.wantStatus(f.lineEvents(`{"Type":"x"}`), 503) // what cannot be put on record is to be delivered again
}
