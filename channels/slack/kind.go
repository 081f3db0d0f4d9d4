package slack

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"countersign/channels/kind"
	"countersign/webhook"
)

// Kind is Slack as a kind of channel.
func Kind() kind.Kind {
	return kind.Kind{
		Name: Name, Title: "Slack", Type: (*Channel)(nil),
		Section: func() kind.Section { return new(Config) },
		Address: kind.AddressForm{Check: checkAddress, What: "Slack user id", How: "slack: U…", Own: "Slack id",
			User: userOf},
		Inbound: func(o webhook.Options, now kind.Current) http.Handler { return newInbound(o, now) },
	}
}

// memberID is what ids of people are made of. Their first letter is U or W, today.
var memberID = regexp.MustCompile(`^[A-Z][A-Z0-9]*$`)

func checkAddress(address string) error {
	const where = "; copy the person's member id, such as U02HANA: their profile, ⋮, Copy member ID"
	switch {
	case !memberID.MatchString(address):
		return errors.New("a Slack user id is of the characters A-Z 0-9, and no name" + where)
	case strings.ContainsAny(address[:1], "ABCDEGST"):
		return errors.New("this is " + other(address) + " in Slack, and nobody's user id" + where)
	}
	return nil
}

// userOf returns whom a recipient is for: a person in a channel, whom alone it is shown to, or all of it.
func userOf(recipient string) string {
	if _, user, ok := strings.Cut(recipient, "/"); ok {
		return user
	}
	return recipient
}

// current is what is in force.
type current struct{ kind.Current }

// get returns the section and the channel, nil while Slack is not configured.
func (c current) get() (*Config, *Channel) {
	section, ch := c.Channel()
	if section == nil {
		return nil, nil
	}
	return section.(*Config), ch.(*Channel)
}

// secrets are the signing secrets in force, several while one is being replaced.
func (c current) secrets() []string {
	if cfg, _ := c.get(); cfg != nil {
		return cfg.SigningSecret.Reveal()
	}
	return nil
}

func (c current) appToken() string {
	if cfg, _ := c.get(); cfg != nil {
		return cfg.AppToken.Reveal()
	}
	return ""
}

func (c current) api() string {
	if cfg, _ := c.get(); cfg != nil && cfg.APIURL != "" {
		return cfg.APIURL
	}
	return DefaultAPIURL
}

// identify says who we are to Slack, and which app taps must come from ("": any). It waits for Slack to say so until
// ctx ends; where Slack has not by then, ok is false and taps are answered with 503.
func (c current) identify(ctx context.Context) (id Identity, app string, ok bool) {
	cfg, ch := c.get()
	if ch == nil {
		return Identity{}, "", false
	}
	id, ok = ch.AwaitIdentity(ctx)
	return id, cfg.AppID, ok
}
