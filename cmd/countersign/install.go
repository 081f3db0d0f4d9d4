package main

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/config"
	"countersign/hooks"
	"countersign/install"
	"countersign/own"

	"github.com/mattn/go-isatty"
)

// installFlags say whose settings are meant and how they are changed.
type installFlags struct {
	Agent  string `arg:"" enum:"claude-code,codex,gemini" help:"Whose settings: claude-code, codex or gemini."`
	Scope  string `enum:"user,project,local" default:"user" help:"user: for all you do; project: for everybody in this folder; local: for you in this folder (claude-code only)."`
	DryRun bool   `help:"Show the difference and change nothing."`
	Yes    bool   `short:"y" help:"Do not ask."`
}

type installCmd struct {
	installFlags
	Timeout duration  `default:"60s" help:"After how long the agent gives up on the hook; 60s if not given."`
	Wait    *duration `placeholder:"55s" help:"How long the hook holds a call for a decision; 5s less than --timeout if not given, 0 for not at all."`
	Defer   bool      `help:"Claude Code only: where a call is pending the run stops, and claude --resume asks about the same call again. Without --wait it stops at once."`
	Gateway []string  `sep:"none" placeholder:"NAME" help:"Leave the tools of this MCP server to the gateway that it is behind, by exactly the agent's name of it; for codex with the gateway's prefix, as gate__files. May be given more than once."`
	Server  string    `placeholder:"URL" help:"Have the hook ask the gate there; else it looks for COUNTERSIGN_SERVER each time."`
	HTTP    string    `name:"http" placeholder:"URL" help:"Claude Code only: have it post to the gate at this address, instead of running a program."`
	Config  string    `placeholder:"FILE" help:"The gate's configuration, which gets a rule that guards it; countersign.yaml here or in ~/.config/countersign if not given."`
	EnvFile string    `placeholder:"FILE" help:"The file with its variables; if not given, the one beside it that ends in .env."`
}

func (*installCmd) Help() string {
	return `It adds our hooks to the agent's settings and keeps every other setting and comment; what is there of an older version is brought up to date, and repeating it changes nothing. To the gate's configuration it adds a rule, before all others, that asks a person, at critical risk, about calls which name the gate's files or the agents' settings. The difference is shown first. No token is written: start the agent with COUNTERSIGN_TOKEN set to an agent's token.

How the agent fails is said at the end: Claude Code blocks a call whose hook fails; Codex and Gemini CLI run it where the hook is killed or takes too long.

Examples:

    countersign install claude-code
    countersign install claude-code --scope project --http http://127.0.0.1:8787
    countersign install codex --gateway files --dry-run
    countersign install gemini --timeout 5m --yes`
}

type uninstallCmd struct{ installFlags }

func (*uninstallCmd) Help() string {
	return `It removes what install added to the agent's settings, and nothing else; the difference is shown first. The rule in the gate's configuration stays: other agents may need it.

Examples:

    countersign uninstall claude-code
    countersign uninstall codex --scope project --yes`
}

// folders are the user's and the one that the command was called in.
func (f *installFlags) folders(s *std) (home, folder string, err error) {
	if folder, err = os.Getwd(); err != nil {
		return "", "", &exitError{exitFailed, err.Error()}
	}
	if home = s.getenv("HOME"); home == "" {
		if home, err = os.UserHomeDir(); err != nil {
			return "", "", &exitError{exitFailed, err.Error()}
		}
	}
	return home, folder, nil
}

// settings begins a change of the agent's settings.
func (f *installFlags) settings(s *std) (*install.Change, error) {
	home, folder, err := f.folders(s)
	if err != nil {
		return nil, err
	}
	path, err := install.Place(f.Agent, f.Scope, s.env, home, folder)
	if err != nil {
		return nil, usagef("%s", err)
	}
	c, err := install.Read(path)
	if err != nil {
		return nil, &exitError{exitFailed, err.Error()}
	}
	return c, nil
}

// apply shows the changes, asks, and makes them. made says whether they were.
func (f *installFlags) apply(s *std, changes ...*install.Change) (made bool, err error) {
	some := false
	for _, c := range changes {
		if !c.Empty() {
			some = true
			s.printf("%s", visibleLines(c.Diff()))
		}
	}
	switch {
	case !some:
		s.printf("There is nothing to change.\n")
		return false, nil
	case f.DryRun:
		return false, nil
	case !f.Yes:
		in, ok := s.in.(*os.File)
		if !ok || !isatty.IsTerminal(in.Fd()) {
			return false, usagef("nothing was changed: there is nobody to ask; give --yes to make these changes, --dry-run to only see them")
		}
		fmt.Fprint(s.err, "Make these changes? [y/N] ")
		line, _ := bufio.NewReader(in).ReadString('\n') // the end of input is no yes
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			return false, &exitError{exitFailed, "nothing was changed"}
		}
	}
	for _, c := range changes {
		if c.Empty() {
			continue
		}
		if err := c.Write(); err != nil {
			return false, &exitError{exitFailed, err.Error()}
		}
	}
	return true, nil
}

// spare is how much sooner the hook stops waiting than the agent gives up on it.
const spare = 5 * time.Second

// entries are what the settings are to hold.
func (c *installCmd) entries() (install.Settings, error) {
	e := install.Settings{Agent: c.Agent, Timeout: time.Duration(c.Timeout)}
	wait := e.Timeout - spare
	switch {
	case c.Wait != nil:
		wait = time.Duration(*c.Wait)
	case c.Defer:
		wait = 0
	}
	switch {
	case e.Timeout < 2*spare:
		return e, usagef("--timeout must be at least %s", span(2*spare))
	case wait > e.Timeout-spare:
		return e, usagef("--wait must be at least 5s shorter than --timeout: a hook that the agent ends is no answer")
	case c.Defer && c.Agent != install.ClaudeCode:
		return e, usagef("--defer is for claude-code")
	case c.HTTP != "" && c.Agent != install.ClaudeCode:
		return e, usagef("--http is for claude-code")
	case c.HTTP != "" && c.Server != "":
		return e, usagef("--http and --server are two ways to the gate; give one")
	case c.HTTP != "" && wait > hooks.MaxHold:
		return e, usagef("over --http a call is held for at most %s", span(hooks.MaxHold))
	case c.HTTP != "":
		u, err := url.Parse(c.HTTP)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return e, usagef("--http takes the gate's address, such as http://127.0.0.1:8787")
		}
		if u.Path = strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(u.Path, "/hooks/"+c.Agent) {
			u.Path += "/hooks/" + c.Agent
		}
		q := url.Values{}
		if wait > 0 {
			q.Set("wait", wait.String())
		}
		if c.Defer {
			q.Set("defer", "true")
		}
		if len(c.Gateway) > 0 {
			q["gateway"] = c.Gateway
		}
		u.RawQuery = q.Encode()
		e.URL = u.String()
		return e, nil
	}
	program, err := os.Executable()
	if err != nil {
		return e, &exitError{exitFailed, err.Error()}
	}
	e.Begin = []string{program, "hook", c.Agent}
	if c.Server != "" {
		e.Begin = append(e.Begin, "--server", c.Server)
	}
	if c.Defer {
		e.Begin = append(e.Begin, "--defer")
	}
	e.Command = append([]string{}, e.Begin...)
	if wait > 0 {
		e.Command = append(e.Command, "--wait", wait.String())
	}
	for _, name := range c.Gateway {
		e.Command = append(e.Command, "--gateway", name)
	}
	return e, nil
}

func (c *installCmd) Run(_ context.Context, s *std) error {
	e, err := c.entries()
	if err != nil {
		return err
	}
	change, err := c.settings(s)
	if err != nil {
		return err
	}
	if change.New, err = e.Add(change.Old); err != nil {
		return &exitError{exitFailed, fmt.Sprintf("%s is left alone: %s", change.Path, err)}
	}
	rule, byHand, err := c.guard(s)
	if err != nil {
		return err
	}
	changes := []*install.Change{change}
	if rule != nil {
		changes = []*install.Change{rule, change} // the gate is guarded before the agent asks it
	}
	made, err := c.apply(s, changes...)
	c.warn(s, e, change)
	if byHand != "" {
		fmt.Fprint(s.err, visibleLines(byHand))
	}
	if err != nil || !made {
		return err
	}
	s.printf("%s", visibleLines(c.next(change.Path)))
	return nil
}

// warn says what keeps the hooks from running, or from reaching the gate, in all the settings that the agent reads.
func (c *installCmd) warn(s *std, e install.Settings, change *install.Change) {
	say := func(format string, args ...any) { fmt.Fprintf(s.err, "warning: "+format+".\n", args...) }
	for _, w := range e.Warnings(change.Old) {
		say("%s: %s", visible(change.Path), w)
	}
	home, folder, err := c.folders(s)
	if err != nil {
		return // then there was no change either
	}
	for _, path := range install.Others(c.Agent, c.Scope, s.env, home, folder) {
		if text, err := os.ReadFile(path); err == nil {
			for _, w := range e.Warnings(text) {
				say("%s: %s", visible(path), w)
			}
		}
	}
	if c.Agent != install.Gemini {
		return
	}
	if sha, _ := s.env("GITHUB_SHA"); sha != "" {
		say(`GITHUB_SHA is set, so Gemini CLI takes COUNTERSIGN_TOKEN out of the hooks' environment and every call will be blocked: list it under "security", "environmentVariableRedaction", "allowed" of its settings`)
	}
	text, err := os.ReadFile(install.TrustedFolders(s.env, home))
	if c.Scope == install.Project && (err != nil || !install.Trusted(text, folder)) {
		say("Gemini CLI does not trust %s yet: in a folder that it does not trust it runs no hook from its settings, and asks the gate about nothing; trust the folder in Gemini CLI (/permissions)", visible(folder))
	}
}

func (c *uninstallCmd) Run(_ context.Context, s *std) error {
	change, err := c.settings(s)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return &exitError{exitFailed, err.Error()}
	}
	e := install.Settings{Agent: c.Agent, Command: []string{program}}
	if change.New, err = e.Remove(change.Old); err != nil {
		return &exitError{exitFailed, fmt.Sprintf("%s is left alone: %s", change.Path, err)}
	}
	made, err := c.apply(s, change)
	if err != nil || !made {
		return err
	}
	s.printf("The hooks are out of %s: the agent asks nobody any more. The rule %q stays in the gate's configuration.\n", visible(change.Path), install.RuleName)
	return nil
}

// guard begins the change that puts our rule into the gate's configuration. Where there is none, or it
// cannot be changed, it says what to put in by hand.
func (c *installCmd) guard(s *std) (_ *install.Change, byHand string, _ error) {
	path := c.Config
	if path == "" {
		places := []string{config.DefaultPath}
		if mine, err := own.Find(s.env); err == nil {
			places = append(places, mine.Config)
		}
		for _, p := range places {
			if _, err := os.Stat(p); err == nil {
				path = p
				break
			}
		}
	}
	g := install.Guarded{Folders: map[string]string{install.ClaudeCode: s.getenv("CLAUDE_CONFIG_DIR"), install.Codex: s.getenv("CODEX_HOME")}}
	if mine, err := own.Find(s.env); err == nil {
		g.Files = append(g.Files, mine.Socket)
	}
	say := func(why string) string {
		return fmt.Sprintf("%s. Put this rule before all others, under policy.rules of the gate's configuration:\n\n%s\n", why, install.Rule(g))
	}
	if path == "" {
		for _, name := range []string{config.DefaultPath, envPath(config.DefaultPath), "countersign.db"} {
			g.Files = append(g.Files, "/"+name)
		}
		return nil, say("No configuration of a gate was found here; --config names it"), nil
	}
	change, err := install.Read(path)
	switch {
	case err != nil:
		return nil, "", usagef("%s; --config names the gate's configuration", err)
	case !change.Exists():
		return nil, "", usagef("%s is not there; --config names the gate's configuration", path)
	}
	f := file{Config: path, EnvFile: c.EnvFile}
	env, err := f.env(s)
	if err != nil {
		return nil, "", err
	}
	files := []string{path, envPath(path)}
	if c.EnvFile != "" {
		files = append(files, c.EnvFile)
	}
	if cfg, _, err := config.Parse(path, change.Old, env); err == nil {
		files = append(files, cfg.StorePath)
		if cfg.Socket != "" {
			files = append(files, cfg.Socket)
		}
	}
	for _, name := range files {
		whole, err := filepath.Abs(name) // a name alone would be found anywhere
		if err != nil {
			return nil, "", &exitError{exitFailed, err.Error()}
		}
		g.Files = append(g.Files, whole)
	}
	change.New, err = install.Insert(path, change.Old, install.Rule(g), env)
	if err != nil {
		return nil, say(fmt.Sprintf("%s is left alone: %s", path, err)), nil
	}
	return change, "", nil
}

// next says what is left to do, and where the agent fails open.
func (c *installCmd) next(path string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("Written to %s. Start the agent with COUNTERSIGN_TOKEN set to an agent's token; a person's is refused, and a gate of your own needs none.", path)
	switch c.Agent {
	case install.ClaudeCode:
		say("While the gate is down, and where the hook fails, is killed or takes too long, Claude Code blocks the call (onFailure: block).")
		say("If hooks are disabled in its settings, nothing is asked.")
	case install.Codex:
		say("Codex skips a hook that nobody trusts, without a word, and runs the call: open /hooks in Codex now and trust it; again after each change.")
		say("While the gate is down Codex blocks the call. If the hook is killed, or takes longer than %s, Codex runs the call: nothing here can change that.", span(time.Duration(c.Timeout)))
	case install.Gemini:
		say("While the gate is down, and where the hook's program is missing, Gemini CLI blocks the call. If the hook is killed, crashes or takes longer than %s, or hooks are disabled in its settings, Gemini CLI runs the call: nothing here can change that.", span(time.Duration(c.Timeout)))
		say("Gemini CLI asks the hook first and applies its own policy after: a call that a person approved and that policy then refuses is not run, and its approval is used. Let its policy allow what the gate decides (--yolo, or a rule with decision = \"allow\").")
		say("It runs no hook from its settings in a folder that it does not trust.")
	}
	say("docs/when-the-gate-is-down.md tells more.")
	return b.String()
}
