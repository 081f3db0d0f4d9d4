package app

import (
	"context"
	"net/http"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/webhook"
)

// receiver takes the webhooks of one kind of channel.
type receiver struct {
	name    string
	handler http.Handler
}

type receivers []receiver

// newReceivers makes what takes each kind's webhooks, whether it is configured or not: a reload can bring it.
func (a *App) newReceivers() (rs receivers) {
	o := webhook.Options{
		Chat: a.chat, People: a.directory, Logger: a.logger("webhook"), Now: a.o.Now,
		Count: a.metrics.countWebhook, Signed: markPlatform,
		Remote: a.listeners.remote,
	}
	for _, k := range a.o.Config.Kinds() {
		if k.Inbound == nil {
			continue
		}
		h := k.Inbound(o, kind.Current{
			Channel: func() (kind.Section, channels.Channel) {
				l := a.live.Load()
				return l.cfg.Channels[k.Name], l.channel(k.Name)
			},
			Maker: func() channels.Maker { return a.live.Load().maker }, Requests: requestLists{a.gate},
		})
		rs = append(rs, receiver{k.Name, h})
		if c, ok := h.(kind.Closer); ok {
			a.onStop("way in of "+k.Name, func(context.Context) error { c.Close(); return nil })
		}
	}
	return rs
}

func (rs receivers) handlers() []http.Handler {
	hs := make([]http.Handler, len(rs))
	for i, r := range rs {
		hs[i] = r.handler
	}
	return hs
}

// byPath are their handlers by path, each there only while its channel is configured.
func (rs receivers) byPath(in *inForce) exactPaths {
	all := exactPaths{}
	for _, of := range rs {
		all["/webhook/"+of.name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if in.Load().channel(of.name) == nil {
				http.Error(w, "This channel is not configured.", http.StatusNotFound)
				return
			}
			of.handler.ServeHTTP(w, r)
		})
	}
	return all
}
