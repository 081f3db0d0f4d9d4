package app_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/disk"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, stray := range app.Strays() {
			fmt.Fprintln(os.Stderr, "a transaction left its scope:", stray)
			code = 1
		}
		os.Exit(code)
	}))
}

const (
	hanaLINE   = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"
	strangerID = "Ueeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
	botLINE    = "U0123456789abcdef0123456789abcdef"
)

// secrets are made up out of words, so that nothing here looks like a real one.
var secrets = map[string]string{
	"AGENT_TOKEN": "test-agent-token-bot", "OTHER_TOKEN": "test-agent-token-other", "HANA_TOKEN": "test-person-token-hana",
	"KEN_TOKEN": "test-person-token-ken", "LINE_SECRET": "test-line-channel-secret",
	"LINE_TOKEN":  "test-line-access-token",
	"SLACK_TOKEN": "test-slack-bot-token", "SLACK_SECRET": "test-slack-signing-secret",
	"FLEET_SECRET": "test-secret-of-all-programs-on-the-database",
	"HOOK_SECRET":  "whsec_dGhpcyBpcyBhIHRlc3QncyBzZWNyZXQsIG5vdCBhIHJlYWwgb25l",
}

const configText = `
listen: 127.0.0.1:0
store: sqlite:${STORE}
time_zone: UTC
limits: none
agents:
  - {cards_at_once: 0, name: bot, token: "${AGENT_TOKEN}"}
  - {name: other, token: "${OTHER_TOKEN}"}
people:
  - {name: hana, roles: [approver, admin], line: ` + hanaLINE + `, slack: U02HANA, token: "${HANA_TOKEN}"}
  - {name: ken, roles: [approver], slack: U03KEN, token: "${KEN_TOKEN}"}
channels:
  line: {channel_secret: "${LINE_SECRET}", channel_access_token: "${LINE_TOKEN}", notify: [hana], api_url: "${LINE_API}"}
  slack: {bot_token: "${SLACK_TOKEN}", signing_secret: "${SLACK_SECRET}", channel: C0APPROVALS, api_url: "${SLACK_API}"}
notifications: {max_retries: 3, first_retry: 1s, max_backoff: 2s}
policy:
  use_within: 15m
  group: call
  rules:
    - {name: reading, tools: ["read_*"], risk: low, action: allow}
    - {name: no disks, tools: [format_disk], risk: critical, action: deny, reason_code: forbidden, message: Never.}
    - {name: short, tools: [short_lived], risk: medium, timeout: 1s, message: Answer fast.}
    - {name: closing, tools: [close_books], risk: critical, message: A closed month cannot be opened again}
    - name: transfers
      tools: [transfer_credits]
      when: args.amount_cents >= 1000
      risk: high
      reason_code: over_threshold
      message: Transfer exceeds the confirmation threshold ($10)
`

// world is the whole program, with the stand-ins in the other chair.
type world struct {
	t    *testing.T
	ctx  context.Context
	dir  string
	path string // of the configuration
	env  map[string]string
	chat *emulator.Emulator
	app  *app.App
	bot  *client.Client
	hana *client.Client
	log  *testkit.Buffer
	key  string           // what the forms of whoever signed in last take
	now  func() time.Time // nil: the wall clock
	// elapsed is the time that passes, nil: the machine's; failpoint is the program's.
	elapsed   func() time.Duration
	failpoint func(string)
	lock      sync.Mutex // of env, once the program runs
	// trouble is why the variables' file cannot be read.
	trouble func() error
	// free is what the disk has left of 100 GiB; 0: plenty.
	free atomic.Int64
	// loaded is called when the program has read its configuration and has not started.
	loaded func()
}

// disk is as large in tests, and as full, on each machine.
func (w *world) disk(string) (disk.Space, error) {
	return disk.Space{Free: cmp.Or(w.free.Load(), 50<<30), All: 100 << 30}, nil
}

// roomy is that of a program without a world.
func roomy(string) (disk.Space, error) { return new(world).disk("") }

func newChat(t testing.TB, now ...func() time.Time) *emulator.Emulator {
	t.Helper()
	now = append(now, time.Now)
	chat, err := emulator.New(emulator.Config{
		Now: now[0],
		LINE: emulator.LINEConfig{ChannelSecret: secrets["LINE_SECRET"], ChannelAccessToken: secrets["LINE_TOKEN"],
			BotUserID: botLINE},
		Slack: emulator.SlackConfig{BotToken: secrets["SLACK_TOKEN"], SigningSecret: secrets["SLACK_SECRET"],
			TeamID: "T0TEAM", AppID: "A0APP",
			BotID: "B0BOT", BotUserID: "U0BOT", Channels: []emulator.Channel{{ID: "C0APPROVALS", Name: "approvals"}}},
		WebhookSecret: secrets["HOOK_SECRET"],
		People: []emulator.Person{
			{Name: "hana", LINE: hanaLINE, Slack: "U02HANA"}, {Name: "ken", Slack: "U03KEN"},
			{Name: emulator.StrangerName, LINE: strangerID, Slack: "U0STRANGER", Stranger: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { chat.Close() })
	return chat
}

// chooseStore has a test's program keep its rows elsewhere than in a file, by another configuration. nil: none does.
var chooseStore func(w *world) func(text string) string

// newWorld starts the program on configText as the changes leave it.
func newWorld(t *testing.T, changes ...func(text string) string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, dir: t.TempDir(), chat: newChat(t), log: &testkit.Buffer{}, env: map[string]string{}}
	for k, v := range secrets {
		w.env[k] = v
	}
	w.env["STORE"] = filepath.Join(w.dir, "gate.db")
	if chooseStore != nil {
		changes = append(changes, chooseStore(w))
	}
	schematest.WriteFile(t, filepath.Join(w.dir, "gate.db"))
	w.env["LINE_API"], w.env["SLACK_API"] = w.chat.LINE.URL(), w.chat.Slack.URL()
	w.path = filepath.Join(w.dir, "countersign.yaml")
	w.env["HANA_HOOK"] = w.chat.Webhooks.URL("hana")
	text := configText
	for _, change := range changes {
		text = change(text)
	}
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", w.log)
		}
		for name, s := range secrets {
			if strings.Contains(w.log.String(), s) {
				t.Errorf("the log shows %s", name)
			}
		}
		if v := w.chat.Violations(); len(v) != 0 {
			t.Errorf("the platforms' rules were broken: %v", v)
		}
	})
	w.start()
	return w
}

func (w *world) lookup(name string) (string, bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	s, ok := w.env[name]
	return s, ok
}

func (w *world) envTrouble() error {
	if w.trouble == nil {
		return nil
	}
	return w.trouble()
}

// start starts the program on what is in the folder.
func (w *world) start() {
	w.t.Helper()
	cfg, _, err := config.Load(w.path, w.lookup)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.loaded != nil {
		w.loaded()
	}
	a, err := app.New(w.ctx, app.Options{Config: cfg, Env: w.lookup, EnvTrouble: w.envTrouble, Version: "test", Now: w.now,
		Elapsed: w.elapsed, Failpoint: w.failpoint, Disk: w.disk,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.app = a
	w.t.Cleanup(w.stop)
	if err := a.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.chat.SetWebhooks("http://"+a.WebhookAddr()+"/webhook/line", "http://"+a.WebhookAddr()+"/webhook/slack")
	w.bot, w.hana = w.client("AGENT_TOKEN"), w.client("HANA_TOKEN")
	w.eventually("the platforms know us", func() bool { return !strings.Contains(w.get("/readyz"), "has not said") })
}

// replacing changes the configuration's text, which must hold what is replaced.
func replacing(old, with string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, old) {
			panic("the configuration does not hold " + old)
		}
		return strings.Replace(text, old, with, 1)
	}
}

func (w *world) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := w.app.Stop(ctx); err != nil {
		w.t.Errorf("stop: %v", err)
	}
}

func (w *world) url(path string) string { return "http://" + w.app.Addr() + path }

func (w *world) client(token string) *client.Client {
	w.t.Helper()
	c, err := client.New("http://"+w.app.Addr(), secrets[token])
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) get(path string) string {
	w.t.Helper()
	res, err := http.Get(w.url(path))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// eventually waits for what no event of the stand-ins announces.
func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	testkit.Eventually(w.t, what, cond)
}

func transfer(cents int) client.Call {
	return client.Call{Tool: "transfer_credits", Args: json.RawMessage(fmt.Sprintf(`{"amount_cents":%d,"to":"0xAbC"}`,
		cents)), SessionID: "s1"}
}

func (w *world) call(c client.Call) client.Answer {
	w.t.Helper()
	a, err := w.bot.Call(w.ctx, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) expect(c client.Call, want client.AnswerKind) client.Answer {
	w.t.Helper()
	a := w.call(c)
	if a.Kind != want {
		w.t.Fatalf("%s (%s), want %s", a.Kind, a.Message, want)
	}
	return a
}

// lineCard waits for hana's n-th LINE message with this text in it.
func (w *world) lineCard(text string, n int) emulator.LINEMessage {
	w.t.Helper()
	var found emulator.LINEMessage
	if err := w.chat.WaitFor(w.ctx, func() bool {
		left := n
		for _, m := range w.chat.LINE.Chat("hana") {
			if m.FromBot && strings.Contains(string(m.JSON), text) {
				if left--; left == 0 {
					found = m
					return true
				}
			}
		}
		return false
	}); err != nil {
		var got []string
		for _, m := range w.chat.LINE.Chat("hana") {
			got = append(got, string(m.JSON))
		}
		w.t.Fatalf("no LINE message %d with %q, but %s", n, text, strings.Join(got, "\n"))
	}
	return found
}

// slackCard waits for a message in the channel with this text in it, or in what it said before it was edited.
func (w *world) slackCard(text string) emulator.SlackMessage {
	w.t.Helper()
	has := func(m emulator.SlackMessage) bool {
		return strings.Contains(string(m.Blocks), text) || slices.ContainsFunc(m.Edits, func(e emulator.SlackEdit) bool {
			return strings.Contains(string(e.Blocks), text)
		})
	}
	var found emulator.SlackMessage
	if err := w.chat.WaitFor(w.ctx, func() bool {
		for _, m := range w.chat.Slack.Messages("C0APPROVALS") {
			if m.Ephemeral == "" && has(m) {
				found = m
				return true
			}
		}
		return false
	}); err != nil {
		w.t.Fatalf("no Slack card with %q", text)
	}
	return found
}

// tapLINE presses a button of hana's, once its card is there.
func (w *world) tapLINE(person, id, verb string) emulator.Delivery {
	w.t.Helper()
	w.lineCard(id, 1)
	return w.ok(w.chat.LINE.Tap(w.ctx, person, "", "action="+verb+"&id="+id))
}

func (w *world) tapSlack(person, id, verb string) emulator.Delivery {
	w.t.Helper()
	return w.ok(w.chat.Slack.Tap(w.ctx, person, "C0APPROVALS", "", verb, id))
}

func (w *world) ok(d emulator.Delivery, err error) emulator.Delivery {
	w.t.Helper()
	if err != nil || !d.OK() {
		w.t.Fatalf("webhook: %v, answered %d %s", err, d.Status, d.Body)
	}
	return d
}

// told waits until hana has been told text in LINE.
func (w *world) told(text string) {
	w.t.Helper()
	w.lineCard(text, 1)
}

func (w *world) status(id string) client.Approval {
	w.t.Helper()
	a, err := w.hana.Approval(w.ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) audit(eventType string) []client.AuditEvent {
	w.t.Helper()
	p, err := w.hana.Audit(w.ctx, client.AuditQuery{EventType: eventType})
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Items
}

func (w *world) notifications(q client.NotificationQuery) []client.Notification {
	w.t.Helper()
	p, err := w.hana.Notifications(w.ctx, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Items
}
