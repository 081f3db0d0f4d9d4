package line

import (
	"encoding/json"
	"strings"
	"testing"

	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
)

// What is stored and sent must be what the SDK would write, to the byte.
func TestMessagesAreWrittenAsTheSDKWritesThem(t *testing.T) {
	check := func(t rapid.TB, c channels.Card) {
		t.Helper()
		ms, err := messages(c)
		if err != nil {
			return
		}
		want, err := json.Marshal(ms)
		if err != nil {
			t.Fatal(err)
		}
		if got := encode(ms); string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for _, c := range channelstest.Cases() {
		t.Run(c.Name, func(t *testing.T) { check(t, c.Card()) })
	}
	rapid.Check(t, func(t *rapid.T) {
		c := channelstest.Maker().Card(channelstest.AnyDelivery(t))
		if c.Kind != approval.KindEdit {
			check(t, c)
		}
	})
}

func TestTextIsQuotedAsByEncodingJSON(t *testing.T) {
	check := func(t rapid.TB, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendQuoted(nil, s); string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
		if got := quoted(s); got < len(want) {
			t.Errorf("%q takes %d bytes, and is said to take %d", s, len(want), got)
		}
	}
	for r := range rune(0x3000) {
		check(t, "a"+string(r)+"b")
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.String().Draw(t, "text"))
		check(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
	})
}

func TestRequestsAreWrittenAsTheSDKWritesThem(t *testing.T) {
	for _, c := range channelstest.Cases() {
		ms, err := messages(c.Card())
		if err != nil {
			continue
		}
		for _, silent := range []bool{false, true} {
			want := asBySDK(t, &api.PushMessageRequest{To: hana, Messages: ms, NotificationDisabled: silent})
			if got := pushBody(hana, encode(ms), silent); string(got) != want {
				t.Errorf("%s: got %s, want %s", c.Name, got, want)
			}
		}
		want := asBySDK(t, &api.ReplyMessageRequest{ReplyToken: replyToken.Reveal(), Messages: ms})
		if got := replyBody(replyToken, encode(ms)); string(got) != want {
			t.Errorf("%s: got %s, want %s", c.Name, got, want)
		}
	}
}

func asBySDK(t *testing.T, request any) string {
	t.Helper()
	var b strings.Builder
	if err := json.NewEncoder(&b).Encode(request); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheCardIsFoundAmongMessages(t *testing.T) {
	for _, c := range []struct {
		body        string
		card, count int
		bad         bool
	}{
		{body: `[]`},
		{body: `[{"text":"a","type":"text"}]`, count: 1},
		{body: `[{"text":"a","type":"text"},{"contents":{"type":"flex"},"type":"text"},{"type":"flex"},{"type":"flex"}]`,
			card: 2, count: 4},
		{body: ` [ { "type" : "flex" } ] `, count: 1},
		{body: `[{"type":"text"}`, bad: true},
		{body: `[{"type":"text"},1]`, bad: true},
		{body: `[{"type":"text"}] []`, bad: true},
		{body: `{"type":"flex"}`, bad: true},
		{body: ``, bad: true},
	} {
		card, count, err := cardAmong([]byte(c.body))
		if (err != nil) != c.bad || err == nil && (card != c.card || count != c.count) {
			t.Errorf("%s: card %d of %d, error %v", c.body, card, count, err)
		}
	}
}
