package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/emulator"
)

// A card leads to its request's page where people can reach the pages, and nowhere where they cannot.
func TestCardsLeadToTheRequestsPage(t *testing.T) {
	t.Parallel()
	links := replacing("listen: 127.0.0.1:0\n", "listen: 127.0.0.1:0\npublic_url: https://gate.example.com/\n")
	w := newWorld(t, links)
	id := w.expect(client.Call{Tool: "transfer_credits", Args: json.RawMessage(`{"amount_cents":1000}`)},
		client.AnswerPending).ApprovalID
	page := "https://gate.example.com/r/" + id
	if card := w.lineCard(id, 1); !strings.Contains(string(card.JSON), `"uri":"`+page+`"`) {
		t.Errorf("LINE: no link in %s", card.JSON)
	}
	leads := func(m emulator.SlackMessage) bool {
		return strings.Contains(string(m.Blocks), page+"|Open in Countersign")
	}
	if card := w.slackCard(id); !leads(card) {
		t.Errorf("Slack: no link in %s", card.Blocks)
	}
	w.tapLINE("hana", id, "approve")
	w.eventually("the edited card keeps its link", func() bool {
		card := w.slackCard(id)
		return len(card.Edits) > 0 && leads(card)
	})
}

func TestCardsLeadNowhereWithoutAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.expect(client.Call{Tool: "transfer_credits", Args: json.RawMessage(`{"amount_cents":1000}`)},
		client.AnswerPending).ApprovalID
	for _, card := range []string{string(w.lineCard(id, 1).JSON), string(w.slackCard(id).Blocks)} {
		if strings.Contains(card, "/r/") || strings.Contains(card, "Open in Countersign") {
			t.Errorf("a link in %s", card)
		}
	}
}
