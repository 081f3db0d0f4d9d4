package approval

import "time"

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
	Groups   []string // that a person is in
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
