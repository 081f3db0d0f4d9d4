package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/agents/hooks"
	"countersign/internal/agents/localgate"
	"countersign/internal/agents/settings"
	"countersign/internal/config"
)

// installFlags say whose settings are meant and how they are changed.
type installFlags struct {
	Agent  string `arg:"" enum:"claude-code,codex,gemini" help:"Whose settings: claude-code, codex or gemini."`
	Scope  string `enum:"user,project,local" default:"user" help:"user: for all you do; project: for everybody in this folder; local: for you in this folder (claude-code only)."`
	DryRun bool   `help:"Show the difference and change nothing."`
	Yes    bool   `short:"y" help:"Make the changes without asking."`

	Config  string `placeholder:"FILE" help:"The gate's configuration, where the line guard: gate_files belongs. Default: countersign.yaml here or in ~/.config/countersign."`
	EnvFile string `placeholder:"FILE" help:"The file with its variables. Default: the file beside it that ends in .env."`
}

type installCmd struct {
	installFlags
	Timeout duration  `default:"60s" help:"How long the agent waits for the hook before it gives up."`
	Wait    *duration `placeholder:"55s" help:"How long the hook waits for a decision. Default: 5s less than --timeout; 0 does not wait."`
	Defer   bool      `help:"Claude Code only: stop the run when a call is pending; claude --resume asks about the same call again. Without --wait it stops at once."`
	Gateway []string  `sep:"none" placeholder:"NAME" help:"Do not ask about the tools of this MCP server, because it is behind a gateway that asks. Give exactly the agent's name for it; for codex one without an underscore. Repeatable."`
	Server  string    `placeholder:"URL" help:"The gate that the hook asks. Default: COUNTERSIGN_SERVER as it is now, else your own gate if there is one, else http://127.0.0.1:8787. It is written into the settings; a later COUNTERSIGN_SERVER does not change it."`
	Preset  *bool     `negatable:"" help:"Include preset/coding-agent in the gate's policy, so that nobody is asked about reading and searching; --no-preset does not mention it."`
	HTTP    string    `name:"http" placeholder:"URL" help:"Claude Code only: have it post to the gate at this address, instead of running a program."`
}

func (*installCmd) Help() string {
	return `It shows the difference first. It adds hooks to the agent's settings and keeps every other setting and comment. Installing again brings older hooks up to date, and otherwise changes nothing.

It also adds one line to the gate's policy, guard: gate_files. A person is then asked, at critical risk, about calls that name the gate's files or the agents' settings. It removes the rule that an earlier version wrote for that.

With --preset, one more line includes preset/coding-agent: reading, searching, plans and shell commands that only read are allowed, and edits share a card. countersign preset show coding-agent prints it. At a terminal you are asked about it, unless you say --preset or --no-preset.

It writes no token. Your own gate needs none; for any other gate, start the agent with COUNTERSIGN_TOKEN set to an agent's token.

At the end it says what the agent does when the hook fails: Claude Code blocks the call; Codex and Gemini CLI run it if the hook is killed or takes too long.

Examples:

    countersign install claude-code --preset
    countersign install claude-code --scope project --http http://127.0.0.1:8787
    countersign install codex --gateway files --dry-run
    countersign install gemini --timeout 5m --yes`
}

type uninstallCmd struct{ installFlags }

func (*uninstallCmd) Help() string {
	return `It shows the difference first, and removes what install added to the agent's settings, and nothing else. The line guard: gate_files stays in the gate's policy until the last agent that is set up for you or in this folder is uninstalled.

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
func (f *installFlags) settings(s *std) (*settings.Change, error) {
	home, folder, err := f.folders(s)
	if err != nil {
		return nil, err
	}
	path, err := settings.Place(f.Agent, f.Scope, s.env, home, folder)
	if err != nil {
		return nil, usagef("%s", err)
	}
	c, err := settings.Read(path)
	if err != nil {
		return nil, &exitError{exitFailed, err.Error()}
	}
	return c, nil
}

// apply shows the changes, asks, and makes them. made says whether they were.
func (f *installFlags) apply(s *std, changes ...*settings.Change) (made bool, err error) {
	some := false
	for _, c := range changes {
		if !c.Empty() {
			some = true
			for _, sentence := range c.Says {
				s.printf("%s: %s\n", visible(c.Path), visible(sentence))
			}
			s.printf("%s", s.difference(visibleLines(c.Diff())))
		}
	}
	switch {
	case !some:
		s.printf("There is nothing to change.\n")
		return false, nil
	case f.DryRun:
		return false, nil
	case !f.Yes:
		if !f.asks(s) {
			return false, usagef("nothing was changed: there is nobody to ask; give --yes to make these changes, --dry-run to " +
				"only see them")
		}
		fmt.Fprint(s.err, "Make these changes? [y/N] ")
		if !yes(s) { // the end of input is no yes
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

// difference is one in the unified format, in colours where they are wanted.
func (s *std) difference(text string) string {
	if !s.colours() {
		return text
	}
	colour := map[byte]string{'+': "32", '-': "31", '@': "36"}
	var b strings.Builder
	for line := range strings.Lines(text) {
		end := strings.TrimRight(line, "\n")
		code := colour[line[0]]
		if strings.HasPrefix(line, "+++ ") || strings.HasPrefix(line, "--- ") {
			code = "1"
		}
		if code == "" {
			b.WriteString(line)
			continue
		}
		b.WriteString("\x1b[" + code + "m" + end + "\x1b[m" + line[len(end):])
	}
	return b.String()
}

// asks reports whether there is a person at the terminal who is to be asked.
func (f *installFlags) asks(s *std) bool { return !f.Yes && !f.DryRun && isTerminalIn(s.in) }

// spare is how much sooner the hook stops waiting than the agent gives up on it.
const spare = 5 * time.Second

// entries are what the settings are to hold.
func (c *installCmd) entries(s *std) (settings.Settings, error) {
	e := settings.Settings{Agent: c.Agent, Timeout: time.Duration(c.Timeout)}
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
	case c.Defer && c.Agent != settings.ClaudeCode:
		return e, usagef("--defer is for claude-code")
	case c.HTTP != "" && c.Agent != settings.ClaudeCode:
		return e, usagef("--http is for claude-code")
	case c.HTTP != "" && c.Server != "":
		return e, usagef("--http and --server are two ways to the gate; give one")
	case c.HTTP != "" && wait > hooks.MaxHold:
		return e, usagef("over --http a call is held for at most %s", span(hooks.MaxHold))
	case c.HTTP != "":
		var err error
		e.URL, err = c.hookURL(wait)
		return e, err
	}
	program, err := os.Executable()
	if err != nil {
		return e, &exitError{exitFailed, err.Error()}
	}
	e.Begin = []string{program, "hook", c.Agent}
	pinned, err := c.gateFlags(s)
	if err != nil {
		return e, err
	}
	e.Begin = append(e.Begin, pinned...)
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

// hookURL is where a hook of type http is posted.
func (c *installCmd) hookURL(wait time.Duration) (string, error) {
	u, err := url.Parse(c.HTTP)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", usagef("--http takes the gate's address, such as http://127.0.0.1:8787")
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
	return u.String(), nil
}

// gateFlags returns the flags that name the hook's gate. A hook that looked for it each time would follow whatever the
// agent's surroundings say, which a project's own settings can.
func (c *installCmd) gateFlags(s *std) ([]string, error) {
	server := cmp.Or(c.Server, s.getenv("COUNTERSIGN_SERVER"))
	if server == "" {
		if mine, err := localgate.Find(s.env); err == nil && mine.IsConfigured() {
			return []string{"--server", mine.Address(), "--own", mine.Config}, nil
		}
		server = defaultServer
	}
	if _, err := client.New(server, "any"); err != nil {
		return nil, usagef("%s (--server or COUNTERSIGN_SERVER)", strings.TrimPrefix(err.Error(), "client: "))
	}
	if path, ok := strings.CutPrefix(server, "unix:"); ok && !filepath.IsAbs(filepath.FromSlash(path)) {
		return nil, usagef("--server must name the socket by its whole path: the hook runs in other folders")
	}
	return []string{"--server", server}, nil
}

func (c *installCmd) Run(_ context.Context, s *std) error {
	e, err := c.entries(s)
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
	guarded := settings.GuardPaths(map[string]string{settings.ClaudeCode: s.getenv("CLAUDE_CONFIG_DIR"),
		settings.Codex: s.getenv("CODEX_HOME")})
	g, err := c.gate(s)
	if err != nil {
		return err
	}
	change.Says = []string{agentNames[c.Agent] + " asks the gate before each tool call."}
	c.offer(s, g)
	byHand := g.guard(guarded)
	changes := []*settings.Change{change}
	if g.change != nil {
		changes = []*settings.Change{g.change, change} // the gate is guarded before the agent asks it
	}
	made, err := c.apply(s, changes...)
	c.warn(s, e, change)
	if byHand != "" {
		fmt.Fprint(s.err, visibleLines(byHand))
	}
	if err != nil || !made {
		return err
	}
	s.printf("%s", visibleLines(c.next(change.Path, e)))
	return nil
}

// agentNames are the agents as they are called.
var agentNames = map[string]string{settings.ClaudeCode: "Claude Code", settings.Codex: "Codex",
	settings.Gemini: "Gemini CLI"}

// offer decides whether the preset for coding agents goes into the gate's policy: as the flag says; else the person
// at the terminal is asked, and where there is none, it is told of.
func (c *installCmd) offer(s *std, g *gateFile) {
	switch {
	case g.includesPreset():
	case c.Preset != nil:
		g.include = *c.Preset
	case g.change == nil:
	case c.asks(s):
		fmt.Fprint(s.err, visibleLines(fmt.Sprintf("Without %s, a person is asked about every read and every search too, "+
			"unless your rules allow them.\nInclude it in %s? [y/N] ", settings.CodingAgentPreset, g.path)))
		g.include = yes(s)
	default:
		s.printf("%s", visibleLines(fmt.Sprintf("A person is asked about every read and every search too, unless your rules "+
			"allow them. --preset allows them: it adds include: [%s] to the policy in %s.\n", settings.CodingAgentPreset,
			g.path)))
	}
}

// warn says what keeps the hooks from running, or from reaching the gate, in all the settings that the agent reads.
func (c *installCmd) warn(s *std, e settings.Settings, change *settings.Change) {
	say := func(format string, args ...any) { fmt.Fprintf(s.err, "warning: "+format+".\n", args...) }
	for _, w := range e.Warnings(change.Old) {
		say("%s: %s", visible(change.Path), w)
	}
	home, folder, err := c.folders(s)
	if err != nil {
		return // then there was no change either
	}
	for _, path := range settings.Others(c.Agent, c.Scope, s.env, home, folder) {
		if text, err := os.ReadFile(path); err == nil {
			for _, w := range e.Warnings(text) {
				say("%s: %s", visible(path), w)
			}
		}
	}
	if c.Agent != settings.Gemini {
		return
	}
	if sha, _ := s.env("GITHUB_SHA"); sha != "" {
		say(`GITHUB_SHA is set, so Gemini CLI takes COUNTERSIGN_TOKEN out of the hooks' environment and every call will be blocked: list it under "security", "environmentVariableRedaction", "allowed" of its settings`)
	}
	text, err := os.ReadFile(settings.TrustedFolders(s.env, home))
	if c.Scope == settings.Project && (err != nil || !settings.IsTrusted(text, folder)) {
		say("Gemini CLI does not trust %s yet: in a folder that it does not trust it runs no hook from its settings, and "+
			"asks the gate about nothing; trust the folder in Gemini CLI (/permissions)", visible(folder))
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
	e := settings.Settings{Agent: c.Agent, Command: []string{program}}
	change.Says = []string{agentNames[c.Agent] + " asks the gate about nothing any more."}
	if change.New, err = e.Remove(change.Old); err != nil {
		return &exitError{exitFailed, fmt.Sprintf("%s is left alone: %s", change.Path, err)}
	}
	changes := []*settings.Change{change}
	left, byHand := c.others(s, e.Command[0], change), ""
	if len(left) == 0 {
		g, err := c.gate(s)
		if err != nil {
			return err
		}
		if byHand = g.unguard(); g.change != nil {
			changes = append(changes, g.change) // the agent no longer asks before the gate is no longer guarded
		}
	}
	made, err := c.apply(s, changes...)
	if byHand != "" {
		fmt.Fprint(s.err, visibleLines(byHand))
	}
	if err != nil || !made {
		return err
	}
	if !change.Empty() {
		s.printf("The hooks are out of %s: the agent asks nobody any more.\n", visible(change.Path))
	}
	if len(left) > 0 {
		s.printf("The guard of the gate's files stays: hooks are in %s too.\n", visible(strings.Join(left, ", ")))
	}
	return nil
}

// others are the files of settings, of any agent here, that still have our hooks when the change is made.
func (f *installFlags) others(s *std, program string, change *settings.Change) (left []string) {
	home, folder, err := f.folders(s)
	if err != nil {
		return nil
	}
	for _, agent := range []string{settings.ClaudeCode, settings.Codex, settings.Gemini} {
		for _, scope := range []string{settings.User, settings.Project, settings.Local} {
			path, err := settings.Place(agent, scope, s.env, home, folder)
			if err != nil || slices.Contains(left, path) {
				continue
			}
			text, err := os.ReadFile(path)
			if path == change.Path {
				text = change.New
			} else if err != nil {
				continue
			}
			without, err := settings.Settings{Agent: agent, Command: []string{program}}.Remove(text)
			if err == nil && !bytes.Equal(without, text) || err != nil && bytes.Contains(text, []byte("countersign")) {
				left = append(left, path)
			}
		}
	}
	return left
}

// gateFile is the change of the gate's configuration that goes with one of an agent's settings.
type gateFile struct {
	path    string
	change  *settings.Change // nil: none was found, or it cannot be changed
	env     func(string) (string, bool)
	envFile string // that the gate may be started without being told of
	include bool   // the preset for coding agents too
}

// gate finds the gate's configuration: the one that is named, that of the working directory, or one's own.
func (f *installFlags) gate(s *std) (*gateFile, error) {
	g := &gateFile{path: f.Config}
	if g.path == "" {
		places := []string{config.DefaultPath}
		if mine, err := localgate.Find(s.env); err == nil {
			places = append(places, mine.Config)
		}
		for _, p := range places {
			if _, err := os.Stat(p); err == nil {
				g.path = p
				break
			}
		}
	}
	if g.path == "" {
		return g, nil
	}
	change, err := settings.Read(g.path)
	switch {
	case err != nil:
		return nil, usagef("%s; --config names the gate's configuration", err)
	case !change.Exists():
		return nil, usagef("%s is not there; --config names the gate's configuration", g.path)
	}
	g.change = change
	at := file{Config: g.path, EnvFile: f.EnvFile}
	if g.env, err = at.env(s); err != nil {
		return nil, err
	}
	if f.EnvFile != "" {
		whole, err := filepath.Abs(f.EnvFile)
		if err != nil {
			return nil, &exitError{exitFailed, err.Error()}
		}
		if beside, err := filepath.Abs(envPath(g.path)); err != nil || beside != whole {
			g.envFile = filepath.ToSlash(whole)
		}
	}
	return g, nil
}

// includesPreset reports whether the preset for coding agents is included already.
func (g *gateFile) includesPreset() bool {
	return g.change != nil && settings.Includes(g.path, g.change.Old, settings.CodingAgentPreset, g.env)
}

// guard puts the guard into the configuration, and the preset where it is wanted. Where there is no configuration, or
// it cannot be changed, nothing is, and what to do by hand is said.
func (g *gateFile) guard(guarded []string) (byHand string) {
	say := func(why string) string {
		lines, these := settings.GuardLine(guarded), "this line"
		if g.include {
			lines, these = lines+"\n  include: ["+settings.CodingAgentPreset+"]", "these lines"
		}
		return fmt.Sprintf("%s. Put %s under policy in the gate's configuration, and take out a rule %q:\n\n  %s\n",
			why, these, config.OldGuardName, lines)
	}
	if g.change == nil {
		return say("No configuration of a gate was found here; --config names it")
	}
	if g.envFile != "" {
		guarded = append(guarded, g.envFile)
	}
	text, err := settings.Guard(g.path, g.change.Old, guarded, g.env)
	g.change.Says = nil
	if !bytes.Equal(text, g.change.Old) {
		g.change.Says = append(g.change.Says, "A person is asked before a call touches the gate's own files or the agents' "+
			"settings (guard: gate_files).")
	}
	if err == nil && g.include {
		g.change.Says = append(g.change.Says, "Reading, searching, planning and commands that only read run without asking; "+
			"edits share a card ("+settings.CodingAgentPreset+").")
		text, err = settings.Include(g.path, text, settings.CodingAgentPreset, g.env)
	}
	if err != nil {
		g.change = nil
		return say(fmt.Sprintf("%s is left alone: %s", g.path, err))
	}
	g.change.New = text
	return ""
}

// unguard takes out of the configuration what install put in.
func (g *gateFile) unguard() (byHand string) {
	const still = ". If `countersign install` put a guard into the gate's policy, it is still there.\n"
	if g.change == nil {
		return "No configuration of a gate was found here; --config names it" + still
	}
	text, err := settings.Exclude(g.path, g.change.Old, settings.CodingAgentPreset, g.env)
	if err == nil {
		text, err = settings.Unguard(g.path, text, g.env)
	}
	if err != nil {
		g.change = nil
		return fmt.Sprintf("%s is left alone: %s", g.path, err) + still
	}
	g.change.New = text
	g.change.Says = []string{"What install added to the policy goes: the guard of the gate's files, and the preset if " +
		"it was included."}
	return ""
}

// next says what is left to do, and where the agent fails open.
func (c *installCmd) next(path string, e settings.Settings) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if slices.Contains(e.Begin, "--own") {
		say("Written to %s. The hooks ask your own gate at %s, whatever COUNTERSIGN_SERVER says there; install with "+
			"--server names another. It starts by itself, and the agent needs no token. Start %s anew; `countersign inbox` "+
			"shows what waits for you.", path, e.Gate(), agentNames[c.Agent])
	} else {
		say("Written to %s. The hooks ask %s, whatever COUNTERSIGN_SERVER says there; install with --server names another "+
			"gate. Start the agent with COUNTERSIGN_TOKEN set to an agent's token; a person's is refused.", path, e.Gate())
	}
	switch c.Agent {
	case settings.ClaudeCode:
		say("While the gate is down, and where the hook fails, is killed or takes too long, Claude Code blocks the call " +
			"(onFailure: block).")
		say("If hooks are disabled in its settings, nothing is asked.")
	case settings.Codex:
		say("Codex skips a hook that nobody trusts, without a word, and runs the call: open /hooks in Codex now and trust " +
			"it; again after each change.")
		say("While the gate is down Codex blocks the call. If the hook is killed, or takes longer than %s, Codex runs the "+
			"call: nothing here can change that.", span(time.Duration(c.Timeout)))
	case settings.Gemini:
		say("While the gate is down, and where the hook's program is missing, Gemini CLI blocks the call. If the hook is "+
			"killed, crashes or takes longer than %s, or hooks are disabled in its settings, Gemini CLI runs the call: "+
			"nothing here can change that.", span(time.Duration(c.Timeout)))
		say("Gemini CLI asks the hook first and applies its own policy after: a call that a person approved and that " +
			"policy then refuses is not run, and its approval is used. Let its policy allow what the gate decides (--yolo, or " +
			"a rule with decision = \"allow\").")
		say("It runs no hook from its settings in a folder that it does not trust.")
	}
	say("docs/when-the-gate-is-down.md tells more.")
	return b.String()
}
