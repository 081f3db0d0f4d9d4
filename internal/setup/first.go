package setup

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"countersign/internal/config"
)

// Answers are what a first configuration is made of. Agent and Person are required.
type Answers struct {
	Agent, Person string
	CodingAgent   bool   // it includes preset/coding-agent
	TimeZone      string // default UTC
	Locale        string // default en
	Listen        string // default config.DefaultListen
	WebhookListen string // default DefaultWebhookListen, where something comes in there
	PublicURL     string // "": not known yet

	Line   bool
	LineID string // of the person; "": not known yet

	Slack        bool
	SocketMode   bool   // Slack is reached over Socket Mode
	SlackID      string // of the person; "": not known yet
	SlackChannel string // "": not known yet

	// Known gives values of variables that there are already; what it does not know is made or left empty.
	Known func(name string) (string, bool)
	// Taken reports which variables mean something else on this machine, so that no token may be called so.
	Taken func(name string) bool
}

// DefaultWebhookListen is where a first configuration takes webhooks.
const DefaultWebhookListen = "127.0.0.1:8788"

// Files are a first configuration.
type Files struct {
	Config  []byte
	Env     []byte   // its secrets, as NAME=value
	Names   []string // of the variables in Env
	Missing []Place  // what is still to be filled in there
	Token   string   // the variable of the person's token
}

// Place is an empty line of Env.
type Place struct {
	Name string
	From string // where the value is found
}

// variable is a line of Env.
type variable struct {
	name, value string
	comment     string
}

// New makes the files of a first configuration: path is what the configuration will be called, and env
// what its variables' file will. The error says which answer does not do.
func New(path, env string, a Answers) (Files, error) {
	a.TimeZone, a.Locale, a.Listen = cmp.Or(a.TimeZone, "UTC"), cmp.Or(a.Locale, "en"),
		cmp.Or(a.Listen, config.DefaultListen)
	if a.Known == nil {
		a.Known = func(string) (string, bool) { return "", false }
	}
	if a.WebhookListen == "" && (a.Line || a.Slack && !a.SocketMode) {
		a.WebhookListen = DefaultWebhookListen
	}
	var f Files
	vars, agentToken, personToken := f.variables(a)
	store := "countersign.db"
	if dir := filepath.Dir(path); dir != "." {
		store = filepath.Join(dir, store)
	}
	var text strings.Builder
	err := firstConfig.Execute(&text, map[string]any{
		"A": a, "Env": filepath.Base(env), "Store": quote("sqlite:" + filepath.ToSlash(store)),
		"AgentToken": agentToken, "PersonToken": personToken,
		"Hooks": a.WebhookListen != "", "LineKnown": a.Line && a.LineID != "",
	})
	if err != nil {
		return Files{}, err
	}
	f.Config = []byte(text.String())

	var lines strings.Builder
	fmt.Fprintf(&lines, "# The secrets of %s, one NAME=value a line. Keep them to yourself (chmod 600), out of\n# "+
		"version control and out of your agents' reach. A variable of the environment counts before this file.\n",
		filepath.Base(path))
	for _, v := range vars {
		f.Names = append(f.Names, v.name)
		fmt.Fprintf(&lines, "\n# %s\n%s=%s\n", v.comment, v.name, v.value)
	}
	f.Env = []byte(lines.String())
	return f, f.check(path, vars)
}

// variables lists what the configuration takes from the environment, with the values that are known or can
// be made, and notes in f which are missing. It names those of the agent's token and the person's.
func (f *Files) variables(a Answers) (vars []variable, agentToken, personToken string) {
	add := func(name, comment, otherwise, from string) string {
		value, known := a.Known(name)
		if !known || value == "" {
			value = otherwise
		}
		if value == "" {
			f.Missing = append(f.Missing, Place{name, from})
		}
		if from != "" {
			comment = from
		}
		vars = append(vars, variable{name, value, comment})
		return name
	}
	agentToken, personToken = a.tokenName(a.Agent, "AGENT_TOKEN"), a.tokenName(a.Person, "PERSON_TOKEN")
	if agentToken == personToken {
		agentToken, personToken = "AGENT_TOKEN", "PERSON_TOKEN"
	}
	add(agentToken, "Random, and made for you: the agent sends it as Authorization: Bearer …", newToken(), "")
	f.Token = add(personToken, "Random, and made for you: your own on the command line, as COUNTERSIGN_TOKEN. No agent "+
		"may read it.", newToken(), "")
	const apps = "Slack, " + slackApps + ", your app: "
	if a.Line {
		add("LINE_CHANNEL_SECRET", "", "", "LINE Developers console, your channel, Basic settings: Channel secret")
		add("LINE_CHANNEL_ACCESS_TOKEN", "", "",
			"LINE Developers console, your channel, Messaging API: Channel access token (long-lived)")
	}
	if a.Slack {
		add("SLACK_BOT_TOKEN", "", "", apps+"OAuth & Permissions, Bot User OAuth Token (xoxb-…)")
		if a.SocketMode {
			add("SLACK_APP_TOKEN", "", "", apps+"Basic Information, App-Level Tokens, with the scope connections:write (xapp-…)")
		} else {
			add("SLACK_SIGNING_SECRET", "", "", apps+"Basic Information, Signing Secret")
		}
		if a.SlackChannel == "" {
			add("SLACK_CHANNEL", "", "", "Slack, the channel that cards go to: its details, at the bottom, Channel ID (C…)")
		}
	}
	return vars, agentToken, personToken
}

// check parses the configuration as if every variable had a value.
func (f *Files) check(path string, vars []variable) error {
	_, problems, err := config.Parse(path, f.Config, func(name string) (string, bool) {
		i := slices.IndexFunc(vars, func(v variable) bool { return v.name == name })
		switch {
		case i < 0:
			return "", false
		case vars[i].value != "":
			return vars[i].value, true
		case name == "SLACK_APP_TOKEN":
			return "xapp-" + newToken(), true
		case name == "SLACK_CHANNEL":
			return "C0CHANNEL", true
		}
		return newToken(), true
	})
	if err == nil {
		return nil
	}
	var wrong []string
	for _, p := range problems {
		if !p.Warning {
			wrong = append(wrong, p.Message)
		}
	}
	if wrong == nil {
		return err
	}
	return errors.New(strings.Join(wrong, "; "))
}

// newToken makes a token.
func newToken() string {
	b := make([]byte, 24)
	rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// reserved are variables with a meaning of their own, which a token of somebody with a hard name could be
// taken for.
var reserved = []string{"COUNTERSIGN_TOKEN", "LINE_CHANNEL_ACCESS_TOKEN", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"}

// tokenName is the variable of somebody's token, or otherwise where their name makes none that is free.
func (a Answers) tokenName(name, otherwise string) string {
	upper := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		case r < 0x80:
			return '_'
		}
		return -1
	}, name)
	if upper = strings.Trim(upper, "_"); upper == "" || upper[0] <= '9' {
		return otherwise
	}
	for _, v := range []string{upper + "_TOKEN", "COUNTERSIGN_" + upper + "_TOKEN"} {
		if !slices.Contains(reserved, v) && (a.Taken == nil || !a.Taken(v)) {
			return v
		}
	}
	return otherwise
}

// quote is a string as a YAML value: in quotes unless it is plain beyond doubt.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:"
	words := []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
	if s == "" || strings.Trim(s, plain) != "" || strings.ContainsAny(s[:1], "0123456789-.:") ||
		strings.HasSuffix(s, ":") || slices.Contains(words, strings.ToLower(s)) {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`, "$", "$$").Replace(s) + `"`
	}
	return s
}

var firstConfig = template.Must(template.New("config").Funcs(template.FuncMap{"q": quote}).Parse(
	`# The configuration of a Countersign gate. "countersign check" looks for mistakes, "countersign explain"
# tells which rule decides a call, and a running gate takes a change of this file at once, whole or not at
# all. docs/configuration.md has every key.
#
# ${NAME} is a variable of the environment, or else a line of {{.Env}} beside this file.

listen: {{q .A.Listen}}   # the API, for agents and people on this machine
{{- if .Hooks}}
webhook_listen: {{q .A.WebhookListen}}   # the chats' way in, and nothing else: the address to expose
{{- if .A.PublicURL}}
public_url: {{q .A.PublicURL}}   # where webhook_listen is reached from outside
{{- else}}
# public_url: https://gate.example.com   # where webhook_listen is reached from outside, once that is known
{{- end}}
{{- else if .A.PublicURL}}
public_url: {{q .A.PublicURL}}
{{- end}}
store: {{.Store}}   # everything that was ever asked and decided
time_zone: {{q .A.TimeZone}}   # how people are shown times
retention:   # what is removed once it is over and so old; no line, or "forever", keeps it (docs/retention.md)
  args: 90d   # the arguments of requests, and what people were sent
  notifications: 90d   # which messages went to whom
  requests: 400d   # whole requests
  audit: 7y   # events of the audit log

agents:   # who asks; an agent can never decide
  - name: {{q .A.Agent}}
    token: ${ {{- .AgentToken -}} }

people:   # who decides
  - name: {{q .A.Person}}
    roles: [approver, admin]   # an approver decides, an admin reads the logs
    token: ${ {{- .PersonToken -}} }
    locale: {{q .A.Locale}}   # en, ja, th or zh-TW
{{- if .LineKnown}}
    line: {{q .A.LineID}}   # the LINE user id, which is another one with every provider
{{- else if .A.Line}}
    # line: U…   # add the bot as a friend: its greeting tells your LINE user id
{{- end}}
{{- if .A.SlackID}}
    slack: {{q .A.SlackID}}   # the Slack member id
{{- else if .A.Slack}}
    # slack: U…   # your Slack profile, ⋮, Copy member ID
{{- end}}
{{if or .A.Line .A.Slack}}
channels:   # how people are reached
{{- if .A.Line}}
  line:   # docs/line.md
    channel_secret: ${LINE_CHANNEL_SECRET}
    channel_access_token: ${LINE_CHANNEL_ACCESS_TOKEN}
{{- if .LineKnown}}
    notify: [{{q .A.Person}}]   # who gets cards
{{- else}}
    notify: []   # who gets cards: [{{q .A.Person}}], once line: above is filled in
{{- end}}
{{- end}}
{{- if .A.Slack}}
  slack:   # docs/slack.md
    bot_token: ${SLACK_BOT_TOKEN}
{{- if .A.SocketMode}}
    app_token: ${SLACK_APP_TOKEN}   # Socket Mode: Slack needs no public address
{{- else}}
    signing_secret: ${SLACK_SIGNING_SECRET}
{{- end}}
{{- if .A.SlackChannel}}
    channel: {{q .A.SlackChannel}}   # where cards go; invite the bot into it
{{- else}}
    channel: ${SLACK_CHANNEL}   # where cards go; invite the bot into it
{{- end}}
{{- if ne .A.Locale "en"}}
    locale: {{q .A.Locale}}
{{- end}}
{{- end}}
{{else}}
# channels:   # how people are reached: docs/line.md and docs/slack.md. Until then they decide with
#             # "countersign pending" and "countersign approve ID".
{{end}}
policy:
  default_timeout: 1h   # how long people have to decide
  use_within: 15m   # how long an approval may be used, once
{{- if .A.CodingAgent}}
  # The agent may read, search, plan, and run commands that are certain to only read. A person is asked about the rest;
  # edits in the folder that it works in share a card. Rules below come first. "countersign preset show coding-agent"
  # prints what it says.
  include: [preset/coding-agent]
{{- end}}
  rules:   # the first that matches a call decides; a call that none matches is asked about
    - name: tests of the gate itself
      tools: [countersign.verify]
      risk: medium
      action: ask
      message: A test by "countersign verify". It does nothing.
    # Write here what need not be asked about, what is asked about and why, and what must never run:
    #
    # - name: reading
    #   tools: [read_file, list_files, web_search]
    #   risk: low
    #   action: allow
    # - name: big transfers
    #   tools: [transfer_credits]
    #   when: args.amount_cents >= 1000
    #   risk: high
    #   message: Transfer exceeds the confirmation threshold ($10)
    # - name: never
    #   tools: [drop_database]
    #   risk: critical
    #   action: deny
`))
