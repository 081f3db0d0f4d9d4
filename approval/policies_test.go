package approval_test

import (
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/lists"
)

// texted is a policy with a digest and a text.
type texted struct {
	rules
	digest, text string
}

func (p texted) Digest() string { return p.digest }
func (p texted) Source() string { return p.text }

// Each request's Policy finds its text: of the policy that the gate began with, and of each that came after it.
func TestThePolicyOfARequestFindsItsText(t *testing.T) {
	first := texted{rules{asks, terms}, strings.Repeat("a1", 32), "first"}
	w := newWorld(t)
	w.wire(approval.Options{Store: w.store, Broker: w.gate.Broker(), Policy: first, Logger: w.logger()}, bothWays)
	if err := w.gate.KeepPolicy(w.ctx); err != nil {
		t.Fatal(err)
	}
	find := func(raw, want string) {
		t.Helper()
		o, err := w.gate.Check(w.ctx, call(raw))
		if err != nil {
			t.Fatal(err)
		}
		_, text, err := lists.FindPolicy(w.ctx, w.gate, o.Request.Policy)
		if err != nil || text != want {
			t.Errorf("%s was judged by %q, %v; want %q", raw, text, err, want)
		}
	}
	find(`{"a":1}`, "first")
	if err := w.gate.SetPolicy(w.ctx, texted{rules{asks, terms}, strings.Repeat("b2", 32), "second"}, nil); err != nil {
		t.Fatal(err)
	}
	find(`{"a":2}`, "second")
	if _, text, err := lists.FindPolicy(w.ctx, w.gate, "a1a1a1a1"); err != nil || text != "first" {
		t.Errorf("the first is %q, %v", text, err)
	}
	_, _, err := lists.FindPolicy(w.ctx, w.gate, "c3c3c3c3")
	wantCode(t, err, approval.CodeNotFound)
}
