// Package outbox takes cards, edits and answers to people: a notification is a row before it is a message.
//
// What people are to be told is queued in the transaction of what it tells of ([Outbox.Requested], [Outbox.Ended],
// [Outbox.Queue]), so that a crash leaves it to be sent and never sends what did not happen. A card goes along a
// route to the first address that is alive, and on to the next where one fails for good; where no address is left, to
// the admins, and loudly into the log.
//
// A row is taken for a while, tried, and recorded ([Outbox.Begin], [Outbox.Sent], [Outbox.NotSent]). What was being
// sent at a crash is tried again when its lease is over, with the same bytes and the same retry key. A sent card that
// can be edited follows its request; edits of one card never overtake each other.
//
// The [Sender] finds rows that are due, has a [channels.Maker] and the row's [channels.Channel] draw the card, and
// sends it. The bytes are stored with the row before the first try, so every later try, also after a restart, sends
// the same bytes under the same key.
//
//	queued ──begin──▶ (leased) ──sent──▶ sent
//	  ▲                  │
//	  └──── retrying ◀───┼── may pass: the same bytes and key again, later
//	                     ├── final, or tried too often ──▶ failed
//	                     └── the token is bad: the attempt is given back, the channel pauses
//
// What happens inside one transaction is methods of work and of its nouns: cards, routes, sending, typing, turns,
// reminders. The methods of [Outbox] are the doors to it.
package outbox
