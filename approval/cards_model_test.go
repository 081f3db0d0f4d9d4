package approval_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
)

// Whatever joins, is drawn, sent, lost and decided in whatever order: the version of a card whose sending is begun has
// exactly what it was drawn with. "Approve all" goes by that version, so that it approves what somebody could see.
func TestRule6_AVersionIsWhatItWasDrawnWith(t *testing.T) {
	w, rounds := grouped(t, approval.Asks{}), 0
	rapid.Check(t, func(rt *rapid.T) {
		rounds++
		w.cardModel(rt, fmt.Sprint("bot", rounds))
	})
}

type drawnCard struct {
	d   channels.Delivery
	ids []string
}

func (w *world) cardModel(rt *rapid.T, agent string) {
	w.wire(approval.Options{Store: w.store, Broker: w.gate.Broker(), Policy: rules{byTool, turnTerms}, Now: w.clock.Now,
		Logger: w.logger(),
		Directory: names{people: everybody, asks: approval.Asks{CardsAtOnce: rapid.IntRange(0, 3).Draw(rt,
			"cards at once")}}}, bothWays)
	n := 0
	var drawn []drawnCard
	var begun []approval.Notification
	seen := map[string]bool{} // requests that were on something whose sending was begun
	var asked []string
	must := func(err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"ask": func(rt *rapid.T) {
			n++
			c := inTurn(rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "turn"), n,
				rapid.SampledFrom([]string{"low", "high", "critical"}).Draw(rt, "risk"))
			c.Agent = agent
			c.Waits = rapid.Bool().Draw(rt, "waits")
			a, err := w.gate.Check(w.ctx, c)
			must(err)
			asked = append(asked, a.Request.ID)
		},
		"time": func(rt *rapid.T) {
			w.clock.advance(time.Duration(rapid.IntRange(1, 200_000).Draw(rt, "ms")) * time.Millisecond)
		},
		"draw": func(*rapid.T) {
			ns, _, err := w.outbox.Ready(w.ctx, nil, 100)
			must(err)
			for _, n := range ns {
				d, err := w.outbox.Load(w.ctx, n.ID)
				must(err)
				one := drawnCard{d: d}
				for _, r := range d.Requests {
					one.ids = append(one.ids, r.ID)
				}
				drawn = append(drawn, one)
			}
		},
		"begin": func(rt *rapid.T) {
			if len(drawn) == 0 {
				return
			}
			i := rapid.IntRange(0, len(drawn)-1).Draw(rt, "which")
			one := drawn[i]
			drawn = slices.Delete(drawn, i, i+1)
			ns, err := outboxtest.Begin(w.ctx, w.outbox, outbox.Attempt{Notification: one.d.Notification,
				Body: []byte(strings.Join(one.ids, " ")), Seen: one.d.Seen(), Lease: time.Minute})
			must(err)
			for _, n := range ns {
				begun = append(begun, n)
				ids := strings.Fields(string(n.Body)) // which is what goes out, and may have been drawn for an earlier try
				for _, id := range ids {
					seen[id] = true
				}
				if n.BatchID == "" {
					continue
				}
				c, err := approval.View(w.ctx, w.store, func(tx approval.Tx) (approval.Card, error) { return tx.Card(n.BatchID) })
				must(err)
				if got := c.Upto(n.After, n.Shown); !slices.Equal(got, ids) {
					rt.Fatalf("%s %s %d-%d covers %v and shows %v", n.Channel, n.Kind, n.After, n.Shown, got, ids)
				}
			}
		},
		"record": func(rt *rapid.T) {
			if len(begun) == 0 {
				return
			}
			i := rapid.IntRange(0, len(begun)-1).Draw(rt, "which")
			n := begun[i]
			begun = slices.Delete(begun, i, i+1)
			switch rapid.IntRange(0, 3).Draw(rt, "how") {
			case 0:
				must(w.outbox.NotSent(w.ctx, n, outbox.Failure{Reason: "unavailable", RetryAt: w.store.Now()}))
			case 1:
				must(w.outbox.NotSent(w.ctx, n, outbox.Failure{Reason: "paused", RetryAt: w.store.Now(), Unbegun: true}))
			default:
				must(w.outbox.Sent(w.ctx, n, channels.Receipt{MessageID: "m-" + n.ID, HTTPStatus: 200, Data: []byte(`{"ts":"1"}`)}))
			}
		},
		"decide": func(rt *rapid.T) {
			if len(asked) == 0 {
				return
			}
			id := rapid.SampledFrom(asked).Draw(rt, "which")
			_, err := w.decide(id, rapid.Bool().Draw(rt, "approve"), hana, "")
			if c := approval.CodeOf(err); err != nil && c != approval.CodeAlreadyResolved && c != approval.CodeExpired {
				rt.Fatal(err)
			}
		},
	})
	// In the end everything that was not decided has been before somebody while there was time.
	for range 18 {
		w.clock.advance(4 * time.Minute)
		for _, d := range w.drain(rt) {
			for _, r := range d.Requests {
				seen[r.ID] = true
			}
		}
	}
	for _, id := range asked {
		if r := w.request(id); r.Status == approval.Expired && !seen[id] {
			rt.Fatalf("%s expired and nobody was shown it", id)
		}
	}
}

// drain sends all that is due and returns it as it was loaded.
func (w *world) drain(rt *rapid.T) (sent []channels.Delivery) {
	for range 50 {
		ready, _, err := w.outbox.Ready(w.ctx, nil, 100)
		if err != nil {
			rt.Fatal(err)
		}
		if len(ready) == 0 {
			return sent
		}
		for _, n := range ready {
			d, err := w.outbox.Load(w.ctx, n.ID)
			if err != nil {
				rt.Fatal(err)
			}
			begun, err := outboxtest.Begin(w.ctx, w.outbox, outbox.Attempt{Notification: d.Notification, Body: []byte("x"),
				Seen: d.Seen(), Lease: time.Minute})
			if err != nil {
				rt.Fatal(err)
			}
			for _, n := range begun {
				if err := w.outbox.Sent(w.ctx, n, channels.Receipt{MessageID: "m-" + n.ID, HTTPStatus: 200,
					Data: []byte(`{"ts":"1"}`)}); err != nil {
					rt.Fatal(err)
				}
				sent = append(sent, d)
			}
		}
	}
	rt.Fatal("sending does not come to an end")
	return nil
}
