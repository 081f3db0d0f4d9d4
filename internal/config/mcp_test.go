package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/policy"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

func TestMCPServers(t *testing.T) {
	cfg, problems := load(t, "mcp.yaml")
	for _, p := range problems {
		t.Errorf("problem: %s", p)
	}
	if cfg.Socket != "/run/countersign/gate.sock" || cfg.AnonymousAgent != "desk" || cfg.MCP.Hold != 20*time.Second {
		t.Errorf("socket %q, anonymous agent %q, hold %s", cfg.Socket, cfg.AnonymousAgent, cfg.MCP.Hold)
	}
	if got := []string{cfg.AgentKeyboard("desk"), cfg.AgentKeyboard("ci"), cfg.AgentKeyboard("nobody")}; !cmp.Equal(got,
		[]string{"hana", "", ""}) {
		t.Errorf("keyboards %q", got)
	}
	files, tickets, billing := cfg.MCP.Servers[0], cfg.MCP.Servers[1], cfg.MCP.Servers[2]
	wantArgv := []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "--key=value-of-files_key", "/data"}
	if diff := cmp.Diff(wantArgv, files.Argv()); diff != "" {
		t.Errorf("argv: -want +got\n%s", diff)
	}
	if files.Env["API_KEY"].Reveal() != "value-of-files_api_key" || files.Dir != "/srv/files" ||
		files.Timeout != 10*time.Minute || files.StartTimeout != 90*time.Second {
		t.Errorf("files: env %d, dir %q, timeouts %s and %s", len(files.Env), files.Dir, files.Timeout, files.StartTimeout)
	}
	if got := tickets.Headers["Authorization"].Reveal(); got != "Bearer value-of-tickets" ||
		tickets.URL.Reveal() != "https://tickets.example/mcp?key=value-of-tickets_key" {
		t.Errorf("tickets: %q", got)
	}
	if tickets.Timeout != 5*time.Minute || tickets.StartTimeout != 30*time.Second {
		t.Errorf("by default timeouts of %s and %s", tickets.Timeout, tickets.StartTimeout)
	}
	if got := []string{files.OfferedName("x"), tickets.OfferedName("x"), billing.OfferedName("x")}; !cmp.Equal(got,
		[]string{"files__x", "x", "bill__x"}) {
		t.Errorf("tools are offered as %q", got)
	}

	asJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{string(asJSON), string(asYAML), fmt.Sprintf("%+v", cfg.File), fmt.Sprintf("%#v", cfg.MCP),
		fmt.Sprint(cfg.MCP.Servers)} {
		if strings.Contains(s, "value-of-") || !strings.Contains(s, "tickets") {
			t.Errorf("printed: %s", s)
		}
	}
}

// The gate's secrets are in its environment, and no server's business.
func TestAServerGetsNoneOfTheGatesSecrets(t *testing.T) {
	cfg, _ := load(t, "mcp.yaml")
	own := []string{"PATH=/bin", "HOME=/srv", "https_proxy=http://proxy:3128", "LC_ALL=C", "FILES_API_KEY=x",
		"API_KEY=the gate's own", "HANA_TOKEN=y", "odd", "LANG"}
	want := []string{"PATH=/bin", "HOME=/srv", "https_proxy=http://proxy:3128", "LC_ALL=C", "LANG",
		"API_KEY=value-of-files_api_key"}
	if diff := cmp.Diff(want, cfg.MCP.Servers[0].Environ(own)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := (Server{}).Environ(nil); got == nil { // nil would be all of the gate's
		t.Error("without variables the environment is nil")
	}
}

func TestMCPDefaults(t *testing.T) {
	cfg, _ := parseText(t, "mcp: {hold: 0}\n")
	if cfg.MCP.Hold != 0 {
		t.Errorf("hold is %s, want none", cfg.MCP.Hold)
	}
	cfg, _ = parseText(t, "mcp: {servers: [{name: a, command: [x], prefix: }]}\n")
	if got := cfg.MCP; got.Hold != 45*time.Second || got.Servers[0].ToolPrefix() != "a__" {
		t.Errorf("%+v", got)
	}
}

// told is what a rule says, in a line.
func told(r policy.RuleInfo) string {
	s := fmt.Sprintf("%s: %s %s", r.Name, r.Action, strings.Join(r.Tools, " "))
	if r.Message != "" {
		s += " " + r.Message
	}
	if len(r.Methods) > 0 {
		s += " " + fmt.Sprint(r.Methods)
	}
	return s
}

// A server's require_approval is made into rules that come after all others.
func TestRequireApprovalIsMadeIntoRules(t *testing.T) {
	for _, test := range []struct {
		name, server string
		want         []string
	}{
		{"nothing said", `{name: a, command: [x], tools: [r, w]}`, nil},
		{"some", `{name: a, command: [x], tools: [r, w, d, l], require_approval: [d, w]}`, []string{
			"mcp.servers.a.require_approval: quarantine a/d a/w",
			"mcp.servers.a.others: allow a/r a/l",
		}},
		{"each of them", `{name: a, command: [x], tools: [r, w], require_approval: [r, w]}`, []string{
			"mcp.servers.a.require_approval: quarantine a/r a/w",
		}},
		{"all", `{name: a, command: [x], tools: [r, w], require_approval: ["*"]}`, []string{
			"mcp.servers.a.require_approval: quarantine a/r a/w",
		}},
		{"all of an open list", `{name: a, command: [x], require_approval: ["*"]}`, []string{
			"mcp.servers.a.require_approval: quarantine a/*",
		}},
		{"some of an open list", `{name: a, command: [x], require_approval: [w]}`, []string{
			"mcp.servers.a.require_approval: quarantine a/w",
			"mcp.servers.a.others: allow a/*",
		}},
		{"a prompt", `{name: a, command: [x], tools: [r, w], require_approval: [w], prompt: "Run {toolName}?"}`, []string{
			"mcp.servers.a.require_approval: quarantine a/w Run {toolName}?",
			"mcp.servers.a.others: allow a/r",
		}},
		{"prompts", `{name: a, command: [x], tools: [r, w, d], require_approval: [w, d], prompt: "Run?", prompts: {w: "Write\n{args.path}?"}}`, []string{
			"mcp.servers.a.prompts.w: quarantine a/w Write {args.path}?",
			"mcp.servers.a.require_approval: quarantine a/d Run?",
			"mcp.servers.a.others: allow a/r",
		}},
		{"prompts for each", `{name: a, command: [x], require_approval: [w], prompt: "Run?", prompts: {w: "Write?"}}`,
			[]string{
				"mcp.servers.a.prompts.w: quarantine a/w Write?",
				"mcp.servers.a.others: allow a/*",
			}},
		{"a prompt for all", `{name: a, command: [x], require_approval: ["*"], prompts: {w: "Write?"}}`, []string{
			"mcp.servers.a.prompts.w: quarantine a/w Write?",
			"mcp.servers.a.require_approval: quarantine a/*",
		}},
		{"a prompt alone", `{name: a, command: [x], tools: [r, w], prompt: "Run?"}`, []string{
			"mcp.servers.a.prompt: quarantine a/r a/w Run?",
		}},
		{"a prompt alone, of an open list", `{name: a, command: [x], prompt: "Run?"}`, []string{
			"mcp.servers.a.prompt: quarantine a/* Run?",
		}},
		{"other methods", `{name: a, command: [x], require_approval: ["*"], require_methods: [resources/read, "p*"]}`,
			[]string{
				"mcp.servers.a.require_approval: quarantine a/*",
				"mcp.servers.a.require_methods: quarantine a/* [resources/read prompts/get]",
			}},
		{"other methods alone", `{name: a, command: [x], require_methods: ["*"]}`, []string{
			"mcp.servers.a.require_methods: quarantine a/* " + fmt.Sprint(policy.KnownMethods()),
		}},
		{"prompts alone", `{name: a, command: [x], tools: [r, w], prompts: {w: "Write?"}}`, []string{
			"mcp.servers.a.prompts.w: quarantine a/w Write?",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg, _ := parseText(t, "mcp:\n  servers:\n  - "+test.server+
				"\npolicy: {rules: [{name: own, tools: [w], action: deny}]}\n")
			rules := cfg.Policy.Rules()
			if rules[0].Name != "own" {
				t.Errorf("the first rule is %s", told(rules[0]))
			}
			var got []string
			for _, r := range rules[1:] {
				got = append(got, told(r))
				key, ok := strings.CutPrefix(r.Path, "$.mcp.servers[0].")
				key = strings.TrimPrefix(key, "prompts.") + ": "
				if want := len("  - ") + strings.LastIndex(test.server, key) + len(key) + 1; !ok || r.Line != 3 ||
					r.Column != want {
					t.Errorf("%s comes from %s at %d:%d, want 3:%d", r.Name, r.Path, r.Line, r.Column, want)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			// The file's own rule stands before them, and what was not allowed by name is not allowed.
			ask := func(server, tool string) approval.Verdict {
				return cfg.Policy.Evaluate(t.Context(), approval.Call{Agent: "bot", Server: server, Tool: tool,
					Args: mustArgs(t, `{}`)})
			}
			if v := ask("a", "w"); v.Action != approval.Deny {
				t.Errorf("the file's own rule does not hold: %+v", v)
			}
			if v := ask("b", "r"); v.Action != approval.Quarantine {
				t.Errorf("another server's tool gets %+v", v)
			}
		})
	}
}

func TestMCPWarnings(t *testing.T) {
	const server = "mcp: {servers: [{name: a, command: [x]}, {name: b, command: [x]}]}\n"
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"an open list of which the rest is allowed", "mcp: {servers: [{name: a, command: [x], require_approval: [w]}]}\n",
			nil},
		{"a server that is not there", server + "policy: {rules: [{tools: [c/x], action: deny}]}\n",
			[]string{"2:27: warning: mcp.servers has no \"c\" (this is right if the server is behind `countersign mcp` or a hook)"}},
		{"allowed on any server", server + "policy: {rules: [{tools: [x], action: allow}]}\n", []string{
			`2:27: warning: "x" is allowed on any server (a, b); write server/x to say which`}},
		{"headers in the clear", "mcp: {servers: [{name: a, url: 'http://tickets.example/mcp', headers: {A: b}}]}\n",
			[]string{
				"1:32: warning: the headers go to the server a unencrypted; use https"}},
		{"headers to this machine", "mcp: {servers: [{name: a, url: 'http://[::1]:9000/mcp', headers: {A: b}}]}\n", nil},
		{"other methods run unasked", `mcp: {servers: [{name: a, command: [x], require_approval: ["*"]}]}` + "\n", []string{
			`1:59: warning: "*" is every tool of a; calls of resources/read, resources/subscribe, prompts/get, completion/complete run unasked: to be asked about them too write ` +
				`require_methods: [resources/read, resources/subscribe, prompts/get, completion/complete]; if they may run, a rule says so: ` +
				`{method: [resources/read, resources/subscribe, prompts/get, completion/complete], tools: ["a/*"], action: allow}`}},
		{"some other methods run unasked", `mcp: {servers: [{name: a, command: [x], require_approval: ["*"]}]}` +
			"\npolicy: {rules: [{method: 'resources/*', action: deny}, {method: [prompts/get], tools: ['b/*'], action: deny}, {method: prompts/get, agents: [x], risk: high}]}\n", []string{
			`1:59: warning: "*" is every tool of a; calls of completion/complete run unasked: to be asked about them too write require_methods: [completion/complete]; if they may run, a rule says so: ` +
				`{method: [completion/complete], tools: ["a/*"], action: allow}`,
			"2:89: warning: mcp.servers has no \"b\" (this is right if the server is behind `countersign mcp` or a hook)",
			`2:143: warning: there is no agent "x"`}},
		{"that other methods run is said", `mcp: {servers: [{name: a, command: [x], require_approval: ["*"]}]}` +
			"\npolicy: {rules: [{method: '*', tools: ['a/*'], when: 'tool != \"x\"', action: allow}]}\n", nil},
		{"some other methods are asked about",
			`mcp: {servers: [{name: a, command: [x], require_approval: ["*"], require_methods: [resources/read]}]}` + "\n", nil},
		{"a keyboard for nothing",
			"agents: [{name: desk, token: '${DESK_TOKEN}', keyboard: hana}]\npeople: [{name: hana, roles: [approver], token: '${HANA_TOKEN}'}]\n", []string{
				"1:57: warning: hana can decide nothing at the keyboard; set elicitation: true on a risk level"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := parseText(t, test.text)
			var got []string
			for _, p := range problems {
				s := strings.TrimPrefix(p.String(), "test.yaml:")
				if !strings.Contains(s, "allows every tool") && !strings.Contains(s, "nobody") &&
					!strings.Contains(s, "there are no agents,") {
					got = append(got, s)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestWhereAnonymousAgentsAreLetIn(t *testing.T) {
	const line = "channels: {line: {channel_secret: '${LINE_SECRET}', channel_access_token: '${LINE_TOKEN}', notify: []}}\n"
	const socketMode = "people: [{name: hana, roles: [approver], slack: U02HANA}]\nchannels: {slack: {bot_token: 'xoxb-0123456789abcdef', app_token: 'xapp-0123456789abcdef', channel: C0APPROVALS}}\n"
	for _, test := range []struct {
		text string
		ok   bool
	}{
		{"", true},
		{"listen: localhost:8787\n", true},
		{"listen: '[::1]:8787'\n", true},
		{"listen: 127.9.9.9:8787\n", true},
		{"listen: '[::ffff:127.0.0.1]:8787'\n", true},
		{"listen: :8787\n", false},
		{"listen: 0.0.0.0:8787\n", false},
		{"listen: gate.example.com:8787\n", false},
		{"listen: localhost.example.com:8787\n", false},
		{"listen: 10.0.0.1:8787\nwebhook_listen: :8788\n", false},
		{line, false},
		{line + "webhook_listen: :8788\n", true},
		{line + "webhook_listen:\n", false},
		{socketMode, true},
	} {
		_, _, err := Parse("test.yaml",
			[]byte(test.text+"anonymous_agent: desk\nagents: [{name: desk, token: '${DESK_TOKEN}'}]\n"), testEnv)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.text, err)
		}
	}
}

// A token that was put where a name belongs is not repeated.
func TestATokenInPlaceOfANameIsNotRepeated(t *testing.T) {
	for _, text := range []string{
		"anonymous_agent: tok-nobody-may-see-this-one\n",
		"agents: [{name: desk, token: '${DESK_TOKEN}', keyboard: tok-nobody-may-see-this-one}]\n",
		"mcp: {servers: [{name: tok-nobody-may-see-this-one-for-it-is-too-long, command: [x]}]}\n",
		"mcp: {servers: [{name: a, url: 'tok-nobody-may-see-this-one'}]}\n",
		"mcp: {servers: [{name: a, url: 'https://u:tok-nobody-may-see-this-one@b/'}]}\n",
		"mcp: {servers: [{name: a, command: 'x --key tok-nobody-may-see-this-one'}]}\n",
		"mcp: {servers: [{name: a, url: 'https://b/', headers: {'Bearer tok-nobody-may-see-this-one': x}}]}\n",
		"mcp: {servers: [{name: a, url: 'https://b/', headers: {A: \"tok-nobody-may-see-this-one\\n\"}}]}\n",
		"mcp: {servers: [{name: a, url: 'https://b/', headers: 'A: tok-nobody-may-see-this-one'}]}\n",
		"mcp: {servers: [{name: a, command: [x], env: {'A=tok-nobody-may-see-this-one': x}}]}\n",
	} {
		_, problems, err := Parse("test.yaml", []byte(text), testEnv)
		if err == nil {
			t.Errorf("%s: taken", text)
		}
		for _, p := range problems {
			if strings.Contains(p.String(), "nobody-may-see") {
				t.Errorf("told: %s", p)
			}
		}
	}
}

// A file of another program's spelling says the same, and where it says it; what is told names the usual keys alone.
func TestOtherSpellingsOfKeysSayTheSame(t *testing.T) {
	const text = `policy:
  levels: {medium: {require_approval: true}}
  rules:
    - {tools: [r], require_approval: false}
    - {tools: [w, "a/*"], require_approval: true, risk: high}
mcp: {servers: [{name: a, command: [x], tools: [r, w], require_approval: [w]}]}
`
	other := strings.NewReplacer("tools", "toolNames", "require_approval", "requireApproval").Replace(text)
	cfg, problems := parseText(t, text)
	same, otherProblems := parseText(t, other)
	rules := func(cfg *Config) (all []string) {
		for _, r := range cfg.Policy.Rules() {
			all = append(all, told(r)+" "+string(r.Risk)+" "+r.Path)
		}
		return all
	}
	if diff := cmp.Diff(rules(cfg), rules(same)); diff != "" {
		t.Errorf("rules: -usual +other\n%s", diff)
	}
	if diff := cmp.Diff(cfg.MCP, same.MCP); diff != "" || strings.Contains(fmt.Sprint(rules(same)), "toolNames") {
		t.Errorf("servers: -usual +other\n%s", diff)
	}
	messages := func(ps []Problem) (all []string) {
		for _, p := range ps {
			all = append(all, p.Message)
		}
		return all
	}
	if diff := cmp.Diff(messages(problems), messages(otherProblems)); diff != "" {
		t.Errorf("problems: -usual +other\n%s", diff)
	}
}

func TestExplainAMethod(t *testing.T) {
	cfg, _ := parseText(t, "policy: {rules: [{method: resources/read, tools: [files/*], action: deny}]}\n")
	for _, test := range []struct {
		q      Question
		action approval.Action
		reason string
	}{
		{Question{Method: "resources/read", Server: "files"}, approval.Deny, "forbidden"},
		{Question{Method: "resources/read", Server: "tickets"}, approval.Allow, "method_default"},
		{Question{Method: "tools/call", Server: "files", Tool: "x"}, approval.Quarantine, "unknown_tool"},
		{Question{Method: "odd/one"}, approval.Deny, "unknown_method"},
	} {
		x, err := cfg.Explain(test.q)
		if err != nil || x.Action != test.action || x.ReasonCode != test.reason {
			t.Errorf("%+v: %s, %s, %v; want %s, %s", test.q, x.Action, x.ReasonCode, err, test.action, test.reason)
		}
	}
	if _, err := cfg.Explain(Question{Method: "odd method"}); err == nil {
		t.Error("a method with a space is explained")
	}
}
