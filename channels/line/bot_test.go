package line

import (
	"testing"

	"countersign/channels"
)

func TestBot(t *testing.T) {
	const info = "/v2/bot/info"
	for _, tt := range []struct {
		body, basicID, name, friend string
	}{
		{`{"userId":"` + hana + `","basicId":"@216ru","displayName":"Gate","chatMode":"bot"}`, "@216ru", "Gate",
			"https://line.me/R/ti/p/%40216ru"},
		{`{"userId":"` + hana + `"}`, "", "", ""},
		{`{"userId":"` + hana + `","basicId":"@x/../y?z","displayName":"a\u202eb"}`, "@x/../y?z", "a⟨U+202E⟩b", ""},
		{`{"userId":"` + hana + `","basicId":"@"}`, "@", "", ""},
	} {
		ch, _ := account(t, map[string]string{info: tt.body})
		bot, err := ch.Bot(t.Context())
		if err != nil || bot != (Bot{UserID: hana, BasicID: tt.basicID, Name: tt.name}) || bot.FriendURL() != tt.friend {
			t.Errorf("%s: %+v, add it at %q, error %v", tt.body, bot, bot.FriendURL(), err)
		}
		if ch.BotUserID() != hana {
			t.Errorf("%s: webhooks for %q would be taken", tt.body, ch.BotUserID())
		}
	}
	for name, body := range hostile {
		ch, _ := account(t, map[string]string{info: body})
		if _, err := ch.Bot(t.Context()); channels.AsPushError(err).Reason != channels.ReasonBrokenAnswer ||
			ch.BotUserID() != "" {
			t.Errorf("%s: error %v, the bot is %q", name, err, ch.BotUserID())
		}
	}
}
