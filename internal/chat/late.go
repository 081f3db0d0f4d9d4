package chat

import (
	"strings"

	"countersign/approval/message"
	"countersign/internal/locale/phrases"
)

// Late is what a person is told who comes after the end of a request: how it ended, and what to do where
// there is something to do; "" while it is pending. say fills in a phrase for one reader, as [phrases.Phrase.Say] does.
func Late(l message.Late, say func(p phrases.Phrase, args ...any) string) string {
	already := func(status, own phrases.Phrase) string {
		if l.Own {
			return say(own, "when", l.At)
		}
		return say(phrases.SayAlready, "status", say(status), "who", l.By, "when", l.At)
	}
	switch l.How {
	case message.LateExpired:
		return say(phrases.SayExpired)
	case message.LateApproved:
		return already(phrases.SayStatusApproved, phrases.SayYouApproved)
	case message.LateDenied:
		return already(phrases.SayStatusDenied, phrases.SayYouDenied)
	case message.LateCancelled:
		return then(already(phrases.SayStatusCancel, ""), say(phrases.SayMustAsk))
	case message.LateAfterPolicy:
		return then(say(phrases.SayPolicyChanged, "when", l.At), say(phrases.SayNewCard))
	case message.LateAfterTool:
		return then(say(phrases.SayToolChanged, "when", l.At), say(phrases.SayNewCard))
	case message.LateFrozen:
		return say(phrases.SayLateFrozen, "who", l.By, "when", l.At, "reason", l.Why)
	case message.LateEdited:
		if l.Own {
			return say(phrases.SayYouEdited, "when", l.At)
		}
		return say(phrases.SayLateEdited, "who", l.By, "when", l.At)
	case message.LateLapsed:
		return then(say(phrases.SayLapsed, "who", l.By, "when", l.At), say(phrases.SayMustAsk))
	case message.LateAfterUse:
		return then(say(phrases.SayUsed, "who", l.By, "when", l.At), say(phrases.SayMustAskOnce))
	}
	return ""
}

// then puts a sentence after another. 。 brings its own space.
func then(first, second string) string {
	if strings.HasSuffix(first, "。") {
		return first + second
	}
	return first + " " + second
}
