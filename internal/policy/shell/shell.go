// Package shell reads the command lines that coding agents give to a shell, and says of which it is sure that
// they only read.
//
// It is sure of little, on purpose. A command line passes when bash, zsh and a POSIX shell would all read it as
// the same calls of commands on a list, joined by && || ; or |, each of its words written out: nothing is
// expanded, assigned, substituted, put into the background or written anywhere but to /dev/null. Each command on
// the list names the flags that it may have; one that is not named ends it, and so does whatever the parser or
// this package does not know. What does not pass is not forbidden; a person is asked.
//
// What a text cannot tell, the package cannot see: that ls is an alias or a function of the user's, that a link
// leads elsewhere, that a repository's own configuration has git run a program.
package shell

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits on what is read at all.
const (
	maxLine  = 8000 // bytes
	maxCalls = 50
)

// ReadOnly returns nil where a command line only reads, and otherwise the reason why that is not certain, which
// quotes nothing but words of the line. scope is the folder that it runs in: commands that search through
// folders may do so in there.
func ReadOnly(line, scope string) error {
	if err := characters(line); err != nil {
		return err
	}
	var first []call
	for i, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangZsh, syntax.LangPOSIX} {
		calls, err := parse(line, lang)
		if err != nil {
			return err
		}
		if i == 0 {
			first = calls
		} else if !slices.EqualFunc(first, calls, call.equal) {
			return errors.New("shells read it in different ways")
		}
	}
	for _, c := range first {
		if err := c.readOnly(scope); err != nil {
			return err
		}
	}
	return nil
}

// ReadOnlyArgs is [ReadOnly] for a command that is given as its words, without a shell to read them; or with one,
// where the words are those that call it: bash -lc LINE.
func ReadOnlyArgs(words []string, scope string) error {
	if len(words) == 3 && slices.Contains(shells, words[0]) && (words[1] == "-c" || words[1] == "-lc") {
		return ReadOnly(words[2], scope)
	}
	if len(words) == 0 {
		return errors.New("there is no command")
	}
	var c call
	for _, w := range words {
		if err := characters(w); err != nil {
			return err
		}
		c.words = append(c.words, word{text: w})
	}
	return c.readOnly(scope)
}

// shells are what an agent that gives words calls a shell by.
var shells = []string{"bash", "zsh", "sh", "/bin/bash", "/bin/zsh", "/bin/sh", "/usr/bin/bash", "/usr/bin/zsh"}

// characters refuses what is too long, and what shells, terminals and people do not read alike.
func characters(s string) error {
	switch {
	case len(s) > maxLine:
		return fmt.Errorf("it is longer than %d bytes", maxLine)
	case !utf8.ValidString(s):
		return errors.New("it is not UTF-8")
	case strings.Contains(s, "\n"):
		return errors.New("it has more than one line")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }): // a blank but U+0020 is none either
		return errors.New("it holds a control character, a blank that is no space, or one that is not seen")
	}
	return nil
}

// call is one simple command. Where its output goes needs no note: nothing passes but /dev/null and each other.
type call struct{ words []word }

// word is what a word stands for. pattern is set where a shell may put names of files in its place.
// caret is set where zsh may, which the revisions of git have to bear.
type word struct {
	text           string
	pattern, caret bool
}

func (c call) equal(d call) bool { return slices.Equal(c.words, d.words) }

func parse(line string, lang syntax.LangVariant) ([]call, error) {
	file, err := syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, errors.New("not every shell can read it")
	}
	if len(file.Last) > 0 {
		return nil, errors.New("it has a comment")
	}
	var calls []call
	for _, s := range file.Stmts {
		if calls, err = statement(calls, s); err != nil {
			return nil, err
		}
	}
	if len(calls) == 0 {
		return nil, errors.New("there is no command")
	}
	return calls, nil
}

// statement adds the calls of a statement, in order.
func statement(calls []call, s *syntax.Stmt) ([]call, error) {
	switch {
	case len(s.Comments) > 0:
		return nil, errors.New("it has a comment")
	case s.Negated || s.Background || s.Coprocess || s.Disown:
		return nil, errors.New("it has a & or ! for a command as a whole")
	case len(calls) >= maxCalls:
		return nil, fmt.Errorf("it has more than %d commands", maxCalls)
	}
	for _, r := range s.Redirs {
		if !harmless(r) {
			return nil, errors.New("it redirects otherwise than by 2>&1, or to or from /dev/null")
		}
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if len(s.Redirs) > 0 || cmd.Op != syntax.AndStmt && cmd.Op != syntax.OrStmt && cmd.Op != syntax.Pipe {
			return nil, errors.New("its commands are joined otherwise than by && || ; or |")
		}
		calls, err := statement(calls, cmd.X)
		if err != nil {
			return nil, err
		}
		return statement(calls, cmd.Y)
	case *syntax.CallExpr:
		if len(cmd.Assigns) > 0 {
			return nil, errors.New("it sets a variable")
		}
		var c call
		for i, w := range cmd.Args {
			is, err := literal(w)
			if err != nil {
				return nil, err
			}
			if _, bare := w.Parts[0].(*syntax.Lit); i == 0 && !bare {
				return nil, errors.New("the name of a command is in quotes")
			}
			c.words = append(c.words, is)
		}
		return append(calls, c), nil
	}
	return nil, errors.New("it is more than simple commands")
}

// harmless reports whether a redirection is one of those that write and read nothing.
func harmless(r *syntax.Redirect) bool {
	if r.Hdoc != nil || r.Word == nil {
		return false
	}
	from := ""
	if r.N != nil {
		from = r.N.Value
	}
	w, err := literal(r.Word)
	if err != nil || w.pattern {
		return false
	}
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut:
		return w.text == "/dev/null" && (from == "" || from == "1" || from == "2")
	case syntax.RdrIn:
		return w.text == "/dev/null" && from == ""
	case syntax.DplOut:
		return from == "2" && w.text == "1" || from == "1" && w.text == "2"
	}
	return false
}

// bareRE is a word without quotes; a tilde may begin it for one's own home folder, and in it tell revisions apart,
// as a caret may. flagRE is what stands before the quote of --flag='value'.
var (
	bareRE = regexp.MustCompile(`^(~|(~/|[A-Za-z0-9_./:@%+,*?\[\]-])[A-Za-z0-9_./:@%+,=~^*?\[\]-]*)$`)
	flagRE = regexp.MustCompile(`^--?[A-Za-z][A-Za-z-]*=?$`)
)

// literal is what a word stands for, if that is certain from its text.
func literal(w *syntax.Word) (word, error) {
	switch len(w.Parts) {
	case 1:
		if lit, ok := w.Parts[0].(*syntax.Lit); ok {
			return bare(lit.Value)
		}
		text, err := unquote(w.Parts[0])
		return word{text: text}, err
	case 2:
		lit, ok := w.Parts[0].(*syntax.Lit)
		if !ok || !flagRE.MatchString(lit.Value) {
			break
		}
		text, err := unquote(w.Parts[1])
		return word{text: lit.Value + text}, err
	}
	return word{}, errors.New("a word is put together from several quotes")
}

// bare is a word without quotes.
func bare(s string) (word, error) {
	if !bareRE.MatchString(s) || strings.Contains(s, "=~") || strings.Contains(s, ":~") {
		return word{}, errors.New("a word holds what a shell may read as more than text; put it in single quotes")
	}
	return word{text: s, pattern: strings.ContainsAny(s, "*?[]"), caret: strings.Contains(s, "^")}, nil
}

// unquote is what stands in quotes, if the quotes mean nothing more.
func unquote(part syntax.WordPart) (string, error) {
	switch q := part.(type) {
	case *syntax.SglQuoted:
		if !q.Dollar {
			return q.Value, nil
		}
	case *syntax.DblQuoted:
		if q.Dollar || len(q.Parts) > 1 {
			break
		}
		if len(q.Parts) == 0 {
			return "", nil
		}
		lit, ok := q.Parts[0].(*syntax.Lit)
		if !ok || strings.ContainsAny(lit.Value, "$`!") || escapeRE.MatchString(lit.Value) {
			break
		}
		return lit.Value, nil
	}
	return "", errors.New("a shell puts something else in the place of a quoted word")
}

// escapeRE is a backslash that does not stand for itself in double quotes.
var escapeRE = regexp.MustCompile("\\\\([\\\\\"$`]|$)")

// readOnly reports whether the list has the call.
func (c call) readOnly(scope string) error {
	name := c.words[0]
	cmd, ok := commands[name.text]
	if !ok || name.pattern {
		return fmt.Errorf("%s is not on the list of commands that only read", show(name.text))
	}
	args := slices.Clone(c.words[1:])
	for i, w := range args {
		before, _, _ := strings.Cut(w.text, "^")
		args[i].pattern = w.pattern || w.caret && (cmd.sub == nil || strings.Contains(before, "/"))
	}
	if cmd.says {
		return nil
	}
	if cmd.sub != nil {
		if len(args) > 0 && args[0].text == "--no-pager" {
			args = args[1:]
		}
		if len(args) == 0 || args[0].pattern {
			return fmt.Errorf("%s says nothing that is on the list", name.text)
		}
		sub, ok := cmd.sub[args[0].text]
		if !ok {
			return fmt.Errorf("%s %s is not on the list of commands that only read", name.text, show(args[0].text))
		}
		cmd, name.text, args = sub, name.text+" "+args[0].text, args[1:]
	}
	given, err := cmd.read(args)
	if err != nil {
		return fmt.Errorf("%s: %w", name.text, err)
	}
	if err := cmd.check(given, scope); err != nil {
		return fmt.Errorf("%s: %w", name.text, err)
	}
	return nil
}

// given is what a command was given.
type given struct {
	flags    []string // by their names, with - or --
	operands []string
}

func (g given) has(flags ...string) bool {
	return slices.ContainsFunc(flags, func(f string) bool { return slices.Contains(g.flags, f) })
}

// read takes a command's words apart as getopt does; every flag must be one that the command names.
func (cmd *command) read(words []word) (g given, err error) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.pattern && !cmd.patterns {
			return g, errors.New("a shell may put names of files in the place of a word")
		}
		takes := false
		switch {
		case len(w.text) < 2 || w.text[0] != '-':
			g.operands = append(g.operands, w.text)
			continue
		case w.pattern:
			return g, errors.New("a shell may put names of files in the place of a flag")
		case w.text == "--":
			for _, rest := range words[i+1:] {
				if strings.HasPrefix(rest.text, "-") || rest.pattern && !cmd.patterns {
					return g, errors.New("a name after -- could be taken for a flag")
				}
				g.operands = append(g.operands, rest.text)
			}
			return g, nil
		case strings.HasPrefix(w.text, "--"):
			takes, err = cmd.longFlag(&g, w.text)
		default:
			takes, err = cmd.shortFlags(&g, w.text)
		}
		if err != nil {
			return g, err
		}
		if takes {
			i++
			if i == len(words) || words[i].pattern || strings.HasPrefix(words[i].text, "-") &&
				!(cmd.words != "" && beforeRE.MatchString(words[i].text)) {
				return g, fmt.Errorf("%s has no value of its own", show(w.text))
			}
			if err := cmd.value(strings.TrimLeft(g.flags[len(g.flags)-1], "-"), words[i].text); err != nil {
				return g, err
			}
		}
	}
	return g, nil
}

// longFlag reads --name, --name=value or --name whose value follows. Names that are cut short are not known.
func (cmd *command) longFlag(g *given, text string) (takes bool, err error) {
	name, value, has := strings.Cut(text[2:], "=")
	for _, known := range strings.Fields(cmd.long) {
		plain := strings.TrimRight(known, "=?")
		if plain != name {
			continue
		}
		g.flags = append(g.flags, "--"+name)
		switch {
		case has && plain == known:
			return false, fmt.Errorf("%s takes no value", show("--"+name))
		case has:
			return false, cmd.value(name, value)
		}
		return strings.HasSuffix(known, "="), nil
	}
	return false, fmt.Errorf("the flag %s is not one that only reads", show("--"+name))
}

// shortFlags reads -abc, -n5 and -5.
func (cmd *command) shortFlags(g *given, text string) (takes bool, err error) {
	if cmd.number && strings.Trim(text[1:], "0123456789") == "" {
		return false, nil
	}
	if cmd.words != "" { // a command like find, whose flags are words
		return cmd.wordFlag(g, text)
	}
	for i, r := range text {
		if i == 0 {
			continue
		}
		g.flags = append(g.flags, "-"+string(r))
		switch {
		case strings.ContainsRune(cmd.short, r):
		case strings.ContainsRune(cmd.valued, r):
			rest := text[i+utf8.RuneLen(r):]
			if rest != "" && cmd.apart {
				return false, fmt.Errorf("%s may take more flags for its value", show(text))
			}
			if rest != "" {
				return false, cmd.value(string(r), rest)
			}
			return true, nil
		case strings.ContainsRune(cmd.stuck, r):
			if strings.Trim(text[i+utf8.RuneLen(r):], "0123456789") != "" {
				return false, fmt.Errorf("%s is not a flag and a number", show(text))
			}
			return false, nil
		default:
			return false, fmt.Errorf("the flag %s is not one that only reads", show("-"+string(r)))
		}
	}
	return false, nil
}

func (cmd *command) wordFlag(g *given, text string) (takes bool, err error) {
	for _, known := range strings.Fields(cmd.words) {
		if strings.TrimRight(known, "=") == text {
			g.flags = append(g.flags, text)
			return strings.HasSuffix(known, "="), nil
		}
	}
	return false, fmt.Errorf("%s is not one that only reads", show(text))
}

// beforeRE is a number of find's that means less than: -mtime -7.
var beforeRE = regexp.MustCompile(`^-[0-9]+[bcwkMG]?$`)

// value looks at the value of a flag.
func (cmd *command) value(flag, v string) error {
	if cmd.signs && slices.Contains(formats, flag) && !strings.Contains(v, "%") && !slices.Contains(namedFormats, v) {
		return errors.New("a format of git's configuration may run a program")
	}
	if cmd.signs && signedRE.MatchString(v) {
		return errors.New("a format with what git says of signatures has it run a program")
	}
	return nil
}

// check looks at what is left when the flags are known to be harmless.
func (cmd *command) check(g given, scope string) error {
	if len(g.operands) > cmd.most && cmd.most >= 0 && !g.has(cmd.list...) {
		return errors.New("it could do more than read with what follows it")
	}
	for _, o := range g.operands {
		if elusive(o, scope) {
			return errors.New("what lies under /proc, /dev and /sys can be anything")
		}
	}
	if cmd.also != nil {
		if err := cmd.also(g, scope); err != nil {
			return err
		}
	}
	if !cmd.recursive && !g.has(cmd.recurses...) {
		return nil
	}
	if isWide(scope) || elusive(scope, "") {
		return errors.New("it searches a whole disk or home folder")
	}
	paths := g.operands
	if cmd.pattern && !g.has("-e", "--regexp", "--files") && len(paths) > 0 {
		paths = paths[1:]
	}
	for _, p := range paths {
		if !inside(p, scope) {
			return errors.New("it searches outside of the folder that it runs in")
		}
	}
	return nil
}

// wideRE is a folder in which there is more than a project: all of a disk, or what a person has at home.
var wideRE = regexp.MustCompile(`^(/+|/+(root|etc|var|home|Users|(home|Users)/+[^/]+)/*)$`)

// isWide reports whether a folder is such a one, however its name is written.
func isWide(folder string) bool {
	return folder != "" && (wideRE.MatchString(folder) || wideRE.MatchString(path.Clean(folder)))
}

// elusive reports whether a path leads to what is no file: devices, and what processes have open. A home folder may lie
// anywhere, also right below the top.
func elusive(p, scope string) bool {
	if strings.HasPrefix(scope, "/") && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "~") &&
		elusive(scope+"/"+p, "") {
		return true
	}
	p = path.Clean(strings.TrimPrefix(p, "~/"))
	top := strings.HasPrefix(p, "/")
	for strings.HasPrefix(p, "../") {
		p, top = p[len("../"):], true
	}
	first, _, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	return top && slices.ContainsFunc([]string{"proc", "dev", "sys"}, func(f string) bool {
		return strings.EqualFold(f, first)
	})
}

// inside reports whether a path lies in the scope by its text.
func inside(p, scope string) bool {
	switch {
	case strings.HasPrefix(p, "~") || slices.Contains(strings.Split(p, "/"), ".."):
		return false
	case !strings.HasPrefix(p, "/"):
		return true
	}
	if p, scope = path.Clean(p), path.Clean(scope); !strings.HasPrefix(scope, "/") || scope == "/" {
		return false
	}
	return p == scope || strings.HasPrefix(p, scope+"/")
}

// show is a word of a line, for people.
func show(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return s
}
