package gateway_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox/outboxtest"
)

// grouped is a policy with its calls on cards of a turn or of a run.
type grouped struct {
	approval.Policy
	group approval.Grouping
}

func (p grouped) Terms() approval.Terms {
	t := p.Policy.Terms()
	t.Group, t.GroupWithin = p.group, time.Minute
	return t
}

// grouping is a world with such a policy, and cards that go to one person.
func grouping(t *testing.T, group approval.Grouping, s *scripted) *world {
	t.Helper()
	return one(t, askAll, long, s, around{cards: outboxtest.To("line", "hana"),
		gate: func(o *approval.Options) { o.Policy = grouped{o.Policy, group} }})
}

// cards are what was pushed.
func (w *world) cards() []approval.Notification {
	w.t.Helper()
	ns, err := w.outbox.Notifications(w.t.Context(), approval.NotificationQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(ns, func(n approval.Notification) bool { return n.Kind != approval.KindRequest })
}

// Calls that one client makes at once come to people as one card, and one decision of all on it answers each of them.
func TestHeldCallsOfOneTurnAreOneCard(t *testing.T) {
	t.Parallel()
	const n = 5
	for _, group := range []approval.Grouping{approval.GroupTurn, approval.GroupRun, approval.GroupCall} {
		for _, approve := range []bool{true, false} {
			t.Run(fmt.Sprint(group, approve), func(t *testing.T) {
				eachEra(t, func(t *testing.T, modern bool) {
					s := newScripted(t, modern, "t")
					w := grouping(t, group, s)
					c := w.client(modern)
					var answers []<-chan answer
					for i := range n {
						_, done := c.start(t.Context(), "tools/call", fmt.Sprintf(`{"name":"t","arguments":{"n":%d}}`, i))
						answers = append(answers, done)
					}
					rs := w.pending(n)
					pushes := 1
					if group == approval.GroupCall {
						pushes = n
					}
					if got := len(w.cards()); got != pushes {
						t.Errorf("%d pushes for %d calls, want %d", got, n, pushes)
					}
					var ids []string
					for _, r := range rs {
						ids = append(ids, r.ID)
						if group != approval.GroupCall && (r.BatchID == "" || r.BatchID != rs[0].BatchID) {
							t.Errorf("%s is on the card %q, want %q", r.ID, r.BatchID, rs[0].BatchID)
						}
					}
					if _, err := w.gate.DecideMany(t.Context(), ids, approval.Decision{Approve: approve, By: person,
						Via: approval.ViaAPI}); err != nil {
						t.Fatal(err)
					}
					for _, done := range answers {
						if a := finish(t, done); a.isError() == approve {
							t.Errorf("answered %s", a.raw)
						}
					}
					wantCalls(t, s, map[bool]int{true: n}[approve])
				})
			})
		}
	}
}

// What belongs together is what one client says: sessions and agents have cards of their own. Where there is no
// session, the agent and its scope stand for one.
func TestOthersCallsAreOnOtherCards(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		s := newScripted(t, modern, "t")
		w := grouping(t, approval.GroupTurn, s)
		n := 0
		for _, token := range []string{agentToken, agentToken, otherToken} {
			c := w.clientAs(modern, token, `{}`)
			for range 2 {
				n++
				c.start(t.Context(), "tools/call", fmt.Sprintf(`{"name":"t","arguments":{"n":%d}}`, n))
				w.pending(n)
			}
		}
		want := map[bool]int{false: 3, true: 2}[modern]
		if got := len(w.cards()); got != want {
			t.Errorf("modern %t: %d cards, want %d", modern, got, want)
		}
	}
}

// A critical call stands alone, also in the middle of others.
func TestACriticalCallAmongOthersIsACardOfItsOwn(t *testing.T) {
	t.Parallel()
	const rules = `{policy: {rules: [{tools: [wipe], risk: critical, action: quarantine}, {tools: ["*"], risk: medium, action: quarantine}]}}`
	eachEra(t, func(t *testing.T, modern bool) {
		s := newScripted(t, modern, "t", "wipe")
		w := one(t, rules, long, s, around{cards: outboxtest.To("line", "hana"),
			gate: func(o *approval.Options) { o.Policy = grouped{o.Policy, approval.GroupTurn} }})
		c := w.client(modern)
		for i, name := range []string{"t", "wipe", "t"} {
			c.start(t.Context(), "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"n":%d}}`, name, i))
			w.pending(i + 1)
		}
		if got := len(w.cards()); got != 2 {
			t.Errorf("%d cards, want 2", got)
		}
		for _, r := range w.pending(3) {
			if (r.BatchID == "") != (r.Tool == "wipe") {
				t.Errorf("%s is on the card %q", r.Tool, r.BatchID)
			}
		}
	})
}
