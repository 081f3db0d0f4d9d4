package approval

import (
	"cmp"
	"errors"
	"slices"
)

// Scope is what a write transaction is about: the rows that it writes, or reads in order to decide, are those of one
// agent, of one person, or of the whole store. A store that runs several writers at once has the transactions of one
// scope wait for each other, and those of the whole store for all; one with a single writer need not look at it.
//
// In any scope may be written what holds by its own statement, whoever writes beside it: an audit event is a row of its
// own; an inbound event's first sight has a unique key; of an address the latest time stands; the text of a policy is
// known by its digest; of a notification that is about no request only the status and the attempt that were read are
// replaced; what [Memory.Prune] deletes decides nothing any more.
//
// In any scope may be read what only the whole store's transactions change, which are freezes and what the gate's own
// gateway has pinned, and delegations: a vote that counted one is as a vote given before that ended. What else a
// transaction reads beyond its scope it reads through [Tx.Glance], and where it finds that it must write there,
// [NeedWholeStore].
type Scope struct {
	kind    ScopeKind
	name    string
	call    Key    // of an agent's: which call it is about, the zero Key for any
	request string // the id of a request of that call, "" for none
}

// ScopeKind is what sort of thing a scope is of.
type ScopeKind uint8

// The kinds of scopes.
const (
	ScopeWhole ScopeKind = iota // the zero Scope is the widest one
	ScopeNothing
	ScopeAgent
	ScopeID
	ScopeNotification
	ScopePerson
)

// WholeStore is the scope of what concerns several agents, or all.
func WholeStore() Scope { return Scope{} }

// OfNothing is the scope of what may be written in any.
func OfNothing() Scope { return Scope{kind: ScopeNothing} }

// OfAgent is the scope of all that is an agent's: its requests and their votes, cards, notifications, grants, pins, and
// what is kept of its calls; for "" of all agents, which is the whole store's.
func OfAgent(name string) Scope {
	if name == "" {
		return WholeStore()
	}
	return Scope{kind: ScopeAgent, name: name}
}

// OfCall is [OfAgent] for the agent of a call, and says beside that it is this call that is to be answered: a store may
// read what is kept of it with the lock.
func OfCall(k Key) Scope { return Scope{kind: ScopeAgent, name: k.Agent, call: k} }

// OfCallFor is [OfCall] where a request of the agent's is what the call is answered by.
func OfCallFor(k Key, request string) Scope {
	return Scope{kind: ScopeAgent, name: k.Agent, call: k, request: request}
}

// OfAgents is the scope of one agent where several names are that one's, and else that of the whole store.
func OfAgents(names ...string) Scope {
	names = slices.Compact(slices.Clone(names))
	if len(names) == 1 {
		return OfAgent(names[0])
	}
	return WholeStore()
}

// OfID is the scope of the agent whose is what has an id: a request, a card, a grant, or a use of one; of an id that is
// none of these it holds no row. An id says for ever whose it is, so that may be looked up before the transaction.
func OfID(id string) Scope { return Scope{kind: ScopeID, name: id} }

// OfNotification is the scope of the agent whose request a notification is about, by the notification's id.
func OfNotification(id string) Scope { return Scope{kind: ScopeNotification, name: id} }

// OfPerson is the scope of what is a person's: sessions, links, passkeys, delegations.
func OfPerson(name string) Scope { return Scope{kind: ScopePerson, name: name} }

// IsWhole reports whether it is the scope of the whole store.
func (s Scope) IsWhole() bool { return s.kind == ScopeWhole }

func (s Scope) String() string {
	return [...]string{"of the whole store", "of nothing", "of the agent ", "of the id ", "of the notification ",
		"of the person "}[s.kind] + s.name
}

// Of returns what a scope is of, and by what name: the agent's, the person's, or the id.
func (s Scope) Of() (ScopeKind, string) { return s.kind, s.name }

// Call returns the call that a scope is about, the zero Key where it is not about one alone.
func (s Scope) Call() Key { return s.call }

// Request returns the id of the request that a call is to be answered by, "" for none in particular.
func (s Scope) Request() string { return s.request }

// Person returns whose rows a scope holds, "" for no person's alone.
func (s Scope) Person() string {
	if s.kind == ScopePerson {
		return s.name
	}
	return ""
}

// Agent returns the agent whose rows a scope holds, "" for no agent's alone.
func (s Scope) Agent(tx Tx) (string, error) {
	switch s.kind {
	case ScopeAgent:
		return s.name, nil
	case ScopeNotification:
		n, err := tx.Waiting(s.name)
		if err != nil || n.ApprovalID == "" {
			return "", unlessNone(err)
		}
		h, err := tx.Head(n.ApprovalID)
		return h.Agent, err
	case ScopeID:
		for _, agentOf := range []func(Tx, string) (string, error){agentOfRequest, agentOfCard, agentOfGrant} {
			if agent, err := agentOf(tx, s.name); !errors.Is(err, ErrNotFound) {
				return agent, err
			}
		}
	}
	return "", nil
}

func unlessNone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func agentOfRequest(tx Tx, id string) (string, error) {
	h, err := tx.Head(id)
	return h.Agent, err
}

// agentOfCard knows the batches that were made before there were cards, too.
func agentOfCard(tx Tx, id string) (string, error) {
	c, err := tx.Card(id)
	if !errors.Is(err, ErrNotFound) {
		return c.Agent, err
	}
	hs, listing := tx.BatchHeads(id)
	if listing != nil || len(hs) == 0 {
		return "", cmp.Or(listing, err)
	}
	return hs[0].Agent, nil
}

// agentOfGrant is for the id of a grant, or of a use of one.
func agentOfGrant(tx Tx, id string) (string, error) {
	u, err := tx.GrantUse(id)
	if unlessNone(err) != nil {
		return "", err
	}
	gr, err := tx.Grant(cmp.Or(u.GrantID, id))
	return gr.Agent, err
}

// errNarrow is returned by a function that must write beyond its scope, and makes the store run it again.
var errNarrow = errors.New("approval: the transaction is about more than its scope")

// IsNarrow reports whether a function has found that it is about the whole store: see [Store].
func IsNarrow(err error) bool { return errors.Is(err, errNarrow) }

// NeedWholeStore returns nil in a transaction about the whole store. Where it returns an error, the transaction's
// function returns that too, and is run again about the whole store.
func NeedWholeStore(tx Tx) error {
	if tx.Scope().IsWhole() {
		return nil
	}
	return errNarrow
}
