// Package standardwebhooks takes cards to people who have neither LINE nor Slack: it posts them as JSON to an
// address of theirs, from where a program of theirs can take them anywhere. Nothing comes back that way.
// A person who is told so decides over the API, with the command line or in a chat that they do have.
//
// Deliveries follow Standard Webhooks (https://www.standardwebhooks.com), so a receiver checks them with
// a library that is there for most languages. The headers are
//
//	webhook-id         the same on every try of a delivery: one that is known is a repetition
//	webhook-timestamp  when this try was made, in seconds since 1970
//	webhook-signature  v1,<base64>: HMAC-SHA256 of id.timestamp.body; one for each signing secret that
//	                   holds, the newest first, with blanks between them
//
// and the body is
//
//	{"type": "approval.requested", "timestamp": "2026-11-21T03:00:00.000Z", "data": {…}}
//
// A type of approval.reminder is the same requests again, approval.updated tells how far they have come
// (a person voted, another stage is open, the deadline was put off), and approval.resolved how they stand
// now: a delivery cannot be edited, so its outcome is one more. What a receiver has seen of a request is
// outdated by what comes with a later timestamp. approval.notice is a sentence for people.
//
// The data is what a card shows: masked, visible, shortened where it is long, its sentences in the
// reader's language. What is not decided by sentence is given by word: state, risk, deadline and ids.
//
// An address may hold a secret, in its path, its query or its user info. No error of this package tells
// more of it than [Origin].
package standardwebhooks
