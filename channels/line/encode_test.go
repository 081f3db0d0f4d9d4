package line

import (
	"encoding/json"
	"testing"

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
