package channels_test

import (
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/summary"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/locale"
)

// said is all that a card says of its one request.
func said(c channels.Card) string {
	i := c.Items[0]
	all := []string{c.Alt(1000, legible.UTF16Len), i.Summary, i.Why}
	for _, r := range i.Rows {
		all = append(all, r.Value)
	}
	return strings.Join(all, "\n")
}

func TestAMaskedValueIsMarkedInTheReadersLanguage(t *testing.T) {
	const stored = "•••• (14 characters, sha256 76880d60)"
	for tag, mark := range map[string]string{
		"en": stored, "th": "•••• (14 ตัวอักษร, sha256 76880d60)", "ja": "••••（14文字、sha256 76880d60）",
		"zh-TW": "••••（14 個字元，sha256 76880d60）",
	} {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		r := channelstest.Request(`{"password":"hunter2hunter2","run":"login --token hunter2hunter2"}`)
		r.HumanMessage = "Logs in with “" + stored + "”"
		r.Sentences = &summary.Sentences{Summary: summary.Wording{"": "Log in with “" + stored + "”", "ja": "「" + stored +
			"」でログイン"}}
		d := channels.Delivery{Requests: []approval.Request{r}}
		sentence, _ := m.Sentence(r)
		for name, got := range map[string]string{
			"card": said(m.Card(d)), "summary": m.Summary(r), "why": m.Why(r), "asked once more": sentence,
		} {
			if !strings.Contains(got, mark) || tag != "en" && strings.Contains(got, "14 characters") {
				t.Errorf("%s, %s:\n%s", tag, name, got)
			}
		}
	}
}

// What the call itself brings stays as it is: it must not pass for a mark of ours, nor one of ours for it.
func TestAnImitatedMarkStaysAsItIs(t *testing.T) {
	const imitated = "•••• (14 characters, sha256 76880d60)"
	m := channelstest.Maker()
	m.Words = locale.Get("ja")
	for _, args := range []string{
		`{"note":"` + imitated + `","password":"hunter2hunter2"}`, `{"` + imitated + `":1,"password":"hunter2hunter2"}`,
	} {
		r := channelstest.Request(args)
		r.HumanMessage = "Says “" + imitated + "”"
		if got := m.Why(r); got != r.HumanMessage {
			t.Errorf("%s: %q", args, got)
		}
	}
	r := channelstest.Request(`{"password":"hunter2hunter2"}`)
	r.Tool, r.HumanMessage = imitated, "Runs “"+imitated+"”"
	if got := m.Why(r); got != r.HumanMessage {
		t.Errorf("a tool's name: %q", got)
	}
	r = channelstest.Request(`{"password":"another secret"}`)
	r.HumanMessage = "Says “" + imitated + "”"
	if got := m.Why(r); got != r.HumanMessage {
		t.Errorf("another secret's mark: %q", got)
	}
}
