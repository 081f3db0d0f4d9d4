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
	SayApproved      Phrase = "told_approved"
	SayDenied        Phrase = "told_denied"
	SayExpired       Phrase = "told_expired"
	SayAlready       Phrase = "told_already"
	SayYouApproved   Phrase = "told_you_approved"
	SayYouDenied     Phrase = "told_you_denied"
	SayLapsed        Phrase = "told_lapsed"
	SayUsed          Phrase = "told_used"
	SayPolicyChanged Phrase = "told_policy_changed"
	SayToolChanged   Phrase = "told_tool_changed"
	SayMustAsk       Phrase = "told_must_ask"
	SayMustAskOnce   Phrase = "told_must_ask_once"
	SayNewCard       Phrase = "told_new_card"
	SayNotYours      Phrase = "told_not_yours"
	SayNoRequest     Phrase = "told_no_request"
	SayReasonNeeded  Phrase = "told_reason_needed"
	SayReasonNext    Phrase = "told_reason_next"
	SayReasonWhy     Phrase = "told_reason_why"
	SayReasonAsked   Phrase = "told_reason_asked"
	SayReasonClosed  Phrase = "told_reason_closed"
	SayNotTheReason  Phrase = "told_not_the_reason"
	SayReasonTooLong Phrase = "told_reason_too_long"
	SayReasonKept    Phrase = "told_reason_kept"
	SayReasonKeptOld Phrase = "told_reason_kept_old"
	SayReasonLost    Phrase = "told_reason_lost"
	SayOf            Phrase = "told_of"
	SayCall          Phrase = "told_call" // which request an answer is about
	SayQuotesMany    Phrase = "told_quotes_many"
	SayQuotesUnknown Phrase = "told_quotes_unknown"
	SayNothingWaits  Phrase = "told_nothing_waits"
	SayOneWaits      Phrase = "told_one_waits"
	SayManyWait      Phrase = "told_many_wait"
	SayNewestWait    Phrase = "told_newest_wait"
	SayOneSent       Phrase = "told_one_sent"
	SayShowSent      Phrase = "told_show_sent"
	SayManySent      Phrase = "told_many_sent"
	SayNewestSent    Phrase = "told_newest_sent"
	SayNewerThanNo   Phrase = "told_newer_than_no"
	SayWhichOne      Phrase = "told_which_one"
	SayNotUnderstood Phrase = "told_not_understood"
	SayUnclear       Phrase = "told_unclear"
	SayHelp          Phrase = "told_help"
	SayHelpStranger  Phrase = "told_help_stranger"
	SaySignIn        Phrase = "told_sign_in"
	SaySignInHere    Phrase = "told_sign_in_here"
	SaySignInMany    Phrase = "told_sign_in_many"
	SaySignInNowhere Phrase = "told_sign_in_nowhere"
	SayNotAdmin      Phrase = "told_not_admin"
	SayWelcome       Phrase = "told_welcome"
	SayWelcomeBack   Phrase = "told_welcome_back"
	SayOverBudget    Phrase = "told_over_budget"
	SayReloadFailed  Phrase = "told_reload_failed"
	SayDiskLow       Phrase = "told_disk_low"
	SayDiskFull      Phrase = "told_disk_full"
	SayBackupFailed  Phrase = "told_backup_failed"
	SayFailedOver    Phrase = "told_failed_over"
	SayRulesLoosened Phrase = "told_rules_loosened"
	// SayPasskeysInDoubt is of passkeys that sign in yet, after what their adding session began with was taken back.
	SayPasskeysInDoubt Phrase = "told_passkeys_in_doubt"
	SayLog             Phrase = "told_log"
	SayLogEmpty        Phrase = "told_log_empty"
	SayLogLine         Phrase = "told_log_line"
	SayStatusPending   Phrase = "told_status_pending"
	SayStatusYou       Phrase = "told_status_you"
	SayRoleApprover    Phrase = "told_role_approver"
	SayRoleAdmin       Phrase = "told_role_admin"
	SayRoleBoth        Phrase = "told_role_both"
	SayRoleNone        Phrase = "told_role_none"
	SayStatusApproved  Phrase = "told_status_approved"
	SayStatusDenied    Phrase = "told_status_denied"
	SayStatusCancel    Phrase = "told_status_cancelled"

	// Who decides: votes, a second yes, more time, freezes, delegations.
	SayVoteCounts      Phrase = "told_vote_counts"
	SayVotedForYou     Phrase = "told_voted_for_you"
	SayNotYourStage    Phrase = "told_not_your_stage"
	SayConfirm         Phrase = "told_confirm"
	SayConfirmEach     Phrase = "told_confirm_each"
	SayStepUp          Phrase = "told_step_up"
	SayStepUpAt        Phrase = "told_step_up_at"
	SayBack            Phrase = "told_back"
	SayAskedOnce       Phrase = "told_asked_once"
	SayExtended        Phrase = "told_extended"
	SayExtendedBefore  Phrase = "told_extended_before"
	SayExtendHow       Phrase = "told_extend_how"
	SayFreezeAsk       Phrase = "told_freeze_ask"
	SayFreezeWhich     Phrase = "told_freeze_which"
	SayFrozen          Phrase = "told_frozen"
	SayFrozenAll       Phrase = "told_frozen_all"
	SayMayNotFreeze    Phrase = "told_may_not_freeze"
	SayMayNotUnfreeze  Phrase = "told_may_not_unfreeze"
	SayUnfrozen        Phrase = "told_unfrozen"
	SayUnfrozenAll     Phrase = "told_unfrozen_all"
	SayNothingFrozen   Phrase = "told_nothing_frozen"
	SayUnfreezeWhich   Phrase = "told_unfreeze_which"
	SayAllAgents       Phrase = "told_all_agents"
	SayDelegated       Phrase = "told_delegated"
	SayDelegateHow     Phrase = "told_delegate_how"
	SayDelegateNot     Phrase = "told_delegate_not"
	SayDelegations     Phrase = "told_delegations"
	SayDelegationLine  Phrase = "told_delegation_line"
	SayDelegationsNone Phrase = "told_delegations_none"
	// SayDelegationRuleGone is of a delegation for a rule that is another now.
	SayDelegationRuleGone Phrase = "told_delegation_rule_gone"
	SayDelegationEnded    Phrase = "told_delegation_ended"
	SayDelegationWhich    Phrase = "told_delegation_which"
	SayAmbiguous          Phrase = "told_ambiguous"
	SayTypedShort         Phrase = "told_typed_short"
	SayOthersWait         Phrase = "told_others_wait"
	SayOnlyOthers         Phrase = "told_only_others"
	SayAdminsFrozen       Phrase = "told_admins_frozen"
	SayAdminsLifted       Phrase = "told_admins_lifted"
	SayNeedUnmet          Phrase = "told_need_unmet"
	SayLateFrozen         Phrase = "told_late_frozen"
	SayLateEdited         Phrase = "told_late_edited"
	SayYouEdited          Phrase = "told_you_edited"
	SayNotExtended        Phrase = "told_not_extended"
	SayPasskeyAdded       Phrase = "told_passkey_added"
	SayPasskeyRemoved     Phrase = "told_passkey_removed"
	SayPasskeyBlocked     Phrase = "told_passkey_blocked"

	// Cards of several calls, and what is decided without asking.
	SayLeftOut        Phrase = "told_left_out"
	SayLeftOne        Phrase = "told_left_one"
	SayLeftCritical   Phrase = "told_left_critical"
	SayLeftConfirm    Phrase = "told_left_confirm"
	SayLeftStepUp     Phrase = "told_left_step_up"
	SayJoinedSince    Phrase = "told_joined_since"
	SayMayNotGrant    Phrase = "told_may_not_grant"
	SayNotGranted     Phrase = "told_not_granted"
	SayGranted        Phrase = "told_granted"
	SayGrantedLike    Phrase = "told_granted_like"
	SayForUntil       Phrase = "told_for_until"
	SayForSession     Phrase = "told_for_session"
	SayForUses        Phrase = "told_for_uses"
	SayForUsesHere    Phrase = "told_for_uses_here"
	SayGrants         Phrase = "told_grants"
	SayGrantLine      Phrase = "told_grant_line"
	SayDenialLine     Phrase = "told_denial_line"
	SayGrantSuspended Phrase = "told_grant_suspended"
	SayGrantsMore     Phrase = "told_grants_more"
	SayGrantsNone     Phrase = "told_grants_none"
	SayRevoked        Phrase = "told_revoked"
	SayRevokeWhich    Phrase = "told_revoke_which"
	SayForgotten      Phrase = "told_forgotten"
	SayLiftWhich      Phrase = "told_lift_which"
	SayMayNotRevoke   Phrase = "told_may_not_revoke"
	SayGrantOver      Phrase = "told_grant_over"
	SayAdminsGranted  Phrase = "told_admins_granted"

	// What is typed, in a sentence that says so.
	WordApprove Phrase = "word_approve"
	WordDeny    Phrase = "word_deny"
	WordShow    Phrase = "word_show"

	// People and stages, on cards too.
	WhoFor     Phrase = "who_for"
	WhoTwo     Phrase = "who_two"
	WhoMore    Phrase = "who_more"
	WhoStage   Phrase = "who_stage"
	WhoAny     Phrase = "who_any"
	WhoAnyMany Phrase = "who_any_many"
	WhoThen    Phrase = "who_then"

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
	SayToolSeen      Phrase = "why_tool_seen"
	SayToolAccepted  Phrase = "why_tool_accepted"
)

// English is every sentence in English; {name} is filled in. Other languages are the package locale's.
var English = map[Phrase]string{
	SayApproved:      "Approved: {tool}. The agent may run it once.",
	SayDenied:        "Denied: {tool}.",
	SayExpired:       "This approval request has expired.",
	SayAlready:       "Already {status} by {who} ({when}).",
	SayYouApproved:   "You already approved this ({when}).",
	SayYouDenied:     "You already denied this ({when}).",
	SayLapsed:        "Approved by {who} ({when}) but not used in time, so the approval has lapsed.",
	SayUsed:          "Approved by {who} and already used ({when}): the call was let through.",
	SayPolicyChanged: "Cancelled ({when}), because the policy has changed since the agent asked.",
	SayToolChanged:   "Cancelled ({when}), because the tool has changed since the agent asked.",
	SayMustAsk:       "If it is still needed, the agent must ask again.",
	SayMustAskOnce:   "To run it once more, the agent must ask again.",
	SayNewCard:       "If the agent asks again, you'll get a new card. Decide on that one.",
	SayNotYours:      "You may not decide this request.",
	SayNoRequest:     "No such request.",
	SayReasonNeeded:  "This request needs a reason. Type: {word} {id} followed by your reason.",
	SayReasonNext: "{tool} needs a reason, so nothing is decided yet. Type your reason now, or type: deny {id} " +
		"followed by your reason.",
	SayReasonWhy: "{tool}: why? Your next message here, within a minute, is the reason, and approves it. To take this " +
		"back, type: back",
	SayReasonAsked: "{tool} needs a reason, so nothing is decided yet. Press Approve on its card, or type to me in a " +
		"direct message: approve {id}",
	SayReasonClosed: "I no longer wait for the reason for {tool}: nothing was decided about it.",
	SayNotTheReason: "Nothing was decided: a reason counts within a minute, while no other card has come, is no " +
		"question, and does not begin with a word such as \"ok\" or \"no\". To approve {tool}, type again: approve {id}",
	SayReasonTooLong: "The reason is too long: use at most 3000 characters.",
	SayReasonKept:    "Thanks, the agent now has your reason. {tool} stays denied.",
	SayReasonKeptOld: "You already denied {tool} and said why. That reason stays.",
	SayReasonLost:    "The agent did not get your reason.",
	SayOf:            "{tool}: {said}",
	SayCall:          "{tool} ({agent}, {id})",
	SayQuotesMany:    "That message shows {n} requests. Use its buttons, or type: {word} <id>",
	SayQuotesUnknown: "I can't find a request in that message, so nothing was denied. Type: deny <id> <reason>",
	SayNothingWaits:  "Nothing is waiting for a decision.",
	SayOneWaits:      "This request is waiting. Use its buttons to decide.",
	SayManyWait:      "{n} requests are waiting. Use their buttons to decide.",
	SayNewestWait:    "{n} requests are waiting; these are the newest {shown}. Use their buttons to decide.",
	SayOneSent:       "1 request is waiting. I've sent it to you as a direct message.",
	SayShowSent:      "I've sent you all of this request as a direct message: {tool}.",
	SayManySent:      "{n} requests are waiting. I've sent them to you as direct messages.",
	SayNewestSent:    "{n} requests are waiting. I've sent you the newest {shown} as direct messages.",
	SayNewerThanNo: "The request that is waiting now is newer than your message, so nothing was denied. Use its " +
		"buttons, or type: deny <id> <reason>",
	SayWhichOne:      "{n} requests are waiting, so nothing was denied. Use a card's buttons, or type: deny <id> <reason>",
	SayNotUnderstood: "Sorry, I didn't get that. Try \"pending\" to see what's waiting, or \"help\".",
	SayUnclear: "Nothing was decided: an approval is the word and the id, and nothing else. Use the card's buttons, or " +
		"type only: approve <id>",
	SayHelp: "What you can type:\n" +
		"pending: what's waiting, with buttons\n" +
		"show <id>: all of a request\n" +
		"approve <id> · deny <id> [reason]: decide it\n" +
		"status: your role, what's waiting, any problems\n" +
		"log: the latest notifications and what became of them (admins)\n" +
		"extend <id>: one more hour to decide\n" +
		"freeze <agent> [reason] · unfreeze [agent]: deny all its calls from now on · end that (admins)\n" +
		"delegate <person> 3d · delegations · undelegate <id>: let somebody stand in for you · who does · end it\n" +
		"grants · revoke <id> · lift <id>: what is decided without asking · end an approval · end a denial\n" +
		"sign in: a link to the pages, where you can see everything\n" +
		"help: show this list\n" +
		"The last six characters of an id are enough. A reply that quotes a card needs no id. A bare \"yes\" " +
		"approves nothing, and neither does an approval with further words.",
	SayHelpStranger: "This is Countersign. You're not an approver here. Ask whoever runs it to add your ID: {address}",
	SaySignIn:       "This link signs you in to the pages as {who}. It works once, within ten minutes. Don't share it.",
	SaySignInHere: "This link signs you in to the pages as {who}. It works once, within ten minutes, and only on " +
		"the gate's own machine, because public_url is not set. Don't share it.",
	SaySignInMany: "You have asked for too many links. Wait ten minutes, then type it again.",
	SaySignInNowhere: "There is no address yet where you can sign in safely. Ask whoever runs the gate to set " +
		"public_url to an https address.",
	SayNotAdmin: "Only admins can see the notification log.",
	SayWelcome: "This is Countersign: I ask people before an AI agent's tool call runs. You're not an approver here " +
		"yet. Ask whoever runs me to add your ID:\n{address}",
	SayWelcomeBack: "Hello {who}. You'll get your cards here again. Type \"help\" to see what I understand.",
	SayOverBudget: "{who} is over its limit ({budget}: {limit}). Anything above that is refused until it slows " +
		"down; nobody else is affected. Find out what it is doing, or raise its limits in the configuration.",
	SayReloadFailed: "The configuration was changed but can't be used, so the previous one stays in force. {why}",
	SayDiskLow: "The disk of the gate's store is running full: {free} MiB ({percent} %) are left. Make room on it. Once " +
		"it is full, nobody can ask or decide.",
	SayDiskFull: "The disk of the gate's store is nearly full: {free} MiB ({percent} %) are left. Agents can't ask for " +
		"anything new until you make room on it. What waits can still be decided.",
	SayBackupFailed: "No backup of the gate's store could be made. {why} The gate tries again each hour; until it " +
		"succeeds, the newest backup only gets older.",
	SayPasskeysInDoubt: "A way to sign in was taken back, and its sessions were ended. These passkeys were added since " +
		"those sessions began and still sign in. If their owner doesn't know one, they must remove it under Passkeys. " +
		"Taking a person out of the configuration removes all of theirs:{what}",
	SayFailedOver: "Another server has taken over the gate's database, or it was restored, and it may lack what was " +
		"committed last. All that waited, and approvals not used yet, were cancelled; everybody must sign in again.",
	SayRulesLoosened: "The configuration was changed, and the new rules let more calls through. If that wasn't " +
		"intended, change it back:{what}",
	SayLog:            "The newest notifications ({n}):",
	SayLogEmpty:       "No notification yet.",
	SayLogLine:        "{time} {channel} {recipient} · {kind} · {status} · tries {attempt}",
	SayStatusPending:  "Requests waiting: {n}",
	SayStatusYou:      "You're {who}. You can {roles}.",
	SayRoleApprover:   "approve and deny",
	SayRoleAdmin:      "read the logs",
	SayRoleBoth:       "approve, deny and read the logs",
	SayRoleNone:       "read requests, but not decide them",
	SayStatusApproved: "approved",
	SayStatusDenied:   "denied",
	SayStatusCancel:   "cancelled",

	SayVoteCounts:   "Your approval of {call} counts: {have} of {total}. Waiting for {stages}.",
	SayVotedForYou:  "{who} already approved for you ({when}).",
	SayNotYourStage: "It's not your turn yet: this is waiting for {stages}.",
	SayConfirm:      "{agent} asks to run {tool}. Approve it?",
	SayConfirmEach:  "Not approved yet: {tool}. It needs a second yes, so use its own Approve button.",
	SayStepUp:       "Not approved yet: {tool} needs your passkey. Approve it on its page.",
	SayStepUpAt:     "Not approved yet: {tool} needs your passkey. Approve it on its page: {page}",
	SayBack:         "Nothing was done.",
	SayAskedOnce: "That question was already answered, or is more than two minutes old, so nothing was done. Start " +
		"again from the card.",
	SayExtended:       "One more hour: {tool} can be decided until {when}.",
	SayExtendedBefore: "This request has already been given one more hour. That works only once.",
	SayExtendHow:      "Nothing was extended. Type: extend <id>",
	SayFreezeAsk: "Freeze {agent}? Waiting requests are cancelled, and every call is denied until an admin lifts " +
		"the freeze.",
	SayFreezeWhich: "Nothing was frozen. Type: freeze <agent> <reason>, or for every agent: freeze all <reason>. " +
		"Agents: {agents}",
	SayFrozen:         "Frozen: {agent}. Its calls are denied until an admin types: unfreeze {agent}",
	SayFrozenAll:      "All agents are frozen. Their calls are denied until an admin types: unfreeze",
	SayMayNotFreeze:   "Only approvers and admins can freeze an agent.",
	SayMayNotUnfreeze: "Only admins can lift a freeze.",
	SayUnfrozen:       "Freeze lifted: {agent} can ask again. Requests that the freeze ended stay ended.",
	SayUnfrozenAll:    "The freeze of all agents is lifted. Requests that it ended stay ended.",
	SayNothingFrozen:  "Nothing is frozen.",
	SayUnfreezeWhich:  "Nothing was lifted. Type: unfreeze <agent>. Frozen now: {agents}",
	SayAllAgents:      "all agents",
	SayDelegated:      "{delegate} stands in for you until {until}. To end it, type: undelegate {id}",
	SayDelegateHow: "Nothing was delegated. Type: delegate <person> 3d, or: delegate <person> until 2026-12-01. It " +
		"lasts at most 30 days.",
	SayDelegateNot:        "Nothing was delegated: both of you must be approvers, and you can't delegate to yourself.",
	SayDelegations:        "Who stands in for whom:",
	SayDelegationLine:     "{id}: {delegate} for {delegator}, from {from} until {until}",
	SayDelegationsNone:    "Nobody is standing in for anyone.",
	SayDelegationRuleGone: "{rule} was changed or removed: this covers nothing",
	SayDelegationEnded:    "Ended: {delegate} no longer stands in for {delegator}.",
	SayDelegationWhich: "Nothing was ended: that id fits no delegation, or more than one. Type \"delegations\" to " +
		"see them.",
	SayAmbiguous:    "Nothing was done: more than one request ends in {typed}. Type more of the id.",
	SayTypedShort:   "Nothing was decided: to approve, type at least the last six characters of the id.",
	SayOthersWait:   "Waiting for other people: {count}.",
	SayOnlyOthers:   "Nothing is waiting for you. Waiting for other people: {count}.",
	SayAdminsFrozen: "{who} froze {agent}: {reason}. Calls are denied until an admin lifts the freeze.",
	SayAdminsLifted: "{who} lifted the freeze of {agent}.",
	SayNeedUnmet: "Nobody is left who can approve {agent}'s {tool} (request {id}): it is waiting for {stages}. " +
		"Change its groups or its rule, or it will expire ({when}).",
	SayLateFrozen:  "Cancelled ({when}): {who} froze the agent. Reason: {reason}",
	SayLateEdited:  "Not as asked: {who} approved other arguments instead ({when}).",
	SayYouEdited:   "Not as asked: you approved other arguments instead ({when}).",
	SayNotExtended: "You can't give this request more time.",
	SayPasskeyAdded: "🔑 A passkey was added for you: {name}. It can sign in and approve as you. If this was not " +
		"you, remove it on the “Passkeys” page and tell an admin.",
	SayPasskeyRemoved: "🔑 One of your passkeys was removed: {name}. If this was not you, tell an admin.",
	SayPasskeyBlocked: "⚠ Your passkey {name} is blocked: somebody may have a copy of it. Remove it on the " +
		"“Passkeys” page, and tell an admin.",
	SayLeftOut:      "Left out: {left} of {total}. Decide them one by one: {calls}.",
	SayLeftOne:      "{call} ({why})",
	SayLeftCritical: "critical",
	SayLeftConfirm:  "needs a second yes",
	SayLeftStepUp:   "needs a passkey",
	SayJoinedSince:  "Added to the card after you tapped, so not decided: {count}.",
	SayMayNotGrant:  "Only the person who approved it can let it run again without asking.",
	SayNotGranted:   "You'll still be asked next time: nothing was granted. {why}",
	SayGranted: "{agent} may run {tool} with exactly these arguments without asking ({period}). To end it, " +
		"type: revoke {id}",
	SayGrantedLike: "{agent} may run {tool} without asking ({period}), with arguments that differ only as its " +
		"rule allows. To end it, type: revoke {id}",
	SayForUntil:       "until {when}",
	SayForSession:     "this session, until {when}",
	SayForUses:        "uses left: {left}, until {when}",
	SayForUsesHere:    "this session, uses left: {left}, until {when}",
	SayGrants:         "What is decided without asking:",
	SayGrantLine:      "{id}: {agent}'s {tool} runs without asking, allowed by {who} ({period})",
	SayDenialLine:     "{id}: {agent}'s {tool} is denied without asking, by {who} ({period})",
	SayGrantSuspended: "paused: the outcome of its last use is unknown",
	SayGrantsMore:     "There are more.",
	SayGrantsNone:     "Nothing is approved or denied without asking.",
	SayRevoked:        "Ended: people are asked about {agent}'s {tool} again.",
	SayRevokeWhich:    "Nothing was ended: no grant or denial has that id. Type \"grants\" to see them.",
	SayForgotten:      "Denial lifted: people are asked about the same call again.",
	SayLiftWhich:      "Nothing was lifted: no denial has that id.",
	SayMayNotRevoke:   "Only the person who decided it, or an admin, can end that.",
	SayGrantOver:      "That has already ended.",
	SayAdminsGranted:  "{who} let {agent} run {tool} without asking ({period}). To end it, type: revoke {id}",
	WordApprove:       "approve",
	WordDeny:          "deny",
	WordShow:          "show",
	WhoFor:            "{person} for {other}",
	WhoTwo:            "{first} and {last}",
	WhoMore:           "{first}, {next}",
	WhoStage:          "{count} of {names}",
	WhoAny:            "1 approver",
	WhoAnyMany:        "{count} approvers",
	WhoThen:           "{first}, then {next}",

	SayKindRequest:   "request",
	SayKindReminder:  "reminder",
	SayKindEdit:      "outcome",
	SayKindReply:     "reply",
	SayFateQueued:    "queued",
	SayFateRetrying:  "retrying",
	SayFateSent:      "sent",
	SayFateDelivered: "answered",
	SayFateFailed:    "failed",
	SayFateSkipped:   "skipped",

	SayNoRule:        "No rule covers {tool}, so a person must approve it.",
	SayNeedsApproval: "{tool} needs a person's approval.",
	SayToolSeen: "{tool} has changed: its description, schema or annotations are not those first seen ({when}). " +
		"Approving accepts the tool as it is now.",
	SayToolAccepted: "{tool} has changed: its description, schema or annotations are not those that {who} accepted " +
		"({when}). Approving accepts the tool as it is now.",

	StepEarlier:         "an earlier rule decided",
	StepDecided:         "a rule decided",
	StepNone:            "no rule matched",
	StepMatched:         "matched",
	StepUnplaced:        "matched; {param} {value} cannot be placed, so it counts as under every folder",
	StepMethod:          "method {method} is not among {methods}",
	StepTool:            "tool {tool} is not among {tools}",
	StepPresetTool:      "tool {tool} is of an MCP server, and a preset allows only those of servers that it names",
	StepAgent:           "agent {agent} is not among {agents}",
	StepAnnotations:     "its server does not say {want} of the tool, but {have}",
	StepNoParam:         "condition {nth} did not match: there is no {param}",
	StepCondition:       "condition {nth} did not match: {param} {value} {not}",
	StepNothing:         "nothing",
	StepOr:              "{first} or {next}",
	StepWhen:            "when did not hold: {when}",
	StepGuard:           "the guard decides: {arg} names what is guarded",
	LooserObserve:       "mode went from enforce to observe: every call is allowed",
	LooserUseWithin:     "use_within went from {from} to {to}: an approval can be used longer",
	LooserRemember:      "remember_denial went from {from} to {to}: a denied call can be asked again sooner",
	LooserKeyboard:      "level {level}: elicitation is on: the person at the agent's keyboard may decide",
	LooserPending:       "max_pending went from {from} to {to}",
	LooserPendingNone:   "max_pending went from {from} to no limit",
	LooserGuardGone:     "the guard of the gate's files is gone: the rules alone decide calls that touch them",
	LooserGuardEntry:    "guard no longer names {entry}",
	LooserGuard:         "guard",
	LooserRule:          "rule \"{name}\"",
	LooserNthRule:       "rule {number}",
	LooserOtherwise:     "calls that no rule covers",
	LooserAction:        "{rule}: action went from {from} to {to}",
	LooserAudit:         "{rule}: audit went from strict to normal: an allowed call may be sent before it is on record",
	LooserAllowsAll:     "{rule} allows without conditions now",
	LooserAllowsChanged: "{rule} allows under changed conditions",
	LooserConditions:    "{rule}: its conditions changed, so calls that it stopped may pass it",
	LooserRisk:          "{rule}: risk went from {from} to {to}",
	LooserTimeout:       "{rule}: timeout went from {from} to {to}",
	LooserReason:        "{rule}: a reason is no longer required",
	LooserIgnore:        "{rule}: ignore_args now has {args}",
	LooserSkip:          "{rule}: allow_skip is on: an approval can let later calls through, {how}",
	LooserSame:          "for the same args",
	LooserAny:           "for any args",
	LooserSameBut:       "for the same args but {args}",
	LooserArg:           "{arg} {how}",
	LooserVaryAny:       "(any)",
	LooserVaryMost:      "(at most {most})",
	LooserVaryTotal:     "(together at most {total})",
	LooserVaryBoth:      "(at most {most}, together at most {total})",
	LooserAnyArgs:       "{rule}: grants cover any args now",
	LooserVary:          "{rule}: grants let {arg} vary now {how}",
	LooserVaryMore:      "{rule}: grants let {arg} vary more: {to}, from {from}",
	LooserNeedOne:       "{rule}: an approval out of {of} is no longer needed",
	LooserNeedMany:      "{rule}: {count} approvals out of {of} are no longer needed",
	LooserNeedFewer:     "{rule}: approvals needed out of {of} went from {from} to {to}",
	LooserNeedTotal:     "{rule}: approvals needed went from {from} to {to}",
	LooserApprovers:     "any approver",
	LooserOwner:         "{rule}: who owns the agent may approve its calls",
	LooserConfirm:       "{rule}: an approval is no longer asked for once more",
	LooserPasskey:       "{rule}: an approval no longer takes a passkey",
	LooserEscalate:      "{rule}: after {after} {who} may approve too",
	LooserCall:          "{tool}",
	LooserCalls:         "{calls}",
	LooserBy:            "{tool} by {agent}",
	LooserMore:          "{calls} and {more} more",
	LooserNowAllows:     "{rule} now allows {calls}",
	LooserMayAllow:      "{rule} may now allow {calls}",
	LooserNowAsks:       "{rule} now asks about {calls}",
	LooserMayAsk:        "{rule} may now ask about {calls}",
	LooserNone:          "no rule covers {calls} any more",
	LooserWasNone:       "{now}, which no rule covered",
	LooserWasDenied:     "{now}, which {was} denied",
	LooserWasAsked:      "{now}, which {was} asked about",
	LooserThanNone:      "{now}, and {easier} than where no rule covers them",
	LooserThan:          "{now}, and {easier} than under {was}",
	LooserLess:          "it takes less to approve them",
	LooserLetsMore:      "an approval of them can let more calls through",
}

// Say says a phrase in English: args are names and values in turn, a value being a string, an int or a
// time, which is written as RFC 3339 in UTC. What is filled in is not looked at again.
func (p Phrase) Say(args ...any) string {
	pairs := make([]string, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		value := args[i+1]
		switch v := value.(type) {
		case time.Time:
			value = approval.FormatTime(v)
		case []string:
			value = strings.Join(v, ", ")
		}
		pairs = append(pairs, fmt.Sprintf("{%v}", args[i]), fmt.Sprint(value))
	}
	if len(pairs) == 2 { // a Replacer takes ten times as much to be made
		return strings.ReplaceAll(English[p], pairs[0], pairs[1])
	}
	return strings.NewReplacer(pairs...).Replace(English[p])
}

// Unworded reports whether a request's message is the gate's own, for a call of which no rule says why people are
// asked.
func Unworded(message, target string) bool {
	return message == SayNoRule.Say("tool", target) || message == SayNeedsApproval.Say("tool", target)
}

// OfKind names what a notification is for.
func OfKind(k approval.NotificationKind) Phrase { return Phrase("told_kind_" + k) }

// OfStatus names what became of a notification.
func OfStatus(s approval.NotificationStatus) Phrase { return Phrase("told_fate_" + s) }
