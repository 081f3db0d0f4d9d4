package approval

import (
	"bytes"
	"time"
)

// usability says whether an approval may be used for a call, or why not.
type usability string

const (
	usable        usability = ""
	unusable      usability = "not_approved"                 // nobody has approved it yet, or it is over
	deniedNow     usability = "denied"                       // the policy denies the call
	toolChanged   usability = usability(reasonToolChanged)   // it was given for another state of the tool
	policyChanged usability = usability(reasonPolicyChanged) // more is asked for than it was given for
	otherArgs     usability = usability(EndEdited)           // the caller would run other args than people were shown
)

// mayUse is the one rule of whether the approval of r may be used for a call as it is judged now: on a check, at the
// end of a wait, and where it accepted a changed tool. changed says that the tool is not the one on record, enough that
// the votes which count now meet the stricter of the need it was given for and the policy's. In observe mode the policy
// takes nothing back. That a call has joined r says no more than that their hashes are equal: what runs must be what
// was shown, with those args that the hash leaves out.
func mayUse(r *Request, j *judged, changed, enough bool, now time.Time) usability {
	v := &j.verdict
	switch {
	case r.Status != Approved || !r.Live() || r.Due(now):
		return unusable
	case v.Observe && !j.runs(r):
		return otherArgs
	case v.Observe:
		return usable
	case v.Action != Allow && v.Action != Quarantine:
		return deniedNow
	case j.isOtherTool(r, changed):
		return toolChanged
	case v.Action == Quarantine && (v.Risk.Rank() > r.Risk.Rank() || j.key != r.Key()):
		return policyChanged
	case !enough:
		return policyChanged
	case !j.runs(r):
		return otherArgs
	}
	return usable
}

// runs reports whether what runs with an approval of r is what people were shown, to the byte: its caller takes the
// stored args in place of the call's own, or these are the same.
func (j *judged) runs(r *Request) bool {
	return j.call.AcceptsEdits || bytes.Equal(r.Args, j.call.Args.Canonical())
}

// isOtherTool reports whether an approval was given for another state of the tool than the call's, or for none in
// particular while the tool has changed.
func (j *judged) isOtherTool(r *Request, changed bool) bool {
	return j.call.ToolDigest != "" && !j.sameTool(r.ToolDigest, r.ResolvedAt) && (r.ToolDigest != "" || changed)
}

// MayDecide reports whether the actor is somebody who decides at all: a person with the role, never an agent.
func (a Actor) MayDecide() bool { return a.Kind == Human && a.Approver }

// mayDecide is the one rule of whether a decision may be carried out on r, which was settled at now, whatever way it
// came in: "" or the code of the refusal. d.By has the roles of now, and b what they may do about a pending request.
// Who may not decide is told so first, then how the request ended, then what the decision lacks.
func mayDecide(r *Request, d Decision, b *ballot, now time.Time) Code {
	switch {
	case !d.By.MayDecide():
		return CodeNotAnApprover
	case r.Status == Expired || r.Status == Pending && r.Due(now):
		return CodeExpired
	case r.Status != Pending:
		return CodeAlreadyResolved
	case d.Approve && b.voted:
		return CodeAlreadyVoted
	case !b.stage && (d.Approve || !b.hasSaid):
		if b.other {
			return CodeNotYourStage
		}
		return CodeNotAnApprover
	case b.changed:
		return CodeChanged
	case d.Approve && b.stepUp && !d.proven:
		return CodeStepUpRequired
	case r.RequireReason && d.Reason == "":
		return CodeReasonRequired
	case len(d.Reason) > MaxReason:
		return CodeInvalidParameter
	case d.Approve && b.confirm && !d.Confirmed:
		return CodeConfirmRequired
	}
	return ""
}

// mayCancel is the one rule of whether by may take r, which was settled, back: an agent its own, an admin any, a person
// what they approved, alone or with others. Of another agent's request an agent is told that there is none.
func mayCancel(r *Request, by Actor) Code {
	approvedIt := r.Status == Approved && r.ResolvedVia != ViaSystem && r.approvedBy(by.Name)
	switch {
	case by.Kind == Agent && by.Name != r.Agent:
		return CodeNotFound
	case by.Kind != Agent && (by.Kind != Human || !by.Admin && !approvedIt):
		return CodeNotAdmin
	case r.Status == Expired:
		return CodeExpired
	case !r.Live():
		return CodeAlreadyResolved
	}
	return ""
}
