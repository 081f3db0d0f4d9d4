// Package summary is what rules say of calls to people: sentences with placeholders, which are filled in with a call's
// arguments, and how these are shown. It decides nothing, and knows a call only by what is shown of it.
package summary

import (
	"maps"

	"countersign/approval/args"
	"countersign/approval/redact"
)

// Call is what sentences are filled in with.
type Call struct {
	Target  string // the tool as people write it
	Args    args.Args
	Ignored []string       // top-level args that the approval does not cover
	Masker  *redact.Masker // of what is secret in the args
}

// Message returns a rule's one message with the values in it.
func (c Call) Message(text string) string { return c.fill(text, style{most: maxFilledMessage}) }

// Sentences returns what a rule says of the call, with the values in it. They are those of now: what a request says
// to people does not change with the rule.
func (c Call) Sentences(s *Sentences) *Sentences {
	if s == nil {
		return nil
	}
	filled := &Sentences{Summary: maps.Clone(s.Summary), Message: maps.Clone(s.Message)}
	for tag, text := range filled.Summary {
		filled.Summary[tag] = c.fill(text, style{tag: tag, words: true, most: maxFilledSummary})
	}
	for tag, text := range filled.Message {
		filled.Message[tag] = c.fill(text, style{tag: tag, most: maxFilledMessage})
	}
	return filled
}

// Wording is a sentence in several languages, by their tags. Under "" is what everybody else reads.
type Wording map[string]string

// In returns the sentence in a language, "" where there is none at all.
func (w Wording) In(tag string) string {
	if s, ok := w[tag]; ok {
		return s
	}
	return w[""]
}

// Sentences are what a rule says to people of a call that it has them asked about, beside the one sentence that models
// read too. A verdict has them as they are written, a request filled in.
type Sentences struct {
	Summary Wording `json:"summary,omitempty"` // what will happen
	Message Wording `json:"message,omitempty"` // why a person is asked, where that is said in several languages
}

// SummaryIn is what will happen, in a language; "" where nothing is said of that.
func (s *Sentences) SummaryIn(tag string) string {
	if s == nil {
		return ""
	}
	return s.Summary.In(tag)
}

// WithoutMessage is s for a call of which something else is said than its rule's message.
func (s *Sentences) WithoutMessage() *Sentences {
	if s == nil || s.Summary == nil {
		return nil
	}
	return &Sentences{Summary: s.Summary}
}

// Size is about how many bytes they take.
func (s *Sentences) Size() (n int) {
	if s == nil {
		return 0
	}
	for _, w := range []Wording{s.Summary, s.Message} {
		for tag, text := range w {
			n += len(tag) + len(text)
		}
	}
	return n
}
