package channels_test

import (
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/locale"
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
		{"on this machine", "🔑 Approve it on its page, with your passkey: http://localhost:8787/r/" + r.ID,
			channels.Maker{Page: page}},
		{"with neither", "🔑 Approve it on its page, with your passkey.", channels.Maker{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := c.maker.Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest},
				Requests: []approval.Request{r}}).Items[0]
			if n := len(i.Notices); !i.StepUp || n != 1 || i.Notices[0].Text != c.text {
				t.Errorf("step up %t, %+v", i.StepUp, i.Notices)
			}
		})
	}
	over := r
	over.Status = approval.Denied
	i := channels.Maker{}.Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindEdit},
		Requests: []approval.Request{over}}).Items[0]
	if i.StepUp || len(i.Notices) > 0 {
		t.Errorf("one that is over: step up %t, %+v", i.StepUp, i.Notices)
	}
}

// What differs in two calls' args is told whole, by member; what is masked is compared as it is shown.
func TestTheDifferenceOfTwoCallsArgs(t *testing.T) {
	m := channels.Maker{Masker: redact.New(), Words: locale.Get("en")}
	long := strings.Repeat("x", 5000)
	for _, test := range []struct{ was, now, want string }{
		{`{"a":1}`, `{"a":1}`, ""},
		{`{"a":1,"b":{"c":[1]},"d":2}`, `{"a":1,"b":{"c":[2]},"e":null}`, `- b: {"c":[1]}|+ b: {"c":[2]}|+ e: null|- d: 2`},
		{`{"a":"` + long + `1"}`, `{"a":"` + long + `2"}`, `- a: "` + long + `1"|+ a: "` + long + `2"`},
		{`{}`, "{\"x: 1\\n- y\":\"\u202e\"}", `+ "x: 1\n- y": "⟨U+202E⟩"`},
		{`{"api_key":"sk_live_0123456789abcdef"}`, `{"api_key":"sk_live_0123456789abcdeg"}`,
			`- api_key: "•••• (24 characters, sha256 342e20de)"|+ api_key: "•••• (24 characters, sha256 c7526fca)"`},
		{`{"a":1}`, `{"a":1.0}`, `- a: 1|+ a: 1.0`},
	} {
		var got []string
		for _, l := range m.Difference([]byte(test.was), []byte(test.now)) {
			if sign := map[channels.DiffKind]string{channels.DiffAdded: "+ ",
				channels.DiffRemoved: "- "}[l.Kind]; !strings.HasPrefix(l.Text, sign) || sign == "" {
				t.Errorf("%s is %s", l.Text, l.Kind)
			}
			got = append(got, l.Text)
		}
		if s := strings.Join(got, "|"); s != test.want {
			t.Errorf("%.60s → %.60s: got %.200s, want %.200s", test.was, test.now, s, test.want)
		}
	}
}
