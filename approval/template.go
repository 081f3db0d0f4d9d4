package approval

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"countersign/approval/legible"

	"github.com/go-json-experiment/json/jsontext"
)

// placeholder is what a rule's message can have filled in: {toolName}, {args} and {args.path.to.one}.
var placeholder = regexp.MustCompile(`\{(toolName|args(?:\.[^{}\s]+)?)\}`)

// likePlaceholder is what somebody may have meant to be filled in.
var likePlaceholder = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_.]*\}`)

// UnknownPlaceholders returns what in a rule's message looks as if it should be filled in and will not be.
func UnknownPlaceholders(message string) []string {
	return likePlaceholder.FindAllString(placeholder.ReplaceAllString(message, ""), -1)
}

// How much of one value, of all args and of a whole message is shown, in characters.
const (
	maxFilledValue   = 120
	maxFilledArgs    = 300
	maxFilledMessage = 2000
	maxFilledName    = 64
)

// fillIn fills a rule's message with what the call is about, masked. A value that is text stands in
// quotes that it cannot close, so that no value passes for words of the rule. What the approval does not
// cover is left out: the next call that it lets through may say something else there.
func (g *Gate) fillIn(message string, c Call, ignore []string) string {
	if !placeholder.MatchString(message) {
		return message
	}
	masked, _ := g.masker.Load().Args(c.Args.Covered(ignore))
	filled := placeholder.ReplaceAllStringFunc(message, func(hole string) string {
		switch name := hole[1 : len(hole)-1]; name {
		case "toolName":
			return c.Target()
		case "args":
			return legible.ShortenMiddle(quotable(string(masked)), maxFilledArgs, legible.UTF16Len)
		default:
			return filledPath(masked, strings.TrimPrefix(name, "args."))
		}
	})
	return legible.Cut(filled, maxFilledMessage)
}

// maxReached is how many values stand for one placeholder where it can be read in several ways.
const maxReached = 3

// reached is a value that a placeholder may mean, and the path to it as the arguments spell it.
type reached struct {
	path  string
	value jsontext.Value
}

// filledPath is what stands for a placeholder: the value at its dotted path. A tool may take another key for the
// one that the rule's author meant, one in another letter case or with dots in it, so those that there are stand
// there too, each with its own name: a sentence that says there is no path would be believed.
func filledPath(args jsontext.Value, path string) string {
	var all []reached
	reach(args, path, "", func(r reached) { all = append(all, r) })
	slices.SortStableFunc(all, func(a, b reached) int { // what is spelt as the rule has it comes first
		switch {
		case (a.path == path) == (b.path == path):
			return 0
		case a.path == path:
			return -1
		}
		return 1
	})
	if len(all) == 0 {
		return filledValue(nil)
	}
	var said []string
	for i, r := range all {
		if i == maxReached {
			said = append(said, fmt.Sprintf("… (+%d)", len(all)-i))
			break
		}
		text := filledValue(r.value)
		if r.path != path {
			text = "“" + legible.ShortenMiddle(quotable(r.path), maxFilledName, legible.UTF16Len) + "”: " + text
		}
		said = append(said, text)
	}
	return strings.Join(said, " / ")
}

// reach finds the values at a dotted path, whatever the letter case of its names: a step may be an index into a
// list, and a key may have dots itself.
func reach(raw jsontext.Value, path, at string, found func(reached)) {
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
				found(reached{at + key, v.Clone()})
			} else {
				reach(v.Clone(), path[end+1:], at+key+".", found)
			}
		}
	}
}

func filledValue(v jsontext.Value) string {
	switch {
	case v == nil:
		return "(none)"
	case v.Kind() == '"':
		s, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return "(none)"
		}
		return "“" + legible.ShortenMiddle(quotable(string(s)), maxFilledValue, legible.UTF16Len) + "”"
	}
	return legible.ShortenMiddle(quotable(string(v)), maxFilledValue, legible.UTF16Len)
}

// quotable makes foreign text fit to stand in “…”: without marks that would end it. Whoever shows a
// message makes the rest of it visible, as with all foreign text.
func quotable(s string) string {
	return strings.NewReplacer("“", `\u201c`, "”", `\u201d`).Replace(s)
}
