package approval

import (
	"time"

	"countersign/approval/need"
)

// Need is who must say yes before a request is approved.
type Need = need.Need

// Stage is one step of a need.
type Stage = need.Stage

// Escalation adds people to a need, some time after the request was made.
type Escalation = need.Escalation

// belongs reports whether a person is one of those names: by their own name or one of their groups.
func belongs(who Actor, names []string) bool { return need.Belongs(who.Name, who.Groups, names) }

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
