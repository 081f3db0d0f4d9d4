package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// Call is one tool call that an agent wants to make.
type Call struct {
	Tool      string          `json:"tool"`           // "" with a Method: made from that
	Args      json.RawMessage `json:"args,omitempty"` // a JSON object; nil is {}
	Server    string          `json:"server,omitempty"`
	Scope     string          `json:"scope,omitempty"`
	TurnID    string          `json:"turn_id,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	Rationale string          `json:"rationale,omitempty"`
	Preview   string          `json:"preview,omitempty"`

	Method     string `json:"method,omitempty"`      // the MCP method where it is not tools/call
	ToolDigest string `json:"tool_digest,omitempty"` // SHA-256, in hex, of the tool as its server describes it
	// ListedDigest is the same with its schema's lists in the order in which the server wrote them, where that is another.
	ListedDigest string `json:"tool_digest_listed,omitempty"`
	// the caller sends the call on, and says what came of it with [Client.Report]
	Dispatch bool `json:"dispatch,omitempty"`
	Task     bool `json:"task,omitempty"` // the caller runs the call by itself once it is approved
	// the caller runs the arguments that a person approved in place of these: [Answer.Args]
	AcceptsEdits bool `json:"accepts_edits,omitempty"`
	// the agent waits for the answer before it goes on: people are told at once of a call that joins a card they have
	Waits bool `json:"waits,omitempty"`
	// what the tool's MCP server says of it, which is its word and no proof; nil: nothing
	Annotations *Annotations `json:"annotations,omitempty"`
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

// Answer is what the server says of a call.
type Answer struct {
	Kind       AnswerKind `json:"decision"`
	Message    string     `json:"message"` // for the model, word for word
	RiskLevel  string     `json:"risk_level"`
	Rule       string     `json:"rule"`
	ReasonCode string     `json:"reason_code"`
	ApprovalID string     `json:"approval_id,omitempty"`
	// GrantID is the grant that let the call through, or the standing denial that denied it.
	GrantID string `json:"grant_id,omitempty"`
	// RunID, of a call with Dispatch that a grant let through, is what [Client.Report] takes: see [Answer.ReportID].
	RunID         string `json:"run_id,omitempty"`
	ExpiresAt     Time   `json:"expires_at,omitzero"` // of a pending one
	ResolvedBy    string `json:"resolved_by,omitempty"`
	ResolveReason string `json:"resolve_reason,omitempty"`
	// Args of an approved call are the arguments that people were shown: what is to run. They differ from those that
	// were asked with only in what the rule's ignore_args names and, of a call with AcceptsEdits, in what a person
	// changed.
	Args json.RawMessage `json:"args,omitempty"`
	// Replaces, of an approved call whose arguments a person changed, is the request of those that were asked for.
	Replaces string `json:"replaces,omitempty"`
	// Note, of such a call, is what to tell the model beside the result: what was changed, and why.
	Note string `json:"note,omitempty"`

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

// Approval is a stored approval request. What has not happened is the zero value.
type Approval struct {
	ID            string          `json:"id"`
	Status        string          `json:"status"` // pending, approved, denied, expired, cancelled
	Agent         string          `json:"agent"`
	Scope         string          `json:"scope"`
	Server        string          `json:"server"`
	Tool          string          `json:"tool"`
	Method        string          `json:"method,omitempty"` // the MCP method where it is not tools/call
	Args          json.RawMessage `json:"args"`
	ArgsHash      string          `json:"args_hash"`
	RiskLevel     string          `json:"risk_level"`
	Rule          string          `json:"rule"`
	ReasonCode    string          `json:"reason_code"`
	Summary       string          `json:"summary"` // what will happen, in a sentence; "" from gates that say none
	HumanMessage  string          `json:"human_message"`
	Rationale     string          `json:"rationale"`
	Preview       string          `json:"preview"`
	PreviewFrom   string          `json:"preview_from,omitempty"` // the tool whose answer the gate compared with; "": the agent's word
	TurnID        string          `json:"turn_id"`
	SessionID     string          `json:"session_id"`
	RequestedAt   Time            `json:"requested_at"`
	ExpiresAt     Time            `json:"expires_at"`
	ResolvedAt    Time            `json:"resolved_at"`
	ResolvedBy    string          `json:"resolved_by"`
	ResolvedVia   string          `json:"resolved_via"`
	ResolveReason string          `json:"resolve_reason"`
	UseBy         Time            `json:"use_by"`
	ConsumedAt    Time            `json:"consumed_at"`
	LapsedAt      Time            `json:"lapsed_at"`
	Task          bool            `json:"task"`          // the asker runs the call by itself once it is approved
	DispatchedAt  Time            `json:"dispatched_at"` // when it was let through to whoever sends it on
	RunResult     RunResult       `json:"outcome"`       // what came of it, "" while nobody has said
	Inputs        []Input         `json:"inputs"`        // what its server was told after the approval
	Previous      *Use            `json:"previous"`      // the last use of the same call within 24 hours before
	Votes         []Vote          `json:"votes"`         // what people said, in order
	Needs         []Stage         `json:"needs"`         // who must say yes, stage by stage
	StepUp        string          `json:"step_up"`       // "passkey": it is approved only on its page, with one
	Replaces      string          `json:"replaces"`      // the request in place of whose args a person approved these
	ReplacedBy    string          `json:"replaced_by"`   // the request with the args that a person approved instead
	PolicyDigest  string          `json:"policy_digest"` // of the policy that judged it last
	BatchID       string          `json:"batch_id"`      // shared by the requests that people get on one card
	Before        *Said           `json:"before"`        // what a person last said of the same tool, within 24 hours before
	Message       string          `json:"message"`       // how it ended, for the model; "" while pending
	Version       string          `json:"version"`       // of the state that this is, for [Seen]

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Vote is what one person said of a request.
type Vote struct {
	Stage    int     `json:"stage"` // from 1
	Person   string  `json:"person"`
	For      string  `json:"for"` // for whom they stand in; "" for themselves
	Decision Verdict `json:"decision"`
	Reason   string  `json:"reason"`
	At       Time    `json:"at"`
	Via      string  `json:"via"`
	StepUp   string  `json:"step_up"` // "passkey": given with one, used for this very request
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
	Group     string   `json:"group,omitempty"`
	Approvers []string `json:"approvers,omitempty"` // people and groups
	Count     int      `json:"count"`
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
	Digest string `json:"digest"`
	Text   string `json:"text"` // as written and as understood, without secrets
}

// Stats is how often people were asked, and what they said: of requests made from Since until before Until. Where
// Next is not zero, that is only the newest part of the time that was asked for: it begins at WindowSince, and the same
// query from there until Next has the part before. The figures of all parts add up, but for the times to a decision.
type Stats struct {
	Since       Time `json:"since"`
	Until       Time `json:"until"`
	Next        Time `json:"next"`
	WindowSince Time `json:"window_since,omitzero"`

	Total    Figures   `json:"total"`
	ByTool   []Figures `json:"by_tool"` // the most asked first, as all of these
	ByRule   []Figures `json:"by_rule"`
	ByAgent  []Figures `json:"by_agent"`
	ByPerson []Figures `json:"by_person"` // Asked is how many requests they decided
}

// Figures count what became of calls that needed a person.
type Figures struct {
	Name            string  `json:"name"`
	Asked           int     `json:"asked"`
	Approved        int     `json:"approved"`
	Denied          int     `json:"denied"`
	Expired         int     `json:"expired"`
	Cancelled       int     `json:"cancelled"`
	Pending         int     `json:"pending"`
	Granted         int     `json:"granted"`     // calls that a grant let through: nobody was asked
	Quarantined     int     `json:"quarantined"` // asked and granted
	Pushes          int     `json:"pushes"`
	PushesPer100    float64 `json:"pushes_per_100"` // for 100 quarantined calls
	Decisions       int     `json:"decisions"`      // presses
	DecisionsPer100 float64 `json:"decisions_per_100"`
	DecideP50       int64   `json:"decide_p50_ms"` // how long half of what people decided took at most
	DecideP90       int64   `json:"decide_p90_ms"`
}

// StatsQuery selects what [Client.Stats] is about; the zero value is the last 30 days of all agents.
type StatsQuery struct {
	Since, Until time.Time
	Agent        string
	Whole        bool // all of it, however long that takes
}

// Freeze says that an agent, or all, may run nothing.
type Freeze struct {
	Agent    string `json:"agent"`  // "" for all
	Frozen   bool   `json:"frozen"` // false once it was lifted
	FrozenAt Time   `json:"frozen_at"`
	FrozenBy string `json:"frozen_by"`
	Via      string `json:"via"`
	Reason   string `json:"reason"`
}

// SignInLink signs whoever opens it first, and says yes there, in to the pages.
type SignInLink struct {
	ID        string `json:"id"` // to find it in the audit log; no secret
	URL       string `json:"url"`
	ExpiresAt Time   `json:"expires_at"`
}

// Delegation has one person vote for another, for a while: from From until before Until.
type Delegation struct {
	ID        string `json:"id"`
	For       string `json:"for"` // who is away
	To        string `json:"to"`  // who votes for them
	From      Time   `json:"from"`
	Until     Time   `json:"until"`
	Rule      string `json:"rule"`                // only requests of this rule; "": all
	RuleGone  bool   `json:"rule_gone,omitempty"` // the rule was changed or removed since: this covers nothing
	CreatedAt Time   `json:"created_at"`
	CreatedBy string `json:"created_by"`
	EndedAt   Time   `json:"ended_at"` // when it was ended before its time
	EndedBy   string `json:"ended_by"`
}

// Input is an answer that a call's server was given at the agent's side after the call was approved. No approver saw
// it. Secrets are masked, and what is long is cut.
type Input struct {
	At      Time   `json:"at"`
	Method  string `json:"method"`  // of what the server asked
	Message string `json:"message"` // the server's own words
	Answer  string `json:"answer"`  // JSON
}

// Use is an earlier approval of the same call that was let through.
type Use struct {
	ApprovalID   string    `json:"approval_id"` // or the use of a grant
	ApprovedBy   string    `json:"approved_by"`
	ApprovedAt   Time      `json:"approved_at"`
	ConsumedAt   Time      `json:"consumed_at"`
	DispatchedAt Time      `json:"dispatched_at"`
	RunResult    RunResult `json:"outcome"`
}

// Said is a person's last word about a tool of an agent, before the request that it comes with.
type Said struct {
	RequestID string `json:"request_id"`
	Approved  bool   `json:"approved"`
	By        string `json:"by"`
	At        Time   `json:"at"`
	Reason    string `json:"reason"`
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
	ID          string            `json:"id"`
	Decision    Verdict           `json:"decision"` // Deny: a standing denial
	Agent       string            `json:"agent"`
	Scope       string            `json:"scope"`
	Server      string            `json:"server"`
	Tool        string            `json:"tool"`
	Args        json.RawMessage   `json:"args"` // those that were decided
	ArgsHash    string            `json:"args_hash"`
	Vary        map[string]Vary   `json:"vary"`       // the args that need not be as they were
	AnyArgs     bool              `json:"any_args"`   // none of them need
	SessionID   string            `json:"session_id"` // "": calls of any session
	RequestID   string            `json:"request_id"` // that was decided
	Rule        string            `json:"rule"`
	RiskLevel   string            `json:"risk_level"`
	MadeBy      string            `json:"made_by"`
	Who         string            `json:"who"` // MadeBy, and for whom
	Via         string            `json:"via"`
	Reason      string            `json:"reason"`
	MadeAt      Time              `json:"made_at"`
	ExpiresAt   Time              `json:"expires_at"`
	Uses        int               `json:"uses"` // 0: any number
	Used        int               `json:"used"`
	Spent       map[string]string `json:"spent"`        // of args with a total: their sum so far, decimal numbers
	SuspendedAt Time              `json:"suspended_at"` // what came of its last use is not known: the next call asks
	EndedAt     Time              `json:"ended_at"`
	EndedBy     string            `json:"ended_by"`
	EndCode     string            `json:"end_code"` // why it ended: expired, used_up, revoked, …

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// Vary says how an arg may differ from the approved one: in any way, or as a number from 0 to AtMost. Total is how much
// all uses may come to.
type Vary struct {
	Any    bool   `json:"any,omitempty"`
	AtMost string `json:"at_most,omitempty"`
	Total  string `json:"total,omitempty"`
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
	ApprovalID    string `json:"approval_id"` // "" for an answer that is about no request
	Channel       string `json:"channel"`
	Recipient     string `json:"recipient"`
	Kind          string `json:"kind"`   // request, reminder, outcome, reply
	Status        string `json:"status"` // queued, retrying, sent, delivered, failed, skipped
	Attempt       int    `json:"attempt"`
	MessageID     string `json:"message_id"`
	HTTPStatus    int    `json:"http_status"` // 0: no answer yet
	Error         string `json:"error"`
	NextAttemptAt Time   `json:"next_attempt_at"`
	SentAt        Time   `json:"sent_at"`
	CreatedAt     Time   `json:"created_at"`
	UpdatedAt     Time   `json:"updated_at"`

	JSON json.RawMessage `json:"-"` // as the server sent it; marshalling writes this
}

// AuditEvent is one line of the audit log.
type AuditEvent struct {
	ID            string          `json:"id"`
	Seq           int64           `json:"seq"`
	At            Time            `json:"at"`
	EventType     string          `json:"event_type"`
	CorrelationID string          `json:"correlation_id"`
	Actor         string          `json:"actor"`
	ApprovalID    string          `json:"approval_id"`
	Agent         string          `json:"agent"`
	Tool          string          `json:"tool"`
	RiskLevel     string          `json:"risk_level"`
	Decision      string          `json:"decision"`
	Reason        string          `json:"reason"`
	Data          json.RawMessage `json:"data"`

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
	Acked       []string `json:"acked"`
	NotResolved []string `json:"not_resolved"`
	NotFound    []string `json:"not_found"`
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

// kept encodes what was remembered, or else plain.
func kept(raw json.RawMessage, plain any) ([]byte, error) {
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
func (a Answer) MarshalJSON() ([]byte, error) { return kept(a.JSON, plainAnswer(a)) }

// UnmarshalJSON decodes and keeps b.
func (a *Approval) UnmarshalJSON(b []byte) error { return keep(b, (*plainApproval)(a), &a.JSON) }

// MarshalJSON writes what the server sent.
func (a Approval) MarshalJSON() ([]byte, error) { return kept(a.JSON, plainApproval(a)) }

// UnmarshalJSON decodes and keeps b.
func (n *Notification) UnmarshalJSON(b []byte) error {
	return keep(b, (*plainNotification)(n), &n.JSON)
}

// MarshalJSON writes what the server sent.
func (n Notification) MarshalJSON() ([]byte, error) { return kept(n.JSON, plainNotification(n)) }

// UnmarshalJSON decodes and keeps b.
func (e *AuditEvent) UnmarshalJSON(b []byte) error { return keep(b, (*plainAuditEvent)(e), &e.JSON) }

// MarshalJSON writes what the server sent.
func (e AuditEvent) MarshalJSON() ([]byte, error) { return kept(e.JSON, plainAuditEvent(e)) }

// UnmarshalJSON decodes and keeps b.
func (d *Decided) UnmarshalJSON(b []byte) error { return keep(b, (*plainDecided)(d), &d.JSON) }

// MarshalJSON writes what the server sent.
func (d Decided) MarshalJSON() ([]byte, error) { return kept(d.JSON, plainDecided(d)) }

// UnmarshalJSON decodes and keeps b.
func (g *Grant) UnmarshalJSON(b []byte) error { return keep(b, (*plainGrant)(g), &g.JSON) }

// MarshalJSON writes what the server sent.
func (g Grant) MarshalJSON() ([]byte, error) { return kept(g.JSON, plainGrant(g)) }

// UnmarshalJSON decodes and keeps b.
func (l *Lifted) UnmarshalJSON(b []byte) error { return keep(b, (*plainLifted)(l), &l.JSON) }

// MarshalJSON writes what the server sent.
func (l Lifted) MarshalJSON() ([]byte, error) { return kept(l.JSON, plainLifted(l)) }

// Quota is how many messages a channel has sent this month, of how many.
type Quota struct {
	Channel string    `json:"channel"`
	Used    int       `json:"used"`
	Limit   *int      `json:"limit"` // nil: there is none
	At      time.Time `json:"at"`    // when the platform said so
}

// Beat is the last run of one of the heartbeat's entries.
type Beat struct {
	Entry  string      `json:"entry"`
	At     *time.Time  `json:"at"`               // nil: it has not run since the program's start
	Result string      `json:"result,omitempty"` // ok, or failed: the log says why
	Counts *BeatCounts `json:"counts,omitempty"`
}

// BeatCounts are what a run moved, and how many requests waited after it.
type BeatCounts struct {
	Pending    int `json:"pending"`
	Expired    int `json:"expired"`
	ReNotified int `json:"re_notified"` // requests that people were reminded of
	Retried    int `json:"retried"`     // failed notifications that got one more try
	Unknown    int `json:"unknown"`     // calls that nobody reported back on
}
