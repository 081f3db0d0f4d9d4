package channels

import (
	"errors"
	"strings"
	"testing"

	"countersign/internal/chat"
)

const id = "01KAFHZX3T9W8Y7B6A5D4C0001"

func TestButtons(t *testing.T) {
	for _, b := range []Button{{Intent: chat.IntentApprove, ID: id}, {Intent: chat.IntentDeny, ID: id},
		{Intent: chat.IntentConfirm, ID: id},
		{Intent: chat.IntentBack, ID: id}, {Intent: chat.IntentExtend, ID: id}, {Intent: chat.IntentFreeze, ID: id}} {
		want := "action=" + string(b.Intent) + "&id=" + id
		if got := b.Data(); got != want {
			t.Errorf("data %q, want %q", got, want)
		}
		if got, err := ParseButton(b.Data()); err != nil || got != b {
			t.Errorf("ParseButton(%q) = %+v, %v", b.Data(), got, err)
		}
	}
	for _, data := range []string{"id=" + id + "&action=approve", "action=approve&id=" + strings.ToLower(id)} {
		if got, err := ParseButton(data); err != nil || got != (Button{Intent: chat.IntentApprove, ID: id}) {
			t.Errorf("ParseButton(%q) = %+v, %v", data, got, err)
		}
	}
	if got, err := ParseButton("action=back"); err != nil || got != (Button{Intent: chat.IntentBack}) {
		t.Errorf("a way back is %+v, %v", got, err)
	}
	if got, err := NewChoice("freeze:" + id); err != nil || got != (Button{Intent: chat.IntentFreeze, ID: id}) {
		t.Errorf("a choice is %+v, %v", got, err)
	}
	for _, data := range []string{
		"", "action=confirm", "action=pending&id=" + id, "action=approve", "id=" + id, "action=approve&id=", "action=&id=" +
			id, "action=Approve&id=" + id, "action=other&id=" + id,
		"action=approve&id=" + id + "&id=" + id, "action=approve&action=approve&id=" + id, "action=deny&id=" + id +
			"&action=approve",
		"action=approve&id=" + id + "&x=1", "x=1&action=approve&id=" + id, "action=approve&id=" + id + "&x",
		"action=approve&id=" + id + "&=1", "action=approve&id=" + id + "&Id=" + id,
		"action=&action=approve&id=" + id, "action&action=approve&id=" + id, "action=approve&id=&id=" + id,
		"action=approve&id=" + id + "#x=1", "action=approve&id=" + id + "=",
		"action=approve&id=" + id + "&by=hana", "action=approve&id=" + id + "&", "action=approve;id=" + id,
		"action=approve&id=" + id[:25],
		"action=approve&id=" + id + "%20", "action=approve&id=+" + id, "action=approve&id=U1KAFHZX3T9W8Y7B6A5D4C0001",
		" action=approve&id=" + id,
		"action=%61pprove&id=" + id, "action=approve&id=81KAFHZX3T9W8Y7B6A5D4C0001",
	} {
		if got, err := ParseButton(data); !errors.Is(err, ErrButton) {
			t.Errorf("ParseButton(%q) = %+v, %v; want ErrButton", data, got, err)
		}
	}
}

func TestAButtonForAllOfACardSaysWhatStandsOnIt(t *testing.T) {
	for data, want := range map[string]Button{
		"action=approve&id=" + id + "&v=1": {Intent: chat.IntentApprove, ID: id, Shows: chat.Shows{Version: 1}},
		"action=deny&id=" + id + "&v=9999&after=9998": {Intent: chat.IntentDeny, ID: id, Shows: chat.Shows{Version: 9999,
			After: 9998}},
		"action=grant&id=" + id + "&for=1h":      {Intent: chat.IntentGrant, ID: id, For: "1h"},
		"action=grant&id=" + id + "&for=8h":      {Intent: chat.IntentGrant, ID: id, For: "8h"},
		"action=grant&id=" + id + "&for=session": {Intent: chat.IntentGrant, ID: id, For: "session"},
		"action=grant&id=" + id + "&for=10":      {Intent: chat.IntentGrant, ID: id, For: "10"},
		"action=approve&id=" + id + "&v=12&after=3": {Intent: chat.IntentApprove, ID: id, Shows: chat.Shows{Version: 12,
			After: 3}},
		"action=approve&id=" + strings.ToUpper(id) + "": {Intent: chat.IntentApprove, ID: id},
	} {
		got, err := ParseButton(data)
		if err != nil || got != want || got.Data() != data {
			t.Errorf("ParseButton(%q) = %+v, %v", data, got, err)
		}
		if got, err := NewButton(string(want.Intent), want.Value()); err != nil || got != want {
			t.Errorf("NewButton(%q, %q) = %+v, %v", want.Intent, want.Value(), got, err)
		}
	}
	approve := "action=approve&id=" + id
	for _, data := range []string{
		approve + "&v=0", approve + "&v=01", approve + "&v=+1", approve + "&v=-1", approve + "&v=1.0", approve + "&v=10000",
		approve + "&v=1e1", approve + "&v= 1", approve + "&v=٣",
		approve + "&v=1&v=1", approve + "&v=1&v=2", approve + "&v=", approve + "&v", approve + "&V=1", approve + "&after=1",
		approve + "&v=2&after=2", approve + "&v=2&after=3",
		approve + "&v=2&after=0", approve + "&v=2&after=1&after=1", approve + "&for=1h", "action=confirm&id=" + id + "&v=1",
		"action=freeze&id=" + id + "&v=1", "action=back&v=1",
		"action=grant&id=" + id, "action=grant&id=" + id + "&for=2h", "action=grant&id=" + id + "&for=1H",
		"action=grant&id=" + id + "&for=24h", "action=grant&id=" + id + "&for=010",
		"action=grant&id=" + id + "&for=1h&for=8h", "action=grant&id=" + id + "&for=1h&v=1", "action=grant&for=1h",
	} {
		if got, err := ParseButton(data); !errors.Is(err, ErrButton) || got != (Button{}) {
			t.Errorf("ParseButton(%q) = %+v, %v; want ErrButton", data, got, err)
		}
	}
	for action, value := range map[string]string{"approve&v=1": id, "approve": id + "&v=1&action=deny", "deny": id +
		"&id=" + id, "grant": id} {
		if got, err := NewButton(action, value); !errors.Is(err, ErrButton) {
			t.Errorf("NewButton(%q, %q) = %+v, %v; want ErrButton", action, value, got, err)
		}
	}
}

func FuzzParseButton(f *testing.F) {
	for _, s := range []string{"action=approve&id=" + id, "id=" + id + "&action=deny", "action=approve&id=" +
		strings.ToLower(id), "&&", "action=approve&id=" + id + "&id=x", "action=&action=approve&id=" + id,
		"action=approve&id=" + id + "&v=3&after=1", "action=grant&id=" + id + "&for=session"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		b, err := ParseButton(data)
		if err != nil {
			if b != (Button{}) {
				t.Errorf("%q: a button beside an error", data)
			}
			return
		}
		if b == (Button{Intent: chat.IntentBack}) {
			return
		}
		if got, err := ParseButton(b.Data()); err != nil || got != b {
			t.Errorf("%q: %+v does not come back from %q", data, b, b.Data())
		}
		if len(data) != len(b.Data()) {
			t.Errorf("%q holds more than %q", data, b.Data())
		}
	})
}
