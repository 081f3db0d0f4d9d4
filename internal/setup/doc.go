// Package setup helps from nothing to a tap on one's own phone: it writes a first configuration, asks the
// platforms what is missing, and tries on a running gate what an attacker would.
//
// [New] makes the two files of a first set-up out of a few answers, and [Manifest] the Slack app that
// goes with them.
//
// [Online] asks the platforms about what cannot be seen in the file: whether tokens are taken and may do
// what the program needs, whether the bot is where cards go, whether taps have a way back, how many
// messages of the month are left. It sends no message to anybody. Each [Finding] says what to do.
//
// [Verify] shows that a gate holds: it has a test card sent, and then posts to the webhooks a forged, a
// stale, a stranger's and a doubled tap for it, and one meant for another bot or workspace. It signs them
// with the channel's own secret, because a gate that only refuses what is unsigned would pass else; but
// only ever as people who do not exist, so nothing of it could be a decision. The one real tap is the
// person's own.
//
// No finding holds a secret.
package setup
