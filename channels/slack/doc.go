// Package slack takes cards to a Slack channel, and edits them when their requests are over.
//
// A card is one message of Block Kit. Whatever comes from a caller stands in plain_text or rich text,
// where no markup is read, no name is linked and no address unfurls; mrkdwn is for our own words only.
//
// A tap on Deny, or on Approve where a reason is needed, opens a dialog ([ReasonDialog]); what comes back
// from it ([ParseSubmission]) names a request and a reason, and is judged as any tap is. The Home tab
// ([HomeView]) lists what waits.
//
// Slack knows no idempotency key. Every post carries its notification's key as client_msg_id, which
// may help; a card that is doubled all the same does no harm, since both are edited and a request is
// decided once.
//
// The SDK's traps that this package keeps clear of: it takes a 200 answer of {} for success, and fails
// a post that went out when the echo of its blocks does not decode. So each call passes its answers
// through an [exchange], which reads the few fields that matter and shows the SDK only those.
package slack
