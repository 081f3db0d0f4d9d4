package setup

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign/channels"
	"countersign/channels/line"
	"countersign/internal/config"
)

const lineConsole = "LINE Developers console, Messaging API tab"

// lineToken says what to do about a token that LINE does not take.
var lineToken = map[string]string{
	channels.ReasonBadToken: "issue a channel access token in the " + lineConsole +
		", and put it into channels.line.channel_access_token",
	channels.ReasonForbidden: "look at the account's plan, and at the IP addresses that the channel's Security tab allows",
}

func (i *inspection) line(ctx context.Context) error {
	c, ok := i.cfg.Channels[line.Name].(*line.Config)
	if !ok {
		return nil
	}
	ch, err := line.New(*c)
	if err != nil {
		return err
	}
	defer ch.Close()
	i.doing("LINE: who the bot is")
	bot, err := ch.Bot(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		i.reportFailure(line.Name, "LINE does not say who the bot is", err, lineToken)
		return nil // without the token nothing else can be asked
	}
	name := strings.TrimSpace(bot.Name + " " + bot.BasicID)
	i.ok(line.Name, fmt.Sprintf("the channel access token works; the bot is %s", cmp.Or(name, bot.UserID)))
	for _, look := range []func(context.Context, *line.Channel, line.Bot){i.lineWebhook, i.lineQuota, i.linePeople} {
		look(ctx, ch, bot)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// lineWebhook looks whether taps find their way here.
func (i *inspection) lineWebhook(ctx context.Context, ch *line.Channel, _ line.Bot) {
	want := hookURL(i.cfg, line.Name)
	enter := "enter " + want + " as the Webhook URL in the " + lineConsole
	if want == "" {
		enter = "set public_url to the address under which this gate's webhooks are reached from outside, and enter it " +
			"with /webhook/line behind it as the Webhook URL in the " + lineConsole
	}
	i.doing("LINE: where taps are sent to")
	at, active, err := ch.Webhook(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		i.reportFailure(line.Name, "LINE does not say where it sends taps", err, lineToken)
		return
	case at == "":
		i.problem(line.Name, "no webhook address is set, so no tap arrives", enter)
		return
	case want == "":
		i.warning(line.Name, fmt.Sprintf("LINE sends taps to %s, and public_url is not set, so it cannot be compared",
			plainURL(at)), enter)
	case !sameURL(at, want):
		i.problem(line.Name, fmt.Sprintf("LINE sends taps to %s, and not to %s", plainURL(at), plainURL(want)), enter)
	default:
		i.ok(line.Name, "LINE sends taps to "+plainURL(at))
	}
	if !active {
		i.problem(line.Name, "\"Use webhook\" is off, so no tap arrives", "switch it on in the "+lineConsole+
			", and Webhook redelivery below it too")
	}
	i.doing("LINE: its own test of the webhook address")
	success, status, reason, err := ch.TestWebhook(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		i.reportFailure(line.Name, "LINE did not test the webhook address", err, lineToken)
	case success:
		i.ok(line.Name, "LINE's own test of the webhook address succeeded, and the channel secret is right")
	default:
		i.problem(line.Name, fmt.Sprintf("LINE's own test of the webhook address failed: %s (HTTP status %d)",
			cmp.Or(reason, "no reason given"), max(status, 0)), lineTestAdvice(status))
	}
}

// lineTestAdvice says what to do when LINE's test got this status, or none.
func lineTestAdvice(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "the gate does not accept LINE's signature: copy the channel secret from the Basic settings tab into " +
			"channels.line.channel_secret"
	case status == http.StatusNotFound:
		return "something else answers there, or a gate without channels.line: point the address at the gate's " +
			"webhook_listen (or listen), path and all"
	case status == http.StatusServiceUnavailable, status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return "the tunnel or proxy is up and the gate behind it is not ready: start countersign serve, look at its " +
			"/readyz, and try again"
	case status > 0:
		return "something other than the gate answers there: point the address at the gate's webhook_listen (or listen)"
	}
	return "the test needs the gate to be running: start countersign serve and the tunnel or proxy before it, whose " +
		"certificate must be of a public authority, and try again"
}

// lineQuota looks how much of the month is left.
func (i *inspection) lineQuota(ctx context.Context, ch *line.Channel, _ line.Bot) {
	i.doing("LINE: the month's messages")
	limit, limited, used, err := ch.AskQuota(ctx)
	const do = "take a larger plan in the LINE Official Account Manager, or give people a second channel " +
		"(people[].channels)"
	switch {
	case ctx.Err() != nil:
	case err != nil:
		i.reportFailure(line.Name, "LINE does not say how many messages are left", err, lineToken)
	case !limited:
		i.ok(line.Name, fmt.Sprintf("the account has no limit of messages a month (%d used)", used))
	case used >= limit:
		i.problem(line.Name, fmt.Sprintf("the month's messages are used up (%d of %d): no card goes out before the month "+
			"turns", used, limit), do)
	case used*5 >= limit*4:
		i.warning(line.Name, fmt.Sprintf("the month's messages are running out (%d of %d used)", used, limit), do)
	default:
		i.ok(line.Name, fmt.Sprintf("%d of the month's %d messages are used", used, limit))
	}
}

// linePeople looks whether those who are to get cards are friends of the bot.
func (i *inspection) linePeople(ctx context.Context, ch *line.Channel, bot line.Bot) {
	var told []string // LINE user ids that cards go to
	for _, r := range append(i.cfg.Routes(), i.cfg.AdminRoutes()...) {
		for _, a := range r {
			if a.Channel == line.Name {
				told = append(told, a.To)
			}
		}
	}
	add := "add the bot as a friend"
	if u := bot.FriendURL(); u != "" {
		add += " with " + u
	}
	for _, p := range i.cfg.File.People {
		id := p.Addresses[line.Name].Reveal()
		if id == "" {
			continue
		}
		i.doing("LINE: whether " + p.Name + " is a friend of the bot")
		name, _, err := ch.Profile(ctx, id)
		if ctx.Err() != nil {
			return
		}
		stranger := err != nil && channels.AsPushError(err).Reason == channels.ReasonBadRecipient
		do := fmt.Sprintf("let %s %s, and unblock it; the id in line: must be of this channel's provider (the bot's "+
			"greeting says it)", p.Name, add)
		switch {
		case err == nil:
			i.ok(line.Name, fmt.Sprintf("%s is a friend of the bot, as %q", p.Name, name))
		case stranger && slices.Contains(told, id):
			i.problem(line.Name, fmt.Sprintf("%s is not a friend of the bot, so LINE drops their cards", p.Name), do)
		case stranger:
			i.warning(line.Name, fmt.Sprintf("%s is not a friend of the bot", p.Name), do)
		default:
			i.reportFailure(line.Name, "LINE does not say whether "+p.Name+" is a friend of the bot", err, lineToken)
		}
	}
	if !slices.ContainsFunc(i.cfg.File.People,
		func(p config.Person) bool { return p.Addresses[line.Name].Reveal() != "" }) {
		i.warning(line.Name, "nobody in people has a LINE user ID", "let them "+add+
			": the bot's greeting says the id to put into line: of that person")
	}
}
