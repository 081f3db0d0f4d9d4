package approval

import (
	"fmt"
	"strings"

	"countersign/approval/message"
)

// LateFor is the one rule of what somebody is told who comes after the end of r.
func LateFor(r Request, who Actor) message.Late {
	own := who.Kind == Human && who.Name == r.ResolvedBy && (r.Who == "" || r.Who == r.ResolvedBy)
	l := message.Late{By: r.WhoEnded(), At: r.ResolvedAt}
	switch r.Status {
	case Expired:
		return message.Late{How: message.LateExpired}
	case Denied:
		l.How, l.Own = message.LateDenied, own
		if r.EndCode == EndEdited {
			l.How = message.LateEdited
		}
	case Cancelled:
		l.How = message.LateCancelled
		switch {
		case r.EndCode == EndFrozen:
			l.How, l.Why = message.LateFrozen, r.ResolveReason
		case r.ResolvedVia != ViaSystem:
		case r.ResolveReason == reasonPolicyChanged:
			l.How = message.LateAfterPolicy
		case r.ResolveReason == reasonToolChanged:
			l.How = message.LateAfterTool
		}
	case Approved:
		switch {
		case !r.LapsedAt.IsZero():
			l.How = message.LateLapsed
		case !r.ConsumedAt.IsZero():
			l.How, l.At = message.LateAfterUse, r.ConsumedAt
		default:
			l.How, l.Own = message.LateApproved, own
		}
	default:
		return message.Late{}
	}
	return l
}

// lateMessage is what [LateFor] says over the API.
func lateMessage(r Request, who Actor) string {
	l := LateFor(r, who)
	return l.Tell(FormatTime(l.At))
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
	if names := s.Names(); len(names) > 0 {
		of = strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d of %s", s.Count, of)
}
