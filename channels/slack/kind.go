package slack

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"countersign/channels"
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
		Inbound: newInbound,
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

// userOf returns whom a recipient is for: somebody in a channel, whom alone it is shown to, or all of it.
func userOf(recipient string) string {
	if _, user, ok := strings.Cut(recipient, "/"); ok {
		return user
	}
	return recipient
}

// inbound takes what comes from Slack: over its webhook, and over a socket where there is an app-level token.
type inbound struct {
	*handler
	current current
	socket  *socket
}

var (
	_ kind.Runner           = (*inbound)(nil)
	_ kind.Closer           = (*inbound)(nil)
	_ channels.Reporter     = (*inbound)(nil)
	_ channels.Reconfigured = (*inbound)(nil)
)

func newInbound(o webhook.Options, now kind.Current) http.Handler {
	in := &inbound{current: current{now}}
	in.handler = newHandler(o, in.current.secrets, in.current.workspace)
	d := &dialogs{current: in.current, log: in.Logger, now: in.Now}
	in.dialogs, in.home = d, d.showHome
	in.socket = newSocket(socketOptions{Slack: in.handler, Token: in.current.appToken, API: in.current.api})
	return in
}

// Run keeps a socket to Slack open while there is an app-level token.
func (in *inbound) Run(ctx context.Context) { in.socket.Run(ctx) }

// Reconfigured has the socket look at its token again.
func (in *inbound) Reconfigured() { in.socket.Reconfigured() }

// Problems implements [channels.Reporter].
func (in *inbound) Problems() []string {
	if s := in.socket.State(); in.current.appToken() != "" && !s.Connected {
		return []string{"Slack's Socket Mode is not connected, so taps in Slack do not arrive: " +
			cmp.Or(s.LastError, "connecting")}
	}
	return nil
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

func (c current) workspace(ctx context.Context) (installation, bool) {
	cfg, ch := c.get()
	if ch == nil {
		return installation{}, false
	}
	id, ok := ch.AwaitIdentity(ctx)
	return installation{Team: id.TeamID, Enterprise: id.EnterpriseID, App: cfg.AppID, Bot: id.UserID}, ok
}
