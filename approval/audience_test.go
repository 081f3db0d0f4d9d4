package approval_test

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"

	"github.com/google/go-cmp/cmp"
)

// handed is an outbox that knows no gate, so that it can ask none, and notes whom it is told to ask.
type handed struct {
	*outbox.Outbox
	asked []string
}

func (*handed) Serve(*approval.Gate) {}

func (h *handed) Requested(tx approval.Tx, made []approval.Request, to []approval.Audience,
	p approval.Placing) (approval.Announcement, error) {
	h.note("a card begins", to...)
	return h.Outbox.Requested(tx, made, to, p)
}

func (h *handed) Joined(tx approval.Tx, c approval.Card, made []approval.Request, to []approval.Audience,
	soon approval.Joining) (approval.Announcement, error) {
	h.note("joins it", to...)
	return h.Outbox.Joined(tx, c, made, to, soon)
}

func (h *handed) Opened(tx approval.Tx, r approval.Request, to approval.Audience) error {
	h.note("a stage opens", to)
	return h.Outbox.Opened(tx, r, to)
}

func (h *handed) note(what string, to ...approval.Audience) {
	for _, a := range to {
		what += ":"
		if a.Everybody {
			what += " everybody"
		}
		what += namesOf(a.People)
		for _, l := range a.Later {
			what += ", at " + l.At.Format("15:04") + namesOf(l.People)
		}
	}
	h.asked = append(h.asked, what)
}

func namesOf(people []approval.Actor) string {
	var s strings.Builder
	for _, p := range people {
		s.WriteString(" " + p.Name)
	}
	return s.String()
}

// In the gate's transaction the notifier takes what it is handed: a way back from there would be one more that decides
// on half of what the transaction does.
func TestTheNotifierIsHandedWhoIsAskedAndAsksNoGate(t *testing.T) {
	w := newCouncil(t, thenSecurity, fHana, fKen, fMei, sAbe, nobodys)
	need := *thenSecurity
	need.Escalate = []approval.Escalation{{After: 50 * time.Minute, To: []string{"joe"}}}
	h := &handed{Outbox: outbox.New(outbox.Options{Store: w.store, Audit: approval.NewAuditLog(nil), Routing: bothWays,
		Logger: w.logger()})}
	w.gate = approval.NewGate(approval.Options{Store: w.store, Broker: approval.NewBroker(), Now: w.clock.Now,
		Policy: rules{w.verdict, turnTerms}, Logger: w.logger(), Notifier: h,
		Directory: names{people: w.person, all: w.everybody, notified: []string{"ken"}}})
	w.delegate("ken", "mei", time.Hour)
	w.delegate("ken", "joe", time.Hour)

	w.need = &need
	first := w.asked(inTurn("a", 1))[0]
	w.need = nil
	second := w.asked(inTurn("a", 2))[0]
	w.batch(inTurn("b", 3), inTurn("b", 4))
	w.need = &need
	w.approve(first, "hana")
	w.approve(first, "joe") // for ken
	w.approve(first, "abe")
	w.cancels(second, root)

	at := w.request(first).RequestedAt.Add(50 * time.Minute).Format("15:04")
	want := []string{
		"a card begins: hana joe ken mei, at " + at + " joe",
		"joins it: everybody mei joe",
		"a card begins: everybody mei joe: everybody mei joe",
		"a stage opens: abe, at " + at + " joe",
	}
	if diff := cmp.Diff(want, h.asked); diff != "" {
		t.Error(diff)
	}
}
