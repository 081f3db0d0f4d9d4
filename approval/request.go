package approval

import (
	"cmp"
	"time"

	"github.com/oklog/ulid/v2"

	"countersign/approval/summary"
)

// Status is how a request stands.
type Status string

const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Denied    Status = "denied"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Via says over which way a request was resolved: the name of a channel, or one of these.
type Via string

const (
	ViaWeb      Via = "web"
	ViaAPI      Via = "api"
	ViaCLI      Via = "cli"
	ViaTerminal Via = "terminal"
	ViaSystem   Via = "system"
)

// Key is what makes two calls the same call.
type Key struct {
	Agent, Scope, Server, Tool, ArgsHash, Method string
}

// Request is the stored approval request of a quarantined call. Times are UTC and truncated to
// milliseconds; the zero time means "not yet".
type Request struct {
	ID     string // ULID
	Agent  string
	Scope  string
	Server string
	Tool   string
	Method string // as in [Call]

	Args        []byte // canonical JSON, whole; null once they were removed
	ArgsHash    string // over Args less IgnoredArgs
	IgnoredArgs []string

	Risk          Risk
	Rule          string
	RuleDigest    string // of its rule by the policy that judged it last, as in [Verdict]
	ReasonCode    string
	HumanMessage  string
	RequireReason bool
	// Sentences are what its rule said of it to people, filled in as it was asked; nil: nothing beside HumanMessage.
	Sentences *summary.Sentences

	TurnID    string
	SessionID string // of the call that created it; request_sessions has the others that asked
	Rationale string
	Preview   string
	// PreviewFrom is the tool that the gate has read with to make Preview, just before people were asked; "": Preview is
	// the agent's word.
	PreviewFrom string

	Status        Status
	RequestedAt   time.Time
	ExpiresAt     time.Time
	ResolvedAt    time.Time
	ResolvedBy    string // a person's name, "agent:NAME", "system:timeout", "system:policy", "line:U…", "slack:T…/U…"
	ResolvedVia   Via
	ResolveReason string
	ResolvedSeq   int64
	UseBy         time.Time
	ConsumedAt    time.Time
	LapsedAt      time.Time
	AckedAt       time.Time

	ToolDigest   string // of the tool as it was described when it was asked for; "" where nobody looked
	ToolSeen     bool   // the gate's own gateway saw the tool, and sends the call itself; else its agent said so
	Task         bool   // the gate's side runs the call once it is approved
	DispatchedAt time.Time
	Runner       string    // who sent it on, or of a task is to: see [Call.Runner]
	RunResult    RunResult // what came of the dispatched call, "" while nobody has said
	Returned     int       // how often it was given back, since the call that had used it did not run

	ArgsRemovedAt time.Time // of a request that is over
	ArgsBytes     int       // how long Args were, once they were removed

	// Need is who must say yes, nil: any one approver. Stage is the one that is open, from 0; it counts only while the
	// request is pending.
	Need  *Need
	Stage int
	// Votes are those that were given, in order: they are read where there is a Need, or a name in Who.
	Votes []Vote
	// Who is {who} in texts where ResolvedBy alone would not say it: all who approved, and for whom.
	Who string
	// EndCode is why it ended, where that is none of the usual: [EndFrozen], [EndEdited].
	EndCode    string
	ReplacedBy string // of an edited request: the one of the new args
	Replaces   string // of that one: the edited request
	Policy     string // digest of the policy that judged it last
	// CorrelationID is that of the call that made it.
	CorrelationID string
	ExtendedAt    time.Time // when somebody gave it one hour more

	BatchID string // the Card that it stands on, "" for none
	// Before is what was last said of the same tool to the same agent, within a day before it was asked; nil: nothing.
	Before *Said
	// Annotations are what the tool's server said of it as the call came in.
	Annotations *Annotations
	// Inputs are what the call's server was told after the approval.
	Inputs   []Input
	Previous *Use // the last use of the same key within 24 h before this request was made
}

// Size is about how many bytes the request takes in a list.
func (r Request) Size() int {
	return len(r.Args) + len(r.Rationale) + len(r.Preview) + len(r.HumanMessage) + len(r.ResolveReason) +
		r.Sentences.Size() + smallRow
}

// smallRow is what a row takes beside what may be large.
const smallRow = 512

// Head is a request without what may be large: Args, Rationale, Preview and what is stored behind them, ToolDigest,
// ToolSeen, Task, DispatchedAt, Runner, RunResult and Method (so that it has no Key), are not read, nor is what
// [Tx.NeedOf] reads. It is what a step needs that ends or counts requests.
type Head struct {
	Request
	Wide int // how many bytes Args, Rationale and Preview take: storing the row again costs as much
}

// Use tells of an approval that was let through.
type Use struct {
	RequestID  string    `json:"request_id"`
	ApprovedBy string    `json:"approved_by"`
	ApprovedAt time.Time `json:"approved_at"`
	ConsumedAt time.Time `json:"consumed_at"`
	// DispatchedAt is set where the gate's own side sent the call on, RunResult once it is known what came of it.
	DispatchedAt time.Time `json:"dispatched_at,omitzero"`
	RunResult    RunResult `json:"outcome,omitempty"`
}

// Said is a person's last word about a tool of an agent.
type Said struct {
	RequestID string    `json:"request_id"`
	Approved  bool      `json:"approved"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
	Reason    string    `json:"reason,omitempty"`
	Args      []byte    `json:"-"` // of that request; read only where the card is made
}

// RunResult is what came of a call that was sent on.
type RunResult string

const (
	RunSucceeded RunResult = "succeeded"
	RunFailed    RunResult = "failed"
	// RunUnknown is a call that was sent and whose answer never came: it may have run.
	RunUnknown RunResult = "unknown"
)

// Key returns the key that the request is deduplicated by.
func (r Request) Key() Key { return Key{r.Agent, r.Scope, r.Server, r.Tool, r.ArgsHash, r.Method} }

// Target names the tool as people write it: tool, or server/tool.
func (r Request) Target() string { return target(r.Server, r.Tool) }

// Live reports whether the request still stands in the way of another one of its key: pending, or
// approved and neither consumed nor lapsed.
func (r Request) Live() bool {
	return r.Status == Pending || r.Status == Approved && r.ConsumedAt.IsZero() && r.LapsedAt.IsZero()
}

// Due reports whether the request must be ended at now: pending with its deadline come, or an unused
// approval past its use_by. At now = deadline it is due.
func (r Request) Due(now time.Time) bool {
	d := r.Deadline()
	return !d.IsZero() && !now.Before(d)
}

// Deadline returns when time alone will end the request, the zero time if it never will.
func (r Request) Deadline() time.Time {
	switch {
	case r.Status == Pending:
		return r.ExpiresAt
	case r.Live():
		return r.UseBy
	}
	return time.Time{}
}

// Resolution ends a request, or takes an approval back.
type Resolution struct {
	ID     string
	Status Status // Approved, Denied, Expired or Cancelled
	At     time.Time
	By     string
	Via    Via
	Reason string
	UseBy  time.Time // for Approved
	Who    string    // Request.Who
	Code   string    // Request.EndCode
	// ReplacedBy is the request of the new args, for [EndEdited].
	ReplacedBy string
}

// Why a request ended that a person did not simply decide.
const (
	EndFrozen = "frozen" // cancelled: somebody froze the agent, or all
	EndEdited = "edited" // denied: other args were approved instead
	// EndRestored: cancelled, since a backup was restored in which it was not over yet, and it may have been used since.
	EndRestored = "restored"
	// EndClock: cancelled, since an admin said that the machine's clock is right after it had been set.
	EndClock = "clock_accepted"
)

// WhoEnded names in a text who ended the request.
func (r Request) WhoEnded() string { return cmp.Or(r.Who, r.ResolvedBy) }

// Recent is what is kept of a key's past for a day: the denial that still answers the same call, and
// the last use.
type Recent struct {
	DeniedID string // "" when the newest ended request was not a denial
	DeniedAt time.Time
	Use      *Use
}

// ParseID returns an id that somebody wrote in the one form that rows have.
func ParseID(s string) (string, bool) {
	id, err := ulid.ParseStrict(s)
	if err != nil {
		return "", false
	}
	return id.String(), true
}
