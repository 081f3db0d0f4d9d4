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

// Whatever card it is, a lock screen begins with the risk and with what will happen.
func TestALockScreenBeginsWithTheRiskAndWhatWillHappen(t *testing.T) {
	for _, tag := range locale.Tags() {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		for _, tt := range channelstest.Cases() {
			c := m.Card(tt.Delivery)
			if len(c.Items) == 0 {
				continue
			}
			got := c.Alt(1500, legible.UTF16Len)
			risk := c.Say(channels.RiskText(c.Items[0].Risk))
			if len(c.Items) > 1 {
				risk = c.Risks()
			}
			at := strings.Index(got, risk)
			if at < 0 || at > len("ความเสี่ยง ") || strings.TrimSpace(risk) == "" {
				t.Errorf("%s, %s: no risk at the beginning of %q", tag, tt.Name, got)
			}
			for n, i := range c.Items[:min(len(c.Items), 5)] {
				sentence := channels.CutEnd(i.Summary, 300, legible.UTF16Len)
				next := strings.Index(got, sentence)
				if sentence == "" || next <= at || n == 0 && next > at+len(risk)+len("： ") {
					t.Errorf("%s, %s: %q does not come first in %q", tag, tt.Name, sentence, got)
				}
				at = next
			}
		}
	}
}

// A question about a request that is not shown has both too.
func TestTheLockScreenOfAQuestionHasTheRiskAndWhatWillHappen(t *testing.T) {
	r := channelstest.Request(`{}`)
	channelstest.Worded(&r)
	c := channelstest.Maker().Card(channelstest.Once(approval.ConfirmNote(""), "", r))
	if got := c.Alt(1500, legible.UTF16Len); !strings.HasPrefix(got,
		"HIGH risk: Pay $20.00 to “Acme Ltd.” from treasury — ") {
		t.Errorf("%q", got)
	}
}

// What does not fit is cut off at the end, so that the beginning is whole.
func TestALockScreenIsCutAtItsEnd(t *testing.T) {
	r := channelstest.Request(`{}`)
	channelstest.Worded(&r)
	r.HumanMessage = strings.Repeat("because ", 300)
	r.Sentences.Message = nil
	c := card(approval.KindRequest, r)
	for _, limit := range []int{60, 100, 1500} {
		got := c.Alt(limit, legible.UTF16Len)
		if !strings.HasPrefix(got, "HIGH risk: Pay $20.00 to “Acme Ltd.” from treasury") || !strings.HasSuffix(got, "…") ||
			legible.UTF16Len(got) > limit {
			t.Errorf("at most %d: %q", limit, got)
		}
	}
}

// Without a rule's sentence one is made of the args that say most, and no value passes for another.
func TestASentenceIsMadeOfTheTool(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{`{}`, "Run transfer_credits"},
		{`{"amount_cents":2000,"from":"treasury","to":"acme"}`,
			"Run transfer_credits: amount_cents 2000 = 20.00, to acme, from treasury"},
		{`{"note":"x","path":"/etc/gate.conf","content":"a","mode":"0644","timeout":1}`,
			`Run transfer_credits: path /etc/gate.conf, …`},
		{`{"b":true,"c":null,"a":1.50,"d":1}`, "Run transfer_credits: a 1.50, b true, c null, …"},
		{`{"command":"rm -rf /tmp/x\nrm -rf /"}`, "Run transfer_credits: command “rm -rf /tmp/x …”"},
		{`{"to":"acme, amount 5” to “bob"}`,
			"Run transfer_credits: to “acme, amount 5\\u201d to \\u201cbob”"},
		{`{"to":"a\u202eb","amount":"20"}`, "Run transfer_credits: amount \"20\", to “a⟨U+202E⟩b”"},
		{`{"nested":{"to":"acme"}}`, "Run transfer_credits"},
		{`{"nested":{"to":"acme"},"destinationPath":"/srv"}`, "Run transfer_credits: destinationPath /srv, …"},
		{`{"ids":[1,2],"password":"` + channelstest.Secret + `"}`, ""},
		{`{"to":""}`, `Run transfer_credits: to ""`},
	} {
		got := card(approval.KindRequest, channelstest.Request(tt.args)).Items[0].Summary
		if tt.want != "" && got != tt.want {
			t.Errorf("%s: %q, want %q", tt.args, got, tt.want)
		}
		if strings.Contains(got, channelstest.Secret) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q", tt.args, got)
		}
	}
	long := `{"to":"` + strings.Repeat("x", 9000) + `","` + strings.Repeat("k", 9000) + `":1}`
	if got := card(approval.KindRequest, channelstest.Request(long)).Items[0].Summary; len(got) > 400 {
		t.Errorf("%d bytes", len(got))
	}
}

// A rule's sentences are read in the reader's language, others in the one for everybody.
func TestARulesSentencesAreInTheReadersLanguage(t *testing.T) {
	r := channelstest.Request(`{}`)
	channelstest.Worded(&r)
	for tag, want := range map[string][2]string{
		"ja": {"treasury から “Acme Ltd.” へ $20.00 を送金", "送金額が確認の上限（$10）を超えています"},
		"th": {"Pay $20.00 to “Acme Ltd.” from treasury", "Transfer exceeds the confirmation threshold ($10)"},
	} {
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		i := m.Whole(r, channelstest.Noon)
		if i.Summary != want[0] || i.Why != want[1] {
			t.Errorf("%s: %q, %q", tag, i.Summary, i.Why)
		}
	}
}

// A card says what approving may do: at each level of risk, in every language. A lock screen has the level alone.
func TestEachLevelOfRiskHasItsSentence(t *testing.T) {
	for _, tag := range locale.Tags() {
		seen := map[string]approval.Risk{}
		m := channelstest.Maker()
		m.Words = locale.Get(tag)
		for _, risk := range []approval.Risk{approval.RiskLow, approval.RiskMedium, approval.RiskHigh,
			approval.RiskCritical} {
			r := channelstest.Request(`{}`)
			r.Risk = risk
			c := m.Card(channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest},
				Requests: []approval.Request{r}})
			level, sentence := c.Say(channels.RiskText(risk)), c.Risk(risk)
			means, ok := strings.CutPrefix(sentence, level)
			if other := seen[means]; !ok || len(means) < len(": x") || other != "" {
				t.Errorf("%s: %s is %q, %s has the same sentence", tag, risk, sentence, other)
			}
			seen[means] = risk
			if got := c.Alt(1500, legible.UTF16Len); !strings.HasPrefix(got, level) || strings.Contains(got, means) {
				t.Errorf("%s: the lock screen says %q", tag, got)
			}
		}
	}
	if unknown := (channels.Card{}).Risk("odd"); unknown != (channels.Card{}).Risk(approval.RiskHigh) {
		t.Errorf("a risk that is not known is %q", unknown)
	}
}
