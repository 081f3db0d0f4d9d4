package demo

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/disk"
	"countersign/internal/emulator"
	"countersign/internal/listener"
	"countersign/internal/secret"
)

//go:embed countersign.yaml
var configuration []byte

// Options say how the demo runs. The zero value is what `countersign demo` does.
type Options struct {
	Dir     string           // where it keeps its files; "": a temporary folder, removed at the end
	Page    string           // address of the chat page; default 127.0.0.1:8788, or a free port if that is taken
	Listen  string           // address of the gate; default 127.0.0.1:8787, or a free port if that is taken
	Pace    time.Duration    // of the agent's turns; default 3 s
	Rounds  int              // of the agent's plan; 0: until it is stopped
	Out     io.Writer        // where it says where to look; default: nowhere
	Logger  *slog.Logger     // the gate's log; default: none
	Now     func() time.Time // the machine's clock; default time.Now
	Version string
	Ready   func(*Demo) // called when all of it runs
}

// Demo is a running demo.
type Demo struct {
	Chat       *emulator.Emulator
	URL        string       // of the gate
	AdminToken secret.Value // of hana
	AgentToken secret.Value
	Dir        string

	alert func(about, text string) // above everything else on the page
}

// The people on the phones.
const (
	hanaLINE     = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"
	botLINE      = "U0123456789abcdef0123456789abcdef"
	strangerLINE = "Ueeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
	team         = "T0DEMO"
	slackApp     = "A0COUNTERSIGN"
)

// Run shows the demo until ctx ends, or until the agent has done its rounds.
func Run(ctx context.Context, o Options) (err error) { //nolint:funlen // a straight start-up
	if o.Pace <= 0 {
		o.Pace = 3 * time.Second
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "countersign-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	secrets := map[string]string{}
	for _, name := range []string{"AGENT_TOKEN", "HANA_TOKEN", "KEN_TOKEN", "LINE_SECRET", "LINE_TOKEN", "SLACK_TOKEN",
		"SLACK_SECRET"} {
		secrets["DEMO_"+name] = rand.Text()
	}

	set, err := newSetting(o.Dir, o.Out, o.clock)
	if err != nil {
		return err
	}
	inbox := &inbox{tokens: map[string]secret.Value{"hana": secret.Value(secrets["DEMO_HANA_TOKEN"]),
		"ken": secret.Value(secrets["DEMO_KEN_TOKEN"])}}
	chat, err := newChat(secrets, inbox.open, set)
	if err != nil {
		return err
	}
	set.chat = chat
	defer func() { err = errors.Join(err, chat.Close()) }()
	if err := listenFirst(chat.Start, o.Page, "127.0.0.1:8788"); err != nil {
		return fmt.Errorf("the chat page: %w", err)
	}

	gate, err := startGate(ctx, o, set, secrets)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, gate.Stop(ctx))
	}()
	inbox.at("http://" + gate.Addr())
	chat.SetWebhooks("http://"+gate.Addr()+"/webhook/line", "http://"+gate.Addr()+"/webhook/slack")

	d := &Demo{Chat: chat, URL: "http://" + gate.Addr(), AdminToken: secret.Value(secrets["DEMO_HANA_TOKEN"]),
		AgentToken: secret.Value(secrets["DEMO_AGENT_TOKEN"]), Dir: o.Dir, alert: set.alert}
	greet(o.Out, d)
	if o.Ready != nil {
		o.Ready(d)
	}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { watch(watching, d) })
	defer watcher.Wait()
	defer stop()
	return runAgent(ctx, o, d)
}

func newChat(secrets map[string]string, inbox func(context.Context, string) (string, error),
	set *setting) (*emulator.Emulator, error) {
	return emulator.New(emulator.Config{
		Inbox: inbox, Languages: languages, SetLanguage: set.setLanguage,
		LINE: emulator.LINEConfig{ChannelSecret: secrets["DEMO_LINE_SECRET"], ChannelAccessToken: secrets["DEMO_LINE_TOKEN"],
			BotUserID: botLINE, BotName: "Countersign"},
		Slack: emulator.SlackConfig{BotToken: secrets["DEMO_SLACK_TOKEN"], SigningSecret: secrets["DEMO_SLACK_SECRET"],
			TeamID: team, TeamName: "Demo", AppID: slackApp,
			BotID: "B0COUNTERSIGN", BotUserID: "U0COUNTERSIGN", BotName: "Countersign",
			Channels: []emulator.Channel{{ID: "C0APPROVALS", Name: "approvals"}}},
		Panels: []emulator.Panel{{Title: "What the agent sees", Stream: "agent"}},
		People: []emulator.Person{
			{Name: "hana", LINE: hanaLINE, Slack: "U02HANA"},
			{Name: "ken", Slack: "U03KEN"},
			{Name: emulator.StrangerName, LINE: strangerLINE, Slack: "U0STRANGER", Stranger: true},
		},
	})
}

// listenFirst starts on the wanted address, or on the usual one, or on any that is free.
func listenFirst(start func(addr string) error, wanted, usual string) error {
	if wanted != "" {
		return start(wanted)
	}
	if err := start(usual); err == nil {
		return nil
	}
	return start("127.0.0.1:0")
}

// freePort chooses a port in place of 0: the gate's pages have to know their own address. Should another program take
// it first, starting fails and says so.
func freePort(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != "0" {
		return addr, err
	}
	l, _, err := listener.Listen(addr)
	if err != nil {
		return "", err
	}
	_, port, err = net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort(host, port), errors.Join(err, l.Close())
}

func startGate(ctx context.Context, o Options, set *setting, secrets map[string]string) (*app.App, error) {
	zone := machineZone(o.Now())
	var gate *app.App
	err := listenFirst(func(addr string) error {
		addr, err := freePort(addr)
		if err != nil {
			return err
		}
		env := func(name string) (string, bool) {
			switch name {
			case "DEMO_LISTEN":
				return addr, true
			case "DEMO_URL":
				_, port, _ := net.SplitHostPort(addr)
				return "http://localhost:" + port, true // a name, which passkeys need
			case "DEMO_STORE":
				return filepath.Join(o.Dir, "countersign.db"), true
			case "DEMO_TIME_ZONE":
				return zone, true
			case "DEMO_LOCALE":
				return set.locale(), true
			case "DEMO_LINE_API":
				return set.chat.LINE.URL(), true
			case "DEMO_SLACK_API":
				return set.chat.Slack.URL(), true
			case "DEMO_HANA_LINE":
				return hanaLINE, true
			}
			s, ok := secrets[name]
			return s, ok
		}
		cfg, _, err := config.Load(set.file, env)
		if err != nil {
			return err
		}
		gate, err = app.New(ctx, app.Options{Config: cfg, Env: env, Disk: noDisk, Logger: o.Logger, Version: o.Version,
			Now: o.Now, Reloaded: set.logReload})
		return err
	}, o.Listen, config.DefaultListen)
	if err != nil {
		return nil, err
	}
	set.use(gate)
	return gate, gate.Start()
}

func greet(w io.Writer, d *Demo) {
	fmt.Fprintf(w, `Countersign demo

  Open   %s
  Stop   ctrl-c

An agent is about to pay an invoice, and asks first. Its card is on hana's LINE and in Slack.
Tap Approve or Deny. The agent waits for your first tap.

More to try
  Policy    Change %s and save.
            Your rules are in force at once, or you are told the line that is wrong.
  Files     The agent really works in %s
  Terminal  Decide as hana:
              export COUNTERSIGN_SERVER=%s COUNTERSIGN_TOKEN=%s
              go run ./cmd/countersign inbox

`, d.Chat.URL(), filepath.Join(d.Dir, "countersign.yaml"), filepath.Join(d.Dir, "work"), d.URL,
		d.AdminToken.Reveal())
}

func runAgent(ctx context.Context, o Options, d *Demo) error {
	shop, err := openWorkshop(filepath.Join(d.Dir, "work"))
	if err != nil {
		return err
	}
	defer shop.close()
	c, err := client.New(d.URL, d.AgentToken.Reveal())
	if err != nil {
		return err
	}
	defer c.Close()
	a := &agent{gate: c, shop: shop, pace: o.Pace, session: "demo", waiting: map[string]*task{},
		tell: func(e emulator.Entry) {
			d.Chat.Page.Tell("agent", e)
			word := e.Word
			if word != "" {
				word += ": "
			}
			fmt.Fprintf(o.Out, "%s  %-7s  %s%s\n", o.clock(), e.Kind, word, e.Text)
		}}
	a.say("", "", "Good morning. I am treasury-bot, and I ask before I do what matters.")
	if err := a.work(ctx, o.Rounds); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the demo's agent: %w", err)
	}
	return nil
}

// clock is the time at the beginning of a line of output.
func (o Options) clock() string { return o.Now().Format("15:04:05") }

// noDisk has the gate know nothing of this machine's disk: its store is gone when the demo ends, and a message about a
// disk that is running full would stand between the cards of the story.
func noDisk(string) (disk.Space, error) { return disk.Space{}, nil }
