package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Which shell: bash, zsh or fish."`
}

func (*completionCmd) Help() string {
	return `The script completes commands, flags, the values of flags with a fixed choice, and file names. Save it where your shell looks for completions.

Examples:

    countersign completion bash > ~/.local/share/bash-completion/completions/countersign
    countersign completion zsh > ~/.zfunc/_countersign     (with fpath+=~/.zfunc before compinit)
    countersign completion fish > ~/.config/fish/completions/countersign.fish`
}

var (
	//go:embed completion/bash.sh
	bashCompletion string
	//go:embed completion/zsh.sh
	zshCompletion string
	//go:embed completion/fish.fish
	fishCompletion string
)

func (c *completionCmd) Run(s *std) error {
	s.printf("%s", map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell])
	return nil
}

// completeCmd is what the shells' scripts call with the words of the line behind the program's name; the last is the
// one that is typed, "" before its first letter.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words."`
}

func (c *completeCmd) Run(s *std, k *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, w := range completions(k.Model.Node, words) {
		s.printf("%s\n", w)
	}
	return nil
}

// files, as the only completion, has the shell offer names of files.
const files = ":files"

// completions are how the last word may go on, each with a tab and what it means behind it.
func completions(node *kong.Node, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	typed := words[len(words)-1]
	l := line{node: node}
	for _, w := range words[:len(words)-1] {
		l.take(w)
	}
	switch {
	case l.raw:
		return []string{files}
	case l.value != nil:
		return valuesOf(l.value.Value, "", typed)
	case strings.HasPrefix(typed, "--") && strings.Contains(typed, "="):
		name, part, _ := strings.Cut(typed, "=")
		if f := l.flag(name); f != nil {
			return valuesOf(f.Value, name+"=", part)
		}
		return nil
	case strings.HasPrefix(typed, "-"):
		return l.flags(typed)
	}
	return l.rest(typed)
}

// line is how far a command line has been read.
type line struct {
	node  *kong.Node
	value *kong.Flag // whose value comes next
	args  int        // how many arguments of the command are there
	raw   bool       // behind --, everything is for the other program
}

// take reads a whole word.
func (l *line) take(w string) {
	switch {
	case l.raw:
	case l.value != nil:
		l.value = nil
	case w == "--":
		l.raw = true
	case strings.HasPrefix(w, "-"):
		name, _, given := strings.Cut(w, "=")
		if f := l.flag(name); f != nil && !given && !f.IsBool() && !f.IsCounter() {
			l.value = f
		}
	default:
		for _, child := range l.node.Children {
			if child.Name == w {
				l.node, l.args = child, 0
				return
			}
		}
		l.args++
	}
}

// flag finds a flag as it is written, nil if there is none.
func (l *line) flag(written string) *kong.Flag {
	for _, group := range l.node.AllFlags(false) {
		for _, f := range group {
			if written == "--"+f.Name || f.Short != 0 && written == "-"+string(f.Short) ||
				f.Tag.Negatable != "" && written == "--no-"+f.Name {
				return f
			}
		}
	}
	return nil
}

// flags are those that begin so.
func (l *line) flags(typed string) []string {
	var out []string
	add := func(name, help string) {
		if strings.HasPrefix(name, typed) {
			out = append(out, describeWord(name, help))
		}
	}
	for _, group := range l.node.AllFlags(true) {
		for _, f := range group {
			add("--"+f.Name, f.Help)
			if f.Tag.Negatable != "" {
				add("--no-"+f.Name, "")
			}
		}
	}
	return out
}

// rest are the commands below this one, or what its next argument may be.
func (l *line) rest(typed string) []string {
	var out []string
	for _, child := range l.node.Children {
		if !child.Hidden && l.args == 0 && strings.HasPrefix(child.Name, typed) {
			out = append(out, describeWord(child.Name, child.Help))
		}
	}
	if len(l.node.Children) > 0 || len(l.node.Positional) == 0 {
		return out
	}
	return valuesOf(l.node.Positional[min(l.args, len(l.node.Positional)-1)], "", typed)
}

// valuesOf are the values of a flag or an argument that has a few, or names of files where it is one.
func valuesOf(v *kong.Value, before, typed string) []string {
	var out []string
	if v.Enum != "" {
		for _, one := range v.EnumSlice() {
			if one != "" && strings.HasPrefix(one, typed) {
				out = append(out, before+one)
			}
		}
		return out
	}
	if v.Tag.PlaceHolder == "FILE" || strings.Contains(v.Tag.PlaceHolder, "@FILE") {
		return []string{files}
	}
	return nil
}

// describeWord returns a word with the first sentence of what it is for.
func describeWord(word, help string) string {
	help, _, _ = strings.Cut(help, ". ")
	help, _, _ = strings.Cut(help, "; ")
	return word + "\t" + strings.TrimSuffix(help, ".")
}
