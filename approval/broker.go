package approval

import (
	"iter"

	"countersign/approval/broker"
)

// Broker wakes those who wait for what a store has committed.
type Broker struct{ *broker.Broker[EventType] }

// NewBroker returns a broker without subscribers.
func NewBroker() *Broker { return &Broker{broker.New[EventType]()} }

// Publish wakes whoever waits for what c reports. A store calls it after each commit.
func (b *Broker) Publish(c Commit) { b.Broker.Publish(wakes(c.Events), c.Queued, c.Deadline) }

// BeforeCommit wakes those who have to get ready for what c reports, which is about to be committed and may come to
// nothing. A store may call it before a commit.
func (b *Broker) BeforeCommit(c Commit) { b.Broker.BeforeCommit(wakes(c.Events)) }

// wakes are events as those who wait are told them apart.
func wakes(events []Event) iter.Seq[broker.Event[EventType]] {
	return func(yield func(broker.Event[EventType]) bool) {
		for i := range events {
			e := &events[i]
			if !yield(broker.Event[EventType]{Type: e.Type, Seq: e.Seq, Request: e.ApprovalID, Agent: e.Agent,
				Approves: e.Type == EventDecision && e.Decision == "approve",
				Freezes:  e.Type == EventFrozen || e.Type == EventClockAccepted}) {
				return
			}
		}
	}
}
