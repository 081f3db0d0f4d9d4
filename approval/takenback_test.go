package approval_test

import (
	"context"
	"testing"

	"countersign/approval"
	"countersign/internal/chat"
)

// noLinks makes none: what somebody writes from was taken back while they asked.
type noLinks struct{ from string }

func (l *noLinks) LinkIn(_ context.Context, _ approval.Tx, _ string, _ approval.Via, from string) (string, error) {
	l.from = from
	return "", approval.Errorf(approval.CodeUnauthorized, "Nobody is known by that address any more.")
}
func (*noLinks) HereOnly() bool { return false }

// A user id is taken back from a person after an event of it came in, and before it is acted on: whoever has it is
// nobody by then, though the person is there and may decide.
func TestRule8_AUserIDThatWasTakenBackSinceDecidesNothing(t *testing.T) {
	for what, now := range map[string]func(channel, id string) (approval.Actor, bool){
		"it is nobody's": func(string, string) (approval.Actor, bool) { return approval.Actor{}, false },
		"it is ken's":    func(string, string) (approval.Actor, bool) { return ken, true },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			links := new(noLinks)
			w.chat = chat.New(chat.Options{Store: w.store, Gate: w.gate, Audit: approval.NewAuditLog(nil), Outbox: w.outbox,
				Readers: english{}, SignIn: links, Whose: now})
			id := w.check(transfer).Request.ID
			for _, i := range []chat.Intent{chat.IntentApprove, chat.IntentDeny} {
				out := w.tap(chat.Interaction{By: hana, Intent: i, RequestID: id})
				if out.Code != approval.CodeNotAnApprover || w.request(id).Status != approval.Pending {
					t.Errorf("%s: %s, and it is %s", i, out.Code, w.request(id).Status)
				}
			}
			if out := w.tap(chat.Interaction{By: hana, Intent: chat.IntentSignIn}); out.Code != approval.CodeNotAnApprover ||
				links.from != "" {
				t.Errorf("a link: %s", out.Code)
			}
		})
	}
}

// A link is made for the address that was written from; where that is the person's no more, they are a stranger.
func TestRule8_ALinkIsForTheAddressThatAsked(t *testing.T) {
	w := newWorld(t)
	links := new(noLinks)
	w.chat = chat.New(chat.Options{Store: w.store, Gate: w.gate, Audit: approval.NewAuditLog(nil), Outbox: w.outbox,
		Readers: english{}, SignIn: links, Whose: func(string, string) (approval.Actor, bool) { return hana, true }})
	out := w.tap(chat.Interaction{By: hana, Intent: chat.IntentSignIn, From: "Uhana"})
	if out.Code != approval.CodeNotAnApprover || links.from != "Uhana" {
		t.Errorf("%s for %q", out.Code, links.from)
	}
}
