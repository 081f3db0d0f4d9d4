package line

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"countersign/channels"
	"countersign/channels/channelstest"
)

// A string takes no more bytes than it is said to take.
func TestTextIsMeasuredAsEncodingJSONWritesIt(t *testing.T) {
	check := func(t rapid.TB, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := quotedSize(s); got < len(want) {
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

// Each try of a push or a reply is of the same bytes: those that were stored, in what the SDK makes of a request. A
// member that this version's structs do not know is sent too, so a try after an upgrade or the way back repeats the
// first.
func TestRule7_EachTrySendsTheSameBytes(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, sentBody) })
	ch := newChannel(t, p.URL)
	bodies := []channels.Body{
		channels.Body(`[{"of":{"tomorrow":[1.10,"\u003c\u2028"]},"type":"flex"},{"type":"text","text":"a"}]`)}
	for _, c := range channelstest.Cases() {
		if b, err := ch.Render(c.Card()); err == nil {
			bodies = append(bodies, b)
		}
	}
	for _, b := range bodies {
		for _, m := range []channels.Message{push(t), reply(t)} {
			m.Body = b
			before := len(p.calls())
			for range 2 {
				if _, err := ch.Send(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			calls := p.calls()[before:]
			if len(calls) != 2 || string(calls[0].body) != string(calls[1].body) {
				t.Fatalf("%d calls, of different bytes: %+v", len(calls), calls)
			}
			var got struct {
				Messages json.RawMessage `json:"messages"`
			}
			if err := json.Unmarshal(calls[0].body, &got); err != nil || string(got.Messages) != string(b) {
				t.Errorf("stored is %s, sent was %s, %v", b, got.Messages, err)
			}
		}
	}
}

// What was sent by hand by earlier versions is what the SDK sends: a try after the upgrade repeats theirs.
func TestRule7_ATryAfterTheUpgradeSendsTheSameBytes(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, sentBody) })
	ch := newChannel(t, p.URL)
	const messages = `[{"text":"a \u003c b","type":"text"}]`
	for _, m := range []channels.Message{push(t), reply(t)} {
		m.Body, m.Silent = channels.Body(messages), true
		if _, err := ch.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`{"to":"` + hana + `","notificationDisabled":true,"customAggregationUnits":null,"messages":` + messages + "}\n",
		`{"replyToken":"` + replyToken.Reveal() + `","notificationDisabled":false,"messages":` + messages + "}\n",
	}
	for i, c := range p.calls() {
		if string(c.body) != want[i] {
			t.Errorf("sent %s, want %s", c.body, want[i])
		}
	}
}

func TestTheCardIsFoundAmongMessages(t *testing.T) {
	for _, c := range []struct {
		body        string
		card, count int
	}{
		{body: `[]`},
		{body: `[{"text":"a","type":"text"}]`, count: 1},
		{body: `[{"text":"a","type":"text"},{"contents":{"type":"flex"},"type":"text"},{"type":"flex"},{"type":"flex"}]`,
			card: 2, count: 4},
		{body: ` [ { "type" : "flex" } ] `, count: 1},
		{body: `[{"type":"text"},{"type":"text"},{"type":"text"},{"type":"text"},{"type":"text"},{"type":"text"}]`},
		{body: `[{"type":"text"}`},
		{body: `[{"type":"text"},1]`},
		{body: `[{"type":"text"},null]`},
		{body: `[{"text":"a"}]`},
		{body: `[{"type":"text"}] []`},
		{body: `{"type":"flex"}`},
		{body: ``},
	} {
		got, err := readBody([]byte(c.body))
		if (err != nil) != (c.count == 0) || got.card != c.card || len(got.messages) != c.count {
			t.Errorf("%s: card %d of %d, error %v", c.body, got.card, len(got.messages), err)
		}
	}
}
