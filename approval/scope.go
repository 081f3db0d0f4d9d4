package approval

// Scope is what a write transaction is about: the rows that it writes, or reads in order to decide, are those of one
// agent, of one person, or of the whole store. A store that runs several writers at once has the transactions of one
// scope wait for each other, and those of the whole store for all; one with a single writer need not look at it.
//
// What is a row of its own, guarded by its own conditional statement or unique key, may be written in any scope: audit
// events, an inbound event's first sight, a notification's attempt.
type Scope struct {
	kind scopeKind
	name string
}

type scopeKind uint8

const (
	scopeWhole scopeKind = iota // the zero Scope is the widest one
	scopeAgent
	scopeRequest
	scopeNotification
	scopePerson
)

// WholeStore is the scope of what concerns several agents, or all.
func WholeStore() Scope { return Scope{} }

// OfAgent is the scope of all that is an agent's: its requests and their votes, cards, grants, pins, and what is kept
// of its calls.
func OfAgent(name string) Scope { return Scope{scopeAgent, name} }

// OfKey is the scope of one call's key, which is its agent's.
func OfKey(k Key) Scope { return OfAgent(k.Agent) }

// OfRequest is the scope of a request's agent, by the request's id; of an id that is no request's it holds no row.
func OfRequest(id string) Scope { return Scope{scopeRequest, id} }

// OfNotification is the scope of one notification, by its id.
func OfNotification(id string) Scope { return Scope{scopeNotification, id} }

// OfPerson is the scope of what is a person's: sessions, links, passkeys, delegations.
func OfPerson(name string) Scope { return Scope{scopePerson, name} }
