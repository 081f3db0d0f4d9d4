package channels

import "countersign/approval"

// Delivery is a notification with what is needed to render it, with times as the machine's clock has them. When
// it is to be sent is told by the store's.
type Delivery struct {
	Notification approval.Notification
	Requests     []approval.Request     // where Body is empty: the one, the batch's, or those whose cards a reply brings
	Target       *approval.Notification // of an outcome: the card that it edits
	Card         *approval.Card         // whose items the Requests are; nil for none
	Queued       int                    // of a NoteQueued: how many cards wait for their turn to go to its reader
	Grantable    []string               // of these, those that were approved and may answer the same call again
}

// Seen tells how new the state is that the delivery's requests are in: it grows whenever one ends, or is
// given its reason.
func (d Delivery) Seen() int64 {
	newest := int64(0)
	for _, r := range d.Requests {
		newest = max(newest, r.ResolvedSeq)
	}
	return newest
}
