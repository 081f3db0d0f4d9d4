package emulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/internal/emulator"
)

func object(t *testing.T, text string) emulator.Object {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// family is one grapheme cluster, 25 bytes, 11 UTF-16 units.
const family = "👨‍👩‍👧‍👦"

func TestLINEAcceptsAndRefusesMessages(t *testing.T) {
	t.Parallel()
	w := start(t)
	bubble := func(body string) string {
		return `{"type":"flex","altText":"a","contents":{"type":"bubble","body":{"type":"box","layout":"vertical","contents":[` + body + `]}}}`
	}
	at := "messages[0].contents.body.contents[0]"
	flexTextOf := func(n int) string { return bubble(`{"type":"text","text":"` + strings.Repeat("x", n) + `"}`) }
	quick := func(n int) string {
		items := strings.Repeat(`,{"type":"action","action":{"type":"message","label":"Go","text":"go"}}`, n)
		return `{"type":"text","text":"a","quickReply":{"items":[` + strings.TrimPrefix(items, ",") + `]}}`
	}
	carousel := func(n int, size func(int) string) string {
		var bubbles []string
		for i := range n {
			bubbles = append(bubbles, `{"type":"bubble"`+size(i)+
				`,"body":{"type":"box","layout":"vertical","contents":[{"type":"text","text":"a"}]}}`)
		}
		return `{"type":"flex","altText":"a","contents":{"type":"carousel","contents":[` + strings.Join(bubbles, ",") + `]}}`
	}
	same := func(int) string { return "" }
	button := func(action string) string { return bubble(`{"type":"button","action":` + action + `}`) }
	long := func(n int) string { return strings.Repeat("a", n) }

	for _, c := range []struct {
		name, message string
		wrong         string // the property named; empty: accepted
	}{
		{"text", text1, ""},
		{"text of 5000", `{"type":"text","text":"` + long(5000) + `"}`, ""},
		{"text of 5001", `{"type":"text","text":"` + long(5001) + `"}`, "messages[0].text"},
		{"text of 2501 emoji counts UTF-16", `{"type":"text","text":"` + strings.Repeat("😀", 2501) + `"}`,
			"messages[0].text"},
		{"text of 2500 emoji", `{"type":"text","text":"` + strings.Repeat("😀", 2500) + `"}`, ""},
		{"empty text", `{"type":"text","text":""}`, "messages[0].text"},
		{"no text", `{"type":"text"}`, "messages[0].text"},
		{"text that is a number", `{"type":"text","text":1}`, "messages[0].text"},
		{"no type", `{"text":"a"}`, "messages[0].type"},
		{"unknown type", `{"type":"poem","text":"a"}`, "messages[0].type"},
		{"unknown property", `{"type":"text","text":"a","colour":"red"}`, "messages[0].colour"},
		{"quote token of nobody", `{"type":"text","text":"a","quoteToken":"nope"}`, "messages[0].quoteToken"},
		{"sender", `{"type":"text","text":"a","sender":{"name":"Online gate"}}`, ""},
		{"sender called LINE", `{"type":"text","text":"a","sender":{"name":"LINE gate"}}`, "messages[0].sender.name"},
		{"textV2", `{"type":"textV2","text":"a {{b}} {who}","substitution":{"who":{"type":"mention","mentionee":{"type":"all"}}}}`, ""},
		{"textV2 with a placeholder", `{"type":"textV2","text":"a {who}"}`, "messages[0].text"},
		{"textV2 with a loose brace", `{"type":"textV2","text":"{\"a\":1}"}`, "messages[0].text"},

		{"card", lineCard, ""},
		{"card with what the SDK always writes", bubble(`{"type":"text","text":"a","flex":0,"maxLines":0,"scaling":false}`),
			""},
		{"card without altText",
			`{"type":"flex","contents":{"type":"bubble","body":{"type":"box","layout":"vertical","contents":[]}}}`,
			"messages[0].altText"},
		{"altText of 1500", strings.Replace(flexTextOf(1), `"altText":"a"`, `"altText":"`+long(1500)+`"`, 1), ""},
		{"altText of 1501", strings.Replace(flexTextOf(1), `"altText":"a"`, `"altText":"`+long(1501)+`"`, 1),
			"messages[0].altText"},
		{"bubble without a block", `{"type":"flex","altText":"a","contents":{"type":"bubble"}}`, "messages[0].contents"},
		{"bubble over 30 KB", flexTextOf(30_000), "messages[0].contents"},
		{"bubble under 30 KB", flexTextOf(29_800), ""},
		{"carousel of 12", carousel(12, same), ""},
		{"carousel of 13", carousel(13, same), "messages[0].contents.contents"},
		{"carousel of none", carousel(0, same), "messages[0].contents.contents"},
		{"carousel of two sizes", carousel(2, func(i int) string { return []string{`,"size":"kilo"`, ``}[i] }),
			"messages[0].contents.contents[1].size"},
		{"carousel over 50 KB", strings.ReplaceAll(carousel(2, same), `"text":"a"`, `"text":"`+long(26_000)+`"`),
			"messages[0].contents"},
		{"unknown component", bubble(`{"type":"video2"}`), at + ".type"},
		{"span outside a text", bubble(`{"type":"span","text":"a"}`), at + ".type"},
		{"icon outside a baseline box", bubble(`{"type":"icon","url":"https://example.com/a.png"}`), at + ".type"},
		{"icon in a baseline box",
			bubble(`{"type":"box","layout":"baseline","contents":[{"type":"icon","url":"https://example.com/a.png"},{"type":"text","text":"a"}]}`), ""},
		{"button in a baseline box",
			bubble(`{"type":"box","layout":"baseline","contents":[{"type":"button","action":{"type":"message","label":"a","text":"b"}}]}`), at + ".contents[0].type"},
		{"box without layout", bubble(`{"type":"box","contents":[]}`), at + ".layout"},
		{"empty Flex text", bubble(`{"type":"text","text":""}`), at + ".text"},
		{"Flex text with neither text nor spans", bubble(`{"type":"text"}`), at + ".text"},
		{"Flex text of spans", bubble(`{"type":"text","contents":[{"type":"span","text":"a","weight":"bold"}]}`), ""},
		{"separator and filler", bubble(`{"type":"separator","margin":"md","color":"#00000080"},{"type":"filler","flex":2}`),
			""},
		{"image", bubble(`{"type":"image","url":"https://example.com/a.png","size":"full","aspectRatio":"20:13","aspectMode":"cover"}`), ""},
		{"image over HTTP", bubble(`{"type":"image","url":"http://example.com/a.png"}`), at + ".url"},
		{"colour by name", bubble(`{"type":"text","text":"a","color":"red"}`), at + ".color"},
		{"size in pixels", bubble(`{"type":"text","text":"a","size":"15px"}`), ""},
		{"size in em", bubble(`{"type":"text","text":"a","size":"2em"}`), at + ".size"},
		{"margin in percent", bubble(`{"type":"text","text":"a","margin":"5%"}`), at + ".margin"},
		{"padding in percent", bubble(`{"type":"box","layout":"vertical","contents":[],"paddingAll":"5%"}`), ""},
		{"negative flex", bubble(`{"type":"text","text":"a","flex":-1}`), at + ".flex"},
		{"gradient", bubble(`{"type":"box","layout":"vertical","contents":[],"background":{"type":"linearGradient","angle":"0deg","startColor":"#ff0000","endColor":"#0000ff"}}`), ""},
		{"unknown style", bubble(`{"type":"button","style":"danger","action":{"type":"message","label":"a","text":"b"}}`),
			at + ".style"},

		{"button without an action", bubble(`{"type":"button"}`), at + ".action"},
		{"button without a label", button(`{"type":"postback","data":"a"}`), at + ".action.label"},
		{"label of 40 clusters", button(`{"type":"postback","label":"` + strings.Repeat(family, 40) + `","data":"a"}`), ""},
		{"label of 41 clusters", button(`{"type":"postback","label":"` + strings.Repeat(family, 41) + `","data":"a"}`), at +
			".action.label"},
		{"data of 300", button(`{"type":"postback","label":"a","data":"` + long(300) + `"}`), ""},
		{"data of 301", button(`{"type":"postback","label":"a","data":"` + long(301) + `"}`), at + ".action.data"},
		{"data of 151 emoji counts UTF-16", button(`{"type":"postback","label":"a","data":"` + strings.Repeat("😀", 151) +
			`"}`), at + ".action.data"},
		{"no data", button(`{"type":"postback","label":"a"}`), at + ".action.data"},
		{"displayText of 300 clusters", button(`{"type":"postback","label":"a","data":"a","displayText":"` +
			strings.Repeat(family, 300) + `"}`), ""},
		{"displayText of 301 clusters", button(`{"type":"postback","label":"a","data":"a","displayText":"` +
			strings.Repeat("é", 301) + `"}`), at + ".action.displayText"},
		{"displayText and text", button(`{"type":"postback","label":"a","data":"a","displayText":"b","text":"b"}`), at +
			".action.displayText"},
		{"fillInText without the keyboard", button(`{"type":"postback","label":"a","data":"a","fillInText":"b"}`), at +
			".action.fillInText"},
		{"fillInText of 300", button(`{"type":"postback","label":"a","data":"a","inputOption":"openKeyboard","fillInText":"` +
			long(299) + `\n"}`), ""},
		{"fillInText with another option",
			button(`{"type":"postback","label":"a","data":"a","inputOption":"openVoice","fillInText":"b"}`), at +
				".action.fillInText"},
		{"unknown inputOption", button(`{"type":"postback","label":"a","data":"a","inputOption":"openDoor"}`), at +
			".action.inputOption"},
		{"fillInText of 301", button(`{"type":"postback","label":"a","data":"a","inputOption":"openKeyboard","fillInText":"` +
			long(301) + `"}`), at + ".action.fillInText"},
		{"message action's text of 301", button(`{"type":"message","label":"a","text":"` + long(301) + `"}`), at +
			".action.text"},
		{"uri", button(`{"type":"uri","label":"a","uri":"https://example.com/"}`), ""},
		{"uri of 1001", button(`{"type":"uri","label":"a","uri":"https://example.com/` + long(1001) + `"}`), at +
			".action.uri"},
		{"uri javascript", button(`{"type":"uri","label":"a","uri":"javascript:alert(1)"}`), at + ".action.uri"},
		{"datetimepicker", button(`{"type":"datetimepicker","label":"a","data":"a","mode":"date"}`), ""},
		{"clipboard", button(`{"type":"clipboard","label":"a","clipboardText":"a"}`), ""},
		{"camera outside quick replies", button(`{"type":"camera","label":"a"}`), at + ".action.type"},
		{"unknown action", button(`{"type":"approve","label":"a"}`), at + ".action.type"},

		{"13 quick replies", quick(13), ""},
		{"14 quick replies", quick(14), "messages[0].quickReply.items"},
		{"no quick replies", quick(0), "messages[0].quickReply.items"},
		{"camera as a quick reply", strings.Replace(quick(1), `"type":"message","label":"Go","text":"go"`,
			`"type":"camera","label":"Go"`, 1), ""},
		{"switching a rich menu as a quick reply", strings.Replace(quick(1), `"type":"message"`, `"type":"richmenuswitch"`,
			1), "messages[0].quickReply.items[0].action.type"},
		{"quick reply's label of 21", strings.Replace(quick(1), `"label":"Go"`, `"label":"`+long(21)+`"`, 1),
			"messages[0].quickReply.items[0].action.label"},
		{"quick reply's label of 20 clusters", strings.Replace(quick(1), `"label":"Go"`, `"label":"`+
			strings.Repeat(family, 20)+`"`, 1), ""},

		{"confirm", `{"type":"template","altText":"a","template":{"type":"confirm","text":"a","actions":[{"type":"message","label":"y","text":"y"},{"type":"message","label":"n","text":"n"}]}}`, ""},
		{"confirm with one action",
			`{"type":"template","altText":"a","template":{"type":"confirm","text":"a","actions":[{"type":"message","label":"y","text":"y"}]}}`, "messages[0].template.actions"},
		{"confirm's text of 241", `{"type":"template","altText":"a","template":{"type":"confirm","text":"` + long(241) +
			`","actions":[{"type":"message","label":"y","text":"y"},{"type":"message","label":"n","text":"n"}]}}`,
			"messages[0].template.text"},
		{"buttons' text of 161", `{"type":"template","altText":"a","template":{"type":"buttons","text":"` + long(161) +
			`","actions":[{"type":"message","label":"y","text":"y"}]}}`, "messages[0].template.text"},
		{"buttons' text of 61 with a title",
			`{"type":"template","altText":"a","template":{"type":"buttons","title":"t","text":"` + long(61) +
				`","actions":[{"type":"message","label":"y","text":"y"}]}}`, "messages[0].template.text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.LINE.Chat("hana"))
			pushed, validated := w.push(c.message, nil), w.line("POST", "/v2/bot/message/validate/push", `{"messages":[`+
				c.message+`]}`, nil)
			if c.wrong == "" {
				if pushed.status != 200 || validated.status != 200 {
					t.Fatalf("push: %d %s; validate: %d %s; want 200", pushed.status, pushed.body, validated.status, validated.body)
				}
				return
			}
			if pushed.status != 400 || string(pushed.body) != string(validated.body) {
				t.Fatalf("push: %d %s; validate: %d %s; want 400 and the same", pushed.status, pushed.body, validated.status,
					validated.body)
			}
			var e struct {
				Message string
				Details []struct{ Message, Property string }
			}
			if err := json.Unmarshal(pushed.body, &e); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("The request body has %d error(s)", len(e.Details)); e.Message != want {
				t.Errorf("message %q, want %q", e.Message, want)
			}
			if len(e.Details) == 0 || e.Details[0].Property != c.wrong || e.Details[0].Message == "" {
				t.Errorf("details %+v, want property %s", e.Details, c.wrong)
			}
			if n := len(w.LINE.Chat("hana")); n != before {
				t.Errorf("a refused message was delivered")
			}
		})
	}
	if len(w.Violations()) == 0 {
		t.Error("refused messages were not noted as violations")
	}
}

func TestLINERefusesBadRequests(t *testing.T) {
	t.Parallel()
	w := start(t)
	ok := `{"to":"` + hanaLINE + `","messages":[` + text1 + `]}`
	for _, c := range []struct {
		name, method, path, body string
		header                   map[string]string
		status                   int
		says                     string
	}{
		{"no token", "POST", "/v2/bot/message/push", ok, map[string]string{"Authorization": ""}, 401,
			"Authentication failed"},
		{"wrong token", "POST", "/v2/bot/message/push", ok, map[string]string{"Authorization": "Bearer wrong"}, 401,
			"Authentication failed"},
		{"content type", "POST", "/v2/bot/message/push", ok, map[string]string{"Content-Type": "text/plain"}, 400,
			"The content type"},
		{"no JSON", "POST", "/v2/bot/message/push", `{"to":`, nil, 400, "could not be parsed"},
		{"a name twice", "POST", "/v2/bot/message/push", strings.Replace(ok, `{"to"`, `{"to":"x","to"`, 1), nil, 400,
			"could not be parsed"},
		{"more after it", "POST", "/v2/bot/message/push", ok + "{}", nil, 400, "could not be parsed"},
		{"over 2 MB", "POST", "/v2/bot/message/push", strings.Repeat(" ", 2<<20) + ok, nil, 413, "Too Large"},
		{"no messages", "POST", "/v2/bot/message/push", `{"to":"` + hanaLINE + `","messages":[]}`, nil, 400, "messages"},
		{"six messages", "POST", "/v2/bot/message/push", `{"to":"` + hanaLINE + `","messages":[` + strings.Repeat(text1+",",
			5) + text1 + `]}`, nil, 400, "between 1 and 5"},
		{"no recipient", "POST", "/v2/bot/message/push", `{"messages":[` + text1 + `]}`, nil, 400, `"property":"to"`},
		{"unknown recipient", "POST", "/v2/bot/message/push", `{"to":"U` + strings.Repeat("e", 32) + `","messages":[` +
			text1 + `]}`, nil, 400, "Failed to send messages"},
		{"unknown property", "POST", "/v2/bot/message/push", strings.Replace(ok, `{"to"`, `{"urgent":true,"to"`, 1), nil, 400,
			`"property":"urgent"`},
		{"null where the SDK writes it", "POST", "/v2/bot/message/push", strings.Replace(ok, `{"to"`,
			`{"customAggregationUnits":null,"to"`, 1), nil, 200, "sentMessages"},
		{"null elsewhere", "POST", "/v2/bot/message/push", strings.Replace(ok, `{"to"`, `{"notificationDisabled":null,"to"`,
			1), nil, 400, "notificationDisabled"},
		{"retry key that is no UUID", "POST", "/v2/bot/message/push", ok, map[string]string{"X-Line-Retry-Key": "abc"}, 400,
			"UUID"},
		{"retry key on a reply", "POST", "/v2/bot/message/reply", `{"replyToken":"x","messages":[` + text1 + `]}`,
			map[string]string{"X-Line-Retry-Key": "123e4567-e89b-12d3-a456-426614174000"}, 400, "retry key"},
		{"reply token of nobody", "POST", "/v2/bot/message/reply", `{"replyToken":"x","messages":[` + text1 + `]}`, nil, 400,
			"Invalid reply token"},
		{"unknown path", "POST", "/v2/bot/message/pushh", ok, nil, 404, "Not found"},
		{"wrong method", "GET", "/v2/bot/message/push", "", nil, 404, "Not found"},
		{"loading for 7 seconds", "POST", "/v2/bot/chat/loading/start", `{"chatId":"` + hanaLINE + `","loadingSeconds":7}`,
			nil, 400, "loadingSeconds"},
		{"loading in a group", "POST", "/v2/bot/chat/loading/start", `{"chatId":"C` + strings.Repeat("e", 32) + `"}`, nil,
			400, "chatId"},
		{"loading", "POST", "/v2/bot/chat/loading/start", `{"chatId":"` + hanaLINE + `","loadingSeconds":5}`, nil, 202, "{}"},
		{"webhook without HTTPS", "PUT", "/v2/bot/channel/webhook/endpoint", `{"endpoint":"http://example.com/x"}`, nil, 400,
			"endpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.line(c.method, c.path, c.body, c.header)
			if r.status != c.status || !strings.Contains(string(r.body), c.says) {
				t.Errorf("got %d %s, want %d with %q", r.status, r.body, c.status, c.says)
			}
			if r.header.Get("X-Line-Request-Id") == "" {
				t.Error("no X-Line-Request-Id")
			}
		})
	}
}

func TestLINERemembersRetryKeysFor24Hours(t *testing.T) {
	t.Parallel()
	w := start(t)
	key := map[string]string{"X-Line-Retry-Key": "123e4567-e89b-12d3-a456-426614174000"}
	first := w.push(lineCard, key)
	w.clock.Advance(24*time.Hour - time.Second)
	second := w.push(lineCard, key)
	if second.status != 409 {
		t.Fatalf("second push: %d %s, want 409", second.status, second.body)
	}
	if got, want := second.header.Get("X-Line-Accepted-Request-Id"), first.header.Get("X-Line-Request-Id"); got != want {
		t.Errorf("accepted request id %q, want %q", got, want)
	}
	if got, want := encode(t, second.json(t)["sentMessages"]), encode(t, first.json(t)["sentMessages"]); got != want {
		t.Errorf("sentMessages %s, want %s", got, want)
	}
	if n := len(w.LINE.Chat("hana")); n != 1 {
		t.Fatalf("%d messages, want 1", n)
	}
	if v := w.Violations(); len(v) != 0 {
		t.Fatalf("violations: %v", v)
	}
	w.push(text1, key)
	if v := w.Violations(); len(v) != 1 || v[0].Rule != "retry_key_reused" {
		t.Errorf("violations after another body: %v", v)
	}
	w.clock.Advance(2 * time.Second)
	if late := w.push(lineCard, key); late.status != 200 || len(w.LINE.Chat("hana")) != 2 {
		t.Errorf("after 24 h: %d, %d messages; want a second message", late.status, len(w.LINE.Chat("hana")))
	}
}

func TestLINESeesAChangedBodyAfterAFailedTry(t *testing.T) {
	t.Parallel()
	w := start(t)
	key := map[string]string{"X-Line-Retry-Key": "123e4567-e89b-12d3-a456-426614174001"}
	w.Fail(emulator.LINEPush, 1, emulator.ServerError())
	if r := w.push(lineCard, key); r.status != 500 {
		t.Fatalf("got %d", r.status)
	}
	if r := w.push(text1, key); r.status != 200 {
		t.Fatalf("a failed try must not use the key up: %d %s", r.status, r.body)
	}
	if v := w.Violations(); len(v) != 1 || v[0].Rule != "retry_key_reused" {
		t.Errorf("violations: %v", v)
	}
}

func TestLINEReplyTokens(t *testing.T) {
	t.Parallel()
	w := start(t)
	token := func() string {
		e, err := w.LINE.TextEvent("hana", "hello", "")
		if err != nil {
			t.Fatal(err)
		}
		return e["replyToken"].(string)
	}
	reply := func(token string) int {
		return w.line("POST", "/v2/bot/message/reply", `{"replyToken":"`+token+`","messages":[`+text1+`]}`, nil).status
	}
	a := token()
	if got := []int{reply(a), reply(a)}; got[0] != 200 || got[1] != 400 {
		t.Errorf("twice: %v, want 200 then 400", got)
	}
	b := token()
	w.clock.Advance(61 * time.Second)
	if got := reply(b); got != 400 {
		t.Errorf("after a minute: %d, want 400", got)
	}
	chat := w.LINE.Chat("hana")
	if len(chat) != 1 || chat[0].Via != "reply" {
		t.Errorf("chat: %+v", chat)
	}
	if used := w.line("GET", "/v2/bot/message/quota/consumption", "", nil); !strings.Contains(string(used.body),
		`"totalUsage":0`) {
		t.Errorf("replies are free, but: %s", used.body)
	}
}

func TestLINEQuotaAndBlocking(t *testing.T) {
	t.Parallel()
	w := start(t)
	if r := w.line("GET", "/v2/bot/message/quota", "", nil); string(r.body) != `{"type":"none"}` {
		t.Errorf("quota: %s", r.body)
	}
	w.LINE.SetQuota(1)
	if r := w.line("GET", "/v2/bot/message/quota", "", nil); string(r.body) != `{"type":"limited","value":1}` {
		t.Errorf("quota: %s", r.body)
	}
	if err := w.LINE.SetBlocked("hana", true); err != nil {
		t.Fatal(err)
	}
	if r := w.push(text1, nil); r.status != 200 || len(w.LINE.Chat("hana")) != 0 {
		t.Errorf("blocked: %d, %d messages; want 200 and none", r.status, len(w.LINE.Chat("hana")))
	}
	if r := w.line("GET", "/v2/bot/profile/"+hanaLINE, "", nil); r.status != 404 {
		t.Errorf("profile of one who blocked: %d, want 404", r.status)
	}
	if _, err := w.LINE.Follow(w.ctx(), "hana"); err != nil {
		t.Fatal(err)
	}
	if r := w.line("GET", "/v2/bot/profile/"+hanaLINE, "", nil); r.status != 200 || r.json(t)["displayName"] != "hana" {
		t.Errorf("profile: %d %s", r.status, r.body)
	}
	if r := w.push(text1, nil); r.status != 200 {
		t.Errorf("within the quota: %d %s", r.status, r.body)
	}
	if r := w.push(text1, nil); r.status != 429 || !strings.Contains(string(r.body),
		"You have reached your monthly limit.") {
		t.Errorf("over the quota: %d %s", r.status, r.body)
	}
	w.clock.Advance(11 * 24 * time.Hour)
	if r := w.push(text1, nil); r.status != 200 {
		t.Errorf("next month: %d %s", r.status, r.body)
	}
	if r := w.line("GET", "/v2/bot/info", "", nil); r.json(t)["userId"] != w.Config().LINE.BotUserID {
		t.Errorf("info: %s", r.body)
	}
}

func TestLINEQuotes(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(lineCard, nil)
	card := w.LINE.Chat("hana")[0]
	if r := w.push(`{"type":"text","text":"Approved","quoteToken":"`+card.QuoteToken+`"}`, nil); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := w.LINE.Chat("hana")[1].Quoted; got != card.ID {
		t.Errorf("quoted %q, want %q", got, card.ID)
	}
	other := `{"to":"U` + strings.Repeat("0b", 16) + `","messages":[{"type":"text","text":"a","quoteToken":"` +
		card.QuoteToken + `"}]}`
	if r := w.line("POST", "/v2/bot/message/push", other, nil); r.status != 400 {
		t.Errorf("a quote token in another chat: %d, want 400", r.status)
	}
}

func TestLINEQuickRepliesVanish(t *testing.T) {
	t.Parallel()
	w := start(t)
	suggest := func(action string) string {
		return `{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","imageUrl":"https://example.com/a.png","action":` + action + `}]}}`
	}
	say := suggest(`{"type":"message","label":"Wrong","text":"wrong account"}`)
	shown := func() []emulator.LINEQuickReply {
		chat := w.LINE.Chat("hana")
		return chat[len(chat)-1].QuickReplies
	}
	w.push(say, nil)
	if got := shown(); len(got) != 1 || got[0].Label != "Wrong" || got[0].Image != "https://example.com/a.png" ||
		string(got[0].Action) != `{"type":"message","label":"Wrong","text":"wrong account"}` {
		t.Errorf("suggested: %+v", got)
	}
	w.push(say+","+text1, nil)
	for i, m := range w.LINE.Chat("hana") {
		if m.QuickReplies != nil {
			t.Errorf("message %d still suggests something although others follow", i)
		}
	}
	// A postback without displayText adds nothing to the chat, and takes the suggestions away all the same.
	w.push(suggest(`{"type":"postback","label":"Wrong","data":"why=wrong"}`), nil)
	if _, err := w.LINE.Tap(w.ctx(), "hana", "", "Wrong"); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != nil {
		t.Errorf("after a tap: %+v", got)
	}
	if _, err := w.LINE.Tap(w.ctx(), "hana", "", "Wrong"); err == nil {
		t.Error("a quick reply was tapped twice")
	}
}

func TestLINEButtonsOpenTheKeyboard(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(lineCard, nil)
	if d, err := w.LINE.Tap(w.ctx(), "hana", "", "Approve"); err != nil || d.FillIn != "" || w.LINE.Draft("hana") != "" {
		t.Errorf("a button that fills nothing in: %+v %v", d, err)
	}
	d, err := w.LINE.Tap(w.ctx(), "hana", "", "Deny")
	if err != nil || d.FillIn != "reason: " || w.LINE.Draft("hana") != "reason: " {
		t.Fatalf("%+v %v, draft %q", d, err, w.LINE.Draft("hana"))
	}
	if e := w.lastEvents()[0]; e["type"] != "postback" || e["postback"].(map[string]any)["data"] != "action=deny&id=01" {
		t.Errorf("event: %v", e)
	}
	if _, err := w.LINE.Complete(w.ctx(), "hana", "wrong account"); err != nil {
		t.Fatal(err)
	}
	if e := w.lastEvents()[0]; e["type"] != "message" || e["message"].(map[string]any)["text"] != "reason: wrong account" {
		t.Errorf("event: %v", e)
	}
	if got := w.LINE.Draft("hana"); got != "" {
		t.Errorf("the field still holds %q", got)
	}
}

func TestLINEAccount(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) { c.LINE.BasicID, c.LINE.BotName, c.LINE.ChatMode = "@gate", "Gate", "chat" })
	info := w.line("GET", "/v2/bot/info", "", nil).json(t)
	if want := `{"basicId":"@gate","chatMode":"chat","displayName":"Gate","markAsReadMode":"manual","userId":"` +
		w.Config().LINE.BotUserID + `"}`; encode(t, info) != want {
		t.Errorf("info %s, want %s", encode(t, info), want)
	}
	if info := start(t).line("GET", "/v2/bot/info", "", nil).json(t); info["basicId"] != "@sandbox" ||
		info["chatMode"] != "bot" || info["markAsReadMode"] != "auto" {
		t.Errorf("by default: %v", info)
	}

	w.LINE.SetQuota(200)
	w.LINE.SetUsage(199)
	if r := w.push(text1, nil); r.status != 200 {
		t.Errorf("the last push: %d %s", r.status, r.body)
	}
	if r := w.line("GET", "/v2/bot/message/quota/consumption", "", nil); string(r.body) != `{"totalUsage":200}` {
		t.Errorf("consumption: %s", r.body)
	}
	if r := w.push(text1, nil); r.status != 429 {
		t.Errorf("one more: %d", r.status)
	}
	// The month ends when it ends in Japan: nine hours before it ends in Greenwich.
	w.clock.Advance(time.Date(2026, 11, 30, 14, 59, 59, 0, time.UTC).Sub(w.clock.Now()))
	if r := w.push(text1, nil); r.status != 429 {
		t.Errorf("in the month's last second: %d", r.status)
	}
	w.clock.Advance(time.Second)
	if r := w.line("GET", "/v2/bot/message/quota/consumption", "", nil); string(r.body) != `{"totalUsage":0}` {
		t.Errorf("consumption in the new month: %s", r.body)
	}

	w.LINE.SetWebhookActive(false)
	if r := w.line("GET", "/v2/bot/channel/webhook/endpoint", "", nil); r.json(t)["active"] != false {
		t.Errorf("switched off: %s", r.body)
	}
	if _, err := w.LINE.Type(w.ctx(), "hana", "hello", ""); err == nil || len(w.hooked()) != 0 {
		t.Errorf("an event was sent to a webhook that is off: %v", err)
	}
	r := w.line("POST", "/v2/bot/channel/webhook/test", `{}`, nil)
	if want := `{"detail":"200","reason":"OK","statusCode":200,"success":true,"timestamp":"2026-11-30T15:00:00.000Z"}`; encode(t, r.json(t)) != want {
		t.Errorf("test: %s, want %s", r.body, want)
	}
	w.LINE.SetWebhookActive(true)
	if _, err := w.LINE.Type(w.ctx(), "hana", "hello", ""); err != nil {
		t.Error(err)
	}
}
