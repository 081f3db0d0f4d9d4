package app

import (
	"cmp"

	"countersign/approval"
	"countersign/chat/phrases"
	"countersign/outbox"
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

func (d directory) AtKeyboard(agent string) (approval.Actor, bool) {
	name := d.live.Load().cfg.AgentKeyboard(agent)
	if name == "" {
		return approval.Actor{}, false
	}
	return d.Person(name)
}

// routing is where cards can go.
type routing struct{ *App }

func (r routing) Routes(approval.Request) []approval.Route { return r.live.Load().routes }
func (r routing) Admins() []approval.Route                 { return r.live.Load().admins }
func (r routing) Spent(channel string) bool                { return r.spent(channel) }
func (r routing) Editable(channel string) bool             { return r.editable(channel) }

// answered is who is answered in a chat.
type answered struct{ *App }

func (r answered) Say(to approval.Actor, p phrases.Phrase, args ...any) string {
	return say(to, p, args...)
}
func (r answered) NameOf(a approval.Address) string  { return r.nameOf(a) }
func (r answered) Status(to approval.Actor) []string { return r.status(to) }

// upkeep is the work that the heartbeat starts.
type upkeep struct {
	*approval.Gate
	*outbox.Outbox
}
