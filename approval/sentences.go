package approval

import (
	"countersign/approval/redact"
)

import "maps"

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
// read too: [Verdict.Message] and [Request.HumanMessage]. A verdict has them as they are written, a request filled in.
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

// fillSentences returns what a rule says of the call, with the values in it. They are those of now: what a request says
// to people does not change with the rule.
func fillSentences(m *redact.Masker, s *Sentences, c Call, ignore []string) *Sentences {
	if s == nil {
		return nil
	}
	filled := &Sentences{Summary: maps.Clone(s.Summary), Message: maps.Clone(s.Message)}
	for tag, text := range filled.Summary {
		filled.Summary[tag] = fillIn(m, text, c, ignore, filling{tag: tag, words: true, most: maxFilledSummary})
	}
	for tag, text := range filled.Message {
		filled.Message[tag] = fillIn(m, text, c, ignore, filling{tag: tag, most: maxFilledMessage})
	}
	return filled
}
