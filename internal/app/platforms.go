package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/auth/openid"
)

// platforms is the work of each channel in force with its platform, and what is learned from them. The provider that
// people sign in at is one too.
type platforms struct {
	log    *slog.Logger
	live   *inForce
	openID *openid.Service

	relearn chan struct{} // a reload brought new channels, or the OpenID provider fails
	rerun   chan struct{} // and so other work of theirs
}

// announceReload tells the channels in force and the ways in that a reload was.
func (p *platforms) announceReload(rs receivers) {
	for _, ch := range p.live.Load().channels {
		if r, ok := ch.(channels.Reconfigurer); ok {
			r.Reconfigure()
		}
	}
	for _, h := range rs.handlers() {
		if r, ok := h.(channels.Reconfigurer); ok {
			r.Reconfigure()
		}
	}
	wake(p.relearn)
	wake(p.rerun)
}

// wake wakes the goroutine that waits for it, or comes to wait.
func wake(sleeper chan<- struct{}) {
	select {
	case sleeper <- struct{}{}:
	default: // it was left
	}
}

// run has each channel that has work of its own do it while it is in force.
func (p *platforms) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	running := map[channels.Channel]context.CancelFunc{}
	for {
		current := p.live.Load().channels
		for ch, end := range running {
			if !slices.Contains(current, ch) {
				end()
				delete(running, ch)
			}
		}
		for _, ch := range current {
			r, ok := ch.(kind.Runner)
			if _, under := running[ch]; under || !ok {
				continue
			}
			of, end := context.WithCancel(ctx)
			defer end()
			running[ch] = end
			group.Go(func() { r.Run(of) })
		}
		select {
		case <-p.rerun:
		case <-ctx.Done():
			return
		}
	}
}

// How often a platform is asked who we are until it answers.
const (
	firstLearn = time.Second
	lastLearn  = time.Minute
)

// learn asks the platforms who we are, until each has said so: webhooks do not count before. It asks the provider that
// people sign in at too.
func (p *platforms) learn(ctx context.Context) {
	wait, told := firstLearn, ""
	for {
		var asked sync.WaitGroup // at once: a platform that is slow keeps no other one's presses waiting
		var silent atomic.Bool
		for _, ch := range p.live.Load().channels {
			if id, ok := ch.(channels.Identifier); ok && !id.IsIdentified() {
				asked.Go(func() {
					if !p.probe(ctx, ch.Name(), id) {
						silent.Store(true)
					}
				})
			}
		}
		asked.Go(func() {
			if !p.openID.Learn(ctx) {
				silent.Store(true)
			}
		})
		asked.Wait()
		if why := p.openID.Trouble(); why != told {
			if told = why; why != "" {
				p.log.WarnContext(ctx, "nobody can sign in at the OpenID provider; trying again", "problem", why)
			}
		}
		if !silent.Load() {
			wait = firstLearn
			select {
			case <-p.relearn:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, lastLearn)
		case <-p.relearn:
			wait = firstLearn
		case <-ctx.Done():
			return
		}
	}
}

func (p *platforms) probe(ctx context.Context, name string, of channels.Prober) bool {
	ctx, cancel := context.WithTimeout(ctx, channels.HTTPTimeout)
	defer cancel()
	err := of.Probe(ctx)
	if err == nil {
		p.log.InfoContext(ctx, "the platform accepts our credentials", "channel", name)
		return true
	}
	if ctx.Err() == nil {
		p.log.ErrorContext(ctx, "the platform did not confirm our credentials, so taps on this channel do not count yet; "+
			"trying again", "channel", name, "error", err)
	}
	return false
}
