package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/channels"
	"countersign/channels/line"
	"countersign/channels/slack"
	"countersign/heartbeat"
	"countersign/internal/auth"
	"countersign/internal/backup"
	"countersign/internal/secret"
	"countersign/internal/testkit"

	"filippo.io/age"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testEnv is the environment of all tests.
func testEnv(name string) (string, bool) {
	switch name {
	case "EMPTY":
		return "", true
	case "SHORT":
		return "short", true
	case "QUOTED":
		return `"value-in-quotation-marks"`, true
	case "WINDOWS":
		return "value-of-a-windows-file\r", true
	case "INJECTION":
		return "x\n    token: injected-injected-injected\nlisten: 0.0.0.0:1", true
	case "REFERENCE":
		return "${HANA_TOKEN_AGAIN}", true
	}
	if strings.HasPrefix(name, "NO_") {
		return "", false
	}
	switch platform, _, _ := strings.Cut(name, "_"); {
	case platform == "SLACK" && strings.HasSuffix(name, "TOKEN"):
		return "xoxb-value-of-" + strings.ToLower(name), true
	case (platform == "SLACK" || platform == "LINE") && strings.HasSuffix(name, "SECRET"):
		return fmt.Sprintf("%032x", len(name)), true
	}
	return "value-of-" + strings.ToLower(name), true
}

// TestBadFiles: one file per mistake; what is expected stands at its end, as
// "# want line:column: message". Run with -update to write what is reported.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			content, _, _ := strings.Cut(string(data), "# want ")
			cfg, problems, err := Load(name, testEnv)
			if cfg != nil || err == nil {
				t.Fatalf("Load = %v, %v; want an error", cfg, err)
			}
			if _, ok := errors.AsType[*InvalidError](err); !ok {
				t.Errorf("the error is a %T", err)
			}
			var got strings.Builder
			for _, p := range problems {
				fmt.Fprintf(&got, "# want %s\n", strings.TrimPrefix(strings.TrimPrefix(p.String(), name), ":"))
			}
			testkit.Golden(t, name, []byte(content+got.String()))
		})
	}
}

func load(t *testing.T, name string) (*Config, []Problem) {
	t.Helper()
	cfg, problems, err := Load(filepath.Join("testdata", "good", name), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, problems
}

func parseText(t *testing.T, text string) (*Config, []Problem) {
	t.Helper()
	cfg, problems, err := Parse("test.yaml", []byte(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, problems
}

func TestTheWholeExample(t *testing.T) {
	cfg, problems := load(t, "full.yaml")
	for _, p := range problems {
		t.Errorf("problem: %s", p)
	}
	if cfg.Path != filepath.Join("testdata", "good", "full.yaml") {
		t.Errorf("Path = %q", cfg.Path)
	}
	if got, want := cfg.PublicURL, "https://gate.example.com"; got != want {
		t.Errorf("PublicURL = %q, want %q", got, want)
	}
	if got, want := cfg.StorePath, "countersign.db"; got != want {
		t.Errorf("StorePath = %q, want %q", got, want)
	}
	if got, want := cfg.Location.String(), "Asia/Tokyo"; got != want {
		t.Errorf("Location = %q, want %q", got, want)
	}
	wantAgents := []auth.AgentIdentity{{Name: "treasury-bot", Token: "value-of-treasury_token"}}
	if diff := cmp.Diff(wantAgents, cfg.Agents()); diff != "" {
		t.Errorf("agents: -want +got\n%s", diff)
	}
	wantPeople := []auth.Person{{
		Name: "hana", Approver: true, Admin: true, Addresses: map[string]string{"line": "U4af4980629d1e4b8c9a2c1b2d3e4f5a6",
			"slack": "U02HANA"},
		Token: "value-of-hana_token", Locale: "ja", Zone: cfg.Location,
	}}
	if diff := cmp.Diff(wantPeople, cfg.People(), cmp.Comparer(func(a, b *time.Location) bool {
		return a == b
	})); diff != "" {
		t.Errorf("people: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(heartbeat.DefaultEntries(), cfg.Heartbeat()); diff != "" {
		t.Errorf("heartbeat: -want +got\n%s", diff)
	}
	if got := lineSection(cfg).ChannelSecret[0].Reveal(); got != "00000000000000000000000000000013" {
		t.Errorf("channel_secret = %q", got)
	}
	if got := slackSection(cfg).Channel; got != "C0APPROVALS" {
		t.Errorf("slack channel = %q", got)
	}
	if got := cfg.Policy.Terms(); got.UseWithin != 15*time.Minute || got.RememberDenial != 10*time.Minute {
		t.Errorf("terms = %+v", got)
	}
}

func TestDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "agents:\npeople: ~\nheartbeat:\n"} {
		cfg, _ := parseText(t, text)
		want := File{
			Listen: "127.0.0.1:8787", Store: "sqlite:countersign.db",
			MCP: MCP{Hold: 45 * time.Second},
			Heartbeat: []Job{{Name: "check_pending_approvals", Schedule: "*/5 * * * *", Enabled: true,
				Params: JobParams{15 * time.Minute, 3}}},
			Notifications: Notifications{3, 10 * time.Second, 5 * time.Minute},
		}
		if diff := cmp.Diff(want, cfg.File); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
		if cfg.Location != time.Local {
			t.Errorf("%q: Location = %v", text, cfg.Location)
		}
		call := approval.Call{Agent: "a", Tool: "anything", Args: mustArgs(t, `{}`)}
		if v := cfg.Policy.Evaluate(t.Context(), call); v.Action != approval.Quarantine || v.Risk != approval.RiskHigh {
			t.Errorf("%q: without a policy a call gets %+v", text, v)
		}
	}
}

func mustArgs(t *testing.T, s string) args.Args {
	t.Helper()
	a, err := args.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestHeartbeatListReplacesTheDefault(t *testing.T) {
	cfg, _ := parseText(t, "heartbeat: []\n")
	if got := cfg.Heartbeat(); len(got) != 0 {
		t.Errorf("an empty list leaves %v", got)
	}
	cfg, _ = parseText(t, "heartbeat:\n  - name: check_pending_approvals\n    schedule: '@every 1m'\n    params: {remind_after: 90}\n")
	want := []heartbeat.Entry{{Name: "check_pending_approvals", Schedule: "@every 1m", Enabled: true,
		Params: heartbeat.Params{RemindAfter: 90 * time.Second, MaxReminders: 3}}}
	if diff := cmp.Diff(want, cfg.Heartbeat()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The entry as the document it comes from has it, with task beside name, and the default as ours writes it.
func TestHeartbeatEntriesCanBePastedIn(t *testing.T) {
	const whole = "schedule: \"*/5 * * * *\",\n     enabled: true,\n     params: {},\n   }\n"
	for name, text := range map[string]string{
		"name and task": "heartbeat:\n - {\n     name: \"check_pending_approvals\",\n     task: \"check_pending_approvals\",\n     " + whole,
		"task":          "heartbeat:\n - {\n     task: \"check_pending_approvals\",\n     " + whole,
		"block":         "heartbeat:\n  - task: check_pending_approvals\n    schedule: \"*/5 * * * *\"   # every 5 minutes\n    params:\n      max_reminders: 3\n",
		"name":          "heartbeat:\n  - {name: check_pending_approvals, schedule: \"*/5 * * * *\", enabled: true, params: {remind_after: 15m, max_reminders: 3}}\n",
	} {
		cfg, problems := parseText(t, text)
		if len(problems) > 0 && strings.Contains(fmt.Sprint(problems), "heartbeat") {
			t.Errorf("%s: %v", name, problems)
		}
		if diff := cmp.Diff(heartbeat.DefaultEntries(), cfg.Heartbeat()); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	cfg, _ := parseText(t, "heartbeat:\n  - {task: check_pending_approvals, enabled: false}\n")
	if got := cfg.Heartbeat(); len(got) != 1 || got[0].Enabled {
		t.Errorf("switched off: %+v", got)
	}
}

func TestBothHarombeExamplesCanBePastedIn(t *testing.T) {
	cfg, _ := load(t, "harombe-rules.yaml")
	for _, test := range []struct {
		tool, args string
		action     approval.Action
		risk       approval.Risk
	}{
		{"send_email", `{}`, approval.Quarantine, approval.RiskHigh},
		{"write_file", `{"path":"/etc/passwd"}`, approval.Quarantine, approval.RiskCritical},
		{"read_file", `{"path":"/etc/passwd"}`, approval.Allow, approval.RiskLow},
		{"something_else", `{}`, approval.Quarantine, approval.RiskHigh},
	} {
		v := cfg.Policy.Evaluate(t.Context(), approval.Call{Agent: "a", Tool: test.tool, Args: mustArgs(t, test.args)})
		if v.Action != test.action || v.Risk != test.risk {
			t.Errorf("%s(%s): %s at %s; want %s at %s", test.tool, test.args, v.Action, v.Risk, test.action, test.risk)
		}
	}

	data, err := os.ReadFile("testdata/harombe-levels.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ = parseText(t, string(data))
	if v := cfg.Policy.Evaluate(t.Context(), approval.Call{Agent: "a", Tool: "x",
		Args: mustArgs(t, `{}`)}); v.Timeout != time.Minute {
		t.Errorf("an unknown tool waits %s, want the 60 s of level high", v.Timeout)
	}
}

func TestVariables(t *testing.T) {
	for _, test := range []struct{ written, want string }{
		{"${HANA_TOKEN}", "value-of-hana_token"},
		{"'a-${HANA_TOKEN}-${OTHER}'", "a-value-of-hana_token-value-of-other"},
		{"$${HANA_TOKEN}-is-literal", "${HANA_TOKEN}-is-literal"},
		{"$$${HANA_TOKEN}-is-too", "$${HANA_TOKEN}-is-too"},
		{"$HANA_TOKEN-is-no-variable", "$HANA_TOKEN-is-no-variable"},
		{"${REFERENCE}", "${HANA_TOKEN_AGAIN}"}, // a value is not looked into
		{`"${HANA_TOKEN}\x21"`, "value-of-hana_token!"},
		{"|-\n      ${HANA_TOKEN}", "value-of-hana_token"},
		{"&t ${HANA_TOKEN}", "value-of-hana_token"},
		{"!!str 1234567890123456", "1234567890123456"},
		{"1234567890123456", "1234567890123456"},
		{"0012345678901234567", "0012345678901234567"},
	} {
		cfg, _ := parseText(t, "agents:\n  - name: bot\n    token: "+test.written+"\n")
		if got := cfg.Agents()[0].Token.Reveal(); got != test.want {
			t.Errorf("%s: token %q, want %q", test.written, got, test.want)
		}
	}
}

func TestAVariableIsOneValue(t *testing.T) {
	cfg, problems, err := Parse("test.yaml", []byte("public_url: https://${INJECTION}\n"), testEnv)
	if cfg != nil || err == nil || len(problems) == 0 {
		t.Errorf("Parse = %v, %v", cfg, err)
	}
	cfg, _ = parseText(t, "policy:\n  rules:\n    - tools: [pay]\n      message: '${REFERENCE}'\n")
	v := cfg.Policy.Evaluate(t.Context(), approval.Call{Agent: "a", Tool: "pay", Args: mustArgs(t, `{}`)})
	if v.Message != "${HANA_TOKEN_AGAIN}" {
		t.Errorf("message = %q", v.Message)
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	cfg, _ := parseText(t, `
people:
  - &hana
    name: hana
    roles: &both [approver, admin]
    slack: U01
  - <<: *hana
    name: ken
    roles: *both
    slack: U02
    locale: ja
`)
	want := []Person{
		{Name: "hana", Roles: []string{"approver", "admin"}, Addresses: inSlack("U01"), Locale: "en"},
		{Name: "ken", Roles: []string{"approver", "admin"}, Addresses: inSlack("U02"), Locale: "ja"},
	}
	if diff := cmp.Diff(want, cfg.File.People); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func inSlack(id string) map[string]channels.Address {
	return map[string]channels.Address{slack.Name: channels.NewAddress(id, false)}
}

func lineSection(c *Config) *line.Config { return c.Channels[line.Name].(*line.Config) }

func slackSection(c *Config) *slack.Config { return c.Channels[slack.Name].(*slack.Config) }

func TestWarnings(t *testing.T) {
	const agent = "agents: [{name: bot, token: '${TREASURY_TOKEN}'}]\n"
	const lineYAML = "channels:\n  line:\n    channel_secret: ${LINE_SECRET}\n    channel_access_token: ${LINE_TOKEN}\n"
	const slackYAML = "channels:\n  slack:\n    bot_token: ${SLACK_TOKEN}\n    signing_secret: ${SLACK_SECRET}\n    channel: C0APPROVALS\n"
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{
			"test.yaml: warning: nobody with the role approver can decide, so every request will expire; give one a token or an address",
			"test.yaml: warning: the policy asks people, but no channel has a recipient, so nobody is notified; use `countersign inbox`, or set up LINE or Slack",
			"test.yaml: warning: there are no agents, so nothing can be asked; add one under agents",
		}},
		{"rule 2.10: no channel", agent + "people:\n  - {name: hana, roles: [approver], token: '${HANA_TOKEN}'}\n", []string{
			"test.yaml:1:1: warning: the policy asks people, but no channel has a recipient, so nobody is notified; use `countersign inbox`, or set up LINE or Slack",
		}},
		{"rule 2.10: no recipient", agent + lineYAML + "    notify: []\n", []string{
			"test.yaml:3:3: warning: the policy asks people, but no channel has a recipient, so nobody is notified; use `countersign inbox`, or set up LINE or Slack",
			"test.yaml:6:13: warning: LINE notifies nobody; name people in notify",
		}},
		{"nothing is quarantined", agent + "policy: {rules: [{tools: ['*'], action: deny}]}\n", nil},
		{"a rule for another method is not for all calls", agent +
			"people:\n  - {name: hana, roles: [approver], token: '${HANA_TOKEN}'}\npolicy: {rules: [{method: 'prompts/*', action: deny}]}\n", []string{
			"test.yaml:1:1: warning: the policy asks people, but no channel has a recipient, so nobody is notified; use `countersign inbox`, or set up LINE or Slack",
		}},
		{"LINE without an approver", agent +
			"people:\n  - {name: hana, roles: [admin], line: U4af4980629d1e4b8c9a2c1b2d3e4f5a6}\n" + lineYAML +
			"    notify: [hana]\n", []string{
			"test.yaml:8:13: warning: LINE notifies nobody with the role approver, so nobody there can decide",
		}},
		{"Slack without an approver", agent +
			"people:\n  - {name: hana, roles: [approver], line: U4af4980629d1e4b8c9a2c1b2d3e4f5a6}\n" + slackYAML, []string{
			"test.yaml:6:5: warning: nobody with the role approver has a Slack user id, so nobody there can decide; add slack: U… to a person",
		}},
		{"secrets of another form", agent +
			"people:\n  - {name: hana, roles: [approver], slack: U01, line: U4af4980629d1e4b8c9a2c1b2d3e4f5a6}\n" +
			"channels:\n  line: {channel_secret: 8c570fa6dd201bb328f1c1eac23a96d, channel_access_token: value-of-line_token, notify: [hana]}\n" +
			"  slack: {bot_token: value-of-slack_token, signing_secret: 8f742231b10e8888abcd99yyyzzz85a5, channel: C0APPROVALS}\n", []string{
			"test.yaml:5:26: warning: channel_secret is not 32 characters out of 0-9 and a-f, as LINE's are, so taps may be refused; copy the Channel secret from the channel's Basic settings tab in the LINE Developers console",
			"test.yaml:6:22: warning: bot_token does not begin with xoxb-, as Slack's bot tokens do; copy the Bot User OAuth Token (xoxb-…) from OAuth & Permissions of your app",
		}},
		{"a person without a way in", agent +
			"people:\n  - {name: hana, roles: [approver], slack: U01}\n  - {name: ken, roles: [approver]}\n" + slackYAML,
			[]string{
				"test.yaml:4:5: warning: ken cannot decide anything; add line, slack or token to that person",
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := parseText(t, test.text)
			var got []string
			for _, p := range problems {
				if !strings.Contains(p.Message, "allows every tool") {
					got = append(got, p.String())
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Rule 2.1: what does not check does not start, and says where.
func TestRule2_1_AProblemLeavesNoConfig(t *testing.T) {
	cfg, problems, err := Parse("gate.yaml", []byte("listen: nowhere\nagents: 1\n"), testEnv)
	if cfg != nil {
		t.Errorf("cfg = %v", cfg)
	}
	const want = "gate.yaml:1:9: listen must be host:port, such as 127.0.0.1:8787\ngate.yaml:2:9: agents must be a list"
	if err == nil || err.Error() != want {
		t.Errorf("err = %v\nwant %s", err, want)
	}
	if len(problems) < 2 {
		t.Errorf("problems = %v", problems)
	}
}

func TestLoadSaysWhyItCannotRead(t *testing.T) {
	_, _, err := Load(filepath.Join(t.TempDir(), "missing.yaml"), testEnv)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
	big := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(big, []byte(strings.Repeat("# a comment\n", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(big, testEnv); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("err = %v", err)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	cfg, _ := load(t, "full.yaml")
	asJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("config", "config", cfg, "agent", cfg.File.Agents[0])
	slog.New(slog.NewJSONHandler(&log, nil)).Info("config", "config", cfg, "person", cfg.File.People[0])
	printed := []string{
		fmt.Sprint(cfg), fmt.Sprintf("%v", *cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%+v", cfg.File),
		fmt.Sprintf("%#v", cfg.File),
		fmt.Sprintf("%+v", lineSection(cfg)), fmt.Sprintf("%+v", *slackSection(cfg)), string(asJSON), string(asYAML),
		log.String(),
	}
	for i, s := range printed {
		if at := strings.Index(s, "value-of-"); at >= 0 {
			t.Errorf("%d: %s", i, s[at:min(len(s), at+60)])
		}
	}
	for _, s := range []string{string(asJSON), string(asYAML)} {
		if !strings.Contains(s, "secret>") && !strings.Contains(s, `secret\u003e`) || !strings.Contains(s, "treasury-bot") {
			t.Errorf("got %s", s)
		}
	}
}

// What is wrong with a secret is said without it.
func TestProblemsHoldNoSecrets(t *testing.T) {
	env := func(string) (string, bool) { return "leaked secret", true }
	text := strings.ReplaceAll(fullText(t), "U4af4980629d1e4b8c9a2c1b2d3e4f5a6", "${LINE_ID}")
	_, problems, err := Parse("test.yaml", []byte(text), env)
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range problems {
		if strings.Contains(p.String(), "leaked") {
			t.Errorf("%s", p)
		}
	}
}

func fullText(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Whoever writes a secret into the file and slips is not told it back: reports go to logs and into the
// audit log.
func TestASlipInASecretDoesNotTellIt(t *testing.T) {
	for _, value := range []string{
		"${AGENT_TOKEN:-leaked-secret-0123456789}", // as a shell would take it
		"abc${leaked-secret-0123456789",
		"abc${leaked_secret_0123456789",
		`"${leaked secret 0123456789}"`,
		"*leaked-secret-0123456789",
		"!leaked-secret-0123456789",
		"!leaked-secret-0123456789 x",
		"|leaked-secret-0123456789",
		">leaked-secret-0123456789",
		`"leaked-secret\q-0123456789"`,
		"leaked-secret: 0123456789",
		"{leaked-secret-0123456789}",
		"[leaked-secret-0123456789]",
	} {
		_, problems, err := Parse("x.yaml", []byte("agents:\n  - name: bot\n    token: "+value+"\n"), testEnv)
		if err == nil {
			t.Errorf("%s: no problem", value)
		}
		for _, p := range problems {
			if strings.Contains(p.String(), "leaked") || strings.Contains(p.String(), "0123456789") {
				t.Errorf("%s: told: %s", value, p)
			}
			if p.Line != 3 {
				t.Errorf("%s: %s", value, p)
			}
		}
	}
}

func TestHugeNestingIsRefusedQuickly(t *testing.T) {
	deep := 200_000
	for _, text := range []string{
		strings.Repeat("[", deep), strings.Repeat("{a: ", deep), strings.Repeat("- ", deep), strings.Repeat("? ", deep),
		"a: &a [x, x, x, x, x, x, x, x]\n" + doubling(),
	} {
		begun := time.Now()
		_, problems, err := Parse("test.yaml", []byte(text), testEnv)
		if err == nil {
			t.Errorf("%.20s…: no error, %v", text, problems)
		}
		if took := time.Since(begun); took > testkit.Patience {
			t.Errorf("%.20s…: took %s", text, took)
		}
	}
}

func doubling() string {
	var b strings.Builder
	for c := 'b'; c < 'l'; c++ {
		fmt.Fprintf(&b, "%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	return b.String()
}

func TestPositionsWithOtherLineEndsAndMarks(t *testing.T) {
	for _, text := range []string{"listen: x\r\nstore: y\r\n", "\ufefflisten: x\nstore: y\n"} {
		_, problems, _ := Parse("t.yaml", []byte(text), testEnv)
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d", p.Line, p.Column))
		}
		if diff := cmp.Diff([]string{"1:9", "2:8"}, got); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
	}
	_, problems, _ := Parse("t.yaml", []byte("listen: x\nstore: \xff\n"), testEnv)
	if len(problems) != 1 || problems[0].Line != 2 || problems[0].Column != 8 {
		t.Errorf("problems = %v", problems)
	}
}

var problemForm = regexp.MustCompile(`^fuzz\.yaml(:[0-9]+:[0-9]+)?: .`)

// Whatever the file, Parse returns; a configuration that it accepts holds what the rest of the program
// relies on.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, problems, err := Parse("fuzz.yaml", data, testEnv)
		for _, p := range problems {
			if !problemForm.MatchString(p.String()) || p.Line < 0 || p.Column < 0 {
				t.Errorf("problem %+v", p)
			}
		}
		if err != nil {
			if cfg != nil {
				t.Error("a config with an error")
			}
			return
		}
		if cfg.Policy == nil || cfg.Location == nil || cfg.StorePath == "" || cfg.Listen == "" {
			t.Errorf("incomplete: %+v", cfg)
		}
		seen := map[secret.Value]bool{}
		for _, a := range cfg.Agents() {
			if !approval.ValidName(a.Name) || len(a.Token) < 16 || seen[a.Token] {
				t.Errorf("agent %q with a token of %d characters", a.Name, len(a.Token))
			}
			seen[a.Token] = true
		}
		for _, p := range cfg.People() {
			if p.Name == "" || p.Token != "" && (len(p.Token) < 16 || seen[p.Token]) {
				t.Errorf("person %q with a token of %d characters", p.Name, len(p.Token))
			}
			seen[p.Token] = p.Token != ""
		}
		for _, e := range cfg.Heartbeat() {
			if err := e.Validate(); err != nil {
				t.Errorf("heartbeat: %v", err)
			}
		}
	})
}

func TestExplain(t *testing.T) {
	cfg, _ := load(t, "full.yaml")
	x, err := cfg.Explain(Question{Agent: "treasury-bot", Tool: "bank/transfer_credits",
		Args: []byte(`{"amount_cents":5000}`)})
	if err != nil {
		t.Fatal(err)
	}
	if x.Action != approval.Quarantine || x.ReasonCode != "over_threshold" || x.Tool != "bank/transfer_credits" {
		t.Errorf("explanation = %+v", x)
	}
	for _, q := range []Question{
		{Tool: "no spaces"}, {Tool: "a/b/c"}, {Tool: "pay", Args: []byte(`[]`)}, {Tool: "pay", Args: []byte(`{"a":1,"a":2}`)},
	} {
		if _, err := cfg.Explain(q); err == nil || strings.Contains(err.Error(), "invalid_") {
			t.Errorf("Explain(%+v): %v", q, err)
		}
	}
}

// Who is reached, where and in which order.
func TestRoutes(t *testing.T) {
	cfg, problems := load(t, "people.yaml")
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	const hana, mai = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6", "U4af4980629d1e4b8c9a2c1b2d3e4f5a7"
	want := []approval.Route{
		{{Channel: "line", To: hana}, {Channel: "slack", To: "U02HANA"}},
		{{Channel: "webhook", To: "ken"}},
		{{Channel: "line", To: mai}},
		{{Channel: "slack", To: "C0APPROVALS"}},
	}
	if diff := cmp.Diff(want, cfg.Routes()); diff != "" {
		t.Errorf("routes: -want +got\n%s", diff)
	}
	want = []approval.Route{{{Channel: "line", To: hana}, {Channel: "slack", To: "U02HANA"}},
		{{Channel: "slack", To: "U03ROOT"}}}
	if diff := cmp.Diff(want, cfg.AdminRoutes()); diff != "" {
		t.Errorf("routes of admins: -want +got\n%s", diff)
	}
	var zones []string
	here := time.Local.String() // whoever has no time zone reads the machine's
	for _, p := range cfg.People() {
		zones = append(zones, p.Name+" "+p.Locale+" "+p.Zone.String())
	}
	if diff := cmp.Diff([]string{"hana ja Asia/Bangkok", "ken en " + here, "mai en " + here, "root en " + here},
		zones); diff != "" {
		t.Errorf("readers: -want +got\n%s", diff)
	}
	if got := lineSection(cfg).ChannelSecret.Reveal(); len(got) != 2 || got[1] != "8c570fa6dd201bb328f1c1eac23a96d8" {
		t.Errorf("%d channel secrets", len(got))
	}
	masked, n := cfg.Masker().Args([]byte(`{"access_token":"0123456789abcdef","iban":"DE89370400440532013000","token":"USDC"}`))
	if n != 2 || !strings.Contains(string(masked), `"token":"USDC"`) {
		t.Errorf("%d masked: %s", n, masked)
	}
}

// An address that was put where a channel's name belongs is not repeated: it may hold a secret.
func TestAnAddressInTheWrongPlaceIsNotRepeated(t *testing.T) {
	const address = "https://example.com/hooks/a-part-that-nobody-may-see"
	for _, value := range []string{"[\"" + address + "\"]", "\"" + address + "\""} {
		_, problems, err := Parse("test.yaml",
			[]byte("people:\n  - {name: hana, roles: [approver], token: hanas-own-token-0123, channels: "+value+"}\n"), testEnv)
		if err == nil {
			t.Fatal("taken")
		}
		for _, p := range problems {
			if strings.Contains(p.String(), "nobody-may-see") {
				t.Errorf("%s", p)
			}
		}
	}
}

// The guard knows the gate's own files wherever the configuration, or whoever starts the gate, says they are.
func TestRule5_TheGuardKnowsTheGatesOwnFiles(t *testing.T) {
	cfg, _, err := Parse("/srv/gate/gate.yaml", []byte(`agents: [{name: coder, token: coder-token-0123456789}]
store: sqlite:/var/lib/g/requests.db
socket: /run/g/api.sock
retention: {requests: 7y, audit: 7y, export: /var/lib/exports}
backup: {dir: /var/backups/gate}
policy:
  guard: gate_files
  rules: [{tools: ["*"], action: allow}]
`), func(string) (string, bool) { return "", false }, "/opt/vars/g.env")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/srv/gate/gate.yaml", "/srv/gate/gate.env", "/var/lib/g/requests.db-wal",
		"/run/g/api.sock", "/opt/vars/g.env", "/var/lib/exports/audit-2026-11-21-000000000001.ndjson.gz",
		"/var/backups/gate/countersign-20261124T000000Z.db.zst"} {
		x, err := cfg.Explain(Question{Agent: "coder", Tool: "Read", Args: []byte(`{"file_path":"` + path + `"}`)})
		if err != nil || x.Action != "quarantine" || x.Risk != "critical" {
			t.Errorf("%s: %s, %s, %v", path, x.Action, x.Risk, err)
		}
	}
	x, err := cfg.Explain(Question{Agent: "coder", Tool: "Read", Args: []byte(`{"file_path":"/srv/app/main.go"}`)})
	if err != nil || x.Action != "allow" {
		t.Errorf("another file: %s, %v", x.Action, err)
	}
}

// What is said of the audit log's age is checked against that of the requests, which it tells of.
func TestRetentionOfTheAuditLog(t *testing.T) {
	for said, want := range map[string]string{
		"{audit: 7y, requests: 400d}":           "",
		"{audit: 400d, requests: 400d}":         "",
		"{audit: 30d}":                          "audit must not be shorter than requests (forever)",
		"{audit: 7y, requests: 7y, export: /x}": "",
		"{audit: 399d, requests: 400d}":         "audit must not be shorter than requests (400d)",
		"{audit: 7y, requests: 1y, export: ''}": "export is a folder",
		"{export: /var/lib/exports}":            "export has nothing to do",
		"{audit: forever, export: /exports}":    "export has nothing to do",
		"{audit: 0d}":                           "audit is a number of days or years",
	} {
		_, problems, _ := Parse("test.yaml", []byte("retention: "+said+"\n"), testEnv)
		got := ""
		for _, p := range problems {
			if strings.HasPrefix(p.Message, "audit") || strings.HasPrefix(p.Message, "export") {
				got += p.Message
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
}

// What is said of backups is checked, and a secret key that was put in the place of a public one is not repeated.
func TestBackups(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for said, want := range map[string]string{
		"backup: {dir: " + dir + "}": "",
		"backup: {dir: " + dir + ", every: 1h, keep: 1, recipients: [" + id.Recipient().String() + "]}": "",
		"backup: {dir: " + dir + ", recipients: [" + other.Recipient().String() + "]}":                  "",
		"backup: {dir: b, recipients: [" + id.Recipient().String() + ", " + other.Recipient().String() + "]}": "cannot " +
			"read one backup together",
		"backup: {dir: /nowhere/at/all}":           "there is no folder /nowhere/at/all, and until there is no backup can be made",
		"backup: {dir: .}":                         "dir is the folder of the store itself",
		"backup: {dir: b, " + id.String() + ": x}": "it is too long to be one",
		"backup:":                                             "backup is empty: dir is missing",
		"backup: {every: 24h}":                                "dir is missing",
		"backup: {dir: ''}":                                   "dir is missing",
		"backup: {dir: b, every: 59m}":                        "every is how long it is from one backup to the next, from 1h to 744h",
		"backup: {dir: b, every: 745h}":                       "every is how long",
		"backup: {dir: b, keep: 0}":                           "keep is how many backups are kept, from 1 to 1000",
		"backup: {dir: b, keep: -1}":                          "keep is how many",
		"backup: {dir: b, often: 1h}":                         "unknown key \"often\"",
		"backup: /var/backups":                                "backup must be",
		"backup: {dir: b, recipients: x}":                     "recipients must be",
		"backup: {dir: b, recipients: [" + id.String() + "]}": "a recipient is a public key of age itself",
		"backup: {dir: b, recipients: ['']}":                  "a recipient is a public key of age itself",
		"heartbeat: [{name: backup, schedule: '@daily'}]":     "backup has nothing to do",
		"heartbeat: [{name: backup, schedule: '@daily'}]\nbackup: {dir: " + dir + "}": "",
		"store: postgres://gate@db.example.com/gate\nreplicas: {secret: 0123456789012345678901234567890123456789}\n" +
			"backup: {dir: b}": "backup copies the file of an SQLite store",
	} {
		_, problems, _ := Parse("test.yaml", []byte(said+"\n"), testEnv)
		got := ""
		for _, p := range problems {
			if !strings.Contains(p.Message, "the policy asks people") && !strings.Contains(p.Message, "there are no agents") &&
				!strings.HasPrefix(p.Message, "nobody") {
				got += p.Message
			}
			if strings.Contains(p.String(), "AGE-SECRET") {
				t.Errorf("the secret key is repeated: %s", p)
			}
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
	cfg, _, err := Parse("test.yaml", []byte(`backup: {dir: /nowhere/at/all}
agents: [{name: coder, token: coder-token-0123456789}]
people: [{name: hana, roles: [approver], token: hanas-own-token-0123}]
`), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := backup.Plan{Dir: "/nowhere/at/all", Every: 24 * time.Hour, Keep: 14}
	if diff := cmp.Diff(want, cfg.Backups); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if es := cfg.Heartbeat(); es[len(es)-1] != heartbeat.DefaultBackup() {
		t.Errorf("the table ends with %+v", es[len(es)-1])
	}
}

// What is said of telemetry is checked, and what may hold a password is not repeated.
func TestTelemetry(t *testing.T) {
	const address = "otlp is the address of an OpenTelemetry collector"
	for said, want := range map[string]string{
		"telemetry: {otlp: http://localhost:4318}":                 "",
		"telemetry: {otlp: \"https://otlp.example.com/v2/otlp/\"}": "",
		"telemetry: {otlp: \"http://[::1]:4318\"}":                 "",
		"telemetry:":                                           "otlp is missing",
		"telemetry: {}":                                        "otlp is missing",
		"telemetry: {otlp: ''}":                                "otlp is missing",
		"telemetry: {otlp: localhost:4318}":                    address,
		"telemetry: {otlp: collector}":                         address,
		"telemetry: {otlp: \"http://\"}":                       address,
		"telemetry: {otlp: \"http://:4318\"}":                  address,
		"telemetry: {otlp: grpc://localhost}":                  address,
		"telemetry: {otlp: \"http://%zz\"}":                    address,
		"telemetry: {otlp: \"http://bot:hidden-word@c:4318\"}": "otlp must have no user, query or fragment",
		"telemetry: {otlp: \"http://c:4318?key=hidden-word\"}": "otlp must have no user",
		"telemetry: {otlp: \"http://c:4318#hidden-word\"}":     "otlp must have no user",
		"telemetry: {otlp: \"ftp://bot:hidden-word@c\"}":       address,
		"telemetry: {otlp: http://localhost:4317}":             "4317 is the usual port of OTLP over gRPC",
		"telemetry: {otlp: http://c:4318/v1/traces/}":          "otlp ends in what the gate adds to it",
		"telemetry: {otlp: [a]}":                               "otlp must be",
		"telemetry: http://localhost:4318":                     "telemetry must be",
		"telemetry: {endpoint: http://localhost:4318}":         "unknown key \"endpoint\"",
	} {
		_, problems, _ := Parse("test.yaml", []byte(said+"\n"), testEnv)
		got := ""
		for _, p := range problems {
			if strings.Contains(p.Message, "otlp") || strings.Contains(p.Message, "OTLP") ||
				strings.HasPrefix(p.Message, "telemetry") || strings.Contains(p.Message, "unknown key") {
				got += p.Message
			}
			if strings.Contains(p.String(), "hidden-word") {
				t.Errorf("what may be a password is repeated: %s", p)
			}
		}
		if !strings.Contains(got, want) || want == "" && got != "" || strings.Count(got, "otlp is") > 1 {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
}

// Whoever has said nothing of it is told of a file that only grows, before the disk is full.
func TestALargeStoreWithoutRetentionIsWarnedOf(t *testing.T) {
	for _, test := range []struct {
		size   int64
		said   string
		warned bool
	}{
		{muchToKeep, "", true},
		{muchToKeep - 1, "", false},
		{muchToKeep, "retention: {args: forever}\n", false},
		{muchToKeep, "retention: {args: 90d}\n", false},
		{-1, "", false}, // there is none yet
	} {
		path := filepath.Join(t.TempDir(), "countersign.db")
		if test.size >= 0 {
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, test.size)); err != nil {
				t.Fatal(err)
			}
		}
		_, problems := parseText(t, fmt.Sprintf("store: %q\n%s", "sqlite:"+path, test.said))
		i := slices.IndexFunc(problems, func(p Problem) bool {
			return strings.Contains(p.Message, "nothing is ever removed")
		})
		if warned := i >= 0; warned != test.warned {
			t.Errorf("of %d bytes, with %q: warned %v, want %v", test.size, test.said, warned, test.warned)
		}
		if i >= 0 && (!strings.Contains(problems[i].Message, "grown to 1.0 GiB") || problems[i].Line != 1) {
			t.Errorf("%+v", problems[i])
		}
	}
}
