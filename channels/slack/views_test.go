package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/slack-go/slack"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/chat"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
	"countersign/internal/secret"
	"countersign/internal/testkit"
)

var (
	hana = approval.Actor{Kind: approval.Human, Name: "hana", Approver: true, Admin: true}
	ken  = approval.Actor{Kind: approval.Human, Name: "ken"}
)

func meta(id string) Meta {
	return Meta{ID: id, Channel: home, TS: "1795257600.000100",
		ResponseURL: "https://hooks.slack.com/actions/T0TEAM0001/812/abcDEF"}
}

// seenBy is the card of requests for somebody who reads this language.
func seenBy(tag string, batch string, rs ...approval.Request) channels.Card {
	m := channelstest.Maker()
	m.Words = locale.Get(tag)
	n := approval.Notification{Kind: approval.KindRequest, BatchID: batch,
		CreatedAt: channelstest.Noon.Add(2 * time.Minute)}
	return m.Card(channels.Delivery{Notification: n, Requests: rs})
}

func told(tag, text string) channels.Card {
	return channels.Card{Kind: approval.KindReply, Text: text, Words: locale.Get(tag)}
}

func needsReason(args string) approval.Request {
	r := channelstest.Request(args)
	r.Server, r.Risk, r.RequireReason = "bank", approval.RiskCritical, true
	return r
}

const transfer = `{"amount_cents":2000,"to_address":"0xAbC0000000000000000000000000000000000123"}`

// raw is a view as it is sent.
func raw[V any](view V, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(view)
}

func manyArgs(n int) string {
	m := map[string]any{}
	for i := range n {
		m[fmt.Sprintf("option_%03d", i)] = i
	}
	b, _ := json.Marshal(m)
	return string(b)
}

// views are the views of each language, by name.
func views(tag string) map[string]func() (json.RawMessage, error) {
	one := channelstest.Request(transfer)
	some := channelstest.Batch(3)
	some[1].Status = approval.Denied
	dialog := func(intent chat.Intent, batch string, rs ...approval.Request) func() (json.RawMessage, error) {
		id := batch
		if batch == "" {
			id = rs[0].ID
		}
		return func() (json.RawMessage, error) { return raw(ReasonDialog(seenBy(tag, batch, rs...), intent, meta(id))) }
	}
	notice := func(title channels.Text, p phrases.Phrase, args ...string) func() (json.RawMessage, error) {
		return func() (json.RawMessage, error) {
			v, err := NoticeView(told(tag, locale.Get(tag).Say(string(p), args...)), title)
			return raw(sdk.NewUpdateViewSubmissionResponse(&v), err)
		}
	}
	tab := func(by approval.Actor, total int, rs ...approval.Request) func() (json.RawMessage, error) {
		return func() (json.RawMessage, error) {
			return raw(HomeView(Home{Card: seenBy(tag, "", rs...), Total: total, By: by, UserID: "U0STRANGER"}))
		}
	}
	return map[string]func() (json.RawMessage, error){
		"deny":           dialog(chat.IntentDeny, "", one),
		"deny_needed":    dialog(chat.IntentDeny, "", needsReason(transfer)),
		"approve":        dialog(chat.IntentApprove, "", needsReason(transfer)),
		"deny_batch":     dialog(chat.IntentDeny, channelstest.BatchID, some...),
		"approve_batch":  dialog(chat.IntentApprove, channelstest.BatchID, needsReason(transfer), needsReason(`{}`)),
		"deny_many_args": dialog(chat.IntentDeny, "", channelstest.Request(manyArgs(300))),
		"deny_hostile":   dialog(chat.IntentDeny, "", channelstest.Request(channelstest.Hostile)),
		"too_late":       notice(channels.TextDialogTooLate, phrases.SayExpired),
		"refused":        notice(channels.TextDialogRefused, phrases.SayNotYours),
		"home":           tab(hana, 3, channelstest.Batch(3)...),
		"home_empty":     tab(hana, 0),
		"home_more":      tab(hana, 9, one),
		"home_reader":    tab(ken, 1, one),
		"home_stranger":  tab(approval.Actor{Kind: approval.Stranger, Name: "slack:T0TEAM0001/U0STRANGER"}, 1, one),
		"home_many_args": tab(hana, 1, channelstest.Request(manyArgs(300))),
		"home_hostile":   tab(hana, 1, channelstest.Request(channelstest.Hostile)),
		"reason_too_long": func() (json.RawMessage, error) {
			return json.Marshal(SubmissionErrors(locale.Get(tag).Say(string(phrases.SayReasonTooLong))))
		},
	}
}

func TestGoldenViews(t *testing.T) {
	for _, tag := range locale.Tags() {
		for name, view := range views(tag) {
			if tag != locale.Default && (strings.HasSuffix(name, "_hostile") || strings.HasSuffix(name, "_args")) {
				continue // the words around are those of the others
			}
			t.Run(tag+"/"+name, func(t *testing.T) {
				v, err := view()
				if err != nil {
					t.Fatal(err)
				}
				checkAnyView(t, v)
				var b bytes.Buffer
				if err := json.Indent(&b, v, "", "  "); err != nil {
					t.Fatal(err)
				}
				testkit.Golden(t, filepath.Join("testdata", "views", tag, name+".json"), append(b.Bytes(), '\n'))
			})
		}
	}
}

// checkAnyView checks a view, or the answer that it stands in, against Slack's limits as its documents
// tell them.
func checkAnyView(t tester, raw json.RawMessage) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("no JSON object: %v", err)
	}
	k := checker{t: t, ids: map[string]bool{}, dialog: true}
	switch m["response_action"] {
	case "update":
		k.only(m, "response_action", "view")
		m = m["view"].(map[string]any)
	case "errors":
		k.only(m, "response_action", "errors")
		errs := m["errors"].(map[string]any)
		if s, _ := errs["reason"].(string); len(errs) != 1 || s == "" {
			t.Errorf("errors %v", errs)
		}
		return
	}
	if len(raw) >= 250_000 {
		t.Errorf("a view of %d bytes", len(raw))
	}
	switch m["type"] {
	case "modal":
		k.only(m, "type", "title", "submit", "close", "blocks", "callback_id", "private_metadata")
		k.plain("title", m["title"], 24)
		k.plain("close", m["close"], 24)
	case "home":
		k.only(m, "type", "blocks")
		k.dialog = false
	default:
		t.Errorf("a view of type %v", m["type"])
	}
	blocks := m["blocks"].([]any)
	if len(blocks) < 1 || len(blocks) > 100 {
		t.Errorf("%d blocks, want 1 to 100", len(blocks))
	}
	for _, b := range blocks {
		k.block(b.(map[string]any))
	}
	if k.fields > 0 {
		k.plain("submit", m["submit"], 24)
		if s, _ := m["private_metadata"].(string); len(s) > 3000 || k.fields != 1 {
			t.Errorf("%d fields, private_metadata of %d", k.fields, len(s))
		}
	} else if m["submit"] != nil || m["callback_id"] != nil || m["private_metadata"] != nil {
		t.Errorf("a dialog without a field can be submitted: %v", m)
	}
}

// Any requests make a dialog and a Home tab within the limits, in which no character is hidden and each
// request is named; only who may decide has buttons.
func TestAnyViewKeepsTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := channelstest.AnyDelivery(t)
		m := channelstest.Maker()
		m.Words = locale.Get(rapid.SampledFrom(locale.Tags()).Draw(t, "language"))
		checkViews(t, m, d, reader(rapid.Bool().Draw(t, "approver")))
	})
}

func FuzzViews(f *testing.F) {
	channelstest.Seeds(f.Add)
	f.Fuzz(func(t *testing.T, args []byte, words string, requests, flags uint8) {
		checkViews(t, channelstest.Maker(), channelstest.Fuzzed(args, words, requests, flags), reader(flags&1 != 0))
	})
}

// reader is somebody who reads the Home tab.
func reader(approver bool) approval.Actor {
	return approval.Actor{Kind: approval.Human, Name: "hana", Approver: approver}
}

func checkViews(t tester, m channels.Maker, d channels.Delivery, by approval.Actor) {
	t.Helper()
	c := m.Card(d)
	for _, intent := range []chat.Intent{chat.IntentDeny, chat.IntentApprove} {
		v, err := raw(ReasonDialog(c, intent, meta(channelstest.ID(1))))
		if c.PendingCount() == 0 {
			if err == nil {
				t.Errorf("a dialog about nothing: %s", v)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cannot be asked about: %v", err)
		}
		checkAnyView(t, v)
		s, err := ParseSubmission(submitted(t, v, "why not"))
		if want := (Submission{intent, meta(channelstest.ID(1)), "why not"}); err != nil || s != want {
			t.Errorf("submitted %+v (err %v), want %+v", s, err, want)
		}
	}
	v, err := raw(HomeView(Home{Card: c, Total: 1000, By: by}))
	if err != nil {
		t.Fatalf("cannot be listed: %v", err)
	}
	checkAnyView(t, v)
	if buttons := strings.Count(string(v), `"action_id":"approve"`); by.Approver && buttons == 0 && c.PendingCount() > 0 ||
		!by.Approver && buttons > 0 || buttons > c.PendingCount() {
		t.Errorf("%d of %d requests have buttons, approver %t", buttons, c.PendingCount(), by.Approver)
	}
	v, err = raw(NoticeView(channels.Card{Text: c.Text, Words: c.Words}, channels.TextDialogRefused))
	if err != nil {
		t.Fatalf("cannot be told: %v", err)
	}
	checkAnyView(t, v)
}

// submitted is the view of a submission, as Slack sends it.
func submitted(t tester, view json.RawMessage, typed any) json.RawMessage {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(view, &m); err != nil {
		t.Fatalf("%v", err)
	}
	m["id"], m["team_id"], m["hash"] = "V0VIEW0001", "T0TEAM0001", "1795257620.ab12cd34"
	m["state"] = map[string]any{"values": map[string]any{"reason": map[string]any{"reason_text": map[string]any{
		"type": "plain_text_input", "value": typed}}}}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

func TestDialogWantsAReasonWhereOneIsNeeded(t *testing.T) {
	both := channelstest.Batch(2)
	both[1].RequireReason = true
	done := channelstest.Batch(2)
	done[1].RequireReason, done[1].Status = true, approval.Expired
	for _, tt := range []struct {
		name     string
		rs       []approval.Request
		optional bool
	}{
		{"none does", []approval.Request{channelstest.Request(transfer)}, true},
		{"the one does", []approval.Request{needsReason(transfer)}, false},
		{"one of two does", both, false},
		{"the one that does is over", done, true},
	} {
		v, err := raw(ReasonDialog(seenBy("en", "", tt.rs...), chat.IntentDeny, meta(channelstest.ID(1))))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(v), `"optional":true`); got != tt.optional {
			t.Errorf("%s: optional %t, want %t", tt.name, got, tt.optional)
		}
	}
}

// A dialog and a reader's Home tab have no buttons: they would be taken for the dialog's own.
func TestDialogHasNoButtons(t *testing.T) {
	v, err := raw(ReasonDialog(seenBy("en", "", channelstest.Request(transfer)), chat.IntentDeny,
		meta(channelstest.ID(1))))
	if err != nil || strings.Contains(string(v), `"button"`) {
		t.Errorf("%s (err %v)", v, err)
	}
}

func TestDialogRefusesWhatIsNoButton(t *testing.T) {
	c := seenBy("en", "", channelstest.Request(transfer))
	for _, tt := range []struct {
		intent chat.Intent
		id     string
	}{{chat.IntentOther, channelstest.ID(1)}, {"", channelstest.ID(1)}, {chat.IntentDeny, "01KAF"},
		{chat.IntentDeny, ""}} {
		if v, err := raw(ReasonDialog(c, tt.intent, meta(tt.id))); err == nil {
			t.Errorf("%q %q: %s", tt.intent, tt.id, v)
		}
	}
}

// What a dialog carries fits, and what it can do without is left out first.
func TestMeta(t *testing.T) {
	for _, tt := range []struct {
		length int
		kept   bool
	}{{40, true}, {2800, true}, {3000, false}, {60_000, false}} {
		m := meta(channelstest.ID(1))
		m.ResponseURL = secret.Value("https://hooks.slack.com/" + strings.Repeat("a", tt.length))
		v, err := raw(ReasonDialog(seenBy("en", "", channelstest.Request(transfer)), chat.IntentDeny, m))
		if err != nil {
			t.Fatal(err)
		}
		checkAnyView(t, v)
		if !tt.kept {
			m.ResponseURL = ""
		}
		s, err := ParseSubmission(submitted(t, v, nil))
		if want := (Submission{Intent: chat.IntentDeny, Meta: m}); err != nil || s != want {
			t.Errorf("an address of %d: %+v (err %v)", tt.length, s, err)
		}
	}
	m := meta(channelstest.ID(1))
	m.Channel = strings.Repeat("C", 4000)
	if _, err := raw(ReasonDialog(seenBy("en", "", channelstest.Request(transfer)), chat.IntentDeny, m)); err == nil {
		t.Error("what does not fit was carried")
	}
	if s := fmt.Sprintf("%v %+v", meta("x"), meta("x")); strings.Contains(s, "hooks.slack.com") {
		t.Errorf("a log would show the address: %s", s)
	}
}

func TestParseSubmission(t *testing.T) {
	v, err := raw(ReasonDialog(seenBy("en", "", channelstest.Request(transfer)), chat.IntentDeny,
		meta(channelstest.ID(1))))
	if err != nil {
		t.Fatal(err)
	}
	ours := submitted(t, v, " wrong\naccount <@U02HANA> ")
	got, err := ParseSubmission(ours)
	if want := (Submission{chat.IntentDeny, meta(channelstest.ID(1)), " wrong\naccount <@U02HANA> "}); err != nil ||
		got != want {
		t.Fatalf("got %+v (err %v), want %+v", got, err, want)
	}
	carried, err := meta(channelstest.ID(1)).encode()
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(carried)
	swap := func(old, with string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, old) {
				t.Fatalf("%s does not hold %s", s, old)
			}
			return strings.ReplaceAll(s, old, with)
		}
	}
	carrying := func(s string) func(string) string {
		b, _ := json.Marshal(s)
		return swap(string(quoted), string(b))
	}
	id := channelstest.ID(1)
	for name, change := range map[string]func(string) string{
		"no JSON":                func(string) string { return "{" },
		"not an object":          func(string) string { return "[]" },
		"nothing":                func(string) string { return "" },
		"not a modal":            swap(`"type":"modal"`, `"type":"home"`),
		"another dialog":         swap(`"callback_id":"deny"`, `"callback_id":"other"`),
		"no callback id":         swap(`"callback_id":"deny"`, `"callback_id":""`),
		"a key in other letters": swap(`"callback_id":"deny"`, `"Callback_ID":"deny"`),
		"a key twice":            swap(`"callback_id":"deny"`, `"callback_id":"approve","callback_id":"deny"`),
		"another block":          swap(`"values":{"reason":`, `"values":{"reasons":`),
		"one more block":         swap(`"values":{"reason":`, `"values":{"x":{},"reason":`),
		"another field":          swap(`{"reason_text":`, `{"text":`),
		"one more field": swap(`{"reason_text":`,
			`{"text":{"type":"plain_text_input","value":"a"},"reason_text":`),
		"another kind of field":      swap(`"type":"plain_text_input","value"`, `"type":"static_select","value"`),
		"a value that is no text":    swap(`"value":" wrong\naccount \u003c@U02HANA\u003e "`, `"value":["a"]`),
		"no state":                   swap(`"state":`, `"stat":`),
		"nothing carried":            carrying(""),
		"carried no JSON":            carrying("{"),
		"carried an unknown key":     carrying(`{"id":"` + id + `","by":"hana"}`),
		"carried a key twice":        carrying(`{"id":"` + channelstest.ID(2) + `","id":"` + id + `"}`),
		"carried in other letters":   carrying(`{"ID":"` + id + `"}`),
		"carried no id":              carrying(`{"channel":"C0APPROVALS"}`),
		"carried what is no ULID":    carrying(`{"id":"1"}`),
		"carried an odd channel":     carrying(`{"id":"` + id + `","channel":"<!channel>"}`),
		"carried an odd ts":          carrying(`{"id":"` + id + `","ts":"now"}`),
		"carried more than we can":   carrying(`{"id":"` + id + `","response_url":"` + strings.Repeat("a", 3000) + `"}`),
		"carried something after":    carrying(`{"id":"` + id + `"} {}`),
		"a field in another case":    swap(`"value":`, `"Value":`),
		"a field twice, almost":      swap(`"value":`, `"Value":"x","value":`),
		"a reason of broken letters": swap(`" wrong\naccount`, `"\ud800`),
	} {
		if s, err := ParseSubmission(json.RawMessage(change(string(ours)))); !errors.Is(err, ErrSubmission) {
			t.Errorf("%s: taken for %+v (err %v)", name, s, err)
		}
	}
	lower := strings.ToLower(id)
	if s, err := ParseSubmission(json.RawMessage(carrying(`{"id":"` + lower + `"}`)(string(ours)))); err != nil ||
		s.Meta != (Meta{ID: id}) {
		t.Errorf("an id in small letters: %+v (err %v)", s, err)
	}
}

func FuzzParseSubmission(f *testing.F) {
	v, err := raw(ReasonDialog(seenBy("en", "", channelstest.Request(transfer)), chat.IntentDeny,
		meta(channelstest.ID(1))))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(submitted(f, v, "why")))
	f.Add([]byte(submitted(f, v, nil)))
	f.Add([]byte(`{"type":"modal","callback_id":"approve","private_metadata":"{}","state":{"values":{}}}`))
	f.Fuzz(func(t *testing.T, view []byte) {
		s, err := ParseSubmission(view)
		if err != nil {
			if !errors.Is(err, ErrSubmission) || s != (Submission{}) {
				t.Errorf("%+v, err %v", s, err)
			}
			return
		}
		if b, err := channels.NewButton(string(s.Intent), s.Meta.ID); err != nil || b.ID != s.Meta.ID {
			t.Errorf("taken for %+v", s)
		}
	})
}

// A long answer is told whole: twenty lines of a batch that was over meanwhile.
func TestNoticeTellsAll(t *testing.T) {
	var lines []string
	for n := range 40 {
		lines = append(lines, fmt.Sprintf("%02d %s", n, strings.Repeat("already decided ", 12)))
	}
	v, err := raw(NoticeView(told("en", strings.Join(lines, "\n")), channels.TextDialogTooLate))
	if err != nil {
		t.Fatal(err)
	}
	checkAnyView(t, v)
	all := seen(t, channels.Body(v))
	for _, l := range lines {
		if !strings.Contains(all, l) {
			t.Errorf("%q is missing", l[:20])
		}
	}
}

func TestViewsMaskSecrets(t *testing.T) {
	for _, c := range channelstest.Cases() {
		card := c.Card()
		v, err := raw(HomeView(Home{Card: card, By: hana}))
		if err != nil || strings.Contains(string(v), channelstest.Secret) {
			t.Errorf("%s: the Home tab shows a secret (err %v)", c.Name, err)
		}
		if card.PendingCount() == 0 {
			continue
		}
		v, err = raw(ReasonDialog(card, chat.IntentDeny, meta(channelstest.ID(1))))
		if err != nil || strings.Contains(string(v), channelstest.Secret) {
			t.Errorf("%s: the dialog shows a secret (err %v)", c.Name, err)
		}
	}
}

// Nothing of a request is shown to whoever is not configured, and no button to whoever may not decide.
func TestHomeByRole(t *testing.T) {
	rs := channelstest.Batch(3)
	for _, tt := range []struct {
		name           string
		by             approval.Actor
		buttons, tools int
		want           []string
	}{
		{"approver", hana, 3, 3, []string{"You're hana. You can approve, deny and read the logs.",
			"Waiting for a decision (3)", "Deny asks you for a reason"}},
		{"reader", ken, 0, 3, []string{"You're ken. You can read requests, but not decide them.",
			"Only people with the role approver"}},
		{"admin", approval.Actor{Kind: approval.Human, Name: "mai", Admin: true}, 0, 3,
			[]string{"You're mai. You can read the logs."}},
		{"stranger", approval.Actor{Kind: approval.Stranger}, 0, 0, []string{"You're not an approver here", "U0⟨U+202E⟩"}},
		{"agent", approval.Actor{Kind: approval.Agent, Name: "bot", Approver: true}, 0, 0, nil},
	} {
		v, err := raw(HomeView(Home{Card: seenBy("en", "", rs...), Total: 3, By: tt.by, UserID: "U0\u202e"}))
		if err != nil {
			t.Fatal(err)
		}
		all := seen(t, channels.Body(v))
		if got := []int{strings.Count(string(v), `"action_id":"approve"`),
			strings.Count(all, "\x00files/delete_file\n")}; !cmp.Equal(got, []int{tt.buttons, tt.tools}) {
			t.Errorf("%s: buttons and tools %v", tt.name, got)
		}
		for _, w := range tt.want {
			if !strings.Contains(all, w) {
				t.Errorf("%s is not told %q", tt.name, w)
			}
		}
		if tt.tools == 0 && strings.Contains(all, channelstest.ID(1)) {
			t.Errorf("%s is told of a request", tt.name)
		}
	}
}

// The Home tab shows as many requests as fit, the newest first, and counts the others.
func TestHomeOfMore(t *testing.T) {
	var rs []approval.Request
	for i := range 60 {
		args := `{"a":"` + strings.Repeat("界<", 3000) + `"}`
		if i%2 == 0 {
			args = manyArgs(300)
		}
		r := channelstest.Request(args)
		r.ID = channelstest.ID(i)
		rs = append(rs, r)
	}
	v, err := raw(HomeView(Home{Card: seenBy("en", "", rs...), Total: 75, By: hana}))
	if err != nil {
		t.Fatal(err)
	}
	checkAnyView(t, v)
	shown := strings.Count(string(v), `"action_id":"approve"`)
	if want := fmt.Sprintf("%d more requests are waiting", 75-shown); shown < 10 || !strings.Contains(string(v), want) {
		t.Errorf("%d requests are shown, and not told: %s", shown, want)
	}
	for i := range 60 {
		if got := strings.Contains(string(v), channelstest.ID(i)); got != (i < shown) {
			t.Errorf("request %d is there: %t", i, got)
		}
	}
	if n := strings.Count(seen(t, channels.Body(v)), "ONLY 20 OF 300 ARGS SHOWN"); n == 0 {
		t.Error("args that are left out are not counted")
	}
}
