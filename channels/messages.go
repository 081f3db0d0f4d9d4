package channels

import "countersign/approval"

// Text names one sentence or word that people are shown.
type Text string

const (
	TextApprove      Text = "approve"
	TextDeny         Text = "deny"
	TextApproveAll   Text = "approve_all"
	TextDenyAll      Text = "deny_all"
	TextOpen         Text = "open"
	TextOpenMessages Text = "open_messages"
	TextShowAll      Text = "show_all"
	TextWordShow     Text = "word_show" // what is typed for that

	TextRiskLow      Text = "risk_low"
	TextRiskMedium   Text = "risk_medium"
	TextRiskHigh     Text = "risk_high"
	TextRiskCritical Text = "risk_critical"

	// The same, and what approving may do.
	TextLowMeans      Text = "risk_low_means"
	TextMediumMeans   Text = "risk_medium_means"
	TextHighMeans     Text = "risk_high_means"
	TextCriticalMeans Text = "risk_critical_means"

	// How many of a card's requests have which risk.
	TextCountLow      Text = "count_low"
	TextCountMedium   Text = "count_medium"
	TextCountHigh     Text = "count_high"
	TextCountCritical Text = "count_critical"

	// What will happen, where no rule says it.
	TextWillDo     Text = "will_do"
	TextWillDoBare Text = "will_do_bare"

	TextNeeded        Text = "needed"
	TextStillNeeded   Text = "still_needed"
	TextBatchNeeded   Text = "batch_needed"
	TextBatchReminder Text = "batch_reminder"
	TextBatchOver     Text = "batch_over"
	TextBatchSome     Text = "batch_some"
	TextBatchHint     Text = "batch_hint"
	TextLeftOut       Text = "left_out"
	TextLeftStepUp    Text = "left_step_up"
	TextLeftConfirm   Text = "left_confirm"
	TextJoined        Text = "joined"  // of a card of what has joined another
	TextWaiting       Text = "waiting" // of a reminder of several

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
	TextHash     Text = "args_hash"

	TextArgs         Text = "args"
	TextNoArgs       Text = "no_args"
	TextNotAllShown  Text = "not_all_shown"
	TextShortened    Text = "shortened"
	TextMasked       Text = "masked"
	TextInvisible    Text = "invisible"
	TextIgnored      Text = "ignored"
	TextPrevious     Text = "previous"
	TextPreviousSent Text = "previous_sent" // and what came of it is not known
	TextPreviousRan  Text = "previous_succeeded"
	TextPreviousFell Text = "previous_failed"
	TextReasonNeeded Text = "reason_needed" // of what is read where there are no buttons
	TextReasonTap    Text = "reason_tap"
	TextStepUp       Text = "step_up"
	TextStepUpAt     Text = "step_up_at"
	TextUnreached    Text = "unreached"
	TextOwnWords     Text = "own_words"
	TextRationale    Text = "rationale"
	TextPreview      Text = "preview"
	TextPreviewRead  Text = "preview_read"
	TextWordsCut     Text = "words_cut"
	TextDiffCut      Text = "diff_cut"

	// Of a diff that was held against the arg which it is of.
	TextChange      Text = "change"
	TextChangeHeld  Text = "change_held"
	TextInDiff      Text = "in_diff"
	TextDiffUnlike  Text = "diff_unlike"
	TextServerWords Text = "server_words"

	// What is asked after a denial, and what begins the answer to it: [chat.ParseWords] knows the prefix.
	TextAskReason     Text = "ask_reason"
	TextSuggestLater  Text = "suggest_later"
	TextSuggestTarget Text = "suggest_target"
	TextSuggestAsk    Text = "suggest_ask"
	TextReasonPrefix  Text = "reason_prefix"
	TextDenyBegun     Text = "deny_begun"

	// Of a message that shows all of a request.
	TextPart    Text = "part"
	TextRisk    Text = "risk"
	TextAskedAt Text = "asked_at"
	TextFact    Text = "fact"

	// Who decides: votes and stages, a second yes, other args, more time, a freeze.
	TextVote        Text = "vote"
	TextVoteBare    Text = "vote_bare"
	TextStage       Text = "stage"
	TextNeeds       Text = "needs"
	TextStillNeeds  Text = "still_needs"
	TextEdited      Text = "edited"
	TextEditedBy    Text = "edited_by"
	TextReplacedBy  Text = "replaced_by"
	TextReplaces    Text = "replaces"
	TextArgsRemoved Text = "args_removed"
	TextFrozen      Text = "frozen"
	TextFrozenBy    Text = "frozen_by"
	TextWillRun     Text = "will_run"
	TextWillRunBare Text = "will_run_bare"
	TextConfirmYes  Text = "confirm_yes"
	TextFreezeYes   Text = "freeze_yes"
	TextBack        Text = "back"
	TextQueued      Text = "queued"
	TextExtend      Text = "extend"
	TextFreezeAgent Text = "freeze_agent"

	// What was said of the same tool before.
	TextSaidApproved    Text = "said_approved"
	TextSaidDenied      Text = "said_denied"
	TextSaidApprovedWhy Text = "said_approved_why"
	TextSaidDeniedWhy   Text = "said_denied_why"
	TextSaidNow         Text = "said_now"
	TextSaidSame        Text = "said_same"
	TextSaidHidden      Text = "said_hidden"

	// An approval that answers the same call again for a while.
	TextGrantAsk     Text = "grant_ask"
	TextGrantAbout   Text = "grant_about"
	TextGrantNo      Text = "grant_no"
	TextGrantSession Text = "grant_session"
	TextGrantHour    Text = "grant_hour"
	TextGrantDay     Text = "grant_day"
	TextGrantTen     Text = "grant_ten"

	// Short forms, for a card of many requests.
	TextNotAllShort       Text = "not_all_short"
	TextShortenedHere     Text = "shortened_here"
	TextPreviousShort     Text = "previous_short"
	TextPreviousSentShort Text = "previous_sent_short"
	TextPreviousRanShort  Text = "previous_succeeded_short"
	TextPreviousFellShort Text = "previous_failed_short"
	TextReasonAsked       Text = "reason_asked"
	TextWordsCutShort     Text = "words_cut_short"
	TextReadAll           Text = "read_all"

	TextAlt          Text = "alt"
	TextAltReply     Text = "alt_reply"
	TextAltBatch     Text = "alt_batch"
	TextCannotRender Text = "cannot_render"

	// A dialog that asks for the reason.
	TextDialogDeny       Text = "dialog_deny"
	TextDialogApprove    Text = "dialog_approve"
	TextDialogDenyAll    Text = "dialog_deny_all"
	TextDialogApproveAll Text = "dialog_approve_all"
	TextDialogReason     Text = "dialog_reason"
	TextDialogTold       Text = "dialog_told"
	TextDialogRequired   Text = "dialog_required"
	TextDialogMore       Text = "dialog_more"
	TextDialogBatch      Text = "dialog_batch"
	TextDialogTooLate    Text = "dialog_too_late"
	TextDialogRefused    Text = "dialog_refused"
	TextCancel           Text = "cancel"
	TextClose            Text = "close"

	// The Home tab.
	TextHome        Text = "home"
	TextHomeHow     Text = "home_how"
	TextHomeReads   Text = "home_reads"
	TextHomeMore    Text = "home_more"
	TextHomeAsOf    Text = "home_as_of"
	TextHomeUnknown Text = "home_unknown"
)

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

// riskMeans returns the sentence of a risk, what approving may do; for one that is unknown that of high.
func riskMeans(r approval.Risk) Text {
	switch r {
	case approval.RiskLow:
		return TextLowMeans
	case approval.RiskMedium:
		return TextMediumMeans
	case approval.RiskCritical:
		return TextCriticalMeans
	}
	return TextHighMeans
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
