package setup_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/disk"
	"countersign/internal/emulator"
	"countersign/internal/setup"
	"countersign/internal/testkit"
	"countersign/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hanaLINE = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"
	kenLINE  = "U00000000000000000000000000000ce9"
)

// secrets are all that no finding may show.
var secrets = map[string]string{
	"AGENT_TOKEN": "agent-token-0123456789", "HANA_TOKEN": "hana-token-0123456789", "KEN_TOKEN": "ken-token-0123456789",
	"LINE_CHANNEL_SECRET": "8c570fa6dd201bb328f1c1eac23a96d8", "LINE_CHANNEL_ACCESS_TOKEN": "line-token-0123456789",
	"SLACK_BOT_TOKEN": "xoxb-bot-token-0123456789", "SLACK_SIGNING_SECRET": "8f742231b10e8888abcd99yyyzzz85a5",
	"SLACK_APP_TOKEN": "xapp-app-token-0123456789",
	"WEBHOOK_SECRET":  "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
}

func env(name string) (string, bool) { v, ok := secrets[name]; return v, ok }

// plan is what a test's world is made of.
type plan struct {
	channels string // in place of the usual ones
	people   string // more of them
	policy   string
	sandbox  func(*emulator.Config)
	public   string // public_url; "-": none
	running  bool   // the gate runs
}

const usualChannels = `
  line: {channel_secret: "${LINE_CHANNEL_SECRET}", channel_access_token: "${LINE_CHANNEL_ACCESS_TOKEN}", notify: [hana], api_url: "LINE"}
  slack: {bot_token: "${SLACK_BOT_TOKEN}", signing_secret: "${SLACK_SIGNING_SECRET}", channel: C0APPROVALS, api_url: "SLACK"}`

// world is the two platforms and, where it runs, the gate.
type world struct {
	*emulator.Emulator
	config *config.Config
	url    string // of the gate
	gate   *app.App
}

func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	c := emulator.Config{
		LINE: emulator.LINEConfig{ChannelSecret: secrets["LINE_CHANNEL_SECRET"],
			ChannelAccessToken: secrets["LINE_CHANNEL_ACCESS_TOKEN"]},
		Slack: emulator.SlackConfig{BotToken: secrets["SLACK_BOT_TOKEN"], AppToken: secrets["SLACK_APP_TOKEN"],
			SigningSecret: secrets["SLACK_SIGNING_SECRET"],
			Channels: []emulator.Channel{{ID: "C0APPROVALS", Name: "approvals"}, {ID: "C0HIDDEN", Name: "hidden",
				IsPrivate: true, BotAbsent: true}, {ID: "C0PRIVATE", Name: "closed", IsPrivate: true}}},
		WebhookSecret: secrets["WEBHOOK_SECRET"],
		People:        []emulator.Person{{Name: "hana", LINE: hanaLINE, Slack: "U02HANA"}},
	}
	if p.sandbox != nil {
		p.sandbox(&c)
	}
	w := &world{}
	var err error
	if w.Emulator, err = emulator.New(c); err != nil {
		t.Fatal(err)
	}
	if err := w.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	addr := freeAddr(t)
	w.url = "http://" + addr
	public := ""
	if p.public != "-" {
		public = "public_url: " + cmp.Or(p.public, w.url)
	}
	file := fmt.Sprintf(`
listen: %s
store: "sqlite:%s"
%s
limits: none
agents: [{name: bot, token: "${AGENT_TOKEN}"}]
people:
  - {name: hana, roles: [approver, admin], line: %s, slack: U02HANA, token: "${HANA_TOKEN}"}
%s
channels:%s
policy:
%s
`, addr, schematest.NewFile(t), public, hanaLINE, p.people, cmp.Or(p.channels, usualChannels), cmp.Or(p.policy, "  rules: []"))
	file = strings.NewReplacer(`"LINE"`, w.LINE.URL(), `"SLACK"`, w.Slack.URL(), `"HOOK/`, `"`+w.URL()+
		"/webhook/").Replace(file)
	cfg, problems, err := config.Parse("gate.yaml", []byte(file), env)
	if err != nil {
		t.Fatalf("%v\n%v\n%s", err, problems, file)
	}
	w.config = cfg
	w.SetWebhooks(w.url+"/webhook/line", w.url+"/webhook/slack")
	if p.running {
		w.run(t)
	}
	return w
}

func (w *world) run(t *testing.T) {
	t.Helper()
	var err error
	if w.gate, err = app.New(t.Context(), app.Options{Config: w.config, Env: env,
		Disk: func(string) (disk.Space, error) { return disk.Space{}, nil }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if err := w.gate.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := w.gate.Start(); err != nil {
		t.Fatal(err)
	}
	w.ready(t)
}

// ready waits until the platforms have told the gate who it is: it takes no tap before.
func (w *world) ready(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "the platforms have said who the gate is", func() bool {
		res, err := http.Get(w.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		return err == nil && !strings.Contains(string(b), "has not said") && !strings.Contains(string(b), "ocket")
	})
	http.DefaultClient.CloseIdleConnections()
}

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// found keeps findings, and fails the test when one shows a secret.
type found struct {
	all   []setup.Finding
	doing []string
}

func (f *found) watch(t *testing.T) setup.Watch {
	look := func(texts ...string) {
		for name, s := range secrets {
			if strings.Contains(strings.Join(texts, " "), s) {
				t.Errorf("%s is shown: %q", name, texts)
			}
		}
	}
	return setup.Watch{
		Found: func(x setup.Finding) { look(x.Message, x.Do); f.all = append(f.all, x) },
		Doing: func(what string) { look(what); f.doing = append(f.doing, what) },
	}
}

// has reports whether there is such a finding: what is given must be in its message or in what to do.
func (f *found) has(level setup.Level, channel, message, do string) bool {
	for _, x := range f.all {
		if x.Level == level && x.Channel == channel && strings.Contains(x.Message, message) && strings.Contains(x.Do, do) {
			return true
		}
	}
	return false
}

// worse returns all that is not ok.
func (f *found) worse() (some []setup.Finding) {
	for _, x := range f.all {
		if x.Level != setup.OK {
			some = append(some, x)
		}
	}
	return some
}

func (f *found) String() string {
	var b strings.Builder
	for _, x := range f.all {
		fmt.Fprintf(&b, "%s %s: %s → %s\n", x.Level, x.Channel, x.Message, x.Do)
	}
	return b.String()
}
