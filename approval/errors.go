package approval

import (
	"errors"
	"fmt"
	"time"
)

// Code names one way to fail. It is the same word in Go, in JSON and in the audit log.
type Code string

const (
	CodeUnauthorized     Code = "unauthorized"
	CodeAgentsOnly       Code = "agents_only"
	CodePeopleOnly       Code = "people_only"
	CodeNotAnApprover    Code = "not_an_approver"
	CodeNotAdmin         Code = "not_admin"
	CodeNotFound         Code = "not_found"
	CodeAlreadyResolved  Code = "already_resolved"
	CodeNotFailed        Code = "not_failed"
	CodeExpired          Code = "expired"
	CodeReasonRequired   Code = "reason_required"
	CodeTooManyPending   Code = "too_many_pending"
	CodeRateLimited      Code = "rate_limited"
	CodeStoreUnavailable Code = "store_unavailable"
	CodeStoreFull        Code = "store_full" // there is hardly room left, and what is there is for decisions
	CodeInvalidArgs      Code = "invalid_args"
	CodeInvalidTool      Code = "invalid_tool"
	CodeInvalidParameter Code = "invalid_parameter"
	CodeAlreadyVoted     Code = "already_voted"
	CodeNotYourStage     Code = "not_your_stage"
	CodeConfirmRequired  Code = "confirm_required"
	CodeChanged          Code = "changed"          // another version than the one that stands was seen; nothing is decided
	CodeStepUpRequired   Code = "step_up_required" // an approval takes a passkey, on the request's page
	CodePolicyDenied     Code = "policy_denied"    // the args in whose place others were to be approved
	CodeAmbiguousID      Code = "ambiguous_id"
	CodeGrantRefused     Code = "grant_refused" // the decision was to be given for longer, and may not; nothing is decided
	CodeInternal         Code = "internal"

	// CodeAlreadyUsed is a reason code, not an error: the approval let another call through.
	CodeAlreadyUsed Code = "already_used"
)

// Error is a failure that has a code to branch on and a sentence that may be shown to anyone.
type Error struct {
	Code    Code
	Message string   // safe to show
	Request *Request // the request it is about, where the asker may see it
	Err     error    // for the log only
	// After is when it is worth trying again, from now; 0: not known.
	After time.Duration
}

// Errorf makes an [Error]; the arguments must be safe to show.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Err != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.Err.Error()
	}
	return string(e.Code) + ": " + e.Message
}

// RetryAfter is After, for those who know no [Error].
func (e *Error) RetryAfter() time.Duration { return e.After }

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an [Error] with the same code, so that errors.Is(err, ErrNotFound) reads well.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Err == nil && t.Request == nil
}

// CodeOf returns the code of err, [CodeInternal] for an error that has none, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

const noSuchRequest = "No such request."

var (
	// ErrNotFound is what a [Tx] returns for a row that is not there.
	ErrNotFound = Errorf(CodeNotFound, noSuchRequest)
	// ErrLiveExists is what [Tx.InsertRequest] returns when the key has a live request already.
	ErrLiveExists = errors.New("approval: a live request for this key exists")
	// ErrClosed is within what a [Store] returns once it was closed: trying again is of no use.
	ErrClosed = errors.New("approval: the store is closed")
	// ErrReadOnly is what a [Tx] of View returns to a write.
	ErrReadOnly = errors.New("approval: write in a read-only transaction")
)
