// Package line takes cards to people on LINE.
//
// A card is one Flex bubble with two postback buttons; a batch is a few carousels in one message. LINE
// cannot edit or delete what it has shown, so buttons of a decided card stay, and each late tap gets an
// answer of its own. Deny opens the keyboard with a reason begun, on phones that can: the tap decides,
// and the words that follow tell why. What a card leaves out comes as text messages, by a button or by
// the word show.
//
// A push carries a retry key, by which LINE knows a repetition: it answers 409 with the ids of the
// first one, which is success. A reply has no such key. One whose outcome nobody knows counts as sent,
// and is never followed by a push, for which the person would see the answer twice; only a clear
// refusal of its first try is.
//
// The SDK's traps that this package keeps clear of: WithContext changes the client that it is called
// on, so each call has a client of its own; the default HTTP client has no time-out; an HTTP error's
// text quotes the whole answer, so errors are made here, from status and body; and it would read what was stored
// into its structs and write it anew, so it is given the stored messages as they are. What the account is asked
// ([Channel.AskQuota], [Channel.Profile] and the rest of account.go) does not go through the SDK: it takes an answer of
// {} for one of zeros, and writes an id into a path as it comes.
package line
