// Package inbox is what waits for a person, as a list that keeps up with the gate: the model behind every way of
// deciding at a terminal, with no terminal in it.
//
// [Inbox.Run] reads what is pending, then follows the gate's stream of events, so that a new request, a vote or an
// ending is there as soon as the gate tells of it. A list read every half minute is the net below that. While the gate
// does not answer the list stays as it was, [Snapshot.Since] says from when on, and it is tried again; a refusal ends
// Run.
//
// A decision is about exactly the request that was shown: its version goes along, and where the request has changed
// meanwhile nothing is decided. The [Outcome] then says what is different.
package inbox
