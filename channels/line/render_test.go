package line

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/chat"
	"countersign/internal/locale"
	"countersign/internal/testkit"
)

func TestGoldenCards(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		for _, c := range channelstest.Cases() {
			if c.Delivery.Notification.Kind == approval.KindEdit {
				if _, err := ch.Render(m.Card(c.Delivery)); err == nil {
					t.Errorf("%s: an edit was rendered for a channel that cannot edit", c.Name)
				}
				continue
			}
			if tag == locale.Default || !sameWords[c.Name] {
				goldenCard(t, ch, tag, c.Name, func() channels.Card { return m.Card(c.Delivery) })
			}
		}
		for part := 1; part <= 2; part++ {
			d := shown()
			d.Notification.Part = part
			goldenCard(t, ch, tag, fmt.Sprintf("show_part_%d", part), func() channels.Card {
				limit, unit := ch.Page()
				c, _ := m.Part(d, limit, unit)
				return c
			})
		}
	}
}

// sameWords are the cases that differ from others in their args alone: one language shows how they are
// drawn.
var sameWords = map[string]bool{"hostile": true, "huge": true, "many_keys": true, "deep": true, "nested": true,
	"batch_20": true, "reply_cards": true, "diff_long": true}

// shown is a request that takes two replies to show whole.
func shown() channels.Delivery {
	r := channelstest.Request(`{"path":"/etc/gate.conf","content":` +
		strconv.Quote(strings.Repeat("All work and no play.\n", 900)) + `,"owner":{"name":"root","ids":[0,0]}}`)
	r.Rationale, r.Preview = "The gate must listen on all addresses.", channelstest.Diff
	return channelstest.Reply("", r)
}

func goldenCard(t *testing.T, ch *Channel, tag, name string, card func() channels.Card) {
	dir := filepath.Join("testdata", "cards")
	if tag != locale.Default {
		dir = filepath.Join(dir, tag)
	}
	t.Run(tag+"/"+name, func(t *testing.T) {
		body, err := ch.Render(card())
		if err != nil {
			t.Fatal(err)
		}
		checkBody(t, body)
		var b bytes.Buffer
		if err := json.Indent(&b, body, "", "  "); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, filepath.Join(dir, name+".json"), append(b.Bytes(), '\n'))
		again, err := ch.Render(card())
		if err != nil || !bytes.Equal(body, again) {
			t.Errorf("rendering twice gave different bytes (err %v)", err)
		}
	})
}

type tester interface {
	Helper()
	Errorf(format string, values ...any)
	Fatalf(format string, values ...any)
}

// checkBody checks a rendered body against LINE's own schemas and every limit that they do not state.
func checkBody(t tester, body channels.Body) {
	t.Helper()
	var ms []any
	if err := json.Unmarshal(body, &ms); err != nil {
		t.Fatalf("body is no JSON array: %v", err)
	}
	if len(ms) < 1 || len(ms) > 5 {
		t.Errorf("%d messages, want 1 to 5", len(ms))
	}
	schema, err := loadOpenAPI()
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, p := range schema.check("PushMessageRequest", map[string]any{"to": "U1", "messages": ms}) {
		t.Errorf("against LINE's schema: %s", p)
	}
	for _, m := range ms {
		limits(t, m)
	}
}

func limits(t tester, v any) {
	t.Helper()
	size := func() int {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		if err := e.Encode(v); err != nil {
			t.Fatalf("%v", err)
		}
		return b.Len() - 1
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			limits(t, e)
		}
	case map[string]any:
		switch v["type"] {
		case "flex":
			alt, _ := v["altText"].(string)
			if n := measure(alt); n < 1 || n > 1500 {
				t.Errorf("altText of %d units, want 1 to 1500", n)
			}
		case "carousel":
			bubbles := v["contents"].([]any)
			if n := len(bubbles); n > 12 {
				t.Errorf("%d bubbles, want at most 12", n)
			}
			for _, b := range bubbles {
				if got := b.(map[string]any)["size"]; got != bubbles[0].(map[string]any)["size"] {
					t.Errorf("bubbles of different size in one carousel")
				}
			}
			if n := size(); n >= 50_000 {
				t.Errorf("a carousel of %d bytes", n)
			}
		case "bubble":
			if n := size(); n >= 30_000 {
				t.Errorf("a bubble of %d bytes", n)
			}
		case "text":
			s, ok := v["text"].(string)
			spans, _ := v["contents"].([]any)
			if s == "" && len(spans) == 0 || ok && s == "" {
				t.Errorf("an empty text: %v", v)
			}
			if measure(s) > 30_000 {
				t.Errorf("a text of %d units", measure(s))
			}
		case "span":
			if s, _ := v["text"].(string); s == "" {
				t.Errorf("an empty span")
			}
		case "button":
			if v["action"] == nil {
				t.Errorf("a button without an action")
			}
		case "postback":
			if _, ok := v["text"]; ok {
				t.Errorf("a postback with text: it would come back as typed words too")
			}
			label, _ := v["label"].(string)
			if n := uniseg.GraphemeClusterCount(label); n < 1 || n > 40 {
				t.Errorf("a label of %d clusters", n)
			}
			if s, _ := v["displayText"].(string); s == "" || uniseg.GraphemeClusterCount(s) > 300 || measure(s) > 300 {
				t.Errorf("displayText of %d units", measure(s))
			}
			fill, _ := v["fillInText"].(string)
			if uniseg.GraphemeClusterCount(fill) > 300 || measure(fill) > 300 || fill != "" &&
				v["inputOption"] != "openKeyboard" {
				t.Errorf("fillInText %q with input option %v", fill, v["inputOption"])
			}
			data, _ := v["data"].(string)
			if b, err := channels.ParseButton(data); err != nil || b.Data() != data || measure(data) > 300 {
				t.Errorf("postback data %q is not ours (err %v)", data, err)
			}
		case "message":
			label, _ := v["label"].(string)
			if n := uniseg.GraphemeClusterCount(label); n < 1 || n > 40 {
				t.Errorf("a label of %d clusters", n)
			}
			if s, _ := v["text"].(string); s == "" || uniseg.GraphemeClusterCount(s) > 300 || measure(s) > 300 {
				t.Errorf("a message action says %d units", measure(s))
			}
		case "action":
			action, _ := v["action"].(map[string]any)
			label, _ := action["label"].(string)
			if n := uniseg.GraphemeClusterCount(label); n < 1 || n > 20 {
				t.Errorf("a quick reply's label of %d clusters", n)
			}
		case "uri":
			if s, _ := v["uri"].(string); measure(s) > 1000 {
				t.Errorf("a uri of %d units", measure(s))
			}
		}
		for _, e := range v {
			limits(t, e)
		}
	case string:
		if r, ok := channelstest.Hidden(v); ok {
			t.Errorf("a character nobody sees, %U, in %q", r, v)
		}
	}
}

// texts returns every text that people see.
func texts(v any) []string {
	var all []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	case map[string]any:
		for _, k := range []string{"text", "altText", "label", "displayText"} {
			if s, ok := v[k].(string); ok {
				all = append(all, s)
			}
		}
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	}
	return all
}

func seen(t tester, body channels.Body) string {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v", err)
	}
	return strings.Join(texts(v), "\x00")
}

// No args, texts or states may break a limit, hide a character or leave out an arg without saying so.
func TestAnyCardKeepsTheLimits(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	rapid.Check(t, func(t *rapid.T) { checkCard(t, ch, channelstest.AnyDelivery(t)) })
}

func FuzzRender(f *testing.F) {
	ch := newChannel(f, DefaultAPIURL)
	channelstest.Seeds(f.Add)
	f.Fuzz(func(t *testing.T, args []byte, words string, requests, flags uint8) {
		checkCard(t, ch, channelstest.Fuzzed(args, words, requests, flags))
	})
}

var plainKey = regexp.MustCompile(`^k[0-9]+$`)

func checkCard(t tester, ch *Channel, d channels.Delivery) {
	t.Helper()
	body, err := ch.Render(channelstest.Maker().Card(d))
	if d.Notification.Kind == approval.KindEdit {
		if err == nil {
			t.Fatalf("an edit was rendered")
		}
		return
	}
	if err != nil {
		t.Fatalf("cannot be drawn: %v", err)
	}
	checkBody(t, body)
	all := seen(t, body)
	if len(d.Requests) != 1 {
		return
	}
	r := d.Requests[0]
	if !strings.Contains(all, r.ID[20:]) {
		t.Errorf("the request's id is not on its card")
	}
	if strings.Contains(all, "ARGS SHOWN") {
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.Args, &members); err != nil {
		t.Fatalf("%v", err)
	}
	for k := range members {
		if plainKey.MatchString(k) && !strings.Contains(all, "\x00"+k+"\x00") && !strings.Contains(all, "\x00"+k+"  \x00") {
			t.Errorf("arg %s is not shown, and the card does not say so", k)
		}
	}
}

// One value's text must not pass for another row: line breaks stand only in blocks of their own.
func TestNoValueForgesARow(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	body, err := ch.Render(channelstest.Case{Delivery: channels.Delivery{
		Notification: approval.Notification{Kind: approval.KindRequest},
		Requests:     []approval.Request{channelstest.Request(channelstest.Hostile)}}}.Card())
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any, inBlock bool)
	walk = func(v any, inBlock bool) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e, inBlock)
			}
		case map[string]any:
			if v["backgroundColor"] == paper {
				inBlock = true
			}
			if s, ok := v["text"].(string); ok && strings.Contains(s, "\n") && !inBlock {
				t.Errorf("a line break outside a block: %q", s)
			}
			for _, e := range v {
				walk(e, inBlock)
			}
		}
	}
	walk(v, false)
	all := seen(t, body)
	for _, want := range []string{`"2000"`, `"null"`, `""`, `"  padded  "`, `"{\"a\":1}"`, "⟨U+202E⟩", "⟨U+200B⟩",
		"⟨U+0000⟩", `"› forged"`, "rm -rf /tmp/x⟨U+000A⟩"} {
		if !strings.Contains(all, want) {
			t.Errorf("the card does not show %s", want)
		}
	}
}

// actions returns the actions of a message, in order.
func actions(t *testing.T, body channels.Body) (all []map[string]any) {
	t.Helper()
	var ms []any
	if err := json.Unmarshal(body, &ms); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if a, ok := v["action"].(map[string]any); ok {
				all = append(all, a)
			}
			for _, k := range []string{"contents", "footer", "quickReply", "items"} {
				walk(v[k])
			}
		}
	}
	walk(ms)
	return all
}

// Deny opens the keyboard with the denial begun once more, which names the request by the end of its id; where nothing
// is decided without a reason, Approve opens it empty, since the gate asks for the reason.
func TestButtonsOpenTheKeyboard(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	end, plain, needed := channelstest.ID(1)[20:], channelstest.Request(`{}`), channelstest.Request(`{}`)
	needed.RequireReason = true
	batch, mixed := channelstest.Batch(2), channelstest.Batch(2)
	mixed[1].RequireReason = true
	for _, tt := range []struct {
		name string
		rs   []approval.Request
		tag  string
		want [2]string // what approve and deny begin
	}{
		{"a request", []approval.Request{plain}, "en", [2]string{"", "deny " + end + ": "}},
		{"in Japanese", []approval.Request{plain}, "ja", [2]string{"", "却下 " + end + "："}},
		{"a reason is needed", []approval.Request{needed}, "en", [2]string{"", "deny " + end + ": "}},
		{"a reason is needed, in Thai", []approval.Request{needed}, "th", [2]string{"", "ปฏิเสธ " + end + ": "}},
		{"all of a batch", batch, "en", [2]string{"", "deny " + channelstest.BatchID + ": "}},
		{"all of a batch of which one needs a reason", mixed, "en", [2]string{"", "deny " + channelstest.BatchID + ": "}},
	} {
		m := channelstest.Maker()
		m.Words = locale.Get(tt.tag)
		d := channels.Delivery{
			Notification: approval.Notification{Kind: approval.KindRequest}, Requests: tt.rs}
		if len(tt.rs) > 1 {
			d.Notification.BatchID = channelstest.BatchID
		}
		body, err := ch.Render(m.Card(d))
		if err != nil {
			t.Fatal(err)
		}
		as := actions(t, body)
		for n, want := range tt.want {
			if got, _ := as[n]["fillInText"].(string); got != want || as[n]["displayText"] == nil {
				t.Errorf("%s: %v begins %q, want %q", tt.name, as[n]["data"], got, want)
			}
		}
	}
}

// A question comes last, for quick replies show on the last message only; the reply's own text stays.
func TestQuestion(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	c := channelstest.Maker().Card(channelstest.Asking(approval.NoteReason, "Denied: x."))
	body, err := ch.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	var ms []struct{ Text string }
	if err := json.Unmarshal(body, &ms); err != nil || len(ms) != 2 || ms[0].Text != "Denied: x." || ms[1].Text != c.Ask {
		t.Errorf("messages %+v (err %v)", ms, err)
	}
	as := actions(t, body)
	if len(as) != 3 {
		t.Fatalf("%d answers to tap", len(as))
	}
	for n, a := range as {
		if a["type"] != "message" || a["label"] != c.Suggest[n] || a["text"] != "deny "+channelstest.ID(1)[20:]+": "+
			c.Suggest[n] {
			t.Errorf("answer %d: %v", n, a)
		}
	}
	// Beside as many cards as there can be, it still is the last.
	c = channelstest.Maker().Card(channelstest.Reply("Denied.", channelstest.Batch(5)...))
	c.Ask, c.Suggest = "Why?", make([]string, 20)
	for i := range c.Suggest {
		c.Suggest[i] = strings.Repeat("👩‍👩‍👧‍👦", i+1)
	}
	if body, err = ch.Render(c); err != nil {
		t.Fatal(err)
	}
	checkBody(t, body)
	if !strings.HasSuffix(string(body), `"text":"Why?","type":"text"}]`) || len(actions(t, body)) < 10+13 {
		t.Errorf("the question is not last: %s", body[len(body)-200:])
	}
}

// A long reply takes several messages, and loses nothing.
func TestLongReplies(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	limit, unit := ch.Page()
	for name, piece := range map[string]string{"lines": "a line of some length, and then another\n", "one line": "no end ",
		"wide": "界", "emoji": "👩‍👩‍👧‍👦", "marks": "⟨U+202E⟩", "blank lines": "x\n\n", "long lines": strings.Repeat("y",
			3700) + "\n"} {
		text := strings.TrimSpace(strings.Repeat(piece, limit/unit(piece)))
		body, err := ch.Render(channels.Card{Kind: approval.KindReply, Text: text})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkBody(t, body)
		var ms []struct{ Text string }
		if err := json.Unmarshal(body, &ms); err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, m := range ms {
			all += m.Text
			if measure(m.Text) > maxText || m.Text == "" {
				t.Errorf("%s: a message of %d", name, measure(m.Text))
			}
		}
		if got, want := strings.ReplaceAll(all, "\n", ""), strings.ReplaceAll(text, "\n", ""); got != want {
			t.Errorf("%s: %d units in %d messages, want %d", name, measure(got), len(ms), measure(want))
		}
	}
	body, err := ch.Render(channels.Card{Kind: approval.KindReply, Text: strings.Repeat("z", 100_000)})
	if err != nil || !strings.Contains(string(body), "characters") {
		t.Errorf("what no reply holds is cut without a word (err %v)", err)
	}
	checkBody(t, body)
}

// All of a request arrives, whatever is in it.
func TestShownWhole(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	limit, unit := ch.Page()
	huge := func(s string, size int) string { // of several pages
		b, err := json.Marshal(map[string]string{"k": strings.Repeat(s, size/len(s))})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, callArgs := range map[string]string{"hostile": channelstest.Hostile, "hidden": huge("\u202e", 20_000),
		"emoji": huge("👩‍👩‍👧‍👦", 60_000), "line breaks": huge("\n", 20_000), "forged": huge("amount_cents: 1\n", 60_000),
		"deep": strings.Repeat(`{"level":`, 50) + "1" + strings.Repeat("}", 50)} {
		d := channelstest.Reply("", channelstest.Request(callArgs))
		for more := true; more; {
			var c channels.Card
			d.Notification.Part++
			c, more = channelstest.Maker().Part(d, limit, unit)
			body, err := ch.Render(c)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			checkBody(t, body)
			var ms []struct{ Text string }
			if err := json.Unmarshal(body, &ms); err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, m := range ms {
				texts = append(texts, m.Text)
			}
			if got := strings.Join(texts, "\n"); got != c.Text {
				t.Errorf("%s, part %d: %d units arrive of %d", name, d.Notification.Part, measure(got), measure(c.Text))
			}
		}
	}
}

// Where a card leaves something out there is a button that brings it.
func TestShowButton(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, c := range channelstest.Cases() {
		if k := c.Delivery.Notification.Kind; k != approval.KindRequest || len(c.Delivery.Requests) != 1 {
			continue
		}
		body, err := ch.Render(c.Card())
		if err != nil {
			t.Fatal(err)
		}
		cut := strings.Contains(string(body), "type show") || strings.Contains(string(body), "left out") ||
			strings.Contains(string(body), "in the diff above⟩") // and so the arg is not there in one piece
		offered := strings.Contains(string(body), `"text":"show `+channelstest.ID(1)+`"`)
		if cut != offered {
			t.Errorf("%s: something is left out %t, and can be asked for %t", c.Name, cut, offered)
		}
	}
}

// A diff's lines have their sign and their colour.
func TestDiffIsDrawn(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, c := range channelstest.Cases() {
		if c.Name != "diff" {
			continue
		}
		body, err := ch.Render(c.Card())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"text":"+public = true\n","color":"` + added + `"`, `"text":"-listen = 127.0.0.1:8787\n","color":"` + removed + `"`,
			`"text":" # ⟨U+202E⟩the end\n","color":"` + ink + `"`, `"text":"Preview  +2 −1"`,
			`"text":"Written by the agent (not verified)"`,
		} {
			if !strings.Contains(string(body), want) {
				t.Errorf("no %s on the card", want)
			}
		}
	}
}

// A long value has the card's whole width: beside its label it would be a column of twenty characters.
func TestALongValueHasTheWholeWidth(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for n, beside := range map[int]bool{maxBeside: true, maxBeside + 1: false} {
		r := channelstest.Request(fmt.Sprintf(`{"command":%q}`, strings.Repeat("x", n)))
		body, err := ch.Render(channelstest.Maker().Card(channelstest.Reply("", r)))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(body), `{"flex":3,"text":"command"`); got != beside {
			t.Errorf("a value of %d stands beside its label: %t", n, got)
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, c := range channelstest.Cases() {
		body, err := ch.Render(c.Card())
		if err == nil && strings.Contains(string(body), channelstest.Secret) {
			t.Errorf("%s shows a secret", c.Name)
		}
	}
}

// What is counted must be what the SDK writes, or a little more: a card that is taken for smaller than
// it is would be refused.
func TestSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := channelstest.Maker().Card(channelstest.AnyDelivery(t))
		if c.Kind == approval.KindEdit || len(c.Items) == 0 {
			return
		}
		b, err := bubble(c, c.Items[0], bubbleSize)
		if err != nil {
			t.Fatal(err)
		}
		j, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if got, most := sizeOf(b), len(j)+len(j)/2; got < len(j) || got > most {
			t.Errorf("sizeOf says %d bytes, the SDK writes %d", got, len(j))
		}
	})
}

// A whole batch of the worst requests still fits.
func TestWorstBatch(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, n := range []int{2, 5, 6, 12, 20} {
		rs := channelstest.Batch(n)
		for i := range rs {
			bad := strings.Repeat("<", 20_000)
			a, err := args.Parse(fmt.Appendf(nil, `{"a":%q,"b":%q,"c":{"d":%q}}`, bad, bad, bad))
			if err != nil {
				t.Fatal(err)
			}
			rs[i].Args, rs[i].HumanMessage, rs[i].Scope, rs[i].SessionID = a.Canonical(), bad, bad[:1000], fmt.Sprint(i)+
				bad[:200]
			rs[i].Rationale, rs[i].Preview = bad[:9000], bad[:9000]
			rs[i].Tool, rs[i].Server = strings.Repeat("t", 128), strings.Repeat("s", 128)
			rs[i].Previous = &approval.Use{ApprovedBy: bad[:300]}
			rs[i].RequireReason = true
		}
		c := channelstest.Case{Delivery: channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
			BatchID: channelstest.BatchID}, Requests: rs}}.Card()
		body, err := ch.Render(c)
		if err != nil {
			t.Errorf("%d requests: %v", n, err)
			continue
		}
		checkBody(t, body)
		if all := seen(t, body); !strings.Contains(all, "Approve all") {
			t.Errorf("%d requests: no button for all", n)
		}
	}
}

func TestWhatTakesAPasskeyHasNoApprove(t *testing.T) {
	r := channelstest.Request(`{"a":1}`)
	r.Need = &approval.Need{StepUp: true}
	body, err := new(Channel).Render(channelstest.Maker().Card(channels.Delivery{
		Notification: approval.Notification{Kind: approval.KindRequest, ApprovalID: r.ID}, Requests: []approval.Request{r}}))
	if err != nil {
		t.Fatal(err)
	}
	got := string(body)
	if strings.Contains(got, "action=approve") || !strings.Contains(got, "action=deny") || !strings.Contains(got,
		"https://gate.example.com/") {
		t.Errorf("its card: %s", got)
	}
}

// Of each message, of whatever kind, a lock screen shows the risk and what will happen.
func TestEachAltTextHasTheRiskAndWhatWillHappen(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, tt := range channelstest.Cases() {
		c := tt.Card()
		if c.Kind == approval.KindEdit {
			continue // LINE cannot edit
		}
		body, err := ch.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		var ms []struct {
			Type, AltText string
		}
		if err := json.Unmarshal(body, &ms); err != nil {
			t.Fatal(err)
		}
		bubbles := 0
		for _, m := range ms {
			if m.Type != "flex" {
				continue
			}
			of := c
			if (c.Kind == approval.KindReply || c.Waiting) && len(c.Items) > 1 && len(ms) >= len(c.Items) { // a message for each
				of.Items, of.Text = c.Items[bubbles:bubbles+1], ""
			}
			bubbles++
			if lacks := channelstest.LockScreen(of, m.AltText); lacks != "" {
				t.Errorf("%s: no %q in %q", tt.Name, lacks, m.AltText)
			}
		}
		if bubbles == 0 && len(c.Items) > 0 {
			t.Errorf("%s: no bubble", tt.Name)
		}
	}
}

// A batch's first message is a bubble of its own, as tall as it needs to be, with a sentence for each call.
func TestABatchBeginsWithABubbleOfItsOwn(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, n := range []int{2, 3, 6, 7, 20} {
		c := channelstest.Maker().Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
			BatchID: channelstest.BatchID}, Requests: channelstest.Batch(n)})
		body, err := ch.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		var ms []struct {
			Contents struct {
				Type     string
				Contents []json.RawMessage
			}
		}
		if err := json.Unmarshal(body, &ms); err != nil {
			t.Fatal(err)
		}
		bubbles := 0
		for _, m := range ms[1:] {
			bubbles += len(m.Contents.Contents)
		}
		if ms[0].Contents.Type != "bubble" || bubbles != n || len(ms) > 5 {
			t.Errorf("%d calls: first a %s, then %d bubbles, in %d messages", n, ms[0].Contents.Type, bubbles, len(ms))
		}
		for _, i := range c.Items {
			if !strings.Contains(string(body), channels.RiskIcon(i.Risk)+" "+i.Summary) {
				t.Errorf("%d calls: no %q", n, i.Summary)
			}
		}
	}
}

// What is asked once more begins as the card did: with the risk, and with the very sentence of what will happen.
func TestAQuestionAskedOnceMoreBeginsAsTheCardDid(t *testing.T) {
	for _, risk := range []approval.Risk{approval.RiskHigh, approval.RiskCritical} {
		r := channelstest.Request(`{}`)
		channelstest.Worded(&r)
		r.Risk = risk
		c := channelstest.Maker().Card(channelstest.Once(approval.ConfirmNote(""), "", r))
		ms, err := messages(c)
		if err != nil {
			t.Fatal(err)
		}
		body := ms[0].(*api.FlexMessage).Contents.(*api.FlexBubble).Body.Contents
		if len(body) != 3 || body[0].(*api.FlexText).Text != channels.RiskIcon(risk)+" "+c.Risk(risk) ||
			body[1].(*api.FlexText).Text != "Pay $20.00 to “Acme Ltd.” from treasury" || body[2].(*api.FlexText).Text != c.Text {
			t.Errorf("%s: %+v", risk, body)
		}
	}
}

// The offer not to ask again says about which call of whom it is, can be declined, and has its labels whole.
func TestTheOfferNotToAskAgainNamesTheCallAndCanBeDeclined(t *testing.T) {
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		r := channelstest.Request(`{}`)
		channelstest.Worded(&r)
		d := channelstest.Grantable(channelstest.Once(approval.NoteMore, "Approved.", r))
		d.Requests[0].SessionID = "s1"
		c := m.Card(d)
		ms, err := messages(c)
		if err != nil {
			t.Fatal(err)
		}
		q := ms[0].(*api.TextMessage)
		if !strings.Contains(q.Text, r.Agent) || !strings.Contains(q.Text, m.Summary(r)) {
			t.Errorf("%s: %q names no call", tag, q.Text)
		}
		declines := false
		for _, i := range q.QuickReply.Items {
			a := i.Action.(*api.PostbackAction)
			b, err := channels.ParseButton(a.Data)
			if err != nil {
				t.Errorf("%s: %q: %v", tag, a.Data, err)
			}
			declines = declines || b == channels.Button{Intent: chat.IntentBack, ID: d.Notification.ID}
			if strings.Contains(strings.TrimSuffix(a.Label, "…"), "…") || b.Intent != chat.IntentFreeze &&
				strings.Contains(a.Label, "…") {
				t.Errorf("%s: the label %q is cut", tag, a.Label)
			}
		}
		if !declines {
			t.Errorf("%s: no way to decline: %+v", tag, q.QuickReply.Items)
		}
	}
}

// Above the buttons for all stands what they leave out.
func TestTheButtonsForAllSayWhatTheyLeaveOut(t *testing.T) {
	rs := channelstest.Batch(3)
	for i := range rs {
		rs[i].Risk = approval.RiskHigh
	}
	for _, want := range []bool{false, true} {
		if want {
			rs[1].Risk = approval.RiskCritical
		}
		c := channelstest.Maker().Card(channelstest.OnACard(approval.KindRequest, 0, []int{1, 1, 1}, rs...))
		said := false
		for _, e := range summary(c).Body.Contents {
			t, ok := e.(*api.FlexText)
			said = said || ok && t.Text == c.LeftOut()
		}
		if said != want || (c.LeftOut() != "") != want {
			t.Errorf("want %v: %q, %v", want, c.LeftOut(), said)
		}
	}
}

// Of a preview that is not what is written the card warns before anything else, and draws it in no colour of a change.
func TestAPreviewThatDoesNotMatchIsWarnedOfFirst(t *testing.T) {
	for _, tt := range channelstest.Cases() {
		if tt.Name != "write_unlike" {
			continue
		}
		ms, err := messages(tt.Card())
		if err != nil {
			t.Fatal(err)
		}
		body := ms[0].(*api.FlexMessage).Contents.(*api.FlexBubble).Body
		if s := body.Contents[1].(*api.FlexText); !strings.HasPrefix(s.Text, "⚠ The preview is NOT what will be written") {
			t.Errorf("below the sentence stands %q", s.Text)
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(raw), "⚠") != 1 || strings.Contains(string(raw), added) || strings.Contains(string(raw),
			removed) {
			t.Errorf("told twice, or drawn as a change: %s", raw)
		}
		return
	}
	t.Error("no such case")
}
