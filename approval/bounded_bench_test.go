package approval_test

import (
	"testing"

	"countersign/approval"
	"countersign/internal/lists"
)

// BenchmarkAck acknowledges 64 endings of 64 KiB args each.
func BenchmarkAck(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		b.StopTimer()
		rs := w.feed()
		for len(rs) == 0 {
			for _, id := range w.askMany(64, 64<<10) {
				if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: id, By: bot, Via: approval.ViaAPI}); err != nil {
					b.Fatal(err)
				}
			}
			rs = w.feed()
		}
		ids := make([]string, len(rs))
		for i, r := range rs {
			ids[i] = r.ID
		}
		b.StartTimer()
		if _, err := w.gate.Ack(w.ctx, "bot", ids); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkForeignEvents is an agent's look at an audit log in which 50,000 events are another's.
func BenchmarkForeignEvents(b *testing.B) {
	w := newWorld(b)
	for range 500 {
		err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
			for range 100 {
				if _, err := tx.Append(approval.Event{Type: approval.EventDecision, Agent: "other", ApprovalID: "0",
					Data: []byte(`{"via":"api"}`)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	q := approval.EventQuery{Agent: "bot", Told: true, Limit: 200}
	for b.Loop() {
		if _, err := lists.FollowEvents(w.ctx, w.gate, q); err != nil { // from the start, as who comes back after long
			b.Fatal(err)
		}
	}
}
