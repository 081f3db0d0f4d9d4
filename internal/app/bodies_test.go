package app

import (
	"net/http/httptest"
	"testing"

	"countersign/internal/auth"
	"countersign/internal/config"
)

// Rule 2.12: whose bodies give way depends on how many each sender has on their way. An agent that writes its token in
// many ways is one sender all the same.
func TestRule12_AnAgentIsOneSenderOfBodies(t *testing.T) {
	t.Parallel()
	const token, other = "bot-token-0123456789", "other-token-0123456789"
	l := &listeners{live: new(inForce), limits: newLimits(&config.Config{}, ""),
		directory: auth.NewDirectory([]auth.AgentIdentity{{Name: "bot", Token: token}, {Name: "other", Token: other}}, nil)}
	l.live.Store(&live{cfg: &config.Config{}})
	sender := func(headers ...string) string {
		r := httptest.NewRequest("POST", "/v1/calls", nil)
		for _, h := range headers {
			r.Header.Add("Authorization", h)
		}
		_, who := l.bodies(r)
		return who
	}
	bot, stranger := sender("Bearer "+token), sender()
	for _, h := range []string{"bearer " + token, "BEARER " + token, "Bearer   " + token, "Bearer " + token + "  ",
		"Bearer \t" + token} {
		if got := sender(h); got != bot {
			t.Errorf("%q is of sender %q, want %q", h, got, bot)
		}
	}
	if sender("Bearer "+other) == bot || stranger == bot {
		t.Error("two senders count as one")
	}
	for _, hs := range [][]string{{"Bearer nobody's"}, {"Bearer somebody-else's"}, {"Basic x"}, {"Bearer"},
		{"Bearer " + token, "Bearer " + other}} {
		if got := sender(hs...); got != stranger {
			t.Errorf("%q is of sender %q, want %q", hs, got, stranger)
		}
	}
}
