package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/kind"
	"countersign/channels/outbox"
	"countersign/internal/auth"
	"countersign/internal/auth/signin"
	"countersign/internal/config"
	"countersign/internal/history"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
	"countersign/internal/retention"
)

// What the gate, the outbox and the chat ask inside their transactions is answered from memory, as the configuration in
// force has it.

// directory is who is who.
type directory struct {
	known  *auth.Directory
	live   *inForce
	bound  *config.Config // what was in force when the addresses were bound
	socket string         // that is served on; "": none
}

func (d directory) Person(name string) (approval.Actor, bool) { return d.known.ByName(name) }

func (d directory) HasAgent(name string) bool {
	if d.known.HasAgent(name) {
		return true
	}
	who := d.anonymous()
	return name == who.TCP || name == who.Socket && d.socket != ""
}

func (d directory) People() []approval.Actor  { return d.known.Actors() }
func (d directory) Notified() []string        { return d.live.Load().notified }
func (d directory) Owner(agent string) string { return d.known.Owner(agent) }

// Asks is as the agent's own section says.
func (d directory) Asks(agent string) approval.Asks { return d.live.Load().cfg.AgentAsks(agent) }

func (d directory) AtKeyboard(agent string) (approval.Actor, bool) {
	name := d.live.Load().cfg.AgentKeyboard(agent)
	if name == "" {
		return approval.Actor{}, false
	}
	return d.Person(name)
}

// nameOf says whose address it is, "" where it is no person's.
func (d directory) nameOf(to approval.Address) string {
	who, _ := d.known.ByChat(to.Channel, whose(d.live.Load().cfg)(to.Channel, to.To))
	return who.Name
}

// routing is where cards can go.
type routing struct {
	live   *inForce
	kinds  []kind.Kind
	paused func() map[string]string // channels that send nothing now
}

func (r routing) Admins() []approval.Route  { return r.live.Load().admins }
func (r routing) Rooms() []approval.Address { return r.live.Load().rooms }

// Spent says whether a channel can send nothing for a while: its month is used up, or its token is refused.
func (r routing) Spent(channel string) bool {
	if _, paused := r.paused()[channel]; paused {
		return true
	}
	q, known := r.live.Load().quota(channel)
	return known && q.Spent()
}

// Editable says on which channels a sent card can be changed, whether they are configured or not.
func (r routing) Editable(channel string) bool {
	for _, k := range r.kinds {
		if k.Name == channel {
			_, ok := k.Type.(channels.Editor)
			return ok
		}
	}
	return false
}

// QuietUntil is by the hours of whose address it is; a room has none.
func (r routing) QuietUntil(a approval.Address, at time.Time) time.Time {
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

// chatReaders is who is answered in a chat.
type chatReaders struct {
	directory
	now    func() time.Time
	status func(to approval.Actor) []string
}

func (r chatReaders) Say(to approval.Actor, p phrases.Phrase, args ...any) string {
	return say(to, reader(to, r.now(), r.live), p, args...)
}
func (r chatReaders) NameOf(a approval.Address) string     { return r.nameOf(a) }
func (r chatReaders) RouteOf(person string) approval.Route { return r.live.Load().people[person] }
func (r chatReaders) Agents() []string {
	who := r.anonymous()
	names := []string{who.TCP, who.Socket}
	for _, a := range r.live.Load().cfg.Agents() {
		names = append(names, a.Name)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !r.HasAgent(name) })
	slices.Sort(names)
	return slices.Compact(names)
}
func (r chatReaders) Status(to approval.Actor) []string { return r.status(to) }

// requestLists is what waits, for the channels that show it.
type requestLists struct{ *approval.Gate }

func (l requestLists) Requests(ctx context.Context, q approval.RequestQuery) ([]approval.Request, error) {
	return lists.ListRequests(ctx, l.Gate, q)
}

// upkeep is the work that the heartbeat starts.
type upkeep struct {
	*approval.Gate
	*outbox.Outbox
	signIn *signin.Service
	pruner *retention.Pruner
	copies *backups
	live   *inForce
}

// Prune removes what has been kept long enough.
func (u upkeep) Prune(ctx context.Context) (int, error) {
	r, err := u.pruner.Prune(ctx, u.live.Load().cfg.Keep)
	return r.All(), err
}

// Backup copies the store if that is due.
func (u upkeep) Backup(ctx context.Context) error { return u.copies.run(ctx) }

// kept is for how long the record is kept, by the configuration in force.
func (l *inForce) kept() history.Kept {
	keep := l.Load().cfg.Keep
	return history.Kept{Requests: keep.Requests, Args: keep.Args, Pushes: keep.Notifications,
		Audit: keep.Audit}
}

// Forget drops what is not needed any more, of the gate and of who is signed in.
func (u upkeep) Forget(ctx context.Context) (int, error) {
	n, err := u.Gate.Forget(ctx)
	ended, endErr := u.signIn.Forget(ctx)
	return n + ended, errors.Join(err, endErr)
}
