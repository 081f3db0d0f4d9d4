package passkey_test

import (
	"testing"
	"time"

	"countersign/approval"
)

// Anybody can send what is no passkey: it does not fill the audit log, and hides no refusal of somebody's own.
func TestStrangersDoNotFillTheRecord(t *testing.T) {
	w := newWorld(t)
	try := func(n int) {
		for range n {
			if _, err := w.FinishSignIn(t.Context(), "nobody's", []byte("{}")); err == nil {
				t.Fatal("signed in")
			}
		}
	}
	try(100)
	if n := w.events(approval.EventPasskeyRefused); n != 60 {
		t.Errorf("%d refusals on record, want 60", n)
	}
	if _, err := w.FinishAdding(t.Context(), w.browser("hana"), "phone", []byte("{}")); err == nil {
		t.Fatal("added")
	}
	if n := w.events(approval.EventPasskeyRefused); n != 61 {
		t.Errorf("%d refusals on record, want hana's own too", n)
	}
	w.clock.Advance(time.Minute)
	try(1)
	if n := w.events(approval.EventPasskeyRefused); n != 62 {
		t.Errorf("%d refusals on record, want one of the next minute", n)
	}
}
