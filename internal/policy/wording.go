package policy

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/summary"
)

// maxSummary is how long a summary is written at most, in characters.
const maxSummary = 300

// sentences are what a rule says to people beside its message; nil: nothing.
func sentences(in *Rule) *summary.Sentences {
	if in.Summary == nil && in.MessageIn == nil {
		return nil
	}
	return &summary.Sentences{Summary: maps.Clone(in.Summary), Message: maps.Clone(in.MessageIn)}
}

// inLanguages is a text by language as it is written, nil where it is written once for all.
func inLanguages(w summary.Wording) summary.Wording {
	if len(w) < 2 {
		return nil
	}
	w = maps.Clone(w)
	delete(w, "")
	return w
}

// wording checks what a rule says: why a person is asked, and what will happen.
func (c *compiler) wording(r *rule) {
	texts := func(key string, w summary.Wording, check func(where, text string)) {
		if len(w) == 1 {
			check(key, w[""])
			return
		}
		for _, tag := range slices.Sorted(maps.Keys(w)) {
			if tag == "" { // it is one of the others
				continue
			}
			where := key + "." + tag
			if c.opts.Languages != nil && !slices.Contains(c.opts.Languages, tag) {
				c.fail(r.origin, where, "unknown language %q; use one of %s%s", tag, strings.Join(c.opts.Languages, ", "),
					didYouMean(tag, c.opts.Languages, languageSynonyms))
			}
			check(where, w[tag])
		}
	}
	var in summary.Sentences
	if r.sentences != nil {
		in = *r.sentences
	}
	message := in.Message
	if message == nil {
		message = summary.Wording{"": r.message}
	}
	texts("message", message, func(where, text string) { c.message(r, where, text) })
	texts("summary", in.Summary, func(where, text string) { c.summary(r, where, text) })
	if in.Summary != nil && r.action == approval.Deny {
		c.warn(r.origin, "summary", "the summary has no effect: this rule denies, and nobody is asked")
	}
}

// languageSynonyms are other spellings of the languages.
var languageSynonyms = map[string]string{
	"jp": "ja", "jpn": "ja", "ja-JP": "ja", "japanese": "ja", "zh": "zh-TW", "tw": "zh-TW", "zh-Hant": "zh-TW",
	"zh_TW": "zh-TW", "zh-tw": "zh-TW", "th-TH": "th", "thai": "th", "en-US": "en", "en-GB": "en", "english": "en",
	"eng": "en",
}

func (c *compiler) message(r *rule, where, text string) {
	for _, given := range summary.UnknownPlaceholders(text) {
		c.warn(r.origin, where, "%s is not replaced; write {toolName}, {args} or {args.NAME}%s", given,
			suggestPlaceholder(given))
	}
	c.formats(r, where, text)
	if bad := badText(text, maxMessage); (text != "" || where != "message") && bad != "" {
		c.fail(r.origin, where, "the message %s", bad)
	}
}

// summary is checked more strictly than a message: it is what people decide by.
func (c *compiler) summary(r *rule, where, text string) {
	if bad := badText(text, maxSummary); bad != "" {
		c.fail(r.origin, where, "the summary %s", bad)
		return
	}
	for _, given := range summary.StrayBraces(text) {
		c.fail(r.origin, where, "%s in the summary cannot be replaced; write {toolName}, {args} or "+
			"{args.NAME}, with a format {args.NAME|money:USD/100}%s", shortPlaceholder(given), suggestPlaceholder(given))
	}
	c.formats(r, where, text)
}

func (c *compiler) formats(r *rule, where, text string) {
	for _, wrong := range summary.WrongFormats(text) {
		meant := ""
		if wrong.Format != "" {
			meant = didYouMean(wrong.Format, summary.Formats, formatSynonyms)
		}
		c.fail(r.origin, where, "%s: %s%s", shortPlaceholder(wrong.Placeholder), wrong.Why, meant)
	}
}

// formatSynonyms are what formats are called elsewhere.
var formatSynonyms = map[string]string{
	"currency": "money", "amount": "money", "cents": "money", "number": "count", "length": "count", "len": "count",
	"bytes": "size", "filesize": "size", "time": "date", "datetime": "date", "timestamp": "date",
}

// suggestPlaceholder asks whether another placeholder was meant.
func suggestPlaceholder(given string) string {
	name, _, _ := strings.Cut(strings.Trim(given, "{} \t"), "|")
	first, path, has := strings.Cut(strings.TrimSpace(name), ".")
	known := []string{"toolName", "args"}
	if has || first == "arg" {
		known = []string{"args"}
	}
	meant := didYouMean(first, known, map[string]string{"tool": "toolName", "tool_name": "toolName", "name": "toolName",
		"toolname": "toolName", "arg": "args", "arguments": "args", "params": "args", "input": "args"})
	switch {
	case has && first == "args":
		return `; did you mean "{args.` + strings.TrimSpace(path) + `}"?`
	case has && meant != "" && utf8.RuneCountInString(path) < 40:
		return `; did you mean "{args.` + path + `}"?`
	}
	return meant
}

// shortPlaceholder is a placeholder as a problem quotes it.
func shortPlaceholder(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
