package approval

import (
	"bytes"
	"regexp"
	"strings"

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
)

// fillIn fills a rule's message with what the call is about, masked. A value that is text stands in
// quotes that it cannot close, so that no value passes for words of the rule. What the approval does not
// cover is left out: the next call that it lets through may say something else there.
func (g *Gate) fillIn(message string, c Call, ignore []string) string {
	if !placeholder.MatchString(message) {
		return message
	}
	masked, _ := g.masker.Load().Args(c.Args.hashed(ignore))
	filled := placeholder.ReplaceAllStringFunc(message, func(hole string) string {
		switch name := hole[1 : len(hole)-1]; name {
		case "toolName":
			return c.Target()
		case "args":
			return ShortenMiddle(quotable(string(masked)), maxFilledArgs, UTF16Len)
		default:
			return filledValue(memberAt(masked, strings.Split(name, ".")[1:]))
		}
	})
	return CutRunes(filled, maxFilledMessage)
}

// memberAt returns the value at a dotted path, nil where there is none.
func memberAt(raw jsontext.Value, path []string) jsontext.Value {
	for _, name := range path {
		if raw.Kind() != '{' {
			return nil
		}
		var found jsontext.Value
		d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
		if _, err := d.ReadToken(); err != nil {
			return nil
		}
		for d.PeekKind() == '"' {
			key, err := d.ReadToken()
			if err != nil {
				return nil
			}
			match := key.String() == name
			v, err := d.ReadValue()
			if err != nil {
				return nil
			}
			if match {
				found = v.Clone()
				break
			}
		}
		if found == nil {
			return nil
		}
		raw = found
	}
	return raw
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
		return "“" + ShortenMiddle(quotable(string(s)), maxFilledValue, UTF16Len) + "”"
	}
	return ShortenMiddle(quotable(string(v)), maxFilledValue, UTF16Len)
}

// quotable makes foreign text fit to stand in “…”: without marks that would end it. Whoever shows a
// message makes the rest of it visible, as with all foreign text.
func quotable(s string) string {
	return strings.NewReplacer("“", `\u201c`, "”", `\u201d`).Replace(s)
}
