package redact

import (
	"slices"
	"sort"
	"strings"
)

// commands is what a text, taken for a shell's or a program's, may run: a guess that errs towards running. It is
// asked only where a value stands under a secret's name, and decides whether people are shown that value.
//
// Quotes are not paired, for a text could be made in which a shell pairs them otherwise: what is in quotes is read
// like all else, which finds more than runs, never less.
type commands struct {
	words []span // a command, or an argument that may be one: what follows sudo, env, exec …
	// data is whether the text runs what it holds as data: by eval, a variable where a command stands, a pipe into
	// a shell. Of such a text it cannot be said which of its words will run.
	data bool
	// names are the words, in lower case and without what marks a variable, that stand where a command does: what
	// stands under such a name is run.
	names map[string]bool
	// apart are the simple commands that may run what they hold as data, where that can be said of single ones.
	apart []span
}

// anyData reports whether any part of the text runs what it holds as data.
func (c commands) anyData() bool { return c.data || len(c.apart) > 0 }

// inApart reports whether s[i] belongs to a command that may run what it holds as data.
func (c *commands) inApart(i int) bool {
	return slices.ContainsFunc(c.apart, func(a span) bool { return a.start <= i && i < a.end })
}

// maxCommandNames bounds names; a text with more runs everything.
const maxCommandNames = 1000

// wrappers are programs that run what their arguments name, with how many words that are no flags come before it.
var wrappers = func() map[string]int {
	m := map[string]int{
		"timeout": 1, "flock": 1, "chroot": 1, "ssh": 1, "taskset": 1, "chrt": 1, "su": 1, "runuser": 1, "setpriv": 0,
	}
	for name := range strings.FieldsSeq(`sudo doas env exec command builtin nohup nice ionice time setsid stdbuf watch
		strace ltrace unshare nsenter script systemd-run firejail bwrap start-stop-daemon torsocks proxychains proxychains4
		unbuffer coproc docker podman nerdctl kubectl run npx pnpx bunx uvx uv pipx pkexec gosu su-exec tini dumb-init
		busybox toybox caffeinate faketime fakeroot eatmydata catchsegv gdb valgrind perf entr reptyr winpty start call cmd
		trap sshpass xvfb-run chpst envdir softlimit setuidgid s6-setuidgid s6-applyuidgid rlwrap cgexec dbus-run-session
		dbus-launch numactl prlimit schedtool runcon sg setarch linux32 linux64 fakechroot proot hyperfine cpulimit chronic
		ifne lckdo run-one sem ssh-agent distrobox flatpak apptainer singularity lxc lxc-attach machinectl systemd-nspawn
		systemd-inhibit wsl runas psexec psexec64 forfiles bundle poetry pipenv npm yarn pnpm cargo mise asdf nix nix-shell
		direnv aws-vault doppler op chamber envchain vagrant limactl adb netns foreach rebase bisect xterm konsole
		gnome-terminal alacritty kitty urxvt abduco dtach wine mono dotnet tmux screen crontab`) {
		m[name] = 0
	}
	return m
}()

var (
	shells = setOf("sh bash zsh ksh mksh dash ash fish csh tcsh pwsh powershell cmd ssh su runuser trap watch at batch " +
		"crontab tmux screen osascript")
	interpreters = setOf("python perl ruby irb node nodejs deno bun php lua luajit tclsh wish expect awk gawk mawk psql " +
		"mysql sqlite make gmake vim vi nvim ex ed emacs gdb socat nc ncat rscript ghci runghc jshell groovy scala pry " +
		"ssh")
	evaluators = setOf("eval alias source . xargs parallel iex invoke-expression getline envsubst start-process saps " +
		"invoke-command icm invoke-item set-alias sal new-alias nal start-job")
	// calls run a string that they are given, in one language or another.
	calls = setOf("system popen exec execl execle execlp execv execve execvp execvpe execfile execsync execfilesync " +
		"eval spawn spawnl spawnv spawnvp spawnsync function shell_exec passthru proc_open pcntl_exec startprocess " +
		"check_output check_call execute getattr __import__ import_module import importlib runpy run_path run_module " +
		"startfile require require_once include include_once load loadfile loadstring dofile qx open2 open3 " +
		"create_function run start create invokescript shellexecute instance_eval class_eval const_get send fork")
	// coded are words that run strings in code, where no bracket follows.
	coded    = setOf("system exec spawn popen qx require include load import __import__ shell_exec passthru open")
	keywords = setOf("if then else elif do while until for in case esac fi done select function")
	// folders are variables that stand before a command's path.
	folders = strings.NewReplacer("${HOME}", "", "$HOME", "", "${PWD}", "", "$PWD", "")
)

// commandScan reads a text once, from its start to its end.
type commandScan struct {
	s     string
	out   commands
	shell bool  // a shell was named: what is in quotes may be for it
	code  bool  // a call that runs strings was named
	lang  bool  // an interpreter was named, whose code may be here
	fed   bool  // something was written or piped, before a shell or an interpreter
	reads bool  // a shell or an interpreter stands as a command
	fixed []int // where words are that expand nothing but fixedVariables, in the text's order
	state
	outer []state // of the substitutions that are open
}

// state is where the scan stands in one simple command.
type state struct {
	expecting bool // the next word may be run
	wrapped   bool // after a program that runs its arguments: flags are its own
	flagged   bool // after a flag, whose argument the next word may be
	skip      bool // after a redirection: the next word is a file
	piped     bool // after |
	before    int  // words that come before the command
	group     bool // of an outer state: it was left at ( and not at $(
	tick      bool // … at `
	sed       bool // the words are scripts for sed
}

// commandsOf reads s in time linear in its length.
func commandsOf(s string) commands {
	c := commandScan{s: s, state: state{expecting: true}}
	for i := 0; i < len(s); {
		i = c.step(i)
	}
	c.out.data = c.out.data || len(c.fixed) > 0 && !c.separate()
	variable := strings.ContainsAny(s, "$`%")
	c.out.data = c.out.data || (c.shell || c.code) && variable || c.lang &&
		(c.code || strings.ContainsAny(s, "`") || strings.Contains(s, "%x") ||
			strings.Contains(s, "\\!")) || c.reads && strings.Contains(s, "<") || len(c.out.names) > maxCommandNames ||
		c.out.names["e"] && strings.Contains(s, "sed") ||
		strings.Contains(s, "subprocess") || strings.Contains(s, "child_process")
	return c.out
}

// runsName reports whether what stands under the name may be run, since the name stands where a command does.
func (c *commands) runsName(name string) bool {
	name = strings.ToLower(name)
	for i := len(name); i > 0; i-- {
		if !isWordByte(name[i-1]) {
			return c.names[name] || c.names[name[i:]]
		}
	}
	return c.names[name]
}

// programName is the name of the program that a word runs, in lower case and without its folder and version.
func programName(word string) string {
	base := strings.ToLower(word[strings.LastIndexAny(word, `/\`)+1:])
	base = strings.TrimSuffix(base, ".exe")
	if _, known := wrappers[base]; known || shells[base] || interpreters[base] {
		return base
	}
	plain := strings.TrimRight(base, "0123456789.-")
	if shells[plain] || interpreters[plain] {
		return plain
	}
	if rest, ok := strings.CutPrefix(plain, "r"); ok && shells[rest] { // rbash
		return rest
	}
	return base
}

// sedRuns reports whether a word may be a script of sed that runs what it finds.
func sedRuns(word string) bool {
	for part := range strings.SplitSeq(word, ";") {
		part = strings.TrimRight(part, "gpiImMw0123456789}")
		if rest, ok := strings.CutSuffix(part, "e"); ok && (rest == "" || !isAlnum(rest[len(rest)-1]) ||
			'0' <= rest[len(rest)-1] && rest[len(rest)-1] <= '9') {
			return true
		}
	}
	return false
}

// wordStart returns where the word around i begins that may be run; -1 where there is none.
func (c *commands) wordStart(i int) int {
	n := sort.Search(len(c.words), func(n int) bool { return c.words[n].end > i })
	if n == len(c.words) || c.words[n].start > i {
		return -1
	}
	return c.words[n].start
}

// next begins a simple command.
func (c *commandScan) next(piped bool) { c.state = state{expecting: true, piped: piped} }

func (c *commandScan) enter(group, tick bool) {
	if len(c.outer) < maxWalk {
		now := c.state
		now.group, now.tick = group, tick
		c.outer = append(c.outer, now)
	}
	c.next(false)
}

// leave ends what enter began: after a substitution its command goes on, after all else a new one begins.
func (c *commandScan) leave() {
	n := len(c.outer)
	if n == 0 {
		c.next(false)
		return
	}
	was := c.outer[n-1]
	c.outer = c.outer[:n-1]
	if c.next(false); !was.group {
		was.group, was.tick = false, false
		c.state = was
	}
}

// step handles what is at i, and returns where to go on.
func (c *commandScan) step(i int) int {
	s := c.s
	before := byte(' ')
	if i > 0 {
		before = s[i-1]
	}
	switch b := s[i]; b {
	case ' ', '\t', '\r', '\v', '\f':
	case '\n':
		if slashesBefore(s[max(0, i-64):i])%2 == 0 {
			c.next(false)
		}
	case ';', '{', '}':
		c.next(false)
	case '|':
		if i+1 < len(s) && s[i+1] == '|' {
			c.next(false)
			return i + 2
		}
		c.fed = true
		c.next(true)
		if i+1 < len(s) && s[i+1] == '&' {
			return i + 2
		}
	case '&':
		if before != '>' && before != '<' {
			c.next(false)
		}
	case '(':
		if called := identifierBefore(s, i); called != "" && calls[strings.ToLower(called)] {
			c.out.data = true
		}
		c.enter(before != '$' && before != '<' && before != '>', false)
	case ')':
		c.leave()
	case '`':
		if c.expecting && (isSpace(before) || strings.IndexByte(";|&({", before) >= 0) &&
			(len(c.outer) == 0 || !c.outer[len(c.outer)-1].tick) {
			c.out.data = true // what comes out of it is run
		}
		if n := len(c.outer); n > 0 && c.outer[n-1].tick {
			c.leave()
		} else {
			c.enter(false, true)
		}
	case '!':
		if isSpace(before) || isQuote(before) || before == '=' || before == '(' {
			c.next(false)
		}
	default:
		end := c.wordEnd(i)
		c.word(i, end)
		return end
	}
	return i + 1
}

// wordEnd returns where the word at i ends. ${…} belongs to it.
func (c *commandScan) wordEnd(i int) int {
	for i < len(c.s) {
		switch b := c.s[i]; b {
		case ';', '|', '&', '(', ')', '`', '{', '}':
			return i
		case '\\':
			i++
		case '$':
			if i+1 < len(c.s) && c.s[i+1] == '{' {
				if n := strings.IndexAny(c.s[i:min(len(c.s), i+256)], "}\n"); n > 0 {
					i += n
				}
			}
		default:
			if isSpace(b) {
				return i
			}
		}
		i++
	}
	return len(c.s)
}

var unquoting = strings.NewReplacer(`"`, "", `'`, "", `\`, "")

// maxQuotedWord is how much white space and all a command in quotes may hold.
const maxQuotedWord = 4096

// mark takes the word at start for one that may be run. One whose quote is open goes on to where it closes.
func (c *commandScan) mark(start, end int) {
	for _, quote := range []string{`"`, `'`} {
		if strings.Count(c.s[start:end], quote)%2 == 1 {
			line := c.s[end:min(len(c.s), end+maxQuotedWord-(end-start)%maxQuotedWord)]
			if n := strings.IndexAny(line, quote+"\n"); n >= 0 {
				end += n
			}
		}
	}
	c.out.words = appendSpan(c.out.words, span{start, end})
}

// expands takes note of a word whose variables may bring in anything that the text holds: then it is not known what
// runs.
func (c *commandScan) expands(start int, word string) {
	if strings.Contains(fixedVariables.Replace(word), "$") {
		c.out.data = true
		return
	}
	c.fixed = append(c.fixed, start)
}

// fixedVariables takes out the variables that nothing but an assignment to them fills with what the text holds, however
// a shell reads it; the name's own first letter stays, so that nothing new is read from what was around it.
var fixedVariables = strings.NewReplacer("${IFS}", "I", "${HOME}", "H")

// setters are commands that put what they are given into variables whose names need not be seen.
var setters = setOf("read printf declare typeset local export readonly mapfile readarray getopts let set unset test")

// separate finds the simple commands with words that expand fixedVariables; all else in the text is no data of theirs.
// It reports false where that cannot be said for certain: where quotes could be paired in two ways, something goes from
// one command to another, or the variables are named elsewhere.
func (c *commandScan) separate() bool {
	plain := fixedVariables.Replace(unquoting.Replace(c.s))
	if strings.ContainsAny(c.s, "\\`|<>#(\r") || strings.Contains(c.s, "$'") || strings.Contains(c.s, `$"`) ||
		strings.Contains(plain, "IFS") || strings.Contains(plain, "HOME") {
		return false
	}
	for name := range c.out.names {
		if setters[name] {
			return false
		}
	}
	quote, begin, fixed := byte(0), 0, c.fixed
	for i := 0; i <= len(c.s); i++ {
		switch {
		case i == len(c.s) && quote != 0:
			return false
		case i < len(c.s) && quote != 0:
			if c.s[i] == quote {
				quote = 0
			}
		case i < len(c.s) && isQuote(c.s[i]):
			quote = c.s[i]
		case i == len(c.s) || strings.IndexByte(";&\n", c.s[i]) >= 0:
			holds := false
			for len(fixed) > 0 && fixed[0] <= i {
				fixed, holds = fixed[1:], true
			}
			if holds {
				c.out.apart = append(c.out.apart, span{begin, i})
			}
			begin = i + 1
		}
	}
	return true
}

func (c *commandScan) word(start, end int) {
	raw := c.s[start:end]
	w := raw
	if strings.ContainsAny(w, "\"'\\") {
		w = unquoting.Replace(w)
	}
	if w == "" {
		return
	}
	base := programName(w)
	if calls[base] && coded[base] {
		c.code = true
	}
	if strings.Contains(raw, "'") && expands(raw) {
		c.expands(start, raw) // not this shell puts something in its place
	}
	if strings.Contains(raw, ">") && !strings.Contains(raw, "/dev/null") && !strings.Contains(raw, ">&") {
		c.fed = true
	}
	if c.sed && sedRuns(w) {
		c.out.data = true
	}
	if !c.expecting {
		_, wrapper := wrappers[base]
		switch {
		case wrapper:
			c.next(false) // of whatever program this is an argument
			c.command(start, end, w, base)
			return
		case shells[base]:
			c.shell = true
			return
		case w == "--", strings.HasPrefix(w, "-exec"), strings.HasPrefix(w, "-ok"):
			c.next(false)
			c.wrapped = true
			return
		case !c.shell || !isQuote(raw[0]):
			return
		}
		c.next(false) // a command for the shell
	}
	switch {
	case c.skip:
		c.skip = false
	case isRedirection(w):
		c.skip = strings.TrimRight(w, "<>&") == "" || strings.Trim(w, "0123456789<>&") == "" && w[len(w)-1] == '>'
	case keywords[w]:
	case isAssignment(w):
		c.flagged = false
		if strings.Contains(raw, "'") && strings.Contains(raw, "$") {
			c.expands(start, raw)
		}
	case w[0] == '-' && len(w) > 1 && (c.wrapped || start == 0):
		c.wrapped = true
		c.flagged = w != "--" && !strings.Contains(w, "=")
	default:
		c.command(start, end, w, base)
	}
}

// command handles a word that may be run.
func (c *commandScan) command(start, end int, w, base string) {
	c.mark(start, end)
	if strings.Contains(folders.Replace(w), "$") {
		c.expands(start, w)
	}
	if strings.Count(w, "%") > 1 || isPattern(w) {
		c.out.data = true
	}
	name := strings.ToLower(strings.Trim(w, "$%!{}#&@"))
	if len(name) <= maxNameBytes && len(c.out.names) <= maxCommandNames && !c.isAssigned(end) {
		if c.out.names == nil {
			c.out.names = map[string]bool{}
		}
		c.out.names[name] = true
	}
	c.sed = base == "sed" || base == "gsed"
	c.lang = c.lang || interpreters[base]
	if shells[base] || interpreters[base] {
		c.reads = true
		c.out.data = c.out.data || c.fed
	}
	before, wrapper := wrappers[base]
	switch {
	case evaluators[base]:
		c.out.data = true
		c.expecting = false
	case shells[base] || wrapper:
		c.shell = c.shell || shells[base]
		c.out.data = c.out.data || c.piped && shells[base]
		c.wrapped, c.flagged, c.before = true, false, before
	case interpreters[base] && c.piped:
		c.out.data = true
		c.expecting = false
	case c.flagged:
		c.flagged = false
	case c.before > 0:
		c.before--
	default:
		c.expecting = false
	}
}

// isAssigned reports whether what follows the word before i is an = or a :, so that it is a name rather than a command.
func (c *commandScan) isAssigned(i int) bool {
	for end := min(len(c.s), i+8); i < end && c.s[i] == ' '; i++ {
	}
	return i < len(c.s) && (c.s[i] == '=' || c.s[i] == ':')
}

// isPattern reports whether a shell looks for files that fit the word.
func isPattern(w string) bool {
	return strings.Contains(w, "/") && strings.ContainsAny(w, "*?[") && !strings.Contains(w, "://")
}

// expands reports whether text names a variable, as a shell does it.
func expands(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if next := text[i+1]; text[i] == '$' && (next == '_' || next == '{' || typeOf(next) == lower ||
			typeOf(next) == upper) {
			return true
		}
	}
	return false
}

func isRedirection(w string) bool {
	rest := strings.TrimLeft(w, "0123456789")
	return rest != "" && (rest[0] == '<' || rest[0] == '>')
}

// isAssignment reports whether a word begins with NAME=, NAME+= or NAME[…]=.
func isAssignment(w string) bool {
	i := 0
	for i < len(w) && (w[i] == '_' || isAlnum(w[i])) {
		i++
	}
	if i == 0 || '0' <= w[0] && w[0] <= '9' {
		return false
	}
	if i < len(w) && w[i] == '[' {
		if n := strings.IndexByte(w[i:], ']'); n > 0 {
			i += n + 1
		}
	}
	if i < len(w) && w[i] == '+' {
		i++
	}
	return i < len(w) && w[i] == '='
}

func identifierBefore(s string, end int) string {
	start := end
	for start > 0 && end-start < 32 && (s[start-1] == '_' || isAlnum(s[start-1])) {
		start--
	}
	return s[start:end]
}

// isFlag reports whether a word may be a flag with its argument after it.
func isFlag(word string) bool {
	return len(word) > 1 && word[0] == '-' && word != "--" && !strings.Contains(word, "=")
}

// wordBefore returns the word before the one that begins at i, without quotes.
func wordBefore(s string, i int) string {
	for i > 0 && (isSpace(s[i-1]) || isQuote(s[i-1])) {
		i--
	}
	start := i
	for start > 0 && i-start < maxNameBytes && !isSpace(s[start-1]) && !isQuote(s[start-1]) {
		start--
	}
	return s[start:i]
}
