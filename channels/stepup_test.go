package channels_test

import (
	"testing"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
)

func TestWhereARequestIsApprovedThatTakesAPasskey(t *testing.T) {
	r := channelstest.Request(`{"a":1}`)
	r.Need, r.RequireReason = &approval.Need{StepUp: true}, true
	page := func(id string) string { return "http://localhost:8787/r/" + id }
	link := func(id string) string { return "https://gate.example.com/r/" + id }
	for _, c := range []struct {
		name, text string
		maker      channels.Maker
	}{
		{"with a link", "🔑 Approve it on its page, with your passkey.", channels.Maker{Link: link, Page: page}},
		{"on this machine", "🔑 Approve it on its page, with your passkey: http://localhost:8787/r/" + r.ID, channels.Maker{Page: page}},
		{"with neither", "🔑 Approve it on its page, with your passkey.", channels.Maker{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := c.maker.Card(approval.Delivery{Notification: approval.Notification{Kind: approval.KindRequest},
				Requests: []approval.Request{r}}).Items[0]
			if n := len(i.Notices); !i.StepUp || n != 1 || i.Notices[0].Text != c.text {
				t.Errorf("step up %t, %q", i.StepUp, i.Notices)
			}
		})
	}
	over := r
	over.Status = approval.Denied
	i := channels.Maker{}.Card(approval.Delivery{Notification: approval.Notification{Kind: approval.KindEdit},
		Requests: []approval.Request{over}}).Items[0]
	if i.StepUp || len(i.Notices) > 0 {
		t.Errorf("one that is over: step up %t, %q", i.StepUp, i.Notices)
	}
}
