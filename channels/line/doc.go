// Package line takes cards to people on LINE, and takes what they press and type there.
//
// A card is one Flex bubble with two postback buttons; a batch is a few carousels in one message. LINE
// cannot edit or delete what it has shown, so buttons of a decided card stay, and each late tap gets an
// answer of its own. Deny opens the keyboard with a reason begun, on phones that can: the tap decides,
// and the words that follow tell why. What a card leaves out comes as text messages, by a button or by
// the word show.
//
// A push carries a retry key, by which LINE knows a repetition: it answers 409 with the ids of the
// first one, which is success. A reply has no such key. One whose outcome is not known counts as sent,
// and is never followed by a push, for which the person would see the answer twice; only a clear
// refusal of its first try is.
//
// LINE has no dialogs: a denial asks why, and the next text tells. Where the bot is not known yet, as after a restart,
// a press waits for LINE to say who it is.
//
// The SDK's traps that this package keeps clear of: WithContext changes the client that it is called
// on, so each call has a client of its own; the default HTTP client has no time-out; an HTTP error's
// text quotes the whole answer, so errors are made here, from status and body; and it would read what was stored
// into its structs and write it anew, so it is given the stored messages as they are. What the account is asked
// ([Channel.AskQuota], [Channel.Profile] and the rest of account.go) does not go through the SDK: it takes an answer of
// {} for one of zeros, and writes an id into a path as it comes. What comes in is read here too: the SDK's parser
// refuses a whole delivery for one event that it does not know, and takes names in any case and twice.
package line
