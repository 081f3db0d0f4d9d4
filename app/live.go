package app

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/line"
	"countersign/channels/slack"
	outbound "countersign/channels/standardwebhooks"
	"countersign/config"
	"countersign/locale"
	"countersign/webhook"
)

// live is what a reload replaces: the configuration in force and what was built from it.
type live struct {
	cfg     *config.Config
	maker   channels.Maker
	routes  []approval.Route
	admins  []approval.Route
	line    *line.Channel  // nil: not configured
	slack   *slack.Channel // nil: not configured
	webhook *posts         // nil: not configured
}

// newLive builds what cfg describes. A channel whose section is as it was in old is kept.
func (a *App) newLive(cfg *config.Config, old *live) (*live, error) {
	l := &live{cfg: cfg, routes: cfg.Routes(), admins: cfg.AdminRoutes()}
	l.maker = channels.Maker{Masker: cfg.Masker(), Zone: cfg.Location, Reader: readers(cfg), Known: recipients(cfg)}
	var err error
	if c := cfg.Channels.Line; c != nil {
		if old != nil && old.line != nil && reflect.DeepEqual(*c, *old.cfg.Channels.Line) {
			l.line = old.line
		} else if l.line, err = line.New(*c); err != nil {
			return nil, err
		}
	}
	if c := cfg.Channels.Slack; c != nil {
		if old != nil && old.slack != nil && reflect.DeepEqual(*c, *old.cfg.Channels.Slack) {
			l.slack = old.slack
		} else if l.slack, err = slack.New(*c); err != nil {
			return nil, err
		}
	}
	if c := cfg.Channels.Webhook; c != nil {
		if old != nil && old.webhook != nil && reflect.DeepEqual(*c, *old.cfg.Channels.Webhook) {
			l.webhook = &posts{Channel: old.webhook.Channel}
		} else if ch, err := outbound.New(*c); err != nil {
			return nil, err
		} else {
			l.webhook = &posts{Channel: ch}
		}
		l.webhook.addresses = map[string]string{}
		for _, p := range cfg.People() {
			l.webhook.addresses[p.Name] = p.Webhook.Reveal()
		}
	}
	return l, nil
}

// readers says in which language and zone whoever a notification goes to reads it.
func readers(cfg *config.Config) func(channel, recipient string) (*locale.Language, *time.Location) {
	type reader struct {
		words *locale.Language
		zone  *time.Location
	}
	known := map[approval.Address]reader{}
	for _, p := range cfg.People() {
		r := reader{locale.Get(p.Locale), p.Zone}
		for channel, to := range map[string]string{line.Name: p.Line, slack.Name: p.Slack, outbound.Name: p.Name} {
			if to != "" {
				known[approval.Address{Channel: channel, To: to}] = r
			}
		}
	}
	if s := cfg.Channels.Slack; s != nil && s.Channel != "" {
		known[approval.Address{Channel: slack.Name, To: s.Channel}] = reader{locale.Get(s.Locale), cfg.Location}
	}
	return func(channel, recipient string) (*locale.Language, *time.Location) {
		if _, user, ok := strings.Cut(recipient, "/"); ok && channel == slack.Name {
			recipient = user // somebody in a channel, whom alone it is shown to
		}
		if r, ok := known[approval.Address{Channel: channel, To: recipient}]; ok {
			return r.words, r.zone
		}
		return nil, cfg.Location
	}
}

// recipients says whether an address is one that requests go to: a person's, or the shared channel.
func recipients(cfg *config.Config) func(channel, recipient string) bool {
	known := map[approval.Address]bool{}
	for _, p := range cfg.People() {
		for channel, to := range map[string]string{line.Name: p.Line, slack.Name: p.Slack, outbound.Name: p.Name} {
			known[approval.Address{Channel: channel, To: to}] = to != ""
		}
	}
	if s := cfg.Channels.Slack; s != nil {
		known[approval.Address{Channel: slack.Name, To: s.Channel}] = s.Channel != ""
	}
	return func(channel, recipient string) bool { return known[approval.Address{Channel: channel, To: recipient}] }
}

// posts is the webhook channel for people by name: an address may hold a secret, and a notification's
// recipient is shown in the log.
type posts struct {
	*outbound.Channel
	addresses map[string]string
}

// Send posts to the person's address.
func (p *posts) Send(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	return p.to(ctx, m, p.Channel.Send)
}

// Edit posts how a request has ended.
func (p *posts) Edit(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	return p.to(ctx, m, p.Channel.Edit)
}

func (p *posts) to(ctx context.Context, m channels.Message, send func(context.Context, channels.Message) (channels.Receipt, error)) (channels.Receipt, error) {
	address := p.addresses[m.To]
	if address == "" {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRecipient, Err: errors.New("this person has no webhook address any more")}
	}
	m.To = address
	return send(ctx, m)
}

func (l *live) channels() []channels.Channel {
	var cs []channels.Channel
	if l.line != nil {
		cs = append(cs, l.line)
	}
	if l.slack != nil {
		cs = append(cs, l.slack)
	}
	if l.webhook != nil {
		cs = append(cs, l.webhook)
	}
	return cs
}

func (l *live) close() {
	if l.line != nil {
		l.line.Close()
	}
	if l.slack != nil {
		l.slack.Close()
	}
	if l.webhook != nil {
		l.webhook.Close()
	}
}

func (a *App) lineSecrets() []string {
	if c := a.live.Load().cfg.Channels.Line; c != nil {
		return c.ChannelSecret.Reveal()
	}
	return nil
}

func (a *App) lineBot() string {
	if l := a.live.Load().line; l != nil {
		return l.BotUserID()
	}
	return ""
}

func (a *App) slackSecrets() []string {
	if c := a.live.Load().cfg.Channels.Slack; c != nil {
		return c.SigningSecret.Reveal()
	}
	return nil
}

func (a *App) slackAppToken() string {
	if c := a.live.Load().cfg.Channels.Slack; c != nil {
		return c.AppToken.Reveal()
	}
	return ""
}

func (a *App) slackAPI() string {
	if c := a.live.Load().cfg.Channels.Slack; c != nil && c.APIURL != "" {
		return c.APIURL
	}
	return slack.DefaultAPIURL
}

func (a *App) slackWorkspace() (webhook.Workspace, bool) {
	l := a.live.Load()
	if l.slack == nil {
		return webhook.Workspace{}, false
	}
	id, ok := l.slack.Identity()
	return webhook.Workspace{Team: id.TeamID, Enterprise: id.EnterpriseID, App: l.cfg.Channels.Slack.AppID, Bot: id.UserID}, ok
}

// How often a platform is asked who we are until it answers.
const (
	firstLearn = time.Second
	lastLearn  = time.Minute
)

// learn asks the platforms who we are, until each has said so: webhooks do not count before.
func (a *App) learn(ctx context.Context) {
	wait := firstLearn
	for {
		l := a.live.Load()
		all := true
		if l.line != nil && l.line.BotUserID() == "" {
			all = a.probe(ctx, l.line) && all
		}
		if l.slack != nil {
			if _, known := l.slack.Identity(); !known {
				all = a.probe(ctx, l.slack) && all
			}
		}
		if all {
			wait = firstLearn
			select {
			case <-a.relearn:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, lastLearn)
		case <-a.relearn:
			wait = firstLearn
		case <-ctx.Done():
			return
		}
	}
}

type probed interface {
	channels.Channel
	channels.Prober
}

func (a *App) probe(ctx context.Context, c probed) bool {
	ctx, cancel := context.WithTimeout(ctx, channels.HTTPTimeout)
	defer cancel()
	err := c.Probe(ctx)
	if err == nil {
		a.log.Info("the platform knows us", "channel", c.Name())
		return true
	}
	if ctx.Err() == nil {
		a.log.Error("the platform did not say who we are, so taps on this channel cannot be taken yet; trying again", "channel", c.Name(), "error", err)
	}
	return false
}

// nameOf says whose address it is.
func (a *App) nameOf(to approval.Address) string {
	id := to.To
	if _, user, ok := strings.Cut(id, "/"); ok && to.Channel == slack.Name {
		id = user
	}
	who, _ := a.directory.ByChat(to.Channel, id)
	return who.Name
}
