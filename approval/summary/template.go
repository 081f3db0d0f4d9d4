package summary

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"countersign/approval/args/decimal"
	"countersign/approval/legible"

	"github.com/go-json-experiment/json/jsontext"
)

// placeholder is what a rule's sentence can have filled in: {toolName}, {args}, {args.path.to.one} and, with a format,
// {args.path.to.one|money:USD/100}.
var placeholder = regexp.MustCompile(`\{(toolName|args(?:\.[^{}\s|]+)?)(?:\|([^{}]*))?\}`)

// likePlaceholder is what somebody may have meant to be filled in.
var likePlaceholder = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_.]*(?:\|[^{}]*)?\}`)

// inBraces is what can only have been meant so, in a sentence that has placeholders and no braces of its own.
var inBraces = regexp.MustCompile(`\{[^{}]*\}?|\}`)

// UnknownPlaceholders returns what in a rule's message looks as if it should be filled in and will not be.
func UnknownPlaceholders(message string) []string {
	return likePlaceholder.FindAllString(placeholder.ReplaceAllString(message, ""), -1)
}

// StrayBraces returns what in a rule's summary stands in braces and is no placeholder.
func StrayBraces(summary string) []string {
	return inBraces.FindAllString(placeholder.ReplaceAllString(summary, ""), -1)
}

// WrongFormat is a placeholder whose value cannot be shown as it says.
type WrongFormat struct {
	Placeholder string
	Format      string // the name that none of [Formats] has, "" where it has
	Why         string
}

const unknownFormat = "unknown"

// WrongFormats returns what is wrong with the formats in a rule's sentence.
func WrongFormats(text string) (wrong []WrongFormat) {
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		whole, name, how := m[0], m[1], m[2]
		switch _, why := parseFormat(how); {
		case !strings.Contains(whole, "|"):
		case name == "toolName":
			wrong = append(wrong, WrongFormat{whole, "", "toolName takes no format"})
		case why == unknownFormat:
			unknown, _, _ := strings.Cut(how, ":")
			wrong = append(wrong, WrongFormat{whole, unknown, "there is no format " + strconv.Quote(unknown) +
				"; there are " + strings.Join(Formats, ", ")})
		case why != "":
			wrong = append(wrong, WrongFormat{whole, "", why})
		}
	}
	return wrong
}

// How much of one value, of all args and of a whole sentence is shown, in characters.
const (
	maxFilledValue   = 120
	maxFilledArgs    = 300
	maxFilledMessage = 2000
	maxFilledSummary = 600
	maxFilledName    = 64
)

// style is how the values of a sentence are shown.
type style struct {
	tag   string // of its language
	words bool   // a plain word stands without quotes
	most  int
}

// nothing is what stands for a value that is not there.
var nothing = map[string]string{"": "(none)", "ja": "（なし）", "th": "(ไม่มี)", "zh-TW": "（無）"}

func (s style) nothing() string {
	if text, ok := nothing[s.tag]; ok {
		return text
	}
	return nothing[""]
}

// fill fills a rule's sentence with what the call is about, masked. A value that is text stands in
// quotes that it cannot close, so that no value passes for words of the rule. What the approval does not
// cover is left out: the next call that it lets through may say something else there.
func (c *Call) fill(text string, how style) string {
	if !placeholder.MatchString(text) {
		return text
	}
	covered := c.Args.Covered(c.Ignored)
	masked, _ := c.Masker.Args(covered)
	filled := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		switch name := parts[1]; name {
		case "toolName":
			return c.Target
		case "args":
			if f, wrong := parseFormat(parts[2]); wrong == "" {
				if s, ok := f.show(covered); ok {
					return s
				}
			}
			return legible.ShortenMiddle(quotable(string(masked)), maxFilledArgs, legible.UTF16Len)
		default:
			p := place{path: strings.TrimPrefix(name, "args."), style: how}
			if f, wrong := parseFormat(parts[2]); wrong == "" {
				p.format = &f
			}
			return p.fill(masked, covered)
		}
	})
	return legible.Cut(filled, how.most)
}

// place is one placeholder for an argument.
type place struct {
	path   string
	format *format // nil: none
	style
}

// maxMeant is how many values stand for one placeholder where it can be read in several ways.
const maxMeant = 3

// match is a value that a placeholder may mean, and the path to it as the arguments spell it.
type match struct {
	path  string
	value jsontext.Value
}

// fill returns what stands for a placeholder: the value at its dotted path. A tool may take another key for the
// one that the rule's author meant, one in another letter case or with dots in it, so those that there are stand
// there too, each with its own name: a sentence that says there is no path would be believed. A format is asked only
// about a value in which nothing is masked.
func (p place) fill(masked, args jsontext.Value) string {
	all, plain := findAt(masked, p.path), findAt(args, p.path)
	if len(all) == 0 {
		return p.nothing()
	}
	var shown []string
	for i, m := range all {
		if i == maxMeant {
			shown = append(shown, fmt.Sprintf("… (+%d)", len(all)-i))
			break
		}
		text, ok := "", false
		if p.format != nil && len(plain) == len(all) && bytes.Equal(plain[i].value, m.value) {
			text, ok = p.format.show(m.value)
		}
		if !ok {
			text = p.show(m.value)
		}
		if m.path != p.path {
			text = "“" + legible.ShortenMiddle(quotable(m.path), maxFilledName, legible.UTF16Len) + "”: " + text
		}
		shown = append(shown, text)
	}
	return strings.Join(shown, " / ")
}

// findAt returns the values at a dotted path, that which is spelt as the rule has it first.
func findAt(args jsontext.Value, path string) (all []match) {
	find(args, path, "", func(m match) { all = append(all, m) })
	slices.SortStableFunc(all, func(a, b match) int {
		switch {
		case (a.path == path) == (b.path == path):
			return 0
		case a.path == path:
			return -1
		}
		return 1
	})
	return all
}

// countMembers is how many there are of an object or an array.
func countMembers(raw jsontext.Value) (n int) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	open, err := d.ReadToken()
	if err != nil {
		return 0
	}
	for ; d.PeekKind() != '}' && d.PeekKind() != ']'; n++ {
		if open.Kind() == '{' && d.SkipValue() != nil || d.SkipValue() != nil {
			return n
		}
	}
	return n
}

// find calls found with the values at a dotted path, whatever the letter case of its names: a step may be an index into
// a list, and a key may have dots itself.
func find(raw jsontext.Value, path, at string, found func(match)) {
	kind := raw.Kind()
	if kind != '{' && kind != '[' {
		return
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for i := 0; d.PeekKind() != '}' && d.PeekKind() != ']'; i++ {
		key := strconv.Itoa(i)
		if kind == '{' {
			t, err := d.ReadToken()
			if err != nil {
				return
			}
			key = t.String()
		}
		v, err := d.ReadValue()
		if err != nil {
			return
		}
		for end := 0; end <= len(path); end++ {
			if end < len(path) && path[end] != '.' || !strings.EqualFold(key, path[:end]) {
				continue
			}
			if end == len(path) {
				found(match{at + key, v.Clone()})
			} else {
				find(v.Clone(), path[end+1:], at+key+".", found)
			}
		}
	}
}

func (s style) show(v jsontext.Value) string {
	if v.Kind() != '"' {
		return legible.ShortenMiddle(quotable(string(v)), maxFilledValue, legible.UTF16Len)
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return s.nothing()
	}
	if s.words {
		return Quoted(string(b), maxFilledValue)
	}
	return "“" + legible.ShortenMiddle(quotable(string(b)), maxFilledValue, legible.UTF16Len) + "”"
}

// plainWord is a text that can be taken for nothing but one value, if it has a letter: a name, a path, an address.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/~@_.][A-Za-z0-9/~@_.:+-]*$`)

func isLetter(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' }

// Quoted is a text as it stands in a sentence about a call: in quotes that it cannot close unless it is a plain word,
// and at most so many characters of it.
func Quoted(s string, most int) string {
	switch s {
	case "true", "false", "null":
	default:
		if len(s) <= most && plainWord.MatchString(s) && strings.ContainsFunc(s, isLetter) && !decimal.IsNumber(s) {
			return s
		}
	}
	return "“" + legible.ShortenMiddle(quotable(s), most, legible.UTF16Len) + "”"
}

// quotable makes foreign text fit to stand in “…”: without marks that would end it. Whoever shows a
// message makes the rest of it visible, as with all foreign text.
func quotable(s string) string {
	return strings.NewReplacer("“", `\u201c`, "”", `\u201d`).Replace(s)
}
