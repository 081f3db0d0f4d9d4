package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign/channels"
	"countersign/channels/slack"
	"countersign/internal/config"
)

const slackApps = "https://api.slack.com/apps"

// scope is what a bot's token may do, and what the program does with it.
type scope struct {
	name string
	what string
	must bool // nothing works without it
}

// scopes are all that the program uses.
var scopes = []scope{
	{"chat:write", "cards, answers and edits", true},
	{"channels:read", "seeing whether a public channel is shared with outsiders, without which no card goes there", false},
	{"groups:read", "the same for a private channel", false},
	{"im:history", "words typed to the bot in its Messages tab", false},
	{"app_mentions:read", "words that begin with the bot's name, in a channel", false},
	{"commands", "the slash command /countersign", false},
}

var slackToken = map[string]string{
	channels.ReasonBadToken: "copy the Bot User OAuth Token (xoxb-…) from OAuth & Permissions of your app at " +
		slackApps + " into channels.slack.bot_token",
	channels.ReasonMissingScope: "add the scope under OAuth & Permissions, Bot Token Scopes, and install the app again",
}

func (i *inspection) slack(ctx context.Context) error {
	c, ok := i.cfg.Channels[slack.Name].(*slack.Config)
	if !ok {
		return nil
	}
	ch, err := slack.New(*c)
	if err != nil {
		return err
	}
	defer ch.Close()
	i.doing("Slack: who the bot is")
	granted, id, at, err := ch.Scopes(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		i.reportFailure(slack.Name, "Slack does not say who the bot is", err, slackToken)
	} else {
		i.ok(slack.Name, fmt.Sprintf("the bot token works, in the workspace %s (%s)", cmp.Or(at.Name, "without a name"),
			cmp.Or(id.TeamID, id.EnterpriseID)))
		private := i.slackChannel(ctx, ch, *c, granted)
		i.slackScopes(granted, private, c)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.AppToken != "" {
		i.slackSocket(ctx, *c)
	} else {
		i.slackAddress(ctx)
	}
	if !slices.ContainsFunc(i.cfg.File.People,
		func(p config.Person) bool { return p.Addresses[slack.Name].Reveal() != "" }) {
		i.warning(slack.Name, "nobody in people has a Slack member ID, so nobody can decide there",
			"add slack: U… to a person: their profile, ⋮, Copy member ID")
	}
	return ctx.Err()
}

// slackScopes tells what the token may not do. private says whether cards go to a private channel, nil
// that it is not known.
func (i *inspection) slackScopes(granted []string, private *bool, c *slack.Config) {
	if granted == nil {
		i.warning(slack.Name, "Slack does not say what the bot token may do",
			"compare OAuth & Permissions with docs/slack.md")
		return
	}
	missing := 0
	for _, s := range scopes {
		if slices.Contains(granted, s.name) || private != nil && (s.name == "groups:read" && !*private ||
			s.name == "channels:read" && *private) {
			continue // a channel is of one kind: the other's scope is not needed
		}
		missing++
		level := Warning
		if s.must || private != nil && (s.name == "channels:read" || s.name == "groups:read") && !c.AllowShared {
			level = Problem
		}
		i.report(slack.Name, level, fmt.Sprintf("the bot token lacks the scope %s, which is for %s", s.name, s.what),
			slackToken[channels.ReasonMissingScope])
	}
	if missing == 0 {
		i.ok(slack.Name, "the bot token has every scope that is used")
	}
}

// slackChannel looks whether cards can go where they are to, and tells whether that is a private channel.
func (i *inspection) slackChannel(ctx context.Context, ch *slack.Channel, c slack.Config,
	granted []string) (private *bool) {
	if c.Channel == "" {
		i.ok(slack.Name, "no channel is configured: cards go to people directly")
		return nil
	}
	if !strings.HasPrefix(c.Channel, "C") && !strings.HasPrefix(c.Channel, "G") {
		i.ok(slack.Name, fmt.Sprintf("cards go to the conversation %s, which nobody else can see", c.Channel))
		return nil
	}
	i.doing("Slack: the channel that cards go to")
	room, err := ch.Channel(ctx, c.Channel)
	if ctx.Err() != nil {
		return nil
	}
	invite := "invite the bot: type /invite and its name in the channel"
	if err != nil {
		i.reportFailure(slack.Name, "the channel "+c.Channel+" cannot be looked at", err, map[string]string{
			channels.ReasonBadRecipient: "look at channels.slack.channel (the id is at the bottom of the channel's details); " +
				"into a private channel, " + invite,
			channels.ReasonMissingScope: slackToken[channels.ReasonMissingScope],
		})
		return nil
	}
	name := c.Channel
	if room.Name != "" {
		name = "#" + room.Name
	}
	kind := "public"
	if room.Private {
		kind = "private"
	}
	good := true
	if room.Archived {
		good = false
		i.problem(slack.Name, name+" is archived, so no card can go there",
			"unarchive it, or name another channel in channels.slack.channel")
	}
	if !room.Member && !slices.Contains(granted, "chat:write.public") {
		good = false
		i.problem(slack.Name, "the bot is not in "+name+", so no card can go there", invite)
	}
	switch {
	case room.Shared && c.AllowShared:
		good = false
		i.warning(slack.Name, "people of other organisations see "+name+", and read the arguments of every call",
			"let cards go to a channel of your own")
	case room.Shared:
		good = false
		i.problem(slack.Name, "people of other organisations see "+name+", so no card goes there",
			"name a channel of your own in channels.slack.channel, or set allow_shared: true if they may read the arguments "+
				"of every call")
	}
	if good {
		i.ok(slack.Name, fmt.Sprintf("cards go to %s, a %s channel of your own, and the bot is in it", name, kind))
	}
	return &room.Private
}

// slackSocket looks whether Slack would open a connection. None is opened.
func (i *inspection) slackSocket(ctx context.Context, c slack.Config) {
	i.doing("Slack: whether Socket Mode can be used")
	code, err := i.connectionsOpen(ctx, c)
	another := "make an app-level token with the scope connections:write under Basic Information, App-Level Tokens, of " +
		"your app at " + slackApps + ", and put it into channels.slack.app_token"
	switch {
	case ctx.Err() != nil:
	case err != nil:
		i.problem(slack.Name, "Slack does not say whether Socket Mode can be used: "+err.Error(),
			"check this machine's network connection, and try again")
	case code == "":
		i.ok(slack.Name, "the app-level token works: taps come over Socket Mode, and no address has to be public for Slack")
	case code == "ratelimited":
		i.problem(slack.Name, "Slack does not say whether Socket Mode can be used: "+code, "wait a minute and try again")
	case code == "link_disabled":
		i.problem(slack.Name, "Socket Mode is switched off in the app's settings",
			"switch it on under Socket Mode, or take app_token out of the configuration")
	default:
		i.problem(slack.Name, "Slack does not take the app-level token: "+code, another)
	}
}

// connectionsOpen asks for an address for Socket Mode, and does not use it. code is Slack's word for why
// there is none.
func (i *inspection) connectionsOpen(ctx context.Context, c slack.Config) (code string, err error) {
	base := strings.TrimRight(cmp.Or(c.APIURL, slack.DefaultAPIURL), "/")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/apps.connections.open", nil)
	if err != nil {
		return "", fmt.Errorf("api_url is not an address")
	}
	r.Header.Set("Authorization", "Bearer "+c.AppToken.Reveal())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := i.http.Do(r)
	if err != nil {
		return "", plainly(err)
	}
	defer res.Body.Close()
	var said struct {
		OK    bool   `json:"ok"`
		URL   string `json:"url"`
		Error string `json:"error"`
	}
	err = json.NewDecoder(res.Body).Decode(&said)
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		return "ratelimited", nil
	case err != nil || said.OK && said.URL == "" || !said.OK && said.Error == "":
		return "", fmt.Errorf("HTTP status %d, and nothing that is understood", res.StatusCode)
	case !said.OK:
		return channels.Said(channels.Redact(said.Error, c.AppToken)), nil
	}
	return "", nil
}

// slackAddress says what to enter as the request address, which Slack does not tell, and looks whether
// the gate answers there.
func (i *inspection) slackAddress(ctx context.Context) {
	at := hookURL(i.cfg, slack.Name)
	if at == "" {
		i.warning(slack.Name, "public_url is not set and there is no app_token, so it is not known how taps come in",
			"set public_url to the address under which this gate's webhooks are reached from outside, or use Socket Mode "+
				"(app_token)")
		return
	}
	i.report(slack.Name, OK, "Slack does not tell where it sends taps", "enter "+plainURL(at)+
		" under Interactivity & Shortcuts, Event Subscriptions and Slash Commands; countersign manifest prints it all in "+
		"one piece")
	i.doing("Slack: whether the gate answers at " + plainURL(at))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		i.problem(slack.Name, "public_url is not an address", "set public_url to an address such as https://gate.example.com")
		return
	}
	res, err := i.http.Do(r)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		i.problem(slack.Name, fmt.Sprintf("nothing answers at %s: %s", plainURL(at), plainly(err)),
			"start countersign serve and the tunnel or proxy before it, and try again")
	case res.StatusCode == http.StatusMethodNotAllowed && res.Header.Get("Allow") == http.MethodPost:
		// as our webhook says to a GET
		i.ok(slack.Name, "the gate answers at "+plainURL(at))
	default:
		i.warning(slack.Name, fmt.Sprintf("something answers at %s, but not as the gate does (HTTP status %d)", plainURL(at),
			res.StatusCode),
			"start countersign serve, and point the address at its webhook_listen (or listen), path and all")
	}
}
