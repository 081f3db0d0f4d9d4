package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

// denySlack presses Deny on a Slack card and fills in the dialog that opens.
func (w *world) denySlack(person, id, reason string) {
	w.t.Helper()
	w.tapSlack(person, id, "deny")
	d := w.ok(w.chat.Slack.Views.Submit(w.ctx, person, "", typedReason(reason)))
	if len(d.Body) != 0 {
		w.t.Fatalf("the dialog is not closed: %s", d.Body)
	}
}

// typedReason is what a dialog's field holds.
func typedReason(reason string) map[string]map[string]string {
	return map[string]map[string]string{"reason": {"reason_text": reason}}
}

// dialogueConfig is how the program is configured in a dialogue; PEOPLE and CHANNELS differ.
const dialogueConfig = `
listen: 127.0.0.1:0
store: sqlite:${STORE}
time_zone: UTC
limits: none
agents:
  - {name: bot, token: "${AGENT_TOKEN}"}
people:
PEOPLE
channels:
CHANNELS
notifications: {max_retries: 3, first_retry: 1s, max_backoff: 2s}
heartbeat: []                              # it goes by the machine's clock, and would come in between
policy:
  rules:
    - {name: closing, tools: [close_books], risk: critical, message: A closed month cannot be opened again}
    - {name: transfers, tools: [transfer_credits], risk: high, message: Transfer exceeds the confirmation threshold ($10)}
    - {name: reopening, tools: [reopen_books], risk: high, require_reason: true, message: A reopened month is audited again}
    - {name: mails, tools: [send_mail], risk: high, allow_skip: true, message: Mail cannot be taken back}
    - {name: wiping, tools: [wipe_disk], risk: high, message: Nothing brings a wiped disk back, confirm: true}
`

// twoPeople is one more rule where there are two people who decide.
const twoPeople = `
    - {name: payouts, tools: [pay_out], risk: high, message: Payouts take two people, approvals: [{count: 2}]}
`

// What a dialogue's program is configured with.
const (
	peopleLINE = `
  - {name: hana, roles: [approver, admin], line: ` + hanaLINE + `, token: "${HANA_TOKEN}"}`
	channelsLINE = `
  line: {channel_secret: "${LINE_SECRET}", channel_access_token: "${LINE_TOKEN}", notify: [hana], api_url: "${LINE_API}"}`
	peopleSlack = `
  - {name: hana, roles: [approver, admin], slack: U02HANA, token: "${HANA_TOKEN}"}
  - {name: ken, roles: [approver], slack: U03KEN, token: "${KEN_TOKEN}"}
  - {name: mai, slack: U04MAI}`
	channelsSlack = `
  slack: {bot_token: "${SLACK_TOKEN}", signing_secret: "${SLACK_SECRET}", channel: C0APPROVALS, api_url: "${SLACK_API}"}`
	channelsSocket = `
  slack: {bot_token: "${SLACK_TOKEN}", app_token: "${SLACK_APP_TOKEN}", channel: C0APPROVALS, api_url: "${SLACK_API}"}`
)

// dialogue is the program, its agent and its people, and the transcript of what they say to each other.
// Time stands still unless it is told to go on, so that every answer is the same each time.
type dialogue struct {
	*world
	mu     sync.Mutex
	at     time.Time
	b      strings.Builder
	names  map[string]string // of ids, in the order in which they come up
	grants []string          // the ends of grants' ids
	heard  map[string]int    // how many messages of each chat are in the transcript
	edited map[string]int    // and how many edits of each message
}

// startDialogue starts the program. title is what the transcript opens with.
func startDialogue(t *testing.T, title, people, channels string) *dialogue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	d := &dialogue{at: time.Date(2026, 11, 21, 10, 40, 0, 0, time.UTC), names: map[string]string{},
		heard: map[string]int{}, edited: map[string]int{}}
	env := map[string]string{"SLACK_APP_TOKEN": "xapp-test-app-level-token"}
	for k, v := range secrets {
		env[k] = v
	}
	d.world = &world{t: t, ctx: ctx, dir: t.TempDir(), log: &testkit.Buffer{}, env: env, now: d.clock}
	chat, err := emulator.New(emulator.Config{
		Now: d.clock,
		LINE: emulator.LINEConfig{ChannelSecret: env["LINE_SECRET"], ChannelAccessToken: env["LINE_TOKEN"],
			BotUserID: botLINE},
		Slack: emulator.SlackConfig{BotToken: env["SLACK_TOKEN"], SigningSecret: env["SLACK_SECRET"],
			AppToken: env["SLACK_APP_TOKEN"], TeamID: "T0TEAM", AppID: "A0APP",
			BotID: "B0BOT", BotUserID: "U0BOT", Channels: []emulator.Channel{{ID: "C0APPROVALS", Name: "approvals"}}},
		People: []emulator.Person{
			{Name: "hana", LINE: hanaLINE, Slack: "U02HANA"}, {Name: "ken", Slack: "U03KEN"}, {Name: "mai", Slack: "U04MAI"},
			{Name: "noi", LINE: strangerID, Slack: "U0STRANGER", Stranger: true},
			{Name: "rex", Slack: "U03KEN0", SlackTeam: "T0OTHER", Stranger: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	d.chat = chat
	t.Cleanup(func() { chat.Close() })
	env["STORE"], env["LINE_API"], env["SLACK_API"] = filepath.Join(d.dir, "gate.db"), chat.LINE.URL(), chat.Slack.URL()
	schematest.WriteFile(t, filepath.Join(d.dir, "gate.db"))
	d.path = filepath.Join(d.dir, "countersign.yaml")
	text := strings.NewReplacer("\nPEOPLE", people, "\nCHANNELS", channels).Replace(dialogueConfig)
	if people == peopleSlack {
		text += twoPeople
	}
	if err := os.WriteFile(d.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("so far:\n%s\nlog:\n%s", d.b.String(), d.log)
		}
		for name, s := range env {
			if strings.Contains(name, "TOKEN") && strings.Contains(d.log.String()+d.b.String(), s) {
				t.Errorf("the log or the transcript shows %s", name)
			}
		}
		if v := chat.Violations(); len(v) != 0 {
			t.Errorf("the platforms' rules were broken: %v", v)
		}
	})
	d.start()
	d.b.WriteString(title + "\n")
	return d
}

func (d *dialogue) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// moment is longer than calls of one turn wait for each other, and than a clock is set by in small steps.
const moment = 5 * time.Second

// later lets time pass. What is due by then ends before anybody does anything else: who is first would be chance.
func (d *dialogue) later(by time.Duration, what string) {
	d.t.Helper()
	d.mu.Lock()
	d.at = d.at.Add(by)
	at := d.at
	d.mu.Unlock()
	fmt.Fprintf(&d.b, "\n(%s)\n", what)
	d.eventually("what is due has ended", func() bool {
		page, err := d.hana.Approvals(d.ctx, client.ApprovalQuery{})
		if err != nil {
			d.t.Fatal(err)
		}
		return !slices.ContainsFunc(page.Items, func(a client.Approval) bool {
			return a.Status == "pending" && !a.ExpiresAt.After(at) ||
				a.Status == "approved" && a.ConsumedAt.IsZero() && a.LapsedAt.IsZero() && !a.UseBy.After(at)
		})
	})
}

var ulid = regexp.MustCompile(`(?i)\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

// named gives ids names that are the same each time, and their ends too.
func (d *dialogue) named(s string) string {
	s = d.namedWhole(s)
	for id, name := range d.names {
		s = strings.ReplaceAll(s, id[len(id)-approval.ShortID:], "<end of "+name[1:])
	}
	if m := revoking.FindStringSubmatch(s); m != nil && !slices.Contains(d.grants, m[1]) {
		d.grants = append(d.grants, m[1])
	}
	for n, end := range d.grants {
		s = strings.ReplaceAll(s, end, fmt.Sprintf("<end of GRANT %d>", n+1))
	}
	return s
}

// revoking matches the end of a grant's id, which is all that people are told of it.
var revoking = regexp.MustCompile(`revoke ([0-9A-HJKMNP-TV-Z]{6})\b`)

func (d *dialogue) namedWhole(s string) string {
	return ulid.ReplaceAllStringFunc(s, func(id string) string {
		upper := strings.ToUpper(id)
		if d.names[upper] == "" {
			d.names[upper] = fmt.Sprintf("<ID %d>", len(d.names)+1)
		}
		if id != upper {
			return strings.ToLower(d.names[upper])
		}
		return d.names[upper]
	})
}

// tell writes what somebody does or is told; what has several lines stands under it.
func (d *dialogue) tell(who, what string) {
	lines := strings.Split(strings.TrimRight(d.named(what), "\n"), "\n")
	fmt.Fprintf(&d.b, "%-6s %s\n", who, strings.Join(lines, "\n       "))
}

// act begins what somebody does, apart from what was before.
func (d *dialogue) act(who, what string) {
	d.b.WriteString("\n")
	d.tell(who, what)
}

// calls has the agent ask for a call, and returns the request's id.
func (d *dialogue) calls(c client.Call) string {
	d.t.Helper()
	d.act("agent", fmt.Sprintf("calls %s(%s)", c.Tool, c.Args))
	a := d.call(c)
	d.tell("  gate", a.Message)
	return a.ApprovalID
}

// turn has the agent make calls of one turn, and returns their requests' ids.
func (d *dialogue) turn(turn string, calls ...client.Call) (ids []string) {
	d.t.Helper()
	for _, c := range calls {
		c.SessionID, c.TurnID = "session", turn
		ids = append(ids, d.calls(c))
	}
	return ids
}

// hearsBack has the agent look at what became of its calls: what a model reads, word for word.
func (d *dialogue) hearsBack(n int) {
	d.t.Helper()
	d.act("agent", "looks at what became of its calls")
	var ids []string
	for len(ids) < n {
		news, err := d.bot.Resolved(d.ctx, "", 10*time.Second)
		if err != nil || len(news) == 0 {
			d.t.Fatalf("%d of %d endings, %v", len(ids), n, err)
		}
		for _, r := range news {
			d.tell("  gate", r.Message)
			ids = append(ids, r.ID)
		}
		if _, err := d.bot.Ack(d.ctx, ids...); err != nil {
			d.t.Fatal(err)
		}
	}
}

// line waits for the next n messages of the bot to somebody in LINE.
func (d *dialogue) line(person string, n int) []emulator.LINEMessage {
	d.t.Helper()
	sent, err := d.chat.LINE.Wait(d.ctx, person, d.heard["line/"+person]+n)
	if err != nil {
		d.t.Fatalf("%s was not told %d more messages in LINE", person, n)
	}
	sent = sent[d.heard["line/"+person]:][:n]
	d.heard["line/"+person] += n
	for _, m := range sent {
		said := m.Text
		if buttons := labels(m.JSON); buttons != "" {
			said = "[card] " + m.Text + "\n" + buttons
		}
		for _, q := range m.QuickReplies {
			said += "\n(" + q.Label + ")"
		}
		d.tell("  bot", m.Via+" to "+person+": "+said)
	}
	return sent
}

// slack waits for the next n messages in a Slack channel, or in somebody's direct messages with the bot.
func (d *dialogue) slack(channel string, n int) []emulator.SlackMessage {
	d.t.Helper()
	var sent []emulator.SlackMessage
	if err := d.chat.WaitFor(d.ctx, func() bool {
		sent = nil
		for _, m := range d.chat.Slack.Messages(channel) {
			if m.FromBot {
				sent = append(sent, m)
			}
		}
		return len(sent) >= d.heard[channel]+n
	}); err != nil {
		d.t.Fatalf("%d more messages did not come to %s", n, channel)
	}
	sent = sent[d.heard[channel]:][:n]
	d.heard[channel] += n
	for _, m := range sent {
		where := "in #approvals"
		switch {
		case m.Ephemeral != "":
			where = "to " + d.who(m.Ephemeral) + " alone"
		case channel != "C0APPROVALS":
			where = "in direct messages"
		}
		d.tell("  bot", where+": "+message(m.Text, m.Blocks))
	}
	return sent
}

// edit waits until a Slack message says something else.
func (d *dialogue) edit(m emulator.SlackMessage) {
	d.t.Helper()
	key := m.Channel + m.TS
	var now emulator.SlackMessage
	if err := d.chat.WaitFor(d.ctx, func() bool {
		now, _ = d.chat.Slack.Message(m.Channel, m.TS)
		return len(now.Edits) > d.edited[key]
	}); err != nil {
		d.t.Fatal("the card was not edited")
	}
	d.settled() // it may be edited for each request that it shows
	now, _ = d.chat.Slack.Message(m.Channel, m.TS)
	d.edited[key] = len(now.Edits)
	d.tell("  bot", "edits the card: "+message(now.Text, now.Blocks))
}

// dialog tells what somebody sees of a dialog or their Home tab.
func (d *dialogue) dialog(person string) {
	d.t.Helper()
	v, open := d.chat.Slack.Views.Top(person)
	if !open {
		d.tell("  "+person, "sees no dialog")
		return
	}
	d.tell("  bot", "shows "+person+" a dialog: "+view(v))
}

// home waits until somebody's Home tab is as want says, and tells it.
func (d *dialogue) home(person string, want func(text string) bool) {
	d.t.Helper()
	var text string
	if err := d.chat.WaitFor(d.ctx, func() bool {
		v, ok := d.chat.Slack.Views.Home(person)
		text = view(v)
		return ok && want(text)
	}); err != nil {
		d.t.Fatalf("the Home tab stays\n%s", text)
	}
	d.tell("  bot", "shows "+person+" on the Home tab: "+text)
}

func (d *dialogue) who(id string) string {
	return map[string]string{"U02HANA": "hana", "U03KEN": "ken", "U04MAI": "mai", "U0STRANGER": "noi",
		"U03KEN0": "rex"}[id]
}

// settled waits until whatever there is to send is sent.
func (d *dialogue) settled() {
	d.t.Helper()
	d.eventually("everything is sent", func() bool {
		return !slices.ContainsFunc(d.notifications(client.NotificationQuery{}), func(n client.Notification) bool {
			return n.Status == "queued" || n.Status == "retrying"
		})
	})
}

// receipted waits until of every message that has come its id is stored, by which it can be quoted.
func (d *dialogue) receipted() {
	d.t.Helper()
	d.eventually("every receipt is stored", func() bool {
		return !slices.ContainsFunc(d.notifications(client.NotificationQuery{}), func(n client.Notification) bool {
			return n.Status == "queued" && n.Attempt > 0
		})
	})
}

// done compares the transcript with the one that was approved. What is on record of it stands at its end.
func (d *dialogue) done(name string) {
	d.t.Helper()
	d.settled()
	d.b.WriteString("\non record\n")
	p, err := d.hana.Audit(d.ctx, client.AuditQuery{Limit: 200})
	if err != nil {
		d.t.Fatal(err)
	}
	slices.Reverse(p.Items)
	for _, e := range p.Items {
		if !strings.HasPrefix(e.EventType, "notification_") && e.EventType != "approval_acked" &&
			e.EventType != "policy_reloaded" {
			d.tell("", strings.Join(strings.Fields(strings.Join([]string{e.EventType, e.Actor, e.Decision, quoted(e.Reason)},
				" ")), " "))
		}
	}
	for chat, n := range d.heard {
		if person, ok := strings.CutPrefix(chat, "line/"); ok {
			if sent, err := d.chat.LINE.Wait(d.ctx, person, n); err != nil || len(sent) != n {
				d.t.Errorf("%d messages to %s are in the transcript, of %d", n, person, len(sent))
			}
			continue
		}
		sent := slices.DeleteFunc(d.chat.Slack.Messages(chat), func(m emulator.SlackMessage) bool { return !m.FromBot })
		if len(sent) != n {
			d.t.Errorf("%d messages in %s are in the transcript, of %d", n, chat, len(sent))
		}
	}
	testkit.Golden(d.t, filepath.Join("testdata", "dialogues", name+".txt"), []byte(d.b.String()))
}

func quoted(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf("%q", reason)
}

// message is a Slack message as it is read: its text, and its buttons.
func message(text string, blocks json.RawMessage) string {
	if buttons := labels(blocks); buttons != "" {
		text = "[card] " + text + "\n" + buttons
	}
	return plain.Replace(text)
}

// plain undoes Slack's escaping.
var plain = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

// view is a dialog or a Home tab as it is read.
func view(v emulator.SlackView) string {
	lines := words(v.JSON)
	for block, text := range v.Errors {
		lines = append(lines, "! "+block+": "+text)
	}
	return plain.Replace(strings.Join(lines, "\n"))
}

// words gathers the texts of a view in reading order: its title and buttons, then what its blocks say.
func words(raw json.RawMessage) []string {
	var v struct {
		Title, Submit, Close *struct{ Text string }
		Blocks               []json.RawMessage
	}
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	var lines []string
	if v.Title != nil {
		lines = append(lines, v.Title.Text)
	}
	for _, b := range v.Blocks {
		var block any
		if json.Unmarshal(b, &block) == nil {
			if s := strings.TrimSpace(read(block)); s != "" {
				lines = append(lines, s)
			}
		}
	}
	var buttons []string
	for _, b := range []*struct{ Text string }{v.Submit, v.Close} {
		if b != nil {
			buttons = append(buttons, "["+b.Text+"]")
		}
	}
	if buttons != nil {
		lines = append(lines, strings.Join(buttons, " "))
	}
	return lines
}

// read is the text of a block.
func read(v any) string {
	switch v := v.(type) {
	case []any:
		var s strings.Builder
		for _, item := range v {
			s.WriteString(read(item))
		}
		return s.String()
	case map[string]any:
		switch v["type"] {
		case "button":
			return "[" + read(v["text"]) + "] "
		case "input":
			return read(v["label"]) + ": ____ (" + read(v["hint"]) + ")"
		case "divider":
			return "---"
		}
		if s, ok := v["text"].(string); ok {
			return s
		}
		var s string
		for _, key := range []string{"text", "fields", "elements"} {
			s += read(v[key])
		}
		if strings.HasPrefix(fmt.Sprint(v["type"]), "rich_text_") {
			s += "\n"
		}
		return s
	}
	return ""
}

// labels are the buttons of a message.
func labels(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	var found []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if v["type"] == "static_select" {
				found = append(found, "["+read(v["placeholder"])+" "+read(v["options"])+"]")
				return
			}
			if v["type"] == "button" {
				label := read(v["text"])
				if action, ok := v["action"].(map[string]any); ok {
					label = fmt.Sprint(action["label"])
				}
				found = append(found, "["+label+"]")
				return
			}
			for _, key := range []string{"elements", "contents", "header", "body", "footer", "accessory"} {
				walk(v[key])
			}
		}
	}
	walk(v)
	return strings.Join(found, " ")
}
