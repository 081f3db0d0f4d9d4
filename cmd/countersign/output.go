package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/term"

	"countersign/internal/locale"
)

// output are the flags of the commands that have something to say to programs too.
type output struct {
	JSON   bool    `name:"json" xor:"output" help:"Print JSON, for programs; short for -o json."`
	Output *string `short:"o" xor:"output" enum:"table,json,yaml" placeholder:"FORM" help:"The output format: table, json or yaml."`
}

// forPrograms reports whether the answer is for a program.
func (o *output) forPrograms() bool { return o.JSON || o.Output != nil && *o.Output != "table" }

func (o *output) yaml() bool { return o.Output != nil && *o.Output == "yaml" }

// print writes v for programs, in the form that was asked for.
func (o *output) print(s *std, v any) error {
	if !o.yaml() {
		return s.printJSON(v)
	}
	return printYAML(s.out, v)
}

// printLine writes one of many values that come one by one: a line of JSON, or a document of YAML.
func (o *output) printLine(s *std, v any) error {
	if !o.yaml() {
		return s.printJSONLine(v)
	}
	s.printf("---\n")
	return printYAML(s.out, v)
}

// times is the flag of the commands that print when something is.
type times struct {
	UTC utcFlag `name:"utc" help:"Print times in UTC. Default on a terminal: the machine's time zone."`
}

type utcFlag bool

// AfterApply tells the printers of times.
func (f utcFlag) AfterApply(s *std) error {
	s.utc = bool(f)
	return nil
}

// long is the flag of the commands that may print more than a terminal shows at once.
type long struct {
	NoPager noPagerFlag `help:"Do not use $PAGER for output that is longer than the terminal."`
}

type noPagerFlag bool

// AfterApply tells [std.startPager].
func (f noPagerFlag) AfterApply(s *std) error {
	s.noPager = bool(f)
	return nil
}

// versionFlag is --version.
type versionFlag bool

// BeforeReset prints the version, whatever else is on the line.
func (versionFlag) BeforeReset(s *std) error {
	if err := new(versionCmd).Run(s); err != nil {
		return err
	}
	panic(ended{exitDone})
}

// zone is where times are told: in that of the person who looks on, and in UTC where there is none.
func (s *std) zone() *time.Location {
	if s.utc || !s.terminal {
		return time.UTC
	}
	return cmp.Or(s.local, time.Local)
}

// english is what the command line speaks.
var english = locale.Get("en")

// reader is how the person who looks on reads times.
func (s *std) reader(now time.Time) locale.Reader {
	return locale.Reader{Now: now, Zone: s.zone(), Abroad: s.utc}
}

// clock tells a time as people do where a person looks on; else exactly, for programs and for those who read it later.
func (s *std) clock(t, now time.Time) string {
	if !s.terminal {
		return t.UTC().Format(time.RFC3339)
	}
	return english.When(t, s.reader(now))
}

// timeText is clock, and how far away it is.
func (s *std) timeText(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return english.And(s.clock(t, now), away(t.Sub(now)))
}

// timesIn is what the gate says to programs, for a person who looks on.
func (s *std) timesIn(text string, now time.Time) string {
	if !s.terminal {
		return text
	}
	return locale.TimesIn(text, func(t time.Time) string { return s.clock(t, now) })
}

// startPager keeps what is printed from now on, and returns what prints it in the end: through the user's pager, where
// there is a terminal that is too short for it.
func (s *std) startPager() (end func()) {
	pager := s.getenv("PAGER")
	if _, set := s.env("PAGER"); !set {
		pager = "less"
	}
	tty, ok := s.out.(*os.File)
	if !s.terminal || s.noPager || !ok || pager == "" || pager == "cat" || s.getenv("TERM") == "dumb" {
		return func() {}
	}
	var kept bytes.Buffer
	s.out = &kept
	return func() {
		s.out = tty
		if _, rows, err := term.GetSize(int(tty.Fd())); err == nil && bytes.Count(kept.Bytes(), []byte("\n")) >= rows &&
			s.pageThrough(pager, kept.Bytes(), tty) {
			return
		}
		_, _ = tty.Write(kept.Bytes())
	}
}

// pageThrough runs a pager, and reports whether it could be started.
func (s *std) pageThrough(pager string, text []byte, tty *os.File) bool {
	c := exec.Command("sh", "-c", pager) //nolint:gosec // the user's own, as with every program that pages
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(text), tty, s.err
	c.Env = os.Environ()
	if s.getenv("LESS") == "" {
		c.Env = append(c.Env, "LESS=FRSX")
	}
	err := c.Run()
	return err == nil || c.ProcessState != nil && c.ProcessState.ExitCode() != notFound
}

// notFound is how a shell says that there is no such program.
const notFound = 127

// printYAML writes v as YAML: as the JSON that it is, with every number as it was sent, and what a reader would not
// see escaped.
func printYAML(w io.Writer, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	y := yamlWriter{d: d}
	if err := y.value("", " "); err != nil {
		return err
	}
	_, err = w.Write(bytes.TrimLeft(y.out.Bytes(), " \n"))
	return err
}

// yamlWriter turns a stream of JSON tokens into YAML in block style.
type yamlWriter struct {
	d   *json.Decoder
	out bytes.Buffer
}

// value writes the next value: lead is what stands before a scalar on the same line.
func (y *yamlWriter) value(indent, lead string) error {
	t, err := y.d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		return y.members(t, indent, lead)
	case string:
		y.out.WriteString(lead + yamlString(t) + "\n")
	case nil:
		y.out.WriteString(lead + "null\n")
	default:
		fmt.Fprintf(&y.out, "%s%v\n", lead, t)
	}
	return nil
}

// members writes what is in an object or a list.
func (y *yamlWriter) members(open json.Delim, indent, lead string) error {
	if !y.d.More() {
		empty := "{}"
		if open == '[' {
			empty = "[]"
		}
		y.out.WriteString(lead + empty + "\n")
		_, err := y.d.Token()
		return err
	}
	inList := lead == "- "
	if !inList {
		y.out.WriteString("\n")
	}
	for first := true; y.d.More(); first = false {
		at := indent
		if first && inList { // right behind the dash
			y.out.WriteString("- ")
			at = ""
		}
		if err := y.member(open, at, indent); err != nil {
			return err
		}
	}
	_, err := y.d.Token()
	return err
}

// member writes one member, whose line begins with at.
func (y *yamlWriter) member(open json.Delim, at, indent string) error {
	if open == '[' {
		y.out.WriteString(at)
		return y.value(indent+"  ", "- ")
	}
	key, err := y.d.Token()
	if err != nil {
		return err
	}
	name, _ := key.(string)
	y.out.WriteString(at + yamlString(name) + ":")
	return y.value(indent+"  ", " ")
}

// yamlWords are words that some reader of YAML takes for something else than a text.
var yamlWords = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true,
	"false": true, "null": true}

// yamlString writes a text: as it is where it is a plain word, else in quotes.
func yamlString(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if s != "" && strings.ContainsRune(letters, rune(s[0])) && strings.Trim(s, letters+"0123456789_") == "" &&
		!yamlWords[strings.ToLower(s)] {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	var v sight
	v.begin()
	for _, r := range s {
		unseen := r != '⟨' && v.hides(r)
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unseen && r > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, r)
		case unseen:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
