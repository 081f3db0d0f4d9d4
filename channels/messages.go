package channels

import (
	"strings"

	"countersign/approval"
)

// Text names one sentence or word that people are shown.
type Text string

const (
	TextApprove    Text = "approve"
	TextDeny       Text = "deny"
	TextApproveAll Text = "approve_all"
	TextDenyAll    Text = "deny_all"
	TextOpen       Text = "open"

	TextRiskLow      Text = "risk_low"
	TextRiskMedium   Text = "risk_medium"
	TextRiskHigh     Text = "risk_high"
	TextRiskCritical Text = "risk_critical"

	TextNeeded        Text = "needed"
	TextStillNeeded   Text = "still_needed"
	TextBatchNeeded   Text = "batch_needed"
	TextBatchReminder Text = "batch_reminder"
	TextBatchOver     Text = "batch_over"
	TextBatchSome     Text = "batch_some"
	TextBatchHint     Text = "batch_hint"

	TextApproved  Text = "approved"
	TextDenied    Text = "denied"
	TextExpired   Text = "expired"
	TextCancelled Text = "cancelled"
	TextLapsed    Text = "lapsed"
	TextUsed      Text = "used"

	TextApprovedBy  Text = "approved_by"
	TextDeniedBy    Text = "denied_by"
	TextExpiredAt   Text = "expired_at"
	TextCancelledBy Text = "cancelled_by"
	TextUseBy       Text = "use_by"
	TextLapsedAt    Text = "lapsed_at"
	TextUsedAt      Text = "used_at"
	TextReason      Text = "reason"
	TextNoReason    Text = "no_reason"

	TextTool     Text = "tool"
	TextAgent    Text = "agent"
	TextSession  Text = "session"
	TextScope    Text = "scope"
	TextWhy      Text = "why"
	TextDeadline Text = "deadline"
	TextRequest  Text = "request"
	TextHash     Text = "hash"

	TextArgs         Text = "args"
	TextNoArgs       Text = "no_args"
	TextNotAllShown  Text = "not_all_shown"
	TextShortened    Text = "shortened"
	TextMasked       Text = "masked"
	TextIgnored      Text = "ignored"
	TextPrevious     Text = "previous"
	TextReasonNeeded Text = "reason_needed"
	TextOwnWords     Text = "own_words"
	TextRationale    Text = "rationale"
	TextPreview      Text = "preview"
	TextWordsCut     Text = "words_cut"

	// Short forms, for a card of many requests.
	TextNotAllShort   Text = "not_all_short"
	TextShortenedHere Text = "shortened_here"
	TextPreviousShort Text = "previous_short"
	TextReasonShort   Text = "reason_short"
	TextWordsCutShort Text = "words_cut_short"
	TextReadAll       Text = "read_all"

	TextAlt          Text = "alt"
	TextAltBatch     Text = "alt_batch"
	TextCannotRender Text = "cannot_render"
)

// Catalogue is one language's sentences. In them {name} stands for what [Catalogue.Say] fills in.
type Catalogue map[Text]string

// English is the catalogue that every other one falls back to.
var English = Catalogue{
	TextApprove:    "Approve",
	TextDeny:       "Deny",
	TextApproveAll: "Approve all",
	TextDenyAll:    "Deny all",
	TextOpen:       "Open in Countersign",

	TextRiskLow:      "LOW risk",
	TextRiskMedium:   "MEDIUM risk",
	TextRiskHigh:     "HIGH risk",
	TextRiskCritical: "CRITICAL risk",

	TextNeeded:        "Approval needed",
	TextStillNeeded:   "Reminder: still waiting for approval",
	TextBatchNeeded:   "{n} approvals needed",
	TextBatchReminder: "Reminder: {n} calls still wait for approval",
	TextBatchOver:     "All {n} calls are decided",
	TextBatchSome:     "{pending} of {n} calls still wait for approval",
	TextBatchHint:     "One by one, or all that are still pending together:",

	TextApproved:  "Approved",
	TextDenied:    "Denied",
	TextExpired:   "Expired",
	TextCancelled: "Cancelled",
	TextLapsed:    "Approved, but not used in time",
	TextUsed:      "Approved and let through",

	TextApprovedBy:  "Approved by {who} at {time}.",
	TextDeniedBy:    "Denied by {who} at {time}.",
	TextExpiredAt:   "Nobody answered by {time}. The call was not run.",
	TextCancelledBy: "Cancelled by {who} at {time}.",
	TextUseBy:       "The agent may run it once, until {time}.",
	TextLapsedAt:    "Not used by {time}; the agent must ask again.",
	TextUsedAt:      "Let through at {time}.",
	TextReason:      "Reason: {reason}",
	TextNoReason:    "No reason given.",

	TextTool:     "Tool",
	TextAgent:    "Asked by",
	TextSession:  "Session",
	TextScope:    "Scope",
	TextWhy:      "Why",
	TextDeadline: "Decide by",
	TextRequest:  "Request",
	TextHash:     "Hash",

	TextArgs:         "Arguments",
	TextNoArgs:       "No arguments.",
	TextNotAllShown:  "⚠ ONLY {shown} OF {total} ARGS SHOWN. Read all before you decide: countersign show {id}",
	TextShortened:    "⚠ Long values are shortened. Read all of them: countersign show {id}",
	TextMasked:       "🔒 Masked as secret: {n}",
	TextIgnored:      "Not part of what is approved (may change):",
	TextPrevious:     "⚠ This same call was last approved by {who} at {approved} and let through at {used}.",
	TextReasonNeeded: "✍ A reason is required. Type: approve {id} your reason",
	TextOwnWords:     "The agent's own words, unchecked",
	TextRationale:    "Rationale",
	TextPreview:      "Preview",
	TextWordsCut:     "(the agent's own words are left out here: countersign show {id})",

	TextNotAllShort:   "⚠ ONLY {shown} OF {total} ARGS SHOWN",
	TextShortenedHere: "⚠ shortened",
	TextPreviousShort: "⚠ Last let through {used}, approved by {who}",
	TextReasonShort:   "✍ Reason required: approve <id> <reason>",
	TextWordsCutShort: "(agent's own words left out)",
	TextReadAll:       "Read all of a request: countersign show <id>",

	TextAlt:          "{title}: {tool} ({risk}), asked by {agent}. {why} Request {id}",
	TextAltBatch:     "{title}, asked by {agent}: {tools}",
	TextCannotRender: "{title}: {tools}. The card could not be drawn, so it has no buttons. Read it with: countersign show {id} — and decide there.",
}

// Say returns the sentence k with its {names} filled in, args being names and values in turn. What is
// filled in is not looked at again.
func (c Catalogue) Say(k Text, args ...string) string {
	s, ok := c[k]
	if !ok {
		s = English[k]
	}
	if len(args) == 0 {
		return s
	}
	pairs := make([]string, len(args))
	for i, a := range args {
		if i%2 == 0 {
			a = "{" + a + "}"
		}
		pairs[i] = a
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// RiskText returns the words for a risk; for one that is unknown those of high.
func RiskText(r approval.Risk) Text {
	switch r {
	case approval.RiskLow:
		return TextRiskLow
	case approval.RiskMedium:
		return TextRiskMedium
	case approval.RiskCritical:
		return TextRiskCritical
	}
	return TextRiskHigh
}

// RiskIcon returns the sign that stands beside the words.
func RiskIcon(r approval.Risk) string {
	switch r {
	case approval.RiskLow:
		return "🟢"
	case approval.RiskMedium:
		return "🟡"
	case approval.RiskCritical:
		return "🔴"
	}
	return "🟠"
}
