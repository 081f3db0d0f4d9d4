package message

import (
	"fmt"
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

// Tell says so over the API, with the next step for whoever wants the call. at is when it ended, as it is told.
func (l Late) Tell(at string) string {
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
