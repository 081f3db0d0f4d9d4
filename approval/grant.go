package approval

import (
	"time"

	"countersign/approval/args/vary"
)

// GrantTerms say for what an approval may be given for longer: for exactly its args where nothing varies.
type GrantTerms = vary.Terms

// Vary says how one arg may differ from the approved one.
type Vary = vary.Arg

// GrantWish is for how long an approval, or a denial, is to answer the same call again.
type GrantWish struct {
	For     time.Duration // 0: as long as a grant may last, which is [MaxGrant]
	Uses    int           // 0: any number
	Session bool          // for the session of its request alone
}

// MaxGrant is how long a grant lasts at most.
const MaxGrant = 24 * time.Hour

// Grant answers the calls that it covers without asking a person: it lets them through or, as a standing denial, denies
// them.
type Grant struct {
	ID   string // ULID
	Deny bool

	Agent, Scope, Server, Tool string
	Method                     string // as in [Call]
	Args                       []byte // canonical, those of its request
	ArgsHash                   string
	IgnoredArgs                []string
	Terms                      GrantTerms
	Spent                      map[string]string // of args with a total: their sum so far
	Session                    string            // "": of any session

	RequestID  string
	Rule       string
	RuleDigest string
	Risk       Risk
	ToolDigest string
	ToolSeen   bool

	By        string // who made it
	For       string // for whom they stood in; "" for themselves
	Who       string // who made it and for whom, where By alone would not say it
	Via       Via
	Reason    string
	MadeAt    time.Time
	ExpiresAt time.Time
	Uses      int // 0: any number
	Used      int

	Unknown     int       // of how many uses it is not known what came of them
	SuspendedAt time.Time // since when that is so: the next call asks
	EndedAt     time.Time
	EndedBy     string
	EndCode     string // why: "expired", "used_up", "revoked", "lifted", "replaced", or what ended it besides
}

// ByWall returns gr with its times as the machine's clock has them.
func (gr Grant) ByWall(c Clock) Grant {
	for _, t := range []*time.Time{&gr.MadeAt, &gr.ExpiresAt, &gr.SuspendedAt, &gr.EndedAt} {
		*t = c.ToWall(*t)
	}
	return gr
}

// GrantUse is one call that a [Grant] let through.
type GrantUse struct {
	ID            string // ULID; under it is reported what came of the call
	GrantID       string
	ArgsHash      string
	Session       string
	CorrelationID string
	At            time.Time
	DispatchedAt  time.Time // set where whoever asked sends the call on itself
	Runner        string    // who that is: see [Call.Runner]
	RunResult     RunResult
}

// GrantQuery selects grants, newest first. Empty fields do not select.
type GrantQuery struct {
	Agent     string
	RequestID string // what was made with the decision of one request
	All       bool   // ended ones too
	After     string
	Limit     int
	Bytes     int // stop after the row with which their sizes are this much; 0: no limit
}

// Size is about how many bytes the grant takes in a list.
func (gr Grant) Size() int { return len(gr.Args) + len(gr.Reason) + smallRow }
