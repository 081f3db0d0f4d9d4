package approval_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/lists"
)

// remove removes a request that is over, as retention does.
func (w *world) remove(id string) {
	w.t.Helper()
	if err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		if _, err := tx.Ack("bot", id); err != nil {
			return err
		}
		if ok, err := tx.RemoveRequest(id); err != nil || !ok {
			return fmt.Errorf("%s was removed %v, %w", id, ok, err)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// A reminder shows requests of several cards, of which one is over and was removed: what ends since is shown on it, and
// who quotes it is told of the others.
func TestARequestEndsOnAReminderOfWhichAnotherWasRemoved(t *testing.T) {
	w := newWorld(t)
	w.asked(call(`{"n":1}`), call(`{"n":2}`), call(`{"n":3}`))
	w.send()
	w.clock.advance(15 * time.Minute)
	if n, err := w.outbox.Remind(w.ctx, 15*time.Minute, 3); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	sent := w.send()
	i := slices.IndexFunc(sent, func(n approval.Notification) bool { return n.Channel == "line" && len(n.Cards) == 3 })
	if i < 0 {
		t.Fatalf("no reminder shows all: %+v", sent)
	}
	// The reminder is the first one's.
	first, gone, last := sent[i].Cards[0], sent[i].Cards[1], sent[i].Cards[2]
	w.mustDecide(gone, true, hana, "")
	w.expect(call(string(w.request(gone).Args)), approval.AnswerApproved)
	w.send()
	w.remove(gone)
	w.mustDecide(first, false, hana, "")
	w.send()
	row := w.notifications(approval.NotificationQuery{Channel: "line", Kind: approval.KindReminder})[0]
	out := w.line(hana, chat.Interaction{Intent: chat.IntentDeny, Text: "deny", QuotedID: row.MessageID})
	if want := "That message shows 2 requests."; !strings.HasPrefix(out.Text, want) {
		t.Errorf("answered %q, want %q", out.Text, want)
	}
	w.mustDecide(last, false, hana, "")
	w.send()
}

// A page reads what it found in a transaction of its own: what was removed in between is shown as it was found.
func TestRowsThatWereRemovedMeanwhileAreShownAsTheyWereFound(t *testing.T) {
	w := newWorld(t)
	ids := w.asked(call(`{"n":1}`), call(`{"n":2}`))
	w.mustDecide(ids[0], true, hana, "")
	w.expect(call(`{"n":1}`), approval.AnswerApproved)
	w.send()
	found, err := lists.SearchRequests(w.ctx, w.gate, approval.RequestQuery{Limit: 10}, 10)
	if err != nil {
		t.Fatal(err)
	}
	w.remove(ids[0])
	rows, err := lists.ReadRows(w.ctx, w.gate, found.Rows)
	if err != nil || len(rows) != 2 || rows[0].ID != ids[1] || rows[1].ID != ids[0] ||
		rows[1].Status != approval.Approved {
		t.Errorf("%+v, %v", rows, err)
	}
}
