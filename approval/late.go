package approval

import (
	"fmt"
	"strings"
	"time"
)

// Late is how a request ended before somebody came who wanted it to end otherwise.
type Late struct {
	How LateKind
	Own bool      // it was they themselves who decided
	By  string    // who did
	At  time.Time // when, the zero time where that does not matter
	Why string    // of a freeze: the reason that was given for it
}

// LateKind tells the ways apart in which a request can have ended.
type LateKind string

const (
	NotLate         LateKind = "" // it is pending
	LateExpired     LateKind = "expired"
	LateApproved    LateKind = "approved" // and it can still be used
	LateDenied      LateKind = "denied"
	LateCancelled   LateKind = "cancelled"
	LateAfterPolicy LateKind = "policy_changed" // cancelled, since the policy asks for more now
	LateAfterTool   LateKind = "tool_changed"   // cancelled, since the tool is another now
	LateLapsed      LateKind = "lapsed"         // approved, and not used in time
	LateAfterUse    LateKind = "used"           // approved, and used
	LateFrozen      LateKind = "frozen"         // cancelled, since somebody froze the agent, or all
	LateEdited      LateKind = "edited"         // denied, since other arguments were approved instead
)

// LateFor is the one rule of what somebody is told who comes after the end of r.
func LateFor(r Request, who Actor) Late {
	own := who.Kind == Human && who.Name == r.ResolvedBy && (r.Who == "" || r.Who == r.ResolvedBy)
	l := Late{By: r.WhoEnded(), At: r.ResolvedAt}
	switch r.Status {
	case Expired:
		return Late{How: LateExpired}
	case Denied:
		l.How, l.Own = LateDenied, own
		if r.EndCode == EndEdited {
			l.How = LateEdited
		}
	case Cancelled:
		l.How = LateCancelled
		switch {
		case r.EndCode == EndFrozen:
			l.How, l.Why = LateFrozen, r.ResolveReason
		case r.ResolvedVia != ViaSystem:
		case r.ResolveReason == reasonPolicyChanged:
			l.How = LateAfterPolicy
		case r.ResolveReason == reasonToolChanged:
			l.How = LateAfterTool
		}
	case Approved:
		switch {
		case !r.LapsedAt.IsZero():
			l.How = LateLapsed
		case !r.ConsumedAt.IsZero():
			l.How, l.At = LateAfterUse, r.ConsumedAt
		default:
			l.How, l.Own = LateApproved, own
		}
	default:
		return Late{}
	}
	return l
}

// lateMessage is what [LateFor] says over the API: in English, and with the next step for whoever wants the call.
func lateMessage(r Request, who Actor) string {
	l := LateFor(r, who)
	at := FormatTime(l.At)
	switch l.How {
	case LateExpired:
		return "This approval request has expired. " + askAgain
	case LateApproved, LateDenied:
		if l.Own {
			return fmt.Sprintf("You already %s this (%s).", l.How, at)
		}
		return fmt.Sprintf("Already %s by %s (%s).", l.How, l.By, at)
	case LateCancelled:
		return fmt.Sprintf("Already cancelled by %s (%s). %s", l.By, at, askAgain)
	case LateAfterPolicy:
		return fmt.Sprintf("Cancelled (%s), because the policy has changed since the agent asked. %s", at, askAgain)
	case LateAfterTool:
		return fmt.Sprintf("Cancelled (%s), because the tool has changed since the agent asked. %s", at, askAgain)
	case LateLapsed:
		return fmt.Sprintf("Approved by %s (%s) but not used in time, so the approval has lapsed. %s", l.By, at, askAgain)
	case LateFrozen:
		return fmt.Sprintf("Cancelled (%s): frozen by %s: %s. Nothing runs until a person lifts it.", at, l.By,
			orNoReason(l.Why))
	case LateEdited:
		if l.Own {
			return fmt.Sprintf("Not as asked: you approved other arguments instead (%s).", at)
		}
		return fmt.Sprintf("Not as asked: %s approved other arguments instead (%s).", l.By, at)
	case LateAfterUse:
		return fmt.Sprintf("Approved by %s and already used (%s): the call was let through. Ask again only if the call is "+
			"needed once more.", l.By, at)
	}
	return ""
}

// votedMessage tells over the API somebody who votes once more that their word counts already.
func votedMessage(r Request, who Actor) string {
	for _, v := range r.Votes {
		switch who.Name {
		case v.Person:
			return fmt.Sprintf("You already %s this (%s).", Approved, FormatTime(v.At))
		case v.For:
			return fmt.Sprintf("%s has approved this for you already (%s).", v.Person, FormatTime(v.At))
		}
	}
	return "Your approval counts already."
}

// openStage says who is asked in the open stage of a pending request: "2 of finance", "1 of hana, leads".
func openStage(r *Request) string {
	stages := r.Need.InStages()
	s := stages[min(r.Stage, len(stages)-1)]
	of := "any approver"
	if names := s.names(); len(names) > 0 {
		of = strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d of %s", s.Count, of)
}
