package setup_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"countersign/internal/config"
	"countersign/internal/retention"
	"countersign/internal/setup"
)

// lines reads the lines of an env file.
func lines(t *testing.T, b []byte) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("line %q", line)
		}
		vars[name] = value
	}
	return vars
}

// filledIn is what people put into the empty lines.
var filledIn = map[string]string{
	"LINE_CHANNEL_SECRET": "8c570fa6dd201bb328f1c1eac23a96d8", "LINE_CHANNEL_ACCESS_TOKEN": "filled-in-0123456789",
	"SLACK_BOT_TOKEN": "xoxb-filled-in-0123456789", "SLACK_APP_TOKEN": "xapp-filled-in-0123456789",
	"SLACK_SIGNING_SECRET": "8f742231b10e8888abcd99yyyzzz85a5", "SLACK_CHANNEL": "C0FILLED",
}

func TestNewConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answers  setup.Answers
		channels []string
		missing  []string
		warnings []string
		routes   int
		holds    []string // in the configuration
	}{
		{name: "no chat", answers: setup.Answers{Agent: "bot", Person: "hana"},
			warnings: []string{"no channel has a recipient"}, holds: []string{"time_zone: UTC", "# channels:", "BOT_TOKEN"}},
		{name: "everything known", answers: setup.Answers{Agent: "treasury-bot", Person: "hana", TimeZone: "Asia/Tokyo",
			Locale: "ja", PublicURL: "https://gate.example.com",
			Line: true, LineID: hanaLINE, Slack: true, SlackID: "U02HANA", SlackChannel: "C0APPROVALS", Known: env},
			channels: []string{"line", "slack"}, routes: 2, holds: []string{"webhook_listen: \"127.0.0.1:8788\"",
				"public_url: https://gate.example.com", "notify: [hana]", "locale: ja", "${TREASURY_BOT_TOKEN}"}},
		{name: "LINE, nothing known", answers: setup.Answers{Agent: "bot", Person: "hana", Line: true},
			channels: []string{"line"}, missing: []string{"LINE_CHANNEL_SECRET", "LINE_CHANNEL_ACCESS_TOKEN"},
			warnings: []string{"LINE notifies nobody", "no channel has a recipient"}, holds: []string{"# line: U…", "notify: []",
				"# public_url: https://gate.example.com"}},
		{name: "Slack over Socket Mode, nothing known", answers: setup.Answers{Agent: "bot", Person: "hana", Slack: true,
			SocketMode: true},
			channels: []string{"slack"}, missing: []string{"SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_CHANNEL"}, routes: 1,
			warnings: []string{"nobody with the role approver has a Slack user id"},
			holds:    []string{"app_token: ${SLACK_APP_TOKEN}", "# slack: U…"}},
		{name: "Slack over HTTP", answers: setup.Answers{Agent: "bot", Person: "hana", Slack: true, SlackID: "U02HANA",
			PublicURL: "https://gate.example.com/"},
			channels: []string{"slack"}, missing: []string{"SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_CHANNEL"},
			routes: 1},
		{name: "hard names", answers: setup.Answers{Agent: "1.no", Person: "花", Line: true, LineID: hanaLINE},
			channels: []string{"line"}, routes: 1,
			missing: []string{"LINE_CHANNEL_SECRET", "LINE_CHANNEL_ACCESS_TOKEN"}, holds: []string{`name: "1.no"`, `name: "花"`,
				"${AGENT_TOKEN}", "${PERSON_TOKEN}"}},
		{name: "one name", answers: setup.Answers{Agent: "null", Person: "null"}, warnings: []string{"no channel"},
			holds: []string{`name: "null"`, "${AGENT_TOKEN}", "${PERSON_TOKEN}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := setup.New("gate.yaml", "gate.env", tt.answers)
			if err != nil {
				t.Fatal(err)
			}
			var missing []string
			for _, m := range f.Missing {
				missing = append(missing, m.Name)
				if m.From == "" {
					t.Errorf("nobody is told where to find %s", m.Name)
				}
			}
			vars := lines(t, f.Env)
			for _, name := range missing {
				if v, there := vars[name]; !there || v != "" {
					t.Errorf("%s is %q, %t", name, v, there)
				}
				vars[name] = filledIn[name]
			}
			cfg, problems, err := config.Parse("gate.yaml", f.Config, func(name string) (string, bool) {
				v, ok := vars[name]
				return v, ok
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, f.Config)
			}
			var warnings []string
			for _, p := range problems {
				warnings = append(warnings, p.Message)
			}
			if len(warnings) != len(tt.warnings) {
				t.Errorf("warnings %q, want %q", warnings, tt.warnings)
			}
			for _, w := range tt.warnings {
				if !strings.Contains(strings.Join(warnings, "\n"), w) {
					t.Errorf("warnings %q, want %q", warnings, w)
				}
			}
			if !slices.Equal(missing, tt.missing) || !slices.Equal(cfg.Channels.Names(), tt.channels) ||
				len(cfg.Routes()) != tt.routes {
				t.Errorf("missing %v, channels %v, routes %v", missing, cfg.Channels.Names(), cfg.Routes())
			}
			if p := cfg.File.People[0]; p.Name != tt.answers.Person || len(p.Token.Reveal()) < 16 ||
				vars[f.Token] != p.Token.Reveal() || cfg.File.Agents[0].Name != tt.answers.Agent {
				t.Errorf("people %+v, agents %+v", cfg.File.People, cfg.File.Agents)
			}
			const day = 24 * time.Hour
			if cfg.Keep != (retention.Keep{Args: 90 * day, Notifications: 90 * day, Requests: 400 * day,
				Audit: 7 * 365 * day}) {
				t.Errorf("it is kept for %+v", cfg.Keep)
			}
			for _, h := range tt.holds {
				if !strings.Contains(string(f.Config), h) {
					t.Errorf("%q is not in\n%s", h, f.Config)
				}
			}
			for _, line := range strings.Split(string(f.Config), "\n") {
				if strings.HasSuffix(line, " ") || len(line) > 140 {
					t.Errorf("line %q", line)
				}
			}
			// A secret is in the one file only, and no variable is without a comment.
			for name, v := range vars {
				if strings.Contains(string(f.Config), v) && name != "SLACK_CHANNEL" {
					t.Errorf("%s is in the configuration", name)
				}
				if !regexp.MustCompile(`(?m)^# .+\n` + name + `=`).Match(f.Env) {
					t.Errorf("%s has no comment", name)
				}
			}
		})
	}
}

func TestNewMakesFreshTokens(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		f, err := setup.New("gate.yaml", "gate.env", setup.Answers{Agent: "bot", Person: "hana"})
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range lines(t, f.Env) {
			if len(v) < 32 || seen[v] {
				t.Errorf("%s=%s", name, v)
			}
			seen[v] = true
		}
	}
}

// The variable of somebody's token is theirs: neither a platform's, which may be called like it, nor one
// that means something else on this machine.
func TestNewTakesNoTokenForAnother(t *testing.T) {
	taken := func(name string) bool {
		return name == "GITHUB_TOKEN" || name == "KEN_TOKEN" || name == "COUNTERSIGN_KEN_TOKEN"
	}
	for _, tt := range []struct{ agent, person, agentToken, personToken string }{
		{"slack-bot", "slack-app", "COUNTERSIGN_SLACK_BOT_TOKEN", "COUNTERSIGN_SLACK_APP_TOKEN"},
		{"line-channel-access", "countersign", "COUNTERSIGN_LINE_CHANNEL_ACCESS_TOKEN", "COUNTERSIGN_COUNTERSIGN_TOKEN"},
		{"github", "ken", "COUNTERSIGN_GITHUB_TOKEN", "PERSON_TOKEN"},
		{"bot", "agent", "BOT_TOKEN", "AGENT_TOKEN"},
	} {
		f, err := setup.New("gate.yaml", "gate.env", setup.Answers{Agent: tt.agent, Person: tt.person, Line: true,
			Slack: true, SocketMode: true, Known: env, Taken: taken})
		if err != nil {
			t.Errorf("%s, %s: %v", tt.agent, tt.person, err)
			continue
		}
		if f.Names[0] != tt.agentToken || f.Names[1] != tt.personToken || f.Token != tt.personToken {
			t.Errorf("%s, %s: variables %v", tt.agent, tt.person, f.Names)
		}
		if vars := lines(t, f.Env); len(vars) != len(f.Names) {
			t.Errorf("%s, %s: %d lines for %v", tt.agent, tt.person, len(vars), f.Names)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		answers setup.Answers
		want    string
	}{
		{setup.Answers{Agent: "a bot", Person: "hana"}, "an agent's name must be"},
		{setup.Answers{Agent: "bot", Person: "ha na"}, "a person's name must be"},
		{setup.Answers{Agent: "bot\nx: y", Person: "hana"}, "an agent's name must be"},
		{setup.Answers{Agent: "${HOME}", Person: "hana"}, "an agent's name must be"},
		{setup.Answers{Agent: "bot", Person: "hana", TimeZone: "Mars/Olympus"}, "time_zone must be a name"},
		{setup.Answers{Agent: "bot", Person: "hana", Locale: "xx"}, `unknown locale "xx"`},
		{setup.Answers{Agent: "bot", Person: "hana", Line: true, LineID: "hana"}, "a LINE user id is U and 32"},
		{setup.Answers{Agent: "bot", Person: "hana", Slack: true, SlackChannel: "#approvals"}, "must be a channel's id"},
		{setup.Answers{Agent: "bot", Person: "hana", Line: true, PublicURL: "gate.example.com"},
			"public_url must be an address"},
		{setup.Answers{Agent: "bot", Person: "hana", Line: true, Known: func(string) (string, bool) { return "short", true }},
			"at least 16 characters"},
		{setup.Answers{Person: "hana"}, "an agent needs a name"},
	} {
		if _, err := setup.New("gate.yaml", "gate.env", tt.answers); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %s", tt.answers, err, tt.want)
		}
	}
}

func TestNewStoreIsBesideTheFile(t *testing.T) {
	f, err := setup.New("/etc/countersign/gate.yaml", "/etc/countersign/gate.env", setup.Answers{Agent: "bot",
		Person: "hana"})
	if err != nil || !strings.Contains(string(f.Config), "\nstore: sqlite:/etc/countersign/countersign.db ") ||
		!strings.Contains(string(f.Config), "a line of gate.env beside") {
		t.Errorf("error %v\n%s", err, f.Config)
	}
}

// The manifest in docs/ is the one that the program prints, and it is YAML.
func TestManifest(t *testing.T) {
	const ours = "../../docs/slack-manifest.yaml"
	got := setup.Manifest("https://gate.example.com/")
	if want, err := os.ReadFile(ours); err != nil || string(want) != got {
		t.Errorf("%s is not what countersign manifest --public-url https://gate.example.com prints (%v):\n%s", ours, err, got)
	}
	type app struct {
		Features struct {
			Slash []struct {
				Command, URL string
			} `yaml:"slash_commands"`
			Home struct {
				Home     bool `yaml:"home_tab_enabled"`
				Messages bool `yaml:"messages_tab_enabled"`
				ReadOnly bool `yaml:"messages_tab_read_only_enabled"`
			} `yaml:"app_home"`
		}
		OAuth struct {
			Scopes struct{ Bot []string }
		} `yaml:"oauth_config"`
		Settings struct {
			Events struct {
				URL string   `yaml:"request_url"`
				Bot []string `yaml:"bot_events"`
			} `yaml:"event_subscriptions"`
			Interactivity struct {
				Enabled bool   `yaml:"is_enabled"`
				URL     string `yaml:"request_url"`
			}
			Socket bool `yaml:"socket_mode_enabled"`
		}
	}
	for _, public := range []string{"https://gate.example.com", ""} {
		var a app
		if err := yaml.Unmarshal([]byte(setup.Manifest(public)), &a); err != nil {
			t.Fatal(err)
		}
		url := ""
		if public != "" {
			url = public + "/webhook/slack"
		}
		if s := a.Features.Slash; len(s) != 1 || s[0].Command != "/countersign" || s[0].URL != url ||
			a.Settings.Events.URL != url || a.Settings.Interactivity.URL != url {
			t.Errorf("%q: addresses %+v", public, a)
		}
		if !a.Features.Home.Home || !a.Features.Home.Messages || a.Features.Home.ReadOnly ||
			!a.Settings.Interactivity.Enabled || a.Settings.Socket != (public == "") {
			t.Errorf("%q: %+v", public, a)
		}
		if want := []string{"app_mentions:read", "channels:read", "chat:write", "commands", "groups:read",
			"im:history"}; !slices.Equal(a.OAuth.Scopes.Bot, want) {
			t.Errorf("scopes %v, want %v", a.OAuth.Scopes.Bot, want)
		}
		if want := []string{"app_home_opened", "app_mention", "message.im"}; !slices.Equal(a.Settings.Events.Bot, want) {
			t.Errorf("events %v, want %v", a.Settings.Events.Bot, want)
		}
	}
}
