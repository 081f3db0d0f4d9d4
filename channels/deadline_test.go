package channels_test

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/locale"
)

// A card and what is typed for stay in the chat: their deadline has its date where it is not today, to its reader, and
// its zone where nobody has said in which the reader is.
func TestADeadlineHasItsDateAndItsZone(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 14, 50, 0, 0, time.UTC) // 23:50 in Tokyo
	for _, tt := range []struct {
		name string
		zone *time.Location
		in   time.Duration
		want string
	}{
		{"today", tokyo, 5 * time.Minute, "today 23:55"},
		{"past midnight", tokyo, 40 * time.Minute, "22 Nov 00:30"},
		{"in no zone", nil, 40 * time.Minute, "today 15:30 UTC"},
		{"in the zone of this machine", time.Local, 40 * time.Minute, locale.Get("en").When(at.Add(40*time.Minute),
			locale.Reader{Now: at, Zone: time.Local, Abroad: true, Stays: true})},
	} {
		r := channelstest.Request(`{}`)
		r.ExpiresAt = at.Add(tt.in)
		m := channelstest.Maker()
		m.Reader = func(string, string) channels.Reader { return channels.Reader{Zone: tt.zone} }
		for _, n := range []approval.Notification{{Kind: approval.KindRequest}, {Kind: approval.KindReminder},
			{Kind: approval.KindReply, Cards: []string{r.ID}}} {
			n.CreatedAt = at
			if got := m.Card(channels.Delivery{Notification: n,
				Requests: []approval.Request{r}}).Items[0].DeadlineAt; got != tt.want {
				t.Errorf("%s, %s: %q, want %q", tt.name, n.Kind, got, tt.want)
			}
		}
		shown := channels.Delivery{Requests: []approval.Request{r},
			Notification: approval.Notification{Kind: approval.KindReply, Cards: []string{r.ID}, Part: 1, CreatedAt: at}}
		if c, _ := m.Part(shown, 5000, legible.UTF16Len); !strings.Contains(c.Text, "Decide by "+tt.want+"\n") {
			t.Errorf("%s: %s", tt.name, c.Text)
		}
	}
}
