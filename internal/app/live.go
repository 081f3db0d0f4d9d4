package app

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/kind"
	"countersign/client"
	"countersign/internal/auth"
	"countersign/internal/config"
	"countersign/internal/locale"
	"countersign/webhook"
)

// live is what a reload replaces: the configuration in force and what was built from it.
type live struct {
	cfg      *config.Config
	maker    channels.Maker
	routes   []approval.Route // of a request whose rule names nobody,
	notified []string         // and the people whose they are
	people   map[string]approval.Route
	rooms    []approval.Address
	admins   []approval.Route
	quiet    map[approval.Address]resting // of whose address it is
	channels []channels.Channel           // those that are configured
}

// resting is when a person is not to be disturbed.
type resting struct {
	hours auth.QuietHours
	zone  *time.Location
}

func quietHours(cfg *config.Config) map[approval.Address]resting {
	hours := map[approval.Address]resting{}
	for at, p := range cfg.Recipients() {
		if p.Quiet != (auth.QuietHours{}) {
			hours[at] = resting{p.Quiet, p.Zone}
		}
	}
	for _, room := range cfg.Rooms() {
		delete(hours, room.Address)
	}
	return hours
}

// newLive builds what cfg describes. A channel of which nothing has changed since old is kept.
func (a *App) newLive(cfg *config.Config, old *live) (*live, error) {
	l := &live{cfg: cfg, routes: cfg.Routes(), admins: cfg.AdminRoutes(), people: cfg.PersonRoutes(),
		quiet: quietHours(cfg)}
	for _, room := range cfg.Rooms() {
		l.rooms = append(l.rooms, room.Address)
	}
	for name, route := range l.people {
		if slices.ContainsFunc(route, func(a approval.Address) bool {
			return slices.ContainsFunc(l.routes, func(r approval.Route) bool { return slices.Contains(r, a) })
		}) {
			l.notified = append(l.notified, name)
		}
	}
	l.maker = channels.Maker{Masker: cfg.Masker(), Zone: cfg.Location, Reader: readers(cfg), Known: recipients(cfg),
		Link: links(cfg)}
	l.maker.SignIn = func(linkID string) string { return a.signInURL(a.signIn.Token(linkID)) }
	l.maker.Describe = func(server, tool string) (words, digest string, ok bool) {
		if a.gateway == nil { // there is none yet
			return "", "", false
		}
		return a.gateway.Describe(server, tool)
	}
	if cfg.PagesURL() != "" {
		l.maker.Page = cfg.PageOf
	}
	for _, name := range cfg.Channels.Names() {
		section, addresses := cfg.Channels[name], cfg.SecretAddresses(name)
		if old != nil && reflect.DeepEqual(section, old.cfg.Channels[name]) &&
			maps.Equal(addresses, old.cfg.SecretAddresses(name)) {
			l.channels = append(l.channels, old.channel(name))
			continue
		}
		ch, err := section.Open(kind.Host{Logger: a.log, Now: a.o.Now, Addresses: addresses})
		if err != nil {
			return nil, err
		}
		l.channels = append(l.channels, ch)
	}
	return l, nil
}

// links says where a request's page is, as far as people can reach the pages: nil where public_url does not say so.
func links(cfg *config.Config) func(id string) string {
	if cfg.PublicURL == "" {
		return nil
	}
	return func(id string) string { return cfg.PublicURL + "/r/" + id }
}

// routesOf returns the routes of those people who are reached at all.
func (l *live) routesOf(who []approval.Actor) []approval.Route {
	var routes []approval.Route
	for _, p := range who {
		if r := l.people[p.Name]; len(r) > 0 {
			routes = append(routes, r)
		}
	}
	return routes
}

// readers says in which language and zone whoever a notification goes to reads it.
func readers(cfg *config.Config) func(channel, recipient string) channels.Reader {
	known := map[approval.Address]channels.Reader{}
	for at, p := range cfg.Recipients() {
		known[at] = channels.Reader{Words: locale.Get(p.Locale), Zone: p.Zone}
	}
	for _, room := range cfg.Rooms() {
		known[room.Address] = channels.Reader{Words: locale.Get(room.Locale), Zone: cfg.Location, Shared: true}
	}
	whose := whose(cfg)
	return func(channel, recipient string) channels.Reader {
		if r, ok := known[approval.Address{Channel: channel, To: whose(channel, recipient)}]; ok {
			return r
		}
		return channels.Reader{Zone: cfg.Location, Shared: true} // who knows where
	}
}

// whose says which user a recipient is for, where a part of a room is one's alone.
func whose(cfg *config.Config) func(channel, recipient string) string {
	forms := map[string]kind.AddressForm{}
	for _, k := range cfg.Kinds() {
		forms[k.Name] = k.Address
	}
	return func(channel, recipient string) string { return forms[channel].Whose(recipient) }
}

// recipients says whether an address is one that requests go to: a person's, or a room.
func recipients(cfg *config.Config) func(channel, recipient string) bool {
	known := map[approval.Address]bool{}
	for at := range cfg.Recipients() {
		known[at] = true
	}
	for _, room := range cfg.Rooms() {
		known[room.Address] = true
	}
	return func(channel, recipient string) bool { return known[approval.Address{Channel: channel, To: recipient}] }
}

// channel returns the channel of a name, nil while it is not configured.
func (l *live) channel(name string) channels.Channel {
	for _, ch := range l.channels {
		if ch.Name() == name {
			return ch
		}
	}
	return nil
}

// close ends the channels that next has not.
func (l *live) close(next *live) {
	for _, ch := range l.channels {
		if c, ok := ch.(kind.Closer); ok && (next == nil || !slices.Contains(next.channels, ch)) {
			c.Close()
		}
	}
}

// reports returns what the parts that report say, in their order.
func reports[T any](parts []T) []string {
	var ps []string
	for _, part := range parts {
		if r, ok := any(part).(channels.Reporter); ok {
			ps = append(ps, r.Problems()...)
		}
	}
	return ps
}

// wayIn is what takes the webhooks of one kind of channel.
type wayIn struct {
	name    string
	handler http.Handler
}

// newWaysIn makes what takes each kind's webhooks, whether it is configured or not: a reload can bring it.
func (a *App) newWaysIn() {
	o := webhook.Options{
		Chat: a.chat, People: a.directory, Logger: a.part("webhook"), Now: a.o.Now, Count: a.metrics.webhook, Signed: signed,
		Remote: a.remote,
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
			Maker: func() channels.Maker { return a.live.Load().maker }, Requests: listed{a.gate},
		})
		a.waysIn = append(a.waysIn, wayIn{k.Name, h})
		if c, ok := h.(kind.Closer); ok {
			a.onStop("way in of "+k.Name, func(context.Context) error { c.Close(); return nil })
		}
	}
}

// handlers are the ways in themselves.
func (a *App) handlers() []http.Handler {
	hs := make([]http.Handler, len(a.waysIn))
	for i, in := range a.waysIn {
		hs[i] = in.handler
	}
	return hs
}

// webhooks are the ways in by path, each there only while its channel is configured.
func (a *App) webhooks() exactly {
	all := exactly{}
	for _, in := range a.waysIn {
		all["/webhook/"+in.name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if a.live.Load().channel(in.name) == nil {
				http.Error(w, "This channel is not configured.", http.StatusNotFound)
				return
			}
			in.handler.ServeHTTP(w, r)
		})
	}
	return all
}

// reconfigured tells the channels in force and the ways in that a reload was.
func (a *App) reconfigured() {
	for _, ch := range a.live.Load().channels {
		if r, ok := ch.(channels.Reconfigurer); ok {
			r.Reconfigure()
		}
	}
	for _, h := range a.handlers() {
		if r, ok := h.(channels.Reconfigurer); ok {
			r.Reconfigure()
		}
	}
	leaveWord(a.relearn)
	leaveWord(a.rerun)
}

// leaveWord wakes whoever waits for it, or comes to wait.
func leaveWord(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it was left
	}
}

// runChannels has each channel that has work of its own do it while it is in force.
func (a *App) runChannels(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	running := map[channels.Channel]context.CancelFunc{}
	for {
		inForce := a.live.Load().channels
		for ch, end := range running {
			if !slices.Contains(inForce, ch) {
				end()
				delete(running, ch)
			}
		}
		for _, ch := range inForce {
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
		case <-a.rerun:
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
func (a *App) learn(ctx context.Context) {
	wait, told := firstLearn, ""
	for {
		var asked sync.WaitGroup // at once: a platform that is slow keeps no other one's presses waiting
		var silent atomic.Bool
		for _, ch := range a.live.Load().channels {
			if id, ok := ch.(channels.Identifier); ok && !id.IsIdentified() {
				asked.Go(func() {
					if !a.probe(ctx, ch.Name(), id) {
						silent.Store(true)
					}
				})
			}
		}
		asked.Go(func() {
			if !a.openID.Learn(ctx) {
				silent.Store(true)
			}
		})
		asked.Wait()
		if why := a.openID.Trouble(); why != told {
			if told = why; why != "" {
				a.log.WarnContext(ctx, "nobody can sign in at the OpenID provider; trying again", "problem", why)
			}
		}
		if !silent.Load() {
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

func (a *App) probe(ctx context.Context, name string, p channels.Prober) bool {
	ctx, cancel := context.WithTimeout(ctx, channels.HTTPTimeout)
	defer cancel()
	err := p.Probe(ctx)
	if err == nil {
		a.log.InfoContext(ctx, "the platform accepts our credentials", "channel", name)
		return true
	}
	if ctx.Err() == nil {
		a.log.ErrorContext(ctx, "the platform did not confirm our credentials, so taps on this channel do not count yet; "+
			"trying again", "channel", name, "error", err)
	}
	return false
}

// nameOf says whose address it is.
func (a *App) nameOf(to approval.Address) string {
	who, _ := a.directory.ByChat(to.Channel, whose(a.live.Load().cfg)(to.Channel, to.To))
	return who.Name
}

// editable says on which channels a sent card can be changed, whether they are configured or not.
func (a *App) editable(channel string) bool {
	for _, k := range a.o.Config.Kinds() {
		if k.Name == channel {
			_, ok := k.Type.(channels.Editor)
			return ok
		}
	}
	return false
}

// quota is what a channel says of its month; false where it does not count, or nothing is known yet.
func (a *App) quota(channel string) (channels.Quota, bool) {
	if m, ok := a.live.Load().channel(channel).(channels.Metered); ok {
		return m.Quota()
	}
	return channels.Quota{}, false
}

// spent says whether a channel can send nothing for a while: its month is used up, or its token is refused.
func (a *App) spent(channel string) bool {
	if _, paused := a.sender.Paused()[channel]; paused {
		return true
	}
	q, known := a.quota(channel)
	return known && q.Spent()
}

// status is what the typed word "status" tells beside the gate's own lines.
func (a *App) status(to approval.Actor) []string {
	l := locale.Get(to.Locale)
	var lines []string
	for _, ch := range a.live.Load().channels {
		if s, ok := ch.(channels.StatusTeller); ok {
			lines = append(lines, s.Status(l)...)
		}
	}
	for name := range a.sender.Paused() {
		lines = append(lines, l.Say("status_paused", "channel", name))
	}
	if to.Admin {
		lines = append(lines, a.beatStatus(to)...)
	}
	return lines
}

// quotaLog is what the notification log tells of the month.
func (a *App) quotaLog() []client.Quota {
	var out []client.Quota
	for _, ch := range a.live.Load().channels {
		q, known := a.quota(ch.Name())
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
