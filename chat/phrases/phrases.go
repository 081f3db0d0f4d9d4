// Package phrases has the sentences that people are told in a chat: their names, and the words in English. Other
// languages are the package locale's.
package phrases

import (
	"fmt"
	"strings"
	"time"

	"countersign/approval"
)

// Phrase names a sentence that a person is told in a chat. [English] has it in words.
type Phrase string

const (
	SayApproved       Phrase = "told_approved"
	SayDenied         Phrase = "told_denied"
	SayExpired        Phrase = "told_expired"
	SayAlready        Phrase = "told_already"
	SayYouApproved    Phrase = "told_you_approved"
	SayYouDenied      Phrase = "told_you_denied"
	SayLapsed         Phrase = "told_lapsed"
	SayUsed           Phrase = "told_used"
	SayPolicyChanged  Phrase = "told_policy_changed"
	SayToolChanged    Phrase = "told_tool_changed"
	SayMustAsk        Phrase = "told_must_ask"
	SayMustAskOnce    Phrase = "told_must_ask_once"
	SayNewCard        Phrase = "told_new_card"
	SayNotYours       Phrase = "told_not_yours"
	SayNoRequest      Phrase = "told_no_request"
	SayReasonNeeded   Phrase = "told_reason_needed"
	SayReasonNext     Phrase = "told_reason_next"
	SayReasonTooLong  Phrase = "told_reason_too_long"
	SayReasonKept     Phrase = "told_reason_kept"
	SayReasonKeptOld  Phrase = "told_reason_kept_old"
	SayQuotesMany     Phrase = "told_quotes_many"
	SayQuotesUnknown  Phrase = "told_quotes_unknown"
	SayNothingWaits   Phrase = "told_nothing_waits"
	SayOneWaits       Phrase = "told_one_waits"
	SayManyWait       Phrase = "told_many_wait"
	SayNewestWait     Phrase = "told_newest_wait"
	SayNewerThanNo    Phrase = "told_newer_than_no"
	SayWhichOne       Phrase = "told_which_one"
	SayNotUnderstood  Phrase = "told_not_understood"
	SayUnclear        Phrase = "told_unclear"
	SayHelp           Phrase = "told_help"
	SayHelpStranger   Phrase = "told_help_stranger"
	SayNotAdmin       Phrase = "told_not_admin"
	SayWelcome        Phrase = "told_welcome"
	SayWelcomeBack    Phrase = "told_welcome_back"
	SayOverBudget     Phrase = "told_over_budget"
	SayLog            Phrase = "told_log"
	SayLogEmpty       Phrase = "told_log_empty"
	SayLogLine        Phrase = "told_log_line"
	SayStatusPending  Phrase = "told_status_pending"
	SayStatusYou      Phrase = "told_status_you"
	SayRoleApprover   Phrase = "told_role_approver"
	SayRoleAdmin      Phrase = "told_role_admin"
	SayRoleNone       Phrase = "told_role_none"
	SayStatusApproved Phrase = "told_status_approved"
	SayStatusDenied   Phrase = "told_status_denied"
	SayStatusCancel   Phrase = "told_status_cancelled"

	// What a notification is for, and what became of it.
	SayKindRequest   Phrase = "told_kind_request"
	SayKindReminder  Phrase = "told_kind_reminder"
	SayKindEdit      Phrase = "told_kind_outcome"
	SayKindReply     Phrase = "told_kind_reply"
	SayFateQueued    Phrase = "told_fate_queued"
	SayFateRetrying  Phrase = "told_fate_retrying"
	SayFateSent      Phrase = "told_fate_sent"
	SayFateDelivered Phrase = "told_fate_delivered"
	SayFateFailed    Phrase = "told_fate_failed"
	SayFateSkipped   Phrase = "told_fate_skipped"

	// Why a person is asked, where no rule has words of its own.
	SayNoRule        Phrase = "why_no_rule"
	SayNeedsApproval Phrase = "why_needs_approval"
)

// English is every sentence in English; {name} is filled in. Other languages are the package locale's.
var English = map[Phrase]string{
	SayApproved:      "Approved: {tool}. The agent may run it once.",
	SayDenied:        "Denied: {tool}.",
	SayExpired:       "This approval request has expired.",
	SayAlready:       "Already {status} by {who} ({when}).",
	SayYouApproved:   "You already approved this ({when}).",
	SayYouDenied:     "You already denied this ({when}).",
	SayLapsed:        "Approved by {who} ({when}) but not used in time, so it has lapsed.",
	SayUsed:          "Approved by {who} and already used ({when}): the call was let through.",
	SayPolicyChanged: "Cancelled ({when}), because the policy has changed since it was asked for.",
	SayToolChanged:   "Cancelled ({when}), because the tool has changed since it was asked for.",
	SayMustAsk:       "If it is still needed, the agent must ask again.",
	SayMustAskOnce:   "If it is needed once more, the agent must ask again.",
	SayNewCard:       "If the agent asks again, a new card comes: decide that one.",
	SayNotYours:      "You may not decide this request.",
	SayNoRequest:     "No such request.",
	SayReasonNeeded:  "This request needs a reason. Type: {word} {id} followed by your reason.",
	SayReasonNext: "This request needs a reason, so nothing is decided yet. Type the reason now, or: deny {id} " +
		"followed by it.",
	SayReasonTooLong: "The reason is too long; at most 3000 characters are taken.",
	SayReasonKept:    "The agent is told why: {tool} was denied.",
	SayReasonKeptOld: "{tool} was denied with a reason already; it stays as it was.",
	SayQuotesMany:    "That message shows {n} requests. Use its buttons, or type: {word} <id>",
	SayQuotesUnknown: "That message shows no request that I know, so nothing was denied. Type: deny <id> <reason>",
	SayNothingWaits:  "Nothing is waiting for a decision.",
	SayOneWaits:      "This request is waiting. Use its buttons to decide.",
	SayManyWait:      "{n} requests are waiting. Use their buttons to decide.",
	SayNewestWait:    "{n} requests are waiting; these are the newest {shown}. Use their buttons to decide.",
	SayNewerThanNo: "The request that is pending now is newer than your message, so nothing was denied. Use its " +
		"buttons, or type: deny <id> <reason>",
	SayWhichOne: "{n} requests are pending, so nothing was denied. Use a card's buttons, or type: deny <id> <reason>",
	SayNotUnderstood: "I did not understand that. Type \"yes\" to see what is waiting, \"approve <id>\" or \"deny <id> " +
		"<reason>\" to decide. \"help\" tells the rest.",
	SayUnclear: "Nothing was decided: an approval is the word and the id and nothing else; a reason is taken only " +
		"where one is required, and without a word of doubt. Use the card's buttons, or type only: approve <id>",
	SayHelp: "What you can type:\n" +
		"pending: what waits for a decision, with buttons\n" +
		"show <id>: all of a request\n" +
		"approve <id> · deny <id> [reason]: decide it\n" +
		"status: how things stand\n" +
		"log: the last notifications and what became of them (admins)\n" +
		"help: this\n" +
		"A reply that quotes a card may leave out the id. Nothing is approved by a bare \"yes\", and an approval takes a " +
		"reason only where the card asks for one.",
	SayHelpStranger: "This is Countersign. I do not know you: whoever runs it must put your user id into the " +
		"configuration. It is: {address}",
	SayNotAdmin: "Only an admin may see the notification log.",
	SayWelcome: "This is Countersign: I ask people before an AI agent's tool call runs. I do not know you yet. " +
		"Whoever runs me must put this user id into the configuration, at your name:\n{address}",
	SayWelcomeBack: "Hello {who}. Cards for you come here again. Type \"help\" to see what I understand.",
	SayOverBudget: "{who} is over a budget ({budget}: {limit}). What is more than that is refused until it slows " +
		"down; nobody else is affected. Find out what it is doing, or raise its limits in the configuration.",
	SayLog:            "The newest notifications ({n}):",
	SayLogEmpty:       "No notification yet.",
	SayLogLine:        "{time} {channel} {recipient} · {kind} · {status} · tries {attempt}",
	SayStatusPending:  "Pending requests: {n}",
	SayStatusYou:      "You are {who}: {roles}.",
	SayRoleApprover:   "you may decide",
	SayRoleAdmin:      "you may see the logs",
	SayRoleNone:       "you may decide nothing",
	SayStatusApproved: "approved",
	SayStatusDenied:   "denied",
	SayStatusCancel:   "cancelled",

	SayKindRequest:   "request",
	SayKindReminder:  "reminder",
	SayKindEdit:      "outcome",
	SayKindReply:     "reply",
	SayFateQueued:    "queued",
	SayFateRetrying:  "retrying",
	SayFateSent:      "sent",
	SayFateDelivered: "delivered",
	SayFateFailed:    "failed",
	SayFateSkipped:   "skipped",

	SayNoRule:        "No rule covers {tool}, so a person must approve it.",
	SayNeedsApproval: "{tool} needs a person's approval.",
}

// Say says a phrase in English: args are names and values in turn, a value being a string, an int or a
// time, which is written as RFC 3339 in UTC. What is filled in is not looked at again.
func (p Phrase) Say(args ...any) string {
	pairs := make([]string, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		value := args[i+1]
		if t, ok := value.(time.Time); ok {
			value = approval.FormatTime(t)
		}
		pairs = append(pairs, fmt.Sprintf("{%v}", args[i]), fmt.Sprint(value))
	}
	return strings.NewReplacer(pairs...).Replace(English[p])
}

// OfKind names what a notification is for.
func OfKind(k approval.NotificationKind) Phrase { return Phrase("told_kind_" + k) }

// OfStatus names what became of a notification.
func OfStatus(s approval.NotificationStatus) Phrase { return Phrase("told_fate_" + s) }
