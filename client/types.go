package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// Call is one tool call that an agent wants to make. With a Method, a Tool of "" is made from that. A caller that sets
// Dispatch says with [Client.Report] what came of it, and one that sets AcceptsEdits runs [Answer.Args].
type Call struct {
	Tool         string          `json:"tool" required:"true" pattern:"^[A-Za-z0-9_.:-]{1,128}$"`
	Args         json.RawMessage `json:"args,omitempty" nullable:"false" description:"Absent is {}. At most 64 levels deep, without repeated keys."`
	Server       string          `json:"server,omitempty" nullable:"true" pattern:"^[A-Za-z0-9_.:-]{1,128}$"`
	Scope        string          `json:"scope,omitempty" nullable:"true" description:"At most 1024 bytes."`
	TurnID       string          `json:"turn_id,omitempty" nullable:"true" description:"At most 256 bytes."`
	SessionID    string          `json:"session_id,omitempty" nullable:"true" description:"At most 256 bytes."`
	Rationale    string          `json:"rationale,omitempty" nullable:"true" description:"At most 16 KiB."`
	Preview      string          `json:"preview,omitempty" nullable:"true" description:"At most 256 KiB."`
	Method       string          `json:"method,omitempty" nullable:"true" pattern:"^[a-z][A-Za-z/_]{0,63}$" description:"The MCP method where it is not tools/call, such as resources/read; tool is then the method with colons for slashes."`
	ToolDigest   string          `json:"tool_digest,omitempty" nullable:"true" pattern:"^[0-9a-f]{64}$" description:"SHA-256, in hex, of the tool as its server describes it; after a change people are asked about the call. It is the calling agent's claim, and binds no other agent."`
	ListedDigest string          `json:"tool_digest_listed,omitempty" nullable:"true" pattern:"^[0-9a-f]{64}$" description:"The same of the tool with its schema's lists in the order in which the server wrote them, where that is another. Tools that were remembered by it are known by it."`
	Dispatch     bool            `json:"dispatch,omitempty" nullable:"true" description:"The caller sends the call and reports its outcome."`
	Task         bool            `json:"task,omitempty" nullable:"true" description:"The caller runs the call by itself once it is approved."`
	AcceptsEdits bool            `json:"accepts_edits,omitempty" nullable:"true" description:"The caller runs the arguments that a person approved instead of these."`
	Waits        bool            `json:"waits,omitempty" nullable:"true" description:"The agent waits for the answer before it goes on. People are then told at once of a call that joins a card they already have."`
	Annotations  *Annotations    `json:"annotations,omitempty" description:"What the tool's MCP server says about it: a claim, not a proof."`
}

// Annotations are the hints of an MCP server about a tool, nil where it says nothing.
type Annotations struct {
	ReadOnly    *bool `json:"readOnly,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	OpenWorld   *bool `json:"openWorld,omitempty"`
}

// whole fills in the tool of a call of another method.
func (c Call) whole() Call {
	if c.Tool == "" && c.Method != "" {
		c.Tool = strings.ReplaceAll(c.Method, "/", ":")
	}
	return c
}

// RunResult is what came of a call that was sent on.
type RunResult string

const (
	RunSucceeded RunResult = "succeeded"
	RunFailed    RunResult = "failed"
	RunUnknown   RunResult = "unknown" // it was sent and no answer came: it may have run
)

// AnswerKind is what an agent is told of a call.
type AnswerKind string

const (
	AnswerAllow     AnswerKind = "allow"    // by policy, or by a grant: run it
	AnswerApproved  AnswerKind = "approved" // by a person: run it, once
	AnswerDenied    AnswerKind = "denied"
	AnswerPending   AnswerKind = "pending"
	AnswerExpired   AnswerKind = "expired"
	AnswerCancelled AnswerKind = "cancelled"
	AnswerLapsed    AnswerKind = "lapsed"
)

// What the server sends is told here once: it fills in these structs too, and writes them by their tags, what is
// nullable as null where it is zero. Its OpenAPI document is made from them.

// Answer is what the server says of a call. [Answer.ReportID] is what [Client.Report] takes.
type Answer struct {
	Kind          AnswerKind      `json:"decision" enum:"allow,approved,denied,pending,expired,cancelled,lapsed" description:"Only allow and approved mean that the call may run, now and once."`
	ApprovalID    string          `json:"approval_id,omitempty" description:"If there is a request."`
	GrantID       string          `json:"grant_id,omitempty" description:"The grant that let the call through (reason_code granted), or the standing denial that denied it."`
	RunID         string          `json:"run_id,omitempty" description:"If a grant let a call with dispatch through: the id to report its outcome under, instead of a request's id."`
	ExpiresAt     Time            `json:"expires_at,omitzero" description:"If pending: the deadline."`
	Message       string          `json:"message" description:"For the model, word for word."`
	RiskLevel     string          `json:"risk_level" enum:"low,medium,high,critical"`
	Rule          string          `json:"rule"`
	ReasonCode    string          `json:"reason_code"`
	EndCode       string          `json:"end_code,omitempty" description:"If present, edited or frozen: a person did so, and no rule gave the reason_code, which is the same."`
	ResolvedBy    string          `json:"resolved_by,omitempty"`
	ResolveReason string          `json:"resolve_reason,omitempty"`
	Args          json.RawMessage `json:"args,omitzero" description:"If approved: the arguments that people were shown. Run these. They differ from this call's only in what the rule ignores or, if the call accepts edits, in what a person changed; then replaces is set."`
	Replaces      string          `json:"replaces,omitempty" description:"If a person changed the arguments and approved them: the request with the arguments that were asked for."`
	Note          string          `json:"note,omitempty" description:"If a person changed the arguments and approved them: what to tell the model beside the result."`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// MayRun reports whether the call may be run, now and once.
func (a Answer) MayRun() bool { return a.Kind == AnswerAllow || a.Kind == AnswerApproved }

// ReportID is what [Client.Report] takes of a call with Dispatch that may run: the request of one that was approved,
// the use of one that a grant let through; "" where the policy alone allowed it, of which nothing is to be reported.
func (a Answer) ReportID() string {
	switch a.Kind {
	case AnswerApproved:
		return a.ApprovalID
	case AnswerAllow:
		return a.RunID
	}
	return ""
}

// Approval is a stored approval request. What has not happened is the zero value. Version is for [Seen].
type Approval struct {
	ID            string          `json:"id" description:"ULID." pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	Status        string          `json:"status" enum:"pending,approved,denied,expired,cancelled"`
	Agent         string          `json:"agent"`
	Scope         string          `json:"scope" description:"A working directory, tenant or the like; part of what makes two calls the same."`
	Server        string          `json:"server" description:"The MCP server that has the tool; empty for an agent's own."`
	Tool          string          `json:"tool"`
	Method        string          `json:"method,omitempty" description:"If present, the call is not a tool's but one of this MCP method."`
	Args          json.RawMessage `json:"args" nullable:"true" description:"The canonical args, whole and unmasked: what was hashed and what will run. null: they were removed."`
	ArgsRemovedAt Time            `json:"args_removed_at,omitzero" description:"If present, the args of a request that is over were removed then, with what was made of them."`
	ArgsBytes     int             `json:"args_bytes,omitempty" description:"If present, how long they were."`
	ArgsHash      string          `json:"args_hash" description:"SHA-256, in hex, of the canonical args less those that the rule ignores." pattern:"^[0-9a-f]{64}$"`
	RiskLevel     string          `json:"risk_level" enum:"low,medium,high,critical"`
	Rule          string          `json:"rule" description:"The rule that decided; empty when none matched."`
	ReasonCode    string          `json:"reason_code"`
	EndCode       string          `json:"end_code,omitempty" description:"If present, edited, frozen, restored or clock_accepted: it ended so, and no rule gave the reason_code, which is the same."`
	Summary       string          `json:"summary" description:"What will happen, in one sentence: the rule's, or else one made from the tool and its args, with secrets masked."`
	HumanMessage  string          `json:"human_message" description:"Why a person is asked."`
	Rationale     string          `json:"rationale" description:"Written by the agent, not verified."`
	Preview       string          `json:"preview" description:"The effect as the agent describes it, not verified."`
	PreviewFrom   string          `json:"preview_from,omitempty" description:"If present, the gate made the preview, from what this tool of the call's server returned just before people were asked."`
	TurnID        string          `json:"turn_id"`
	SessionID     string          `json:"session_id"`
	RequestedAt   Time            `json:"requested_at"`
	ExpiresAt     Time            `json:"expires_at"`
	ResolvedAt    Time            `json:"resolved_at" nullable:"true"`
	ResolvedBy    string          `json:"resolved_by" nullable:"true" description:"A person's name, agent:NAME, system:timeout, system:policy, or a chat user."`
	ResolvedVia   string          `json:"resolved_via" nullable:"true" enum:"[\"line\",\"slack\",\"web\",\"api\",\"cli\",\"terminal\",\"system\",null]"`
	ResolveReason string          `json:"resolve_reason" nullable:"true"`
	UseBy         Time            `json:"use_by" nullable:"true" description:"When an unused approval lapses."`
	ConsumedAt    Time            `json:"consumed_at" nullable:"true" description:"When the approved call was let through."`
	LapsedAt      Time            `json:"lapsed_at" nullable:"true"`
	Task          bool            `json:"task" description:"The gate's side runs the call by itself once it is approved."`
	DispatchedAt  Time            `json:"dispatched_at" nullable:"true" description:"When the call was let through to whoever sends it and reports its outcome."`
	RunResult     RunResult       `json:"outcome" nullable:"true" enum:"[\"succeeded\",\"failed\",\"unknown\",null]" description:"What came of the dispatched call; unknown: it may have run."`
	Inputs        []Input         `json:"inputs,omitempty" description:"What the agent's side told the call's server after the approval; no approver saw it. Absent: nothing."`
	Previous      *Use            `json:"previous" description:"The last use of an approval of the same call, within the 24 hours before this request."`
	Votes         []Vote          `json:"votes" nullable:"false" description:"People's votes, in order; an agent sees them once the request has ended. If one person decided alone, that decision."`
	Needs         []Stage         `json:"needs" nullable:"false" description:"Who must say yes: the stages, met in order."`
	StepUp        string          `json:"step_up" nullable:"true" enum:"[\"passkey\",null]" description:"passkey: it is approved only on its page, with a passkey."`
	Replaces      string          `json:"replaces" nullable:"true" description:"The request whose args a person replaced with these."`
	ReplacedBy    string          `json:"replaced_by" nullable:"true" description:"If it ended as edited: the request with the args that a person approved instead."`
	PolicyDigest  string          `json:"policy_digest" nullable:"true" description:"The digest of the policy that judged it last; /v1/policies/{digest} has its text."`
	BatchID       string          `json:"batch_id" nullable:"true" description:"Shared by the requests that people get on one card."`
	Before        *Said           `json:"before" description:"What a person last said of this tool to this agent, within the 24 hours before this request."`
	Message       string          `json:"message" nullable:"true" description:"How it ended, as the agent's model is told; null while pending."`
	Version       string          `json:"version" description:"The version of the request as it stands; a decision can name the version that was seen."`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Vote is what one person said of a request.
type Vote struct {
	Stage    int     `json:"stage" minimum:"1" description:"Which of the needs it is for, from 1."`
	Person   string  `json:"person"`
	For      string  `json:"for" nullable:"true" description:"The person for whom they stand in."`
	Decision Verdict `json:"decision" enum:"approve,deny"`
	Reason   string  `json:"reason" nullable:"true"`
	At       Time    `json:"at"`
	Via      string  `json:"via"`
	StepUp   string  `json:"step_up" nullable:"true" enum:"[\"passkey\",null]" description:"passkey: it was given with one, used for this very request."`
}

// Voter names whose vote it is: ken, or "ken for hana".
func (v Vote) Voter() string {
	if v.For == "" {
		return v.Person
	}
	return v.Person + " for " + v.For
}

// Who names who ended the request, and for whom: all who approved it, as in "hana and ken for mei", or who denied it.
// For any other end, and for one without votes, it is ResolvedBy.
func (a Approval) Who() string {
	want := map[string]Verdict{"approved": Approve, "denied": Deny}[a.Status]
	var all []string
	for _, v := range a.Votes {
		if v.Decision == want {
			all = append(all, v.Voter())
		}
	}
	switch last := len(all) - 1; last {
	case -1:
		return a.ResolvedBy
	case 0:
		return all[0]
	default:
		return strings.Join(all[:last], ", ") + " and " + all[last]
	}
}

// Stage is one step of who must say yes: that many different people out of some. With neither Group nor Approvers
// any approver will do.
type Stage struct {
	Group     string   `json:"group,omitempty" description:"People of this group."`
	Approvers []string `json:"approvers,omitempty" description:"In place of group: people and groups by name. Neither: any approver."`
	Count     int      `json:"count" minimum:"1" description:"How many different people."`
}

// Progress says how many approvals a request has, of how many it takes.
func Progress(votes []Vote, needs []Stage) (have, need int) {
	in := make([]int, len(needs)+1)
	for _, v := range votes {
		if v.Decision == Approve && v.Stage > 0 && v.Stage < len(in) {
			in[v.Stage]++
		}
	}
	for i, s := range needs {
		have, need = have+min(in[i+1], s.Count), need+s.Count
	}
	return have, max(need, 1)
}

// ShortID is the end of an id, which is enough where a person types it.
func ShortID(id string) string { return id[max(0, len(id)-6):] }

// Policy is a policy that was in force.
type Policy struct {
	Digest string `json:"digest" description:"The policy's digest, which is the policy_digest of what it judged." pattern:"^[0-9a-f]{64}$"`
	Text   string `json:"text" description:"As it was written and as it was understood, without secrets."`
}

// Stats is how often people were asked, and what they said: of requests made from Since until before Until. Where
// Next is not zero, that is only the newest part of the time that was asked for: it begins at WindowSince, and the same
// query from there until Next has the part before. The figures of all parts add up, but for the times to a decision.
type Stats struct {
	Since       Time `json:"since" description:"At or after. If next is not null, this is later than the since that was asked for: only the newest part was counted."`
	Until       Time `json:"until" description:"Before."`
	Next        Time `json:"next" nullable:"true" description:"The until of the part before this one; null if all of the time was counted."`
	WindowSince Time `json:"window_since,omitzero" description:"The since of the part before this one: when the time that was asked for begins. Absent if next is null."`
	// KnownSince is not zero where some of what the figures count was removed, and CallsKnownSince where calls were, or
	// their args, within the time that was asked for: all is there from then on.
	KnownSince      Time `json:"known_since,omitzero" description:"If present, older requests or messages were removed: the figures are complete only from then on."`
	CallsKnownSince Time `json:"calls_known_since,omitzero" description:"If present, older requests or their arguments were removed: what suggest and replay read is complete only from then on."`

	Total    Figures   `json:"total"`
	ByTool   []Figures `json:"by_tool" nullable:"false"`
	ByRule   []Figures `json:"by_rule" nullable:"false" description:"By name; empty: no rule matched. A rule without a name is called by its place and the start of its digest, as rule 3 (9f2c1a)."`
	ByAgent  []Figures `json:"by_agent" nullable:"false"`
	ByPerson []Figures `json:"by_person" nullable:"false" description:"asked: how many requests they decided; pushes: what went to their addresses."`
}

// Figures count what became of calls that needed a person.
type Figures struct {
	Name            string  `json:"name" description:"Empty for the total."`
	Asked           int     `json:"asked" description:"Requests that were made."`
	Approved        int     `json:"approved"`
	Denied          int     `json:"denied"`
	Expired         int     `json:"expired"`
	Cancelled       int     `json:"cancelled"`
	Pending         int     `json:"pending"`
	Granted         int     `json:"granted" description:"Calls that a grant let through: nobody was asked."`
	Quarantined     int     `json:"quarantined" description:"Calls that needed a person: asked and granted."`
	Pushes          int     `json:"pushes" description:"Cards and reminders that went out, each to one address."`
	PushesPer100    float64 `json:"pushes_per_100" description:"Per 100 calls that needed a person."`
	Decisions       int     `json:"decisions" description:"Presses. One that decides a whole card counts once; each vote counts once."`
	DecisionsPer100 float64 `json:"decisions_per_100" description:"Per 100 calls that needed a person."`
	DecideP50       int64   `json:"decide_p50_ms" description:"The median time to a decision in milliseconds, to three digits."`
	DecideP90       int64   `json:"decide_p90_ms" description:"Nine of ten decisions took at most so many milliseconds."`
}

// StatsQuery selects what [Client.Stats] is about; the zero value is the last 30 days of all agents.
type StatsQuery struct {
	Since, Until time.Time
	Agent        string
	Whole        bool // all of it, however long that takes
}

// Freeze says that an agent, or all, may run nothing.
type Freeze struct {
	Agent    string `json:"agent" nullable:"true" description:"null: all agents."`
	Frozen   bool   `json:"frozen" description:"Calls are denied until somebody lifts it."`
	FrozenAt Time   `json:"frozen_at"`
	FrozenBy string `json:"frozen_by"`
	Via      string `json:"via"`
	Reason   string `json:"reason"`
}

// SignInLink signs the person who opens it first, and says yes there, in to the pages.
type SignInLink struct {
	ID        string `json:"id" description:"Its id in the audit log."`
	URL       string `json:"url"`
	ExpiresAt Time   `json:"expires_at"`
}

// Delegation has one person vote for another, for a while: from From until before Until.
type Delegation struct {
	ID        string `json:"id"`
	For       string `json:"for" description:"Who is away."`
	To        string `json:"to" description:"Who votes for them."`
	From      Time   `json:"from"`
	Until     Time   `json:"until" description:"When it ends; exclusive."`
	Rule      string `json:"rule" nullable:"true" description:"Only requests of this rule, as it is called now; null: all."`
	RuleGone  bool   `json:"rule_gone,omitempty" description:"That rule was changed or removed since: the delegation covers nothing."`
	CreatedAt Time   `json:"created_at"`
	CreatedBy string `json:"created_by"`
	EndedAt   Time   `json:"ended_at" nullable:"true" description:"When it was ended before its time."`
	EndedBy   string `json:"ended_by" nullable:"true"`
}

// Input is an answer that a call's server was given at the agent's side after the call was approved. No approver saw
// it. Secrets are masked, and what is long is cut.
type Input struct {
	At      Time   `json:"at"`
	Method  string `json:"method" description:"What the server asked for."`
	Message string `json:"message" description:"The server's message; empty if it sent none."`
	Answer  string `json:"answer" description:"JSON; secrets are masked, and what is long is cut."`
}

// Use is an earlier approval of the same call that was let through.
type Use struct {
	ApprovalID   string    `json:"approval_id" description:"If a grant let the call through: its run_id instead of a request's id."`
	ApprovedBy   string    `json:"approved_by"`
	ApprovedAt   Time      `json:"approved_at"`
	ConsumedAt   Time      `json:"consumed_at"`
	DispatchedAt Time      `json:"dispatched_at" nullable:"true"`
	RunResult    RunResult `json:"outcome" nullable:"true" enum:"[\"succeeded\",\"failed\",\"unknown\",null]"`
}

// Said is a person's last word about a tool of an agent, before the request that it comes with.
type Said struct {
	RequestID string `json:"request_id"`
	Approved  bool   `json:"approved"`
	By        string `json:"by"`
	At        Time   `json:"at"`
	Reason    string `json:"reason" nullable:"true"`
}

// Target names the tool as people write it: tool, or server/tool.
func (a Approval) Target() string { return target(a.Server, a.Tool) }

func target(server, tool string) string {
	if server == "" {
		return tool
	}
	return server + "/" + tool
}

// Grant is a decision that answers the calls that it covers without asking a person: it lets them through or, as a
// standing denial, denies them. What has not happened is the zero value.
type Grant struct {
	ID          string            `json:"id" description:"ULID." pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
	Decision    Verdict           `json:"decision" enum:"approve,deny" description:"deny: a standing denial."`
	Agent       string            `json:"agent"`
	Scope       string            `json:"scope"`
	Server      string            `json:"server" description:"The MCP server that has the tool; empty for an agent's own."`
	Tool        string            `json:"tool"`
	Args        json.RawMessage   `json:"args" nullable:"false" description:"The canonical args that were decided, whole and unmasked."`
	ArgsHash    string            `json:"args_hash" description:"As in an Approval. If nothing varies, only a call with this hash is covered." pattern:"^[0-9a-f]{64}$"`
	Vary        map[string]Vary   `json:"vary" nullable:"false" description:"The args, by name, that may differ from the approved ones."`
	AnyArgs     bool              `json:"any_args" description:"A call with any args is covered."`
	SessionID   string            `json:"session_id" nullable:"true" description:"Only calls of this session; null: of any."`
	RequestID   string            `json:"request_id" description:"The request that was decided."`
	Rule        string            `json:"rule"`
	RiskLevel   string            `json:"risk_level" enum:"low,medium,high,critical"`
	MadeBy      string            `json:"made_by"`
	Who         string            `json:"who" description:"made_by, with the person they stood in for, if any: ken for hana."`
	Via         string            `json:"via"`
	Reason      string            `json:"reason" nullable:"true"`
	MadeAt      Time              `json:"made_at"`
	ExpiresAt   Time              `json:"expires_at"`
	Uses        int               `json:"uses" nullable:"true" description:"How many calls it lets through; null: any number."`
	Used        int               `json:"used" minimum:"0"`
	Spent       map[string]string `json:"spent" nullable:"false" description:"Of args with a total, by name: their sum so far, a decimal number."`
	SuspendedAt Time              `json:"suspended_at" nullable:"true" description:"The outcome of its last use is unknown, so a person is asked about the next call."`
	EndedAt     Time              `json:"ended_at" nullable:"true"`
	EndedBy     string            `json:"ended_by" nullable:"true"`
	EndCode     string            `json:"end_code" nullable:"true" description:"expired, used_up, revoked, policy_changed, tool_changed, maker_changed, frozen or lifted."`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Vary says how an arg may differ from the approved one: in any way, or as a number from 0 to AtMost. Total is how much
// all uses may come to.
type Vary struct {
	Any    bool   `json:"any,omitzero"`
	AtMost string `json:"at_most,omitempty" description:"A number from 0 to this."`
	Total  string `json:"total,omitempty" description:"The most that all uses may add up to."`
}

// Target names the tool as people write it: tool, or server/tool.
func (g Grant) Target() string { return target(g.Server, g.Tool) }

// Lifted says which denial was forgotten: that of a request, or a standing one.
type Lifted struct {
	ID string `json:"id"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Notification is one push of a card to one recipient.
type Notification struct {
	ID            string `json:"id"`
	ApprovalID    string `json:"approval_id" nullable:"true" description:"null for an answer that is about no request; the first of a batch."`
	Channel       string `json:"channel"`
	Recipient     string `json:"recipient"`
	Kind          string `json:"kind" enum:"request,reminder,outcome,reply"`
	Status        string `json:"status" enum:"queued,retrying,sent,delivered,failed,skipped"`
	Attempt       int    `json:"attempt" minimum:"0" description:"Sends begun."`
	MessageID     string `json:"message_id" nullable:"true"`
	HTTPStatus    int    `json:"http_status" nullable:"true"`
	Error         string `json:"error" nullable:"true" description:"A stable reason, then what the platform said."`
	NextAttemptAt Time   `json:"next_attempt_at" nullable:"true"`
	SentAt        Time   `json:"sent_at" nullable:"true"`
	CreatedAt     Time   `json:"created_at"`
	UpdatedAt     Time   `json:"updated_at"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// AuditEvent is one line of the audit log.
type AuditEvent struct {
	ID            string          `json:"id"`
	Seq           int64           `json:"seq" minimum:"1" description:"Given out in commit order."`
	At            Time            `json:"at"`
	EventType     string          `json:"event_type"`
	CorrelationID string          `json:"correlation_id" nullable:"true"`
	Actor         string          `json:"actor" nullable:"true"`
	ApprovalID    string          `json:"approval_id" nullable:"true"`
	Agent         string          `json:"agent" nullable:"true"`
	Tool          string          `json:"tool" nullable:"true" description:"server/tool where there is a server."`
	RiskLevel     string          `json:"risk_level" nullable:"true"`
	Decision      string          `json:"decision" nullable:"true"`
	Reason        string          `json:"reason" nullable:"true"`
	Data          json.RawMessage `json:"data" nullable:"true"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Decided is what a decision came to. A vote that is not the last leaves the request pending: Votes and Needs say how
// far it is.
type Decided struct {
	ID         string `json:"id"`
	Status     string `json:"status"` // approved, denied or pending
	ApprovedBy string `json:"approved_by,omitempty"`
	ApprovedAt Time   `json:"approved_at,omitzero"`
	DeniedBy   string `json:"denied_by,omitempty"`
	DeniedAt   Time   `json:"denied_at,omitzero"`
	Reason     string `json:"reason"`
	// Votes and Needs are of a pending one.
	Votes []Vote  `json:"votes,omitempty"`
	Needs []Stage `json:"needs,omitempty"`
	// Replaces, where other arguments were approved, is the request of those that were asked for; ID is the new one's.
	Replaces string `json:"replaces,omitempty"`
	// Grant is what [GrantFor] made.
	Grant *Grant `json:"grant,omitempty"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// DecideResult is what became of one of several requests that were decided together.
type DecideResult struct {
	Decided        // its ID is as it was sent where Err is there
	Err     *Error // why it was refused; nil: it was decided
}

// UnmarshalJSON decodes a result.
func (d *DecideResult) UnmarshalJSON(b []byte) error {
	var refused struct {
		Error *struct {
			problem
			Status int `json:"status"`
		} `json:"error"`
	}
	if err := json.Unmarshal(b, &refused); err != nil {
		return err
	}
	if e := refused.Error; e != nil {
		d.Err = &Error{Status: e.Status, Code: e.Code, Title: e.Title, Detail: e.Detail, Approval: e.Approval}
	}
	return d.Decided.UnmarshalJSON(b)
}

// Acked tells what [Client.Ack] did with each id.
type Acked struct {
	Acked       []string `json:"acked" nullable:"false"`
	NotResolved []string `json:"not_resolved" nullable:"false" description:"Still pending."`
	NotFound    []string `json:"not_found" nullable:"false"`
}

// Time is a point in time that is null in JSON when it has not come.
type Time struct{ time.Time }

const timeFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the 24 characters that the server writes, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.UTC().Format(`"` + timeFormat + `"`)), nil
}

// UnmarshalJSON reads an RFC 3339 time; null is the zero time.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		t.Time = time.Time{}
		return nil
	}
	return t.Time.UnmarshalJSON(b)
}

// The types of answers keep what the server sent, so that a program that prints them as JSON loses
// nothing that a newer server says.

// keep decodes b into plain and remembers it.
func keep(b []byte, plain any, raw *json.RawMessage) error {
	if err := json.Unmarshal(b, plain); err != nil {
		return err
	}
	*raw = bytes.Clone(b)
	return nil
}

// encodeKept encodes what was remembered, or else plain.
func encodeKept(raw json.RawMessage, plain any) ([]byte, error) {
	if raw != nil {
		return raw, nil
	}
	return json.Marshal(plain)
}

type (
	plainAnswer       Answer
	plainApproval     Approval
	plainNotification Notification
	plainAuditEvent   AuditEvent
	plainDecided      Decided
	plainGrant        Grant
	plainLifted       Lifted
)

// UnmarshalJSON decodes and keeps b.
func (a *Answer) UnmarshalJSON(b []byte) error { return keep(b, (*plainAnswer)(a), &a.JSON) }

// MarshalJSON writes what the server sent.
func (a Answer) MarshalJSON() ([]byte, error) { return encodeKept(a.JSON, plainAnswer(a)) }

// UnmarshalJSON decodes and keeps b.
func (a *Approval) UnmarshalJSON(b []byte) error { return keep(b, (*plainApproval)(a), &a.JSON) }

// MarshalJSON writes what the server sent.
func (a Approval) MarshalJSON() ([]byte, error) { return encodeKept(a.JSON, plainApproval(a)) }

// UnmarshalJSON decodes and keeps b.
func (n *Notification) UnmarshalJSON(b []byte) error {
	return keep(b, (*plainNotification)(n), &n.JSON)
}

// MarshalJSON writes what the server sent.
func (n Notification) MarshalJSON() ([]byte, error) { return encodeKept(n.JSON, plainNotification(n)) }

// UnmarshalJSON decodes and keeps b.
func (e *AuditEvent) UnmarshalJSON(b []byte) error { return keep(b, (*plainAuditEvent)(e), &e.JSON) }

// MarshalJSON writes what the server sent.
func (e AuditEvent) MarshalJSON() ([]byte, error) { return encodeKept(e.JSON, plainAuditEvent(e)) }

// UnmarshalJSON decodes and keeps b.
func (d *Decided) UnmarshalJSON(b []byte) error { return keep(b, (*plainDecided)(d), &d.JSON) }

// MarshalJSON writes what the server sent.
func (d Decided) MarshalJSON() ([]byte, error) { return encodeKept(d.JSON, plainDecided(d)) }

// UnmarshalJSON decodes and keeps b.
func (g *Grant) UnmarshalJSON(b []byte) error { return keep(b, (*plainGrant)(g), &g.JSON) }

// MarshalJSON writes what the server sent.
func (g Grant) MarshalJSON() ([]byte, error) { return encodeKept(g.JSON, plainGrant(g)) }

// UnmarshalJSON decodes and keeps b.
func (l *Lifted) UnmarshalJSON(b []byte) error { return keep(b, (*plainLifted)(l), &l.JSON) }

// MarshalJSON writes what the server sent.
func (l Lifted) MarshalJSON() ([]byte, error) { return encodeKept(l.JSON, plainLifted(l)) }

// Quota is how many messages a channel has sent this month, of how many.
type Quota struct {
	Channel string    `json:"channel"`
	Used    int       `json:"used"`
	Limit   *int      `json:"limit" description:"null: there is none."`
	At      time.Time `json:"at" description:"When the platform said so."`
}

// Beat is the last run of one of the heartbeat's entries.
type Beat struct {
	Entry  string      `json:"entry"`
	At     *time.Time  `json:"at" description:"When it began; null: it has not run since the program's start."`
	Result string      `json:"result,omitempty" enum:"ok,failed" description:"failed: a step failed, and the log says why; the counts are those of the other steps."`
	Counts *BeatCounts `json:"counts,omitempty"`
}

// BeatCounts are what a run moved, and how many requests waited after it.
type BeatCounts struct {
	Pending    int `json:"pending" description:"Requests that waited for a person after the run."`
	Expired    int `json:"expired"`
	ReNotified int `json:"re_notified" description:"Requests that people were reminded of."`
	Retried    int `json:"retried" description:"Failed notifications that got one more try."`
	Unknown    int `json:"unknown" description:"Calls whose outcome nobody reported; it is now unknown."`
	Removed    int `json:"removed" description:"Rows that retention has removed, or emptied of what they said."`
}
