package app

import (
	"context"
	"reflect"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/line"
	"countersign/channels/slack"
	"countersign/config"
	"countersign/webhook"
)

// live is what a reload replaces: the configuration in force and what was built from it.
type live struct {
	cfg    *config.Config
	maker  channels.Maker
	routes []approval.Route
	admins []approval.Route
	line   *line.Channel  // nil: not configured
	slack  *slack.Channel // nil: not configured
}

// newLive builds what cfg describes. A channel whose section is as it was in old is kept.
func (a *App) newLive(cfg *config.Config, old *live) (*live, error) {
	l := &live{cfg: cfg, maker: channels.Maker{Masker: approval.NewMasker(), Zone: cfg.Location}}
	var err error
	if c := cfg.Channels.Line; c != nil {
		if old != nil && old.line != nil && reflect.DeepEqual(*c, *old.cfg.Channels.Line) {
			l.line = old.line
		} else if l.line, err = line.New(*c); err != nil {
			return nil, err
		}
		ids := map[string]string{}
		for _, p := range cfg.People() {
			ids[p.Name] = p.Line
		}
		for _, name := range c.Notify {
			l.routes = append(l.routes, approval.Route{{Channel: line.Name, To: ids[name]}})
		}
	}
	if c := cfg.Channels.Slack; c != nil {
		if old != nil && old.slack != nil && reflect.DeepEqual(*c, *old.cfg.Channels.Slack) {
			l.slack = old.slack
		} else if l.slack, err = slack.New(*c); err != nil {
			return nil, err
		}
		l.routes = append(l.routes, approval.Route{{Channel: slack.Name, To: c.Channel}})
	}
	return l, nil
}

func (l *live) channels() []channels.Channel {
	var cs []channels.Channel
	if l.line != nil {
		cs = append(cs, l.line)
	}
	if l.slack != nil {
		cs = append(cs, l.slack)
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

func (a *App) slackWorkspace() (webhook.Workspace, bool) {
	l := a.live.Load()
	if l.slack == nil {
		return webhook.Workspace{}, false
	}
	id, ok := l.slack.Identity()
	return webhook.Workspace{Team: id.TeamID, Enterprise: id.EnterpriseID, App: l.cfg.Channels.Slack.AppID}, ok
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
