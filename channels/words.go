package channels

import (
	"strings"
	"unicode"

	"countersign/approval"
)

// Words is what a typed text means.
type Words struct {
	Intent approval.Intent // IntentOther unless the text can mean nothing but a decision
	ID     string          // ULID, upper case; "" where the text names no request
	Reason string
}

// lexicon is one language's words for yes and no, in lower case.
type lexicon struct {
	locale string
	yes    []string
	no     []string
	// refuse are those of no that a reason may follow without punctuation: "deny wrong account". "No" is
	// not among them, since "no problem" means the opposite.
	refuse []string
}

// lexicons are the languages that are understood; a word belongs to one intent in all of them.
var lexicons = []lexicon{{
	locale: "en",
	yes:    []string{"approve", "approved", "yes", "y", "yep", "yeah", "ok", "okay", "accept", "allow", "confirm"},
	no:     []string{"deny", "denied", "no", "n", "nope", "reject", "rejected", "refuse", "decline"},
	refuse: []string{"deny", "reject", "refuse", "decline"},
}}

// ParseWords reads what a person typed to the bot; quoting says that the text quotes one of our cards,
// which then is what it is about. It takes
//
//	yes                      a bare word, which may end in "." or "!"
//	approve <id> [reason]    and deny likewise, with any of the words
//	approve: reason          only when quoting; the colon must be there
//	deny reason              only when quoting; deny: reason and no, reason too
//
// and nothing else: "approve everything" is not a decision, nor is "yes?", nor a text that names two
// requests. An approval with a condition must not pass for one without, so a reason follows a yes-word
// only where an id or a colon sets it apart.
func ParseWords(text string, quoting bool) Words {
	other := Words{Intent: approval.IntentOther}
	word, rest := cutWord(strings.TrimSpace(text))
	intent, mayRefuse := lookUp(word)
	if intent == approval.IntentOther {
		return other
	}
	spaced := strings.TrimSpace(rest)
	after := strings.TrimLeftFunc(spaced, unicode.IsPunct)
	mark := spaced[:len(spaced)-len(after)]
	after = strings.TrimSpace(after)
	switch {
	case after == "" && strings.Trim(mark, ".!。！") == "":
		return Words{Intent: intent}
	case after == "", mark == "" && spaced == rest: // "yes?", "no1"
		return other
	}
	colon := mark == ":" || mark == "："
	if mark == "" || colon {
		first, reason := cutField(after)
		if id, ok := parseID(strings.Trim(first, "`")); ok {
			if next, _ := cutField(reason); isID(next) {
				return other
			}
			return Words{Intent: intent, ID: id, Reason: reason}
		}
	}
	if quoting && (colon || intent == approval.IntentDeny && (mark == "" && mayRefuse || mark != "" && strings.Trim(mark, ",.;!-–—、，。！") == "")) {
		return Words{Intent: intent, Reason: after}
	}
	return other
}

func isID(s string) bool {
	_, ok := parseID(strings.Trim(s, "`"))
	return ok
}

func lookUp(word string) (intent approval.Intent, mayRefuse bool) {
	word = strings.ToLower(word)
	for _, l := range lexicons {
		for _, w := range l.yes {
			if w == word {
				return approval.IntentApprove, false
			}
		}
		for _, w := range l.no {
			if w != word {
				continue
			}
			for _, r := range l.refuse {
				mayRefuse = mayRefuse || r == word
			}
			return approval.IntentDeny, mayRefuse
		}
	}
	return approval.IntentOther, false
}

// cutWord splits off the leading run of letters and marks.
func cutWord(s string) (word, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

func cutField(s string) (field, rest string) {
	end := strings.IndexFunc(s, unicode.IsSpace)
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimSpace(s[end:])
}
