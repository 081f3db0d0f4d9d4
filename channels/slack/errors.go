package slack

import (
	"net/http"
	"strings"
	"time"

	"countersign/channels"
)

const (
	// rateLimitWait is how long to wait where Slack limits without saying how long.
	rateLimitWait = 30 * time.Second
	// slowWait is for what takes the operator minutes to mend.
	slowWait = 3 * time.Minute
)

// leastWait is the wait after a 429 that does not say how long.
func (ch *Channel) leastWait(h http.Header) time.Duration {
	if channels.RetryAfter(h) > 0 {
		return 0
	}
	return rateLimitWait
}

// Reasons that only Slack knows, beside those of package channels.
const (
	ReasonTriggerSpent = "trigger_spent" // a dialog must be opened within 3 s of the tap, and once
	ReasonViewChanged  = "view_changed"  // the view is no longer there, or no longer as it was
	ReasonHomeDisabled = "home_disabled" // the app has no Home tab
)

// class is what an error word of Slack's means to us.
type class struct {
	reason  string
	final   bool
	down    bool
	unknown bool
	wait    time.Duration
}

var (
	limited   = class{reason: channels.ReasonRateLimited, wait: rateLimitWait}
	passing   = class{reason: channels.ReasonUnavailable, unknown: true}
	slow      = class{reason: channels.ReasonUnavailable, wait: slowWait}
	badToken  = class{reason: channels.ReasonBadToken, down: true}
	scope     = class{reason: channels.ReasonMissingScope, down: true}
	recipient = class{reason: channels.ReasonBadRecipient, final: true}
	ourBug    = class{reason: channels.ReasonBadRequest, final: true}
	gone      = class{reason: channels.ReasonMessageGone, final: true}
	spent     = class{reason: ReasonTriggerSpent, final: true}
	changed   = class{reason: ReasonViewChanged, final: true}
	homeless  = class{reason: ReasonHomeDisabled, final: true}
	// strange are words that appear without notice: the usual few tries.
	strange = class{reason: channels.ReasonUnavailable}
)

var classes = func() map[string]class {
	m := map[string]class{}
	for c, words := range map[class]string{
		limited: "ratelimited rate_limited",
		passing: "internal_error fatal_error service_unavailable request_timeout update_failed streaming_state_conflict " +
			"external_channel_migrating",
		slow: "team_added_to_org org_login_required message_limit_exceeded",
		badToken: `invalid_auth not_authed account_inactive token_revoked token_expired no_permission not_allowed_token_type
			access_denied accesslimited ekm_access_denied two_factor_setup_required team_access_not_granted
			enterprise_is_restricted app_access_restricted`,
		scope: "missing_scope",
		recipient: `channel_not_found not_in_channel is_archived is_inactive messages_tab_disabled user_not_in_channel
			user_not_found user_disabled user_not_visible team_not_found`,
		ourBug: `msg_too_long msg_blocks_too_long invalid_blocks invalid_blocks_format no_text too_many_attachments
			metadata_too_large invalid_arguments invalid_arg_name invalid_form_data invalid_post_type invalid_charset
			view_too_large duplicate_external_id`,
		gone:     "message_not_found cant_update_message edit_window_closed block_mismatch",
		spent:    "trigger_expired expired_trigger_id trigger_exchanged exchanged_trigger_id invalid_trigger_id",
		changed:  "hash_conflict not_found",
		homeless: "not_enabled",
	} {
		for w := range strings.FieldsSeq(words) {
			m[w] = c
		}
	}
	return m
}()

// classify says what a failure that Slack names means.
func classify(a answer) *channels.PushError {
	c, ok := classes[a.Error]
	switch {
	case ok:
	case strings.HasPrefix(a.Error, "restricted_action"):
		c = recipient
	case strings.HasPrefix(a.Error, "invalid_metadata_"):
		c = ourBug
	default:
		c = strange
	}
	return &channels.PushError{Final: c.final, RetryAfter: c.wait, Reason: c.reason, Unknown: c.unknown,
		ChannelDown: c.down}
}
