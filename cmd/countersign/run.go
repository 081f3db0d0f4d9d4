package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/yamlpos"

	"github.com/alecthomas/kong"
)

// Exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitDenied  = 3
	exitPending = 4
	exitOver    = 5 // expired, cancelled, lapsed, too late
)

// commandLine is all that can be typed after the program's name.
type commandLine struct {
	Demo     demoCmd     `cmd:"" group:"gate" help:"Try it: the gate, stand-ins for LINE and Slack, and an agent, all on this machine."`
	Init     initCmd     `cmd:"" group:"gate" help:"Write a first configuration, after a few questions."`
	Manifest manifestCmd `cmd:"" group:"gate" help:"Print the Slack app's manifest, to paste into Slack."`
	Serve    serveCmd    `cmd:"" group:"gate" help:"Run the gate."`
	Check    checkCmd    `cmd:"" group:"gate" help:"Check a configuration; problems come as file:line:column. With --online, ask the platforms too."`
	Health   healthCmd   `cmd:"" group:"gate" help:"Ask a running gate whether it can decide calls, and what is wrong."`
	Backup   backupCmd   `cmd:"" group:"gate" help:"Copy the database to a new file; the gate may be running."`
	Restore  restoreCmd  `cmd:"" group:"gate" help:"Put a backup in the place of the store; the gate is stopped."`
	Migrate  migrateCmd  `cmd:"" group:"gate" help:"Take the store's rows from a file to PostgreSQL, or back; the gate is stopped."`
	Verify   verifyCmd   `cmd:"" group:"gate" help:"Send a running gate forged, stale and strangers' taps, then ask for yours, and print which checks passed."`
	Explain  explainCmd  `cmd:"" group:"gate" help:"Show the rules in the order they are tried, which one decides a call, and why."`
	Preset   presetCmd   `cmd:"" group:"gate" help:"Show the presets: rules that a policy includes by name."`

	Call callCmd `cmd:"" group:"agents" help:"Ask whether a tool call may run now, as an agent."`
	MCP  mcpCmd  `cmd:"" name:"mcp" group:"agents" help:"Run an MCP server behind the gate: countersign mcp -- COMMAND."`
	Hook hookCmd `cmd:"" group:"agents" help:"Answer a coding agent's hook (Claude Code, Codex, Gemini CLI); install sets it up."`

	Install   installCmd   `cmd:"" group:"agents" help:"Put the hook into a coding agent's settings, and guard the gate's files."`
	Uninstall uninstallCmd `cmd:"" group:"agents" help:"Take the hook out of a coding agent's settings."`

	Open          openCmd          `cmd:"" group:"people" help:"Print a link that signs you in to the pages, and open it in a browser."`
	Login         loginCmd         `cmd:"" group:"people" help:"Store your token, so that the commands below find it."`
	Logout        logoutCmd        `cmd:"" group:"people" help:"Forget a stored token."`
	Inbox         inboxCmd         `cmd:"" group:"people" help:"See what is waiting, and approve or deny it, at this terminal."`
	Pending       pendingCmd       `cmd:"" group:"people" help:"List the requests that are waiting for a decision."`
	Show          showCmd          `cmd:"" group:"people" help:"Show one request in full."`
	Approve       approveCmd       `cmd:"" group:"people" help:"Approve requests, or one request with different arguments."`
	Deny          denyCmd          `cmd:"" group:"people" help:"Deny requests."`
	Extend        extendCmd        `cmd:"" group:"people" help:"Give a pending request one hour more."`
	Cancel        cancelCmd        `cmd:"" group:"people" help:"Cancel a request, or an approval that has not been used yet."`
	Grants        grantsCmd        `cmd:"" group:"people" help:"List grants and standing denials: what is allowed or denied without asking again."`
	Revoke        revokeCmd        `cmd:"" group:"people" help:"End grants, or standing denials."`
	Lift          liftCmd          `cmd:"" group:"people" help:"Forget denials, so that the same call is asked about again."`
	Freeze        freezeCmd        `cmd:"" group:"people" help:"Freeze an agent, or all: every call is denied until an admin lifts the freeze."`
	Clock         clockCmd         `cmd:"" group:"people" help:"The clock of the gate's machine."`
	Unfreeze      unfreezeCmd      `cmd:"" group:"people" help:"Lift a freeze (admins)."`
	Frozen        frozenCmd        `cmd:"" group:"people" help:"List what is frozen."`
	Delegate      delegateCmd      `cmd:"" group:"people" help:"Have somebody vote in your place, for a while."`
	Delegations   delegationsCmd   `cmd:"" group:"people" help:"List who stands in for whom."`
	Undelegate    undelegateCmd    `cmd:"" group:"people" help:"End a delegation."`
	Notifications notificationsCmd `cmd:"" group:"people" help:"Show the notification log (admins)."`
	Retry         retryCmd         `cmd:"" group:"people" help:"Send a failed notification again (admins)."`
	Audit         auditCmd         `cmd:"" group:"people" help:"Look into the audit log (admins)."`
	Erase         eraseCmd         `cmd:"" group:"people" help:"Remove what requests said, for good (admins)."`
	Stats         statsCmd         `cmd:"" group:"people" help:"Count how often people were asked, what they said and how long they took."`
	Suggest       suggestCmd       `cmd:"" group:"people" help:"Propose rules for calls that people approved every time."`
	Replay        replayCmd        `cmd:"" group:"people" help:"Try another policy on recorded calls, and show what it would have let through."`
	Policy        policyCmd        `cmd:"" group:"people" help:"Show a policy that decided past requests."`

	Completion completionCmd `cmd:"" group:"other" help:"Print the completion script for bash, zsh or fish."`
	Complete   completeCmd   `cmd:"" hidden:"" passthrough:"" help:"Say how a line could go on; the shells ask it."`
	Version    versionCmd    `cmd:"" group:"other" help:"Print the version."`
	Help       helpCmd       `cmd:"" group:"other" help:"Show help, or the help of one command."`

	VersionFlag versionFlag `name:"version" help:"Print the version."`
}

var groups = []kong.Group{
	{Key: "gate", Title: "The gate:"},
	{Key: "agents", Title: "For agents:"},
	{Key: "people", Title: "For people:"},
	{Key: "other", Title: "Other:"},
}

const description = `Countersign asks a person before an AI agent's tool call runs.

Your rules allow a call, deny it, or ask. A call that asks waits until somebody approves it, in LINE, in
Slack or here. Start with "countersign demo", then "countersign init".`

// std is what a command works with beside its flags.
type std struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) (string, bool)
	now      func() time.Time // the machine's clock; what is shown at once takes one reading of it

	terminal bool           // a person looks at out
	utc      bool           // and wants times in UTC
	noPager  bool           // and all text at once
	local    *time.Location // the zone of the person who looks; nil: that of the machine

	// then is what a command does once it is parsed, where that takes long: the parser, half a megabyte, is gone by then.
	then func() error
}

// getenv returns a variable's value, "" if it is not set.
func (s *std) getenv(name string) string {
	v, _ := s.env(name)
	return v
}

func (s *std) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// exitError ends a command with a code of its own. An empty message says nothing more.
type exitError struct {
	code    int
	message string
}

func (e *exitError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}

// ended is how a flag ends the program: Kong shows help by calling Exit in the middle of parsing, and expects not to
// come back.
type ended struct{ code int }

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer,
	env func(string) (string, bool)) (code int) {
	s := &std{in: stdin, out: stdout, err: stderr, env: env, now: time.Now, terminal: isTerminal(stdout)}
	ctx = client.WithTraceparent(ctx, s.getenv("TRACEPARENT"))
	nothing := len(args) == 0
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			if code = r.code; nothing {
				code = exitUsage
			}
		default:
			panic(r)
		}
	}()
	helpOut := stdout
	if nothing { // no command is a mistake, and must not look like a yes
		args, helpOut = []string{"--help"}, stderr
	}
	cli := new(commandLine)
	parser, err := kong.New(cli,
		kong.Name("countersign"), kong.Description(description), kong.ExplicitGroups(groups),
		kong.Writers(helpOut, stderr), kong.Exit(func(code int) { panic(ended{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoAppDescFormat: true, WrapUpperBound: 100}),
		kong.WithHyphenPrefixedParameters(true),
		kong.Bind(s), kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		panic(err)
	}
	parser.Model.HelpFlag.Help = "Show this help."
	command, err := parser.Parse(args)
	if err != nil {
		help, leaf := "countersign --help", false
		if e, ok := errors.AsType[*kong.ParseError](err); ok && e.Context.Selected() != nil {
			leaf = e.Context.Selected().Leaf()
			help = e.Context.Selected().FullPath() + " --help"
		}
		message := err.Error()
		if !leaf {
			message = noCommand.ReplaceAllString(message, `there is no command "$1"$2`)
		}
		fmt.Fprintf(stderr, "countersign: %s\nSee %s.\n", visible(explainMistyped(message)), help)
		return exitUsage
	}
	if err = command.Run(); err == nil && s.then != nil {
		err = s.then()
	}
	return s.finish(err)
}

// What the parser says of a word that it does not know, of one that must be among others, and of one that is missing.
var (
	noCommand  = regexp.MustCompile(`^unexpected argument ([^\s,]+)(.*)$`)
	notAmong   = regexp.MustCompile(`^(.+) must be one of (".*") but got (".*")$`)
	notThere   = regexp.MustCompile(`^expected "(.+)"$`)
	quotedWord = regexp.MustCompile(`"([^"]*)"`)
)

// explainMistyped returns what the parser says of the command line, with the word that was probably meant.
func explainMistyped(message string) string {
	if m := notThere.FindStringSubmatch(message); m != nil {
		return m[1] + " is missing"
	}
	m := notAmong.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	got, err := strconv.Unquote(m[3])
	if err != nil || got == "" {
		return message
	}
	var known []string
	for _, word := range quotedWord.FindAllStringSubmatch(m[2], -1) {
		known = append(known, word[1])
	}
	for _, word := range known { // a beginning is nearer than any other word: claude, of claude-code
		if strings.HasPrefix(word, strings.ToLower(got)) {
			return fmt.Sprintf("%s; did you mean %q?", message, word)
		}
	}
	return message + yamlpos.DidYouMean(strings.ToLower(got), known)
}

// finish says what went wrong, and returns the exit code of it.
func (s *std) finish(err error) int {
	if err == nil {
		return exitDone
	}
	code, message := exitFailed, err.Error()
	if e, ok := errors.AsType[*exitError](err); ok {
		code, message = e.code, e.message
	}
	if message != "" {
		fmt.Fprintf(s.err, "countersign: %s\n", visibleLines(s.timesIn(message, s.now())))
	}
	return code
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command to describe."`
}

func (*helpCmd) Help() string {
	return `Examples:

    countersign help
    countersign help approve
    countersign help audit query`
}

// Run has the parser print the help, as --help does.
func (c *helpCmd) Run(k *kong.Kong) error {
	for _, word := range c.Command {
		if strings.HasPrefix(word, "-") {
			return usagef("help takes the name of a command")
		}
	}
	_, err := k.Parse(append(c.Command, "--help"))
	if err != nil {
		_, meant, _ := strings.Cut(err.Error(), ", did you mean ")
		if meant != "" {
			meant = ", did you mean " + strings.TrimSuffix(meant, "?") + "?"
		}
		return usagef("there is no command %q%s (countersign --help lists them)", strings.Join(c.Command, " "), meant)
	}
	return nil
}
