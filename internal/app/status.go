package app

import (
	"context"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/channels"
	"countersign/client"
	"countersign/heartbeat"
	"countersign/internal/locale"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
	"countersign/internal/retention"
	"countersign/internal/web"
)

// roster is how people are reached and agents ask.
type roster struct{ directory }

func (r roster) Ways(person string) []approval.Address { return r.live.Load().people[person] }

// statusPage is what the page /status tells a person.
func (h health) statusPage(ctx context.Context, to approval.Actor) web.Status {
	s := web.Status{Version: h.a.o.Version, Problems: h.problems(), Told: h.status(to),
		Channels: channelStatus(h.a.live.Load(), h.a.sender.Paused()), Jobs: jobStatus(h.a.heartbeat),
		Servers: serverStatus(h.a.gateway.Health(), h.a.live.masker())}
	err := h.a.store.View(ctx, func(tx approval.Tx) (err error) {
		s.Pending, err = tx.CountPending("")
		return err
	})
	s.Ready = err == nil && h.a.stopping.Err() == nil && !h.a.withdrawn.Load() && h.a.store.Ping(ctx) == nil
	bound := h.a.o.Config
	s.Store = web.StoreStatus{Path: bound.StorePath, Bytes: h.a.store.size(ctx), Restored: h.a.store.WasRestored()}
	if is := h.a.growth.is.Load(); is != nil && is.perDay >= 0 {
		s.Store.PerDay, s.Store.Grows = is.perDay, true
		s.Store.FullIn = int(h.a.growth.fullIn().Hours() / 24)
	}
	if s.Store.Removes = h.a.live.Load().cfg.Keep != (retention.Keep{}); s.Store.Removes {
		s.Store.Due = h.a.pruner.Due()
	}
	if s.Store.Copied = h.a.live.Load().cfg.Backups.IsSet(); s.Store.Copied {
		newest, since, why := h.a.backups.state()
		s.Store.BackupAt, s.Store.BackupBytes, s.Store.FailingSince, s.Store.Why = newest.At, newest.Bytes, since, why
	}
	if bound.IsDatabase() {
		s.Store.Database, s.Store.Programs = bound.Store, h.a.store.programs(ctx)
	}
	for i, name := range []string{nameAPI, namePages, nameWebhook, nameSocket, nameDebug} {
		l := h.a.metrics.listeners.open[name]
		if l == nil {
			continue
		}
		at := []string{bound.Listen, bound.PagesListen, bound.WebhookListen, "", bound.DebugListen}[i]
		s.Listeners = append(s.Listeners, web.ListenerStatus{Name: name, Address: at, Open: l.Stats().Open,
			Connections: h.a.listeners.limits.connections[name]})
	}
	return s
}

func channelStatus(l *live, paused map[string]string) []web.ChannelStatus {
	var out []web.ChannelStatus
	for _, ch := range l.channels {
		c := web.ChannelStatus{Name: ch.Name(), Paused: paused[ch.Name()]}
		if q, known := l.quota(ch.Name()); known {
			c.Metered, c.Used, c.At = true, q.Used, q.At
			if q.Limited {
				c.Limit = q.Limit
			}
		}
		out = append(out, c)
	}
	return out
}

func serverStatus(servers []gateway.ServerHealth, m *redact.Masker) []web.ServerStatus {
	var out []web.ServerStatus
	for _, h := range servers {
		one := web.ServerStatus{Name: h.Server, State: string(h.State), Since: h.Since, Restarts: h.Restarts}
		if h.State == upstream.Down && h.Err != nil {
			one.Why = append(one.Why, legible.Line(explainDown(h.Err, m)))
		}
		for _, p := range h.Problems {
			one.Why = append(one.Why, mask(p, m))
		}
		out = append(out, one)
	}
	return out
}

func jobStatus(beat *heartbeat.Heartbeat) []web.JobStatus {
	var out []web.JobStatus
	for _, entry := range beat.Enabled() {
		j := web.JobStatus{Name: entry, Removes: entry == heartbeat.Prune, Copies: entry == heartbeat.Backup}
		if r, ok := beat.Last(entry); ok {
			j.At, j.Failed = r.At, r.Err != nil
			j.Pending, j.Expired, j.Reminded, j.Retried = r.Counts.Pending, r.Counts.Expired, r.Counts.Reminded, r.Counts.Retried
			j.Removed = r.Counts.Removed
		}
		out = append(out, j)
	}
	return out
}

// status is what the typed word "status" tells beside the gate's own lines.
func (h health) status(to approval.Actor) []string {
	l := locale.Get(to.Locale)
	var lines []string
	for _, ch := range h.a.live.Load().channels {
		if s, ok := ch.(channels.StatusTeller); ok {
			lines = append(lines, s.Status(l)...)
		}
	}
	for name := range h.a.sender.Paused() {
		lines = append(lines, l.Say("status_paused", "channel", name))
	}
	if to.Admin {
		lines = append(lines, beatStatus(h.a.heartbeat, to, reader(to, h.a.o.Now(), &h.a.live))...)
	}
	return lines
}

// quotas is what the notification log tells of the month.
func (l *live) quotas() []client.Quota {
	var out []client.Quota
	for _, ch := range l.channels {
		q, known := l.quota(ch.Name())
		if !known {
			continue
		}
		one := client.Quota{Channel: ch.Name(), Used: q.Used, At: q.At}
		if q.Limited {
			one.Limit = &q.Limit
		}
		out = append(out, one)
	}
	return out
}
