package line

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/locale"
)

var update = flag.Bool("update", false, "write the golden cards anew")

func TestGoldenCards(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		for _, c := range channelstest.Cases() {
			if c.Delivery.Notification.Kind == approval.KindOutcome {
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
var sameWords = map[string]bool{"hostile": true, "huge": true, "many_keys": true, "deep": true, "nested": true, "batch_20": true, "reply_cards": true, "diff_long": true}

// shown is a request that takes two replies to show whole.
func shown() approval.Delivery {
	r := channelstest.Request(`{"path":"/etc/gate.conf","content":` + strconv.Quote(strings.Repeat("All work and no play.\n", 900)) + `,"owner":{"name":"root","ids":[0,0]}}`)
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
		golden(t, filepath.Join(dir, name+".json"), append(b.Bytes(), '\n'))
		again, err := ch.Render(card())
		if err != nil || !bytes.Equal(body, again) {
			t.Errorf("rendering twice gave different bytes (err %v)", err)
		}
	})
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got), go test -update accepts it:\n%s", file, d)
	}
}

type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
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
	api, err := loadOpenAPI()
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, p := range api.check("PushMessageRequest", map[string]any{"to": "U1", "messages": ms}) {
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
			if uniseg.GraphemeClusterCount(fill) > 300 || measure(fill) > 300 || (fill != "") != (v["inputOption"] == "openKeyboard") {
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

func checkCard(t tester, ch *Channel, d approval.Delivery) {
	t.Helper()
	body, err := ch.Render(channelstest.Maker().Card(d))
	if d.Notification.Kind == approval.KindOutcome {
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
	if !strings.Contains(all, r.ID) {
		t.Errorf("the request's id is not on its card")
	}
	if strings.Contains(all, "ARGS SHOWN") {
		return
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(r.Args, &args); err != nil {
		t.Fatalf("%v", err)
	}
	for k := range args {
		if plainKey.MatchString(k) && !strings.Contains(all, "\x00"+k+"\x00") && !strings.Contains(all, "\x00"+k+"  \x00") {
			t.Errorf("arg %s is not shown, and the card does not say so", k)
		}
	}
}

// One value's text must not pass for another row: line breaks stand only in blocks of their own.
func TestNoValueForgesARow(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	body, err := ch.Render(channelstest.Case{Delivery: approval.Delivery{Notification: approval.Notification{Kind: approval.KindRequest},
		Requests: []approval.Request{channelstest.Request(channelstest.Hostile)}}}.Card())
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
	for _, want := range []string{`"2000"`, `"null"`, `""`, `"  padded  "`, `"{\"a\":1}"`, "⟨U+202E⟩", "⟨U+200B⟩", "⟨U+0000⟩", `"› forged"`, "rm -rf /tmp/x⟨U+000A⟩"} {
		if !strings.Contains(all, want) {
			t.Errorf("the card does not show %s", want)
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
		if c.Kind == approval.KindOutcome || len(c.Items) == 0 {
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
			a, err := approval.ParseArgs(fmt.Appendf(nil, `{"a":%q,"b":%q,"c":{"d":%q}}`, bad, bad, bad))
			if err != nil {
				t.Fatal(err)
			}
			rs[i].Args, rs[i].HumanMessage, rs[i].Scope, rs[i].SessionID = a.Canonical(), bad, bad[:1000], fmt.Sprint(i)+bad[:200]
			rs[i].Rationale, rs[i].Preview = bad[:9000], bad[:9000]
			rs[i].Tool, rs[i].Server = strings.Repeat("t", 128), strings.Repeat("s", 128)
			rs[i].Previous = &approval.Use{ApprovedBy: bad[:300]}
			rs[i].RequireReason = true
		}
		c := channelstest.Case{Delivery: approval.Delivery{Notification: approval.Notification{Kind: approval.KindRequest, BatchID: channelstest.BatchID}, Requests: rs}}.Card()
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
