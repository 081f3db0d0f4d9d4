// Package auth knows who is who: every agent and person by their credentials, as the configuration in force has them.
//
// A bearer token belongs to one agent or person, and a platform's user id to one person. What is known is replaced
// whole. A handler that waits or streams for a caller holds on to who that is ([Directory.Hold]): a change after which
// they are not that any more ends it.
package auth

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"countersign/approval"
	"countersign/internal/secret"
)

// Person is a configured person.
type Person struct {
	Name     string
	Approver bool
	Admin    bool
	Groups   []string
	// Addresses are the user ids of platforms by the name of the channel: who writes from there is this person.
	Addresses map[string]string
	Token     secret.Value
	Locale    string
	Zone      *time.Location // nil: UTC
	Quiet     QuietHours     // in that zone
}

// AgentIdentity is a configured agent.
type AgentIdentity struct {
	Name  string
	Token secret.Value
	Owner string // the person whose agent it is; "": no person's
}

// Directory knows every agent and person by their credentials. Its content is replaced whole, and it
// is safe for concurrent use. The zero Directory knows no agent and no person.
type Directory struct {
	now  atomic.Pointer[directory]
	held holdings
}

type directory struct {
	// by digest, so that a look-up takes no time that depends on a secret's prefix
	tokens map[[sha256.Size]byte]approval.Actor
	proofs map[string][sha256.Size]byte // the same digests by the names of their tokens
	chat   map[approval.Address]approval.Actor
	names  map[string]approval.Actor // people
	agents map[string]string         // with their owners
	people []Person
}

// NewDirectory returns a directory of these agents and people.
func NewDirectory(agents []AgentIdentity, people []Person) *Directory {
	d := new(Directory)
	d.Replace(agents, people)
	return d
}

// Replace makes the directory know these agents and people and no others.
func (d *Directory) Replace(agents []AgentIdentity, people []Person) {
	n := &directory{tokens: map[[sha256.Size]byte]approval.Actor{}, chat: map[approval.Address]approval.Actor{},
		names: map[string]approval.Actor{}, agents: map[string]string{}, people: slices.Clone(people)}
	for _, a := range agents {
		n.agents[a.Name] = a.Owner
		if a.Token != "" {
			n.tokens[sha256.Sum256([]byte(a.Token.Reveal()))] = approval.Actor{Kind: approval.Agent, Name: a.Name}
		}
	}
	for _, p := range people {
		who := approval.Actor{Kind: approval.Human, Name: p.Name, Approver: p.Approver, Admin: p.Admin, Groups: p.Groups,
			Locale: p.Locale, Zone: p.Zone}
		n.names[p.Name] = who
		if p.Token != "" {
			n.tokens[sha256.Sum256([]byte(p.Token.Reveal()))] = who
		}
		for channel, id := range p.Addresses {
			n.chat[approval.Address{Channel: channel, To: id}] = who
		}
	}
	n.proofs = make(map[string][sha256.Size]byte, len(n.tokens))
	for digest := range n.tokens {
		n.proofs[nameOf(digest)] = digest
	}
	d.now.Store(n)
	d.Recheck()
}

// ByToken returns whose bearer token it is.
func (d *Directory) ByToken(token string) (approval.Actor, bool) {
	n := d.now.Load()
	if n == nil || token == "" {
		return approval.Actor{}, false
	}
	a, ok := n.tokens[sha256.Sum256([]byte(token))]
	return a, ok
}

// ByChat returns which person a platform's user id belongs to.
func (d *Directory) ByChat(channel, userID string) (approval.Actor, bool) {
	n := d.now.Load()
	if n == nil || userID == "" {
		return approval.Actor{}, false
	}
	a, ok := n.chat[approval.Address{Channel: channel, To: userID}]
	return a, ok
}

// HasAgent reports whether an agent of this name is configured.
func (d *Directory) HasAgent(name string) bool {
	n := d.now.Load()
	if n == nil {
		return false
	}
	_, ok := n.agents[name]
	return ok
}

// Owner returns who owns an agent, "" for no person.
func (d *Directory) Owner(agent string) string {
	n := d.now.Load()
	if n == nil {
		return ""
	}
	return n.agents[agent]
}

// Actors returns the configured people as actors, by name.
func (d *Directory) Actors() []approval.Actor {
	n := d.now.Load()
	if n == nil {
		return nil
	}
	actors := make([]approval.Actor, 0, len(n.people))
	for _, p := range n.people {
		actors = append(actors, n.names[p.Name])
	}
	return actors
}

// ByName returns a configured person as they are now.
func (d *Directory) ByName(name string) (approval.Actor, bool) {
	n := d.now.Load()
	if n == nil {
		return approval.Actor{}, false
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

// Agents returns the configured agents by name, without their tokens.
func (d *Directory) Agents() []AgentIdentity {
	n := d.now.Load()
	if n == nil {
		return nil
	}
	agents := make([]AgentIdentity, 0, len(n.agents))
	for name, owner := range n.agents {
		agents = append(agents, AgentIdentity{Name: name, Owner: owner})
	}
	slices.SortFunc(agents, func(a, b AgentIdentity) int { return strings.Compare(a.Name, b.Name) })
	return agents
}
