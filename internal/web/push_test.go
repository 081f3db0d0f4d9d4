package web

import (
	"testing"

	"countersign/approval"
	"countersign/internal/locale"
)

// A card that several people see went to none of them by name, and not to somebody unknown either.
func TestARequestTellsWhereItsCardsWent(t *testing.T) {
	t.Parallel()
	at := func(to string) approval.Address { return approval.Address{Channel: "slack", To: to} }
	p := &requestPages{
		nameOf: func(a approval.Address) string { return map[approval.Address]string{at("U1"): "hana"}[a] },
		room:   func(a approval.Address) bool { return a == at("C1") },
	}
	x := &exchange{lang: locale.Get("en")}
	for to, want := range map[string]string{"U1": "hana", "U2": "somebody", "C1": "everyone in C1"} {
		if got := p.push(x, &approval.Notification{Channel: "slack", Recipient: to, Status: approval.Sent}).To; got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}
