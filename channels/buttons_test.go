package channels

import (
	"errors"
	"strings"
	"testing"

	"countersign/chat"
)

const id = "01KAFHZX3T9W8Y7B6A5D4C0001"

func TestButtons(t *testing.T) {
	for _, b := range []Button{{chat.IntentApprove, id}, {chat.IntentDeny, id}} {
		want := "action=" + string(b.Intent) + "&id=" + id
		if got := b.Data(); got != want {
			t.Errorf("data %q, want %q", got, want)
		}
		if got, err := ParseButton(b.Data()); err != nil || got != b {
			t.Errorf("ParseButton(%q) = %+v, %v", b.Data(), got, err)
		}
	}
	for _, data := range []string{"id=" + id + "&action=approve", "action=approve&id=" + strings.ToLower(id)} {
		if got, err := ParseButton(data); err != nil || got != (Button{chat.IntentApprove, id}) {
			t.Errorf("ParseButton(%q) = %+v, %v", data, got, err)
		}
	}
	for _, data := range []string{
		"", "action=approve", "id=" + id, "action=approve&id=", "action=&id=" + id, "action=Approve&id=" + id, "action=other&id=" + id,
		"action=approve&id=" + id + "&id=" + id, "action=approve&action=approve&id=" + id, "action=deny&id=" + id + "&action=approve",
		"action=approve&id=" + id + "&x=1", "x=1&action=approve&id=" + id, "action=approve&id=" + id + "&x", "action=approve&id=" + id + "&=1", "action=approve&id=" + id + "&Id=" + id,
		"action=&action=approve&id=" + id, "action&action=approve&id=" + id, "action=approve&id=&id=" + id, "action=approve&id=" + id + "#x=1", "action=approve&id=" + id + "=",
		"action=approve&id=" + id + "&by=hana", "action=approve&id=" + id + "&", "action=approve;id=" + id, "action=approve&id=" + id[:25],
		"action=approve&id=" + id + "%20", "action=approve&id=+" + id, "action=approve&id=U1KAFHZX3T9W8Y7B6A5D4C0001", " action=approve&id=" + id,
		"action=%61pprove&id=" + id, "action=approve&id=81KAFHZX3T9W8Y7B6A5D4C0001",
	} {
		if got, err := ParseButton(data); !errors.Is(err, ErrButton) {
			t.Errorf("ParseButton(%q) = %+v, %v; want ErrButton", data, got, err)
		}
	}
}

func FuzzParseButton(f *testing.F) {
	for _, s := range []string{"action=approve&id=" + id, "id=" + id + "&action=deny", "action=approve&id=" + strings.ToLower(id), "&&", "action=approve&id=" + id + "&id=x", "action=&action=approve&id=" + id} {
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
		if got, err := ParseButton(b.Data()); err != nil || got != b {
			t.Errorf("%q: %+v does not come back from %q", data, b, b.Data())
		}
		if len(data) != len(b.Data()) {
			t.Errorf("%q holds more than %q", data, b.Data())
		}
	})
}
