package emulator_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/emulator"
)

func repeated(n int, item func(i int) string) string {
	var items []string
	for i := range n {
		items = append(items, item(i))
	}
	return "[" + strings.Join(items, ",") + "]"
}

func TestSlackAcceptsAndRefusesBlocks(t *testing.T) {
	t.Parallel()
	w := start(t)
	long := func(n int) string { return strings.Repeat("a", n) }
	plain := func(n int) string { return `{"type":"plain_text","text":"` + long(n) + `"}` }
	section := func(n int) string { return `{"type":"section","text":` + plain(n) + `}` }
	button := func(more string) string {
		return `{"type":"actions","elements":[{"type":"button","action_id":"a","text":` + plain(2) + more + `}]}`
	}
	confirm := func(title, text, yes, no int) string {
		return fmt.Sprintf(`,"confirm":{"title":%s,"text":%s,"confirm":%s,"deny":%s}`, plain(title), plain(text), plain(yes),
			plain(no))
	}
	divider := func(int) string { return `{"type":"divider"}` }
	for _, c := range []struct {
		name, blocks string
		err          string // the error; empty: accepted
		at           string // the JSON pointer named
	}{
		{"card", slackCard, "", ""},
		{"50 blocks", repeated(50, divider), "", ""},
		{"51 blocks", repeated(51, divider), "invalid_blocks", "/blocks"},
		{"not a list", `{"type":"divider"}`, "invalid_blocks_format", ""},
		{"no JSON", `[{]`, "invalid_blocks_format", ""},
		{"unknown block", `[{"type":"poem"}]`, "invalid_blocks", "/blocks/0/type"},
		{"alert is for modals only", `[{"type":"alert"}]`, "invalid_blocks", "/blocks/0/type"},
		{"input is for modals only here", `[{"type":"input","label":` + plain(1) + `,"element":{"type":"plain_text_input"}}]`,
			"invalid_blocks", "/blocks/0/type"},
		{"unknown property", `[{"type":"divider","colour":"red"}]`, "invalid_blocks", "/blocks/0"},
		{"header of 150", `[{"type":"header","text":` + plain(150) + `}]`, "", ""},
		{"header of 151", `[{"type":"header","text":` + plain(151) + `}]`, "invalid_blocks", "/blocks/0/text/text"},
		{"header in mrkdwn", `[{"type":"header","text":{"type":"mrkdwn","text":"a"}}]`, "invalid_blocks",
			"/blocks/0/text/type"},
		{"section of 3000", `[` + section(3000) + `]`, "", ""},
		{"section of 3001", `[` + section(3001) + `]`, "invalid_blocks", "/blocks/0/text/text"},
		{"section of 1501 emoji counts UTF-16", `[{"type":"section","text":{"type":"plain_text","text":"` +
			strings.Repeat("😀", 1501) + `"}}]`, "invalid_blocks", "/blocks/0/text/text"},
		{"empty section", `[` + section(0) + `]`, "invalid_blocks", "/blocks/0/text/text"},
		{"section of nothing", `[{"type":"section"}]`, "invalid_blocks", "/blocks/0"},
		{"10 fields", `[{"type":"section","fields":` + repeated(10, func(int) string { return plain(1000) }) + `}]`, "", ""},
		{"11 fields", `[{"type":"section","fields":` + repeated(11, func(int) string { return plain(1) }) + `}]`,
			"invalid_blocks", "/blocks/0/fields"},
		{"field of 2001", `[{"type":"section","fields":[` + plain(2001) + `]}]`, "invalid_blocks", "/blocks/0/fields/0/text"},
		{"verbatim on plain_text", `[{"type":"section","text":{"type":"plain_text","text":"a","verbatim":true}}]`,
			"invalid_blocks", "/blocks/0/text"},
		{"emoji on mrkdwn", `[{"type":"section","text":{"type":"mrkdwn","text":"a","emoji":true}}]`, "invalid_blocks",
			"/blocks/0/text"},
		{"context of 10", `[{"type":"context","elements":` + repeated(10, func(int) string { return plain(1) }) + `}]`, "",
			""},
		{"context of 11", `[{"type":"context","elements":` + repeated(11, func(int) string { return plain(1) }) + `}]`,
			"invalid_blocks", "/blocks/0/elements"},
		{"actions of 25", `[{"type":"actions","elements":` + repeated(25, func(i int) string {
			return fmt.Sprintf(`{"type":"button","action_id":"a%d","text":%s}`, i, plain(1))
		}) + `}]`, "", ""},
		{"actions of 26", `[{"type":"actions","elements":` + repeated(26, func(i int) string {
			return fmt.Sprintf(`{"type":"button","action_id":"a%d","text":%s}`, i, plain(1))
		}) + `}]`, "invalid_blocks", "/blocks/0/elements"},
		{"actions of none", `[{"type":"actions","elements":[]}]`, "invalid_blocks", "/blocks/0/elements"},
		{"one action_id twice in a block", `[{"type":"actions","elements":[{"type":"button","action_id":"a","text":` +
			plain(1) + `},{"type":"button","action_id":"a","text":` + plain(1) + `}]}]`, "invalid_blocks",
			"/blocks/0/elements/1/action_id"},
		{"unknown element", `[{"type":"actions","elements":[{"type":"lever"}]}]`, "invalid_blocks",
			"/blocks/0/elements/0/type"},
		{"button text of 76", `[{"type":"actions","elements":[{"type":"button","text":` + plain(76) + `}]}]`,
			"invalid_blocks", "/blocks/0/elements/0/text/text"},
		{"value of 2000", `[` + button(`,"value":"`+long(2000)+`"`) + `]`, "", ""},
		{"value of 2001", `[` + button(`,"value":"`+long(2001)+`"`) + `]`, "invalid_blocks", "/blocks/0/elements/0/value"},
		{"url of 3001", `[` + button(`,"url":"https://example.com/`+long(3001)+`"`) + `]`, "invalid_blocks",
			"/blocks/0/elements/0/url"},
		{"style", `[` + button(`,"style":"success"`) + `]`, "invalid_blocks", "/blocks/0/elements/0/style"},
		{"accessibility_label of 76", `[` + button(`,"accessibility_label":"`+long(76)+`"`) + `]`, "invalid_blocks",
			"/blocks/0/elements/0/accessibility_label"},
		{"confirm at its limits", `[` + button(confirm(100, 300, 30, 30)) + `]`, "", ""},
		{"confirm's title of 101", `[` + button(confirm(101, 300, 30, 30)) + `]`, "invalid_blocks",
			"/blocks/0/elements/0/confirm/title/text"},
		{"confirm's text of 301", `[` + button(confirm(100, 301, 30, 30)) + `]`, "invalid_blocks",
			"/blocks/0/elements/0/confirm/text/text"},
		{"confirm's yes of 31", `[` + button(confirm(100, 300, 31, 30)) + `]`, "invalid_blocks",
			"/blocks/0/elements/0/confirm/confirm/text"},
		{"confirm's no of 31", `[` + button(confirm(100, 300, 30, 31)) + `]`, "invalid_blocks",
			"/blocks/0/elements/0/confirm/deny/text"},
		{"block_id of 255", `[{"type":"divider","block_id":"` + long(255) + `"}]`, "", ""},
		{"block_id of 256", `[{"type":"divider","block_id":"` + long(256) + `"}]`, "invalid_blocks", "/blocks/0/block_id"},
		{"one block_id twice", `[{"type":"divider","block_id":"a"},{"type":"divider","block_id":"a"}]`, "invalid_blocks",
			"/blocks/1/block_id"},
		{"action_id of 256", `[{"type":"actions","elements":[{"type":"button","action_id":"` + long(256) + `","text":` +
			plain(1) + `}]}]`, "invalid_blocks", "/blocks/0/elements/0/action_id"},
		{"markdown of 11991", `[{"type":"markdown","text":"` + long(11_991) + `"}]`, "", ""},
		{"markdown of 12001", `[{"type":"markdown","text":"` + long(12_001) + `"}]`, "invalid_blocks", "/blocks/0/text"},
		{"11999 characters of strings in all", `[` + section(3000) + `,` + section(3000) + `,` + section(3000) + `,` +
			section(2931) + `]`, "", ""},
		{"12000 characters of strings in all", `[` + section(3000) + `,` + section(3000) + `,` + section(3000) + `,` +
			section(2932) + `]`, "msg_blocks_too_long", ""},
		{"ids count", `[` + section(3000) + `,` + section(3000) + `,` + section(3000) + `,` + section(2900) +
			`,{"type":"divider","block_id":"` + long(100) + `"}]`, "msg_blocks_too_long", ""},
		{"the names of types count", `[` +
			strings.Repeat(`{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[`+
				strings.Repeat(`{"type":"text","text":"a"},`, 800)+`{"type":"text","text":"a"}]}]},`, 3) + section(10) + `]`,
			"msg_blocks_too_long", ""},
		{"rich text", `[{"type":"rich_text","elements":[{"type":"rich_text_preformatted","elements":[{"type":"text","text":"{}"}]},{"type":"rich_text_list","style":"bullet","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"a","style":{"bold":true}}]}]}]}]`, "", ""},
		{"rich text of a card", `[{"type":"rich_text","elements":[{"type":"rich_text_poem","elements":[]}]}]`,
			"invalid_blocks", "/blocks/0/elements/0/type"},
		{"image without alt_text", `[{"type":"image","image_url":"https://example.com/a.png"}]`, "invalid_blocks",
			"/blocks/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.Slack.Messages("approvals"))
			r := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"fallback"}, "blocks": {c.blocks}})
			if c.err == "" {
				if r["ok"] != true || len(w.Slack.Messages("approvals")) != before+1 {
					t.Fatalf("got %v, want it posted", r)
				}
				return
			}
			if r["ok"] != false || r["error"] != c.err {
				t.Fatalf("got %v, want %s", r, c.err)
			}
			meta, _ := r["response_metadata"].(map[string]any)
			if c.at != "" && !strings.Contains(fmt.Sprint(meta["messages"]), "[json-pointer:"+c.at+"]") {
				t.Errorf("messages %v, want one at %s", meta["messages"], c.at)
			}
			if len(w.Slack.Messages("approvals")) != before {
				t.Error("a refused message was posted")
			}
		})
	}
}

func TestSlackRefusesBadCalls(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) {
		c.Slack.Channels = []emulator.Channel{
			{ID: "C0APPROVALS", Name: "approvals", Members: []string{"hana"}}, {ID: "C0AWAY", Name: "away", BotAbsent: true},
			{ID: "C0OLD", Name: "old", IsArchived: true}, {ID: "C0SHARED", Name: "shared", IsExtShared: true},
		}
	})
	own := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"hello"}})["ts"].(string)
	ephemeral := w.slack("chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U02HANA"},
		"text": {"psst"}})["message_ts"].(string)
	if _, err := w.Slack.Mention(w.ctx(), "hana", "approvals", "pending", ""); err != nil {
		t.Fatal(err)
	}
	all := w.Slack.Messages("approvals")
	typed := all[len(all)-1].TS
	for _, c := range []struct {
		name, method string
		args         url.Values
		err          string
	}{
		{"no such method", "chat.shout", url.Values{}, "unknown_method"},
		{"wrong token", "auth.test", url.Values{"token": {"xoxb-wrong"}}, "invalid_auth"},
		{"no token", "auth.test", url.Values{"token": {""}}, "not_authed"},
		{"no such channel", "chat.postMessage", url.Values{"channel": {"C0NOWHERE"}, "text": {"a"}}, "channel_not_found"},
		{"a channel's name", "chat.postMessage", url.Values{"channel": {"approvals"}, "text": {"a"}}, "channel_not_found"},
		{"no such user", "chat.postMessage", url.Values{"channel": {"U0NOBODY"}, "text": {"a"}}, "channel_not_found"},
		{"not invited", "chat.postMessage", url.Values{"channel": {"C0AWAY"}, "text": {"a"}}, "not_in_channel"},
		{"archived", "chat.postMessage", url.Values{"channel": {"C0OLD"}, "text": {"a"}}, "is_archived"},
		{"nothing to say", "chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "blocks": {"[]"}}, "no_text"},
		{"101 attachments", "chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"},
			"attachments": {repeated(101, func(int) string { return "{}" })}}, "too_many_attachments"},
		{"metadata without a payload", "chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"},
			"metadata": {`{"event_type":"a"}`}}, "invalid_metadata_format"},
		{"metadata too large", "chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"},
			"metadata": {`{"event_type":"a","event_payload":{"a":"` + strings.Repeat("a", 17_000) + `"}}`}},
			"metadata_too_large"},
		{"no such thread", "chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"},
			"thread_ts": {"1.000001"}}, "thread_not_found"},
		{"update of nothing", "chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {"1.000001"}, "text": {"a"}},
			"message_not_found"},
		{"update by user id", "chat.update", url.Values{"channel": {"U02HANA"}, "ts": {own}, "text": {"a"}},
			"channel_not_found"},
		{"update of somebody else's", "chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {typed}, "text": {"a"}},
			"cant_update_message"},
		{"update of an ephemeral one", "chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {ephemeral},
			"text": {"a"}}, "cant_update_message"},
		{"update over 4000", "chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {own},
			"text": {strings.Repeat("a", 4001)}}, "msg_too_long"},
		{"update to nothing", "chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {own}}, "no_text"},
		{"ephemeral to an absent one", "chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U03BEN"},
			"text": {"a"}}, "user_not_in_channel"},
		{"no such user", "users.info", url.Values{"user": {"U0NOBODY"}}, "user_not_found"},
		{"no such channel", "conversations.info", url.Values{"channel": {"C0NOWHERE"}}, "channel_not_found"},
		{"direct messages with nobody", "conversations.open", url.Values{"users": {"U0NOBODY"}}, "user_not_found"},
		{"socket mode", "apps.connections.open", url.Values{}, "not_allowed_token_type"},
		{"modal without a trigger", "views.open", url.Values{"trigger_id": {"1.2.3"}, "view": {modal("")}},
			"invalid_trigger_id"},
		{"modal that is not open", "views.update", url.Values{"view_id": {"V0"}, "view": {modal("")}}, "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := w.slack(c.method, c.args); r["ok"] != false || r["error"] != c.err {
				t.Errorf("got %v, want %s", r, c.err)
			}
		})
	}
	if info := w.slack("conversations.info", url.Values{"channel": {"C0SHARED"}})["channel"].(map[string]any); info["is_ext_shared"] != true || info["is_member"] != true {
		t.Errorf("shared channel: %v", info)
	}
	if info := w.slack("conversations.info", url.Values{"channel": {"C0AWAY"}})["channel"].(map[string]any); info["is_member"] != false {
		t.Errorf("channel without the bot: %v", info)
	}
	if r := w.slack("auth.test", url.Values{}); r["team_id"] != w.Config().Slack.TeamID ||
		r["bot_id"] != w.Config().Slack.BotID {
		t.Errorf("auth.test: %v", r)
	}
	if r := w.slack("conversations.open", url.Values{"users": {"U02HANA"}})["channel"].(map[string]any); r["id"] != w.Slack.DM("hana") {
		t.Errorf("conversations.open: %v", r)
	}
}

func TestSlackTakesFormsAndJSON(t *testing.T) {
	t.Parallel()
	w := start(t)
	token := w.Config().Slack.BotToken
	for _, c := range []struct{ name, kind, body, auth, err string }{
		{"JSON", "application/json; charset=utf-8", `{"channel":"C0APPROVALS","text":"a","blocks":` + slackCard + `,"unfurl_links":false,"thread_ts":null}`, "Bearer " + token, ""},
		{"JSON with blocks as a string", "application/json", `{"channel":"C0APPROVALS","text":"a","blocks":"[{\"type\":\"divider\"}]"}`, "Bearer " + token, ""},
		{"form with a header", "application/x-www-form-urlencoded", "channel=C0APPROVALS&text=a", "Bearer " + token, ""},
		{"no content type", "", `{"channel":"C0APPROVALS","text":"a"}`, "Bearer " + token, "invalid_post_type"},
		{"text", "text/plain", "channel=C0APPROVALS&text=a", "Bearer " + token, "invalid_post_type"},
		{"broken JSON", "application/json", `{"channel":`, "Bearer " + token, "invalid_json"},
		{"broken form", "application/x-www-form-urlencoded", "a=%zz", "Bearer " + token, "invalid_form_data"},
		{"no token", "application/json", `{"channel":"C0APPROVALS","text":"a"}`, "", "not_authed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := w.do("POST", w.Slack.URL()+"chat.postMessage",
				map[string]string{"Content-Type": c.kind, "Authorization": c.auth}, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := r.json(t)["error"].(string)
			if r.status != 200 || got != c.err {
				t.Errorf("got %d %s, want error %q", r.status, r.body, c.err)
			}
		})
	}
	for _, call := range w.Calls() {
		if strings.Contains(string(call.Body)+fmt.Sprint(call.Header), token) {
			t.Errorf("call %d holds the token", call.Seq)
		}
	}
}

func TestSlackEditsKeepHistory(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.slack("chat.postMessage", url.Values{"channel": {"U02HANA"}, "text": {"one"}, "blocks": {slackCard}, "metadata": {`{"event_type":"card","event_payload":{"id":"1"}}`}})
	ts, channel := r["ts"].(string), r["channel"].(string)
	if channel != w.Slack.DM("hana") {
		t.Fatalf("channel %s, want the direct messages %s", channel, w.Slack.DM("hana"))
	}
	w.slack("chat.update", url.Values{"channel": {channel}, "ts": {ts}, "text": {"two"}, "blocks": {`[{"type":"divider"}]`}})
	w.slack("chat.update", url.Values{"channel": {channel}, "ts": {ts}, "text": {"three"}})
	m, ok := w.Slack.Message("hana", ts)
	if !ok || m.Text != "three" || m.Blocks != nil || m.Metadata == nil {
		t.Errorf("message %+v: want text three, no blocks, its metadata kept", m)
	}
	if len(m.Edits) != 2 || m.Edits[0].Text != "one" || string(m.Edits[0].Blocks) != slackCard || m.Edits[1].Text != "two" {
		t.Errorf("edits %+v", m.Edits)
	}
	if _, err := w.Slack.Tap(w.ctx(), "hana", "hana", ts, "approve", ""); err == nil {
		t.Error("a button that was edited away could be pressed")
	}
}

func TestSlackPostsTwiceUnlessToldToDedup(t *testing.T) {
	t.Parallel()
	w := start(t)
	post := func() map[string]any {
		return w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "client_msg_id": {"one"}})
	}
	if a, b := post(), post(); a["ts"] == b["ts"] || len(w.Slack.Messages("approvals")) != 2 {
		t.Errorf("%v, %v: want two messages", a, b)
	}
	w.Slack.SetDedup(true)
	if c := post(); c["is_duplicate"] != true || len(w.Slack.Messages("approvals")) != 2 {
		t.Errorf("with dedup: %v", c)
	}
}

func TestSlackCutsLongTextsAndNotesUnknownArguments(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {strings.Repeat("😀", 20_001)}, "chanel": {"typo"}})
	if m := w.Slack.Messages("approvals")[0]; m.Text != strings.Repeat("😀", 20_000) {
		t.Errorf("text of %d bytes, want it cut to 40,000 UTF-16 units", len(m.Text))
	}
	if v := w.Violations(); len(v) != 1 || v[0].Rule != "unknown_argument" || v[0].Detail != "chanel" {
		t.Errorf("violations: %v", v)
	}
}

// modal is a view with one input; more is added to it.
func modal(more string) string {
	return `{"type":"modal","callback_id":"deny","title":{"type":"plain_text","text":"Deny"},"submit":{"type":"plain_text","text":"Deny"},"private_metadata":"m","blocks":[{"type":"input","block_id":"reason","label":{"type":"plain_text","text":"Reason"},"element":{"type":"plain_text_input","action_id":"text"}}]` + more + `}`
}

func TestSlackModals(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
	trigger := func() string {
		d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "deny", "")
		if err != nil {
			t.Fatal(err)
		}
		return d.EventIDs[0]
	}
	open := func(trigger, view string) map[string]any {
		return w.slack("views.open", url.Values{"trigger_id": {trigger}, "view": {view}})
	}
	title := func(n int) string {
		return strings.Replace(modal(""), `"text":"Deny"},"submit"`, `"text":"`+strings.Repeat("a", n)+`"},"submit"`, 1)
	}
	for name, view := range map[string]string{
		"title of 25":                        title(25),
		"no submit for an input":             strings.Replace(modal(""), `"submit":{"type":"plain_text","text":"Deny"},`, "", 1),
		"private_metadata of 3001":           strings.Replace(modal(""), `"private_metadata":"m"`, `"private_metadata":"`+strings.Repeat("a", 3001)+`"`, 1),
		"unknown property":                   modal(`,"colour":"red"`),
		"not a modal":                        strings.Replace(modal(""), `"type":"modal"`, `"type":"dialog"`, 1),
		"101 blocks":                         strings.Replace(modal(""), `"blocks":[`, `"blocks":[`+strings.Repeat(`{"type":"divider"},`, 100), 1),
		"a block that is for messages alone": strings.Replace(modal(""), `"blocks":[`, `"blocks":[{"type":"markdown","text":"a"},`, 1),
	} {
		if r := open(trigger(), view); r["error"] != "invalid_arguments" {
			t.Errorf("%s: %v", name, r)
		}
	}
	if r := open(trigger(), modal(`,"external_id":"`+strings.Repeat("a", 250_000)+`"`)); r["error"] != "view_too_large" {
		t.Errorf("large view: %v", r["error"])
	}
	late := trigger()
	w.clock.Advance(3*time.Second + time.Millisecond)
	if r := open(late, modal("")); r["error"] != "expired_trigger_id" {
		t.Errorf("late: %v", r)
	}
	id := trigger()
	r := open(id, modal(`,"external_id":"one"`))
	if r["ok"] != true {
		t.Fatal(r)
	}
	if r := open(id, modal("")); r["error"] != "exchanged_trigger_id" {
		t.Errorf("one trigger twice: %v", r)
	}
	if r := open(trigger(), modal(`,"external_id":"one"`)); r["error"] != "duplicate_external_id" {
		t.Errorf("one external_id twice: %v", r)
	}
	view := r["view"].(map[string]any)
	if r := w.slack("views.update", url.Values{"view_id": {view["id"].(string)}, "hash": {"old"}, "view": {modal("")}}); r["error"] != "hash_conflict" {
		t.Errorf("stale hash: %v", r)
	}
	if r := w.slack("views.update", url.Values{"external_id": {"one"}, "hash": {view["hash"].(string)}, "view": {title(24)}}); r["ok"] != true {
		t.Errorf("update: %v", r)
	}

	w.setAnswer(`{"response_action":"errors","errors":{"reason":"Please give one."}}`)
	if d, err := w.Slack.Views.Submit(w.ctx(), "hana", "", nil); err != nil || !strings.Contains(string(d.Body), "Please give one.") {
		t.Fatalf("%+v %v", d, err)
	}
	if p := w.lastPayload(); encode(t, p["view"].(map[string]any)["state"]) != `{"values":{"reason":{"text":{"type":"plain_text_input","value":null}}}}` {
		t.Errorf("an empty field must come as null: %s", encode(t, p["view"]))
	}
	if v := lastView(w); !v.Open {
		t.Error("errors must keep the modal open")
	}
	w.setAnswer(`{"response_action":"update","view":{"type":"modal","title":{"type":"plain_text","text":"Too late"},"blocks":[]}}`)
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "", map[string]map[string]string{"reason": {"text": "wrong account"}}); err != nil {
		t.Fatal(err)
	}
	p := w.lastPayload()
	if p["type"] != "view_submission" || !strings.Contains(encode(t, p["view"]), `"value":"wrong account"`) || p["view"].(map[string]any)["private_metadata"] != "m" {
		t.Errorf("payload: %s", encode(t, p))
	}
	if v := lastView(w); !v.Open || !strings.Contains(string(v.JSON), "Too late") || v.Updates != 2 {
		t.Errorf("after an update: %+v", v)
	}
	w.setAnswer("")
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "", nil); err != nil {
		t.Fatal(err)
	}
	if lastView(w).Open {
		t.Error("an empty answer must close the modal")
	}

	open(trigger(), modal(""))
	open(trigger(), modal(`,"notify_on_close":true`))
	shown := 0
	for _, v := range w.Slack.Views.All() {
		if v.Open {
			shown++
		}
	}
	if shown != 1 {
		t.Errorf("%d modals are open, want 1", shown)
	}
	if _, err := w.Slack.Views.Close(w.ctx(), "hana", ""); err != nil {
		t.Fatal(err)
	}
	if p := w.lastPayload(); p["type"] != "view_closed" {
		t.Errorf("payload: %v", p["type"])
	}
}

func lastView(w *world) emulator.SlackView {
	views := w.Slack.Views.All()
	return views[len(views)-1]
}

func TestSlackResponseURLs(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
	ts := r["ts"].(string)
	hook := func() string {
		p, err := w.Slack.BlockActions("hana", "C0APPROVALS", ts, "approve", "")
		if err != nil {
			t.Fatal(err)
		}
		return p["response_url"].(string)
	}
	post := func(hook, body string) (int, string) {
		r, err := w.do("POST", hook, map[string]string{"Content-Type": "application/json"}, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return r.status, string(r.body)
	}
	target := hook()
	for i := range 6 {
		status, body := post(target, `{"text":"You may not decide this request."}`)
		if want := i < 5; (status == 200 && body == "ok") != want || !want && status != 404 {
			t.Errorf("use %d: %d %q", i+1, status, body)
		}
	}
	if m := w.Slack.Messages("approvals"); len(m) != 6 || m[1].Ephemeral != "U02HANA" || m[1].Via != "response_url" {
		t.Errorf("messages: %+v", m)
	}
	old := hook()
	w.clock.Advance(30*time.Minute + time.Second)
	if status, _ := post(old, `{"text":"a"}`); status != 404 {
		t.Errorf("after 30 minutes: %d", status)
	}
	if status, _ := post(old+"x", `{"text":"a"}`); status != 404 {
		t.Errorf("an unknown URL: %d", status)
	}
	if status, body := post(hook(), `{"text":"done","replace_original":true}`); status != 200 {
		t.Errorf("replace: %d %s", status, body)
	}
	if m, _ := w.Slack.Message("approvals", ts); m.Text != "done" || m.Blocks != nil || len(m.Edits) != 1 {
		t.Errorf("replaced: %+v", m)
	}
	if status, body := post(hook(), `{"blocks":[{"type":"poem"}]}`); status != 400 || !strings.Contains(body, "invalid_blocks") {
		t.Errorf("bad blocks: %d %s", status, body)
	}
	if status, _ := post(hook(), `{"delete_original":true}`); status != 200 {
		t.Errorf("delete: %d", status)
	}
	if m, _ := w.Slack.Message("approvals", ts); !m.Deleted {
		t.Error("not deleted")
	}
	if n := len(w.Slack.Responses()); n != 10 {
		t.Errorf("%d responses, want 10", n)
	}
}

func TestSlackStampsGrow(t *testing.T) {
	t.Parallel()
	w := start(t)
	var stamps []string
	for range 20 {
		stamps = append(stamps, w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}})["ts"].(string))
	}
	if !slices.IsSorted(stamps) || len(slices.Compact(slices.Clone(stamps))) != 20 {
		t.Errorf("stamps: %v", stamps)
	}
}
