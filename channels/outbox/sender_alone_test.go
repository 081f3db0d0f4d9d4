package outbox

import (
	"context"
	"slices"
	"sync"
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
		p := &phone{name: "webhook", answer: fail(channels.PushError{Reason: channels.ReasonRateLimited,
			RetryAfter: time.Hour, Alone: true})}
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

// A card leaves when it is due, also while the sending of an earlier one is about to begin.
func TestWhatIsDueSoonIsNotHiddenByWhatIsDueNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := &phone{name: "line"}, &phone{name: "slack"}
		m := newMemory()
		m.slow = map[string]time.Duration{"1": 2 * time.Second}
		b := run(t, m, nil, p, q)
		defer b.stop()
		start := time.Now()
		b.put(row("1", "line", approval.KindRequest))
		synctest.Wait()
		soon := row("2", "slack", approval.KindRequest)
		soon.NextAttemptAt = start.Add(300 * time.Millisecond)
		b.put(soon)
		after(time.Minute)
		if len(p.times) != 1 || len(q.times) != 1 {
			t.Fatalf("sent %v and %v", p.times, q.times)
		}
		if late := q.times[0].Sub(soon.NextAttemptAt); late > 100*time.Millisecond {
			t.Errorf("it left %s late", late)
		}
	})
}

// heldKinds are what platforms have asked of the senders of a queue.
type heldKinds struct {
	mu   sync.Mutex
	held []Hold
}

func (a *heldKinds) PutHold(_ context.Context, h Hold) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = append(a.held, h)
	return nil
}

func (a *heldKinds) ReadHolds(context.Context) ([]Hold, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.held), nil
}

// What a platform asks of one sender, others of the queue do as well: within a second, with what it asked it for, and
// until then.
func TestWhatAPlatformAsksOfOneSenderAllDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holds := &heldKinds{}
		several := func(o *SenderOptions) { o.Others, o.Holds = time.Second, holds }
		limited := &phone{name: "slack", answer: fail(channels.PushError{Reason: channels.ReasonRateLimited,
			RetryAfter: 90 * time.Second})}
		one := run(t, newMemory(), several, limited)
		defer one.stop()
		p := &phone{name: "slack"}
		other := run(t, newMemory(), several, p)
		defer other.stop()
		one.put(row("1", "slack", approval.KindRequest))
		after(1500 * time.Millisecond)
		other.put(row("2", "slack", approval.KindRequest), row("3", "slack", approval.KindReply))
		after(80 * time.Second)
		if got := p.sent(); len(got) != 1 || got[0].To != "to-3" {
			t.Fatalf("the other has sent %v while it was asked not to, want the reply alone", got)
		}
		after(10 * time.Second)
		if n := other.get("2"); n.Status != approval.Sent || n.Attempt != 1 {
			t.Errorf("then the card is %s after %d attempts", n.Status, n.Attempt)
		}
	})
}
