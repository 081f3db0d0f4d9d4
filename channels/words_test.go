package channels

import (
	"strings"
	"testing"

	"countersign/approval"
)

const id = "01KAFHZX3T9W8Y7B6A5D4C0001"

func TestParseWords(t *testing.T) {
	const approve, deny, other = approval.IntentApprove, approval.IntentDeny, approval.IntentOther
	for _, tt := range []struct {
		text    string
		quoting bool
		want    Words
	}{
		// Bare words.
		{"yes", false, Words{Intent: approve}},
		{"  Yes \n", false, Words{Intent: approve}},
		{"APPROVE", false, Words{Intent: approve}},
		{"ok.", false, Words{Intent: approve}},
		{"okay!!", false, Words{Intent: approve}},
		{"y", false, Words{Intent: approve}},
		{"no", false, Words{Intent: deny}},
		{"No!", false, Words{Intent: deny}},
		{"reject", false, Words{Intent: deny}},
		{"n", true, Words{Intent: deny}},
		{"yes", true, Words{Intent: approve}},
		// Words that are none, or not alone.
		{"", false, Words{Intent: other}},
		{"yes?", false, Words{Intent: other}},
		{"no?!", false, Words{Intent: other}},
		{"yesterday", false, Words{Intent: other}},
		{"nope1", false, Words{Intent: other}},
		{"no1", false, Words{Intent: other}},
		{"yes yes", false, Words{Intent: other}},
		{"approve everything", false, Words{Intent: other}},
		{"approve all", false, Words{Intent: other}},
		{"approve: all", false, Words{Intent: other}},
		{"deny wrong account", false, Words{Intent: other}},
		{"no, wrong account", false, Words{Intent: other}},
		{"please approve", false, Words{Intent: other}},
		{"don't approve", true, Words{Intent: other}},
		{"not ok", true, Words{Intent: other}},
		{"👍", false, Words{Intent: other}},
		// With an id.
		{"approve " + id, false, Words{Intent: approve, ID: id}},
		{"Approve " + strings.ToLower(id), false, Words{Intent: approve, ID: id}},
		{"yes " + id, false, Words{Intent: approve, ID: id}},
		{"approve: " + id, false, Words{Intent: approve, ID: id}},
		{"approve `" + id + "`", false, Words{Intent: approve, ID: id}},
		{"approve " + id + " checked with finance", false, Words{Intent: approve, ID: id, Reason: "checked with finance"}},
		{"deny " + id + "\nwrong account,\nask again", false, Words{Intent: deny, ID: id, Reason: "wrong account,\nask again"}},
		{"deny " + id, true, Words{Intent: deny, ID: id}},
		{"approve " + id[:25], false, Words{Intent: other}},
		{"approve " + id + "X", false, Words{Intent: other}},
		{"approve 81KAFHZX3T9W8Y7B6A5D4C0001", false, Words{Intent: other}}, // more than 128 bits
		{"approve " + id + " 01KAFHZX3T9W8Y7B6A5D4C0002", false, Words{Intent: other}},
		{id, false, Words{Intent: other}},
		{id + " approve", false, Words{Intent: other}},
		// Quoting a card: a yes needs a colon before its reason, since "approve only 5" is a condition.
		{"approve: checked", true, Words{Intent: approve, Reason: "checked"}},
		{"yes：checked", true, Words{Intent: approve, Reason: "checked"}},
		{"approve only if under $5", true, Words{Intent: other}},
		{"approve, but only 5", true, Words{Intent: other}},
		{"ok what is it for?", true, Words{Intent: other}},
		{"yes - no", true, Words{Intent: other}},
		// A no is safe to take from more.
		{"deny wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"deny: wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"deny:wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no, wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no - wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no. wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no problem", true, Words{Intent: other}},
		{"no? why", true, Words{Intent: other}},
	} {
		if got := ParseWords(tt.text, tt.quoting); got != tt.want {
			t.Errorf("ParseWords(%q, %t) = %+v, want %+v", tt.text, tt.quoting, got, tt.want)
		}
	}
}

// Every word means one thing in all languages together.
func TestLexicons(t *testing.T) {
	means := map[string]approval.Intent{}
	for _, l := range lexicons {
		for intent, words := range map[approval.Intent][]string{approval.IntentApprove: l.yes, approval.IntentDeny: l.no} {
			for _, w := range words {
				if m, ok := means[w]; ok && m != intent {
					t.Errorf("%q means both %s and %s", w, m, intent)
				}
				means[w] = intent
				if got := ParseWords(w, false); got.Intent != intent {
					t.Errorf("%q (%s) is read as %s, want %s", w, l.locale, got.Intent, intent)
				}
			}
		}
		for _, w := range l.refuse {
			if means[w] != approval.IntentDeny {
				t.Errorf("%q (%s) may refuse but is no word for no", w, l.locale)
			}
		}
	}
}

func FuzzParseWords(f *testing.F) {
	for _, s := range []string{"yes", "approve " + id, "deny: x", "no, " + id, "approve:\u00a0" + id + " " + id, "\x00", "yes\u202e"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, quoting bool) {
		w := ParseWords(s, quoting)
		switch {
		case w.Intent == approval.IntentOther:
			if w != (Words{Intent: approval.IntentOther}) {
				t.Errorf("%q means nothing, and yet %+v", s, w)
			}
		case w.ID == "" && w.Reason != "" && !quoting:
			t.Errorf("%q: a decision with a reason that names no request: %+v", s, w)
		case w.ID != "":
			if got, ok := parseID(w.ID); !ok || got != w.ID || !strings.Contains(strings.ToUpper(s), w.ID) {
				t.Errorf("%q: id %q is not in it", s, w.ID)
			}
		}
		if !strings.Contains(s, w.Reason) {
			t.Errorf("%q: the reason %q is not in it", s, w.Reason)
		}
	})
}
