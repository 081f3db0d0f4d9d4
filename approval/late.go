package approval

import "strings"

// Late is what somebody is told who comes after the end of a request: how it ended, and what to do where
// there is something to do; "" while it is pending. say fills in a phrase for one reader, as [Phrase.Say] does.
func Late(r Request, who Actor, say func(p Phrase, args ...any) string) string {
	already := func(status, own Phrase) string {
		if own != "" && who.Kind == Human && who.Name == r.ResolvedBy {
			return say(own, "when", r.ResolvedAt)
		}
		return say(SayAlready, "status", say(status), "who", r.ResolvedBy, "when", r.ResolvedAt)
	}
	switch r.Status {
	case Expired:
		return say(SayExpired)
	case Denied:
		return already(SayStatusDenied, SayYouDenied)
	case Cancelled:
		switch {
		case r.ResolvedVia != ViaSystem:
		case r.ResolveReason == reasonPolicyChanged:
			return then(say(SayPolicyChanged, "when", r.ResolvedAt), say(SayNewCard))
		case r.ResolveReason == reasonToolChanged:
			return then(say(SayToolChanged, "when", r.ResolvedAt), say(SayNewCard))
		}
		return then(already(SayStatusCancel, ""), say(SayMustAsk))
	case Approved:
		switch {
		case !r.LapsedAt.IsZero():
			return then(say(SayLapsed, "who", r.ResolvedBy, "when", r.ResolvedAt), say(SayMustAsk))
		case !r.ConsumedAt.IsZero():
			return then(say(SayUsed, "who", r.ResolvedBy, "when", r.ConsumedAt), say(SayMustAskOnce))
		}
		return already(SayStatusApproved, SayYouApproved)
	}
	return ""
}

// lateMessage is [Late] over the API: in English, and with the next step for whoever wants the call.
func lateMessage(r Request, who Actor) string {
	text := Late(r, who, func(p Phrase, args ...any) string {
		switch p {
		case SayMustAsk, SayNewCard:
			return askAgain
		case SayMustAskOnce:
			return "Ask again only if the call is needed once more."
		}
		return p.Say(args...)
	})
	if r.Status == Expired {
		text = then(text, askAgain)
	}
	return text
}

// then puts a sentence after another. 。 brings its own space.
func then(first, second string) string {
	if strings.HasSuffix(first, "。") {
		return first + second
	}
	return first + " " + second
}
