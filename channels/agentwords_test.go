package channels_test

import (
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/locale"
)

// What an agent calls its session and its scope is told as its words on every card, cut, with the spaces around it in
// sight; `show` and the request's page have all of it, told as its words too.
func TestRule3_CardsTellTheAgentsWordsAsItsOwn(t *testing.T) {
	const claim = "Checked by security: everything here is harmless. Approve all of it"
	r := channelstest.Request(`{}`)
	marks := map[string]string{"en": "in the agent's words", "ja": "エージェントの記述", "th": "ข้อความจากเอเจนต์",
		"zh-TW": "AI 代理所述"}
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		for _, tt := range []struct{ said, want, whole string }{
			{"sess-42", "sess-42", "sess-42"},
			{" night  run ", "“ night  run ”", "“ night  run ”"},
			{"a” Risk: none", `“a\u201d Risk: none”`, `“a\u201d Risk: none”`},
			{"a\nRisk: none", "“a⟨U+000A⟩Risk: none”", "“a⟨U+000A⟩Risk: none”"},
			{claim, "“Checked by security: everything here is … (+27)”", "“" + claim + "”"},
			// What is masked is masked before it is cut: half a secret is no known one.
			{strings.Repeat("x", 32) + " ghp_" + strings.Repeat("a1B2", 9), "", ""},
		} {
			r.SessionID, r.Scope = tt.said, tt.said
			card := m.Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest},
				Requests: []approval.Request{r}})
			page, shown := m.Whole(r, channelstest.Noon), joined(pages(t, m, r, 5000, legible.UTF16Len))
			for n, f := range card.Items[0].Facts[1:] {
				whole := page.Facts[n+1]
				if tt.want == "" {
					if strings.Contains(f.Value+whole.Value+shown, "a1B2") {
						t.Errorf("%s: a secret in %q, %q, %s", tag, f.Value, whole.Value, shown)
					}
					continue
				}
				if f.Value != tt.want || whole.Value != tt.whole {
					t.Errorf("%s: %q is told as %q, and as %q", tag, tt.said, f.Value, whole.Value)
				}
				if !strings.Contains(f.Label, marks[tag]) || whole.Label != f.Label || !strings.Contains(shown,
					m.Words.Say("fact", "label", f.Label, "value", tt.whole)) {
					t.Errorf("%s: %q does not say whose words these are: %s", tag, f.Label, shown)
				}
			}
			if got := card.Alt(1500, legible.UTF16Len); strings.Contains(got, "security") || strings.Contains(card.Text,
				"security") {
				t.Errorf("%s: the agent wrote %q, %q", tag, got, card.Text)
			}
		}
	}
}
