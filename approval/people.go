package approval

import (
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"time"

	"countersign/secret"
)

// ActorKind tells the kinds of principal apart.
type ActorKind int

const (
	Nobody   ActorKind = iota // the zero Actor may do nothing
	Agent                     // can never decide
	Human                     // a configured person
	Stranger                  // a chat user who is mapped to no person
	System
)

// Actor is who does something.
type Actor struct {
	Kind     ActorKind
	Name     string // an agent's or person's name; a stranger's "line:U…" or "slack:T…/U…"; what of the system
	Approver bool
	Admin    bool
	Locale   string
	Zone     *time.Location // nil: UTC
}

// String is the actor's name as it is stored and shown: hana, agent:NAME, system:timeout, line:U….
func (a Actor) String() string {
	switch a.Kind {
	case Agent:
		return "agent:" + a.Name
	case System:
		return "system:" + a.Name
	}
	return a.Name
}

// Person is a configured person.
type Person struct {
	Name     string
	Approver bool
	Admin    bool
	Line     string       // LINE user id
	Slack    string       // Slack user id
	Webhook  secret.Value // address that requests are posted to
	Token    secret.Value
	Locale   string
	Zone     *time.Location // nil: UTC
}

// AgentIdentity is a configured agent.
type AgentIdentity struct {
	Name  string
	Token secret.Value
}

// Directory knows every agent and person by their credentials. Its content is replaced whole, and it
// is safe for concurrent use. The zero Directory knows nobody.
type Directory struct {
	now  atomic.Pointer[directory]
	held holdings
}

type directory struct {
	tokens map[[sha256.Size]byte]Actor // by digest, so that a look-up takes no time that depends on a secret's prefix
	chat   map[Address]Actor
	names  map[string]Actor // people
	agents map[string]bool
	people []Person
}

// NewDirectory returns a directory of these agents and people.
func NewDirectory(agents []AgentIdentity, people []Person) *Directory {
	d := new(Directory)
	d.Replace(agents, people)
	return d
}

// Replace makes the directory know these agents and people and nobody else.
func (d *Directory) Replace(agents []AgentIdentity, people []Person) {
	n := &directory{tokens: map[[sha256.Size]byte]Actor{}, chat: map[Address]Actor{}, names: map[string]Actor{}, agents: map[string]bool{}, people: slices.Clone(people)}
	for _, a := range agents {
		n.agents[a.Name] = true
		if a.Token != "" {
			n.tokens[sha256.Sum256([]byte(a.Token.Reveal()))] = Actor{Kind: Agent, Name: a.Name}
		}
	}
	for _, p := range people {
		who := Actor{Kind: Human, Name: p.Name, Approver: p.Approver, Admin: p.Admin, Locale: p.Locale, Zone: p.Zone}
		n.names[p.Name] = who
		if p.Token != "" {
			n.tokens[sha256.Sum256([]byte(p.Token.Reveal()))] = who
		}
		if p.Line != "" {
			n.chat[Address{"line", p.Line}] = who
		}
		if p.Slack != "" {
			n.chat[Address{"slack", p.Slack}] = who
		}
	}
	d.now.Store(n)
	d.Recheck()
}

// ByToken returns whose bearer token it is.
func (d *Directory) ByToken(token string) (Actor, bool) {
	n := d.now.Load()
	if n == nil || token == "" {
		return Actor{}, false
	}
	a, ok := n.tokens[sha256.Sum256([]byte(token))]
	return a, ok
}

// ByChat returns which person a platform's user id belongs to.
func (d *Directory) ByChat(channel, userID string) (Actor, bool) {
	n := d.now.Load()
	if n == nil || userID == "" {
		return Actor{}, false
	}
	a, ok := n.chat[Address{channel, userID}]
	return a, ok
}

// HasAgent reports whether an agent of this name is configured.
func (d *Directory) HasAgent(name string) bool {
	n := d.now.Load()
	return n != nil && n.agents[name]
}

// ByName returns a configured person as they are now.
func (d *Directory) ByName(name string) (Actor, bool) {
	n := d.now.Load()
	if n == nil {
		return Actor{}, false
	}
	a, ok := n.names[name]
	return a, ok
}

// People returns the configured people.
func (d *Directory) People() []Person {
	n := d.now.Load()
	if n == nil {
		return nil
	}
	return slices.Clone(n.people)
}
