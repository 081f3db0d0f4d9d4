package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
	"countersign/internal/auth/signin"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
)

// What the gate, the outbox and the chat ask inside their transactions is answered from memory, as the configuration in
// force has it.

// directory is who is who.
type directory struct{ *App }

func (d directory) Person(name string) (approval.Actor, bool) { return d.App.directory.ByName(name) }

func (d directory) HasAgent(name string) bool {
	if d.App.directory.HasAgent(name) {
		return true
	}
	who := d.anonymous()
	return name == who.TCP || name == who.Socket && cmp.Or(d.o.Socket, d.o.Config.Socket) != ""
}

func (d directory) People() []approval.Actor  { return d.App.directory.Actors() }
func (d directory) Notified() []string        { return d.live.Load().notified }
func (d directory) Owner(agent string) string { return d.App.directory.Owner(agent) }

// Asks is as the agent's own section says.
func (d directory) Asks(agent string) approval.Asks { return d.live.Load().cfg.AgentAsks(agent) }

func (d directory) AtKeyboard(agent string) (approval.Actor, bool) {
	name := d.live.Load().cfg.AgentKeyboard(agent)
	if name == "" {
		return approval.Actor{}, false
	}
	return d.Person(name)
}

// routing is where cards can go.
type routing struct{ *App }

func (r routing) Admins() []approval.Route     { return r.live.Load().admins }
func (r routing) Rooms() []approval.Address    { return r.live.Load().rooms }
func (r routing) Spent(channel string) bool    { return r.spent(channel) }
func (r routing) Editable(channel string) bool { return r.editable(channel) }

// Quiet is by the hours of whose address it is; a room has none.
func (r routing) Quiet(a approval.Address, at time.Time) time.Time {
	q := r.live.Load().quiet[a]
	return q.hours.Until(at, q.zone)
}

// Routes are those of the people who are asked, and of the rooms.
func (r routing) Routes(to approval.Audience) []approval.Route {
	l := r.live.Load()
	if to.Everybody {
		return append(slices.Clone(l.routes), l.routesOf(to.People)...)
	}
	routes := l.routesOf(to.People)
	for _, a := range l.rooms {
		routes = append(routes, approval.Route{a})
	}
	return routes
}

func (r routing) RoutesOf(people []approval.Actor) []approval.Route {
	return r.live.Load().routesOf(people)
}

// answered is who is answered in a chat.
type answered struct{ *App }

func (r answered) Say(to approval.Actor, p phrases.Phrase, args ...any) string {
	return say(to, r.reader(to), p, args...)
}
func (r answered) NameOf(a approval.Address) string     { return r.nameOf(a) }
func (r answered) RouteOf(person string) approval.Route { return r.live.Load().people[person] }
func (r answered) Agents() []string {
	who := directory(r).anonymous()
	names := []string{who.TCP, who.Socket}
	for _, a := range r.live.Load().cfg.Agents() {
		names = append(names, a.Name)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !directory(r).HasAgent(name) })
	slices.Sort(names)
	return slices.Compact(names)
}
func (r answered) Status(to approval.Actor) []string { return r.status(to) }

// listed is what waits, for the channels that show it.
type listed struct{ *approval.Gate }

func (l listed) Requests(ctx context.Context, q approval.RequestQuery) ([]approval.Request, error) {
	return lists.ListRequests(ctx, l.Gate, q)
}

// upkeep is the work that the heartbeat starts.
type upkeep struct {
	*approval.Gate
	*outbox.Outbox
	signIn *signin.Service
}

// Prune drops what is not needed any more, of the gate and of who is signed in.
func (u upkeep) Prune(ctx context.Context) (int, error) {
	n, err := u.Gate.Prune(ctx)
	ended, endErr := u.signIn.Prune(ctx)
	return n + ended, errors.Join(err, endErr)
}
