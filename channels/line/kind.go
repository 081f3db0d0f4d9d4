package line

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"countersign/channels/kind"
	"countersign/webhook"
)

var userID = regexp.MustCompile(`^U[0-9a-f]{32}$`)

// Kind is LINE as a kind of channel.
func Kind() kind.Kind {
	return kind.Kind{
		Name: Name, Title: "LINE", Type: (*Channel)(nil),
		Section: func() kind.Section { return new(Config) },
		Address: kind.AddressForm{Check: checkAddress, What: "LINE user id", How: "line: U…", Own: "LINE id"},
		Inbound: newInbound,
	}
}

func checkAddress(address string) error {
	if !userID.MatchString(address) {
		return errors.New("a LINE user id is U and 32 of the characters 0-9 a-f (not the LINE ID that people search for); " +
			"the bot's greeting says it to whoever adds the bot")
	}
	return nil
}

// newInbound makes what takes LINE's webhooks, with the secrets and for the bot that are in force.
func newInbound(o webhook.Options, now kind.Current) http.Handler {
	return &inbound{
		Inbound: webhook.NewInbound(Name, o),
		secrets: func() []string {
			if c, _ := now.Channel(); c != nil {
				return c.(*Config).ChannelSecret.Reveal()
			}
			return nil
		},
		bot: func(ctx context.Context) string {
			if _, ch := now.Channel(); ch != nil {
				return ch.(*Channel).AwaitBotUserID(ctx)
			}
			return ""
		},
	}
}
