package emulator_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"countersign/internal/emulator"
)

const slackHome = `{"type":"home","callback_id":"home","private_metadata":"m","blocks":[{"type":"section","block_id":"one","text":{"type":"plain_text","text":"delete_file"}},` +
	`{"type":"actions","block_id":"decide:1","elements":[{"type":"button","action_id":"approve","text":{"type":"plain_text","text":"Approve"},"value":"01"},` +
	`{"type":"button","action_id":"deny","text":{"type":"plain_text","text":"Deny"},"value":"01"}]}]}`

func (w *world) publish(user, view, hash string) map[string]any {
	w.t.Helper()
	args := url.Values{"user_id": {user}, "view": {view}}
	if hash != "" {
		args.Set("hash", hash)
	}
	return w.slack("views.publish", args)
}

func TestSlackHome(t *testing.T) {
	t.Parallel()
	w := start(t)
	if _, ok := w.Slack.Views.Home("hana"); ok {
		t.Error("a Home tab that was never published")
	}
	if _, err := w.Slack.Views.TapHome(w.ctx(), "hana", "approve", ""); err == nil {
		t.Error("a button of nothing was pressed")
	}
	if _, err := w.Slack.Views.OpenHome(w.ctx(), "hana"); err != nil {
		t.Fatal(err)
	}
	event := object(t, string(w.last().body))["event"].(map[string]any)
	if event["type"] != "app_home_opened" || event["user"] != "U02HANA" || event["channel"] != w.Slack.DM("hana") ||
		event["tab"] != "home" || event["event_ts"] == "" || event["view"] != nil {
		t.Errorf("event: %v", event)
	}

	r := w.publish("U02HANA", slackHome, "")
	view, _ := r["view"].(map[string]any)
	if r["ok"] != true || view["type"] != "home" || view["id"] == "" || view["root_view_id"] != view["id"] ||
		view["private_metadata"] != "m" {
		t.Fatalf("publish: %v", r)
	}
	home, ok := w.Slack.Views.Home("hana")
	if !ok || home.ID != view["id"] || !home.Home || string(home.JSON) != slackHome || home.Updates != 0 {
		t.Errorf("home: %+v", home)
	}
	if len(w.Slack.Views.All()) != 0 {
		t.Error("a Home tab is no modal")
	}
	if _, ok := w.Slack.Views.Home("ben"); ok {
		t.Error("ben sees hana's Home tab")
	}
	if _, err := w.Slack.Views.OpenHome(w.ctx(), "hana"); err != nil {
		t.Fatal(err)
	}
	shown, _ := object(t, string(w.last().body))["event"].(map[string]any)["view"].(map[string]any)
	if shown["id"] != home.ID || shown["hash"] != home.Hash || shown["callback_id"] != "home" {
		t.Errorf("the event's view: %v", shown)
	}

	d, err := w.Slack.Views.TapHome(w.ctx(), "hana", "deny", "")
	if err != nil || d.Status != 200 {
		t.Fatalf("%+v %v", d, err)
	}
	p := w.lastPayload()
	if p["type"] != "block_actions" || encode(t, p["container"]) != `{"type":"view","view_id":"`+home.ID+`"}` ||
		p["view"].(map[string]any)["id"] != home.ID {
		t.Errorf("payload: %v", p)
	}
	for _, name := range []string{"message", "channel", "response_url"} {
		if _, there := p[name]; there {
			t.Errorf("a press in a view has no %s: %v", name, p[name])
		}
	}
	action := p["actions"].([]any)[0].(map[string]any)
	if action["action_id"] != "deny" || action["value"] != "01" || action["block_id"] != "decide:1" {
		t.Errorf("action: %v", action)
	}
	if _, err := w.Slack.Views.TapHome(w.ctx(), "hana", "deny", "02"); err == nil {
		t.Error("a button with another value was pressed")
	}
	if r := w.slack("views.open", url.Values{"trigger_id": {d.EventIDs[0]}, "view": {modal("")}}); r["ok"] != true {
		t.Errorf("a modal over the Home tab: %v", r)
	}

	if r := w.publish("U02HANA", slackHome, "1.stale"); r["error"] != "hash_conflict" {
		t.Errorf("stale hash: %v", r)
	}
	if r := w.publish("U03BEN", slackHome, home.Hash); r["error"] != "hash_conflict" {
		t.Errorf("the hash of nothing: %v", r)
	}
	if r := w.publish("U02HANA", strings.Replace(slackHome, "delete_file", "send_mail", 1), home.Hash); r["ok"] != true ||
		r["view"].(map[string]any)["id"] != home.ID {
		t.Errorf("again: %v", r)
	}
	if now, _ := w.Slack.Views.Home("hana"); now.Hash == home.Hash || now.Updates != 1 ||
		!strings.Contains(string(now.JSON), "send_mail") {
		t.Errorf("home: %+v", now)
	}
	if r := w.slack("views.update", url.Values{"view_id": {home.ID}, "view": {slackHome}}); r["ok"] != true {
		t.Errorf("views.update: %v", r)
	}
}

func TestSlackHomeRefuses(t *testing.T) {
	t.Parallel()
	w := start(t)
	blocks := func(n int) string {
		return `{"type":"home","blocks":` + repeated(n, func(int) string { return `{"type":"divider"}` }) + `}`
	}
	for _, c := range []struct{ name, user, view, want string }{
		{"100 blocks", "U02HANA", blocks(100), ""},
		{"101 blocks", "U02HANA", blocks(101), "invalid_arguments"},
		{"a modal", "U02HANA", modal(""), "invalid_arguments"},
		{"a title", "U02HANA", `{"type":"home","title":{"type":"plain_text","text":"a"},"blocks":[]}`, "invalid_arguments"},
		{"no blocks", "U02HANA", `{"type":"home"}`, "invalid_arguments"},
		{"a block for messages alone", "U02HANA", `{"type":"home","blocks":[{"type":"markdown","text":"a"}]}`,
			"invalid_arguments"},
		{"over 250 kB", "U02HANA", `{"type":"home","blocks":[],"private_metadata":"` + strings.Repeat("a", 250_000) + `"}`,
			"view_too_large"},
		{"nobody", "U0NOBODY", slackHome, "invalid_arguments"},
		{"no user", "", slackHome, "invalid_arguments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.publish(c.user, c.view, "")
			if code, _ := r["error"].(string); code != c.want {
				t.Errorf("got %v, want error %q", r, c.want)
			}
		})
	}
	off := start(t, func(c *emulator.Config) { c.Slack.HomeOff = true })
	if r := off.publish("U02HANA", slackHome, ""); r["error"] != "not_enabled" {
		t.Errorf("switched off: %v", r)
	}
	if _, err := off.Slack.Views.OpenHome(off.ctx(), "hana"); err == nil {
		t.Error("a Home tab that is switched off was opened")
	}
}

func TestSlackModalsLieOnOneAnother(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.card()
	tap, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "deny", "")
	if err != nil {
		t.Fatal(err)
	}
	trigger := tap.EventIDs[0]
	titled := func(title string) string {
		return `{"type":"modal","title":{"type":"plain_text","text":"` + title +
			`"},"blocks":[{"type":"actions","elements":[{"type":"button","action_id":"more","text":{"type":"plain_text","text":"More"}}]}]}`
	}
	push := func(trigger, title string) map[string]any {
		t.Helper()
		return w.slack("views.push", url.Values{"trigger_id": {trigger}, "view": {titled(title)}})
	}
	if r := push(trigger, "nowhere"); r["error"] != "invalid_trigger_id" {
		t.Errorf("pushed onto nothing: %v", r)
	}
	if r := w.slack("views.open", url.Values{"trigger_id": {trigger}, "view": {titled("one")}}); r["ok"] != true {
		t.Fatal(r)
	}
	more := func() string {
		t.Helper()
		d, err := w.Slack.Views.Tap(w.ctx(), "hana", "more", "")
		if err != nil {
			t.Fatal(err)
		}
		return d.EventIDs[0]
	}
	one, _ := w.Slack.Views.Top("hana")
	r := push(more(), "two")
	two, _ := w.Slack.Views.Top("hana")
	view, _ := r["view"].(map[string]any)
	if r["ok"] != true || two.ID != view["id"] || two.Previous != one.ID || view["previous_view_id"] != one.ID ||
		view["root_view_id"] != one.ID {
		t.Fatalf("push: %v, %+v", r, two)
	}
	if r := push(more(), "three"); r["ok"] != true || r["view"].(map[string]any)["root_view_id"] != one.ID {
		t.Fatal(r)
	}
	if r := push(more(), "four"); r["error"] != "push_limit_reached" {
		t.Errorf("a fourth: %v", r)
	}
	if _, err := w.Slack.Views.Close(w.ctx(), "hana", ""); err != nil {
		t.Fatal(err)
	}
	if now, _ := w.Slack.Views.Top("hana"); now.ID != two.ID {
		t.Errorf("under the third lies %+v", now)
	}
	w.setAnswer(`{"response_action":"push","view":` + titled("again three") + `}`)
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "", nil); err != nil {
		t.Fatal(err)
	}
	if now, _ := w.Slack.Views.Top("hana"); now.Previous != two.ID || !strings.Contains(string(now.JSON), "again three") {
		t.Errorf("pushed by an answer: %+v", now)
	}
	w.setAnswer(`{"response_action":"clear"}`)
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "", nil); err != nil {
		t.Fatal(err)
	}
	if now, open := w.Slack.Views.Top("hana"); open {
		t.Errorf("not cleared: %+v", now)
	}
}

func TestSlackModalsShowErrors(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.card()
	open := func(view string) {
		t.Helper()
		d, err := w.Slack.Tap(w.ctx(), "hana", "approvals", "", "deny", "")
		if err != nil {
			t.Fatal(err)
		}
		if r := w.slack("views.open", url.Values{"trigger_id": {d.EventIDs[0]}, "view": {view}}); r["ok"] != true {
			t.Fatal(r)
		}
	}
	go func() {
		open(strings.Replace(modal(""), `"action_id":"text"`, `"action_id":"text","initial_value":"Wrong account"`, 1))
	}()
	if v, err := w.Slack.Views.Wait(w.ctx(), "hana"); err != nil || v.User != "U02HANA" {
		t.Fatalf("%+v %v", v, err)
	}
	w.setAnswer(`{"response_action":"errors","errors":{"reason":"Please say more."}}`)
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "", nil); err != nil {
		t.Fatal(err)
	}
	if v, _ := w.Slack.Views.Top("hana"); v.Errors["reason"] != "Please say more." {
		t.Errorf("%+v", v)
	}
	if p := w.lastPayload(); !strings.Contains(encode(t, p["view"].(map[string]any)["state"]), `"value":"Wrong account"`) {
		t.Errorf("a field that was left alone: %s", encode(t, p["view"]))
	}
	if v := w.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
	w.setAnswer(`{"response_action":"errors","errors":{"other":"Please say more."}}`)
	if _, err := w.Slack.Views.Submit(w.ctx(), "hana", "",
		map[string]map[string]string{"reason": {"text": ""}}); err != nil {
		t.Fatal(err)
	}
	if p := w.lastPayload(); !strings.Contains(encode(t, p["view"].(map[string]any)["state"]), `"value":null`) {
		t.Errorf("a field that was emptied: %s", encode(t, p["view"]))
	}
	if got := w.rules(); !slices.Equal(got, []string{"schema"}) {
		t.Errorf("an error for a block that is not there: %v", got)
	}
	open(modal(`,"notify_on_close":true,"clear_on_close":true`))
	if _, err := w.Slack.Views.Close(w.ctx(), "hana", ""); err != nil {
		t.Fatal(err)
	}
	if p := w.lastPayload(); p["type"] != "view_closed" || p["is_cleared"] != true {
		t.Errorf("payload: %v", p)
	}
}

func TestSlackAsksForScopes(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) {
		c.Slack.Scopes, c.Slack.AppScopes = []string{"chat:write", "channels:read"}, []string{}
		c.Slack.Channels = []emulator.Channel{{ID: "C0APPROVALS", Name: "approvals"}, {ID: "C0PRIVATE", Name: "private",
			IsPrivate: true}}
	})
	for _, c := range []struct {
		method string
		args   url.Values
		needed string // empty: granted
	}{
		{"auth.test", url.Values{}, ""},
		{"chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}}, ""},
		{"conversations.info", url.Values{"channel": {"C0APPROVALS"}}, ""},
		{"conversations.info", url.Values{"channel": {"C0PRIVATE"}}, "groups:read"},
		{"conversations.info", url.Values{"channel": {w.Slack.DM("hana")}}, "im:read"},
		{"conversations.history", url.Values{"channel": {"C0APPROVALS"}}, "channels:history"},
		{"conversations.open", url.Values{"users": {"U02HANA"}}, "im:write"},
		{"users.info", url.Values{"user": {"U02HANA"}}, "users:read"},
	} {
		r := w.slack(c.method, c.args)
		if c.needed == "" && r["ok"] != true {
			t.Errorf("%s %v: %v", c.method, c.args, r)
		}
		if c.needed != "" && (r["error"] != "missing_scope" || r["needed"] != c.needed ||
			r["provided"] != "chat:write,channels:read") {
			t.Errorf("%s %v: %v, want %s missing", c.method, c.args, r, c.needed)
		}
	}
	auth := map[string]string{"Authorization": "Bearer " + w.Config().Slack.BotToken}
	r, err := w.do("POST", w.Slack.URL()+"users.info", auth, nil)
	if err != nil || r.header.Get("X-OAuth-Scopes") != "chat:write,channels:read" ||
		r.header.Get("X-Accepted-OAuth-Scopes") != "users:read" {
		t.Errorf("header: %v %v", r.header, err)
	}
	auth["Authorization"] = "Bearer " + w.Config().Slack.AppToken
	if r, err := w.do("POST", w.Slack.URL()+"apps.connections.open", auth, nil); err != nil ||
		r.json(t)["needed"] != "connections:write" {
		t.Errorf("the app's token: %s %v", r.body, err)
	}
	// What the app may not hear, it is not told.
	if _, err := w.Slack.Type(w.ctx(), "hana", "pending", ""); err == nil || !strings.Contains(err.Error(), "im:history") {
		t.Errorf("a direct message: %v", err)
	}
	if _, err := w.Slack.Mention(w.ctx(), "hana", "approvals", "pending", ""); err == nil || !strings.Contains(err.Error(),
		"app_mentions:read") {
		t.Errorf("a mention: %v", err)
	}
	if _, err := w.Slack.Slash(w.ctx(), "hana", "approvals", "/countersign", ""); err == nil ||
		!strings.Contains(err.Error(), "commands") {
		t.Errorf("a command: %v", err)
	}
	if len(w.hooked()) != 0 {
		t.Error("the app was told")
	}
}

func TestSlackChannelsChange(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) {
		c.Slack.Channels = []emulator.Channel{{ID: "C0A", Name: "a", BotAbsent: true}, {ID: "C0B", Name: "b", BotAbsent: true,
			IsPrivate: true}}
	})
	post := func(channel string) any {
		return w.slack("chat.postMessage", url.Values{"channel": {channel}, "text": {"a"}})["error"]
	}
	change := func(channel string, f func(*emulator.Channel)) {
		t.Helper()
		if err := w.Slack.ChangeChannel(channel, f); err != nil {
			t.Fatal(err)
		}
	}
	if got := post("C0A"); got != "not_in_channel" {
		t.Errorf("not invited: %v", got)
	}
	if got := post("C0B"); got != "channel_not_found" {
		t.Errorf("private and not invited: %v", got)
	}
	change("b", func(c *emulator.Channel) { c.BotAbsent, c.IsExtShared, c.ID = false, true, "C0OTHER" })
	info, _ := w.slack("conversations.info", url.Values{"channel": {"C0B"}})["channel"].(map[string]any)
	if info["is_member"] != true || info["is_private"] != true || info["is_ext_shared"] != true ||
		info["is_archived"] != false {
		t.Errorf("info: %v", info)
	}
	if got := post("C0B"); got != nil {
		t.Errorf("invited: %v", got)
	}
	change("C0B", func(c *emulator.Channel) { c.IsArchived = true })
	if got := post("C0B"); got != "is_archived" {
		t.Errorf("archived: %v", got)
	}
	if w.Slack.ChangeChannel("nowhere", func(*emulator.Channel) {}) == nil || w.Slack.ChangeChannel("hana",
		func(*emulator.Channel) {}) == nil {
		t.Error("what is no channel was changed")
	}
	public := start(t, func(c *emulator.Config) {
		c.Slack.Scopes = []string{"chat:write", "chat:write.public"}
		c.Slack.Channels = []emulator.Channel{{ID: "C0A", Name: "a", BotAbsent: true}}
	})
	if r := public.slack("chat.postMessage", url.Values{"channel": {"C0A"}, "text": {"a"}}); r["ok"] != true {
		t.Errorf("chat:write.public: %v", r)
	}
}

func TestSlackHistory(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) { c.Slack.Scopes = []string{"chat:write", "channels:history", "im:history"} })
	var stamps []string
	for _, text := range []string{"one", "two", "three"} {
		r := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {text},
			"metadata": {`{"event_type":"card","event_payload":{"id":"` + text + `"}}`}})
		stamps = append(stamps, r["ts"].(string))
	}
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a reply"}, "thread_ts": {stamps[0]}})
	w.slack("chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U02HANA"}, "text": {"psst"}})
	history := func(more url.Values) (texts []string, answer map[string]any) {
		t.Helper()
		args := url.Values{"channel": {"C0APPROVALS"}}
		for name, value := range more {
			args[name] = value
		}
		answer = w.slack("conversations.history", args)
		messages, _ := answer["messages"].([]any)
		for _, m := range messages {
			texts = append(texts, m.(map[string]any)["text"].(string))
		}
		return texts, answer
	}
	got, answer := history(url.Values{"include_all_metadata": {"true"}})
	if !slices.Equal(got, []string{"three", "two", "one"}) || answer["has_more"] != false {
		t.Errorf("all: %v", answer)
	}
	if first := answer["messages"].([]any)[0].(map[string]any); encode(t,
		first["metadata"]) != `{"event_payload":{"id":"three"},"event_type":"card"}` {
		t.Errorf("metadata: %v", first)
	}
	if _, answer := history(nil); strings.Contains(encode(t, answer), "event_payload") {
		t.Errorf("metadata that was not asked for: %v", answer)
	}
	if got, _ := history(url.Values{"oldest": {stamps[0]}, "latest": {stamps[2]}}); !slices.Equal(got, []string{"two"}) {
		t.Errorf("between: %v", got)
	}
	if got, _ := history(url.Values{"oldest": {stamps[1]}, "inclusive": {"true"}}); !slices.Equal(got,
		[]string{"three", "two"}) {
		t.Errorf("from, inclusive: %v", got)
	}
	got, answer = history(url.Values{"limit": {"2"}})
	next := answer["response_metadata"].(map[string]any)["next_cursor"].(string)
	if !slices.Equal(got, []string{"three", "two"}) || answer["has_more"] != true {
		t.Errorf("the first page: %v", answer)
	}
	if got, _ := history(url.Values{"limit": {"2"}, "cursor": {next}}); !slices.Equal(got, []string{"one"}) {
		t.Errorf("the second page: %v", got)
	}
	for name, bad := range map[string]url.Values{"limit": {"limit": {"0"}}, "cursor": {"cursor": {"mine"}},
		"channel": {"channel": {"C0NOWHERE"}}} {
		if _, answer := history(bad); answer["ok"] != false {
			t.Errorf("a bad %s: %v", name, answer)
		}
	}
}
