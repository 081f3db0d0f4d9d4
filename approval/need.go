package approval

import (
	"reflect"
	"slices"
	"time"
)

// Need is who must say yes before a request is approved. The zero Need is one stage of one person, any approver.
type Need struct {
	// Stages are met in order: the first that falls short is open. None: one person, any approver.
	Stages []Stage `json:"stages,omitempty"`
	// SeparateDuties: who owns the agent does not count.
	SeparateDuties bool `json:"separate_duties,omitempty"`
	// Escalate adds people to the open stage as time passes. It never lowers a count.
	Escalate []Escalation `json:"escalate,omitempty"`
	// Confirm: an approval is asked for once more.
	Confirm bool `json:"confirm,omitempty"`
	// StepUp: an approval takes a passkey, used for this very request ([Proof]). A vote without one does not count.
	StepUp bool `json:"step_up,omitempty"`
}

// Stage is one step of a need: that many different people out of some.
type Stage struct {
	Group string `json:"group,omitempty"` // people of this group; "" with no Approvers: any approver
	// Approvers are people and groups by name, in place of Group.
	Approvers []string `json:"approvers,omitempty"`
	Count     int      `json:"count"` // at least 1
}

// Escalation adds people, some time after the request was made.
type Escalation struct {
	After time.Duration `json:"after"`
	To    []string      `json:"to"` // people and groups by name
}

// anyApprover is the one stage of a need that names none.
var anyApprover = []Stage{{Count: 1}}

// InStages returns the need's stages, the one of a need that names none included.
func (n *Need) InStages() []Stage {
	if n == nil || len(n.Stages) == 0 {
		return anyApprover
	}
	return n.Stages
}

// IsZero reports whether the need is one person, any approver, asked once.
func (n *Need) IsZero() bool {
	return n == nil || len(n.Stages) == 0 && !n.SeparateDuties && len(n.Escalate) == 0 && !n.Confirm && !n.StepUp
}

// Total is how many votes the need takes.
func (n *Need) Total() int {
	total := 0
	for _, s := range n.InStages() {
		total += s.Count
	}
	return total
}

// names are who may vote in a stage; nil: any approver.
func (s Stage) names() []string {
	if s.Group != "" {
		return []string{s.Group}
	}
	return s.Approvers
}

// Names reports whether the stage's people, escalation aside, are those of others.
func (s Stage) sameAs(o Stage) bool {
	a, b := slices.Sorted(slices.Values(s.names())), slices.Sorted(slices.Values(o.names()))
	return slices.Equal(a, b)
}

// belongs reports whether a person is one of those names: by their own name or one of their groups.
func belongs(who Actor, names []string) bool {
	return slices.Contains(names, who.Name) || slices.ContainsFunc(who.Groups, func(g string) bool {
		return slices.Contains(names, g)
	})
}

// Admits reports whether a stage's people, escalation aside, include somebody.
func (s Stage) Admits(who Actor) bool {
	names := s.names()
	return len(names) == 0 || belongs(who, names)
}

// Vote is one person's word on a request. There is one for each person and request.
type Vote struct {
	Stage   int    // from 1
	Person  string // who gave it
	For     string // for whom they stand in; "" for themselves
	Approve bool
	Reason  string
	At      time.Time
	Via     Via
	StepUp  bool // given with a passkey, for this very request
	// Confirmed: whoever gave it was told what it lets run, and said yes to that.
	Confirmed bool
}

// Voter is a vote's person as texts name them: ken, or "ken for hana".
func (v Vote) Voter() string {
	if v.For == "" {
		return v.Person
	}
	return v.Person + " for " + v.For
}

// Delegation lets one person vote for another, for a while: From is in it, Until is not.
type Delegation struct {
	ID        string // ULID
	Delegator string
	Delegate  string
	From      time.Time
	Until     time.Time
	Rule      string // only of this rule's requests; "": of all
	// RuleDigest is the rule's. Rule is what it was called: after a reload another may be called so.
	RuleDigest string
	CreatedAt  time.Time
	CreatedBy  string
	EndedAt    time.Time // when it was ended before its time
	EndedBy    string
}

// ActiveAt reports whether the delegation holds at a time.
func (d Delegation) ActiveAt(now time.Time) bool {
	return d.EndedAt.IsZero() && !now.Before(d.From) && now.Before(d.Until)
}

// Epoch is what a freeze leaves behind for one agent, or for all. A live request with a smaller id than ID was made
// before the freeze and counts as ended.
type Epoch struct {
	Agent    string // "" for all agents
	ID       string // ULID, that of the newest freeze; it never goes back
	Frozen   bool   // calls are denied until somebody lifts it
	FrozenAt time.Time
	FrozenBy string // the person's name
	Via      Via
	Reason   string
}

// ByWall returns e with its time as the machine's clock has it.
func (e Epoch) ByWall(c Clock) Epoch {
	e.FrozenAt = c.ToWall(e.FrozenAt)
	return e
}

// Stricter returns a need that is met only where n and o both are. An escalation adds people, so only those stay that
// both have. nil is the zero Need.
func (n *Need) Stricter(o *Need) *Need {
	switch {
	case n.IsZero():
		return o
	case o.IsZero() || reflect.DeepEqual(n, o):
		return n
	}
	both := &Need{SeparateDuties: n.SeparateDuties || o.SeparateDuties, Confirm: n.Confirm || o.Confirm,
		StepUp: n.StepUp || o.StepUp, Stages: merged(n.InStages(), o.InStages())}
	for _, e := range n.Escalate {
		for _, f := range o.Escalate {
			if to := common(e.To, f.To); len(to) > 0 {
				both.Escalate = append(both.Escalate, Escalation{After: max(e.After, f.After), To: to})
			}
		}
	}
	return both
}

// merged returns stages that are met only where a and b both are. Whoever votes votes once, so that stages of named
// people are as many approvers as they take votes: of a need for nothing but some approvers, only what is missing is
// asked for besides.
func merged(a, b []Stage) []Stage {
	switch {
	case asksForAny(a):
		return withAny(b, a[0].Count)
	case asksForAny(b):
		return withAny(a, b[0].Count)
	}
	all := slices.Clone(a)
	for _, s := range b {
		i := slices.IndexFunc(all, s.sameAs)
		if i < 0 {
			all = append(all, s)
			continue
		}
		// There may be several stages of the same people.
		all[i].Count += max(0, countOf(b, s)-countOf(all, s))
	}
	return all
}

// countOf is how many votes some stages take of the people of one.
func countOf(stages []Stage, of Stage) int {
	n := 0
	for _, s := range stages {
		if s.sameAs(of) {
			n += s.Count
		}
	}
	return n
}

// asksForAny reports whether stages ask for nothing but some approvers.
func asksForAny(stages []Stage) bool { return len(stages) == 1 && len(stages[0].names()) == 0 }

// withAny returns stages that take at least so many people in all.
func withAny(stages []Stage, count int) []Stage {
	all := slices.Clone(stages)
	missing := count - (&Need{Stages: all}).Total()
	if missing <= 0 {
		return all
	}
	if i := slices.IndexFunc(all, func(s Stage) bool { return len(s.names()) == 0 }); i >= 0 {
		all[i].Count += missing
		return all
	}
	return append(all, Stage{Count: missing})
}

func common(a, b []string) []string {
	var both []string
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return both
}
