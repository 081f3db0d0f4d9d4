package outbox

import (
	"testing"
	"testing/synctest"
	"time"

	"countersign/approval"
	"countersign/channels"
)

// Where each recipient is a server of its own, one that wishes to be left alone is, and nobody else
// waits for it.
func TestOneRecipientsWishHoldsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &phone{name: "webhook", answer: fail(channels.PushError{Reason: channels.ReasonRateLimited, RetryAfter: time.Hour, Alone: true})}
		b := run(t, newMemory(), nil, p)
		defer b.stop()
		b.put(row("1", "webhook", approval.KindRequest))
		synctest.Wait()
		p.say(nil)
		b.put(row("2", "webhook", approval.KindRequest))
		synctest.Wait()
		if n := b.get("2"); n.Status != approval.Sent {
			t.Errorf("the other recipient's row is %s, want sent", n.Status)
		}
		after(59 * time.Minute)
		if n := b.get("1"); n.Attempt != 1 {
			t.Errorf("tried %d times within the hour", n.Attempt)
		}
		after(2 * time.Minute)
		if n := b.get("1"); n.Status != approval.Sent {
			t.Errorf("after the hour the row is %s", n.Status)
		}
	})
}
