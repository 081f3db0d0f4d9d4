package app

import (
	"context"
	"os"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/mcp/upstream"
	"countersign/internal/web"
)

// aroundInbox gives the pages what those around the inbox show.
func (a *App) aroundInbox(o *web.Options) {
	o.Roster, o.Freezes, o.Status = roster{directory{a}}, a.chat, a.statusPage
	o.History, o.NameOf, o.Budgets = a.store, a.nameOf, a.budgets
}

// roster is how people are reached and agents ask.
type roster struct{ directory }

func (r roster) Ways(person string) []approval.Address { return r.live.Load().people[person] }

// statusPage is what the page /status tells somebody.
func (a *App) statusPage(ctx context.Context, to approval.Actor) web.Status {
	s := web.Status{Version: a.o.Version, Problems: a.problems(), Told: a.status(to), Channels: a.channelStatus(),
		Servers: a.serverStatus(), Jobs: a.jobStatus()}
	err := a.store.View(ctx, func(tx approval.Tx) (err error) {
		s.Pending, err = tx.CountPending("")
		return err
	})
	s.Ready = err == nil && a.stopping.Err() == nil && a.store.Ping(ctx) == nil
	path := a.live.Load().cfg.StorePath
	s.Store = web.StoreStatus{Path: path, Restored: a.store.WasRestored()}
	for _, suffix := range []string{"", "-wal"} {
		if is, err := os.Stat(path + suffix); err == nil {
			s.Store.Bytes += is.Size()
		}
	}
	for i, name := range []string{nameAPI, namePages, nameWebhook, nameSocket, nameDebug} {
		l := a.metrics.listeners.open[name]
		if l == nil {
			continue
		}
		at := []string{a.o.Config.Listen, a.o.Config.PagesListen, a.o.Config.WebhookListen, "", a.o.Config.DebugListen}[i]
		s.Listeners = append(s.Listeners, web.ListenerStatus{Name: name, Address: at, Open: l.Stats().Open,
			Connections: a.limits.connections[name]})
	}
	return s
}

func (a *App) channelStatus() []web.ChannelStatus {
	paused := a.sender.Paused()
	var out []web.ChannelStatus
	for _, ch := range a.live.Load().channels {
		c := web.ChannelStatus{Name: ch.Name(), Paused: paused[ch.Name()]}
		if q, known := a.quota(ch.Name()); known {
			c.Metered, c.Used, c.At = true, q.Used, q.At
			if q.Limited {
				c.Limit = q.Limit
			}
		}
		out = append(out, c)
	}
	return out
}

func (a *App) serverStatus() []web.ServerStatus {
	var out []web.ServerStatus
	for _, h := range a.gateway.Health() {
		one := web.ServerStatus{Name: h.Server, State: string(h.State), Since: h.Since, Restarts: h.Restarts}
		if h.State == upstream.Down && h.Err != nil {
			one.Why = append(one.Why, legible.Line(a.whyDown(h.Err)))
		}
		for _, p := range h.Problems {
			one.Why = append(one.Why, a.masked(p))
		}
		out = append(out, one)
	}
	return out
}

func (a *App) jobStatus() []web.JobStatus {
	var out []web.JobStatus
	for _, entry := range a.heartbeat.Enabled() {
		j := web.JobStatus{Name: entry}
		if r, ok := a.heartbeat.Last(entry); ok {
			j.At, j.Failed = r.At, r.Err != nil
			j.Pending, j.Expired, j.Reminded, j.Retried = r.Counts.Pending, r.Counts.Expired, r.Counts.Reminded, r.Counts.Retried
		}
		out = append(out, j)
	}
	return out
}
