// Package slack takes cards to Slack, edits them when their requests are over, and takes what people press, type and
// fill in there.
//
// A card is one message of Block Kit. Whatever comes from a caller stands in plain_text or rich text, where no markup
// is read, no name is linked and no address unfurls; mrkdwn is for our own words only.
//
// A denial, and an approval that needs a reason, opens a dialog ([ReasonDialog]) while the button's delivery is still
// open; what comes back out of it ([ParseSubmission]) names a request and a reason, and is judged anew as an
// interaction of its own. Where no dialog opens, a denial is carried out without one. The Home tab ([HomeView]) lists
// what waits.
//
// Slack knows no idempotency key. Every post carries its notification's key as client_msg_id, which may help; a card
// that is doubled all the same does no harm, since both are edited and a request is decided once.
//
// What comes in is posted to us and signed, or comes over a socket: a connection that we open to Slack, for which no
// address of our own is needed. Both take the same way, and are acknowledged only after the commit.
//
// All calls of Slack's Web API go through slack-go, and cards, views and answers to submissions are of its types. Its
// traps that this package keeps clear of: it takes a 200 answer of {} for success, and fails a post that went out when
// the echo of its blocks does not decode. So each call passes its answers through an [exchange], which reads the few
// fields that matter and shows the SDK only those.
//
// Not of slack-go, and why:
//   - Reading what comes in. Its types are filled by encoding/json, which takes names in any case and the last of two,
//     so a payload could say one thing to us and another to a program that logs it. Here everything is read by
//     [channels.Strictly].
//   - Signatures. Its SecretsVerifier compares Slack's time with the machine's clock, and not with the gate's.
//   - The socket itself (package socketmode). A program can acknowledge after its commit there, but when Slack
//     announces the end of a connection it closes the old one before it opens the new: what is pressed in between is
//     lost, and what is being worked on is acknowledged over a connection that it did not come by. An acknowledgement
//     is only queued, so that a sender does not learn whether it was written.
package slack
