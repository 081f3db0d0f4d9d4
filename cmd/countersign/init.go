package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"countersign/internal/agents/localgate"
	"countersign/internal/locale"
	"countersign/internal/safefile"
	"countersign/internal/setup"
)

// defaultConfig is what a configuration is called where the operator does not say otherwise.
const defaultConfig = "countersign.yaml"

// localAgent is who callers are that come to a gate over its socket without a token.
const localAgent = "local"

type initCmd struct {
	File  string `default:"countersign.yaml" placeholder:"FILE" help:"The configuration to write; its secrets go into a file beside it that ends in .env."`
	Own   bool   `help:"Write it for your own gate, in your configuration folder. Commands that name no gate use that one, and start it when they need it."`
	Yes   bool   `short:"y" help:"Ask nothing: take the flags, and the defaults for the rest."`
	Force bool   `help:"Overwrite existing files; values in the file of secrets are kept."`

	Agent         *string `placeholder:"NAME" help:"Name of the agent."`
	CodingAgent   *bool   `negatable:"" help:"It is a coding agent (Claude Code, Codex, Gemini CLI): preset/coding-agent lets it read and search without asking. With --own, yes if not given."`
	Person        *string `placeholder:"NAME" help:"Your name: the approver."`
	TimeZone      *string `placeholder:"ZONE" help:"How times are shown, such as Asia/Tokyo."`
	Locale        *string `placeholder:"TAG" help:"The language of cards: en, ja, th or zh-TW."`
	Listen        string  `placeholder:"ADDR" help:"Where the API listens; 127.0.0.1:8787 if not given."`
	WebhookListen string  `placeholder:"ADDR" help:"Where the gate listens for LINE's and Slack's webhooks; 127.0.0.1:8788 if not given."`
	PublicURL     *string `placeholder:"URL" help:"The public https address of the webhooks, such as https://gate.example.com."`

	Line         *bool   `negatable:"" help:"Send cards in LINE."`
	LineID       *string `placeholder:"U…" help:"Your LINE user id; the bot's greeting tells it."`
	Slack        *bool   `negatable:"" help:"Send cards in Slack."`
	SocketMode   *bool   `negatable:"" help:"Reach Slack over Socket Mode, without a public address."`
	SlackID      *string `placeholder:"U…" help:"Your Slack member id."`
	SlackChannel *string `placeholder:"C…" help:"The id of the Slack channel that cards go to."`
}

func (*initCmd) Help() string {
	return `It asks for what no flag gives; Enter accepts the answer in brackets. It writes two files that only you can read: the configuration, with comments that explain it, and a file of secrets, with new random tokens and empty lines for LINE's and Slack's secrets. It asks for no secret: write those into the file afterwards, or set LINE_CHANNEL_SECRET, LINE_CHANNEL_ACCESS_TOKEN, SLACK_BOT_TOKEN, SLACK_SIGNING_SECRET or SLACK_APP_TOKEN in the environment before you start. No file is overwritten without --force.

Examples:

    countersign init
    countersign init --yes --agent treasury-bot --person hana --line --public-url https://gate.example.com
    countersign init --own
    countersign init --yes --coding-agent --agent claude --person hana
    countersign init --yes --slack --socket-mode --slack-channel C0APPROVALS --slack-id U02HANA --file gate.yaml`
}

func (c *initCmd) Run(_ context.Context, s *std) error {
	if err := c.place(s); err != nil {
		return err
	}
	path, env := c.File, envPath(c.File)
	if path == env {
		return usagef("--file names the configuration, and cannot end in .env")
	}
	if !c.Force {
		for _, p := range []string{path, env} {
			if _, err := os.Lstat(p); err == nil {
				return usagef("%s is there already; --file names another one, and --force writes both files anew", p)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return usagef("%s", err)
			}
		}
	}
	old, names, err := readEnv(env)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("%s", err)
	}
	a, err := c.answers(s)
	if err != nil {
		return err
	}
	a.Known = func(name string) (string, bool) {
		if v, ok := s.env(name); ok && strings.TrimSpace(v) != "" {
			return strings.TrimSpace(v), true
		}
		v, ok := old[name]
		return v, ok
	}
	a.Taken = func(name string) bool { // where the environment has another value, it would count before ours
		v, _ := s.env(name)
		return v != "" && v != old[name]
	}
	files, err := setup.New(path, env, a)
	if err != nil {
		return usagef("%s", err)
	}
	secrets := files.Env
	for _, name := range names { // what was there beside ours stays
		if old[name] != "" && !slices.Contains(files.Names, name) {
			secrets = fmt.Appendf(secrets, "\n# From before.\n%s=%s\n", name, envValue(old[name]))
		}
	}
	err = errors.Join(safefile.Write(env, secrets, 0o600), safefile.Write(path, files.Config, 0o600))
	if err != nil {
		return &exitError{exitFailed, err.Error()}
	}
	c.next(s, path, env, a, files)
	return nil
}

// place finds the place of the user's own gate, where it is meant.
func (c *initCmd) place(s *std) error {
	if !c.Own {
		return nil
	}
	if c.File != defaultConfig {
		return usagef("give either --own or --file")
	}
	mine, err := localgate.Find(s.env)
	if err != nil {
		return usagef("%s", err)
	}
	if err := os.MkdirAll(filepath.Dir(mine.Config), 0o700); err != nil {
		return &exitError{exitFailed, err.Error()}
	}
	c.File = mine.Config
	return nil
}

// answers asks what no flag says.
func (c *initCmd) answers(s *std) (a setup.Answers, err error) {
	q := &questions{s: s, in: bufio.NewReader(s.in), silent: c.Yes}
	a.Listen, a.WebhookListen = c.Listen, c.WebhookListen
	agent := "agent"
	if c.Own {
		agent = localAgent
	}
	a.Agent = q.text(c.Agent, "Name of the agent?", agent)
	a.Person = q.text(c.Person, "Your name (the approver)?", userName(s))
	a.TimeZone = q.text(c.TimeZone, "Your time zone?", timeZone(s))
	a.Locale = q.text(c.Locale, "Language of your cards ("+strings.Join(locale.Tags(), ", ")+")?", language(s))
	if a.Line = q.yes(c.Line, "Send cards to LINE?", c.LineID != nil); a.Line {
		a.LineID = q.text(c.LineID, "Your LINE user ID (U and 32 characters; leave empty if you don't know it yet)?", "")
	}
	if a.Slack = q.yes(c.Slack, "Send cards to Slack?", c.SlackID != nil || c.SlackChannel != nil ||
		c.SocketMode != nil); a.Slack {
		a.SocketMode = q.yes(c.SocketMode, "Use Slack's Socket Mode, which needs no public address?",
			c.PublicURL == nil)
		a.SlackChannel = q.text(c.SlackChannel,
			"ID of the Slack channel for the cards (C…; leave empty if you don't know it yet)?", "")
		a.SlackID = q.text(c.SlackID, "Your Slack member ID (U…; leave empty if you don't know it yet)?", "")
	}
	if a.Line || a.Slack && !a.SocketMode {
		a.PublicURL = q.text(c.PublicURL,
			"Public https address for the webhooks (leave empty if you don't know it yet)?", "")
	} else if c.PublicURL != nil {
		a.PublicURL = *c.PublicURL
	}
	q.ended = true // answers that were written down earlier may not go on to here
	a.CodingAgent = q.yes(c.CodingAgent, "Is it a coding agent (Claude Code, Codex, Gemini CLI)?", c.Own)
	return a, q.err
}

// questions are asked line by line.
type questions struct {
	s      *std
	in     *bufio.Reader
	silent bool
	ended  bool // the end of input is an empty answer
	err    error
}

// ask returns what is typed after a question.
func (q *questions) ask(question, otherwise string) string {
	if otherwise != "" {
		question += " [" + visible(otherwise) + "]"
	}
	return q.answer(question, otherwise)
}

// answer is what is typed after a question as it stands.
func (q *questions) answer(question, otherwise string) string {
	if q.silent || q.err != nil {
		return otherwise
	}
	fmt.Fprintf(q.s.err, "%s ", question)
	line, err := q.in.ReadString('\n')
	if line = strings.TrimSpace(line); err != nil && !(errors.Is(err, io.EOF) && (line != "" || q.ended)) {
		fmt.Fprintln(q.s.err)
		q.err = usagef("nobody is there to answer; give --yes, and flags for what you know")
	}
	if line == "" {
		return otherwise
	}
	return line
}

// text is an answer, or what the flag said.
func (q *questions) text(flag *string, question, otherwise string) string {
	if flag != nil {
		return strings.TrimSpace(*flag)
	}
	return q.ask(question, otherwise)
}

// yes is an answer of yes or no, or what the flag said.
func (q *questions) yes(flag *bool, question string, otherwise bool) bool { //nolint:revive // of who types none
	if flag != nil {
		return *flag
	}
	choice, word := "[y/N]", "no"
	if otherwise {
		choice, word = "[Y/n]", "yes"
	}
	for {
		switch strings.ToLower(q.answer(question+" "+choice, word)) {
		case "y", "yes":
			return true
		case "n", "no":
			return false
		}
		if q.err != nil {
			return false
		}
		fmt.Fprintln(q.s.err, "Please answer y or n.")
	}
}

// userName is what the person at this machine is probably called.
func userName(s *std) string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		if v := s.getenv(name); v != "" && v != "root" && strings.Trim(strings.ToLower(v),
			"abcdefghijklmnopqrstuvwxyz0123456789_.-") == "" {
			return v
		}
	}
	return "me"
}

// timeZone is the machine's, where it tells.
func timeZone(s *std) string {
	at, err := os.Readlink("/etc/localtime")
	_, linked, found := strings.Cut(at, "zoneinfo/")
	for _, zone := range []string{s.getenv("TZ"), linked} {
		if zone == "" || zone == linked && (err != nil || !found) {
			continue
		}
		if _, err := time.LoadLocation(zone); err == nil && zone != "Local" {
			return strings.TrimPrefix(zone, "Etc/")
		}
	}
	return "UTC"
}

// language is the machine's, where there are cards in it.
func language(s *std) string {
	lang := s.getenv("LC_ALL")
	for _, name := range []string{"LC_MESSAGES", "LANG"} {
		if lang == "" {
			lang = s.getenv(name)
		}
	}
	lang, _, _ = strings.Cut(strings.ReplaceAll(lang, "_", "-"), ".")
	for _, tag := range locale.Tags() {
		if strings.EqualFold(lang, tag) || !strings.Contains(tag, "-") && strings.HasPrefix(strings.ToLower(lang), tag+"-") {
			return tag
		}
	}
	return locale.Default
}

// next says what is to be done now.
func (c *initCmd) next(s *std, path, env string, a setup.Answers, f setup.Files) {
	s.printf("Wrote %s, and its secrets to %s. Only you can read them.\n\nNext:\n\n", visible(path),
		visible(env))
	n := 0
	step := func(format string, args ...any) {
		n++
		s.printf("%d. %s\n", n, fmt.Sprintf(format, args...))
	}
	flag := ""
	if path != defaultConfig {
		flag = " --config " + visible(path)
	}
	if a.Slack {
		manifest := "countersign manifest --socket-mode"
		if !a.SocketMode {
			manifest = "countersign manifest --public-url " + visible(cmp.Or(a.PublicURL, "https://YOUR-HOST"))
		}
		step("Create the Slack app from what `%s` prints: docs/slack.md.", manifest)
	}
	if a.Line {
		step("Create the LINE channel: docs/line.md.")
	}
	if len(f.Missing) > 0 {
		step("Fill in %s:", visible(env))
		for _, m := range f.Missing {
			s.printf("   %-25s  from %s\n", m.Name, m.From)
		}
	}
	if a.Line || a.Slack && !a.SocketMode {
		if a.PublicURL == "" {
			step("Point a public https address at %s. Write it into public_url and into the platforms' settings.",
				visible(cmp.Or(a.WebhookListen, setup.DefaultWebhookListen)))
		} else {
			step("Point %s at %s, and enter it in the platforms' settings.", visible(a.PublicURL),
				visible(cmp.Or(a.WebhookListen, setup.DefaultWebhookListen)))
		}
	}
	if c.Own {
		step("Put the gate before your agent: `countersign install claude-code --preset` (or codex, gemini), or " +
			"`countersign mcp --` before an MCP server's command. The gate starts by itself when one of them needs it.")
		step("Write rules in %s. `countersign check%s` looks for mistakes.", visible(path), flag)
	} else {
		step("Run `countersign check%s`, then `countersign serve%s`, and leave it running.", flag, flag)
	}
	if a.Line && a.LineID == "" {
		step("Add the LINE bot as a friend. Its greeting tells your user id: write it into line:, and your name into " +
			"notify:. The gate reads the file again by itself.")
	}
	if a.Line || a.Slack {
		step("Run `countersign check --online%s`, which says what is still missing, and `countersign verify%s`, which shows "+
			"that only your tap decides.", flag, flag)
	} else {
		step("See what waits, and decide, with %s from %s:\n   (. %s; COUNTERSIGN_TOKEN=$%s countersign inbox)\n   "+
			"`countersign open` in its place opens the same in a browser.", f.Token, visible(env), visible(quoteSource(env)),
			f.Token)
	}
}

// quoteSource returns a file as a shell takes it behind a dot: with a folder, and in quotes where it needs them.
func quoteSource(path string) string {
	if !strings.ContainsAny(path, `/\`) {
		path = "./" + path
	}
	if strings.Trim(strings.ToLower(path), "abcdefghijklmnopqrstuvwxyz0123456789_./-") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

type manifestCmd struct {
	PublicURL  string `placeholder:"URL" help:"The public https address of the gate's webhooks."`
	SocketMode bool   `help:"For Socket Mode, which needs no public address."`
}

func (*manifestCmd) Help() string {
	return `Paste it at https://api.slack.com/apps: Create New App, From a manifest. It asks for the scopes that Countersign uses, and no others.

Examples:

    countersign manifest --public-url https://gate.example.com
    countersign manifest --socket-mode`
}

func (c *manifestCmd) Run(s *std) error {
	switch {
	case c.SocketMode == (c.PublicURL != ""):
		return usagef("give either --public-url, or --socket-mode, which needs no public address")
	case !c.SocketMode && !strings.HasPrefix(c.PublicURL, "https://"):
		return usagef("--public-url must begin with https://: Slack calls nothing else")
	}
	s.printf("%s", setup.Manifest(c.PublicURL))
	fmt.Fprintln(s.err, "Paste this at https://api.slack.com/apps: Create New App, From a manifest. What comes then is "+
		"in docs/slack.md.")
	return nil
}
