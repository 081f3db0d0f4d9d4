package approval

import (
	"time"
)

// EventType names what an audit event reports.
type EventType string

const (
	EventCallAllowed          EventType = "call_allowed"
	EventCallDenied           EventType = "call_denied"
	EventApprovalRequested    EventType = "approval_requested"
	EventDecision             EventType = "hitl_decision" // Decision is approve, deny or timeout
	EventDecisionRefused      EventType = "decision_refused"
	EventApprovalCancelled    EventType = "approval_cancelled"
	EventApprovalLapsed       EventType = "approval_lapsed"
	EventApprovalConsumed     EventType = "approval_consumed"
	EventApprovalReturned     EventType = "approval_returned" // the call that used it did not run; Reason says why
	EventApprovalAcked        EventType = "approval_acked"
	EventNotificationSent     EventType = "notification_sent"
	EventNotificationRetrying EventType = "notification_retrying"
	EventNotificationFailed   EventType = "notification_failed"
	EventPolicyReloaded       EventType = "policy_reloaded"
	EventPolicyReloadFailed   EventType = "policy_reload_failed"
	EventWebhookRefused       EventType = "webhook_refused"
	EventReasonAdded          EventType = "decision_reason_added" // to a denial that had none
	EventChannelDead          EventType = "channel_dead"          // somebody blocked us or left
	EventChannelAlive         EventType = "channel_alive"         // and is back
	// of a dispatched call: Reason is succeeded, failed or unknown
	EventCallOutcome EventType = "call_outcome"
	// what its server was told after the approval; Reason is the method
	EventCallInput   EventType = "call_input"
	EventToolPinned  EventType = "tool_pinned"  // a tool was seen for the first time
	EventRateLimited EventType = "rate_limited" // somebody is over a budget; told once an hour
	// a changed tool was taken as it is now, with an approval
	EventToolAccepted EventType = "tool_accepted"
	// a vote that was not the last; the last is the decision
	EventVote EventType = "hitl_vote"
	// a request was given more time
	EventExtended EventType = "approval_extended"
	// a pending request whose open stage nobody is left for
	EventNeedUnmet       EventType = "need_unmet"
	EventDelegated       EventType = "delegation_made"
	EventDelegationEnded EventType = "delegation_ended"
	EventFrozen          EventType = "frozen"
	// EventStoreFailover: another server has taken over for the store's, and may lack what was committed last.
	EventStoreFailover EventType = "store_failover"
	EventUnfrozen      EventType = "unfrozen"
	// an admin said that the machine's clock is right after it had been set; Data says how far it was off
	EventClockAccepted EventType = "clock_accepted"
	// a decision was given for longer; Decision is approve or deny
	EventGranted      EventType = "grant_made"
	EventGrantUsed    EventType = "grant_used"
	EventGrantEnded   EventType = "grant_ended"
	EventDenialLifted EventType = "denial_lifted" // a remembered denial was forgotten
	// of the pages: who can see and decide there
	EventSignInLink    EventType = "sign_in_link_made"
	EventSignedIn      EventType = "signed_in"
	EventSignedOut     EventType = "signed_out"
	EventSessionEnded  EventType = "session_ended" // not by who sat there; Reason says why
	EventSignInRefused EventType = "sign_in_refused"
	EventPasskeyAdded  EventType = "passkey_added"
	// by its owner, or because they are not configured any more; Reason says why
	EventPasskeyRemoved EventType = "passkey_removed"
	EventPasskeyBlocked EventType = "passkey_blocked" // its count went back: there may be a copy of it
	EventPasskeyRefused EventType = "passkey_refused" // Reason says why
	// EventAuditGap names what is missing in the audit log: Data says of which numbers, or how many records; Reason why.
	EventAuditGap EventType = "audit_gap"
	// EventErased: an admin has removed what a request said.
	EventErased EventType = "request_erased"
	// EventAuditPruned says which events were removed as old: Data names the first and last seq and the SHA-256 of all.
	EventAuditPruned EventType = "audit_pruned"
)

// EventTypes are all of them.
var EventTypes = []EventType{
	EventCallAllowed, EventCallDenied, EventApprovalRequested, EventDecision,
	EventVote, EventDecisionRefused, EventApprovalCancelled, EventApprovalLapsed,
	EventApprovalConsumed, EventApprovalReturned, EventApprovalAcked, EventExtended, EventNeedUnmet,
	EventNotificationSent, EventNotificationRetrying, EventNotificationFailed,
	EventPolicyReloaded, EventPolicyReloadFailed, EventWebhookRefused,
	EventReasonAdded, EventChannelDead, EventChannelAlive,
	EventCallOutcome, EventCallInput, EventToolPinned, EventToolAccepted,
	EventRateLimited, EventDelegated, EventDelegationEnded,
	EventFrozen, EventStoreFailover, EventUnfrozen, EventClockAccepted, EventGranted, EventGrantUsed,
	EventGrantEnded, EventDenialLifted,
	EventSignInLink, EventSignedIn, EventSignedOut, EventSessionEnded,
	EventSignInRefused, EventPasskeyAdded, EventPasskeyRemoved,
	EventPasskeyBlocked, EventPasskeyRefused, EventAuditGap, EventErased, EventAuditPruned,
}

// EventDecisions are what the Decision of an event can be.
var EventDecisions = []string{"allow", "deny", "approve", "timeout", "cancel", "extend", "freeze"}

// Event is one line of the audit log, written in the transaction of what it reports. Seq is given out
// in commit order and is never reused.
type Event struct {
	ID            string // ULID
	Seq           int64
	At            time.Time
	Type          EventType
	CorrelationID string
	Actor         string
	ApprovalID    string
	Agent         string
	Tool          string // server/tool where there is a server
	Risk          Risk
	Decision      string
	Reason        string
	Data          []byte // a JSON object or nil
}

// EventQuery selects audit events, newest first unless Ascending. Empty fields do not select.
type EventQuery struct {
	Type     EventType
	Decision string
	Risk     Risk
	Tool     string
	Agent    string
	Actor    string
	// ApprovalID and CorrelationID narrow to one request, one cause; SessionID to what is of the requests that a
	// session asked for, and to its calls that were allowed or denied.
	ApprovalID, CorrelationID, SessionID string
	Since                                time.Time // at or after
	Until                                time.Time // before
	Before                               int64     // seq less than; 0: from the newest
	AfterSeq                             int64     // seq greater than
	Ascending                            bool
	Limit                                int
	Bytes                                int // stop after the row with which their sizes are this much; 0: no limit
	// Told narrows to what a stream may tell an agent of: no calls that were allowed or denied, and nothing of
	// notifications.
	Told bool
}

// Size is about how many bytes the event takes in a list.
func (e Event) Size() int { return len(e.Data) + len(e.Reason) + smallRow }
