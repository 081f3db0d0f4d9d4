package app

import (
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/auth"
	"countersign/internal/config"
	"countersign/internal/locale"
)

// live is what a reload replaces: the configuration in force and what was built from it.
type live struct {
	cfg      *config.Config
	maker    channels.Maker
	routes   []approval.Route // of a request whose rule names no approvers,
	notified []string         // and the people whose they are
	people   map[string]approval.Route
	rooms    []approval.Address
	admins   []approval.Route
	quiet    map[approval.Address]restHours // of whose address it is
	channels []channels.Channel             // those that are configured
}

// inForce is the configuration that is in force: a reload puts another one in its place.
type inForce struct{ atomic.Pointer[live] }

// masker is what is masked by it; nil while there is none yet.
func (f *inForce) masker() *redact.Masker {
	if l := f.Load(); l != nil {
		return l.maker.Masker
	}
	return nil
}

// pageOf is where people open a request's page, "" where public_url does not say how they reach the pages.
func (f *inForce) pageOf(id string) string {
	if link := links(f.Load().cfg); link != nil {
		return link(id)
	}
	return ""
}

// restHours is when a person is not to be disturbed.
type restHours struct {
	hours auth.QuietHours
	zone  *time.Location
}

func quietHours(cfg *config.Config) map[approval.Address]restHours {
	hours := map[approval.Address]restHours{}
	for at, p := range cfg.Recipients() {
		if p.Quiet != (auth.QuietHours{}) {
			hours[at] = restHours{p.Quiet, p.Zone}
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
	l.maker.SignIn = func(linkID string) string { return a.signIns.address(a.signIn.Token(linkID)) }
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

// readers says in which language and zone the reader of a notification reads it.
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

// problemsOf returns what the parts that report say, in their order.
func problemsOf[T any](parts []T) []string {
	var ps []string
	for _, part := range parts {
		if r, ok := any(part).(channels.Reporter); ok {
			ps = append(ps, r.Problems()...)
		}
	}
	return ps
}

// quota is what a channel says of its month; false where it does not count, or nothing is known yet.
func (l *live) quota(channel string) (channels.Quota, bool) {
	if m, ok := l.channel(channel).(channels.Metered); ok {
		return m.Quota()
	}
	return channels.Quota{}, false
}
