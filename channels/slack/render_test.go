package slack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/slack-go/slack"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
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
			dir := filepath.Join("testdata", "cards")
			if tag != locale.Default {
				if sameWords[c.Name] {
					continue
				}
				dir = filepath.Join(dir, tag)
			}
			t.Run(tag+"/"+c.Name, func(t *testing.T) {
				body, err := ch.Render(m.Card(c.Delivery))
				if err != nil {
					t.Fatal(err)
				}
				checkBody(t, body)
				var b bytes.Buffer
				if err := json.Indent(&b, body, "", "  "); err != nil {
					t.Fatal(err)
				}
				testkit.Golden(t, filepath.Join(dir, c.Name+".json"), append(b.Bytes(), '\n'))
				again, err := ch.Render(m.Card(c.Delivery))
				if err != nil || !bytes.Equal(body, again) {
					t.Errorf("rendering twice gave different bytes (err %v)", err)
				}
			})
		}
	}
}

// sameWords are the cases that differ from others in their args alone: one language shows how they are
// drawn.
var sameWords = map[string]bool{"hostile": true, "huge": true, "many_keys": true, "deep": true, "nested": true,
	"batch_20": true, "reply_cards": true, "diff_long": true}

type tester interface {
	Helper()
	Errorf(format string, values ...any)
	Fatalf(format string, values ...any)
}

// checkBody checks a rendered body against Slack's limits, read from its documents and not from the
// code under test. Lengths are UTF-16 units of the escaped text, the strictest reading.
func checkBody(t tester, body channels.Body) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("body is no JSON object: %v", err)
	}
	for k := range m {
		if k != "text" && k != "blocks" && k != "metadata" {
			t.Errorf("an unknown part %q", k)
		}
	}
	if s, _ := m["text"].(string); s == "" || legible.UTF16Len(s) > 4000 || strings.Contains(s, "<") {
		t.Errorf("fallback text of %d units: %q", legible.UTF16Len(s), s)
	}
	blocks, _ := m["blocks"].([]any)
	if len(blocks) < 1 || len(blocks) > 50 {
		t.Errorf("%d blocks, want 1 to 50", len(blocks))
	}
	k := checker{t: t, ids: map[string]bool{}}
	for _, b := range blocks {
		k.block(b.(map[string]any))
	}
	if n := allStrings(m["blocks"]); n >= 11_000 {
		t.Errorf("%d units in all strings of the blocks, want under 11,000", n)
	}
	if md, ok := m["metadata"].(map[string]any); ok && (md["event_type"] != "approval_card" ||
		md["event_payload"] == nil) {
		t.Errorf("metadata %v", md)
	}
}

// allStrings counts every string in a value, the names of types and the ids too.
func allStrings(v any) (n int) {
	switch v := v.(type) {
	case string:
		return legible.UTF16Len(escape(v))
	case []any:
		for _, x := range v {
			n += allStrings(x)
		}
	case map[string]any:
		for _, x := range v {
			n += allStrings(x)
		}
	}
	return n
}

type checker struct {
	t      tester
	ids    map[string]bool
	total  int
	dialog bool // one field may be typed into
	fields int
}

// length counts and checks one text.
func (k *checker) length(what, s string, most int) {
	n := legible.UTF16Len(escape(s))
	k.total += n
	if n < 1 || n > most {
		k.t.Errorf("%s of %d units, want 1 to %d", what, n, most)
	}
	if r, ok := channelstest.Hidden(s); ok {
		k.t.Errorf("a character nobody sees, %U, in %q", r, s)
	}
}

func (k *checker) only(m map[string]any, keys ...string) {
	for key := range m {
		if !slices.Contains(keys, key) {
			k.t.Errorf("a %v has a %q", m["type"], key)
		}
	}
}

// plain checks a plain_text object: the only kind that foreign values may stand in.
func (k *checker) plain(what string, v any, most int) {
	m, _ := v.(map[string]any)
	k.only(m, "type", "text", "emoji")
	if m["type"] != "plain_text" || m["emoji"] != false {
		k.t.Errorf("%s is no plain_text with emoji off: %v", what, m)
	}
	s, _ := m["text"].(string)
	k.length(what, s, most)
}

// dateLink matches what our own mrkdwn may hold: a date and a link that we made.
var (
	dateLink = regexp.MustCompile(
		`<!date\^[0-9]+\^\{date_short_pretty\} \{time\}\|[^<>|]+>|<https://gate\.example\.com/[^<>| ]+\|[^<>|]+>`)
	ownLink = regexp.MustCompile(`^https://gate\.example\.com/r/[0-9A-Za-z_-]+$`) // to a request, and named by its id
	mrkdwn  = regexp.MustCompile("[<>*_~`]")
)

// menu checks a menu of what else can be done.
func (k *checker) menu(m map[string]any, most int, names ...string) {
	k.only(m, names...)
	k.length("action_id", m["action_id"].(string), 255)
	options := m["options"].([]any)
	if n := len(options); n < 1 || n > most {
		k.t.Errorf("%d options", n)
	}
	for _, o := range options {
		o := o.(map[string]any)
		k.only(o, "text", "value")
		k.plain("option", o["text"], 75)
		value, _ := o["value"].(string)
		k.length("value", value, 75)
		if b, err := channels.NewChoice(value); err != nil || b.Intent != chat.IntentExtend &&
			b.Intent != chat.IntentFreeze && b.Intent != chat.IntentGrant {
			k.t.Errorf("option %q is not ours", value)
		}
	}
}

func (k *checker) block(b map[string]any) {
	id, _ := b["block_id"].(string)
	if id != "" {
		if k.ids[id] || len(id) > 255 {
			k.t.Errorf("block_id %q is not unique, or too long", id)
		}
		k.ids[id] = true
		k.total += legible.UTF16Len(id)
	}
	switch b["type"] {
	case "divider":
		k.only(b, "type", "block_id")
	case "header":
		k.only(b, "type", "block_id", "text")
		k.plain("header", b["text"], 150)
	case "section":
		k.only(b, "type", "block_id", "text", "accessory")
		k.plain("section", b["text"], 3000)
		if menu, ok := b["accessory"].(map[string]any); ok {
			k.plain("placeholder", menu["placeholder"], 150)
			k.menu(menu, 100, "type", "action_id", "options", "placeholder")
		}
	case "context":
		elements := b["elements"].([]any)
		if n := len(elements); n < 1 || n > 10 {
			k.t.Errorf("%d context elements", n)
		}
		for _, e := range elements {
			m := e.(map[string]any)
			k.only(m, "type", "text", "verbatim")
			s, _ := m["text"].(string)
			if m["type"] != "mrkdwn" || m["verbatim"] != true {
				k.t.Errorf("a context element that is no verbatim mrkdwn: %v", m)
			}
			if n := legible.UTF16Len(s); n < 1 || n > 3000 {
				k.t.Errorf("a context element of %d units", n)
			}
			if left := dateLink.ReplaceAllString(s, ""); mrkdwn.MatchString(left) {
				k.t.Errorf("markup in a context element: %q", left)
			}
			k.total += legible.UTF16Len(s)
		}
	case "actions":
		elements := b["elements"].([]any)
		if n := len(elements); n < 1 || n > 25 {
			k.t.Errorf("%d actions", n)
		}
		seen := map[any]bool{}
		for _, e := range elements {
			m := e.(map[string]any)
			switch m["type"] {
			case "overflow":
				k.menu(m, 5, "type", "options", "action_id")
				continue
			case "static_select":
				k.plain("placeholder", m["placeholder"], 150)
				k.menu(m, 100, "type", "options", "action_id", "placeholder")
				continue
			}
			if m["action_id"] == "open" { // Slack's own, beside nothing that approves
				k.only(m, "type", "text", "action_id", "value", "url")
				k.plain("button", m["text"], 75)
				link, _ := m["url"].(string)
				if k.length("url", link, 3000); !strings.HasPrefix(link, "https://") || seen["approve"] {
					k.t.Errorf("a button opens %q", link)
				}
				continue
			}
			k.only(m, "type", "text", "action_id", "value", "style")
			k.plain("button", m["text"], 75)
			action, _ := m["action_id"].(string)
			value, _ := m["value"].(string)
			k.length("action_id", action, 255)
			k.length("value", value, 2000)
			if _, err := channels.NewButton(action, value); err != nil || seen[action] {
				k.t.Errorf("button %q %q is not ours, or there twice", action, value)
			}
			seen[action] = true
		}
	case "rich_text":
		k.only(b, "type", "block_id", "elements")
		elements := b["elements"].([]any)
		if len(elements) == 0 {
			k.t.Errorf("an empty rich_text")
		}
		for _, e := range elements {
			m := e.(map[string]any)
			if m["type"] != "rich_text_section" && m["type"] != "rich_text_preformatted" && m["type"] != "rich_text_quote" {
				k.t.Errorf("an element %v", m["type"])
			}
			pieces := m["elements"].([]any)
			if len(pieces) == 0 {
				k.t.Errorf("an empty %v", m["type"])
			}
			for _, p := range pieces {
				piece := p.(map[string]any)
				s, _ := piece["text"].(string)
				if url, _ := piece["url"].(string); piece["type"] == "link" && ownLink.MatchString(url) && strings.HasSuffix(url,
					s) {
					k.only(piece, "type", "text", "url")
					k.length("a link's name", s, 6)
					k.length("link", url, 3000)
					continue
				}
				k.only(piece, "type", "text", "style")
				if piece["type"] != "text" {
					k.t.Errorf("a piece of type %v: links and mentions are not ours to make", piece["type"])
				}
				k.length("piece", s, 3000)
				if m["type"] == "rich_text_section" && strings.Contains(strings.TrimSuffix(s, "\n"), "\n") {
					k.t.Errorf("a line break inside a value: %q", s)
				}
			}
		}
	case "input":
		k.only(b, "type", "block_id", "label", "hint", "element", "optional")
		k.plain("label", b["label"], 2000)
		k.plain("hint", b["hint"], 2000)
		e := b["element"].(map[string]any)
		k.only(e, "type", "action_id", "multiline", "max_length", "focus_on_load")
		if most, _ := e["max_length"].(float64); !k.dialog || e["type"] != "plain_text_input" || most < 1 || most > 3000 {
			k.t.Errorf("a field %v", b)
		}
		k.fields++
	default:
		k.t.Errorf("a block of type %v, which old clients may not show", b["type"])
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
		if s, ok := v["text"].(string); ok {
			all = append(all, s)
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
	if err != nil {
		t.Fatalf("cannot be drawn: %v", err)
	}
	checkBody(t, body)
	all := seen(t, body)
	for _, r := range d.Requests {
		if !strings.Contains(all, r.ID[20:]) {
			t.Errorf("request %s is not on its card", r.ID)
		}
	}
	if len(d.Requests) != 1 || strings.Contains(all, "ARGS SHOWN") {
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(d.Requests[0].Args, &members); err != nil {
		t.Fatalf("%v", err)
	}
	for k := range members {
		if plainKey.MatchString(k) && !strings.Contains(all, "\x00"+k+"\x00") {
			t.Errorf("arg %s is not shown, and the card does not say so", k)
		}
	}
}

func TestHostileArgsAreShownAsTheyAre(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	body, err := ch.Render(channelstest.Case{Delivery: channels.Delivery{
		Notification: approval.Notification{Kind: approval.KindRequest},
		Requests:     []approval.Request{channelstest.Request(channelstest.Hostile)}}}.Card())
	if err != nil {
		t.Fatal(err)
	}
	all := seen(t, body)
	for _, want := range []string{`"2000"`, `"null"`, `""`, `"  padded  "`, `"{\"a\":1}"`, "⟨U+202E⟩", "⟨U+200B⟩",
		"⟨U+0000⟩", `"› forged"`,
		"rm -rf /tmp/x⟨U+000A⟩", "<!channel> <@U02HANA> <https://evil.example|click>"} {
		if !strings.Contains(all, want) {
			t.Errorf("the card does not show %s", want)
		}
	}
}

// What is measured is the escaped text, though it is not made for that.
func TestMeasure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("&<>a界👍;")), rapid.Rune())).Draw(t, "text")
		if got, want := measure(s), legible.UTF16Len(escape(s)); got != want {
			t.Errorf("%q measures %d, want %d", s, got, want)
		}
	})
}

// Why people are asked is told once where it is the same for all calls of a card, and else beside each.
func TestTheSameReasonIsToldOnce(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	count := func(rs []approval.Request) int {
		note := approval.Notification{Kind: approval.KindRequest, BatchID: channelstest.BatchID, CreatedAt: channelstest.Noon}
		body, err := ch.Render(channelstest.Maker().Card(channels.Delivery{Notification: note, Requests: rs}))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(body), `"text":"Why  "`)
	}
	if got := count(channelstest.Batch(20)); got != 1 {
		t.Errorf("one reason for all is told %d times", got)
	}
	rs := channelstest.Batch(3)
	rs[1].HumanMessage = "Another reason"
	if got := count(rs); got != 3 {
		t.Errorf("of three calls with two reasons, %d say why", got)
	}
}

// The room is shared out among all entries of a card: one that needs more gets what others leave, wherever it stands.
func TestAnEntryThatNeedsMoreGetsWhatOthersLeave(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for place := range 20 {
		rs := channelstest.Batch(20)
		for i := range rs {
			rs[i].Risk = approval.RiskLow
		}
		rs[place].Risk = approval.RiskCritical
		note := approval.Notification{Kind: approval.KindRequest, BatchID: channelstest.BatchID, CreatedAt: channelstest.Noon}
		m := channelstest.Maker()
		m.Link = func(id string) string { return "https://gate.example.com/r/" + id }
		body, err := ch.Render(m.Card(channels.Delivery{Notification: note, Requests: rs}))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			if !strings.Contains(string(body), `"url":"https://gate.example.com/r/`+r.ID) {
				t.Errorf("the longest entry is at %d: no link to %s", place, r.ID)
			}
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, c := range channelstest.Cases() {
		body, err := ch.Render(c.Card())
		if err != nil || strings.Contains(string(body), channelstest.Secret) {
			t.Errorf("%s shows a secret (err %v)", c.Name, err)
		}
	}
}

// Only what can still be decided has buttons.
func TestButtons(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	want := map[string][]string{
		"request":            {channelstest.ID(1)},
		"batch_3":            {channelstest.ID(1), channelstest.ID(2), channelstest.ID(3), channelstest.BatchID},
		"outcome_approved":   nil,
		"outcome_used":       nil,
		"outcome_lapsed":     nil,
		"outcome_denied":     nil,
		"outcome_expired":    nil,
		"outcome_cancelled":  nil,
		"outcome_batch_some": {channelstest.ID(1), channelstest.ID(3), channelstest.BatchID},
		"outcome_batch_over": nil,
		"reply_card":         {channelstest.ID(1)},
	}
	for _, c := range channelstest.Cases() {
		ids, ok := want[c.Name]
		if !ok {
			continue
		}
		body, err := ch.Render(c.Card())
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Blocks []struct {
				Elements []struct {
					ActionID string `json:"action_id"`
					Value    string `json:"value"`
				} `json:"elements"`
			} `json:"blocks"`
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range m.Blocks {
			for _, e := range b.Elements {
				if e.ActionID == "approve" {
					got = append(got, e.Value)
				}
			}
		}
		if d := cmp.Diff(ids, got); d != "" {
			t.Errorf("%s: Approve buttons (-want +got):\n%s", c.Name, d)
		}
	}
}

// A whole batch of the worst requests still fits, in every language.
func TestWorstBatch(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	bad := strings.Repeat("<", 20_000)
	a, err := args.Parse(fmt.Appendf(nil, `{"a":%q,"b":%q,"c":{"d":%q},"password":%q,"token":"x","z":1}`, bad, bad, bad,
		bad))
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		for _, kind := range []approval.NotificationKind{approval.KindRequest, approval.KindReminder, approval.KindEdit} {
			for _, n := range []int{2, 5, 11, 12, 20} {
				rs := channelstest.Batch(n)
				for i := range rs {
					rs[i].Args, rs[i].IgnoredArgs, rs[i].HumanMessage = a.Canonical(), []string{"z"}, bad
					rs[i].Agent, rs[i].Scope, rs[i].SessionID = strings.Repeat("a", 128), fmt.Sprint(i%2)+bad[:1000], fmt.Sprint(i)+
						bad[:200]
					rs[i].Rationale, rs[i].Preview = bad[:9000], bad[:9000]
					rs[i].Tool, rs[i].Server, rs[i].Risk = strings.Repeat("t", 128), strings.Repeat("s", 128), approval.RiskCritical
					rs[i].Previous = &approval.Use{ApprovedBy: bad[:300]}
					rs[i].RequireReason = true
					rs[i].ExpiresAt = channelstest.Noon.Add(47*time.Hour + time.Duration(i+11)*time.Minute)
					if kind == approval.KindEdit && i > 1 {
						rs[i].Status, rs[i].ResolvedBy, rs[i].ResolveReason = approval.Denied, bad[:200], bad[:4000]
					}
				}
				note := approval.Notification{Kind: kind, BatchID: channelstest.BatchID, Note: approval.NoteUnreached,
					CreatedAt: channelstest.Noon}
				body, err := ch.Render(m.Card(channels.Delivery{Notification: note, Requests: rs}))
				if err != nil {
					t.Errorf("%s: %s of %d requests: %v", tag, kind, n, err)
					continue
				}
				checkBody(t, body)
				if got := strings.Count(string(body), `"action_id":"approve","value":"`+channelstest.BatchID); got != 1 {
					t.Errorf("%s: %s of %d requests has %d buttons for all", tag, kind, n, got)
				}
			}
		}
	}
}

// Slack counts every string of a card's blocks. However many args there are, in whatever script, on cards of one
// request and of twenty, before and after they are decided: the count stays under 11,000, and what is not shown is
// said.
func TestRule14_EveryStringOfACardCounts(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	rapid.Check(t, func(t *rapid.T) {
		letters := []rune(rapid.SampledFrom([]string{"a", "é", "อ", "日", "👩‍👩‍👧", "<", "&", `"`, "\n", "\u202e"}).Draw(t,
			"of"))
		texts := func(label string, most int) string {
			return strings.Repeat(string(letters), rapid.IntRange(0, most).Draw(t, label)/len(letters))
		}
		given, n := map[string]any{}, rapid.IntRange(0, 500).Draw(t, "args")
		value := texts("value", rapid.SampledFrom([]int{2, 30, 500}).Draw(t, "most"))
		for i := range n {
			given[fmt.Sprintf("k%d", i)] = value
		}
		if rapid.Bool().Draw(t, "nested") {
			given["nested"] = []any{map[string]any{"a": value, "b": []any{value, 1}}, texts("long", 20_000)}
		}
		text, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		a, err := args.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		rs := channelstest.Batch(rapid.SampledFrom([]int{1, 1, 2, 7, 20}).Draw(t, "requests"))
		kind := rapid.SampledFrom([]approval.NotificationKind{approval.KindRequest, approval.KindReminder,
			approval.KindEdit}).Draw(t, "kind")
		words := texts("words", 3000)
		for i := range rs {
			rs[i].Args, rs[i].HumanMessage, rs[i].Rationale, rs[i].Preview = a.Canonical(), words, words, words
			if kind == approval.KindEdit && rapid.Bool().Draw(t, "denied") {
				rs[i].Status, rs[i].ResolvedBy, rs[i].ResolveReason = approval.Denied, "hana", words
			}
		}
		note := approval.Notification{Kind: kind, CreatedAt: channelstest.Noon}
		if len(rs) > 1 {
			note.BatchID = channelstest.BatchID
		}
		card := channelstest.Maker().Card(channels.Delivery{Notification: note, Requests: rs})
		body, err := ch.Render(card)
		if err != nil {
			t.Fatalf("%d requests with %d args: %v", len(rs), n, err)
		}
		checkBody(t, body)
		var m struct {
			Blocks json.RawMessage `json:"blocks"`
		}
		var blocks any
		if json.Unmarshal(body, &m) != nil || json.Unmarshal(m.Blocks, &blocks) != nil {
			t.Fatal("no blocks")
		}
		if ours, theirs := weighJSON(m.Blocks), allStrings(blocks); ours != theirs {
			t.Errorf("weighed %d, counted %d", ours, theirs)
		}
		all := seen(t, body)
		if shown := strings.Count(all, "\x00k"); len(rs) == 1 && n > 0 && shown < n && !strings.Contains(all,
			fmt.Sprintf(" OF %d ARGS SHOWN", card.Items[0].Total)) {
			t.Errorf("%d of %d args are shown, and the card does not say so", shown, n)
		}
	})
}

// A card of 300 args, as was refused: 13,515 in all.
func TestRule14_ACardOf300ArgsUsesItsRoom(t *testing.T) {
	body, err := newChannel(t, DefaultAPIURL).Render(channelstest.Maker().Card(channels.Delivery{
		Notification: approval.Notification{Kind: approval.KindRequest, CreatedAt: channelstest.Noon},
		Requests:     []approval.Request{channelstest.Request(manyArgs(300))}}))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	if n := allStrings(m["blocks"]); n >= 11_000 || n < 10_000 {
		t.Errorf("%d units, want nearly 11,000 and not more", n)
	}
}

// All of a request is shown on as many pages as it takes, line for line, and none is over the limits.
// Of what is drawn at random the first pages do.
func TestAnyPageIsWhole(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	rapid.Check(t, func(t *rapid.T) {
		d := channelstest.AnyDelivery(t)
		if len(d.Requests) == 0 {
			return
		}
		d.Notification.Kind, d.Requests = approval.KindReply, d.Requests[:1]
		checkPages(t, ch, d, 3)
	})
}

func TestPagesOfTheWorst(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	deep := strings.Repeat(`{"level":`, 50) + "1" + strings.Repeat("}", 50)
	long := func(s string, characters int) string {
		b, _ := json.Marshal(map[string]string{"a": strings.Repeat(s, characters/len([]rune(s)))})
		return string(b)
	}
	for name, callArgs := range map[string]string{"hostile": channelstest.Hostile, "300 keys": manyArgs(300),
		"50 levels": deep, "fences": long("```\n", 60_000), "markup": long("<&>", 60_000),
		"line breaks": long("\n", 15_000), "hidden": long("\u202e", 15_000), "emoji": long("👩‍👩‍👧‍👦", 60_000), "none": "{}"} {
		t.Run(name, func(t *testing.T) {
			checkPages(t, ch, channelstest.Reply("", channelstest.Request(callArgs)), 100)
		})
	}
}

func checkPages(t tester, ch *Channel, d channels.Delivery, most int) {
	t.Helper()
	limit, unit := ch.Page()
	for d.Notification.Part = 1; ; d.Notification.Part++ {
		c, more := channelstest.Maker().Part(d, limit, unit)
		body, err := ch.Render(c)
		if err != nil {
			t.Fatalf("page %d cannot be drawn: %v", d.Notification.Part, err)
		}
		checkBody(t, body)
		var m struct {
			Blocks []json.RawMessage `json:"blocks"`
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatalf("%v", err)
		}
		if n := len(m.Blocks); n > 5 {
			t.Errorf("page %d takes %d blocks", d.Notification.Part, n)
		}
		var shown []string
		for _, b := range m.Blocks {
			shown = append(shown, strings.ReplaceAll(seen(t, channels.Body(b)), "\x00", ""))
		}
		if got, want := strings.Join(shown, "\n"), strings.TrimSuffix(c.Text, "\n"); got != want {
			t.Errorf("page %d (-want +got):\n%s", d.Notification.Part, cmp.Diff(want, got))
		}
		if !more || d.Notification.Part == most {
			return
		}
	}
}

func BenchmarkRender(b *testing.B) {
	ch := newChannel(b, DefaultAPIURL)
	for _, c := range channelstest.Cases() {
		if c.Delivery.Notification.Kind != approval.KindRequest {
			continue
		}
		b.Run(c.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ch.Render(c.Card()); err != nil {
					b.Fatal(err)
				}
			}
		})
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
	if strings.Contains(got, `"action_id":"approve"`) || !strings.Contains(got, `"action_id":"deny"`) ||
		!strings.Contains(got, `"action_id":"open"`) {
		t.Errorf("its card: %s", got)
	}
}

// Of each message, of whatever kind, a notification shows the risk and what will happen.
func TestEachTextHasTheRiskAndWhatWillHappen(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, tt := range channelstest.Cases() {
		body, err := ch.Render(tt.Card())
		if err != nil {
			t.Fatal(err)
		}
		var m struct{ Text string }
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		if lacks := channelstest.LockScreen(tt.Card(), html.UnescapeString(m.Text)); lacks != "" {
			t.Errorf("%s: no %q in %q", tt.Name, lacks, m.Text)
		}
	}
}

// coded returns every text that is set as code within a line, which Slack draws in red.
func coded(v any) (all []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = append(all, coded(e)...)
		}
	case map[string]any:
		if style, _ := v["style"].(map[string]any); style["code"] == true {
			all = append(all, v["text"].(string))
		}
		for _, e := range v {
			all = append(all, coded(e)...)
		}
	}
	return all
}

// Only values of args are code: neither a tool nor what an agent says stands in red.
func TestOnlyArgsAreCode(t *testing.T) {
	ch, words := newChannel(t, DefaultAPIURL), 0
	for _, tt := range channelstest.Cases() {
		c := tt.Card()
		body, err := ch.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		values := map[string]bool{}
		for _, i := range c.Items {
			for _, r := range slices.Concat(i.Rows, i.Beside()) {
				values[r.Value] = true
			}
			if i.Rationale != "" {
				words++
			}
		}
		for _, s := range coded(m) {
			if !values[s] && !strings.Contains(s, "… (+") {
				t.Errorf("%s: %q is no arg", tt.Name, s)
			}
		}
	}
	if words == 0 {
		t.Error("no agent said anything")
	}
}

// What is asked once more begins as the card did: with the risk, and with the very sentence of what will happen.
func TestAQuestionAskedOnceMoreBeginsAsTheCardDid(t *testing.T) {
	for _, risk := range []approval.Risk{approval.RiskHigh, approval.RiskCritical} {
		r := channelstest.Request(`{}`)
		channelstest.Worded(&r)
		r.Risk = risk
		c := channelstest.Maker().Card(channelstest.Once(approval.ConfirmNote(""), "", r))
		blocks, err := layOut(c)
		if err != nil {
			t.Fatal(err)
		}
		first, err := json.Marshal(blocks[0])
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(first), channels.RiskIcon(risk)+" "+c.Risk(risk))
		if at < 0 || strings.Index(string(first), "Pay $20.00 to “Acme Ltd.” from treasury") < at {
			t.Errorf("%s: %s", risk, first)
		}
	}
}

// The last request's own buttons stand apart from those for all, which are told what they leave out.
func TestTheButtonsForAllStandApartAndSayWhatTheyLeaveOut(t *testing.T) {
	for _, n := range []int{2, 3, 10, 11, 20} {
		rs := channelstest.Batch(n)
		rs[0].Risk = approval.RiskCritical
		versions := make([]int, n)
		for i := range versions {
			versions[i] = 1
		}
		c := channelstest.Maker().Card(channelstest.OnACard(approval.KindRequest, 0, versions, rs...))
		blocks, err := layOut(c)
		if err != nil {
			t.Fatal(err)
		}
		all := slices.IndexFunc(blocks, func(b sdk.Block) bool { return b.ID() == "all" })
		if all < 3 || blocks[all-2].BlockType() != sdk.MBTDivider ||
			!strings.HasPrefix(blocks[all-1].(*sdk.SectionBlock).Text.Text, c.LeftOut()+"\n") || c.LeftOut() == "" {
			t.Errorf("of %d: %+v", n, blocks[max(0, all-2):])
		}
	}
}

// Of a preview that is not what is written the card warns before anything else, and does not draw it as a change.
func TestAPreviewThatDoesNotMatchIsWarnedOfFirst(t *testing.T) {
	for _, tt := range channelstest.Cases() {
		if tt.Name != "write_unlike" {
			continue
		}
		blocks, err := layOut(tt.Card())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(blocks)
		if err != nil {
			t.Fatal(err)
		}
		got := string(raw)
		at := strings.Index(got, "⚠ The preview is NOT what will be written")
		if at < 0 || at > strings.Index(got, `"Arguments`) || at > strings.Index(got, `"Tool`) ||
			strings.Count(got, "⚠") != 1 {
			t.Errorf("the warning does not come first, or comes twice: %s", got)
		}
		if before, _, _ := strings.Cut(got, "--- a/gate.conf"); strings.LastIndex(before,
			"rich_text_quote") < strings.LastIndex(before, "rich_text_preformatted") {
			t.Errorf("it is drawn as a change: %s", got)
		}
		return
	}
	t.Error("no such case")
}
